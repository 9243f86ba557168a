//! From the text of an RRULE to a [`Rule`].
//!
//! What a producer clearly meant is read, with a warning that says how; what has no meaning is refused, with the part and
//! its value, because a rule that is half understood would ring at the wrong times.

use chrono::Datelike;
use chrono::NaiveDateTime;
use chrono::TimeDelta;
use chrono::Timelike;
use chrono::Weekday;

use crate::calendar::recurrence::Frequency;
use crate::calendar::recurrence::LAST_DAY;
use crate::calendar::recurrence::Rule;
use crate::calendar::recurrence::RuleError;
use crate::calendar::recurrence::Start;
use crate::calendar::recurrence::Until;
use crate::calendar::recurrence::days::DayFilter;
use crate::calendar::recurrence::days::Weekdays;
use crate::calendar::recurrence::end_of_day;
use crate::calendar::recurrence::numbers::Numbers;
use crate::calendar::recurrence::numbers::Positions;
use crate::calendar::recurrence::values;
use crate::calendar::recurrence::values::UntilText;
use crate::calendar::recurrence::values::malformed;
use crate::calendar::recurrence::values::quoted;

/// Warnings beyond this number say nothing new.
const MAX_WARNINGS: usize = 20;

/// The parts as the text gives them.
#[derive(Default)]
struct Parts {
    seen: Vec<&'static str>,
    frequency: Option<Frequency>,
    interval: Option<i64>,
    count: Option<u64>,
    until: Option<UntilText>,
    seconds: Numbers,
    minutes: Numbers,
    hours: Numbers,
    weekdays: Vec<(i32, Weekday)>,
    month_days: Positions,
    year_days: Positions,
    week_numbers: Positions,
    months: Numbers,
    set_positions: Positions,
    week_start: Option<Weekday>,
    warnings: Vec<String>,
}

pub(super) fn parse(text: &str, start: &Start) -> Result<(Rule, Vec<String>), RuleError> {
    let mut parts = Parts::default();
    for part in text.split(';').map(str::trim).filter(|part| !part.is_empty()) {
        match part.split_once('=') {
            Some((name, value)) => parts.read(name.trim(), value.trim())?,
            None => parts.warn(format!(
                "`{}` in the rule has no value and is ignored",
                quoted(part)
            )),
        }
    }
    let frequency = parts
        .frequency
        .ok_or_else(|| malformed("the rule has no FREQ: give it one, as `FREQ=DAILY`"))?;
    if start.is_date && frequency < Frequency::Daily {
        return Err(malformed(
            "a FREQ shorter than DAILY needs a DTSTART with a time of day",
        ));
    }
    parts.warn_of_doubtful(frequency);
    let rule = parts.rule(frequency, start);
    Ok((rule, parts.warnings))
}

impl Parts {
    fn read(&mut self, name: &str, value: &str) -> Result<(), RuleError> {
        if name.eq_ignore_ascii_case("SKIP") {
            self.warn_of_skip(value);
            return Ok(());
        }
        let Some(name) = NAMES.into_iter().find(|known| known.eq_ignore_ascii_case(name)) else {
            self.warn(format!(
                "the unknown part `{}` of the rule is ignored",
                quoted(name)
            ));
            return Ok(());
        };
        if self.seen.contains(&name) {
            self.warn(format!("the rule has {name} twice, the last one counts"));
        }
        self.seen.push(name);
        if value.is_empty() && name.starts_with("BY") {
            self.warn(format!("{name} of the rule is empty and ignored"));
            return Ok(());
        }
        self.set(name, &value.to_ascii_uppercase())
    }

    /// Days that a month does not have are left out, as RFC 5545 has it; another SKIP (RFC 7529 section 4.1) moves them.
    fn warn_of_skip(&mut self, value: &str) {
        if !value.eq_ignore_ascii_case("OMIT") {
            self.warn(format!(
                "SKIP={} of the rule is not followed: dates that do not exist are left out",
                quoted(value)
            ));
        }
    }

