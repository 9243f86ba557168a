-- What happens to stand-alone alarms, in the order in which it was committed, for whoever follows them; and how many of
-- their firings fail, by what is called.
CREATE TABLE alarm_feed (
    owner TEXT COLLATE "C" NOT NULL PRIMARY KEY REFERENCES owner (id) ON DELETE CASCADE, -- Whose alarms.
    last  BIGINT NOT NULL  -- The number of the last change. Who takes the next one holds this row until the commit.
);

CREATE TABLE alarm_change (
    owner         TEXT COLLATE "C" NOT NULL REFERENCES alarm_feed (owner) ON DELETE CASCADE, -- Whose alarm.
    number        BIGINT      NOT NULL, -- Counts the changes of this owner, without a gap.
    at            TIMESTAMPTZ NOT NULL, -- When; of an attempt that is repeated, when it began.
    alarm_id      TEXT COLLATE "C" NOT NULL, -- Which alarm.
    what          TEXT        NOT NULL, -- created, changed, paused, resumed, cancelled; retrying, fired or another end of a firing.
    channel       TEXT        NOT NULL, -- The way out.
    trigger_id    BYTEA,                -- Which firing; none where the alarm itself was changed.
    scheduled_for TIMESTAMPTZ,          -- The instant that was promised.
    attempts      BIGINT,               -- How often it was tried so far.
    detail        TEXT        NOT NULL, -- What was said of it, if anything.
    PRIMARY KEY (owner, number)
);

-- What is old, for the janitor.
CREATE INDEX alarm_change_at ON alarm_change (at);

INSERT INTO alarm_feed (owner, last) SELECT DISTINCT owner, 0 FROM standalone_alarm;

