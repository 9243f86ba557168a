//! What comes back after a hand-over: reports, and their absence.

use std::collections::BTreeMap;
use std::collections::HashMap;

use chrono::DateTime;
use chrono::Utc;
use sqlx::PgConnection;

use crate::store::Noted;
use crate::store::Notice;
use crate::store::StoreError;
use crate::store::ending::shortened;
use crate::store::postgres::alarms;
use crate::store::postgres::columns::ids;
use crate::store::postgres::settle::delete_overtaken;
use crate::store::reporting;
use crate::store::reporting::Known;
use crate::store::reporting::Owed;
use crate::store::row::Columns;
use crate::store::row::all;
use crate::trigger::ChannelKind;
use crate::trigger::TriggerId;
use crate::trigger::outcome::Outcome;
use crate::trigger::outcome::Reason;

/// Records reports, in order.
pub async fn report(
    conn: &mut PgConnection,
    notices: &[Notice],
    now: DateTime<Utc>,
) -> Result<Vec<Noted>, StoreError> {
    let mut noted = Vec::with_capacity(notices.len());
    let mut rest = notices;
    while !rest.is_empty() {
        let (batch, later) = rest.split_at(reporting::distinct(rest));
        let owed = owed(conn, batch).await?;
        alarms::hold(conn, batch.iter().map(|notice| &notice.id)).await?;
        let known = known(conn, batch).await?;
        let (plan, of_batch) = reporting::plan(batch, &owed, &known);
        forward(conn, &plan.forward, now).await?;
        early(conn, &plan.early, now).await?;
        delete_overtaken(conn, &plan.overtaken).await?;
        noted.extend(of_batch);
        rest = later;
    }
    Ok(noted)
}

/// The rows of the triggers, locked as the settle locks them, which so comes wholly before or after.
async fn owed(conn: &mut PgConnection, notices: &[Notice]) -> Result<HashMap<TriggerId, Owed>, StoreError> {
    let rows = sqlx::query(
        "-- report: owed
         SELECT id, state, channel, last_error IS NOT NULL AS tried FROM alarm_trigger
         WHERE id = ANY($1) ORDER BY id FOR UPDATE",
    )
    .bind(ids(notices.iter().map(|notice| &notice.id)))
    .fetch_all(conn)
    .await?;
    rows.iter().map(reporting::owed).collect()
}

async fn known(conn: &mut PgConnection, notices: &[Notice]) -> Result<HashMap<TriggerId, Known>, StoreError> {
    let rows = sqlx::query(
        "-- report: known
         SELECT id, rank, channel FROM delivery WHERE id = ANY($1) ORDER BY id FOR UPDATE",
    )
    .bind(ids(notices.iter().map(|notice| &notice.id)))
    .fetch_all(conn)
    .await?;
    rows.iter().map(reporting::known).collect()
}

/// Notices, column by column.
struct Reports {
    id: Vec<Vec<u8>>,
    outcome: Vec<&'static str>,
    rank: Vec<i64>,
    reason: Vec<&'static str>,
    report: Vec<String>,
}

impl Reports {
    fn of<'n>(notices: impl Iterator<Item = &'n Notice> + Clone) -> Self {
        let outcomes = notices.clone().map(|notice| notice.reported.outcome());
        Self {
            id: notices.clone().map(|notice| notice.id.0.to_vec()).collect(),
            outcome: outcomes.clone().map(|(outcome, _)| outcome.as_str()).collect(),
            rank: notices
                .clone()
                .map(|notice| i64::from(notice.reported.rank()))
                .collect(),
            reason: outcomes.map(|(_, reason)| reason.as_str()).collect(),
            report: notices.map(|notice| shortened(&notice.detail)).collect(),
        }
    }
}

