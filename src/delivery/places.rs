//! Places for messages, so many a second: one in each interval, of which some may be used at once. Pure.

use std::num::NonZeroU32;
use std::time::Duration;

/// So many parts of a second's places may be used at once.
const PARTS: u32 = 10;

/// How many places there are.
#[derive(Debug, Clone, Copy)]
pub struct Rate {
    interval: Duration,
    ahead: Duration,
}

impl Rate {
    /// So many in a second.
    pub fn of(in_a_second: NonZeroU32) -> Self {
        let interval = Duration::from_secs(1) / in_a_second.get();
        let at_once = in_a_second.get().div_ceil(PARTS);
        Self {
            interval,
            ahead: interval * (at_once - 1),
        }
    }
}

/// The places of one thing. Moments are those of the boot-time clock; time that nobody used is no flood later.
#[derive(Debug, Default)]
pub struct Places {
    /// All are given away that there are until then.
    taken_until: Duration,
}

impl Places {
    /// How long until there is one.
    pub fn pause(&self, rate: Rate, now: Duration) -> Duration {
        self.taken_until.saturating_sub(now + rate.ahead)
    }

    /// How many there are now, up to `most`.
    pub fn free(&self, rate: Rate, now: Duration, most: usize) -> usize {
        let mut rehearsal = Self {
            taken_until: self.taken_until,
        };
        (0..most).take_while(|_| rehearsal.take(rate, now)).count()
    }

    /// Takes one, if there is one.
    pub fn take(&mut self, rate: Rate, now: Duration) -> bool {
        let is_free = self.pause(rate, now).is_zero();
        if is_free {
            self.taken_until = self.taken_until.max(now) + rate.interval;
        }
        is_free
    }

    /// Gives one back that was taken and not used.
    pub fn give_back(&mut self, rate: Rate) {
        self.taken_until = self.taken_until.saturating_sub(rate.interval);
    }

    /// Whether none is taken, as if none had ever been.
    pub fn are_untouched(&self, now: Duration) -> bool {
        self.taken_until <= now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(100);

    fn rate(in_a_second: u32) -> Rate {
        Rate::of(NonZeroU32::new(in_a_second).unwrap())
    }

    #[test]
    fn there_are_as_many_in_a_second_as_there_should_be() {
        let (mut places, rate) = (Places::default(), rate(20));
        let (mut now, mut taken) = (NOW, 0);
        while now < NOW + Duration::from_secs(3) {
            while places.take(rate, now) {
                taken += 1;
            }
            assert!(places.pause(rate, now) > Duration::ZERO);
            now += places.pause(rate, now);
        }
        assert!((60..=62).contains(&taken), "{taken}");
    }

    #[test]
    fn what_is_counted_can_be_taken_and_what_is_given_back_is_there_again() {
        let (mut places, rate) = (Places::default(), rate(50));
        let free = places.free(rate, NOW, 100);
        assert_eq!((free, places.free(rate, NOW, 3)), (5, 3));
        assert!((0..free).all(|_| places.take(rate, NOW)));
        assert!(!places.take(rate, NOW));
        places.give_back(rate);
        assert_eq!(places.free(rate, NOW, 100), 1);
    }

    #[test]
    fn time_that_nobody_used_is_no_flood_later() {
        let (mut places, rate) = (Places::default(), rate(2));
        assert!(places.take(rate, NOW) && !places.take(rate, NOW));
        assert_eq!(places.free(rate, NOW + Duration::from_mins(1), 9), 1);
    }
}
