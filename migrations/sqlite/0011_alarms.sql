-- Stand-alone alarms, which programs ask for. Their wishes, triggers and history are rows like any others: in place of
-- the UID of an event stands a space and the id of the alarm. No UID begins with a space.
CREATE TABLE standalone_alarm (
    owner         TEXT    NOT NULL REFERENCES owner (id) ON DELETE CASCADE, -- Whose alarm it is.
    id            TEXT    NOT NULL, -- Its name: 32 hexadecimal digits that nobody can guess.
    kind          TEXT    NOT NULL, -- once or cron.
    channel       TEXT    NOT NULL, -- The way out.
    status        TEXT    NOT NULL, -- active, fired, failed or cancelled.
    paused        INTEGER NOT NULL, -- 1: nothing is planned until it is resumed.
    fire_at       INTEGER NOT NULL, -- The instant of its next firing; of its last one where there is no next.
    key           TEXT,             -- Its owner's own name for it, good for ever: asked for again, it is the same alarm.
    request_key   TEXT,             -- The name of the request that created it, good for a day.
    request_hash  TEXT    NOT NULL, -- What that request said: the same name with other content is refused.
    created_at    INTEGER NOT NULL, -- When it was asked for.
    updated_at    INTEGER NOT NULL, -- When this row was last written; it only rises.
    last_fired_at INTEGER,          -- When it was last handed over.
    last_error    TEXT,             -- Why it was last not handed over.
    failure_count INTEGER NOT NULL, -- How many firings have failed.
    terms         TEXT    NOT NULL, -- What else was asked for: JSON.
    payload       TEXT,             -- What its target is given back, byte for byte: JSON.
    PRIMARY KEY (owner, id),
    UNIQUE (owner, key)
) STRICT;

-- The alarms of one owner, newest first; and those in one state.
CREATE INDEX standalone_alarm_created ON standalone_alarm (owner, created_at, id);
CREATE INDEX standalone_alarm_status ON standalone_alarm (owner, status, created_at, id);
-- Requests of the last day.
CREATE INDEX standalone_alarm_request ON standalone_alarm (owner, request_key, created_at)
    WHERE request_key IS NOT NULL;

-- How many there are, so that nothing is counted when somebody asks.
CREATE TABLE alarm_count (
    owner   TEXT    NOT NULL REFERENCES owner (id) ON DELETE CASCADE, -- Whose alarms.
    channel TEXT    NOT NULL, -- Through which way out.
    about   TEXT    NOT NULL, -- alarm or firing.
    name    TEXT    NOT NULL, -- A state of alarms, or `total`; an outcome of firings, or `duration_ms` and `durations`.
    amount  INTEGER NOT NULL, -- How many; of `duration_ms`, the sum of those in `durations`.
    PRIMARY KEY (owner, channel, about, name)
) STRICT, WITHOUT ROWID;

-- When the first attempt of a trigger passed its fire-check.
ALTER TABLE alarm_trigger ADD COLUMN first_started_at INTEGER;
ALTER TABLE delivery ADD COLUMN first_started_at INTEGER;

-- The history of stand-alone alarms of one owner, newest first; and what of it failed.
CREATE INDEX delivery_standalone ON delivery (owner, recorded_at, id) WHERE substr(event_uid, 1, 1) = ' ';
CREATE INDEX delivery_standalone_failed ON delivery (owner, recorded_at, id)
    WHERE substr(event_uid, 1, 1) = ' ' AND outcome = 'failed';

-- What follows keeps alarms and counts in step with triggers and history, in whatever transaction these change: history
-- is written in many places, and none of them may forget it.
CREATE TRIGGER standalone_alarm_added AFTER INSERT ON standalone_alarm
BEGIN
    INSERT INTO alarm_count (owner, channel, about, name, amount)
    VALUES (NEW.owner, NEW.channel, 'alarm', 'total', 1), (NEW.owner, NEW.channel, 'alarm', NEW.status, 1)
    ON CONFLICT (owner, channel, about, name) DO UPDATE SET amount = amount + excluded.amount;