-- What a firing of a stand-alone alarm calls: owner (an address or an endpoint of its owner's) or url (one of its own).
ALTER TABLE delivery ADD COLUMN target TEXT;

CREATE TABLE firing_count (
    owner   TEXT COLLATE "C" NOT NULL REFERENCES owner (id) ON DELETE CASCADE, -- Whose alarms.
    channel TEXT COLLATE "C" NOT NULL, -- Through which way out.
    target  TEXT COLLATE "C" NOT NULL, -- What is called: owner or url.
    outcome TEXT COLLATE "C" NOT NULL, -- What became of them.
    amount  BIGINT NOT NULL, -- How many firings.
    PRIMARY KEY (owner, channel, target, outcome)
);

UPDATE delivery SET target = CASE WHEN position('"target":"' IN s.terms) > 0 THEN 'url' ELSE 'owner' END
FROM standalone_alarm AS s
WHERE substr(delivery.event_uid, 1, 1) = ' ' AND s.owner = delivery.owner AND s.id = substr(delivery.event_uid, 2);

INSERT INTO firing_count (owner, channel, target, outcome, amount)
SELECT owner, channel, target, outcome, sum(count) FROM delivery WHERE target IS NOT NULL
GROUP BY owner, channel, target, outcome;

CREATE FUNCTION firing_counted(whose TEXT, through TEXT, called TEXT, came TEXT, more BIGINT) RETURNS VOID
LANGUAGE sql AS $$
    INSERT INTO firing_count (owner, channel, target, outcome, amount)
    VALUES (whose, through, coalesce(called, 'owner'), came, more)
    ON CONFLICT (owner, channel, target, outcome) DO UPDATE SET amount = firing_count.amount + excluded.amount;
$$;

CREATE FUNCTION alarm_change_noted(whose TEXT, alarm TEXT, happened TEXT, through TEXT, moment TIMESTAMPTZ,
    firing BYTEA, promised TIMESTAMPTZ, tries BIGINT, said TEXT) RETURNS VOID
LANGUAGE sql AS $$
    WITH next AS (
        INSERT INTO alarm_feed (owner, last) VALUES (whose, 1)
        ON CONFLICT (owner) DO UPDATE SET last = alarm_feed.last + 1
        RETURNING last
    )
    INSERT INTO alarm_change (owner, number, at, alarm_id, what, channel, trigger_id, scheduled_for, attempts, detail)
    SELECT whose, next.last, moment, alarm, happened, through, firing, promised, tries, said FROM next;
$$;

CREATE FUNCTION standalone_alarm_told() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    PERFORM alarm_change_noted(NEW.owner, NEW.id,
        CASE WHEN TG_OP = 'INSERT' THEN 'created'
             WHEN NEW.status = 'cancelled' AND OLD.status <> 'cancelled' THEN 'cancelled'
             WHEN NEW.paused AND NOT OLD.paused THEN 'paused'
             WHEN OLD.paused AND NOT NEW.paused THEN 'resumed'
             ELSE 'changed' END,
        NEW.channel, NEW.updated_at, NULL, NULL, NULL, '');
    RETURN NULL;
END;
$$;

CREATE TRIGGER standalone_alarm_told_added AFTER INSERT ON standalone_alarm
    FOR EACH ROW EXECUTE FUNCTION standalone_alarm_told();
-- Only who alters the alarm itself writes its terms; what follows its firings does not.
CREATE TRIGGER standalone_alarm_told_moved AFTER UPDATE OF terms ON standalone_alarm
    FOR EACH ROW EXECUTE FUNCTION standalone_alarm_told();

CREATE FUNCTION standalone_trigger_told() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    PERFORM alarm_change_noted(NEW.owner, substr(NEW.event_uid, 2), 'retrying', NEW.channel,
        coalesce(OLD.attempt_started, NEW.due_at), NEW.id, NEW.trigger_at, NEW.attempts, coalesce(NEW.last_error, ''));
    RETURN NULL;
END;
$$;

CREATE TRIGGER alarm_trigger_of_standalone_told AFTER UPDATE OF last_error ON alarm_trigger
    FOR EACH ROW WHEN (substr(NEW.event_uid, 1, 1) = ' ' AND OLD.state = 'sending' AND NEW.attempts > OLD.attempts)
    EXECUTE FUNCTION standalone_trigger_told();

-- Who tells and counts holds the owner for it before either, so that nobody waits crosswise.
CREATE FUNCTION standalone_delivery_aimed() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    PERFORM alarm_owners_held(ARRAY[NEW.owner]);
    IF TG_OP = 'UPDATE' THEN
        RETURN NEW;
    END IF;
    NEW.target := (
        SELECT CASE WHEN position('"target":"' IN s.terms) > 0 THEN 'url' ELSE 'owner' END FROM standalone_alarm AS s
        WHERE s.owner = NEW.owner AND s.id = substr(NEW.event_uid, 2));
    RETURN NEW;
END;
$$;

CREATE TRIGGER delivery_of_standalone_aimed BEFORE INSERT OR UPDATE OF outcome, recorded_at ON delivery
    FOR EACH ROW WHEN (substr(NEW.event_uid, 1, 1) = ' ') EXECUTE FUNCTION standalone_delivery_aimed();

CREATE FUNCTION firing_word(outcome TEXT) RETURNS TEXT LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN outcome IN ('sent', 'awaiting') THEN 'fired' WHEN outcome = 'cancelled' THEN 'withdrawn'
        ELSE outcome END;
$$;

-- What failed and failed again is told again.
CREATE FUNCTION standalone_delivery_told() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' OR OLD.outcome <> NEW.outcome OR OLD.count <> NEW.count THEN
        IF TG_OP = 'UPDATE' THEN
            PERFORM firing_counted(OLD.owner, OLD.channel, OLD.target, OLD.outcome, -OLD.count);
        END IF;
        PERFORM firing_counted(NEW.owner, NEW.channel, NEW.target, NEW.outcome, NEW.count);
    END IF;
    IF TG_OP = 'INSERT' OR firing_word(OLD.outcome) <> firing_word(NEW.outcome)
        OR (NEW.rank < 2 AND OLD.recorded_at <> NEW.recorded_at) THEN
        PERFORM alarm_change_noted(NEW.owner, substr(NEW.event_uid, 2), firing_word(NEW.outcome), NEW.channel,
            NEW.recorded_at, NEW.id, NEW.trigger_at, NEW.attempts,
            coalesce(nullif(NEW.report, ''), nullif(NEW.detail, ''), NEW.reason));
    END IF;
    RETURN NULL;
END;
$$;

CREATE TRIGGER delivery_of_standalone_told_added AFTER INSERT ON delivery
    FOR EACH ROW WHEN (substr(NEW.event_uid, 1, 1) = ' ') EXECUTE FUNCTION standalone_delivery_told();
CREATE TRIGGER delivery_of_standalone_told_moved AFTER UPDATE OF outcome, recorded_at ON delivery
    FOR EACH ROW WHEN (substr(NEW.event_uid, 1, 1) = ' ') EXECUTE FUNCTION standalone_delivery_told();
