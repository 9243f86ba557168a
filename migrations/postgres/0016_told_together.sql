-- Firings are told and counted once for each statement in place of once for each row: what a statement records of one owner
-- takes its numbers together, in the order of its rows, and each counter is raised once. Row by row, each of a thousand
-- firings wrote the same row of the feed anew.
DROP TRIGGER delivery_of_standalone_aimed ON delivery;
DROP TRIGGER delivery_of_standalone_told_added ON delivery;
DROP TRIGGER delivery_of_standalone_told_moved ON delivery;

-- What is called is known of each firing from now on; one of which it is not known was never counted. Who holds the owner,
-- so that nobody waits crosswise, are those who record, before they do, and what tells and counts.
CREATE OR REPLACE FUNCTION standalone_delivery_aimed() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    NEW.target := coalesce(
        (SELECT CASE WHEN position('"target":"' IN s.terms) > 0 THEN 'url' ELSE 'owner' END FROM standalone_alarm AS s
         WHERE s.owner = NEW.owner AND s.id = substr(NEW.event_uid, 2)), 'owner');
    RETURN NEW;
END;
$$;

CREATE TRIGGER delivery_of_standalone_aimed BEFORE INSERT ON delivery
    FOR EACH ROW WHEN (substr(NEW.event_uid, 1, 1) = ' ') EXECUTE FUNCTION standalone_delivery_aimed();

-- `about` is what is called, and `name` what became of it.
CREATE FUNCTION firing_counts_grow(more alarm_counting[]) RETURNS VOID LANGUAGE sql AS $$
    INSERT INTO firing_count (owner, channel, target, outcome, amount)
    SELECT m.owner, m.channel, m.about, m.name, sum(m.amount)::bigint FROM unnest(more) AS m
    GROUP BY 1, 2, 3, 4 HAVING sum(m.amount) <> 0 ORDER BY 1, 2, 3, 4
    ON CONFLICT (owner, channel, target, outcome) DO UPDATE SET amount = firing_count.amount + excluded.amount;
$$;

-- Tells of rows of history, in their order.
CREATE FUNCTION firings_noted(told delivery[]) RETURNS VOID LANGUAGE sql AS $$
    WITH numbered AS (
        SELECT d.*, row_number() OVER (PARTITION BY d.owner ORDER BY d.ordinality) - count(*) OVER (PARTITION BY d.owner)
            AS before_last
        FROM unnest(told) WITH ORDINALITY AS d
    ), feed AS (
        INSERT INTO alarm_feed (owner, last) SELECT n.owner, count(*) FROM numbered AS n GROUP BY n.owner ORDER BY n.owner
        ON CONFLICT (owner) DO UPDATE SET last = alarm_feed.last + excluded.last
        RETURNING owner, last
    )
    INSERT INTO alarm_change (owner, number, at, alarm_id, what, channel, trigger_id, scheduled_for, attempts, detail)
    SELECT n.owner, feed.last + n.before_last, n.recorded_at, substr(n.event_uid, 2), firing_word(n.outcome), n.channel,
        n.id, n.trigger_at, n.attempts, coalesce(nullif(n.report, ''), nullif(n.detail, ''), n.reason)
    FROM numbered AS n JOIN feed ON feed.owner = n.owner
    ORDER BY n.ordinality;
$$;

CREATE FUNCTION standalone_firings_added() RETURNS TRIGGER LANGUAGE plpgsql AS $$
DECLARE
    told delivery[] := ARRAY(SELECT ROW(n.*)::delivery FROM news AS n WHERE substr(n.event_uid, 1, 1) = ' ');
BEGIN
    IF cardinality(told) > 0 THEN
        PERFORM alarm_owners_held(ARRAY(SELECT DISTINCT t.owner FROM unnest(told) AS t));
        PERFORM firing_counts_grow(ARRAY(
            SELECT ROW(t.owner, t.channel, t.target, t.outcome, t.count)::alarm_counting FROM unnest(told) AS t));
        PERFORM firings_noted(told);
    END IF;
    RETURN NULL;
END;
$$;

CREATE TRIGGER deliveries_of_standalone_told_added AFTER INSERT ON delivery
    REFERENCING NEW TABLE AS news FOR EACH STATEMENT EXECUTE FUNCTION standalone_firings_added();

-- What failed and failed again is told again.
CREATE FUNCTION standalone_firings_moved() RETURNS TRIGGER LANGUAGE plpgsql AS $$
DECLARE
    was delivery[];
    now_is delivery[];
BEGIN
    SELECT array_agg(ROW(o.*)::delivery ORDER BY n.place), array_agg(n.row ORDER BY n.place) INTO was, now_is
    FROM (SELECT row_number() OVER () AS place, m.id, m.outcome, m.count, m.recorded_at, ROW(m.*)::delivery AS row
          FROM news AS m WHERE substr(m.event_uid, 1, 1) = ' ') AS n
    JOIN olds AS o ON o.id = n.id
    WHERE o.outcome <> n.outcome OR o.count <> n.count OR o.recorded_at <> n.recorded_at;
    IF was IS NULL THEN
        RETURN NULL;
    END IF;
    PERFORM alarm_owners_held(ARRAY(SELECT DISTINCT n.owner FROM unnest(now_is) AS n));
    PERFORM firing_counts_grow(ARRAY(
        SELECT ROW(n.owner, n.channel, n.target, n.outcome, n.count)::alarm_counting FROM unnest(now_is) AS n
        WHERE n.target IS NOT NULL
        UNION ALL
        SELECT ROW(o.owner, o.channel, o.target, o.outcome, -o.count)::alarm_counting FROM unnest(was) AS o
        WHERE o.target IS NOT NULL));
    PERFORM firings_noted(ARRAY(
        SELECT n.row FROM (
            SELECT p.place, now_is[p.place] AS row, was[p.place] AS old FROM generate_subscripts(now_is, 1) AS p (place)) AS n
        WHERE firing_word((n.old).outcome) <> firing_word((n.row).outcome)
            OR ((n.row).rank < 2 AND (n.old).recorded_at <> (n.row).recorded_at)
        ORDER BY n.place));
    RETURN NULL;
END;
$$;

CREATE TRIGGER deliveries_of_standalone_told_moved AFTER UPDATE ON delivery
    REFERENCING OLD TABLE AS olds NEW TABLE AS news FOR EACH STATEMENT EXECUTE FUNCTION standalone_firings_moved();