    fn set(&mut self, name: &'static str, value: &str) -> Result<(), RuleError> {
        match name {
            "FREQ" => self.frequency = Some(values::frequency(value)?),
            "INTERVAL" => self.interval = Some(values::positive(name, value)?.min(i64::from(u32::MAX))),
            "COUNT" => self.count = Some(values::positive(name, value)?.unsigned_abs()),
            "UNTIL" => self.until = Some(values::until(value)?),
            "BYSECOND" => self.seconds = self.seconds_of_minute(value)?,
            "BYMINUTE" => self.minutes = values::numbers(name, value, 0..=59)?,
            "BYHOUR" => self.hours = values::numbers(name, value, 0..=23)?,
            "BYDAY" => self.weekdays = values::numbered_weekdays(value)?,
            "BYMONTHDAY" => self.month_days = values::positions(name, value, 31)?,
            "BYYEARDAY" => self.year_days = values::positions(name, value, 366)?,
            "BYWEEKNO" => self.week_numbers = values::positions(name, value, 53)?,
            "BYMONTH" => self.months = values::numbers(name, value, 1..=12)?,
            "BYSETPOS" => self.set_positions = values::positions(name, value, 366)?,
            "WKST" => self.week_start = Some(values::weekday(name, value)?),
            // RFC 7529: another calendar's rule would fall on other days.
            _ if value == "GREGORIAN" => (),
            _ => {
                return Err(malformed(format!(
                    "`RSCALE={}` is a calendar that is not known",
                    quoted(value)
                )));
            }
        }
        Ok(())
    }

    fn seconds_of_minute(&mut self, value: &str) -> Result<Numbers, RuleError> {
        let mut seconds = values::numbers("BYSECOND", value, 0..=60)?;
        if seconds.contains(60) {
            self.warn("BYSECOND=60 of the rule is read as 59: only leap seconds have a 60".into());
            seconds = seconds.iter().map(|second| second.min(59)).collect();
        }
        Ok(seconds)
    }

    fn warn(&mut self, warning: String) {
        if self.warnings.len() < MAX_WARNINGS {
            self.warnings.push(warning);
        }
    }

    /// Warns of parts that RFC 5545 forbids beside this FREQ, and that are followed all the same.
    fn warn_of_doubtful(&mut self, frequency: Frequency) {
        if self.count.is_some() && self.until.is_some() {
            self.warn("the rule has both COUNT and UNTIL, whichever comes first ends it".into());
        }
        if !self.week_numbers.is_empty() && frequency != Frequency::Yearly {
            self.warn("BYWEEKNO belongs to FREQ=YEARLY alone, here it is a limit".into());
        }
        if !self.month_days.is_empty() && frequency == Frequency::Weekly {
            self.warn("BYMONTHDAY does not belong to FREQ=WEEKLY, here it is a limit".into());
        }
        let limits_year = matches!(
            frequency,
            Frequency::Daily | Frequency::Weekly | Frequency::Monthly
        );
        if !self.year_days.is_empty() && limits_year {
            self.warn(
                "BYYEARDAY does not belong to FREQ=DAILY, WEEKLY or MONTHLY, here it is a limit".into(),
            );
        }
    }

    fn rule(&mut self, frequency: Frequency, start: &Start) -> Rule {
        let local = start.local.with_nanosecond(0).unwrap_or(start.local);
        let local = if start.is_date {
            local.date().and_time(chrono::NaiveTime::MIN)
        } else {
            local
        };
        let until = self.until.map(|until| until.of(start));
        let (hours, minutes, seconds) = self.times(frequency, local, start.is_date);
        let days = self.days(frequency, local);
        let mut rule = Rule {
            frequency,
            interval: self.interval.unwrap_or(1),
            count: self.count,
            until,
            is_finite: self.count.is_some() || until.is_some(),
            end: end_of_day(LAST_DAY).min(until.map_or(NaiveDateTime::MAX, |until| until.latest(start))),
            days,
            hours,
            minutes,
            seconds,
            set_positions: self.set_positions,
            start: local,
            zone: start.zone.clone(),
            first_period: 0,
        };
        rule.first_period = rule.period_of(local);
        rule
    }

