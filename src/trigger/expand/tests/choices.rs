//! Where the standards leave a choice: what is chosen by default, and what a policy chooses instead.

use super::*;

fn chosen(event: &Event, choices: Choices) -> Vec<String> {
    let person = Person {
        choices,
        ..person(BERLIN)
    };
    let fired = fired(event, &person, "2026-01-01T00:00", 9).into_iter();
    fired
        .map(|firing| firing.place.trigger_at.format("%m-%dT%H:%M").to_string())
        .collect()
}

fn daily_answered(status: &str) -> Event {
    let attendee = format!("ATTENDEE;PARTSTAT={status}:mailto:me@example.org");
    daily_with(&vevent(&[
        "RECURRENCE-ID:20261202T080000Z",
        "DTSTART:20261202T080000Z",
        &attendee,
        &alarm("UID:a\nTRIGGER:PT0S"),
    ]))
}

#[test]
fn rule_20_declined_is_silent_unless_it_is_to_be_delivered() {
    let event = daily_answered("DECLINED");
    let without = chosen(&event, Choices::default());
    assert_eq!(without, ["12-01T07:45", "12-03T07:45", "12-04T07:45"]);
    assert_eq!(reasons(&event), ["the person's own PARTSTAT is DECLINED"]);
    let with_declined = true;
    let with = chosen(
        &event,
        Choices {
            with_declined,
            ..Choices::default()
        },
    );
    assert_eq!(with, ["12-01T07:45", "12-02T08:00", "12-03T07:45", "12-04T07:45"]);
}

#[test]
fn rule_20_delegated_is_silent_unless_it_is_to_be_delivered() {
    let event = daily_answered("DELEGATED;DELEGATED-TO=\"mailto:you@example.org\"");
    assert_eq!(chosen(&event, Choices::default()).len(), 3);
    assert_eq!(reasons(&event), ["the person's own PARTSTAT is DELEGATED"]);
    let with_delegated = true;
    let with = Choices {
        with_delegated,
        ..Choices::default()
    };
    assert_eq!(chosen(&event, with).len(), 4);
    let with_declined = true;
    let with_another = Choices {
        with_declined,
        ..Choices::default()
    };
    assert_eq!(chosen(&event, with_another).len(), 3);
}

#[test]
fn rule_20_who_declined_by_one_address_and_comes_by_another_is_reminded() {
    let own = [
        "ATTENDEE;PARTSTAT=DECLINED:mailto:me@example.org",
        "ATTENDEE;PARTSTAT=ACCEPTED:mailto:alias@example.org",
    ];
    for (first, second) in [(own[0], own[1]), (own[1], own[0])] {
        let event = event(&vevent(&[
            "DTSTART:20261201T090000Z",
            first,
            second,
            &alarm("TRIGGER:PT0S"),
        ]));
        assert_eq!(times(&event, BERLIN, "2026-01-01T00:00", 9), ["2026-12-01T09:00"]);
    }
}

#[test]
fn rule_06_a_task_with_due_alone_starts_when_it_is_due_only_where_that_is_chosen() {
    let weekly = event(&vtodo(&[
        "DUE;TZID=Europe/Berlin:20261201T090000",
        "RRULE:FREQ=WEEKLY;COUNT=2",
        &alarm("TRIGGER:-PT1H"),
        &alarm("TRIGGER;RELATED=END:-PT2H"),
    ]));
    assert_eq!(
        chosen(&weekly, Choices::default()),
        ["12-01T06:00", "12-08T06:00"]
    );
    assert_eq!(reasons(&weekly).len(), 1);
    let due_is_start = true;
    let choices = Choices {
        due_is_start,
        ..Choices::default()
    };
    assert_eq!(
        chosen(&weekly, choices),
        ["12-01T06:00", "12-01T07:00", "12-08T06:00", "12-08T07:00"]
    );
    let endless = event(&vtodo(&["SUMMARY:x", &alarm("TRIGGER:-PT1H")]));
    assert_eq!(chosen(&endless, choices), [""; 0]);
}

#[test]
fn r04_min_interval_repeats_of_many_instances_do_not_add_up() {
    for (rule, repeat, is_refused) in [
        ("FREQ=MINUTELY", "REPEAT:1\nDURATION:PT1M", true),
        ("FREQ=HOURLY;BYMINUTE=0,30", "REPEAT:100\nDURATION:PT1M", true),
        ("FREQ=HOURLY;BYMINUTE=0,30", "REPEAT:2\nDURATION:PT5M", false),
        ("FREQ=HOURLY", "REPEAT:100\nDURATION:PT1M", true),
        ("FREQ=HOURLY", "REPEAT:2\nDURATION:PT40M", false),
        ("FREQ=MINUTELY;BYMINUTE=0", "REPEAT:5\nDURATION:PT1M", false),
        ("FREQ=DAILY;BYHOUR=9,15", "REPEAT:100\nDURATION:PT1M", false),
        ("FREQ=DAILY", "REPEAT:100\nDURATION:PT1M", false),
    ] {
        let event = event(&vevent(&[
            "DTSTART:20261201T090000Z",
            &format!("RRULE:{rule}"),
            &alarm(&format!("TRIGGER:PT0S\n{repeat}")),
        ]));
        assert_eq!(
            reasons(&event).len(),
            usize::from(is_refused),
            "{rule} {repeat} {:?}",
            reasons(&event)
        );
    }
}

#[test]
fn r04_min_interval_several_rules_do_not_add_up() {
    for (second, is_refused) in [("BYSECOND=30", true), ("BYSECOND=0;INTERVAL=2", false)] {
        let event = event(&vevent(&[
            "DTSTART:20261201T090000Z",
            "RRULE:FREQ=MINUTELY",
            &format!("RRULE:FREQ=MINUTELY;{second}"),
            &alarm("TRIGGER:PT0S"),
        ]));
        assert_eq!(reasons(&event).len(), usize::from(is_refused), "{second}");
    }
}
