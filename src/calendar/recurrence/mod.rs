//! Recurrence rules (RFC 5545 section 3.3.10), enumerated in local time.
//!
//! A rule divides time into *periods*: the years, months, weeks, days, hours, minutes or seconds of its FREQ, of which
//! every INTERVAL-th counts, beginning with DTSTART's (`period`). Each period has a *set* of candidates, which the BY
//! parts define and BYSETPOS thins (`set`). The instances are those of all sets from DTSTART to the end.
//!
//! So the question "which is the first at or after this time?" needs no walk from DTSTART: arithmetic finds the period of
//! that time, and its set or one of the next has the answer, whether the event began last week or in 1601. COUNT is the
//! exception, because it counts from DTSTART: where periods differ, one walk leads to the instance it names, which is kept as
//! the end. Only where this would take too long is the walk done for each question.
//!
//! A rule that matches nothing (30 February) is given up where the calendar repeats. One that hardly ever matches would
//! be searched for long: every step costs one of a [`Budget`], and no rule goes beyond the year 9988.
//!
//! Choices where implementations differ: BYWEEKNO and BYSETPOS work on the calendar year; BYMONTHDAY without BYMONTH in a
//! YEARLY rule means every month; hours are those of the wall clock.

mod days;
mod numbers;
mod period;
#[cfg(test)]
mod property;
#[cfg(test)]
mod reference;
mod set;
#[cfg(test)]
mod tests;
mod text;
mod values;

use chrono::DateTime;
use chrono::NaiveDate;
use chrono::NaiveDateTime;
use chrono::NaiveTime;
use chrono::TimeDelta;
use chrono::Utc;

use crate::calendar::recurrence::days::DayFilter;
use crate::calendar::recurrence::numbers::Numbers;
use crate::calendar::recurrence::numbers::Positions;
use crate::calendar::zone::Zone;

/// No instance lies after this day: one year is left before 9990, where instants are cut and one is like the other
/// (`calendar::moment`).
const LAST_DAY: NaiveDate =
    NaiveDate::from_ymd_opt(9988, 12, 31).expect("the year 9988 is inside chrono's range");

/// How many steps may go into finding the instance that COUNT makes the last.
const STEPS_FOR_COUNT: u32 = 5_000;

/// A recurrence rule together with the start it belongs to.
#[derive(Debug, Clone)]
pub struct Rule {
    frequency: Frequency,
    interval: i64,
    /// What remains of COUNT after `end` has taken in what it could.
    count: Option<u64>,
    until: Option<Until>,
    is_finite: bool,
    /// No instance lies after this. An UNTIL in UTC is decided by [`Rule::admits`]; this is then a day later.
    end: NaiveDateTime,
    days: DayFilter,
    hours: Numbers,
    minutes: Numbers,
    seconds: Numbers,
    set_positions: Positions,
    /// DTSTART, its zone, and the number of its period.
    start: NaiveDateTime,
    zone: Zone,
    first_period: i64,
}

/// The unit of a rule's periods, shortest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Frequency {
    /// Every second.
    Secondly,
    /// Every minute.
    Minutely,
    /// Every hour of the wall clock.
    Hourly,
    /// Every day.
    Daily,
    /// Every week, beginning on WKST.
    Weekly,
    /// Every month.
    Monthly,
    /// Every calendar year.
    Yearly,
}

/// The last time that UNTIL admits.
#[derive(Debug, Clone, Copy)]
enum Until {
    Local(NaiveDateTime),
    Instant(DateTime<Utc>),
}

/// Where a rule starts.
#[derive(Debug, Clone)]
pub struct Start {
    /// DTSTART in local time; 00:00 for a DATE.
    pub local: NaiveDateTime,
    /// Whether DTSTART is a DATE.
    pub is_date: bool,
    /// The zone of DTSTART, in which an UNTIL with `Z` is understood.
    pub zone: Zone,
}

/// Why a rule cannot be followed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// The text is no rule: the message names the part and the value.
    #[error("{0}")]
    Malformed(String),
}

