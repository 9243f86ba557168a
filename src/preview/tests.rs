use chrono::TimeDelta;
use proptest::prelude::*;
use serde::Deserialize;

use super::*;

const CASES: &str = include_str!("../../tests/it/cases/triggers.jsonl");

#[derive(Deserialize)]
struct Case {
    name: String,
    ics: String,
    user_tz: String,
    now: DateTime<Utc>,
    limit: usize,
    expected_triggers_utc: Vec<String>,
}

fn options(zone: &str, at: DateTime<Utc>, limit: usize) -> Options {
    Options {
        owner: Person {
            zone: Zone::iana(zone).expect("a zone of the case"),
            addresses: vec!["me@example.org".to_owned()],
            choices: crate::trigger::expand::Choices::default(),
        },
        at,
        until: None,
        limit,
        channel: None,
    }
}

fn firings(preview: &Preview) -> Vec<String> {
    let lines = preview.lines.iter().filter(|line| line.skipped.is_none());
    lines.filter_map(|line| line.trigger_at.clone()).collect()
}

#[test]
fn every_agreed_case_fires_as_agreed() {
    let mut wrong = Vec::new();
    for text in CASES.lines() {
        let case: Case = serde_json::from_str(text).expect("a case");
        let options = options(&case.user_tz, case.now, case.limit);
        let seen = preview(case.ics.as_bytes(), &options).expect("a calendar");
        if firings(&seen) != case.expected_triggers_utc {
            wrong.push(format!("{}: {:?} {:?}", case.name, firings(&seen), seen.warnings));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn seen(components: &str, change: impl FnOnce(&mut Options)) -> Preview {
    let text = format!("BEGIN:VCALENDAR\n{components}END:VCALENDAR\n");
    let at = "2026-11-27T00:00:00Z".parse().expect("an instant");
    let mut options = options("Europe/Berlin", at, 3);
    change(&mut options);
    preview(text.as_bytes(), &options).expect("a calendar")
}

fn vevent(uid: &str, lines: &str) -> String {
    format!("BEGIN:VEVENT\nUID:{uid}\n{lines}\nEND:VEVENT\n")
}

const EMAIL: &str = "BEGIN:VALARM\nUID:e\nACTION:EMAIL\nTRIGGER:-PT15M\nEND:VALARM";
const DISPLAY: &str = "BEGIN:VALARM\nUID:d\nACTION:DISPLAY\nTRIGGER:-PT5M\nEND:VALARM";

fn skips(preview: &Preview) -> Vec<(Option<&str>, &str)> {
    let lines = preview.lines.iter();
    lines
        .filter_map(|line| Some((line.trigger_at.as_deref(), line.skipped.as_deref()?)))
        .collect()
}

#[test]
fn a_firing_is_one_json_object() {
    let preview = seen(
        &vevent("u", &format!("DTSTART:20261201T090000Z\n{EMAIL}")),
        |_| {},
    );
    let expected = r#"{"trigger_at":"2026-12-01T08:45:00Z","occurrence":"2026-12-01T09:00:00Z","uid":"u","alarm":"e","action":"EMAIL","recipient":"owner"}"#;
    assert_eq!(preview.json(), format!("{expected}\n"));
}

#[test]
fn the_limit_counts_firings_of_all_events_in_order_of_time() {
    let daily = |uid: &str, hour: &str| {
        vevent(
            uid,
            &format!("DTSTART:20261201T{hour}0000Z\nRRULE:FREQ=DAILY\n{EMAIL}"),
        )
    };
    let preview = seen(&(daily("late", "12") + &daily("early", "08")), |_| {});
    let uids: Vec<&str> = preview
        .lines
        .iter()
        .filter_map(|line| line.uid.as_deref())
        .collect();
    assert_eq!(uids, ["early", "late", "early"]);
}

#[test]
fn what_is_past_or_beyond_is_not_listed() {
    let past = vevent("past", &format!("DTSTART:20261101T090000Z\n{EMAIL}"));
    let cancelled = vevent(
        "cancelled",
        &format!("DTSTART:20261101T090000Z\nSTATUS:CANCELLED\n{EMAIL}"),
    );
    let just_past = vevent("now", &format!("DTSTART:20261127T001459Z\n{EMAIL}"));
    let beyond = vevent("beyond", &format!("DTSTART:20270101T000000Z\n{EMAIL}"));
    let preview = seen(&(past + &cancelled + &just_past + &beyond), |options| {
        options.until = Some("2026-12-31T00:00:00Z".parse().expect("an instant"));
    });
    assert_eq!(firings(&preview), [""; 0]);
    assert!(
        preview
            .lines
            .iter()
            .all(|line| line.uid.as_deref() == Some("cancelled")),
        "{preview:?}"
    );
}

#[test]
fn what_fires_at_the_very_instant_is_listed() {
    let now = vevent("now", &format!("DTSTART:20261127T001500Z\n{EMAIL}"));
    assert_eq!(firings(&seen(&now, |_| {})), ["2026-11-27T00:00:00Z"]);
}

#[test]
fn what_will_not_fire_says_why_and_when_it_would_have() {
    let declined = vevent(
        "u",
        &format!("DTSTART:20261201T090000Z\nATTENDEE;PARTSTAT=DECLINED:mailto:me@example.org\n{EMAIL}"),
    );
    let cancelled = vevent(
        "u",
        &format!("DTSTART:20261202T090000Z\nRRULE:FREQ=DAILY\nSTATUS:CANCELLED\n{EMAIL}"),
    );
    let hopeless = vevent(
        "u",
        "DTSTART:20261201T090000Z\nBEGIN:VALARM\nACTION:EMAIL\nTRIGGER:soon\nEND:VALARM",
    );
    for (text, at, reason) in [
        (declined, Some("2026-12-01T08:45:00Z"), "PARTSTAT is DECLINED"),
        (cancelled, Some("2026-12-02T08:45:00Z"), "cancelled"),
        (hopeless, None, "`soon` is no duration"),
        (vevent("u", "SUMMARY:x"), None, "no DTSTART"),
    ] {
        let preview = seen(&text, |_| {});
        let skips = skips(&preview);
        assert_eq!(skips.len(), 1, "{preview:?}");
        assert_eq!(skips[0].0, at);
        assert!(skips[0].1.contains(reason), "{skips:?}");
    }
}

#[test]
fn a_channel_carries_email_alarms_only() {
    let both = vevent(
        "u",
        &format!("DTSTART:20261201T090000Z\nRRULE:FREQ=DAILY\n{EMAIL}\n{DISPLAY}"),
    );
    let preview = seen(&both, |options| options.channel = Some(ChannelKind::Email));
    assert_eq!(firings(&preview).len(), 3);
    assert_eq!(skips(&preview).len(), 1);
    assert_eq!(firings(&seen(&both, |options| options.limit = 4)).len(), 4);
}

#[test]
fn people_get_local_times_and_words() {
    let preview = seen(
        &vevent("u", &format!("DTSTART:20261201T090000Z\n{EMAIL}")),
        |_| {},
    );
    let zone = Zone::iana("Europe/Berlin").expect("a zone");
    let expected = "\
FIRES                 ACTION    OCCURRENCE            EVENT
Tue 2026-12-01 09:45  EMAIL     Tue 2026-12-01 10:00  u
times are those of Europe/Berlin
";
    assert_eq!(preview.table(&zone), expected);
}

#[test]
fn a_whole_calendar_in_one_file_is_read() {
    let many: String = (0..2_000)
        .map(|number| vevent(&number.to_string(), &format!("DTSTART:20261201T090000Z\n{EMAIL}")))
        .collect();
    assert_eq!(
        firings(&seen(&many, |options| options.limit = 5_000)).len(),
        2_000
    );
}

/// A sound calendar, and what is done to it.
fn mutated() -> impl Strategy<Value = Vec<u8>> {
    let texts: Vec<String> = CASES
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter_map(|case| case["ics"].as_str().map(str::to_owned))
        .collect();
    let edit = (any::<prop::sample::Index>(), any::<u8>(), 0usize..12, 0u8..4);
    (prop::sample::select(texts), prop::collection::vec(edit, 1..8)).prop_map(|(text, edits)| {
        let mut bytes = text.into_bytes();
        for (at, byte, length, kind) in edits {
            let at = at.index(bytes.len());
            let end = (at + length).min(bytes.len());
            match kind {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                2 if end - at < bytes.len() => drop(bytes.drain(at..end)),
                _ => {
                    let copy = bytes[at..end].to_vec();
                    bytes.splice(at..at, copy);
                }
            }
        }
        bytes
    })
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_or_the_search_panic(bytes in mutated(), minutes in 0i64..5_000_000) {
        let at = "2020-01-01T00:00:00Z".parse::<DateTime<Utc>>().expect("an instant") + TimeDelta::minutes(minutes);
        let _ = preview(&bytes, &options("Europe/Berlin", at, 3));
    }
}
