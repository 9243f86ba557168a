//! One reminder in every language as snapshots, and what an operator can do to words.

use chrono::TimeDelta;
use mail_parser::MessageParser;
use proptest::prelude::*;

use super::*;
use crate::calendar::event::Occurrence;
use crate::calendar::event::When;
use crate::channel::Content;
use crate::channel::Message;
use crate::channel::email::Letterhead;
use crate::channel::email::compose;
use crate::delivery::message::Renderer;
use crate::delivery::message::samples::Sending;
use crate::delivery::message::samples::Written;
use crate::delivery::message::samples::at;
use crate::delivery::message::samples::folder_with;
use crate::delivery::message::samples::render_digest;
use crate::delivery::message::samples::render_in;
use crate::delivery::message::samples::sent;
use crate::delivery::message::samples::stand_up;
use crate::delivery::message::samples::task;
use crate::delivery::message::samples::whole_days;
use crate::delivery::message::samples::zone;
use crate::trigger::ChannelKind;

const TAGS: [&str; 7] = ["en", "en-US", "de", "fr", "es", "ja", "ar"];

fn render(occurrence: &Occurrence, sending: &Sending, locale: &str) -> Written {
    render_in(&Renderer::new(None).unwrap(), occurrence, sending, locale).unwrap()
}

/// With all the lines there are.
fn full() -> Occurrence {
    Occurrence {
        description: "Agenda: https://example.org/agenda".to_owned(),
        location: "Room 7".to_owned(),
        link: Some("https://meet.example.org/abc".to_owned()),
        organizer: Some("Ann Lee".to_owned()),
        my_status: Some("TENTATIVE".to_owned()),
        zone: Some(zone("America/St_Johns")),
        when: When::Timed {
            start: at("2026-12-01T12:30:00Z"),
            end: at("2026-12-01T13:00:00Z"),
        },
        ..stand_up()
    }
}

/// Subject and text in every language, one below the other.
fn in_every_language(occurrence: &Occurrence, sending: &Sending) -> String {
    let told = TAGS.map(|tag| {
        let message = render(occurrence, sending, tag);
        format!("== {tag}\n{}\n\n{}\n", message.subject, message.text)
    });
    told.concat()
}

/// Invisible characters made visible, for who reads the snapshot.
fn visible(text: &str) -> String {
    text.replace('\u{2068}', "⟨")
        .replace('\u{2069}', "⟩")
        .replace('\u{a0}', "⍽")
}

#[test]
fn an_event_in_each_language() {
    for tag in TAGS {
        let message = render(&full(), &sent("2026-12-01T11:00:00Z"), tag);
        assert_eq!(message.message.language, tag);
        let shown = format!("{}\n\n{}\n\n{}", message.subject, message.text, message.html);
        insta::assert_snapshot!(format!("an_event_in_{tag}"), visible(&shown));
    }
}

#[test]
fn whole_days_in_every_language() {
    let shown = in_every_language(&whole_days(1, 3), &sent("2026-11-30T08:00:00Z"));
    insta::assert_snapshot!(visible(&shown));
}

#[test]
fn a_late_reminder_in_every_language() {
    let sending = Sending {
        now: at("2026-12-01T08:35:00Z"),
        trigger_at: at("2026-12-01T08:15:00Z"),
        notes: vec![],
    };
    let untitled = Occurrence {
        summary: String::new(),
        description: "A long way to go. ".repeat(200),
        ..stand_up()
    };
    let shown = in_every_language(&untitled, &sending).replace("A long way to go. ", "");
    insta::assert_snapshot!(visible(&shown));
}

/// One message about these in a language: subject, text, HTML.
fn digest_in(occurrences: &[Occurrence], sending: &Sending, tag: &str) -> (String, String, String) {
    let renderer = Renderer::new(None).unwrap();
    match render_digest(&renderer, occurrences, sending, (tag, ChannelKind::Email)) {
        Content::Letter { subject, text, html } => (subject, text, html),
        other => panic!("{other:?}"),
    }
}

#[test]
fn several_reminders_in_each_language() {
    let untitled = Occurrence {
        summary: String::new(),
        ..whole_days(2, 3)
    };
    let several = [full(), untitled, task(stand_up())];
    let sending = Sending {
        trigger_at: at("2026-12-01T09:30:00Z"),
        ..sent("2026-12-01T11:00:00Z")
    };
    for tag in TAGS {
        let (subject, text, html) = digest_in(&several, &sending, tag);
        let shown = format!("{subject}\n\n{text}\n\n{html}");
        insta::assert_snapshot!(format!("several_reminders_in_{tag}"), visible(&shown));
    }
}