/// How many search steps one question may cost; shared by all that is asked for it.
#[derive(Debug, Clone)]
pub struct Budget {
    /// Steps left.
    pub steps: u32,
}

impl Default for Budget {
    /// 200,000 steps: some tens of milliseconds at worst.
    fn default() -> Self {
        Self { steps: 200_000 }
    }
}

impl Budget {
    /// Takes so many steps for work that is done at once.
    pub fn charge(&mut self, steps: u32) -> Result<(), OutOfSteps> {
        self.steps = self.steps.checked_sub(steps).ok_or(OutOfSteps)?;
        Ok(())
    }

    fn spend(&mut self) -> Result<(), OutOfSteps> {
        self.charge(1)
    }
}

/// The search ran out of steps before it found an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the recurrence rule needs more than the allowed search steps")]
pub struct OutOfSteps;

impl Rule {
    /// Reads the value of an RRULE property, from its raw text. Returns what was read leniently as warnings.
    pub fn parse(text: &str, start: &Start) -> Result<(Self, Vec<String>), RuleError> {
        Self::parse_within(text, start, &mut Budget::default())
    }

    /// As [`Rule::parse`], where many rules share what counting to COUNT may cost. A rule for which nothing is left counts
    /// whenever it is asked.
    pub fn parse_within(
        text: &str,
        start: &Start,
        budget: &mut Budget,
    ) -> Result<(Self, Vec<String>), RuleError> {
        let (mut rule, warnings) = text::parse(text, start)?;
        rule.settle_count(budget);
        Ok((rule, warnings))
    }

    /// Turns COUNT into the time of the last instance, where that is found soon enough.
    fn settle_count(&mut self, budget: &mut Budget) {
        let Some(count) = self.count else { return };
        let allowed = budget.steps.min(STEPS_FOR_COUNT);
        let mut own = Budget { steps: allowed };
        let found = self.nth(count, &mut own);
        budget.steps -= allowed - own.steps;
        if let Ok(last) = found {
            self.count = None;
            self.end = self.end.min(last.unwrap_or(self.end));
        }
    }

    /// The unit of the rule's periods.
    pub fn frequency(&self) -> Frequency {
        self.frequency
    }

    /// How close two instances can be at the least, by minutes and hours; what is a day or more counts as a day.
    pub fn shortest_gap(&self) -> TimeDelta {
        let interval = self.interval.min(1440);
        if self.frequency == Frequency::Secondly || self.seconds.len() > 1 {
            return TimeDelta::seconds(1);
        }
        match self.minutes.closest_within(60) {
            None => return TimeDelta::minutes(interval),
            Some(60) => {}
            Some(minutes) => return TimeDelta::minutes(i64::from(minutes)),
        }
        match (self.hours.closest_within(24), self.frequency) {
            (None, Frequency::Hourly) => TimeDelta::hours(interval.min(24)),
            (None, _) => TimeDelta::hours(1),
            (Some(hours), _) => TimeDelta::hours(i64::from(hours)),
        }
    }

    /// The second of the minute at which its instances lie, the first of them if there are several.
    pub fn second(&self) -> Option<u32> {
        self.seconds.nth(0)
    }

    /// Whether COUNT or UNTIL ends the rule.
    pub fn is_finite(&self) -> bool {
        self.is_finite
    }

    /// The first instance at or after `from`, in local time. DTSTART itself is not added: an instance that the rule
    /// does not produce is the caller's to add; it does count toward COUNT (`semantics`: DTSTART takes one of COUNT).
    pub fn first_from(
        &self,
        from: NaiveDateTime,
        budget: &mut Budget,
    ) -> Result<Option<NaiveDateTime>, OutOfSteps> {
        let found = self.first_uncounted(from.max(self.start), budget)?;
        match (found, self.count) {
            (Some(instance), Some(count)) if self.rank(instance, count, budget)? >= count => Ok(None),
            _ => Ok(found),
        }
    }

