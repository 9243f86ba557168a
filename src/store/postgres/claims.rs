//! Claims: who is to fire what. A claim is a compare-and-set on the state, and raises the generation, so that whoever
//! held the trigger before loses theirs. Every scan here walks the head of (due_at, id). Rows that somebody else has
//! locked are passed over: most will not be free, and one that stays free is found by the next look.
//!
//! Statistics lag behind a burst. `coalesce(condition, false)` keeps the planner from guessing how rare a state or a session
//! is, and `LIMIT (SELECT …)` from knowing the limit. Where it took the rows for few, it would read and sort all that is due.

use chrono::DateTime;
use chrono::Utc;
use sqlx::PgConnection;
use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::store::Claimed;
use crate::store::StoreError;
use crate::store::page::Cursor;
use crate::store::page::Page;
use crate::store::postgres::columns::cut;
use crate::store::postgres::columns::ids;
use crate::store::postgres::ledger;
use crate::store::postgres::sessions;
use crate::store::row;
use crate::trigger::SessionId;
use crate::trigger::TriggerId;

/// A cursor as bound values; without one, the position before everything.
pub fn position(cursor: Cursor) -> (Option<DateTime<Utc>>, Vec<u8>) {
    cursor.map_or((None, Vec::new()), |(due_at, id)| {
        (Some(cut(due_at)), id.0.to_vec())
    })
}

/// Claims a page of free triggers. Rows that cannot be read are set aside and replaced, so that a page is short only
/// where there is no more.
pub async fn claim_due(
    conn: &mut PgConnection,
    session: SessionId,
    page: Page,
    now: DateTime<Utc>,
) -> Result<Vec<Claimed>, StoreError> {
    if !sessions::reach(conn, session, page.until).await? {
        return Ok(Vec::new());
    }
    let mut claims = Vec::new();
    let mut missing = page.limit;
    // Ends: every further round has set aside, and so removed, at least one row.
    while missing > 0 {
        let rows = claim_free(
            conn,
            session,
            Page {
                limit: missing,
                ..page
            },
            now,
        )
        .await?;
        let (read, unreadable) = readable(conn, &rows, now).await?;
        claims.extend(read);
        missing = unreadable;
    }
    claims.sort_unstable_by_key(|claimed| (claimed.due_at, claimed.id.0));
    Ok(claims)
}

async fn claim_free(
    conn: &mut PgConnection,
    session: SessionId,
    page: Page,
    now: DateTime<Utc>,
) -> Result<Vec<PgRow>, StoreError> {
    let (due_at, id) = position(page.after);
    let rows = sqlx::query(
        "-- claim_due
         UPDATE alarm_trigger
         SET state = 'claimed', processed = $1, session = $2, generation = generation + 1
         WHERE state = 'planned' AND id = ANY(ARRAY(
             SELECT id FROM alarm_trigger
             WHERE due_at <= $3 AND (due_at, id) > (coalesce($4::timestamptz, '-infinity'), $5)
               AND coalesce(state = 'planned', false)
             ORDER BY due_at, id LIMIT (SELECT $6::bigint) FOR UPDATE SKIP LOCKED))
         RETURNING id, generation, due_at, channel, owner",
    )
    .bind(now)
    .bind(session.0)
    .bind(cut(page.until))
    .bind(due_at)
    .bind(id)
    .bind(i64::from(page.limit))
    .fetch_all(conn)
    .await?;
    Ok(rows)
}

/// Claims at once those of `wanted` that are free and due by `until`.
pub async fn claim_near(
    conn: &mut PgConnection,
    session: SessionId,
    wanted: &[TriggerId],
    until: DateTime<Utc>,
    now: DateTime<Utc>,
) -> Result<Vec<Claimed>, StoreError> {
    if wanted.is_empty() || !sessions::reach(conn, session, until).await? {
        return Ok(Vec::new());
    }
    let rows = sqlx::query(
        "-- claim_near
         UPDATE alarm_trigger
         SET state = 'claimed', processed = $1, session = $2, generation = generation + 1
         WHERE state = 'planned' AND coalesce(due_at <= $3, false) AND id = ANY($4)
         RETURNING id, generation, due_at, channel, owner",
    )
    .bind(now)
    .bind(session.0)
    .bind(cut(until))
    .bind(ids(wanted))
    .fetch_all(&mut *conn)
    .await?;
    let (mut claims, _) = readable(conn, &rows, now).await?;
    claims.sort_unstable_by_key(|claimed| (claimed.due_at, claimed.id.0));
    Ok(claims)
}

/// Those rows that can be read, and how many could not and were set aside.
async fn readable(
    conn: &mut PgConnection,
    rows: &[PgRow],
    now: DateTime<Utc>,
) -> Result<(Vec<Claimed>, u32), StoreError> {
    let mut claims = Vec::with_capacity(rows.len());
    let mut unreadable = 0;
    for row in rows {
        match row::claimed(row) {
            Ok(claimed) => claims.push(claimed),
            Err(complaint) => {
                ledger::set_aside(conn, row.try_get("id")?, &complaint, now).await?;
                unreadable += 1;
            }
        }
    }
    Ok((claims, unreadable))
}

/// The due instant of the earliest free trigger after `after`.
pub async fn next_free_due(
    conn: &mut PgConnection,
    after: DateTime<Utc>,
) -> Result<Option<DateTime<Utc>>, StoreError> {
    let found = sqlx::query(
        "-- next_free_due
         SELECT id, due_at FROM alarm_trigger
         WHERE due_at > $1 AND coalesce(state = 'planned', false) ORDER BY due_at, id LIMIT 1",
    )
    .bind(cut(after))
    .fetch_optional(conn)
    .await?;
    found
        .map(|row| row::Columns::new("alarm_trigger", "id", &row).instant("due_at"))
        .transpose()
}

/// One page of what a session holds. Rows that cannot be read are set aside and replaced.
pub async fn held_by(
    conn: &mut PgConnection,
    session: SessionId,
    page: Page,
    now: DateTime<Utc>,
) -> Result<Vec<Claimed>, StoreError> {
    // Ends: every further round has set aside, and so removed, at least one row.
    loop {
        let rows = held(conn, session, page).await?;
        let (claims, unreadable) = readable(conn, &rows, now).await?;
        if unreadable == 0 {
            return Ok(claims);
        }
    }
}

async fn held(conn: &mut PgConnection, session: SessionId, page: Page) -> Result<Vec<PgRow>, StoreError> {
    let (due_at, id) = position(page.after);
    let rows = sqlx::query(
        "-- held_by
         SELECT id, generation, due_at, channel, owner FROM alarm_trigger
         WHERE due_at <= $1 AND (due_at, id) > (coalesce($2::timestamptz, '-infinity'), $3)
           AND coalesce(session = $4 AND state = 'claimed', false)
         ORDER BY due_at, id LIMIT (SELECT $5::bigint)",
    )
    .bind(cut(page.until))
    .bind(due_at)
    .bind(id)
    .bind(session.0)
    .bind(i64::from(page.limit))
    .fetch_all(conn)
    .await?;
    Ok(rows)
}
