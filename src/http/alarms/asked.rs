//! What callers ask of stand-alone alarms, read and bounded.

use serde::Deserialize;
use serde::Deserializer;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::change::alarm::NewAlarm;
use crate::change::alarm::request_hash;
use crate::http::alarms::bounds;
use crate::http::alarms::times;
use crate::http::alarms::times::Reading;
use crate::http::alarms::times::Times;
use crate::http::id;
use crate::http::preferences::Flaws;
use crate::http::problem::Problem;
use crate::store::AlarmTerms;

/// An alarm that is asked for.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    /// Whose it is.
    pub(super) owner: Option<String>,
    /// `once` or `cron`; goes without saying.
    kind: Option<String>,
    /// An instant: RFC 3339, or a local time in `timezone`.
    at: Option<String>,
    /// IANA name; the owner's own if left out, where one is needed.
    timezone: Option<String>,
    /// Milliseconds, or a text such as `90s` or `in 30 minutes`.
    delay: Option<Value>,
    /// A phrase such as `tomorrow at 9am`.
    when: Option<String>,
    /// A cron expression.
    cron: Option<String>,
    /// `reject` or `fire`: what to do about an instant that is past.
    past: Option<String>,
    /// `email`, `sms` or `webhook`; goes without saying where there is a target.
    channel: Option<String>,
    /// What is called; the owner's webhook if left out.
    target: Option<String>,
    #[serde(default)]
    label: String,
    #[serde(default)]
    wake_message: String,
    conversation_id: Option<String>,
    /// Any JSON document, also `null`.
    #[serde(default, deserialize_with = "document")]
    payload: Option<Box<RawValue>>,
    max_retries: Option<u32>,
    /// Another name for attempts: retries and one.
    max_failures: Option<u32>,
    backoff_ms: Option<u64>,
    dispatch_timeout_ms: Option<u64>,
    expires_at: Option<String>,
    created_by: Option<String>,
    created_via: Option<String>,
    #[serde(alias = "message_id")]
    pub(super) idempotency_key: Option<String>,
}

/// What is to be different. `null` takes a value away.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Changes {
    at: Option<String>,
    timezone: Option<String>,
    delay: Option<Value>,
    when: Option<String>,
    cron: Option<String>,
    pub(super) past: Option<String>,
    pub(super) channel: Option<String>,
    #[serde(default)]
    pub(super) target: Given<String>,
    #[serde(default)]
    pub(super) label: Given<String>,
    #[serde(default)]
    pub(super) wake_message: Given<String>,
    #[serde(default)]
    pub(super) conversation_id: Given<String>,
    #[serde(default)]
    pub(super) payload: Given<Box<RawValue>>,
    #[serde(default)]
    pub(super) max_retries: Given<u32>,
    #[serde(default)]
    pub(super) backoff_ms: Given<u64>,
    #[serde(default)]
    pub(super) dispatch_timeout_ms: Given<u64>,
    #[serde(default)]
    pub(super) expires_at: Given<String>,
}

impl Changes {
    /// What it says of when.
    pub(super) fn times(&mut self) -> Times {
        Times {
            at: self.at.take(),
            timezone: self.timezone.take(),
            delay: self.delay.take(),
            when: self.when.take(),
            cron: self.cron.take(),
        }
    }
}

/// What is said of a value that may be missing.
#[derive(Debug, Default)]
pub(super) enum Given<T> {
    /// Nothing.
    #[default]
    Nothing,
    /// That it is this, or missing.
    Value(Option<T>),
}

impl<T> Given<T> {
    /// The value from now on.
    pub(super) fn or(self, before: Option<T>) -> Option<T> {
        match self {
            Self::Nothing => before,
            Self::Value(value) => value,
        }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Given<T> {
    fn deserialize<D: Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
        Option::<T>::deserialize(value).map(Self::Value)
    }
}

impl Wanted {
    /// The alarm that it asks for, or everything that is wrong with it.
    pub(super) fn read(mut self, reading: &Reading<'_>) -> Result<NewAlarm, Problem> {
        let request_hash = self.hash();
        let mut flaws = Flaws::default();
        let (times, mut terms) = (self.times(), self.terms());
        terms.attempts = flaws
            .check(
                "/max_retries".to_owned(),
                bounds::attempts(self.max_retries, self.max_failures),
            )
            .flatten();
        let expires_at = self.expires_at.as_deref();
        terms.expires_at = flaws
            .check("/expires_at".to_owned(), expires_at.map(bounds::end).transpose())
            .flatten();
        let is_series = times.cron.is_some();
        let when = times::when(times, &mut terms, reading, &mut flaws);
        if when.is_none() && flaws.0.is_empty() {
            let cure = "it is not said when: send one of `at`, `delay`, `when` and `cron`";
            flaws.check::<()>(String::new(), Err(cure.to_owned()));
        }
        flaws.check("/kind".to_owned(), bounds::kind(self.kind.as_deref(), is_series));
        let past = flaws.check("/past".to_owned(), bounds::past(self.past.as_deref()));
        let channel = flaws.check(
            "/channel".to_owned(),
            bounds::channel(self.channel.as_deref(), &terms),
        );
        if let Some(channel) = channel {
            bounds::check(&terms, channel, reading.targets, &mut flaws);
        }
        if let Some(key) = &self.idempotency_key {
            flaws.check("/idempotency_key".to_owned(), id::check("idempotency_key", key));
        }
        let payload = self
            .payload
            .map(|payload| String::from(Box::<str>::from(payload)));
        flaws.check("/payload".to_owned(), bounds::small(payload.as_deref()));
        let (Some(when), Some(past), Some(channel), true) = (when, past, channel, flaws.0.is_empty()) else {
            return Err(Problem::invalid(flaws.0));
        };
        Ok(NewAlarm {
            when,
            past,
            channel,
            terms,
            payload,
            request_hash,
        })
    }

    /// What the request says, whatever the order and the spacing of its fields.
    pub(super) fn hash(&self) -> String {
        request_hash(&serde_json::to_string(self).expect("what was read as JSON has a JSON form"))
    }

    fn times(&mut self) -> Times {
        Times {
            at: self.at.take(),
            timezone: self.timezone.take(),
            delay: self.delay.take(),
            when: self.when.take(),
            cron: self.cron.take(),
        }
    }

    /// What needs no more than to be bounded.
    fn terms(&mut self) -> AlarmTerms {
        AlarmTerms {
            target: self.target.take(),
            label: std::mem::take(&mut self.label),
            wake_message: std::mem::take(&mut self.wake_message),
            conversation_id: self.conversation_id.take(),
            backoff_ms: self.backoff_ms,
            dispatch_timeout_ms: self.dispatch_timeout_ms,
            created_by: self.created_by.take(),
            created_via: Some(self.created_via.take().unwrap_or_else(|| "api".to_owned())),
            ..AlarmTerms::default()
        }
    }
}

fn document<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(value).map(Some)
}
