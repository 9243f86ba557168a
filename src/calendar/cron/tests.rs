use chrono::DateTime;
use chrono::TimeDelta;
use chrono::Utc;
use serde::Deserialize;

use crate::calendar::cron::Cron;
use crate::calendar::cron::reference::Draw;
use crate::calendar::cron::reference::Sample;
use crate::calendar::zone::Zone;

/// Firings on which two programs of others agree, or which one of them has from Debian's cron.
const CASES: &str = include_str!("../../../tests/it/cases/cron.jsonl");

/// What cronsim, a program that does as Debian's cron, makes of the two clock changes of 2026 in six zones. It repeats what
/// several times in one gap give at its end, which is one firing here.
const CLOCK_CHANGES: &str = include_str!("../../../tests/it/cases/cron_clock_changes.jsonl");

/// Zones whose clocks change in different ways: in both hemispheres, by half an hour, at midnight, against summer.
const ZONES: [&str; 10] = [
    "Europe/Berlin",
    "Europe/Dublin",
    "America/New_York",
    "America/St_Johns",
    "America/Santiago",
    "Australia/Sydney",
    "Australia/Lord_Howe",
    "Africa/Cairo",
    "Africa/Casablanca",
    "UTC",
];

#[derive(Deserialize)]
struct Case {
    cron: String,
    zone: String,
    now: DateTime<Utc>,
    next: Vec<DateTime<Utc>>,
}

fn cron(text: &str) -> Cron {
    Cron::parse(text).expect(text)
}

fn zone(name: &str) -> Zone {
    Zone::iana(name).expect(name)
}

fn at(text: &str) -> DateTime<Utc> {
    text.parse().expect(text)
}

fn refusal(text: &str) -> String {
    Cron::parse(text).expect_err(text).to_string()
}

/// So many firings after an instant.
fn firings(cron: &Cron, after: DateTime<Utc>, zone: &Zone, count: usize) -> Vec<DateTime<Utc>> {
    std::iter::successors(cron.after(after, zone), |last| cron.after(*last, zone))
        .take(count)
        .collect()
}

fn hold(cases: &str) -> usize {
    let cases: Vec<Case> = cases
        .lines()
        .map(|line| serde_json::from_str(line).expect(line))
        .collect();
    for case in &cases {
        let fired = firings(&cron(&case.cron), case.now, &zone(&case.zone), case.next.len());
        assert_eq!(fired, case.next, "{} in {}", case.cron, case.zone);
    }
    cases.len()
}

#[test]
fn the_agreed_cases_hold() {
    assert_eq!(hold(CASES), 26);
}

#[test]
fn clock_changes_of_six_zones_do_what_cron_documents() {
    assert_eq!(hold(CLOCK_CHANGES), 180);
}

#[test]
fn random_expressions_fire_as_the_loop_of_cron_does() {
    let mut draw = Draw(20_261_128);
    let (mut compared, mut with_firings) = (0, 0);
    while compared < 400 {
        let sample = Sample::draw(&mut draw);
        let text = sample.text();
        // What never fires is refused; that it does not is another test's subject.
        let Ok(cron) = Cron::parse(&text) else { continue };
        let name = ZONES[draw.below(10) as usize];
        let zone = zone(name);
        // From somewhere in the three weeks around one of the changes, or any other day of 2025 to 2027.
        let day = [88, 303, 93, 277, 114, draw.below(1_000)][draw.below(6) as usize];
        let minutes = i64::from(day) * 1_440 + i64::from(draw.below(4_000));
        let after = at("2025-12-29T00:00:00Z")
            + TimeDelta::minutes(minutes)
            + TimeDelta::seconds(draw.below(60).into());
        let until = after + TimeDelta::days(7);
        let until = until - TimeDelta::seconds(until.timestamp() % 60);
        let after_minute = after - TimeDelta::seconds(after.timestamp() % 60);
        let expected = sample.firings(after_minute, until, &zone);
        let fired: Vec<_> = firings(&cron, after, &zone, expected.len() + 1)
            .into_iter()
            .filter(|firing| *firing <= until)
            .collect();
        assert_eq!(fired, expected, "{text} in {name} after {after}");
        compared += 1;
        with_firings += usize::from(!expected.is_empty());
    }
    assert!(with_firings > 100, "{with_firings} of them fired at all");
}

