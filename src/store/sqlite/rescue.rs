//! What lapsed: claims of dead sessions, overdue claims, and attempts nobody will end any more. The rows at the head of
//! the due index are judged one by one by a pure function, and moved in one statement per kind.

use chrono::DateTime;
use chrono::Utc;
use sqlx::Row;
use sqlx::SqliteConnection;

use crate::store::RescueRules;
use crate::store::Rescued;
use crate::store::StoreError;
use crate::store::lapse;
use crate::store::lapse::Held;
use crate::store::lapse::Lapse;
use crate::store::row::all;
use crate::store::row::list;
use crate::store::row::millis;
use crate::store::sqlite::ledger;
use crate::trigger::SessionId;
use crate::trigger::TriggerId;
use crate::trigger::outcome::Reason;

/// Frees lapsed claims: all that dead sessions have claimed, and what else lapsed among the first `limit` rows of the
/// due index.
pub async fn rescue(
    conn: &mut SqliteConnection,
    rules: &RescueRules,
    limit: u32,
    now: DateTime<Utc>,
) -> Result<Rescued, StoreError> {
    let dead_session = free_dead(conn, rules, now).await?;
    let rows = sqlx::query(
        "-- rescue
         SELECT t.id, t.state, t.channel, t.withdrawn, t.due_at, t.processed, t.attempt_token, t.attempt_started,
             s.beat_at,
             t.state = 'sending' AND EXISTS (SELECT 1 FROM delivery WHERE id = t.id AND rank >= 3) AS handed_over
         FROM (SELECT id, due_at FROM alarm_trigger
               WHERE due_at <= max(?1, (SELECT coalesce(max(held_until), ?1) FROM session))
               ORDER BY due_at, id LIMIT ?2) AS head
         CROSS JOIN alarm_trigger AS t ON t.id = head.id
         LEFT JOIN session AS s ON s.id = t.session
         WHERE t.state <> 'planned'",
    )
    .bind(millis(now))
    .bind(limit)
    .fetch_all(&mut *conn)
    .await?;
    let mut lapsed = Vec::new();
    for row in &rows {
        match lapse::held(row) {
            Ok(held) => lapsed.push((held, lapse::lapse(&held, rules, now))),
            Err(complaint) => ledger::set_aside(conn, row.try_get("id")?, &complaint, now).await?,
        }
    }
    let rescued = put_right(conn, &lapsed, now).await?;
    Ok(Rescued {
        dead_session: rescued.dead_session + dead_session,
        ..rescued
    })
}

/// Gives back at once, and all together, what sessions have claimed that show no sign of life. What they are sending is
/// left until nobody can be sending it any more.
async fn free_dead(
    conn: &mut SqliteConnection,
    rules: &RescueRules,
    now: DateTime<Utc>,
) -> Result<u64, StoreError> {
    let done = sqlx::query(
        "-- rescue: free dead
         UPDATE alarm_trigger
         SET state = 'planned', processed = NULL, session = NULL, generation = generation + 1
         WHERE state = 'claimed' AND id IN (
             SELECT t.id FROM session AS dead CROSS JOIN alarm_trigger AS t
                 ON t.due_at <= dead.held_until AND t.session = dead.id AND t.state = 'claimed'
             WHERE dead.beat_at < ?1)",
    )
    .bind(millis(now - rules.dead_after))
    .execute(conn)
    .await?;
    Ok(done.rows_affected())
}

/// Frees all that a session held whose process is known to be gone.
pub async fn take_over(
    conn: &mut SqliteConnection,
    session: SessionId,
    rules: &RescueRules,
    now: DateTime<Utc>,
) -> Result<Rescued, StoreError> {
    let rows = sqlx::query(
        "-- take_over
         SELECT id, state, channel, withdrawn, due_at, processed, attempt_token, attempt_started, NULL AS beat_at,
             state = 'sending' AND EXISTS (SELECT 1 FROM delivery AS d WHERE d.id = t.id AND d.rank >= 3) AS handed_over
         FROM alarm_trigger AS t
         WHERE due_at <= (SELECT held_until FROM session WHERE id = ?1) AND session = ?1
         ORDER BY due_at, id",
    )
    .bind(session.0)
    .fetch_all(&mut *conn)
    .await?;
    let mut lapsed = Vec::new();
    for row in &rows {
        match lapse::held(row) {
            Ok(held) => lapsed.push((held, lapse::stopped(&held, rules))),
            Err(complaint) => ledger::set_aside(conn, row.try_get("id")?, &complaint, now).await?,
        }
    }
    put_right(conn, &lapsed, now).await
}

async fn put_right(
    conn: &mut SqliteConnection,
    lapsed: &[(Held, Lapse)],
    now: DateTime<Utc>,
) -> Result<Rescued, StoreError> {
    let ids = |kind: Lapse| lapse::ids(lapsed, kind);
    let doubtful = lapse::doubtful(lapsed);
    let attempts = lapse::attempts(lapsed);
    ledger::record_endings(conn, &doubtful, now).await?;
    ledger::delete_sending(conn, &attempts).await?;
    Ok(Rescued {
        dead_session: free(conn, &ids(Lapse::Dead)).await?,
        overdue: free(conn, &ids(Lapse::Overdue)).await?,
        in_doubt_retried: try_again(conn, &ids(Lapse::Retry)).await?,
        in_doubt_recorded: attempts.len() as u64,
    })
}

async fn free(conn: &mut SqliteConnection, ids: &[TriggerId]) -> Result<u64, StoreError> {
    if ids.is_empty() {
        return Ok(0);
    }
    let names: Vec<String> = ids.iter().map(TriggerId::to_string).collect();
    let done = sqlx::query(
        "-- rescue: free
         UPDATE alarm_trigger
         SET state = 'planned', processed = NULL, session = NULL, generation = generation + 1
         WHERE state = 'claimed' AND id IN (SELECT unhex(value) FROM json_each(?1))",
    )
    .bind(list(&names))
    .execute(conn)
    .await?;
    all(done.rows_affected(), ids.len(), "rescue: free")?;
    Ok(done.rows_affected())
}

async fn try_again(conn: &mut SqliteConnection, ids: &[TriggerId]) -> Result<u64, StoreError> {
    if ids.is_empty() {
        return Ok(0);
    }
    let names: Vec<String> = ids.iter().map(TriggerId::to_string).collect();
    let done = sqlx::query(
        "-- rescue: try again
         UPDATE alarm_trigger
         SET state = 'planned', processed = NULL, session = NULL, generation = generation + 1,
             attempts = attempts + 1, attempt_token = NULL, attempt_started = NULL, last_error = ?2
         WHERE state = 'sending' AND withdrawn = 0 AND id IN (SELECT unhex(value) FROM json_each(?1))",
    )
    .bind(list(&names))
    .bind(Reason::HolderLost.as_str())
    .execute(conn)
    .await?;
    all(done.rows_affected(), ids.len(), "rescue: try again")?;
    Ok(done.rows_affected())
}
