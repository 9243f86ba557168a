//! Rules of the meaning of alarms where two of them meet.

use super::*;

const ALWAYS: &str = "2026-01-01T00:00";

fn future(id: &str, start: &str, more: &str) -> String {
    vevent(&[
        &format!("RECURRENCE-ID;RANGE=THISANDFUTURE;TZID=Europe/Berlin:{id}"),
        &format!("DTSTART;TZID=Europe/Berlin:{start}"),
        more,
    ])
}

#[test]
fn rule_15_a_chain_of_this_and_future_each_counts_from_its_own_point() {
    let at_start = alarm("UID:a\nTRIGGER:PT0S");
    let master = vevent(&[
        "DTSTART;TZID=Europe/Berlin:20261201T090000",
        "RRULE:FREQ=DAILY;COUNT=8",
        &at_start,
    ]);
    let overrides = [
        future("20261203T090000", "20261203T110000", &at_start),
        // A day and an hour later, from here on.
        future("20261205T090000", "20261206T100000", &at_start),
        future("20261207T090000", "20261207T090000", "STATUS:CANCELLED"),
        vevent(&[
            "RECURRENCE-ID;TZID=Europe/Berlin:20261206T090000",
            "DTSTART;TZID=Europe/Berlin:20261206T200000",
            &at_start,
        ]),
        // One that is called off does not call off an override of its own.
        vevent(&[
            "RECURRENCE-ID;TZID=Europe/Berlin:20261208T090000",
            "DTSTART;TZID=Europe/Berlin:20261208T120000",
            &at_start,
        ]),
    ];
    let expected = [
        "2026-12-01T08:00",
        "2026-12-02T08:00",
        "2026-12-03T10:00",
        "2026-12-04T10:00",
        "2026-12-06T09:00",
        "2026-12-06T19:00",
        "2026-12-08T11:00",
    ];
    let event = event(&(master + &overrides.concat()));
    assert_eq!(times(&event, BERLIN, ALWAYS, 20), expected);
}

#[test]
fn rule_15_the_newer_of_two_from_one_point_counts() {
    let at_start = alarm("UID:a\nTRIGGER:PT0S");
    let version = |sequence: &str, start: &str| {
        future(
            "20261202T090000",
            start,
            &format!("SEQUENCE:{sequence}\n{at_start}"),
        )
    };
    let (newer, older) = (version("2", "20261202T110000"), version("1", "20261202T130000"));
    for overrides in [newer.clone() + &older, older + &newer] {
        let event = daily_with(&overrides);
        assert_eq!(times(&event, BERLIN, "2026-12-01T12:00", 1), ["2026-12-02T10:00"]);
    }
}

#[test]
fn rule_12_periods_keep_their_ends_until_something_overrides_them() {
    let at_end = alarm("TRIGGER;RELATED=END:PT0S");
    let event = event(
        &(vevent(&[
            "DTSTART:20261201T090000Z",
            "DURATION:PT1H",
            "RDATE;VALUE=PERIOD:20261202T090000Z/PT3H,20261203T090000Z/PT5H",
            "RDATE;VALUE=PERIOD;TZID=Europe/Berlin:20261204T100000/20261204T123000,20261205T100000/PT2H",
            &at_end,
        ]) + &vevent(&[
            "RECURRENCE-ID:20261203T090000Z",
            "DTSTART:20261203T100000Z",
            "DURATION:PT1H",
            &at_end,
        ]) + &vevent(&[
            "RECURRENCE-ID;RANGE=THISANDFUTURE:20261205T090000Z",
            "DTSTART:20261205T110000Z",
            "DURATION:PT30M",
            &at_end,
        ])),
    );
    let expected = [
        "2026-12-01T10:00",
        "2026-12-02T12:00",
        "2026-12-03T11:00",
        "2026-12-04T11:30",
        "2026-12-05T11:30",
    ];
    assert_eq!(times(&event, BERLIN, ALWAYS, 20), expected);
}

