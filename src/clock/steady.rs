//! A wall clock that is not believed at once when it jumps. While a jump is held, time goes on by the boot-time clock, so
//! nothing fires, expires or is deleted by a time that may be false; after a while the new time holds.
//!
//! Only jumps between two readings are seen: a clock that was wrong when the process started is believed. The boot-time
//! clock counts suspend, so a machine that slept sees no jump.

use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use chrono::DateTime;
use chrono::SubsecRound;
use chrono::TimeDelta;
use chrono::Utc;

use super::Clock;

/// When a jump is held, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// A larger jump against the boot-time clock is held.
    pub max_step: Duration,
    /// After this long the new time holds.
    pub hold: Duration,
}

/// A clock of this machine that holds jumps.
#[derive(Debug)]
pub struct SteadyClock {
    own: Arc<dyn Clock>,
    config: Config,
    told: Mutex<Told>,
}

/// What was told last.
#[derive(Debug, Clone, Copy)]
struct Told {
    now: DateTime<Utc>,
    elapsed: Duration,
    held: Option<Held>,
}

/// A jump that is held.
#[derive(Debug, Clone, Copy)]
struct Held {
    since: Duration,
    step: TimeDelta,
}

impl SteadyClock {
    /// Holds the jumps of this clock.
    pub fn over(own: Arc<dyn Clock>, config: Config) -> Self {
        let told = Told {
            now: own.now(),
            elapsed: own.elapsed(),
            held: None,
        };
        Self {
            own,
            config,
            told: Mutex::new(told),
        }
    }

    fn look(&self) -> Told {
        let mut told = self.told.lock().expect("no holder panics");
        let (wall, elapsed) = (self.own.now(), self.own.elapsed());
        *told = told.at(wall, elapsed, self.config);
        *told
    }
}

impl Told {
    /// What is told when the clocks show this.
    fn at(self, wall: DateTime<Utc>, elapsed: Duration, config: Config) -> Self {
        let expected = self.now + delta(elapsed.saturating_sub(self.elapsed));
        let (step, max_step) = (wall - expected, delta(config.max_step));
        let believed = Self {
            now: wall,
            elapsed,
            held: None,
        };
        if step.abs() <= max_step {
            if self.held.is_some() {
                tracing::info!("the wall clock is back");
            }
            return believed;
        }
        // A clock that jumps again while it is held is doubted anew.
        let same = self.held.filter(|held| (step - held.step).abs() <= max_step);
        let held = same.unwrap_or(Held { since: elapsed, step });
        if same.is_none() {
            let (seconds, at_most) = (step.num_seconds(), config.hold);
            tracing::warn!(
                seconds,
                ?at_most,
                "the wall clock jumped; going by the boot-time clock meanwhile"
            );
        }
        if elapsed.saturating_sub(held.since) >= config.hold {
            tracing::warn!(
                seconds = step.num_seconds(),
                "the wall clock stayed where it jumped to; going by it"
            );
            return believed;
        }
        Self {
            now: expected,
            elapsed,
            held: Some(held),
        }
    }
}

#[async_trait::async_trait]
impl Clock for SteadyClock {
    fn now(&self) -> DateTime<Utc> {
        self.look().now.trunc_subsecs(3)
    }

    fn elapsed(&self) -> Duration {
        self.own.elapsed()
    }

    async fn sleep(&self, duration: Duration) {
        self.own.sleep(duration).await;
    }

    fn held_step(&self) -> Option<TimeDelta> {
        self.look().held.map(|held| held.step)
    }
}

fn delta(duration: Duration) -> TimeDelta {
    TimeDelta::from_std(duration).unwrap_or(TimeDelta::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;

    const CONFIG: Config = Config {
        max_step: Duration::from_mins(10),
        hold: Duration::from_mins(1),
    };

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH + TimeDelta::seconds(seconds)
    }

    fn clocks() -> (Arc<ManualClock>, SteadyClock) {
        let own = Arc::new(ManualClock::at(at(0)));
        let steady = SteadyClock::over(Arc::clone(&own) as Arc<dyn Clock>, CONFIG);
        (own, steady)
    }

    #[test]
    fn short_jump_is_never_told() {
        for step in [365 * 86_400, -3_600] {
            let (own, steady) = clocks();
            own.advance(Duration::from_secs(10));
            own.step_to(at(10 + step));
            assert_eq!(steady.now(), at(10));
            assert_eq!(steady.held_step(), Some(TimeDelta::seconds(step)));
            own.advance(Duration::from_secs(6));
            assert_eq!(steady.now(), at(16), "time goes on");
            own.step_to(at(16));
            assert_eq!((steady.now(), steady.held_step()), (at(16), None));
        }
    }

    #[test]
    fn lasting_jump_holds_after_a_while() {
        for step in [7_200, -3_600] {
            let (own, steady) = clocks();
            own.step_to(at(step));
            assert_eq!(steady.now(), at(0));
            own.advance(Duration::from_secs(59));
            assert_eq!(steady.now(), at(59));
            own.advance(Duration::from_secs(1));
            assert_eq!((steady.now(), steady.held_step()), (at(step + 60), None));
        }
    }

    #[test]
    fn clock_that_jumps_again_is_doubted_anew() {
        let (own, steady) = clocks();
        own.step_to(at(86_400));
        assert_eq!(steady.now(), at(0));
        own.advance(Duration::from_secs(50));
        own.step_to(at(2 * 86_400));
        assert_eq!(steady.now(), at(50));
        own.advance(Duration::from_secs(50));
        assert_eq!(steady.now(), at(100));
        own.advance(Duration::from_secs(10));
        assert_eq!(steady.now(), at(2 * 86_400 + 60));
    }

    #[test]
    fn small_steps_and_suspend_are_no_jumps() {
        let (own, steady) = clocks();
        own.step_to(at(600));
        assert_eq!(steady.now(), at(600));
        own.step_to(at(0));
        assert_eq!(steady.now(), at(0));
        own.advance(Duration::from_hours(10));
        assert_eq!((steady.now(), steady.held_step()), (at(36_000), None));
    }
}
