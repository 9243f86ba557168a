//! Instants on standard output: as lines for people, in the time of a zone, and as JSON for programs.

use std::io;
use std::io::Write;
use std::process::ExitCode;

use chrono::DateTime;
use chrono::SecondsFormat;
use chrono::Utc;

use crate::calendar::zone::Zone;

/// RFC 3339 in UTC, with milliseconds where there are some.
pub(super) fn rfc3339(instant: DateTime<Utc>) -> String {
    instant.to_rfc3339_opts(SecondsFormat::AutoSi, true)
}

/// The head of a table of instants.
pub(super) fn head(zone: &Zone) -> String {
    format!("{:<31}UTC\n", zone.name())
}

/// A line of it: `Sat 2026-03-28 02:15:00 +01:00  2026-03-28T01:15:00Z`.
pub(super) fn line(instant: DateTime<Utc>, zone: &Zone) -> String {
    let local = zone.to_local(instant).format("%a %Y-%m-%d %H:%M:%S");
    let offset = zone.offset_at(instant).to_string();
    format!("{:<31}{}\n", format!("{local} {offset}"), rfc3339(instant))
}

/// Writes the answer. Whoever reads it may have seen enough, as `head` has.
pub(super) fn print(text: &str) -> ExitCode {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            eprintln!("the answer cannot be written: {error}");
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}
