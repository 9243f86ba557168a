//! What a stand-alone alarm says, and how it is delivered where it asks for something of its own.

use std::time::Duration;

use chrono::DateTime;
use chrono::SecondsFormat;
use chrono::Utc;
use serde::Serialize;
use serde_json::value::RawValue;
use unicode_segmentation::UnicodeSegmentation;

use crate::channel::Blame;
use crate::channel::Content;
use crate::channel::Message;
use crate::channel::Own;
use crate::channel::Report;
use crate::channel::sms::segments;
use crate::delivery::ChannelConfig;
use crate::store::AttemptEnd;
use crate::store::Candidate;
use crate::store::Standalone;
use crate::trigger::ChannelKind;
use crate::trigger::outcome::Outcome;
use crate::trigger::retry::Policy;

/// The longest pause between attempts that an alarm of its own backoff comes to.
const LONGEST_PAUSE: Duration = Duration::from_hours(24);

/// What is posted. The README documents it; members may be added, and none changes its meaning.
#[derive(Debug, Serialize)]
struct Document<'a> {
    r#type: &'static str,
    id: &'a str,
    alarm_id: &'a str,
    trigger_id: &'a str,
    timestamp: String,
    scheduled_for: String,
    attempt: u32,
    owner: &'a str,
    kind: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    label: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    wake_message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    conversation_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    idempotency_key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<&'a RawValue>,
}

/// The message of a stand-alone alarm, as of `now`; a letter that is late says so.
pub fn message(
    (candidate, alarm): (&Candidate, &Standalone),
    to: String,
    late: Option<&str>,
    now: DateTime<Utc>,
) -> Message {
    let id = candidate.trigger.id.to_string();
    let content = match alarm.channel {
        ChannelKind::Webhook | ChannelKind::Handler => Content::Json(document(candidate, alarm, &id, now)),
        ChannelKind::Sms => Content::Text(fitting(&in_short(alarm))),
        ChannelKind::Email => letter(alarm, late),
    };
    Message {
        id,
        thread: alarm.id.0.clone(),
        owner: candidate.owner.id.hash(),
        to,
        content,
        language: candidate.owner.locale.clone(),
        within: alarm.terms.dispatch_timeout_ms.map(Duration::from_millis),
        own: Own::default(),
    }
}

fn document(candidate: &Candidate, alarm: &Standalone, id: &str, now: DateTime<Utc>) -> String {
    let trigger = &candidate.trigger;
    let payload = trigger.payload.as_ref().or(alarm.payload.as_ref());
    let document = Document {
        r#type: "standalone_alarm",
        id,
        alarm_id: &alarm.id.0,
        trigger_id: id,
        timestamp: instant(now),
        scheduled_for: instant(trigger.place.trigger_at),
        attempt: trigger.attempts + 1,
        owner: &alarm.owner.0,
        kind: alarm.kind(),
        label: &alarm.terms.label,
        wake_message: &alarm.terms.wake_message,
        conversation_id: alarm.terms.conversation_id.as_deref(),
        idempotency_key: alarm.key.as_deref(),
        // What was stored was read as JSON before.
        payload: payload.and_then(|payload| serde_json::from_str(payload).ok()),
    };
    serde_json::to_string(&document).expect("texts and numbers can be written")
}

fn instant(instant: DateTime<Utc>) -> String {
    instant.to_rfc3339_opts(SecondsFormat::AutoSi, true)
}

fn in_short(alarm: &Standalone) -> String {
    let (label, says) = (alarm.terms.label.trim(), alarm.terms.wake_message.trim());
    match (label, says) {
        (label, "") => label.to_owned(),
        ("", says) => says.to_owned(),
        (label, says) => format!("{label}: {says}"),
    }
}

