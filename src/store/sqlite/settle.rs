//! The settle: what attempts came to, in one transaction. All of a batch is written in a few statements; where they
//! fail, every settlement is tried alone, so that one row that cannot be written does not hold up the others.

use std::collections::HashMap;

use chrono::DateTime;
use chrono::Utc;
use sqlx::Connection;
use sqlx::Row;
use sqlx::SqliteConnection;
use tracing::error;

use crate::store::KeptMessage;
use crate::store::Settled;
use crate::store::Settlement;
use crate::store::StoreError;
use crate::store::ending::shortened;
use crate::store::row::Columns;
use crate::store::row::all;
use crate::store::row::list;
use crate::store::row::millis;
use crate::store::settling;
use crate::store::settling::Held;
use crate::store::settling::Plan;
use crate::store::settling::Retry;
use crate::store::sqlite::ledger;
use crate::store::sqlite::limits;
use crate::store::sqlite::sessions;
use crate::trigger::SessionId;
use crate::trigger::TriggerId;

/// Settles in order. A batch that names a trigger twice is cut there, since the second settlement must see the first.
pub async fn settle(
    conn: &mut SqliteConnection,
    settlements: &[Settlement],
    now: DateTime<Utc>,
) -> Result<Vec<Settled>, StoreError> {
    let mut settled = Vec::with_capacity(settlements.len());
    let mut rest = settlements;
    while !rest.is_empty() {
        let length = settling::distinct(rest);
        let (batch, later) = rest.split_at(length);
        settled.extend(settle_distinct(conn, batch, now).await?);
        rest = later;
    }
    Ok(settled)
}

async fn settle_distinct(
    conn: &mut SqliteConnection,
    batch: &[Settlement],
    now: DateTime<Utc>,
) -> Result<Vec<Settled>, StoreError> {
    match in_savepoint(conn, batch, now).await {
        Ok(settled) => return Ok(settled),
        Err(StoreError::Unavailable(cause)) => return Err(StoreError::Unavailable(cause)),
        Err(cause) => error!(%cause, "a settle fails and is split"),
    }
    let mut settled = Vec::with_capacity(batch.len());
    for settlement in batch {
        settled.push(settle_alone(conn, settlement, now).await?);
    }
    Ok(settled)
}

/// One settlement; where even that fails, the bare outcome without what the other side sent; where that fails too, the
/// row is left for the rescue.
async fn settle_alone(
    conn: &mut SqliteConnection,
    settlement: &Settlement,
    now: DateTime<Utc>,
) -> Result<Settled, StoreError> {
    for attempt in [settlement.clone(), settling::bare(settlement)] {
        match in_savepoint(conn, std::slice::from_ref(&attempt), now).await {
            Ok(settled) => return Ok(settled.first().copied().unwrap_or(Settled::Lost)),
            Err(StoreError::Unavailable(cause)) => return Err(StoreError::Unavailable(cause)),
            Err(cause) => error!(trigger.id = %settlement.id, %cause, "a trigger cannot be settled"),
        }
    }
    Ok(Settled::Poisoned)
}

async fn in_savepoint(
    conn: &mut SqliteConnection,
    batch: &[Settlement],
    now: DateTime<Utc>,
) -> Result<Vec<Settled>, StoreError> {
    let mut savepoint = conn.begin().await?;
    let settled = write(&mut savepoint, batch, now).await?;
    savepoint.commit().await?;
    Ok(settled)
}

async fn write(
    conn: &mut SqliteConnection,
    batch: &[Settlement],
    now: DateTime<Utc>,
) -> Result<Vec<Settled>, StoreError> {
    let held = held(conn, batch, now).await?;
    let (plan, settled) = settling::plan(batch, &held, now);
    carry_out(conn, &plan, now).await?;
    Ok(settled)
}

/// The rows of the triggers. Those that cannot be read are set aside, with nothing but that.
async fn held(
    conn: &mut SqliteConnection,
    batch: &[Settlement],
    now: DateTime<Utc>,
) -> Result<HashMap<TriggerId, Result<Held, ()>>, StoreError> {
    let names: Vec<String> = batch.iter().map(|settlement| settlement.id.to_string()).collect();
    let rows = sqlx::query(
        "-- settle
         SELECT t.id, t.owner, state, t.channel, generation, session, attempt_token, withdrawn, due_at,
             coalesce(d.rank, 0) AS rank
         FROM alarm_trigger AS t LEFT JOIN delivery AS d ON d.id = t.id
         WHERE t.id IN (SELECT unhex(value) FROM json_each(?1))",
    )
    .bind(list(&names))
    .fetch_all(&mut *conn)
    .await?;
    let mut held = HashMap::with_capacity(rows.len());
    for row in &rows {
        let columns = Columns::new("alarm_trigger", "id", row);
        let read = match settling::read(row, columns.number("rank")?) {
            Ok(read) => Ok(read),
            Err(complaint) => {
                ledger::set_aside(conn, row.try_get("id")?, &complaint, now).await?;
                Err(())
            }
        };
        held.insert(columns.id()?, read);
    }
    Ok(held)
}

