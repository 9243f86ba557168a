//! The outbox: where messages go while no relay is configured. Nothing leaves; the settle keeps the whole message, the
//! same that a relay would have been given, for people to read.

use std::sync::Arc;

use crate::channel::Channel;
use crate::channel::Deadline;
use crate::channel::Kept;
use crate::channel::Message;
use crate::channel::Report;
use crate::channel::email::Letterhead;
use crate::channel::email::compose;
use crate::clock::Clock;

/// Composing takes no time worth waiting for, so that a batch may be as large as the store likes it.
const PERMITS: usize = 64;

/// Accepts every message that could be sent.
#[derive(Debug)]
pub struct OutboxChannel {
    letterhead: Letterhead,
    clock: Arc<dyn Clock>,
}

impl OutboxChannel {
    /// An outbox whose messages carry this letterhead.
    pub fn new(letterhead: Letterhead, clock: Arc<dyn Clock>) -> Self {
        Self { letterhead, clock }
    }
}

#[async_trait::async_trait]
impl Channel for OutboxChannel {
    async fn send(&self, message: &Message, deadline: Deadline) -> Report {
        if self.clock.elapsed() >= deadline.0 {
            return Report::Abandoned;
        }
        match compose(&self.letterhead, message, self.clock.now()) {
            Ok(letter) => Report::Accepted {
                reply: "kept in the outbox".to_owned(),
                kept: Some(Kept { raw: letter.raw }),
            },
            Err(error) => Report::Permanent {
                error: error.to_string(),
            },
        }
    }

    fn permits(&self) -> usize {
        PERMITS
    }
}
