//! One test for each rule of the meaning of alarms, by its number.

use super::*;

const BERLIN: &str = "Europe/Berlin";

#[test]
fn rule_01_zoned_utc_floating_and_dates() {
    let at_start = alarm("TRIGGER:PT0S");
    for (start, zone, expected) in [
        ("DTSTART:20260701T090000Z", BERLIN, "2026-07-01T09:00"),
        (
            "DTSTART;TZID=America/New_York:20260701T090000",
            BERLIN,
            "2026-07-01T13:00",
        ),
        ("DTSTART:20260701T090000", BERLIN, "2026-07-01T07:00"),
        ("DTSTART:20260701T090000", "Asia/Tokyo", "2026-07-01T00:00"),
        ("DTSTART;VALUE=DATE:20260701", "Asia/Tokyo", "2026-06-30T15:00"),
        ("DTSTART:20260701", BERLIN, "2026-06-30T22:00"),
        ("DTSTART;TZID=UTC:20260701T090000", BERLIN, "2026-07-01T09:00"),
    ] {
        let event = event(&vevent(&[start, &at_start]));
        assert_eq!(
            times(&event, zone, "2026-01-01T00:00", 3),
            [expected],
            "{start} {zone}"
        );
    }
}

#[test]
fn rule_02_gaps_take_the_offset_before_and_folds_the_first() {
    for (start, expected) in [
        ("DTSTART;TZID=Europe/Berlin:20260329T023000", "2026-03-29T01:30"),
        ("DTSTART;TZID=Europe/Berlin:20261025T023000", "2026-10-25T00:30"),
    ] {
        let event = event(&vevent(&[start, &alarm("TRIGGER:PT0S")]));
        assert_eq!(times(&event, BERLIN, "2026-01-01T00:00", 3), [expected]);
    }
    let absolute = event(&vevent(&[
        "DTSTART:20260401T090000Z",
        &alarm("TRIGGER;VALUE=DATE-TIME;TZID=Europe/Berlin:20260329T023000"),
    ]));
    assert_eq!(
        times(&absolute, BERLIN, "2026-01-01T00:00", 3),
        ["2026-03-29T01:30"]
    );
}

#[test]
fn rule_03_two_equal_instants_are_one_instance() {
    let hourly = event(&vevent(&[
        "DTSTART;TZID=Europe/Berlin:20260329T003000",
        "RRULE:FREQ=HOURLY;COUNT=5",
        &alarm("TRIGGER:PT0S"),
    ]));
    // 02:30 does not exist and is the instant of 03:30, which is an instance too.
    let expected = [
        "2026-03-28T23:30",
        "2026-03-29T00:30",
        "2026-03-29T01:30",
        "2026-03-29T02:30",
    ];
    assert_eq!(times(&hourly, BERLIN, "2026-01-01T00:00", 9), expected);
}

#[test]
fn rule_03_a_gap_does_not_disturb_the_order() {
    let minutely = event(&vevent(&[
        "DTSTART;TZID=Europe/Berlin:20260329T010000",
        "RRULE:FREQ=MINUTELY;INTERVAL=20;COUNT=9",
        &alarm("TRIGGER:PT0S"),
    ]));
    // 02:00, 02:20 and 02:40 are the instants of 03:00, 03:20 and 03:40.
    let expected = [
        "2026-03-29T00:00",
        "2026-03-29T00:20",
        "2026-03-29T00:40",
        "2026-03-29T01:00",
        "2026-03-29T01:20",
        "2026-03-29T01:40",
    ];
    assert_eq!(times(&minutely, BERLIN, "2026-01-01T00:00", 20), expected);
}

#[test]
fn rule_04_days_are_nominal_and_hours_exact() {
    for (trigger, expected) in [
        ("TRIGGER:-P1D", "2026-03-28T11:00"),
        ("TRIGGER:-PT24H", "2026-03-28T10:00"),
        ("TRIGGER:-P1DT1H", "2026-03-28T10:00"),
        ("TRIGGER:-P1W", "2026-03-22T11:00"),
    ] {
        let event = event(&vevent(&[
            "DTSTART;TZID=Europe/Berlin:20260329T120000",
            &alarm(trigger),
        ]));
        assert_eq!(
            times(&event, "Asia/Tokyo", "2026-01-01T00:00", 3),
            [expected],
            "{trigger}"
        );
    }
}

