//! The settle: what attempts came to, in one transaction and a few statements. Where they fail, the caller tries every
//! settlement alone (without what the other side said, at last), so that one row that cannot be written does not hold up the others.

use std::collections::BTreeMap;
use std::collections::HashMap;

use chrono::DateTime;
use chrono::Utc;
use sqlx::PgConnection;
use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::store::KeptMessage;
use crate::store::Settled;
use crate::store::Settlement;
use crate::store::StoreError;
use crate::store::ending::shortened;
use crate::store::postgres::alarms;
use crate::store::postgres::columns::cut;
use crate::store::postgres::columns::ids;
use crate::store::postgres::ledger;
use crate::store::postgres::limits;
use crate::store::postgres::sessions;
use crate::store::row::Columns;
use crate::store::row::all;
use crate::store::settling;
use crate::store::settling::Held;
use crate::store::settling::Retry;
use crate::trigger::SessionId;
use crate::trigger::TriggerId;

/// Settles a batch that names no trigger twice.
pub async fn settle(
    conn: &mut PgConnection,
    batch: &[Settlement],
    now: DateTime<Utc>,
) -> Result<Vec<Settled>, StoreError> {
    let rows = locked(conn, batch).await?;
    alarms::hold(conn, batch.iter().map(|settlement| &settlement.id)).await?;
    let held = held(conn, &rows, batch, now).await?;
    let (plan, settled) = settling::plan(batch, &held, now);
    ledger::record_endings(conn, &plan.endings, now).await?;
    ledger::improve(conn, &plan.improvements, now).await?;
    ledger::add_to_reports(conn, &plan.reported).await?;
    ledger::delete_sending(conn, &plan.ended).await?;
    delete_overtaken(conn, &plan.overtaken).await?;
    retry(conn, &plan.retries).await?;
    keep(conn, &plan.kept).await?;
    limits::spend(conn, &plan.spent, now).await?;
    limits::give_back(conn, &plan.given_back).await?;
    Ok(settled)
}

/// The rows of the triggers, locked.
async fn locked(conn: &mut PgConnection, batch: &[Settlement]) -> Result<Vec<PgRow>, StoreError> {
    let rows = sqlx::query(
        "-- settle
         SELECT id, owner, state, channel, generation, session, attempt_token, withdrawn, due_at
         FROM alarm_trigger WHERE id = ANY($1) ORDER BY id FOR UPDATE",
    )
    .bind(ids(batch.iter().map(|settlement| &settlement.id)))
    .fetch_all(conn)
    .await?;
    Ok(rows)
}

/// The triggers of locked rows. Those that cannot be read are set aside, with nothing but that: their owners are held.
async fn held(
    conn: &mut PgConnection,
    rows: &[PgRow],
    batch: &[Settlement],
    now: DateTime<Utc>,
) -> Result<HashMap<TriggerId, Result<Held, ()>>, StoreError> {
    let ranks = ranks(conn, batch).await?;
    let mut held = HashMap::with_capacity(rows.len());
    for row in rows {
        let id = Columns::new("alarm_trigger", "id", row).id()?;
        let read = match settling::read(row, ranks.get(&id).copied().unwrap_or_default()) {
            Ok(read) => Ok(read),
            Err(complaint) => {
                ledger::set_aside(conn, row.try_get("id")?, &complaint, now).await?;
                Err(())
            }
        };
        held.insert(id, read);
    }
    Ok(held)
}

/// What history knows of those of which it knows something: that an earlier attempt may have handed it over, or, taken for
/// lost, said meanwhile that it did. Read after the triggers are locked, when nobody can say it any more.
async fn ranks(conn: &mut PgConnection, batch: &[Settlement]) -> Result<HashMap<TriggerId, u8>, StoreError> {
    let rows = sqlx::query(
        "-- settle: ranks
         SELECT id, rank FROM delivery WHERE id = ANY($1) AND rank >= 2",
    )
    .bind(ids(batch.iter().map(|settlement| &settlement.id)))
    .fetch_all(conn)
    .await?;
    rows.iter()
        .map(|row| {
            let columns = Columns::new("delivery", "id", row);
            Ok((columns.id()?, columns.number("rank")?))
        })
        .collect()
}

