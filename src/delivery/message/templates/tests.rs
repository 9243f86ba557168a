//! Whole mails as snapshots, and the promises that a snapshot does not explain.

use chrono::TimeDelta;
use proptest::prelude::*;

use super::*;
use crate::calendar::event::Occurrence;
use crate::calendar::event::When;
use crate::channel::email::Letterhead;
use crate::channel::email::compose;
use crate::delivery::message::samples::Sending;
use crate::delivery::message::samples::Written;
use crate::delivery::message::samples::at;
use crate::delivery::message::samples::folder_with;
use crate::delivery::message::samples::render_in;
use crate::delivery::message::samples::sent;
use crate::delivery::message::samples::stand_up;
use crate::delivery::message::samples::task;
use crate::delivery::message::samples::whole_days;
use crate::delivery::message::samples::zone;

fn render(occurrence: &Occurrence, sending: &Sending) -> Written {
    render_in(&Renderer::new(None).unwrap(), occurrence, sending, "en").unwrap()
}

fn mail(occurrence: &Occurrence, sending: &Sending) -> String {
    let letterhead = Letterhead {
        from: "Carillon <carillon@example.org>".parse().unwrap(),
        envelope_sender: None,
        message_id_domain: "carillon.example.org".to_owned(),
    };
    let letter = compose(&letterhead, &render(occurrence, sending).message, sending.now).unwrap();
    letter.raw.replace("\r\n", "\n")
}

#[test]
fn a_timed_event() {
    let occurrence = Occurrence {
        description: "Agenda: https://example.org/agenda?a=1&b=2 (short).\n\nBring <coffee>.".to_owned(),
        location: "Room 7".to_owned(),
        link: Some("https://meet.example.org/abc".to_owned()),
        organizer: Some("Ann Lee".to_owned()),
        my_status: Some("NEEDS-ACTION".to_owned()),
        ..stand_up()
    };
    insta::assert_snapshot!(mail(&occurrence, &sent("2026-12-01T08:15:00Z")));
}

#[test]
fn an_event_of_whole_days() {
    let occurrence = Occurrence {
        summary: "Conference".to_owned(),
        ..whole_days(1, 3)
    };
    insta::assert_snapshot!(mail(&occurrence, &sent("2026-11-30T08:00:00Z")));
}

#[test]
fn an_event_in_another_zone() {
    let occurrence = Occurrence {
        zone: Some(zone("America/St_Johns")),
        when: When::Timed {
            start: at("2026-12-01T22:30:00Z"),
            end: at("2026-12-01T23:30:00Z"),
        },
        ..stand_up()
    };
    insta::assert_snapshot!(mail(&occurrence, &sent("2026-12-01T21:00:00Z")));
}

#[test]
fn a_hostile_summary() {
    let occurrence = Occurrence {
        summary: "Tom & Jerry's <b>Übung</b>\r\nBcc: eve@example.net".to_owned(),
        description: "<script>alert(1)</script>\njavascript:alert(1) ftp://example.org \"q\"".to_owned(),
        location: "<img src=x onerror=alert(1)>".to_owned(),
        link: Some("javascript:alert(1)".to_owned()),
        organizer: Some("Eve\r\n<eve>".to_owned()),
        my_status: Some("<I>".to_owned()),
        ..stand_up()
    };
    insta::assert_snapshot!(mail(&occurrence, &sent("2026-12-01T08:15:00Z")));
}

#[test]
fn a_long_description_that_is_late() {
    let occurrence = Occurrence {
        summary: String::new(),
        description: "A long way to go, and größer than most. ".repeat(60),
        ..stand_up()
    };
    let sending = Sending {
        now: at("2026-12-01T08:33:00Z"),
        trigger_at: at("2026-12-01T08:20:00Z"),
        notes: vec!["Moved from Monday.".to_owned()],
    };
    insta::assert_snapshot!(mail(&occurrence, &sending));
}

#[test]
fn a_task() {
    let occurrence = Occurrence {
        summary: "Hand in the report".to_owned(),
        my_status: Some("IN-PROCESS".to_owned()),
        ..task(stand_up())
    };
    insta::assert_snapshot!(mail(&occurrence, &sent("2026-12-01T08:00:00Z")));
}

