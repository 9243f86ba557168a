//! What went wrong elsewhere, by the id of its report.

use super::*;

#[test]
fn r01_an_absolute_trigger_in_an_endless_series_fires_once() {
    let event = event(&vtodo(&[
        "DTSTART:20261127T090000Z",
        "RRULE:FREQ=DAILY",
        &alarm("TRIGGER;VALUE=DATE-TIME:20261127T100000Z"),
    ]));
    let fired = fired(&event, &person(BERLIN), "2026-11-27T00:00", 5);
    assert_eq!(fired.len(), 1);
    assert!(!fired[0].has_more);
}

#[test]
fn r02_an_absolute_snooze_in_front_hides_no_alarm() {
    let ends = ["-PT4H", "-PT3H", "-PT2H", "-PT1H", "PT0S"];
    let alarms: Vec<String> = ends
        .iter()
        .map(|end| alarm(&format!("TRIGGER;RELATED=END:{end}")))
        .collect();
    let snooze = alarm("TRIGGER;VALUE=DATE-TIME:20261201T080000Z");
    let event = event(&vtodo(&["DUE:20261201T120000Z", &snooze, &alarms.join("\n")]));
    assert_eq!(times(&event, BERLIN, "2026-01-01T00:00", 9).len(), 6);
}

#[test]
fn r03_an_endless_series_is_followed_one_firing_at_a_time() {
    let event = event(&vevent(&[
        "DTSTART:20261127T090000Z",
        "RRULE:FREQ=DAILY",
        &alarm("UID:a\nTRIGGER:PT0S"),
    ]));
    let identity = crate::trigger::AlarmIdentity("a".to_owned());
    let mut budget = Budget { steps: 200 };
    let after = Place::just_before(instant("2026-12-01T00:00"));
    let next = expand::next(&event, &person(BERLIN), &identity, &after, &mut budget);
    let firing = next.expect("it takes no more steps").expect("it goes on");
    assert_eq!(firing.place.trigger_at, instant("2026-12-01T09:00"));
    assert!(firing.has_more);
}

#[test]
fn r07_r13_the_age_of_a_series_costs_nothing() {
    for rule in [
        "RRULE:FREQ=WEEKLY",
        "RRULE:FREQ=MINUTELY",
        "RRULE:FREQ=MINUTELY;INTERVAL=7;BYHOUR=15,18",
        "RRULE:FREQ=HOURLY;BYMINUTE=10,40",
        "RRULE:FREQ=DAILY",
    ] {
        let event = event(&vevent(&[
            "DTSTART:16010101T000000Z",
            rule,
            &alarm("TRIGGER:-PT15M"),
        ]));
        assert_eq!(times(&event, BERLIN, "2026-11-27T00:00", 50).len(), 50, "{rule}");
    }
}

#[test]
fn r10_r11_rules_that_never_match_have_no_instances() {
    for rule in [
        "RRULE:FREQ=YEARLY;BYMONTH=5;BYMONTHDAY=3;BYSETPOS=3",
        "RRULE:FREQ=YEARLY;BYDAY=4TH;BYMONTHDAY=24;BYMONTH=11;COUNT=1",
        "RRULE:FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30",
    ] {
        let event = event(&vevent(&[
            "DTSTART:20260503T090000Z",
            rule,
            &alarm("TRIGGER:PT0S"),
        ]));
        assert_eq!(
            times(&event, BERLIN, "2026-01-01T00:00", 3),
            ["2026-05-03T09:00"],
            "{rule}"
        );
    }
}

#[test]
fn r16_only_the_coming_dates_of_a_series_follow() {
    let event = event(&vevent(&[
        "DTSTART:20261002T090000Z",
        "RRULE:FREQ=WEEKLY;COUNT=16",
        &alarm("TRIGGER:-PT1H"),
    ]));
    assert_eq!(times(&event, BERLIN, "2026-11-27T00:00", 99).len(), 8);
}

#[test]
fn r17_the_next_after_a_place_is_always_later() {
    for day in ["20261023", "20260327"] {
        for time in ["010000", "013000", "020000", "023000", "030000"] {
            let start = format!("DTSTART;TZID=Europe/Berlin:{day}T{time}");
            for rule in ["RRULE:FREQ=DAILY;COUNT=5", "RRULE:FREQ=HOURLY;COUNT=50"] {
                let event = event(&vevent(&[
                    &start,
                    rule,
                    &alarm("TRIGGER:-P1D\nREPEAT:2\nDURATION:PT30M"),
                ]));
                assert!(
                    times(&event, BERLIN, "2026-01-01T00:00", 150).len() >= 15,
                    "{start} {rule}"
                );
            }
        }
    }
}

