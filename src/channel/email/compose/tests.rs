//! Whole mails as snapshots, and what must hold for every mail.

use proptest::prelude::*;

use super::*;

fn letterhead() -> Letterhead {
    Letterhead {
        from: "Carillon <carillon@example.org>".parse().unwrap(),
        envelope_sender: None,
        message_id_domain: "carillon.example.org".to_owned(),
    }
}

fn message() -> Message {
    Message {
        id: "0123456789abcdef0123456789abcdef".to_owned(),
        thread: "fedcba9876543210fedcba9876543210".to_owned(),
        owner: 7,
        to: "jo@example.org".to_owned(),
        content: Content::Letter {
            subject: "Reminder: Stand-up".to_owned(),
            text: "Starts in 15 minutes: Stand-up\n".to_owned(),
            html: "<p>Starts in 15 minutes</p>\n".to_owned(),
        },
        language: "en".to_owned(),
        within: None,
        own: crate::channel::Own::default(),
    }
}

fn with_subject(subject: &str) -> Message {
    let content = Content::Letter {
        subject: subject.to_owned(),
        text: "Starts in 15 minutes: Stand-up\n".to_owned(),
        html: "<p>Starts in 15 minutes</p>\n".to_owned(),
    };
    Message { content, ..message() }
}

fn now() -> DateTime<Utc> {
    "2026-12-01T08:15:00Z".parse().unwrap()
}

fn raw(message: &Message) -> String {
    compose(&letterhead(), message, now()).unwrap().raw
}

/// The unfolded value of a header.
fn header_of(raw: &str, name: &str) -> String {
    let unfolded = raw.replace("\r\n ", " ");
    let start = format!("{name}: ");
    unfolded
        .lines()
        .find_map(|line| line.strip_prefix(&start))
        .expect("the header is there")
        .to_owned()
}

/// Decodes each encoded word (RFC 2047) by itself, as a reader must.
fn decoded(value: &str) -> String {
    let words = value.split(' ').map(|word| {
        let encoded = word
            .strip_prefix("=?utf-8?b?")
            .and_then(|rest| rest.strip_suffix("?="));
        encoded.map_or_else(
            || word.to_owned(),
            |encoded| String::from_utf8(base64(encoded)).expect("no character is split"),
        )
    });
    words.collect()
}

fn base64(text: &str) -> Vec<u8> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits: Vec<_> = text
        .bytes()
        .filter_map(|b| DIGITS.iter().position(|d| *d == b))
        .collect();
    let mut bits = 0_usize;
    let mut count = 0;
    let mut bytes = Vec::new();
    for digit in digits {
        bits = (bits << 6 | digit) & 0xffff;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from(bits >> count & 0xff).unwrap());
        }
    }
    bytes
}

#[test]
fn a_plain_mail_has_every_header() {
    insta::assert_snapshot!(raw(&message()).replace("\r\n", "\n"));
}

#[test]
fn a_retry_is_the_same_mail_but_for_its_date() {
    let later = compose(&letterhead(), &message(), now() + chrono::TimeDelta::hours(1))
        .unwrap()
        .raw;
    let without_date = |raw: &str| {
        raw.lines()
            .filter(|l| !l.starts_with("Date: "))
            .collect::<Vec<_>>()
            .join("\n")
    };
    assert_ne!(raw(&message()), later);
    assert_eq!(without_date(&raw(&message())), without_date(&later));
}

#[test]
fn t06_a_summary_with_a_line_break_adds_no_header() {
    let hostile = "Zahnarzt\r\nBcc: eve@example.net\r\n\r\nbody\u{2028}end\0";
    let raw = raw(&with_subject(hostile));
    assert!(raw.lines().all(|line| !line.starts_with("Bcc")));
    assert_eq!(
        header_of(&raw, "Subject"),
        "Zahnarzt Bcc: eve@example.net body end"
    );
}

#[test]
fn a_summary_that_reads_like_an_encoded_word_is_not_decoded_by_anybody() {
    let raw = raw(&with_subject("=?utf-8?Q?=0d=0aBcc:_eve@example.net?="));
    let shown = decoded(&header_of(&raw, "Subject"));
    assert_eq!(
        shown.replace('\u{2060}', ""),
        "=?utf-8?Q?=0d=0aBcc:_eve@example.net?="
    );
}

#[test]
fn t06_a_long_subject_is_never_split_inside_a_character() {
    let subject = "Ärztin über Größe, 会議の予定 und 🗓️ ".repeat(8);
    let raw = raw(&with_subject(&subject));
    let expected: String = subject
        .split(' ')
        .filter(|w| !w.is_empty())
        .collect::<Vec<_>>()
        .join(" ");
    let shown = decoded(&header_of(&raw, "Subject"));
    let squeeze = |text: &str| text.chars().filter(|c| *c != ' ').collect::<String>();
    assert!(squeeze(&expected).starts_with(&squeeze(&shown)), "{shown}");
    assert!(shown.chars().count() > 200);
}

#[test]
fn the_domain_is_sent_in_ascii_and_mailto_taken_off() {
    for (to, sent) in [
        ("jo@example.org", "jo@example.org"),
        ("MAILTO:jo@example.org", "jo@example.org"),
        (" jo@bücher.example ", "jo@xn--bcher-kva.example"),
        ("jo+tag@Example.org", "jo+tag@Example.org"),
    ] {
        assert_eq!(recipient(to).unwrap().to_string(), sent);
    }
}

#[test]
fn what_is_no_address_is_refused_without_being_quoted() {
    for to in [
        "",
        "jo",
        "jo@",
        "@example.org",
        "a..b@example.org",
        "jo@example.org\r\nRCPT TO:<eve@example.net>",
        "Jo <jo@example.org>",
        "jörg@example.org",
    ] {
        let error = recipient(to).unwrap_err().to_string();
        assert!(to.is_empty() || !error.contains(to), "{error}");
    }
}

proptest! {
    #[test]
    fn every_mail_is_ascii_with_short_lines_and_no_bare_line_ends(
        subject in "\\PC{0,400}|[a-z]{0,2000}|(?s).{0,200}",
        text in "(?s).{0,3000}|[a-z.\r\n]{0,3000}",
    ) {
        let message = Message { content: Content::Letter { subject, html: text.clone(), text }, ..message() };
        let raw = raw(&message);
        prop_assert!(raw.is_ascii());
        for line in raw.split("\r\n") {
            prop_assert!(line.len() <= 998, "a line of {} bytes", line.len());
            prop_assert!(!line.contains(['\r', '\n']));
        }
        let head = raw.split("\r\n\r\n").next().unwrap();
        prop_assert_eq!(head.lines().filter(|line| !line.starts_with([' ', '\t'])).count(), 11);
    }
}
