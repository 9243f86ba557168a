//! What we remember. [`Store`] speaks in domain verbs; every state change is a compare-and-set whose row count is
//! checked, so that two nodes that want the same thing cannot both get it.
//!
//! The decisions themselves are pure and belong to the stages. Where a decision must be taken on what the transaction
//! sees, the stage hands it in ([`Editor`] for changes, [`Judge`] for the fire-check) and the store calls it between
//! reading and writing. Such a decision must not block.
//!
//! Claims, liveness and overdue are judged by the store's own clock: the database's where there is a server, the clock
//! given at `open` where the database is part of this process.

mod decided;
mod ending;
mod failure;
mod group;
mod judged;
mod lapse;
mod limit;
mod page;
pub mod postgres;
pub mod row;
mod settling;
pub mod sqlite;
mod value;

pub use failure::StoreError;
pub use limit::Limit;
pub use limit::OnLimit;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use chrono::DateTime;
use chrono::Utc;

use crate::calendar::zone::Zone;
use crate::trigger::AttemptToken;
use crate::trigger::ChannelKind;
use crate::trigger::NewTrigger;
use crate::trigger::OwnerId;
use crate::trigger::Place;
use crate::trigger::SessionId;
use crate::trigger::Trigger;
use crate::trigger::TriggerId;
use crate::trigger::Wish;
use crate::trigger::expand::Person;
use crate::trigger::outcome::Outcome;
use crate::trigger::outcome::Reason;

/// The person an alarm belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// The name the caller gave them.
    pub id: OwnerId,
    /// Where e-mail goes.
    pub email: Option<String>,
    /// Further addresses by which calendars know them; used to find their own ATTENDEE, never to send.
    pub addresses: Vec<String>,
    /// E.164 number.
    pub phone: Option<String>,
    /// IANA name; floating and all-day times are understood in it.
    pub time_zone: String,
    /// BCP 47 tag.
    pub locale: String,
    /// Whether they get anything at all.
    pub enabled: bool,
    /// Channels they switched off.
    pub muted: Vec<ChannelKind>,
}

impl Owner {
    /// The person as whom they read events. A zone that is no longer known is read as UTC.
    pub fn person(&self) -> Person {
        Person {
            zone: Zone::iana(&self.time_zone).unwrap_or_else(Zone::utc),
            addresses: self.email.iter().chain(&self.addresses).cloned().collect(),
        }
    }
}

/// A demand that everything of an owner be planned again; later demands have greater marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PlanMark(pub i64);

/// What became of the replacement of an owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replaced {
    /// The owner before; none if they are new.
    pub before: Option<Owner>,
    /// What must be planned again, since zone or addresses changed now or before.
    pub to_plan: Option<PlanMark>,
}

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
    /// It is gone.
    Delete,
}

/// What is to be done with a change, judged by the stored copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Acceptance {
    /// It is news.
    Apply,
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
    /// Triggers of the group that were handed over lately: not to be planned as successors.
    pub handed_over: Arc<Vec<TriggerId>>,
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

    /// How many messages one owner gets through each channel; none are counted of the others.
    fn limits(&self) -> BTreeMap<ChannelKind, Limit> {
        BTreeMap::new()
    }

    /// Whether enough was judged for one transaction. What is left stays claimed, for the next fire-check.
    fn is_spent(&self) -> bool {
        false
    }
}

/// What a fire-check did with the claims it was given. Those in no list belong to somebody else by now.
#[derive(Debug, Clone, Default)]
pub struct FireCheck {
    /// Now `sending` under the token: to be sent.
    pub granted: Vec<Candidate>,
    /// Recorded without being sent.
    pub concluded: Vec<(Trigger, Outcome, Reason)>,
    /// Over a limit: they wait under the same claim, which the caller arms again.
    pub deferred: Vec<Claimed>,
    /// Still claimed, since the judge had judged enough: to be checked again at once.
    pub left: Vec<Claimed>,
    /// What the series stepped over, as it was recorded.
    pub missed: Vec<Record>,
    /// Successors that were planned and claimed at once because they are near.
    pub claimed: Vec<Claimed>,
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
    /// The retry is planned under the same claim, which the caller arms again.
    Retrying(Claimed),
    /// The claim was lost: the row belongs to somebody else; what is known was recorded.
    Lost,
    /// The row could not be written; it is set aside in history as unreadable or left for the rescue.
    Poisoned,
}

