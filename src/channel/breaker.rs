//! A breaker: when the other side is down, it is left alone but for one probe at a time. Pure, given the time.
//!
//! ```text
//! closed ──enough failures in a row──▶ open ──after a pause──▶ half-open: one probe
//!    ▲                                  ▲                          │
//!    └───────────── success ────────────┼───────── failure ────────┘
//! ```
//!
//! Only what is the other side's own fault counts ([`Blame::Target`](crate::channel::Blame::Target)): that it refuses one
//! message shows that it is there.

use std::time::Duration;

/// Failures in a row after which the other side counts as down.
const ENOUGH: u32 = 5;

/// The pause between two probes.
pub const PAUSE: Duration = Duration::from_secs(5);

/// Whether the other side may be asked. Moments are those of the boot-time clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Breaker {
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Closed { failures: u32 },
    Open { until: Duration },
    HalfOpen { next_probe: Duration },
}

/// How many may ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Openness {
    /// Everybody.
    Everybody,
    /// One, to see whether the other side is back.
    OneProbe,
    /// Nobody for so long.
    Nobody(Duration),
}

impl Openness {
    /// Less is better: of several ways the one with the least is taken.
    pub fn rank(self) -> Duration {
        match self {
            Self::Everybody => Duration::ZERO,
            Self::OneProbe => Duration::from_nanos(1),
            Self::Nobody(pause) => pause.max(Duration::from_nanos(2)),
        }
    }
}

impl Default for Breaker {
    fn default() -> Self {
        Self {
            state: State::Closed { failures: 0 },
        }
    }
}

impl Breaker {
    /// How many may ask now.
    pub fn openness(&self, now: Duration) -> Openness {
        let next = match self.state {
            State::Closed { .. } => return Openness::Everybody,
            State::Open { until } => until,
            State::HalfOpen { next_probe } => next_probe,
        };
        match next.saturating_sub(now) {
            Duration::ZERO => Openness::OneProbe,
            pause => Openness::Nobody(pause),
        }
    }

    /// Whether somebody who wants to ask may do so now; of those who come while the other side is down, one in each
    /// pause may, and is the probe.
    pub fn admits(&mut self, now: Duration) -> bool {
        match self.openness(now) {
            Openness::Everybody => true,
            Openness::Nobody(_) => false,
            Openness::OneProbe => {
                // A probe of which nothing is heard is followed by another.
                self.state = State::HalfOpen {
                    next_probe: now + PAUSE,
                };
                true
            }
        }
    }

    /// The other side answered.
    pub fn succeeded(&mut self) {
        *self = Self::default();
    }

    /// The other side was not there, or was in trouble of its own.
    pub fn failed(&mut self, now: Duration) {
        self.state = match self.state {
            State::Closed { failures } if failures + 1 < ENOUGH => State::Closed {
                failures: failures + 1,
            },
            // Those who asked before it was known say nothing new.
            open @ State::Open { .. } => open,
            State::Closed { .. } | State::HalfOpen { .. } => State::Open { until: now + PAUSE },
        };
    }

    /// Whether the other side counts as down.
    pub const fn is_open(&self) -> bool {
        !matches!(self.state, State::Closed { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn second(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    fn open_at(now: Duration) -> Breaker {
        let mut breaker = Breaker::default();
        for _ in 0..ENOUGH {
            breaker.failed(now);
        }
        breaker
    }

    #[test]
    fn it_opens_after_enough_failures_in_a_row() {
        let mut breaker = Breaker::default();
        for _ in 0..ENOUGH - 1 {
            breaker.failed(second(0));
        }
        assert!(breaker.admits(second(0)));
        breaker.succeeded();
        for _ in 0..ENOUGH - 1 {
            breaker.failed(second(0));
        }
        assert!(breaker.admits(second(0)), "they were not in a row");
        breaker.failed(second(1));
        assert!(breaker.is_open() && !breaker.admits(second(1)));
        assert_eq!(breaker.openness(second(2)), Openness::Nobody(second(4)));
    }

    #[test]
    fn while_it_is_open_one_in_each_pause_may_ask() {
        let mut breaker = open_at(second(0));
        let mut asked = Vec::new();
        for tenth in 0..300 {
            let now = Duration::from_millis(tenth * 100);
            if breaker.admits(now) {
                asked.push(now);
                breaker.failed(now);
            }
        }
        assert_eq!(asked, [5, 10, 15, 20, 25].map(second));
    }

    #[test]
    fn a_probe_that_is_never_heard_of_is_followed_by_another() {
        let mut breaker = open_at(second(0));
        assert!(breaker.admits(second(5)) && !breaker.admits(second(9)));
        assert!(breaker.admits(second(10)));
    }

    #[test]
    fn a_success_closes_it_and_late_failures_do_not_prolong_it() {
        let mut breaker = open_at(second(0));
        breaker.failed(second(4));
        assert_eq!(breaker.openness(second(5)), Openness::OneProbe);
        assert!(breaker.admits(second(5)));
        breaker.succeeded();
        assert!(!breaker.is_open());
        assert_eq!(breaker.openness(second(5)), Openness::Everybody);
    }
}
