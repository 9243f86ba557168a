//! Webhooks: a reminder is posted as a JSON document, signed by Standard Webhooks 1.0.0.
//!
//! ```text
//! send: target checked ▸ room at its endpoint ▸ name resolved, addresses filtered ▸ connect, TLS ▸ request │ answer
//!                                                                       nothing was sent ──┘  in doubt until then
//! ```
//! The id of the trigger is the call's `webhook-id`, the same on every retry, so that a receiver can tell a repetition.
//! Success is 2xx alone. People name the targets, so where a call may go is guarded ([`Guard`]), and what one target does
//! must not delay the calls of others ([`endpoints`](crate::channel::endpoints)).

mod answer;
mod call;
mod guard;
mod resolver;
mod secret;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::HeaderMap;
use reqwest::header::HeaderValue;

use crate::channel::Channel;
use crate::channel::Content;
use crate::channel::Deadline;
use crate::channel::Message;
use crate::channel::Report;
use crate::channel::endpoints::Endpoints;
use crate::channel::endpoints::Place;
use crate::channel::endpoints::Refusal;
use crate::channel::smtp;
use crate::clock::Clock;
use crate::token::Callbacks;

use self::call::Caller;
pub use self::guard::Guard;
pub use self::guard::Network;
pub use self::guard::Scheme;
pub use self::guard::Target;
pub use self::resolver::Lookup;
pub use self::resolver::system;
pub use self::secret::Secrets;

/// Calls under way and waiting at once, over all endpoints.
const PERMITS: usize = 1_024;

/// The same where a call whose end is unknown is not repeated.
const PERMITS_IN_DOUBT: usize = 64;

/// Calls of one owner under way at once to one endpoint, where nothing else is configured.
pub const DEFAULT_CALLS: usize = 8;

/// How calls are made.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where they may go.
    pub guard: Guard,
    /// What signs calls for owners without secrets of their own.
    /// Without any, no call leaves.
    pub secrets: Option<Secrets>,
    /// How long one may take, from the name to the answer, where its message does not say.
    pub timeout: Duration,
    /// How many of one owner may be under way to one host and port; at least 1.
    pub calls: usize,
    /// How long a target that answers 202 has to report what became of it; none: it is not asked to.
    pub ack_timeout: Option<Duration>,
    /// PEM file of certificate authorities that are trusted besides those of the system.
    pub ca_file: Option<PathBuf>,
}

impl Config {
    /// What says whether an address may be called; none where no call leaves.
    pub fn targets(&self) -> Option<Guard> {
        self.secrets.as_ref().map(|_| self.guard.clone())
    }
}

/// Why calls cannot be made at all.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The certificate authorities cannot be read.
    #[error(transparent)]
    Tls(#[from] smtp::TlsError),
    /// The HTTP client cannot be made.
    #[error("no HTTP client can be made: {0}")]
    Client(#[from] reqwest::Error),
}

/// Delivers by HTTP call.
#[derive(Debug)]
pub struct WebhookChannel {
    config: Config,
    callbacks: Option<Callbacks>,
    caller: Caller,
    endpoints: Endpoints,
    clock: Arc<dyn Clock>,
}

impl WebhookChannel {
    /// Prepares for calls; names are resolved by `lookup`. Where targets are to report, `callbacks` says where.
    ///
    /// # Errors
    /// When the certificate authorities cannot be read.
    pub fn new(
        config: Config,
        callbacks: Option<Callbacks>,
        lookup: &Lookup,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, SetupError> {
        let tls = smtp::trusting(config.ca_file.as_deref())?;
        Ok(Self {
            caller: Caller::new(&config.guard, &tls, lookup, Arc::clone(&clock))?,
            endpoints: Endpoints::new(config.calls, Arc::clone(&clock)),
            callbacks: callbacks.filter(|_| config.ack_timeout.is_some()),
            config,
            clock,
        })
    }

    /// With where to report, for who may.
    fn document(&self, message: &Message, document: &str) -> String {
        let places = self.callbacks.as_ref().zip(document.strip_suffix('}'));
        let Some((callbacks, open)) = places else {
            return document.to_owned();
        };
        format!(
            r#"{open},"ack_url":{},"fail_url":{}}}"#,
            serde_json::Value::from(callbacks.complete(&message.id, message.own.link_epoch)),
            serde_json::Value::from(callbacks.fail(&message.id, message.own.link_epoch)),
        )
    }

    async fn call(
        &self,
        message: &Message,
        (target, secrets): (Target, &Secrets),
        document: String,
        deadline: Deadline,
    ) -> Report {
        let limit = message.within.unwrap_or(self.config.timeout);
        let place = Place {
            owner: message.owner,
            name: &target.endpoint(),
        };
        // Cut short, it would be made twice.
        let latest = deadline.0.saturating_sub(limit);
        let visit = match self.endpoints.enter(place, message.number(), latest).await {
            Ok(visit) => visit,
            Err(refusal) => return put_off(refusal),
        };
        let headers = self.headers(secrets, &message.id, &document);
        let at = (target.url, target.scheme);
        let result = self.caller.post(at, headers, document, limit).await;
        visit.end(answer::is_down(&result));
        answer::report(result, self.config.ack_timeout)
    }

    fn headers(&self, secrets: &Secrets, id: &str, document: &str) -> HeaderMap {
        let timestamp = self.clock.now().timestamp();
        let signature = secrets.sign(id, timestamp, document);
        let named = [
            ("webhook-id", id.to_owned()),
            ("webhook-timestamp", timestamp.to_string()),
            ("webhook-signature", signature),
        ];
        let headers = named.into_iter().map(|(name, value)| {
            let value = HeaderValue::try_from(value).expect("ids, numbers and base64 are ASCII");
            (reqwest::header::HeaderName::from_static(name), value)
        });
        headers.collect()
    }
}

/// Nothing was sent, and nothing is anybody's fault.
fn put_off(refusal: Refusal) -> Report {
    let error = match refusal {
        Refusal::Full(_) => "the endpoint has as many calls as it may have at once",
        Refusal::Alone(_) => "the endpoint has not been answering, and is left alone for a while",
        Refusal::TooLate(_) => "there was not the time left that a call may take",
    };
    Report::Busy {
        error: error.to_owned(),
        after: refusal.after(),
    }
}

#[async_trait::async_trait]
impl Channel for WebhookChannel {
    async fn send(&self, message: &Message, deadline: Deadline) -> Report {
        if self.clock.elapsed() >= deadline.0 {
            return Report::Abandoned;
        }
        let Content::Json(document) = &message.content else {
            return Report::Permanent {
                error: "the message is not a JSON document".to_owned(),
            };
        };
        let Some(shared) = &self.config.secrets else {
            return Report::Permanent {
                error: "calls are not signed: name a file in channels.webhook.secret_file".to_owned(),
            };
        };
        let secrets = message.own.secrets.as_ref().unwrap_or(shared);
        // Who allows what may have changed since the target was named.
        match self.config.guard.target(&message.to) {
            Ok(target) => {
                let document = self.document(message, document);
                self.call(message, (target, secrets), document, deadline).await
            }
            Err(problem) => Report::Permanent {
                error: format!("the target {problem}"),
            },
        }
    }

    fn name(&self) -> &'static str {
        "webhook"
    }

    fn permits(&self) -> usize {
        PERMITS
    }

    fn permits_in_doubt(&self) -> usize {
        PERMITS_IN_DOUBT
    }

    fn permits_of_one(&self) -> Option<usize> {
        Some(self.endpoints.permits_of_one())
    }
}
