//! How much an alarm may ask for, and what does not go together.

use chrono::DateTime;
use chrono::TimeDelta;
use chrono::Utc;

use crate::calendar::cron::Cron;
use crate::calendar::phrase;
use crate::change::alarm::Past;
use crate::channel::webhook::Guard;
use crate::http::alarms::times::only;
use crate::http::id;
use crate::http::owners::is_target;
use crate::http::preferences::Flaws;
use crate::store::AlarmTerms;
use crate::trigger::ChannelKind;

/// Bytes of a payload at the most.
const LARGEST_PAYLOAD: usize = 256 * 1024;

/// Characters of a label at the most.
const LONGEST_LABEL: usize = 500;

/// Bytes of what an alarm says at the most.
const LONGEST_MESSAGE: usize = 16 * 1024;

/// Characters that a text message has room for: a few segments.
const LONGEST_TEXT: usize = 600;

/// Attempts of one firing at the most.
const MOST_ATTEMPTS: u32 = 100;

/// The longest first pause after a failure, in milliseconds: a day.
const LONGEST_BACKOFF: u64 = 24 * 60 * 60 * 1_000;

/// The shortest and the longest time that a call may be given, in milliseconds.
const DISPATCH_TIMEOUTS: std::ops::RangeInclusive<u64> = 100..=60_000;

/// How close together messages to people may come.
const LEAST_INTERVAL: TimeDelta = TimeDelta::minutes(1);

/// How often a firing is tried, by either name.
pub(super) fn attempts(retries: Option<u32>, failures: Option<u32>) -> Result<Option<u32>, String> {
    let attempts = match (retries, failures) {
        (Some(_), Some(_)) => {
            return Err("max_retries and max_failures say the same: leave one out".to_owned());
        }
        (Some(retries), None) => Some(retries.saturating_add(1)),
        (None, failures) => failures,
    };
    match attempts {
        Some(attempts) if !(1..=MOST_ATTEMPTS).contains(&attempts) => Err(format!(
            "{attempts} attempts: use 1 to {MOST_ATTEMPTS}, that is max_retries 0 to {}",
            MOST_ATTEMPTS - 1
        )),
        attempts => Ok(attempts),
    }
}

/// From when on nothing is fired.
pub(super) fn end(text: &str) -> Result<DateTime<Utc>, String> {
    phrase::instant(text, None)
        .map_err(|error| error.to_string())
        .and_then(|meaning| only(&meaning))
}

/// Refuses a kind that is not what it is.
pub(super) fn kind(kind: Option<&str>, is_series: bool) -> Result<(), String> {
    match (kind, is_series) {
        (None, _) | (Some("once"), false) | (Some("cron"), true) => Ok(()),
        (Some("once"), true) => Err("an alarm with `cron` is no `once`: use kind `cron`".to_owned()),
        (Some("cron"), false) => {
            Err("an alarm of kind `cron` needs `cron`, such as `0 9 * * mon-fri`".to_owned())
        }
        (Some(other), _) => Err(format!("unknown kind `{other}`: use once or cron")),
    }
}

/// What to do about an instant that is past.
pub(super) fn past(past: Option<&str>) -> Result<Past, String> {
    match past {
        None | Some("reject") => Ok(Past::Reject),
        Some("fire") => Ok(Past::Fire),
        Some(other) => Err(format!("unknown policy `{other}`: use reject or fire")),
    }
}

/// The way out, which goes without saying where there is a target.
pub(super) fn channel(name: Option<&str>, terms: &AlarmTerms) -> Result<ChannelKind, String> {
    match name {
        Some(name) => name.parse(),
        None if terms.target.is_some() => Ok(ChannelKind::Webhook),
        None => Err("it is not said through what: use email, sms, webhook or handler".to_owned()),
    }
}

/// Refuses a payload that is too large.
pub(super) fn small(payload: Option<&str>) -> Result<(), String> {
    match payload.map(str::len) {
        Some(length) if length > LARGEST_PAYLOAD => Err(format!(
            "the payload has {length} bytes: {LARGEST_PAYLOAD} are allowed; send where to find it instead"
        )),
        _ => Ok(()),
    }
}

