use super::*;
use crate::calendar::ical;
use crate::calendar::recurrence::Budget;
use crate::trigger::AlarmIdentity;
use crate::trigger::expand::Choices;

fn at(text: &str) -> DateTime<Utc> {
    text.parse().unwrap()
}

fn person() -> Person {
    Person {
        zone: Zone::iana("Europe/Berlin").unwrap(),
        addresses: Vec::new(),
        choices: Choices::default(),
    }
}

/// Nine o'clock in Berlin, every day of December 2026, with an alarm a quarter of an hour before.
fn daily(more: &str) -> Event {
    let text = format!(
        "BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nUID:e\r\nDTSTART;TZID=Europe/Berlin:20261201T090000\r\nDURATION:PT1H\r\n\
         RRULE:FREQ=DAILY;COUNT=31\r\n{more}BEGIN:VALARM\r\nUID:quarter\r\nACTION:EMAIL\r\nTRIGGER:-PT15M\r\n\
         END:VALARM\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"
    );
    ical::parse(text.as_bytes()).unwrap().events.remove(0)
}

/// The reminder of 2 December.
fn second() -> Told {
    let start = at("2026-12-02T08:00:00Z");
    Told {
        trigger: TriggerId([7; 16]),
        identity: "quarter".to_owned(),
        place: Place {
            trigger_at: at("2026-12-02T07:45:00Z"),
            occurrence: start,
            repeat: 0,
        },
        starts_at: Some(start),
    }
}

/// The first firing of an alarm once `answers` are read into the event.
fn first(answers: &Answers, event: Event, identity: &str) -> Option<Place> {
    let mut event = event;
    answers.read_into(&mut event, &person());
    let start = Place::just_before(at("2026-12-01T00:00:00Z"));
    let identity = AlarmIdentity(identity.to_owned());
    let found = expand::next(&event, &person(), &identity, &start, &mut Budget::default());
    found.unwrap().map(|firing| firing.place)
}

const NOW: &str = "2026-12-02T07:46:30.250Z";

#[test]
fn what_is_acknowledged_is_done_and_the_series_goes_on() {
    let answers = Answers::default()
        .after(Act::Acknowledge, &second(), at(NOW))
        .unwrap();
    assert_eq!(answers.acknowledged["quarter"], at("2026-12-02T07:46:30Z"));
    let next = first(&answers, daily(""), "quarter").unwrap();
    assert_eq!(next.trigger_at, at("2026-12-03T07:45:00Z"));
    let later = at("2026-12-02T09:00:00Z");
    assert_eq!(
        answers.after(Act::Acknowledge, &second(), later).unwrap(),
        answers
    );
}

#[test]
fn a_snooze_is_an_alarm_of_its_own_about_the_same_occurrence() {
    let snooze = Act::Snooze(Wait::TenMinutes);
    let answers = Answers::default().after(snooze, &second(), at(NOW)).unwrap();
    let one = answers.snooze_of("quarter").unwrap().clone();
    assert_eq!(
        one.trigger_at,
        at("2026-12-02T07:56:31Z"),
        "in whole seconds, and not early"
    );
    let fires = first(&answers, daily(""), &one.uid).unwrap();
    assert_eq!(
        (fires.trigger_at, fires.occurrence),
        (one.trigger_at, at("2026-12-02T08:00:00Z"))
    );
    // The parent was acknowledged with it (RFC 9074 section 7).
    assert_eq!(answers.acknowledged["quarter"], at("2026-12-02T07:46:30Z"));
    let soon = at("2026-12-02T07:50:00Z");
    assert_eq!(answers.after(snooze, &second(), soon).unwrap(), answers);

    // Snoozed again, from its own reminder, it gives way to another one of the same parent.
    let from_snooze = Told {
        trigger: TriggerId([8; 16]),
        identity: one.uid.clone(),
        place: fires,
        ..second()
    };
    let again = answers
        .after(Act::Snooze(Wait::Hour), &from_snooze, at("2026-12-02T07:57:00Z"))
        .unwrap();
    let other = again.snooze_of(&one.uid).unwrap();
    assert_eq!(other.parent, "quarter");
    assert_eq!(other.trigger_at, at("2026-12-02T08:57:00Z"));
    assert_eq!(again.live().count(), 1);
    assert_eq!(first(&again, daily(""), &one.uid), None);

    // To acknowledge the snooze is to acknowledge its parent.
    let done = again
        .after(Act::Acknowledge, &from_snooze, at("2026-12-02T08:58:00Z"))
        .unwrap();
    assert_eq!(done.acknowledged["quarter"], at("2026-12-02T08:58:00Z"));
    assert_eq!(done.live().count(), 0);
}

