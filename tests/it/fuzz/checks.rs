//! What must hold of any text, whoever wrote it. Shared with the fuzz target, so it speaks of `calendar` and `trigger` alone.
//!
//! An input is an iCalendar text; behind a NUL there may be a second one, which the same calendar becomes by an edit.

use std::cell::RefCell;
use std::time::Duration;

use carillon::calendar::event::Event;
use carillon::calendar::ical;
use carillon::calendar::moment::Span;
use carillon::calendar::recurrence::Budget;
use carillon::calendar::recurrence::Rule;
use carillon::calendar::recurrence::Start;
use carillon::calendar::zone::Zone;
use carillon::trigger::AlarmIdentity;
use carillon::trigger::Place;
use carillon::trigger::expand;
use carillon::trigger::expand::Choices;
use carillon::trigger::expand::Firing;
use carillon::trigger::expand::Outlook;
use carillon::trigger::expand::Person;
use carillon::trigger::expand::Refusal;
use carillon::trigger::series::Series;
use chrono::DateTime;
use chrono::NaiveDateTime;
use chrono::TimeDelta;
use chrono::Utc;
use rustix::time::ClockId;
use rustix::time::clock_gettime;

/// The CPU time that one input may take, until all its alarms are planned or it is refused.
const LONGEST: Duration = Duration::from_secs(2);

/// The search steps of one input, as one event has them (`change::edit::MOST_STEPS`).
const STEPS: u32 = 300_000;

/// What is followed further than to the next firing of one input: so many alarms, so many search steps.
const FOLLOWED: (usize, u32) = (12, 30_000);

/// Zones with large offsets, changes of half an hour, gaps at midnight, negative summer time, and a day that is left out.
const ZONES: [&str; 10] = [
    "Europe/Berlin",
    "UTC",
    "America/New_York",
    "Pacific/Apia",
    "Australia/Lord_Howe",
    "Europe/Dublin",
    "Africa/Cairo",
    "Asia/Kolkata",
    "America/Santiago",
    "Pacific/Chatham",
];

/// Checks one input, and tells how much CPU time the reading and planning of it took.
pub fn check(input: &[u8]) -> Duration {
    let texts: Vec<&[u8]> = input.splitn(2, |byte| *byte == 0).collect();
    let persons = persons(input);
    let (calendars, took) = timed(|| {
        let calendars: Vec<Vec<Event>> = texts.iter().map(|text| read(text)).collect();
        for event in calendars.iter().flatten() {
            plan(event, &persons[0]);
        }
        calendars
    });
    let mut left = Left::of_one_input();
    for event in calendars.iter().flatten() {
        for person in &persons {
            follow(std::slice::from_ref(event), person, &mut left);
        }
    }
    if let [before, after] = calendars.as_slice() {
        for event in before {
            let same = after.iter().find(|it| it.uid() == event.uid());
            if let Some(edited) = same {
                let mut left = Left::of_one_input();
                follow(&[event.clone(), edited.clone()], &persons[0], &mut left);
            }
        }
    }
    for text in &texts {
        lines(&String::from_utf8_lossy(text));
    }
    took
}

fn silenced(event: &Event, person: &Person, refusal: &Refusal, after: &Place) -> Option<Place> {
    let outlook = Outlook::new(event, person).ok()?;
    outlook.silenced(refusal, after, &mut Budget::default())
}

/// The CPU time of this thread: that of the clock on the wall says more about the machine.
fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let now = || Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default();
    let begun = now();
    let done = work();
    let took = now().saturating_sub(begun);
    assert!(took < LONGEST, "{took:?} of CPU time");
    (done, took)
}

/// What may still be followed.
struct Left {
    alarms: usize,
    budget: RefCell<Budget>,
}

impl Left {
    fn of_one_input() -> Self {
        let (alarms, steps) = FOLLOWED;
        Self {
            alarms,
            budget: RefCell::new(Budget { steps }),
        }
    }
}

/// Two people in zones that the input chooses; the second makes use of every choice.
fn persons(input: &[u8]) -> [Person; 2] {
    let sum = input
        .iter()
        .fold(7_usize, |sum, byte| sum.wrapping_mul(31) ^ usize::from(*byte));
    [(sum, false), (sum / ZONES.len(), true)].map(|(number, chosen)| Person {
        zone: Zone::iana(ZONES[number % ZONES.len()]).expect("it is in the database"),
        addresses: vec!["me@example.org".to_owned()],
        choices: Choices {
            with_declined: chosen,
            with_delegated: chosen,
            due_is_start: chosen,
        },
    })
}

fn read(text: &[u8]) -> Vec<Event> {
    match ical::parse(text) {
        Ok(calendar) => {
            assert!(calendar.rejected.iter().all(|it| !it.reason.is_empty()));
            calendar.events
        }
        Err(error) => {
            assert!(error.line > 0 && !error.reason.is_empty());
            Vec::new()
        }
    }
}

/// What a change asks: when does each alarm fire next?
fn plan(event: &Event, person: &Person) {
    let mut budget = Budget { steps: STEPS };
    let after = Place::just_before(instant("2026-11-27T12:00:00Z"));
    for alarm in expand::alarms(event, person).0 {
        if let Err(gave_up) = expand::next(event, person, &alarm.identity, &after, &mut budget) {
            assert!(!gave_up.0.is_empty());
            return;
        }
    }
}

