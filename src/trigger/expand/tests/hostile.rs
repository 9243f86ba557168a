//! Input that means harm: it must be refused or answered, with a bounded search.

use super::*;
use crate::calendar::recurrence::Budget;
use crate::trigger::AlarmIdentity;

const NOW: [&str; 1] = ["2026-11-27T00:00"];
const ALWAYS: [&str; 3] = ["1970-01-01T00:00", NOW[0], "9000-01-01T00:00"];

/// Asks everything there is to ask about every alarm, from some times on.
fn ask(event: &Event, times: &[&str]) {
    let person = person(BERLIN);
    for after in times {
        let after = Place::just_before(instant(after));
        for alarm in expand::alarms(event, &person).0 {
            if let Ok(Some(firing)) =
                expand::next(event, &person, &alarm.identity, &after, &mut Budget::default())
            {
                let owed = expand::owed(
                    event,
                    &person,
                    &alarm.identity,
                    &firing.place,
                    &mut Budget::default(),
                );
                assert_eq!(owed, Ok(Some(firing.clone())));
                expand::occurrence(event, &person, firing.place.occurrence);
            }
        }
    }
}

#[test]
fn rules_that_never_match_end_within_the_budget() {
    for rule in [
        "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30",
        "FREQ=MONTHLY;BYDAY=6MO",
        "FREQ=YEARLY;BYWEEKNO=53;BYMONTH=6",
        "FREQ=MINUTELY;BYMONTH=2;BYMONTHDAY=30",
        "FREQ=HOURLY;BYYEARDAY=366;BYMONTH=1",
        "FREQ=DAILY;BYSETPOS=2",
        "FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=30",
        "FREQ=MINUTELY;INTERVAL=1440;BYHOUR=5",
    ] {
        let rule = format!("RRULE:{rule}");
        ask(
            &event(&vevent(&[
                "DTSTART:20260101T000000Z",
                &rule,
                &alarm("TRIGGER:-P30D"),
            ])),
            &NOW,
        );
    }
}

#[test]
fn long_repeats_over_short_periods_end_within_the_budget() {
    for rule in [
        "FREQ=MINUTELY;INTERVAL=101",
        "FREQ=MINUTELY;INTERVAL=101;COUNT=1000000",
        "FREQ=HOURLY;INTERVAL=2",
        "FREQ=DAILY",
    ] {
        let rule = format!("RRULE:{rule}");
        let alarm = alarm("TRIGGER:-P3650D\nREPEAT:100\nDURATION:P3650D");
        ask(
            &event(&vevent(&["DTSTART:19700101T000000Z", &rule, &alarm])),
            &NOW,
        );
    }
}

#[test]
fn the_ends_of_time_are_survived() {
    for start in [
        "00000101T000000Z",
        "00010101T000000Z",
        "99991231T235959Z",
        "99981231",
        "00010101",
    ] {
        let start = format!("DTSTART:{start}");
        for end in [
            "DTEND:99991231T235959Z",
            "DTEND:00010101T000000Z",
            "DURATION:P3650D",
        ] {
            let alarm = alarm("TRIGGER;RELATED=END:P3650D\nREPEAT:100\nDURATION:P3650D");
            let text = format!(
                "BEGIN:VCALENDAR\n{}END:VCALENDAR\n",
                vevent(&[&start, end, "RRULE:FREQ=YEARLY", &alarm])
            );
            let calendar = ical::parse(text.as_bytes()).expect("a calendar");
            calendar.events.iter().for_each(|event| ask(event, &ALWAYS));
        }
    }
}

#[test]
fn no_occurrence_ends_before_it_starts_even_at_the_end_of_time() {
    let event = event(&vevent(&[
        "DTSTART;TZID=America/New_York:99980906T004031",
        "DURATION:PT1H",
        &alarm("TRIGGER:-PT15M"),
    ]));
    let fired = fired(&event, &person(BERLIN), "2026-01-01T00:00", 9);
    assert_eq!(fired.len(), 1);
    assert!(fired[0].starts_at <= fired[0].ends_at, "{fired:?}");
}

#[test]
fn an_override_thousands_of_years_away_is_survived() {
    let event = event(
        &(vevent(&[
            "DTSTART:20260101T000000Z",
            "RRULE:FREQ=DAILY",
            &alarm("TRIGGER:PT0S"),
        ]) + &vevent(&[
            "RECURRENCE-ID;RANGE=THISANDFUTURE:20260102T000000Z",
            "DTSTART:99990101T000000Z",
            &alarm("TRIGGER:-P1D"),
        ]) + &vevent(&[
            "RECURRENCE-ID;RANGE=THISANDFUTURE:99980102T000000Z",
            "DTSTART:00020101T000000Z",
            &alarm("TRIGGER:-P1D"),
        ])),
    );
    ask(&event, &ALWAYS);
}

#[test]
fn ten_thousand_dates_are_answered() {
    let dates: Vec<String> = (0..9_999)
        .map(|minute| {
            format!(
                "202612{:02}T{:02}{:02}00Z",
                1 + minute / 1440,
                minute / 60 % 24,
                minute % 60
            )
        })
        .collect();
    let rdate = format!("RDATE:{}", dates.join(","));
    let event = event(&vevent(&[
        "DTSTART:20261130T000000Z",
        &rdate,
        &alarm("TRIGGER:-PT1H\nREPEAT:100\nDURATION:PT7M"),
    ]));
    assert_eq!(times(&event, BERLIN, "2026-12-03T00:00", 5).len(), 5);
}

#[test]
fn an_alarm_that_nobody_has_never_fires() {
    let event = event(&vevent(&[
        "DTSTART:20260101T000000Z",
        "RRULE:FREQ=DAILY",
        &alarm("TRIGGER:PT0S"),
    ]));
    let identity = AlarmIdentity("none".to_owned());
    let after = Place::just_before(instant("2026-01-01T00:00"));
    assert_eq!(
        expand::next(&event, &person(BERLIN), &identity, &after, &mut Budget::default()),
        Ok(None)
    );
}