async fn forward(
    conn: &mut PgConnection,
    notices: &[(&Notice, u8)],
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    if notices.is_empty() {
        return Ok(());
    }
    let reports = Reports::of(notices.iter().map(|(notice, _)| *notice));
    let leaves: Vec<i64> = notices.iter().map(|(_, leaves)| i64::from(*leaves)).collect();
    let done = sqlx::query(
        "-- report: forward
         UPDATE delivery SET
             outcome = j.outcome, rank = j.rank, reason = j.reason, report = j.report, reported_at = $7,
             recorded_at = $7
         FROM unnest($1::bytea[], $2::text[], $3::bigint[], $4::text[], $5::text[], $6::bigint[])
             AS j (id, outcome, rank, reason, report, leaves)
         WHERE delivery.id = j.id AND delivery.rank = j.leaves",
    )
    .bind(reports.id)
    .bind(reports.outcome)
    .bind(reports.rank)
    .bind(reports.reason)
    .bind(reports.report)
    .bind(leaves)
    .bind(now)
    .execute(conn)
    .await?;
    all(done.rows_affected(), notices.len(), "report: forward")
}

/// The history of triggers whose attempt is not settled yet: the settle adds what it knows.
async fn early(conn: &mut PgConnection, notices: &[&Notice], now: DateTime<Utc>) -> Result<(), StoreError> {
    if notices.is_empty() {
        return Ok(());
    }
    let reports = Reports::of(notices.iter().copied());
    let done = sqlx::query(
        "-- report: early
         INSERT INTO delivery (id, owner, event_uid, identity, channel, recipient, occurrence, trigger_at, repeat,
             outcome, rank, reason, detail, attempts, count, recorded_at, started_at, report, reported_at,
             first_started_at)
         SELECT t.id, t.owner, t.event_uid, t.identity, t.channel, t.recipient, t.occurrence, t.trigger_at, t.repeat,
             j.outcome, j.rank, j.reason, '', t.attempts, 1, $6, t.attempt_started, j.report, $6, t.first_started_at
         FROM unnest($1::bytea[], $2::text[], $3::bigint[], $4::text[], $5::text[])
             AS j (id, outcome, rank, reason, report)
         CROSS JOIN LATERAL (SELECT t.id, t.owner, t.event_uid, t.identity, t.channel, t.recipient, t.occurrence, t.trigger_at,
                 t.repeat, t.attempts, t.attempt_started, t.first_started_at
             FROM alarm_trigger AS t WHERE t.id = j.id OFFSET 0) AS t
         ORDER BY t.id
         ON CONFLICT (id) DO NOTHING",
    )
    .bind(reports.id)
    .bind(reports.outcome)
    .bind(reports.rank)
    .bind(reports.reason)
    .bind(reports.report)
    .bind(now)
    .execute(conn)
    .await?;
    all(done.rows_affected(), notices.len(), "report: early")
}

/// What has awaited a report for too long. Not locked yet: who reports holds the owners of alarms before the history.
async fn silent(
    conn: &mut PgConnection,
    limit: u32,
    now: DateTime<Utc>,
) -> Result<Vec<TriggerId>, StoreError> {
    let rows = sqlx::query(
        "-- time_out: silent
         SELECT id FROM delivery WHERE outcome = 'awaiting' AND await_until <= $1 ORDER BY await_until, id LIMIT $2",
    )
    .bind(now)
    .bind(i64::from(limit))
    .fetch_all(conn)
    .await?;
    rows.iter()
        .map(|row| Columns::new("delivery", "id", row).id())
        .collect()
}

/// Gives up what has awaited a report for too long. What somebody is just writing is left to the next time.
pub async fn time_out(
    conn: &mut PgConnection,
    limit: u32,
    now: DateTime<Utc>,
) -> Result<BTreeMap<ChannelKind, u64>, StoreError> {
    let silent = silent(conn, limit, now).await?;
    alarms::hold(conn, silent.iter()).await?;
    let rows = sqlx::query(
        "-- time_out
         UPDATE delivery SET outcome = $3, rank = $4, reason = $5, recorded_at = $1
         WHERE rank = $6 AND id = ANY(ARRAY(
             SELECT id FROM delivery WHERE outcome = 'awaiting' AND await_until <= $1 AND id = ANY($2)
             ORDER BY id FOR UPDATE SKIP LOCKED))
         RETURNING channel",
    )
    .bind(now)
    .bind(ids(silent.iter()))
    .bind(Outcome::TimeoutUnknown.as_str())
    .bind(i64::from(Outcome::TimeoutUnknown.rank()))
    .bind(Reason::NoReport.as_str())
    .bind(i64::from(Outcome::Awaiting.rank()))
    .fetch_all(conn)
    .await?;
    reporting::by_channel(&rows)
}