fn assert_first_lines(table: impl IntoIterator<Item = (Occurrence, &'static str, &'static str)>) {
    for (occurrence, now, told) in table {
        let message = render(&occurrence, &sent(now));
        assert_eq!(
            message.text.lines().next(),
            Some(&*format!("{told}: Stand-up")),
            "{now}"
        );
        assert!(message.html.contains(told), "{now}");
    }
}

#[test]
fn t10_the_first_line_is_told_at_the_moment_of_sending() {
    assert_first_lines([
        (stand_up(), "2026-12-01T07:00:00Z", "Starts in 1 hour 30 minutes"),
        (stand_up(), "2026-11-29T08:30:00Z", "Starts in 2 days"),
        (stand_up(), "2026-12-01T08:29:00Z", "Starts in 1 minute"),
        (stand_up(), "2026-12-01T08:30:01Z", "Starts now"),
        (stand_up(), "2026-12-01T08:33:00Z", "Started 3 minutes ago"),
        (stand_up(), "2026-12-01T09:00:10Z", "Ended just now"),
        (stand_up(), "2026-12-01T11:00:00Z", "Ended 2 hours ago"),
        (task(stand_up()), "2026-12-01T08:30:00Z", "Due in 30 minutes"),
        (task(stand_up()), "2026-12-01T09:00:00Z", "Due now"),
        (task(stand_up()), "2026-12-01T10:00:00Z", "Was due 1 hour ago"),
    ]);
}

#[test]
fn whole_days_are_told_in_the_recipients_days() {
    assert_first_lines([
        (whole_days(2, 2), "2026-11-30T12:00:00Z", "In 2 days"),
        (whole_days(2, 2), "2026-12-01T12:00:00Z", "Tomorrow"),
        (whole_days(2, 2), "2026-12-01T23:30:00Z", "Today"),
        (whole_days(2, 2), "2026-12-02T23:30:00Z", "Ended yesterday"),
        (whole_days(2, 4), "2026-12-03T12:00:00Z", "Started yesterday"),
        (whole_days(2, 4), "2026-12-04T12:00:00Z", "Started 2 days ago"),
        (whole_days(2, 4), "2026-12-07T12:00:00Z", "Ended 3 days ago"),
        (task(whole_days(2, 2)), "2026-12-02T12:00:00Z", "Due today"),
        (task(whole_days(2, 2)), "2026-12-01T12:00:00Z", "Due tomorrow"),
        (
            task(whole_days(2, 2)),
            "2026-12-03T12:00:00Z",
            "Was due yesterday",
        ),
    ]);
}

#[test]
fn t02_t03_t04_the_subject_tells_when_in_the_recipients_zone() {
    let timed = |start: &str, end: &str| Occurrence {
        when: When::Timed {
            start: at(start),
            end: at(end),
        },
        ..stand_up()
    };
    for (occurrence, told) in [
        (stand_up(), "Tue 1 Dec 2026, 09:30-10:00 (Europe/Berlin, UTC+1)"),
        (
            timed("2026-07-01T08:30:00Z", "2026-07-01T08:30:00Z"),
            "Wed 1 Jul 2026, 10:30 (Europe/Berlin, UTC+2)",
        ),
        (
            timed("2026-12-01T22:00:00Z", "2026-12-02T01:00:00Z"),
            "Tue 1 Dec 2026, 23:00 - Wed 2 Dec 2026, 02:00 (Europe/Berlin, UTC+1)",
        ),
        (whole_days(1, 1), "Tue 1 Dec 2026"),
        (whole_days(1, 3), "Tue 1 Dec 2026 - Thu 3 Dec 2026"),
    ] {
        let subject = render(&occurrence, &sent("2026-11-01T08:00:00Z")).subject;
        assert_eq!(subject, format!("Reminder: Stand-up - {told}"));
    }
}

#[test]
fn t07_html_is_escaped_in_html_alone_and_once() {
    let occurrence = Occurrence {
        summary: "Tom & Jerry's".to_owned(),
        description: "a & b https://example.org/?a=1&b=2.".to_owned(),
        ..stand_up()
    };
    let message = render(&occurrence, &sent("2026-12-01T08:15:00Z"));
    assert!(message.subject.contains("Tom & Jerry's"));
    assert!(message.text.contains("Tom & Jerry's") && message.text.contains("a & b"));
    assert!(message.html.contains("<bdi>Tom &amp; Jerry&#x27;s</bdi></h1>"));
    let link = "a &amp; b <a href=\"https://example.org/?a=1&amp;b=2\">";
    assert!(message.html.contains(link), "{}", message.html);
    assert!(!message.html.contains("&amp;amp;"));
}

