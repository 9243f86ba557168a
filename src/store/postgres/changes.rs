//! Changes: the copies of a batch are read once, followed in memory in the order of the changes, and written once; then
//! each group they touched is put right once. The owners are locked first, so nobody else changes their events
//! meanwhile.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::collections::HashMap;

use chrono::DateTime;
use chrono::Utc;
use sqlx::PgConnection;
use sqlx::Row;
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
use crate::store::postgres::answers;
use crate::store::postgres::columns::cut;
use crate::store::postgres::edits;
use crate::store::postgres::groups;
use crate::store::postgres::owners;
use crate::store::row;
use crate::trigger::OwnerId;

/// What a batch came to: an answer for each change, or the groups that turned out to be unreadable, without whose
/// changes all is to be done again: a copy is never stored without its triggers.
pub enum Batch {
    /// It is done.
    Done(Vec<Result<Changed, StoreError>>),
    /// Not without leaving these out.
    Spoilt(BTreeMap<GroupKey, StoreError>),
}

/// How a batch is decided.
#[derive(Clone, Copy)]
pub struct Terms<'a> {
    /// Takes the decisions.
    pub editor: &'a dyn Editor,
    /// Who claims what is due soon.
    pub near: Option<NearClaim>,
    /// Groups whose changes are left out, with the reason.
    pub spoilt: &'a BTreeMap<GroupKey, StoreError>,
}

/// Applies changes in order, then edits what they touched.
pub async fn change(
    conn: &mut PgConnection,
    changes: &[Change],
    terms: Terms<'_>,
    now: DateTime<Utc>,
) -> Result<Batch, StoreError> {
    let owners = owners::lock(conn, changes.iter().map(|change| &change.at.owner)).await?;
    let mut following = Following {
        copies: stored(conn, changes).await?,
        written: BTreeSet::new(),
        touched: BTreeMap::new(),
        now,
    };
    let mut results = Vec::with_capacity(changes.len());
    for (at, change) in changes.iter().enumerate() {
        results.push(if owners.contains(&change.at.owner) {
            following.follow(at, change, terms)
        } else {
            Err(StoreError::UnknownOwner(change.at.owner.clone()))
        });
    }
    following.write(conn).await?;
    let keys = following.touched.keys().cloned().collect();
    if changes
        .iter()
        .any(|change| matches!(change.body, ChangeBody::Delete))
    {
        answers::forget(conn, &keys).await?;
    }
    let mut complaints = BTreeMap::new();
    for (key, edited) in edit(conn, &keys, terms.editor, terms.near, now).await? {
        match (edited, &mut results[following.touched[&key]]) {
            (Ok(edited), Ok(answer)) => decided::add(answer, edited),
            (Ok(_), Err(_)) => {}
            (Err(complaint), _) => {
                complaints.insert(key, complaint);
            }
        }
    }
    if complaints.is_empty() {
        Ok(Batch::Done(results))
    } else {
        Ok(Batch::Spoilt(complaints))
    }
}

/// The copies of a batch, as they read after the changes followed so far.
struct Following {
    copies: HashMap<EventKey, Result<EventCopy, StoreError>>,
    written: BTreeSet<EventKey>,
    /// The last change that touched each group, which answers for it.
    touched: BTreeMap<GroupKey, usize>,
    now: DateTime<Utc>,
}

impl Following {
    /// Follows one change if the editor takes it.
    fn follow(&mut self, at: usize, change: &Change, terms: Terms<'_>) -> Result<Changed, StoreError> {
        let stored = match self.copies.get(&change.at) {
            Some(Ok(copy)) => Some(copy),
            Some(Err(complaint)) => return Err(group::again(complaint)),
            None => None,
        };
        let acceptance = terms.editor.accept(stored, change);
        let Some(change) = decided::taken(&acceptance, change) else {
            return Ok(decided::answer(acceptance));
        };
        let after = self.after(stored, &change);
        // The tombstone of what was never seen has no UID and so no group.
        let uids = stored.map(|copy| copy.uid.clone()).into_iter();
        let uids = uids.chain([after.uid.clone()]).filter(|uid| !uid.is_empty());
        let keys: BTreeSet<GroupKey> = uids.map(|uid| (change.at.owner.clone(), uid)).collect();
        if let Some(complaint) = keys.iter().find_map(|key| terms.spoilt.get(key)) {
            return Err(group::again(complaint));
        }
        self.touched.extend(keys.into_iter().map(|key| (key, at)));
        self.written.insert(change.at.clone());
        self.copies.insert(change.at.clone(), Ok(after));
        Ok(decided::answer(acceptance))
    }

    /// The copy after the change. A deletion leaves a tombstone without the text; where it names no version, the last
    /// one known still tells what is older.
    fn after(&self, stored: Option<&EventCopy>, change: &Change) -> EventCopy {
        let at = change.at.clone();
        match &change.body {
            ChangeBody::Put { uid, ics } | ChangeBody::Message { uid, ics, .. } => EventCopy {
                at,
                uid: uid.clone(),
                version: change.version.clone(),
                ics: ics.clone(),
                deleted_at: None,
                quarantine: None,
                changed_at: self.now,
            },
            ChangeBody::Delete => EventCopy {
                at,
                uid: stored.map(|copy| copy.uid.clone()).unwrap_or_default(),
                version: change
                    .version
                    .clone()
                    .or_else(|| stored.and_then(|copy| copy.version.clone())),
                ics: String::new(),
                deleted_at: Some(self.now),
                quarantine: None,
                changed_at: self.now,
            },
        }
    }

