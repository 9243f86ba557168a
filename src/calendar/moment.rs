//! Times and durations as a calendar writes them, and what becomes of them for one person.
//!
//! A [`Moment`] is local time with or without a zone; only together with a person's zone it is an [`Anchor`], from
//! which durations are counted. A [`Span`] keeps nominal days apart from exact seconds, since a day is not always 24
//! hours (RFC 5545 section 3.3.6).

use chrono::DateTime;
use chrono::Datelike;
use chrono::NaiveDate;
use chrono::NaiveDateTime;
use chrono::NaiveTime;
use chrono::TimeDelta;
use chrono::Utc;

use crate::calendar::zone::Zone;

/// The longest duration that is followed: ten years, in seconds.
const LONGEST: i64 = 10 * 366 * DAY;

/// A day of 24 hours, in seconds.
const DAY: i64 = 86_400;

/// A time as it is written (RFC 5545 sections 3.3.4 and 3.3.5).
#[derive(Debug, Clone)]
pub struct Moment {
    /// Wall time; 00:00 for a DATE.
    pub local: NaiveDateTime,
    /// The zone it is written in; none for a DATE and for floating time, which take the person's.
    pub zone: Option<Zone>,
    /// Whether it is a DATE.
    pub is_date: bool,
}

impl Moment {
    /// What it means to a person in `zone`.
    pub fn anchor(&self, zone: &Zone) -> Anchor {
        Anchor::at_local(self.local, self.zone.as_ref().unwrap_or(zone))
    }

    /// The instant it means to a person in `zone`.
    pub fn instant(&self, zone: &Zone) -> DateTime<Utc> {
        self.anchor(zone).instant
    }

    /// The day that it names where days are counted: the one whose midnight it is in `zone`, else the one that is written.
    pub fn day(&self, zone: &Zone) -> NaiveDate {
        let written = self.local.date();
        let Some(own) = self.zone.as_ref().filter(|_| !self.is_date) else {
            return written;
        };
        let instant = self.instant(own);
        let day = Anchor::at_instant(instant, zone).local.date();
        let midnight = Anchor::at_local(day.and_time(NaiveTime::MIN), zone);
        if midnight.instant == instant { day } else { written }
    }

    /// Whether an instance can lie there. Further off instants are cut, and one is like the other.
    pub fn is_within_reach(&self) -> bool {
        (3..=9988).contains(&self.local.year())
    }

    /// The instance that it names as a RECURRENCE-ID (RFC 5545 section 3.8.4.4) of a series that starts at `base`: by its
    /// instant, in whatever zone it is written; by its day where one side is a DATE; on the clock of DTSTART where it has
    /// no zone and DTSTART has.
    pub fn slot(&self, base: Option<&Self>, zone: &Zone) -> Anchor {
        let Some(base) = base else {
            return self.anchor(zone);
        };
        let own = base.zone.as_ref().unwrap_or(zone);
        if base.is_date != self.is_date {
            return Anchor::at_local(self.day(own).and_time(base.local.time()), own);
        }
        match &self.zone {
            Some(zone) if zone != own => Anchor::at_instant(self.instant(zone), own),
            _ => Anchor::at_local(self.local, own),
        }
    }
}

/// An instant together with the wall clock that durations of days are counted on.
#[derive(Debug, Clone)]
pub struct Anchor {
    /// The instant.
    pub instant: DateTime<Utc>,
    /// Wall time as written, which a gap may have moved from that of the instant.
    pub local: NaiveDateTime,
    /// The zone of the wall clock.
    pub zone: Zone,
}

impl Anchor {
    /// The anchor at a wall time. Years that no zone data reach are cut to the nearest that they do.
    pub fn at_local(local: NaiveDateTime, zone: &Zone) -> Self {
        let local = within_reach(local);
        Self {
            instant: zone.to_utc(local),
            local,
            zone: zone.clone(),
        }
    }

    /// The anchor at an instant.
    pub fn at_instant(instant: DateTime<Utc>, zone: &Zone) -> Self {
        let instant = within_reach(instant.naive_utc()).and_utc();
        Self {
            instant,
            local: zone.to_local(instant),
            zone: zone.clone(),
        }
    }

    /// Days first, on the wall clock; then exact seconds.
    #[must_use]
    pub fn plus(&self, span: Span) -> Self {
        let day = if span.days == 0 {
            self.clone()
        } else {
            Self::at_local(shifted(self.local, span.days.saturating_mul(DAY)), &self.zone)
        };
        if span.seconds == 0 {
            return day;
        }
        let instant = shifted(day.instant.naive_utc(), span.seconds).and_utc();
        Self::at_instant(instant, &self.zone)
    }
}

fn shifted(time: NaiveDateTime, seconds: i64) -> NaiveDateTime {
    TimeDelta::try_seconds(seconds)
        .and_then(|delta| time.checked_add_signed(delta))
        .unwrap_or(if seconds < 0 {
            NaiveDateTime::MIN
        } else {
            NaiveDateTime::MAX
        })
}

fn within_reach(time: NaiveDateTime) -> NaiveDateTime {
    let new_year = |year| {
        NaiveDate::from_ymd_opt(year, 1, 1)
            .and_then(|day| day.and_hms_opt(0, 0, 0))
            .expect("1 January exists in every year")
    };
    match time.year() {
        ..2 => new_year(2),
        9990.. => new_year(9990),
        _ => time,
    }
}

