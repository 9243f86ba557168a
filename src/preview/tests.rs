use chrono::TimeDelta;
use proptest::prelude::*;
use serde::Deserialize;

use super::*;
use crate::trigger::preferences::Display;

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
        past: 5,
        carried: None,
        defaults: DefaultPolicy::default(),
        recipients: Recipients::default(),
        uids: Vec::new(),
        is_explained: false,
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

fn instant(text: &str) -> DateTime<Utc> {
    text.parse().expect("an instant")
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
    let expected = r#"{"trigger_at":"2026-12-01T08:45:00Z","occurrence":"2026-12-01T09:00:00Z","uid":"u","alarm":"e","action":"EMAIL","recipient":"owner","summary":null,"timing":"15 minutes before the start","repeat":0,"repeats":0,"starts_at":"2026-12-01T09:00:00Z","ends_at":"2026-12-01T09:00:00Z"}"#;
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
    let all = past + &cancelled + &just_past + &beyond;
    let until = |options: &mut Options| options.until = Some(instant("2026-12-31T00:00:00Z"));

    let preview = seen(&all, until);

    assert_eq!(preview.lines, []);
    let past: Vec<(Option<&str>, Option<&str>)> = preview
        .past
        .iter()
        .map(|line| (line.trigger_at.as_deref(), line.why))
        .collect();
    let expected = [
        (Some("2026-11-01T08:45:00Z"), Some("past")),
        (Some("2026-11-01T08:45:00Z"), Some("cancelled")),
        (Some("2026-11-26T23:59:59Z"), Some("past")),
    ];
    assert_eq!(past, expected);
    let counted = seen(&all, |options| {
        until(options);
        options.past = 2;
    });
    assert_eq!((counted.past.len(), counted.past_alarms), (0, 3));
}

