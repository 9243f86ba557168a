//! Text messages: put to the providers of the route, one after the other, until one takes it.
//!
//! ```text
//! number ▸ its country allowed? ▸ first provider: room ▸ turn ▸ breaker ▸ call │ answer
//!                                  │ it did not take it, and may later         └─ cut: in doubt, and never asked elsewhere
//!                                  └▶ next provider …
//! ```
//! What a provider is, is configuration alone ([`request`], [`rules`], [`receipt`]); those known by name (Twilio, Vonage,
//! Kannel) are files in `config/providers/`. Almost none can tell a repetition, so that what was cut off after the request was
//! on its way is in doubt, and the next provider is asked only where the one before certainly did not take it.
//!
//! The addresses are the operator's own, so nothing guards where calls go; but no redirect is followed, no answer is read
//! beyond its bounds, and nothing of what a provider says is repeated but codes and ids.

pub mod call;
pub mod number;
pub mod provider;
pub mod receipt;
pub mod request;
pub mod rules;
pub mod segments;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use crate::channel::Blame;
use crate::channel::Channel;
use crate::channel::Content;
use crate::channel::Deadline;
use crate::channel::Message;
use crate::channel::Report;
use crate::channel::Witness;
use crate::channel::breaker::Openness;
use crate::channel::receipt::Readers;
use crate::channel::sms::number::Allowed;
use crate::channel::sms::number::Number;
use crate::channel::sms::provider::Provider;
use crate::channel::sms::provider::Text;
use crate::clock::Clock;
use crate::token::Callbacks;

pub use self::provider::ProviderConfig;
pub use self::provider::SetupError;

/// How text messages leave.
#[derive(Debug, Clone, Default)]
pub struct Config {
    /// The providers, in the order in which they are asked.
    pub route: Vec<ProviderConfig>,
    /// Where messages may go.
    pub allowed: Allowed,
}

impl Config {
    /// How the reports of each provider are read.
    pub fn readers(&self) -> Readers {
        let reporting = self.route.iter().filter_map(|provider| {
            let rules = provider.receipts.clone()?;
            Some((provider.name.clone(), receipt::reader(rules)))
        });
        reporting.collect()
    }
}

/// Delivers by text message.
pub struct SmsChannel {
    route: Vec<Provider>,
    allowed: Allowed,
    witness: Witness,
}

impl fmt::Debug for SmsChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SmsChannel")
            .field("route", &self.route)
            .finish_non_exhaustive()
    }
}

impl SmsChannel {
    /// Prepares for calls; without `callbacks` no provider is asked to report.
    ///
    /// # Errors
    /// When the certificate authorities of the system cannot be read.
    pub fn new(
        config: Config,
        callbacks: Option<&Callbacks>,
        witness: Witness,
        clock: &Arc<dyn Clock>,
    ) -> Result<Self, SetupError> {
        let route = config.route.into_iter();
        let route: Result<_, _> = route
            .map(|provider| Provider::new(provider, callbacks.cloned(), Arc::clone(clock)))
            .collect();
        Ok(Self {
            route: route?,
            allowed: config.allowed,
            witness,
        })
    }

    async fn route(&self, text: Text<'_>, deadline: Deadline) -> Report {
        let mut refusal = None;
        for provider in &self.route {
            let Some(report) = provider.submit(text, deadline).await else {
                continue;
            };
            (self.witness)(provider.name(), &report);
            match report {
                Report::Transient { .. } => refusal = Some(worse(refusal, report)),
                report => return report,
            }
        }
        refusal.unwrap_or_else(|| Report::Transient {
            error: self.nobody().to_owned(),
            of: Blame::Target,
            retry_after: None,
        })
    }

    fn nobody(&self) -> &'static str {
        if self.route.is_empty() {
            "no provider: name some in channels.sms.route, and start again"
        } else {
            "no provider is answering, and each is left alone for a while"
        }
    }
}

/// The last refusal counts, but it costs an attempt only where every provider says that it is the message's own fault.
fn worse(before: Option<Report>, now: Report) -> Report {
    match (before, now) {
        (
            Some(Report::Transient {
                of: Blame::Target, ..
            }),
            Report::Transient {
                error, retry_after, ..
            },
        ) => Report::Transient {
            error,
            of: Blame::Target,
            retry_after,
        },
        (_, now) => now,
    }
}

#[async_trait::async_trait]
impl Channel for SmsChannel {
    async fn send(&self, message: &Message, deadline: Deadline) -> Report {
        let refused = |error: &str| Report::Permanent {
            error: error.to_owned(),
        };
        let Content::Text(words) = &message.content else {
            return refused("a text message holds a text and nothing else");
        };
        let Ok(to) = message.to.parse::<Number>() else {
            return refused("the owner's number is no E.164 number");
        };
        if self.allowed.is_empty() {
            return refused("no number may be sent to: channels.sms.allow_countries is empty");
        }
        if !self.allowed.allows(&to) {
            return refused("numbers of this country may not be sent to: see channels.sms.allow_countries");
        }
        let text = Text {
            id: &message.id,
            to: &to,
            words,
        };
        self.route(text, deadline).await
    }

    fn name(&self) -> &'static str {
        "sms"
    }

    fn permits(&self) -> usize {
        let connections: usize = self.route.iter().map(Provider::connections).sum();
        connections.max(1)
    }

    fn openness(&self) -> Openness {
        let openness = self.route.iter().map(Provider::openness);
        openness.min_by_key(|it| it.rank()).unwrap_or(Openness::Everybody)
    }

    fn breakers(&self) -> Vec<(String, bool)> {
        let route = self.route.iter();
        route
            .map(|provider| (provider.name().to_owned(), provider.is_open()))
            .collect()
    }
}
