//! Sessions: one start of one node each, and what it leaves behind when it ends or starts again.

use chrono::DateTime;
use chrono::Utc;
use sqlx::PgConnection;
use sqlx::Row;

use crate::store::Living;
use crate::store::Report;
use crate::store::RescueRules;
use crate::store::Rescued;
use crate::store::StoreError;
use crate::store::postgres::Time;
use crate::store::postgres::columns::cut;
use crate::store::postgres::rescue;
use crate::store::row;
use crate::trigger::SessionId;

/// Starts a session; earlier ones of the same node are known to have stopped.
pub async fn begin(
    conn: &mut PgConnection,
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
         INSERT INTO session (node, started_at, beat_at, held_until, delivers) VALUES ($1, $2, $2, $2, false) RETURNING id",
    )
    .bind(node)
    .bind(now)
    .fetch_one(conn)
    .await?;
    Ok((SessionId(row.try_get("id")?), rescued))
}

async fn of_node(conn: &mut PgConnection, node: &str) -> Result<Vec<SessionId>, StoreError> {
    let ids: Vec<i64> = sqlx::query_scalar(
        "-- begin_session: earlier ones
         SELECT id FROM session WHERE node = $1 ORDER BY id FOR UPDATE",
    )
    .bind(node)
    .fetch_all(conn)
    .await?;
    Ok(ids.into_iter().map(SessionId).collect())
}

/// A sign of life. False where the session was ended by somebody else.
pub async fn beat(
    conn: &mut PgConnection,
    session: SessionId,
    says: Report,
    time: &Time,
) -> Result<bool, StoreError> {
    // Whoever is giving it something may take a while. The time is asked after that: it lives when it says so.
    sqlx::query(
        "-- beat: lock
         SELECT 1 FROM session WHERE id = $1 FOR NO KEY UPDATE",
    )
    .bind(session.0)
    .execute(&mut *conn)
    .await?;
    let now = time.now(conn).await?;
    let done = sqlx::query(
        "-- beat
         UPDATE session SET beat_at = $2, delivers = $3, peer = $4, pending = $5 WHERE id = $1",
    )
    .bind(session.0)
    .bind(now)
    .bind(says.delivers)
    .bind(says.peer)
    .bind(i64::try_from(says.pending).unwrap_or(i64::MAX))
    .execute(conn)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// Fails where the server's disk is full. A beat replaces a row within its page, which needs no room; a result that exceeds
/// `work_mem` needs a temporary file, beside the tables unless `temp_tablespaces` says otherwise.
pub async fn prove_room(conn: &mut PgConnection) -> Result<(), StoreError> {
    sqlx::query(
        "-- beat: little memory
         SET LOCAL work_mem = '64kB'",
    )
    .execute(&mut *conn)
    .await?;
    sqlx::query(
        "-- beat: room
         SELECT count(*) FROM generate_series(1, 8000)",
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// The sessions that deliver and have shown a sign of life at or after `since`.
pub async fn living(conn: &mut PgConnection, since: DateTime<Utc>) -> Result<Vec<Living>, StoreError> {
    let rows = sqlx::query(
        "-- living
         SELECT id, peer, pending FROM session WHERE beat_at >= $1 AND delivers ORDER BY id",
    )
    .bind(since)
    .fetch_all(conn)
    .await?;
    rows.iter().map(row::living).collect()
}

/// Gives back what a session has claimed, and lets it be given nothing more. What it is sending stays its own until it
/// settles.
pub async fn give_back(conn: &mut PgConnection, session: SessionId) -> Result<u64, StoreError> {
    // Whoever is giving it something finishes first.
    sqlx::query(
        "-- give_back: delivers no more
         UPDATE session SET delivers = false WHERE id = $1",
    )
    .bind(session.0)
    .execute(&mut *conn)
    .await?;
    let done = sqlx::query(
        "-- give_back
         UPDATE alarm_trigger
         SET state = 'planned', processed = NULL, session = NULL, generation = generation + 1
         WHERE state = 'claimed' AND id = ANY(ARRAY(
             SELECT id FROM alarm_trigger WHERE session = $1 AND state = 'claimed' AND id = ANY(ARRAY(
                 SELECT id FROM alarm_trigger
                 WHERE due_at <= (SELECT held_until FROM session WHERE id = $1)
                   AND coalesce(session = $1 AND state = 'claimed', false)
                 ORDER BY due_at, id LIMIT (SELECT $2::bigint)))
             ORDER BY id FOR UPDATE))",
    )
    .bind(session.0)
    .bind(i64::MAX)
    .execute(&mut *conn)
    .await?;
    Ok(done.rows_affected())
}

/// Ends a session, which gives back what it has claimed.
pub async fn end(conn: &mut PgConnection, session: SessionId) -> Result<u64, StoreError> {
    let given_back = give_back(conn, session).await?;
    delete(conn, session).await?;
    Ok(given_back)
}

/// Forgets a session.
pub async fn delete(conn: &mut PgConnection, session: SessionId) -> Result<(), StoreError> {
    sqlx::query(
        "-- end_session: forget
         DELETE FROM session WHERE id = $1",
    )
    .bind(session.0)
    .execute(conn)
    .await?;
    Ok(())
}

/// Notes that the session is about to hold what is due up to `until`. False where there is no such session: an ended
/// one is given nothing. The row stays locked, so that nobody ends the session before what it is given is committed.
pub async fn reach(
    conn: &mut PgConnection,
    session: SessionId,
    until: DateTime<Utc>,
) -> Result<bool, StoreError> {
    let done = sqlx::query(
        "-- reach
         UPDATE session SET held_until = greatest(held_until, $2) WHERE id = $1",
    )
    .bind(session.0)
    .bind(cut(until))
    .execute(conn)
    .await?;
    Ok(done.rows_affected() == 1)
}
