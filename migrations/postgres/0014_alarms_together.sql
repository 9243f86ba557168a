-- What keeps stand-alone alarms and their counts in step with triggers and history, once for each statement in place of
-- once for each row: what a statement changes is counted together, in one order, and no two transactions count for the
-- same owner at once. Row by row, transactions met the counters in different orders, and waited for each other.
--
-- An alarm that may have arrived, and is tried again, is active until that is over. It is over when its trigger goes.
CREATE TABLE alarm_owner (
    owner TEXT COLLATE "C" NOT NULL PRIMARY KEY REFERENCES owner (id) ON DELETE CASCADE -- Who counts for it holds this row.
);

CREATE FUNCTION alarm_owners_held(owners TEXT[]) RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO alarm_owner (owner)
    SELECT o.id FROM owner AS o
    WHERE o.id = ANY(owners) AND NOT EXISTS (SELECT 1 FROM alarm_owner AS h WHERE h.owner = o.id)
    ORDER BY o.id ON CONFLICT (owner) DO NOTHING;
    PERFORM 1 FROM alarm_owner AS h WHERE h.owner = ANY(owners) ORDER BY h.owner FOR NO KEY UPDATE;
END;
$$;

-- A change of a counter.
CREATE TYPE alarm_counting AS (
    owner TEXT COLLATE "C", channel TEXT COLLATE "C", about TEXT COLLATE "C", name TEXT COLLATE "C", amount BIGINT
);

CREATE FUNCTION alarm_counts_grow(more alarm_counting[]) RETURNS VOID LANGUAGE sql AS $$
    INSERT INTO alarm_count (owner, channel, about, name, amount)
    SELECT m.owner, m.channel, m.about, m.name, sum(m.amount)::bigint FROM unnest(more) AS m
    WHERE EXISTS (SELECT 1 FROM owner AS o WHERE o.id = m.owner)
    GROUP BY 1, 2, 3, 4 HAVING sum(m.amount) <> 0 ORDER BY 1, 2, 3, 4
    ON CONFLICT (owner, channel, about, name) DO UPDATE SET amount = alarm_count.amount + excluded.amount;
$$;

DROP TRIGGER standalone_alarm_added ON standalone_alarm;
DROP TRIGGER standalone_alarm_moved ON standalone_alarm;
DROP TRIGGER alarm_trigger_of_standalone_added ON alarm_trigger;
DROP TRIGGER delivery_of_standalone_added ON delivery;
DROP TRIGGER delivery_of_standalone_moved ON delivery;

CREATE FUNCTION standalone_alarms_counted() RETURNS TRIGGER LANGUAGE plpgsql AS $$
DECLARE
    more alarm_counting[];
BEGIN
    IF TG_OP = 'INSERT' THEN
        more := ARRAY(SELECT ROW(n.owner, n.channel, 'alarm', v.name, 1)::alarm_counting
                      FROM news AS n, LATERAL (VALUES ('total'), (n.status)) AS v (name));
    ELSIF TG_OP = 'DELETE' THEN
        more := ARRAY(SELECT ROW(o.owner, o.channel, 'alarm', v.name, -1)::alarm_counting
                      FROM olds AS o, LATERAL (VALUES ('total'), (o.status)) AS v (name));
        DELETE FROM alarm AS a USING olds AS o WHERE a.owner = o.owner AND a.event_uid = ' ' || o.id;
    ELSE
        more := ARRAY(SELECT ROW(v.owner, v.channel, 'alarm', v.name, v.amount)::alarm_counting
                      FROM olds AS o JOIN news AS n ON n.owner = o.owner AND n.id = o.id, LATERAL (VALUES
                          (o.owner, o.channel, 'total', -1), (o.owner, o.channel, o.status, -1),
                          (n.owner, n.channel, 'total', 1), (n.owner, n.channel, n.status, 1)
                      ) AS v (owner, channel, name, amount)
                      WHERE o.status <> n.status OR o.channel <> n.channel);
    END IF;
    IF cardinality(more) > 0 THEN
        PERFORM alarm_owners_held(ARRAY(SELECT DISTINCT m.owner FROM unnest(more) AS m));
        PERFORM alarm_counts_grow(more);
    END IF;
    RETURN NULL;
END;
$$;

CREATE TRIGGER standalone_alarms_added AFTER INSERT ON standalone_alarm
    REFERENCING NEW TABLE AS news FOR EACH STATEMENT EXECUTE FUNCTION standalone_alarms_counted();
CREATE TRIGGER standalone_alarms_moved AFTER UPDATE ON standalone_alarm
    REFERENCING OLD TABLE AS olds NEW TABLE AS news FOR EACH STATEMENT EXECUTE FUNCTION standalone_alarms_counted();
CREATE TRIGGER standalone_alarms_forgotten AFTER DELETE ON standalone_alarm
    REFERENCING OLD TABLE AS olds FOR EACH STATEMENT EXECUTE FUNCTION standalone_alarms_counted();

