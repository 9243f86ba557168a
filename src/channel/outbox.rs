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

/// Composing a message takes some microseconds, so a batch may be as large as the store likes it.
const PERMITS: usize = 1_000;

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
                reference: None,
                awaits: None,
            },
            Err(error) => Report::Permanent {
                error: error.to_string(),
            },
        }
    }

    fn name(&self) -> &'static str {
        "outbox"
    }

    fn permits(&self) -> usize {
        PERMITS
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::channel::Content;
    use crate::clock::ManualClock;

    fn outbox() -> (OutboxChannel, Arc<ManualClock>) {
        let clock = Arc::new(ManualClock::at("2026-12-01T08:15:00Z".parse().unwrap()));
        let letterhead = Letterhead {
            from: "carillon@example.org".parse().unwrap(),
            envelope_sender: None,
            message_id_domain: "carillon.example.org".to_owned(),
        };
        (OutboxChannel::new(letterhead, clock.clone()), clock)
    }

    fn message(to: &str) -> Message {
        Message {
            id: "1".repeat(32),
            thread: "2".repeat(32),
            owner: 7,
            to: to.to_owned(),
            content: Content::Letter {
                subject: "Reminder: Stand-up".to_owned(),
                text: "Starts now\n".to_owned(),
                html: "<p>Starts now</p>\n".to_owned(),
            },
            language: "en".to_owned(),
            within: None,
            own: crate::channel::Own::default(),
        }
    }

    #[tokio::test]
    async fn a_message_is_kept_as_the_relay_would_have_got_it() {
        let (outbox, clock) = outbox();
        let message = message("jo@example.org");
        let deadline = Deadline(clock.elapsed() + Duration::from_secs(1));
        let Report::Accepted { kept: Some(kept), .. } = outbox.send(&message, deadline).await else {
            panic!("the outbox accepts every message");
        };
        let sent = compose(&outbox.letterhead, &message, clock.now()).unwrap();
        assert_eq!(kept.raw, sent.raw);
    }

    #[tokio::test]
    async fn what_a_relay_would_not_get_is_not_kept() {
        let (outbox, clock) = outbox();
        let late = outbox
            .send(&message("jo@example.org"), Deadline(clock.elapsed()))
            .await;
        assert_eq!(late, Report::Abandoned);
        let deadline = Deadline(clock.elapsed() + Duration::from_secs(1));
        let nobody = outbox.send(&message("nobody"), deadline).await;
        assert!(matches!(nobody, Report::Permanent { .. }));
    }
}