/// Follows some alarms over a few firings, from the beginning of time, from the start, from now, and from far ahead.
fn follow(events: &[Event], person: &Person, left: &mut Left) {
    let event = &events[0];
    let start = event.components().iter().find_map(|it| it.base());
    let start = start.map_or(DateTime::UNIX_EPOCH, |start| start.instant(&person.zone));
    let froms = [
        Place::FIRST,
        Place::just_before(start),
        Place::just_before(instant("2026-11-27T12:00:00Z")),
        Place::just_before(instant("2101-01-01T00:00:00Z")),
    ];
    let (alarms, refusals) = expand::alarms(event, person);
    for alarm in alarms.iter().take(4).chain(alarms.iter().skip(4).last()) {
        let Some(alarms) = left.alarms.checked_sub(1) else {
            return;
        };
        left.alarms = alarms;
        let series = Series {
            events,
            person,
            identity: &alarm.identity,
            budget: &left.budget,
        };
        for from in froms {
            walk(&series, from);
        }
    }
    for refusal in refusals.iter().take(2) {
        assert!(!refusal.reason.is_empty());
        timed(|| silenced(event, person, refusal, &froms[2]));
    }
}

fn walk(series: &Series<'_>, from: Place) {
    let mut after = from;
    let mut is_last = false;
    for _ in 0..4 {
        let Ok(next) = timed(|| series.next(&after)).0 else {
            return;
        };
        let Some(firing) = next else { return };
        assert!(!is_last, "{firing:?} follows the last one, {after:?}");
        assert!(firing.place > after, "{firing:?} is not after {after:?}");
        assert!(firing.starts_at <= firing.ends_at, "{firing:?}");
        is_owed(series, &firing);
        after = firing.place;
        is_last = !firing.has_more;
    }
}

/// What was promised is owed, and its occurrence can be told of.
fn is_owed(series: &Series<'_>, firing: &Firing) {
    let budget = RefCell::new(Budget::default());
    let fresh = Series {
        budget: &budget,
        ..*series
    };
    let (owed, _) = timed(|| fresh.owed(&firing.place));
    let owed = owed.unwrap_or_else(|error| panic!("{firing:?} is not found again: {error}"));
    let owed = owed.unwrap_or_else(|| panic!("{firing:?} is not owed"));
    assert_eq!(owed.place, firing.place);
    let teller = series.events.iter().find(|event| owes(event, series, firing));
    let teller = teller.expect("a copy owes it");
    let (shown, _) = timed(|| expand::occurrence(teller, series.person, firing.place.occurrence));
    assert!(shown.is_some(), "{firing:?} cannot be told of");
}

fn owes(event: &Event, series: &Series<'_>, firing: &Firing) -> bool {
    let identity: &AlarmIdentity = series.identity;
    let owed = expand::owed(
        event,
        series.person,
        identity,
        &firing.place,
        &mut Budget::default(),
    );
    owed.is_ok_and(|owed| owed.is_some())
}

/// Reads the values of lines as durations and rules, wherever they stand.
fn lines(text: &str) {
    let mut budget = Budget { steps: FOLLOWED.1 };
    let values = text.lines().filter_map(|line| Some(line.split_once(':')?.1));
    let mut rules = 0;
    for value in values.take(200) {
        if let Ok((span, _)) = Span::parse(value) {
            let most = span.times(100).seconds_nominal().abs();
            assert!(most <= 100 * 3_700 * 86_400, "{value}");
        }
        if value.contains("FREQ") && rules < 3 {
            rules += 1;
            rule(value, &mut budget);
        }
    }
}

/// Asks a rule from several times: the answer is not before the question, and the same from every time between them.
fn rule(text: &str, budget: &mut Budget) {
    let zone = Zone::iana("Europe/Berlin").expect("it is in the database");
    for (start, is_date) in [("2024-02-29T02:30:00", false), ("1601-01-01T00:00:00", true)] {
        let start = Start {
            local: local(start),
            is_date,
            zone: zone.clone(),
        };
        let Ok((rule, _)) = timed(|| Rule::parse(text, &start)).0 else {
            continue;
        };
        for from in [
            "0001-01-01T00:00:00",
            "2026-03-29T02:30:00",
            "9996-01-01T00:00:00",
        ] {
            ask(&rule, local(from), start.local, budget);
        }
    }
}

fn ask(rule: &Rule, from: NaiveDateTime, start: NaiveDateTime, budget: &mut Budget) {
    let mut first = |from| timed(|| rule.first_from(from, budget)).0;
    let Ok(Some(found)) = first(from) else { return };
    assert!(found >= from.max(start), "{found} is before {from} or {start}");
    if let Ok(again) = first(found) {
        assert_eq!(again, Some(found));
    }
    let between = from.max(start) + (found - from.max(start)) / 2;
    if let Ok(again) = first(between) {
        assert_eq!(again, Some(found), "from {between}");
    }
    if let Ok(Some(next)) = first(found + TimeDelta::seconds(1)) {
        assert!(next > found);
    }
}

fn instant(text: &str) -> DateTime<Utc> {
    text.parse().expect("an instant")
}

fn local(text: &str) -> NaiveDateTime {
    text.parse().expect("a local time")
}