#[test]
fn what_is_not_listed_is_counted_in_every_language() {
    let told = TAGS.map(|tag| {
        let counts = [51, 52, 53, 61].map(|count| {
            let several = vec![stand_up(); count];
            let (subject, text, html) = digest_in(&several, &sent("2026-12-01T08:15:00Z"), tag);
            assert_eq!(html.matches("<h2 ").count(), 50, "{tag}");
            let listed = text.split("\n\n--\n").next().unwrap_or_default();
            format!("{subject} / {}\n", listed.lines().last().unwrap_or_default())
        });
        format!("== {tag}\n{}", counts.concat())
    });
    insta::assert_snapshot!(visible(&told.concat()));
}

/// The first line of a message and no more of it than the distance.
fn distance(occurrence: &Occurrence, now: &str, tag: &str) -> String {
    let message = render(occurrence, &sent(now), tag);
    let line = message.text.lines().next().unwrap();
    line.split("Stand-up")
        .next()
        .unwrap()
        .trim_end_matches([' ', '\u{2068}', ':', '：', '\u{a0}'])
        .to_owned()
}

#[test]
fn distances_in_every_language() {
    let table = [
        (stand_up(), "2026-12-01T08:29:00Z"),
        (stand_up(), "2026-12-01T07:00:00Z"),
        (stand_up(), "2026-11-29T08:30:00Z"),
        (stand_up(), "2026-12-01T08:30:00Z"),
        (stand_up(), "2026-12-01T08:35:00Z"),
        (stand_up(), "2026-12-01T09:00:00Z"),
        (stand_up(), "2026-12-01T11:00:00Z"),
        (whole_days(2, 4), "2026-11-30T12:00:00Z"),
        (whole_days(2, 4), "2026-12-02T12:00:00Z"),
        (whole_days(2, 4), "2026-12-03T12:00:00Z"),
        (whole_days(2, 4), "2026-12-05T12:00:00Z"),
        (task(stand_up()), "2026-12-01T08:30:00Z"),
        (task(stand_up()), "2026-12-01T09:00:00Z"),
        (task(stand_up()), "2026-12-01T11:00:00Z"),
        (task(whole_days(2, 2)), "2026-12-01T12:00:00Z"),
        (task(whole_days(2, 2)), "2026-12-02T12:00:00Z"),
        (task(whole_days(2, 2)), "2026-12-03T12:00:00Z"),
    ];
    let told = TAGS.map(|tag| {
        let lines = table
            .iter()
            .map(|(occurrence, now)| distance(occurrence, now, tag) + "\n");
        format!("== {tag}\n{}", lines.collect::<String>())
    });
    insta::assert_snapshot!(visible(&told.concat()));
}

#[test]
fn arabic_counts_in_six_ways() {
    let start = at("2026-12-01T08:30:00Z");
    let ahead = |distance: TimeDelta| distance_at(&stand_up(), start - distance);
    let days: Vec<_> = [1, 2, 3, 11, 100, 102, 103, 111]
        .map(|n| ahead(TimeDelta::days(n)))
        .into();
    let hours: Vec<_> = [1, 2, 3, 11].map(|n| ahead(TimeDelta::hours(n))).into();
    let minutes: Vec<_> = [1, 2, 3, 11, 59].map(|n| ahead(TimeDelta::minutes(n))).into();
    insta::assert_snapshot!([days, hours, minutes].concat().join("\n"));
}

fn distance_at(occurrence: &Occurrence, now: chrono::DateTime<chrono::Utc>) -> String {
    distance(occurrence, &now.to_rfc3339(), "ar")
}

#[test]
fn days_and_hours_have_their_names_in_every_language() {
    let told = TAGS.map(|tag| {
        let dates = (1..=12).map(|month| {
            let start = at(&format!(
                "2026-{month:02}-{:02}T{:02}:05:00Z",
                month,
                month * 2 - 1
            ));
            let occurrence = Occurrence {
                when: When::Timed { start, end: start },
                ..stand_up()
            };
            let message = render(&occurrence, &sent("2026-01-01T00:00:00Z"), tag);
            let line = message.text.lines().nth(2).unwrap().to_owned();
            format!("{line} | {}\n", message.subject)
        });
        format!("== {tag}\n{}", dates.collect::<String>())
    });
    insta::assert_snapshot!(visible(&told.concat()));
}

#[test]
fn a_locale_gets_the_nearest_language() {
    let languages = Languages::new(None).unwrap();
    for (locale, tag) in [
        ("de-AT", "de"),
        ("DE", "de"),
        ("en-us", "en-US"),
        ("en-GB", "en"),
        ("zh-Hant-TW", "en"),
        ("fr-CA-x-private", "fr"),
        ("deu", "en"),
        ("", "en"),
    ] {
        assert_eq!(languages.nearest(locale).tag, tag, "{locale}");
    }
}

