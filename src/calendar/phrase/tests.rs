use chrono::DateTime;
use chrono::Datelike;
use chrono::NaiveDate;
use chrono::NaiveDateTime;
use chrono::TimeDelta;
use chrono::Utc;
use proptest::prelude::*;
use serde::Deserialize;

use crate::calendar::phrase::Meaning;
use crate::calendar::phrase::PhraseError;
use crate::calendar::phrase::delay;
use crate::calendar::phrase::instant;
use crate::calendar::phrase::read;
use crate::calendar::zone::Zone;

/// Phrases on whose meaning several programs of others agree.
const CASES: &str = include_str!("../../../tests/it/cases/phrases.jsonl");

/// Phrases around clock changes, worked out by hand.
const CLOCK_CHANGES: &str = include_str!("../../../tests/it/cases/phrases_clock_changes.txt");

#[derive(Deserialize)]
struct Case {
    phrase: String,
    reference_local: NaiveDateTime,
    accepted: Vec<String>,
    date_only: bool,
}

fn zone(name: &str) -> Zone {
    Zone::iana(name).expect(name)
}

fn at(text: &str) -> DateTime<Utc> {
    text.parse().expect(text)
}

/// What a phrase means in Berlin on Friday 27 November 2026, at 10:30.
fn on_friday(phrase: &str) -> Result<Meaning, PhraseError> {
    read(phrase, at("2026-11-27T10:30:00+01:00"), &zone("Europe/Berlin"))
}

/// All instants of a meaning, as local times with their offset.
fn told(meaning: Meaning, zone: &Zone) -> Vec<String> {
    let tell = |at| {
        format!(
            "{}{}",
            zone.to_local(at).format("%Y-%m-%dT%H:%M"),
            zone.offset_at(at)
        )
    };
    assert!(!meaning.is_ambiguous() || meaning.candidates.contains(&meaning.at));
    meaning.all().into_iter().map(tell).collect()
}

#[test]
fn the_agreed_phrases_mean_what_is_agreed() {
    let cases: Vec<Case> = CASES
        .lines()
        .map(|line| serde_json::from_str(line).expect(line))
        .collect();
    assert_eq!(cases.len(), 44);
    for name in ["Europe/Berlin", "America/New_York", "UTC"] {
        let zone = zone(name);
        for case in &cases {
            let phrase = &case.phrase;
            let meaning = read(phrase, zone.to_utc(case.reference_local), &zone).expect(phrase);
            let is_instant = phrase.ends_with('Z');
            for at in meaning.all() {
                let local = if is_instant {
                    at.naive_utc()
                } else {
                    zone.to_local(at)
                };
                let local = if case.date_only {
                    local.date().to_string()
                } else {
                    local.format("%Y-%m-%dT%H:%M:%S").to_string()
                };
                assert!(case.accepted.contains(&local), "{phrase} in {name} is {local}");
            }
        }
    }
}

#[test]
fn phrases_around_clock_changes_mean_what_the_clock_shows() {
    let mut place = None;
    let mut phrases = 0;
    for line in CLOCK_CHANGES
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        let (left, right) = line.split_once(" -> ").unwrap_or((line, ""));
        if right.is_empty() {
            let (name, now) = line.split_once(' ').expect(line);
            place = Some((zone(name), at(now)));
            continue;
        }
        let (zone, now) = place
            .as_ref()
            .expect("a line names the zone and the instant first");
        let found = match read(left.trim(), *now, zone) {
            Ok(meaning) => told(meaning, zone).join(" | "),
            Err(PhraseError::Gap { from, to, .. }) => format!("never, {from} to {to}"),
            Err(other) => panic!("{line}: {other}"),
        };
        assert_eq!(found, right.trim(), "{} at {now}: {left}", zone.name());
        phrases += 1;
    }
    assert!(phrases >= 60, "{phrases}");
}

