//! Whose mail a relay takes slowly though it takes others' quickly, as for a mailbox or a domain whose server keeps it waiting:
//! such owners, and such domains, have half of what there is between them, however many they are, so that nobody else waits
//! for theirs. Pure.

use std::collections::HashMap;
use std::collections::HashSet;
use std::hash::Hash;
use std::time::Duration;

/// A message that takes so many times as long as is usual is slow.
const TIMES: u32 = 10;

/// No message is slow that takes less, and each is that takes more.
const SLOW: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(1));

/// How much a message tells of what is usual: half where it is quicker, little where it is slower.
const TELLS: (u32, u32) = (2, 128);

/// A domain is slow once messages of so many owners were, and none was quick meanwhile: one mailbox is not a domain.
const OWNERS: usize = 3;

/// How long it is remembered what a message took.
const REMEMBERED: Duration = Duration::from_mins(5);

/// Owners, and domains, that are remembered.
const MOST: usize = 10_000;

/// How a relay has been doing. Moments are those of the boot-time clock.
#[derive(Debug, Default)]
pub(super) struct Tempo {
    /// Owners whose last message was slow, each until when that counts.
    slow: HashMap<u64, Duration>,
    /// Domains of recipients.
    domains: HashMap<String, Domain>,
    /// Those of them whose last messages were slow.
    suspects: HashSet<String>,
    /// When a message was quick last: a relay that is slow to everybody holds nobody up for another.
    quick_at: Option<Duration>,
    /// What a message takes that nothing holds up.
    usual: Option<Duration>,
}

/// How messages for one domain have been doing.
#[derive(Debug, Default)]
struct Domain {
    /// Until when this counts.
    until: Duration,
    /// When a message was quick last.
    quick_at: Option<Duration>,
    /// Owners whose messages were slow that were begun since.
    slow: HashSet<u64>,
}

/// A message that is under way.
#[derive(Debug, Clone)]
pub(super) struct UnderWay {
    pub(super) owner: u64,
    pub(super) domain: String,
    /// Since when the relay has heard of it.
    pub(super) since: Option<Duration>,
}

impl Tempo {
    /// The relay took a message of `owner` for somebody at `domain`, and so much time.
    pub(super) fn took(&mut self, (owner, domain): (u64, &str), time: Duration, now: Duration) {
        let is_slow = time > self.slow_from();
        self.learn(time);
        if is_slow {
            self.took_long((owner, domain), time, now);
            return;
        }
        self.quick_at = Some(now);
        self.slow.remove(&owner);
        self.suspects.remove(domain);
        let of_domain = self.domain(domain, now);
        of_domain.quick_at = Some(now);
        of_domain.slow.clear();
    }

    /// The relay took long over a message, whether it took it or not.
    pub(super) fn took_long(&mut self, (owner, domain): (u64, &str), time: Duration, now: Duration) {
        let of_domain = self.domain(domain, now);
        if of_domain.counts(now.saturating_sub(time)) && of_domain.slow.len() < OWNERS {
            of_domain.slow.insert(owner);
            self.suspects.insert(domain.to_owned());
        }
        self.is_held_up_by(owner, now);
    }

    /// What is known of a domain, from now on for a while.
    fn domain(&mut self, name: &str, now: Duration) -> &mut Domain {
        if !self.domains.contains_key(name) && make_room(&mut self.domains, |domain| domain.until > now) {
            self.suspects.retain(|name| self.domains.contains_key(name));
        }
        let domain = self.domains.entry(name.to_owned()).or_default();
        if domain.until <= now {
            *domain = Domain::default();
        }
        domain.until = now + REMEMBERED;
        domain
    }

    /// A message of `owner` is slow, whether it has ended or not.
    pub(super) fn is_held_up_by(&mut self, owner: u64, now: Duration) {
        if !self.slow.contains_key(&owner) {
            make_room(&mut self.slow, |until| *until > now);
        }
        self.slow.insert(owner, now + REMEMBERED);
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

    /// Whether a message has been under way for long.
    pub(super) fn is_slow_by_now(&self, message: &UnderWay, now: Duration) -> bool {
        let since = message.since;
        since.is_some_and(|since| now.saturating_sub(since) >= self.slow_from())
    }

    /// Whether messages of `owner` take longer than those of others do, or may.
    pub(super) fn was_slow(&self, owner: u64, now: Duration) -> bool {
        self.slow.get(&owner).is_some_and(|until| *until > now)
    }

    /// Whether somebody's messages are quick.
    pub(super) fn is_anybody_quick(&self, now: Duration) -> bool {
        self.quick_at.is_some_and(|at| now < at + REMEMBERED)
    }

    /// Whether the messages of `owner` take longer than those of others.
    pub(super) fn is_slow(&self, owner: u64, now: Duration) -> bool {
        self.is_anybody_quick(now) && self.was_slow(owner, now)
    }

    /// The domains whose messages take longer than those for others: it counts, too, what is under way and slow by now.
    pub(super) fn slow_domains<'a>(
        &self,
        under_way: impl Iterator<Item = &'a UnderWay>,
        now: Duration,
    ) -> HashSet<String> {
        if !self.is_anybody_quick(now) {
            return HashSet::new();
        }
        let known = |name: &str| self.domains.get(name).filter(|of| of.until > now);
        let suspects = self.suspects.iter().map(String::as_str);
        let suspects = suspects.filter_map(|name| Some((name, known(name)?)));
        let ended = suspects.flat_map(|(name, of)| of.slow.iter().map(move |owner| (name, *owner)));
        let under_way = under_way.filter(|it| {
            let counts = |since| known(&it.domain).is_none_or(|of| of.counts(since));
            self.is_slow_by_now(it, now) && it.since.is_some_and(counts)
        });
        let mut slow: HashMap<&str, HashSet<u64>> = HashMap::new();
        for (name, owner) in ended.chain(under_way.map(|it| (&*it.domain, it.owner))) {
            slow.entry(name).or_default().insert(owner);
        }
        let slow = slow.into_iter().filter(|(_, owners)| owners.len() >= OWNERS);
        slow.map(|(name, _)| name.to_owned()).collect()
    }

