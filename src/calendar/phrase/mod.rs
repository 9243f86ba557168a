//! What people and programs write for a time: `2026-12-01T08:45:00Z`, `in 30 minutes`, `tomorrow at 5pm`.
//!
//! A phrase is read word by word: each is a day (`day`), a time of day (`clock`), a shift such as `3 days` (`shift`), or it
//! is not understood, and then the phrase is refused by that word: a reminder at a time that was guessed is worse than
//! none. What the parts mean together, in a zone and at an instant, is worked out in `resolve`.
//!
//! Choices:
//!
//! - A day without a time means 09:00; morning is 09:00, afternoon 15:00, evening 18:00, night and tonight 21:00.
//! - Hours, minutes and seconds pass by the clock on the wall of the laboratory; days, weeks, months and years keep
//!   the local time of day.
//! - What has no day or no year means the next time that it comes. Only a phrase that says so lies in the past:
//!   `7 days ago`, `today at 7am` at noon.
//! - What has several meanings gets all of them ([`Meaning::candidates`]): `friday at 3pm` on a Friday morning, `next
//!   friday` on a Wednesday, `at 5`, `03/04/2026`, `tomorrow at midnight`, a time that the clock shows twice. A date that can
//!   be today or another, or be over, has these meanings, too: `nov 27 at 9am` on that day at noon, `11/12/2026` in between.
//! - A time that the clock skips is refused if it was written. Where it only follows (`in 1 day`), the zone's own rule
//!   holds: the offset before the gap, the first of two.

mod clock;
mod day;
mod error;
mod grammar;
mod resolve;
mod shift;
#[cfg(test)]
mod tests;
mod words;
mod written;

use chrono::DateTime;
use chrono::TimeDelta;
use chrono::Utc;

use crate::calendar::phrase::words::Words;
use crate::calendar::phrase::written::Written;
use crate::calendar::zone::Zone;

pub use crate::calendar::phrase::error::PhraseError;

/// The longest phrase that is read, in bytes.
pub const LONGEST: usize = 200;

/// What a phrase means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meaning {
    /// The instant; of several, the earliest that lies ahead, if one does.
    pub at: DateTime<Utc>,
    /// All instants that it can mean, in order of time, if there are several; else empty.
    pub candidates: Vec<DateTime<Utc>>,
}

impl Meaning {
    /// Whether there are several instants that it can mean.
    pub fn is_ambiguous(&self) -> bool {
        !self.candidates.is_empty()
    }

    /// Every instant that it can mean, in order of time: one, or the candidates.
    pub fn all(self) -> Vec<DateTime<Utc>> {
        if self.is_ambiguous() {
            self.candidates
        } else {
            vec![self.at]
        }
    }

    /// The meaning of a phrase that can mean these instants; `None` if there are none.
    fn of(mut instants: Vec<DateTime<Utc>>) -> Option<Self> {
        instants.sort_unstable();
        instants.dedup();
        let at = *instants.first()?;
        if instants.len() == 1 {
            instants.clear();
        }
        Some(Self {
            at,
            candidates: instants,
        })
    }
}

/// Reads whatever people write for a time, at the instant `now`, where the clocks show the time of `zone`.
pub fn read(text: &str, now: DateTime<Utc>, zone: &Zone) -> Result<Meaning, PhraseError> {
    let text = bounded(text)?;
    if let Some(written) = written::read(text) {
        return meaning_of(written?, Some(zone));
    }
    let meaning = grammar::read(text)?.resolve(now, zone)?;
    meaning.ok_or_else(|| PhraseError::TooFar(text.to_owned()))
}

/// Reads an instant as programs write it: RFC 3339, or, if there is a zone, a local time such as `2026-12-01T08:45`.
pub fn instant(text: &str, zone: Option<&Zone>) -> Result<Meaning, PhraseError> {
    let text = bounded(text)?;
    match written::read(text) {
        Some(written) => meaning_of(written?, zone),
        None => Err(PhraseError::NoInstant(text.to_owned())),
    }
}

/// Reads a delay: `90s`, `1h30m`, `in 30 minutes`, `2 days` of 24 hours each, or milliseconds as a bare number. Up to 100
/// years.
pub fn delay(text: &str) -> Result<TimeDelta, PhraseError> {
    let text = bounded(text)?;
    let mut words = Words::of(text);
    let delay = shift::delay(text, &mut words)?;
    match words.peek() {
        None => Ok(delay),
        Some(word) => Err(PhraseError::Unknown(word.to_owned())),
    }
}

fn bounded(text: &str) -> Result<&str, PhraseError> {
    let text = text.trim();
    match text.len() {
        0 => Err(PhraseError::Empty),
        1..=LONGEST => Ok(text),
        length => Err(PhraseError::TooLong(length)),
    }
}

fn meaning_of(written: Written, zone: Option<&Zone>) -> Result<Meaning, PhraseError> {
    match (written, zone) {
        (Written::Instant(at), _) => Ok(Meaning {
            at,
            candidates: Vec::new(),
        }),
        (Written::Local(local), Some(zone)) => resolve::local(local, zone),
        (Written::Local(local), None) => Err(PhraseError::NoZone(local)),
    }
}