#[test]
fn t08_our_languages_leave_nothing_to_english() {
    assert_eq!(Renderer::new(None).unwrap().gaps(), []);
}

#[test]
fn arabic_runs_from_right_to_left_and_what_does_not_is_kept_apart() {
    let message = render(&full(), &sent("2026-12-01T11:00:00Z"), "ar");
    assert!(message.html.contains("<html lang=\"ar\" dir=\"rtl\">"));
    assert!(message.html.contains("<bdi>Stand-up</bdi>"));
    assert!(message.subject.contains("\u{2068}Stand-up\u{2069}"));
    assert!(message.text.contains("\u{2068}Room 7\u{2069}"));
    let in_arabic = Occurrence {
        summary: "اجتماع".to_owned(),
        location: "قاعة".to_owned(),
        ..stand_up()
    };
    let sending = sent("2026-12-01T08:15:00Z");
    let arabic = render(&in_arabic, &sending, "ar");
    assert!(
        !arabic.text.lines().next().unwrap().contains('\u{2068}'),
        "{}",
        arabic.text
    );
    let english = render(&in_arabic, &sending, "en");
    assert!(english.html.contains("<html lang=\"en\" dir=\"ltr\">"));
    assert!(
        english
            .subject
            .starts_with("Reminder: \u{2068}اجتماع\u{2069} - Tue"),
        "{}",
        english.subject
    );
}

#[test]
fn foreign_text_cannot_turn_what_follows() {
    let hostile = Occurrence {
        summary: "a\u{202e}b\u{2069}c\u{2067}\u{200f}".to_owned(),
        ..stand_up()
    };
    let message = render(&hostile, &sent("2026-12-01T08:15:00Z"), "en");
    assert!(
        message.subject.contains("\u{2068}abc\u{200f}\u{2069} - "),
        "{:?}",
        message.subject
    );
}

/// The header as it travels, unfolded, and what a mail program makes of it.
fn subject_of(message: &Message) -> (String, String) {
    let letterhead = Letterhead {
        from: "Carillon <carillon@example.org>".parse().unwrap(),
        envelope_sender: None,
        message_id_domain: "carillon.example.org".to_owned(),
    };
    let raw = compose(&letterhead, message, at("2026-12-01T08:15:00Z"))
        .unwrap()
        .raw;
    let header = raw
        .split("Subject: ")
        .nth(1)
        .unwrap()
        .split("\r\nDate:")
        .next()
        .unwrap();
    assert!(
        raw.is_ascii() && header.split("\r\n").all(|line| line.len() <= 78),
        "{header}"
    );
    let read = MessageParser::default().parse(raw.as_bytes()).unwrap();
    (header.replace("\r\n", ""), read.subject().unwrap().to_owned())
}

#[test]
fn subjects_in_every_language_are_whole_encoded_words() {
    for tag in TAGS {
        for title in ["Stand-up", "اجتماع الفريق الأسبوعي مع Ann 🗓", "定例会議"]
        {
            let occurrence = Occurrence {
                summary: title.repeat(5),
                ..stand_up()
            };
            let message = render(&occurrence, &sent("2026-12-01T08:15:00Z"), tag);
            let (header, read) = subject_of(&message.message);
            assert_eq!(read, message.subject, "{tag}");
            // RFC 2047 section 2: each at most 75 characters; section 5: each whole by itself.
            for word in header.split(' ').filter(|word| word.starts_with("=?")) {
                assert!(word.len() <= 75 && word.ends_with("?="), "{word}");
                let alone = format!("Subject: {word}\r\n\r\n");
                let read = MessageParser::default().parse(alone.as_bytes()).unwrap();
                assert!(!read.subject().unwrap().contains('\u{fffd}'), "{word}");
            }
        }
    }
}

fn error_of(name: &str, content: &str) -> String {
    let folder = folder_with(name, content);
    Renderer::new(Some(folder.path())).expect_err(content).to_string()
}

