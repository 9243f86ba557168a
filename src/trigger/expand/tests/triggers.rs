//! Rules 5 to 10 of the meaning of alarms: when an alarm goes off.

use super::*;

#[test]
fn rule_05_before_after_and_at_start_or_end() {
    for (trigger, expected) in [
        ("TRIGGER:-PT5M", "2026-12-01T08:55"),
        ("TRIGGER;RELATED=START:PT5M", "2026-12-01T09:05"),
        ("TRIGGER;RELATED=END:-PT5M", "2026-12-01T09:55"),
        ("TRIGGER;RELATED=END:PT0S", "2026-12-01T10:00"),
        ("TRIGGER;RELATED=BOGUS:PT0S", "2026-12-01T09:00"),
    ] {
        let event = event(&vevent(&[
            "DTSTART:20261201T090000Z",
            "DTEND:20261201T100000Z",
            &alarm(trigger),
        ]));
        assert_eq!(
            times(&event, BERLIN, "2026-01-01T00:00", 3),
            [expected],
            "{trigger}"
        );
    }
}

#[test]
fn rule_06_every_kind_of_end() {
    let at_end = alarm("TRIGGER;RELATED=END:PT0S");
    for (lines, expected) in [
        (
            vec!["DTSTART;TZID=Europe/Berlin:20260328T120000", "DURATION:P1D"],
            "2026-03-29T10:00",
        ),
        (
            vec!["DTSTART;TZID=Europe/Berlin:20260328T120000", "DURATION:PT24H"],
            "2026-03-29T11:00",
        ),
        (vec!["DTSTART:20261201T090000Z"], "2026-12-01T09:00"),
        (vec!["DTSTART;VALUE=DATE:20261201"], "2026-12-01T23:00"),
        (
            vec!["DTSTART;VALUE=DATE:20261201", "DTEND;VALUE=DATE:20261204"],
            "2026-12-03T23:00",
        ),
        (
            vec![
                "DTSTART;TZID=Europe/Berlin:20261201T090000",
                "DTEND;TZID=America/New_York:20261201T090000",
            ],
            "2026-12-01T14:00",
        ),
        (
            vec!["DTSTART:20261201T090000Z", "DTEND:20261201T080000Z"],
            "2026-12-01T09:00",
        ),
    ] {
        let event = event(&vevent(&[lines, vec![&at_end]].concat()));
        assert_eq!(times(&event, BERLIN, "2026-01-01T00:00", 3), [expected]);
    }
}

#[test]
fn rule_06_recurring_ends_keep_the_exact_length_or_the_days() {
    let timed = event(&vevent(&[
        "DTSTART;TZID=Europe/Berlin:20260327T230000",
        "DTEND;TZID=Europe/Berlin:20260328T070000",
        "RRULE:FREQ=DAILY;COUNT=2",
        &alarm("TRIGGER;RELATED=END:PT0S"),
    ]));
    assert_eq!(
        times(&timed, BERLIN, "2026-01-01T00:00", 3),
        ["2026-03-28T06:00", "2026-03-29T06:00"]
    );
    let days = event(&vevent(&[
        "DTSTART;VALUE=DATE:20260328",
        "DTEND;VALUE=DATE:20260329",
        "RRULE:FREQ=DAILY;COUNT=2",
        &alarm("TRIGGER;RELATED=END:PT0S"),
    ]));
    assert_eq!(
        times(&days, BERLIN, "2026-01-01T00:00", 3),
        ["2026-03-28T23:00", "2026-03-29T22:00"]
    );
}

#[test]
fn rule_06_a_task_is_anchored_at_due() {
    let at_due = alarm("TRIGGER;RELATED=END:-PT1H");
    let due = event(&vtodo(&["DUE:20261201T090000Z", &at_due]));
    assert_eq!(times(&due, BERLIN, "2026-01-01T00:00", 3), ["2026-12-01T08:00"]);
    let duration = event(&vtodo(&["DTSTART:20261201T090000Z", "DURATION:PT3H", &at_due]));
    assert_eq!(
        times(&duration, BERLIN, "2026-01-01T00:00", 3),
        ["2026-12-01T11:00"]
    );
    let weekly = event(&vtodo(&[
        "DUE:20261201T090000Z",
        "RRULE:FREQ=WEEKLY;COUNT=2",
        &at_due,
    ]));
    assert_eq!(
        times(&weekly, BERLIN, "2026-01-01T00:00", 3),
        ["2026-12-01T08:00", "2026-12-08T08:00"]
    );
}

#[test]
fn rule_06_a_missing_anchor_is_reported_and_never_guessed() {
    for (lines, trigger, expected) in [
        (vec!["DUE:20261201T090000Z"], "TRIGGER:-PT1H", "no DTSTART"),
        (
            vec!["DTSTART:20261201T090000Z"],
            "TRIGGER;RELATED=END:-PT1H",
            "no DUE",
        ),
        (vec!["SUMMARY:x"], "TRIGGER:-PT1H", "no DTSTART"),
        (vec!["DURATION:PT1H"], "TRIGGER;RELATED=END:-PT1H", "no DTSTART"),
    ] {
        let alarm = alarm(trigger);
        let event = event(&vtodo(&[lines, vec![&alarm]].concat()));
        assert_eq!(times(&event, BERLIN, "2026-01-01T00:00", 3), [""; 0]);
        assert!(reasons(&event)[0].contains(expected), "{:?}", reasons(&event));
    }
}

#[test]
fn rule_06_a_broken_end_silences_only_what_is_counted_from_it() {
    let event = event(&vevent(&[
        "DTSTART:20261201T090000Z",
        "DTEND:soon",
        &alarm("TRIGGER:-PT5M"),
        &alarm("TRIGGER;RELATED=END:-PT5M"),
    ]));
    assert_eq!(times(&event, BERLIN, "2026-01-01T00:00", 3), ["2026-12-01T08:55"]);
    assert!(reasons(&event)[0].contains("cannot be read"));
}