-- The next firing of an alarm that was not tried yet.
CREATE FUNCTION alarm_next(whose TEXT, of TEXT) RETURNS TIMESTAMPTZ STABLE LANGUAGE sql AS $$
    SELECT min(trigger_at) FROM alarm_trigger WHERE owner = whose AND event_uid = of AND first_started_at IS NULL;
$$;

-- A series that goes on has its next firing.
CREATE FUNCTION standalone_alarms_planned() RETURNS TRIGGER LANGUAGE plpgsql AS $$
DECLARE
    owners TEXT[] := ARRAY(SELECT DISTINCT n.owner FROM news AS n WHERE substr(n.event_uid, 1, 1) = ' ');
BEGIN
    IF cardinality(owners) = 0 THEN
        RETURN NULL;
    END IF;
    PERFORM alarm_owners_held(owners);
    UPDATE standalone_alarm AS s SET
        fire_at = j.next,
        status = CASE WHEN s.status = 'fired' THEN 'active' ELSE s.status END,
        updated_at = s.updated_at + interval '1 millisecond'
    FROM (SELECT n.owner, n.event_uid, alarm_next(n.owner, n.event_uid) AS next
          FROM (SELECT DISTINCT owner, event_uid FROM news WHERE substr(event_uid, 1, 1) = ' ') AS n) AS j
    WHERE s.owner = j.owner AND s.id = substr(j.event_uid, 2) AND s.kind = 'cron'
      AND (s.fire_at <> j.next OR s.status = 'fired');
    RETURN NULL;
END;
$$;

CREATE TRIGGER alarm_triggers_of_standalone_added AFTER INSERT ON alarm_trigger
    REFERENCING NEW TABLE AS news FOR EACH STATEMENT EXECUTE FUNCTION standalone_alarms_planned();

-- What is owed no longer, and has its history. A series without a next firing is over, unless that could not be read:
-- then it is planned again. What may have arrived, and is not tried again, has failed as far as anybody knows.
CREATE FUNCTION standalone_alarms_let_go() RETURNS TRIGGER LANGUAGE plpgsql AS $$
DECLARE
    owners TEXT[] := ARRAY(SELECT DISTINCT o.owner FROM olds AS o WHERE substr(o.event_uid, 1, 1) = ' ');
BEGIN
    IF cardinality(owners) = 0 THEN
        RETURN NULL;
    END IF;
    PERFORM alarm_owners_held(owners);
    UPDATE standalone_alarm AS s SET
        status = CASE WHEN s.kind = 'once' AND j.in_doubt > 0 THEN 'failed' WHEN j.is_over THEN 'fired' ELSE s.status END,
        fire_at = CASE WHEN s.kind = 'cron' THEN coalesce(j.next, s.fire_at) ELSE s.fire_at END,
        last_error = CASE WHEN j.in_doubt > 0 THEN 'in_doubt: ' || j.error ELSE s.last_error END,
        failure_count = s.failure_count + j.in_doubt,
        updated_at = s.updated_at + interval '1 millisecond'
    FROM (SELECT k.owner, k.id, alarm_next(k.owner, ' ' || k.id) AS next,
              count(*) FILTER (WHERE d.outcome = 'in_doubt' AND (k.kind = 'cron' OR k.fire_at = o.trigger_at)) AS in_doubt,
              max(CASE WHEN d.detail = '' OR d.detail LIKE 'RETRY:%' THEN d.reason ELSE d.detail END)
                  FILTER (WHERE d.outcome = 'in_doubt') AS error,
              k.kind = 'cron' AND bool_or(d.reason <> 'unreadable') AND NOT EXISTS (
                  SELECT 1 FROM alarm_trigger AS t WHERE t.owner = k.owner AND t.event_uid = ' ' || k.id) AS is_over
          FROM olds AS o
          JOIN standalone_alarm AS k ON k.owner = o.owner AND k.id = substr(o.event_uid, 2)
          JOIN delivery AS d ON d.id = o.id
          WHERE substr(o.event_uid, 1, 1) = ' ' AND k.status = 'active' AND NOT k.paused
          GROUP BY k.owner, k.id) AS j
    WHERE s.owner = j.owner AND s.id = j.id
      AND (j.in_doubt > 0 OR j.is_over OR (s.kind = 'cron' AND s.fire_at <> j.next));
    RETURN NULL;
END;
$$;

CREATE TRIGGER alarm_triggers_of_standalone_gone AFTER DELETE ON alarm_trigger
    REFERENCING OLD TABLE AS olds FOR EACH STATEMENT EXECUTE FUNCTION standalone_alarms_let_go();

