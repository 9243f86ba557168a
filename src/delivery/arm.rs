//! The timers of this node: what it holds, ordered by due instant. Only ids and generations, never messages.
//!
//! A timer may be stale: its trigger was withdrawn, moved or taken over, and the message about it was lost. That costs
//! nothing but a fire-check that grants nothing.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::collections::HashMap;
use std::collections::HashSet;
use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Mutex;
use std::sync::MutexGuard;

use chrono::DateTime;
use chrono::Utc;
use tokio::sync::Notify;

use crate::store::Claimed;
use crate::store::Withdrawn;
use crate::trigger::ChannelKind;
use crate::trigger::TriggerId;

/// What orders timers.
type Key = (DateTime<Utc>, TriggerId);

/// Owners with something due who are looked at for one batch; and owners whose turns are remembered.
const LOOKED_AT: usize = 10_000;

/// The timers of this node, for each channel.
#[derive(Debug, Default)]
pub struct Armed {
    email: Lane,
    sms: Lane,
    webhook: Lane,
    handler: Lane,
}

#[derive(Debug, Default)]
struct Lane {
    timers: Mutex<Timers>,
    changed: Notify,
}

/// The timers of a channel. However many one owner has, they are passed over at once on the way to another's.
#[derive(Debug, Default)]
struct Timers {
    /// All of them, with their owners.
    all: BTreeMap<Key, u64>,
    /// Those of each owner, with the generations of their claims.
    of: HashMap<u64, BTreeMap<Key, i64>>,
    /// The first of each owner.
    first: BTreeSet<(Key, u64)>,
    turns: Turns,
}

/// When owners last had their turns, as long as something is due.
#[derive(Debug, Default)]
struct Turns {
    count: u64,
    last: HashMap<u64, u64>,
}

impl Armed {
    /// Arms a timer for each claim, and wakes its lane.
    pub fn arm(&self, claims: &[Claimed]) {
        for kind in ChannelKind::ALL {
            let mut of_channel = claims.iter().filter(|claim| claim.channel == kind).peekable();
            if of_channel.peek().is_none() {
                continue;
            }
            let lane = self.lane(kind);
            let mut timers = lane.timers();
            for claim in of_channel {
                timers.insert(claim);
            }
            drop(timers);
            lane.changed.notify_one();
        }
    }

    /// Takes the timers of withdrawn triggers away.
    pub fn disarm(&self, withdrawn: &[Withdrawn]) {
        for gone in withdrawn {
            self.lane(gone.channel).timers().remove((gone.due_at, gone.id));
        }
    }

    /// Takes out up to `most` claims of a channel that are due by `until`, of owners whom `admits` admits: of each owner the
    /// first, then of each the second, and so on, whoever had no turn for the longest time first; so that nobody waits for
    /// all that somebody else has due.
    pub fn take_due(
        &self,
        kind: ChannelKind,
        until: DateTime<Utc>,
        most: usize,
        admits: &mut dyn FnMut(u64) -> bool,
    ) -> Vec<Claimed> {
        let mut timers = self.lane(kind).timers();
        let due = timers
            .first
            .iter()
            .take_while(|((due_at, _), _)| *due_at <= until);
        let due = due.take(LOOKED_AT).enumerate();
        let mut in_turn: Vec<(u64, usize, u64)> = due
            .map(|(place, (_, owner))| (timers.turns.of(*owner), place, *owner))
            .collect();
        in_turn.sort_unstable();
        let owners = in_turn.into_iter().map(|(_, _, owner)| owner);
        let taken = timers.take((kind, until), owners, most, admits);
        let is_any_left = timers
            .first
            .first()
            .is_some_and(|((due_at, _), _)| *due_at <= until);
        timers.turns.note(&taken, is_any_left);
        taken
    }

    /// Takes out up to `most` claims of these owners that are due by `until`: of each the first, then of each the second.
    pub fn take_due_of(
        &self,
        kind: ChannelKind,
        until: DateTime<Utc>,
        owners: &HashSet<u64>,
        most: usize,
    ) -> Vec<Claimed> {
        let owners = owners.iter().copied();
        self.lane(kind)
            .timers()
            .take((kind, until), owners, most, &mut |_| true)
    }

