//! Instants and local times as programs write them: RFC 3339, and RFC 3339 without an offset.

use chrono::DateTime;
use chrono::Datelike;
use chrono::NaiveDateTime;
use chrono::Utc;

use crate::calendar::phrase::error::PhraseError;
use crate::calendar::phrase::resolve::LAST_YEAR;

/// What a program wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Written {
    Instant(DateTime<Utc>),
    Local(NaiveDateTime),
}

/// `None` if the text has another shape; an error if it has this one, but there is no such time.
pub(super) fn read(text: &str) -> Option<Result<Written, PhraseError>> {
    if !has_shape(text) {
        return None;
    }
    let text = text.to_ascii_uppercase().replacen(' ', "T", 1);
    let written = match DateTime::parse_from_rfc3339(&text) {
        Ok(instant) => whole_millisecond(instant.to_utc()).map(Written::Instant),
        Err(_) => local(&text).map(Written::Local),
    };
    let written = written.ok_or_else(|| PhraseError::NoSuch {
        value: text.clone(),
        cure: "write a day of the calendar and a time up to 23:59:59, as 2026-12-01T08:45:00Z",
    });
    Some(written.and_then(|written| {
        if (1..=LAST_YEAR).contains(&written.year()) {
            Ok(written)
        } else {
            Err(PhraseError::TooFar(text))
        }
    }))
}

impl Written {
    fn year(self) -> i32 {
        match self {
            Self::Instant(instant) => instant.year(),
            Self::Local(local) => local.year(),
        }
    }
}

/// Whether it is a date, a `T` or blank, and then nothing but what a time and its offset are written with.
fn has_shape(text: &str) -> bool {
    let bytes = text.as_bytes();
    let Some((date, [divider, time @ ..])) = bytes.split_at_checked(10) else {
        return false;
    };
    let is_date = date.iter().zip(b"dddd-dd-dd").all(|(byte, shape)| match shape {
        b'd' => byte.is_ascii_digit(),
        dash => byte == dash,
    });
    is_date
        && matches!(divider, b'T' | b't' | b' ')
        && time.contains(&b':')
        && time
            .iter()
            .all(|byte| byte.is_ascii_digit() || b":.+-Zz".contains(byte))
}

/// A local time, its seconds and their fraction left out if they are 0.
fn local(text: &str) -> Option<NaiveDateTime> {
    let formats = ["%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%dT%H:%M"];
    let local = formats
        .iter()
        .find_map(|format| NaiveDateTime::parse_from_str(text, format).ok())?;
    Some(whole_millisecond(local.and_utc())?.naive_utc())
}

/// An instant cut to milliseconds; a leap second is the next second.
fn whole_millisecond(instant: DateTime<Utc>) -> Option<DateTime<Utc>> {
    DateTime::from_timestamp_millis(instant.timestamp_millis())
}
