//! One provider: whether it may be asked now, the call, and what its answer means.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::time::Duration;

use secrecy::ExposeSecret;
use secrecy::SecretString;
use tokio::sync::Semaphore;

use crate::channel::Blame;
use crate::channel::Deadline;
use crate::channel::Report;
use crate::channel::breaker::Breaker;
use crate::channel::breaker::Openness;
use crate::channel::http::Answer;
use crate::channel::sms::call::Auth;
use crate::channel::sms::call::Caller;
use crate::channel::sms::call::Failure;
use crate::channel::sms::number::Number;
use crate::channel::sms::receipt::ReceiptRules;
use crate::channel::sms::request::Facts;
use crate::channel::sms::request::Request;
use crate::channel::sms::request::Writer;
use crate::channel::sms::rules::Rules;
use crate::channel::sms::segments;
use crate::channel::sms::segments::Alphabet;
use crate::channel::smtp;
use crate::clock::Clock;
use crate::token::Callbacks;

/// How a provider is asked, and how it is understood.
#[derive(Debug, Clone)]
pub struct ProviderConfig {
    /// Its name in the route, in metrics and in the address of its receipts.
    pub name: String,
    /// How requests are written.
    pub writer: Writer,
    /// How the calls show who they are from.
    pub auth: Auth,
    /// User name, for templates.
    pub username: String,
    /// What is in the secret file, for templates.
    pub secret: SecretString,
    /// Who messages are from.
    pub from: String,
    /// How answers are read.
    pub rules: Rules,
    /// How reports of delivery are read; none: being accepted is the end.
    pub receipts: Option<ReceiptRules>,
    /// How long a report of delivery may take.
    pub report_within: Duration,
    /// How long one call may take.
    pub timeout: Duration,
    /// Calls in a second at the most.
    pub rate: NonZeroU32,
    /// Calls at once at the most.
    pub connections: usize,
}

/// What is put to a provider.
#[derive(Debug, Clone, Copy)]
pub(super) struct Text<'a> {
    pub(super) id: &'a str,
    pub(super) to: &'a Number,
    pub(super) words: &'a str,
}

/// A provider that can be asked.
#[derive(Debug)]
pub(super) struct Provider {
    config: ProviderConfig,
    caller: Caller,
    callbacks: Option<Callbacks>,
    room: Semaphore,
    pace: Mutex<Pace>,
    breaker: Mutex<Breaker>,
    clock: Arc<dyn Clock>,
}

