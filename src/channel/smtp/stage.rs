//! The stages of an attempt, and the time each may take.

use std::future::Future;
use std::io;
use std::time::Duration;

use lettre::transport::smtp::response::Response;

use crate::channel::Deadline;
use crate::channel::smtp::Timeouts;
use crate::clock::Clock;

/// Where an attempt is. Up to [`Stage::Body`] nothing has been sent, whatever happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    Permit,
    Connect,
    Tls,
    Greeting,
    Hello,
    Auth,
    /// RSET on a connection that was left alone for a while or in the middle of a transaction.
    Probe,
    Mail,
    Recipient,
    Data,
    Body,
    Accept,
}

/// A relay that answers at all answers RSET at once; one that does not must not cost the attempt its time.
const PROBE_LIMIT: Duration = Duration::from_secs(5);

impl Stage {
    /// The name in error texts, to be read after "at".
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Permit => "the queue for a connection",
            Self::Connect => "connect",
            Self::Tls => "TLS",
            Self::Greeting => "the greeting",
            Self::Hello => "EHLO",
            Self::Auth => "AUTH",
            Self::Probe => "RSET",
            Self::Mail => "MAIL FROM",
            Self::Recipient => "RCPT TO",
            Self::Data => "DATA",
            Self::Body => "the message body",
            Self::Accept => "the final dot",
        }
    }
}

/// An attempt that failed, and where.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) stage: Stage,
    pub(super) cause: Cause,
}

/// Why a stage failed.
#[derive(Debug)]
pub(super) enum Cause {
    /// The relay said no (4xx, 5xx).
    Refused(Response),
    /// The relay said something that does not belong here; the dialogue is out of step.
    Unexpected(Response),
    /// The relay does not offer what the configuration asks for.
    Missing(&'static str),
    /// The connection failed, or what came over it was not SMTP.
    Lost(io::Error),
    /// The stage took longer than it may.
    TimedOut,
    /// The attempt had no time left when the stage would have begun.
    OutOfTime,
    /// The relay is down, and it is not yet time to look whether it is back.
    LeftAlone,
    /// Others needed the connection more.
    GaveWay,
}

impl Failure {
    /// Whether the connection can serve another transaction.
    pub(super) fn leaves_dialogue_in_step(&self) -> bool {
        matches!(&self.cause, Cause::Refused(reply) if !reply.has_code(421))
    }
}

/// Runs the stages of one attempt, each within its limit and all within the deadline.
#[derive(Debug, Clone, Copy)]
pub(super) struct Steps<'a> {
    pub(super) clock: &'a dyn Clock,
    pub(super) timeouts: &'a Timeouts,
    pub(super) deadline: Deadline,
    /// How long it may wait for others, so that enough is left for itself.
    pub(super) patience: Duration,
    /// How much must be left when the final dot is written: a reply that is cut off is a message in doubt.
    pub(super) for_reply: Duration,
}

impl<'a> Steps<'a> {
    /// An attempt that begins now.
    pub(super) fn new(clock: &'a dyn Clock, timeouts: &'a Timeouts, deadline: Deadline) -> Self {
        let whole = deadline.0.saturating_sub(clock.elapsed());
        Self {
            clock,
            timeouts,
            deadline,
            patience: whole / 4,
            for_reply: timeouts.accept.min(whole / 3),
        }
    }

    /// Runs `work` as `stage`. It does not begin when the deadline has passed.
    pub(super) async fn run<T, F>(&self, stage: Stage, work: F) -> Result<T, Failure>
    where
        F: Future<Output = io::Result<T>> + Send,
    {
        let left = self.deadline.0.saturating_sub(self.clock.elapsed());
        let is_too_late = stage == Stage::Accept && left < self.for_reply;
        let cause = if left.is_zero() || is_too_late {
            Cause::OutOfTime
        } else {
            match tokio::time::timeout(left.min(self.limit(stage)), work).await {
                Ok(Ok(value)) => return Ok(value),
                Ok(Err(error)) => Cause::Lost(error),
                Err(_) => Cause::TimedOut,
            }
        };
        Err(Failure { stage, cause })
    }

    fn limit(&self, stage: Stage) -> Duration {
        let timeouts = self.timeouts;
        match stage {
            Stage::Permit => self.patience,
            Stage::Connect | Stage::Tls => timeouts.connect,
            Stage::Greeting | Stage::Hello | Stage::Auth => timeouts.greeting,
            Stage::Probe => timeouts.mail.min(PROBE_LIMIT),
            Stage::Mail => timeouts.mail,
            Stage::Recipient => timeouts.recipient,
            Stage::Data => timeouts.data,
            Stage::Body => timeouts.body,
            Stage::Accept => timeouts.accept,
        }
    }

    /// Runs `work`, which ends in a reply that must begin with `wanted` (2 or 3).
    pub(super) async fn reply<F>(&self, stage: Stage, wanted: u16, work: F) -> Result<Response, Failure>
    where
        F: Future<Output = io::Result<Response>> + Send,
    {
        let reply = self.run(stage, work).await?;
        let cause = match u16::from(reply.code()) / 100 {
            severity if severity == wanted => return Ok(reply),
            4 | 5 => Cause::Refused(reply),
            _ => Cause::Unexpected(reply),
        };
        Err(Failure { stage, cause })
    }
}
