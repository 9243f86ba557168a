//! Rules 16 to 20 of the meaning of alarms: what is called off, done or put off; and what an occurrence looks like.

use super::*;

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
fn r04_min_interval_refuses_what_rings_more_than_once_a_minute() {
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

#[test]
fn an_absolute_alarm_outlives_its_first_instance() {
    let event = event(
        &(vtodo(&[
            "SUMMARY:Water the plants",
            "DTSTART:20261201T090000Z",
            "RRULE:FREQ=DAILY",
            &alarm("TRIGGER;VALUE=DATE-TIME:20261203T120000Z"),
        ]) + &vtodo(&[
            "RECURRENCE-ID:20261201T090000Z",
            "DTSTART:20261201T090000Z",
            "COMPLETED:20261201T090500Z",
        ])),
    );
    let firing = fired(&event, &person(BERLIN), "2026-01-01T00:00", 9).remove(0);
    let seen = expand::occurrence(&event, &person(BERLIN), firing.place.occurrence).expect("it is shown");
    assert_eq!(seen.summary, "Water the plants");
}
