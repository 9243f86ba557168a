//! What callers ask of stand-alone alarms, read and bounded.

use chrono::DateTime;
use chrono::TimeDelta;
use chrono::Utc;
use serde::Deserialize;
use serde::Deserializer;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use sha2::Digest;
use sha2::Sha256;

use crate::calendar::cron::Cron;
use crate::calendar::phrase;
use crate::calendar::phrase::Meaning;
use crate::calendar::zone::Zone;
use crate::change::alarm::NewAlarm;
use crate::change::alarm::Past;
use crate::change::alarm::When;
use crate::channel::webhook::Guard;
use crate::http::id;
use crate::http::owners::is_target;
use crate::http::preferences::Flaws;
use crate::http::problem::Problem;
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

/// What says when an alarm fires.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(super) struct Times {
    pub(super) at: Option<String>,
    pub(super) timezone: Option<String>,
    pub(super) delay: Option<Value>,
    pub(super) when: Option<String>,
    pub(super) cron: Option<String>,
}

/// An alarm that is asked for.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    /// Whose it is.
    pub(super) owner: String,
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
    #[serde(default, deserialize_with = "given")]
    pub(super) target: Option<Option<String>>,
    pub(super) label: Option<String>,
    pub(super) wake_message: Option<String>,
    #[serde(default, deserialize_with = "given")]
    pub(super) conversation_id: Option<Option<String>>,
    #[serde(default, deserialize_with = "given")]
    pub(super) payload: Option<Option<Box<RawValue>>>,
    #[serde(default, deserialize_with = "given")]
    pub(super) max_retries: Option<Option<u32>>,
    #[serde(default, deserialize_with = "given")]
    pub(super) backoff_ms: Option<Option<u64>>,
    #[serde(default, deserialize_with = "given")]
    pub(super) dispatch_timeout_ms: Option<Option<u64>>,
    #[serde(default, deserialize_with = "given")]
    pub(super) expires_at: Option<Option<String>>,
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

fn given<'de, T: Deserialize<'de>, D: Deserializer<'de>>(value: D) -> Result<Option<T>, D::Error> {
    T::deserialize(value).map(Some)
}

/// As what times are read.
#[derive(Debug)]
pub(super) struct Reading<'a> {
    /// The owner's zone.
    pub(super) zone: &'a str,
    /// Now.
    pub(super) now: DateTime<Utc>,
    /// What may be called; nothing where no call leaves.
    pub(super) targets: Option<&'a Guard>,
}

