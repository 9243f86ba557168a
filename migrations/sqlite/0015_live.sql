-- What happens to stand-alone alarms, in the order in which it was committed, for whoever follows them; and how many of
-- their firings fail, by what is called.
CREATE TABLE alarm_feed (
    owner TEXT    NOT NULL PRIMARY KEY REFERENCES owner (id) ON DELETE CASCADE, -- Whose alarms.
    last  INTEGER NOT NULL  -- The number of the last change.
) STRICT, WITHOUT ROWID;

CREATE TABLE alarm_change (
    owner         TEXT    NOT NULL REFERENCES alarm_feed (owner) ON DELETE CASCADE, -- Whose alarm.
    number        INTEGER NOT NULL, -- Counts the changes of this owner, without a gap.
    at            INTEGER NOT NULL, -- When; of an attempt that is repeated, when it began.
    alarm_id      TEXT    NOT NULL, -- Which alarm.
    what          TEXT    NOT NULL, -- created, changed, paused, resumed, cancelled; retrying, fired or another end of a firing.
    channel       TEXT    NOT NULL, -- The way out.
    trigger_id    BLOB,             -- Which firing; none where the alarm itself was changed.
    scheduled_for INTEGER,          -- The instant that was promised.
    attempts      INTEGER,          -- How often it was tried so far.
    detail        TEXT    NOT NULL, -- What was said of it, if anything.
    PRIMARY KEY (owner, number)
) STRICT, WITHOUT ROWID;

-- What is old, for the janitor.
CREATE INDEX alarm_change_at ON alarm_change (at);

INSERT INTO alarm_feed (owner, last) SELECT DISTINCT owner, 0 FROM standalone_alarm;

