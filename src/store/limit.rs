//! Limits: how many messages of one channel one owner gets in any timeframe. Pure, given what they got lately.
//!
//! A message takes its slot when its fire-check grants it, and gives it back if nothing was handed over. From the grant
//! to the settle nobody knows when it is handed over, so it counts until the settle and a timeframe from there. A trigger
//! that finds no slot waits for one of its own, behind those that wait already; or, where what is over is told in one
//! message, for one that they share.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::time::Duration;

use chrono::DateTime;
use chrono::TimeDelta;
use chrono::Utc;

use crate::store::Claimed;
use crate::store::Recall;
use crate::store::Recalled;
use crate::store::StoreError;
use crate::store::row;
use crate::store::row::Columns;
use crate::store::value::Values;
use crate::trigger::AttemptToken;
use crate::trigger::ChannelKind;
use crate::trigger::OwnerId;
use crate::trigger::Trigger;
use crate::trigger::TriggerId;
use crate::trigger::limit::Limit;
use crate::trigger::limit::OnLimit;

/// How soon a message under way is expected to be settled: who waits for its slot waits so much longer.
const UNDER_WAY: TimeDelta = TimeDelta::seconds(1);

/// The finest instant a store keeps: a slot is free so long after its timeframe.
const TICK: TimeDelta = TimeDelta::milliseconds(1);

/// Whose limit, of what channel.
pub type LimitKey = (OwnerId, ChannelKind);

/// What a limit says about a trigger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ruling {
    /// It may be sent now.
    Send,
    /// The same, and it takes the last slot: what else is over is told in its message.
    Last,
    /// It has a slot, and is due then.
    Wait(DateTime<Utc>),
    /// There is no slot for it in time.
    Over,
}

/// The slot that a trigger has already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Own {
    /// It waits for it.
    Waiting,
    /// An earlier attempt took it, and it counts still: that attempt may have handed it over.
    Counted,
}

/// Reads the slot that a trigger has already.
pub fn own<R: Values>(row: &R) -> Result<(TriggerId, Own), StoreError> {
    let columns = Columns::new("limit_slot", "id", row);
    let waits: bool = columns.value("waits")?;
    Ok((columns.id()?, if waits { Own::Waiting } else { Own::Counted }))
}

