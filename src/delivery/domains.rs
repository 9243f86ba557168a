//! How fast mails leave for each domain of recipients. Where a mail goes is known only once it is judged, so it is the
//! fire-check that finds no room for it: its claim waits here, in order, and has a turn when there is.
//!
//! This knows one node, and never decides: what has had its turn is fire-checked again.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::collections::HashSet;
use std::num::NonZeroU32;
use std::time::Duration;

use chrono::DateTime;
use chrono::Utc;

use crate::store::Claimed;
use crate::trigger::TriggerId;

/// So many parts of a second's mails may leave at once.
const PARTS: u32 = 10;

/// So often domains are forgotten for which nothing waits.
const TIDY: Duration = Duration::from_mins(1);

/// The order in which mails leave for each domain.
#[derive(Debug, Default)]
pub struct Domains {
    rate: Option<NonZeroU32>,
    now: Duration,
    tidied: Duration,
    of: BTreeMap<String, Domain>,
    /// The domain that had the last turn.
    last: String,
    /// Which have a place, until their fire-check is over.
    placed: HashSet<TriggerId>,
    /// Where those wanted to go that a fire-check found no room for.
    refused: HashMap<TriggerId, String>,
}

#[derive(Debug, Default)]
struct Domain {
    /// All the places are given away that there are until then.
    taken_until: Duration,
    /// In order, each once: whoever looks up what is due may bring them again.
    waiting: BTreeMap<(DateTime<Utc>, TriggerId), Claimed>,
}

/// Places for mails: one in each interval, of which some may be used at once.
#[derive(Debug, Clone, Copy)]
struct Pace {
    interval: Duration,
    ahead: Duration,
}

impl Pace {
    fn of(rate: NonZeroU32) -> Self {
        let interval = Duration::from_secs(1) / rate.get();
        let at_once = rate.get().div_ceil(PARTS);
        Self {
            interval,
            ahead: interval * (at_once - 1),
        }
    }
}

impl Domain {
    /// How long until there is a place.
    fn pause(&self, pace: Pace, now: Duration) -> Duration {
        self.taken_until.saturating_sub(now + pace.ahead)
    }

    /// How many of those who wait have a place now, up to `most`.
    fn ready(&self, pace: Pace, now: Duration, most: usize) -> usize {
        let mut taken_until = self.taken_until;
        let places = std::iter::repeat_with(|| {
            let is_free = taken_until <= now + pace.ahead;
            taken_until = taken_until.max(now) + pace.interval;
            is_free
        });
        let most = most.min(self.waiting.len());
        places.take(most).take_while(|is_free| *is_free).count()
    }

    fn take_place(&mut self, pace: Pace, now: Duration) -> bool {
        let is_free = self.pause(pace, now).is_zero();
        if is_free {
            self.taken_until = self.taken_until.max(now) + pace.interval;
        }
        is_free
    }
}

impl Domains {
    /// Follows the configuration and the boot-time clock.
    pub fn follow(&mut self, rate: Option<NonZeroU32>, now: Duration) {
        (self.rate, self.now) = (rate, now);
        if now.saturating_sub(self.tidied) >= TIDY {
            self.of
                .retain(|_, domain| !domain.waiting.is_empty() || domain.taken_until > now);
            self.tidied = now;
        }
    }

    /// Whether a mail may leave for this address now; asked again of the same trigger, the answer is the same.
    pub fn may_leave(&mut self, id: TriggerId, address: &str) -> bool {
        let Some(pace) = self.rate.map(Pace::of) else {
            return true;
        };
        if self.placed.contains(&id) {
            return true;
        }
        let name = address.rsplit('@').next().unwrap_or_default().to_lowercase();
        let domain = self.of.entry(name.clone()).or_default();
        let may_leave = domain.waiting.is_empty() && domain.take_place(pace, self.now);
        if may_leave {
            self.placed.insert(id);
        } else {
            self.refused.insert(id, name);
        }
        may_leave
    }