    /// When the next timer of a channel is due.
    pub fn next_due(&self, kind: ChannelKind) -> Option<DateTime<Utc>> {
        let timers = self.lane(kind).timers();
        timers.all.first_key_value().map(|((due_at, _), _)| *due_at)
    }

    /// When the next timer of a channel is due after `until`.
    pub fn next_due_after(&self, kind: ChannelKind, until: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let timers = self.lane(kind).timers();
        let mut later = timers
            .all
            .range((Bound::Excluded(last_of(until)), Bound::Unbounded));
        later.next().map(|((due_at, _), _)| *due_at)
    }

    /// Waits until a timer of the channel was armed.
    pub async fn changed(&self, kind: ChannelKind) {
        self.lane(kind).changed.notified().await;
    }

    /// How many timers are armed.
    pub fn len(&self) -> usize {
        ChannelKind::ALL
            .into_iter()
            .map(|kind| self.lane(kind).timers().all.len())
            .sum()
    }

    /// Whether no timer is armed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    const fn lane(&self, kind: ChannelKind) -> &Lane {
        match kind {
            ChannelKind::Email => &self.email,
            ChannelKind::Sms => &self.sms,
            ChannelKind::Webhook => &self.webhook,
            ChannelKind::Handler => &self.handler,
        }
    }
}

impl Timers {
    fn insert(&mut self, claim: &Claimed) {
        let key = (claim.due_at, claim.id);
        self.all.insert(key, claim.owner);
        self.change(claim.owner, |own| own.insert(key, claim.generation));
    }

    fn remove(&mut self, key: Key) {
        if let Some(owner) = self.all.remove(&key) {
            self.change(owner, |own| own.remove(&key));
        }
    }

    /// Changes the timers of an owner.
    fn change(&mut self, owner: u64, change: impl FnOnce(&mut BTreeMap<Key, i64>) -> Option<i64>) {
        let own = self.of.entry(owner).or_default();
        let before = own.first_key_value().map(|(key, _)| *key);
        change(own);
        let after = own.first_key_value().map(|(key, _)| *key);
        if after.is_none() {
            self.of.remove(&owner);
        }
        if before != after {
            self.first.extend(after.map(|key| (key, owner)));
            if let Some(key) = before {
                self.first.remove(&(key, owner));
            }
        }
    }

    /// Takes out up to `most` that are due by `until`, of these owners by turns.
    fn take(
        &mut self,
        (kind, until): (ChannelKind, DateTime<Utc>),
        owners: impl Iterator<Item = u64>,
        most: usize,
        admits: &mut dyn FnMut(u64) -> bool,
    ) -> Vec<Claimed> {
        let mut first =
            owners.filter_map(|owner| Some((owner, self.of.get(&owner)?.range(..=last_of(until)))));
        let mut again = VecDeque::new();
        let mut taken = Vec::new();
        while taken.len() < most
            && let Some((owner, mut due)) = first.next().or_else(|| again.pop_front())
        {
            // Whoever may not have one more is not asked about the next.
            let Some(((due_at, id), generation)) = due.next().filter(|_| admits(owner)) else {
                continue;
            };
            taken.push(Claimed {
                id: *id,
                generation: *generation,
                due_at: *due_at,
                channel: kind,
                owner,
            });
            again.push_back((owner, due));
        }
        for claimed in &taken {
            self.remove((claimed.due_at, claimed.id));
        }
        taken
    }
}

/// The last that may be due at an instant.
const fn last_of(instant: DateTime<Utc>) -> Key {
    (instant, TriggerId([u8::MAX; 16]))
}

impl Turns {
    /// When an owner had their last turn; 0 where that is long ago.
    fn of(&self, owner: u64) -> u64 {
        self.last.get(&owner).copied().unwrap_or_default()
    }

    /// Notes who had a turn; where nothing is left that is due, nobody is before anybody.
    fn note(&mut self, taken: &[Claimed], is_any_left: bool) {
        if !is_any_left || self.last.len() > LOOKED_AT {
            self.last.clear();
            return;
        }
        for claimed in taken {
            self.count += 1;
            self.last.insert(claimed.owner, self.count);
        }
    }
}

