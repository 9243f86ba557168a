//! The slots that rules produce, in order of instants.
//!
//! Rules are enumerated in local time (`calendar::recurrence`). Where a clock is put forward, a local time inside the
//! gap is an instant after that of some later local times; such slots are held back until it is their turn.

use std::collections::BTreeMap;

use chrono::DateTime;
use chrono::NaiveDateTime;
use chrono::TimeDelta;
use chrono::Utc;

use crate::calendar::moment::Anchor;
use crate::calendar::recurrence::Budget;
use crate::calendar::recurrence::OutOfSteps;
use crate::calendar::recurrence::Rule;
use crate::calendar::zone::Zone;

/// More than any clock was ever put forward.
const WIDEST_GAP: TimeDelta = TimeDelta::hours(25);

/// What a slot costs in steps of the budget, besides finding it: it is mapped to instants several times.
const SLOT: u32 = 8;

/// Walks through the slots of one rule.
#[derive(Debug)]
pub(super) struct Walk<'a> {
    rule: &'a Rule,
    zone: &'a Zone,
    start: DateTime<Utc>,
    /// Where the rule is to be asked next; none at its end.
    next: Option<NaiveDateTime>,
    /// Slots that were found and not yet given out.
    waiting: BTreeMap<DateTime<Utc>, Anchor>,
    /// The latest found slot that lies in no gap, while it waits: nothing that follows is before it.
    settled: Option<DateTime<Utc>>,
    /// The latest found slot on the wall clock.
    found: Option<NaiveDateTime>,
}

impl<'a> Walk<'a> {
    /// Begins with the first slot at or after `start`.
    pub(super) fn new(rule: &'a Rule, zone: &'a Zone, start: DateTime<Utc>) -> Self {
        let anchor = Anchor::at_instant(start, zone);
        // A local time inside a gap may be an instant that is yet to come, though the clock has passed it.
        let earlier = anchor.instant - WIDEST_GAP;
        let was_changed = zone
            .stretch(anchor.instant)
            .begin
            .is_some_and(|change| earlier < change);
        Self {
            rule,
            zone,
            start,
            next: Some(if was_changed {
                zone.to_local(earlier)
            } else {
                anchor.local
            }),
            waiting: BTreeMap::new(),
            settled: None,
            found: None,
        }
    }

    /// The next slot.
    pub(super) fn next(&mut self, budget: &mut Budget) -> Result<Option<Anchor>, OutOfSteps> {
        while self.next.is_some() && !self.is_certain() {
            self.find(budget)?;
        }
        let Some((instant, anchor)) = self.waiting.pop_first() else {
            return Ok(None);
        };
        if self.settled == Some(instant) {
            self.settled = None;
        }
        Ok(Some(anchor))
    }

    /// Whether nothing that is yet to be found is before the first that waits.
    fn is_certain(&self) -> bool {
        let first = self.waiting.first_key_value();
        let is_far_behind = |(_, first): (&DateTime<Utc>, &Anchor)| {
            self.found.is_some_and(|found| found - first.local > WIDEST_GAP)
        };
        self.settled.is_some() || first.is_some_and(is_far_behind)
    }

    fn find(&mut self, budget: &mut Budget) -> Result<(), OutOfSteps> {
        let Some(from) = self.next else { return Ok(()) };
        budget.charge(SLOT)?;
        let found = self.rule.first_from(from, budget)?;
        self.next = found.and_then(|local| local.checked_add_signed(TimeDelta::seconds(1)));
        let Some(local) = found else { return Ok(()) };
        self.found = Some(local);
        let anchor = Anchor::at_local(local, self.zone);
        if anchor.instant < self.start {
            return Ok(());
        }
        if self.zone.to_local(anchor.instant) == anchor.local {
            self.settled = Some(anchor.instant);
        }
        self.waiting.entry(anchor.instant).or_insert(anchor);
        Ok(())
    }
}