END;

CREATE TRIGGER standalone_alarm_moved AFTER UPDATE OF status, channel ON standalone_alarm
WHEN OLD.status <> NEW.status OR OLD.channel <> NEW.channel
BEGIN
    INSERT INTO alarm_count (owner, channel, about, name, amount)
    VALUES (OLD.owner, OLD.channel, 'alarm', 'total', -1), (OLD.owner, OLD.channel, 'alarm', OLD.status, -1),
           (NEW.owner, NEW.channel, 'alarm', 'total', 1), (NEW.owner, NEW.channel, 'alarm', NEW.status, 1)
    ON CONFLICT (owner, channel, about, name) DO UPDATE SET amount = amount + excluded.amount;
END;

-- A series that goes on has its next firing.
CREATE TRIGGER alarm_trigger_of_standalone_added AFTER INSERT ON alarm_trigger
WHEN substr(NEW.event_uid, 1, 1) = ' '
BEGIN
    UPDATE standalone_alarm SET
        fire_at = (SELECT min(trigger_at) FROM alarm_trigger
                   WHERE owner = NEW.owner AND event_uid = NEW.event_uid AND state <> 'sending'),
        status = CASE WHEN status = 'fired' THEN 'active' ELSE status END
    WHERE owner = NEW.owner AND id = substr(NEW.event_uid, 2) AND kind = 'cron';
END;

CREATE TRIGGER delivery_of_standalone_added AFTER INSERT ON delivery
WHEN substr(NEW.event_uid, 1, 1) = ' '
BEGIN
    INSERT INTO alarm_count (owner, channel, about, name, amount)
    VALUES (NEW.owner, NEW.channel, 'firing', NEW.outcome, NEW.count)
    ON CONFLICT (owner, channel, about, name) DO UPDATE SET amount = amount + excluded.amount;
    INSERT INTO alarm_count (owner, channel, about, name, amount)
    SELECT NEW.owner, NEW.channel, 'firing', 'durations', 1
    WHERE NEW.outcome = 'completed' AND NEW.reported_at >= NEW.first_started_at
    ON CONFLICT (owner, channel, about, name) DO UPDATE SET amount = amount + excluded.amount;
    INSERT INTO alarm_count (owner, channel, about, name, amount)
    SELECT NEW.owner, NEW.channel, 'firing', 'duration_ms', NEW.reported_at - NEW.first_started_at
    WHERE NEW.outcome = 'completed' AND NEW.reported_at >= NEW.first_started_at
    ON CONFLICT (owner, channel, about, name) DO UPDATE SET amount = amount + excluded.amount;
    UPDATE standalone_alarm SET
        status = CASE
            WHEN status = 'cancelled' OR NEW.outcome = 'cancelled' THEN status
            WHEN kind = 'once' AND fire_at <> NEW.trigger_at THEN status
            WHEN kind = 'once' AND NEW.rank >= 2 AND NEW.outcome <> 'failed' THEN 'fired'
            WHEN kind = 'once' THEN 'failed'
            WHEN NOT paused AND NOT EXISTS (
                SELECT 1 FROM alarm_trigger
                WHERE owner = NEW.owner AND event_uid = NEW.event_uid AND id <> NEW.id) THEN 'fired'
            ELSE status END,
        fire_at = CASE WHEN kind = 'once' THEN fire_at ELSE coalesce(
            (SELECT min(trigger_at) FROM alarm_trigger
             WHERE owner = NEW.owner AND event_uid = NEW.event_uid AND id <> NEW.id), fire_at) END,
        last_fired_at = CASE WHEN NEW.rank >= 2
            THEN max(coalesce(last_fired_at, 0), coalesce(NEW.handed_over_at, NEW.recorded_at)) ELSE last_fired_at END,
        last_error = CASE
            WHEN NEW.outcome = 'failed' OR (NEW.rank < 2 AND NEW.outcome <> 'cancelled') THEN NEW.outcome || ': '
                || coalesce(nullif(NEW.report, ''), nullif(NEW.detail, ''), nullif(NEW.reason, ''), 'no reason')
            ELSE last_error END,
        failure_count = failure_count + (NEW.outcome IN ('failed', 'expired')),
        updated_at = max(NEW.recorded_at, updated_at + 1)
    WHERE owner = NEW.owner AND id = substr(NEW.event_uid, 2);
