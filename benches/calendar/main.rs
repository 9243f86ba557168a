//! The bench command: `cargo bench --bench calendar`. Prints the tables of `ARCHITECTURE.md`.
//!
//! Two questions. How many events a second are read, and their next alarm found, by us and by others in the same run, by turns,
//! so that what else the machine does hits all alike? And what does the next alarm of *any* event cost, however old or
//! hostile it is? All times are CPU time of the thread or process, and of what costs, the least of several goes counts.

mod hostile;
mod others;
mod texts;

use std::hint::black_box;
use std::time::Duration;

use carillon::calendar::event::Event;
use carillon::calendar::ical;
use carillon::calendar::recurrence::Budget;
use carillon::calendar::zone::Zone;
use carillon::trigger::Place;
use carillon::trigger::expand;
use carillon::trigger::expand::Choices;
use carillon::trigger::expand::GaveUp;
use carillon::trigger::expand::Person;
use chrono::DateTime;
use chrono::Utc;
use rustix::time::ClockId;
use rustix::time::clock_gettime;

use crate::others::Python;
use crate::texts::NOW;

/// Goes by turns, of which the median counts.
const ROUNDS: usize = 5;

/// The search steps that a change allows an event (`change::edit`).
const MOST_STEPS: u32 = 300_000;

/// The CPU time of one go, in seconds.
const GO: f64 = 0.4;

const RULES: &str = include_str!("../../tests/it/cases/rrules.jsonl");
const TRIGGERS: &str = include_str!("../../tests/it/cases/triggers.jsonl");

fn main() {
    // Test runners start every target; only `cargo bench` says `--bench`.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    throughput();
    costs();
}

fn cpu_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

fn now() -> DateTime<Utc> {
    NOW.parse().expect("an instant")
}

fn person() -> Person {
    Person {
        zone: Zone::iana("Europe/Berlin").expect("it is in the database"),
        addresses: vec!["me@example.org".to_owned()],
        choices: Choices::default(),
    }
}

/// The next alarm of a text, as a change finds it.
fn carillon(text: &str, person: &Person) -> Option<DateTime<Utc>> {
    let calendar = ical::parse(text.as_bytes()).ok()?;
    let event = calendar.events.first()?;
    let after = Place::just_before(now());
    let mut budget = Budget { steps: MOST_STEPS };
    let alarms = expand::alarms(event, person).0.into_iter();
    let next = alarms.filter_map(|alarm| {
        let found = expand::next(event, person, &alarm.identity, &after, &mut budget);
        Some(found.ok()??.place.trigger_at)
    });
    next.min()
}

/// Readings a second of CPU time.
fn rate(read: impl Fn() -> Option<DateTime<Utc>>) -> f64 {
    let begun = cpu_time();
    let mut count = 0.0;
    loop {
        for _ in 0..10 {
            black_box(read());
        }
        count += 10.0;
        let took = (cpu_time() - begun).as_secs_f64();
        if took > GO {
            return count / took;
        }
    }
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().unwrap_or(f64::NAN)
}

fn throughput() {
    let person = person();
    let mut python = Python::start().inspect_err(|why| println!("no Python reference: {why}\n"));
    println!(
        "| read and next alarm found, events/s | Carillon | calcard | calcard + rrule | Python | ratio to Python | to the best crate |"
    );
    println!("|---|---|---|---|---|---|---|");
    for (name, text) in texts::usual() {
        let expected = carillon(&text, &person);
        for other in [
            others::calcard_alone(&text, now()),
            others::calcard_and_rrule(&text, now()),
        ] {
            assert_eq!(other, expected, "{name}");
        }
        let mut rates: [Vec<f64>; 4] = Default::default();
        for _ in 0..ROUNDS {
            rates[0].push(rate(|| carillon(&text, &person)));
            rates[1].push(rate(|| others::calcard_alone(&text, now())));
            rates[2].push(rate(|| others::calcard_and_rrule(&text, now())));
            if let Ok(python) = &mut python {
                let (rate, found) = python
                    .measure(&text, NOW, GO)
                    .expect("the Python reference answers");
                assert_eq!(Some(found), expected, "{name}");
                rates[3].push(rate);
            }
        }
        let [own, alone, with_rrule, python] = rates.map(median);
        println!(
            "| {name} | {own:.0} | {alone:.0} | {with_rrule:.0} | {python:.0} | {:.0} | {:.2} |",
            own / python,
            own / alone.max(with_rrule)
        );
    }
}

