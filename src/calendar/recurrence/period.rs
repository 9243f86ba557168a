//! The periods of a rule by number, so that a time is found in them by arithmetic.

use chrono::DateTime;
use chrono::Datelike;
use chrono::NaiveDate;
use chrono::NaiveDateTime;
use chrono::Timelike;

use crate::calendar::recurrence::Budget;
use crate::calendar::recurrence::Frequency;
use crate::calendar::recurrence::OutOfSteps;
use crate::calendar::recurrence::Rule;
use crate::calendar::recurrence::numbers::Numbers;
use crate::calendar::recurrence::set::PeriodSet;
use crate::calendar::recurrence::set::Times;

const DAY: i64 = 86_400;

/// What it costs in steps to look at the days of a month.
const MONTH: u32 = 4;

/// So many positions of BYSETPOS cost a step for each period.
const POSITIONS: u32 = 8;

/// The days from Monday 29 December 1969 to 1 January 1970.
const DAYS_FROM_MONDAY: i64 = 3;

impl Frequency {
    /// The seconds of a period, where all are equal and begin with the day: up to a day.
    pub(super) fn seconds(self) -> Option<i64> {
        match self {
            Self::Secondly => Some(1),
            Self::Minutely => Some(60),
            Self::Hourly => Some(3600),
            Self::Daily => Some(DAY),
            Self::Weekly | Self::Monthly | Self::Yearly => None,
        }
    }
}

impl Rule {
    /// The number of the period that a time lies in.
    pub(super) fn period_of(&self, local: NaiveDateTime) -> i64 {
        let seconds = local.and_utc().timestamp();
        match self.frequency {
            Frequency::Yearly => i64::from(local.year()),
            Frequency::Monthly => i64::from(local.year()) * 12 + i64::from(local.month0()),
            Frequency::Weekly => {
                (seconds.div_euclid(DAY) + DAYS_FROM_MONDAY - self.week_start_from_monday()).div_euclid(7)
            }
            Frequency::Daily => seconds.div_euclid(DAY),
            Frequency::Hourly => seconds.div_euclid(3600),
            Frequency::Minutely => seconds.div_euclid(60),
            Frequency::Secondly => seconds,
        }
    }

    /// When a period begins.
    fn opening(&self, period: i64) -> Option<NaiveDateTime> {
        let day = match self.frequency {
            Frequency::Yearly => NaiveDate::from_ymd_opt(period.try_into().ok()?, 1, 1),
            Frequency::Monthly => NaiveDate::from_ymd_opt(year_of(period)?, month_of(period)?, 1),
            Frequency::Weekly => {
                let days = period.checked_mul(7)? - DAYS_FROM_MONDAY + self.week_start_from_monday();
                NaiveDate::from_epoch_days(days.try_into().ok()?)
            }
            Frequency::Daily | Frequency::Hourly | Frequency::Minutely | Frequency::Secondly => {
                let seconds = period.checked_mul(self.frequency.seconds()?)?;
                return Some(DateTime::from_timestamp(seconds, 0)?.naive_utc());
            }
        };
        day?.and_hms_opt(0, 0, 0)
    }

    /// The first period of the rule, INTERVAL considered, that is not before `period`.
    pub(super) fn next_in_phase(&self, period: i64) -> i64 {
        let passed = (period - self.first_period).max(0);
        let intervals = passed / self.interval + i64::from(passed % self.interval != 0);
        self.first_period
            .saturating_add(intervals.saturating_mul(self.interval))
    }

    /// The first period at or after `period`, which is in phase, that its day and its time do not rule out; `None` at
    /// the end of the rule.
    pub(super) fn next_period(&self, period: i64, budget: &mut Budget) -> Result<Option<i64>, OutOfSteps> {
        let mut period = period;
        loop {
            budget.spend()?;
            let Some(opening) = self.opening(period).filter(|opening| *opening <= self.end) else {
                return Ok(None);
            };
            if self.is_plausible(period) {
                return Ok(Some(period));
            }
            let next = if self.days.matches(opening.date()) {
                self.next_time_of_day(opening)
            } else {
                let day = self.days.next_from(opening.date(), budget)?;
                day.and_then(|day| day.and_hms_opt(0, 0, 0))
            };
            let Some(next) = next else { return Ok(None) };
            period = self.next_in_phase(self.period_of(next));
        }
    }

    /// Whether nothing rules out the period as a whole. Only days and shorter periods can be ruled out: of a longer one,
    /// the set says it.
    pub(super) fn is_plausible(&self, period: i64) -> bool {
        if self.frequency > Frequency::Daily {
            return true;
        }
        self.opening(period).is_some_and(|opening| {
            self.days.matches(opening.date()) && self.next_time_of_day(opening) == Some(opening)
        })
    }

