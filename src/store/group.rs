//! Groups: everything of one event UID of one owner, put together from the rows of its tables. Pure.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use chrono::DateTime;
use chrono::TimeDelta;
use chrono::Utc;

use crate::store::Alarm;
use crate::store::EventCopy;
use crate::store::Group;
use crate::store::Owner;
use crate::store::StoreError;
use crate::store::value::Value;
use crate::store::value::Values;
use crate::trigger::OwnerId;
use crate::trigger::Trigger;
use crate::trigger::TriggerId;
use crate::trigger::answers::Answers;

/// The name of a group.
pub type GroupKey = (OwnerId, String);

/// Rows by group. A row that cannot be read spoils its group.
pub type ByGroup<T> = BTreeMap<GroupKey, Result<Vec<T>, StoreError>>;

/// How far back hand-overs are looked for at the least: longer than any trigger is planned into the past.
const LATELY: TimeDelta = TimeDelta::hours(1);

/// What is done with triggers that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unreadable {
    /// They are moved to history, and the group goes on without them.
    SetAside,
    /// They spoil their group.
    Report,
}

/// The rows of groups, table by table.
pub struct Rows {
    /// Of their owners.
    pub owners: BTreeMap<OwnerId, Result<Owner, StoreError>>,
    /// Their copies.
    pub copies: ByGroup<EventCopy>,
    /// What was answered to reminders of them: a row each at the most.
    pub answers: ByGroup<Answers>,
    /// Their wishes.
    pub alarms: ByGroup<Alarm>,
    /// What they owe.
    pub triggers: ByGroup<Trigger>,
    /// What was handed over lately.
    pub handed_over: ByGroup<TriggerId>,
}

impl Rows {
    /// From when on hand-overs of each group matter.
    pub fn since<'k>(
        &self,
        keys: &'k BTreeSet<GroupKey>,
        now: DateTime<Utc>,
    ) -> Vec<(&'k GroupKey, DateTime<Utc>)> {
        let since = keys.iter().map(|key| {
            let alarms = of(&self.alarms, key).iter();
            let places = alarms.filter_map(|alarm| alarm.served_through);
            let owed = of(&self.triggers, key).iter().map(|trigger| trigger.place);
            (key, oldest(places.chain(owed).map(|place| place.trigger_at), now))
        });
        since.collect()
    }

    /// The groups. One without an owner is not there; one with an unreadable row is an error of its own.
    pub fn assemble(mut self, keys: &BTreeSet<GroupKey>) -> Vec<(GroupKey, Result<Group, StoreError>)> {
        let mut groups = Vec::with_capacity(keys.len());
        for key in keys {
            let owner = match self.owners.get(&key.0) {
                None => continue,
                Some(Err(complaint)) => Err(again(complaint)),
                Some(Ok(owner)) => Ok(owner.clone()),
            };
            groups.push((key.clone(), self.group(key, owner)));
        }
        groups
    }

    fn group(&mut self, key: &GroupKey, owner: Result<Owner, StoreError>) -> Result<Group, StoreError> {
        Ok(Group {
            owner: owner?,
            uid: key.1.clone(),
            copies: self.copies.remove(key).unwrap_or(Ok(Vec::new()))?,
            answers: one(self.answers.remove(key))?,
            alarms: self.alarms.remove(key).unwrap_or(Ok(Vec::new()))?,
            triggers: self.triggers.remove(key).unwrap_or(Ok(Vec::new()))?,
            handed_over: self.handed_over.remove(key).unwrap_or(Ok(Vec::new()))?,
        })
    }
}

/// The only row of a group; what is like none where there is none.
fn one<T: Default>(rows: Option<Result<Vec<T>, StoreError>>) -> Result<T, StoreError> {
    let rows = rows.unwrap_or(Ok(Vec::new()))?;
    Ok(rows.into_iter().next().unwrap_or_default())
}

fn of<'a, T>(rows: &'a ByGroup<T>, key: &GroupKey) -> &'a [T] {
    rows.get(key)
        .and_then(|rows| rows.as_deref().ok())
        .unwrap_or_default()
}

/// From when on hand-overs of a group matter: whatever follows one of these places may have been handed over before.
pub fn oldest(places: impl Iterator<Item = DateTime<Utc>>, now: DateTime<Utc>) -> DateTime<Utc> {
    places.fold(now - LATELY, DateTime::min)
}

/// The same complaint for one more group.
pub fn again(complaint: &StoreError) -> StoreError {
    match complaint {
        StoreError::Corrupt { table, row, reason } => StoreError::Corrupt {
            table,
            row: row.clone(),
            reason: reason.clone(),
        },
        other => StoreError::Failed(other.to_string()),
    }
}

/// Rows by group.
pub fn grouped<R: Values, T>(
    rows: &[R],
    read: impl Fn(&R) -> Result<T, StoreError>,
) -> Result<ByGroup<T>, StoreError> {
    let mut groups = ByGroup::new();
    for row in rows {
        let (owner, uid) = (String::of(row, "owner")?, String::of(row, "event_uid")?);
        let key = (OwnerId(owner), uid);
        let group = groups.entry(key).or_insert(Ok(Vec::new()));
        match (group.as_mut(), read(row)) {
            (Ok(members), Ok(member)) => members.push(member),
            (Ok(_), Err(complaint)) => *group = Err(complaint),
            (Err(_), _) => {}
        }
    }
    Ok(groups)
}