#[test]
fn the_last_firing_of_a_series_that_is_over_is_found() {
    let series = vevent(
        "u",
        &format!("DTSTART:20160101T090000Z\nRRULE:FREQ=WEEKLY;COUNT=500\n{EMAIL}"),
    );
    let preview = seen(&series, |_| {});
    let last = instant("2016-01-01T08:45:00Z") + TimeDelta::weeks(499);
    assert_eq!(preview.past[0].trigger_at, Some(written(last)));
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

const fn carried(by: ChannelKind, display: Display) -> Carried {
    Carried { by, display }
}

#[test]
fn a_channel_carries_email_alarms_only() {
    let both = vevent(
        "u",
        &format!("DTSTART:20261201T090000Z\nRRULE:FREQ=DAILY\n{EMAIL}\n{DISPLAY}"),
    );
    let preview = seen(&both, |options| {
        options.carried = Some(carried(ChannelKind::Email, Display::Skip));
    });
    assert_eq!(firings(&preview).len(), 3);
    assert_eq!(whys(&preview), [(Some("2026-12-01T08:55:00Z"), "not_carried")]);
    assert!(preview.lines.iter().any(|line| line.further));
    assert_eq!(firings(&seen(&both, |options| options.limit = 4)).len(), 4);
    let all = seen(&both, |options| {
        options.carried = Some(carried(ChannelKind::Email, Display::Deliver));
    });
    assert_eq!(whys(&all), []);
    let by_sms = seen(&both, |options| {
        options.carried = Some(carried(ChannelKind::Sms, Display::Deliver));
    });
    assert_eq!(firings(&by_sms).len(), 0, "no route leads there");
}

#[test]
fn people_get_local_times_and_words() {
    let preview = seen(
        &vevent("u", &format!("SUMMARY:Tea\nDTSTART:20261201T090000Z\n{EMAIL}")),
        |_| {},
    );
    let zone = Zone::iana("Europe/Berlin").expect("a zone");
    let expected = "\
FIRES                        WHAT            ALARM                        OCCURRENCE                   EVENT
Tue 2026-12-01 09:45 +01:00  EMAIL to owner  15 minutes before the start  Tue 2026-12-01 10:00 +01:00  Tea (u)

times are those of Europe/Berlin
";
    assert_eq!(preview.table(&zone), expected);
}

/// Why what does not fire does not, and when it would have.
fn whys(preview: &Preview) -> Vec<(Option<&str>, &str)> {
    let lines = preview.lines.iter();
    lines
        .filter_map(|line| Some((line.trigger_at.as_deref(), line.why?)))
        .collect()
}

const DAILY: &str = "DTSTART:20261201T090000Z\nRRULE:FREQ=DAILY;COUNT=4";

#[test]
fn what_takes_an_occurrence_out_is_told_at_its_instant() {
    let change = |name: &str, lines: &str| (name.to_owned(), lines.to_owned());
    let single = |lines: &str| vevent("u", &format!("RECURRENCE-ID:20261202T090000Z\n{lines}"));
    let cases = [
        change("excluded", "EXDATE:20261202T090000Z"),
        change("excluded", "EXDATE;VALUE=DATE:20261202"),
        change("replaced", &single(&format!("DTSTART:20261202T150000Z\n{EMAIL}"))),
        change("override_without_alarm", &single("DTSTART:20261202T090000Z")),
        change("cancelled", &single("DTSTART:20261202T090000Z\nSTATUS:CANCELLED")),
        change(
            "cancelled",
            &single(&format!("DTSTART:20261202T090000Z\nSTATUS:CANCELLED\n{EMAIL}")),
        ),
        change(
            "declined",
            &single("DTSTART:20261202T090000Z\nATTENDEE;PARTSTAT=DECLINED:mailto:me@example.org"),
        ),
    ];
    for (why, lines) in cases {
        let text = if lines.starts_with("EXDATE") {
            vevent("u", &format!("{DAILY}\n{lines}\n{EMAIL}"))
        } else {
            vevent("u", &format!("{DAILY}\n{EMAIL}")) + &lines
        };
        let preview = seen(&text, |options| options.limit = 9);
        assert_eq!(
            whys(&preview),
            [(Some("2026-12-02T08:45:00Z"), why.as_str())],
            "{text}"
        );
    }
}

#[test]
fn an_acknowledged_firing_is_told_while_it_is_in_sight() {
    let text = vevent(
        "u",
        &format!(
            "{DAILY}\n{}",
            EMAIL.replace("END:", "ACKNOWLEDGED:20261202T084501Z\nEND:")
        ),
    );
    let preview = seen(&text, |_| {});
    let expected = [
        (Some("2026-12-01T08:45:00Z"), "acknowledged"),
        (Some("2026-12-02T08:45:00Z"), "acknowledged"),
    ];
    assert_eq!(whys(&preview), expected);
    assert_eq!(
        firings(&preview),
        ["2026-12-03T08:45:00Z", "2026-12-04T08:45:00Z"]
    );
    let later = seen(&text, |options| options.at = instant("2026-12-02T12:00:00Z"));
    assert_eq!(whys(&later), []);
}

#[test]
fn what_is_not_followed_of_an_alarm_is_told() {
    let repeat = EMAIL.replace("END:", "REPEAT:2\nEND:");
    let cases = [
        (format!("{EMAIL}\n{EMAIL}"), "duplicate"),
        (repeat, "repeat_ignored"),
        (EMAIL.replace("-PT15M", "soon"), "alarm_unreadable"),
        (EMAIL.replace("ACTION:EMAIL", "ACTION:NONE"), "not_by_time"),
        (String::new(), "no_alarm"),
    ];
    for (alarms, why) in cases {
        let preview = seen(
            &vevent("u", &format!("DTSTART:20261201T090000Z\n{alarms}")),
            |_| {},
        );
        assert_eq!(whys(&preview), [(None, why)], "{alarms}");
    }
    let many: String = (0..52)
        .map(|number| {
            EMAIL
                .replace("UID:e", &format!("UID:{number}"))
                .replace("-PT15M", &format!("-PT{number}M"))
                + "\n"
        })
        .collect();
    let preview = seen(&vevent("u", &format!("DTSTART:20261201T090000Z\n{many}")), |_| {});
    assert_eq!(whys(&preview), [(None, "alarm_unreadable"); 2]);
    assert!(preview.lines.iter().any(|line| {
        let reason = line.skipped.as_deref().unwrap_or_default();
        reason.contains("more than 50 alarms")
    }));
}

#[test]
fn an_older_version_and_a_date_too_close_are_told() {
    let versions = vevent("u", &format!("SEQUENCE:1\nDTSTART:20261201T090000Z\n{EMAIL}"))
        + &vevent("u", &format!("SEQUENCE:2\nDTSTART:20261201T100000Z\n{EMAIL}"));
    let preview = seen(&versions, |_| {});
    assert_eq!(whys(&preview), [(None, "superseded")]);
    assert_eq!(firings(&preview), ["2026-12-01T09:45:00Z"]);

    let close = vevent(
        "u",
        &format!("DTSTART:20261201T090000Z\nRDATE:20261201T090000Z,20261201T090030Z\n{EMAIL}"),
    );
    let preview = seen(&close, |_| {});
    assert_eq!(whys(&preview), [(None, "too_often")]);
    assert_eq!(
        preview.lines[1].occurrence.as_deref(),
        Some("2026-12-01T09:00:30Z")
    );
}

#[test]
fn a_series_that_will_not_fire_is_told_once() {
    let text = vevent("u", &format!("{DAILY}\nSTATUS:CANCELLED\n{EMAIL}"));
    let preview = seen(&text, |_| {});
    assert_eq!(whys(&preview), [(Some("2026-12-01T08:45:00Z"), "cancelled")]);
    assert!(preview.lines[0].further);
    let last = seen(&text, |options| options.at = instant("2026-12-04T00:00:00Z"));
    assert!(!last.lines[0].further);
}

#[test]
fn a_time_that_the_clock_skips_or_repeats_is_noted() {
    let at = |local: &str, trigger: &str| {
        let alarm = EMAIL.replace("-PT15M", trigger);
        let text = vevent("u", &format!("DTSTART;TZID=Europe/Berlin:{local}\n{alarm}"));
        seen(&text, |options| options.at = instant("2026-01-01T00:00:00Z")).lines[0]
            .notes
            .clone()
    };
    assert!(at("20260329T023000", "-PT1H")[0].starts_with("02:30 does not exist on 2026-03-29"));
    assert!(at("20260330T023000", "-P1D")[0].contains("03:30 is meant"));
    assert!(at("20261025T023000", "-PT1H")[0].starts_with("02:30 comes twice on 2026-10-25"));
    assert_eq!(at("20260330T023000", "-PT24H"), [""; 0]);
    assert_eq!(at("20261025T033000", "-PT1H"), [""; 0]);
}

#[test]
fn what_a_zone_was_taken_for_is_told() {
    let text = "BEGIN:VTIMEZONE\nTZID:Pune\nBEGIN:STANDARD\nDTSTART:16010101T000000\nTZOFFSETFROM:+0530\n\
                TZOFFSETTO:+0530\nEND:STANDARD\nEND:VTIMEZONE\n"
        .to_owned()
        + &vevent("a", "DTSTART;TZID=W. Europe Standard Time:20261201T090000")
        + &vevent("b", "DTSTART;TZID=Pune:20261201T090000")
        + &vevent("c", "DTSTART;TZID=Europe/Berlin:20261201T090000");
    let preview = seen(&text, |_| {});
    let expected = [
        "TZID `Pune` is no zone that is known: the rules of its VTIMEZONE are followed",
        "TZID `W. Europe Standard Time` is read as Europe/Berlin",
    ];
    assert_eq!(preview.zones, expected);
}

#[test]
fn an_explanation_leads_from_what_is_written_to_the_instant() {
    let text = vevent(
        "u",
        &format!("DTSTART;TZID=Europe/Berlin:20261201T100000\nRRULE:FREQ=DAILY\n{EMAIL}"),
    );
    let preview = seen(&text, |options| options.is_explained = true);
    let expected = [
        "the alarm is that of the VEVENT at line 2",
        "DTSTART is Tue 2026-12-01 10:00 in Europe/Berlin",
        "RRULE is FREQ=DAILY",
        "the occurrence is that of Wed 2026-12-02 10:00 +01:00 in Europe/Berlin",
        "TRIGGER is 15 minutes before the start: Wed 2026-12-02 09:45 +01:00 in Europe/Berlin",
        "the instant is 2026-12-02T08:45:00Z",
    ];
    assert_eq!(preview.lines[1].explanation, expected);
}

#[test]
fn one_event_in_two_files_is_one_message() {
    let text = vevent("u", &format!("{DAILY}\n{EMAIL}"));
    let mut options = None;
    let first = seen(&text, |given| options = Some(given.clone()));
    let options = options.expect("they were given");
    let mut all = Preview::default();
    all.add(first, &options);
    all.add(seen(&text, |_| {}), &options);
    all.settle(&options);
    assert_eq!(firings(&all).len(), 3);
    assert_eq!(
        whys(&all).iter().map(|(_, why)| *why).collect::<Vec<&str>>(),
        ["copy"; 3]
    );
    assert_eq!(all.following.next_at, Some(instant("2026-12-04T08:45:00Z")));
}

#[test]
fn what_follows_the_limit_is_counted_until_the_end_that_was_asked_for() {
    let text = vevent(
        "u",
        &format!("DTSTART:20261201T090000Z\nRRULE:FREQ=DAILY\n{EMAIL}"),
    );
    let next_at = Some(instant("2026-12-04T08:45:00Z"));
    let counted = seen(&text, |options| {
        options.until = Some(instant("2026-12-31T00:00:00Z"));
    });
    assert_eq!(
        counted.following,
        Following {
            next_at,
            count: 27,
            is_all: true
        }
    );
    let endless = seen(&text, |_| {});
    assert_eq!(
        (endless.following.next_at, endless.following.is_all),
        (next_at, false)
    );
}

#[test]
fn a_hostile_event_hides_no_other() {
    let hostile: String = (0..12)
        .map(|number| {
            vevent(
                &format!("hostile-{number}"),
                &format!("DTSTART:20261201T090000Z\nRRULE:FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30\n{EMAIL}"),
            )
        })
        .collect();
    let good = vevent("good", &format!("DTSTART:20261202T090000Z\n{EMAIL}"));
    let preview = seen(&(hostile + &good), |options| options.limit = 1_000);
    assert!(
        preview
            .lines
            .iter()
            .any(|line| line.uid.as_deref() == Some("good") && line.skipped.is_none())
    );
}

#[test]
fn default_alarms_apply_where_an_event_has_none() {
    let text = vevent("none", "DTSTART:20261201T090000Z")
        + &vevent("day", "DTSTART;VALUE=DATE:20261201")
        + &vevent("own", &format!("DTSTART:20261201T090000Z\n{EMAIL}"));
    let preview = seen(&text, |options| {
        options.defaults.general.timed = Some(vec!["-PT30M".parse().expect("a duration")]);
        options.defaults.general.all_day = Some(vec!["-PT15H".parse().expect("a duration")]);
    });
    let expected = [
        "2026-11-30T08:00:00Z",
        "2026-12-01T08:30:00Z",
        "2026-12-01T08:45:00Z",
    ];
    assert_eq!(firings(&preview), expected);
    assert_eq!(whys(&preview), []);
}

#[test]
fn others_whom_an_alarm_names_are_told_or_it_says_why_not() {
    let alarm = EMAIL.replace(
        "END:",
        "ATTENDEE:mailto:me@example.org\nATTENDEE:mailto:bob@example.net\nEND:",
    );
    let text = vevent("u", &format!("DTSTART:20261201T090000Z\n{alarm}"));
    let people = |preview: &Preview| {
        let lines = preview.lines.iter();
        let mut people: Vec<(String, Option<&str>)> =
            lines.map(|line| (line.recipient.clone(), line.why)).collect();
        people.sort();
        people
    };
    let bob = |why| ("address:bob@example.net".to_owned(), why);
    let owner = || ("owner".to_owned(), None);
    assert_eq!(
        people(&seen(&text, |_| {})),
        [bob(Some("recipient_refused")), owner()]
    );
    let allowed = seen(&text, |options| options.recipients = Recipients::Any);
    assert_eq!(people(&allowed), [bob(None), owner()]);
}

#[test]
fn every_reason_has_a_name_of_its_own() {
    let names: HashSet<&str> = Why::ALL.iter().map(|why| why.as_str()).collect();
    assert_eq!(names.len(), Why::ALL.len());
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
