//! An event as one person sees it: which component speaks for which instance.
//!
//! The recurrence set (RFC 5545 section 3.8.5) is kept in two parts. What is listed (DTSTART, RDATE, and the instances
//! that an override names) is finite and stands sorted in memory; what the rules produce is endless and is only ever
//! asked for from some instant on. The master speaks for all instances, from the point of a THISANDFUTURE override on
//! that override does, and a single override for its own instance alone.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use chrono::DateTime;
use chrono::NaiveDate;
use chrono::TimeDelta;
use chrono::Utc;

use crate::calendar::alarm::SHORTEST_PAUSE;
use crate::calendar::event::Component;
use crate::calendar::event::Event;
use crate::calendar::event::PeriodEnd;
use crate::calendar::event::Recurrence;
use crate::calendar::moment::Anchor;
use crate::calendar::recurrence::Rule;
use crate::calendar::recurrence::Start;
use crate::calendar::zone::Zone;
use crate::trigger::expand::GaveUp;
use crate::trigger::expand::Person;
use crate::trigger::expand::instance::Instance;
use crate::trigger::expand::instance::Length;
use crate::trigger::expand::overrides::ByRecurrenceId;
use crate::trigger::expand::overrides::clock;
use crate::trigger::expand::overrides::shift;
use crate::trigger::expand::overrides::sorted;

/// A place in the recurrence set.
#[derive(Debug, Clone)]
pub(super) struct Slot {
    /// When the master has it start: its RECURRENCE-ID.
    pub(super) at: Anchor,
    /// The end a PERIOD brings along.
    pub(super) end: Option<PeriodEnd>,
}

/// The stretch of a series for which one component speaks.
#[derive(Debug)]
pub(super) struct Segment<'a> {
    /// Who speaks.
    pub(super) component: &'a Component,
    /// From here on; none from the beginning.
    pub(super) from: Option<DateTime<Utc>>,
    /// Until before here; none for ever.
    pub(super) until: Option<DateTime<Utc>>,
    /// How far a THISANDFUTURE override moves each start, from wall clock to wall clock.
    pub(super) shift: TimeDelta,
    length: Length,
}

impl Segment<'_> {
    /// How long its instances last, in seconds, and whether that is counted in days.
    pub(super) fn lasts(&self) -> (i64, bool) {
        match &self.length {
            Length::Exact(seconds, _) => (*seconds, false),
            Length::Span(span) => (span.seconds_nominal(), span.days != 0),
            Length::Unknown => (0, false),
        }
    }

    pub(super) fn covers(&self, occurrence: DateTime<Utc>) -> bool {
        self.from.is_none_or(|from| from <= occurrence) && self.until.is_none_or(|until| occurrence < until)
    }
}

/// An event as one person sees it.
#[derive(Debug)]
pub(super) struct Series<'a> {
    /// The person's zone.
    pub(super) zone: &'a Zone,
    /// A task that has no DTSTART starts when it is due.
    due_is_start: bool,
    /// DTSTART of the master.
    pub(super) base: Option<Anchor>,
    /// The rules of the master.
    pub(super) rules: Vec<Rule>,
    /// The slots that are listed and not removed, in order of time.
    pub(super) listed: Vec<Slot>,
    /// Whether a listed slot brings its own end, from which an alarm may be counted.
    pub(super) has_periods: bool,
    /// Who speaks for the instances that have no override of their own, in order of time.
    pub(super) segments: Vec<Segment<'a>>,
    /// Single overrides by RECURRENCE-ID.
    pub(super) singles: BTreeMap<DateTime<Utc>, &'a Component>,
    /// Listed instances that are left out: another one is less than a minute before them.
    pub(super) too_close: Vec<DateTime<Utc>>,
    known: BTreeSet<DateTime<Utc>>,
    removed: Removed,
}

