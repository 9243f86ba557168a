//! What lapsed: claims of dead sessions, overdue claims, and attempts nobody will end any more. The rows at the head of
//! the due index are judged one by one by a pure function; what lapsed is locked, judged again, and moved in one
//! statement per kind.

use chrono::DateTime;
use chrono::Utc;
use sqlx::PgConnection;
use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::store::RescueRules;
use crate::store::Rescued;
use crate::store::StoreError;
use crate::store::lapse;
use crate::store::lapse::Held;
use crate::store::lapse::Lapse;
use crate::store::postgres::alarms;
use crate::store::postgres::columns::cut;
use crate::store::postgres::columns::ids;
use crate::store::postgres::ledger;
use crate::store::row::Columns;
use crate::store::row::all;
use crate::trigger::SessionId;
use crate::trigger::TriggerId;
use crate::trigger::outcome::Reason;

/// Frees lapsed claims: all that dead sessions have claimed, and what else lapsed among the first `limit` rows of the
/// due index.
pub async fn rescue(
    conn: &mut PgConnection,
    rules: &RescueRules,
    limit: u32,
    now: DateTime<Utc>,
) -> Result<Rescued, StoreError> {
    let dead_session = free_dead(conn, rules, now).await?;
    let head = sqlx::query(
        "-- rescue
         SELECT t.id, t.state, t.channel, t.withdrawn, t.due_at, t.processed, t.attempt_token, t.attempt_started,
             (SELECT beat_at FROM session WHERE id = t.session) AS beat_at, false AS handed_over
         FROM (SELECT id, state, channel, withdrawn, due_at, processed, attempt_token, attempt_started, session
               FROM alarm_trigger
               WHERE due_at <= greatest($1, (SELECT max(held_until) FROM session))
               ORDER BY due_at, id LIMIT (SELECT $2::bigint)) AS t
         WHERE t.state <> 'planned'",
    )
    .bind(now)
    .bind(i64::from(limit))
    .fetch_all(&mut *conn)
    .await?;
    let suspects = head
        .iter()
        .filter(|row| lapse::held(*row).map_or(true, |held| lapse::lapse(&held, rules, now) != Lapse::Not));
    let suspects: Vec<Vec<u8>> = suspects.map(|row| row.try_get("id")).collect::<Result<_, _>>()?;
    let rows = locked(conn, suspects).await?;
    let rescued = put_right(conn, &rows, |held| lapse::lapse(held, rules, now), now).await?;
    Ok(Rescued {
        dead_session: rescued.dead_session + dead_session,
        ..rescued
    })
}

/// Gives back at once, and all together, what sessions have claimed that show no sign of life. What they are sending is
/// left until nobody can be sending it any more.
async fn free_dead(
    conn: &mut PgConnection,
    rules: &RescueRules,
    now: DateTime<Utc>,
) -> Result<u64, StoreError> {
    let dead: Vec<i64> = sqlx::query_scalar(
        "-- rescue: dead sessions
         SELECT id FROM session WHERE beat_at < $1 ORDER BY id FOR UPDATE SKIP LOCKED",
    )
    .bind(cut(now - rules.dead_after))
    .fetch_all(&mut *conn)
    .await?;
    let mut freed = 0;
    for session in dead {
        let done = sqlx::query(
            "-- rescue: free dead
             UPDATE alarm_trigger
             SET state = 'planned', processed = NULL, session = NULL, generation = generation + 1
             WHERE state = 'claimed' AND id = ANY(ARRAY(
                 SELECT id FROM alarm_trigger
                 WHERE due_at <= (SELECT held_until FROM session WHERE id = $1)
                   AND coalesce(session = $1 AND state = 'claimed', false)
                 ORDER BY due_at, id LIMIT (SELECT $2::bigint) FOR UPDATE SKIP LOCKED))",
        )
        .bind(session)
        .bind(i64::MAX)
        .execute(&mut *conn)
        .await?;
        freed += done.rows_affected();
    }
    Ok(freed)
}

/// Frees all that a session held whose process is known to be gone.
pub async fn take_over(
    conn: &mut PgConnection,
    session: SessionId,
    rules: &RescueRules,
    now: DateTime<Utc>,
) -> Result<Rescued, StoreError> {
    let rows = sqlx::query(
        "-- take_over
         SELECT id, state, channel, withdrawn, due_at, processed, attempt_token, attempt_started,
             NULL::timestamptz AS beat_at,
             state = 'sending' AND EXISTS (SELECT 1 FROM delivery AS d WHERE d.id = t.id AND d.rank >= 3 OFFSET 0)
                 AS handed_over
         FROM alarm_trigger AS t
         WHERE session = $1 AND id = ANY(ARRAY(
             SELECT id FROM alarm_trigger
             WHERE due_at <= (SELECT held_until FROM session WHERE id = $1) AND coalesce(session = $1, false)
             ORDER BY due_at, id LIMIT (SELECT $2::bigint)))
         ORDER BY id FOR UPDATE",
    )
    .bind(session.0)
    .bind(i64::MAX)
    .fetch_all(&mut *conn)
    .await?;
    put_right(conn, &rows, |held| lapse::stopped(held, rules), now).await
}