#[test]
fn the_next_firing_lies_ahead_and_comes_no_later_when_asked_later() {
    let mut draw = Draw(7);
    for _ in 0..2_000 {
        let Ok(cron) = Cron::parse(&Sample::draw(&mut draw).text()) else {
            continue;
        };
        let zone = zone(ZONES[draw.below(10) as usize]);
        let first = at("1970-01-01T00:00:00Z") + TimeDelta::seconds(i64::from(draw.below(u32::MAX)));
        let second = first + TimeDelta::seconds(draw.below(200_000).into());
        let (after_first, after_second) = (cron.after(first, &zone), cron.after(second, &zone));
        assert!(after_first > Some(first) && after_second > Some(second), "{cron}");
        assert!(after_first <= after_second, "{cron} after {first} and {second}");
        // What lies between is what comes next from anywhere between.
        let between = first + (after_first.expect("it fires") - first) / 2;
        assert_eq!(cron.after(between, &zone), after_first, "{cron} after {between}");
    }
}

#[test]
fn rare_days_are_found_and_the_calendar_ends() {
    let utc = Zone::utc();
    let after = |text: &str, instant: &str| cron(text).after(at(instant), &utc);
    assert_eq!(
        after("0 0 29 2 *", "2096-03-01T00:00:00Z"),
        Some(at("2104-02-29T00:00:00Z"))
    );
    // A fifth Monday in February: 2072 and then 2112, since 2100 is no leap year.
    let fifth = firings(
        &cron("0 12 * 2 mon#5"),
        at("2044-03-01T00:00:00Z"),
        &zone("America/Santiago"),
        2,
    );
    assert_eq!(fifth, [at("2072-02-29T15:00:00Z"), at("2112-02-29T15:00:00Z")]);
    assert_eq!(
        after("0 0 1 1 *", "9987-12-31T23:59:59Z"),
        Some(at("9988-01-01T00:00:00Z"))
    );
    assert_eq!(after("0 0 1 1 *", "9988-01-01T00:00:00Z"), None);
    for extreme in [DateTime::<Utc>::MIN_UTC, DateTime::<Utc>::MAX_UTC] {
        for text in ["* * * * *", "30 2 29 2 *", "@every 1h"] {
            let _ = cron(text).after(extreme, &zone("Europe/Berlin"));
        }
    }
}