/// The triggers of each channel that has a limit.
pub fn by_channel<'t, 'l>(
    triggers: &[&'t Trigger],
    limits: &'l BTreeMap<ChannelKind, Limit>,
) -> Vec<(ChannelKind, &'l Limit, Vec<&'t Trigger>)> {
    let of = |channel| {
        triggers
            .iter()
            .copied()
            .filter(move |it| it.wish.channel == channel)
    };
    let limited = limits
        .iter()
        .map(|(channel, limit)| (*channel, limit, of(*channel).collect()));
    limited
        .filter(|(.., triggers): &(_, _, Vec<_>)| !triggers.is_empty())
        .collect()
}

/// What one owner got lately, and waits for.
#[derive(Debug)]
pub struct Allowance {
    limit: Limit,
    /// How many count now; more than the amount is as good as the amount.
    taken: usize,
    /// Their slots, and those of who waited and must wait again; in order.
    ahead: Vec<DateTime<Utc>>,
    /// Those, and what others wait for; in order.
    lined_up: Vec<DateTime<Utc>>,
    /// How many messages wait.
    waiting: usize,
    /// The slot that is waited for together.
    shared: Option<DateTime<Utc>>,
    /// The same, given since this was read.
    given: Option<DateTime<Utc>>,
}

/// The latest slots of one owner in each state that count, `amount` of each at the most.
#[derive(Debug, Default)]
pub struct Latest {
    /// Whose messages are under way: since when.
    pub granted: Vec<DateTime<Utc>>,
    /// Whose messages were handed over: by when.
    pub spent: Vec<DateTime<Utc>>,
    /// Whose triggers wait: until when.
    pub waiting: Vec<DateTime<Utc>>,
}

impl Allowance {
    /// What is left under `limit`. Slots that were taken after `now`, by a clock that was set back since, count as taken now.
    pub fn new(limit: Limit, latest: &Latest, now: DateTime<Utc>) -> Self {
        let granted = latest.granted.iter().map(|at| *at.min(&now) + UNDER_WAY);
        let mut ahead: Vec<_> = granted
            .chain(latest.spent.iter().map(|at| *at.min(&now)))
            .collect();
        ahead.sort_unstable();
        let mut waiting = latest.waiting.clone();
        waiting.sort_unstable();
        let mut shared = None;
        if limit.over == OnLimit::Digest {
            waiting.dedup();
            shared = waiting.iter().copied().find(|at| *at > now);
        }
        let mut lined_up = [&*ahead, &*waiting].concat();
        lined_up.sort_unstable();
        Self {
            limit,
            taken: ahead.len(),
            ahead,
            lined_up,
            waiting: waiting.len(),
            shared,
            given: None,
        }
    }

    /// Whether what is over is told in a message with others, and this is over.
    fn gathers(&self, own: Option<Own>) -> bool {
        let has_room = self.taken + self.waiting < self.limit.amount as usize;
        self.limit.over == OnLimit::Digest && (own == Some(Own::Waiting) || (own.is_none() && !has_room))
    }

    /// When there is room for one more behind those who wait already; one that has a slot goes by what is before it.
    fn slot(&self, own: Option<Own>, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let timeframe = TimeDelta::from_std(self.limit.timeframe).unwrap_or(TimeDelta::MAX);
        let line = own.map_or(&self.lined_up, |_| &self.ahead);
        let free = line[line.len() - self.limit.amount as usize].checked_add_signed(timeframe);
        let slot = free.map(|free| free + TICK);
        // What should be settled by now counts still, and nobody knows for how long: it is looked at again in a while.
        slot.map(|slot| if slot > now { slot } else { now + UNDER_WAY })
    }

    /// Rules on a trigger that is due and may be sent but for the limit; whether it is told with others, and so waits with
    /// them.
    fn rule(
        &mut self,
        own: Option<Own>,
        gathers: bool,
        expires_at: DateTime<Utc>,
        now: DateTime<Utc>,
    ) -> Ruling {
        let most = self.limit.amount as usize;
        let ahead = match own {
            Some(Own::Counted) => return Ruling::Send,
            Some(Own::Waiting) => 0,
            None => self.waiting,
        };
        if self.taken + ahead < most {
            if own.is_some() {
                self.waiting = self.waiting.saturating_sub(1);
            }
            self.taken += 1;
            insert(&mut self.ahead, now + UNDER_WAY);
            insert(&mut self.lined_up, now + UNDER_WAY);
            let is_last = self.limit.over == OnLimit::Digest && self.taken + self.waiting >= most;
            return if is_last { Ruling::Last } else { Ruling::Send };
        }
        if most == 0 || self.limit.over == OnLimit::Drop {
            return Ruling::Over;
        }
        let shared = self.given.or(self.shared.filter(|_| own.is_none()));
        if let Some(slot) = shared.filter(|_| gathers) {
            return if slot < expires_at {
                Ruling::Wait(slot)
            } else {
                Ruling::Over
            };
        }
        let slot = self.slot(own, now);
        let Some(slot) = slot.filter(|slot| *slot < expires_at) else {
            return Ruling::Over;
        };
        if own.is_some() {
            insert(&mut self.ahead, slot);
        }
        insert(&mut self.lined_up, slot);
        self.given = self.given.or(gathers.then_some(slot));
        Ruling::Wait(slot)
    }
}

fn insert(line: &mut Vec<DateTime<Utc>>, at: DateTime<Utc>) {
    line.insert(line.partition_point(|it| *it <= at), at);
}

/// A slot as it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    /// Whose trigger.
    pub id: TriggerId,
    /// In which limit.
    pub key: LimitKey,
    /// Waiting, or granted.
    pub state: SlotState,
    /// The attempt that gives it back where nothing was handed over; none: it is never given back.
    pub token: Option<AttemptToken>,
    /// From when on.
    pub at: DateTime<Utc>,
}

