//! History: the ledger that nothing is sent twice. A row only moves forward: what may have been handed over is replaced
//! only by an outcome that knows more ([`Outcome::rank`], kept beside the outcome so that statements can compare it);
//! anything else is replaced by what became of the trigger when it was owed again.

use chrono::DateTime;
use chrono::Utc;
use sqlx::PgConnection;
use tracing::error;

use crate::store::Claimed;
use crate::store::Record;
use crate::store::StoreError;
use crate::store::ending::Ending;
use crate::store::ending::shortened;
use crate::store::postgres::columns::Places;
use crate::store::postgres::columns::Wishes;
use crate::store::postgres::columns::cut;
use crate::store::postgres::owners;
use crate::store::row::Columns;
use crate::store::row::all;
use crate::store::row::hex;
use crate::trigger::AttemptToken;
use crate::trigger::SessionId;
use crate::trigger::TriggerId;
use crate::trigger::outcome::Outcome;
use crate::trigger::outcome::Reason;

/// Endings, column by column, in the order of their ids.
#[derive(Debug, Default)]
struct Endings {
    id: Vec<Vec<u8>>,
    outcome: Vec<&'static str>,
    rank: Vec<i64>,
    reason: Vec<&'static str>,
    detail: Vec<String>,
    attempts: Vec<i64>,
    handed_over_at: Vec<Option<DateTime<Utc>>>,
    reference: Vec<Option<String>>,
    await_until: Vec<Option<DateTime<Utc>>>,
}

impl Endings {
    fn of(endings: &[Ending]) -> Self {
        let mut columns = Self::default();
        let mut endings: Vec<&Ending> = endings.iter().collect();
        endings.sort_by_key(|ending| ending.id.0);
        for ending in endings {
            columns.id.push(ending.id.0.to_vec());
            columns.outcome.push(ending.outcome.as_str());
            columns.rank.push(i64::from(ending.outcome.rank()));
            columns.reason.push(ending.reason.as_str());
            columns.detail.push(shortened(&ending.detail));
            columns.attempts.push(i64::from(ending.attempts));
            columns.handed_over_at.push(ending.handed_over_at.map(cut));
            columns.reference.push(ending.reference.as_deref().map(shortened));
            columns.await_until.push(ending.await_until.map(cut));
        }
        columns
    }
}

/// Records what became of triggers, from their rows, which stay. What may have been handed over stays in doubt whatever came
/// after it, and history tells that: why it was given up, when, and after how many attempts.
pub async fn record_endings(
    conn: &mut PgConnection,
    endings: &[Ending],
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    if endings.is_empty() {
        return Ok(());
    }
    let endings = Endings::of(endings);
    sqlx::query(
        "-- record_endings
         INSERT INTO delivery (id, owner, event_uid, identity, channel, recipient, occurrence, trigger_at, repeat,
             outcome, rank, reason, detail, attempts, count, handed_over_at, recorded_at, reference, await_until,
             started_at, first_started_at)
         SELECT t.id, t.owner, t.event_uid, t.identity, t.channel, t.recipient, t.occurrence, t.trigger_at, t.repeat,
             j.outcome, j.rank, j.reason, j.detail, t.attempts + j.attempts, 1, j.handed_over_at, $8,
             j.reference, j.await_until, t.attempt_started, t.first_started_at
         FROM unnest($1::bytea[], $2::text[], $3::bigint[], $4::text[], $5::text[], $6::bigint[], $7::timestamptz[],
             $9::text[], $10::timestamptz[])
             AS j (id, outcome, rank, reason, detail, attempts, handed_over_at, reference, await_until)
         CROSS JOIN LATERAL (SELECT t.id, t.owner, t.event_uid, t.identity, t.channel, t.recipient, t.occurrence, t.trigger_at,
                 t.repeat, t.attempts, t.attempt_started, t.first_started_at
             FROM alarm_trigger AS t WHERE t.id = j.id OFFSET 0) AS t
         ORDER BY t.id
         ON CONFLICT (id) DO UPDATE SET
             outcome = CASE WHEN delivery.rank = 2 AND excluded.rank < 2 THEN delivery.outcome ELSE excluded.outcome END,
             rank = CASE WHEN delivery.rank = 2 AND excluded.rank < 2 THEN delivery.rank ELSE excluded.rank END,
             reason = excluded.reason,
             detail = CASE WHEN delivery.rank = 2 AND excluded.detail = '' THEN delivery.detail ELSE excluded.detail END,
             attempts = CASE WHEN delivery.rank = 2 THEN greatest(delivery.attempts, excluded.attempts) ELSE excluded.attempts END,
             count = excluded.count, recorded_at = excluded.recorded_at,
             handed_over_at = coalesce(excluded.handed_over_at, delivery.handed_over_at),
             reference = excluded.reference, await_until = excluded.await_until,
             started_at = coalesce(excluded.started_at, delivery.started_at),
             first_started_at = coalesce(delivery.first_started_at, excluded.first_started_at)
         WHERE delivery.rank <= 2 OR excluded.rank > delivery.rank",
    )
    .bind(endings.id)
    .bind(endings.outcome)
    .bind(endings.rank)
    .bind(endings.reason)
    .bind(endings.detail)
    .bind(endings.attempts)
    .bind(endings.handed_over_at)
    .bind(now)
    .bind(endings.reference)
    .bind(endings.await_until)
    .execute(conn)
    .await?;
    Ok(())
}