#[test]
fn names_stand_for_expressions() {
    for (name, meaning) in [
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
        ("@monthly", "0 0 1 * *"),
        ("@weekly", "0 0 * * 0"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@hourly", "0 * * * *"),
        ("@Hourly", "0 * * * *"),
        (" 0 9  * jan-mar MON-fri ", "0 9 * 1-3 1-5"),
        ("0 9 * * fri-sun", "0 9 * * 5,6,0"),
        ("0 9 * * 7", "0 9 * * 0"),
        ("0 0 9 * * *", "0 9 * * *"),
    ] {
        let (named, meant) = (cron(name), cron(meaning));
        assert_eq!(named.to_string(), name.trim());
        let berlin = zone("Europe/Berlin");
        let now = at("2026-03-28T12:00:30Z");
        assert_eq!(
            firings(&named, now, &berlin, 5),
            firings(&meant, now, &berlin, 5),
            "{name}"
        );
    }
}

#[test]
fn every_counts_from_its_anchor() {
    let cron = cron("@every 1h30m");
    assert_eq!(cron.interval(), Some(TimeDelta::minutes(90)));
    let berlin = zone("Europe/Berlin");
    let anchor = at("2026-03-28T20:10:05.700Z");
    assert_eq!(cron.after(anchor, &berlin), Some(at("2026-03-28T21:40:05Z")));
    for (now, next) in [
        ("2026-03-28T00:00:00Z", "2026-03-28T21:40:05Z"),
        ("2026-03-28T21:40:04Z", "2026-03-28T21:40:05Z"),
        ("2026-03-28T21:40:05Z", "2026-03-28T23:10:05Z"),
        ("2036-03-28T20:10:05Z", "2036-03-28T21:40:05Z"),
    ] {
        assert_eq!(
            cron.after_since(anchor, at(now), &berlin),
            Some(at(next)),
            "{now}"
        );
    }
    assert_eq!(
        super::Cron::parse("0 9 * * *").map(|cron| cron.interval()),
        Ok(None)
    );
}

#[test]
fn what_cannot_be_read_is_named_with_the_cure() {
    for (text, words) in [
        ("", vec!["``", "five fields", "0 9 * * mon-fri"]),
        ("0 9 * *", vec!["`0 9 * *`", "has 4", "minute, hour"]),
        ("0 0 9 * * * 2026", vec!["has 7"]),
        ("30 0 9 * * *", vec!["seconds", "write 0", "@every"]),
        ("60 * * * *", vec!["`60`", "minute", "0 to 59"]),
        ("-1 * * * *", vec!["`-1`", "minute"]),
        ("0 24 * * *", vec!["`24`", "hour", "0 to 23"]),
        ("0 9 0 * *", vec!["`0`", "day of the month", "1 to 31"]),
        ("0 9 * 13 *", vec!["`13`", "month", "jan to dec"]),
        ("0 9 * * 8", vec!["`8`", "day of the week", "sun to sat"]),
        ("0 9 * * monday", vec!["`monday`", "sun to sat"]),
        ("1, * * * *", vec!["``", "minute"]),
        ("+1 * * * *", vec!["`+1`", "minute"]),
        ("*/0 * * * *", vec!["`*/0`", "a step"]),
        ("*/ * * * *", vec!["`*/`", "a step"]),
        ("0~59 * * * *", vec!["`0~59`", "minute"]),
        ("0 9 ? * 1", vec!["`?`", "write `*`"]),
        ("0 22-6 * * *", vec!["`22-6`", "22-23,0-6"]),
        ("0 9 * * 1#6", vec!["`1#6`", "1 to 5"]),
        ("0 9 15W * *", vec!["`15W`", "day of the month"]),
        ("0 9 * * L", vec!["`L`", "day of the week"]),
        ("@reboot", vec!["`@reboot`", "no time"]),
        ("@noon", vec!["`@noon`", "@daily"]),
        ("@every", vec!["`@every`", "5m"]),
        ("@every 500ms", vec!["`@every 500ms`", "1s"]),
        ("@every 0s", vec!["1s to 3650 days"]),
        ("@every 4000d", vec!["1s to 3650 days"]),
        ("@every 1 month", vec!["@every 5m"]),
        ("@everything", vec!["@every 5m"]),
        (
            "30 2 30 2 *",
            vec!["`30 2 30 2 *`", "never fires", "no month `2`", "day `30`", "`L`"],
        ),
        ("0 0 31 2,4,6,9,11 *", vec!["never fires"]),
        ("0 0 30,31 feb */2", vec!["never fires", "`30,31 and */2`"]),
    ] {
        let refusal = refusal(text);
        for word in words {
            assert!(refusal.contains(word), "{text}: {refusal}");
        }
    }
    assert!(refusal(&"*,".repeat(400)).contains("at most 512"));
    // A Sunday will do where the 30th cannot be: this fires.
    assert_eq!(
        cron("0 0 30 2 0").after(at("2026-02-01T00:00:00Z"), &Zone::utc()),
        Some(at("2026-02-08T00:00:00Z"))
    );
}
