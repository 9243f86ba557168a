//! Sessions: who is there, who leads, and what is done about those who are gone.

use std::time::Duration;

use crate::store::Mark;
use crate::trigger::ChannelKind;
use crate::trigger::SessionId;

/// What a session says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    /// Whether it may be given claims.
    pub delivers: bool,
    /// Its number in the cluster, where it has one.
    pub peer: Option<i64>,
    /// How many triggers it holds.
    pub pending: u64,
    /// The last pair of epoch and watermark that it saw.
    pub seen: Option<Mark>,
    /// Whether nothing is to be fired in an epoch that it begins.
    pub hold: bool,
    /// What its transactions show, where it leads.
    pub fence: Option<Fence>,
}

impl Default for Report {
    fn default() -> Self {
        Self {
            delivers: true,
            peer: None,
            pending: 0,
            seen: None,
            hold: false,
            fence: None,
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
