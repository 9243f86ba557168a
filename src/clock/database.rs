//! The database's clock, as well as this node knows it: read with each heartbeat, and carried on from there by the
//! boot-time clock. Where nodes share a database they go by its clock, so a node whose own wall clock is wrong or is
//! stepped fires at the same instant as the others.
//!
//! A reading lies somewhere within the round trip that brought it, so what is known is a span. It grows by what two clocks
//! may drift apart, and each reading narrows it again. The time told is its early end: late by less than one quick round
//! trip, and never ahead of the database.

use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use chrono::DateTime;
use chrono::SubsecRound;
use chrono::TimeDelta;
use chrono::Utc;

use super::Clock;

/// Two clocks drift apart by at most one part in so many: far more than those of machines that are well.
const DRIFT: u32 = 2_000;

/// Readings are cut to this.
const GRAIN: TimeDelta = TimeDelta::milliseconds(1);

/// The database's clock, as well as this node knows it; its own until the first reading.
#[derive(Debug)]
pub struct DatabaseClock {
    own: Arc<dyn Clock>,
    known: Mutex<Option<Span>>,
}

/// How far the wall clock of this node is from the database's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offset {
    /// How far it is ahead; negative: behind.
    pub ahead: TimeDelta,
    /// By how much that may be wrong, either way.
    pub error: TimeDelta,
}

impl Offset {
    /// Whether it is certainly further off than `most`, in whichever direction.
    pub fn exceeds(&self, most: TimeDelta) -> bool {
        self.ahead.abs() - self.error > most
    }
}

/// At `elapsed` the database's clock showed something from `earliest` to `latest`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    elapsed: Duration,
    earliest: DateTime<Utc>,
    latest: DateTime<Utc>,
}

impl Span {
    /// `shown` was read some time between asking and being answered.
    fn read(asked: Duration, answered: Duration, shown: DateTime<Utc>) -> Self {
        Self {
            elapsed: answered,
            earliest: shown,
            latest: shown + delta(answered.saturating_sub(asked)) + GRAIN,
        }
    }

    /// The same, some time later.
    fn at(self, elapsed: Duration) -> Self {
        let passed = elapsed.saturating_sub(self.elapsed);
        let drift = delta(passed / DRIFT);
        Self {
            elapsed: self.elapsed.max(elapsed),
            earliest: self.earliest + delta(passed) - drift,
            latest: self.latest + delta(passed) + drift,
        }
    }

    /// What is known after another reading. Where the two cannot both be true, the database's clock was set.
    fn narrowed(self, reading: Self) -> Self {
        let before = self.at(reading.elapsed);
        let both = Self {
            elapsed: before.elapsed,
            earliest: before.earliest.max(reading.earliest),
            latest: before.latest.min(reading.latest),
        };
        if both.earliest <= both.latest {
            both
        } else {
            reading
        }
    }
}

impl DatabaseClock {
    /// A node with these clocks that has not read the database's yet.
    pub fn over(own: Arc<dyn Clock>) -> Self {
        Self {
            own,
            known: Mutex::new(None),
        }
    }

    /// The database, asked at `asked` by [`Clock::elapsed`] and answering now, showed `shown`.
    pub fn read(&self, asked: Duration, shown: DateTime<Utc>) {
        let mut known = self.known.lock().expect("no holder panics");
        let reading = Span::read(asked, self.own.elapsed(), shown);
        *known = Some(known.map_or(reading, |before| before.narrowed(reading)));
    }

    /// How far this node's wall clock is off; none before the first reading.
    pub fn offset(&self) -> Option<Offset> {
        let span = self.span()?;
        let width = span.latest - span.earliest;
        Some(Offset {
            ahead: self.own.now() - (span.earliest + width / 2),
            error: width / 2,
        })
    }

    fn span(&self) -> Option<Span> {
        let known = *self.known.lock().expect("no holder panics");
        known.map(|known| known.at(self.own.elapsed()))
    }
}

#[async_trait::async_trait]
impl Clock for DatabaseClock {
    fn now(&self) -> DateTime<Utc> {
        self.span()
            .map_or_else(|| self.own.now(), |span| span.earliest.trunc_subsecs(3))
    }

    fn elapsed(&self) -> Duration {
        self.own.elapsed()
    }

    async fn sleep(&self, duration: Duration) {
        self.own.sleep(duration).await;
    }
}

fn delta(duration: Duration) -> TimeDelta {
    TimeDelta::from_std(duration).unwrap_or(TimeDelta::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;

    fn at(millis: i64) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH + TimeDelta::milliseconds(millis)
    }

    const fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn clocks(own: DateTime<Utc>) -> (Arc<ManualClock>, DatabaseClock) {
        let own = Arc::new(ManualClock::at(own));
        let database = DatabaseClock::over(Arc::clone(&own) as Arc<dyn Clock>);
        (own, database)
    }

    #[test]
    fn a_wrong_wall_clock_does_not_matter_nor_does_setting_it() {
        let (own, database) = clocks(at(3_600_000));
        assert_eq!(
            database.now(),
            at(3_600_000),
            "all it knows before the first reading"
        );
        let asked = own.elapsed();
        own.advance(millis(20));
        database.read(asked, at(5_000));
        assert_eq!(database.now(), at(5_000));
        own.step_to(at(9_999_999));
        own.advance(millis(1_000));
        assert_eq!(database.now(), at(5_999), "and half a millisecond for the drift");
    }

    #[test]
    fn the_offset_is_as_certain_as_the_quickest_round_trip() {
        let (own, database) = clocks(at(10_000));
        let read = |trip: u64, shown: i64| {
            let asked = own.elapsed();
            own.advance(millis(trip));
            database.read(asked, at(shown));
            database.offset().expect("it was read")
        };
        // Answered half-way: the node is two seconds ahead.
        let slow = read(4_000, 10_000);
        assert_eq!(slow.ahead, TimeDelta::microseconds(1_999_500));
        assert!(!slow.exceeds(TimeDelta::seconds(1)), "{slow:?} may be half of it");
        let quick = read(10, 12_005);
        assert!(
            (quick.ahead - TimeDelta::seconds(2)).abs() < TimeDelta::milliseconds(6),
            "{quick:?}"
        );
        assert!(quick.exceeds(TimeDelta::seconds(1)), "{quick:?}");
        let slow_again = read(4_000, 12_500);
        assert!(slow_again.error < TimeDelta::milliseconds(10), "{slow_again:?}");
        assert!(slow_again.exceeds(TimeDelta::seconds(1)), "{slow_again:?}");
    }

    #[test]
    fn a_database_whose_clock_is_set_is_believed() {
        let (own, database) = clocks(at(0));
        database.read(own.elapsed(), at(0));
        own.advance(millis(1_000));
        database.read(own.elapsed(), at(61_000));
        assert_eq!(database.now(), at(61_000));
        own.advance(millis(1_000));
        database.read(own.elapsed(), at(2_000));
        assert_eq!(database.now(), at(2_000));
    }

    #[test]
    fn what_was_read_long_ago_is_told_late_rather_than_early() {
        let (own, database) = clocks(at(0));
        database.read(own.elapsed(), at(0));
        own.advance(Duration::from_secs(1_000));
        assert_eq!(database.now(), at(999_500));
        let offset = database.offset().expect("it was read");
        assert!(offset.error >= TimeDelta::milliseconds(500), "{offset:?}");
    }
}
