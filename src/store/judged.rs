//! What a fire-check decides, before it is written: pure, given the rows of its transaction.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use chrono::DateTime;
use chrono::Utc;

use crate::store::Addressee;
use crate::store::Alarm;
use crate::store::Candidate;
use crate::store::Claimed;
use crate::store::EventCopy;
use crate::store::FireCheck;
use crate::store::Judge;
use crate::store::Judgement;
use crate::store::Owner;
use crate::store::Record;
use crate::store::Standalone;
use crate::store::StoreError;
use crate::store::Succession;
use crate::store::Verdict;
use crate::store::ending::Ending;
use crate::store::gathering::Gathering;
use crate::store::gathering::Lead;
use crate::store::group;
use crate::store::group::ByGroup;
use crate::store::group::GroupKey;
use crate::store::limit::Allowances;
use crate::store::limit::Ruling;
use crate::store::row;
use crate::store::row::Columns;
use crate::store::value::Values;
use crate::trigger::AttemptToken;
use crate::trigger::NewTrigger;
use crate::trigger::OwnerId;
use crate::trigger::Place;
use crate::trigger::Recipient;
use crate::trigger::SessionId;
use crate::trigger::State;
use crate::trigger::Trigger;
use crate::trigger::TriggerId;
use crate::trigger::Wish;
use crate::trigger::answers::Answers;
use crate::trigger::outcome::Outcome;
use crate::trigger::outcome::Reason;

/// Who fires, and under which attempt.
#[derive(Debug, Clone, Copy)]
pub struct Attempt {
    /// The session.
    pub session: SessionId,
    /// The attempt.
    pub token: AttemptToken,
    /// Successors due within it are claimed at once.
    pub near: Duration,
    /// Now, by the store's clock.
    pub now: DateTime<Utc>,
}

/// A trigger, and its wish where that is not gone.
pub type Owed = (Trigger, Option<Alarm>);

/// A wish that cannot be read spoils its trigger: to take it for gone would end its series without a word.
pub fn owed<R: Values>(row: &R) -> Result<Owed, StoreError> {
    let wished: bool = Columns::new("alarm_trigger", "id", row).value("wished")?;
    let alarm = wished.then(|| row::alarm(row)).transpose()?;
    Ok((row::trigger(row)?, alarm))
}

/// From when on hand-overs matter of the groups of these triggers. Only a series goes on: nobody asks what was handed
/// over after the last firing.
pub fn since(owed: &[Owed], now: DateTime<Utc>) -> BTreeMap<GroupKey, DateTime<Utc>> {
    let mut since: BTreeMap<GroupKey, DateTime<Utc>> = BTreeMap::new();
    for (trigger, _) in owed.iter().filter(|(trigger, _)| trigger.has_more) {
        let since = since.entry(group_of(trigger)).or_insert(now);
        *since = group::oldest([*since, trigger.place.trigger_at].into_iter(), now);
    }
    since
}

/// What may decide about triggers, read once for all candidates of a group.
pub struct Surroundings {
    pub owners: BTreeMap<OwnerId, Result<Owner, StoreError>>,
    pub copies: BTreeMap<GroupKey, Result<Arc<Vec<EventCopy>>, StoreError>>,
    pub answers: Shared<Answers>,
    pub handed_over: BTreeMap<GroupKey, Result<Arc<Vec<TriggerId>>, StoreError>>,
    pub addressees: BTreeMap<TriggerId, Addressee>,
    pub standalone: BTreeMap<GroupKey, Result<Arc<Standalone>, StoreError>>,
}

impl Surroundings {
    /// The trigger with what surrounds it, or why that cannot be read.
    pub fn of(&self, trigger: Trigger, alarm: Option<Alarm>) -> Result<Candidate, (TriggerId, StoreError)> {
        let id = trigger.id;
        let key = group_of(&trigger);
        let complain = |complaint: &StoreError| (id, group::again(complaint));
        let Some(owner) = self.owners.get(&key.0) else {
            let reason = "its owner does not exist".to_owned();
            let (table, row) = ("alarm_trigger", id.to_string());
            return Err((id, StoreError::Corrupt { table, row, reason }));
        };
        let owner = owner.as_ref().map_err(complain)?.clone();
        let standalone = self.standalone.get(&key).map(Result::as_ref).transpose();
        let standalone = standalone.map_err(complain)?;
        Ok(Candidate {
            alarm,
            owner,
            copies: found(&self.copies, &key).map_err(complain)?,
            answers: found(&self.answers, &key).map_err(complain)?,
            handed_over: found(&self.handed_over, &key).map_err(complain)?,
            addressee: self.addressees.get(&id).cloned(),
            standalone: standalone.cloned(),
            trigger,
        })
    }
}

/// Puts first what was promised first: where a limit leaves little, that is what it is for, and what goes out as one message
/// has the same lead every time.
pub fn in_turn(owed: &mut [Owed]) {
    owed.sort_by_key(|(trigger, _)| (trigger.place.trigger_at, trigger.id));
}

