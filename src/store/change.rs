//! What a change says, what is decided about it inside its transaction, and what became of it.

use std::time::Duration;

use chrono::DateTime;
use chrono::Utc;

use crate::store::Claimed;
use crate::store::Owner;
use crate::trigger::ChannelKind;
use crate::trigger::NewTrigger;
use crate::trigger::OwnerId;
use crate::trigger::Place;
use crate::trigger::SessionId;
use crate::trigger::Trigger;
use crate::trigger::TriggerId;
use crate::trigger::Wish;
use crate::trigger::answers::Answers;
use crate::trigger::outcome::Outcome;
use crate::trigger::outcome::Reason;

/// The source's own version of an event. Numbers are compared as numbers, everything else bytewise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version(pub String);

/// Where an event comes from and whose it is: the identity of one stored copy.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventKey {
    /// The source.
    pub source: String,
    /// Its identity there (href or UID).
    pub key: String,
    /// Whose copy it is.
    pub owner: OwnerId,
}

/// One copy of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventCopy {
    /// Where it comes from and whose it is.
    pub at: EventKey,
    /// The UID of the event in it.
    pub uid: String,
    /// The source's version, if it names one.
    pub version: Option<Version>,
    /// The iCalendar text.
    pub ics: String,
    /// Set when the source deleted it: a tombstone, kept so that a late older version stays dead.
    pub deleted_at: Option<DateTime<Utc>>,
    /// Why it is set aside, if it cannot be followed.
    pub quarantine: Option<String>,
    /// When it was last changed.
    pub changed_at: DateTime<Utc>,
}

/// A wish and how far it has been served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alarm {
    /// What is wished.
    pub wish: Wish,
    /// The last place that left planned/claimed; none before the first.
    pub served_through: Option<Place>,
}

/// Everything the store knows of one event UID of one owner: all copies, wishes and triggers.
#[derive(Debug, Clone)]
pub struct Group {
    /// Whose it is.
    pub owner: Owner,
    /// The event.
    pub uid: String,
    /// The copies that are not deleted, ordered by source and key.
    pub copies: Vec<EventCopy>,
    /// What its owner answered to reminders of it.
    pub answers: Answers,
    /// The wishes.
    pub alarms: Vec<Alarm>,
    /// The triggers that are owed.
    pub triggers: Vec<Trigger>,
    /// Triggers of this event that were handed over, with a trigger instant later than an hour ago: not to be planned again.
    pub handed_over: Vec<TriggerId>,
}

/// A change to one copy, as it was asked for.
#[derive(Debug, Clone)]
pub struct Change {
    /// Which copy.
    pub at: EventKey,
    /// The source's version, if it names one.
    pub version: Option<Version>,
    /// What is to become of it.
    pub body: ChangeBody,
}

/// What is to become of a copy.
#[derive(Debug, Clone)]
pub enum ChangeBody {
    /// It reads like this now.
    Put {
        /// The UID in the text.
        uid: String,
        /// The iCalendar text.
        ics: String,
    },
    /// A message says something of it; what the copy reads like then is the editor's to say.
    Message {
        /// The UID in the text.
        uid: String,
        /// The iCalendar text of the message.
        ics: String,
        /// By which addresses it names the owner, as far as they were known when it was read.
        addresses: Vec<String>,
    },
    /// It is gone.
    Delete,
}

/// What is to be done with a change, judged by the stored copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Acceptance {
    /// It is news.
    Apply,
    /// It is news, and the copy is to read like this.
    Merged(String),
    /// There is nothing that it could change; the reason is for the caller.
    Nothing(String),
    /// It says what is stored.
    Unchanged,
    /// It is older than what is stored.
    Stale,
    /// It contradicts what is stored; the reason is for the caller.
    Conflict(String),
}

/// How a group is put right. Whatever is not named stays as it is.
#[derive(Debug, Clone, Default)]
pub struct Edit {
    /// The wishes that exist from now on, with what they have been served; others are forgotten.
    pub alarms: Vec<Alarm>,
    /// Triggers no longer owed: planned and claimed ones are deleted, `sending` ones are marked withdrawn.
    pub withdraw: Vec<TriggerId>,
    /// Kept triggers whose deadline or continuation changed, or that are owed again after they were marked withdrawn:
    /// (id, expires_at, has_more). The mark is taken off.
    pub adjust: Vec<(TriggerId, DateTime<Utc>, bool)>,
    /// Triggers to plan; one that exists already stays as it is.
    pub insert: Vec<NewTrigger>,
    /// Firings that are recorded without ever becoming a trigger; an existing history row stays.
    pub record: Vec<Record>,
    /// Copies to set aside, with the reason, and copies to take back (`None`).
    pub quarantine: Vec<(EventKey, Option<String>)>,
}

/// A firing that goes straight to history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// What it belongs to.
    pub wish: Wish,
    /// Its place.
    pub place: Place,
    /// What became of it.
    pub outcome: Outcome,
    /// Why.
    pub reason: Reason,
    /// How many firings this row stands for.
    pub count: u64,
}

/// Takes the decisions of a change inside its transaction.
pub trait Editor: Send + Sync {
    /// Whether `change` is news, given the stored copy (or its tombstone).
    fn accept(&self, stored: Option<&EventCopy>, change: &Change) -> Acceptance;

    /// How to put the group right now that its copies read as they do.
    fn edit(&self, group: &Group, now: DateTime<Utc>) -> Edit;
}

/// Who may claim, in the transaction of a change, what is due soon.
#[derive(Debug, Clone, Copy)]
pub struct NearClaim {
    /// The session that takes it.
    pub session: SessionId,
    /// How far ahead of now.
    pub window: Duration,
}

/// What is to become of what an owner answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answering {
    /// What it was when that was decided.
    pub before: Answers,
    /// What it is to be.
    pub after: Answers,
}

/// What became of one change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    /// Whether it was taken.
    pub acceptance: Acceptance,
    /// How many triggers were planned by it.
    pub planned: usize,
    /// Triggers that are no longer owed, with the session that held them.
    pub withdrawn: Vec<Withdrawn>,
    /// Triggers claimed in the transaction.
    pub claimed: Vec<Claimed>,
    /// Firings that were recorded without an attempt.
    pub recorded: Vec<Record>,
    /// Why copies were set aside by it.
    pub set_aside: Vec<String>,
}

/// A trigger that is no longer owed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Withdrawn {
    /// Which.
    pub id: TriggerId,
    /// When it was due.
    pub due_at: DateTime<Utc>,
    /// Its channel.
    pub channel: ChannelKind,
    /// Who held it.
    pub session: Option<SessionId>,
}