    async fn write(&self, conn: &mut PgConnection) -> Result<(), StoreError> {
        let written = self
            .written
            .iter()
            .filter_map(|at| self.copies.get(at)?.as_ref().ok());
        let copies: Vec<&EventCopy> = written.collect();
        if copies.is_empty() {
            return Ok(());
        }
        let each = |part: fn(&EventCopy) -> &str| copies.iter().map(|copy| part(copy)).collect::<Vec<_>>();
        let versions = copies
            .iter()
            .map(|copy| copy.version.as_ref().map(|it| it.0.as_str()));
        sqlx::query(
            "-- change: write
             INSERT INTO event (source, key, owner, uid, version, deleted_at, changed_at, ics)
             SELECT j.source, j.key, j.owner, j.uid, j.version, j.deleted_at, $8, j.ics
             FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::timestamptz[], $7::text[])
                 AS j (source, key, owner, uid, version, deleted_at, ics)
             ON CONFLICT (source, key, owner) DO UPDATE SET
                 uid = excluded.uid, version = excluded.version, deleted_at = excluded.deleted_at,
                 changed_at = excluded.changed_at, ics = excluded.ics, quarantine = NULL",
        )
        .bind(each(|copy| &copy.at.source))
        .bind(each(|copy| &copy.at.key))
        .bind(each(|copy| &copy.at.owner.0))
        .bind(each(|copy| &copy.uid))
        .bind(versions.collect::<Vec<_>>())
        .bind(copies.iter().map(|copy| copy.deleted_at.map(cut)).collect::<Vec<_>>())
        .bind(each(|copy| &copy.ics))
        .bind(self.now)
        .execute(conn)
        .await?;
        Ok(())
    }
}

/// The copies that a batch names, as they are stored.
async fn stored(
    conn: &mut PgConnection,
    changes: &[Change],
) -> Result<HashMap<EventKey, Result<EventCopy, StoreError>>, StoreError> {
    let each =
        |part: fn(&EventKey) -> &str| changes.iter().map(|change| part(&change.at)).collect::<Vec<_>>();
    let rows = sqlx::query(concat!(
        "-- change: stored copies
         SELECT DISTINCT ON (e.row_id) ",
        columns!(event),
        "
         FROM unnest($1::text[], $2::text[], $3::text[]) AS j (source, key, owner)
         CROSS JOIN LATERAL (SELECT ",
        columns!(event),
        " FROM event AS e
             WHERE e.source = j.source COLLATE \"C\" AND e.key = j.key COLLATE \"C\"
               AND e.owner = j.owner COLLATE \"C\" OFFSET 0) AS e",
    ))
    .bind(each(|at| &at.source))
    .bind(each(|at| &at.key))
    .bind(each(|at| &at.owner.0))
    .fetch_all(conn)
    .await?;
    rows.iter()
        .map(|row| {
            let at = EventKey {
                source: row.try_get("source")?,
                key: row.try_get("key")?,
                owner: OwnerId(row.try_get("owner")?),
            };
            Ok((at, row::copy(row)))
        })
        .collect()
}

/// Puts groups right, each by the decision of the editor.
pub async fn edit(
    conn: &mut PgConnection,
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

/// Edits a page of groups again. Groups that cannot be read are reported in the log and left as they are.
pub async fn edit_page(
    conn: &mut PgConnection,
    keys: &BTreeSet<GroupKey>,
    editor: &dyn Editor,
    near: Option<NearClaim>,
    now: DateTime<Utc>,
) -> Result<Changed, StoreError> {
    owners::lock(conn, keys.iter().map(|(owner, _)| owner)).await?;
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
    conn: &mut PgConnection,
    owner: Option<&OwnerId>,
    after: Option<&GroupKey>,
    limit: u32,
) -> Result<BTreeSet<GroupKey>, StoreError> {
    let of_everybody = "-- edit_groups
         SELECT DISTINCT owner, uid FROM event
         WHERE (owner, uid) > ($1, $2) AND deleted_at IS NULL ORDER BY owner, uid LIMIT $3";
    let of_one = "-- edit_groups: of one owner
         SELECT DISTINCT owner, uid FROM event
         WHERE owner = $4 AND (owner, uid) > ($1, $2) AND deleted_at IS NULL ORDER BY owner, uid LIMIT $3";
    let mut query = sqlx::query(if owner.is_some() { of_one } else { of_everybody })
        .bind(after.map_or("", |(owner, _)| owner.0.as_str()))
        .bind(after.map_or("", |(_, uid)| uid.as_str()))
        .bind(i64::from(limit));
    if let Some(owner) = owner {
        query = query.bind(&owner.0);
    }
    let rows = query.fetch_all(conn).await?;
    rows.iter()
        .map(|row| Ok((OwnerId(row.try_get("owner")?), row.try_get("uid")?)))
        .collect()
}
