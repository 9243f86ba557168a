//! An alarm as callers see it.

use chrono::DateTime;
use chrono::Utc;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::store::AlarmTerms;
use crate::store::Standalone;

/// An alarm as callers see it.
#[derive(Debug, Serialize)]
pub(in crate::http) struct AlarmAnswer {
    id: String,
    owner: String,
    kind: &'static str,
    status: &'static str,
    #[serde(skip_serializing_if = "is_false")]
    paused: bool,
    /// Only while it is going to fire.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_fire_at: Option<DateTime<Utc>>,
    channel: &'static str,
    #[serde(flatten)]
    terms: TermsAnswer,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    idempotency_key: Option<String>,
    created_at: DateTime<Utc>,
    updated_at: DateTime<Utc>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_fired_at: Option<DateTime<Utc>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_error: Option<String>,
    failure_count: u64,
}

/// What was asked for.
#[derive(Debug, Serialize)]
struct TermsAnswer {
    #[serde(skip_serializing_if = "Option::is_none")]
    cron: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timezone: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    label: String,
    wake_message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    conversation_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_retries: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    backoff_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dispatch_timeout_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<DateTime<Utc>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    created_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    created_via: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
const fn is_false(value: &bool) -> bool {
    !*value
}

impl From<AlarmTerms> for TermsAnswer {
    fn from(terms: AlarmTerms) -> Self {
        Self {
            cron: terms.cron,
            timezone: terms.time_zone,
            target: terms.target,
            label: terms.label,
            wake_message: terms.wake_message,
            conversation_id: terms.conversation_id,
            max_retries: terms.attempts.map(|attempts| attempts.saturating_sub(1)),
            backoff_ms: terms.backoff_ms,
            dispatch_timeout_ms: terms.dispatch_timeout_ms,
            expires_at: terms.expires_at,
            created_by: terms.created_by,
            created_via: terms.created_via,
        }
    }
}

impl From<Standalone> for AlarmAnswer {
    fn from(alarm: Standalone) -> Self {
        Self {
            next_fire_at: alarm.is_live().then_some(alarm.fire_at),
            kind: alarm.kind(),
            id: alarm.id.0,
            owner: alarm.owner.0,
            status: alarm.status.as_str(),
            paused: alarm.paused,
            channel: alarm.channel.as_str(),
            terms: alarm.terms.into(),
            // What was stored was read as JSON before.
            payload: alarm
                .payload
                .and_then(|payload| RawValue::from_string(payload).ok()),
            idempotency_key: alarm.key,
            created_at: alarm.created_at,
            updated_at: alarm.updated_at,
            last_fired_at: alarm.last_fired_at,
            last_error: alarm.last_error,
            failure_count: alarm.failure_count,
        }
    }
}
