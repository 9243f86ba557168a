-- Stand-alone alarms, which programs ask for. Their wishes, triggers and history are rows like any others: in place of
-- the UID of an event stands a space and the id of the alarm. No UID begins with a space.
CREATE TABLE standalone_alarm (
    owner         TEXT COLLATE "C" NOT NULL REFERENCES owner (id) ON DELETE CASCADE, -- Whose alarm it is.
    id            TEXT COLLATE "C" NOT NULL, -- Its name: 32 hexadecimal digits that nobody can guess.
    kind          TEXT        NOT NULL, -- once or cron.
    channel       TEXT        NOT NULL, -- The way out.
    status        TEXT COLLATE "C" NOT NULL, -- active, fired, failed or cancelled.
    paused        BOOLEAN     NOT NULL, -- True: nothing is planned until it is resumed.
    fire_at       TIMESTAMPTZ NOT NULL, -- The instant of its next firing; of its last one where there is no next.
    key           TEXT COLLATE "C",     -- Its owner's own name for it, good for ever: asked for again, it is the same alarm.
    request_key   TEXT COLLATE "C",     -- The name of the request that created it, good for a day.
    request_hash  TEXT        NOT NULL, -- What that request said: the same name with other content is refused.
    created_at    TIMESTAMPTZ NOT NULL, -- When it was asked for.
    updated_at    TIMESTAMPTZ NOT NULL, -- When this row was last written; it only rises.
    last_fired_at TIMESTAMPTZ,          -- When it was last handed over.
    last_error    TEXT,                 -- Why it was last not handed over.
    failure_count BIGINT      NOT NULL, -- How many firings have failed.
    terms         TEXT        NOT NULL, -- What else was asked for: JSON.
    payload       TEXT,                 -- What its target is given back, byte for byte: JSON.
    PRIMARY KEY (owner, id),
    UNIQUE (owner, key)
);

-- The alarms of one owner, newest first; and those in one state.
CREATE INDEX standalone_alarm_created ON standalone_alarm (owner, created_at, id);
CREATE INDEX standalone_alarm_status ON standalone_alarm (owner, status, created_at, id);
-- Requests of the last day.
CREATE INDEX standalone_alarm_request ON standalone_alarm (owner, request_key, created_at)
    WHERE request_key IS NOT NULL;

-- How many there are, so that nothing is counted when somebody asks.
CREATE TABLE alarm_count (
    owner   TEXT COLLATE "C" NOT NULL REFERENCES owner (id) ON DELETE CASCADE, -- Whose alarms.
    channel TEXT COLLATE "C" NOT NULL, -- Through which way out.
    about   TEXT COLLATE "C" NOT NULL, -- alarm or firing.
    name    TEXT COLLATE "C" NOT NULL, -- A state of alarms, or `total`; an outcome of firings, or `duration_ms` and `durations`.
    amount  BIGINT NOT NULL, -- How many; of `duration_ms`, the sum of those in `durations`.
    PRIMARY KEY (owner, channel, about, name)
);

-- When the first attempt of a trigger passed its fire-check.
ALTER TABLE alarm_trigger ADD COLUMN first_started_at TIMESTAMPTZ;
ALTER TABLE delivery ADD COLUMN first_started_at TIMESTAMPTZ;

-- The history of stand-alone alarms of one owner, newest first; and what of it failed.
CREATE INDEX delivery_standalone ON delivery (owner, recorded_at, id) WHERE substr(event_uid, 1, 1) = ' ';
CREATE INDEX delivery_standalone_failed ON delivery (owner, recorded_at, id)
    WHERE substr(event_uid, 1, 1) = ' ' AND outcome = 'failed';

-- What follows keeps alarms and counts in step with triggers and history, in whatever transaction these change: history
-- is written in many places, and none of them may forget it.
CREATE FUNCTION alarm_counted(whose TEXT, through TEXT, things TEXT, named TEXT, more BIGINT) RETURNS VOID
LANGUAGE sql AS $$
    INSERT INTO alarm_count (owner, channel, about, name, amount) VALUES (whose, through, things, named, more)
    ON CONFLICT (owner, channel, about, name) DO UPDATE SET amount = alarm_count.amount + excluded.amount;
$$;

CREATE FUNCTION standalone_alarm_written() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' THEN
        IF OLD.status = NEW.status AND OLD.channel = NEW.channel THEN
            RETURN NULL;
        END IF;
        PERFORM alarm_counted(OLD.owner, OLD.channel, 'alarm', 'total', -1);
        PERFORM alarm_counted(OLD.owner, OLD.channel, 'alarm', OLD.status, -1);
    END IF;
    PERFORM alarm_counted(NEW.owner, NEW.channel, 'alarm', 'total', 1);
    PERFORM alarm_counted(NEW.owner, NEW.channel, 'alarm', NEW.status, 1);
    RETURN NULL;
END;
$$;

CREATE TRIGGER standalone_alarm_added AFTER INSERT ON standalone_alarm
    FOR EACH ROW EXECUTE FUNCTION standalone_alarm_written();
CREATE TRIGGER standalone_alarm_moved AFTER UPDATE OF status, channel ON standalone_alarm
    FOR EACH ROW EXECUTE FUNCTION standalone_alarm_written();