#[test]
fn r20_r21_an_override_takes_the_slot_of_the_master() {
    let alarm = alarm("TRIGGER:-PT10M");
    for series in ["RRULE:FREQ=DAILY;COUNT=2", "RDATE:20261202T090000Z"] {
        let event = event(
            &(vtodo(&["DTSTART:20261201T090000Z", series, &alarm])
                + &vtodo(&[
                    "RECURRENCE-ID:20261202T090000Z",
                    "DTSTART:20261202T100000Z",
                    &alarm,
                ])),
        );
        let expected = ["2026-12-01T08:50", "2026-12-02T09:50"];
        assert_eq!(times(&event, BERLIN, "2026-01-01T00:00", 9), expected, "{series}");
    }
}

#[test]
fn r23_a_firing_carries_the_times_of_its_instance() {
    let event = event(&vevent(&[
        "DTSTART:20261120T090000Z",
        "DURATION:PT30M",
        "RRULE:FREQ=DAILY",
        &alarm("TRIGGER:-PT5M"),
    ]));
    let firing = &fired(&event, &person(BERLIN), "2026-11-27T00:00", 1)[0];
    assert_eq!(firing.starts_at, instant("2026-11-27T09:00"));
    assert_eq!(firing.ends_at, instant("2026-11-27T09:30"));
}

#[test]
fn r25_utc_as_a_tzid_is_utc() {
    let event = event(&vevent(&[
        "DTSTART;TZID=UTC:20261201T090000",
        "RRULE:FREQ=WEEKLY",
        &alarm("TRIGGER:-PT15M"),
    ]));
    assert_eq!(
        times(&event, BERLIN, "2026-12-01T00:00", 2),
        ["2026-12-01T08:45", "2026-12-08T08:45"]
    );
}

#[test]
fn r27_recurrence_ids_are_compared_as_instants() {
    let edited =
        |id: &str, sequence: &str, start: &str| vevent(&[id, sequence, start, &alarm("TRIGGER:PT0S")]);
    let event = event(
        &(vevent(&[
            "DTSTART;TZID=Europe/Berlin:20261201T090000",
            "RRULE:FREQ=DAILY;COUNT=2",
        ]) + &edited(
            "RECURRENCE-ID;TZID=Europe/Berlin:20261202T090000",
            "SEQUENCE:1",
            "DTSTART:20261202T110000Z",
        ) + &edited(
            "RECURRENCE-ID:20261202T080000Z",
            "SEQUENCE:2",
            "DTSTART:20261202T120000Z",
        )),
    );
    assert_eq!(times(&event, BERLIN, "2026-01-01T00:00", 9), ["2026-12-02T12:00"]);
}

#[test]
fn r28_the_chain_survives_exceptions_and_deleted_instances() {
    let event = event(
        &(vevent(&[
            "DTSTART:20261201T090000Z",
            "RRULE:FREQ=DAILY;COUNT=4",
            "EXDATE:20261202T090000Z",
            &alarm("TRIGGER:PT0S"),
        ]) + &vevent(&["RECURRENCE-ID:20261203T090000Z", "DTSTART:20261203T100000Z"])),
    );
    assert_eq!(times(&event, BERLIN, "2026-12-01T10:00", 9), ["2026-12-04T09:00"]);
    assert_eq!(reasons(&event), ["the override of this instance has no alarm"]);
}

#[test]
fn r31_overrides_outside_the_rule_are_kept() {
    let event = event(
        &(vevent(&["DTSTART:20270101T090000Z", "RRULE:FREQ=DAILY;COUNT=1"])
            + &vevent(&[
                "RECURRENCE-ID:20261201T090000Z",
                "DTSTART:20261201T100000Z",
                &alarm("TRIGGER:PT0S"),
            ])),
    );
    assert_eq!(times(&event, BERLIN, "2026-01-01T00:00", 9), ["2026-12-01T10:00"]);
}

