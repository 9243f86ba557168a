//! The slow and plain reading of RFC 5545 that the engine must agree with: every day, or every second, is looked at, and
//! nothing of the engine is used.

use std::collections::BTreeMap;

use chrono::Datelike;
use chrono::NaiveDate;
use chrono::NaiveDateTime;
use chrono::TimeDelta;
use chrono::Timelike;

const WEEKDAYS: [&str; 7] = ["MO", "TU", "WE", "TH", "FR", "SA", "SU"];

/// How many days before DTSTART and after the window are looked at, so that each week is whole.
const MARGIN: i64 = 8;

/// A rule as its parts, from which both the text and the plain reading come.
#[derive(Debug, Clone)]
pub(super) struct Sample {
    pub(super) start: NaiveDateTime,
    pub(super) frequency: &'static str,
    pub(super) interval: i64,
    pub(super) count: Option<usize>,
    pub(super) until: Option<NaiveDateTime>,
    pub(super) hours: Vec<u32>,
    pub(super) minutes: Vec<u32>,
    pub(super) seconds: Vec<u32>,
    /// The number, 0 for none, and the weekday from Monday.
    pub(super) weekdays: Vec<(i32, u32)>,
    pub(super) month_days: Vec<i32>,
    pub(super) year_days: Vec<i32>,
    pub(super) week_numbers: Vec<i32>,
    pub(super) months: Vec<u32>,
    pub(super) set_positions: Vec<i32>,
    pub(super) week_start: u32,
}

impl Sample {
    pub(super) fn text(&self) -> String {
        let mut parts = vec![format!("FREQ={};INTERVAL={}", self.frequency, self.interval)];
        let mut list = |name: &str, items: Vec<String>| {
            if !items.is_empty() {
                parts.push(format!("{name}={}", items.join(",")));
            }
        };
        let strings = |numbers: &[u32]| numbers.iter().map(u32::to_string).collect::<Vec<_>>();
        let signed = |numbers: &[i32]| numbers.iter().map(i32::to_string).collect::<Vec<_>>();
        list("COUNT", self.count.iter().map(usize::to_string).collect());
        list(
            "UNTIL",
            self.until
                .iter()
                .map(|until| until.format("%Y%m%dT%H%M%SZ").to_string())
                .collect(),
        );
        list("BYHOUR", strings(&self.hours));
        list("BYMINUTE", strings(&self.minutes));
        list("BYSECOND", strings(&self.seconds));
        let weekday = |(number, day): &(i32, u32)| match number {
            0 => WEEKDAYS[*day as usize].to_owned(),
            _ => format!("{number}{}", WEEKDAYS[*day as usize]),
        };
        list("BYDAY", self.weekdays.iter().map(weekday).collect());
        list("BYMONTHDAY", signed(&self.month_days));
        list("BYYEARDAY", signed(&self.year_days));
        list("BYWEEKNO", signed(&self.week_numbers));
        list("BYMONTH", strings(&self.months));
        list("BYSETPOS", signed(&self.set_positions));
        list("WKST", vec![WEEKDAYS[self.week_start as usize].to_owned()]);
        parts.join(";")
    }

    fn is_short(&self) -> bool {
        ["HOURLY", "MINUTELY", "SECONDLY"].contains(&self.frequency)
    }

    /// The last day of the window that is looked at.
    pub(super) fn last_day(&self) -> NaiveDate {
        let years = match self.frequency {
            "YEARLY" => 9,
            "MONTHLY" => 4,
            "WEEKLY" | "DAILY" => 1,
            _ => return self.start.date() + TimeDelta::days(1),
        };
        NaiveDate::from_ymd_opt(self.start.year() + years, 12, 31).expect("it is a day")
    }

