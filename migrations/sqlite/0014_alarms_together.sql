-- What keeps stand-alone alarms and their counts in step with triggers and history. SQLite has one writer, so that nobody
-- waits crosswise and it stays row by row.
--
-- An alarm that may have arrived, and is tried again, is active until that is over. It is over when its trigger goes.
DROP TRIGGER alarm_trigger_of_standalone_added;
DROP TRIGGER delivery_of_standalone_added;
DROP TRIGGER delivery_of_standalone_moved;

CREATE TRIGGER standalone_alarms_forgotten AFTER DELETE ON standalone_alarm
BEGIN
    UPDATE alarm_count SET amount = amount - 1
    WHERE owner = OLD.owner AND channel = OLD.channel AND about = 'alarm' AND name IN ('total', OLD.status);
    DELETE FROM alarm WHERE owner = OLD.owner AND event_uid = ' ' || OLD.id;
END;

-- A series that goes on has its next firing, which is one that was not tried yet.
CREATE TRIGGER alarm_triggers_of_standalone_added AFTER INSERT ON alarm_trigger
WHEN substr(NEW.event_uid, 1, 1) = ' '
BEGIN
    UPDATE standalone_alarm SET
        fire_at = j.next,
        status = CASE WHEN status = 'fired' THEN 'active' ELSE status END,
        updated_at = updated_at + 1
    FROM (SELECT min(trigger_at) AS next FROM alarm_trigger
          WHERE owner = NEW.owner AND event_uid = NEW.event_uid AND first_started_at IS NULL) AS j
    WHERE owner = NEW.owner AND id = substr(NEW.event_uid, 2) AND kind = 'cron'
      AND (fire_at <> j.next OR status = 'fired');
END;

-- What is owed no longer, and has its history. A series without a next firing is over, unless that could not be read:
-- then it is planned again. What may have arrived, and is not tried again, has failed as far as anybody knows.
CREATE TRIGGER alarm_triggers_of_standalone_gone AFTER DELETE ON alarm_trigger
WHEN substr(OLD.event_uid, 1, 1) = ' '
BEGIN
    UPDATE standalone_alarm SET
        status = CASE WHEN kind = 'once' THEN 'failed'
            WHEN j.reason <> 'unreadable' AND NOT EXISTS (
                SELECT 1 FROM alarm_trigger AS t WHERE t.owner = OLD.owner AND t.event_uid = OLD.event_uid) THEN 'fired'
            ELSE status END,
        fire_at = CASE WHEN kind = 'cron' THEN coalesce(j.next, fire_at) ELSE fire_at END,
        last_error = CASE WHEN j.outcome = 'in_doubt'
            THEN 'in_doubt: ' || CASE WHEN j.detail = '' OR j.detail LIKE 'RETRY:%' THEN j.reason ELSE j.detail END
            ELSE last_error END,
        failure_count = failure_count + (j.outcome = 'in_doubt'),
        updated_at = updated_at + 1
    FROM (SELECT d.outcome, d.reason, d.detail,
              (SELECT min(trigger_at) FROM alarm_trigger
               WHERE owner = OLD.owner AND event_uid = OLD.event_uid AND first_started_at IS NULL) AS next
          FROM delivery AS d WHERE d.id = OLD.id) AS j
    WHERE owner = OLD.owner AND id = substr(OLD.event_uid, 2) AND status = 'active' AND NOT paused
      AND (kind = 'cron' OR (j.outcome = 'in_doubt' AND fire_at = OLD.trigger_at));
END;

CREATE TRIGGER deliveries_of_standalone_added AFTER INSERT ON delivery
WHEN substr(NEW.event_uid, 1, 1) = ' '
BEGIN
    INSERT INTO alarm_count (owner, channel, about, name, amount)
    VALUES (NEW.owner, NEW.channel, 'firing', NEW.outcome, NEW.count)
    ON CONFLICT (owner, channel, about, name) DO UPDATE SET amount = amount + excluded.amount;
    INSERT INTO alarm_count (owner, channel, about, name, amount)
    SELECT NEW.owner, NEW.channel, 'firing', v.column1, v.column2
    FROM (VALUES ('durations', 1), ('duration_ms', NEW.reported_at - NEW.first_started_at)) AS v
    WHERE NEW.outcome = 'completed' AND NEW.reported_at >= NEW.first_started_at
    ON CONFLICT (owner, channel, about, name) DO UPDATE SET amount = amount + excluded.amount;
    UPDATE standalone_alarm SET
        status = CASE
            WHEN kind = 'cron' OR status = 'cancelled' OR fire_at <> NEW.trigger_at THEN status
            WHEN NEW.rank > 2 AND NEW.outcome <> 'failed' THEN 'fired'
            WHEN NEW.outcome IN ('cancelled', 'in_doubt') THEN status
            ELSE 'failed' END,
        paused = paused AND (kind = 'cron' OR fire_at <> NEW.trigger_at OR NEW.outcome IN ('cancelled', 'in_doubt')),
        last_fired_at = CASE WHEN NEW.rank >= 2
            THEN max(coalesce(last_fired_at, 0), coalesce(NEW.handed_over_at, NEW.recorded_at)) ELSE last_fired_at END,
        last_error = CASE
            WHEN NEW.outcome = 'failed' OR (NEW.rank < 2 AND NEW.outcome <> 'cancelled') THEN NEW.outcome || ': '
                || coalesce(nullif(NEW.report, ''), CASE WHEN NEW.reason <> 'unreadable' THEN nullif(NEW.detail, '') END,
                    nullif(NEW.reason, ''), 'no reason')
            ELSE last_error END,
        failure_count = failure_count + (NEW.outcome IN ('failed', 'expired')),
        updated_at = max(NEW.recorded_at, updated_at + 1)
    WHERE owner = NEW.owner AND id = substr(NEW.event_uid, 2);