/// Refuses an alarm that a program asks for in this process, as one from outside would be: the error says all that is
/// wrong with it.
///
/// # Errors
///
/// When the terms, the key or the payload are not what an alarm of this channel may have.
pub fn allow(terms: &AlarmTerms, channel: ChannelKind, key: &str, payload: &str) -> Result<(), String> {
    let mut flaws = Flaws::default();
    check(terms, channel, None, &mut flaws);
    flaws.check("/max_retries".to_owned(), attempts(None, terms.attempts));
    flaws.check("/idempotency_key".to_owned(), id::check("idempotency_key", key));
    flaws.check("/payload".to_owned(), small(Some(payload)));
    let told = flaws.0.into_iter().map(|flaw| {
        let pointer = flaw.pointer.unwrap_or_default();
        format!("{}: {}", pointer.trim_start_matches('/'), flaw.detail)
    });
    let told: Vec<String> = told.collect();
    if told.is_empty() {
        Ok(())
    } else {
        Err(told.join("; "))
    }
}

/// Notes what is wrong with terms.
pub(super) fn check(terms: &AlarmTerms, channel: ChannelKind, targets: Option<&Guard>, flaws: &mut Flaws) {
    check_target(terms, channel, targets, flaws);
    check_words(terms, channel, flaws);
    check_numbers(terms, channel, flaws);
}

fn check_target(terms: &AlarmTerms, channel: ChannelKind, targets: Option<&Guard>, flaws: &mut Flaws) {
    let checked = match (&terms.target, channel) {
        (Some(target), ChannelKind::Webhook) => is_target(target, targets),
        (Some(name), ChannelKind::Handler) => id::check("target", name),
        (None, ChannelKind::Handler) => Err("a handler has no other name: say which in `target`".to_owned()),
        (Some(_), ChannelKind::Email | ChannelKind::Sms) => {
            let cure = "only a webhook or handler has a target: e-mail and text messages go to the owner's own addresses";
            Err(cure.to_owned())
        }
        (None, _) => Ok(()),
    };
    flaws.check("/target".to_owned(), checked);
}

fn check_words(terms: &AlarmTerms, channel: ChannelKind, flaws: &mut Flaws) {
    let mut check = |pointer: &str, checked| flaws.check(pointer.to_owned(), checked);
    check("/label", short(&terms.label, LONGEST_LABEL, "label"));
    check(
        "/wake_message",
        short(&terms.wake_message, LONGEST_MESSAGE, "message"),
    );
    if !channel.reaches_programs() {
        check("/label", is_said(terms));
    }
    let length = terms.label.chars().count() + terms.wake_message.chars().count();
    if channel == ChannelKind::Sms && length > LONGEST_TEXT {
        let cure =
            format!("label and message have {length} characters: a text message has room for {LONGEST_TEXT}");
        check("/wake_message", Err(cure));
    }
    for (pointer, text) in [
        ("/conversation_id", &terms.conversation_id),
        ("/created_by", &terms.created_by),
        ("/created_via", &terms.created_via),
    ] {
        if let Some(text) = text {
            check(pointer, id::check(&pointer[1..], text));
        }
    }
}

fn check_numbers(terms: &AlarmTerms, channel: ChannelKind, flaws: &mut Flaws) {
    let mut check = |pointer: &str, wrong: String| flaws.check::<()>(pointer.to_owned(), Err(wrong));
    let every = terms
        .cron
        .as_deref()
        .and_then(|cron| Cron::parse(cron).ok()?.interval());
    if !channel.reaches_programs() && every.is_some_and(|every| every < LEAST_INTERVAL) {
        let cure = "messages to people come a minute apart at the least: use `@every 1m` or more";
        check("/cron", cure.to_owned());
    }
    if let Some(backoff) = terms.backoff_ms.filter(|it| !(1..=LONGEST_BACKOFF).contains(it)) {
        check(
            "/backoff_ms",
            format!("{backoff} ms: use 1 to {LONGEST_BACKOFF}, which is a day"),
        );
    }
    if let Some(timeout) = terms
        .dispatch_timeout_ms
        .filter(|it| !DISPATCH_TIMEOUTS.contains(it))
    {
        let (least, most) = (DISPATCH_TIMEOUTS.start(), DISPATCH_TIMEOUTS.end());
        check(
            "/dispatch_timeout_ms",
            format!("{timeout} ms: use {least} to {most}"),
        );
    }
}

fn short(text: &str, most: usize, what: &str) -> Result<(), String> {
    if text.contains('\0') {
        return Err(format!("the {what} holds a NUL character"));
    }
    let length = text.chars().count();
    if length > most {
        return Err(format!("the {what} has {length} characters: {most} are allowed"));
    }
    Ok(())
}

/// A message to a person says something.
fn is_said(terms: &AlarmTerms) -> Result<(), String> {
    if terms.label.trim().is_empty() && terms.wake_message.trim().is_empty() {
        return Err("it says nothing: send a `label` or a `wake_message`".to_owned());
    }
    Ok(())
}