END;

CREATE TRIGGER delivery_of_standalone_moved AFTER UPDATE OF outcome, reported_at, first_started_at ON delivery
WHEN substr(NEW.event_uid, 1, 1) = ' ' AND (OLD.outcome <> NEW.outcome OR OLD.count <> NEW.count
    OR OLD.reported_at IS NOT NEW.reported_at OR OLD.first_started_at IS NOT NEW.first_started_at)
BEGIN
    INSERT INTO alarm_count (owner, channel, about, name, amount)
    VALUES (OLD.owner, OLD.channel, 'firing', OLD.outcome, -OLD.count),
           (NEW.owner, NEW.channel, 'firing', NEW.outcome, NEW.count)
    ON CONFLICT (owner, channel, about, name) DO UPDATE SET amount = amount + excluded.amount;
    INSERT INTO alarm_count (owner, channel, about, name, amount)
    SELECT OLD.owner, OLD.channel, 'firing', 'durations', -1
    WHERE OLD.outcome = 'completed' AND OLD.reported_at >= OLD.first_started_at
    ON CONFLICT (owner, channel, about, name) DO UPDATE SET amount = amount + excluded.amount;
    INSERT INTO alarm_count (owner, channel, about, name, amount)
    SELECT OLD.owner, OLD.channel, 'firing', 'duration_ms', OLD.first_started_at - OLD.reported_at
    WHERE OLD.outcome = 'completed' AND OLD.reported_at >= OLD.first_started_at
    ON CONFLICT (owner, channel, about, name) DO UPDATE SET amount = amount + excluded.amount;
    INSERT INTO alarm_count (owner, channel, about, name, amount)
    SELECT NEW.owner, NEW.channel, 'firing', 'durations', 1
    WHERE NEW.outcome = 'completed' AND NEW.reported_at >= NEW.first_started_at
    ON CONFLICT (owner, channel, about, name) DO UPDATE SET amount = amount + excluded.amount;
    INSERT INTO alarm_count (owner, channel, about, name, amount)
    SELECT NEW.owner, NEW.channel, 'firing', 'duration_ms', NEW.reported_at - NEW.first_started_at
    WHERE NEW.outcome = 'completed' AND NEW.reported_at >= NEW.first_started_at
    ON CONFLICT (owner, channel, about, name) DO UPDATE SET amount = amount + excluded.amount;
    UPDATE standalone_alarm SET
        status = CASE
            WHEN kind = 'cron' OR status NOT IN ('fired', 'failed', 'active') OR NEW.outcome = 'cancelled' THEN status
            WHEN fire_at <> NEW.trigger_at THEN status
            WHEN NEW.rank >= 2 AND NEW.outcome <> 'failed' THEN 'fired'
            ELSE 'failed' END,
        last_fired_at = CASE WHEN NEW.rank >= 2
            THEN max(coalesce(last_fired_at, 0), coalesce(NEW.handed_over_at, NEW.recorded_at)) ELSE last_fired_at END,
        last_error = CASE
            WHEN NEW.outcome = 'failed' OR (NEW.rank < 2 AND NEW.outcome <> 'cancelled') THEN NEW.outcome || ': '
                || coalesce(nullif(NEW.report, ''), nullif(NEW.detail, ''), nullif(NEW.reason, ''), 'no reason')
            ELSE last_error END,
        failure_count = failure_count
            + ((NEW.outcome IN ('failed', 'expired')) - (OLD.outcome IN ('failed', 'expired'))),
        updated_at = max(NEW.recorded_at, updated_at + 1)
    WHERE owner = NEW.owner AND id = substr(NEW.event_uid, 2);
END;
