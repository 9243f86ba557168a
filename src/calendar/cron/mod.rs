//! Cron expressions: minute, hour, day of the month, month, day of the week, in a time zone.
//!
//! What an expression says is what cronie, the cron of most Linux systems, makes of it (crontab(5), cron(8)):
//!
//! - If both days are restricted, either will do: `0 0 13 * 5` fires on every 13th and on every Friday. If one of the two
//!   fields begins with a star, both must hold: `0 0 */2 * 1` fires on Mondays with an odd date.
//! - **Clock changes.** An expression whose minute and hour fields both begin with something other than a star means
//!   *fixed times*. Those that fall into a gap fire at its end, all at once and once; those in a fold fire the first time
//!   only. An expression with a star there means *an interval*: it fires whenever the clock shows a time that matches, so
//!   never in a gap, and twice in a fold. `30 2 * * *` fires every day, `*/30 * * * *` every half hour.
//! - What cron does after changes of more than three hours, which it takes for a clock that was put right, has no
//!   counterpart here: only zones change clocks. When Samoa skipped a day, a job of that day fires at its end.
//!
//! Beyond cronie, and as most programs understand it: `L` is the last day of the month, `LW` the last day of it from Monday
//! to Friday, `5L` its last Friday, `1#2` its second Monday. A sixth field in front, for seconds, may only be 0.
//!
//! The next firing is found by arithmetic: the first matching day, then the first matching time of it, in each stretch of
//! time between two clock changes (`days`, `times`). Every expression that is accepted fires at least every forty years.

mod days;
mod error;
mod field;
#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;
mod text;
mod times;

use std::fmt;
use std::str::FromStr;

use chrono::DateTime;
use chrono::NaiveDateTime;
use chrono::TimeDelta;
use chrono::Timelike;
use chrono::Utc;

use crate::calendar::cron::days::Days;
use crate::calendar::cron::times::Times;
use crate::calendar::zone::Stretch;
use crate::calendar::zone::Zone;

pub use crate::calendar::cron::error::CronError;

/// In so many stretches between clock changes lies a firing of every expression: no zone has five changes a year, and
/// the rarest days (29 February on a Monday) are forty years apart.
const MOST_STRETCHES: usize = 400;

/// A cron expression. It is displayed as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cron {
    text: String,
    schedule: Schedule,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Schedule {
    /// `@every 5m`, which knows neither clock nor calendar.
    Every(TimeDelta),
    Calendar {
        days: Days,
        times: Times,
    },
}

impl Cron {
    /// Reads an expression: five fields, `@daily` and its like, or `@every 5m`.
    pub fn parse(text: &str) -> Result<Self, CronError> {
        let text = text.trim();
        Ok(Self {
            text: text.to_owned(),
            schedule: text::schedule(text)?,
        })
    }

    /// The first firing after an instant, by the clock of the zone; whole seconds. `@every` counts from that instant. `None`
    /// at the end of the calendar, in the year 9988.
    pub fn after(&self, instant: DateTime<Utc>, zone: &Zone) -> Option<DateTime<Utc>> {
        self.after_since(instant, instant, zone)
    }

    /// As [`Cron::after`], but `@every` counts from an anchor, as from when the alarm was made: the firings are the anchor
    /// and one, two … intervals. Nothing else depends on the anchor.
    pub fn after_since(
        &self,
        anchor: DateTime<Utc>,
        instant: DateTime<Utc>,
        zone: &Zone,
    ) -> Option<DateTime<Utc>> {
        match &self.schedule {
            Schedule::Every(interval) => every(*interval, anchor, instant),
            Schedule::Calendar { days, times } => first_after(days, times, instant, zone),
        }
    }

    /// The interval of `@every`; `None` for what goes by the clock.
    pub fn interval(&self) -> Option<TimeDelta> {
        match self.schedule {
            Schedule::Every(interval) => Some(interval),
            Schedule::Calendar { .. } => None,
        }
    }
}

impl FromStr for Cron {
    type Err = CronError;

    fn from_str(text: &str) -> Result<Self, CronError> {
        Self::parse(text)
    }
}

impl fmt::Display for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The first of anchor + interval, anchor + 2 intervals … after an instant.
fn every(interval: TimeDelta, anchor: DateTime<Utc>, instant: DateTime<Utc>) -> Option<DateTime<Utc>> {
    let anchor = DateTime::from_timestamp(anchor.timestamp(), 0)?;
    let elapsed = instant.signed_duration_since(anchor).num_seconds().max(0);
    let passed = elapsed.checked_div(interval.num_seconds())?;
    let seconds = (passed + 1).checked_mul(interval.num_seconds())?;
    let next = anchor.checked_add_signed(TimeDelta::try_seconds(seconds)?)?;
    (next.date_naive() <= days::LAST_DAY).then_some(next)
}

fn first_after(days: &Days, times: &Times, instant: DateTime<Utc>, zone: &Zone) -> Option<DateTime<Utc>> {
    let mut from = DateTime::from_timestamp(instant.timestamp().checked_add(1)?, 0)?;
    for _ in 0..MOST_STRETCHES {
        let stretch = zone.stretch(from);
        let first = match stretch.begin {
            Some(change) if !times.is_interval() => first_fixed(days, times, from, (change, zone)),
            _ => first_from(days, times, zone.to_local(from)).map(Firing::At),
        };
        match first? {
            Firing::AtChange(change) => return Some(change),
            Firing::At(local) => {
                let found = local.checked_sub_offset(stretch.offset)?.and_utc();
                if is_inside(found, &stretch) {
                    return Some(found);
                }
            }
        }
        from = stretch.end?;
    }
    None
}

/// The next firing as seen from inside of a stretch.
enum Firing {
    /// When the clock shows this, if the stretch lasts until then.
    At(NaiveDateTime),
    /// At the change that begins the stretch, because it skipped a firing.
    AtChange(DateTime<Utc>),
}

/// The next fixed time from an instant on, in the stretch that begins with a change.
fn first_fixed(
    days: &Days,
    times: &Times,
    from: DateTime<Utc>,
    (change, zone): (DateTime<Utc>, &Zone),
) -> Option<Firing> {
    // Without the change the clock would show this: behind it after a gap, ahead of it in a fold.
    let unchanged = zone.local_before(change);
    if from == change && unchanged < zone.to_local(change) {
        let skipped = first_from(days, times, unchanged)?;
        if skipped < zone.to_local(change) {
            return Some(Firing::AtChange(change));
        }
    }
    // What the clock shows for the second time has fired already.
    first_from(days, times, zone.to_local(from).max(unchanged)).map(Firing::At)
}

/// The first local time that matches, from one on.
fn first_from(days: &Days, times: &Times, from: NaiveDateTime) -> Option<NaiveDateTime> {
    let from = whole_minute_from(from)?;
    let day = days.first_from(from.date())?;
    if day > from.date() {
        return Some(day.and_time(times.first()?));
    }
    if let Some(time) = times.first_from(from.time()) {
        return Some(day.and_time(time));
    }
    let next = days.first_from(day.succ_opt()?)?;
    Some(next.and_time(times.first()?))
}

fn whole_minute_from(local: NaiveDateTime) -> Option<NaiveDateTime> {
    let begun = local.with_second(0)?.with_nanosecond(0)?;
    if begun == local {
        Some(local)
    } else {
        begun.checked_add_signed(TimeDelta::minutes(1))
    }
}

fn is_inside(instant: DateTime<Utc>, stretch: &Stretch) -> bool {
    stretch.end.is_none_or(|end| instant < end)
}