/// The text in plain characters where these do, and as much of it as there is room for.
fn fitting(text: &str) -> String {
    let whole = segments::plain(text);
    if segments::parts(&whole) <= segments::MOST_PARTS {
        return whole;
    }
    let ends: Vec<usize> = text.grapheme_indices(true).map(|(at, _)| at).collect();
    let shortened = |end: usize| segments::plain(&format!("{}…", text[..end].trim_end()));
    let fits = |end: &usize| segments::parts(&shortened(*end)) <= segments::MOST_PARTS;
    let room = ends.partition_point(fits);
    shortened(room.checked_sub(1).map_or(0, |last| ends[last]))
}

/// All words are those of who asked for it, but for that it is late.
fn letter(alarm: &Standalone, late: Option<&str>) -> Content {
    let (label, says) = (alarm.terms.label.trim(), alarm.terms.wake_message.trim());
    let first_line = says.lines().next().unwrap_or_default();
    let subject = if label.is_empty() { first_line } else { label };
    let text = if says.is_empty() { label } else { says };
    let text = &late.map_or_else(|| text.to_owned(), |late| format!("{late}\n\n{text}"));
    Content::Letter {
        subject: subject.chars().filter(|it| !it.is_control()).collect(),
        text: format!("{text}\n"),
        html: format!(
            "<!doctype html>\n<html><head><meta charset=\"utf-8\"></head><body><p style=\"white-space: pre-wrap\">{}</p></body></html>\n",
            escaped(text)
        ),
    }
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// How the channel delivers this one: an alarm may bring attempts and pauses of its own, which double without jitter.
pub fn config_for(candidate: &Candidate, config: &ChannelConfig) -> ChannelConfig {
    let mut config = config.clone();
    let Some(alarm) = &candidate.standalone else {
        return config;
    };
    if let Some(attempts) = alarm.terms.attempts {
        config.retry.attempts = attempts;
    }
    if let Some(backoff) = alarm.terms.backoff_ms.map(Duration::from_millis) {
        config.retry = Policy {
            jitter: 0.0,
            ..config.retry.doubling(backoff, LONGEST_PAUSE)
        };
    }
    config
}

/// Where an alarm says how often it is tried, it counts whoever is to blame: its target is its own.
pub fn report_for(candidate: &Candidate, report: Report) -> Report {
    let counts_all = candidate
        .standalone
        .as_ref()
        .is_some_and(|alarm| alarm.terms.attempts.is_some());
    match report {
        Report::Transient {
            error, retry_after, ..
        } if counts_all => Report::Transient {
            error,
            of: Blame::Message,
            retry_after,
        },
        other => other,
    }
}

/// What is told of a firing of a stand-alone alarm that is tried again; and a handler that has it has done it.
pub fn end_for(candidate: &Candidate, config: &ChannelConfig, mut end: AttemptEnd) -> AttemptEnd {
    if let AttemptEnd::Retry { error, .. } = &mut end
        && candidate.standalone.is_some()
    {
        let (attempt, most) = (candidate.trigger.attempts + 1, config.retry.attempts);
        *error = format!("RETRY: {error} (attempt {attempt}/{most})");
    }
    if let AttemptEnd::Done {
        outcome: outcome @ Outcome::Sent,
        ..
    } = &mut end
        && candidate.trigger.wish.channel == ChannelKind::Handler
    {
        *outcome = Outcome::Completed;
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_message_has_no_more_parts_than_there_is_room_for() {
        assert_eq!(fitting("Tea — now"), "Tea - now");
        for text in [
            "水やりの時間です。".repeat(60),
            "water the plants, ".repeat(33),
            "👩‍👩‍👧‍👦".repeat(80),
        ] {
            let short = fitting(&text);
            assert_eq!(segments::parts(&short), segments::MOST_PARTS, "{short}");
            assert!(short.ends_with('…') || short.ends_with("..."), "{short}");
            let kept = short.trim_end_matches(['…', '.']);
            assert!(text.starts_with(kept) && kept.chars().count() > 100, "{short}");
        }
    }
}
