//! A reminder for programs: the same facts as in a message for people, as JSON.

use chrono::DateTime;
use chrono::NaiveDate;
use chrono::SecondsFormat;
use chrono::Utc;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::calendar::event::When;
use crate::calendar::zone::Zone;
use crate::delivery::message::Reminder;
use crate::delivery::message::facts::Facts;

/// What is posted. The README documents it; members may be added, and none changes its meaning.
#[derive(Debug, Serialize)]
struct Document<'a> {
    r#type: &'static str,
    id: &'a str,
    timestamp: String,
    scheduled_for: String,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    moved: bool,
    attempt: u32,
    owner: &'a str,
    event: Event<'a>,
    occurrence: Occurrence<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<&'a RawValue>,
}

/// What is posted where one message stands for several reminders.
#[derive(Debug, Serialize)]
struct Several<'a> {
    r#type: &'static str,
    id: &'a str,
    timestamp: String,
    attempt: u32,
    owner: &'a str,
    digest: Vec<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<&'a RawValue>,
}

#[derive(Debug, Serialize)]
struct Event<'a> {
    uid: &'a str,
    kind: &'static str,
    private: bool,
    #[serde(skip_serializing_if = "str::is_empty")]
    summary: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    description: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    location: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    link: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    organizer: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    my_status: Option<&'a str>,
}

#[derive(Debug, Serialize)]
struct Occurrence<'a> {
    start: String,
    end: String,
    zone: &'a str,
    /// The event's own zone, where it has one that is not the person's.
    #[serde(skip_serializing_if = "Option::is_none")]
    event_zone: Option<&'a str>,
    all_day: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_day: Option<NaiveDate>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_day: Option<NaiveDate>,
}

/// The document of one reminder.
pub(super) fn document(reminder: &Reminder<'_>) -> String {
    let facts = Facts::of(reminder);
    let document = Document {
        r#type: "alarm",
        id: &facts.trigger_id,
        timestamp: instant(reminder.now),
        scheduled_for: instant(reminder.trigger_at),
        moved: reminder.moved,
        attempt: reminder.attempt,
        owner: &reminder.owner.0,
        event: Event {
            uid: reminder.event_uid,
            kind: if facts.is_task { "task" } else { "event" },
            private: reminder.occurrence.is_private,
            summary: &facts.title,
            description: &facts.description,
            location: &facts.location,
            link: facts.link.as_deref(),
            organizer: facts.organizer.as_deref(),
            my_status: facts.my_status.as_deref(),
        },
        occurrence: occurrence(reminder),
        payload: payload(reminder),
    };
    serde_json::to_string(&document).expect("texts and numbers can be written")
}

/// The document of several reminders, the first of which it is named after: the documents of all of them.
pub(super) fn digest(first: &Reminder<'_>, others: &[Reminder<'_>]) -> String {
    let reminders = std::iter::once(first).chain(others);
    let documents = reminders.map(|reminder| {
        let bare = Reminder {
            payload: None,
            ..reminder.clone()
        };
        RawValue::from_string(document(&bare)).expect("it was written as JSON")
    });
    let digest = Several {
        r#type: "digest",
        id: &first.message.to_string(),
        timestamp: instant(first.now),
        attempt: first.attempt,
        owner: &first.owner.0,
        digest: documents.collect(),
        payload: payload(first),
    };
    serde_json::to_string(&digest).expect("texts and numbers can be written")
}

/// What was stored was read as JSON before.
fn payload<'a>(reminder: &Reminder<'a>) -> Option<&'a RawValue> {
    let payload = reminder.payload?;
    serde_json::from_str(payload).ok()
}

fn occurrence<'a>(reminder: &Reminder<'a>) -> Occurrence<'a> {
    let when = &reminder.occurrence.when;
    let (first_day, last_day) = match when {
        When::Timed { .. } => (None, None),
        When::AllDay { first, last, .. } => (Some(*first), Some(*last)),
    };
    Occurrence {
        start: instant(when.start()),
        end: instant(when.end()),
        zone: reminder.zone.name(),
        event_zone: reminder.occurrence.zone.as_ref().map(Zone::name),
        all_day: first_day.is_some(),
        first_day,
        last_day,
    }
}

fn instant(instant: DateTime<Utc>) -> String {
    instant.to_rfc3339_opts(SecondsFormat::AutoSi, true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calendar::event;
    use crate::channel::Content;
    use crate::delivery::message::Renderer;
    use crate::delivery::message::samples::at;
    use crate::delivery::message::samples::render_digest;
    use crate::delivery::message::samples::sent;
    use crate::delivery::message::samples::stand_up;
    use crate::delivery::message::samples::whole_days;
    use crate::delivery::message::samples::zone;
    use crate::trigger::ChannelKind;
    use crate::trigger::OwnerId;

    fn shown(occurrence: &event::Occurrence, payload: Option<&str>) -> String {
        let written = document(&Reminder {
            trigger: "0123456789abcdef0123456789abcdef".parse().unwrap(),
            message: "0123456789abcdef0123456789abcdef".parse().unwrap(),
            trigger_at: at("2026-12-01T08:15:00Z"),
            now: at("2026-12-01T08:15:00.250Z"),
            owner: &OwnerId("jo".to_owned()),
            event_uid: "stand-up@example.org",
            channel: ChannelKind::Webhook,
            to: "https://example.org/hook",
            zone: &zone("Europe/Berlin"),
            locale: "en",
            occurrence,
            moved: false,
            attempt: 2,
            payload,
            notes: &[],
            answer: None,
        });
        let read: serde_json::Value = serde_json::from_str(&written).unwrap();
        serde_json::to_string_pretty(&read).unwrap()
    }

    #[test]
    fn a_timed_event_with_all_there_is() {
        let occurrence = event::Occurrence {
            description: "Agenda: \"https://example.org\"\r\n<b>&".to_owned(),
            location: "Room 7".to_owned(),
            link: Some("https://meet.example.org/abc".to_owned()),
            organizer: Some("Ann Lee".to_owned()),
            my_status: Some("ACCEPTED".to_owned()),
            is_private: true,
            zone: Some(zone("America/St_Johns")),
            ..stand_up()
        };
        insta::assert_snapshot!(shown(&occurrence, Some(r#"{"step": 2, "exact": 1.10}"#)));
    }

    #[test]
    fn several_reminders_are_one_document_with_the_document_of_each() {
        let renderer = Renderer::new(None).unwrap();
        let several = [stand_up(), whole_days(1, 3)];
        let sending = sent("2026-12-01T08:15:00Z");
        let digest = render_digest(&renderer, &several, &sending, ("en", ChannelKind::Webhook));
        let Content::Json(written) = digest else {
            panic!("{digest:?}");
        };
        let read: serde_json::Value = serde_json::from_str(&written).unwrap();
        insta::assert_snapshot!(serde_json::to_string_pretty(&read).unwrap());
    }

    #[test]
    fn an_event_of_whole_days_without_words() {
        let occurrence = event::Occurrence {
            summary: String::new(),
            link: Some("javascript:alert(1)".to_owned()),
            ..whole_days(1, 3)
        };
        insta::assert_snapshot!(shown(&occurrence, None));
    }
}