    /// All instances in the window.
    pub(super) fn instances(&self) -> Vec<NaiveDateTime> {
        let periods = if self.is_short() {
            self.short_periods()
        } else {
            self.long_periods()
        };
        let own = self.period_of_start();
        let mut all: Vec<NaiveDateTime> = Vec::new();
        for (number, mut set) in periods {
            set.sort_unstable();
            if number >= own && (number - own) % self.interval == 0 {
                all.extend(self.positions(&set).into_iter().filter(|at| *at >= self.start));
            }
        }
        let end = self.last_day().and_hms_opt(23, 59, 59).expect("it is a time");
        all.retain(|at| *at <= end);
        let counted_start = usize::from(all.first() != Some(&self.start));
        if let Some(count) = self.count {
            all.truncate(count - counted_start);
        }
        all.retain(|at| self.until.is_none_or(|until| *at <= until));
        all
    }

    /// BYSETPOS.
    fn positions(&self, set: &[NaiveDateTime]) -> Vec<NaiveDateTime> {
        if self.set_positions.is_empty() {
            return set.to_vec();
        }
        let is_kept = |index: usize| {
            let (from_start, from_end) = (index + 1, set.len() - index);
            let is_here = |p: &i32| p.unsigned_abs() as usize == if *p < 0 { from_end } else { from_start };
            self.set_positions.iter().any(is_here)
        };
        (0..set.len())
            .filter(|index| is_kept(*index))
            .map(|index| set[index])
            .collect()
    }

    /// The number of DTSTART's period.
    fn period_of_start(&self) -> i64 {
        if self.is_short() {
            return self.short_period(self.start);
        }
        let passed = self
            .first_day()
            .iter_days()
            .skip(1)
            .take_while(|day| *day <= self.start.date());
        passed.map(|day| i64::from(self.begins(day))).sum()
    }

    fn first_day(&self) -> NaiveDate {
        NaiveDate::from_ymd_opt(self.start.year(), 1, 1).expect("it is a day") - TimeDelta::days(MARGIN)
    }

    fn long_periods(&self) -> BTreeMap<i64, Vec<NaiveDateTime>> {
        let mut periods: BTreeMap<i64, Vec<NaiveDateTime>> = BTreeMap::new();
        let last = self.last_day() + TimeDelta::days(MARGIN);
        let mut period = 0;
        for day in self.first_day().iter_days().take_while(|day| *day <= last) {
            period += i64::from(day != self.first_day() && self.begins(day));
            if self.day_matches(day) {
                periods.entry(period).or_default().extend(self.times(day));
            }
        }
        periods
    }

    /// Whether a period begins with this day.
    fn begins(&self, day: NaiveDate) -> bool {
        match self.frequency {
            "YEARLY" => day.day() == 1 && day.month() == 1,
            "MONTHLY" => day.day() == 1,
            "WEEKLY" => day.weekday().num_days_from_monday() == self.week_start,
            _ => true,
        }
    }

    fn times(&self, day: NaiveDate) -> Vec<NaiveDateTime> {
        let or = |numbers: &[u32], own: u32| {
            if numbers.is_empty() {
                vec![own]
            } else {
                numbers.to_vec()
            }
        };
        let mut times = Vec::new();
        for hour in or(&self.hours, self.start.hour()) {
            for minute in or(&self.minutes, self.start.minute()) {
                for second in or(&self.seconds, self.start.second()) {
                    times.push(day.and_hms_opt(hour, minute, second).expect("it is a time"));
                }
            }
        }
        times
    }

    fn short_period(&self, at: NaiveDateTime) -> i64 {
        let seconds = (at - NaiveDateTime::default()).num_seconds();
        match self.frequency {
            "HOURLY" => seconds / 3600,
            "MINUTELY" => seconds / 60,
            _ => seconds,
        }
    }

    fn short_periods(&self) -> BTreeMap<i64, Vec<NaiveDateTime>> {
        let mut periods: BTreeMap<i64, Vec<NaiveDateTime>> = BTreeMap::new();
        for day in self
            .start
            .date()
            .iter_days()
            .take(4)
            .filter(|day| self.day_matches(*day))
        {
            for second in 0..86_400 {
                let at = day.and_hms_opt(0, 0, 0).expect("midnight") + TimeDelta::seconds(second);
                let minute_default = self.frequency == "HOURLY" && self.minutes.is_empty();
                let second_default = self.frequency != "SECONDLY" && self.seconds.is_empty();
                let fits = (self.hours.is_empty() || self.hours.contains(&at.hour()))
                    && (self.minutes.is_empty() || self.minutes.contains(&at.minute()))
                    && (self.seconds.is_empty() || self.seconds.contains(&at.second()))
                    && (!minute_default || at.minute() == self.start.minute())
                    && (!second_default || at.second() == self.start.second());
                if fits {
                    periods.entry(self.short_period(at)).or_default().push(at);
                }
            }
        }
        periods
    }

