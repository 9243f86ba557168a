//! From the text of a cron expression to what it means.

use chrono::NaiveDate;
use chrono::TimeDelta;

use crate::calendar::cron::Schedule;
use crate::calendar::cron::days::Days;
use crate::calendar::cron::days::DaysOfMonth;
use crate::calendar::cron::days::DaysOfWeek;
use crate::calendar::cron::error::CronError;
use crate::calendar::cron::field::DAY_OF_MONTH;
use crate::calendar::cron::field::DAY_OF_WEEK;
use crate::calendar::cron::field::HOUR;
use crate::calendar::cron::field::MINUTE;
use crate::calendar::cron::field::MONTH;
use crate::calendar::cron::field::Values;
use crate::calendar::cron::times::Times;
use crate::calendar::phrase;

/// The longest expression that is read, in bytes: all minutes of an hour as a list take 170.
pub(super) const LONGEST: usize = 512;

/// The longest interval of `@every`, in days.
const LONGEST_INTERVAL: i64 = 3_650;

/// Where the search for a day that matches begins; the calendar repeats every 400 years.
const ANY_DAY: NaiveDate = NaiveDate::from_ymd_opt(2000, 1, 1).expect("1 January 2000 is a day");

/// What the names with an `@` stand for.
const NAMES: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

pub(super) fn schedule(text: &str) -> Result<Schedule, CronError> {
    if text.len() > LONGEST {
        return Err(CronError::TooLong(text.len()));
    }
    if text.starts_with('@') {
        return named(text);
    }
    let fields: Vec<&str> = text.split_ascii_whitespace().collect();
    match fields.as_slice() {
        [second, fields @ ..] if fields.len() == 5 => {
            if second.bytes().all(|byte| byte == b'0') {
                calendar(text, fields)
            } else {
                Err(CronError::Seconds(text.to_owned()))
            }
        }
        fields => calendar(text, fields),
    }
}

fn named(text: &str) -> Result<Schedule, CronError> {
    let lower = text.to_ascii_lowercase();
    if let Some(interval) = lower.strip_prefix("@every") {
        return every(text, interval);
    }
    if lower == "@reboot" {
        return Err(CronError::Reboot);
    }
    match NAMES.iter().find(|(name, _)| *name == lower) {
        Some((_, meaning)) => schedule(meaning),
        None => Err(CronError::Name(text.to_owned())),
    }
}

fn every(text: &str, interval: &str) -> Result<Schedule, CronError> {
    let refused = || CronError::Every(text.to_owned());
    if !interval.starts_with([' ', '\t']) {
        return Err(refused());
    }
    let interval = phrase::delay(interval).map_err(|_| refused())?;
    let bounds = TimeDelta::seconds(1)..=TimeDelta::days(LONGEST_INTERVAL);
    if !bounds.contains(&interval) || interval.subsec_nanos() != 0 {
        return Err(refused());
    }
    Ok(Schedule::Every(interval))
}

fn calendar(text: &str, fields: &[&str]) -> Result<Schedule, CronError> {
    let [minutes, hours, of_month, months, of_week] = fields else {
        return Err(CronError::Count {
            text: text.to_owned(),
            count: fields.len(),
        });
    };
    let times = Times {
        minutes: MINUTE.values(minutes)?,
        hours: HOUR.values(hours)?,
    };
    let days = Days {
        of_month: days_of_month(of_month)?,
        months: MONTH.values(months)?,
        of_week: days_of_week(of_week)?,
    };
    if days.first_from(ANY_DAY).is_none() {
        return Err(CronError::Never {
            text: text.to_owned(),
            months: (*months).to_owned(),
            days: if *of_week == "*" {
                (*of_month).to_owned()
            } else {
                format!("{of_month} and {of_week}")
            },
        });
    }
    Ok(Schedule::Calendar { days, times })
}

fn days_of_month(text: &str) -> Result<DaysOfMonth, CronError> {
    let mut days = DaysOfMonth {
        values: Values::of_field(text),
        has_last: false,
        has_last_working: false,
    };
    for part in text.split(',') {
        if part.eq_ignore_ascii_case("L") {
            days.has_last = true;
        } else if part.eq_ignore_ascii_case("LW") {
            days.has_last_working = true;
        } else {
            DAY_OF_MONTH.add_part(part, &mut days.values)?;
        }
    }
    Ok(days)
}

fn days_of_week(text: &str) -> Result<DaysOfWeek, CronError> {
    let mut days = DaysOfWeek {
        values: Values::of_field(text),
        last: Values::default(),
        nth: [Values::default(); 5],
    };
    for part in text.split(',') {
        if let Some((day, place)) = part.split_once('#') {
            let index = ["1", "2", "3", "4", "5"].iter().position(|one| *one == place);
            let Some(nth) = index.and_then(|index| days.nth.get_mut(index)) else {
                let cure = "behind # stands which one of the month it is, from 1 to 5".to_owned();
                return Err(DAY_OF_WEEK.error(part, cure));
            };
            nth.add(weekday(part, day)?);
        } else if let Some(day) = part.strip_suffix(['L', 'l']) {
            days.last.add(weekday(part, day)?);
        } else {
            DAY_OF_WEEK.add_part(part, &mut days.values)?;
        }
    }
    if days.values.has(7) {
        days.values.add(0);
    }
    Ok(days)
}

/// The number of one day of the week, Sunday as 0.
fn weekday(part: &str, day: &str) -> Result<u32, CronError> {
    Ok(DAY_OF_WEEK.value(part, day)? % 7)
}