/// What phrases mean in Berlin on Friday, 27 November 2026, at 10:30.
const OPEN: &[(&str, &str)] = &[
    ("tomorrow", "2026-11-28T09:00+01:00"),
    ("Tomorrow Morning.", "2026-11-28T09:00+01:00"),
    ("this afternoon", "2026-11-27T15:00+01:00"),
    ("this evening at 7", "2026-11-27T19:00+01:00"),
    ("tomorrow evening at 8:15", "2026-11-28T20:15+01:00"),
    ("at 9 in the morning", "2026-11-28T09:00+01:00"),
    ("in the morning", "2026-11-28T09:00+01:00"),
    ("tonight", "2026-11-27T21:00+01:00"),
    ("tonight at 1", "2026-11-28T01:00+01:00"),
    ("tonight at midnight", "2026-11-28T00:00+01:00"),
    ("midnight", "2026-11-28T00:00+01:00"),
    ("at 14", "2026-11-27T14:00+01:00"),
    ("at 09", "2026-11-28T09:00+01:00"),
    ("9 o'clock", "2026-11-27T21:00+01:00 | 2026-11-28T09:00+01:00"),
    ("today at 9", "2026-11-27T21:00+01:00"),
    ("12am", "2026-11-28T00:00+01:00"),
    ("12 pm", "2026-11-27T12:00+01:00"),
    ("5 p.m.", "2026-11-27T17:00+01:00"),
    ("10:30", "2026-11-28T10:30+01:00"),
    ("friday", "2026-12-04T09:00+01:00"),
    ("friday at 3pm", "2026-11-27T15:00+01:00 | 2026-12-04T15:00+01:00"),
    ("friday at 8am", "2026-12-04T08:00+01:00"),
    ("next friday at 3pm", "2026-12-04T15:00+01:00"),
    ("next saturday", "2026-11-28T09:00+01:00 | 2026-12-05T09:00+01:00"),
    ("saturday next week", "2026-12-05T09:00+01:00"),
    ("friday, december 4th at 3pm", "2026-12-04T15:00+01:00"),
    ("the 25th", "2026-12-25T09:00+01:00"),
    ("the 31st at noon", "2026-12-31T12:00+01:00"),
    ("27 november at 11am", "2026-11-27T11:00+01:00"),
    ("feb 29", "2028-02-29T09:00+01:00"),
    ("25.12.2026 at 8pm", "2026-12-25T20:00+01:00"),
    ("2026-12-25 at 8pm", "2026-12-25T20:00+01:00"),
    ("nov 27 at 3pm", "2026-11-27T15:00+01:00"),
    ("nov 27 at 9am", "2026-11-27T09:00+01:00 | 2027-11-27T09:00+01:00"),
    ("11/12/2026", "2026-11-12T09:00+01:00 | 2026-12-11T09:00+01:00"),
    ("03/04/2027", "2027-03-04T09:00+01:00 | 2027-04-03T09:00+02:00"),
    ("04/04/2027", "2027-04-04T09:00+02:00"),
    ("at 5", "2026-11-27T17:00+01:00 | 2026-11-28T05:00+01:00"),
    (
        "tomorrow at midnight",
        "2026-11-28T00:00+01:00 | 2026-11-29T00:00+01:00",
    ),
    ("next week", "2026-11-30T09:00+01:00 | 2026-12-04T09:00+01:00"),
    ("next month", "2026-12-01T09:00+01:00 | 2026-12-27T09:00+01:00"),
    ("next year", "2027-01-01T09:00+01:00 | 2027-11-27T09:00+01:00"),
    ("end of the month", "2026-11-30T09:00+01:00"),
    ("end of next month at 5pm", "2026-12-31T17:00+01:00"),
    ("in 3 days at noon", "2026-11-30T12:00+01:00"),
    (
        "two weeks from friday at 3pm",
        "2026-12-11T15:00+01:00 | 2026-12-18T15:00+01:00",
    ),
    ("now", "2026-11-27T10:30+01:00"),
    ("90s", "2026-11-27T10:31+01:00"),
    ("1h30m", "2026-11-27T12:00+01:00"),
    ("1.5 hours from now", "2026-11-27T12:00+01:00"),
    ("an hour and a half", "2026-11-27T12:00+01:00"),
    ("a couple of hours later", "2026-11-27T12:30+01:00"),
    ("in 1 day and 2 hours", "2026-11-28T12:30+01:00"),
    ("in 3 months", "2027-02-27T10:30+01:00"),
    ("today at 7am", "2026-11-27T07:00+01:00"),
    ("yesterday at 5pm", "2026-11-26T17:00+01:00"),
    ("2 hours ago", "2026-11-27T08:30+01:00"),
    ("2026-12-25T10:30:00-05:00", "2026-12-25T16:30+01:00"),
    ("2026-12-25t10:30:00.250z", "2026-12-25T11:30+01:00"),
    ("2026-12-25T10:30", "2026-12-25T10:30+01:00"),
];

#[test]
fn what_a_phrase_leaves_open_is_the_usual_or_the_next() {
    for &(phrase, meant) in OPEN {
        let meaning = on_friday(phrase).unwrap_or_else(|refusal| panic!("{phrase}: {refusal}"));
        assert_eq!(
            told(meaning, &zone("Europe/Berlin")).join(" | "),
            meant,
            "{phrase}"
        );
    }
}

