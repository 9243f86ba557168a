//! What the parts of a phrase mean together, at an instant and in a zone.

use chrono::DateTime;
use chrono::Datelike;
use chrono::Days;
use chrono::Months;
use chrono::NaiveDate;
use chrono::NaiveDateTime;
use chrono::NaiveTime;
use chrono::TimeDelta;
use chrono::Timelike;
use chrono::Utc;
use chrono::Weekday;

use crate::calendar::phrase::Meaning;
use crate::calendar::phrase::clock::Clock;
use crate::calendar::phrase::clock::Part;
use crate::calendar::phrase::day::Day;
use crate::calendar::phrase::day::Period;
use crate::calendar::phrase::day::WeekdayOf;
use crate::calendar::phrase::error::PhraseError;
use crate::calendar::phrase::grammar::Phrase;
use crate::calendar::phrase::shift::Shift;
use crate::calendar::zone::Shown;
use crate::calendar::zone::Zone;

/// The last year that is understood; nothing fires later.
pub(super) const LAST_YEAR: i32 = 9988;

/// The time of a day for which none is said.
const USUAL: NaiveTime = NaiveTime::from_hms_opt(9, 0, 0).expect("9:00 is a time");

/// 29 February is at most eight years away.
const MOST_YEARS_TO_A_DAY: i32 = 8;

/// Every second month at least has a 31st.
const MOST_MONTHS_TO_A_DAY: u32 = 2;

/// A time of day, and with which midnight a day is left.
#[derive(Debug, Clone, Copy)]
struct Time {
    /// Days behind the day that was named: 1 for the midnight with which it ends.
    days: u64,
    clock: NaiveTime,
    /// Whether somebody wrote it, so that it has to exist.
    is_written: bool,
}

/// When and where a phrase is read.
#[derive(Debug, Clone, Copy)]
struct Here<'a> {
    now: DateTime<Utc>,
    today: NaiveDate,
    zone: &'a Zone,
}

/// The instants of one local time.
pub(super) fn local(local: NaiveDateTime, zone: &Zone) -> Result<Meaning, PhraseError> {
    let instants = match zone.shown(local) {
        Shown::Once(instant) => vec![instant],
        Shown::Twice(first, second) => vec![first, second],
        Shown::Never { from, to } => {
            return Err(PhraseError::Gap {
                zone: zone.name().to_owned(),
                local,
                from,
                to,
            });
        }
    };
    Meaning::of(instants).ok_or_else(|| PhraseError::TooFar(local.to_string()))
}

impl Phrase {
    /// `None` if that is further away than the calendar goes.
    pub(super) fn resolve(&self, now: DateTime<Utc>, zone: &Zone) -> Result<Option<Meaning>, PhraseError> {
        let now = DateTime::from_timestamp_millis(now.timestamp_millis()).unwrap_or(now);
        match self.shift {
            Some(shift) if self.is_shift_alone() => {
                let at = shifted(now, shift, zone).filter(|at| (1..=LAST_YEAR).contains(&at.year()));
                Ok(at.and_then(|at| Meaning::of(vec![at])))
            }
            Some(shift) if shift.exact != 0 => Err(PhraseError::Contradiction {
                first: "hours, minutes or seconds from now".to_owned(),
                second: "a day or a time of day".to_owned(),
            }),
            _ => self.of_calendar(now, zone),
        }
    }

    fn is_shift_alone(&self) -> bool {
        self.day.is_none() && self.weekday.is_none() && self.clock.is_none() && self.part.is_none()
    }

    /// A day and a time of day, either of which may be left open.
    fn of_calendar(&self, now: DateTime<Utc>, zone: &Zone) -> Result<Option<Meaning>, PhraseError> {
        let here = Here {
            now,
            today: zone.to_local(now).date(),
            zone,
        };
        let mut instants = Vec::new();
        let mut gap = None;
        for time in self.times()? {
            for day in self.days(here, time)? {
                match instants_of(day, time, zone) {
                    Ok(found) => instants.extend(found),
                    Err(refusal) => gap = at_time(day, time).map(|skipped| (zone.to_utc(skipped), refusal)),
                }
            }
        }
        // That one meaning is skipped by the clock does not make it the other.
        if let Some((at, refusal)) = gap
            && (instants.is_empty() || at > now)
        {
            return Err(refusal);
        }
        // What is over is not meant, where something else can be; but what was written as a date may be a mistake, and
        // months lie between its meanings.
        let is_date = matches!(self.day, Some(Day::EitherDate(..) | Day::OfYear { .. }));
        if !is_date && instants.iter().any(|instant| *instant > now) {
            instants.retain(|instant| *instant > now);
        }
        instants.retain(|instant| (1..=LAST_YEAR).contains(&instant.year()));
        let ahead = instants.iter().copied().filter(|instant| *instant > now).min();
        let meaning = Meaning::of(instants);
        Ok(meaning.map(|meaning| Meaning {
            at: ahead.unwrap_or(meaning.at),
            ..meaning
        }))
    }

