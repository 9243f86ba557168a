//! What became of triggers, and how it is asked for and kept.

use chrono::DateTime;
use chrono::Utc;

use crate::store::KeptMessage;
use crate::trigger::ChannelKind;
use crate::trigger::OwnerId;
use crate::trigger::Place;
use crate::trigger::TriggerId;
use crate::trigger::Wish;
use crate::trigger::outcome::Outcome;
use crate::trigger::outcome::Reason;

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
    /// By what name the other side knows the message.
    pub reference: Option<String>,
    /// When the last attempt began.
    pub started_at: Option<DateTime<Utc>>,
    /// Until when a report was expected, where one was.
    pub await_until: Option<DateTime<Utc>>,
    /// What the report said, beside the outcome.
    pub report: Option<String>,
    /// When the report came.
    pub reported_at: Option<DateTime<Utc>>,
    /// When the first attempt began.
    pub first_started_at: Option<DateTime<Utc>>,
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
    /// Of stand-alone alarms alone; where an owner is named.
    pub standalone: bool,
    /// Of this event.
    pub event_uid: Option<String>,
    /// With this outcome.
    pub outcome: Option<Outcome>,
    /// Through this way out; of stand-alone alarms.
    pub channel: Option<ChannelKind>,
    /// Of alarms that call this target, as it was asked for: a URL or the name of a handler; of stand-alone alarms.
    pub target: Option<String>,
    /// Those that were not handed over as far as anybody knows: failed, expired, or in doubt and not tried again; of
    /// stand-alone alarms.
    pub failed: bool,
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