/// What a session says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    /// Whether it may be given claims.
    pub delivers: bool,
    /// Its number in the cluster, where it has one.
    pub peer: Option<i64>,
    /// How many triggers it holds.
    pub pending: u64,
}

impl Default for Report {
    fn default() -> Self {
        Self {
            delivers: true,
            peer: None,
            pending: 0,
        }
    }
}

/// A session that may be given claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Living {
    /// Which.
    pub session: SessionId,
    /// Its number in the cluster, where it has one.
    pub peer: Option<i64>,
    /// How many triggers it held at its last beat.
    pub pending: u64,
}

impl Living {
    /// The one that has the least.
    pub fn freest(all: &[Self]) -> Option<Self> {
        all.iter()
            .min_by_key(|living| (living.pending, living.session.0))
            .copied()
    }
}

/// What each transaction of a leader shows to the database, which accepts the latest only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fence {
    /// How often the cluster was founded anew.
    pub generation: i64,
    /// The term.
    pub term: i64,
    /// The leader.
    pub node: i64,
}

/// How lapsed claims are judged.
#[derive(Debug, Clone)]
pub struct RescueRules {
    /// A session whose last beat is older is dead.
    pub dead_after: Duration,
    /// Whoever holds it, it is freed this long after it was due, claimed or started.
    pub overdue_wait: Duration,
    /// A `sending` row is left alone this long after its fire-check.
    pub send_within: Duration,
    /// Channels whose doubtful attempts are tried again; others end `in_doubt`.
    pub retry_in_doubt: Vec<ChannelKind>,
}

/// What a rescue did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rescued {
    /// Freed since their session was dead.
    pub dead_session: u64,
    /// Freed since they were overdue.
    pub overdue: u64,
    /// `sending` rows freed to be tried again.
    pub in_doubt_retried: u64,
    /// `sending` rows recorded as `in_doubt`.
    pub in_doubt_recorded: u64,
}

/// A history row: what became of a trigger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// The trigger's id.
    pub id: TriggerId,
    /// What it belonged to.
    pub wish: Wish,
    /// Its place.
    pub place: Place,
    /// What became of it.
    pub outcome: Outcome,
    /// Why.
    pub reason: Reason,
    /// What the other side said.
    pub detail: String,
    /// Attempts that counted.
    pub attempts: u32,
    /// How many firings this row stands for.
    pub count: u64,
    /// When the other side had it.
    pub handed_over_at: Option<DateTime<Utc>>,
    /// When this row was last written.
    pub recorded_at: DateTime<Utc>,
}

/// A message of the outbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxEntry {
    /// The trigger it was sent for.
    pub id: TriggerId,
    /// Whose.
    pub owner: OwnerId,
    /// When it was handed over.
    pub handed_over_at: DateTime<Utc>,
    /// The message.
    pub message: KeptMessage,
}

/// Which history rows to list. Newest first.
#[derive(Debug, Clone, Default)]
pub struct HistoryQuery {
    /// Of this owner.
    pub owner: Option<OwnerId>,
    /// Of this event.
    pub event_uid: Option<String>,
    /// With this outcome.
    pub outcome: Option<Outcome>,
    /// Recorded at or after.
    pub since: Option<DateTime<Utc>>,
    /// Strictly after this row of the listing: (recorded_at, id) of the last row seen.
    pub after: Option<(DateTime<Utc>, TriggerId)>,
    /// How many at most.
    pub limit: u32,
}

