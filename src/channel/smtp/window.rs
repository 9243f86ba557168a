//! How many messages may be in flight to a relay. A message that is in flight cannot be reordered and its attempt's time
//! runs, so the window holds what the relay takes in [`AHEAD`] (Little's law): a fast relay is fired in large batches, a
//! slow one in handfuls.

use std::time::Duration;

/// Messages in flight at most: a larger batch costs the database as much for each message.
const MAX: usize = 2_000;

/// A message that waits for a connection gets one within this time, as far as earlier messages tell. One message waits for
/// each connection in any case.
const AHEAD: Duration = Duration::from_millis(500);

/// The newest message counts for an eighth of the average.
const MEMORY: u32 = 8;

/// The time that a message takes on a connection, and the window that follows from it.
#[derive(Debug, Default)]
pub(super) struct Window {
    average: Option<Duration>,
}

impl Window {
    /// A message held a connection for this time.
    pub(super) fn took(&mut self, time: Duration) {
        let average = self.average.unwrap_or(time);
        self.average = Some((average * (MEMORY - 1) + time) / MEMORY);
    }

    /// How many messages may be in flight over this many connections, those that wait for a connection included.
    pub(super) fn in_flight(&self, connections: usize) -> usize {
        let waiting = match self.average {
            None => 1,
            Some(average) if average.is_zero() => MAX,
            Some(average) => usize::try_from(AHEAD.as_nanos() / average.as_nanos()).unwrap_or(MAX),
        };
        let all = connections.saturating_mul(1 + waiting.max(1));
        all.min(max_in_flight(connections))
    }
}

/// The window of a relay that takes no time.
pub(super) fn max_in_flight(connections: usize) -> usize {
    MAX.max(2 * connections)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn window_follows_the_time_that_a_message_takes() {
        let mut window = Window::default();
        assert_eq!(window.in_flight(8), 16);
        let mut after = |millis: u64| {
            for _ in 0..100 {
                window.took(Duration::from_millis(millis));
            }
            window.in_flight(8)
        };
        assert_eq!(after(0), MAX);
        assert_eq!(after(5), 808);
        assert_eq!(after(100), 48);
        assert_eq!(after(2_000), 16);
        assert_eq!(after(5), 800);
    }

    #[test]
    fn many_connections_have_one_waiting_message_each() {
        assert_eq!(Window::default().in_flight(1_500), 3_000);
        assert_eq!(max_in_flight(1_500), 3_000);
    }
}
