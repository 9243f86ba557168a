//! E-mail: a letter is composed ([`compose`]) and handed to the relay ([`smtp::Relay`]).

mod compose;

use std::sync::Arc;

use crate::channel::Channel;
use crate::channel::Deadline;
use crate::channel::Message;
use crate::channel::Report;
use crate::channel::smtp;
use crate::clock::Clock;

pub use self::compose::ComposeError;
pub use self::compose::Letter;
pub use self::compose::Letterhead;
pub use self::compose::compose;

/// Sends by e-mail through one relay.
#[derive(Debug)]
pub struct EmailChannel {
    relay: smtp::Relay,
    clock: Arc<dyn Clock>,
}

impl EmailChannel {
    /// Prepares for the relay; nothing is connected yet.
    ///
    /// # Errors
    /// When TLS is asked for and cannot be set up.
    pub fn new(config: smtp::Config, clock: Arc<dyn Clock>) -> Result<Self, smtp::TlsError> {
        let relay = smtp::Relay::new(config, clock.clone())?;
        Ok(Self { relay, clock })
    }
}

#[async_trait::async_trait]
impl Channel for EmailChannel {
    async fn send(&self, message: &Message, deadline: Deadline) -> Report {
        let config = self.relay.config();
        match compose(&config.letterhead, message, self.clock.now()) {
            Ok(letter) => {
                let letter = Letter {
                    sender: config.envelope_sender.clone(),
                    ..letter
                };
                self.relay.submit(&letter, deadline).await
            }
            Err(error) => Report::Permanent {
                error: error.to_string(),
            },
        }
    }

    fn permits(&self) -> usize {
        self.relay.permits()
    }
}
