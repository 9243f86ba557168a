//! The settle: what attempts came to, in one transaction and a few statements. Where they fail, the caller tries every
//! settlement alone (without what the other side said, at last), so that one row that cannot be written does not hold up the others.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::collections::HashSet;

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
    hold_alarms(conn, &rows, batch).await?;
    let past = past(conn, batch).await?;
    let held = held(conn, &rows, &past, now).await?;
    let (mut plan, settled) = settling::plan(batch, &held, now);
    plan.spent.retain(|id| past.slots.contains(id));
    plan.given_back.retain(|(id, _)| past.slots.contains(id));
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
         SELECT id, owner, event_uid, state, channel, generation, session, attempt_token, withdrawn, due_at
         FROM alarm_trigger WHERE id = ANY($1) ORDER BY id FOR UPDATE",
    )
    .bind(ids(batch.iter().map(|settlement| &settlement.id)))
    .fetch_all(conn)
    .await?;
    Ok(rows)
}

/// Holds the owners of the stand-alone alarms among these. Of a trigger without a row its history says whose it was.
async fn hold_alarms(
    conn: &mut PgConnection,
    rows: &[PgRow],
    batch: &[Settlement],
) -> Result<(), StoreError> {
    let mut of_events = HashSet::with_capacity(rows.len());
    for row in rows {
        if !row.try_get::<String, _>("event_uid")?.starts_with(' ') {
            of_events.insert(Columns::new("alarm_trigger", "id", row).id()?);
        }
    }
    let ids = batch.iter().map(|settlement| &settlement.id);
    alarms::hold(conn, ids.filter(|id| !of_events.contains(*id))).await
}

/// What is known of triggers beside their rows.
struct Past {
    /// The ranks of their history.
    ranks: HashMap<TriggerId, u8>,
    /// Those that have a slot in a limit.
    slots: HashSet<TriggerId>,
}

/// The triggers of locked rows. Those that cannot be read are set aside, with nothing but that: their owners are held.
async fn held(
    conn: &mut PgConnection,
    rows: &[PgRow],
    past: &Past,
    now: DateTime<Utc>,
) -> Result<HashMap<TriggerId, Result<Held, ()>>, StoreError> {
    let mut held = HashMap::with_capacity(rows.len());
    for row in rows {
        let id = Columns::new("alarm_trigger", "id", row).id()?;
        let read = match settling::read(row, past.ranks.get(&id).copied().unwrap_or_default()) {
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

/// History rows and limit slots of the triggers in the batch. A row shows that an earlier attempt handed the message over, or
/// may have. Read after the triggers are locked, so that no other settle can add a row between the read and the write.
async fn past(conn: &mut PgConnection, batch: &[Settlement]) -> Result<Past, StoreError> {
    let rows = sqlx::query(
        "-- settle: past
         SELECT j.id, d.rank, s.id IS NOT NULL AS has_slot
         FROM unnest($1::bytea[]) AS j (id)
         LEFT JOIN LATERAL (SELECT d.rank FROM delivery AS d WHERE d.id = j.id AND d.rank >= 2 OFFSET 0) AS d ON true
         LEFT JOIN LATERAL (SELECT s.id FROM limit_slot AS s WHERE s.id = j.id OFFSET 0) AS s ON true
         WHERE d.rank IS NOT NULL OR s.id IS NOT NULL",
    )
    .bind(ids(batch.iter().map(|settlement| &settlement.id)))
    .fetch_all(conn)
    .await?;
    let mut past = Past {
        ranks: HashMap::new(),
        slots: HashSet::new(),
    };
    for row in &rows {
        let columns = Columns::new("delivery", "id", row);
        let id = columns.id()?;
        if columns.value::<Option<i64>>("rank")?.is_some() {
            past.ranks.insert(id, columns.number("rank")?);
        }
        if columns.value("has_slot")? {
            past.slots.insert(id);
        }
    }
    Ok(past)
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
         WHERE t.id = j.id AND t.state = 'sending' AND NOT t.withdrawn AND t.attempt_token = j.token",
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
         CROSS JOIN LATERAL (SELECT d.id, d.owner FROM delivery AS d WHERE d.id = j.id OFFSET 0) AS d
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
