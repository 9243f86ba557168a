//! Input that means harm: it must be refused or answered, with a bounded search.

use std::cell::RefCell;

use super::*;
use crate::calendar::recurrence::Budget;
use crate::trigger::AlarmIdentity;
use crate::trigger::series::Series;

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

/// What follows costs more than there is, and nothing is left for the other copy: what was found stands all the same.
#[test]
fn what_two_copies_owe_is_owed_where_what_follows_is_too_far_to_count() {
    let rule = "RRULE:FREQ=MINUTELY;BYYEARDAY=366;COUNT=4294967295";
    let copy = event(&vevent(&[
        "DTSTART:16010515T000000Z",
        rule,
        &alarm("TRIGGER:-P1D"),
    ]));
    let events = [copy.clone(), copy];
    let person = person(BERLIN);
    let identity = expand::alarms(&events[0], &person).0.remove(0).identity;
    let budget = RefCell::new(Budget::default());
    let series = Series {
        events: &events,
        person: &person,
        identity: &identity,
        budget: &budget,
    };
    let place = Place {
        trigger_at: instant("1601-05-14T00:00"),
        occurrence: instant("1601-05-15T00:00"),
        repeat: 0,
    };
    let owed = series.owed(&place).expect("it is found");
    assert!(owed.is_some_and(|owed| owed.has_more && owed.place == place));
    assert!(series.next(&place).is_err(), "what follows costs too much");
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
        "DTSTART;TZID=America/New_York:99830906T004031",
        "DTEND:99980906T004031Z",
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
            "RECURRENCE-ID;RANGE=THISANDFUTURE:99880102T000000Z",
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

#[test]
fn beyond_the_years_that_are_known_nothing_fires() {
    let event = event(&vevent(&[
        "DTSTART;TZID=America/New_York:99891230T041130",
        "RRULE:FREQ=HOURLY;BYMONTHDAY=-27,-30,-17,11",
        "RDATE:20261202T090000Z",
        &alarm("TRIGGER:-PT15M"),
    ]));
    ask(&event, &ALWAYS);
    assert_eq!(times(&event, BERLIN, NOW[0], 9), ["2026-12-02T08:45"]);
}

#[test]
fn before_the_years_that_are_known_nothing_fires() {
    let event = event(&vevent(&[
        "DTSTART;TZID=Pacific/Chatham:00020101T000000",
        "RRULE:FREQ=YEARLY",
        &alarm("TRIGGER:PT15M"),
    ]));
    ask(&event, &["0099-12-30T00:00", "1970-01-01T00:00"]);
    let first = fired(&event, &person("Pacific/Chatham"), "0004-01-01T00:00", 1);
    assert_eq!(first[0].starts_at, instant("0100-12-31T11:46:12Z"));
}

/// Search steps of the first `most` alarms of an event, from 2026 on; an error where they are more than `allowed`.
fn steps(event: &Event, most: usize, allowed: u32) -> Result<u32, String> {
    let mut budget = Budget { steps: allowed };
    for alarm in expand::alarms(event, &person(BERLIN)).0.iter().take(most) {
        let after = Place::just_before(instant(NOW[0]));
        expand::next(event, &person(BERLIN), &alarm.identity, &after, &mut budget)
            .map_err(|gave_up| gave_up.to_string())?;
    }
    Ok(allowed - budget.steps)
}

#[test]
fn old_events_cost_no_more_steps_than_new_ones() {
    for rule in [
        "FREQ=MINUTELY",
        "FREQ=HOURLY;INTERVAL=7",
        "FREQ=DAILY",
        "FREQ=DAILY;COUNT=4294967295",
        "FREQ=WEEKLY;BYDAY=MO,WE",
        "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR;COUNT=1000000",
        "FREQ=MONTHLY;BYDAY=-1FR",
        "FREQ=YEARLY;BYMONTH=3;BYDAY=-1SU",
        "FREQ=DAILY;UNTIL=20991231T000000Z",
    ] {
        for year in ["2026", "2016", "1976", "1626"] {
            for lead in ["-PT15M", "-P3650D", "P3650D"] {
                let start = format!("DTSTART:{year}0105T090000Z");
                let event = event(&vevent(&[
                    &start,
                    &format!("RRULE:{rule}"),
                    &alarm(&format!("TRIGGER:{lead}")),
                ]));
                // Days of a lead are searched a clock change around, minute by minute.
                let most = if rule == "FREQ=MINUTELY" { 40_000 } else { 700 };
                let steps = steps(&event, 1, 200_000);
                assert!(
                    steps.as_ref().is_ok_and(|steps| *steps < most),
                    "{rule} since {year}, {lead}: {steps:?}"
                );
            }
        }
    }
}

#[test]
fn what_would_cost_too_much_is_given_up_with_a_reason() {
    for rule in [
        "FREQ=MINUTELY;INTERVAL=1440;BYHOUR=5",
        "FREQ=MINUTELY;BYHOUR=9;COUNT=1000000000",
    ] {
        let event = event(&vevent(&[
            "DTSTART:16010101T000000Z",
            &format!("RRULE:{rule}"),
            &alarm("TRIGGER:-PT15M"),
        ]));
        let reason = steps(&event, 1, 200_000).expect_err(rule);
        assert!(reason.contains("search steps"), "{reason}");
    }
}

/// A daily event, of which so many instances are overridden, each with alarms that no other has.
fn overridden(instances: u32, alarms: u32) -> Event {
    let day = |number: u32| {
        let first: chrono::NaiveDate = "2026-01-01".parse().expect("a day");
        (first + chrono::Days::new(number.into())).format("%Y%m%d")
    };
    let mut text = vevent(&[
        "DTSTART:20250101T090000Z",
        "RRULE:FREQ=DAILY",
        &alarm("TRIGGER:PT0S"),
    ]);
    for number in 0..instances {
        let own: Vec<String> = (0..alarms)
            .map(|minute| alarm(&format!("TRIGGER:-PT{}M", 1 + number * alarms + minute)))
            .collect();
        text += &vevent(&[
            &format!("RECURRENCE-ID:{}T090000Z", day(number)),
            &format!("DTSTART:{}T100000Z", day(number)),
            &own.join("\n"),
        ]);
    }
    event(&text)
}

#[test]
fn many_overrides_with_alarms_of_their_own_are_within_what_an_event_may_cost() {
    let steps = steps(&overridden(300, 2), 1_000, 300_000);
    assert!(steps.as_ref().is_ok_and(|steps| *steps < 100_000), "{steps:?}");
}

#[test]
fn too_many_overrides_with_too_many_alarms_are_given_up_with_a_reason() {
    let event = overridden(499, 10);
    let reason = steps(&event, 10_000, 300_000).expect_err("thousands of alarms");
    assert!(reason.contains("search steps"), "{reason}");
    // Whoever goes on to the next alarm all the same is told so at once.
    let identity = &expand::alarms(&event, &person(BERLIN)).0[0].identity;
    let mut spent = Budget { steps: 5 };
    let mut ask = || expand::next(&event, &person(BERLIN), identity, &Place::FIRST, &mut spent);
    assert_eq!((ask(), ask()), (ask(), ask()));
    assert!(ask().is_err());
    assert_eq!(spent.steps, 0);
}

#[test]
fn listed_dates_are_found_by_halving_and_periods_by_their_ends() {
    let dates: Vec<String> = (0..9_000)
        .map(|number| {
            format!(
                "20{:02}{:02}{:02}T090000Z",
                10 + number / 336,
                1 + number / 28 % 12,
                1 + number % 28
            )
        })
        .collect();
    let event = event(&vevent(&[
        "DTSTART:20091231T090000Z",
        &format!("RDATE:{}", dates.join(",")),
        &alarm("TRIGGER:-P1D\nREPEAT:2\nDURATION:P1D"),
    ]));
    let expected = ["2026-11-27T09:00", "2026-11-27T09:00", "2026-11-27T09:00"];
    assert_eq!(times(&event, BERLIN, "2026-11-27T00:00", 3), expected);
    let with_period = self::event(&vevent(&[
        "DTSTART:20260101T090000Z",
        "RDATE;VALUE=PERIOD:20261101T090000Z/20261130T090000Z",
        "RDATE:20261127T090000Z",
        &alarm("TRIGGER;RELATED=END:-PT5M"),
    ]));
    let expected = ["2026-11-27T08:55", "2026-11-30T08:55"];
    assert_eq!(times(&with_period, BERLIN, "2026-11-27T00:00", 3), expected);
}

#[test]
fn a_count_that_no_years_hold_is_as_good_as_none() {
    for rule in [
        "FREQ=MINUTELY;COUNT=9223372036854775807",
        "FREQ=HOURLY;INTERVAL=32767;COUNT=4294967295",
        "FREQ=DAILY;INTERVAL=9999;COUNT=4294967295",
    ] {
        let event = event(&vevent(&[
            "DTSTART:20261201T090000Z",
            &format!("RRULE:{rule}"),
            &alarm("TRIGGER:PT0S"),
        ]));
        assert_eq!(
            times(&event, "UTC", "2026-12-01T08:00", 1),
            ["2026-12-01T09:00"],
            "{rule}"
        );
    }
}

#[test]
fn what_was_acknowledged_costs_nothing() {
    let own = alarm("TRIGGER:-PT5M\nACKNOWLEDGED:20261130T120000Z");
    let event = event(&vevent(&["DTSTART:19900101T000000Z", "RRULE:FREQ=HOURLY", &own]));
    let identity = &expand::alarms(&event, &person("UTC")).0[0].identity;
    let mut budget = Budget { steps: 2_000 };
    let next = expand::next(&event, &person("UTC"), identity, &Place::FIRST, &mut budget);
    let at = next
        .expect("within the budget")
        .expect("there is one")
        .place
        .trigger_at;
    assert_eq!(at, instant("2026-11-30T12:55"));
}
