-- What is called is known of each firing from now on; one of which it is not known was never counted, and is not taken away
-- either. (Rows are told of one by one, as this database has it: it writes with one hand, and nobody waits.)
DROP TRIGGER delivery_of_standalone_told_added;
DROP TRIGGER firing_of_standalone_counted;

CREATE TRIGGER delivery_of_standalone_told_added AFTER INSERT ON delivery
WHEN substr(NEW.event_uid, 1, 1) = ' '
BEGIN
    UPDATE delivery SET target = coalesce(
        (SELECT CASE WHEN instr(s.terms, '"target":"') > 0 THEN 'url' ELSE 'owner' END FROM standalone_alarm AS s
         WHERE s.owner = NEW.owner AND s.id = substr(NEW.event_uid, 2)), 'owner')
    WHERE id = NEW.id;
    INSERT INTO firing_count (owner, channel, target, outcome, amount)
    SELECT NEW.owner, NEW.channel, target, NEW.outcome, NEW.count FROM delivery WHERE id = NEW.id
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
WHEN substr(NEW.event_uid, 1, 1) = ' ' AND NEW.target IS NOT NULL
    AND (OLD.outcome <> NEW.outcome OR OLD.count <> NEW.count)
BEGIN
    INSERT INTO firing_count (owner, channel, target, outcome, amount)
    VALUES (OLD.owner, OLD.channel, NEW.target, OLD.outcome, -OLD.count),
           (NEW.owner, NEW.channel, NEW.target, NEW.outcome, NEW.count)
    ON CONFLICT (owner, channel, target, outcome) DO UPDATE SET amount = amount + excluded.amount;
END;
