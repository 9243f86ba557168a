//! The first firing after a place. Every source of firings is asked for its first; the earliest of them is the answer.
//!
//! A firing lies near its instance: the trigger, the length of the instance and the repeats bound how far before or
//! after ([`Reach`]). So a rule is searched from the earliest instance that can still fire after the place, up to the
//! first that can no longer fire before what was found, wherever DTSTART lies.

use chrono::DateTime;
use chrono::TimeDelta;
use chrono::Utc;

use crate::calendar::alarm::Alarm;
use crate::calendar::alarm::AlarmTrigger;
use crate::calendar::alarm::Related;
use crate::calendar::moment::Anchor;
use crate::calendar::recurrence::Budget;
use crate::calendar::recurrence::OutOfSteps;
use crate::trigger::Place;
use crate::trigger::expand::instance::Instance;
use crate::trigger::expand::series::Segment;
use crate::trigger::expand::series::Series;
use crate::trigger::expand::series::Slot;
use crate::trigger::expand::slots::Walk;
use crate::trigger::expand::voices::Role;
use crate::trigger::expand::voices::Voice;

/// Firings before and after these instants (1 January of the years 100 and 9989) are not looked for: so near to the ends
/// of the years that are known, times are cut to them (`calendar::moment`), and one is like the other.
const FIRST: DateTime<Utc> =
    DateTime::from_timestamp_secs(-59_011_459_200).expect("the year 100 is in range");
const LAST: DateTime<Utc> =
    DateTime::from_timestamp_secs(253_055_232_000).expect("the year 9989 is in range");

/// How far the wall clock can be off from exact time over a span of days, in seconds: clocks are changed by a day at the most.
const CLOCK_CHANGES: i64 = 26 * 3600;

/// How far the wall clocks of two zones can be apart, in seconds: each is less than a day from UTC.
const ZONES_APART: i64 = 48 * 3600;

/// A firing that was found.
#[derive(Debug, Clone)]
pub(super) struct Hit {
    pub(super) place: Place,
    pub(super) starts_at: DateTime<Utc>,
    pub(super) ends_at: DateTime<Utc>,
}

/// A search for the first firing after a place.
pub(super) struct Search<'a> {
    series: &'a Series<'a>,
    after: Place,
    best: Option<Hit>,
}

impl<'a> Search<'a> {
    pub(super) fn new(series: &'a Series<'a>, after: &Place) -> Self {
        Self {
            series,
            after: (*after).max(Place::just_before(FIRST)),
            best: None,
        }
    }