impl<'a> Series<'a> {
    /// Sorts out who speaks for what.
    pub(super) fn new(event: &'a Event, person: &'a Person) -> Result<Self, GaveUp> {
        let zone = &person.zone;
        let components = event.components().iter();
        let (overrides, masters): (Vec<&Component>, Vec<&Component>) =
            components.partition(|component| component.recurrence_id.is_some());
        let master = masters.into_iter().max_by_key(|component| component.version);
        let base = master.and_then(Component::base);
        let (singles, futures) = sorted(&overrides, base, zone);
        let removed = master.map_or_else(Removed::default, |master| Removed::of(master, zone));
        let (listed, too_close) =
            master.map_or_else(Default::default, |master| listed(master, zone, &removed));
        let mut series = Self {
            zone,
            due_is_start: person.choices.due_is_start,
            base: base.map(|base| base.anchor(zone)),
            rules: master.map_or(Ok(Vec::new()), |master| rules(master, zone))?,
            listed,
            too_close,
            segments: segments(master, &futures, zone),
            singles: singles
                .into_iter()
                .map(|(at, single)| (at, single.component))
                .collect(),
            has_periods: false,
            known: BTreeSet::new(),
            removed,
        };
        series.list_overridden(&futures);
        Ok(series)
    }

    /// The instance that a THISANDFUTURE override names exists, whether the rules produce it or not.
    fn list_overridden(&mut self, futures: &ByRecurrenceId<'a>) {
        for (instant, future) in futures {
            if self.listed.iter().all(|slot| slot.at.instant != *instant) {
                let at = future.at.clone();
                self.listed.push(Slot { at, end: None });
            }
        }
        self.listed.sort_by_key(|slot| slot.at.instant);
        self.has_periods = self.listed.iter().any(|slot| slot.end.is_some());
        self.known = self.listed.iter().map(|slot| slot.at.instant).collect();
    }

    /// What is listed, from the first that is not before `earliest`; all of it where there are periods.
    pub(super) fn listed_from(&self, earliest: Option<DateTime<Utc>>) -> &[Slot] {
        let Some(earliest) = earliest.filter(|_| !self.has_periods) else {
            return &self.listed;
        };
        let first = self.listed.partition_point(|slot| slot.at.instant < earliest);
        &self.listed[first..]
    }

    /// How many dates and overrides there are to sort.
    pub(super) fn size(&self) -> usize {
        self.listed.len() + self.removed.instants.len() + self.removed.days.len() + self.singles.len()
    }

    /// Whether a slot that a rule produced is one of the set and not told of elsewhere.
    pub(super) fn is_new(&self, at: &Anchor) -> bool {
        !self.known.contains(&at.instant)
            && !self.singles.contains_key(&at.instant)
            && !self.removed.holds(at)
    }

    /// Whether EXDATE takes a slot out.
    pub(super) fn is_removed(&self, at: &Anchor) -> bool {
        self.removed.holds(at)
    }

    /// The instance at a slot, as `segment` has it.
    pub(super) fn instance(&self, segment: &Segment<'a>, slot: &Slot) -> Instance {
        let start = self.start(segment, &slot.at);
        let period = slot
            .end
            .as_ref()
            .filter(|_| segment.from.is_none())
            .map(|end| match end {
                PeriodEnd::At(time) => time.anchor(self.zone),
                PeriodEnd::After(span) => start.plus(*span),
            });
        let period = period.filter(|end| end.instant >= start.instant);
        self.started(Instance::new(
            slot.at.instant,
            start,
            segment.component,
            &segment.length,
            period,
        ))
    }

    /// The instance of a single override.
    pub(super) fn single(&self, occurrence: DateTime<Utc>, component: &Component) -> Option<Instance> {
        let start = component.base()?.anchor(self.zone);
        let length = Length::of(component, self.zone);
        Some(self.started(Instance::new(occurrence, start, component, &length, None)))
    }

    /// The instance with a start even where DTSTART is missing, if that is the choice.
    fn started(&self, mut instance: Instance) -> Instance {
        if self.due_is_start && instance.start.is_none() {
            instance.start.clone_from(&instance.end);
        }
        instance
    }

    /// Where `segment` has the slot start: moved on the wall clock, and in the zone that its override names.
    fn start(&self, segment: &Segment<'a>, at: &Anchor) -> Anchor {
        if segment.from.is_none() {
            return at.clone();
        }
        let zone = segment
            .component
            .base()
            .and_then(|base| base.zone.as_ref())
            .unwrap_or(self.zone);
        let at = self.on_own_clock(at);
        let local = at.local.checked_add_signed(segment.shift).unwrap_or(at.local);
        Anchor::at_local(local, clock(zone, &at))
    }

    /// A slot by the clock of DTSTART, in whatever zone its RDATE is written.
    fn on_own_clock(&self, at: &Anchor) -> Anchor {
        match &self.base {
            Some(base) if base.zone != at.zone => Anchor::at_instant(at.instant, &base.zone),
            _ => at.clone(),
        }
    }

