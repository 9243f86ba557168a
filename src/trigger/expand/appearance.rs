//! What an occurrence looks like to a person.

use chrono::DateTime;
use chrono::TimeDelta;
use chrono::Utc;

use crate::calendar::event::Component;
use crate::calendar::event::Occurrence;
use crate::calendar::event::When;
use crate::calendar::recurrence::Budget;
use crate::calendar::zone::Zone;
use crate::trigger::expand::Person;
use crate::trigger::expand::instance::Instance;
use crate::trigger::expand::series::Series;
use crate::trigger::expand::series::Slot;
use crate::trigger::expand::slots::Walk;

/// The occurrence with this RECURRENCE-ID; none if there is none, or it does not take place.
pub(super) fn of(series: &Series<'_>, person: &Person, occurrence: DateTime<Utc>) -> Option<Occurrence> {
    let single = series.singles.get(&occurrence);
    // An absolute trigger of the master belongs to DTSTART even where that instance is called off.
    let is_first = series
        .base
        .as_ref()
        .is_some_and(|base| base.instant == occurrence);
    if let Some(component) = single.filter(|single| single.off.is_none() || !is_first) {
        let instance = series.single(occurrence, component);
        return shown(component, instance.as_ref(), occurrence, person);
    }
    let segment = series.segment_of(occurrence);
    let segment = segment
        .filter(|segment| segment.component.off.is_none() || !is_first)
        .or_else(|| series.segments.iter().find(|segment| segment.from.is_none()))?;
    let instance = slot(series, occurrence).map(|slot| series.instance(segment, &slot));
    if instance.is_none() && segment.component.base().is_some() {
        return None;
    }
    shown(segment.component, instance.as_ref(), occurrence, person)
}

/// The instance with this RECURRENCE-ID.
pub(super) fn instance(series: &Series<'_>, occurrence: DateTime<Utc>) -> Option<Instance> {
    if let Some(component) = series.singles.get(&occurrence) {
        return series.single(occurrence, component);
    }
    let segment = series.segment_of(occurrence)?;
    slot(series, occurrence).map(|slot| series.instance(segment, &slot))
}

/// The slot at exactly this instant. DTSTART has one even where EXDATE removes it: absolute triggers belong to it.
pub(super) fn slot(series: &Series<'_>, occurrence: DateTime<Utc>) -> Option<Slot> {
    let listed = series.listed.iter().find(|slot| slot.at.instant == occurrence);
    if let Some(listed) = listed {
        return Some(listed.clone());
    }
    let base = series.base.as_ref()?;
    if base.instant == occurrence {
        let at = base.clone();
        return Some(Slot { at, end: None });
    }
    let mut budget = Budget::default();
    let found = series.rules.iter().find_map(|rule| {
        let mut walk = Walk::new(rule, &base.zone, occurrence);
        let at = walk.next(&mut budget).ok()??;
        (at.instant == occurrence && series.is_new(&at)).then_some(at)
    });
    found.map(|at| Slot { at, end: None })
}

fn shown(
    component: &Component,
    instance: Option<&Instance>,
    occurrence: DateTime<Utc>,
    person: &Person,
) -> Option<Occurrence> {
    if component.off.is_some() {
        return None;
    }
    let words = component.words.clone();
    Some(Occurrence {
        summary: words.summary,
        description: words.description,
        location: words.location,
        link: words.link,
        organizer: words.organizer,
        my_status: component
            .attendee(&person.addresses)
            .and_then(|attendee| attendee.status.clone()),
        is_private: words.is_private,
        when: when(component, instance, occurrence),
        zone: foreign_zone(component, person),
        is_task: component.is_task,
    })
}

fn when(component: &Component, instance: Option<&Instance>, occurrence: DateTime<Utc>) -> When {
    let (start, end) = instance.map_or((occurrence, occurrence), Instance::bounds);
    let is_date = component.base().is_some_and(|base| base.is_date);
    let first = instance.and_then(|instance| instance.start.as_ref().or(instance.end.as_ref()));
    let Some(first) = first.filter(|_| is_date).map(|anchor| anchor.local.date()) else {
        return When::Timed { start, end };
    };
    let until = instance
        .and_then(|instance| instance.end.as_ref())
        .map_or(first, |end| end.local.date());
    let last = (until - TimeDelta::days(1)).max(first);
    When::AllDay {
        first,
        last,
        start,
        end,
    }
}

/// The zone the event is written in, where it has one that tells the person something.
fn foreign_zone(component: &Component, person: &Person) -> Option<Zone> {
    let zone = component.base()?.zone.clone()?;
    (zone != person.zone && zone != Zone::utc()).then_some(zone)
}
