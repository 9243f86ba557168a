//! How fast a channel sends: what is due beyond that stays armed, in order, and leaves as soon as there is room.

use std::num::NonZeroU32;
use std::time::Duration;

use crate::delivery::places::Places;
use crate::delivery::places::Rate;

/// How fast one channel sends on this node.
#[derive(Debug, Default)]
pub struct Throughput {
    rate: Option<Rate>,
    places: Places,
}

impl Throughput {
    /// Of so many messages how many may leave now, by the configuration and the boot-time clock.
    pub fn room(&mut self, most: usize, rate: Option<NonZeroU32>, now: Duration) -> usize {
        self.rate = rate.map(Rate::of);
        self.rate.map_or(most, |rate| self.places.free(rate, now, most))
    }

    /// So many leave.
    pub fn spend(&mut self, messages: usize, now: Duration) {
        if let Some(rate) = self.rate {
            for _ in 0..messages {
                self.places.take(rate, now);
            }
        }
    }

    /// How long there is no room.
    pub fn pause(&self, now: Duration) -> Duration {
        self.rate
            .map_or(Duration::ZERO, |rate| self.places.pause(rate, now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(100);

    #[test]
    fn a_channel_sends_as_many_in_a_second_as_it_may_and_says_when_there_is_room() {
        let mut throughput = Throughput::default();
        let rate = NonZeroU32::new(20);
        let (mut now, mut sent) = (NOW, 0);
        while now < NOW + Duration::from_secs(3) {
            let room = throughput.room(50, rate, now);
            throughput.spend(room, now);
            sent += room;
            assert!(throughput.pause(now) > Duration::ZERO);
            now += throughput.pause(now);
        }
        assert!((60..=62).contains(&sent), "{sent}");
    }

    #[test]
    fn room_that_nobody_used_is_there_still() {
        let mut throughput = Throughput::default();
        let rate = NonZeroU32::new(20);
        assert_eq!(throughput.room(9, rate, NOW), 2);
        assert_eq!(throughput.room(9, rate, NOW), 2);
        throughput.spend(2, NOW);
        assert_eq!(throughput.room(9, rate, NOW), 0);
    }

    #[test]
    fn without_a_rate_all_may_leave() {
        let mut throughput = Throughput::default();
        assert_eq!(throughput.room(9_000, None, Duration::ZERO), 9_000);
        assert_eq!(throughput.pause(Duration::ZERO), Duration::ZERO);
    }
}