#[test]
fn rule_04_an_all_day_alarm_counts_from_local_midnight() {
    let event = event(&vevent(&[
        "DTSTART;VALUE=DATE:20261018",
        &alarm("TRIGGER:-PT15M"),
    ]));
    assert_eq!(times(&event, BERLIN, "2026-01-01T00:00", 3), ["2026-10-17T21:45"]);
}

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

#[test]
fn rule_12_count_and_until() {
    let starts = |rule: &str, start: &str| {
        let event = event(&vevent(&[start, rule, &alarm("TRIGGER:PT0S")]));
        times(&event, BERLIN, "2026-01-01T00:00", 9)
    };
    let berlin = "DTSTART;TZID=Europe/Berlin:20261201T090000";
    assert_eq!(starts("RRULE:FREQ=DAILY;UNTIL=20261202", berlin).len(), 2);
    assert_eq!(starts("RRULE:FREQ=DAILY;UNTIL=20261202T090000", berlin).len(), 2);
    assert_eq!(starts("RRULE:FREQ=DAILY;UNTIL=20261202T080000Z", berlin).len(), 2);
    assert_eq!(starts("RRULE:FREQ=DAILY;UNTIL=20261202T075959Z", berlin).len(), 1);
    assert_eq!(
        starts("RRULE:FREQ=DAILY;UNTIL=20261202T235959Z", "DTSTART:20261201").len(),
        2
    );
    assert_eq!(
        starts("RRULE:FREQ=DAILY;COUNT=2;BYHOUR=5", "DTSTART:20261201").len(),
        2
    );
    // 1 December 2026 is a Tuesday: it is the first instance all the same, and takes one of COUNT.
    let monday = starts("RRULE:FREQ=WEEKLY;BYDAY=MO;COUNT=2", "DTSTART:20261201T090000Z");
    assert_eq!(monday, ["2026-12-01T09:00", "2026-12-07T09:00"]);
}

#[test]
fn rule_12_several_rules_and_dates_make_one_set() {
    let event = event(&vevent(&[
        "DTSTART:20261201T090000Z",
        "RRULE:FREQ=WEEKLY;COUNT=2",
        "RRULE:FREQ=MONTHLY;COUNT=2",
        "RDATE:20261208T090000Z,20261203T100000Z",
        "RDATE;VALUE=DATE-TIME;TZID=Europe/Berlin:20261205T100000",
        &alarm("TRIGGER:PT0S"),
    ]));
    let expected = [
        "2026-12-01T09:00",
        "2026-12-03T10:00",
        "2026-12-05T09:00",
        "2026-12-08T09:00",
        "2027-01-01T09:00",
    ];
    assert_eq!(times(&event, BERLIN, "2026-01-01T00:00", 9), expected);
}

#[test]
fn rule_12_a_period_brings_its_own_end() {
    let event = event(&vevent(&[
        "DTSTART:20261201T090000Z",
        "DURATION:PT1H",
        "RRULE:FREQ=DAILY;COUNT=2",
        "RDATE;VALUE=PERIOD:20261202T090000Z/PT3H,20261203T090000Z/20261203T093000Z",
        &alarm("TRIGGER;RELATED=END:PT0S"),
    ]));
    let expected = ["2026-12-01T10:00", "2026-12-02T12:00", "2026-12-03T09:30"];
    assert_eq!(times(&event, BERLIN, "2026-01-01T00:00", 9), expected);
}

