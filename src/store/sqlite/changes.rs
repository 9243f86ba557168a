//! Changes: copies are written one by one, in order; then each group they touched is put right once.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::collections::HashSet;

use chrono::DateTime;
use chrono::Utc;
use sqlx::Connection;
use sqlx::Row;
use sqlx::SqliteConnection;
use tracing::error;

use crate::store::Acceptance;
use crate::store::Change;
use crate::store::ChangeBody;
use crate::store::Changed;
use crate::store::Editor;
use crate::store::EventCopy;
use crate::store::EventKey;
use crate::store::NearClaim;
use crate::store::StoreError;
use crate::store::decided;
use crate::store::group;
use crate::store::group::GroupKey;
use crate::store::group::Unreadable;
use crate::store::row;
use crate::store::row::millis;
use crate::store::sqlite::answers;
use crate::store::sqlite::edits;
use crate::store::sqlite::groups;
use crate::trigger::OwnerId;

/// Applies changes in order, then edits what they touched. Where a group turns out to be unreadable, all is done again
/// without the changes that touch it: a copy is never stored without its triggers.
pub async fn change(
    conn: &mut SqliteConnection,
    changes: &[Change],
    editor: &dyn Editor,
    near: Option<NearClaim>,
    now: DateTime<Utc>,
) -> Result<Vec<Result<Changed, StoreError>>, StoreError> {
    let mut spoilt = BTreeMap::new();
    // Ends: every further round leaves out at least one more group.
    loop {
        let mut savepoint = conn.begin().await?;
        let (mut results, touched) = copy(&mut savepoint, changes, editor, &spoilt, now).await?;
        let keys = touched.keys().cloned().collect();
        if changes
            .iter()
            .any(|change| matches!(change.body, ChangeBody::Delete))
        {
            answers::forget(&mut savepoint, &keys).await?;
        }
        let before = spoilt.len();
        for (key, edited) in edit(&mut savepoint, &keys, editor, near, now).await? {
            match (edited, &mut results[touched[&key]]) {
                (Ok(edited), Ok(answer)) => decided::add(answer, edited),
                (Ok(_), Err(_)) => {}
                (Err(complaint), _) => {
                    spoilt.insert(key, complaint);
                }
            }
        }
        if spoilt.len() == before {
            savepoint.commit().await?;
            return Ok(results);
        }
        savepoint.rollback().await?;
    }
}

/// What each change came to so far, and the last change that touched each group, which answers for it.
type Copied = (Vec<Result<Changed, StoreError>>, BTreeMap<GroupKey, usize>);

async fn copy(
    conn: &mut SqliteConnection,
    changes: &[Change],
    editor: &dyn Editor,
    spoilt: &BTreeMap<GroupKey, StoreError>,
    now: DateTime<Utc>,
) -> Result<Copied, StoreError> {
    let mut results = Vec::with_capacity(changes.len());
    let mut known = HashSet::new();
    let mut touched = BTreeMap::new();
    for (at, change) in changes.iter().enumerate() {
        let applied = match check(conn, change, &mut known).await {
            Ok(()) => apply(conn, change, editor, spoilt, now).await,
            Err(refusal) => Err(refusal),
        };
        match applied {
            Ok((acceptance, keys)) => {
                touched.extend(keys.into_iter().map(|key| (key, at)));
                results.push(Ok(decided::answer(acceptance)));
            }
            Err(error @ (StoreError::UnknownOwner(_) | StoreError::Corrupt { .. })) => {
                results.push(Err(error));
            }
            Err(error) => return Err(error),
        }
    }
    Ok((results, touched))
}

/// Puts groups right, each by the decision of the editor.
pub async fn edit(
    conn: &mut SqliteConnection,
    keys: &BTreeSet<GroupKey>,
    editor: &dyn Editor,
    near: Option<NearClaim>,
    now: DateTime<Utc>,
) -> Result<Vec<(GroupKey, Result<Changed, StoreError>)>, StoreError> {
    let mut edited = Vec::with_capacity(keys.len());
    let mut decided = Vec::with_capacity(keys.len());
    for (key, group) in groups::load(conn, keys, Unreadable::SetAside, now).await? {
        match group {
            Ok(group) => {
                let edit = editor.edit(&group, now);
                decided.push((group, edit));
            }
            Err(complaint) => {
                error!(%complaint, "an event cannot be read; its alarms stay as they are");
                edited.push((key, Err(complaint)));
            }
        }
    }
    let changes = edits::apply(conn, &decided, near, now).await?;
    let keys = decided.into_iter().map(|(group, _)| (group.owner.id, group.uid));
    edited.extend(keys.zip(changes.into_iter().map(Ok)));
    Ok(edited)
}

/// Whether the owner of a change exists. Those that were found are not looked for again.
async fn check(
    conn: &mut SqliteConnection,
    change: &Change,
    known: &mut HashSet<OwnerId>,
) -> Result<(), StoreError> {
    if known.contains(&change.at.owner) {
        return Ok(());
    }
    let found = sqlx::query(
        "-- change: owner
         SELECT 1 FROM owner WHERE id = ?1",
    )
    .bind(&change.at.owner.0)
    .fetch_optional(conn)
    .await?;
    if found.is_none() {
        return Err(StoreError::UnknownOwner(change.at.owner.clone()));
    }
    known.insert(change.at.owner.clone());
    Ok(())
}