-- What a firing of a stand-alone alarm calls: owner (an address or an endpoint of its owner's) or url (one of its own).
ALTER TABLE delivery ADD COLUMN target TEXT;

CREATE TABLE firing_count (
    owner   TEXT    NOT NULL REFERENCES owner (id) ON DELETE CASCADE, -- Whose alarms.
    channel TEXT    NOT NULL, -- Through which way out.
    target  TEXT    NOT NULL, -- What is called: owner or url.
    outcome TEXT    NOT NULL, -- What became of them.
    amount  INTEGER NOT NULL, -- How many firings.
    PRIMARY KEY (owner, channel, target, outcome)
) STRICT, WITHOUT ROWID;

UPDATE delivery SET target = (
    SELECT CASE WHEN instr(s.terms, '"target":"') > 0 THEN 'url' ELSE 'owner' END FROM standalone_alarm AS s
    WHERE s.owner = delivery.owner AND s.id = substr(delivery.event_uid, 2))
WHERE substr(event_uid, 1, 1) = ' ';

INSERT INTO firing_count (owner, channel, target, outcome, amount)
SELECT owner, channel, target, outcome, sum(count) FROM delivery WHERE target IS NOT NULL
GROUP BY owner, channel, target, outcome;

CREATE TRIGGER standalone_alarm_told_added AFTER INSERT ON standalone_alarm
BEGIN
    INSERT INTO alarm_feed (owner, last) VALUES (NEW.owner, 1) ON CONFLICT (owner) DO UPDATE SET last = last + 1;
    INSERT INTO alarm_change (owner, number, at, alarm_id, what, channel, detail)
    SELECT NEW.owner, last, NEW.updated_at, NEW.id, 'created', NEW.channel, '' FROM alarm_feed WHERE owner = NEW.owner;
END;

-- Only who alters the alarm itself writes its terms; what follows its firings does not.
CREATE TRIGGER standalone_alarm_told_moved AFTER UPDATE OF terms ON standalone_alarm
BEGIN
    INSERT INTO alarm_feed (owner, last) VALUES (NEW.owner, 1) ON CONFLICT (owner) DO UPDATE SET last = last + 1;
    INSERT INTO alarm_change (owner, number, at, alarm_id, what, channel, detail)
    SELECT NEW.owner, last, NEW.updated_at, NEW.id,
        CASE WHEN NEW.status = 'cancelled' AND OLD.status <> 'cancelled' THEN 'cancelled'
             WHEN NEW.paused AND NOT OLD.paused THEN 'paused'
             WHEN OLD.paused AND NOT NEW.paused THEN 'resumed'
             ELSE 'changed' END,
        NEW.channel, ''
    FROM alarm_feed WHERE owner = NEW.owner;
END;

CREATE TRIGGER alarm_trigger_of_standalone_told AFTER UPDATE OF last_error ON alarm_trigger
WHEN substr(NEW.event_uid, 1, 1) = ' ' AND OLD.state = 'sending' AND NEW.attempts > OLD.attempts
BEGIN
    INSERT INTO alarm_feed (owner, last) VALUES (NEW.owner, 1) ON CONFLICT (owner) DO UPDATE SET last = last + 1;
    INSERT INTO alarm_change (owner, number, at, alarm_id, what, channel, trigger_id, scheduled_for, attempts, detail)
    SELECT NEW.owner, last, coalesce(OLD.attempt_started, NEW.due_at), substr(NEW.event_uid, 2), 'retrying', NEW.channel,
        NEW.id, NEW.trigger_at, NEW.attempts, coalesce(NEW.last_error, '')
    FROM alarm_feed WHERE owner = NEW.owner;
END;

CREATE TRIGGER delivery_of_standalone_told_added AFTER INSERT ON delivery
WHEN substr(NEW.event_uid, 1, 1) = ' '
BEGIN
    UPDATE delivery SET target = (
        SELECT CASE WHEN instr(s.terms, '"target":"') > 0 THEN 'url' ELSE 'owner' END FROM standalone_alarm AS s
        WHERE s.owner = NEW.owner AND s.id = substr(NEW.event_uid, 2))
    WHERE id = NEW.id;
    INSERT INTO firing_count (owner, channel, target, outcome, amount)
    SELECT NEW.owner, NEW.channel, coalesce(target, 'owner'), NEW.outcome, NEW.count FROM delivery WHERE id = NEW.id
    ON CONFLICT (owner, channel, target, outcome) DO UPDATE SET amount = amount + excluded.amount;
    INSERT INTO alarm_feed (owner, last) VALUES (NEW.owner, 1) ON CONFLICT (owner) DO UPDATE SET last = last + 1;
    INSERT INTO alarm_change (owner, number, at, alarm_id, what, channel, trigger_id, scheduled_for, attempts, detail)
    SELECT NEW.owner, last, NEW.recorded_at, substr(NEW.event_uid, 2),
        CASE WHEN NEW.outcome IN ('sent', 'awaiting') THEN 'fired' WHEN NEW.outcome = 'cancelled' THEN 'withdrawn'
             ELSE NEW.outcome END,
        NEW.channel, NEW.id, NEW.trigger_at, NEW.attempts,
        coalesce(nullif(NEW.report, ''), nullif(NEW.detail, ''), NEW.reason)
    FROM alarm_feed WHERE owner = NEW.owner;
END;

CREATE TRIGGER firing_of_standalone_counted AFTER UPDATE OF outcome ON delivery
WHEN substr(NEW.event_uid, 1, 1) = ' ' AND (OLD.outcome <> NEW.outcome OR OLD.count <> NEW.count)
BEGIN
    INSERT INTO firing_count (owner, channel, target, outcome, amount)
    VALUES (OLD.owner, OLD.channel, coalesce(OLD.target, 'owner'), OLD.outcome, -OLD.count),
           (NEW.owner, NEW.channel, coalesce(NEW.target, 'owner'), NEW.outcome, NEW.count)
    ON CONFLICT (owner, channel, target, outcome) DO UPDATE SET amount = amount + excluded.amount;
END;

-- What failed and failed again is told again; that what awaits its report was sent is known.
CREATE TRIGGER delivery_of_standalone_told_moved AFTER UPDATE OF outcome, recorded_at ON delivery
WHEN substr(NEW.event_uid, 1, 1) = ' '
    AND ((OLD.outcome <> NEW.outcome
            AND NOT (OLD.outcome IN ('sent', 'awaiting') AND NEW.outcome IN ('sent', 'awaiting')))
        OR (NEW.rank < 2 AND OLD.recorded_at <> NEW.recorded_at))
BEGIN
    INSERT INTO alarm_feed (owner, last) VALUES (NEW.owner, 1) ON CONFLICT (owner) DO UPDATE SET last = last + 1;
    INSERT INTO alarm_change (owner, number, at, alarm_id, what, channel, trigger_id, scheduled_for, attempts, detail)
    SELECT NEW.owner, last, NEW.recorded_at, substr(NEW.event_uid, 2),
        CASE WHEN NEW.outcome IN ('sent', 'awaiting') THEN 'fired' WHEN NEW.outcome = 'cancelled' THEN 'withdrawn'
             ELSE NEW.outcome END,
        NEW.channel, NEW.id, NEW.trigger_at, NEW.attempts,
        coalesce(nullif(NEW.report, ''), nullif(NEW.detail, ''), NEW.reason)
    FROM alarm_feed WHERE owner = NEW.owner;
END;