#[test]
fn z01_z09_the_wall_clock_of_the_event_counts() {
    let evening = event(&vevent(&[
        "DTSTART;TZID=Europe/Berlin:20260701T210000",
        "RRULE:FREQ=DAILY",
        &alarm("TRIGGER:PT0S"),
    ]));
    assert_eq!(
        times(&evening, "America/New_York", "2026-12-01T00:00", 1),
        ["2026-12-01T20:00"]
    );
    let meeting = event(&vevent(&[
        "DTSTART;TZID=America/New_York:20260301T100000",
        "RRULE:FREQ=DAILY",
        &alarm("TRIGGER:PT0S"),
    ]));
    assert_eq!(
        times(&meeting, BERLIN, "2026-03-07T12:00", 2),
        ["2026-03-07T15:00", "2026-03-08T14:00"]
    );
}

#[test]
fn z03_a_day_before_is_the_same_wall_time() {
    let event = event(&vevent(&[
        "DTSTART;TZID=America/New_York:20260308T140000",
        &alarm("TRIGGER:-P1D"),
    ]));
    assert_eq!(times(&event, BERLIN, "2026-01-01T00:00", 1), ["2026-03-07T19:00"]);
}

#[test]
fn z04_floating_time_is_the_persons() {
    let event = event(&vevent(&["DTSTART:20240125T110000", &alarm("TRIGGER:PT0S")]));
    assert_eq!(times(&event, BERLIN, "2024-01-01T00:00", 1), ["2024-01-25T10:00"]);
}

#[test]
fn z05_windows_names_are_known() {
    let event = event(&vevent(&[
        "DTSTART;TZID=W. Europe Standard Time:20260701T110000",
        &alarm("TRIGGER:PT0S"),
    ]));
    assert_eq!(
        times(&event, "Asia/Tokyo", "2024-01-01T00:00", 1),
        ["2026-07-01T09:00"]
    );
}

#[test]
fn z08_all_day_series_have_no_creator_zone() {
    let event = event(&vevent(&[
        "DTSTART;VALUE=DATE:20260301",
        "RRULE:FREQ=WEEKLY",
        &alarm("TRIGGER:PT0S"),
    ]));
    assert_eq!(
        times(&event, BERLIN, "2026-03-20T00:00", 3),
        ["2026-03-21T23:00", "2026-03-28T23:00", "2026-04-04T22:00"]
    );
}

#[test]
fn z10_a_series_over_a_change_loses_nothing() {
    for zone in [
        "Europe/Berlin",
        "America/New_York",
        "Australia/Sydney",
        "Africa/Cairo",
        "America/Santiago",
        "Asia/Beirut",
    ] {
        for time in ["000000", "003000", "023000"] {
            let start = format!("DTSTART;TZID={zone}:20260101T{time}");
            let event = event(&vevent(&[
                &start,
                "RRULE:FREQ=DAILY;COUNT=365",
                &alarm("TRIGGER:PT0S"),
            ]));
            assert_eq!(
                times(&event, BERLIN, "2025-01-01T00:00", 400).len(),
                365,
                "{start}"
            );
        }
    }
}

#[test]
fn z12_a_time_that_a_change_skips_or_repeats_comes_once() {
    for (start, expected) in [
        // The clock goes from 02:00 to 03:00: the instant of 03:30.
        (
            "DTSTART;TZID=Europe/Berlin:20260328T023000",
            ["2026-03-28T01:30", "2026-03-29T01:30", "2026-03-30T00:30"],
        ),
        // It goes from 03:00 back to 02:00: the first of both.
        (
            "DTSTART;TZID=Europe/Berlin:20261024T023000",
            ["2026-10-24T00:30", "2026-10-25T00:30", "2026-10-26T01:30"],
        ),
    ] {
        let event = event(&vevent(&[
            start,
            "RRULE:FREQ=DAILY;COUNT=3",
            &alarm("TRIGGER:PT0S"),
        ]));
        assert_eq!(times(&event, "Asia/Tokyo", "2026-01-01T00:00", 9), expected);
    }
}

#[test]
fn z14_z15_the_zone_of_whoever_reads_does_not_move_a_zoned_event() {
    let event = event(&vevent(&[
        "DTSTART;TZID=Europe/Warsaw:20261201T100000",
        &alarm("TRIGGER:-PT15M"),
    ]));
    for zone in ["UTC", "Europe/Warsaw", "America/New_York"] {
        assert_eq!(times(&event, zone, "2026-01-01T00:00", 9), ["2026-12-01T08:45"]);
    }
}

