//! Occurrences and sendings for the unit tests.

use std::sync::LazyLock;

use chrono::DateTime;
use chrono::NaiveDate;
use chrono::TimeDelta;
use chrono::Utc;

use crate::calendar::event::Occurrence;
use crate::calendar::event::When;
use crate::calendar::zone::Zone;
use crate::channel::Content;
use crate::channel::Message;
use crate::delivery::message::Reminder;
use crate::delivery::message::RenderError;
use crate::delivery::message::Renderer;
use crate::trigger::ChannelKind;
use crate::trigger::OwnerId;
use crate::trigger::TriggerId;

pub(super) fn at(text: &str) -> DateTime<Utc> {
    text.parse().unwrap()
}

pub(super) fn zone(name: &str) -> Zone {
    Zone::iana(name).unwrap()
}

/// Tuesday, 1 December 2026, half past nine in Berlin, half an hour.
pub(super) fn stand_up() -> Occurrence {
    Occurrence {
        summary: "Stand-up".to_owned(),
        description: String::new(),
        location: String::new(),
        link: None,
        organizer: None,
        my_status: None,
        is_private: false,
        when: When::Timed {
            start: at("2026-12-01T08:30:00Z"),
            end: at("2026-12-01T09:00:00Z"),
        },
        zone: None,
        is_task: false,
    }
}

pub(super) fn days(first: u32, last: u32) -> When {
    let day = |day| NaiveDate::from_ymd_opt(2026, 12, day).unwrap();
    let midnight = |day: NaiveDate| zone("Europe/Berlin").to_utc(day.and_hms_opt(0, 0, 0).unwrap());
    When::AllDay {
        first: day(first),
        last: day(last),
        start: midnight(day(first)),
        end: midnight(day(last) + TimeDelta::days(1)),
    }
}

pub(super) struct Sending {
    pub(super) now: DateTime<Utc>,
    pub(super) trigger_at: DateTime<Utc>,
    pub(super) notes: Vec<String>,
}

/// Sent in time.
pub(super) fn sent(now: &str) -> Sending {
    Sending {
        now: at(now),
        trigger_at: at(now),
        notes: vec![],
    }
}

/// A letter, and what it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Written {
    pub(super) message: Message,
    pub(super) subject: String,
    pub(super) text: String,
    pub(super) html: String,
}

pub(super) fn render_in(
    renderer: &Renderer,
    occurrence: &Occurrence,
    sending: &Sending,
    locale: &str,
) -> Result<Written, RenderError> {
    let message = renderer.render(&reminder(occurrence, sending, locale))?;
    let Content::Letter { subject, text, html } = message.content.clone() else {
        panic!("an e-mail is a letter");
    };
    Ok(Written {
        message,
        subject,
        text,
        html,
    })
}

/// One message about all of these.
pub(super) fn render_digest(
    renderer: &Renderer,
    occurrences: &[Occurrence],
    sending: &Sending,
    (locale, channel): (&str, ChannelKind),
) -> Content {
    let reminders: Vec<_> = occurrences
        .iter()
        .map(|occurrence| Reminder {
            channel,
            ..reminder(occurrence, sending, locale)
        })
        .collect();
    renderer
        .render_digest(&reminders[0], &reminders[1..])
        .unwrap()
        .content
}

pub(super) fn render_text(
    renderer: &Renderer,
    occurrence: &Occurrence,
    sending: &Sending,
    locale: &str,
) -> Content {
    let reminder = Reminder {
        channel: ChannelKind::Sms,
        to: "+4930123456",
        ..reminder(occurrence, sending, locale)
    };
    renderer.render(&reminder).unwrap().content
}

fn reminder<'a>(occurrence: &'a Occurrence, sending: &'a Sending, locale: &'a str) -> Reminder<'a> {
    static OWNER: LazyLock<OwnerId> = LazyLock::new(|| OwnerId("jo".to_owned()));
    static ZONE: LazyLock<Zone> = LazyLock::new(|| zone("Europe/Berlin"));
    Reminder {
        trigger: "0123456789abcdef0123456789abcdef".parse::<TriggerId>().unwrap(),
        message: "0123456789abcdef0123456789abcdef".parse::<TriggerId>().unwrap(),
        trigger_at: sending.trigger_at,
        now: sending.now,
        owner: &OWNER,
        event_uid: "stand-up@example.org",
        channel: ChannelKind::Email,
        to: "jo@example.org",
        zone: &ZONE,
        locale,
        occurrence,
        moved: false,
        attempt: 1,
        payload: None,
        notes: &sending.notes,
        answer: None,
    }
}

pub(super) fn task(occurrence: Occurrence) -> Occurrence {
    Occurrence {
        is_task: true,
        ..occurrence
    }
}

pub(super) fn whole_days(first: u32, last: u32) -> Occurrence {
    Occurrence {
        when: days(first, last),
        ..stand_up()
    }
}

/// A folder with one file in the place of one of ours.
pub(super) fn folder_with(name: &str, content: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
    folder
}