#[test]
fn who_puts_a_reminder_off_wants_it_though_they_muted_the_event() {
    let muted = Answers::default().after(Act::Mute, &second(), at(NOW)).unwrap();
    let until = Act::Snooze(Wait::TenMinutes);
    assert_eq!(muted.after(until, &second(), at(NOW)).unwrap().muted_at, None);
}

#[test]
fn until_the_start_is_until_the_start_of_the_occurrence() {
    let until = Act::Snooze(Wait::UntilStart);
    let answers = Answers::default().after(until, &second(), at(NOW)).unwrap();
    assert_eq!(answers.snoozes[0].trigger_at, at("2026-12-02T08:00:00Z"));
    let late = Answers::default().after(until, &second(), at("2026-12-02T08:00:00Z"));
    assert_eq!(late, Err(Refusal::Started));
    let gone = Told {
        starts_at: None,
        ..second()
    };
    assert_eq!(
        Answers::default().after(until, &gone, at(NOW)),
        Err(Refusal::Gone)
    );
}

#[test]
fn a_snooze_of_what_does_not_take_place_is_none() {
    let snooze = Act::Snooze(Wait::Hour);
    let answers = Answers::default().after(snooze, &second(), at(NOW)).unwrap();
    let uid = answers.snoozes[0].uid.clone();
    let called_off = daily("EXDATE;TZID=Europe/Berlin:20261202T090000\r\n");
    assert_eq!(first(&answers, called_off, &uid), None);
    assert_eq!(first(&answers, daily("STATUS:CANCELLED\r\n"), &uid), None);
    assert!(first(&answers, daily(""), &uid).is_some());
}

#[test]
fn a_later_acknowledgement_by_a_client_ends_a_snooze_and_an_earlier_one_does_not() {
    let answers = Answers::default()
        .after(Act::Snooze(Wait::Hour), &second(), at(NOW))
        .unwrap();
    let uid = answers.snoozes[0].uid.clone();
    for (acknowledged, lives) in [
        ("2026-12-02T07:45:10Z", true),
        ("2026-12-02T07:46:30Z", true),
        ("2026-12-02T07:50:00Z", false),
    ] {
        let mut event = daily("");
        event.components_mut()[0].alarms[0].acknowledged = Some(at(acknowledged));
        assert_eq!(first(&answers, event, &uid).is_some(), lives, "{acknowledged}");
    }
}

#[test]
fn what_is_kept_is_bounded() {
    let mut answers = Answers::default();
    for number in 0..200_u8 {
        let told = Told {
            trigger: TriggerId([number; 16]),
            identity: format!("alarm {number}"),
            ..second()
        };
        answers = answers
            .after(
                Act::Snooze(Wait::Hour),
                &told,
                at(NOW) + TimeDelta::seconds(number.into()),
            )
            .unwrap();
    }
    assert_eq!((answers.snoozes.len(), answers.acknowledged.len()), (MOST, MOST));
    assert!(answers.acknowledged.contains_key("alarm 199"));
}

#[test]
fn a_late_answer_to_yesterdays_reminder_leaves_what_was_put_off_today() {
    let start = at("2026-12-01T08:00:00Z");
    let yesterday = Told {
        trigger: TriggerId([1; 16]),
        place: Place {
            trigger_at: at("2026-12-01T07:45:00Z"),
            occurrence: start,
            repeat: 0,
        },
        starts_at: Some(start),
        ..second()
    };
    let snoozed = Answers::default()
        .after(Act::Snooze(Wait::Hour), &second(), at(NOW))
        .unwrap();
    for act in [Act::Acknowledge, Act::Snooze(Wait::TenMinutes)] {
        let answers = snoozed
            .after(act, &yesterday, at("2026-12-02T07:50:00Z"))
            .unwrap();
        let uid = &snoozed.snoozes[0].uid;
        assert!(answers.live().any(|snooze| snooze.uid == *uid), "{act:?}");
    }
}
