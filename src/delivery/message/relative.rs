//! How long until, or since: the numbers of "starts in 15 minutes", without the words.

use chrono::DateTime;
use chrono::NaiveDate;
use chrono::TimeDelta;
use chrono::Utc;

/// Where the moment of sending lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tense {
    /// It begins later.
    Ahead,
    /// It begins now, or today.
    Now,
    /// It has begun.
    Begun,
    /// It is over.
    Over,
}

/// How far from the moment of sending: no more than two units, the larger first, none of them zero.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Relative {
    pub(super) tense: Tense,
    pub(super) parts: Vec<Part>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    /// The message that says it: `days`, `hours`, `minutes`.
    pub(super) unit: &'static str,
    /// More than 0.
    pub(super) count: i64,
}

const MINUTES_PER_HOUR: i64 = 60;
const MINUTES_PER_DAY: i64 = 24 * MINUTES_PER_HOUR;

impl Relative {
    /// For a time of day. Within half a minute of the start it is now.
    pub(super) fn timed(start: DateTime<Utc>, end: DateTime<Utc>, now: DateTime<Utc>) -> Self {
        let to_start = minutes(start - now);
        let is_over = end > start && now >= end;
        let (tense, distance) = match to_start {
            _ if is_over => (Tense::Over, minutes(now - end)),
            0 => (Tense::Now, 0),
            1.. => (Tense::Ahead, to_start),
            _ => (Tense::Begun, -to_start),
        };
        Self {
            tense,
            parts: parts(distance),
        }
    }

    /// For whole days.
    pub(super) fn all_day(first: NaiveDate, last: NaiveDate, today: NaiveDate) -> Self {
        let (tense, days) = if today < first {
            (Tense::Ahead, first - today)
        } else if today == first {
            (Tense::Now, TimeDelta::zero())
        } else if today <= last {
            (Tense::Begun, today - first)
        } else {
            (Tense::Over, today - last)
        };
        Self {
            tense,
            parts: parts(days.num_minutes()),
        }
    }
}

/// To the nearest minute, so that a reminder sent a second late still says 15 minutes.
fn minutes(distance: TimeDelta) -> i64 {
    (distance.num_milliseconds() + 30_000).div_euclid(60_000)
}

fn parts(minutes: i64) -> Vec<Part> {
    let days = minutes / MINUTES_PER_DAY;
    let hours = minutes % MINUTES_PER_DAY / MINUTES_PER_HOUR;
    let (days, hours, minutes) = match days {
        0 => (0, hours, minutes % MINUTES_PER_HOUR),
        // Days away, nobody wants to know the minutes, and a little later not the hours.
        1 | 2 => (days, hours, 0),
        _ => ((minutes + MINUTES_PER_DAY / 2) / MINUTES_PER_DAY, 0, 0),
    };
    [("days", days), ("hours", hours), ("minutes", minutes)]
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .map(|(unit, count)| Part { unit, count })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> DateTime<Utc> {
        format!("2026-12-{text}Z").parse().unwrap()
    }

    fn say(relative: &Relative) -> String {
        let parts: Vec<_> = relative
            .parts
            .iter()
            .map(|p| format!("{} {}", p.count, p.unit))
            .collect();
        format!("{:?} {}", relative.tense, parts.join(" "))
            .trim_end()
            .to_owned()
    }

    #[test]
    fn times_are_told_to_the_nearest_minute_in_two_units_at_most() {
        for (now, told) in [
            ("01T09:45:00.900", "Ahead 15 minutes"),
            ("01T09:44:59.999", "Ahead 15 minutes"),
            ("01T09:58:31", "Ahead 1 minutes"),
            ("01T09:59:31", "Now"),
            ("01T10:00:29", "Now"),
            ("01T10:03:00", "Begun 3 minutes"),
            ("01T10:59:59", "Begun 1 hours"),
            ("01T11:00:00", "Over"),
            ("01T13:00:00", "Over 2 hours"),
            ("01T08:30:00", "Ahead 1 hours 30 minutes"),
            ("01T00:00:00", "Ahead 10 hours"),
        ] {
            let relative = Relative::timed(at("01T10:00:00"), at("01T11:00:00"), at(now));
            assert_eq!(say(&relative), told, "{now}");
        }
        let ahead = Relative::timed(at("09T10:20:00"), at("09T11:00:00"), at("01T09:00:00"));
        assert_eq!(say(&ahead), "Ahead 8 days");
        let across_a_clock_change = Relative::timed(at("08T09:00:00"), at("08T10:00:00"), at("01T10:00:00"));
        assert_eq!(say(&across_a_clock_change), "Ahead 7 days");
        let soon = Relative::timed(at("03T09:00:00"), at("03T10:00:00"), at("01T10:00:00"));
        assert_eq!(say(&soon), "Ahead 1 days 23 hours");
    }

    #[test]
    fn what_has_no_length_is_never_over() {
        let moment = at("01T10:00:00");
        assert_eq!(
            say(&Relative::timed(moment, moment, at("01T12:00:00"))),
            "Begun 2 hours"
        );
    }

    #[test]
    fn whole_days_are_told_in_days() {
        let day = |day| NaiveDate::from_ymd_opt(2026, 12, day).unwrap();
        for (today, told) in [
            (1, "Ahead 3 days"),
            (3, "Ahead 1 days"),
            (4, "Now"),
            (5, "Begun 1 days"),
            (6, "Begun 2 days"),
            (7, "Over 1 days"),
        ] {
            assert_eq!(
                say(&Relative::all_day(day(4), day(6), day(today))),
                told,
                "{today}"
            );
        }
    }
}