-- What of a row of history is counted: its outcome, and how long its target took.
CREATE FUNCTION firing_counts(d delivery, sign BIGINT) RETURNS SETOF alarm_counting IMMUTABLE LANGUAGE sql AS $$
    SELECT d.owner, d.channel, 'firing', v.name, v.amount * sign
    FROM (VALUES
        (d.outcome, d.count, true),
        ('durations', 1, d.outcome = 'completed' AND d.reported_at >= d.first_started_at),
        ('duration_ms', (extract(epoch FROM d.reported_at - d.first_started_at) * 1000)::bigint,
            d.outcome = 'completed' AND d.reported_at >= d.first_started_at)
    ) AS v (name, amount, holds)
    WHERE v.holds;
$$;

CREATE FUNCTION standalone_alarms_fired() RETURNS TRIGGER LANGUAGE plpgsql AS $$
DECLARE
    was delivery[] := '{}';
    now_is delivery[];
BEGIN
    IF TG_OP = 'INSERT' THEN
        now_is := ARRAY(SELECT ROW(n.*)::delivery FROM news AS n WHERE substr(n.event_uid, 1, 1) = ' ');
    ELSE
        SELECT array_agg(ROW(o.*)::delivery), array_agg(ROW(n.*)::delivery) INTO was, now_is
        FROM olds AS o JOIN news AS n ON n.id = o.id
        WHERE substr(n.event_uid, 1, 1) = ' ' AND (o.outcome <> n.outcome OR o.count <> n.count
            OR o.reported_at IS DISTINCT FROM n.reported_at OR o.first_started_at IS DISTINCT FROM n.first_started_at);
    END IF;
    IF coalesce(cardinality(now_is), 0) = 0 THEN
        RETURN NULL;
    END IF;
    PERFORM alarm_owners_held(ARRAY(SELECT DISTINCT n.owner FROM unnest(now_is) AS n));
    PERFORM alarm_counts_grow(ARRAY(
        SELECT c FROM unnest(now_is) AS n, LATERAL firing_counts(n, 1) AS c
        UNION ALL
        SELECT c FROM unnest(was) AS o, LATERAL firing_counts(o, -1) AS c));
    UPDATE standalone_alarm AS s SET
        status = CASE WHEN s.kind = 'cron' OR s.status = 'cancelled' THEN s.status
            WHEN j.is_fired THEN 'fired' WHEN j.is_failed THEN 'failed' ELSE s.status END,
        paused = s.paused AND (s.kind = 'cron' OR NOT coalesce(j.is_fired OR j.is_failed, false)),
        last_fired_at = greatest(s.last_fired_at, j.fired_at),
        last_error = CASE WHEN j.error IS NOT NULL THEN j.error WHEN j.is_corrected THEN NULL ELSE s.last_error END,
        failure_count = greatest(s.failure_count + j.failures, 0),
        updated_at = greatest(j.recorded_at, s.updated_at + interval '1 millisecond')
    FROM (SELECT k.owner, k.id,
              bool_or(n.rank > 2 AND n.outcome <> 'failed') FILTER (WHERE n.trigger_at = k.fire_at) AS is_fired,
              bool_or(n.rank < 2 AND n.outcome <> 'cancelled' OR n.outcome = 'failed')
                  FILTER (WHERE n.trigger_at = k.fire_at) AS is_failed,
              max(coalesce(n.handed_over_at, n.recorded_at)) FILTER (WHERE n.rank >= 2) AS fired_at,
              (array_agg(n.outcome || ': ' || coalesce(nullif(n.report, ''),
                   CASE WHEN n.reason <> 'unreadable' THEN nullif(n.detail, '') END, nullif(n.reason, ''), 'no reason')
                   ORDER BY n.recorded_at DESC, n.trigger_at DESC)
                   FILTER (WHERE n.outcome = 'failed' OR (n.rank < 2 AND n.outcome <> 'cancelled')))[1] AS error,
              bool_or(o.outcome IN ('failed', 'expired') AND n.rank > 2 AND n.outcome <> 'failed') AS is_corrected,
              sum((n.outcome IN ('failed', 'expired'))::int - coalesce((o.outcome IN ('failed', 'expired'))::int, 0)) AS failures,
              max(n.recorded_at) AS recorded_at
          FROM unnest(now_is) AS n
          LEFT JOIN unnest(was) AS o ON o.id = n.id
          JOIN standalone_alarm AS k ON k.owner = n.owner AND k.id = substr(n.event_uid, 2)
          GROUP BY k.owner, k.id) AS j
    WHERE s.owner = j.owner AND s.id = j.id;
    RETURN NULL;
END;
$$;

CREATE TRIGGER deliveries_of_standalone_added AFTER INSERT ON delivery
    REFERENCING NEW TABLE AS news FOR EACH STATEMENT EXECUTE FUNCTION standalone_alarms_fired();
CREATE TRIGGER deliveries_of_standalone_moved AFTER UPDATE ON delivery
    REFERENCING OLD TABLE AS olds NEW TABLE AS news FOR EACH STATEMENT EXECUTE FUNCTION standalone_alarms_fired();

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
