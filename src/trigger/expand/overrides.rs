//! Which instance an override speaks for (RFC 5545 section 3.8.4.4).

use std::collections::BTreeMap;

use chrono::DateTime;
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

/// How far a THISANDFUTURE override moves each start: from the wall time of the instance that it names to its own.
pub(super) fn shift(component: &Component, slot: &Anchor, zone: &Zone) -> TimeDelta {
    let Some(start) = component.base() else {
        return TimeDelta::zero();
    };
    let own = start.zone.as_ref().unwrap_or(zone);
    let local = match clock(own, slot) {
        clock if clock == own => start.local,
        clock => clock.to_local(start.instant(zone)),
    };
    local.signed_duration_since(slot.local)
}

/// Whose wall clock tells when the instances of a THISANDFUTURE override start: that of its own zone. One in UTC names an
/// instant and no clock: the series stays on its own.
pub(super) fn clock<'a>(own: &'a Zone, slot: &'a Anchor) -> &'a Zone {
    if *own == Zone::utc() { &slot.zone } else { own }
}
