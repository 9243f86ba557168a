//! How fast a channel sends: what is due beyond that stays armed, in order, and leaves as soon as there is room.

use std::num::NonZeroU32;
use std::time::Duration;

use governor::Quota;
use governor::RateLimiter;
use governor::clock::Clock;
use governor::middleware::NoOpMiddleware;
use governor::state::InMemoryState;
use governor::state::NotKeyed;

use crate::delivery::limiter::Ticks;

type Direct = RateLimiter<NotKeyed, InMemoryState, Ticks, NoOpMiddleware<Duration>>;

/// So many parts of a second's messages may leave at once.
const PARTS: u32 = 10;

/// How fast one channel sends on this node.
#[derive(Debug, Default)]
pub struct Throughput {
    rate: Option<NonZeroU32>,
    direct: Option<Direct>,
    ticks: Ticks,
    pause: Duration,
}

impl Throughput {
    /// Of so many claims that wait, how many may leave now, by the configuration and the boot-time clock.
    pub fn room(&mut self, claims: usize, rate: Option<NonZeroU32>, now: Duration) -> usize {
        self.ticks.set(now);
        if self.rate != rate {
            self.rate = rate;
            let direct = |rate: NonZeroU32| {
                let burst = NonZeroU32::new(rate.get().div_ceil(PARTS)).unwrap_or(rate);
                let quota = Quota::with_period(Duration::from_secs(1) / rate.get())?;
                Some(RateLimiter::direct_with_clock(
                    quota.allow_burst(burst),
                    self.ticks.clone(),
                ))
            };
            self.direct = rate.and_then(direct);
        }
        self.pause = Duration::ZERO;
        let Some(direct) = &self.direct else { return claims };
        for leaving in 0..claims {
            if let Err(not_yet) = direct.check() {
                self.pause = not_yet.wait_time_from(self.ticks.now());
                return leaving;
            }
        }
        claims
    }

    /// How long there is no room for what was refused last.
    pub const fn pause(&self) -> Duration {
        self.pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_sends_as_many_in_a_second_as_it_may_and_says_when_there_is_room() {
        let mut throughput = Throughput::default();
        let rate = NonZeroU32::new(20);
        let (mut now, mut sent) = (Duration::from_secs(100), 0);
        while now < Duration::from_secs(103) {
            sent += throughput.room(50, rate, now);
            assert!(throughput.pause() > Duration::ZERO);
            now += throughput.pause();
        }
        assert!((60..=62).contains(&sent), "{sent}");
    }

    #[test]
    fn without_a_rate_all_may_leave() {
        let mut throughput = Throughput::default();
        assert_eq!(throughput.room(9_000, None, Duration::ZERO), 9_000);
        assert_eq!(throughput.pause(), Duration::ZERO);
    }
}
