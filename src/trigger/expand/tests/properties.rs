//! What holds for every event.

use crate::calendar::recurrence::Budget;
use chrono::TimeDelta;
use proptest::prelude::*;

use super::*;
use crate::trigger::AlarmIdentity;

const STARTS: [&str; 6] = [
    "DTSTART:20260110T090000Z",
    "DTSTART;TZID=Europe/Berlin:20260328T023000",
    "DTSTART;TZID=America/New_York:20261031T013000",
    "DTSTART;TZID=Australia/Lord_Howe:20260403T020000",
    "DTSTART:20260110T090000",
    "DTSTART;VALUE=DATE:20260110",
];

const RULES: [&str; 9] = [
    "X-NONE:1",
    "RRULE:FREQ=DAILY;COUNT=40",
    "RRULE:FREQ=DAILY;INTERVAL=3",
    "RRULE:FREQ=HOURLY;INTERVAL=5;COUNT=60",
    "RRULE:FREQ=HOURLY;UNTIL=20260403T000000Z",
    "RRULE:FREQ=WEEKLY;BYDAY=MO,WE;COUNT=30",
    "RRULE:FREQ=MONTHLY;BYMONTHDAY=-1",
    "RRULE:FREQ=MINUTELY;INTERVAL=45;COUNT=80",
    "RDATE:20260328T013000Z,20260401T090000Z",
];

const TRIGGERS: [&str; 7] = [
    "TRIGGER:PT0S",
    "TRIGGER:-PT15M",
    "TRIGGER:-P1D",
    "TRIGGER:PT50H",
    "TRIGGER:-P30DT3H",
    "TRIGGER;RELATED=END:PT5M",
    "TRIGGER;VALUE=DATE-TIME:20260401T100000Z",
];

const MORE: [&str; 5] = [
    "X-NONE:1",
    "EXDATE:20260112T090000Z",
    "EXDATE;VALUE=DATE:20260329",
    "DURATION:PT3H",
    "DURATION:P2D",
];

const OVERRIDES: [&str; 4] = [
    "",
    "RECURRENCE-ID:20260112T090000Z\nDTSTART:20260112T120000Z",
    "RECURRENCE-ID;RANGE=THISANDFUTURE:20260115T090000Z\nDTSTART:20260115T110000Z",
    "RECURRENCE-ID:20260111T090000Z\nDTSTART:20260501T090000Z\nSTATUS:CANCELLED",
];

prop_compose! {
    fn events()(
        start in prop::sample::select(&STARTS[..]),
        rule in prop::sample::select(&RULES[..]),
        more in prop::sample::select(&MORE[..]),
        trigger in prop::sample::select(&TRIGGERS[..]),
        repeat in 0u16..4,
        pause in prop::sample::select(&["PT1M", "PT40M", "PT5H", "P1D"][..]),
        change in prop::sample::select(&OVERRIDES[..]),
    ) -> Event {
        let alarm = alarm(&format!("UID:a\n{trigger}\nREPEAT:{repeat}\nDURATION:{pause}"));
        let is_too_fine = start.contains("DATE:") && (rule.contains("HOURLY") || rule.contains("MINUTELY"));
        let rule = if is_too_fine { RULES[2] } else { rule };
        let master = vevent(&[start, rule, more, &alarm]);
        let change = if change.is_empty() { String::new() } else { vevent(&[change, &alarm]) };
        event(&(master + &change))
    }
}

fn identity() -> AlarmIdentity {
    AlarmIdentity("a".to_owned())
}

fn walk(event: &Event, person: &Person, limit: usize) -> Vec<Firing> {
    let mut place = Place::just_before(instant("2020-01-01T00:00"));
    let mut walked = Vec::new();
    while walked.len() < limit {
        let next = expand::next(event, person, &identity(), &place, &mut Budget::default())
            .expect("within the budget");
        let Some(firing) = next else { break };
        assert!(place < firing.place, "{place:?} {firing:?}");
        place = firing.place;
        walked.push(firing);
    }
    walked
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_comes_next_is_owed_and_nothing_between(event in events()) {
        let person = person("Europe/Berlin");
        let walked = walk(&event, &person, 25);
        for (index, firing) in walked.iter().enumerate() {
            let owed = expand::owed(&event, &person, &identity(), &firing.place, &mut Budget::default());
            prop_assert_eq!(owed, Ok(Some(firing.clone())));
            let moved = Place { trigger_at: firing.place.trigger_at + TimeDelta::seconds(1), ..firing.place };
            prop_assert_eq!(expand::owed(&event, &person, &identity(), &moved, &mut Budget::default()), Ok(None));
            prop_assert!(firing.starts_at <= firing.ends_at);
            prop_assert!(firing.has_more || index + 1 == walked.len());
        }
    }

    #[test]
    fn a_search_from_anywhere_finds_what_a_walk_from_the_start_finds(event in events(), minutes in 0i64..130_000) {
        let person = person("Europe/Berlin");
        let from = instant("2025-12-01T00:00") + TimeDelta::minutes(minutes);
        let walked = walk(&event, &person, 150);
        let expected = walked.iter().find(|firing| firing.place.trigger_at >= from);
        let found = expand::next(&event, &person, &identity(), &Place::just_before(from), &mut Budget::default()).expect("within the budget");
        prop_assume!(expected.is_some() || walked.len() < 150);
        prop_assert_eq!(found.as_ref(), expected);
    }

    #[test]
    fn leads_and_repeats_are_those_of_every_instance(
        interval in 1i64..30, count in 1i64..20, lead in -5_000i64..5_000, repeat in 0u16..5, pause in 1i64..3_000,
    ) {
        let rule = format!("RRULE:FREQ=HOURLY;INTERVAL={interval};COUNT={count}");
        let sign = if lead < 0 { "-" } else { "" };
        let trigger = format!("UID:a\nTRIGGER:{sign}PT{}M\nREPEAT:{repeat}\nDURATION:PT{pause}M", lead.abs());
        let start = instant("2026-06-01T09:00");
        let event = event(&vevent(&["DTSTART:20260601T090000Z", &rule, &alarm(&trigger)]));
        let mut expected: Vec<Place> = (0..count)
            .flat_map(|instance| (0..=repeat).map(move |repeat| (instance, repeat)))
            .map(|(instance, repeat)| {
                let occurrence = start + TimeDelta::hours(instance * interval);
                let trigger_at = occurrence + TimeDelta::minutes(lead + pause * i64::from(repeat));
                Place { trigger_at, occurrence, repeat }
            })
            .collect();
        expected.sort_unstable();
        let walked = walk(&event, &person("Europe/Berlin"), 999);
        let found: Vec<Place> = walked.iter().map(|firing| firing.place).collect();
        prop_assert_eq!(found, expected);
        prop_assert!(walked.last().is_none_or(|firing| !firing.has_more));
    }
}