#[test]
fn rule_13_an_excluded_instance_that_is_overridden_takes_place() {
    let event = event(
        &(vevent(&[
            "DTSTART:20261201T090000Z",
            "RRULE:FREQ=DAILY;COUNT=3",
            "EXDATE:20261201T090000Z,20261202T090000Z",
            &alarm("TRIGGER:PT0S"),
        ]) + &vevent(&[
            "RECURRENCE-ID:20261202T090000Z",
            "DTSTART:20261202T110000Z",
            &alarm("TRIGGER:PT0S"),
        ])),
    );
    let expected = ["2026-12-02T11:00", "2026-12-03T09:00"];
    assert_eq!(times(&event, BERLIN, ALWAYS, 9), expected);
}

#[test]
fn rule_13_a_date_excludes_the_day_of_the_events_own_zone() {
    let event = event(&vevent(&[
        "DTSTART;TZID=America/Los_Angeles:20261201T200000",
        "RRULE:FREQ=DAILY;COUNT=3",
        "EXDATE;VALUE=DATE:20261202",
        &alarm("TRIGGER:PT0S"),
    ]));
    let expected = ["2026-12-02T04:00", "2026-12-04T04:00"];
    assert_eq!(times(&event, "Asia/Tokyo", ALWAYS, 9), expected);
}

#[test]
fn rule_14_of_two_masters_the_newer_counts() {
    let version = |sequence: &str, start: &str| {
        vevent(&[
            sequence,
            start,
            "DTSTAMP:20261101T000000Z",
            &alarm("TRIGGER:PT0S"),
        ])
    };
    let (older, newer) = (
        version("SEQUENCE:1", "DTSTART:20261201T090000Z"),
        version("SEQUENCE:2", "DTSTART:20261201T110000Z"),
    );
    for components in [older.clone() + &newer, newer + &older] {
        let event = event(&components);
        assert_eq!(times(&event, BERLIN, ALWAYS, 9), ["2026-12-01T11:00"]);
    }
}

#[test]
fn rule_16_a_living_rest_of_a_cancelled_series_takes_place() {
    let event = event(
        &(vevent(&[
            "DTSTART;TZID=Europe/Berlin:20261201T090000",
            "RRULE:FREQ=DAILY;COUNT=4",
            "STATUS:CANCELLED",
            &alarm("TRIGGER:PT0S"),
        ]) + &future("20261203T090000", "20261203T100000", &alarm("TRIGGER:PT0S"))),
    );
    let expected = ["2026-12-03T09:00", "2026-12-04T09:00"];
    assert_eq!(times(&event, BERLIN, ALWAYS, 9), expected);
}

#[test]
fn rule_16_one_instance_of_a_task_is_completed() {
    let event = event(
        &(vtodo(&[
            "DTSTART:20261201T090000Z",
            "DUE:20261201T100000Z",
            "RRULE:FREQ=DAILY;COUNT=3",
            &alarm("TRIGGER;RELATED=END:PT0S"),
        ]) + &vtodo(&[
            "RECURRENCE-ID:20261202T090000Z",
            "DTSTART:20261202T090000Z",
            "DUE:20261202T100000Z",
            "COMPLETED:20261202T093000Z",
            &alarm("TRIGGER;RELATED=END:PT0S"),
        ])),
    );
    let expected = ["2026-12-01T10:00", "2026-12-03T10:00"];
    assert_eq!(times(&event, BERLIN, ALWAYS, 9), expected);
    assert_eq!(reasons(&event), ["the task is completed"]);
}

#[test]
fn rule_17_an_acknowledgement_is_of_its_alarm_alone() {
    let event = event(&vevent(&[
        "DTSTART:20261201T090000Z",
        &alarm("UID:a\nTRIGGER:-PT15M\nACKNOWLEDGED:20261201T085000Z"),
        &alarm("UID:b\nTRIGGER:-PT20M"),
    ]));
    assert_eq!(times(&event, BERLIN, ALWAYS, 9), ["2026-12-01T08:40"]);
}