/// Deletes rows that turn out to have been handed over, and that nobody is sending.
pub async fn delete_overtaken(conn: &mut PgConnection, overtaken: &[TriggerId]) -> Result<(), StoreError> {
    if overtaken.is_empty() {
        return Ok(());
    }
    let done = sqlx::query(
        "-- settle: overtaken
         DELETE FROM alarm_trigger WHERE state <> 'sending' AND id = ANY($1)",
    )
    .bind(ids(overtaken))
    .execute(conn)
    .await?;
    all(done.rows_affected(), overtaken.len(), "settle: overtaken")
}

async fn retry(conn: &mut PgConnection, retries: &[Retry<'_>]) -> Result<(), StoreError> {
    if retries.is_empty() {
        return Ok(());
    }
    let done = sqlx::query(
        "-- settle: retry
         UPDATE alarm_trigger AS t SET state = 'claimed', due_at = j.due_at, attempts = t.attempts + j.counts,
             last_error = j.error, payload = j.payload, attempt_token = NULL, attempt_started = NULL
         FROM unnest($1::bytea[], $2::bigint[], $3::timestamptz[], $4::bigint[], $5::text[], $6::text[])
             AS j (id, token, due_at, counts, error, payload)
         WHERE t.id = j.id AND t.id = ANY($1) AND t.state = 'sending' AND NOT t.withdrawn
           AND t.attempt_token = j.token",
    )
    .bind(
        retries
            .iter()
            .map(|retry| retry.id.0.to_vec())
            .collect::<Vec<_>>(),
    )
    .bind(retries.iter().map(|retry| retry.token.0).collect::<Vec<_>>())
    .bind(retries.iter().map(|retry| cut(retry.due_at)).collect::<Vec<_>>())
    .bind(
        retries
            .iter()
            .map(|retry| i64::from(retry.counts))
            .collect::<Vec<_>>(),
    )
    .bind(
        retries
            .iter()
            .map(|retry| shortened(retry.error))
            .collect::<Vec<_>>(),
    )
    .bind(retries.iter().map(|retry| retry.payload).collect::<Vec<_>>())
    .execute(&mut *conn)
    .await?;
    all(done.rows_affected(), retries.len(), "settle: retry")?;
    let mut reached: BTreeMap<i64, DateTime<Utc>> = BTreeMap::new();
    for retry in retries {
        if let Some(session) = retry.session {
            let until = reached.entry(session.0).or_insert(retry.due_at);
            *until = retry.due_at.max(*until);
        }
    }
    for (session, until) in reached {
        sessions::reach(conn, SessionId(session), until).await?;
    }
    Ok(())
}

/// Keeps messages where the history has its row; the text of one that was sent twice is the last one.
async fn keep(
    conn: &mut PgConnection,
    kept: &[(TriggerId, DateTime<Utc>, &KeptMessage)],
) -> Result<(), StoreError> {
    if kept.is_empty() {
        return Ok(());
    }
    let each = |part: fn(&KeptMessage) -> &str| kept.iter().map(|(.., it)| part(it)).collect::<Vec<_>>();
    sqlx::query(
        "-- settle: keep
         INSERT INTO outbox (id, owner, handed_over_at, recipient, subject, text, raw)
         SELECT d.id, d.owner, j.handed_over_at, j.recipient, j.subject, j.text, j.raw
         FROM unnest($1::bytea[], $2::timestamptz[], $3::text[], $4::text[], $5::text[], $6::text[])
             AS j (id, handed_over_at, recipient, subject, text, raw)
         JOIN delivery AS d ON d.id = j.id
         WHERE d.id = ANY($1)
         ORDER BY d.id
         ON CONFLICT (id) DO UPDATE SET
             handed_over_at = excluded.handed_over_at, recipient = excluded.recipient, subject = excluded.subject,
             text = excluded.text, raw = excluded.raw",
    )
    .bind(kept.iter().map(|(id, ..)| id.0.to_vec()).collect::<Vec<_>>())
    .bind(kept.iter().map(|(_, at, _)| cut(*at)).collect::<Vec<_>>())
    .bind(each(|message| &message.to))
    .bind(each(|message| &message.subject))
    .bind(each(|message| &message.text))
    .bind(each(|message| &message.raw))
    .execute(conn)
    .await?;
    Ok(())
}
