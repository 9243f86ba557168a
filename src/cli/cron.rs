//! `carillon cron`: when an expression fires.

use std::process::ExitCode;

use chrono::DateTime;
use chrono::Utc;
use clap::Args;
use serde_json::json;

use crate::calendar::cron::Cron;
use crate::calendar::zone::Zone;
use crate::cli::arguments::WRONG_ARGUMENTS;
use crate::cli::arguments::instant;
use crate::cli::arguments::limit;
use crate::cli::arguments::zone;
use crate::cli::instants;
use crate::cli::preview::harmless::plain;
use crate::clock::Clock;
use crate::clock::SystemClock;

/// What `cron` takes.
#[derive(Debug, Args)]
#[command(after_help = MORE_HELP)]
pub(super) struct Arguments {
    /// The expression, as one argument: five fields, `@daily` and its like, or `@every 5m`
    #[arg(value_name = "EXPR", allow_hyphen_values = true)]
    expression: String,

    /// The time zone by whose clock it fires
    #[arg(long, value_name = "ZONE", default_value = "UTC", value_parser = zone)]
    tz: Zone,

    /// Firings after this instant are listed; `@every` counts from it [default: now]
    #[arg(long, value_name = "RFC3339", value_parser = instant)]
    at: Option<DateTime<Utc>>,

    /// How many firings are listed
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = limit)]
    limit: usize,

    /// One JSON object a line instead of a table: `at`, the instant as RFC 3339 in UTC
    #[arg(long)]
    json: bool,
}

const MORE_HELP: &str = "\
Examples:
  carillon cron '0 9 * * mon-fri' --tz Europe/Berlin
  carillon cron '30 2 * * *' --tz Europe/Berlin --at 2026-03-28T00:00:00Z --limit 3
  carillon cron '@every 90m' --json

The fields are minute, hour, day of the month, month, day of the week (0 and 7 are Sunday; jan, mon … are names):
  *  7  1-5  */15  10-50/20  5/15  1,15,mon       all, a number, a range, steps, from 5 on in steps, a list
  L  LW  5L  1#2                                  last day, last one from Monday to Friday, last Friday, second Monday
  @hourly @daily @midnight @weekly @monthly @yearly @every 1h30m

Where both days are restricted, either will do; where one of them begins with a star, both must hold.

When the clock is changed, an expression without a star in its minute and hour is still due once a day: what the clock skips
fires as soon as it goes on, what it shows twice fires the first time. With a star there it is an interval, and fires
whenever the clock shows a time that matches: never where it is skipped, and twice where it is repeated.

Exit codes: 0 if the expression is understood, 2 if it is not or never fires (standard error says why, and what to write
instead).";

pub(super) fn run(arguments: &Arguments) -> ExitCode {
    let cron = match Cron::parse(&arguments.expression) {
        Ok(cron) => cron,
        Err(refusal) => {
            eprintln!("{}", plain(&refusal.to_string()));
            return WRONG_ARGUMENTS.into();
        }
    };
    let now = arguments.at.unwrap_or_else(|| SystemClock.now());
    let zone = &arguments.tz;
    let firings = std::iter::successors(cron.after(now, zone), |last| cron.after(*last, zone));
    let firings = firings.take(arguments.limit);
    let mut text = String::new();
    if arguments.json {
        text.extend(firings.map(|at| json!({ "at": instants::rfc3339(at) }).to_string() + "\n"));
    } else {
        text.push_str(&instants::head(zone));
        text.extend(firings.map(|at| instants::line(at, zone)));
    }
    instants::print(&text)
}
