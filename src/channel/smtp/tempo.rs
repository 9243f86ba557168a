//! Whose mail a relay takes slowly though it takes others' quickly, as for a mailbox whose server keeps it waiting: such
//! owners have half of what there is between them, however many they are, so that nobody else waits for theirs. And those
//! of whom neither is known show it by one message before they have more than one under way. Pure.

use std::collections::HashMap;
use std::time::Duration;

/// A message that takes so many times as long as is usual is slow.
const TIMES: u32 = 10;

/// No message is slow that takes less, and each is that takes more.
const SLOW: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(1));

/// How much a message tells of what is usual: half where it is quicker, little where it is slower.
const TELLS: (u32, u32) = (2, 128);

/// How long it is remembered what a message took.
const REMEMBERED: Duration = Duration::from_mins(5);

/// So many messages must be quick, one after the other, until nothing speaks against an owner: some mailboxes of theirs may be
/// slow, and others not.
const QUICK_AGAIN: u8 = 3;

/// Owners that are remembered as slow, and as quick.
const MOST: usize = 10_000;

/// Where there is no room, it is looked so often whether something does not count any more.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// What was seen of owners lately, each until when that counts.
#[derive(Debug)]
struct Seen<T> {
    of: HashMap<u64, (T, Duration)>,
    swept_at: Duration,
}

impl<T> Default for Seen<T> {
    fn default() -> Self {
        Self {
            of: HashMap::new(),
            swept_at: Duration::ZERO,
        }
    }
}

impl<T> Seen<T> {
    fn note(&mut self, owner: u64, what: T, now: Duration) {
        let is_known = self.of.contains_key(&owner);
        if !is_known && self.is_full() && now >= self.swept_at + SWEEP_EVERY {
            self.of.retain(|_, (_, until)| *until > now);
            self.swept_at = now;
        }
        if is_known || !self.is_full() {
            self.of.insert(owner, (what, now + REMEMBERED));
        }
    }

    fn get(&self, owner: u64, now: Duration) -> Option<&T> {
        let (what, until) = self.of.get(&owner)?;
        (*until > now).then_some(what)
    }

    fn is_full(&self) -> bool {
        self.of.len() >= MOST
    }
}

/// How a relay has been doing. Moments are those of the boot-time clock.
#[derive(Debug, Default)]
pub(super) struct Tempo {
    /// Owners of whom a message was slow, and how many were quick since.
    slow: Seen<u8>,
    /// Owners of whom a message was quick, and none slow since: how long it took. What is quick may change.
    quick: Seen<Duration>,
    /// When a message was quick last: a relay that is slow to everybody holds nobody up for another.
    quick_at: Option<Duration>,
    /// What a message takes that nothing holds up.
    usual: Option<Duration>,
}

/// A message that is under way.
#[derive(Debug, Clone)]
pub(super) struct UnderWay {
    pub(super) owner: u64,
    /// Since when the relay has heard of it.
    pub(super) since: Option<Duration>,
}

impl Tempo {
    /// The relay took a message of `owner`, and so much time.
    pub(super) fn took(&mut self, owner: u64, time: Duration, now: Duration) {
        let (slow_from, slow_from_of_owner) = (self.slow_from(), self.slow_from_of(owner, now));
        self.learn(time);
        if time > slow_from_of_owner {
            self.is_held_up_by(owner, now);
        } else if time > slow_from {
            // That happens to one message; it does not go on so.
            self.quick.of.remove(&owner);
        } else {
            self.quick_at = Some(now);
            self.is_quick(owner, time, now);
        }
    }

    fn is_quick(&mut self, owner: u64, time: Duration, now: Duration) {
        if let Some((quick, until)) = self.slow.of.get_mut(&owner)
            && *until > now
        {
            *quick += 1;
            if *quick < QUICK_AGAIN {
                return;
            }
        }
        self.slow.of.remove(&owner);
        self.quick.note(owner, time, now);
    }

    /// A message of `owner` is slow, whether it has ended or not.
    pub(super) fn is_held_up_by(&mut self, owner: u64, now: Duration) {
        self.quick.of.remove(&owner);
        self.slow.note(owner, 0, now);
    }

    /// When a message was quick last.
    pub(super) fn quick_at(&self) -> Option<Duration> {
        self.quick_at
    }

    /// What takes longer is slow.
    pub(super) fn slow_from(&self) -> Duration {
        self.usual
            .map_or(SLOW.1, |usual| (usual * TIMES).clamp(SLOW.0, SLOW.1))
    }

    /// What takes longer is slow for `owner`: where their last message was quick, this one may be held up with all others.
    pub(super) fn slow_from_of(&self, owner: u64, now: Duration) -> Duration {
        if self.was_quick(owner, now) {
            SLOW.1
        } else {
            self.slow_from()
        }
    }

    /// Whether a message has been under way for long.
    pub(super) fn is_slow_by_now(&self, message: &UnderWay, now: Duration) -> bool {
        let long = self.slow_from_of(message.owner, now);
        let since = message.since;
        since.is_some_and(|since| now.saturating_sub(since) >= long)
    }

