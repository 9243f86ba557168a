//! Events as text in, firings as text out.

mod choices;
mod edges;
mod hostile;
mod instants;
mod lessons;
mod properties;
mod recurrence;
mod state;
mod triggers;

use crate::calendar::recurrence::Budget;
use chrono::DateTime;
use chrono::Utc;

use crate::calendar::event::Event;
use crate::calendar::ical;
use crate::calendar::zone::Zone;
use crate::trigger::Place;
use crate::trigger::expand;
use crate::trigger::expand::Choices;
use crate::trigger::expand::Firing;
use crate::trigger::expand::Person;

const BERLIN: &str = "Europe/Berlin";

fn instant(text: &str) -> DateTime<Utc> {
    let full = if text.len() == "2026-12-01T08:45".len() {
        format!("{text}:00Z")
    } else {
        text.to_owned()
    };
    full.parse().expect("an instant")
}

fn person(zone: &str) -> Person {
    Person {
        zone: Zone::iana(zone).expect("an IANA zone"),
        addresses: vec!["me@example.org".to_owned(), "mailto:Alias@Example.org".to_owned()],
        choices: Choices::default(),
    }
}

/// The first event of these components.
fn event(components: &str) -> Event {
    let text = format!("BEGIN:VCALENDAR\n{components}END:VCALENDAR\n");
    let mut calendar = ical::parse(text.as_bytes()).expect("a calendar");
    assert_eq!(calendar.rejected, [], "{text}");
    calendar.events.remove(0)
}

/// A VEVENT of UID u with these properties and alarms, each `;`-free line by line.
fn vevent(lines: &[&str]) -> String {
    format!("BEGIN:VEVENT\nUID:u\n{}\nEND:VEVENT\n", lines.join("\n"))
}

/// A VTODO likewise.
fn vtodo(lines: &[&str]) -> String {
    format!("BEGIN:VTODO\nUID:u\n{}\nEND:VTODO\n", lines.join("\n"))
}

/// A VALARM with this trigger line and more.
fn alarm(trigger: &str) -> String {
    format!("BEGIN:VALARM\nACTION:EMAIL\nSUMMARY:s\nDESCRIPTION:d\n{trigger}\nEND:VALARM")
}

/// The first `limit` firings of all alarms after an instant, merged.
fn fired(event: &Event, person: &Person, after: &str, limit: usize) -> Vec<Firing> {
    let mut all = Vec::new();
    for alarm in expand::alarms(event, person).0 {
        let mut place = Place::just_before(instant(after));
        for _ in 0..limit {
            let next = expand::next(event, person, &alarm.identity, &place, &mut Budget::default())
                .expect("within the budget");
            let Some(firing) = next else { break };
            assert!(place < firing.place, "{place:?} {firing:?}");
            place = firing.place;
            all.push(firing);
        }
    }
    all.sort_by_key(|firing| firing.place);
    all.truncate(limit);
    all
}

/// Their instants, to the minute.
fn times(event: &Event, zone: &str, after: &str, limit: usize) -> Vec<String> {
    fired(event, &person(zone), after, limit)
        .iter()
        .map(|firing| firing.place.trigger_at.format("%Y-%m-%dT%H:%M").to_string())
        .collect()
}

/// Why alarms do not fire.
fn reasons(event: &Event) -> Vec<String> {
    let (_, refusals) = expand::alarms(event, &person("Europe/Berlin"));
    refusals.into_iter().map(|refusal| refusal.reason).collect()
}

/// Four days in December at 09:00 in Berlin with an alarm `a`, and these overrides.
fn daily_with(overrides: &str) -> Event {
    let master = vevent(&[
        "DTSTART;TZID=Europe/Berlin:20261201T090000",
        "DURATION:PT1H",
        "RRULE:FREQ=DAILY;COUNT=4",
        &alarm("UID:a\nTRIGGER:-PT15M"),
    ]);
    event(&(overrides.to_owned() + &master))
}
