//! Where the triggers of the bench go.

use carillon::channel::Channel;
use carillon::channel::Deadline;
use carillon::channel::Message;
use carillon::channel::Report;

/// Where the triggers of the bench go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// A channel that accepts everything and does nothing.
    Nothing,
    /// Debian's `smtp-sink`, by SMTP.
    SmtpSink,
}

impl Way {
    /// Its name in the table.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nothing => "does nothing",
            Self::SmtpSink => "smtp-sink, 8 connections",
        }
    }
}

/// Accepts everything and does nothing.
#[derive(Debug)]
pub struct NothingChannel;

#[async_trait::async_trait]
impl Channel for NothingChannel {
    async fn send(&self, _message: &Message, _deadline: Deadline) -> Report {
        Report::Accepted {
            reply: String::new(),
            kept: None,
            reference: None,
            awaits: None,
        }
    }

    fn permits(&self) -> usize {
        1_000
    }

    fn name(&self) -> &'static str {
        "nothing"
    }
}
