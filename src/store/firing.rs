//! Claims, the decisions of the fire-check, and what attempts came to.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::DateTime;
use chrono::Utc;

use crate::store::Addressee;
use crate::store::Alarm;
use crate::store::Epoch;
use crate::store::EventCopy;
use crate::store::Owner;
use crate::store::Record;
use crate::store::Standalone;
use crate::store::Withdrawn;
use crate::trigger::AttemptToken;
use crate::trigger::ChannelKind;
use crate::trigger::NewTrigger;
use crate::trigger::Place;
use crate::trigger::SessionId;
use crate::trigger::Trigger;
use crate::trigger::TriggerId;
use crate::trigger::answers::Answers;
use crate::trigger::limit::Limit;
use crate::trigger::outcome::Outcome;
use crate::trigger::outcome::Reason;

/// A claim: what its holder needs to arm a timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claimed {
    /// Which.
    pub id: TriggerId,
    /// The generation of the claim.
    pub generation: i64,
    /// When to fire.
    pub due_at: DateTime<Utc>,
    /// Through what.
    pub channel: ChannelKind,
    /// A number that stands for its owner.
    pub owner: u64,
}

/// A claimed trigger with everything its fire-check may look at.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// The trigger, still claimed.
    pub trigger: Trigger,
    /// How far its wish has been served; none where the wish is gone.
    pub alarm: Option<Alarm>,
    /// Whose it is, as they are now.
    pub owner: Owner,
    /// The event as it is now; empty where it is gone. Shared by the candidates of one group.
    pub copies: Arc<Vec<EventCopy>>,
    /// The stand-alone alarm as it is now, where it is that of one; none where that is gone.
    pub standalone: Option<Arc<Standalone>>,
    /// What its owner answered to reminders of the event: one, or none.
    pub answers: Arc<Vec<Answers>>,
    /// Triggers of the group that were handed over lately: not to be planned as successors.
    pub handed_over: Arc<Vec<TriggerId>>,
    /// What is known of whom it is for; none where that is its owner.
    pub addressee: Option<Addressee>,
}

/// What the fire-check says of one candidate.
#[derive(Debug, Clone)]
pub struct Judgement {
    /// Send it, or record it.
    pub verdict: Verdict,
    /// How its series goes on; none where the series went on before (a retry).
    pub succession: Option<Succession>,
}

/// Send, or record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Move it to `sending`.
    Send,
    /// The same; what is gathered of one recipient goes out as one message.
    Gather,
    /// Move it to history.
    Conclude(Outcome, Reason),
}

/// How a series goes on once a place is served.
#[derive(Debug, Clone)]
pub struct Succession {
    /// The wish has been served through here.
    pub served_through: Place,
    /// What is owed next.
    pub successor: Option<NewTrigger>,
    /// What was stepped over.
    pub missed: Option<Record>,
}

/// Takes the decisions of the fire-check inside its transaction.
pub trait Judge: Send + Sync {
    /// What to do with `candidate` now.
    fn judge(&self, candidate: &Candidate, now: DateTime<Utc>) -> Judgement;

    /// Whether a node that finds this epoch in the store may fire.
    fn may_fire(&self, _epoch: &Epoch, _now: DateTime<Utc>) -> bool {
        true
    }

    /// How many messages one owner gets through each channel; none are counted of the others.
    fn limits(&self) -> BTreeMap<ChannelKind, Limit> {
        BTreeMap::new()
    }

    /// How many messages may leave: at least one. What is left stays claimed, for the next fire-check.
    fn room(&self) -> usize {
        usize::MAX
    }

    /// Whether there is room for the message of `candidate` now. Asked again, the answer is the same; what there is no room for
    /// stays claimed, for a later fire-check.
    fn has_room(&self, _candidate: &Candidate) -> bool {
        true
    }

    /// Whether enough was judged for one transaction. What is left stays claimed, for the next fire-check.
    fn is_spent(&self) -> bool {
        false
    }
}

