//! The history of stand-alone alarms.

use sqlx::PgConnection;

use crate::store::Delivery;
use crate::store::HistoryQuery;
use crate::store::StoreError;
use crate::store::postgres::columns::cut;
use crate::store::postgres::reading::before;
use crate::store::row;
use crate::trigger::ChannelKind;
use crate::trigger::outcome::Outcome;

const OF_ALL: &str = concat!(
    "-- history: of stand-alone alarms
         SELECT ",
    columns!(delivery),
    "
         FROM delivery AS d
         WHERE owner = $6 AND substr(event_uid, 1, 1) = ' '
           AND ($4::text IS NULL OR event_uid = $4) AND ($5::text IS NULL OR outcome = $5)
           AND ($8::text IS NULL OR channel = $8) AND recorded_at >= coalesce($1::timestamptz, '-infinity')
           AND (recorded_at, id) < (coalesce($2::timestamptz, 'infinity'), $3)
         ORDER BY recorded_at DESC, id DESC LIMIT $7"
);

const OF_ONE: &str = concat!(
    "-- history: of one stand-alone alarm
         SELECT ",
    columns!(delivery),
    "
         FROM delivery AS d
         WHERE owner = $6 AND substr(event_uid, 1, 1) = ' ' AND event_uid = $4
           AND ($4::text IS NULL OR event_uid = $4) AND ($5::text IS NULL OR outcome = $5)
           AND ($8::text IS NULL OR channel = $8) AND recorded_at >= coalesce($1::timestamptz, '-infinity')
           AND (recorded_at, id) < (coalesce($2::timestamptz, 'infinity'), $3)
         ORDER BY recorded_at DESC, id DESC LIMIT $7"
);

const OF_FAILED: &str = concat!(
    "-- history: of stand-alone alarms that failed
         SELECT ",
    columns!(delivery),
    "
         FROM delivery AS d
         WHERE owner = $6 AND substr(event_uid, 1, 1) = ' ' AND outcome IN ('failed', 'expired', 'in_doubt')
           AND NOT (outcome = 'in_doubt' AND reason = 'connection lost' AND detail LIKE 'RETRY:%')
           AND ($9::text IS NULL OR event_uid IN
                (SELECT ' ' || s.id FROM standalone_alarm AS s WHERE s.owner = $6 AND s.terms::jsonb ->> 'target' = $9))
           AND ($4::text IS NULL OR event_uid = $4) AND ($5::text IS NULL OR outcome = $5)
           AND ($8::text IS NULL OR channel = $8) AND recorded_at >= coalesce($1::timestamptz, '-infinity')
           AND (recorded_at, id) < (coalesce($2::timestamptz, 'infinity'), $3)
         ORDER BY recorded_at DESC, id DESC LIMIT $7"
);

const OF_OUTCOME: &str = concat!(
    "-- history: of stand-alone alarms with one outcome
         SELECT ",
    columns!(delivery),
    "
         FROM delivery AS d
         WHERE owner = $6 AND substr(event_uid, 1, 1) = ' ' AND outcome = $5
           AND ($4::text IS NULL OR event_uid = $4) AND ($5::text IS NULL OR outcome = $5)
           AND ($8::text IS NULL OR channel = $8) AND recorded_at >= coalesce($1::timestamptz, '-infinity')
           AND (recorded_at, id) < (coalesce($2::timestamptz, 'infinity'), $3)
         ORDER BY recorded_at DESC, id DESC LIMIT $7"
);

const OF_CHANNEL: &str = concat!(
    "-- history: of stand-alone alarms through one way out
         SELECT ",
    columns!(delivery),
    "
         FROM delivery AS d
         WHERE owner = $6 AND substr(event_uid, 1, 1) = ' ' AND channel = $8
           AND ($4::text IS NULL OR event_uid = $4) AND ($5::text IS NULL OR outcome = $5)
           AND ($8::text IS NULL OR channel = $8) AND recorded_at >= coalesce($1::timestamptz, '-infinity')
           AND (recorded_at, id) < (coalesce($2::timestamptz, 'infinity'), $3)
         ORDER BY recorded_at DESC, id DESC LIMIT $7"
);

const OF_TARGET: &str = concat!(
    "-- history: of stand-alone alarms that call one target
         SELECT ",
    columns!(delivery),
    "
         FROM delivery AS d
         WHERE owner = $6 AND substr(event_uid, 1, 1) = ' ' AND event_uid IN
                (SELECT ' ' || s.id FROM standalone_alarm AS s WHERE s.owner = $6 AND s.terms::jsonb ->> 'target' = $9)
           AND ($4::text IS NULL OR event_uid = $4) AND ($5::text IS NULL OR outcome = $5)
           AND ($8::text IS NULL OR channel = $8) AND recorded_at >= coalesce($1::timestamptz, '-infinity')
           AND (recorded_at, id) < (coalesce($2::timestamptz, 'infinity'), $3)
         ORDER BY recorded_at DESC, id DESC LIMIT $7"
);

/// Lists firings that are over, newest first: each filter that may leave few of many has an index of its own.
pub async fn history(conn: &mut PgConnection, query: &HistoryQuery) -> Result<Vec<Delivery>, StoreError> {
    let (recorded_at, id) = before(query.after);
    let statement = if query.failed {
        OF_FAILED
    } else if query.target.is_some() {
        OF_TARGET
    } else if query.event_uid.is_some() {
        OF_ONE
    } else if query.outcome.is_some() {
        OF_OUTCOME
    } else if query.channel.is_some() {
        OF_CHANNEL
    } else {
        OF_ALL
    };
    let rows = sqlx::query(statement)
        .bind(query.since.map(cut))
        .bind(recorded_at)
        .bind(id)
        .bind(&query.event_uid)
        .bind(query.outcome.map(Outcome::as_str))
        .bind(query.owner.as_ref().map(|owner| owner.0.as_str()))
        .bind(i64::from(query.limit))
        .bind(query.channel.map(ChannelKind::as_str))
        .bind(&query.target)
        .fetch_all(conn)
        .await?;
    rows.iter().map(row::delivery).collect()
}