-- A series that goes on has its next firing.
CREATE FUNCTION standalone_alarm_planned() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    UPDATE standalone_alarm AS s SET
        fire_at = (SELECT min(t.trigger_at) FROM alarm_trigger AS t
                   WHERE t.owner = NEW.owner AND t.event_uid = NEW.event_uid AND t.state <> 'sending'),
        status = CASE WHEN s.status = 'fired' THEN 'active' ELSE s.status END
    WHERE s.owner = NEW.owner AND s.id = substr(NEW.event_uid, 2) AND s.kind = 'cron';
    RETURN NULL;
END;
$$;

CREATE TRIGGER alarm_trigger_of_standalone_added AFTER INSERT ON alarm_trigger
    FOR EACH ROW WHEN (substr(NEW.event_uid, 1, 1) = ' ') EXECUTE FUNCTION standalone_alarm_planned();

CREATE FUNCTION standalone_alarm_fired() RETURNS TRIGGER LANGUAGE plpgsql AS $$
DECLARE
    failures BIGINT := (NEW.outcome IN ('failed', 'expired'))::int;
BEGIN
    IF TG_OP = 'UPDATE' THEN
        IF OLD.outcome = NEW.outcome AND OLD.count = NEW.count
            AND OLD.reported_at IS NOT DISTINCT FROM NEW.reported_at
            AND OLD.first_started_at IS NOT DISTINCT FROM NEW.first_started_at THEN
            RETURN NULL;
        END IF;
        failures := failures - (OLD.outcome IN ('failed', 'expired'))::int;
        PERFORM alarm_counted(OLD.owner, OLD.channel, 'firing', OLD.outcome, -OLD.count);
        IF OLD.outcome = 'completed' AND OLD.reported_at >= OLD.first_started_at THEN
            PERFORM alarm_counted(OLD.owner, OLD.channel, 'firing', 'durations', -1);
            PERFORM alarm_counted(OLD.owner, OLD.channel, 'firing', 'duration_ms',
                (extract(epoch FROM OLD.first_started_at - OLD.reported_at) * 1000)::bigint);
        END IF;
    END IF;
    PERFORM alarm_counted(NEW.owner, NEW.channel, 'firing', NEW.outcome, NEW.count);
    IF NEW.outcome = 'completed' AND NEW.reported_at >= NEW.first_started_at THEN
        PERFORM alarm_counted(NEW.owner, NEW.channel, 'firing', 'durations', 1);
        PERFORM alarm_counted(NEW.owner, NEW.channel, 'firing', 'duration_ms',
            (extract(epoch FROM NEW.reported_at - NEW.first_started_at) * 1000)::bigint);
    END IF;
    UPDATE standalone_alarm AS s SET
        status = CASE
            WHEN s.status = 'cancelled' OR NEW.outcome = 'cancelled' THEN s.status
            WHEN s.kind = 'once' AND s.fire_at <> NEW.trigger_at THEN s.status
            WHEN s.kind = 'once' AND NEW.rank >= 2 AND NEW.outcome <> 'failed' THEN 'fired'
            WHEN s.kind = 'once' THEN 'failed'
            WHEN TG_OP = 'INSERT' AND NOT s.paused AND NOT EXISTS (
                SELECT 1 FROM alarm_trigger AS t
                WHERE t.owner = NEW.owner AND t.event_uid = NEW.event_uid AND t.id <> NEW.id) THEN 'fired'
            ELSE s.status END,
        fire_at = CASE WHEN s.kind = 'once' OR TG_OP = 'UPDATE' THEN s.fire_at ELSE coalesce(
            (SELECT min(t.trigger_at) FROM alarm_trigger AS t
             WHERE t.owner = NEW.owner AND t.event_uid = NEW.event_uid AND t.id <> NEW.id), s.fire_at) END,
        last_fired_at = CASE WHEN NEW.rank >= 2
            THEN greatest(s.last_fired_at, coalesce(NEW.handed_over_at, NEW.recorded_at)) ELSE s.last_fired_at END,
        last_error = CASE
            WHEN NEW.outcome = 'failed' OR (NEW.rank < 2 AND NEW.outcome <> 'cancelled') THEN NEW.outcome || ': '
                || coalesce(nullif(NEW.report, ''), nullif(NEW.detail, ''), nullif(NEW.reason, ''), 'no reason')
            ELSE s.last_error END,
        failure_count = s.failure_count + failures,
        updated_at = greatest(NEW.recorded_at, s.updated_at + interval '1 millisecond')
    WHERE s.owner = NEW.owner AND s.id = substr(NEW.event_uid, 2);
    RETURN NULL;
END;
$$;

CREATE TRIGGER delivery_of_standalone_added AFTER INSERT ON delivery
    FOR EACH ROW WHEN (substr(NEW.event_uid, 1, 1) = ' ') EXECUTE FUNCTION standalone_alarm_fired();
CREATE TRIGGER delivery_of_standalone_moved AFTER UPDATE OF outcome, reported_at, first_started_at ON delivery
    FOR EACH ROW WHEN (substr(NEW.event_uid, 1, 1) = ' ') EXECUTE FUNCTION standalone_alarm_fired();
