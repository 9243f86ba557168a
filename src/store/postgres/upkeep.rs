//! What the janitor does, and what is remembered from one process to the next.

use sqlx::PgConnection;

use crate::store::Retention;
use crate::store::StoreError;
use crate::store::postgres::alarms;
use crate::store::postgres::columns::cut;

/// Deletes what is old, up to the limit of each kind: outbox, history, changes of alarms, stand-alone alarms that are over and
/// have no name that is good for ever, slots in limits, tombstones, and sessions that neither ended nor
/// came back.
pub async fn purge(conn: &mut PgConnection, retention: &Retention) -> Result<u64, StoreError> {
    let kinds = [
        (
            "-- purge: outbox
             DELETE FROM outbox WHERE handed_over_at < $1 AND id = ANY(ARRAY(
                 SELECT id FROM outbox WHERE handed_over_at < $1 ORDER BY handed_over_at, id LIMIT $2))",
            retention.history_before,
        ),
        (
            "-- purge: history
             DELETE FROM delivery WHERE recorded_at < $1 AND id = ANY(ARRAY(
                 SELECT id FROM delivery WHERE recorded_at < $1 ORDER BY recorded_at, id LIMIT $2))",
            retention.history_before,
        ),
        (
            "-- purge: changes of alarms
             DELETE FROM alarm_change WHERE at < $1 AND ctid = ANY(ARRAY(
                 SELECT ctid FROM alarm_change WHERE at < $1 ORDER BY at LIMIT $2))",
            retention.history_before,
        ),
        (
            "-- purge: limits
             DELETE FROM limit_slot WHERE at < $1 AND id = ANY(ARRAY(
                 SELECT id FROM limit_slot WHERE at < $1 ORDER BY at, id LIMIT $2))",
            retention.history_before,
        ),
        (
            "-- purge: tombstones
             DELETE FROM event WHERE deleted_at < $1 AND row_id = ANY(ARRAY(
                 SELECT row_id FROM event WHERE deleted_at < $1 ORDER BY deleted_at LIMIT $2))",
            retention.tombstones_before,
        ),
        (
            "-- purge: sessions
             DELETE FROM session WHERE beat_at < $1 AND id = ANY(ARRAY(
                 SELECT id FROM session WHERE beat_at < $1 ORDER BY id LIMIT $2))",
            retention.history_before,
        ),
    ];
    // Its owners are held before anything of theirs is.
    let mut gone = purge_alarms(conn, retention).await?;
    for (statement, before) in kinds {
        let done = sqlx::query(statement)
            .bind(earliest(before))
            .bind(i64::from(retention.limit))
            .execute(&mut *conn)
            .await?;
        gone += done.rows_affected();
    }
    Ok(gone)
}

/// Deletes stand-alone alarms. Their owners are held first, as everywhere: who counts for one may be waiting for an alarm.
async fn purge_alarms(conn: &mut PgConnection, retention: &Retention) -> Result<u64, StoreError> {
    let before = earliest(retention.history_before);
    let over: Vec<(String, String)> = sqlx::query_as(
        "-- purge: alarms that are over
         SELECT owner, id FROM standalone_alarm
         WHERE status <> 'active' AND key IS NULL AND updated_at < $1 ORDER BY updated_at LIMIT $2",
    )
    .bind(before)
    .bind(i64::from(retention.limit))
    .fetch_all(&mut *conn)
    .await?;
    if over.is_empty() {
        return Ok(0);
    }
    let (owners, ids): (Vec<String>, Vec<String>) = over.into_iter().unzip();
    alarms::hold_owners(conn, owners.iter().map(String::as_str)).await?;
    let done = sqlx::query(
        "-- purge: alarms
         DELETE FROM standalone_alarm AS s USING unnest($2::text[], $3::text[]) AS j (owner, id)
         WHERE s.owner = j.owner COLLATE \"C\" AND s.id = j.id COLLATE \"C\"
           AND s.status <> 'active' AND s.key IS NULL AND s.updated_at < $1",
    )
    .bind(before)
    .bind(&owners)
    .bind(&ids)
    .execute(conn)
    .await?;
    Ok(done.rows_affected())
}

/// PostgreSQL knows no instant before 4713 BC; nothing of ours is that old.
fn earliest(before: chrono::DateTime<chrono::Utc>) -> chrono::DateTime<chrono::Utc> {
    cut(before).max(chrono::DateTime::UNIX_EPOCH)
}

/// A remembered value.
pub async fn remembered(conn: &mut PgConnection, name: &str) -> Result<Option<String>, StoreError> {
    let found = sqlx::query_scalar(
        "-- remembered
         SELECT value FROM memory WHERE name = $1",
    )
    .bind(name)
    .fetch_optional(conn)
    .await?;
    Ok(found)
}

/// Remembers a value.
pub async fn remember(conn: &mut PgConnection, name: &str, value: &str) -> Result<(), StoreError> {
    sqlx::query(
        "-- remember
         INSERT INTO memory (name, value) VALUES ($1, $2)
         ON CONFLICT (name) DO UPDATE SET value = excluded.value",
    )
    .bind(name)
    .bind(value)
    .execute(conn)
    .await?;
    Ok(())
}

/// Replaces a remembered value, if it is still `before`.
pub async fn remember_instead(
    conn: &mut PgConnection,
    name: &str,
    (before, value): (&str, &str),
) -> Result<bool, StoreError> {
    let done = sqlx::query(
        "-- remember_instead
         UPDATE memory SET value = $3 WHERE name = $1 AND value = $2",
    )
    .bind(name)
    .bind(before)
    .bind(value)
    .execute(conn)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// Remembers a value unless there is one of that name; returns the one there is.
pub async fn remember_first(conn: &mut PgConnection, name: &str, value: &str) -> Result<String, StoreError> {
    let first = sqlx::query_scalar(
        "-- remember_first
         INSERT INTO memory (name, value) VALUES ($1, $2)
         ON CONFLICT (name) DO UPDATE SET value = memory.value
         RETURNING value",
    )
    .bind(name)
    .bind(value)
    .fetch_one(conn)
    .await?;
    Ok(first)
}