/// Their triggers.
pub fn triggers(owed: &[Owed]) -> Vec<&Trigger> {
    owed.iter().map(|(trigger, _)| trigger).collect()
}

/// Those that are for others than their owners.
pub fn to_others(owed: &[Owed]) -> Vec<TriggerId> {
    let triggers = owed.iter().map(|(trigger, _)| trigger);
    let to_others = triggers.filter(|trigger| trigger.wish.recipient != Recipient::Owner);
    to_others.map(|trigger| trigger.id).collect()
}

/// Those whose messages others of them were part of before.
pub fn leads(owed: &[Owed]) -> BTreeSet<TriggerId> {
    owed.iter().filter_map(|(trigger, _)| trigger.joined()).collect()
}

/// Those that were part of a message of several before.
pub fn gathered(owed: &[Owed]) -> Vec<TriggerId> {
    let triggers = owed.iter().map(|(trigger, _)| trigger);
    let gathered = triggers.filter(|trigger| trigger.digest.is_some());
    gathered.map(|trigger| trigger.id).collect()
}

/// What is known of a lead.
pub fn lead<R: Values>(row: &R) -> Result<Lead, StoreError> {
    let columns = Columns::new("alarm_trigger", "id", row);
    Ok(Lead {
        id: columns.id()?,
        is_lost: columns.value("is_lost")?,
        is_parted: columns.value("is_parted")?,
    })
}

/// The stand-alone alarms of these triggers.
pub fn standalone_keys(owed: &[Owed]) -> BTreeSet<GroupKey> {
    let wishes = owed.iter().map(|(trigger, _)| &trigger.wish);
    let keys = wishes.filter_map(|wish| Some((wish.owner.clone(), wish.alarm_id()?.0)));
    keys.collect()
}

/// The group of a trigger.
pub fn group_of(trigger: &Trigger) -> GroupKey {
    (trigger.wish.owner.clone(), trigger.wish.event_uid.clone())
}

pub type Shared<T> = BTreeMap<GroupKey, Result<Arc<Vec<T>>, StoreError>>;

/// Rows that several candidates share.
pub fn shared<T>(rows: ByGroup<T>) -> Shared<T> {
    rows.into_iter()
        .map(|(key, rows)| (key, rows.map(Arc::new)))
        .collect()
}

fn found<'a, T>(rows: &'a Shared<T>, key: &GroupKey) -> Result<Arc<Vec<T>>, &'a StoreError> {
    match rows.get(key) {
        None => Ok(Arc::default()),
        Some(rows) => rows.as_ref().map(Arc::clone),
    }
}

/// The claim under which a trigger is held.
fn claim(trigger: &Trigger) -> Claimed {
    Claimed {
        id: trigger.id,
        generation: trigger.generation,
        due_at: trigger.due_at,
        channel: trigger.wish.channel,
        owner: trigger.wish.owner.hash(),
    }
}

/// What was judged, before it is written.
#[derive(Default)]
pub struct Judged {
    pub granted: Vec<Candidate>,
    /// Those of the granted that are not `sending` yet.
    pub to_send: Vec<(TriggerId, i64)>,
    pub concluded: Vec<(Trigger, Outcome, Reason)>,
    /// Over a limit, with the instant of their slot.
    pub deferred: Vec<Claimed>,
    pub left: Vec<Claimed>,
    pub served: HashMap<Wish, Place>,
    pub successors: Vec<NewTrigger>,
    pub missed: Vec<Record>,
    /// What leaves as one message.
    pub gathering: Gathering,
    /// How many messages may leave.
    room: usize,
    /// How many leave.
    messages: usize,
}

/// What becomes of a candidate that may be sent.
enum Course {
    Leaves,
    Waits(DateTime<Utc>),
    Over,
    Stays,
}

impl Judged {
    /// Nothing yet; so many messages may leave, of which some may bear the ids of these.
    pub fn with_room(room: usize, leads: &[Lead]) -> Self {
        Self {
            room,
            gathering: Gathering::under(leads),
            ..Self::default()
        }
    }

