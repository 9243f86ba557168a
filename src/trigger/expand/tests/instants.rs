//! Rules 1 to 4 of the meaning of alarms: what an instant is.

use super::*;

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