#[test]
fn rule_13_exdate_matches_by_instant_or_by_day() {
    for exdate in [
        "EXDATE:20261202T080000Z",
        "EXDATE;TZID=America/New_York:20261202T030000",
        "EXDATE;TZID=Europe/Berlin:20261202T090000",
        "EXDATE;VALUE=DATE:20261202",
        "EXDATE:20261202T090000",
    ] {
        let event = event(&vevent(&[
            "DTSTART;TZID=Europe/Berlin:20261201T090000",
            "RRULE:FREQ=DAILY;COUNT=3",
            exdate,
            &alarm("TRIGGER:PT0S"),
        ]));
        let expected = ["2026-12-01T08:00", "2026-12-03T08:00"];
        assert_eq!(
            times(&event, "Asia/Tokyo", "2026-01-01T00:00", 9),
            expected,
            "{exdate}"
        );
    }
}

#[test]
fn rule_13_exdate_removes_days_of_an_all_day_series() {
    let event = event(&vevent(&[
        "DTSTART;VALUE=DATE:20261201",
        "RRULE:FREQ=DAILY;COUNT=3",
        "EXDATE;VALUE=DATE:20261201",
        "EXDATE:20261203T000000Z",
        &alarm("TRIGGER:PT0S"),
    ]));
    assert_eq!(times(&event, BERLIN, "2026-01-01T00:00", 9), ["2026-12-01T23:00"]);
}

fn daily_with(overrides: &str) -> Event {
    let master = vevent(&[
        "DTSTART;TZID=Europe/Berlin:20261201T090000",
        "DURATION:PT1H",
        "RRULE:FREQ=DAILY;COUNT=4",
        &alarm("UID:a\nTRIGGER:-PT15M"),
    ]);
    event(&(overrides.to_owned() + &master))
}

#[test]
fn rule_14_an_override_replaces_its_instance_whole() {
    let event = daily_with(&vevent(&[
        "RECURRENCE-ID:20261202T080000Z",
        "DTSTART:20261202T120000Z",
        &alarm("UID:a\nTRIGGER:-PT30M"),
    ]));
    let fired = fired(&event, &person(BERLIN), "2026-01-01T00:00", 9);
    let seen: Vec<String> = fired
        .iter()
        .map(|firing| firing.place.trigger_at.to_string())
        .collect();
    assert_eq!(fired.len(), 4);
    assert_eq!(seen[1], "2026-12-02 11:30:00 UTC");
    assert_eq!(fired[1].place.occurrence, instant("2026-12-02T08:00"));
    assert_eq!(fired[1].starts_at, instant("2026-12-02T12:00"));
}

#[test]
fn rule_14_the_newer_of_two_overrides_of_one_instant_counts() {
    let version =
        |sequence: &str, id: &str, start: &str| vevent(&[sequence, id, start, &alarm("UID:a\nTRIGGER:PT0S")]);
    let old = version(
        "SEQUENCE:1",
        "RECURRENCE-ID:20261202T080000Z",
        "DTSTART:20261202T130000Z",
    );
    let new = version(
        "SEQUENCE:2",
        "RECURRENCE-ID;TZID=Europe/Berlin:20261202T090000",
        "DTSTART:20261202T140000Z",
    );
    for overrides in [old.clone() + &new, new + &old] {
        let seen = times(&daily_with(&overrides), BERLIN, "2026-12-01T23:00", 1);
        assert_eq!(seen, ["2026-12-02T14:00"]);
    }
}

#[test]
fn rule_14_a_detached_instance_counts_and_may_move_anywhere() {
    let event = daily_with(&vevent(&[
        "RECURRENCE-ID:20200101T080000Z",
        "DTSTART:20270101T120000Z",
        &alarm("UID:a\nTRIGGER:PT0S"),
    ]));
    assert_eq!(times(&event, BERLIN, "2026-12-05T00:00", 9), ["2027-01-01T12:00"]);
}

