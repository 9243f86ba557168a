//! What becomes of a trigger whose row still exists, before it is written.

use chrono::DateTime;
use chrono::Utc;

use crate::trigger::TriggerId;
use crate::trigger::outcome::Outcome;
use crate::trigger::outcome::Reason;

/// How long what another side said may be in history, in characters.
const LONGEST_DETAIL: usize = 500;

/// What became of a trigger whose row still exists.
#[derive(Debug, Clone)]
pub struct Ending {
    /// Which trigger.
    pub id: TriggerId,
    /// What became of it.
    pub outcome: Outcome,
    /// Why.
    pub reason: Reason,
    /// What the other side said.
    pub detail: String,
    /// Attempts to count beyond those the row has.
    pub attempts: u32,
    /// When the other side had it.
    pub handed_over_at: Option<DateTime<Utc>>,
    /// By what name the other side knows it.
    pub reference: Option<String>,
    /// Until when a report is expected.
    pub await_until: Option<DateTime<Utc>>,
}

impl Ending {
    /// An end without an attempt.
    pub fn plain(id: TriggerId, outcome: Outcome, reason: Reason) -> Self {
        Self {
            id,
            outcome,
            reason,
            detail: String::new(),
            attempts: 0,
            handed_over_at: None,
            reference: None,
            await_until: None,
        }
    }
}

/// Cuts what another side said to what history keeps.
pub fn shortened(text: &str) -> String {
    text.chars().filter(|c| *c != '\0').take(LONGEST_DETAIL).collect()
}