/// What is refused, and words of the reason and of the cure.
const REFUSED: &[(&str, [&str; 2])] = &[
    ("", ["there is no time", "tomorrow at 9am"]),
    ("  ", ["there is no time", "in 30 minutes"]),
    ("whenever", ["`whenever` is not understood", "tomorrow at 9am"]),
    ("tomorrow at teatime", ["`teatime`", "in 30 minutes"]),
    ("in five parsecs", ["`five`", "in 30 minutes"]),
    ("at", ["missing behind `at`", "3 days from today"]),
    (
        "tomorrow and friday",
        ["`and` is not understood", "tomorrow at 9am"],
    ),
    ("by friday", ["`by` is not understood", "tomorrow at 9am"]),
    ("1500", ["`1500` is not understood", "in 30 minutes"]),
    ("tomorrow at", ["missing behind `at`", "tomorrow at 9am"]),
    ("3 days from", ["missing behind `from`", "3 days from today"]),
    ("on the", ["missing behind `the`", "tomorrow at 9am"]),
    ("5", ["`5` is only a number", "in 5 minutes"]),
    ("tomorrow 9", ["`9` is only a number", "at 9:00"]),
    ("every friday at 3pm", ["`every`", "use cron"]),
    (
        "today tomorrow",
        ["`tomorrow` gives the day a second time", "leave one"],
    ),
    (
        "5pm tomorrow at 6pm",
        ["`6pm` gives the time of day a second time", "leave one"],
    ),
    (
        "monday friday",
        ["`friday` gives the day of the week", "leave one"],
    ),
    ("13pm", ["no `13pm`", "5:30pm"]),
    ("at 25:00", ["no `25:00`", "17:30"]),
    ("at 24", ["no `24`", "17:30"]),
    ("feb 30", ["no `day 30 of month 2`", "dec 25"]),
    ("feb 29 2027", ["no `2027-02-29`", "calendar"]),
    ("2026-02-30", ["no `2026-02-30`", "calendar"]),
    ("13/13/2026", ["no `13/13/2026`", "12/25/2026"]),
    ("12.25.2026", ["no `12.25.2026`", "12/25/2026"]),
    ("the 32nd", ["no `32. day of a month`", "calendar"]),
    ("2026-02-30T10:00:00Z", ["no `2026-02-30T10:00:00Z`", "23:59:59"]),
    ("2026-12-25T25:00", ["no `2026-12-25T25:00`", "23:59:59"]),
    (
        "0000-01-01T00:00:00Z",
        ["`0000-01-01T00:00:00Z` is too far", "9988"],
    ),
    ("9999-12-31T23:59:59Z", ["too far", "9988"]),
    ("2147483648 years from now", ["`years` is too far", "100 years"]),
    (
        "99999999999999999999s",
        ["`99999999999999999999s` is too far", "100 years"],
    ),
    ("in 1.5 days", ["counted whole", "hours"]),
    (
        "in 2 hours at 5pm",
        ["hours, minutes or seconds from now", "leave one"],
    ),
    ("monday december 25 2026", ["`Mon` and `2026-12-25`", "leave one"]),
    ("tomorrow morning at 5pm", ["`17:00` and `morning`", "leave one"]),
];

#[test]
fn what_is_not_understood_is_named_with_the_cure() {
    let long = on_friday(&"tomorrow ".repeat(30)).expect_err("it is too long");
    assert!(long.to_string().contains("269 bytes long: at most 200"), "{long}");
    for &(phrase, words) in REFUSED {
        let refusal = match on_friday(phrase) {
            Err(refusal) => refusal.to_string(),
            Ok(meaning) => panic!("{phrase} is {meaning:?}"),
        };
        for word in words {
            assert!(refusal.contains(word), "{phrase}: {refusal}");
        }
    }
}

#[test]
fn a_time_that_the_clock_skips_is_told_with_the_zone_and_what_it_skips() {
    let refusal = instant("2026-03-29T02:30", Some(&zone("Europe/Berlin"))).expect_err("it is skipped");
    assert_eq!(
        refusal.to_string(),
        "the clock in Europe/Berlin never shows 2026-03-29 02:30:00, it goes from 2026-03-29 02:00:00 to 2026-03-29 \
         03:00:00: take a time before or after that"
    );
}

