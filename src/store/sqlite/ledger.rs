//! History: the ledger that nothing is sent twice. A row only moves forward: what may have been handed over is replaced
//! only by an outcome that knows more ([`Outcome::rank`], kept beside the outcome so that statements can compare it);
//! anything else is replaced by what became of the trigger when it was owed again.

use chrono::DateTime;
use chrono::Utc;
use sqlx::SqliteConnection;
use tracing::error;

use crate::store::Record;
use crate::store::StoreError;
use crate::store::ending::Ending;
use crate::store::ending::shortened;
use crate::store::row::Columns;
use crate::store::row::all;
use crate::store::row::hex;
use crate::store::row::list;
use crate::store::row::millis;
use crate::store::sqlite::owners;
use crate::trigger::AttemptToken;
use crate::trigger::TriggerId;
use crate::trigger::outcome::Outcome;
use crate::trigger::outcome::Reason;

/// Records what became of triggers, from their rows, which stay. What may have been handed over stays in doubt whatever came
/// after it, and history tells that: why it was given up, when, and after how many attempts. An ending of a trigger that has no row any more
/// improves the history it has, if it knows more.
pub async fn record_endings(
    conn: &mut SqliteConnection,
    endings: &[Ending],
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    if endings.is_empty() {
        return Ok(());
    }
    let listed: Vec<_> = endings.iter().map(listed_ending).collect();
    sqlx::query(
        "-- record_endings
         INSERT INTO delivery (id, owner, event_uid, identity, channel, recipient, occurrence, trigger_at, repeat,
             outcome, rank, reason, detail, attempts, count, handed_over_at, recorded_at, reference, await_until,
             started_at, first_started_at)
         SELECT t.id, t.owner, t.event_uid, t.identity, t.channel, t.recipient, t.occurrence, t.trigger_at, t.repeat,
             j.value ->> 1, j.value ->> 2, j.value ->> 3, j.value ->> 4, t.attempts + (j.value ->> 5), 1,
             j.value ->> 6, ?2, j.value ->> 7, j.value ->> 8, t.attempt_started, t.first_started_at
         FROM json_each(?1) AS j CROSS JOIN alarm_trigger AS t ON t.id = unhex(j.value ->> 0)
         WHERE true
         ON CONFLICT (id) DO UPDATE SET
             outcome = CASE WHEN delivery.rank = 2 AND excluded.rank < 2 THEN delivery.outcome ELSE excluded.outcome END,
             rank = CASE WHEN delivery.rank = 2 AND excluded.rank < 2 THEN delivery.rank ELSE excluded.rank END,
             reason = excluded.reason,
             detail = CASE WHEN delivery.rank = 2 AND excluded.detail = '' THEN delivery.detail ELSE excluded.detail END,
             attempts = CASE WHEN delivery.rank = 2 THEN max(delivery.attempts, excluded.attempts) ELSE excluded.attempts END,
             count = excluded.count, recorded_at = excluded.recorded_at,
             handed_over_at = coalesce(excluded.handed_over_at, delivery.handed_over_at),
             reference = excluded.reference, await_until = excluded.await_until,
             started_at = coalesce(excluded.started_at, delivery.started_at),
             first_started_at = coalesce(delivery.first_started_at, excluded.first_started_at)
         WHERE delivery.rank <= 2 OR excluded.rank > delivery.rank",
    )
    .bind(list(&listed))
    .bind(millis(now))
    .execute(conn)
    .await?;
    Ok(())
}

fn listed_ending(ending: &Ending) -> impl serde::Serialize + use<> {
    (
        ending.id.to_string(),
        ending.outcome.as_str(),
        ending.outcome.rank(),
        ending.reason.as_str(),
        shortened(&ending.detail),
        ending.attempts,
        ending.handed_over_at.map(millis),
        ending.reference.as_deref().map(shortened),
        ending.await_until.map(millis),
    )
}

/// Improves the history of triggers that have no row any more, where the ending knows more.
pub async fn improve(
    conn: &mut SqliteConnection,
    endings: &[Ending],
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    if endings.is_empty() {
        return Ok(());
    }
    let listed: Vec<_> = endings.iter().map(listed_ending).collect();
    sqlx::query(
        "-- improve
         UPDATE delivery SET
             outcome = j.value ->> 1, rank = j.value ->> 2, reason = j.value ->> 3, detail = j.value ->> 4,
             handed_over_at = coalesce(j.value ->> 6, handed_over_at), recorded_at = ?2,
             reference = j.value ->> 7, await_until = j.value ->> 8
         FROM json_each(?1) AS j
         WHERE delivery.id = unhex(j.value ->> 0) AND delivery.rank < (j.value ->> 2)",
    )
    .bind(list(&listed))
    .bind(millis(now))
    .execute(conn)
    .await?;
    Ok(())
}

/// Adds what only the attempt itself knew, where a report of its trigger came before it was settled.
pub async fn add_to_reports(conn: &mut SqliteConnection, endings: &[Ending]) -> Result<(), StoreError> {
    if endings.is_empty() {
        return Ok(());
    }
    let listed: Vec<_> = endings.iter().map(listed_ending).collect();
    sqlx::query(
        "-- add_to_reports
         UPDATE delivery SET
             detail = iif(delivery.detail = '', j.value ->> 4, delivery.detail),
             attempts = max(delivery.attempts, t.attempts + (j.value ->> 5)),
             handed_over_at = coalesce(delivery.handed_over_at, j.value ->> 6),
             reference = coalesce(delivery.reference, j.value ->> 7)
         FROM json_each(?1) AS j CROSS JOIN alarm_trigger AS t ON t.id = unhex(j.value ->> 0)
         WHERE delivery.id = unhex(j.value ->> 0) AND delivery.rank > (j.value ->> 2)",
    )
    .bind(list(&listed))
    .execute(conn)
    .await?;
    Ok(())
}

