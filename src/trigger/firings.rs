//! When a stand-alone alarm that comes again fires, and until when each firing is of use.

use std::time::Duration;

use chrono::DateTime;
use chrono::TimeDelta;
use chrono::Utc;

use crate::calendar::cron::Cron;
use crate::calendar::zone::Zone;

/// A firing is of use for at least so long, however soon the next one comes.
const USEFUL_FOR: TimeDelta = TimeDelta::minutes(5);

/// The firings of a series.
#[derive(Debug, Clone)]
pub struct Firings {
    cron: Cron,
    zone: Zone,
    /// From when on an interval counts.
    anchor: DateTime<Utc>,
    /// No firing comes then or later.
    ends: DateTime<Utc>,
}

impl Firings {
    /// The firings of a cron expression in a zone. One that counts intervals does so from `anchor`; none comes at or
    /// after `ends`.
    ///
    /// # Errors
    ///
    /// What is wrong with the expression or the zone.
    pub fn read(
        (cron, zone): (&str, &str),
        anchor: DateTime<Utc>,
        ends: Option<DateTime<Utc>>,
    ) -> Result<Self, String> {
        Ok(Self {
            cron: Cron::parse(cron).map_err(|error| error.to_string())?,
            zone: Zone::iana(zone).ok_or_else(|| {
                format!("unknown time zone `{zone}`: use an IANA name such as Europe/Berlin")
            })?,
            anchor,
            ends: ends.unwrap_or(DateTime::<Utc>::MAX_UTC),
        })
    }

    /// The first firing strictly after an instant.
    pub fn after(&self, instant: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let next = self.cron.after_since(self.anchor, instant, &self.zone);
        next.filter(|next| *next < self.ends)
    }

    /// From when on a firing is too late to send: when the next one is due, but at least five minutes and at most `most`
    /// after its instant, and never later than the series ends.
    pub fn expires_at(&self, firing: DateTime<Utc>, most: Duration) -> DateTime<Utc> {
        let useful = self
            .after(firing)
            .map_or(DateTime::<Utc>::MAX_UTC, |next| next.max(firing + USEFUL_FOR));
        useful.min(latest(firing, most)).min(self.ends)
    }

    /// The first firing after one that is not too late `now`, and how many lie between that are; `most` of them are
    /// counted at the most.
    pub fn next_in_time(
        &self,
        after: DateTime<Utc>,
        (now, lateness): (DateTime<Utc>, Duration),
        most: u64,
    ) -> (Option<DateTime<Utc>>, u64) {
        let mut missed = 0;
        let mut next = self.after(after);
        while let Some(firing) = next.filter(|firing| self.expires_at(*firing, lateness) <= now) {
            missed += 1;
            next = if missed < most {
                self.after(firing)
            } else {
                self.after((now - USEFUL_FOR).max(firing))
            };
            if missed >= most {
                break;
            }
        }
        (next, missed)
    }
}

/// How long a firing is of use at the most.
pub fn latest(firing: DateTime<Utc>, most: Duration) -> DateTime<Utc> {
    let most = TimeDelta::from_std(most).unwrap_or(TimeDelta::MAX);
    firing
        .checked_add_signed(most)
        .unwrap_or(DateTime::<Utc>::MAX_UTC)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> DateTime<Utc> {
        text.parse().expect("an instant")
    }

    fn firings(cron: &str) -> Firings {
        Firings::read((cron, "UTC"), at("2026-12-01T08:00:00Z"), None).expect(cron)
    }

    const TWELVE_HOURS: Duration = Duration::from_hours(12);

    #[test]
    fn a_firing_is_of_use_until_the_next_one_but_for_five_minutes_at_least() {
        let noon = at("2026-12-01T12:00:00Z");
        for (cron, expires_at) in [
            ("0 * * * *", "2026-12-01T13:00:00Z"),
            ("@every 1m", "2026-12-01T12:05:00Z"),
            ("0 12 * * *", "2026-12-02T00:00:00Z"),
        ] {
            assert_eq!(
                firings(cron).expires_at(noon, TWELVE_HOURS),
                at(expires_at),
                "{cron}"
            );
        }
    }

    #[test]
    fn no_firing_comes_at_or_after_the_end() {
        let ends = Some(at("2026-12-01T10:00:00Z"));
        let firings =
            Firings::read(("0 * * * *", "UTC"), at("2026-12-01T08:00:00Z"), ends).expect("it is right");
        assert_eq!(
            firings.after(at("2026-12-01T08:30:00Z")),
            Some(at("2026-12-01T09:00:00Z"))
        );
        assert_eq!(firings.after(at("2026-12-01T09:00:00Z")), None);
        assert_eq!(
            firings.expires_at(at("2026-12-01T09:58:00Z"), TWELVE_HOURS),
            at("2026-12-01T10:00:00Z")
        );
    }

    #[test]
    fn what_an_outage_left_behind_is_counted_and_the_last_one_of_use_is_next() {
        let now = (at("2026-12-01T12:30:00Z"), TWELVE_HOURS);
        let (next, missed) = firings("0 * * * *").next_in_time(at("2026-12-01T08:00:00Z"), now, 1_000);
        assert_eq!((next, missed), (Some(at("2026-12-01T12:00:00Z")), 3));
        let (next, missed) = firings("@every 1s").next_in_time(at("2026-12-01T08:00:00Z"), now, 1_000);
        assert_eq!((next, missed), (Some(at("2026-12-01T12:25:01Z")), 1_000));
        let (next, missed) = firings("0 13 * * *").next_in_time(at("2026-12-01T08:00:00Z"), now, 1_000);
        assert_eq!((next, missed), (Some(at("2026-12-01T13:00:00Z")), 0));
    }
}