#[test]
fn an_instant_is_written_as_programs_write_it() {
    let berlin = zone("Europe/Berlin");
    let only = |text: &str, zone: Option<&Zone>| instant(text, zone).map(|meaning| meaning.at);
    assert_eq!(
        only("2026-12-01T09:45:00+01:00", None),
        Ok(at("2026-12-01T08:45:00Z"))
    );
    assert_eq!(
        only(" 2026-12-01 09:45 ", Some(&berlin)),
        Ok(at("2026-12-01T08:45:00Z"))
    );
    assert_eq!(
        only("2026-12-01T08:45:00.1239Z", None),
        Ok(at("2026-12-01T08:45:00.123Z"))
    );
    assert_eq!(only("2016-12-31T23:59:60Z", None), Ok(at("2017-01-01T00:00:00Z")));
    let twice = instant("2026-10-25T02:30:00", Some(&berlin)).expect("it is shown");
    assert_eq!(
        twice.candidates,
        [at("2026-10-25T00:30:00Z"), at("2026-10-25T01:30:00Z")]
    );
    for (text, words) in [
        ("2026-12-01T08:45", "say in which time zone"),
        ("tomorrow at 5pm", "`tomorrow at 5pm` is no instant"),
        ("1796114700", "is no instant"),
    ] {
        let refusal = instant(text, None).expect_err(text).to_string();
        assert!(refusal.contains(words), "{refusal}");
    }
}

#[test]
fn delays_are_lengths_of_time() {
    for (text, milliseconds) in [
        ("90s", 90_000),
        ("2s", 2_000),
        ("1500", 1_500),
        ("0", 0),
        ("250ms", 250),
        ("1h30m", 5_400_000),
        ("1.5h", 5_400_000),
        ("in 30 minutes", 1_800_000),
        ("in 2 hours", 7_200_000),
        ("half an hour", 1_800_000),
        ("1 hour and 30 minutes from now", 5_400_000),
        ("2 days", 172_800_000),
        ("1w", 604_800_000),
    ] {
        let delay = delay(text).unwrap_or_else(|refusal| panic!("{text}: {refusal}"));
        assert_eq!(delay.num_milliseconds(), milliseconds, "{text}");
    }
    for (text, words) in [
        ("", "there is no time"),
        ("-5m", "`-5m` is not understood"),
        ("soon", "`soon` is not understood"),
        ("in", "`in` is not understood"),
        ("5 minutes tomorrow", "`tomorrow` is not understood"),
        ("1 month", "`1 month` is no delay"),
        ("99999999999999", "too far away"),
        ("200000 days", "too far away"),
        ("1e9s", "`1e9s` is not understood"),
    ] {
        let refusal = delay(text).expect_err(text).to_string();
        assert!(refusal.contains(words), "{text}: {refusal}");
    }
}

#[test]
fn what_stands_behind_in_is_how_long_or_a_part_of_the_day() {
    let berlin = zone("Europe/Berlin");
    let now = at("2026-11-27T09:30:00Z");
    for (phrase, word) in [
        ("in 1:30", "`1:30`"),
        ("in 15:00", "`15:00`"),
        ("in 9am", "`9am`"),
        ("in monday", "`monday`"),
        ("in 2 hours 3 hours", "`hours`"),
        ("in 2 days 3 days", "`days`"),
    ] {
        let refusal = read(phrase, now, &berlin).expect_err(phrase).to_string();
        assert!(refusal.contains(word), "{phrase}: {refusal}");
    }
    for phrase in [
        "tomorrow in the morning",
        "in an hour and a half",
        "in 1 hour and 30 minutes",
    ] {
        read(phrase, now, &berlin).unwrap_or_else(|refusal| panic!("{phrase}: {refusal}"));
    }
}

#[test]
fn at_the_ends_of_time_phrases_are_refused_or_understood() {
    let berlin = zone("Europe/Berlin");
    for now in [
        DateTime::<Utc>::MIN_UTC,
        DateTime::<Utc>::MAX_UTC,
        at("9988-12-31T23:30:00Z"),
    ] {
        for (phrase, _) in OPEN {
            if let Ok(meaning) = read(phrase, now, &berlin) {
                let years = meaning.all().into_iter().map(|at| at.year());
                assert!(
                    years.into_iter().all(|year| (1..=9988).contains(&year)),
                    "{phrase} at {now}"
                );
            }
        }
    }
    let refusal = read("in 2 hours", at("9988-12-31T23:30:00Z"), &berlin).expect_err("it is in 9989");
    assert_eq!(refusal, PhraseError::TooFar("in 2 hours".to_owned()));
}