    fn learn(&mut self, time: Duration) {
        let usual = self.usual.unwrap_or(time);
        let of = if time < usual { TELLS.0 } else { TELLS.1 };
        self.usual = Some((usual * (of - 1) + time) / of);
    }
}

impl Domain {
    /// Whether a message that was begun then says something of the domain: none was quick meanwhile.
    fn counts(&self, began: Duration) -> bool {
        self.quick_at.is_none_or(|quick_at| quick_at <= began)
    }
}

/// Makes room for one more: what does not count any longer goes first, and else somebody. Whether anything went.
fn make_room<K: Eq + Hash + Clone, V>(map: &mut HashMap<K, V>, counts: impl Fn(&V) -> bool) -> bool {
    if map.len() < MOST {
        return false;
    }
    map.retain(|_, value| counts(value));
    if map.len() >= MOST
        && let Some(key) = map.keys().next().cloned()
    {
        map.remove(&key);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(100);
    const LONG: Duration = Duration::from_secs(2);
    const SHORT: Duration = Duration::from_millis(5);

    #[test]
    fn who_is_slow_is_so_beside_others_and_until_a_message_is_quick() {
        let mut tempo = Tempo::default();
        tempo.took((1, "a.org"), LONG, NOW);
        assert!(!tempo.is_slow(1, NOW), "so is everybody, as far as is known");
        tempo.took((2, "b.org"), SHORT, NOW);
        assert!(tempo.is_slow(1, NOW) && !tempo.is_slow(2, NOW));
        assert!(!tempo.is_slow(1, NOW + REMEMBERED));
        tempo.took((1, "a.org"), SHORT, NOW);
        assert!(!tempo.is_slow(1, NOW));
    }

    #[test]
    fn what_is_slow_depends_on_what_is_usual() {
        let mut tempo = Tempo::default();
        assert_eq!(tempo.slow_from(), SLOW.1);
        for _ in 0..50 {
            tempo.took((2, "b.org"), SHORT, NOW);
            tempo.took((1, "a.org"), Duration::from_millis(900), NOW);
        }
        assert!(tempo.is_slow(1, NOW) && !tempo.is_slow(2, NOW));
        // A relay that has become slower is so to everybody.
        for owner in 3..40 {
            tempo.took((owner, "a.org"), Duration::from_millis(900), NOW);
        }
        assert_eq!(tempo.slow_from(), SLOW.1);
        assert!(!tempo.is_slow(39, NOW));
    }

    #[test]
    fn a_domain_is_slow_where_several_owners_find_it_so_and_nobody_finds_it_quick() {
        let mut tempo = Tempo::default();
        let since = NOW.saturating_sub(LONG);
        let under_way = |owner, domain: &str| UnderWay {
            owner,
            domain: domain.to_owned(),
            since: Some(since),
        };
        let slow = |tempo: &Tempo, under_way: &[UnderWay]| {
            let mut slow: Vec<_> = tempo.slow_domains(under_way.iter(), NOW).into_iter().collect();
            slow.sort();
            slow
        };
        tempo.took((9, "quick.org"), SHORT, since);
        tempo.took((1, "a.org"), LONG, NOW);
        tempo.took((2, "a.org"), LONG, NOW);
        tempo.took((2, "a.org"), LONG, NOW);
        let all_b: Vec<_> = (1..4).map(|owner| under_way(owner, "b.org")).collect();
        assert_eq!(slow(&tempo, &all_b[..2]), [""; 0]);
        assert_eq!(slow(&tempo, &all_b), ["b.org"]);
        assert_eq!(slow(&tempo, &[under_way(2, "a.org")]), [""; 0], "the same owner");
        assert_eq!(slow(&tempo, &[under_way(3, "a.org")]), ["a.org"]);
        tempo.took((3, "a.org"), LONG, NOW);
        assert_eq!(slow(&tempo, &[]), ["a.org"]);
        tempo.took((4, "a.org"), SHORT, NOW);
        assert_eq!(slow(&tempo, &all_b[..0]), [""; 0]);
        for owner in 1..4 {
            tempo.took((owner, "a.org"), LONG, NOW + SHORT);
        }
        assert_eq!(slow(&tempo, &[]), [""; 0], "they were begun before");
    }

    #[test]
    fn no_more_are_remembered_than_may_be() {
        let mut tempo = Tempo::default();
        for owner in 0..=MOST as u64 {
            tempo.took((owner, &format!("{owner}.org")), LONG, NOW);
        }
        assert_eq!((tempo.slow.len(), tempo.domains.len()), (MOST, MOST));
        tempo.took((77_777, "a.org"), LONG, NOW + REMEMBERED);
        assert_eq!((tempo.slow.len(), tempo.domains.len()), (1, 1));
    }
}
