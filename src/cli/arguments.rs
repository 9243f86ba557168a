//! How values on the command line are written, wherever they occur.

use chrono::DateTime;
use chrono::Utc;

use crate::calendar::zone::Zone;

/// As clap ends where the arguments are wrong.
pub(super) const WRONG_ARGUMENTS: u8 = 2;

pub(super) fn zone(name: &str) -> Result<Zone, String> {
    Zone::iana(name)
        .ok_or_else(|| format!("unknown time zone `{name}`: use an IANA name such as Europe/Berlin"))
}

pub(super) fn instant(text: &str) -> Result<DateTime<Utc>, String> {
    let instant = DateTime::parse_from_rfc3339(text);
    instant
        .map(|instant| instant.to_utc())
        .map_err(|_| format!("`{text}` is no instant: write it as 2026-12-01T08:45:00Z"))
}

pub(super) fn limit(text: &str) -> Result<usize, String> {
    let limit = text.parse().ok().filter(|limit| (1..=100_000).contains(limit));
    limit.ok_or_else(|| format!("`{text}` is no number from 1 to 100000"))
}