/// How far a slot is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlotState {
    /// It is not yet free.
    Waiting,
    /// Its message is under way.
    Granted,
}

impl SlotState {
    /// The name in the store.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Granted => "granted",
        }
    }
}

/// What the limits of a batch leave, and what is taken of them.
#[derive(Debug, Default)]
pub struct Allowances {
    /// Of each owner and channel with a limit.
    pub of: BTreeMap<LimitKey, Allowance>,
    /// The slots that triggers of the batch have already.
    pub own: HashMap<TriggerId, Own>,
    /// What is to be written.
    pub slots: Vec<Slot>,
    /// Whose slots nobody waits for any more.
    pub released: Vec<TriggerId>,
}

impl Allowances {
    /// Whether a trigger is over a limit beyond which it is told in a message with others.
    pub fn gathers(&self, trigger: &Trigger) -> bool {
        let own = self.own.get(&trigger.id).copied();
        let key = (trigger.wish.owner.clone(), trigger.wish.channel);
        self.of.get(&key).is_some_and(|allowance| allowance.gathers(own))
    }

    /// Notes that a trigger is told in the message of another, and waits for no slot any more.
    pub fn release(&mut self, trigger: &Trigger) {
        if self.own.get(&trigger.id) == Some(&Own::Waiting) {
            self.released.push(trigger.id);
        }
    }

    /// Rules on a trigger that is due and may be sent but for a limit, and notes what it takes; whether it is told with others.
    pub fn rule(
        &mut self,
        trigger: &Trigger,
        gathers: bool,
        token: AttemptToken,
        now: DateTime<Utc>,
    ) -> Ruling {
        let key = (trigger.wish.owner.clone(), trigger.wish.channel);
        let Some(allowance) = self.of.get_mut(&key) else {
            return Ruling::Send;
        };
        let own = self.own.get(&trigger.id).copied();
        let ruling = allowance.rule(own, gathers, trigger.expires_at, now);
        let slot = |state, token, at| Slot {
            id: trigger.id,
            key,
            state,
            token,
            at,
        };
        let shift = TimeDelta::milliseconds(allowance.limit.time_shift_ms);
        self.slots.extend(match ruling {
            Ruling::Send | Ruling::Last => {
                let gives_back = own != Some(Own::Counted);
                Some(slot(SlotState::Granted, gives_back.then_some(token), now))
            }
            Ruling::Wait(at) => Some(slot(SlotState::Waiting, None, at)),
            Ruling::Over => None,
        });
        match ruling {
            Ruling::Wait(at) => Ruling::Wait(at + shift),
            ruling => ruling,
        }
    }
}

impl Recall {
    /// Behind which slot it looks.
    pub fn from(self, now: DateTime<Utc>) -> (DateTime<Utc>, TriggerId) {
        self.after.unwrap_or((now, TriggerId([u8::MAX; 16])))
    }

    /// Of the rows of triggers that wait: which are to be due anew, and what the session is told of its own. What cannot be
    /// read is left to whoever fires it.
    pub fn plan<R: Values>(self, rows: &[R]) -> (Vec<TriggerId>, Recalled) {
        let (mut found, mut recalled) = (Vec::new(), Recalled::default());
        for row in rows {
            let (Ok(before), Ok(claim)) = (row::withdrawn(row), row::claimed(row)) else {
                continue;
            };
            found.push(claim.id);
            if before.session == Some(self.session) {
                let due_at = self.due_at;
                recalled.claims.push(Claimed { due_at, ..claim });
                recalled.before.push(before);
            }
        }
        (found, recalled)
    }

