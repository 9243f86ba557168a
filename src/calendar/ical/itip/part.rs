//! A VEVENT or VTODO of a calendar or a message: its text, what it means, and which instances it speaks for.

use std::cmp::Ordering;

use chrono::DateTime;
use chrono::Utc;

use crate::calendar::event::Component;
use crate::calendar::event::Off;
use crate::calendar::ical::component;
use crate::calendar::ical::property::Property;
use crate::calendar::ical::tree;
use crate::calendar::ical::tree::Node;
use crate::calendar::moment::Anchor;
use crate::calendar::recurrence::Budget;
use crate::calendar::zone::Zone;

/// Search steps that it may cost to see whether a rule produces an instance: there may be hundreds to see to.
const STEPS: u32 = 500;

/// What a component speaks for, in the order in which components are merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Scope {
    /// The event or the whole series.
    All,
    /// The instance at this instant and all later ones.
    From(DateTime<Utc>),
    /// The instance at this instant.
    At(DateTime<Utc>),
}

impl Scope {
    /// Whether it takes in all that `other` speaks for, and more.
    pub(super) fn covers(self, other: Self) -> bool {
        match (self, other) {
            (Self::All, _) => other != Self::All,
            (Self::From(point), Self::At(at)) => point <= at,
            (Self::From(point), Self::From(later)) => point < later,
            _ => false,
        }
    }
}

/// A component with its text.
#[derive(Debug, Clone)]
pub(super) struct Part {
    /// Its text.
    pub(super) node: Node,
    /// What it means.
    pub(super) component: Component,
}

impl Part {
    /// What it speaks for, next to a master like this.
    pub(super) fn scope(&self, master: Option<&Self>) -> Scope {
        match self.slot(master) {
            None => Scope::All,
            Some(slot) if self.component.is_this_and_future => Scope::From(slot.instant),
            Some(slot) => Scope::At(slot.instant),
        }
    }

    /// The instance that its RECURRENCE-ID names. Floating time is compared as if it were UTC: it has no other here.
    pub(super) fn slot(&self, master: Option<&Self>) -> Option<Anchor> {
        let base = master.and_then(|master| master.component.base());
        let id = self.component.recurrence_id.as_ref()?;
        Some(id.slot(base, &Zone::utc()))
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.component.off == Some(Off::Cancelled)
    }

    /// Whether its STATUS calls it off, whatever the METHOD does.
    pub(super) fn says_cancelled(&self) -> bool {
        let status = self.node.find("STATUS");
        status.is_some_and(|status| status.plain_value().eq_ignore_ascii_case("CANCELLED"))
    }

    /// By which addresses its organizer is known; none where it names nobody.
    pub(super) fn organizer(&self) -> Vec<String> {
        let named = self.node.find("ORGANIZER").and_then(Property::read);
        named.map_or_else(Vec::new, |named| component::attendee(&named).addresses)
    }

    pub(super) fn sequence(&self) -> i64 {
        self.component.version.0
    }

    /// Which of two versions is newer: SEQUENCE, then DTSTAMP (RFC 5546 section 2.1.5). None where they have the same
    /// SEQUENCE and one has no DTSTAMP: then nobody can know.
    pub(super) fn compare(&self, other: &Self) -> Option<Ordering> {
        let (sequence, stamp) = self.component.version;
        let (other_sequence, other_stamp) = other.component.version;
        match sequence.cmp(&other_sequence) {
            Ordering::Equal => Some(stamp?.cmp(&other_stamp?)),
            order => Some(order),
        }
    }

    pub(super) fn is_newer_than(&self, other: &Self) -> bool {
        self.compare(other).is_none_or(Ordering::is_gt)
    }

    /// Whether an override has a place beside this master: it is no older than it, or takes place and names an instance of
    /// it. A newer series says by EXDATE what is still called off.
    pub(super) fn has_place_beside(&self, master: &Self) -> bool {
        let is_instance = || {
            self.slot(Some(master))
                .is_none_or(|slot| produces(&master.component, &slot))
        };
        self.sequence() >= master.sequence() || !self.is_cancelled() && is_instance()
    }

    /// Calls it off, as a newer version says.
    pub(super) fn cancel(&mut self, by: &Self) {
        self.node.set(tree::line("STATUS:CANCELLED"));
        for name in ["SEQUENCE", "DTSTAMP"] {
            if let Some(line) = by.node.find(name) {
                self.node.set(line.clone());
            }
        }
        self.component.off = Some(Off::Cancelled);
        self.component.version = by.component.version;
    }

    /// Its VALARMs.
    pub(super) fn alarms(&self) -> impl Iterator<Item = &Node> {
        self.node.children.iter().filter(|child| child.kind == "VALARM")
    }
}

/// Whether DTSTART, an RDATE or a rule gives this instance. Where that takes too long to see, it is believed.
fn produces(master: &Component, slot: &Anchor) -> bool {
    let floating = Zone::utc();
    let starts = master.base().map(|base| base.instant(&floating));
    let listed = master
        .rdates
        .iter()
        .map(|addition| addition.start.instant(&floating));
    if starts
        .into_iter()
        .chain(listed)
        .any(|instant| instant == slot.instant)
    {
        return true;
    }
    let mut budget = Budget { steps: STEPS };
    master.rules.iter().any(|rule| {
        let found = rule.rule.first_from(slot.local, &mut budget);
        found.is_ok_and(|found| found == Some(slot.local)) || budget.steps == 0
    })
}
