//! The same questions to others: the parser we use with its own expansion and with the crate `rrule`, and the Python
//! reference in a process of its own.

use std::io::BufRead;
use std::io::BufReader;
use std::io::Write;
use std::path::PathBuf;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;

use calcard::common::timezone::Tz;
use calcard::icalendar::ICalendar;
use calcard::icalendar::ICalendarComponent;
use calcard::icalendar::ICalendarComponentType;
use calcard::icalendar::ICalendarProperty;
use calcard::icalendar::ICalendarValue;
use chrono::DateTime;
use chrono::TimeDelta;
use chrono::Utc;
use rrule::RRuleSet;

/// What the alarms of [`crate::texts::usual`] have in common.
const LEAD: TimeDelta = TimeDelta::minutes(15);

/// The pinned packages of the Python reference.
const PACKAGES: [&str; 2] = ["icalendar==7.3.2", "recurring-ical-events==3.8.2"];

/// `calcard` alone: it expands from DTSTART on, to a number that just suffices.
pub fn calcard_alone(text: &str, after: DateTime<Utc>) -> Option<DateTime<Utc>> {
    let calendar = ICalendar::parse(text).ok()?;
    let expanded = calendar.expand_dates(Tz::UTC, 600).events.into_iter();
    let alarms = expanded.map(|event| event.start.to_utc() - LEAD);
    alarms.filter(|alarm| *alarm >= after).min()
}

/// `calcard` for the text, `rrule` for the rule. What is overridden is left out of the rule and looked at by itself.
pub fn calcard_and_rrule(text: &str, after: DateTime<Utc>) -> Option<DateTime<Utc>> {
    let calendar = ICalendar::parse(text).ok()?;
    let zones = calendar.build_tz_resolver();
    let berlin = zones.resolve("Europe/Berlin")?;
    let events = calendar
        .components
        .iter()
        .filter(|it| it.component_type == ICalendarComponentType::VEvent);
    let mut first: Option<DateTime<Utc>> = None;
    let mut set: Option<RRuleSet> = None;
    let mut removed = Vec::new();
    for event in events {
        let start = time(event, &ICalendarProperty::Dtstart, berlin)?;
        let id = time(event, &ICalendarProperty::RecurrenceId, berlin);
        removed.extend(id.map(|id| id.with_timezone(&rrule::Tz::Europe__Berlin)));
        match event
            .property(&ICalendarProperty::Rrule)
            .and_then(|rule| rule.values.first())
        {
            Some(ICalendarValue::RecurrenceRule(rule)) => {
                let start = start.naive_local().format("%Y%m%dT%H%M%S");
                set = Some(
                    format!("DTSTART;TZID=Europe/Berlin:{start}\nRRULE:{rule}")
                        .parse()
                        .ok()?,
                );
            }
            _ if start.to_utc() - LEAD >= after => {
                first = Some(first.map_or(start.to_utc(), |first| first.min(start.to_utc())));
            }
            _ => {}
        }
    }
    let from = (after + LEAD).with_timezone(&rrule::Tz::UTC);
    let of_rule = set.and_then(|set| {
        set.set_exdates(removed)
            .after(from)
            .all(1)
            .dates
            .into_iter()
            .next()
    });
    let starts = first.into_iter().chain(of_rule.map(|start| start.to_utc()));
    starts.min().map(|start| start - LEAD)
}

fn time(event: &ICalendarComponent, property: &ICalendarProperty, zone: Tz) -> Option<DateTime<Tz>> {
    let value = event.property(property)?.values.first()?;
    value.as_partial_date_time()?.to_date_time_with_tz(zone)
}

/// The Python reference.
pub struct Python {
    child: Child,
    answers: BufReader<std::process::ChildStdout>,
}

impl Python {
    /// Starts it, in a virtual environment under `target/` that is made where it is not there yet; the error says why it
    /// cannot be compared with.
    pub fn start() -> Result<Self, String> {
        let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
        let environment = root.join("target/bench-python");
        let python = environment.join("bin/python");
        if !python.exists() {
            run(Command::new("python3").args(["-m", "venv"]).arg(&environment))?;
        }
        run(Command::new(&python)
            .args(["-m", "pip", "install", "--quiet"])
            .args(PACKAGES))?;
        let mut child = Command::new(&python)
            .arg(root.join("benches/calendar/reference.py"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| error.to_string())?;
        let answers = child.stdout.take().ok_or("it has no output")?;
        Ok(Self {
            child,
            answers: BufReader::new(answers),
        })
    }

    /// How many readings a second of its CPU time, measured for so many seconds; and the alarm that it found.
    pub fn measure(&mut self, text: &str, after: &str, seconds: f64) -> Result<(f64, DateTime<Utc>), String> {
        let asked = serde_json::json!({"text": text, "after": after, "seconds": seconds});
        let input = self.child.stdin.as_mut().ok_or("it has no input")?;
        writeln!(input, "{asked}").map_err(|error| error.to_string())?;
        let mut answer = String::new();
        self.answers
            .read_line(&mut answer)
            .map_err(|error| error.to_string())?;
        let answer: serde_json::Value = serde_json::from_str(&answer).map_err(|error| error.to_string())?;
        let number = |name: &str| answer[name].as_f64().ok_or("the answer lacks a number");
        let found = answer["found"].as_str().and_then(|found| found.parse().ok());
        Ok((
            number("count")? / number("seconds")?,
            found.ok_or("it found nothing")?,
        ))
    }
}

impl Drop for Python {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        // It ends by itself at the end of its input.
        self.child.wait().ok();
    }
}

fn run(command: &mut Command) -> Result<(), String> {
    let status = command
        .status()
        .map_err(|error| format!("{command:?}: {error}"))?;
    status
        .success()
        .then_some(())
        .ok_or(format!("{command:?}: {status}"))
}