/// Words of phrases, and some that mean nothing.
const VOCABULARY: [&str; 60] = [
    "tomorrow",
    "today",
    "tonight",
    "yesterday",
    "monday",
    "friday",
    "sun",
    "next",
    "this",
    "week",
    "month",
    "year",
    "dec",
    "february",
    "29",
    "30",
    "31st",
    "2026",
    "2028",
    "12/25/2026",
    "03/04/2026",
    "2026-12-25",
    "0001-01-01",
    "9988-12-31",
    "at",
    "on",
    "in",
    "the",
    "of",
    "from",
    "after",
    "now",
    "ago",
    "and",
    "a",
    "half",
    "an",
    "hour",
    "days",
    "months",
    "years",
    "100",
    "99999",
    "90s",
    "1h30m",
    "9",
    "5pm",
    "12am",
    "00:00",
    "02:30",
    "23:59:59",
    "noon",
    "midnight",
    "morning",
    "night",
    "end",
    "last",
    "day",
    "hence",
    "x",
];

fn some_zone() -> impl Strategy<Value = Zone> {
    prop::sample::select(
        &[
            "Europe/Berlin",
            "America/New_York",
            "Australia/Lord_Howe",
            "Africa/Cairo",
            "UTC",
        ][..],
    )
    .prop_map(zone)
}

fn some_instant() -> impl Strategy<Value = DateTime<Utc>> {
    (0..3_000_000_000_i64).prop_map(|second| DateTime::from_timestamp(second, 0).expect("it is an instant"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_words_are_understood_or_refused(
        words in prop::collection::vec(prop::sample::select(&VOCABULARY[..]), 1..7),
        now in some_instant(),
        zone in some_zone(),
    ) {
        let phrase = words.join(" ");
        match read(&phrase, now, &zone) {
            Ok(meaning) => {
                prop_assert!(meaning.candidates.len() != 1, "{phrase}: {meaning:?}");
                prop_assert!(meaning.candidates.is_sorted());
                prop_assert!(meaning.candidates.len() <= 8, "{phrase}: {meaning:?}");
            }
            Err(refusal) => prop_assert!(refusal.to_string().contains(": ")),
        }
        let _ = delay(&phrase);
    }

    #[test]
    fn any_text_is_understood_or_refused(text in any::<String>(), zone in some_zone()) {
        let _ = read(&text, at("2026-11-27T10:30:00Z"), &zone);
        let _ = instant(&text, Some(&zone));
        let _ = delay(&text);
    }

    #[test]
    fn what_is_to_come_lies_ahead_and_comes_no_earlier_when_asked_later(
        phrase in prop::sample::select(&[
            "monday", "friday at 3pm", "next sunday at 2:30am", "tomorrow", "tomorrow at 2:30", "5pm", "02:30",
            "midnight", "noon", "at 5", "the 31st", "feb 29", "dec 25 at 9am", "in the morning", "in 5 minutes",
            "next week", "next month", "a week from tomorrow at noon",
        ][..]),
        now in some_instant(),
        later in 0..400_000_i64,
        zone in some_zone(),
    ) {
        let second = now + TimeDelta::seconds(later);
        if let (Ok(first), Ok(then)) = (read(phrase, now, &zone), read(phrase, second, &zone)) {
            prop_assert!(first.at > now, "{phrase} at {now}: {first:?}");
            prop_assert!(first.at <= then.at, "{phrase} at {now} and {second}: {first:?}, {then:?}");
        }
    }

    #[test]
    fn a_date_and_a_time_are_what_the_clock_then_shows(
        day in 0..40_000_i64,
        minute in 0..1_440_i64,
        zone in some_zone(),
    ) {
        let midnight = NaiveDate::from_ymd_opt(1970, 1, 1).and_then(|day| day.and_hms_opt(0, 0, 0)).expect("it is a time");
        let local = midnight + TimeDelta::days(day) + TimeDelta::minutes(minute);
        let phrase = local.format("%d %B %Y at %I:%M%p").to_string();
        match read(&phrase, at("2026-11-27T10:30:00Z"), &zone) {
            Ok(meaning) => {
                prop_assert_eq!(zone.to_local(meaning.at), local);
                prop_assert!(meaning.candidates.iter().all(|at| zone.to_local(*at) == local));
            }
            Err(PhraseError::Gap { from, to, .. }) => prop_assert!(from <= local && local < to),
            Err(other) => prop_assert!(false, "{phrase}: {other}"),
        }
    }
}
