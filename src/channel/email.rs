//! E-mail: a letter is composed ([`compose()`]), signed where there is a key ([`dkim`]), and handed to a relay ([`smtp::Relay`]).

mod compose;
pub mod dkim;

use std::sync::Arc;

use crate::channel::Blame;
use crate::channel::Channel;
use crate::channel::Deadline;
use crate::channel::Message;
use crate::channel::Report;
use crate::channel::Witness;
use crate::channel::breaker::Openness;
use crate::channel::smtp;
use crate::clock::Clock;

pub use self::compose::ComposeError;
pub use self::compose::Letterhead;
pub use self::compose::compose;

/// Sends by e-mail: through the first relay that is there and takes the message.
#[derive(Debug)]
pub struct EmailChannel {
    relays: Vec<smtp::Relay>,
    letterhead: Letterhead,
    signer: Option<dkim::Signer>,
    clock: Arc<dyn Clock>,
}

impl EmailChannel {
    /// Prepares for the relays, in the order in which they are asked; nothing is connected yet.
    ///
    /// # Errors
    /// When TLS is asked for and cannot be set up.
    pub fn new(
        letterhead: Letterhead,
        relays: impl IntoIterator<Item = smtp::Config>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, smtp::TlsError> {
        let relays = relays
            .into_iter()
            .map(|relay| smtp::Relay::new(relay, clock.clone()));
        Ok(Self {
            relays: relays.collect::<Result<_, _>>()?,
            letterhead,
            signer: None,
            clock,
        })
    }

    /// The same, with mails that this one signs.
    #[must_use]
    pub fn signed_by(self, signer: Option<dkim::Signer>) -> Self {
        Self { signer, ..self }
    }

    /// The same, which tells `witness` what each relay makes of a message.
    #[must_use]
    pub fn witnessed_by(self, witness: &Witness) -> Self {
        let relays = self.relays.into_iter();
        let relays = relays
            .map(|relay| relay.witnessed_by(Arc::clone(witness)))
            .collect();
        Self { relays, ..self }
    }

    fn letter(&self, message: &Message) -> Result<smtp::Letter, ComposeError> {
        let now = self.clock.now();
        let mut letter = compose(&self.letterhead, message, now)?;
        if let Some(signer) = &self.signer {
            letter.raw = signer.sign(&letter.raw, now);
        }
        Ok(letter)
    }

    /// The next relay is asked only where it is certain that the last one has not taken the message.
    async fn submit(&self, letter: &smtp::Letter, deadline: Deadline) -> Report {
        let mut last = None;
        for relay in &self.relays {
            match relay.submit(letter, deadline).await {
                report @ Report::Transient {
                    of: Blame::Target, ..
                } => last = Some(report),
                report => return report,
            }
        }
        last.unwrap_or(Report::Abandoned)
    }
}

#[async_trait::async_trait]
impl Channel for EmailChannel {
    async fn send(&self, message: &Message, deadline: Deadline) -> Report {
        match self.letter(message) {
            Ok(letter) => self.submit(&letter, deadline).await,
            Err(error) => Report::Permanent {
                error: error.to_string(),
            },
        }
    }

    fn name(&self) -> &'static str {
        "smtp"
    }

    fn connections(&self) -> Vec<(String, usize, usize)> {
        let of = |relay: &smtp::Relay| {
            let (busy, idle) = relay.connections();
            (relay.name(), busy, idle)
        };
        self.relays.iter().map(of).collect()
    }

    fn permits(&self) -> usize {
        self.relays.iter().map(smtp::Relay::permits).max().unwrap_or(1)
    }

    fn permits_now(&self) -> usize {
        self.relays
            .iter()
            .map(smtp::Relay::permits_now)
            .max()
            .unwrap_or(1)
    }

    fn permits_in_doubt(&self) -> usize {
        self.relays
            .iter()
            .map(smtp::Relay::max_connections)
            .max()
            .unwrap_or(1)
    }

    fn is_slow(&self, owner: u64) -> bool {
        self.relays.iter().any(|relay| relay.is_slow(owner))
    }

    fn openness(&self) -> Openness {
        let all = self.relays.iter().map(smtp::Relay::openness);
        all.min_by_key(|openness| openness.rank())
            .unwrap_or(Openness::Everybody)
    }

    fn breakers(&self) -> Vec<(String, bool)> {
        let of = |relay: &smtp::Relay| (relay.name(), relay.openness() != Openness::Everybody);
        self.relays.iter().map(of).collect()
    }
}
