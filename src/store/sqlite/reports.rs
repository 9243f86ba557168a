//! What comes back after a hand-over: reports, and their absence.

use std::collections::BTreeMap;
use std::collections::HashMap;

use chrono::DateTime;
use chrono::Utc;
use sqlx::SqliteConnection;

use crate::store::Noted;
use crate::store::Notice;
use crate::store::StoreError;
use crate::store::ending::shortened;
use crate::store::reporting;
use crate::store::reporting::Known;
use crate::store::reporting::Owed;
use crate::store::reporting::Plan;
use crate::store::row::all;
use crate::store::row::list;
use crate::store::row::millis;
use crate::store::sqlite::settle::delete_overtaken;
use crate::trigger::ChannelKind;
use crate::trigger::TriggerId;
use crate::trigger::outcome::Outcome;
use crate::trigger::outcome::Reason;

/// Records reports, in order.
pub async fn report(
    conn: &mut SqliteConnection,
    notices: &[Notice],
    now: DateTime<Utc>,
) -> Result<Vec<Noted>, StoreError> {
    let mut noted = Vec::with_capacity(notices.len());
    let mut rest = notices;
    while !rest.is_empty() {
        let (batch, later) = rest.split_at(reporting::distinct(rest));
        let (owed, known) = (owed(conn, batch).await?, known(conn, batch).await?);
        let (plan, of_batch) = reporting::plan(batch, &owed, &known);
        carry_out(conn, &plan, now).await?;
        noted.extend(of_batch);
        rest = later;
    }
    Ok(noted)
}

fn names(notices: &[Notice]) -> String {
    let names: Vec<String> = notices.iter().map(|notice| notice.id.to_string()).collect();
    list(&names)
}

async fn owed(
    conn: &mut SqliteConnection,
    notices: &[Notice],
) -> Result<HashMap<TriggerId, Owed>, StoreError> {
    let rows = sqlx::query(
        "-- report: owed
         SELECT id, state, channel, last_error IS NOT NULL AS tried FROM alarm_trigger
         WHERE id IN (SELECT unhex(value) FROM json_each(?1))",
    )
    .bind(names(notices))
    .fetch_all(conn)
    .await?;
    rows.iter().map(reporting::owed).collect()
}

async fn known(
    conn: &mut SqliteConnection,
    notices: &[Notice],
) -> Result<HashMap<TriggerId, Known>, StoreError> {
    let rows = sqlx::query(
        "-- report: known
         SELECT id, rank, channel FROM delivery
         WHERE id IN (SELECT unhex(value) FROM json_each(?1))",
    )
    .bind(names(notices))
    .fetch_all(conn)
    .await?;
    rows.iter().map(reporting::known).collect()
}

async fn carry_out(
    conn: &mut SqliteConnection,
    plan: &Plan<'_>,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    forward(conn, &plan.forward, now).await?;
    early(conn, &plan.early, now).await?;
    delete_overtaken(conn, &plan.overtaken).await
}

async fn forward(
    conn: &mut SqliteConnection,
    notices: &[(&Notice, u8)],
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    if notices.is_empty() {
        return Ok(());
    }
    let listed: Vec<_> = notices
        .iter()
        .map(|(notice, leaves)| (listed(notice), leaves))
        .collect();
    let done = sqlx::query(
        "-- report: forward
         UPDATE delivery SET
             outcome = j.value ->> '$[0][1]', rank = j.value ->> '$[0][2]', reason = j.value ->> '$[0][3]',
             report = j.value ->> '$[0][4]', reported_at = ?2, recorded_at = ?2
         FROM json_each(?1) AS j
         WHERE delivery.id = unhex(j.value ->> '$[0][0]') AND delivery.rank = j.value ->> 1",
    )
    .bind(list(&listed))
    .bind(millis(now))
    .execute(conn)
    .await?;
    all(done.rows_affected(), notices.len(), "report: forward")
}

/// The history of triggers whose attempt is not settled yet: the settle adds what it knows.
async fn early(
    conn: &mut SqliteConnection,
    notices: &[&Notice],
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    if notices.is_empty() {
        return Ok(());
    }
    let listed: Vec<_> = notices.iter().map(|notice| listed(notice)).collect();
    let done = sqlx::query(
        "-- report: early
         INSERT INTO delivery (id, owner, event_uid, identity, channel, recipient, occurrence, trigger_at, repeat,
             outcome, rank, reason, detail, attempts, count, recorded_at, started_at, report, reported_at,
             first_started_at)
         SELECT t.id, t.owner, t.event_uid, t.identity, t.channel, t.recipient, t.occurrence, t.trigger_at, t.repeat,
             j.value ->> 1, j.value ->> 2, j.value ->> 3, '', t.attempts, 1, ?2, t.attempt_started, j.value ->> 4, ?2,
             t.first_started_at
         FROM json_each(?1) AS j CROSS JOIN alarm_trigger AS t ON t.id = unhex(j.value ->> 0)
         WHERE true
         ON CONFLICT (id) DO NOTHING",
    )
    .bind(list(&listed))
    .bind(millis(now))
    .execute(conn)
    .await?;
    all(done.rows_affected(), notices.len(), "report: early")
}

fn listed(notice: &Notice) -> impl serde::Serialize + use<> {
    let (outcome, reason) = notice.reported.outcome();
    (
        notice.id.to_string(),
        outcome.as_str(),
        notice.reported.rank(),
        reason.as_str(),
        shortened(&notice.detail),
    )
}

/// Gives up what has awaited a report for too long.
pub async fn time_out(
    conn: &mut SqliteConnection,
    limit: u32,
    now: DateTime<Utc>,
) -> Result<BTreeMap<ChannelKind, u64>, StoreError> {
    let rows = sqlx::query(
        "-- time_out
         UPDATE delivery SET outcome = ?3, rank = ?4, reason = ?5, recorded_at = ?1
         WHERE rank = ?6 AND row_id IN (
             SELECT row_id FROM delivery WHERE outcome = 'awaiting' AND await_until <= ?1
             ORDER BY await_until, id LIMIT ?2)
         RETURNING channel",
    )
    .bind(millis(now))
    .bind(limit)
    .bind(Outcome::TimeoutUnknown.as_str())
    .bind(Outcome::TimeoutUnknown.rank())
    .bind(Reason::NoReport.as_str())
    .bind(Outcome::Awaiting.rank())
    .fetch_all(conn)
    .await?;
    reporting::by_channel(&rows)
}