#[test]
fn rule_15_this_and_future_moves_what_follows() {
    let future = |id: &str, start: &str, trigger: &str| {
        vevent(&[
            &format!("RECURRENCE-ID;RANGE=THISANDFUTURE:{id}"),
            start,
            &alarm(trigger),
        ])
    };
    let overrides = future(
        "20261202T080000Z",
        "DTSTART;TZID=Europe/Berlin:20261202T110000",
        "UID:a\nTRIGGER:PT0S",
    ) + &future(
        "20261204T080000Z",
        "DTSTART;TZID=Europe/Berlin:20261204T080000",
        "UID:a\nTRIGGER:PT0S",
    ) + &vevent(&[
        "RECURRENCE-ID:20261203T080000Z",
        "DTSTART:20261203T200000Z",
        &alarm("UID:a\nTRIGGER:PT0S"),
    ]);
    let expected = [
        "2026-12-01T07:45",
        "2026-12-02T10:00",
        "2026-12-03T20:00",
        "2026-12-04T07:00",
    ];
    assert_eq!(
        times(&daily_with(&overrides), BERLIN, "2026-01-01T00:00", 9),
        expected
    );
}

#[test]
fn rule_15_this_and_future_keeps_the_wall_clock_over_a_change() {
    let event = event(
        &(vevent(&[
            "DTSTART;TZID=Europe/Berlin:20261020T090000",
            "RRULE:FREQ=WEEKLY;COUNT=3",
        ]) + &vevent(&[
            "RECURRENCE-ID;RANGE=THISANDFUTURE;TZID=Europe/Berlin:20261020T090000",
            "DTSTART;TZID=Europe/Berlin:20261020T110000",
            &alarm("TRIGGER:PT0S"),
        ])),
    );
    let expected = ["2026-10-20T09:00", "2026-10-27T10:00", "2026-11-03T10:00"];
    assert_eq!(times(&event, BERLIN, "2026-01-01T00:00", 9), expected);
}

#[test]
fn rule_15_another_range_is_no_range() {
    let event = daily_with(&vevent(&[
        "RECURRENCE-ID;RANGE=THISANDPRIOR:20261202T080000Z",
        "DTSTART:20261202T120000Z",
        &alarm("UID:a\nTRIGGER:PT0S"),
    ]));
    let expected = [
        "2026-12-01T07:45",
        "2026-12-02T12:00",
        "2026-12-03T07:45",
        "2026-12-04T07:45",
    ];
    assert_eq!(times(&event, BERLIN, "2026-01-01T00:00", 9), expected);
}

#[test]
fn rule_16_cancelled_instances_and_series() {
    let one = daily_with(&vevent(&[
        "RECURRENCE-ID:20261202T080000Z",
        "DTSTART:20261202T080000Z",
        "STATUS:CANCELLED",
    ]));
    assert_eq!(times(&one, BERLIN, "2026-01-01T00:00", 9).len(), 3);
    let rest = daily_with(&vevent(&[
        "RECURRENCE-ID;RANGE=THISANDFUTURE:20261203T080000Z",
        "DTSTART:20261203T080000Z",
        "STATUS:CANCELLED",
    ]));
    assert_eq!(times(&rest, BERLIN, "2026-01-01T00:00", 9).len(), 2);
    let all_but_one = event(
        &(vevent(&[
            "DTSTART:20261201T090000Z",
            "RRULE:FREQ=DAILY",
            "STATUS:CANCELLED",
            &alarm("TRIGGER:PT0S"),
        ]) + &vevent(&[
            "RECURRENCE-ID:20261202T090000Z",
            "DTSTART:20261202T100000Z",
            &alarm("TRIGGER:PT0S"),
        ])),
    );
    assert_eq!(
        times(&all_but_one, BERLIN, "2026-01-01T00:00", 9),
        ["2026-12-02T10:00"]
    );
    assert_eq!(reasons(&all_but_one), ["the event is cancelled"]);
}

#[test]
fn rule_16_method_cancel_cancels() {
    let cancelled = vevent(&["DTSTART:20261201T090000Z", &alarm("TRIGGER:PT0S")]);
    let event = event(&format!("METHOD:CANCEL\n{cancelled}"));
    assert_eq!(times(&event, BERLIN, "2026-01-01T00:00", 9), [""; 0]);
}

