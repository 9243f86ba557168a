//! The timers of this node: what it holds, ordered by due instant. Only ids and generations, never messages.
//!
//! A timer may be stale: its trigger was withdrawn, moved or taken over, and the message about it was lost. That costs
//! nothing but a fire-check that grants nothing.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::collections::HashSet;
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

type Timers = BTreeMap<(DateTime<Utc>, TriggerId), Claim>;

/// When owners last had their turns, as long as something is due.
#[derive(Debug, Default)]
struct Turns {
    count: u64,
    last: HashMap<u64, u64>,
}

/// Timers among which owners are given their turns.
const LOOKED_THROUGH: usize = 10_000;

/// Timers that are passed on the way to them: a flood of one owner.
const SEEN: usize = 50_000;

/// What else is kept of a claim.
#[derive(Debug, Clone, Copy)]
struct Claim {
    generation: i64,
    owner: u64,
}

impl Claim {
    const fn of(self, kind: ChannelKind, (due_at, id): (DateTime<Utc>, TriggerId)) -> Claimed {
        Claimed {
            id,
            generation: self.generation,
            due_at,
            channel: kind,
            owner: self.owner,
        }
    }
}

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
    turns: Mutex<Turns>,
    changed: Notify,
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
            lane.timers().extend(of_channel.map(|it| {
                let claim = Claim {
                    generation: it.generation,
                    owner: it.owner,
                };
                ((it.due_at, it.id), claim)
            }));
            lane.changed.notify_one();
        }
    }

    /// Takes the timers of withdrawn triggers away.
    pub fn disarm(&self, withdrawn: &[Withdrawn]) {
        for gone in withdrawn {
            self.lane(gone.channel).timers().remove(&(gone.due_at, gone.id));
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
        let lane = self.lane(kind);
        let mut timers = lane.timers();
        let mut turns = lane.turns.lock().expect("no holder panics");
        let mut rounds: BTreeMap<(usize, u64, usize), Claimed> = BTreeMap::new();
        let mut of_owner: HashMap<u64, usize> = HashMap::new();
        let due = timers.iter().take_while(|((due_at, _), _)| *due_at <= until);
        let mut is_all = true;
        for (place, (key, claim)) in due.take(SEEN).enumerate() {
            let round = of_owner.entry(claim.owner).or_default();
            // More of one owner are not taken, and hide nobody else's.
            if *round == most {
                is_all = false;
                continue;
            }
            let claimed = claim.of(kind, *key);
            let last = turns.last.get(&claim.owner).copied().unwrap_or_default();
            rounds.insert((*round, last, place), claimed);
            *round += 1;
            if rounds.len() == LOOKED_THROUGH {
                break;
            }
        }
        let due = rounds.len();
        let mut refused = HashSet::new();
        let in_turn = rounds.into_values().filter(|claimed| {
            // Whoever may not have one more is not asked about the next.
            let is_admitted = !refused.contains(&claimed.owner) && admits(claimed.owner);
            is_admitted || {
                refused.insert(claimed.owner);
                false
            }
        });
        let taken: Vec<Claimed> = in_turn.take(most).collect();
        for claimed in &taken {
            timers.remove(&(claimed.due_at, claimed.id));
        }
        turns.note(&taken, is_all && taken.len() == due);
        taken
    }

    /// Takes out up to `most` claims of these owners that are due by `until`, in order.
    pub fn take_due_of(
        &self,
        kind: ChannelKind,
        until: DateTime<Utc>,
        owners: &HashSet<u64>,
        most: usize,
    ) -> Vec<Claimed> {
        let mut timers = self.lane(kind).timers();
        let due = timers.iter().take_while(|((due_at, _), _)| *due_at <= until);
        let taken: Vec<Claimed> = due
            .take(LOOKED_THROUGH)
            .filter(|(_, claim)| owners.contains(&claim.owner))
            .map(|(key, claim)| claim.of(kind, *key))
            .take(most)
            .collect();
        for claimed in &taken {
            timers.remove(&(claimed.due_at, claimed.id));
        }
        taken
    }

    /// When the next timer of a channel is due.
    pub fn next_due(&self, kind: ChannelKind) -> Option<DateTime<Utc>> {
        let timers = self.lane(kind).timers();
        timers.first_key_value().map(|((due_at, _), _)| *due_at)
    }

    /// When the next timer of a channel is due after `until`.
    pub fn next_due_after(&self, kind: ChannelKind, until: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let timers = self.lane(kind).timers();
        let last = (until, TriggerId([u8::MAX; 16]));
        let mut later = timers.range((Bound::Excluded(last), Bound::Unbounded));
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
            .map(|kind| self.lane(kind).timers().len())
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

impl Turns {
    /// Notes who had a turn; where all had theirs, nobody is before anybody.
    fn note(&mut self, taken: &[Claimed], is_all: bool) {
        if is_all || self.last.len() > LOOKED_THROUGH {
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
}
