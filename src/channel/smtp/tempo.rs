//! Whose mail a relay takes slowly though it takes others' quickly, as for a mailbox whose server keeps it waiting: such
//! owners have half of what there is between them, however many they are, so that nobody else waits for theirs. Pure.

use std::collections::HashMap;
use std::time::Duration;

/// A message that takes longer is slow.
const SLOW: Duration = Duration::from_secs(1);

/// How long it is remembered what a message took.
const REMEMBERED: Duration = Duration::from_mins(5);

/// Owners that are remembered.
const MOST: usize = 10_000;

/// How a relay has been doing. Moments are those of the boot-time clock.
#[derive(Debug, Default)]
pub(super) struct Tempo {
    /// Owners whose last message was slow, each until when that counts.
    slow: HashMap<u64, Duration>,
    /// Until when it counts that somebody's was quick: a relay that is slow to everybody holds nobody up for another.
    quick_until: Duration,
}

impl Tempo {
    /// A message of `owner` took so long.
    pub(super) fn took(&mut self, owner: u64, time: Duration, now: Duration) {
        if time <= SLOW {
            self.quick_until = now + REMEMBERED;
            self.slow.remove(&owner);
            return;
        }
        if self.slow.len() >= MOST {
            self.slow.retain(|_, until| *until > now);
        }
        if self.slow.len() < MOST {
            self.slow.insert(owner, now + REMEMBERED);
        }
    }

    /// Whether the messages of `owner` take longer than those of others.
    pub(super) fn is_slow(&self, owner: u64, now: Duration) -> bool {
        self.quick_until > now && self.slow.get(&owner).is_some_and(|until| *until > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(100);

    #[test]
    fn who_is_slow_is_so_beside_others_and_until_a_message_is_quick() {
        let mut tempo = Tempo::default();
        tempo.took(1, 2 * SLOW, NOW);
        assert!(!tempo.is_slow(1, NOW), "so is everybody, as far as is known");
        tempo.took(2, SLOW, NOW);
        assert!(tempo.is_slow(1, NOW) && !tempo.is_slow(2, NOW));
        assert!(!tempo.is_slow(1, NOW + REMEMBERED));
        tempo.took(1, SLOW, NOW);
        assert!(!tempo.is_slow(1, NOW));
    }

    #[test]
    fn no_more_are_remembered_than_may_be() {
        let mut tempo = Tempo::default();
        for owner in 0..=MOST as u64 {
            tempo.took(owner, 2 * SLOW, NOW);
        }
        assert_eq!(tempo.slow.len(), MOST);
        tempo.took(77_777, 2 * SLOW, NOW + REMEMBERED);
        assert_eq!(tempo.slow.len(), 1);
    }
}
