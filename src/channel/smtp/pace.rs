//! How fast a relay takes messages, and so how many may be on their way to it: what waits here has no turn of its own any
//! more, and its time runs.

use std::time::Duration;

/// Messages that wait for each connection at the most. A fire-check is one sync to the disk, and eight messages are not
/// worth one.
const MOST: u32 = 15;

/// What waits for a connection has one within this, as far as the past tells; one message waits for each in any case.
const AHEAD: Duration = Duration::from_millis(500);

/// How much one message tells of the next ones: an eighth.
const MEMORY: u32 = 8;

/// The time that a message takes.
#[derive(Debug, Default)]
pub(super) struct Pace {
    each: Option<Duration>,
}

impl Pace {
    /// A message had a connection for so long.
    pub(super) fn took(&mut self, time: Duration) {
        let each = self.each.unwrap_or(time);
        self.each = Some((each * (MEMORY - 1) + time) / MEMORY);
    }

    /// How many messages may be on their way over so many connections, most of them waiting.
    pub(super) fn under_way(&self, connections: usize) -> usize {
        let waiting = match self.each {
            None => 1,
            Some(each) if each.is_zero() => MOST,
            Some(each) => u32::try_from(AHEAD.as_nanos() / each.as_nanos())
                .unwrap_or(MOST)
                .clamp(1, MOST),
        };
        connections * (1 + waiting as usize)
    }
}

/// How many that may be at the most.
pub(super) fn most(connections: usize) -> usize {
    connections * (1 + MOST as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slower_a_relay_is_the_fewer_wait_for_it() {
        let mut pace = Pace::default();
        assert_eq!(pace.under_way(8), 16);
        let mut after = |millis: u64| {
            for _ in 0..100 {
                pace.took(Duration::from_millis(millis));
            }
            pace.under_way(8)
        };
        assert_eq!(after(0), most(8));
        assert_eq!(after(5), most(8));
        assert_eq!(after(100), 48);
        assert_eq!(after(2_000), 16);
        assert_eq!(after(5), most(8));
    }
}