END;

CREATE TRIGGER deliveries_of_standalone_moved AFTER UPDATE OF outcome, reported_at, first_started_at ON delivery
WHEN substr(NEW.event_uid, 1, 1) = ' ' AND (OLD.outcome <> NEW.outcome OR OLD.count <> NEW.count
    OR OLD.reported_at IS NOT NEW.reported_at OR OLD.first_started_at IS NOT NEW.first_started_at)
BEGIN
    INSERT INTO alarm_count (owner, channel, about, name, amount)
    VALUES (OLD.owner, OLD.channel, 'firing', OLD.outcome, -OLD.count),
           (NEW.owner, NEW.channel, 'firing', NEW.outcome, NEW.count)
    ON CONFLICT (owner, channel, about, name) DO UPDATE SET amount = amount + excluded.amount;
    INSERT INTO alarm_count (owner, channel, about, name, amount)
    SELECT OLD.owner, OLD.channel, 'firing', v.column1, v.column2
    FROM (VALUES ('durations', -1), ('duration_ms', OLD.first_started_at - OLD.reported_at)) AS v
    WHERE OLD.outcome = 'completed' AND OLD.reported_at >= OLD.first_started_at
    ON CONFLICT (owner, channel, about, name) DO UPDATE SET amount = amount + excluded.amount;
    INSERT INTO alarm_count (owner, channel, about, name, amount)
    SELECT NEW.owner, NEW.channel, 'firing', v.column1, v.column2
    FROM (VALUES ('durations', 1), ('duration_ms', NEW.reported_at - NEW.first_started_at)) AS v
    WHERE NEW.outcome = 'completed' AND NEW.reported_at >= NEW.first_started_at
    ON CONFLICT (owner, channel, about, name) DO UPDATE SET amount = amount + excluded.amount;
    UPDATE standalone_alarm SET
        status = CASE
            WHEN kind = 'cron' OR status = 'cancelled' OR fire_at <> NEW.trigger_at THEN status
            WHEN NEW.rank > 2 AND NEW.outcome <> 'failed' THEN 'fired'
            WHEN NEW.outcome IN ('cancelled', 'in_doubt') THEN status
            ELSE 'failed' END,
        paused = paused AND (kind = 'cron' OR fire_at <> NEW.trigger_at OR NEW.outcome IN ('cancelled', 'in_doubt')),
        last_fired_at = CASE WHEN NEW.rank >= 2
            THEN max(coalesce(last_fired_at, 0), coalesce(NEW.handed_over_at, NEW.recorded_at)) ELSE last_fired_at END,
        last_error = CASE
            WHEN NEW.outcome = 'failed' OR (NEW.rank < 2 AND NEW.outcome <> 'cancelled') THEN NEW.outcome || ': '
                || coalesce(nullif(NEW.report, ''), CASE WHEN NEW.reason <> 'unreadable' THEN nullif(NEW.detail, '') END,
                    nullif(NEW.reason, ''), 'no reason')
            WHEN OLD.outcome IN ('failed', 'expired') AND NEW.rank > 2 AND NEW.outcome <> 'failed' THEN NULL
            ELSE last_error END,
        failure_count = max(0, failure_count
            + ((NEW.outcome IN ('failed', 'expired')) - (OLD.outcome IN ('failed', 'expired')))),
        updated_at = max(NEW.recorded_at, updated_at + 1)
    WHERE owner = NEW.owner AND id = substr(NEW.event_uid, 2);
END;

-- Series that go on, to plan them again; and what is over, for the janitor. A name of its owner's is good for ever.
CREATE INDEX standalone_alarm_series ON standalone_alarm (owner, id)
    WHERE kind = 'cron' AND status = 'active' AND NOT paused;
CREATE INDEX standalone_alarm_over ON standalone_alarm (updated_at) WHERE status <> 'active' AND key IS NULL;

-- The history of stand-alone alarms, newest first: of one alarm, with one outcome, through one way out,
-- and those that nobody knows to have arrived.
CREATE INDEX delivery_standalone_alarm ON delivery (owner, event_uid, recorded_at, id) WHERE substr(event_uid, 1, 1) = ' ';
CREATE INDEX delivery_standalone_outcome ON delivery (owner, outcome, recorded_at, id) WHERE substr(event_uid, 1, 1) = ' ';
CREATE INDEX delivery_standalone_channel ON delivery (owner, channel, recorded_at, id) WHERE substr(event_uid, 1, 1) = ' ';
CREATE INDEX delivery_standalone_undone ON delivery (owner, recorded_at, id)
    WHERE substr(event_uid, 1, 1) = ' ' AND outcome IN ('failed', 'expired', 'in_doubt');
