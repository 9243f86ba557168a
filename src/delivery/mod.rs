//! Every node fires what it holds.
//!
//! ```text
//! claims ─▶ arm ─▶ lane: take due ─▶ fire-check (one batch, one transaction) ─▶ send, each in its task
//!            ▲                                                                        │
//!            └──── retry, successor due soon ◀──── settle (one batch, one transaction) ◀
//! ```
//!
//! No transaction is open while bytes go out. When the process dies, what was armed is claimed again after the next
//! start; what was `sending` is in doubt, and goes by the channel's `on_doubt`. A timer may be stale at any time: the
//! fire-check decides.

pub mod arm;
mod digest;
mod domains;
pub mod endpoint;
pub mod fire;
pub mod lane;
mod learn;
mod limiter;
pub mod message;
pub mod notice;
mod places;
pub mod recall;
pub mod reminder;
pub mod settle;
pub mod settler;
mod throughput;
mod waiting;

use std::num::NonZeroU32;
use std::time::Duration;

use crate::trigger::limit::Limit;
use crate::trigger::limit::OnLimit;
use crate::trigger::retry;

/// How delivery works, for all channels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// How long after its fire-check an attempt may still send.
    pub send_within: Duration,
    /// How long after its trigger instant a trigger is of use at the most.
    pub max_lateness: Duration,
    /// How long calls of a webhook may fail, with none that succeeds between, before it is disabled.
    pub disable_after: Duration,
    /// What becomes of triggers that nobody held when they were due.
    pub catch_up: CatchUp,
    /// How long nothing is sent to an address that is dead; zero: it is tried every time.
    pub suppress_for: Duration,
}

/// What becomes of a trigger that was planned and missed: nobody ran, so that it was claimed only when it was late already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CatchUp {
    /// It is sent while it is of use, and says that it is late.
    Send,
    /// It is recorded as missed.
    Drop,
    /// All that one recipient missed is sent as one message while it is of use.
    Digest,
}

/// How delivery works for one channel.
#[derive(Debug, Clone, PartialEq)]
pub struct ChannelConfig {
    /// Whether this channel delivers; owners may still mute it for themselves.
    pub enabled: bool,
    /// Sends earlier by so much, in milliseconds; negative is later.
    pub time_shift_ms: i64,
    /// Retries.
    pub retry: retry::Policy,
    /// Whether an attempt whose end is unknown is repeated (with the same id) or ends `in_doubt`.
    pub on_doubt: OnDoubt,
    /// How many messages a second leave through it from each node, if that is limited.
    pub throughput: Option<NonZeroU32>,
    /// How many mails a second leave for one domain from each node, if that is limited.
    pub domain_throughput: Option<NonZeroU32>,
    /// How many messages one owner gets, if that is limited.
    pub limit: Option<Limit>,
    /// How much of an event is told.
    pub content: Detail,
}

impl ChannelConfig {
    /// Whether what is due for one recipient may go out as one message.
    pub fn gathers(&self, catch_up: CatchUp) -> bool {
        catch_up == CatchUp::Digest || self.limit.is_some_and(|limit| limit.over == OnLimit::Digest)
    }
}

/// How much of an event is told, least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Detail {
    /// When it is.
    None,
    /// When it is and what it is called.
    Title,
    /// All of it.
    Full,
}

/// What to do about an attempt whose end is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnDoubt {
    /// Send again with the same id.
    Retry,
    /// Record `in_doubt`.
    Fail,
}