/// Where the backlog stands; computed from the head of the due index.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Free triggers due by the horizon.
    pub planned: u64,
    /// Claimed or sending triggers due by the horizon.
    pub claimed: u64,
    /// Triggers past due, in whatever state.
    pub overdue: u64,
    /// The earliest due instant of all.
    pub oldest_due: Option<DateTime<Utc>>,
}

/// How much the janitor may delete at once, and how old it must be.
#[derive(Debug, Clone, Copy)]
pub struct Retention {
    /// History and outbox rows recorded before are deleted.
    pub history_before: DateTime<Utc>,
    /// Tombstones of events deleted before are forgotten.
    pub tombstones_before: DateTime<Utc>,
    /// Rows of each kind in one go.
    pub limit: u32,
}

/// What we remember.
#[async_trait::async_trait]
pub trait Store: Send + Sync + std::fmt::Debug {
    /// The clock by which claims are judged.
    async fn now(&self) -> Result<DateTime<Utc>, StoreError>;

    // Sessions.

    /// Starts a session of `node`. What an earlier session of the same node held is freed at once; its `sending` rows
    /// are known to have stopped and go by `rules.retry_in_doubt`. It is given nothing before its first beat says that it
    /// delivers.
    async fn begin_session(
        &self,
        node: &str,
        rules: &RescueRules,
    ) -> Result<(SessionId, Rescued), StoreError>;

    /// Says that the session lives, and what it says of itself. False: it was ended by somebody else, and its holder must
    /// stop.
    async fn beat(&self, session: SessionId, says: Report) -> Result<bool, StoreError>;

    /// The sessions that may be given claims: those that deliver and whose last beat is not older than `dead_after`.
    async fn living(&self, dead_after: Duration) -> Result<Vec<Living>, StoreError>;

    /// Gives back what the session holds as claimed (never `sending`), and ends it. Returns how many were given back.
    async fn end_session(&self, session: SessionId) -> Result<u64, StoreError>;

    // Owners.

    /// Creates or replaces an owner. Where events read differently now, it is noted that they must be planned again.
    async fn put_owner(&self, owner: &Owner) -> Result<Replaced, StoreError>;

    /// Reads an owner.
    async fn owner(&self, id: &OwnerId) -> Result<Option<Owner>, StoreError>;

    /// Up to `limit` owners whose events must be planned again.
    async fn owners_to_plan(&self, limit: u32) -> Result<Vec<(OwnerId, PlanMark)>, StoreError>;

    /// Notes that an owner's events were planned again. What was asked for after that mark stays to be done.
    async fn owner_planned(&self, id: &OwnerId, mark: PlanMark) -> Result<(), StoreError>;

    // Events.

    /// Applies a batch of changes in one transaction, in order. One that is refused does not stop the others; an
    /// unknown owner is an error of that change alone. Each group touched is edited once, after its last change.
    async fn change(
        &self,
        changes: &[Change],
        editor: &dyn Editor,
        near: Option<NearClaim>,
    ) -> Result<Vec<Result<Changed, StoreError>>, StoreError>;

    /// Edits again, without a change, up to `limit` groups of `owner` (of everybody if none) after the cursor (owner,
    /// uid), in that order. Returns what was withdrawn and claimed, and the next cursor while there is more.
    #[expect(clippy::too_many_arguments, reason = "five, and the receiver")]
    async fn edit_groups(
        &self,
        owner: Option<&OwnerId>,
        after: Option<(OwnerId, String)>,
        limit: u32,
        editor: &dyn Editor,
        near: Option<NearClaim>,
    ) -> Result<(Changed, Option<(OwnerId, String)>), StoreError>;

    /// One copy, or its tombstone.
    async fn copy(&self, at: &EventKey) -> Result<Option<EventCopy>, StoreError>;

    /// Who has a copy with this source and key that is not deleted: up to `limit` owners after the cursor, in order.
    async fn holders(
        &self,
        source: &str,
        key: &str,
        after: Option<&OwnerId>,
        limit: u32,
    ) -> Result<Vec<OwnerId>, StoreError>;