impl Wanted {
    /// The alarm that it asks for, or everything that is wrong with it.
    pub(super) fn read(mut self, reading: &Reading<'_>) -> Result<NewAlarm, Problem> {
        let request_hash = hash(&self);
        let mut flaws = Flaws::default();
        let times = Times {
            at: self.at.take(),
            timezone: self.timezone.take(),
            delay: self.delay.take(),
            when: self.when.take(),
            cron: self.cron.take(),
        };
        let mut terms = AlarmTerms {
            target: self.target.take(),
            label: std::mem::take(&mut self.label),
            wake_message: std::mem::take(&mut self.wake_message),
            conversation_id: self.conversation_id.take(),
            backoff_ms: self.backoff_ms,
            dispatch_timeout_ms: self.dispatch_timeout_ms,
            created_by: self.created_by.take(),
            created_via: Some(self.created_via.take().unwrap_or_else(|| "api".to_owned())),
            ..AlarmTerms::default()
        };
        terms.attempts = flaws
            .check(
                "/max_retries".to_owned(),
                attempts(self.max_retries, self.max_failures),
            )
            .flatten();
        let expires_at = self.expires_at.as_deref();
        terms.expires_at = flaws
            .check("/expires_at".to_owned(), expires_at.map(end).transpose())
            .flatten();
        let is_series = times.cron.is_some();
        let when = when(times, &mut terms, reading, &mut flaws);
        if when.is_none() && flaws.0.is_empty() {
            let cure = "it is not said when: send one of `at`, `delay`, `when` and `cron`";
            flaws.check::<()>(String::new(), Err(cure.to_owned()));
        }
        flaws.check("/kind".to_owned(), kind(self.kind.as_deref(), is_series));
        let past = flaws.check("/past".to_owned(), past(self.past.as_deref()));
        let channel = flaws.check("/channel".to_owned(), channel(self.channel.as_deref(), &terms));
        if let Some(channel) = channel {
            check(&terms, channel, reading.targets, &mut flaws);
        }
        if let Some(key) = &self.idempotency_key {
            flaws.check("/idempotency_key".to_owned(), id::check("idempotency_key", key));
        }
        let payload = self
            .payload
            .map(|payload| String::from(Box::<str>::from(payload)));
        flaws.check("/payload".to_owned(), small(payload.as_deref()));
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
}

/// What a request says, whatever the order and the spacing of its fields.
fn hash(wanted: &Wanted) -> String {
    let text = serde_json::to_string(wanted).expect("what was read as JSON has a JSON form");
    let digest = Sha256::digest(text);
    let half = digest[..16].try_into().expect("a digest is longer");
    format!("{:032x}", u128::from_be_bytes(half))
}

/// When it fires; none where nothing is said of that, or something is wrong with it.
pub(super) fn when(
    times: Times,
    terms: &mut AlarmTerms,
    reading: &Reading<'_>,
    flaws: &mut Flaws,
) -> Option<When> {
    let zone = times.timezone.as_deref();
    let zone = match zone {
        None => None,
        Some(name) => Some(flaws.check("/timezone".to_owned(), iana(name))?),
    };
    let own = || Zone::iana(reading.zone).unwrap_or_else(Zone::utc);
    match (times.at, times.delay, times.when, times.cron) {
        (Some(at), None, None, None) => {
            terms.cron = None;
            let read = phrase::instant(&at, zone.as_ref()).map_err(|error| error.to_string());
            flaws.check("/at".to_owned(), read.and_then(only)).map(When::At)
        }
        (None, Some(delay), None, None) => {
            terms.cron = None;
            flaws.check("/delay".to_owned(), length(&delay)).map(When::In)
        }
        (None, None, Some(phrase), None) => {
            terms.cron = None;
            let read = phrase::read(&phrase, reading.now, &zone.unwrap_or_else(own));
            let read = read.map_err(|error| error.to_string());
            flaws.check("/when".to_owned(), read.and_then(only)).map(When::At)
        }
        (None, None, None, Some(cron)) => {
            flaws.check(
                "/cron".to_owned(),
                Cron::parse(&cron).map_err(|error| error.to_string()),
            )?;
            terms.cron = Some(cron);
            terms.time_zone = Some(zone.unwrap_or_else(own).name().to_owned());
            Some(When::Again)
        }
        (None, None, None, None) => {
            if let Some(zone) = zone.filter(|_| terms.cron.is_some()) {
                terms.time_zone = Some(zone.name().to_owned());
                return Some(When::Again);
            }
            None
        }
        _ => {
            let cure = "it is said more than once when: send one of `at`, `delay`, `when` and `cron`";
            flaws.check::<()>(String::new(), Err(cure.to_owned()));
            None
        }
    }
}

fn iana(name: &str) -> Result<Zone, String> {
    let unknown = || format!("unknown time zone `{name}`: use an IANA name such as Europe/Berlin");
    Zone::iana(name).ok_or_else(unknown)
}

/// The instant that is meant, where only one can be.
fn only(meaning: Meaning) -> Result<DateTime<Utc>, String> {
    if !meaning.is_ambiguous() {
        return Ok(meaning.at);
    }
    let candidates: Vec<String> = meaning.candidates.iter().map(told).collect();
    Err(format!(
        "it may be any of {}: name the one that is meant in `at`",
        candidates.join(", ")
    ))
}

fn told(at: &DateTime<Utc>) -> String {
    at.to_rfc3339_opts(chrono::SecondsFormat::AutoSi, true)
}

fn length(delay: &Value) -> Result<TimeDelta, String> {
    let text = match delay {
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.clone(),
        _ => return Err("it is neither a number of milliseconds nor a text such as `90s`".to_owned()),
    };
    phrase::delay(&text).map_err(|error| error.to_string())
}

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

pub(super) fn end(text: &str) -> Result<DateTime<Utc>, String> {
    phrase::instant(text, None)
        .map_err(|error| error.to_string())
        .and_then(only)
}

fn kind(kind: Option<&str>, is_series: bool) -> Result<(), String> {
    match (kind, is_series) {
        (None, _) | (Some("once"), false) | (Some("cron"), true) => Ok(()),
        (Some("once"), true) => Err("an alarm with `cron` is no `once`: use kind `cron`".to_owned()),
        (Some("cron"), false) => {
            Err("an alarm of kind `cron` needs `cron`, such as `0 9 * * mon-fri`".to_owned())
        }
        (Some(other), _) => Err(format!("unknown kind `{other}`: use once or cron")),
    }
}

pub(super) fn past(past: Option<&str>) -> Result<Past, String> {
    match past {
        None | Some("reject") => Ok(Past::Reject),
        Some("fire") => Ok(Past::Fire),
        Some(other) => Err(format!("unknown policy `{other}`: use reject or fire")),
    }
}

fn channel(name: Option<&str>, terms: &AlarmTerms) -> Result<ChannelKind, String> {
    match name {
        Some(name) => name.parse(),
        None if terms.target.is_some() => Ok(ChannelKind::Webhook),
        None => Err("it is not said through what: use email, sms or webhook".to_owned()),
    }
}

pub(super) fn small(payload: Option<&str>) -> Result<(), String> {
    match payload.map(str::len) {
        Some(length) if length > LARGEST_PAYLOAD => Err(format!(
            "the payload has {length} bytes: {LARGEST_PAYLOAD} are allowed; send where to find it instead"
        )),
        _ => Ok(()),
    }
}

/// Notes what is wrong with terms.
pub(super) fn check(terms: &AlarmTerms, channel: ChannelKind, targets: Option<&Guard>, flaws: &mut Flaws) {
    let mut check = |pointer: &str, checked| flaws.check(pointer.to_owned(), checked);
    match (&terms.target, channel) {
        (Some(target), ChannelKind::Webhook) => {
            check("/target", is_target(target, targets));
        }
        (Some(_), _) => {
            let cure =
                "only a webhook has a target: e-mail and text messages go to the owner's own addresses";
            check("/target", Err(cure.to_owned()));
        }
        (None, _) => {}
    }
    check("/label", short(&terms.label, LONGEST_LABEL, "label"));
    check(
        "/wake_message",
        short(&terms.wake_message, LONGEST_MESSAGE, "message"),
    );
    if channel != ChannelKind::Webhook {
        check("/label", is_said(terms));
        let every = terms
            .cron
            .as_deref()
            .and_then(|cron| Cron::parse(cron).ok()?.interval());
        if every.is_some_and(|every| every < LEAST_INTERVAL) {
            let cure = "messages to people come a minute apart at the least: use `@every 1m` or more";
            check("/cron", Err(cure.to_owned()));
        }
    }
    if channel == ChannelKind::Sms {
        let length = terms.label.chars().count() + terms.wake_message.chars().count();
        if length > LONGEST_TEXT {
            let cure = format!(
                "label and message have {length} characters: a text message has room for {LONGEST_TEXT}"
            );
            check("/wake_message", Err(cure));
        }
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
    if let Some(backoff) = terms.backoff_ms.filter(|it| !(1..=LONGEST_BACKOFF).contains(it)) {
        check(
            "/backoff_ms",
            Err(format!(
                "{backoff} ms: use 1 to {LONGEST_BACKOFF}, which is a day"
            )),
        );
    }
    if let Some(timeout) = terms
        .dispatch_timeout_ms
        .filter(|it| !DISPATCH_TIMEOUTS.contains(it))
    {
        let (least, most) = (DISPATCH_TIMEOUTS.start(), DISPATCH_TIMEOUTS.end());
        check(
            "/dispatch_timeout_ms",
            Err(format!("{timeout} ms: use {least} to {most}")),
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
