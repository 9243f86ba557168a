//! Events that are moved past all their alarms: whoever waited for one of them is told at once, and once. Pure.
//!
//! Only a move does it: a firing was still to come before the change, and now the same alarm fires for another occurrence,
//! or for one that starts at another time. What is created, imported or written with other alarms says nothing of its past.
//! Nor does an event that has begun.

use std::collections::BTreeMap;

use chrono::DateTime;
use chrono::Utc;

use crate::store::Record;
use crate::trigger::ChannelKind;
use crate::trigger::Place;
use crate::trigger::Recipient;
use crate::trigger::Trigger;
use crate::trigger::Wish;
use crate::trigger::expand::Firing;
use crate::trigger::expand::GaveUp;
use crate::trigger::series::Series;

/// Firings that are looked at for one of an occurrence.
const LOOKED_AT: usize = 50;

/// An alarm that was to fire, and whose firing was moved into the past.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moved {
    /// Whose.
    pub wish: Wish,
    /// The last firing that is past now though its occurrence has not begun.
    pub firing: Firing,
    /// What is recorded of it and those before where nobody is told.
    pub all: Record,
    /// What is recorded of those before where somebody is told.
    pub others: Option<Record>,
}

/// The last firing after `start` and not after `floor` whose occurrence has not begun at `now`.
pub fn last_unstarted(
    series: &Series<'_>,
    start: Place,
    floor: Place,
    now: DateTime<Utc>,
) -> Result<Option<Firing>, GaveUp> {
    let (mut after, mut last) = (start, None);
    for _ in 0..LOOKED_AT {
        match series.next(&after)? {
            Some(firing) if firing.place <= floor => {
                after = firing.place;
                last = Some(firing).filter(|firing| firing.starts_at > now).or(last);
            }
            _ => return Ok(last),
        }
    }
    Ok(None)
}

/// Whether `firing` comes of moving what `before` was to tell of after `floor`.
pub fn is_move(before: &Trigger, firing: &Firing, floor: Place) -> bool {
    let was_to_come = before.place > floor || before.moved;
    let occurrence = firing.place.occurrence;
    was_to_come && (before.place.occurrence != occurrence || firing.starts_at != occurrence)
}

/// Whether an alarm of this occurrence is still to come after `floor`.
pub fn speaks_later(series: &Series<'_>, occurrence: DateTime<Utc>, floor: Place) -> Result<bool, GaveUp> {
    let mut after = floor;
    for _ in 0..LOOKED_AT {
        match series.next(&after)? {
            Some(firing) if firing.place.occurrence == occurrence => return Ok(true),
            Some(firing) if firing.has_more => after = firing.place,
            _ => return Ok(false),
        }
    }
    Ok(false)
}

/// Of the alarms of each recipient and channel the one that speaks for all: that which was to fire last.
pub fn spokesmen(moved: Vec<Moved>) -> (Vec<Moved>, Vec<Moved>) {
    let mut last: BTreeMap<(ChannelKind, Recipient), Moved> = BTreeMap::new();
    let mut silent = Vec::new();
    for one in moved {
        let key = (one.wish.channel, one.wish.recipient.clone());
        match last.remove(&key) {
            Some(other) if other.firing.place >= one.firing.place => {
                silent.push(one);
                last.insert(key, other);
            }
            other => {
                silent.extend(other);
                last.insert(key, one);
            }
        }
    }
    (last.into_values().collect(), silent)
}
