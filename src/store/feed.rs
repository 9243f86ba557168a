//! What happens to stand-alone alarms, in order, for whoever follows them.
//!
//! The changes of an owner are numbered without a gap, and in the order in which they are committed: whoever takes a number
//! holds the owner's row of `alarm_feed` to the end of its transaction, so that the next is given only when this one can
//! be seen by all. Whoever has seen a number has seen all below it, on whatever node; and a number that is missing was
//! deleted as old.

use chrono::DateTime;
use chrono::Utc;

use crate::store::AlarmTerms;
use crate::store::StoreError;
use crate::store::row::Columns;
use crate::store::value::Values;
use crate::trigger::ChannelKind;
use crate::trigger::OwnerId;
use crate::trigger::TriggerId;

/// Something that happened to a stand-alone alarm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlarmChange {
    /// Counts the changes of its owner, from 1.
    pub number: u64,
    /// When; of an attempt that is repeated, when that began.
    pub at: DateTime<Utc>,
    /// Which alarm.
    pub alarm_id: String,
    /// What it is called; as it is now.
    pub label: String,
    /// `created`, `changed`, `paused`, `resumed` or `cancelled`; of a firing `retrying`, `fired`, or what else became of it.
    pub what: String,
    /// The way out.
    pub channel: ChannelKind,
    /// Which firing of it, if it is about one.
    pub firing: Option<FiringChange>,
}

/// What happened to a firing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FiringChange {
    /// Its trigger.
    pub trigger_id: TriggerId,
    /// The instant that was promised.
    pub scheduled_for: DateTime<Utc>,
    /// Attempts so far.
    pub attempts: u32,
    /// What was said of it; empty if nothing.
    pub detail: String,
}

/// How many firings of an owner came to the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FiringCount {
    /// Through which way out.
    pub channel: ChannelKind,
    /// What they called: `owner` (an address or endpoint of the owner's) or `url` (one that the alarm names, or a handler).
    pub target: String,
    /// What became of them.
    pub outcome: String,
    /// How many.
    pub amount: i64,
}

/// What happens to stand-alone alarms.
#[async_trait::async_trait]
pub trait AlarmFeed {
    /// Up to `limit` changes of this owner's alarms after that number, in order. Where the first of them is not the next
    /// number, what lies between was deleted as old.
    async fn alarm_changes(
        &self,
        owner: &OwnerId,
        after: u64,
        limit: u32,
    ) -> Result<Vec<AlarmChange>, StoreError>;

    /// The numbers of the last changes of these owners' alarms; none of an owner of whom nothing was ever told.
    async fn last_changes(&self, owners: &[OwnerId]) -> Result<Vec<(OwnerId, u64)>, StoreError>;

    /// How many firings there were, by what they called and what became of them; costs the same however many.
    async fn firing_counts(&self, owner: &OwnerId) -> Result<Vec<FiringCount>, StoreError>;
}

/// Reads a row of `alarm_change`, with the id of its trigger in hexadecimal digits and the terms of its alarm.
pub(super) fn change<R: Values>(row: &R) -> Result<AlarmChange, StoreError> {
    let columns = Columns::new("alarm_change", "number", row);
    let trigger: Option<String> = columns.value("firing")?;
    let firing = trigger.map(|id| {
        Ok::<_, StoreError>(FiringChange {
            trigger_id: id.parse().map_err(|error| columns.corrupt("trigger_id", error))?,
            scheduled_for: columns.instant("scheduled_for")?,
            attempts: columns.number("attempts")?,
            detail: columns.value("detail")?,
        })
    });
    // What cannot be read, or is gone, has no label.
    let terms: Option<String> = columns.value("terms")?;
    let terms = terms.and_then(|terms| serde_json::from_str::<AlarmTerms>(&terms).ok());
    Ok(AlarmChange {
        number: columns.number("number")?,
        at: columns.instant("at")?,
        alarm_id: columns.value("alarm_id")?,
        label: terms.map(|terms| terms.label).unwrap_or_default(),
        what: columns.value("what")?,
        channel: columns.name("channel")?,
        firing: firing.transpose()?,
    })
}

/// Reads a row of `alarm_feed`.
pub(super) fn last<R: Values>(row: &R) -> Result<(OwnerId, u64), StoreError> {
    let columns = Columns::new("alarm_feed", "owner", row);
    Ok((OwnerId(columns.value("owner")?), columns.number("last")?))
}

/// Reads a row of `firing_count`.
pub(super) fn count<R: Values>(row: &R) -> Result<FiringCount, StoreError> {
    let columns = Columns::new("firing_count", "outcome", row);
    Ok(FiringCount {
        channel: columns.name("channel")?,
        target: columns.value("target")?,
        outcome: columns.value("outcome")?,
        amount: columns.value("amount")?,
    })
}