#[test]
fn a_flaw_in_words_is_named_with_file_line_and_message() {
    for (content, told) in [
        (
            "late = so\nmore = { $count\n",
            "line 2, message `more`: Expected a token starting with \"}\"",
        ),
        (
            "# fine\nmore = { $count }",
            "line 2, message `more`: there is no `$count` here",
        ),
        (
            "days = { $count ->\n [one] { $x }\n *[other] y\n }",
            "line 1, message `days`: there is no `$x` here",
        ),
        (
            "more = { mroe }",
            "line 1, message `more`: it says `mroe`, which this language does not have",
        ),
        ("more = { -brand }", "message `more`: it says `-brand`"),
        (
            "subjct = { $title }",
            "message `subjct`: nothing says it: did you mean `subject`?",
        ),
        ("\nmore = a\n\nmore = b", "message `more`: it is there twice"),
        (
            "time = { DATETIME($hour) }",
            "message `time`: there is no function `DATETIME`",
        ),
        ("more = { more }", "message `more`: Resolver error: Cyclical"),
    ] {
        let error = error_of("de.ftl", content);
        assert!(error.contains(told), "{content}\n{error}");
        assert!(error.contains("de.ftl") || error.contains("`de`"), "{error}");
    }
    assert!(error_of("de_AT.ftl", "").contains("name it de-AT.ftl"));
    assert!(error_of("deutsch 2.ftl", "").contains("is no language tag"));
}

#[test]
fn every_flaw_of_every_file_is_named_at_once() {
    let folder = folder_with("de.ftl", "more = { $a } { $b }\n");
    std::fs::write(folder.path().join("ja.ftl"), "more = { $c }\n").unwrap();
    let error = Renderer::new(Some(folder.path())).unwrap_err().to_string();
    for variable in ["$a", "$b", "$c"] {
        assert!(error.contains(variable), "{error}");
    }
}

#[test]
fn an_operator_changes_a_message_and_keeps_the_others() {
    let folder = folder_with("de.ftl", "-name = Glocke\nsubject = { -name }: { $title }\n");
    let renderer = Renderer::new(Some(folder.path())).unwrap();
    let message = render_in(&renderer, &stand_up(), &sent("2026-12-01T08:15:00Z"), "de").unwrap();
    assert_eq!(message.subject, "Glocke: Stand-up");
    assert!(message.text.starts_with("Beginnt in 15 Minuten: Stand-up"));
}

#[test]
fn a_region_is_a_file_with_what_differs_there() {
    let folder = folder_with(
        "de-AT.ftl",
        "month = { $month ->\n  [1] Jänner\n *[other] { month-short }\n }\n",
    );
    let renderer = Renderer::new(Some(folder.path())).unwrap();
    let start = at("2026-01-01T08:30:00Z");
    let new_year = Occurrence {
        when: When::Timed { start, end: start },
        ..stand_up()
    };
    let message = render_in(&renderer, &new_year, &sent("2026-01-01T08:15:00Z"), "de-AT").unwrap();
    assert_eq!(message.message.language, "de-AT");
    assert!(
        message.text.contains("Wann: Donnerstag, 1. Jänner 2026"),
        "{}",
        message.text
    );
    assert_eq!(renderer.gaps(), []);
}

#[test]
fn a_new_language_needs_no_build_and_english_fills_its_gaps() {
    let folder = folder_with(
        "he.ftl",
        "starts-in = מתחיל בעוד { $distance }\nlabel-where = מיקום\n",
    );
    let renderer = Renderer::new(Some(folder.path())).unwrap();
    let message = render_in(&renderer, &full(), &sent("2026-12-01T11:30:00Z"), "he-IL").unwrap();
    assert_eq!(message.message.language, "he");
    assert!(message.html.contains("dir=\"rtl\""));
    assert!(message.text.starts_with("מתחיל בעוד 1 hour"), "{}", message.text);
    assert!(
        message.text.contains("When: Tuesday, 1 December 2026"),
        "{}",
        message.text
    );
    let gaps = renderer.gaps();
    assert_eq!((gaps.len(), &*gaps[0].language), (1, "he"));
    assert!(gaps[0].messages.contains(&"subject") && !gaps[0].messages.contains(&"label-where"));
}

proptest! {
    #[test]
    fn isolates_are_balanced_in_whatever_language(
        title in "(\u{202e}|\u{2066}|\u{2069}|a|ب|1|.){0,60}",
        tag in prop::sample::select(TAGS.to_vec()),
        minutes in -100_000_i64..100_000,
    ) {
        let occurrence = Occurrence { location: title.clone(), summary: title, ..stand_up() };
        let now = at("2026-12-01T08:30:00Z") + TimeDelta::minutes(minutes);
        let message = render(&occurrence, &Sending { now, trigger_at: now, notes: vec![] }, tag);
        for line in message.text.lines().chain([&*message.subject]) {
            prop_assert_eq!(line.matches('\u{2068}').count(), line.matches('\u{2069}').count());
            prop_assert_eq!(line.find(['\u{202e}', '\u{2066}']), None);
        }
        prop_assert!(!message.subject.contains(char::is_control));
    }
}
