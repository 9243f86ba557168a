//! The ways out. A channel sends one message and returns facts; it decides nothing about retries and writes nothing:
//! `delivery` turns the facts into decisions, and the settle writes them.

pub mod breaker;
pub mod email;
mod endpoints;
pub mod handler;
pub mod http;
pub mod outbox;
pub mod receipt;
pub mod seats;
pub mod sms;
pub mod smtp;
pub mod webhook;

use std::sync::Arc;
use std::time::Duration;

use crate::channel::breaker::Openness;

/// Bytes of a payload that a target asks to be given back, and that are kept.
pub const PAYLOAD: usize = 16 * 1024;

/// What is to be sent, rendered for one recipient.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The trigger's id, 32 hexadecimal digits: Message-ID and idempotency key come from it.
    pub id: String,
    /// Name of the synthetic thread of the event, the same for all its reminders (no `@`).
    pub thread: String,
    /// A number that stands for its owner: what one owner is sent never waits for another's, where a channel can help it.
    pub owner: u64,
    /// Where it goes: an address, number or URL.
    pub to: String,
    /// What it says, in the form that the channel takes.
    pub content: Content,
    /// BCP 47 tag of the text.
    pub language: String,
    /// How long one call may take, from its beginning; none: as long as the channel has it.
    pub within: Option<Duration>,
    /// What its owner alone has.
    pub own: Own,
}

/// What a message has of its owner alone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Own {
    /// The link epoch: links in the message are good while the owner is in it.
    pub link_epoch: i64,
    /// What signs a call; none: as the configuration says.
    pub secrets: Option<webhook::Secrets>,
}

impl Message {
    /// A number that tells messages apart, the same at every attempt.
    fn number(&self) -> u64 {
        let tail = self
            .id
            .get(self.id.len().saturating_sub(16)..)
            .unwrap_or_default();
        u64::from_str_radix(tail, 16).unwrap_or_default()
    }
}

/// What a message says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// For e-mail.
    Letter {
        /// One line, no control characters.
        subject: String,
        /// Plain text.
        text: String,
        /// The same as HTML.
        html: String,
    },
    /// A short text, for text messages.
    Text(String),
    /// A JSON document, for programs.
    Json(String),
}

/// The time an attempt may take. The moment is one of the boot-time clock ([`crate::clock::Clock::elapsed`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadline(pub Duration);

/// What an attempt came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    /// Accepted; the reply, without personal data.
    Accepted {
        /// What the other side said (queue id).
        reply: String,
        /// The message itself, where it stays with us.
        kept: Option<Kept>,
        /// The name by which the other side knows the message.
        reference: Option<String>,
        /// How long the other side has to report what became of it; none: being accepted is the end.
        awaits: Option<Duration>,
    },
    /// Refused for now.
    Transient {
        /// What happened, without personal data.
        error: String,
        /// Whose fault: the target as a whole (relay down; burns no attempt) or this message.
        of: Blame,
        /// What the other side asked for.
        retry_after: Option<Duration>,
    },
    /// Refused for good.
    Permanent {
        /// What happened, without personal data.
        error: String,
    },
    /// Lost where acceptance cannot be known.
    InDoubt {
        /// What happened, without personal data.
        error: String,
    },
    /// The target said that it is gone for good: nothing else that goes there fares better, ever.
    Gone {
        /// What happened, without personal data.
        error: String,
    },
    /// Not sent, since what leads there is taken: there is room after so long.
    Busy {
        /// What is taken, without personal data.
        error: String,
        /// When to try again.
        after: Duration,
    },
    /// The target has it, and asked to be given it again.
    Again {
        /// After so long.
        after: Duration,
        /// What it wants to be given back then: a JSON document.
        payload: Option<String>,
    },
    /// The deadline passed before anything that matters was written: nothing was sent.
    Abandoned,
}

/// Whose fault a transient failure is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blame {
    /// The relay or endpoint: no message fares better.
    Target,
    /// This message or recipient.
    Message,
}

/// A message that stays with us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// The whole message as it would have left (RFC 5322).
    pub raw: String,
}

/// Told what each provider or relay, by its name, made of a message that was put to it.
pub type Witness = Arc<dyn Fn(&str, &Report) + Send + Sync>;

/// A way out.
#[async_trait::async_trait]
pub trait Channel: Send + Sync + std::fmt::Debug {
    /// Sends one message. The whole attempt ends by `deadline`; the channel looks at it before the first byte and
    /// again before the bytes by which the other side takes responsibility.
    async fn send(&self, message: &Message, deadline: Deadline) -> Report;

    /// The name of the implementation in metrics, such as `smtp`.
    fn name(&self) -> &'static str;

    /// Connections in use and idle, for channels that keep some, each by the name of what they lead to.
    fn connections(&self) -> Vec<(String, usize, usize)> {
        Vec::new()
    }

    /// How many sends may be under way at once.
    fn permits(&self) -> usize;

    /// How many of them may be now: fewer where the other side is slow, since what is under way has no turn any more.
    fn permits_now(&self) -> usize {
        self.permits()
    }

    /// How many of them may be in flight where a message whose end is unknown is not sent again: what waits in flight at
    /// a crash is lost then.
    fn permits_in_doubt(&self) -> usize {
        self.permits()
    }

    /// How many of them may be one owner's, where owners share what is behind this channel; they are no more than there is
    /// left for others in any case. None: nobody stands in another's way.
    fn permits_of_one(&self) -> Option<usize> {
        Some(self.permits())
    }

    /// Whether what is sent for `owner` takes longer than what is sent for others: such owners have half of what may be under
    /// way between them.
    fn is_slow(&self, _owner: u64) -> bool {
        false
    }

    /// How many may send now: while nobody on the other side is there, what is due waits where it is.
    fn openness(&self) -> Openness {
        Openness::Everybody
    }

    /// The breakers of this channel, each by the name of what it stands for, and whether it is open.
    fn breakers(&self) -> Vec<(String, bool)> {
        Vec::new()
    }
}
