//! Pages of the due index.

use chrono::DateTime;
use chrono::Utc;

use crate::trigger::TriggerId;

/// A position in the order of (due_at, id), exclusive.
pub type Cursor = Option<(DateTime<Utc>, TriggerId)>;

/// One page of the due index.
#[derive(Debug, Clone, Copy)]
pub struct Page {
    /// Due at or before.
    pub until: DateTime<Utc>,
    /// Strictly after.
    pub after: Cursor,
    /// Rows at most.
    pub limit: u32,
}
