//! What owners answered: written if it still is what it was, with the group put right in the same transaction.

use std::collections::BTreeSet;

use chrono::DateTime;
use chrono::Utc;
use sqlx::SqliteConnection;

use crate::store::Acceptance;
use crate::store::Answering;
use crate::store::Changed;
use crate::store::Editor;
use crate::store::NearClaim;
use crate::store::StoreError;
use crate::store::decided;
use crate::store::group::GroupKey;
use crate::store::row::json;
use crate::store::row::list;
use crate::store::row::millis;
use crate::store::sqlite::changes;
use crate::trigger::answers::Answers;

/// Writes answers and edits the group. None: they are others by now, or there is no copy of the event.
pub async fn answer(
    conn: &mut SqliteConnection,
    (key, answering): (&GroupKey, &Answering),
    editor: &dyn Editor,
    near: Option<NearClaim>,
    now: DateTime<Utc>,
) -> Result<Option<Changed>, StoreError> {
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
    conn: &mut SqliteConnection,
    (owner, uid): &GroupKey,
    answering: &Answering,
    now: DateTime<Utc>,
) -> Result<bool, StoreError> {
    let statement = if answering.before == Answers::default() {
        "-- answer: first
         INSERT INTO answer (owner, event_uid, answers, changed_at)
         SELECT ?1, ?2, ?3, ?4
         WHERE EXISTS (SELECT 1 FROM event WHERE owner = ?1 AND uid = ?2 AND deleted_at IS NULL)
         ON CONFLICT (owner, event_uid) DO UPDATE SET answers = excluded.answers, changed_at = excluded.changed_at
             WHERE answer.answers = ?5"
    } else {
        "-- answer
         UPDATE answer SET answers = ?3, changed_at = ?4
         WHERE owner = ?1 AND event_uid = ?2 AND answers = ?5
           AND EXISTS (SELECT 1 FROM event WHERE owner = ?1 AND uid = ?2 AND deleted_at IS NULL)"
    };
    let done = sqlx::query(statement)
        .bind(&owner.0)
        .bind(uid)
        .bind(json(&answering.after))
        .bind(millis(now))
        .bind(json(&answering.before))
        .execute(conn)
        .await?;
    Ok(done.rows_affected() == 1)
}

/// Forgets what was answered to reminders of groups of which no copy is left.
pub async fn forget(conn: &mut SqliteConnection, keys: &BTreeSet<GroupKey>) -> Result<(), StoreError> {
    let keys: Vec<_> = keys
        .iter()
        .map(|(owner, uid)| (owner.0.as_str(), uid.as_str()))
        .collect();
    sqlx::query(
        "-- answer: forget
         DELETE FROM answer WHERE (owner, event_uid) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?1))
           AND NOT EXISTS (SELECT 1 FROM event
               WHERE event.owner = answer.owner AND event.uid = answer.event_uid AND event.deleted_at IS NULL)",
    )
    .bind(list(&keys))
    .execute(conn)
    .await?;
    Ok(())
}