    /// Whether messages of `owner` take longer than those of others do, or may.
    pub(super) fn was_slow(&self, owner: u64, now: Duration) -> bool {
        self.slow.get(owner, now).is_some()
    }

    fn was_quick(&self, owner: u64, now: Duration) -> bool {
        let took = self.quick.get(owner, now);
        took.is_some_and(|took| *took <= self.slow_from())
    }

    /// Whether nothing is known of `owner` while others are quick, and there is room to remember it.
    pub(super) fn is_to_show(&self, owner: u64, now: Duration) -> bool {
        self.is_anybody_quick(now)
            && !self.quick.is_full()
            && !self.was_slow(owner, now)
            && !self.was_quick(owner, now)
    }

    /// Whether somebody's messages are quick.
    pub(super) fn is_anybody_quick(&self, now: Duration) -> bool {
        self.quick_at.is_some_and(|at| now < at + REMEMBERED)
    }

    /// Whether the messages of `owner` take longer than those of others.
    pub(super) fn is_slow(&self, owner: u64, now: Duration) -> bool {
        self.is_anybody_quick(now) && self.was_slow(owner, now)
    }

    fn learn(&mut self, time: Duration) {
        let usual = self.usual.unwrap_or(time);
        let of = if time < usual { TELLS.0 } else { TELLS.1 };
        self.usual = Some((usual * (of - 1) + time) / of);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(100);
    const LONG: Duration = Duration::from_secs(2);
    const SHORT: Duration = Duration::from_millis(5);

    #[test]
    fn who_is_slow_is_so_beside_others_and_until_some_messages_are_quick() {
        let mut tempo = Tempo::default();
        tempo.took(1, LONG, NOW);
        assert!(!tempo.is_slow(1, NOW), "so is everybody, as far as is known");
        tempo.took(2, SHORT, NOW);
        assert!(tempo.is_slow(1, NOW) && !tempo.is_slow(2, NOW));
        assert!(!tempo.is_slow(1, NOW + REMEMBERED));
        for _ in 0..2 {
            tempo.took(1, SHORT, NOW);
            tempo.took(1, SHORT, NOW);
            assert!(tempo.is_slow(1, NOW));
            tempo.took(1, LONG, NOW);
        }
        for _ in 0..QUICK_AGAIN {
            tempo.took(1, SHORT, NOW);
        }
        assert!(!tempo.is_slow(1, NOW));
    }

    #[test]
    fn what_is_slow_depends_on_what_is_usual() {
        let mut tempo = Tempo::default();
        assert_eq!(tempo.slow_from(), SLOW.1);
        for _ in 0..50 {
            tempo.took(2, SHORT, NOW);
            tempo.took(1, Duration::from_millis(900), NOW);
        }
        assert!(tempo.is_slow(1, NOW) && !tempo.is_slow(2, NOW));
        // A relay that has become slower is so to everybody.
        for owner in 3..40 {
            tempo.took(owner, Duration::from_millis(900), NOW);
        }
        assert_eq!(tempo.slow_from(), SLOW.1);
        assert!(!tempo.is_slow(39, NOW));
    }

    #[test]
    fn who_was_quick_is_not_slow_for_a_moment() {
        let mut tempo = Tempo::default();
        assert!(!tempo.is_to_show(1, NOW), "nobody is quick");
        tempo.took(1, SHORT, NOW);
        assert!(tempo.is_to_show(2, NOW) && !tempo.is_to_show(1, NOW));
        for owner in [1, 2] {
            tempo.took(owner, Duration::from_millis(600), NOW);
        }
        assert!(tempo.is_slow(2, NOW) && !tempo.is_slow(1, NOW));
        tempo.took(1, Duration::from_millis(600), NOW);
        assert!(tempo.is_slow(1, NOW) && !tempo.is_to_show(1, NOW));
        tempo.took(3, SHORT, NOW + REMEMBERED);
        assert!(tempo.is_to_show(1, NOW + REMEMBERED));
    }

    #[test]
    fn who_was_quick_for_as_long_as_nothing_was_known_is_so_no_longer() {
        let mut tempo = Tempo::default();
        let long = Duration::from_millis(900);
        tempo.took(1, long, NOW);
        assert!(!tempo.is_slow(1, NOW));
        for _ in 0..20 {
            tempo.took(2, SHORT, NOW);
        }
        assert!(tempo.is_to_show(1, NOW));
        tempo.took(1, long, NOW);
        assert!(tempo.is_slow(1, NOW));
    }

    #[test]
    fn no_more_are_remembered_than_may_be() {
        let mut tempo = Tempo::default();
        for owner in 0..=MOST as u64 {
            tempo.took(owner, LONG, NOW);
        }
        assert_eq!(tempo.slow.of.len(), MOST);
        tempo.took(77_777, LONG, NOW + REMEMBERED);
        assert_eq!(tempo.slow.of.len(), 1);
        for owner in 0..MOST as u64 {
            tempo.took(owner, SHORT, NOW);
        }
        assert!(!tempo.is_to_show(88_888, NOW), "it could not be kept that it did");
    }
}