async fn carry_out(
    conn: &mut SqliteConnection,
    plan: &Plan<'_>,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    ledger::record_endings(conn, &plan.endings, now).await?;
    ledger::improve(conn, &plan.improvements, now).await?;
    ledger::add_to_reports(conn, &plan.reported).await?;
    ledger::delete_sending(conn, &plan.ended).await?;
    delete_overtaken(conn, &plan.overtaken).await?;
    retry(conn, &plan.retries).await?;
    for (id, handed_over_at, kept) in &plan.kept {
        keep(conn, *id, *handed_over_at, kept).await?;
    }
    limits::spend(conn, &plan.spent, now).await?;
    limits::give_back(conn, &plan.given_back).await
}

/// Deletes rows that turn out to have been handed over, and that nobody is sending.
pub async fn delete_overtaken(conn: &mut SqliteConnection, ids: &[TriggerId]) -> Result<(), StoreError> {
    if ids.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = ids.iter().map(TriggerId::to_string).collect();
    let done = sqlx::query(
        "-- settle: overtaken
         DELETE FROM alarm_trigger
         WHERE state <> 'sending' AND id IN (SELECT unhex(value) FROM json_each(?1))",
    )
    .bind(list(&names))
    .execute(conn)
    .await?;
    all(done.rows_affected(), ids.len(), "settle: overtaken")
}

async fn retry(conn: &mut SqliteConnection, retries: &[Retry<'_>]) -> Result<(), StoreError> {
    if retries.is_empty() {
        return Ok(());
    }
    let listed: Vec<_> = retries
        .iter()
        .map(|retry| {
            let counts = i64::from(retry.counts);
            let (id, token) = (retry.id.to_string(), retry.token.0);
            let error = shortened(retry.error);
            (id, token, millis(retry.due_at), counts, error, retry.payload)
        })
        .collect();
    let done = sqlx::query(
        "-- settle: retry
         UPDATE alarm_trigger SET state = 'claimed', due_at = j.value ->> 2, attempts = attempts + (j.value ->> 3),
             last_error = j.value ->> 4, payload = j.value ->> 5, attempt_token = NULL, attempt_started = NULL
         FROM json_each(?1) AS j
         WHERE alarm_trigger.id = unhex(j.value ->> 0) AND state = 'sending' AND withdrawn = 0
           AND attempt_token = j.value ->> 1",
    )
    .bind(list(&listed))
    .execute(&mut *conn)
    .await?;
    all(done.rows_affected(), retries.len(), "settle: retry")?;
    let mut reached: HashMap<SessionId, DateTime<Utc>> = HashMap::new();
    for retry in retries {
        if let Some(session) = retry.session {
            let until = reached.entry(session).or_insert(retry.due_at);
            *until = retry.due_at.max(*until);
        }
    }
    for (session, until) in reached {
        sessions::reach(conn, session, until).await?;
    }
    Ok(())
}

/// Keeps a message where the history has its row; the text of one that was sent twice is the last one.
async fn keep(
    conn: &mut SqliteConnection,
    id: TriggerId,
    handed_over_at: DateTime<Utc>,
    kept: &KeptMessage,
) -> Result<(), StoreError> {
    sqlx::query(
        "-- settle: keep
         INSERT INTO outbox (id, owner, handed_over_at, recipient, subject, text, raw)
         SELECT id, owner, ?2, ?3, ?4, ?5, ?6 FROM delivery WHERE id = ?1
         ON CONFLICT (id) DO UPDATE SET
             handed_over_at = excluded.handed_over_at, recipient = excluded.recipient, subject = excluded.subject,
             text = excluded.text, raw = excluded.raw",
    )
    .bind(&id.0[..])
    .bind(millis(handed_over_at))
    .bind(&kept.to)
    .bind(&kept.subject)
    .bind(&kept.text)
    .bind(&kept.raw)
    .execute(conn)
    .await?;
    Ok(())
}