#[test]
fn a_private_event_is_told_in_full() {
    let private = Occurrence {
        is_private: true,
        ..stand_up()
    };
    let sending = sent("2026-12-01T08:15:00Z");
    assert_eq!(render(&private, &sending), render(&stand_up(), &sending));
}

#[test]
fn all_reminders_of_an_event_are_one_thread() {
    let message = render(&stand_up(), &sent("2026-12-01T08:15:00Z")).message;
    let later = render(&stand_up(), &sent("2026-12-01T08:30:00Z")).message;
    assert_eq!(message.thread, later.thread);
    assert!(message.thread.bytes().all(|byte| byte.is_ascii_hexdigit()));
}

#[test]
fn an_operators_file_stands_in_for_ours() {
    let folder = folder_with("reminder.txt", "Soon: {{ title }}\n");
    let renderer = Renderer::new(Some(folder.path())).unwrap();
    let message = render_in(&renderer, &stand_up(), &sent("2026-12-01T08:15:00Z"), "en").unwrap();
    assert_eq!(message.text, "Soon: Stand-up");
    assert!(message.html.contains("Starts in 15 minutes"));
}

#[test]
fn a_template_that_cannot_be_read_is_named_with_its_line() {
    let folder = folder_with("reminder.txt", "fine\n{% if %}\n");
    let error = Renderer::new(Some(folder.path())).unwrap_err().to_string();
    assert!(error.contains("`reminder.txt`, line 2: syntax error"), "{error}");
}

#[test]
fn a_template_that_fails_says_where_and_nothing_of_the_event() {
    for (content, what) in [
        ("\n{{ titel }}", "line 2: undefined"),
        ("{{ title + 1 }}", "line 1: invalid operation"),
        (
            "{% for a in range(10000) %}{% for b in range(10000) %}{% endfor %}{% endfor %}",
            "fuel",
        ),
    ] {
        let folder = folder_with("reminder.txt", content);
        let error = Renderer::new(Some(folder.path())).unwrap_err().to_string();
        assert!(
            error.contains("`reminder.txt`") && error.contains(what),
            "{error}"
        );
        assert!(!error.contains("Stand-up"), "{error}");
    }
}

#[test]
fn all_that_templates_are_given_is_documented_for_operators() {
    let languages = Languages::new(None).unwrap();
    let documented = include_str!("../../../../config/templates/README.md");
    let digest = DigestWording::of(&Facts::samples(), ("0123", 4), languages.nearest("en")).unwrap();
    let digest = serde_json::to_value(digest).unwrap();
    for name in digest.as_object().unwrap().keys() {
        assert!(documented.contains(&format!("`{name}`")), "{name}");
    }
    for facts in Facts::samples() {
        let wording = Wording::of(&facts, languages.nearest("en")).unwrap();
        let wording = serde_json::to_value(wording).unwrap();
        for name in wording.as_object().unwrap().keys() {
            assert!(documented.contains(&format!("`{name}`")), "{name}");
        }
        for line in wording["lines"].as_array().unwrap() {
            assert!(
                documented.contains(&format!("`{}`", line["name"].as_str().unwrap())),
                "{line}"
            );
        }
    }
}

proptest! {
    #[test]
    fn whatever_an_event_holds_it_becomes_one_line_and_no_markup(
        words in proptest::collection::vec("(?s).{0,40}|<x>|https://[a-z<>\"'&]{0,9}|[\r\n]", 0..12),
        minutes in -100_000_i64..100_000,
    ) {
        let text = words.concat();
        let occurrence = Occurrence {
            summary: text.clone(),
            description: text.clone(),
            location: text.clone(),
            link: Some(text.clone()),
            organizer: Some(text.clone()),
            my_status: Some(text),
            ..stand_up()
        };
        let now = at("2026-12-01T08:30:00Z") + TimeDelta::minutes(minutes);
        let message = render(&occurrence, &Sending { now, trigger_at: now, notes: vec![] });
        prop_assert!(!message.subject.contains(char::is_control));
        prop_assert!(message.subject.ends_with("(Europe/Berlin, UTC+1)"));
        prop_assert!(!message.html.contains("<x>") && !message.html.contains("&amp;amp;"));
        prop_assert_eq!(message.html.matches("href=").count(), message.html.matches("<a href=\"http").count());
    }
}