    /// Asks all voices. None of them may be refused.
    pub(super) fn run(
        mut self,
        voices: &[&Voice<'a>],
        budget: &mut Budget,
    ) -> Result<Option<Hit>, OutOfSteps> {
        for voice in voices {
            match (&voice.alarm.trigger, voice.role) {
                (AlarmTrigger::Absolute(_), _) => self.absolute(voice),
                (AlarmTrigger::Relative { .. }, Role::Single(occurrence)) => {
                    if self.may_be_first(voice, occurrence)
                        && let Some(instance) = self.series.single(occurrence, voice.component)
                    {
                        self.offer(&instance, voice.alarm);
                    }
                }
                (AlarmTrigger::Relative { .. }, Role::Segment(index)) => {
                    self.segment(&self.series.segments[index], voice.alarm, budget)?;
                }
            }
        }
        Ok(self.best)
    }

    /// False where the start of a single override shows that it does not fire first: its end costs more to find.
    fn may_be_first(&self, voice: &Voice<'a>, occurrence: DateTime<Utc>) -> bool {
        let (AlarmTrigger::Relative { span, related }, Some(base)) =
            (&voice.alarm.trigger, voice.component.base())
        else {
            return true;
        };
        let first = || base.anchor(self.series.zone).plus(*span);
        *related == Related::End
            || first_after(&first(), voice.alarm, occurrence, &self.after)
                .is_some_and(|place| self.is_first(&place))
    }

    fn absolute(&mut self, voice: &Voice<'a>) {
        let AlarmTrigger::Absolute(time) = &voice.alarm.trigger else {
            return;
        };
        let at = time.anchor(self.series.zone);
        let instance = voice.instance(self.series);
        let occurrence = instance
            .as_ref()
            .map_or(at.instant, |instance| instance.occurrence);
        if let Some(place) = first_after(&at, voice.alarm, occurrence, &self.after) {
            let (starts_at, ends_at) =
                instance.map_or((at.instant, at.instant), |instance| instance.bounds());
            self.take(Hit {
                place,
                starts_at,
                ends_at,
            });
        }
    }

    fn segment(
        &mut self,
        segment: &Segment<'a>,
        alarm: &Alarm,
        budget: &mut Budget,
    ) -> Result<(), OutOfSteps> {
        let series = self.series;
        let reach = Reach::of(segment, alarm);
        // What was acknowledged is done, however much of it there is.
        let done = alarm.acknowledged.unwrap_or(DateTime::<Utc>::MIN_UTC);
        let earliest = self.after.trigger_at.max(done).checked_sub_signed(reach.latest);
        for slot in series.listed_from(earliest) {
            if !series.has_periods && self.is_beyond(slot.at.instant + reach.earliest) {
                break;
            }
            if segment.covers(slot.at.instant) && !series.singles.contains_key(&slot.at.instant) {
                self.offer(&series.instance(segment, slot), alarm);
            }
        }
        let Some(base) = &series.base else { return Ok(()) };
        let earliest = earliest.map_or(base.instant, |earliest| earliest.max(base.instant));
        let start = segment.from.map_or(earliest, |from| from.max(earliest));
        for rule in &series.rules {
            let mut walk = Walk::new(rule, &base.zone, start);
            while let Some(at) = walk.next(budget)? {
                if segment.until.is_some_and(|until| until <= at.instant)
                    || self.is_beyond(at.instant + reach.earliest)
                {
                    break;
                }
                if series.is_new(&at) {
                    let slot = Slot { at, end: None };
                    self.offer(&series.instance(segment, &slot), alarm);
                }
            }
        }
        Ok(())
    }

    /// Whether no firing from here on can be before what was found.
    fn is_beyond(&self, earliest: DateTime<Utc>) -> bool {
        self.best.as_ref().map_or(LAST, |best| best.place.trigger_at) < earliest
    }

    fn offer(&mut self, instance: &Instance, alarm: &Alarm) {
        let AlarmTrigger::Relative { span, related } = alarm.trigger else {
            return;
        };
        let anchor = match related {
            Related::Start => instance.start.as_ref(),
            Related::End => instance.end.as_ref(),
        };
        let Some(anchor) = anchor else { return };
        if let Some(place) = first_after(&anchor.plus(span), alarm, instance.occurrence, &self.after) {
            let (starts_at, ends_at) = instance.bounds();
            self.take(Hit {
                place,
                starts_at,
                ends_at,
            });
        }
    }

    fn take(&mut self, hit: Hit) {
        if self.is_first(&hit.place) {
            self.best = Some(hit);
        }
    }

    fn is_first(&self, place: &Place) -> bool {
        place.trigger_at < LAST && self.best.as_ref().is_none_or(|best| *place < best.place)
    }
}

/// The first of the firings at `first` and its repeats that is after `after` and not acknowledged.
fn first_after(first: &Anchor, alarm: &Alarm, occurrence: DateTime<Utc>, after: &Place) -> Option<Place> {
    let done = alarm.acknowledged.map(|trigger_at| Place {
        trigger_at,
        occurrence: DateTime::<Utc>::MAX_UTC,
        repeat: u16::MAX,
    });
    let after = done.map_or(*after, |done| done.max(*after));
    let place = |repeat: u16| Place {
        trigger_at: first.plus(alarm.every.times(repeat)).instant,
        occurrence,
        repeat,
    };
    // Repeats are in order: the first that is after is found by halving.
    let (mut low, mut high) = (0, alarm.repeat + 1);
    while low < high {
        let middle = low.midpoint(high);
        if place(middle) > after {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    (low <= alarm.repeat).then(|| place(low))
}

/// How far the firings of an alarm can lie from the slots of their instances.
struct Reach {
    earliest: TimeDelta,
    latest: TimeDelta,
}

impl Reach {
    fn of(segment: &Segment<'_>, alarm: &Alarm) -> Self {
        let AlarmTrigger::Relative { span, related } = alarm.trigger else {
            return Self::between(0, 0, 0);
        };
        let (length, has_days) = match related {
            Related::Start => (0, false),
            Related::End => segment.lasts(),
        };
        let repeats = alarm.every.times(alarm.repeat).seconds_nominal();
        let is_moved = segment.from.is_some();
        let earliest = span.seconds_nominal() + length + segment.shift.num_seconds();
        let is_nominal = span.days != 0 || has_days || alarm.every.days != 0;
        // From zone to zone, and over the change of a clock.
        let slack = CLOCK_CHANGES * i64::from(is_nominal || is_moved) + ZONES_APART * i64::from(is_moved);
        Self::between(earliest, earliest + repeats, slack)
    }

    fn between(earliest: i64, latest: i64, slack: i64) -> Self {
        let delta = |seconds: i64| TimeDelta::try_seconds(seconds).unwrap_or(TimeDelta::zero());
        Self {
            earliest: delta(earliest - slack),
            latest: delta(latest + slack),
        }
    }
}