    /// The times of day. A part that is not there is DTSTART's, unless the period is so short that it has its own.
    fn times(
        &self,
        frequency: Frequency,
        local: NaiveDateTime,
        is_date: bool,
    ) -> (Numbers, Numbers, Numbers) {
        let own = |numbers: Numbers, longest_without: Frequency, number: u32| {
            if is_date || numbers.is_empty() && frequency > longest_without {
                Numbers::one(number)
            } else {
                numbers
            }
        };
        (
            own(self.hours, Frequency::Hourly, local.hour()),
            own(self.minutes, Frequency::Minutely, local.minute()),
            own(self.seconds, Frequency::Secondly, local.second()),
        )
    }

    /// The days. What the BY parts leave open is DTSTART's (RFC 5545 section 3.3.10).
    fn days(&mut self, frequency: Frequency, local: NaiveDateTime) -> DayFilter {
        let weekdays = self.weekdays_of(frequency);
        let mut days = DayFilter {
            months: self.months,
            week_numbers: self.week_numbers,
            year_days: self.year_days,
            month_days: self.month_days,
            weekdays,
            week_start: self.week_start.unwrap_or(Weekday::Mon),
        };
        let is_open = days.year_days.is_empty() && days.month_days.is_empty() && days.weekdays.is_empty();
        if !is_open || frequency <= Frequency::Daily {
            return days;
        }
        if frequency == Frequency::Weekly || !days.week_numbers.is_empty() {
            days.weekdays.every.insert(local.weekday().num_days_from_monday());
            return days;
        }
        days.month_days.from_start.insert(local.day());
        if frequency == Frequency::Yearly && days.months.is_empty() {
            days.months.insert(local.month());
        }
        days
    }

    fn weekdays_of(&mut self, frequency: Frequency) -> Weekdays {
        let counts = match frequency {
            Frequency::Monthly => true,
            Frequency::Yearly => self.week_numbers.is_empty(),
            _ => false,
        };
        if !counts && self.weekdays.iter().any(|(number, _)| *number != 0) {
            self.warn("the numbers in BYDAY mean nothing in this rule and are ignored".into());
        }
        let count_in_month = frequency == Frequency::Monthly || !self.months.is_empty();
        let mut weekdays = Weekdays {
            count_in_month,
            ..Weekdays::default()
        };
        for (number, weekday) in &self.weekdays {
            let weekday = weekday.num_days_from_monday();
            if *number == 0 || !counts {
                weekdays.every.insert(weekday);
            } else {
                weekdays.numbered[weekday as usize].insert(*number);
                weekdays.are_numbered = true;
            }
        }
        weekdays
    }
}

const NAMES: [&str; 15] = [
    "FREQ",
    "INTERVAL",
    "COUNT",
    "UNTIL",
    "BYSECOND",
    "BYMINUTE",
    "BYHOUR",
    "BYDAY",
    "BYMONTHDAY",
    "BYYEARDAY",
    "BYWEEKNO",
    "BYMONTH",
    "BYSETPOS",
    "WKST",
    "RSCALE",
];

impl UntilText {
    /// What it means for this DTSTART: a date is the whole day, and a DATE is compared by the date alone.
    fn of(self, start: &Start) -> Until {
        match self {
            Self::Date(day) => Until::Local(end_of_day(day)),
            Self::Local(local) | Self::Utc(local) if start.is_date => Until::Local(end_of_day(local.date())),
            Self::Local(local) => Until::Local(local),
            Self::Utc(instant) => Until::Instant(instant.and_utc()),
        }
    }
}

impl Until {
    /// No local time after this one passes.
    fn latest(self, start: &Start) -> NaiveDateTime {
        match self {
            Self::Local(last) => last,
            // No change of the clock is more than a day.
            Self::Instant(last) => {
                let local = start.zone.to_local(last);
                local.checked_add_signed(TimeDelta::days(1)).unwrap_or(local)
            }
        }
    }
}