    /// The segment that speaks for an instance without an override of its own.
    pub(super) fn segment_of(&self, occurrence: DateTime<Utc>) -> Option<&Segment<'a>> {
        self.segments.iter().find(|segment| segment.covers(occurrence))
    }
}

/// What EXDATE takes out (RFC 5545 section 3.8.5.1): by instant, in whatever zone it is written; an EXDATE that is a
/// DATE takes out the whole local day.
#[derive(Debug, Default)]
struct Removed {
    instants: BTreeSet<DateTime<Utc>>,
    days: BTreeSet<NaiveDate>,
}

impl Removed {
    fn of(master: &Component, zone: &Zone) -> Self {
        let by_day = master.base().is_some_and(|base| base.is_date);
        let mut removed = Self::default();
        for exdate in &master.exdates {
            if by_day || exdate.is_date {
                removed.days.insert(exdate.day(zone));
                continue;
            }
            removed.instants.insert(exdate.instant(zone));
            // Many forget the TZID here: then the clock of DTSTART is meant.
            let base = master.base().and_then(|base| base.zone.as_ref());
            removed.instants.extend(base.map(|zone| exdate.instant(zone)));
        }
        removed
    }

    fn holds(&self, at: &Anchor) -> bool {
        self.instants.contains(&at.instant) || self.days.contains(&at.local.date())
    }
}

fn rules(master: &Component, zone: &Zone) -> Result<Vec<Rule>, GaveUp> {
    let Some(base) = master.base() else {
        return Ok(Vec::new());
    };
    let start = Start {
        local: base.local,
        is_date: base.is_date,
        zone: base.zone.as_ref().unwrap_or(zone).clone(),
    };
    let read = |recurrence: &Recurrence| {
        if base.zone.is_some() || !recurrence.text.to_ascii_uppercase().contains("UNTIL") {
            return Ok(recurrence.rule.clone());
        }
        match Rule::parse(&recurrence.text, &start) {
            Ok((rule, _)) => Ok(rule),
            Err(error) => Err(GaveUp(format!("RRULE: {error}"))),
        }
    };
    master.rules.iter().map(read).collect()
}

/// DTSTART and the RDATEs that are not removed, in order; of two closer than a minute the first, and the other apart.
fn listed(master: &Component, zone: &Zone, removed: &Removed) -> (Vec<Slot>, Vec<DateTime<Utc>>) {
    let first = master.base().map(|base| Slot {
        at: base.anchor(zone),
        end: None,
    });
    let additions = master.rdates.iter().map(|addition| Slot {
        at: addition.start.anchor(zone),
        end: addition.end.clone(),
    });
    let mut slots: Vec<Slot> = first.into_iter().chain(additions).collect();
    slots.retain(|slot| !removed.holds(&slot.at));
    // A period comes first among equals, since it knows its end.
    slots.sort_by_key(|slot| (slot.at.instant, slot.end.is_none()));
    let mut last: Option<DateTime<Utc>> = None;
    let mut too_close = Vec::new();
    slots.retain(|slot| {
        let is_apart = last.is_none_or(|last| slot.at.instant - last >= TimeDelta::seconds(SHORTEST_PAUSE));
        if is_apart {
            last = Some(slot.at.instant);
        } else if last != Some(slot.at.instant) {
            too_close.push(slot.at.instant);
        }
        is_apart
    });
    (slots, too_close)
}

fn segments<'a>(
    master: Option<&'a Component>,
    futures: &ByRecurrenceId<'a>,
    zone: &Zone,
) -> Vec<Segment<'a>> {
    let points: Vec<DateTime<Utc>> = futures.keys().copied().collect();
    let mut segments = Vec::with_capacity(points.len() + 1);
    segments.extend(master.map(|component| Segment {
        component,
        from: None,
        until: points.first().copied(),
        shift: TimeDelta::zero(),
        length: Length::of(component, zone),
    }));
    for (index, (from, future)) in futures.iter().enumerate() {
        segments.push(Segment {
            component: future.component,
            from: Some(*from),
            until: points.get(index + 1).copied(),
            shift: shift(future.component, &future.at, zone),
            length: Length::of(future.component, zone),
        });
    }
    segments
}
