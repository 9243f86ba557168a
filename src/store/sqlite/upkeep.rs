//! What the janitor does, and what is remembered from one process to the next.

use sqlx::SqliteConnection;

use crate::store::Retention;
use crate::store::StoreError;
use crate::store::row::millis;

/// Deletes what is old, up to the limit of each kind: outbox, history, changes of alarms, stand-alone alarms that are over and
/// have no name that is good for ever, slots in limits, tombstones, and sessions that neither ended nor
/// came back.
pub async fn purge(conn: &mut SqliteConnection, retention: &Retention) -> Result<u64, StoreError> {
    let kinds = [
        (
            "-- purge: outbox
             DELETE FROM outbox WHERE id IN (
                 SELECT id FROM outbox WHERE handed_over_at < ?1 ORDER BY handed_over_at, id LIMIT ?2)",
            retention.history_before,
        ),
        (
            "-- purge: history
             DELETE FROM delivery WHERE id IN (
                 SELECT id FROM delivery WHERE recorded_at < ?1 ORDER BY recorded_at, id LIMIT ?2)",
            retention.history_before,
        ),
        (
            "-- purge: alarms
             DELETE FROM standalone_alarm WHERE rowid IN (
                 SELECT rowid FROM standalone_alarm
                 WHERE status <> 'active' AND key IS NULL AND updated_at < ?1 ORDER BY updated_at LIMIT ?2)",
            retention.history_before,
        ),
        (
            "-- purge: changes of alarms
             DELETE FROM alarm_change WHERE (owner, number) IN (
                 SELECT owner, number FROM alarm_change WHERE at < ?1 ORDER BY at LIMIT ?2)",
            retention.history_before,
        ),
        (
            "-- purge: limits
             DELETE FROM limit_slot WHERE id IN (SELECT id FROM limit_slot WHERE at < ?1 ORDER BY at, id LIMIT ?2)",
            retention.history_before,
        ),
        (
            "-- purge: tombstones
             DELETE FROM event WHERE deleted_at IS NOT NULL AND row_id IN (
                 SELECT row_id FROM event WHERE deleted_at < ?1 ORDER BY deleted_at LIMIT ?2)",
            retention.tombstones_before,
        ),
        (
            "-- purge: sessions
             DELETE FROM session WHERE id IN (SELECT id FROM session WHERE beat_at < ?1 ORDER BY id LIMIT ?2)",
            retention.history_before,
        ),
    ];
    let mut gone = 0;
    for (statement, before) in kinds {
        let done = sqlx::query(statement)
            .bind(millis(before))
            .bind(retention.limit)
            .execute(&mut *conn)
            .await?;
        gone += done.rows_affected();
    }
    Ok(gone)
}

/// Remembers a value.
pub async fn remember(conn: &mut SqliteConnection, name: &str, value: &str) -> Result<(), StoreError> {
    sqlx::query(
        "-- remember
         INSERT INTO memory (name, value) VALUES (?1, ?2)
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
    conn: &mut SqliteConnection,
    name: &str,
    (before, value): (&str, &str),
) -> Result<bool, StoreError> {
    let done = sqlx::query(
        "-- remember_instead
         UPDATE memory SET value = ?3 WHERE name = ?1 AND value = ?2",
    )
    .bind(name)
    .bind(before)
    .bind(value)
    .execute(conn)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// Remembers a value unless there is one of that name; returns the one there is.
pub async fn remember_first(
    conn: &mut SqliteConnection,
    name: &str,
    value: &str,
) -> Result<String, StoreError> {
    let first = sqlx::query_scalar(
        "-- remember_first
         INSERT INTO memory (name, value) VALUES (?1, ?2)
         ON CONFLICT (name) DO UPDATE SET value = memory.value
         RETURNING value",
    )
    .bind(name)
    .bind(value)
    .fetch_one(conn)
    .await?;
    Ok(first)
}