/// A duration (RFC 5545 section 3.3.6). The sign covers both parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    /// Nominal days: the same wall time on another day. A week is seven.
    pub days: i64,
    /// Exact seconds.
    pub seconds: i64,
}

impl Span {
    /// Reads a DURATION. True where it was not well-formed but leaves no doubt: lower case, a missing `T`, weeks or
    /// days mixed with others in an order of their own.
    pub fn parse(text: &str) -> Result<(Self, bool), String> {
        let complaint = || format!("`{text}` is no duration: write it like -PT15M");
        let upper = text.trim().to_ascii_uppercase();
        let (sign, rest) = match upper.as_bytes().first() {
            Some(b'-') => (-1, &upper[1..]),
            Some(b'+') => (1, &upper[1..]),
            _ => (1, upper.as_str()),
        };
        let parts = Parts::read(rest.strip_prefix('P').ok_or_else(complaint)?).ok_or_else(complaint)?;
        let too_long = || format!("`{text}` is longer than ten years");
        let total = parts.days.checked_mul(DAY).ok_or_else(too_long)?;
        if total.saturating_add(parts.seconds) > LONGEST {
            return Err(too_long());
        }
        let span = Self {
            days: sign * parts.days,
            seconds: sign * parts.seconds,
        };
        Ok((span, parts.lenient || upper != text.trim()))
    }

    /// How long it is where every day has 24 hours, in seconds.
    pub fn seconds_nominal(self) -> i64 {
        self.days.saturating_mul(DAY).saturating_add(self.seconds)
    }

    /// `times` as long.
    #[must_use]
    pub fn times(self, times: u16) -> Self {
        Self {
            days: self.days.saturating_mul(i64::from(times)),
            seconds: self.seconds.saturating_mul(i64::from(times)),
        }
    }
}

#[derive(Default)]
struct Parts {
    days: i64,
    seconds: i64,
    lenient: bool,
}

impl Parts {
    /// The units of what follows the `P`. Without a `T` an `M` would be months, which durations do not have.
    fn read(text: &str) -> Option<Self> {
        let mut parts = Self::default();
        let mut seen = String::new();
        let mut digits = String::new();
        let mut in_time = false;
        for character in text.chars() {
            match character {
                '0'..='9' if digits.len() < 12 => digits.push(character),
                '0'..='9' => {}
                'T' if digits.is_empty() && !in_time => in_time = true,
                'M' if !in_time => return None,
                'W' | 'D' | 'H' | 'M' | 'S' if !seen.contains(character) => {
                    let number: i64 = digits.parse().ok()?;
                    let is_clock = matches!(character, 'H' | 'M' | 'S');
                    parts.lenient |= is_clock != in_time || (character != 'W' && seen.contains('W'));
                    parts.add(character, number);
                    seen.push(character);
                    digits.clear();
                }
                _ => return None,
            }
        }
        (digits.is_empty() && !seen.is_empty()).then_some(parts)
    }

    fn add(&mut self, unit: char, number: i64) {
        match unit {
            'W' => self.days += number * 7,
            'D' => self.days += number,
            'H' => self.seconds += number * 3600,
            'M' => self.seconds += number * 60,
            _ => self.seconds += number,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<(i64, i64, bool)> {
        Span::parse(text)
            .ok()
            .map(|(span, lenient)| (span.days, span.seconds, lenient))
    }

    #[test]
    fn durations_keep_days_apart_from_seconds() {
        assert_eq!(read("-PT15M"), Some((0, -900, false)));
        assert_eq!(read("-P1DT2H"), Some((-1, -7200, false)));
        assert_eq!(read("+P1W"), Some((7, 0, false)));
        assert_eq!(read("PT24H"), Some((0, 86_400, false)));
    }

    #[test]
    fn a07_two_weeks_are_fourteen_days() {
        assert_eq!(read("-P2W"), Some((-14, 0, false)));
    }

    #[test]
    fn a08_a_missing_t_that_leaves_no_doubt_is_read() {
        assert_eq!(read("-P300S"), Some((0, -300, true)));
        assert_eq!(read("-P1WT15H"), Some((-7, -54_000, true)));
        assert_eq!(read("-pt15m"), Some((0, -900, true)));
    }

    #[test]
    fn a09_zero_is_a_duration_and_nothing_is_none() {
        assert_eq!(read("PT0S"), Some((0, 0, false)));
        assert_eq!(read("P0D"), Some((0, 0, false)));
        for nothing in ["P", "PT", "-P", ""] {
            assert_eq!(read(nothing), None, "{nothing}");
        }
    }

    #[test]
    fn what_leaves_a_doubt_is_refused() {
        for doubtful in [
            "-PT15",
            "-15M",
            "PT1.5H",
            "-P1M",
            "PT5M3",
            "P1D2D",
            "next monday",
            "P-1D",
            "😀",
        ] {
            assert_eq!(read(doubtful), None, "{doubtful}");
        }
    }

    #[test]
    fn a_lead_beyond_ten_years_is_refused() {
        for long in ["P99999999W", "-PT99999999999S", "P99999999999999999999999D"] {
            let reason = Span::parse(long).expect_err("too long");
            assert!(reason.contains("ten years"), "{reason}");
        }
        assert!(read("-P3650D").is_some());
    }
}