/// The rows again, locked; those that somebody else is about to change are passed over. The beat is looked up for the
/// row as it is once locked: a join would still be with the session that held it before.
async fn locked(conn: &mut PgConnection, suspects: Vec<Vec<u8>>) -> Result<Vec<PgRow>, StoreError> {
    if suspects.is_empty() {
        return Ok(Vec::new());
    }
    let rows = sqlx::query(
        "-- rescue: lock
         SELECT t.id, t.state, t.channel, t.withdrawn, t.due_at, t.processed, t.attempt_token, t.attempt_started,
             (SELECT beat_at FROM session WHERE id = t.session) AS beat_at,
             t.state = 'sending' AND EXISTS (SELECT 1 FROM delivery WHERE id = t.id AND rank >= 3 OFFSET 0) AS handed_over
         FROM alarm_trigger AS t
         WHERE t.id = ANY($1) AND t.state <> 'planned'
         ORDER BY t.id FOR UPDATE OF t SKIP LOCKED",
    )
    .bind(suspects)
    .fetch_all(conn)
    .await?;
    Ok(rows)
}

/// Judges locked rows and moves those that lapsed.
async fn put_right(
    conn: &mut PgConnection,
    rows: &[PgRow],
    judge: impl Fn(&Held) -> Lapse + Send,
    now: DateTime<Utc>,
) -> Result<Rescued, StoreError> {
    let (mut lapsed, mut unreadable) = (Vec::new(), Vec::new());
    for row in rows {
        match lapse::held(row) {
            Ok(held) => lapsed.push((held, judge(&held))),
            Err(complaint) => unreadable.push((Columns::new("alarm_trigger", "id", row).id()?, complaint)),
        }
    }
    let of = |kind: Lapse| lapse::ids(&lapsed, kind);
    let attempts = lapse::attempts(&lapsed);
    let doubtful = lapse::doubtful(&lapsed);
    let told = doubtful.iter().map(|ending| &ending.id);
    alarms::hold(conn, told.chain(unreadable.iter().map(|(id, _)| id))).await?;
    for (id, complaint) in &unreadable {
        ledger::set_aside(conn, &id.0, complaint, now).await?;
    }
    ledger::record_endings(conn, &doubtful, now).await?;
    ledger::delete_sending(conn, &attempts).await?;
    Ok(Rescued {
        dead_session: free(conn, &of(Lapse::Dead)).await?,
        overdue: free(conn, &of(Lapse::Overdue)).await?,
        in_doubt_retried: try_again(conn, &of(Lapse::Retry)).await?,
        in_doubt_recorded: attempts.len() as u64,
    })
}

async fn free(conn: &mut PgConnection, freed: &[TriggerId]) -> Result<u64, StoreError> {
    if freed.is_empty() {
        return Ok(0);
    }
    let done = sqlx::query(
        "-- rescue: free
         UPDATE alarm_trigger
         SET state = 'planned', processed = NULL, session = NULL, generation = generation + 1
         WHERE state = 'claimed' AND id = ANY($1)",
    )
    .bind(ids(freed))
    .execute(conn)
    .await?;
    all(done.rows_affected(), freed.len(), "rescue: free")?;
    Ok(done.rows_affected())
}

async fn try_again(conn: &mut PgConnection, freed: &[TriggerId]) -> Result<u64, StoreError> {
    if freed.is_empty() {
        return Ok(0);
    }
    let done = sqlx::query(
        "-- rescue: try again
         UPDATE alarm_trigger
         SET state = 'planned', processed = NULL, session = NULL, generation = generation + 1,
             attempts = attempts + 1, attempt_token = NULL, attempt_started = NULL, last_error = $2
         WHERE state = 'sending' AND NOT withdrawn AND id = ANY($1)",
    )
    .bind(ids(freed))
    .bind(Reason::HolderLost.as_str())
    .execute(conn)
    .await?;
    all(done.rows_affected(), freed.len(), "rescue: try again")?;
    Ok(done.rows_affected())
}