    /// Everything about one event of one owner; none if there is nothing.
    async fn group(&self, owner: &OwnerId, uid: &str) -> Result<Option<Group>, StoreError>;

    // Claims.

    /// Claims for `session` up to `limit` free triggers due at or before `until`, strictly after the cursor (due_at,
    /// id), in order of due instant.
    async fn claim_due(
        &self,
        session: SessionId,
        until: DateTime<Utc>,
        after: Option<(DateTime<Utc>, TriggerId)>,
        limit: u32,
    ) -> Result<Vec<Claimed>, StoreError>;

    /// The due instant of the earliest free trigger due strictly after `after`.
    async fn next_free_due(&self, after: DateTime<Utc>) -> Result<Option<DateTime<Utc>>, StoreError>;

    /// What `session` holds as claimed, due at or before `until`, in pages as [`Store::claim_due`].
    async fn held_by(
        &self,
        session: SessionId,
        until: DateTime<Utc>,
        after: Option<(DateTime<Utc>, TriggerId)>,
        limit: u32,
    ) -> Result<Vec<Claimed>, StoreError>;

    /// Frees lapsed claims: all that dead sessions have claimed; and overdue ones and `sending` rows past `send_within`,
    /// as far as they are among the first `limit` rows of the due index.
    async fn rescue(&self, rules: &RescueRules, limit: u32) -> Result<Rescued, StoreError>;

    // Delivery.

    /// The batched fire-check: of the claims given, those that are still `session`'s at that generation are judged,
    /// and moved to `sending` under `token` or to history, or deferred where their owner has got enough for now. Repeating it with the same token after a lost answer
    /// returns the same grants. Successors due within `near` are claimed at once.
    #[expect(clippy::too_many_arguments, reason = "five, and the receiver")]
    async fn fire_check(
        &self,
        session: SessionId,
        claims: &[Claimed],
        token: AttemptToken,
        judge: &dyn Judge,
        near: Duration,
    ) -> Result<FireCheck, StoreError>;

    /// Records what attempts came to, in order and in few transactions; one poison row does not stop the others. Repeated
    /// after a lost answer it changes nothing, and says `Lost` of what has ended.
    async fn settle(&self, settlements: &[Settlement]) -> Result<Vec<Settled>, StoreError>;

    // Reading.

    /// Lists history.
    async fn history(&self, query: &HistoryQuery) -> Result<Vec<Delivery>, StoreError>;

    /// What became of one trigger; none while nothing is recorded of it.
    async fn delivery(&self, id: TriggerId) -> Result<Option<Delivery>, StoreError>;

    /// Lists the outbox, newest first, strictly after the cursor.
    async fn outbox(
        &self,
        owner: Option<&OwnerId>,
        after: Option<(DateTime<Utc>, TriggerId)>,
        limit: u32,
    ) -> Result<Vec<OutboxEntry>, StoreError>;

    /// Where the backlog stands, counting at most `limit` rows.
    async fn backlog(&self, until: DateTime<Utc>, limit: u32) -> Result<Backlog, StoreError>;

    // Upkeep.

    /// Deletes what is old. Returns how many rows went.
    async fn purge(&self, retention: &Retention) -> Result<u64, StoreError>;

    /// A remembered value, such as the zone data version by which everything was planned.
    async fn remembered(&self, name: &str) -> Result<Option<String>, StoreError>;

    /// Remembers a value.
    async fn remember(&self, name: &str, value: &str) -> Result<(), StoreError>;

    /// The same store for a leader: each of its transactions shows `fence` and fails once there is a later one. Where
    /// there is one process, there is no fence.
    fn fenced(self: Arc<Self>, fence: Option<Fence>) -> Arc<dyn Store>;

    /// How often since it was opened it was interrupted by the database or the network and did its work again.
    fn repeats(&self) -> u64 {
        0
    }

    /// Waits for what is under way and lets go of the database. Nothing can be asked afterwards.
    async fn close(&self);
}
