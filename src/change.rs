//! The change handler: what a calendar or a person changes becomes alarms and triggers, in one transaction.

use std::sync::Arc;
use std::time::Duration;

use crate::store::EventKey;
use crate::store::Owner;
use crate::store::Store;
use crate::store::StoreError;
use crate::store::Version;

/// What an alarm means where the standards leave a choice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policies {
    /// Whether DISPLAY and AUDIO alarms become e-mail.
    pub display: Display,
    /// How late a trigger may already be when its event is created or moved, and still be sent at once.
    pub late_grace: Duration,
}

/// What becomes of DISPLAY and AUDIO alarms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Display {
    /// They are the client's affair.
    Skip,
    /// They become e-mail.
    Deliver,
}

/// A change as it arrives.
#[derive(Debug, Clone)]
pub struct Incoming {
    /// Which copy.
    pub at: EventKey,
    /// The source's version, if it names one.
    pub version: Option<Version>,
    /// The iCalendar text in whatever encoding; none deletes.
    pub ics: Option<Vec<u8>>,
}

/// What became of an incoming change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Whether it was taken.
    pub result: ChangeResult,
    /// Triggers planned by it.
    pub planned: usize,
    /// Triggers withdrawn by it.
    pub withdrawn: usize,
    /// What was read leniently, which alarms will not fire and why.
    pub warnings: Vec<String>,
}

/// Whether a change was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeResult {
    /// It is stored and planned.
    Applied,
    /// It says what is stored.
    Unchanged,
    /// It is older than what is stored; nothing was done.
    Stale,
    /// It contradicts what is stored (409).
    Conflict(String),
    /// It cannot be understood (422), or its owner is unknown.
    Rejected(Vec<Complaint>),
}

/// What is wrong with a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Complaint {
    /// `VEVENT` …, where the text got so far.
    pub component: Option<String>,
    /// The line, from 1.
    pub line: Option<usize>,
    /// What is wrong, with the value and the cure.
    pub reason: String,
}

/// Takes changes.
#[derive(Debug, Clone)]
pub struct ChangeHandler {
    store: Arc<dyn Store>,
}

impl ChangeHandler {
    /// Applies changes in order, in as few transactions as their number allows; answers come in the same order.
    pub async fn apply(&self, _incoming: Vec<Incoming>) -> Result<Vec<Answer>, StoreError> {
        let _ = &self.store;
        todo!()
    }

    /// Creates or replaces an owner, and plans again what depends on it. Returns the owner before.
    pub async fn put_owner(&self, _owner: Owner) -> Result<Option<Owner>, StoreError> {
        todo!()
    }
}
