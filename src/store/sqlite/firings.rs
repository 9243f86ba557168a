//! The history of stand-alone alarms.

use sqlx::SqliteConnection;

use crate::store::Delivery;
use crate::store::HistoryQuery;
use crate::store::StoreError;
use crate::store::row;
use crate::store::row::millis;
use crate::store::sqlite::reading::before;
use crate::trigger::ChannelKind;
use crate::trigger::outcome::Outcome;

const OF_ALL: &str = "-- history: of stand-alone alarms
         SELECT * FROM delivery
         WHERE owner = ?6 AND substr(event_uid, 1, 1) = ' '
           AND (?4 IS NULL OR event_uid = ?4) AND (?5 IS NULL OR outcome = ?5) AND (?8 IS NULL OR channel = ?8)
           AND recorded_at >= ?1 AND (recorded_at, id) < (?2, ?3)
         ORDER BY recorded_at DESC, id DESC LIMIT ?7";

const OF_ONE: &str = "-- history: of one stand-alone alarm
         SELECT * FROM delivery
         WHERE owner = ?6 AND substr(event_uid, 1, 1) = ' ' AND event_uid = ?4
           AND (?4 IS NULL OR event_uid = ?4) AND (?5 IS NULL OR outcome = ?5) AND (?8 IS NULL OR channel = ?8)
           AND recorded_at >= ?1 AND (recorded_at, id) < (?2, ?3)
         ORDER BY recorded_at DESC, id DESC LIMIT ?7";

const OF_FAILED: &str = "-- history: of stand-alone alarms that failed
         SELECT * FROM delivery
         WHERE owner = ?6 AND substr(event_uid, 1, 1) = ' ' AND outcome IN ('failed', 'expired', 'in_doubt')
           AND NOT (outcome = 'in_doubt' AND reason = 'connection lost' AND detail LIKE 'RETRY:%')
           AND (?9 IS NULL OR event_uid IN
                (SELECT ' ' || s.id FROM standalone_alarm AS s WHERE s.owner = ?6 AND s.terms ->> 'target' = ?9))
           AND (?4 IS NULL OR event_uid = ?4) AND (?5 IS NULL OR outcome = ?5) AND (?8 IS NULL OR channel = ?8)
           AND recorded_at >= ?1 AND (recorded_at, id) < (?2, ?3)
         ORDER BY recorded_at DESC, id DESC LIMIT ?7";

const OF_OUTCOME: &str = "-- history: of stand-alone alarms with one outcome
         SELECT * FROM delivery
         WHERE owner = ?6 AND substr(event_uid, 1, 1) = ' ' AND outcome = ?5
           AND (?4 IS NULL OR event_uid = ?4) AND (?5 IS NULL OR outcome = ?5) AND (?8 IS NULL OR channel = ?8)
           AND recorded_at >= ?1 AND (recorded_at, id) < (?2, ?3)
         ORDER BY recorded_at DESC, id DESC LIMIT ?7";

const OF_CHANNEL: &str = "-- history: of stand-alone alarms through one way out
         SELECT * FROM delivery
         WHERE owner = ?6 AND substr(event_uid, 1, 1) = ' ' AND channel = ?8
           AND (?4 IS NULL OR event_uid = ?4) AND (?5 IS NULL OR outcome = ?5) AND (?8 IS NULL OR channel = ?8)
           AND recorded_at >= ?1 AND (recorded_at, id) < (?2, ?3)
         ORDER BY recorded_at DESC, id DESC LIMIT ?7";

const OF_TARGET: &str = "-- history: of stand-alone alarms that call one target
         SELECT * FROM delivery
         WHERE owner = ?6 AND substr(event_uid, 1, 1) = ' ' AND event_uid IN
                (SELECT ' ' || s.id FROM standalone_alarm AS s WHERE s.owner = ?6 AND s.terms ->> 'target' = ?9)
           AND (?4 IS NULL OR event_uid = ?4) AND (?5 IS NULL OR outcome = ?5) AND (?8 IS NULL OR channel = ?8)
           AND recorded_at >= ?1 AND (recorded_at, id) < (?2, ?3)
         ORDER BY recorded_at DESC, id DESC LIMIT ?7";

/// Lists firings that are over, newest first: each filter that may leave few of many has an index of its own.
pub async fn history(conn: &mut SqliteConnection, query: &HistoryQuery) -> Result<Vec<Delivery>, StoreError> {
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
        .bind(query.since.map_or(i64::MIN, millis))
        .bind(recorded_at)
        .bind(id)
        .bind(&query.event_uid)
        .bind(query.outcome.map(Outcome::as_str))
        .bind(query.owner.as_ref().map(|owner| owner.0.as_str()))
        .bind(query.limit)
        .bind(query.channel.map(ChannelKind::as_str))
        .bind(&query.target)
        .fetch_all(conn)
        .await?;
    rows.iter().map(row::delivery).collect()
}