/// Improves the history of triggers that have no row any more, where the ending knows more.
pub async fn improve(
    conn: &mut PgConnection,
    endings: &[Ending],
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    if endings.is_empty() {
        return Ok(());
    }
    let endings = Endings::of(endings);
    sqlx::query(
        "-- improve
         UPDATE delivery SET
             outcome = j.outcome, rank = j.rank, reason = j.reason, detail = j.detail,
             handed_over_at = coalesce(j.handed_over_at, delivery.handed_over_at), recorded_at = $7,
             reference = j.reference, await_until = j.await_until
         FROM unnest($1::bytea[], $2::text[], $3::bigint[], $4::text[], $5::text[], $6::timestamptz[],
             $8::text[], $9::timestamptz[])
             AS j (id, outcome, rank, reason, detail, handed_over_at, reference, await_until)
         WHERE delivery.id = j.id AND delivery.rank < j.rank",
    )
    .bind(endings.id)
    .bind(endings.outcome)
    .bind(endings.rank)
    .bind(endings.reason)
    .bind(endings.detail)
    .bind(endings.handed_over_at)
    .bind(now)
    .bind(endings.reference)
    .bind(endings.await_until)
    .execute(conn)
    .await?;
    Ok(())
}

/// Adds what only the attempt itself knew, where a report of its trigger came before it was settled.
pub async fn add_to_reports(conn: &mut PgConnection, endings: &[Ending]) -> Result<(), StoreError> {
    if endings.is_empty() {
        return Ok(());
    }
    let endings = Endings::of(endings);
    sqlx::query(
        "-- add_to_reports
         UPDATE delivery SET
             detail = CASE WHEN delivery.detail = '' THEN j.detail ELSE delivery.detail END,
             attempts = greatest(delivery.attempts, t.attempts + j.attempts),
             handed_over_at = coalesce(delivery.handed_over_at, j.handed_over_at),
             reference = coalesce(delivery.reference, j.reference)
         FROM unnest($1::bytea[], $2::bigint[], $3::text[], $4::bigint[], $5::timestamptz[], $6::text[])
             AS j (id, rank, detail, attempts, handed_over_at, reference)
         JOIN alarm_trigger AS t ON t.id = j.id
         WHERE delivery.id = j.id AND delivery.rank > j.rank",
    )
    .bind(endings.id)
    .bind(endings.rank)
    .bind(endings.detail)
    .bind(endings.attempts)
    .bind(endings.handed_over_at)
    .bind(endings.reference)
    .execute(conn)
    .await?;
    Ok(())
}