    /// The first time of day at or after the opening of a period at which BYHOUR, BYMINUTE and BYSECOND do not rule out
    /// a period; the next midnight if there is none. Parts that do not limit at this frequency are passed over.
    fn next_time_of_day(&self, opening: NaiveDateTime) -> Option<NaiveDateTime> {
        let limits = |longest: Frequency, numbers: Numbers, now: u32| {
            self.frequency <= longest && !numbers.admits(now)
        };
        let day = opening.date();
        let (hour, minute) = (opening.hour(), opening.minute());
        let midnight = || day.succ_opt()?.and_hms_opt(0, 0, 0);
        let hour_after = || day.and_hms_opt(hour + 1, 0, 0).or_else(midnight);
        let minute_after = || day.and_hms_opt(hour, minute + 1, 0).or_else(hour_after);
        if limits(Frequency::Hourly, self.hours, hour) {
            return self
                .hours
                .next_from(hour)
                .and_then(|hour| day.and_hms_opt(hour, 0, 0))
                .or_else(midnight);
        }
        if limits(Frequency::Minutely, self.minutes, minute) {
            let next = self.minutes.next_from(minute);
            return next
                .and_then(|minute| day.and_hms_opt(hour, minute, 0))
                .or_else(hour_after);
        }
        if limits(Frequency::Secondly, self.seconds, opening.second()) {
            let next = self.seconds.next_from(opening.second());
            return next
                .and_then(|second| day.and_hms_opt(hour, minute, second))
                .or_else(minute_after);
        }
        Some(opening)
    }

    /// So many periods in a row without a candidate mean that none has any: a set is made of its days alone, which
    /// repeat after 400 years, and the parts of a day are as many each day.
    pub(super) fn cycle(&self) -> i64 {
        let periods = match self.frequency {
            Frequency::Yearly => 400,
            Frequency::Monthly => 4_800,
            Frequency::Weekly => 20_871,
            Frequency::Daily | Frequency::Hourly | Frequency::Minutely | Frequency::Secondly => 1,
        };
        periods / greatest_divisor(periods, self.interval)
    }

    /// Whether nothing makes one period differ from another, so that all have as many candidates.
    pub(super) fn is_even(&self) -> bool {
        let days = &self.days;
        let is_open = days.months.is_empty()
            && days.week_numbers.is_empty()
            && days.year_days.is_empty()
            && days.month_days.is_empty();
        let limits_time =
            |longest: Frequency, numbers: Numbers| self.frequency <= longest && !numbers.is_empty();
        is_open
            && self.frequency <= Frequency::Weekly
            && (self.frequency == Frequency::Weekly || days.weekdays.is_empty())
            && !limits_time(Frequency::Hourly, self.hours)
            && !limits_time(Frequency::Minutely, self.minutes)
            && !limits_time(Frequency::Secondly, self.seconds)
    }

    /// The candidates of a period that [`Rule::next_period`] has let pass.
    pub(super) fn set(&self, period: i64, budget: &mut Budget) -> Result<PeriodSet, OutOfSteps> {
        let mut days = Vec::new();
        let mut times = Times {
            hours: self.hours,
            minutes: self.minutes,
            seconds: self.seconds,
        };
        let Some(opening) = self.opening(period) else {
            return Ok(PeriodSet::new(days, times, &self.set_positions));
        };
        budget.charge(u32::try_from(self.set_positions.len()).unwrap_or(u32::MAX) / POSITIONS)?;
        match self.frequency {
            Frequency::Yearly => {
                for month in (1..=12).filter(|month| self.days.months.admits(*month)) {
                    budget.charge(MONTH)?;
                    days.extend(self.days.days_of_month(opening.year(), month));
                }
            }
            Frequency::Monthly => {
                budget.charge(MONTH)?;
                days = self.days.days_of_month(opening.year(), opening.month());
            }
            Frequency::Weekly => {
                budget.spend()?;
                days.extend(
                    opening
                        .date()
                        .iter_days()
                        .take(7)
                        .filter(|day| self.days.matches(*day)),
                );
            }
            Frequency::Daily | Frequency::Hourly | Frequency::Minutely | Frequency::Secondly => {
                days.push(opening.date());
                times = self.times_of_short_period(opening, times);
            }
        }
        Ok(PeriodSet::new(days, times, &self.set_positions))
    }

    /// In a period of an hour or less, its own hour (minute, second) stands for that part.
    fn times_of_short_period(&self, opening: NaiveDateTime, times: Times) -> Times {
        let own = Times::at(opening);
        match self.frequency {
            Frequency::Hourly => Times {
                hours: own.hours,
                ..times
            },
            Frequency::Minutely => Times {
                seconds: times.seconds,
                ..own
            },
            Frequency::Secondly => own,
            _ => times,
        }
    }

    fn week_start_from_monday(&self) -> i64 {
        i64::from(self.days.week_start.num_days_from_monday())
    }
}

fn greatest_divisor(one: i64, other: i64) -> i64 {
    let (mut greater, mut smaller) = (one, other);
    while smaller != 0 {
        (greater, smaller) = (smaller, greater % smaller);
    }
    greater
}

fn year_of(months: i64) -> Option<i32> {
    months.div_euclid(12).try_into().ok()
}

fn month_of(months: i64) -> Option<u32> {
    u32::try_from(months.rem_euclid(12)).ok().map(|month| month + 1)
}