    /// The first instance at or after `from`, which is not before DTSTART, with no regard to COUNT.
    fn first_uncounted(
        &self,
        from: NaiveDateTime,
        budget: &mut Budget,
    ) -> Result<Option<NaiveDateTime>, OutOfSteps> {
        let mut period = self.next_in_phase(self.period_of(from));
        let mut empty = 0;
        while let Some(number) = self.next_period(period, budget)? {
            let set = self.set(number, budget)?;
            empty = if set.len() == 0 { empty + 1 } else { 0 };
            if empty >= self.cycle() {
                return Ok(None);
            }
            for index in set.position(from)..set.len() {
                match set.get(index) {
                    Some(instance) if instance > self.end => return Ok(None),
                    Some(instance) if self.admits(instance) => return Ok(Some(instance)),
                    _ => budget.spend()?,
                }
            }
            period = self.next_in_phase(number + 1);
        }
        Ok(None)
    }

    /// How many of COUNT are used up before `instance`; at most `limit`, where the walk stops.
    fn rank(&self, instance: NaiveDateTime, limit: u64, budget: &mut Budget) -> Result<u64, OutOfSteps> {
        let mut rank = u64::from(!self.produces_start());
        let mut period = self.first_period;
        while rank < limit
            && let Some(number) = self.next_period(period, budget)?
        {
            let set = self.set(number, budget)?;
            let before = set.position(instance);
            rank += (before - set.position(self.start).min(before)) as u64;
            if before < set.len() {
                break;
            }
            period = self.next_in_phase(number + 1);
        }
        Ok(rank)
    }

    /// The instance that is number `count`, which COUNT makes the last one; `None` if there are fewer.
    fn nth(&self, count: u64, budget: &mut Budget) -> Result<Option<NaiveDateTime>, OutOfSteps> {
        let mut left = count - u64::from(!self.produces_start());
        if left == 0 {
            // DTSTART alone, which the rule does not produce: the end is before anything it does.
            return Ok(Some(self.start));
        }
        let mut period = self.first_period;
        if self.is_even() {
            // All periods behind the first have as many as the next one: all but the last are passed over at once.
            let second = self.next_in_phase(period + 1);
            let first = self.set(period, budget)?;
            let in_first = (first.len() - first.position(self.start)) as u64;
            let in_each = self.set(second, budget)?.len() as u64;
            if left > in_first && in_each > 0 {
                let passed = (left - in_first - 1) / in_each;
                left -= in_first + passed * in_each;
                let passed = i64::try_from(passed).unwrap_or(i64::MAX);
                period = second.saturating_add(passed.saturating_mul(self.interval));
                let set = self.set(period, budget)?;
                return Ok(usize::try_from(left - 1).ok().and_then(|index| set.get(index)));
            }
        }
        while let Some(number) = self.next_period(period, budget)? {
            let set = self.set(number, budget)?;
            let first = set.position(self.start);
            let size = (set.len() - first) as u64;
            if left <= size {
                let index = usize::try_from(left - 1).unwrap_or(usize::MAX);
                return Ok(set.get(first.saturating_add(index)));
            }
            left -= size;
            period = self.next_in_phase(number + 1);
        }
        Ok(None)
    }

    /// Whether DTSTART matches its own rule, as RFC 5545 wishes but many calendars do not do.
    fn produces_start(&self) -> bool {
        let mut enough = Budget::default();
        self.is_plausible(self.first_period)
            && self
                .set(self.first_period, &mut enough)
                .is_ok_and(|set| set.get(set.position(self.start)) == Some(self.start))
    }

    /// Whether UNTIL lets an instance pass. An UNTIL in UTC is compared in UTC, where a clock that is put back has told
    /// the same time before.
    fn admits(&self, instance: NaiveDateTime) -> bool {
        match self.until {
            None => true,
            Some(Until::Local(last)) => instance <= last,
            Some(Until::Instant(last)) => self.zone.to_utc(instance) <= last,
        }
    }
}

/// The last second of a day.
fn end_of_day(day: NaiveDate) -> NaiveDateTime {
    let last_second = NaiveTime::from_hms_opt(23, 59, 59).expect("23:59:59 is a time of day");
    day.and_time(last_second)
}