#[test]
fn a01_a03_all_day_alarms_count_from_the_persons_midnight() {
    let event = event(&vevent(&[
        "DTSTART;VALUE=DATE:20261018",
        "RRULE:FREQ=DAILY;COUNT=2",
        &alarm("TRIGGER:-PT15H"),
    ]));
    assert_eq!(
        times(&event, BERLIN, "2026-01-01T00:00", 9),
        ["2026-10-17T07:00", "2026-10-18T07:00"]
    );
}

#[test]
fn a05_a_date_as_trigger_is_local_midnight() {
    let event = event(&vevent(&[
        "DTSTART:20200422T090000Z",
        &alarm("TRIGGER;VALUE=DATE:20200421"),
    ]));
    assert_eq!(times(&event, BERLIN, "2020-01-01T00:00", 1), ["2020-04-20T22:00"]);
}

#[test]
fn a09_at_time_of_event_fires() {
    for zero in ["PT0S", "P0D", "-PT0M"] {
        let event = event(&vevent(&[
            "DTSTART:20261201T090000Z",
            &alarm(&format!("TRIGGER:{zero}")),
        ]));
        assert_eq!(
            times(&event, BERLIN, "2026-01-01T00:00", 1),
            ["2026-12-01T09:00"],
            "{zero}"
        );
    }
}

#[test]
fn a15_an_alarm_after_the_start_is_valid() {
    let event = event(&vevent(&["DTSTART;VALUE=DATE:20261201", &alarm("TRIGGER:PT8H")]));
    assert_eq!(times(&event, BERLIN, "2026-12-01T06:00", 1), ["2026-12-01T07:00"]);
}

#[test]
fn m06_an_alias_is_the_person_and_no_partstat_is_no_decline() {
    let event = event(&vevent(&[
        "DTSTART:20261201T090000Z",
        "ATTENDEE;PARTSTAT=DECLINED:mailto:ALIAS@example.org",
        &alarm("TRIGGER:PT0S"),
    ]));
    assert_eq!(times(&event, BERLIN, "2026-01-01T00:00", 1), [""; 0]);
    assert_eq!(reasons(&event), ["the person's own PARTSTAT is DECLINED"]);
}

#[test]
fn tb_a_rule_that_skips_years_goes_on() {
    let event = event(&vevent(&[
        "DTSTART:20250601T090000Z",
        "RRULE:FREQ=YEARLY;INTERVAL=2",
        &alarm("TRIGGER:-P1D"),
    ]));
    assert_eq!(
        times(&event, BERLIN, "2026-01-01T00:00", 2),
        ["2027-05-31T09:00", "2029-05-31T09:00"]
    );
}

#[test]
fn tc_dates_without_a_rule_are_all_seen() {
    let event = event(&vevent(&[
        "DTSTART:20261201T090000Z",
        "RDATE:20261203T090000Z,20261207T090000Z",
        &alarm("TRIGGER:PT0S"),
    ]));
    assert_eq!(times(&event, BERLIN, "2026-01-01T00:00", 9).len(), 3);
}

#[test]
fn tf_the_end_absolute_times_and_repeats_are_what_they_say() {
    let event = event(&vevent(&[
        "DTSTART:20261201T090000Z",
        "DTEND:20261201T110000Z",
        &alarm("TRIGGER;RELATED=END:-PT10M"),
        &alarm("TRIGGER;VALUE=DATE-TIME:20261201T080000Z"),
        &alarm("TRIGGER:-PT5M\nREPEAT:1\nDURATION:PT2M"),
    ]));
    let expected = [
        "2026-12-01T08:00",
        "2026-12-01T08:55",
        "2026-12-01T08:57",
        "2026-12-01T10:50",
    ];
    assert_eq!(times(&event, BERLIN, "2026-01-01T00:00", 9), expected);
}

#[test]
fn th_an_event_without_attendees_has_its_alarms() {
    let event = event(&vevent(&["DTSTART:20261201T090000Z", &alarm("TRIGGER:PT0S")]));
    assert_eq!(times(&event, BERLIN, "2026-01-01T00:00", 9).len(), 1);
}
