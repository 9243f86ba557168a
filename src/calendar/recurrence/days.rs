//! Which days a rule can fall on: BYMONTH, BYWEEKNO, BYYEARDAY, BYMONTHDAY and BYDAY.

use chrono::Datelike;
use chrono::Days;
use chrono::NaiveDate;
use chrono::Weekday;

use crate::calendar::recurrence::Budget;
use crate::calendar::recurrence::OutOfSteps;
use crate::calendar::recurrence::numbers::Numbers;
use crate::calendar::recurrence::numbers::Positions;

/// The days of 400 years: after them the calendar repeats, weekdays and all.
const DAYS_OF_CYCLE: u32 = 146_097;

/// The parts that choose days. A day must pass all that are there.
#[derive(Debug, Clone)]
pub(super) struct DayFilter {
    pub(super) months: Numbers,
    pub(super) week_numbers: Positions,
    pub(super) year_days: Positions,
    pub(super) month_days: Positions,
    pub(super) weekdays: Weekdays,
    pub(super) week_start: Weekday,
}

/// BYDAY.
#[derive(Debug, Clone, Default)]
pub(super) struct Weekdays {
    /// Weekdays without a number, by their number from Monday.
    pub(super) every: Numbers,
    /// Weekdays with numbers, by their number from Monday.
    pub(super) numbered: [Positions; 7],
    /// Whether there is one with a number.
    pub(super) are_numbered: bool,
    /// Whether the numbers count in the month, not in the year.
    pub(super) count_in_month: bool,
}

impl DayFilter {
    pub(super) fn matches(&self, day: NaiveDate) -> bool {
        self.months.admits(day.month())
            && (self.month_days.is_empty() || self.month_days.contains(day.day(), days_in_month(day)))
            && (self.year_days.is_empty() || self.year_days.contains(day.ordinal(), days_in_year(day)))
            && (self.weekdays.is_empty() || self.weekdays.contains(day))
            && (self.week_numbers.is_empty() || self.is_in_week_number(day))
    }

    /// The first matching day at or after `day`. `None` is certain: the calendar has been searched until it repeats.
    pub(super) fn next_from(
        &self,
        day: NaiveDate,
        budget: &mut Budget,
    ) -> Result<Option<NaiveDate>, OutOfSteps> {
        let Some(end) = day.checked_add_days(Days::new(u64::from(DAYS_OF_CYCLE))) else {
            return Ok(None);
        };
        let mut day = day;
        while day <= end {
            budget.spend()?;
            if self.matches(day) {
                return Ok(Some(day));
            }
            let next = if self.months.admits(day.month()) {
                day.succ_opt()
            } else {
                first_of_next_month(day)
            };
            let Some(next) = next else { return Ok(None) };
            day = next;
        }
        Ok(None)
    }

    /// The matching days of one month.
    pub(super) fn days_of_month(&self, year: i32, month: u32) -> Vec<NaiveDate> {
        if !self.months.admits(month) {
            return Vec::new();
        }
        let first = NaiveDate::from_ymd_opt(year, month, 1);
        let days = std::iter::successors(first, |day| day.succ_opt().filter(|next| next.month() == month));
        days.filter(|day| self.matches(*day)).collect()
    }

    /// BYWEEKNO. Week 1 is the first that has at least four days in the year (RFC 5545 section 3.3.10), so a week belongs to
    /// the year of its fourth day.
    fn is_in_week_number(&self, day: NaiveDate) -> bool {
        let week = |day: NaiveDate| {
            let into_week = day.weekday().days_since(self.week_start);
            let fourth = day
                .checked_sub_days(Days::new(u64::from(into_week)))?
                .checked_add_days(Days::new(3))?;
            Some((fourth.year(), fourth.ordinal0() / 7 + 1))
        };
        // 28 December is always in the last week of its year.
        week(day).is_some_and(|(year, number)| {
            let last = NaiveDate::from_ymd_opt(year, 12, 28).and_then(week);
            last.is_some_and(|(_, weeks)| self.week_numbers.contains(number, weeks))
        })
    }
}

impl Weekdays {
    pub(super) fn is_empty(&self) -> bool {
        self.every.is_empty() && !self.are_numbered
    }

    fn contains(&self, day: NaiveDate) -> bool {
        let weekday = day.weekday().num_days_from_monday();
        if !self.are_numbered || self.every.contains(weekday) {
            return self.every.contains(weekday);
        }
        let numbered = &self.numbered[weekday as usize];
        if numbered.is_empty() {
            return false;
        }
        let (place, length) = if self.count_in_month {
            (day.day0(), days_in_month(day))
        } else {
            (day.ordinal0(), days_in_year(day))
        };
        // How many days of this weekday are there, up to this one and in all?
        let number = place / 7 + 1;
        numbered.contains(number, number + (length - 1 - place) / 7)
    }
}

fn days_in_month(day: NaiveDate) -> u32 {
    u32::from(day.num_days_in_month())
}

fn days_in_year(day: NaiveDate) -> u32 {
    if day.leap_year() { 366 } else { 365 }
}

fn first_of_next_month(day: NaiveDate) -> Option<NaiveDate> {
    let (year, month) = if day.month() == 12 {
        (day.year() + 1, 1)
    } else {
        (day.year(), day.month() + 1)
    };
    NaiveDate::from_ymd_opt(year, month, 1)
}
