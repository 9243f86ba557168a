//! What we remember. [`Store`] speaks in domain verbs; every state change is a compare-and-set whose row count is
//! checked, so that two nodes that want the same thing cannot both get it.
//!
//! The decisions themselves are pure and belong to the stages. Where a decision must be taken on what the transaction
//! sees, the stage hands it in ([`Editor`] for changes, [`Judge`] for the fire-check) and the store calls it between
//! reading and writing. Such a decision must not block.
//!
//! Claims, liveness and overdue are judged by the store's own clock: the database's where there is a server, the clock
//! given at `open` where the database is part of this process.

mod addressee;
mod altering;
mod change;
mod decided;
mod ending;
mod epoch;
mod failure;
mod feed;
mod firing;
mod gathering;
mod group;
mod history;
mod judged;
mod lapse;
mod limit;
mod owner;
mod page;
pub mod postgres;
mod reporting;
mod room;
pub mod row;
mod schema;
mod series;
mod session;
mod settling;
pub mod sqlite;
mod standalone;
pub mod token;
mod value;

pub use addressee::Addressee;
pub use change::Acceptance;
pub use change::Alarm;
pub use change::Answering;
pub use change::Change;
pub use change::ChangeBody;
pub use change::Changed;
pub use change::Edit;
pub use change::Editor;
pub use change::EventCopy;
pub use change::EventKey;
pub use change::Group;
pub use change::NearClaim;
pub use change::Record;
pub use change::Version;
pub use change::Withdrawn;
pub use ending::Ending;
pub use epoch::Course;
pub use epoch::Doubtful;
pub use epoch::Epoch;
pub use epoch::EpochId;
pub use epoch::Epochs;
pub use epoch::HandOver;
pub use epoch::Heartbeat;
pub use epoch::Lost;
pub use epoch::Mark;
pub use epoch::RECORDING;
pub use failure::StoreError;
pub use feed::AlarmChange;
pub use feed::AlarmFeed;
pub use feed::FiringChange;
pub use feed::FiringCount;
pub use firing::AttemptEnd;
pub use firing::Candidate;
pub use firing::Claimed;
pub use firing::FireCheck;
pub use firing::Judge;
pub use firing::Judgement;
pub use firing::KeptMessage;
pub use firing::Recall;
pub use firing::Recalled;
pub use firing::Settled;
pub use firing::Settlement;
pub use firing::Succession;
pub use firing::Verdict;
pub use history::Backlog;
pub use history::Delivery;
pub use history::HistoryQuery;
pub use history::OutboxEntry;
pub use history::Retention;
pub use owner::DeadAddress;
pub use owner::Owner;
pub use owner::PlanMark;
pub use owner::Replaced;
pub use owner::SigningSecrets;
pub use owner::Webhook;
pub use owner::WebhookNews;
pub use reporting::Noted;
pub use reporting::Notice;
pub use room::Room;
pub use series::LiveSeries;
pub use session::Fence;
pub use session::Living;
pub use session::Report;
pub use session::RescueRules;
pub use session::Rescued;
pub use standalone::AlarmAt;
pub use standalone::AlarmCount;
pub use standalone::AlarmEdit;
pub use standalone::AlarmEditor;
pub use standalone::AlarmQuery;
pub use standalone::AlarmRefusal;
pub use standalone::AlarmStatus;
pub use standalone::AlarmTerms;
pub use standalone::Altered;
pub use standalone::Standalone;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use chrono::DateTime;
use chrono::Utc;

use crate::store::token::AccessTokens;
use crate::trigger::AlarmId;
use crate::trigger::AttemptToken;
use crate::trigger::ChannelKind;
use crate::trigger::OwnerId;
use crate::trigger::SessionId;
use crate::trigger::TriggerId;

/// What we remember.
#[async_trait::async_trait]
pub trait Store: AccessTokens + AlarmFeed + Epochs + LiveSeries + Send + Sync + std::fmt::Debug {
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

    /// Gives back what the session holds as claimed (never `sending`), and lets it be given nothing more. Returns how many
    /// were given back.
    async fn give_back(&self, session: SessionId) -> Result<u64, StoreError>;

    /// Ends the session, which gives back what it holds as claimed. Returns how many were given back.
    async fn end_session(&self, session: SessionId) -> Result<u64, StoreError>;

