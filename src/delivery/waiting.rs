//! Claims that wait in memory, and whose turn it is among them: whoever had none for longest, so that nobody waits for all
//! that somebody else has waiting. Of one owner what is due first comes first. Pure.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::collections::HashMap;
use std::collections::HashSet;

use chrono::DateTime;
use chrono::Utc;

use crate::store::Claimed;
use crate::trigger::TriggerId;

/// Owners whose last turns are remembered.
const REMEMBERED: usize = 10_000;

type Key = (DateTime<Utc>, TriggerId);

/// Claims that wait, each once: whoever looks up what is due may bring them again.
#[derive(Debug, Default)]
pub struct Waiting {
    of: HashMap<u64, BTreeMap<Key, Claimed>>,
    /// Owners, each with their last turn and their first claim.
    next: BTreeSet<(u64, Key, u64)>,
    last: HashMap<u64, u64>,
    turns: u64,
}

impl Waiting {
    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.next.is_empty()
    }

    /// Lets a claim wait.
    pub fn insert(&mut self, claim: Claimed) {
        self.change(claim.owner, |own| own.insert((claim.due_at, claim.id), claim));
    }

    /// Takes out the claim whose turn it is, of those owners whom `admits` admits; it is asked once of each.
    pub fn pop(&mut self, mut admits: impl FnMut(u64) -> bool) -> Option<Claimed> {
        let owner = self
            .next
            .iter()
            .map(|(.., owner)| *owner)
            .find(|it| admits(*it))?;
        let (_, claim) = self.change(owner, BTreeMap::pop_first)?;
        self.note_turn(owner);
        Some(claim)
    }

    /// Takes out up to `most` claims of these owners.
    pub fn take_of(&mut self, owners: &HashSet<u64>, most: usize) -> Vec<Claimed> {
        let mut taken = Vec::new();
        for owner in owners {
            while taken.len() < most
                && let Some((_, claim)) = self.change(*owner, BTreeMap::pop_first)
            {
                taken.push(claim);
            }
        }
        taken.sort_unstable_by_key(|claim| (claim.due_at, claim.id));
        taken
    }

    /// Changes what waits of one owner, and so their place among the others.
    fn change<T>(&mut self, owner: u64, change: impl FnOnce(&mut BTreeMap<Key, Claimed>) -> T) -> T {
        let last = self.last.get(&owner).copied().unwrap_or_default();
        let own = self.of.entry(owner).or_default();
        if let Some((key, _)) = own.first_key_value() {
            self.next.remove(&(last, *key, owner));
        }
        let changed = change(own);
        match own.first_key_value() {
            Some((key, _)) => {
                self.next.insert((last, *key, owner));
            }
            None => {
                self.of.remove(&owner);
            }
        }
        changed
    }

    fn note_turn(&mut self, owner: u64) {
        if self.is_empty() || self.last.len() > REMEMBERED {
            let all = std::mem::take(&mut self.of);
            *self = Self::default();
            for claim in all.into_values().flat_map(BTreeMap::into_values) {
                self.insert(claim);
            }
            return;
        }
        self.turns += 1;
        let turn = self.turns;
        let first = self.of.get(&owner).and_then(|own| own.first_key_value());
        let before = self.last.insert(owner, turn).unwrap_or_default();
        if let Some((key, _)) = first {
            self.next.remove(&(before, *key, owner));
            self.next.insert((turn, *key, owner));
        }
    }
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;

    use super::*;
    use crate::trigger::ChannelKind;

    fn claim(number: u8, owner: u64) -> Claimed {
        Claimed {
            id: TriggerId([number; 16]),
            generation: 1,
            due_at: DateTime::UNIX_EPOCH + TimeDelta::seconds(i64::from(number)),
            channel: ChannelKind::Email,
            owner,
        }
    }

    fn waiting(claims: impl IntoIterator<Item = (u8, u64)>) -> Waiting {
        let mut waiting = Waiting::default();
        for (number, owner) in claims {
            waiting.insert(claim(number, owner));
        }
        waiting
    }

    fn numbers(waiting: &mut Waiting) -> Vec<u8> {
        std::iter::from_fn(|| waiting.pop(|_| true))
            .map(|claim| claim.id.0[0])
            .collect()
    }

    #[test]
    fn owners_have_turns_and_their_own_come_in_order() {
        let mut waiting = waiting([(3, 1), (2, 1), (1, 1), (4, 1), (9, 2), (8, 2), (7, 3)]);
        assert_eq!(numbers(&mut waiting), [1, 7, 8, 2, 9, 3, 4]);
        assert!(waiting.is_empty());
        assert_eq!(
            (waiting.of.len(), waiting.next.len(), waiting.last.len()),
            (0, 0, 0)
        );
    }

    #[test]
    fn who_comes_later_does_not_wait_for_who_has_many() {
        let mut waiting = waiting((0..100).map(|number| (number, 1)));
        waiting.pop(|_| true).unwrap();
        waiting.insert(claim(200, 2));
        assert_eq!(waiting.pop(|_| true), Some(claim(200, 2)));
    }

    #[test]
    fn what_is_brought_again_waits_once() {
        let mut waiting = waiting([(1, 1), (1, 1)]);
        assert_eq!(numbers(&mut waiting), [1]);
    }

    #[test]
    fn who_is_not_admitted_keeps_their_turn() {
        let mut waiting = waiting([(1, 1), (2, 2)]);
        assert_eq!(waiting.pop(|owner| owner == 2), Some(claim(2, 2)));
        assert_eq!(waiting.pop(|owner| owner == 2), None);
        assert_eq!(numbers(&mut waiting), [1]);
    }

    #[test]
    fn what_waits_of_some_owners_can_be_had_alone() {
        let mut waiting = waiting([(1, 1), (2, 2), (3, 3), (4, 2), (5, 2)]);
        let taken = waiting.take_of(&HashSet::from([2, 3]), 3);
        assert_eq!(taken.len(), 3);
        assert!(taken.iter().all(|claim| claim.owner != 1));
        assert_eq!(numbers(&mut waiting).len(), 2);
    }
}
