//! Rules 12 to 15 of the meaning of alarms: which instances there are.

use super::*;

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
fn rule_14_an_override_without_its_master_counts() {
    let event = event(&vevent(&[
        "RECURRENCE-ID:20261202T080000Z",
        "DTSTART:20261202T120000Z",
        &alarm("TRIGGER:PT0S"),
    ]));
    let fired = fired(&event, &person(BERLIN), "2026-01-01T00:00", 9);
    assert_eq!(fired.len(), 1);
    assert_eq!(fired[0].place.occurrence, instant("2026-12-02T08:00"));
    assert!(expand::occurrence(&event, &person(BERLIN), fired[0].place.occurrence).is_some());
}

#[test]
fn rule_15_this_and_future_without_its_master_is_told_of() {
    let event = event(&vevent(&[
        "RECURRENCE-ID;RANGE=THISANDFUTURE:20261202T080000Z",
        "DTSTART:20261202T120000Z",
        &alarm("TRIGGER:PT0S"),
    ]));
    let fired = fired(&event, &person(BERLIN), "2026-01-01T00:00", 9);
    assert_eq!(fired.len(), 1);
    let shown = expand::occurrence(&event, &person(BERLIN), fired[0].place.occurrence).expect("it is owed");
    assert_eq!(shown.when.start(), instant("2026-12-02T12:00"));
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

/// From 27 March on the meeting is at ten in New York, also when Berlin has put its clock forward.
#[test]
fn rule_15_this_and_future_may_move_a_series_to_another_zone() {
    let series = |start: &str| {
        let text = vevent(&[
            "DTSTART;TZID=Europe/Berlin:20260325T100000",
            "RRULE:FREQ=DAILY;COUNT=6",
        ]) + &vevent(&[
            "RECURRENCE-ID;RANGE=THISANDFUTURE;TZID=Europe/Berlin:20260327T100000",
            start,
            &alarm("TRIGGER:PT0S"),
        ]);
        times(&event(&text), BERLIN, "2026-03-26T20:00", 9)
    };
    assert_eq!(
        series("DTSTART;TZID=America/New_York:20260327T100000"),
        [
            "2026-03-27T14:00",
            "2026-03-28T14:00",
            "2026-03-29T14:00",
            "2026-03-30T14:00"
        ]
    );
    // UTC names an instant and no clock: an hour later than it was, and it stays that on the wall clock of Berlin.
    assert_eq!(
        series("DTSTART:20260327T100000Z"),
        [
            "2026-03-27T10:00",
            "2026-03-28T10:00",
            "2026-03-29T09:00",
            "2026-03-30T09:00"
        ]
    );
}

/// An RDATE in UTC, or on a third zone's clock, is moved by as much as the others.
#[test]
fn rule_15_this_and_future_moves_an_rdate_of_any_zone() {
    for rdate in [
        "RDATE:20261208T080000Z",
        "RDATE;TZID=Asia/Tokyo:20261208T170000",
        "RDATE;TZID=Europe/Berlin:20261208T090000",
    ] {
        let text = vevent(&[
            "DTSTART;TZID=Europe/Berlin:20261201T090000",
            "RRULE:FREQ=DAILY;COUNT=3",
            rdate,
        ]) + &vevent(&[
            "RECURRENCE-ID;RANGE=THISANDFUTURE:20261202T080000Z",
            "DTSTART;TZID=Europe/Berlin:20261202T093000",
            &alarm("TRIGGER:PT0S"),
        ]);
        assert_eq!(
            times(&event(&text), BERLIN, "2026-12-02T00:00", 9),
            ["2026-12-02T08:30", "2026-12-03T08:30", "2026-12-08T08:30"],
            "{rdate}"
        );
    }
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