/// Why providers cannot be asked at all.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The certificate authorities cannot be read.
    #[error(transparent)]
    Tls(#[from] smtp::TlsError),
    /// The HTTP client cannot be made.
    #[error("no HTTP client can be made: {0}")]
    Client(#[from] reqwest::Error),
}

impl Provider {
    pub(super) fn new(
        config: ProviderConfig,
        callbacks: Option<Callbacks>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, SetupError> {
        let tls = smtp::trusting(None)?;
        let caller = Caller::new(config.auth.clone(), config.timeout, tls, Arc::clone(&clock))?;
        Ok(Self {
            caller,
            callbacks: callbacks.filter(|_| config.receipts.is_some()),
            room: Semaphore::new(config.connections),
            pace: Mutex::new(Pace::new(config.rate)),
            breaker: Mutex::default(),
            config,
            clock,
        })
    }

    pub(super) fn name(&self) -> &str {
        &self.config.name
    }

    pub(super) const fn connections(&self) -> usize {
        self.config.connections
    }

    pub(super) fn openness(&self) -> Openness {
        self.breaker().openness(self.clock.elapsed())
    }

    pub(super) fn is_open(&self) -> bool {
        self.breaker().is_open()
    }

    /// Puts one message to it; none where it is left alone.
    pub(super) async fn submit(&self, text: Text<'_>, deadline: Deadline) -> Option<Report> {
        // Waiting is no part of the call.
        let latest = deadline.0.saturating_sub(self.config.timeout);
        let left = latest.saturating_sub(self.clock.elapsed());
        let Ok(room) = tokio::time::timeout(left, self.room.acquire()).await else {
            return Some(Report::Abandoned);
        };
        let turn = self.pace().take(self.clock.elapsed());
        if turn > latest {
            return Some(Report::Abandoned);
        }
        self.clock.sleep(turn.saturating_sub(self.clock.elapsed())).await;
        // Asked only now: many may have waited while it turned out that the provider is down.
        if !self.breaker().admits(self.clock.elapsed()) {
            return None;
        }
        let report = match self.request(text) {
            Ok(request) => self.ask(request, text, deadline).await,
            Err(error) => Report::Permanent { error },
        };
        drop(room);
        Some(report)
    }

    fn request(&self, text: Text<'_>) -> Result<Request, String> {
        let callback = self.callback(text.id);
        let facts = Facts {
            to: text.to.as_str(),
            digits: text.to.digits(),
            text: text.words,
            unicode: Alphabet::of(text.words) == Alphabet::Ucs2,
            from: &self.config.from,
            id: text.id,
            callback: callback.as_deref().unwrap_or_default(),
            username: &self.config.username,
            secret: self.config.secret.expose_secret(),
        };
        self.config
            .writer
            .write(&facts)
            .map_err(|wrong| format!("the request cannot be written: {wrong}"))
    }

    fn callback(&self, id: &str) -> Option<String> {
        let callbacks = self.callbacks.as_ref()?;
        Some(callbacks.receipt(&self.config.name, id))
    }

    async fn ask(&self, request: Request, text: Text<'_>, deadline: Deadline) -> Report {
        let within = deadline.0.saturating_sub(self.clock.elapsed());
        let result = self.caller.call(request, within).await;
        self.note(&result);
        match result {
            Ok(answer) => self.understood(&answer, text),
            Err(Failure::TooLate) => Report::Abandoned,
            Err(Failure::Unreached(error)) => Report::Transient {
                error,
                of: Blame::Target,
                retry_after: None,
            },
            Err(Failure::Lost(error)) => Report::InDoubt { error },
        }
    }

    fn understood(&self, answer: &Answer, text: Text<'_>) -> Report {
        match self.config.rules.read(answer, segments::parts(text.words)) {
            Report::Accepted {
                reply,
                kept,
                reference,
                awaits: None,
            } if self.callbacks.is_some() => Report::Accepted {
                reply,
                kept,
                reference,
                awaits: Some(self.config.report_within),
            },
            report => report,
        }
    }

    /// What a call says about the provider: that it refuses a message shows that it is there.
    fn note(&self, result: &Result<Answer, Failure>) {
        let trouble = match result {
            Ok(answer) if answer.status < 500 => None,
            Ok(answer) => Some(format!("answered {}", answer.status)),
            Err(Failure::Unreached(error) | Failure::Lost(error)) => Some(error.clone()),
            Err(Failure::TooLate) => return,
        };
        let mut breaker = self.breaker();
        let was_open = breaker.is_open();
        match &trouble {
            None => breaker.succeeded(),
            Some(_) => breaker.failed(self.clock.elapsed()),
        }
        let provider = self.name();
        match trouble {
            None if was_open => tracing::info!(provider, "the SMS provider is back"),
            Some(trouble) if breaker.is_open() && !was_open => tracing::warn!(
                provider,
                trouble,
                "the SMS provider is left alone but for a probe every few seconds"
            ),
            _ => {}
        }
    }

    fn pace(&self) -> MutexGuard<'_, Pace> {
        self.pace.lock().expect("no holder panics")
    }

    fn breaker(&self) -> MutexGuard<'_, Breaker> {
        self.breaker.lock().expect("no holder panics")
    }
}

/// Turns at an even pace. It is the pace of one node: a provider is told that of all.
#[derive(Debug)]
struct Pace {
    gap: Duration,
    next: Duration,
}

impl Pace {
    fn new(rate: NonZeroU32) -> Self {
        Self {
            gap: Duration::from_secs(1) / rate.get(),
            next: Duration::ZERO,
        }
    }

    /// When the next turn is.
    fn take(&mut self, now: Duration) -> Duration {
        let turn = self.next.max(now);
        self.next = turn + self.gap;
        turn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_come_at_an_even_pace_and_are_not_saved_up() {
        let mut pace = Pace::new(NonZeroU32::new(4).unwrap());
        let ms = Duration::from_millis;
        assert_eq!(
            [(); 3].map(|()| pace.take(ms(1_000))),
            [1_000, 1_250, 1_500].map(ms)
        );
        assert_eq!([(); 2].map(|()| pace.take(ms(9_000))), [9_000, 9_250].map(ms));
    }
}