/// What a fire-check did with the claims it was given. Those in no list belong to somebody else by now, or
/// wait for a slot since a try whose answer was lost.
#[derive(Debug, Clone, Default)]
pub struct FireCheck {
    /// Now `sending` under the token: to be sent.
    pub granted: Vec<Candidate>,
    /// Recorded without being sent.
    pub concluded: Vec<(Trigger, Outcome, Reason)>,
    /// Over a limit: they wait under the same claim, which the caller arms again.
    pub deferred: Vec<Claimed>,
    /// Still claimed, since there was no room, or the judge had judged enough: to be checked again at once.
    pub left: Vec<Claimed>,
    /// What the series stepped over, as it was recorded.
    pub missed: Vec<Record>,
    /// Successors that were planned and claimed at once because they are near.
    pub claimed: Vec<Claimed>,
}

/// Which triggers that wait for slots are looked at again.
#[derive(Debug, Clone, Copy)]
pub struct Recall {
    /// Those that are free or held by it.
    pub session: SessionId,
    /// Those of it.
    pub channel: ChannelKind,
    /// When they are due from now on, if it was to be later.
    pub due_at: DateTime<Utc>,
    /// Strictly behind this slot, in order; none: behind what is free by now.
    pub after: Option<(DateTime<Utc>, TriggerId)>,
    /// So many slots are looked at.
    pub limit: u32,
}

/// What waited for slots in limits, and is looked at again.
#[derive(Debug, Clone, Default)]
pub struct Recalled {
    /// The claims of the session, as they were due before.
    pub before: Vec<Withdrawn>,
    /// The same, as they are due now.
    pub claims: Vec<Claimed>,
    /// Where the next page begins, while there is more.
    pub next: Option<(DateTime<Utc>, TriggerId)>,
}

/// What one attempt came to.
#[derive(Debug, Clone)]
pub struct Settlement {
    /// Which trigger.
    pub id: TriggerId,
    /// Under which claim.
    pub generation: i64,
    /// By which attempt.
    pub token: AttemptToken,
    /// What follows.
    pub end: AttemptEnd,
}

/// What follows from an attempt.
#[derive(Debug, Clone)]
pub enum AttemptEnd {
    /// It is over: a history row is written.
    Done {
        /// What became of it.
        outcome: Outcome,
        /// Why.
        reason: Reason,
        /// What the other side said (queue id, reply), without personal data; at most 500 characters.
        detail: String,
        /// When the other side had it.
        handed_over_at: Option<DateTime<Utc>>,
        /// The name by which the other side knows the message.
        reference: Option<String>,
        /// Until when the other side has time to report, where the outcome is `awaiting`.
        await_until: Option<DateTime<Utc>>,
        /// The message itself, where it stays with us (outbox).
        kept: Option<KeptMessage>,
    },
    /// Try again then, under the same claim. A withdrawn trigger is recorded as cancelled instead.
    Retry {
        /// When.
        due_at: DateTime<Utc>,
        /// Whether this attempt counts.
        counts: bool,
        /// Whether this attempt may have handed it over: that is recorded, and only more knowledge replaces it.
        doubtful: bool,
        /// What went wrong, without personal data; at most 500 characters.
        error: String,
        /// What the target is given back then: a JSON document.
        payload: Option<String>,
    },
}

/// A message that stays with us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptMessage {
    /// Whom it is for.
    pub to: String,
    /// Its subject.
    pub subject: String,
    /// Its plain text.
    pub text: String,
    /// The whole message as it would have left (RFC 5322).
    pub raw: String,
}

/// What a settle did with one settlement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// As asked.
    Recorded,
    /// The trigger is over, and nobody can tell whether it was handed over, be it by an attempt before this one: history says
    /// that it is in doubt, and why it was given up.
    InDoubt,
    /// The attempt failed, but by now it is known that the message was handed over: an earlier attempt said so, or it was
    /// reported. History keeps what it knows, and nothing is owed any more.
    Known,
    /// The retry is planned under the same claim, which the caller arms again.
    Retrying(Claimed),
    /// The claim was lost: the row belongs to somebody else; what is known was recorded.
    Lost,
    /// The row could not be written; it is set aside in history as unreadable or left for the rescue.
    Poisoned,
}
