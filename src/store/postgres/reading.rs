//! What people and metrics ask: copies, history, outbox, backlog.

use chrono::DateTime;
use chrono::Utc;
use sqlx::PgConnection;

use crate::store::Backlog;
use crate::store::Delivery;
use crate::store::EventCopy;
use crate::store::EventKey;
use crate::store::HistoryQuery;
use crate::store::OutboxEntry;
use crate::store::StoreError;
use crate::store::page::Cursor;
use crate::store::postgres::columns::cut;
use crate::store::postgres::firings;
use crate::store::row;
use crate::store::row::Columns;
use crate::trigger::OwnerId;
use crate::trigger::TriggerId;
use crate::trigger::outcome::Outcome;

/// One copy, or its tombstone.
pub async fn copy(conn: &mut PgConnection, at: &EventKey) -> Result<Option<EventCopy>, StoreError> {
    let found = sqlx::query(concat!(
        "-- copy
         SELECT ",
        columns!(event),
        " FROM event AS e WHERE source = $1 AND key = $2 AND owner = $3"
    ))
    .bind(&at.source)
    .bind(&at.key)
    .bind(&at.owner.0)
    .fetch_optional(conn)
    .await?;
    found.as_ref().map(row::copy).transpose()
}

/// Who has a copy that is not deleted.
pub async fn holders(
    conn: &mut PgConnection,
    source: &str,
    key: &str,
    after: Option<&OwnerId>,
    limit: u32,
) -> Result<Vec<OwnerId>, StoreError> {
    let owners: Vec<String> = sqlx::query_scalar(
        "-- holders
         SELECT owner FROM event
         WHERE source = $1 AND key = $2 AND owner > $3 AND deleted_at IS NULL ORDER BY owner LIMIT $4",
    )
    .bind(source)
    .bind(key)
    .bind(after.map_or("", |owner| owner.0.as_str()))
    .bind(i64::from(limit))
    .fetch_all(conn)
    .await?;
    Ok(owners.into_iter().map(OwnerId).collect())
}

/// Lists history, newest first.
pub async fn history(conn: &mut PgConnection, query: &HistoryQuery) -> Result<Vec<Delivery>, StoreError> {
    if query.standalone && query.owner.is_some() {
        return firings::history(conn, query).await;
    }
    let of_everybody = concat!(
        "-- history
         SELECT ",
        columns!(delivery),
        "
         FROM delivery AS d
         WHERE recorded_at >= coalesce($1::timestamptz, '-infinity') AND (recorded_at, id) < (coalesce($2::timestamptz, 'infinity'), $3)
           AND ($4::text IS NULL OR event_uid = $4) AND ($5::text IS NULL OR outcome = $5) AND $6::text IS NULL
         ORDER BY recorded_at DESC, id DESC LIMIT $7"
    );
    let of_one = concat!(
        "-- history: of one owner
         SELECT ",
        columns!(delivery),
        "
         FROM delivery AS d
         WHERE owner = $6 AND recorded_at >= coalesce($1::timestamptz, '-infinity')
           AND (recorded_at, id) < (coalesce($2::timestamptz, 'infinity'), $3)
           AND ($4::text IS NULL OR event_uid = $4) AND ($5::text IS NULL OR outcome = $5)
         ORDER BY recorded_at DESC, id DESC LIMIT $7"
    );
    let (recorded_at, id) = before(query.after);
    let rows = sqlx::query(if query.owner.is_some() {
        of_one
    } else {
        of_everybody
    })
    .bind(query.since.map(cut))
    .bind(recorded_at)
    .bind(id)
    .bind(&query.event_uid)
    .bind(query.outcome.map(Outcome::as_str))
    .bind(query.owner.as_ref().map(|owner| owner.0.as_str()))
    .bind(i64::from(query.limit))
    .fetch_all(conn)
    .await?;
    rows.iter().map(row::delivery).collect()
}

/// What became of one trigger.
pub async fn delivery(conn: &mut PgConnection, id: TriggerId) -> Result<Option<Delivery>, StoreError> {
    let found = sqlx::query(concat!(
        "-- delivery
         SELECT ",
        columns!(delivery),
        " FROM delivery AS d WHERE id = $1"
    ))
    .bind(id.0.as_slice())
    .fetch_optional(conn)
    .await?;
    found.as_ref().map(row::delivery).transpose()
}

/// Lists the outbox, newest first.
pub async fn outbox(
    conn: &mut PgConnection,
    owner: Option<&OwnerId>,
    after: Cursor,
    limit: u32,
) -> Result<Vec<OutboxEntry>, StoreError> {
    let of_everybody = concat!(
        "-- outbox
         SELECT ",
        columns!(outbox),
        "
         FROM outbox AS m
         WHERE (handed_over_at, id) < (coalesce($1::timestamptz, 'infinity'), $2) AND $3::text IS NULL
         ORDER BY handed_over_at DESC, id DESC LIMIT $4"
    );
    let of_one = concat!(
        "-- outbox: of one owner
         SELECT ",
        columns!(outbox),
        " FROM outbox AS m WHERE owner = $3 AND (handed_over_at, id) < (coalesce($1::timestamptz, 'infinity'), $2)
         ORDER BY handed_over_at DESC, id DESC LIMIT $4"
    );
    let (handed_over_at, id) = before(after);
    let rows = sqlx::query(if owner.is_some() { of_one } else { of_everybody })
        .bind(handed_over_at)
        .bind(id)
        .bind(owner.map(|owner| owner.0.as_str()))
        .bind(i64::from(limit))
        .fetch_all(conn)
        .await?;
    rows.iter().map(row::outbox_entry).collect()
}

/// A cursor of a listing that goes back in time; without one, the position after everything.
pub fn before(after: Cursor) -> (Option<DateTime<Utc>>, Vec<u8>) {
    after.map_or((None, Vec::new()), |(at, id)| (Some(cut(at)), id.0.to_vec()))
}

/// Counts the head of the due index.
pub async fn backlog(
    conn: &mut PgConnection,
    until: DateTime<Utc>,
    limit: u32,
    now: DateTime<Utc>,
) -> Result<Backlog, StoreError> {
    let rows = sqlx::query(
        "-- backlog
         SELECT state, due_at <= $1 AS in_time, due_at < $2 AS past, count(*) AS rows
         FROM (SELECT state, due_at FROM alarm_trigger WHERE due_at <= greatest($1::timestamptz, $2::timestamptz)
               ORDER BY due_at, id LIMIT (SELECT $3::bigint)) AS head
         GROUP BY 1, 2, 3",
    )
    .bind(cut(until))
    .bind(now)
    .bind(i64::from(limit))
    .fetch_all(&mut *conn)
    .await?;
    row::backlog(&rows, oldest_due(conn).await?)
}

async fn oldest_due(conn: &mut PgConnection) -> Result<Option<DateTime<Utc>>, StoreError> {
    let found = sqlx::query(
        "-- backlog: oldest
         SELECT id, due_at FROM alarm_trigger ORDER BY due_at, id LIMIT 1",
    )
    .fetch_optional(conn)
    .await?;
    found
        .map(|row| Columns::new("alarm_trigger", "id", &row).instant("due_at"))
        .transpose()
}