#[test]
fn rule_18_a_snooze_of_what_is_gone_is_done_when_it_is_acknowledged_itself() {
    let snooze = |acknowledged: &str| {
        let lines = format!(
            "UID:s\nRELATED-TO;RELTYPE=SNOOZE:gone\nTRIGGER;VALUE=DATE-TIME:20261201T091500Z\n{acknowledged}X:1"
        );
        event(&vevent(&["DTSTART:20261201T090000Z", &alarm(&lines)]))
    };
    assert_eq!(times(&snooze(""), BERLIN, ALWAYS, 9), ["2026-12-01T09:15"]);
    let done = snooze("ACKNOWLEDGED:20261201T091600Z\n");
    assert_eq!(times(&done, BERLIN, ALWAYS, 9), [""; 0]);
}

#[test]
fn rule_01_a_floating_series_is_on_the_persons_clock_wherever_they_are() {
    let event = event(&vevent(&[
        "DTSTART:20261024T090000",
        "RRULE:FREQ=DAILY;COUNT=3",
        "EXDATE:20261025T090000",
        &alarm("TRIGGER:-P1D"),
    ]));
    let in_berlin = ["2026-10-23T07:00", "2026-10-25T08:00"];
    assert_eq!(times(&event, BERLIN, ALWAYS, 9), in_berlin);
    let in_tokyo = ["2026-10-23T00:00", "2026-10-25T00:00"];
    assert_eq!(times(&event, "Asia/Tokyo", ALWAYS, 9), in_tokyo);
}

#[test]
fn choice_a_second_60_is_59() {
    let event = event(&vevent(&[
        "DTSTART:20261201T090059Z",
        "RRULE:FREQ=DAILY;BYSECOND=60;COUNT=2",
        &alarm("TRIGGER:PT0S"),
    ]));
    let fired = fired(&event, &person(BERLIN), ALWAYS, 9);
    let seconds: Vec<String> = fired
        .iter()
        .map(|firing| firing.place.trigger_at.to_string())
        .collect();
    assert_eq!(seconds, ["2026-12-01 09:00:59 UTC", "2026-12-02 09:00:59 UTC"]);
}

#[test]
fn rule_2_a_series_that_lies_in_gaps_alone_rings_each_year_at_once() {
    for (zone, start, rule, expected) in [
        (
            "America/New_York",
            "20250309T020000",
            "FREQ=YEARLY;BYMONTH=3;BYDAY=2SU",
            ["2027-03-14T07:00", "2028-03-12T07:00"],
        ),
        (
            BERLIN,
            "20250330T023000",
            "FREQ=YEARLY;BYMONTH=3;BYDAY=-1SU",
            ["2027-03-28T01:30", "2028-03-26T01:30"],
        ),
    ] {
        let event = event(&vevent(&[
            &format!("DTSTART;TZID={zone}:{start}"),
            &format!("RRULE:{rule}"),
            &alarm("TRIGGER:PT0S"),
        ]));
        assert_eq!(times(&event, zone, "2027-01-01T00:00", 2), expected);
        let identity = &expand::alarms(&event, &person(zone)).0[0].identity;
        let mut budget = Budget { steps: 5_000 };
        let after = Place::just_before(instant("2027-01-01T00:00"));
        let next = expand::next(&event, &person(zone), identity, &after, &mut budget);
        assert!(next.is_ok(), "{next:?}");
    }
}