    /// The times of day that can be meant.
    fn times(&self) -> Result<Vec<Time>, PhraseError> {
        let Some(clock) = self.clock else {
            return Ok(vec![Time {
                days: 0,
                clock: self.part.map_or(USUAL, Part::usual),
                is_written: false,
            }]);
        };
        let times = match (clock, self.part) {
            (Clock::Midnight, None) => vec![(0, NaiveTime::MIN), (1, NaiveTime::MIN)],
            (Clock::Midnight, Some(_)) => vec![(1, NaiveTime::MIN)],
            (Clock::At(time) | Clock::Written(time), None) => vec![(0, time)],
            (Clock::Hour(time), None) => vec![(0, time), (0, other_half(time))],
            (Clock::At(time), Some(part)) => vec![in_part(time, part)],
            (Clock::Hour(time) | Clock::Written(time), Some(part)) => {
                vec![in_part(of_half(time, part), part)]
            }
        };
        if let Some(part) = self.part
            && let Some((_, time)) = times.iter().find(|(_, time)| !is_in(*time, part))
        {
            return Err(PhraseError::Contradiction {
                first: time.format("%H:%M").to_string(),
                second: part.name().to_owned(),
            });
        }
        let written = |(days, clock)| Time {
            days,
            clock,
            is_written: true,
        };
        Ok(times.into_iter().map(written).collect())
    }

    /// The days that can be meant, for a time of day.
    fn days(&self, here: Here<'_>, time: Time) -> Result<Vec<NaiveDate>, PhraseError> {
        let days = match (self.day, self.weekday) {
            (Some(day), None) => of_day(day, here, time),
            (None, Some(weekday)) => of_weekday(weekday, here.today),
            (Some(day), Some(weekday)) => return self.on_weekday(of_day(day, here, time), weekday),
            (None, None) if self.shift.is_some() => vec![here.today],
            (None, None) => first_ahead([Some(here.today), here.today.succ_opt()], here, time),
        };
        let shift = self.shift.unwrap_or_default();
        Ok(days
            .into_iter()
            .filter_map(|day| shifted_day(day, shift))
            .collect())
    }

    /// The days of a date that must be a certain day of the week.
    fn on_weekday(&self, days: Vec<NaiveDate>, weekday: WeekdayOf) -> Result<Vec<NaiveDate>, PhraseError> {
        let shift = self.shift.unwrap_or_default();
        let named = days.first().map(ToString::to_string).unwrap_or_default();
        let on_weekday = days.into_iter().filter(|day| day.weekday() == weekday.weekday());
        let days: Vec<NaiveDate> = on_weekday.filter_map(|day| shifted_day(day, shift)).collect();
        if days.is_empty() {
            return Err(PhraseError::Contradiction {
                first: weekday.weekday().to_string(),
                second: named,
            });
        }
        Ok(days)
    }
}

fn of_day(day: Day, here: Here<'_>, time: Time) -> Vec<NaiveDate> {
    let today = here.today;
    let first_of_month = today.with_day(1);
    match day {
        Day::FromToday(days) => Vec::from_iter(days_after(today, days)),
        Day::Date(date) => vec![date],
        Day::EitherDate(one, other) => vec![one, other],
        Day::OfYear { month, day } => {
            let years = today.year()..=today.year() + MOST_YEARS_TO_A_DAY;
            let days = years.map(|year| NaiveDate::from_ymd_opt(year, month, day));
            let mut days = first_ahead(days, here, time);
            // Whoever names today may not mean it a year from now, because its time is over.
            if (today.month(), today.day()) == (month, day) && !days.contains(&today) {
                days.push(today);
            }
            days
        }
        Day::OfMonth(day) => {
            let months = 0..=MOST_MONTHS_TO_A_DAY;
            let days = months.map(|month| {
                first_of_month?
                    .checked_add_months(Months::new(month))?
                    .with_day(day)
            });
            first_ahead(days, here, time)
        }
        Day::LastOfMonth(months) => Vec::from_iter(
            first_of_month.and_then(|first| first.checked_add_months(Months::new(months + 1))?.pred_opt()),
        ),
        Day::Next(period) => of_next(period, today),
    }
}

/// `next week` and its like: its first day, or the day of it that is like today.
fn of_next(period: Period, today: NaiveDate) -> Vec<NaiveDate> {
    let (first, like_today) = match period {
        Period::Week => (monday_of_next_week(today), days_after(today, 7)),
        Period::Month => {
            let next = today.checked_add_months(Months::new(1));
            (next.and_then(|day| day.with_day(1)), next)
        }
        Period::Year => (
            NaiveDate::from_ymd_opt(today.year() + 1, 1, 1),
            today.checked_add_months(Months::new(12)),
        ),
    };
    first.into_iter().chain(like_today).collect()
}