    /// Lets those of `left` wait that there was no room for; returns the others. The fire-check of `claims` is over.
    pub fn hold(&mut self, claims: &[Claimed], left: &[Claimed]) -> Vec<Claimed> {
        let mut others = Vec::new();
        for claim in left {
            match self.refused.remove(&claim.id) {
                Some(name) => {
                    let domain = self.of.entry(name).or_default();
                    domain.waiting.insert((claim.due_at, claim.id), *claim);
                }
                None => others.push(*claim),
            }
        }
        for claim in claims {
            self.placed.remove(&claim.id);
            self.refused.remove(&claim.id);
        }
        others
    }

    /// How many of those who wait may leave now, up to `most`.
    pub fn ready(&self, most: usize) -> usize {
        let waiting = self.of.values().filter(|domain| !domain.waiting.is_empty());
        let ready = waiting.map(|domain| match self.rate.map(Pace::of) {
            Some(pace) => domain.ready(pace, self.now, most),
            None => domain.waiting.len(),
        });
        ready.sum::<usize>().min(most)
    }

    /// Up to `most` of those who may leave now: of each domain one, then of each the next, whichever had no turn for longest
    /// first.
    pub fn take(&mut self, most: usize) -> Vec<Claimed> {
        let pace = self.rate.map(Pace::of);
        let mut taken = Vec::new();
        let names: Vec<String> = self
            .of
            .iter()
            .filter(|(_, domain)| !domain.waiting.is_empty())
            .map(|(name, _)| name.clone())
            .collect();
        let first = names.partition_point(|name| *name <= self.last);
        loop {
            let before = taken.len();
            for name in names[first..].iter().chain(&names[..first]) {
                let Some(domain) = self.of.get_mut(name).filter(|it| !it.waiting.is_empty()) else {
                    continue;
                };
                if taken.len() == most {
                    return taken;
                }
                if pace.is_none_or(|pace| domain.take_place(pace, self.now))
                    && let Some((_, claim)) = domain.waiting.pop_first()
                {
                    self.placed.insert(claim.id);
                    self.last.clone_from(name);
                    taken.push(claim);
                }
            }
            if taken.len() == before {
                return taken;
            }
        }
    }

    /// Up to `most` of those of these owners who wait, though they have no place.
    pub fn take_of(&mut self, owners: &HashSet<u64>, most: usize) -> Vec<Claimed> {
        let mut taken = Vec::new();
        for domain in self.of.values_mut() {
            domain.waiting.retain(|_, claim| {
                let is_taken = taken.len() < most && owners.contains(&claim.owner);
                if is_taken {
                    taken.push(*claim);
                }
                !is_taken
            });
        }
        taken
    }