    /// Where the next page of slots begins, after these.
    pub fn next(self, slots: &[(DateTime<Utc>, TriggerId)]) -> Option<(DateTime<Utc>, TriggerId)> {
        let last = slots.last().copied();
        last.filter(|_| u32::try_from(slots.len()) == Ok(self.limit))
    }
}

/// Reads when a slot is free, and whose it is.
pub fn slot<R: Values>(row: &R) -> Result<(DateTime<Utc>, TriggerId), StoreError> {
    let columns = Columns::new("limit_slot", "id", row);
    Ok((columns.instant("at")?, columns.id()?))
}

/// The bounds within which slots of a limit count at an instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Spent slots count from here on.
    pub spent_since: DateTime<Utc>,
    /// Granted ones from here on: their messages left at most `send_within` later.
    pub granted_since: DateTime<Utc>,
}

impl Bounds {
    /// Those of `limit` at `now`.
    pub fn of(limit: &Limit, now: DateTime<Utc>) -> Self {
        let ago = |ago: Duration| {
            let since = TimeDelta::from_std(ago)
                .ok()
                .and_then(|ago| now.checked_sub_signed(ago));
            since.unwrap_or(DateTime::UNIX_EPOCH).max(DateTime::UNIX_EPOCH)
        };
        Self {
            spent_since: ago(limit.timeframe),
            granted_since: ago(limit.timeframe.saturating_add(limit.send_within)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Limit = Limit {
        amount: 2,
        timeframe: Duration::from_mins(1),
        over: OnLimit::Defer,
        send_within: Duration::from_mins(2),
        time_shift_ms: 0,
    };

    fn at(second: i64) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH + TimeDelta::seconds(second)
    }

    fn allowance(limit: Limit, spent: &[DateTime<Utc>], waiting: &[DateTime<Utc>]) -> Allowance {
        let latest = Latest {
            granted: Vec::new(),
            spent: spent.to_vec(),
            waiting: waiting.to_vec(),
        };
        Allowance::new(limit, &latest, at(0))
    }

    fn all(allowance: &mut Allowance, own: Option<Own>, times: usize) -> Vec<Ruling> {
        let ruled = |_| {
            let gathers = allowance.gathers(own);
            allowance.rule(own, gathers, at(300), at(0))
        };
        (0..times).map(ruled).collect()
    }

    #[test]
    fn what_is_left_is_granted_and_each_of_the_others_has_a_slot_of_its_own() {
        let mut allowance = allowance(LIMIT, &[at(-30)], &[]);

        let rulings = all(&mut allowance, None, 5);

        assert_eq!(
            rulings,
            [
                Ruling::Send,
                Ruling::Wait(at(30) + TICK),
                Ruling::Wait(at(61) + TICK),
                Ruling::Wait(at(90) + TICK * 2),
                Ruling::Wait(at(121) + TICK * 2),
            ]
        );
    }

    #[test]
    fn newcomers_line_up_behind_those_who_wait() {
        let mut allowance = allowance(LIMIT, &[at(-30), at(-20)], &[at(30)]);

        assert_eq!(all(&mut allowance, None, 1), [Ruling::Wait(at(40) + TICK)]);
    }

    #[test]
    fn a_slot_that_nobody_waits_for_goes_to_a_newcomer() {
        let mut allowance = allowance(LIMIT, &[], &[at(30)]);

        assert_eq!(
            all(&mut allowance, None, 2),
            [Ruling::Send, Ruling::Wait(at(61) + TICK)]
        );
    }

    #[test]
    fn who_waited_goes_ahead_of_those_who_wait_still() {
        let mut allowance = allowance(LIMIT, &[at(-50)], &[at(1), at(2)]);

        assert_eq!(
            all(&mut allowance, Some(Own::Waiting), 2),
            [Ruling::Send, Ruling::Wait(at(10) + TICK)]
        );
    }

    #[test]
    fn who_is_held_up_by_a_message_that_should_be_settled_asks_again_in_a_while() {
        let mut allowance = allowance(LIMIT, &[at(-90), at(-80)], &[]);

        assert_eq!(all(&mut allowance, Some(Own::Waiting), 1), [Ruling::Wait(at(1))]);
    }

    #[test]
    fn what_was_handed_over_before_the_clock_was_set_back_counts_from_now() {
        let mut allowance = allowance(LIMIT, &[at(3_600), at(3_600)], &[]);

        assert_eq!(all(&mut allowance, None, 1), [Ruling::Wait(at(60) + TICK)]);
    }

    #[test]
    fn there_is_no_slot_beyond_the_expiry() {
        let mut allowance = allowance(LIMIT, &[at(0), at(0)], &[]);

        assert_eq!(allowance.rule(None, false, at(60), at(0)), Ruling::Over);
    }

    #[test]
    fn an_attempt_after_one_that_counts_still_takes_nothing_more() {
        let mut allowance = allowance(LIMIT, &[at(0), at(0)], &[]);

        assert_eq!(all(&mut allowance, Some(Own::Counted), 2), [Ruling::Send; 2]);
    }

    #[test]
    fn nothing_is_granted_or_waited_for_where_nothing_is_allowed() {
        let mut allowance = allowance(Limit { amount: 0, ..LIMIT }, &[], &[]);

        assert_eq!(all(&mut allowance, None, 1), [Ruling::Over]);
    }

    #[test]
    fn the_rest_is_dropped_where_the_operator_says_so() {
        let drop = Limit {
            over: OnLimit::Drop,
            ..LIMIT
        };
        let mut allowance = allowance(drop, &[at(-1)], &[]);

        assert_eq!(all(&mut allowance, None, 2), [Ruling::Send, Ruling::Over]);
    }

    const DIGEST: Limit = Limit {
        over: OnLimit::Digest,
        ..LIMIT
    };

    #[test]
    fn what_is_over_is_told_in_the_last_message_or_shares_one_slot() {
        let mut allowance = allowance(DIGEST, &[at(-30)], &[]);

        let rulings = all(&mut allowance, None, 4);

        let slot = Ruling::Wait(at(30) + TICK);
        assert_eq!(rulings, [Ruling::Last, slot, slot, slot]);
    }

    #[test]
    fn newcomers_share_the_slot_of_those_who_wait() {
        let mut allowance = allowance(DIGEST, &[at(-30), at(-20)], &[at(30), at(30)]);

        assert_eq!(all(&mut allowance, None, 2), [Ruling::Wait(at(30)); 2]);
    }

    #[test]
    fn those_who_wait_together_count_as_one() {
        let mut allowance = allowance(DIGEST, &[], &[at(30), at(30)]);

        assert_eq!(all(&mut allowance, None, 1), [Ruling::Last]);
    }

    #[test]
    fn who_shares_a_slot_that_is_gone_shares_the_next() {
        let mut allowance = allowance(DIGEST, &[at(-50), at(-40)], &[at(0), at(0), at(0)]);

        let again = all(&mut allowance, Some(Own::Waiting), 2);

        assert_eq!(again, [Ruling::Wait(at(10) + TICK); 2]);
        assert_eq!(all(&mut allowance, None, 1), [Ruling::Wait(at(10) + TICK)]);
    }

    #[test]
    fn who_waits_for_a_slot_that_comes_earlier_by_now_does_not_wait_for_its_own() {
        let mut allowance = allowance(DIGEST, &[at(-50), at(-40)], &[at(250), at(250)]);

        assert_eq!(
            all(&mut allowance, Some(Own::Waiting), 2),
            [Ruling::Wait(at(10) + TICK); 2]
        );
    }

    #[test]
    fn who_would_share_a_slot_that_is_too_late_is_over() {
        let mut allowance = allowance(DIGEST, &[at(-30), at(-20)], &[at(30)]);

        assert_eq!(allowance.rule(None, true, at(30), at(0)), Ruling::Over);
    }
}
