//! How fast mails leave for each domain of recipients. Where a mail goes is known only once it is judged, so it is the
//! fire-check that finds no room for it: its claim waits here, in order, and has a turn when there is.
//!
//! This knows one node, and never decides: what has had its turn is fire-checked again.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::collections::HashSet;
use std::num::NonZeroU32;
use std::time::Duration;

use crate::delivery::places::Places;
use crate::delivery::places::Rate;
use crate::delivery::waiting::Waiting;
use crate::store::Claimed;
use crate::trigger::TriggerId;

/// So often domains are forgotten for which nothing waits.
const TIDY: Duration = Duration::from_mins(1);

/// The order in which mails leave for each domain.
#[derive(Debug, Default)]
pub struct Domains {
    rate: Option<Rate>,
    now: Duration,
    tidied: Duration,
    of: BTreeMap<String, Domain>,
    /// The domain that had the last turn.
    last: String,
    /// Which have a place, and of what domain, until their fire-check is over.
    placed: HashMap<TriggerId, String>,
    /// Where those wanted to go that a fire-check found no room for.
    refused: HashMap<TriggerId, String>,
}

#[derive(Debug, Default)]
struct Domain {
    places: Places,
    waiting: Waiting,
}

impl Domains {
    /// Follows the configuration and the boot-time clock.
    pub fn follow(&mut self, rate: Option<NonZeroU32>, now: Duration) {
        (self.rate, self.now) = (rate.map(Rate::of), now);
        if now.saturating_sub(self.tidied) >= TIDY {
            self.of
                .retain(|_, domain| !domain.waiting.is_empty() || !domain.places.are_untouched(now));
            self.tidied = now;
        }
    }

    /// Whether a mail may leave for this address now; asked again of the same trigger, the answer is the same.
    pub fn may_leave(&mut self, id: TriggerId, address: &str) -> bool {
        let Some(rate) = self.rate else {
            return true;
        };
        if self.placed.contains_key(&id) {
            return true;
        }
        let name = address.rsplit('@').next().unwrap_or_default().to_lowercase();
        let domain = self.of.entry(name.clone()).or_default();
        let may_leave = domain.waiting.is_empty() && domain.places.take(rate, self.now);
        let noted = if may_leave {
            &mut self.placed
        } else {
            &mut self.refused
        };
        noted.insert(id, name);
        may_leave
    }

    /// Lets those of `left` wait that there was no room for; returns the others. The fire-check of `claims` is over, and
    /// those of `leaving` leave: the others give back their places.
    pub fn hold(
        &mut self,
        claims: &[Claimed],
        left: &[Claimed],
        leaving: &HashSet<TriggerId>,
    ) -> Vec<Claimed> {
        let mut others = Vec::new();
        for claim in left {
            match self.refused.remove(&claim.id) {
                Some(name) => self.of.entry(name).or_default().waiting.insert(*claim),
                None => others.push(*claim),
            }
        }
        for claim in claims {
            self.refused.remove(&claim.id);
            let unused = self.placed.remove(&claim.id);
            let unused = unused.filter(|_| !leaving.contains(&claim.id));
            let domain = unused.and_then(|name| self.of.get_mut(&name));
            if let Some((domain, rate)) = domain.zip(self.rate) {
                domain.places.give_back(rate);
            }
        }
        others
    }

    /// Up to `most` of those who may leave now, of owners whom `admits` admits: of each domain one, then of each the next,
    /// whichever had no turn for longest first.
    pub fn take(&mut self, most: usize, admits: &mut dyn FnMut(u64) -> bool) -> Vec<Claimed> {
        let mut taken = Vec::new();
        let mut names: Vec<String> = self
            .of
            .iter()
            .filter(|(_, domain)| !domain.waiting.is_empty())
            .map(|(name, _)| name.clone())
            .collect();
        let first = names.partition_point(|name| *name <= self.last);
        names.rotate_left(first);
        loop {
            let before = taken.len();
            for name in &names {
                if taken.len() == most {
                    return taken;
                }
                taken.extend(self.take_one(name, admits));
            }
            if taken.len() == before {
                return taken;
            }
        }
    }

    /// The one whose turn it is of a domain that has a place.
    fn take_one(&mut self, name: &String, admits: &mut dyn FnMut(u64) -> bool) -> Option<Claimed> {
        let domain = self.of.get_mut(name)?;
        if self
            .rate
            .is_some_and(|rate| !domain.places.pause(rate, self.now).is_zero())
        {
            return None;
        }
        let claim = domain.waiting.pop(admits)?;
        if let Some(rate) = self.rate {
            domain.places.take(rate, self.now);
        }
        self.placed.insert(claim.id, name.clone());
        self.last.clone_from(name);
        Some(claim)
    }