#[test]
fn rule_16_completed_tasks_are_silent() {
    for done in ["COMPLETED:20261101T000000Z", "STATUS:COMPLETED"] {
        let event = event(&vtodo(&[
            "DTSTART:20261201T090000Z",
            done,
            &alarm("TRIGGER:PT0S"),
        ]));
        assert_eq!(times(&event, BERLIN, "2026-01-01T00:00", 9), [""; 0]);
        assert_eq!(reasons(&event), ["the task is completed"]);
    }
}

#[test]
fn rule_17_what_is_acknowledged_is_done_and_the_rest_fires() {
    let event = event(&vevent(&[
        "DTSTART:20261201T090000Z",
        "RRULE:FREQ=DAILY;COUNT=2",
        &alarm("TRIGGER:PT0S\nREPEAT:2\nDURATION:PT10M\nACKNOWLEDGED:20261201T091000Z"),
    ]));
    let expected = [
        "2026-12-01T09:20",
        "2026-12-02T09:00",
        "2026-12-02T09:10",
        "2026-12-02T09:20",
    ];
    assert_eq!(times(&event, BERLIN, "2026-01-01T00:00", 9), expected);
}

#[test]
fn rule_18_a_snooze_fires_and_acknowledges_its_parent() {
    let snooze = |more: &str| {
        alarm(&format!(
            "UID:s\nRELATED-TO;RELTYPE=SNOOZE:p\nTRIGGER;VALUE=DATE-TIME:20261201T091500Z\n{more}X:1"
        ))
    };
    let parent = alarm("UID:p\nTRIGGER:-PT15M");
    let open = event(&vevent(&["DTSTART:20261201T090000Z", &parent, &snooze("")]));
    assert_eq!(
        times(&open, BERLIN, "2026-01-01T00:00", 9),
        ["2026-12-01T08:45", "2026-12-01T09:15"]
    );
    let done = event(&vevent(&[
        "DTSTART:20261201T090000Z",
        &parent,
        &snooze("ACKNOWLEDGED:20261201T092000Z\n"),
    ]));
    assert_eq!(times(&done, BERLIN, "2026-01-01T00:00", 9), [""; 0]);
    let orphan = event(&vevent(&["DTSTART:20261201T090000Z", &snooze("")]));
    assert_eq!(
        times(&orphan, BERLIN, "2026-01-01T00:00", 9),
        ["2026-12-01T09:15"]
    );
}

#[test]
fn rule_19_places_and_none_do_not_fire_by_time() {
    for (lines, expected) in [
        (
            "ACTION:DISPLAY\nPROXIMITY:DEPART\nTRIGGER;VALUE=DATE-TIME:19760401T005545Z",
            "PROXIMITY",
        ),
        ("ACTION:DISPLAY\nPROXIMITY:ARRIVE\nTRIGGER:-PT5M", "PROXIMITY"),
        (
            "ACTION:NONE\nTRIGGER;VALUE=DATE-TIME:19760401T005545Z",
            "ACTION:NONE",
        ),
        (
            "ACTION:EMAIL\nTRIGGER;VALUE=DATE-TIME:19760401T005545Z",
            "no time at all",
        ),
    ] {
        let alarm = format!("BEGIN:VALARM\n{lines}\nEND:VALARM");
        let event = event(&vevent(&["DTSTART:20261201T090000Z", &alarm]));
        assert_eq!(times(&event, BERLIN, "1970-01-01T00:00", 9), [""; 0]);
        assert!(reasons(&event)[0].contains(expected), "{:?}", reasons(&event));
    }
}

