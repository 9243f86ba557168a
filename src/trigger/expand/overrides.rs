//! Which instance an override speaks for (RFC 5545 section 3.8.4.4).

use std::collections::BTreeMap;

use chrono::DateTime;
use chrono::NaiveDateTime;
use chrono::TimeDelta;
use chrono::Utc;

use crate::calendar::event::Component;
use crate::calendar::moment::Anchor;
use crate::calendar::moment::Moment;
use crate::calendar::zone::Zone;

/// An override and the slot it names.
#[derive(Debug)]
pub(super) struct Override<'a> {
    pub(super) at: Anchor,
    pub(super) component: &'a Component,
}

pub(super) type ByRecurrenceId<'a> = BTreeMap<DateTime<Utc>, Override<'a>>;

/// Single and THISANDFUTURE overrides by the instance they name; of two for one instance the newer.
pub(super) fn sorted<'a>(
    overrides: &[&'a Component],
    base: Option<&Moment>,
    zone: &Zone,
) -> (ByRecurrenceId<'a>, ByRecurrenceId<'a>) {
    let mut singles = ByRecurrenceId::new();
    let mut futures = ByRecurrenceId::new();
    for component in overrides {
        let Some(id) = &component.recurrence_id else {
            continue;
        };
        let at = id.slot(base, zone);
        let map = if component.is_this_and_future {
            &mut futures
        } else {
            &mut singles
        };
        let is_newer = |kept: &Override<'_>| component.version >= kept.component.version;
        if map.get(&at.instant).is_none_or(is_newer) {
            map.insert(at.instant, Override { at, component });
        }
    }
    (singles, futures)
}

/// From where the overridden instance was to where it is now, on the wall clock of the override's zone.
pub(super) fn shift(component: &Component, slot: &Anchor, zone: &Zone) -> TimeDelta {
    let Some(start) = component.base() else {
        return TimeDelta::zero();
    };
    let own = start.zone.as_ref().unwrap_or(zone);
    start.local.signed_duration_since(local_in(own, slot))
}

/// The wall time of a slot in a zone: as written where it is its own.
pub(super) fn local_in(zone: &Zone, slot: &Anchor) -> NaiveDateTime {
    if *zone == slot.zone {
        slot.local
    } else {
        zone.to_local(slot.instant)
    }
}