impl Lane {
    fn timers(&self) -> MutexGuard<'_, Timers> {
        self.timers.lock().expect("no holder panics")
    }
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;

    use super::*;

    fn claim(number: u32, due_ms: i64) -> Claimed {
        let mut id = [0; 16];
        id[..4].copy_from_slice(&number.to_be_bytes());
        Claimed {
            id: TriggerId(id),
            generation: 1,
            due_at: DateTime::UNIX_EPOCH + TimeDelta::milliseconds(due_ms),
            channel: ChannelKind::Email,
            owner: 5,
        }
    }

    #[test]
    fn what_is_due_comes_out_in_order_and_at_most_as_much_as_asked() {
        let armed = Armed::default();
        armed.arm(&[claim(1, 300), claim(2, 100), claim(3, 200), claim(4, 900)]);
        let until = DateTime::UNIX_EPOCH + TimeDelta::milliseconds(300);
        let first = armed.take_due(ChannelKind::Email, until, 2, &mut |_| true);
        assert_eq!(first, [claim(2, 100), claim(3, 200)]);
        assert_eq!(
            armed.take_due(ChannelKind::Email, until, 9, &mut |_| true),
            [claim(1, 300)]
        );
        assert_eq!(armed.len(), 1);
    }

    #[test]
    fn f28_an_owner_with_thousands_due_is_no_reason_for_another_to_wait() {
        let armed = Armed::default();
        let flood: Vec<Claimed> = (0..5_000).map(|number| claim(number, 100)).collect();
        let later = |number| Claimed {
            owner: 6,
            ..claim(number, 200)
        };
        armed.arm(&flood);
        armed.arm(&[later(6_001), later(6_002)]);
        let until = DateTime::UNIX_EPOCH + TimeDelta::milliseconds(300);

        let first = armed.take_due(ChannelKind::Email, until, 5, &mut |_| true);

        let expected = [
            claim(0, 100),
            later(6_001),
            claim(1, 100),
            later(6_002),
            claim(2, 100),
        ];
        assert_eq!(first, expected);
        assert_eq!(armed.len(), 4_997);
        // Nor where they leave one by one.
        armed.arm(&[later(6_003), later(6_004)]);
        let one_by_one: Vec<Claimed> = (0..4)
            .flat_map(|_| armed.take_due(ChannelKind::Email, until, 1, &mut |_| true))
            .collect();
        assert_eq!(
            one_by_one,
            [later(6_003), claim(3, 100), later(6_004), claim(4, 100)]
        );
    }

    #[test]
    fn arming_twice_is_one_timer_and_a_withdrawn_one_is_gone() {
        let armed = Armed::default();
        armed.arm(&[claim(1, 300)]);
        armed.arm(&[Claimed {
            generation: 2,
            ..claim(1, 300)
        }]);
        assert_eq!(armed.len(), 1);
        let gone = claim(1, 300);
        armed.disarm(&[Withdrawn {
            id: gone.id,
            due_at: gone.due_at,
            channel: gone.channel,
            session: None,
        }]);
        assert!(armed.is_empty());
    }

    #[test]
    fn nobody_is_hidden_by_what_an_owner_has_due_who_may_not_have_more() {
        let armed = Armed::default();
        let flood: Vec<Claimed> = (0..60_000).map(|number| claim(number, 100)).collect();
        let later = Claimed {
            owner: 6,
            ..claim(70_000, 200)
        };
        armed.arm(&flood);
        armed.arm(&[later]);
        let until = DateTime::UNIX_EPOCH + TimeDelta::milliseconds(300);
        let mut asked = 0;

        let taken = armed.take_due(ChannelKind::Email, until, 5, &mut |owner| {
            asked += 1;
            owner == 6
        });

        assert_eq!((taken, asked), (vec![later], 2));
        let of_one = armed.take_due_of(ChannelKind::Email, until, &HashSet::from([5, 7]), 2);
        assert_eq!(of_one, flood[..2]);
        assert_eq!(armed.len(), 59_998);
        assert_eq!(armed.next_due(ChannelKind::Email), Some(flood[2].due_at));
        assert_eq!(armed.next_due_after(ChannelKind::Email, until), None);
    }
}