    /// Up to `most` of those of these owners who wait, though they have no place.
    pub fn take_of(&mut self, owners: &HashSet<u64>, most: usize) -> Vec<Claimed> {
        let mut taken = Vec::new();
        for domain in self.of.values_mut() {
            taken.extend(domain.waiting.take_of(owners, most - taken.len()));
        }
        taken
    }

    /// How long none of those who wait may leave; none where nobody waits.
    pub fn pause(&self, now: Duration) -> Option<Duration> {
        self.pauses(now).min()
    }

    /// How long until a domain has a place that has none now.
    pub fn next_place(&self, now: Duration) -> Option<Duration> {
        self.pauses(now).filter(|pause| !pause.is_zero()).min()
    }

    fn pauses(&self, now: Duration) -> impl Iterator<Item = Duration> {
        let waiting = self.of.values().filter(|domain| !domain.waiting.is_empty());
        waiting.map(move |domain| {
            self.rate
                .map_or(Duration::ZERO, |rate| domain.places.pause(rate, now))
        })
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;

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
        let leaving = leave.iter().map(|(number, _)| claim(*number).id).collect();
        assert_eq!(domains.hold(&claims, &left, &leaving), []);
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
        assert_eq!(domains.take(9, &mut |_| true), []);
        domains.follow(NonZeroU32::new(2), at(100_500));
        assert_eq!(numbers(&domains.take(9, &mut |_| true)), [2]);
        assert_eq!(ask(&mut domains, &[(2, "slow.org"), (5, "slow.org")]), [2]);
        domains.follow(NonZeroU32::new(2), at(101_000));
        assert_eq!(numbers(&domains.take(9, &mut |_| true)), [3]);
    }

    #[test]
    fn time_that_nobody_used_is_no_flood_later() {
        let mut domains = two_a_second();
        ask(
            &mut domains,
            &[(1, "a.org"), (2, "a.org"), (3, "a.org"), (4, "a.org")],
        );

        domains.follow(NonZeroU32::new(2), at(160_000));

        assert_eq!(numbers(&domains.take(9, &mut |_| true)), [2]);
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
            taken.extend(numbers(&domains.take(1, &mut |_| true)));
        }

        assert_eq!(taken, [4, 3, 6, 5]);
    }

    #[test]
    fn a_fire_check_that_is_repeated_takes_no_second_place() {
        let mut domains = two_a_second();

        assert!(domains.may_leave(claim(1).id, "jo@a.org"));
        assert!(domains.may_leave(claim(1).id, "jo@a.org"));

        let leaving = HashSet::from([claim(1).id]);
        assert_eq!(domains.hold(&[claim(1)], &[], &leaving), []);
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

        assert_eq!(numbers(&domains.take(9, &mut |_| true)), [2, 3]);
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
        domains.follow(None, at(100_000));
        assert_eq!(numbers(&domains.take(9, &mut |_| true)), [2]);
    }

    #[test]
    fn a_place_that_was_not_used_is_there_for_the_next() {
        let mut domains = two_a_second();
        assert!(domains.may_leave(claim(1).id, "jo@a.org"));
        assert!(!domains.may_leave(claim(2).id, "jo@a.org"));

        // The first was over a limit, say.
        let claims = [claim(1), claim(2)];
        assert_eq!(domains.hold(&claims, &claims[1..], &HashSet::new()), []);

        assert_eq!(numbers(&domains.take(9, &mut |_| true)), [2]);
    }

    #[test]
    fn who_waits_for_a_domain_does_not_wait_for_all_that_somebody_else_sends_there() {
        let mut domains = two_a_second();
        let flood: Vec<Claimed> = (1..100)
            .map(|number| Claimed {
                owner: 7,
                ..claim(number)
            })
            .collect();
        for claim in &flood {
            domains.may_leave(claim.id, "jo@a.org");
        }
        let leaving = HashSet::from([flood[0].id]);
        domains.hold(&flood, &flood[1..], &leaving);
        assert!(ask(&mut domains, &[(200, "a.org")]).is_empty());

        domains.follow(NonZeroU32::new(2), at(101_000));
        let first = domains.take(1, &mut |_| true);
        domains.follow(NonZeroU32::new(2), at(102_000));
        let second = domains.take(1, &mut |_| true);

        assert!(numbers(&[first, second].concat()).contains(&200));
    }
}
