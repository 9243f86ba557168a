//! `carillon parse-time`: which instant a phrase means.

use std::process::ExitCode;

use chrono::DateTime;
use chrono::Utc;
use clap::Args;
use serde_json::json;

use crate::calendar::phrase;
use crate::calendar::phrase::Meaning;
use crate::calendar::zone::Zone;
use crate::cli::arguments::WRONG_ARGUMENTS;
use crate::cli::arguments::instant;
use crate::cli::arguments::zone;
use crate::cli::instants;
use crate::cli::preview::harmless::plain;
use crate::clock::Clock;
use crate::clock::SystemClock;

/// What `parse-time` takes.
#[derive(Debug, Args)]
#[command(after_help = MORE_HELP)]
pub(super) struct Arguments {
    /// What to read: a phrase, a delay, a local time or RFC 3339
    #[arg(required = true, value_name = "TEXT")]
    text: Vec<String>,

    /// The time zone in which the phrase is said
    #[arg(long, value_name = "ZONE", default_value = "UTC", value_parser = zone)]
    tz: Zone,

    /// The instant at which it is said [default: now]
    #[arg(long, value_name = "RFC3339", value_parser = instant)]
    at: Option<DateTime<Utc>>,

    /// One JSON object instead of a table; `--help` says what is in it
    #[arg(long)]
    json: bool,
}

const MORE_HELP: &str = "\
Examples:
  carillon parse-time 'tomorrow at 5pm' --tz Europe/Berlin
  carillon parse-time 'next friday at 3pm' --tz America/New_York --json
  carillon parse-time 'in 1 hour and 30 minutes' --at 2026-12-01T08:45:00Z

What is read:
  2026-12-01T08:45:00Z                              RFC 3339
  2026-12-01T08:45, 2026-12-01 08:45:30             a local time in the zone
  90s, 1h30m, in 2 hours, half an hour from now     a delay
  5pm, 17:30, noon, midnight, in the morning        the next time that it comes
  today, tomorrow, tonight, friday, next friday, dec 25, 25 december 2026, 12/25/2026, the 1st, end of the month,
  in 3 days, two weeks from tomorrow, 7 days ago    a day, with a time of day before or behind it, or 09:00

Hours, minutes and seconds pass as they do; days, weeks, months and years keep the local time of day.

JSON: `at`, the instant as RFC 3339 in UTC, and `candidates`, all instants that the phrase can mean, if there are several:
`at` is then the earliest that lies ahead. A local time that the clock shows twice has two; one that it skips is refused.

Exit codes: 0 if the text is understood, 2 if it is not (standard error says which word, and what to write instead).";

pub(super) fn run(arguments: &Arguments) -> ExitCode {
    let now = arguments.at.unwrap_or_else(|| SystemClock.now());
    match phrase::read(&arguments.text.join(" "), now, &arguments.tz) {
        Ok(meaning) if arguments.json => instants::print(&json(&meaning)),
        Ok(meaning) => instants::print(&table(&meaning, &arguments.tz)),
        Err(refusal) => {
            eprintln!("{}", plain(&refusal.to_string()));
            WRONG_ARGUMENTS.into()
        }
    }
}

fn json(meaning: &Meaning) -> String {
    let candidates = meaning.candidates.iter().copied().map(instants::rfc3339);
    let candidates: Vec<String> = candidates.collect();
    let at = instants::rfc3339(meaning.at);
    format!("{}\n", json!({ "at": at, "candidates": candidates }))
}

fn table(meaning: &Meaning, zone: &Zone) -> String {
    let mut text = instants::head(zone);
    if meaning.is_ambiguous() {
        let lines = meaning.candidates.iter().map(|at| instants::line(*at, zone));
        text.extend(lines);
        text.push_str("It can mean each of these: say the date, am or pm, or the offset.\n");
    } else {
        text.push_str(&instants::line(meaning.at, zone));
    }
    text
}