fn of_weekday(weekday: WeekdayOf, today: NaiveDate) -> Vec<NaiveDate> {
    let ahead = |weekday: Weekday| i64::from(weekday.days_since(today.weekday()));
    let of_next_week = |weekday: Weekday| {
        monday_of_next_week(today)
            .and_then(|monday| days_after(monday, weekday.num_days_from_monday().into()))
    };
    match weekday {
        // Today as well: it is dropped where its time is over, and where that of next week is meant both can be.
        WeekdayOf::Coming(weekday) if weekday == today.weekday() => days_after(today, 0)
            .into_iter()
            .chain(days_after(today, 7))
            .collect(),
        WeekdayOf::Coming(weekday) => Vec::from_iter(days_after(today, ahead(weekday))),
        WeekdayOf::Next(weekday) => {
            let first = match ahead(weekday) {
                0 => days_after(today, 7),
                days => days_after(today, days),
            };
            first.into_iter().chain(of_next_week(weekday)).collect()
        }
        WeekdayOf::NextWeek(weekday) => Vec::from_iter(of_next_week(weekday)),
    }
}

/// The first of some days on which a time is still ahead.
fn first_ahead(
    days: impl IntoIterator<Item = Option<NaiveDate>>,
    here: Here<'_>,
    time: Time,
) -> Vec<NaiveDate> {
    let ahead = |day: &NaiveDate| match at_time(*day, time).map(|local| here.zone.shown(local)) {
        Some(Shown::Once(instant) | Shown::Twice(_, instant)) => instant > here.now,
        // Where it is refused, or the end of the gap is meant, it has to be the next one all the same.
        Some(Shown::Never { to, .. }) => here.zone.to_utc(to) > here.now,
        None => false,
    };
    Vec::from_iter(days.into_iter().flatten().find(ahead))
}

fn at_time(day: NaiveDate, time: Time) -> Option<NaiveDateTime> {
    Some(day.checked_add_days(Days::new(time.days))?.and_time(time.clock))
}

fn instants_of(day: NaiveDate, time: Time, zone: &Zone) -> Result<Vec<DateTime<Utc>>, PhraseError> {
    let Some(at) = at_time(day, time) else {
        return Ok(Vec::new());
    };
    if !time.is_written {
        return Ok(vec![zone.to_utc(at)]);
    }
    Ok(local(at, zone)?.all())
}

/// An instant moved: what the calendar counts by the clock of the zone, the rest as it passes.
fn shifted(now: DateTime<Utc>, shift: Shift, zone: &Zone) -> Option<DateTime<Utc>> {
    let moved = if (shift.months, shift.days) == (0, 0) {
        now
    } else {
        let local = zone.to_local(now);
        zone.to_utc(shifted_day(local.date(), shift)?.and_time(local.time()))
    };
    moved.checked_add_signed(TimeDelta::milliseconds(shift.exact))
}

fn shifted_day(day: NaiveDate, shift: Shift) -> Option<NaiveDate> {
    let months = Months::new(shift.months.unsigned_abs().try_into().ok()?);
    let day = match shift.months {
        ..0 => day.checked_sub_months(months)?,
        _ => day.checked_add_months(months)?,
    };
    days_after(day, shift.days)
}

fn days_after(day: NaiveDate, days: i64) -> Option<NaiveDate> {
    day.checked_add_signed(TimeDelta::try_days(days)?)
}

fn monday_of_next_week(today: NaiveDate) -> Option<NaiveDate> {
    days_after(today, 7 - i64::from(today.weekday().num_days_from_monday()))
}

/// The same place of the clock's face in the other half of the day.
fn other_half(time: NaiveTime) -> NaiveTime {
    time.with_hour((time.hour() + 12) % 24).unwrap_or(time)
}

/// What a time on a clock of 12 hours is in a part of the day; one of 24 hours as it is.
fn of_half(time: NaiveTime, part: Part) -> NaiveTime {
    let is_first_half = match part {
        Part::Morning => true,
        Part::Afternoon | Part::Evening => false,
        // Half of the night is behind midnight.
        Part::Night => matches!(time.hour(), 12 | 0..5),
    };
    match time.hour() {
        1..=12 if is_first_half != (time.hour() < 12) => other_half(time),
        _ => time,
    }
}

/// A time in a part of the day; what lies behind midnight belongs to the night of the day before.
fn in_part(time: NaiveTime, part: Part) -> (u64, NaiveTime) {
    let is_behind_midnight = part == Part::Night && time.hour() < 5;
    (is_behind_midnight.into(), time)
}

fn is_in(time: NaiveTime, part: Part) -> bool {
    match part {
        Part::Morning => time.hour() < 12,
        Part::Afternoon => (12..19).contains(&time.hour()),
        Part::Evening => (16..24).contains(&time.hour()),
        Part::Night => !(5..17).contains(&time.hour()),
    }
}