#[test]
fn rule_07_an_absolute_trigger_fires_once() {
    let event = event(
        &(vevent(&[
            "DTSTART:20261201T090000Z",
            "RRULE:FREQ=DAILY",
            &alarm("TRIGGER;VALUE=DATE-TIME:20261203T120000Z"),
        ]) + &vevent(&[
            "RECURRENCE-ID:20261203T090000Z",
            "DTSTART:20261204T090000Z",
            &alarm("TRIGGER;VALUE=DATE-TIME:20261203T120000Z"),
        ])),
    );
    let fired = fired(&event, &person(BERLIN), "2026-01-01T00:00", 9);
    assert_eq!(fired.len(), 1);
    assert_eq!(fired[0].place.occurrence, instant("2026-12-01T09:00"));
    assert!(!fired[0].has_more);
}

#[test]
fn rule_07_zoned_floating_and_undeclared_absolute_triggers() {
    for (trigger, expected) in [
        (
            "TRIGGER;VALUE=DATE-TIME;TZID=America/New_York:20261130T120000",
            "2026-11-30T17:00",
        ),
        ("TRIGGER;VALUE=DATE-TIME:20261130T120000", "2026-11-30T11:00"),
        ("TRIGGER:20261130T120000Z", "2026-11-30T12:00"),
        ("TRIGGER;VALUE=DATE:20261130", "2026-11-29T23:00"),
    ] {
        let event = event(&vevent(&["DTSTART:20261201T090000Z", &alarm(trigger)]));
        assert_eq!(
            times(&event, BERLIN, "2026-01-01T00:00", 3),
            [expected],
            "{trigger}"
        );
    }
}

#[test]
fn rule_08_repeats_are_additional_and_need_a_duration() {
    for (repeat, expected) in [
        ("REPEAT:2\nDURATION:PT5M", 3),
        ("REPEAT:2", 1),
        ("DURATION:PT5M", 1),
        ("REPEAT:2\nDURATION:PT0S", 1),
        ("REPEAT:2\nDURATION:-PT5M", 1),
        ("REPEAT:2\nDURATION:PT10S", 1),
        ("REPEAT:x\nDURATION:PT5M", 1),
        ("REPEAT:100\nDURATION:PT5M", 101),
    ] {
        let event = event(&vevent(&[
            "DTSTART:20261201T090000Z",
            &alarm(&format!("TRIGGER:PT0S\n{repeat}")),
        ]));
        assert_eq!(
            times(&event, BERLIN, "2026-01-01T00:00", 200).len(),
            expected,
            "{repeat}"
        );
    }
}

#[test]
fn rule_08_repeats_of_days_are_nominal() {
    let event = event(&vevent(&[
        "DTSTART;TZID=Europe/Berlin:20260328T120000",
        &alarm("TRIGGER:PT0S\nREPEAT:1\nDURATION:P1D"),
    ]));
    assert_eq!(
        times(&event, BERLIN, "2026-01-01T00:00", 9),
        ["2026-03-28T11:00", "2026-03-29T10:00"]
    );
}

#[test]
fn rule_09_alarms_are_independent_and_equal_ones_are_one() {
    let event = event(&vevent(&[
        "DTSTART:20261201T090000Z",
        &alarm("TRIGGER:-PT60M"),
        &alarm("TRIGGER:-PT1H\nX-EVOLUTION-ALARM-UID:1"),
        &alarm("TRIGGER:-PT1H\nUID:other"),
    ]));
    assert_eq!(
        times(&event, BERLIN, "2026-01-01T00:00", 9),
        ["2026-12-01T08:00"; 2]
    );
}

#[test]
fn rule_09_the_alarm_uid_is_its_identity() {
    let with = |trigger: &str| {
        let event = event(&vevent(&[
            "DTSTART:20261201T090000Z",
            &alarm(&format!("UID:a1\n{trigger}")),
        ]));
        expand::alarms(&event, &person(BERLIN)).0.remove(0).identity.0
    };
    assert_eq!(with("TRIGGER:-PT1H"), "a1");
    assert_eq!(with("TRIGGER:-PT2H"), "a1");
}

#[test]
fn rule_10_a_far_lead_finds_instances_a_month_ahead() {
    let event = event(&vevent(&[
        "DTSTART:20200101T090000Z",
        "RRULE:FREQ=DAILY",
        &alarm("TRIGGER:-P30D"),
    ]));
    let fired = fired(&event, &person(BERLIN), "2026-11-27T00:00", 2);
    assert_eq!(fired[0].place.trigger_at, instant("2026-11-27T09:00"));
    assert_eq!(fired[0].place.occurrence, instant("2026-12-27T09:00"));
    assert_eq!(fired[1].place.occurrence, instant("2026-12-28T09:00"));
}

#[test]
fn rule_10_positive_leads_and_repeats_longer_than_the_period_stay_in_order() {
    let event = event(&vevent(&[
        "DTSTART:20261201T000000Z",
        "RRULE:FREQ=HOURLY;COUNT=3",
        &alarm("TRIGGER:PT90M\nREPEAT:2\nDURATION:PT40M"),
    ]));
    let minutes: Vec<i64> = fired(&event, &person(BERLIN), "2026-01-01T00:00", 99)
        .iter()
        .map(|firing| (firing.place.trigger_at - instant("2026-12-01T00:00")).num_minutes())
        .collect();
    assert_eq!(minutes, [90, 130, 150, 170, 190, 210, 230, 250, 290]);
}
