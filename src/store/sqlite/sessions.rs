//! Sessions: one start of one node each, and what it leaves behind when it ends or starts again.

use chrono::DateTime;
use chrono::Utc;
use sqlx::Row;
use sqlx::SqliteConnection;

use crate::store::Living;
use crate::store::Report;
use crate::store::RescueRules;
use crate::store::Rescued;
use crate::store::StoreError;
use crate::store::row;
use crate::store::row::millis;
use crate::store::sqlite::rescue;
use crate::trigger::SessionId;

/// Starts a session; earlier ones of the same node are known to have stopped.
pub async fn begin(
    conn: &mut SqliteConnection,
    node: &str,
    rules: &RescueRules,
    now: DateTime<Utc>,
) -> Result<(SessionId, Rescued), StoreError> {
    let mut rescued = Rescued::default();
    for earlier in of_node(conn, node).await? {
        let freed = rescue::take_over(conn, earlier, rules, now).await?;
        rescued.dead_session += freed.dead_session;
        rescued.in_doubt_retried += freed.in_doubt_retried;
        rescued.in_doubt_recorded += freed.in_doubt_recorded;
        delete(conn, earlier).await?;
    }
    let row = sqlx::query(
        "-- begin_session
         INSERT INTO session (node, started_at, beat_at, held_until, delivers) VALUES (?1, ?2, ?2, ?2, 0) RETURNING id",
    )
    .bind(node)
    .bind(millis(now))
    .fetch_one(conn)
    .await?;
    Ok((SessionId(row.try_get("id")?), rescued))
}

async fn of_node(conn: &mut SqliteConnection, node: &str) -> Result<Vec<SessionId>, StoreError> {
    let ids: Vec<i64> = sqlx::query_scalar(
        "-- begin_session: earlier ones
         SELECT id FROM session WHERE node = ?1 ORDER BY id",
    )
    .bind(node)
    .fetch_all(conn)
    .await?;
    Ok(ids.into_iter().map(SessionId).collect())
}

/// A sign of life. False where the session was ended by somebody else.
pub async fn beat(
    conn: &mut SqliteConnection,
    session: SessionId,
    says: Report,
    now: DateTime<Utc>,
) -> Result<bool, StoreError> {
    let done = sqlx::query(
        "-- beat
         UPDATE session SET beat_at = ?2, delivers = ?3, peer = ?4, pending = ?5 WHERE id = ?1",
    )
    .bind(session.0)
    .bind(millis(now))
    .bind(says.delivers)
    .bind(says.peer)
    .bind(i64::try_from(says.pending).unwrap_or(i64::MAX))
    .execute(conn)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// The sessions that deliver and have shown a sign of life at or after `since`.
pub async fn living(conn: &mut SqliteConnection, since: DateTime<Utc>) -> Result<Vec<Living>, StoreError> {
    let rows = sqlx::query(
        "-- living
         SELECT id, peer, pending FROM session WHERE beat_at >= ?1 AND delivers ORDER BY id",
    )
    .bind(millis(since))
    .fetch_all(conn)
    .await?;
    rows.iter().map(row::living).collect()
}

/// Gives back what a session has claimed, and lets it be given nothing more. What it is sending stays its own until it
/// settles.
pub async fn give_back(conn: &mut SqliteConnection, session: SessionId) -> Result<u64, StoreError> {
    sqlx::query(
        "-- give_back: delivers no more
         UPDATE session SET delivers = 0 WHERE id = ?1",
    )
    .bind(session.0)
    .execute(&mut *conn)
    .await?;
    let done = sqlx::query(
        "-- give_back
         UPDATE alarm_trigger
         SET state = 'planned', processed = NULL, session = NULL, generation = generation + 1
         WHERE due_at <= (SELECT held_until FROM session WHERE id = ?1) AND session = ?1 AND state = 'claimed'",
    )
    .bind(session.0)
    .execute(&mut *conn)
    .await?;
    Ok(done.rows_affected())
}

/// Ends a session, which gives back what it has claimed.
pub async fn end(conn: &mut SqliteConnection, session: SessionId) -> Result<u64, StoreError> {
    let given_back = give_back(conn, session).await?;
    delete(conn, session).await?;
    Ok(given_back)
}

async fn delete(conn: &mut SqliteConnection, session: SessionId) -> Result<(), StoreError> {
    sqlx::query(
        "-- end_session
         DELETE FROM session WHERE id = ?1",
    )
    .bind(session.0)
    .execute(conn)
    .await?;
    Ok(())
}

/// Notes that the session is about to hold what is due up to `until`. False where there is no such session: an ended
/// one is given nothing.
pub async fn reach(
    conn: &mut SqliteConnection,
    session: SessionId,
    until: DateTime<Utc>,
) -> Result<bool, StoreError> {
    let done = sqlx::query(
        "-- reach
         UPDATE session SET held_until = max(held_until, ?2) WHERE id = ?1",
    )
    .bind(session.0)
    .bind(millis(until))
    .execute(conn)
    .await?;
    Ok(done.rows_affected() == 1)
}