    fn day_matches(&self, day: NaiveDate) -> bool {
        let month_length = length_of_month(day);
        let year_length = if NaiveDate::from_ymd_opt(day.year(), 2, 29).is_some() {
            366
        } else {
            365
        };
        let listed = |list: &[i32], number: u32, length: u32| {
            let number = i64::from(number);
            list.iter()
                .any(|n| i64::from(*n) == number || i64::from(*n) == number - i64::from(length) - 1)
        };
        (self.months.is_empty() || self.months.contains(&day.month()))
            && (self.month_days.is_empty() || listed(&self.month_days, day.day(), month_length))
            && (self.year_days.is_empty() || listed(&self.year_days, day.ordinal(), year_length))
            && (self.week_numbers.is_empty() || self.week_matches(day))
            && (self.weekdays.is_empty() || self.weekdays.iter().any(|wanted| self.is_weekday(day, *wanted)))
            && self.matches_start_where_open(day)
    }

    /// The days that DTSTART decides, where no part does.
    fn matches_start_where_open(&self, day: NaiveDate) -> bool {
        if !(self.weekdays.is_empty() && self.month_days.is_empty() && self.year_days.is_empty()) {
            return true;
        }
        let same_weekday = day.weekday() == self.start.weekday();
        let same_day = day.day() == self.start.day();
        match self.frequency {
            "WEEKLY" => same_weekday,
            "MONTHLY" | "YEARLY" if !self.week_numbers.is_empty() => same_weekday,
            "MONTHLY" => same_day,
            "YEARLY" => same_day && (!self.months.is_empty() || day.month() == self.start.month()),
            _ => true,
        }
    }

    /// Counts the weeks of the year of the day's week, from the first with four days in it.
    fn week_matches(&self, day: NaiveDate) -> bool {
        let opens = |year: i32| {
            let fourth = NaiveDate::from_ymd_opt(year, 1, 4).expect("it is a day");
            let mut open = fourth;
            while open.weekday().num_days_from_monday() != self.week_start {
                open -= TimeDelta::days(1);
            }
            open
        };
        let year = [day.year() + 1, day.year(), day.year() - 1]
            .into_iter()
            .find(|year| opens(*year) <= day);
        let year = year.expect("one of the years has begun");
        let (number, weeks) = (
            (day - opens(year)).num_days() / 7 + 1,
            (opens(year + 1) - opens(year)).num_days() / 7,
        );
        self.week_numbers
            .iter()
            .any(|n| i64::from(*n) == number || i64::from(*n) == number - weeks - 1)
    }

    fn is_weekday(&self, day: NaiveDate, (number, weekday): (i32, u32)) -> bool {
        if day.weekday().num_days_from_monday() != weekday {
            return false;
        }
        let in_month = self.frequency == "MONTHLY" || self.frequency == "YEARLY" && !self.months.is_empty();
        let in_year = self.frequency == "YEARLY" && self.months.is_empty();
        if number == 0
            || !(in_month || in_year)
            || !self.week_numbers.is_empty() && self.frequency == "YEARLY"
        {
            return true;
        }
        let is_same_row =
            |other: &NaiveDate| other.year() == day.year() && (in_year || other.month() == day.month());
        let row = |step: i64| {
            std::iter::successors(Some(day), move |at| Some(*at + TimeDelta::days(step)))
                .take_while(is_same_row)
                .count()
        };
        let place = if number > 0 { row(-7) } else { row(7) };
        place == number.unsigned_abs() as usize
    }
}

fn length_of_month(day: NaiveDate) -> u32 {
    (28..=31)
        .rev()
        .find(|length| NaiveDate::from_ymd_opt(day.year(), day.month(), *length).is_some())
        .expect("each month has 28 days")
}