#[test]
fn rule_20_only_the_own_decline_silences() {
    for (attendee, is_silent) in [
        ("ATTENDEE;PARTSTAT=DECLINED:MAILTO:Me@Example.ORG", true),
        ("ATTENDEE;PARTSTAT=declined:mailto:alias@example.org", true),
        ("ATTENDEE;PARTSTAT=DECLINED;EMAIL=me@example.org:urn:uuid:1", true),
        ("ATTENDEE:mailto:me@example.org", false),
        ("ATTENDEE;PARTSTAT=ACCEPTED:mailto:me@example.org", false),
        ("ATTENDEE;PARTSTAT=DECLINED:mailto:you@example.org", false),
    ] {
        let event = event(&vevent(&[
            "DTSTART:20261201T090000Z",
            attendee,
            &alarm("TRIGGER:PT0S"),
        ]));
        let fires = times(&event, BERLIN, "2026-01-01T00:00", 9).len();
        assert_eq!(fires, usize::from(!is_silent), "{attendee}");
    }
    let declined = vevent(&[
        "RECURRENCE-ID:20261202T080000Z",
        "DTSTART:20261202T080000Z",
        "ATTENDEE;PARTSTAT=DECLINED:mailto:me@example.org",
        &alarm("UID:a\nTRIGGER:PT0S"),
    ]);
    assert_eq!(
        times(&daily_with(&declined), BERLIN, "2026-01-01T00:00", 9).len(),
        3
    );
}

#[test]
fn policy_min_interval_refuses_what_rings_more_than_once_a_minute() {
    for (rule, is_refused) in [
        ("RRULE:FREQ=SECONDLY", true),
        ("RRULE:FREQ=MINUTELY;BYSECOND=0,30", true),
        ("RRULE:FREQ=MINUTELY", false),
        ("RRULE:FREQ=HOURLY;BYMINUTE=10,12", false),
    ] {
        let event = event(&vevent(&[
            "DTSTART:20261201T090000Z",
            rule,
            &alarm("TRIGGER:PT0S"),
        ]));
        assert_eq!(reasons(&event).len(), usize::from(is_refused), "{rule}");
    }
    let dates = event(&vevent(&[
        "DTSTART:20261201T090000Z",
        "RDATE:20261201T090001Z,20261201T090100Z",
        &alarm("TRIGGER:PT0S"),
    ]));
    assert_eq!(
        times(&dates, BERLIN, "2026-01-01T00:00", 9),
        ["2026-12-01T09:00", "2026-12-01T09:01"]
    );
}

#[test]
fn an_occurrence_is_shown_as_the_person_sees_it() {
    let event = event(&vevent(&[
        "SUMMARY:Talk",
        "DTSTART;TZID=America/New_York:20261201T090000",
        "DURATION:PT1H",
        "RRULE:FREQ=DAILY;COUNT=3",
        "ORGANIZER;CN=Ann:mailto:ann@example.org",
        "URL:https://example.org/join",
        "ATTENDEE;PARTSTAT=TENTATIVE:mailto:me@example.org",
        "CLASS:PRIVATE",
    ]));
    let seen =
        expand::occurrence(&event, &person(BERLIN), instant("2026-12-02T14:00")).expect("it takes place");
    assert_eq!(
        (seen.summary.as_str(), seen.is_private, seen.is_task),
        ("Talk", true, false)
    );
    assert_eq!(seen.organizer.as_deref(), Some("Ann"));
    assert_eq!(seen.link.as_deref(), Some("https://example.org/join"));
    assert_eq!(seen.my_status.as_deref(), Some("TENTATIVE"));
    assert_eq!(seen.zone.expect("another zone").name(), "America/New_York");
    assert_eq!(seen.when.end(), instant("2026-12-02T15:00"));
    assert!(expand::occurrence(&event, &person(BERLIN), instant("2026-12-02T14:01")).is_none());
    assert!(expand::occurrence(&event, &person(BERLIN), instant("2026-12-04T14:00")).is_none());
}

#[test]
fn an_all_day_occurrence_has_a_first_and_a_last_day() {
    let event = event(&vevent(&[
        "DTSTART;VALUE=DATE:20261201",
        "DTEND;VALUE=DATE:20261203",
    ]));
    let seen =
        expand::occurrence(&event, &person(BERLIN), instant("2026-11-30T23:00")).expect("it takes place");
    let crate::calendar::event::When::AllDay { first, last, .. } = seen.when else {
        panic!("not all day: {:?}", seen.when)
    };
    assert_eq!(
        (first.to_string(), last.to_string()),
        ("2026-12-01".to_owned(), "2026-12-02".to_owned())
    );
}