/// Writes the copy if the editor takes the change. Returns the groups it touched.
async fn apply(
    conn: &mut SqliteConnection,
    change: &Change,
    editor: &dyn Editor,
    spoilt: &BTreeMap<GroupKey, StoreError>,
    now: DateTime<Utc>,
) -> Result<(Acceptance, BTreeSet<GroupKey>), StoreError> {
    let stored = stored(conn, &change.at).await?;
    let acceptance = editor.accept(stored.as_ref(), change);
    let Some(change) = decided::taken(&acceptance, change) else {
        return Ok((acceptance, BTreeSet::new()));
    };
    let after = match &change.body {
        ChangeBody::Put { uid, .. } | ChangeBody::Message { uid, .. } => Some(uid.clone()),
        ChangeBody::Delete => None,
    };
    // The tombstone of what was never seen has no UID and so no group.
    let uids = stored
        .map(|copy| copy.uid)
        .into_iter()
        .chain(after)
        .filter(|uid| !uid.is_empty());
    let keys: BTreeSet<GroupKey> = uids.map(|uid| (change.at.owner.clone(), uid)).collect();
    if let Some(complaint) = keys.iter().find_map(|key| spoilt.get(key)) {
        return Err(group::again(complaint));
    }
    match &change.body {
        ChangeBody::Put { uid, ics } | ChangeBody::Message { uid, ics, .. } => {
            put(conn, &change, (uid, ics), now).await?;
        }
        ChangeBody::Delete => bury(conn, &change, now).await?,
    }
    Ok((acceptance, keys))
}

async fn stored(conn: &mut SqliteConnection, at: &EventKey) -> Result<Option<EventCopy>, StoreError> {
    let found = sqlx::query(
        "-- change: stored copy
         SELECT * FROM event WHERE source = ?1 AND key = ?2 AND owner = ?3",
    )
    .bind(&at.source)
    .bind(&at.key)
    .bind(&at.owner.0)
    .fetch_optional(conn)
    .await?;
    found.as_ref().map(row::copy).transpose()
}

async fn put(
    conn: &mut SqliteConnection,
    change: &Change,
    (uid, ics): (&str, &str),
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    sqlx::query(
        "-- change: put
         INSERT INTO event (source, key, owner, uid, version, changed_at, ics) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
         ON CONFLICT (source, key, owner) DO UPDATE SET
             uid = excluded.uid, version = excluded.version, changed_at = excluded.changed_at, ics = excluded.ics,
             deleted_at = NULL, quarantine = NULL",
    )
    .bind(&change.at.source)
    .bind(&change.at.key)
    .bind(&change.at.owner.0)
    .bind(uid)
    .bind(change.version.as_ref().map(|version| version.0.as_str()))
    .bind(millis(now))
    .bind(ics)
    .execute(conn)
    .await?;
    Ok(())
}

/// Leaves a tombstone without the text. Where the deletion names no version, the last one known still tells what is
/// older.
async fn bury(conn: &mut SqliteConnection, change: &Change, now: DateTime<Utc>) -> Result<(), StoreError> {
    sqlx::query(
        "-- change: delete
         INSERT INTO event (source, key, owner, uid, version, deleted_at, changed_at, ics)
         VALUES (?1, ?2, ?3, '', ?4, ?5, ?5, '')
         ON CONFLICT (source, key, owner) DO UPDATE SET
             version = coalesce(excluded.version, version), deleted_at = excluded.deleted_at,
             changed_at = excluded.changed_at, ics = '', quarantine = NULL",
    )
    .bind(&change.at.source)
    .bind(&change.at.key)
    .bind(&change.at.owner.0)
    .bind(change.version.as_ref().map(|version| version.0.as_str()))
    .bind(millis(now))
    .execute(conn)
    .await?;
    Ok(())
}

/// Edits a page of groups again. Groups that cannot be read are reported in the log and left as they are.
pub async fn edit_page(
    conn: &mut SqliteConnection,
    keys: &BTreeSet<GroupKey>,
    editor: &dyn Editor,
    near: Option<NearClaim>,
    now: DateTime<Utc>,
) -> Result<Changed, StoreError> {
    let mut sum = decided::answer(Acceptance::Apply);
    for (_, edited) in edit(conn, keys, editor, near, now).await? {
        if let Ok(edited) = edited {
            decided::add(&mut sum, edited);
        }
    }
    Ok(sum)
}

/// The names of up to `limit` groups with copies after the cursor, in order; of one owner, or of everybody.
pub async fn page(
    conn: &mut SqliteConnection,
    owner: Option<&OwnerId>,
    after: Option<&GroupKey>,
    limit: u32,
) -> Result<BTreeSet<GroupKey>, StoreError> {
    let of_everybody = "-- edit_groups
         SELECT DISTINCT owner, uid FROM event
         WHERE (owner, uid) > (?1, ?2) AND deleted_at IS NULL ORDER BY owner, uid LIMIT ?3";
    let of_one = "-- edit_groups: of one owner
         SELECT DISTINCT owner, uid FROM event
         WHERE owner = ?4 AND (owner, uid) > (?1, ?2) AND deleted_at IS NULL ORDER BY owner, uid LIMIT ?3";
    let mut query = sqlx::query(if owner.is_some() { of_one } else { of_everybody })
        .bind(after.map_or("", |(owner, _)| owner.0.as_str()))
        .bind(after.map_or("", |(_, uid)| uid.as_str()))
        .bind(limit);
    if let Some(owner) = owner {
        query = query.bind(&owner.0);
    }
    let rows = query.fetch_all(conn).await?;
    rows.iter()
        .map(|row| Ok((OwnerId(row.try_get("owner")?), row.try_get("uid")?)))
        .collect()
}