/// Records firings that never became triggers. A history row that exists stays. Returns which are new.
pub async fn record_firings(
    conn: &mut PgConnection,
    records: &[Record],
    now: DateTime<Utc>,
) -> Result<Vec<TriggerId>, StoreError> {
    if records.is_empty() {
        return Ok(Vec::new());
    }
    let id = |record: &Record| TriggerId::derive(&record.wish, &record.place).0.to_vec();
    let wishes: Wishes = records.iter().map(|record| &record.wish).collect();
    let places: Places = records.iter().map(|record| Some(record.place)).collect();
    let outcomes = records.iter().map(|record| record.outcome);
    let rows = sqlx::query(
        "-- record_firings
         INSERT INTO delivery (id, owner, event_uid, identity, channel, recipient, occurrence, trigger_at, repeat,
             outcome, rank, reason, detail, attempts, count, handed_over_at, recorded_at)
         SELECT j.id, j.owner, j.event_uid, j.identity, j.channel, j.recipient, j.occurrence, j.trigger_at, j.repeat,
             j.outcome, j.rank, j.reason, '', 0, j.count, NULL, $14
         FROM unnest($1::bytea[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::timestamptz[],
             $8::timestamptz[], $9::bigint[], $10::text[], $11::bigint[], $12::text[], $13::bigint[])
             AS j (id, owner, event_uid, identity, channel, recipient, occurrence, trigger_at, repeat,
                 outcome, rank, reason, count)
         ORDER BY j.id
         ON CONFLICT (id) DO NOTHING
         RETURNING id",
    )
    .bind(records.iter().map(id).collect::<Vec<_>>())
    .bind(wishes.owner)
    .bind(wishes.event_uid)
    .bind(wishes.identity)
    .bind(wishes.channel)
    .bind(wishes.recipient)
    .bind(places.occurrence)
    .bind(places.trigger_at)
    .bind(places.repeat)
    .bind(outcomes.clone().map(Outcome::as_str).collect::<Vec<_>>())
    .bind(outcomes.map(|outcome| i64::from(outcome.rank())).collect::<Vec<_>>())
    .bind(records.iter().map(|record| record.reason.as_str()).collect::<Vec<_>>())
    .bind(records.iter().map(count).collect::<Vec<_>>())
    .bind(now)
    .fetch_all(conn)
    .await?;
    rows.iter()
        .map(|row| Columns::new("delivery", "id", row).id())
        .collect()
}

fn count(record: &Record) -> i64 {
    i64::try_from(record.count).unwrap_or(i64::MAX)
}

/// Deletes triggers that are `sending` under these attempts. All of them must be there.
pub async fn delete_sending(
    conn: &mut PgConnection,
    attempts: &[(TriggerId, Option<AttemptToken>)],
) -> Result<(), StoreError> {
    if attempts.is_empty() {
        return Ok(());
    }
    let ids: Vec<_> = attempts.iter().map(|(id, _)| id.0.to_vec()).collect();
    let tokens: Vec<_> = attempts
        .iter()
        .map(|(_, token)| token.map(|token| token.0))
        .collect();
    let done = sqlx::query(
        "-- delete_sending
         DELETE FROM alarm_trigger AS t
         USING unnest($1::bytea[], $2::bigint[]) AS j (id, token)
         WHERE t.id = j.id AND t.state = 'sending' AND t.attempt_token = j.token",
    )
    .bind(ids)
    .bind(tokens)
    .execute(conn)
    .await?;
    all(done.rows_affected(), attempts.len(), "delete_sending")
}

/// Sets a trigger aside that is still claimed as `claim` says; one that is somebody else's by now is left to them.
pub async fn set_aside_claim(
    conn: &mut PgConnection,
    claim: &Claimed,
    session: SessionId,
    complaint: &StoreError,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let mine = sqlx::query(
        "-- set_aside: mine
         SELECT 1 FROM alarm_trigger
         WHERE id = $1 AND session = $2 AND generation = $3 AND state = 'claimed' FOR UPDATE",
    )
    .bind(claim.id.0.as_slice())
    .bind(session.0)
    .bind(claim.generation)
    .fetch_optional(&mut *conn)
    .await?;
    match mine {
        Some(_) => set_aside(conn, &claim.id.0, complaint, now).await,
        None => Ok(()),
    }
}

/// Moves a trigger that cannot be read to history, by its columns alone, so that the scans go on without it. What
/// history could not read either is replaced; the complaint keeps it. Its owner is planned again, so that the series
/// goes on: with the same firing, written anew, if it is not too late for it.
pub async fn set_aside(
    conn: &mut PgConnection,
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
             CASE WHEN channel IN ('email', 'sms', 'webhook', 'handler') THEN channel ELSE 'email' END,
             CASE WHEN recipient = 'owner' OR recipient LIKE 'address:%' THEN recipient ELSE 'owner' END,
             least(greatest(occurrence, '0001-01-01Z'), '9999-12-31Z'),
             least(greatest(trigger_at, '0001-01-01Z'), '9999-12-31Z'), least(greatest(repeat, 0), 65535),
             'failed', $2, $3, $4, least(greatest(attempts, 0), 4294967295), 1, NULL, $5
         FROM alarm_trigger WHERE id = $1
         ON CONFLICT (id) DO UPDATE SET
             outcome = excluded.outcome, rank = excluded.rank, reason = excluded.reason, detail = excluded.detail,
             attempts = excluded.attempts, recorded_at = excluded.recorded_at
         WHERE delivery.rank < 2",
    )
    .bind(id)
    .bind(i64::from(Outcome::Failed.rank()))
    .bind(Reason::Unreadable.as_str())
    .bind(shortened(&complaint.to_string()))
    .bind(now)
    .execute(&mut *conn)
    .await?;
    owners::ask_to_plan(conn, id).await?;
    sqlx::query(
        "-- set_aside: delete
         DELETE FROM alarm_trigger WHERE id = $1",
    )
    .bind(id)
    .execute(conn)
    .await?;
    Ok(())
}