    // Owners.

    /// Creates or replaces an owner. Where events read differently now, it is noted that they must be planned again.
    async fn put_owner(&self, owner: &Owner) -> Result<Replaced, StoreError>;

    /// Creates an owner; one that is there stays as it is. Says whether it was created.
    async fn add_owner(&self, owner: &Owner) -> Result<bool, StoreError>;

    /// Reads an owner.
    async fn owner(&self, id: &OwnerId) -> Result<Option<Owner>, StoreError>;

    /// Notes what was learnt of the webhook of an owner, if it is still this one and that is news. Says whether it was.
    async fn webhook_news(&self, id: &OwnerId, url: &str, news: WebhookNews<'_>) -> Result<bool, StoreError>;

    /// Notes that the e-mail address of an owner is dead, if it is still this one and that is news. Says whether it was.
    async fn address_died(&self, id: &OwnerId, email: &str, dead: &DeadAddress) -> Result<bool, StoreError>;

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

    /// Replaces what the owner answered to reminders of an event of theirs by `answering.after`, if it still is
    /// `answering.before` and there is a copy of the event, and edits the group in the same transaction. None: it is not.
    async fn answer(
        &self,
        key: &(OwnerId, String),
        answering: &Answering,
        editor: &dyn Editor,
        near: Option<NearClaim>,
    ) -> Result<Option<Changed>, StoreError>;

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

    // Stand-alone alarms.

    /// Creates or alters stand-alone alarms in one transaction, each as the editor decides on what is stored; no two of
    /// them may be the same. An unknown owner is an error of that alarm alone.
    async fn alter_alarms(
        &self,
        alarms: &[AlarmAt],
        editor: &dyn AlarmEditor,
        near: Option<NearClaim>,
    ) -> Result<Vec<Result<Altered, StoreError>>, StoreError>;

    /// One stand-alone alarm of this owner.
    async fn alarm(&self, owner: &OwnerId, id: &AlarmId) -> Result<Option<Standalone>, StoreError>;

    /// Lists stand-alone alarms.
    async fn alarms(&self, query: &AlarmQuery) -> Result<Vec<Standalone>, StoreError>;

    /// How many stand-alone alarms and firings of them there are; costs the same however many.
    async fn alarm_counts(&self, owner: &OwnerId) -> Result<Vec<AlarmCount>, StoreError>;

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

    /// Makes triggers due that wait for slots in limits until later, free ones and those that the session holds: their
    /// fire-checks find the slots that there are by now.
    async fn recall(&self, recall: Recall) -> Result<Recalled, StoreError>;

    /// Records what attempts came to, in order and in few transactions; one poison row does not stop the others. Repeated
    /// after a lost answer it changes nothing, and says `Lost` of what has ended.
    async fn settle(&self, settlements: &[Settlement]) -> Result<Vec<Settled>, StoreError>;

    /// Records what is said of messages after they were handed over, in order. History only moves forward: a report that
    /// comes again, or behind one that says more, changes nothing. One that comes before its attempt is settled is kept,
    /// and the settle adds to it; what waits to be sent again is not.
    async fn report(&self, notices: &[Notice]) -> Result<Vec<Noted>, StoreError>;

    /// Moves up to `limit` deliveries to `timeout_unknown` that have awaited a report for too long, the oldest first.
    /// Returns how many of each channel.
    async fn time_out(&self, limit: u32) -> Result<BTreeMap<ChannelKind, u64>, StoreError>;

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

    /// Remembers a value unless there is one of that name. Returns the one that is remembered: whoever asks gets the same.
    async fn remember_first(&self, name: &str, value: &str) -> Result<String, StoreError>;

    /// The same store for a leader: each of its transactions shows `fence` and fails once there is a later one. Where
    /// there is one process, there is no fence.
    fn fenced(self: Arc<Self>, fence: Option<Fence>) -> Arc<dyn Store>;

    /// How often since it was opened it was interrupted by the database or the network and did its work again.
    fn repeats(&self) -> u64 {
        0
    }

    /// Room on the disk, where the store is a file of this node.
    fn room(&self) -> Option<Room> {
        None
    }

    /// Waits for what is under way and lets go of the database. Nothing can be asked afterwards.
    async fn close(&self);
}