#[test]
fn rules_13_and_14_name_whole_days_by_their_midnights_too() {
    let days = |lines: &[&str], overrides: &str| {
        let own = alarm("TRIGGER:PT9H");
        let lines: Vec<&str> = ["DTSTART;VALUE=DATE:20260328", "RRULE:FREQ=DAILY;COUNT=4"]
            .into_iter()
            .chain(lines.iter().copied())
            .chain([own.as_str()])
            .collect();
        let event = event(&(vevent(&lines) + overrides));
        let times = times(&event, BERLIN, "2026-01-01T00:00", 9);
        times
            .iter()
            .map(|time| time[8..10].to_owned())
            .collect::<Vec<_>>()
    };
    let without_30 = ["28", "29", "31"];
    for exdate in [
        "EXDATE:20260329T220000Z",
        "EXDATE;TZID=Europe/Berlin:20260330T000000",
        "EXDATE:20260330T000000Z",
        "EXDATE:20260330",
        "EXDATE;VALUE=DATE:20260330",
    ] {
        assert_eq!(days(&[exdate], ""), without_30, "{exdate}");
    }
    for id in [
        "RECURRENCE-ID:20260329T220000Z",
        "RECURRENCE-ID;VALUE=DATE:20260330",
    ] {
        let gone = vevent(&[id, "DTSTART;VALUE=DATE:20260330", "STATUS:CANCELLED"]);
        assert_eq!(days(&[], &gone), without_30, "{id}");
    }
}

#[test]
fn rule_7_an_absolute_alarm_is_told_of_where_all_instances_are_called_off() {
    let master = vevent(&[
        "DTSTART:20261205T090000Z",
        "RRULE:FREQ=DAILY",
        "SUMMARY:s",
        &alarm("TRIGGER;VALUE=DATE-TIME:20261201T080000Z"),
    ]);
    let off = vevent(&[
        "RECURRENCE-ID;RANGE=THISANDFUTURE:20261203T090000Z",
        "DTSTART:20261203T090000Z",
        "STATUS:CANCELLED",
    ]);
    let event = event(&(master + &off));
    let person = person("UTC");
    for firing in fired(&event, &person, "2026-01-01T00:00", 5) {
        let shown = expand::occurrence(&event, &person, firing.place.occurrence);
        assert_eq!(shown.map(|it| it.summary), Some("s".to_owned()), "{firing:?}");
    }
    assert_eq!(times(&event, "UTC", "2026-01-01T00:00", 5), ["2026-12-01T08:00"]);
}

/// Found by fuzzing: the clock is put back and, hours later, forward again, so that a day later it shows what it always did.
#[test]
fn a_time_that_is_skipped_is_owed_though_the_clock_was_put_back_before() {
    let zone = "BEGIN:VTIMEZONE\nTZID:Two\nBEGIN:STANDARD\nDTSTART:20261025T000000\nTZOFFSETFROM:+0430\n\
                TZOFFSETTO:+0200\nEND:STANDARD\nBEGIN:DAYLIGHT\nDTSTART:20261025T083000\nTZOFFSETFROM:+0200\n\
                TZOFFSETTO:+0430\nEND:DAYLIGHT\nEND:VTIMEZONE\n";
    let text = vevent(&[
        "DTSTART;TZID=Two:20261023T090000",
        "RRULE:FREQ=DAILY;COUNT=4",
        &alarm("TRIGGER:-PT30M"),
    ]);
    let event = event(&(zone.to_owned() + &text));
    let person = person(BERLIN);
    let expected = [
        "2026-10-23T04:00",
        "2026-10-24T04:00",
        "2026-10-25T06:30",
        "2026-10-26T04:00",
    ];
    assert_eq!(times(&event, BERLIN, "2026-01-01T00:00", 9), expected);
    let identity = expand::alarms(&event, &person).0.remove(0).identity;
    for firing in fired(&event, &person, "2026-01-01T00:00", 9) {
        let mut budget = crate::calendar::recurrence::Budget::default();
        let owed = expand::owed(&event, &person, &identity, &firing.place, &mut budget);
        assert_eq!(owed.map(|it| it.map(|it| it.place)), Ok(Some(firing.place)));
    }
}