/// Records firings that never became triggers. A history row that exists stays. Returns which are new.
pub async fn record_firings(
    conn: &mut SqliteConnection,
    records: &[Record],
    now: DateTime<Utc>,
) -> Result<Vec<TriggerId>, StoreError> {
    if records.is_empty() {
        return Ok(Vec::new());
    }
    let listed: Vec<_> = records.iter().map(listed_record).collect();
    let rows = sqlx::query(
        "-- record_firings
         INSERT INTO delivery (id, owner, event_uid, identity, channel, recipient, occurrence, trigger_at, repeat,
             outcome, rank, reason, detail, attempts, count, handed_over_at, recorded_at)
         SELECT unhex(j.value ->> 0), j.value ->> 1, j.value ->> 2, j.value ->> 3, j.value ->> 4, j.value ->> 5,
             j.value ->> 6, j.value ->> 7, j.value ->> 8, j.value ->> 9, j.value ->> 10, j.value ->> 11, '', 0,
             j.value ->> 12, NULL, ?2
         FROM json_each(?1) AS j
         WHERE true
         ON CONFLICT (id) DO NOTHING
         RETURNING id",
    )
    .bind(list(&listed))
    .bind(millis(now))
    .fetch_all(conn)
    .await?;
    rows.iter()
        .map(|row| Columns::new("delivery", "id", row).id())
        .collect()
}

fn listed_record(record: &Record) -> impl serde::Serialize + use<> {
    (
        TriggerId::derive(&record.wish, &record.place).to_string(),
        record.wish.owner.0.clone(),
        record.wish.event_uid.clone(),
        record.wish.identity.0.clone(),
        record.wish.channel.as_str(),
        record.wish.recipient.to_string(),
        millis(record.place.occurrence),
        millis(record.place.trigger_at),
        record.place.repeat,
        record.outcome.as_str(),
        record.outcome.rank(),
        record.reason.as_str(),
        i64::try_from(record.count).unwrap_or(i64::MAX),
    )
}

/// Deletes triggers that are `sending` under these attempts. All of them must be there.
pub async fn delete_sending(
    conn: &mut SqliteConnection,
    attempts: &[(TriggerId, Option<AttemptToken>)],
) -> Result<(), StoreError> {
    if attempts.is_empty() {
        return Ok(());
    }
    let listed: Vec<_> = attempts
        .iter()
        .map(|(id, token)| (id.to_string(), token.map(|token| token.0)))
        .collect();
    let done = sqlx::query(
        "-- delete_sending
         DELETE FROM alarm_trigger
         WHERE state = 'sending'
           AND (id, attempt_token) IN (SELECT unhex(value ->> 0), value ->> 1 FROM json_each(?1))",
    )
    .bind(list(&listed))
    .execute(conn)
    .await?;
    all(done.rows_affected(), attempts.len(), "delete_sending")
}

/// Moves a trigger that cannot be read to history, by its columns alone, so that the scans go on without it. What
/// history could not read either is replaced; the complaint keeps it. Its owner is planned again, so that the series
/// goes on: with the same firing, written anew, if it is not too late for it.
pub async fn set_aside(
    conn: &mut SqliteConnection,
    id: &[u8],
    complaint: &StoreError,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    error!(trigger.id = hex(id), %complaint, "a trigger cannot be read and is set aside in history");
    sqlx::query(
        "-- set_aside
         INSERT INTO delivery (id, owner, event_uid, identity, channel, recipient, occurrence, trigger_at, repeat,
             outcome, rank, reason, detail, attempts, count, handed_over_at, recorded_at)
         SELECT id, owner, event_uid, identity,
             iif(channel IN ('email', 'sms', 'webhook', 'handler'), channel, 'email'),
             iif(recipient = 'owner' OR recipient LIKE 'address:%', recipient, 'owner'),
             min(max(occurrence, ?6), ?7), min(max(trigger_at, ?6), ?7), min(max(repeat, 0), 65535),
             'failed', ?2, ?3, ?4, min(max(attempts, 0), 4294967295), 1, NULL, ?5
         FROM alarm_trigger WHERE id = ?1
         ON CONFLICT (id) DO UPDATE SET
             outcome = excluded.outcome, rank = excluded.rank, reason = excluded.reason, detail = excluded.detail,
             attempts = excluded.attempts, recorded_at = excluded.recorded_at
         WHERE delivery.rank < 2",
    )
    .bind(id)
    .bind(Outcome::Failed.rank())
    .bind(Reason::Unreadable.as_str())
    .bind(shortened(&complaint.to_string()))
    .bind(millis(now))
    .bind(millis(DateTime::<Utc>::MIN_UTC))
    .bind(millis(DateTime::<Utc>::MAX_UTC))
    .execute(&mut *conn)
    .await?;
    owners::ask_to_plan(conn, id).await?;
    sqlx::query(
        "-- set_aside
         DELETE FROM alarm_trigger WHERE id = ?1",
    )
    .bind(id)
    .execute(conn)
    .await?;
    Ok(())
}