    /// How long none of those who wait may leave; none where nobody waits.
    pub fn pause(&self, now: Duration) -> Option<Duration> {
        let waiting = self.of.values().filter(|domain| !domain.waiting.is_empty());
        let pace = self.rate.map(Pace::of);
        let pauses = waiting.map(|domain| pace.map_or(Duration::ZERO, |pace| domain.pause(pace, now)));
        pauses.min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trigger::ChannelKind;

    fn claim(number: u8) -> Claimed {
        Claimed {
            id: TriggerId([number; 16]),
            generation: 1,
            due_at: DateTime::UNIX_EPOCH,
            channel: ChannelKind::Email,
            owner: u64::from(number),
        }
    }

    fn at(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    /// Asks of each of these claims whether it may leave for its domain. Returns the numbers of those who may.
    fn ask(domains: &mut Domains, asked: &[(u8, &str)]) -> Vec<u8> {
        let claims: Vec<Claimed> = asked.iter().map(|(number, _)| claim(*number)).collect();
        let (leave, left): (Vec<_>, Vec<_>) = asked
            .iter()
            .partition(|(number, domain)| domains.may_leave(claim(*number).id, &format!("jo@{domain}")));
        let left: Vec<Claimed> = left.iter().map(|(number, _)| claim(*number)).collect();
        assert_eq!(domains.hold(&claims, &left), []);
        leave.iter().map(|(number, _)| *number).collect()
    }

    fn two_a_second() -> Domains {
        let mut domains = Domains::default();
        domains.follow(NonZeroU32::new(2), at(100_000));
        domains
    }

    fn numbers(claims: &[Claimed]) -> Vec<u8> {
        claims.iter().map(|claim| claim.id.0[0]).collect()
    }

    #[test]
    fn a_domain_gets_its_mails_at_its_pace_and_holds_no_other_up() {
        let mut domains = two_a_second();

        let asked = [
            (1, "slow.org"),
            (2, "Slow.org"),
            (3, "slow.org"),
            (4, "other.org"),
        ];
        assert_eq!(ask(&mut domains, &asked), [1, 4]);

        assert_eq!(domains.pause(at(100_000)), Some(at(500)));
        assert_eq!((domains.ready(9), domains.take(9)), (0, vec![]));
        domains.follow(NonZeroU32::new(2), at(100_500));
        assert_eq!((domains.ready(9), numbers(&domains.take(9))), (1, vec![2]));
        assert_eq!(ask(&mut domains, &[(2, "slow.org"), (5, "slow.org")]), [2]);
        domains.follow(NonZeroU32::new(2), at(101_000));
        assert_eq!(numbers(&domains.take(9)), [3]);
    }

    #[test]
    fn time_that_nobody_used_is_no_flood_later() {
        let mut domains = two_a_second();
        ask(
            &mut domains,
            &[(1, "a.org"), (2, "a.org"), (3, "a.org"), (4, "a.org")],
        );

        domains.follow(NonZeroU32::new(2), at(160_000));

        assert_eq!((domains.ready(9), numbers(&domains.take(9))), (1, vec![2]));
    }

    #[test]
    fn domains_have_turns() {
        let mut domains = two_a_second();
        let asked: Vec<_> = (1..7)
            .map(|number| (number, ["a.org", "b.org"][usize::from(number % 2)]))
            .collect();
        assert_eq!(ask(&mut domains, &asked), [1, 2]);

        let mut taken = Vec::new();
        for round in 1..5 {
            domains.follow(NonZeroU32::new(2), at(100_000 + round * 1_000));
            taken.extend(numbers(&domains.take(1)));
        }

        assert_eq!(taken, [4, 3, 6, 5]);
    }

    #[test]
    fn a_fire_check_that_is_repeated_takes_no_second_place() {
        let mut domains = two_a_second();

        assert!(domains.may_leave(claim(1).id, "jo@a.org"));
        assert!(domains.may_leave(claim(1).id, "jo@a.org"));

        assert_eq!(domains.hold(&[claim(1)], &[]), []);
        assert!(
            !domains.may_leave(claim(1).id, "jo@a.org"),
            "this is another attempt"
        );
    }

    #[test]
    fn without_a_rate_all_leave_also_who_waited() {
        let mut domains = two_a_second();
        ask(&mut domains, &[(1, "a.org"), (2, "a.org"), (3, "a.org")]);

        domains.follow(None, at(100_000));

        assert_eq!((domains.ready(9), numbers(&domains.take(9))), (2, vec![2, 3]));
        assert_eq!(domains.pause(at(100_000)), None);
    }

    #[test]
    fn who_waits_can_be_had_by_owner() {
        let mut domains = two_a_second();
        ask(
            &mut domains,
            &[
                (1, "a.org"),
                (2, "a.org"),
                (3, "a.org"),
                (4, "b.org"),
                (5, "b.org"),
            ],
        );

        assert_eq!(numbers(&domains.take_of(&HashSet::from([3, 5]), 9)), [3, 5]);
        assert_eq!(domains.ready(9), 0);
    }
}