/// What it took.
#[derive(Default)]
struct Costs {
    next: Vec<(Duration, String)>,
    /// Reading, and the next firing of all alarms, as a change asks.
    whole: Vec<(Duration, String)>,
    given_up: usize,
}

fn costs() {
    let rules = RULES.lines().map(|line| {
        let case: serde_json::Value = serde_json::from_str(line).expect("each line is JSON");
        let text = |name: &str| case[name].as_str().expect("a text").to_owned();
        let lines = format!(
            "DTSTART:{}\nRRULE:{}\n{}",
            text("dtstart"),
            text("rrule"),
            texts::alarm("-PT15M")
        );
        (text("rrule"), texts::calendar(&texts::event(&lines)))
    });
    let triggers = TRIGGERS.lines().map(|line| {
        let case: serde_json::Value = serde_json::from_str(line).expect("each line is JSON");
        let text = |name: &str| case[name].as_str().expect("a text").to_owned();
        (text("name"), text("ics"))
    });
    println!(
        "\n| next alarm, CPU time | events | alarms | median | p99 | worst | read and all alarms, worst | given up | the worst |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    print_costs("`rrules.jsonl`", &rules.collect::<Vec<_>>());
    print_costs("`triggers.jsonl`", &triggers.collect::<Vec<_>>());
    for years in [0, 10, 50, 400] {
        print_costs(
            &format!("usual rules, begun {years} years ago"),
            &hostile::aged(years),
        );
    }
    print_costs("hostile", &hostile::all());
}

fn print_costs(name: &str, texts: &[(String, String)]) {
    let person = person();
    let mut costs = Costs::default();
    for (name, text) in texts {
        measure(name, text, &person, &mut costs);
    }
    costs.next.sort();
    costs.whole.sort();
    let at = |share: f64| {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "an index"
        )]
        let index = ((costs.next.len() - 1) as f64 * share).round() as usize;
        &costs.next[index]
    };
    let whole = costs.whole.last().map_or(Duration::ZERO, |(took, _)| *took);
    println!(
        "| {name} | {} | {} | {:.1?} | {:.1?} | {:.1?} | {whole:.1?} | {} | {} |",
        texts.len(),
        costs.next.len(),
        at(0.5).0,
        at(0.99).0,
        at(1.0).0,
        costs.given_up,
        at(1.0).1,
    );
}

fn measure(name: &str, text: &str, person: &Person, costs: &mut Costs) {
    let calendar = ical::parse(text.as_bytes()).expect("a calendar");
    let whole = least(|| carillon(text, person)).0;
    costs.whole.push((whole, name.to_owned()));
    for event in &calendar.events {
        // An event that has thousands of alarms is as slow at each.
        for alarm in expand::alarms(event, person).0.iter().take(60) {
            let ask = || next(event, person, &alarm.identity);
            let (took, found) = least(ask);
            costs.next.push((took, name.to_owned()));
            costs.given_up += usize::from(found.is_err());
        }
    }
}

fn next(event: &Event, person: &Person, identity: &carillon::trigger::AlarmIdentity) -> Result<(), GaveUp> {
    let after = Place::just_before(now());
    expand::next(event, person, identity, &after, &mut Budget::default()).map(|_| ())
}

/// The least CPU time of three goes.
fn least<T>(work: impl Fn() -> T) -> (Duration, T) {
    let go = || {
        let begun = cpu_time();
        let done = black_box(work());
        (cpu_time() - begun, done)
    };
    let (first, done) = go();
    (first.min(go().0).min(go().0), done)
}