    /// Takes the decision about a candidate, unless the judge is spent; about the first one always. One that waits for a
    /// slot has not left: its series does not go on yet.
    pub fn take(
        &mut self,
        mut candidate: Candidate,
        judge: &dyn Judge,
        allowances: &mut Allowances,
        attempt: Attempt,
    ) {
        if candidate.trigger.state == State::Sending {
            self.granted.push(candidate);
            return;
        }
        let is_first = self.granted.is_empty() && self.concluded.is_empty() && self.deferred.is_empty();
        if judge.is_spent() && !is_first {
            return self.leave_be(&candidate.trigger);
        }
        // Another place of the same series may have been served in this very batch.
        if let Some(alarm) = &mut candidate.alarm {
            alarm.served_through = alarm.served_through.max(self.served.get(&alarm.wish).copied());
        }
        let Judgement {
            mut verdict,
            succession,
        } = judge.judge(&candidate, attempt.now);
        if let Verdict::Send | Verdict::Gather = verdict {
            match self.course(&candidate, verdict, (judge, allowances), attempt) {
                Course::Leaves => {}
                Course::Over => verdict = Verdict::Conclude(Outcome::Suppressed, Reason::RateLimit),
                Course::Waits(due_at) => return self.put_off(&candidate.trigger, due_at),
                Course::Stays => return self.leave_be(&candidate.trigger),
            }
        }
        if let Some(succession) = succession {
            self.go_on(&candidate.trigger.wish, succession);
        }
        match verdict {
            Verdict::Send | Verdict::Gather => self.grant(candidate, attempt),
            Verdict::Conclude(outcome, reason) => {
                self.gathering.lose(candidate.trigger.id);
                self.concluded.push((candidate.trigger, outcome, reason));
            }
        }
    }

    fn grant(&mut self, mut candidate: Candidate, attempt: Attempt) {
        let trigger = &mut candidate.trigger;
        self.to_send.push((trigger.id, trigger.generation));
        trigger.state = State::Sending;
        trigger.attempt_token = Some(attempt.token);
        trigger.attempt_started = Some(attempt.now);
        self.granted.push(candidate);
    }

    fn put_off(&mut self, trigger: &Trigger, due_at: DateTime<Utc>) {
        self.gathering.stay(trigger);
        self.deferred.push(Claimed {
            due_at,
            ..claim(trigger)
        });
    }

    fn leave_be(&mut self, trigger: &Trigger) {
        self.gathering.stay(trigger);
        self.left.push(claim(trigger));
    }

    /// It joins a message that leaves, leaves with one of its own, waits, or is over a limit.
    fn course(
        &mut self,
        candidate: &Candidate,
        verdict: Verdict,
        (judge, allowances): (&dyn Judge, &mut Allowances),
        attempt: Attempt,
    ) -> Course {
        let trigger = &candidate.trigger;
        let gathers = verdict == Verdict::Gather || trigger.digest.is_some() || allowances.gathers(trigger);
        if gathers && self.gathering.join(trigger) {
            allowances.release(trigger);
            return Course::Leaves;
        }
        if self.messages >= self.room || !judge.has_room(candidate) {
            return Course::Stays;
        }
        if self.gathering.inherits(trigger) {
            // The message was counted when its lead was.
            allowances.release(trigger);
            self.messages += 1;
            self.gathering.leave(trigger, true);
            return Course::Leaves;
        }
        let ruling = allowances.rule(trigger, gathers, attempt.token, attempt.now);
        match ruling {
            Ruling::Send | Ruling::Last => {
                self.messages += 1;
                self.gathering.leave(trigger, gathers || ruling == Ruling::Last);
                Course::Leaves
            }
            Ruling::Wait(due_at) => Course::Waits(due_at),
            Ruling::Over => Course::Over,
        }
    }

    fn go_on(&mut self, wish: &Wish, succession: Succession) {
        let served = self
            .served
            .entry(wish.clone())
            .or_insert(succession.served_through);
        *served = succession.served_through.max(*served);
        self.successors.extend(succession.successor);
        self.missed.extend(succession.missed);
    }

    /// The triggers of stand-alone alarms of which something is counted: what ends here, and what goes on as a series.
    pub fn counted(&self) -> impl Iterator<Item = &TriggerId> {
        let ended = self.concluded.iter().map(|(trigger, ..)| trigger);
        let granted = self.granted.iter().map(|candidate| &candidate.trigger);
        let all = ended.chain(granted.filter(|trigger| trigger.has_more));
        all.filter(|trigger| trigger.wish.alarm_id().is_some())
            .map(|trigger| &trigger.id)
    }

    /// Until when the session holds what it deferred.
    pub fn deferred_until(&self) -> Option<DateTime<Utc>> {
        self.deferred.iter().map(|claim| claim.due_at).max()
    }

    /// The history of what is not sent.
    pub fn endings(&self) -> Vec<Ending> {
        let endings = self.concluded.iter();
        endings
            .map(|(trigger, outcome, reason)| Ending::plain(trigger.id, *outcome, *reason))
            .collect()
    }

    /// What the caller is told.
    pub fn told(mut self, claimed: Vec<Claimed>) -> FireCheck {
        self.gathering.mark(&mut self.granted);
        FireCheck {
            granted: self.granted,
            concluded: self.concluded,
            deferred: self.deferred,
            left: self.left,
            missed: self.missed,
            claimed,
        }
    }
}

impl FireCheck {
    /// Adds what a fire-check of further claims did.
    pub(super) fn add(&mut self, other: Self) {
        self.granted.extend(other.granted);
        self.concluded.extend(other.concluded);
        self.deferred.extend(other.deferred);
        self.left.extend(other.left);
        self.missed.extend(other.missed);
        self.claimed.extend(other.claimed);
    }
}
