//! The days of a cron expression: months, days of the month, days of the week.

use chrono::Datelike;
use chrono::NaiveDate;
use chrono::Weekday;

use crate::calendar::cron::field::Values;

/// No firing lies after this day, as no instance of a recurring event does.
pub(super) const LAST_DAY: NaiveDate =
    NaiveDate::from_ymd_opt(9988, 12, 31).expect("the year 9988 is inside chrono's range");

/// The calendar repeats after so many months: what matches no day of them matches none at all.
const MONTHS_OF_CALENDAR: usize = 4_800;

/// The days on which an expression fires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Days {
    pub(super) months: Values,
    pub(super) of_month: DaysOfMonth,
    pub(super) of_week: DaysOfWeek,
}

/// The field for days of the month.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DaysOfMonth {
    pub(super) values: Values,
    /// `L`: the last day.
    pub(super) has_last: bool,
    /// `LW`: the last day from Monday to Friday.
    pub(super) has_last_working: bool,
}

/// The field for days of the week; Sunday is 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DaysOfWeek {
    pub(super) values: Values,
    /// `5L`: the last such day of the month.
    pub(super) last: Values,
    /// `1#2`: the first, second … such day of the month, at its index from 0.
    pub(super) nth: [Values; 5],
}

impl Days {
    /// The first matching day, from one on.
    pub(super) fn first_from(&self, from: NaiveDate) -> Option<NaiveDate> {
        let mut month = from;
        for _ in 0..=MONTHS_OF_CALENDAR {
            if month > LAST_DAY {
                return None;
            }
            if self.months.has(month.month())
                && let Some(day) = self.first_of_month_from(month)
            {
                return Some(day);
            }
            month = first_of_next_month(month)?;
        }
        None
    }

    fn first_of_month_from(&self, from: NaiveDate) -> Option<NaiveDate> {
        from.iter_days()
            .take_while(|day| day.month() == from.month())
            .find(|day| self.has(*day))
    }

    fn has(&self, day: NaiveDate) -> bool {
        let (of_month, of_week) = (self.of_month.has(day), self.of_week.has(day));
        if self.of_month.values.is_star || self.of_week.values.is_star {
            of_month && of_week
        } else {
            of_month || of_week
        }
    }
}

impl DaysOfMonth {
    fn has(&self, day: NaiveDate) -> bool {
        self.values.has(day.day())
            || self.has_last && day.day() == last_of_month(day)
            || self.has_last_working && is_last_working(day)
    }
}

impl DaysOfWeek {
    fn has(&self, day: NaiveDate) -> bool {
        let weekday = day.weekday().num_days_from_sunday();
        let place = day.day0() / 7;
        let is_last = day.day() + 7 > last_of_month(day);
        self.values.has(weekday)
            || is_last && self.last.has(weekday)
            || self.nth.get(place as usize).is_some_and(|nth| nth.has(weekday))
    }
}

/// Whether a day is the last of its month from Monday to Friday.
fn is_last_working(day: NaiveDate) -> bool {
    let left = last_of_month(day) - day.day();
    match day.weekday() {
        Weekday::Sat | Weekday::Sun => false,
        Weekday::Fri => left <= 2,
        _ => left == 0,
    }
}

/// The number of the last day of a day's month.
fn last_of_month(day: NaiveDate) -> u32 {
    day.num_days_in_month().into()
}

fn first_of_next_month(day: NaiveDate) -> Option<NaiveDate> {
    let (year, month) = match day.month() {
        12 => (day.year() + 1, 1),
        month => (day.year(), month + 1),
    };
    NaiveDate::from_ymd_opt(year, month, 1)
}
