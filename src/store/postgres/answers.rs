//! What owners answered: written if it still is what it was, with the group put right in the same transaction.

use std::collections::BTreeSet;

use chrono::DateTime;
use chrono::Utc;
use sqlx::PgConnection;

use crate::store::Acceptance;
use crate::store::Answering;
use crate::store::Changed;
use crate::store::Editor;
use crate::store::NearClaim;
use crate::store::StoreError;
use crate::store::decided;
use crate::store::group::GroupKey;
use crate::store::postgres::changes;
use crate::store::postgres::owners;
use crate::store::row::json;
use crate::trigger::answers::Answers;

/// Writes answers and edits the group. None: they are others by now, or there is no copy of the event.
pub async fn answer(
    conn: &mut PgConnection,
    (key, answering): (&GroupKey, &Answering),
    editor: &dyn Editor,
    near: Option<NearClaim>,
    now: DateTime<Utc>,
) -> Result<Option<Changed>, StoreError> {
    owners::lock(conn, [&key.0]).await?;
    if !write(conn, key, answering, now).await? {
        return Ok(None);
    }
    let mut changed = decided::answer(Acceptance::Apply);
    for (_, edited) in changes::edit(conn, &BTreeSet::from([key.clone()]), editor, near, now).await? {
        decided::add(&mut changed, edited?);
    }
    Ok(Some(changed))
}

/// Whether the row was what it was said to be. One that says nothing is not there.
async fn write(
    conn: &mut PgConnection,
    (owner, uid): &GroupKey,
    answering: &Answering,
    now: DateTime<Utc>,
) -> Result<bool, StoreError> {
    let statement = if answering.before == Answers::default() {
        "-- answer: first
         INSERT INTO answer (owner, event_uid, answers, changed_at)
         SELECT $1, $2, $3::text, $4::timestamptz
         WHERE EXISTS (SELECT 1 FROM event WHERE owner = $1 AND uid = $2 AND deleted_at IS NULL)
         ON CONFLICT (owner, event_uid) DO UPDATE SET answers = excluded.answers, changed_at = excluded.changed_at
             WHERE answer.answers = $5"
    } else {
        "-- answer
         UPDATE answer SET answers = $3, changed_at = $4
         WHERE owner = $1 AND event_uid = $2 AND answers = $5
           AND EXISTS (SELECT 1 FROM event WHERE owner = $1 AND uid = $2 AND deleted_at IS NULL)"
    };
    let done = sqlx::query(statement)
        .bind(&owner.0)
        .bind(uid)
        .bind(json(&answering.after))
        .bind(now)
        .bind(json(&answering.before))
        .execute(conn)
        .await?;
    Ok(done.rows_affected() == 1)
}

/// Forgets what was answered to reminders of groups of which no copy is left.
pub async fn forget(conn: &mut PgConnection, keys: &BTreeSet<GroupKey>) -> Result<(), StoreError> {
    let (owners, uids): (Vec<&str>, Vec<&str>) = keys
        .iter()
        .map(|(owner, uid)| (owner.0.as_str(), uid.as_str()))
        .unzip();
    sqlx::query(
        "-- answer: forget
         DELETE FROM answer AS w
         USING unnest($1::text[], $2::text[]) AS j (owner, uid)
         WHERE w.owner = j.owner COLLATE \"C\" AND w.event_uid = j.uid COLLATE \"C\"
           AND NOT EXISTS (SELECT 1 FROM event AS e
               WHERE e.owner = w.owner AND e.uid = w.event_uid AND e.deleted_at IS NULL OFFSET 0)",
    )
    .bind(owners)
    .bind(uids)
    .execute(conn)
    .await?;
    Ok(())
}
