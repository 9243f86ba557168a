//! The loop that drives planner and janitor: on a period, on nudges, and when the earliest free trigger comes near.

use std::time::Duration;

/// How the worker works; names as operators know them from message-alarm workers.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize)]
pub struct Config {
    /// Whether this node plans and delivers at all.
    pub enabled: bool,
    /// How often it looks ahead.
    pub period: Duration,
    /// How long after process start it looks for the first time.
    pub initial_delay: Duration,
    /// How far it looks ahead; at least `period`.
    pub look_ahead: Duration,
    /// How long after it was due a claim is taken away from whoever holds it.
    pub overdue_wait_time: Duration,
}
