//! How much one owner gets.

use std::time::Duration;

/// How many messages of one channel one owner gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// So many in any timeframe; 0: none at all.
    pub amount: u32,
    /// The timeframe.
    pub timeframe: Duration,
    /// What becomes of the others.
    pub over: OnLimit,
    /// An attempt under way has ended so long after its fire-check.
    pub send_within: Duration,
    /// The channel fires so much earlier than what is due, in milliseconds; negative is later.
    pub time_shift_ms: i64,
}

impl Limit {
    /// Whether there is more room under `new` than under `old`, so that what waits may leave earlier.
    pub fn is_wider(old: Option<Self>, new: Option<Self>) -> bool {
        match (old, new) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some(old), Some(new)) => new.amount > old.amount || new.timeframe < old.timeframe,
        }
    }
}

/// What becomes of a trigger over the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnLimit {
    /// It waits for a slot, if that is not too late.
    Defer,
    /// It is recorded as suppressed.
    Drop,
    /// It is told in the message that takes the last slot; what comes later waits, and leaves as one message.
    Digest,
}
