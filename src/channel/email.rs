//! E-mail: a letter is composed ([`compose()`]) and handed to the relay ([`smtp::Relay`]).

mod compose;

use std::sync::Arc;

use crate::channel::Channel;
use crate::channel::Deadline;
use crate::channel::Message;
use crate::channel::Report;
use crate::channel::smtp;
use crate::clock::Clock;

pub use self::compose::ComposeError;
pub use self::compose::Letterhead;
pub use self::compose::compose;

/// Sends by e-mail through one relay.
#[derive(Debug)]
pub struct EmailChannel {
    relay: smtp::Relay,
    letterhead: Letterhead,
    clock: Arc<dyn Clock>,
}

impl EmailChannel {
    /// Prepares for the relay; nothing is connected yet.
    ///
    /// # Errors
    /// When TLS is asked for and cannot be set up.
    pub fn new(
        letterhead: Letterhead,
        relay: smtp::Config,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, smtp::TlsError> {
        Ok(Self {
            relay: smtp::Relay::new(relay, clock.clone())?,
            letterhead,
            clock,
        })
    }
}

#[async_trait::async_trait]
impl Channel for EmailChannel {
    async fn send(&self, message: &Message, deadline: Deadline) -> Report {
        match compose(&self.letterhead, message, self.clock.now()) {
            Ok(letter) => self.relay.submit(&letter, deadline).await,
            Err(error) => Report::Permanent {
                error: error.to_string(),
            },
        }
    }

    fn name(&self) -> &'static str {
        "smtp"
    }

    fn connections(&self) -> Option<(usize, usize)> {
        Some(self.relay.connections())
    }

    fn permits(&self) -> usize {
        self.relay.permits()
    }
}
