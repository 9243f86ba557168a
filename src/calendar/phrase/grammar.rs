//! Which parts a phrase has. They may come in any order; none comes twice.

use crate::calendar::phrase::clock;
use crate::calendar::phrase::clock::Clock;
use crate::calendar::phrase::clock::Part;
use crate::calendar::phrase::day;
use crate::calendar::phrase::day::Day;
use crate::calendar::phrase::day::WeekdayOf;
use crate::calendar::phrase::error::PhraseError;
use crate::calendar::phrase::shift;
use crate::calendar::phrase::shift::Shift;
use crate::calendar::phrase::words::Words;

/// Words that carry no meaning where they stand.
const FILLERS: [&str; 2] = ["on", "the"];

/// Words of phrases for times that come again.
const REPEATED: [&str; 10] = [
    "every", "each", "daily", "hourly", "weekly", "monthly", "yearly", "weekdays", "mondays", "fridays",
];

/// The parts of a phrase.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Phrase {
    pub(super) day: Option<Day>,
    pub(super) weekday: Option<WeekdayOf>,
    pub(super) clock: Option<Clock>,
    pub(super) part: Option<Part>,
    pub(super) shift: Option<Shift>,
}

pub(super) fn read(text: &str) -> Result<Phrase, PhraseError> {
    let mut words = Words::of(text);
    let mut phrase = Phrase::default();
    while words.peek().is_some() {
        phrase.read_part(&mut words)?;
    }
    if phrase == Phrase::default() {
        return Err(PhraseError::Unfinished(text.to_owned()));
    }
    Ok(phrase)
}

impl Phrase {
    /// Takes the part that comes next.
    fn read_part(&mut self, words: &mut Words) -> Result<(), PhraseError> {
        if words.eat("at") || words.eat("@") {
            return self.read_clock_behind_at(words);
        }
        if self.read_shift(words)? || self.read_day(words)? || self.read_clock(words, false)? {
            return Ok(());
        }
        if words.eat("in") {
            return self.read_behind_in(words);
        }
        if FILLERS.iter().any(|filler| words.eat(filler)) {
            return match words.peek() {
                Some(_) => Ok(()),
                None => Err(PhraseError::Unfinished(words.last().to_owned())),
            };
        }
        Err(not_understood(words.peek().unwrap_or_default()))
    }

    /// `in 2 hours` or `in the morning`. `in 1:30` might be a length or a time, and `in monday` is neither.
    fn read_behind_in(&mut self, words: &mut Words) -> Result<(), PhraseError> {
        words.eat("the");
        if self.read_shift(words)? {
            return Ok(());
        }
        let Some(part) = clock::part(words) else {
            return Err(match words.peek() {
                Some(word) => PhraseError::Unknown(word.to_owned()),
                None => PhraseError::Unfinished(words.last().to_owned()),
            });
        };
        put(&mut self.part, part, "the part of the day", words)
    }

    fn read_clock_behind_at(&mut self, words: &mut Words) -> Result<(), PhraseError> {
        match words.peek().map(str::to_owned) {
            None => Err(PhraseError::Unfinished("at".to_owned())),
            Some(_) if self.read_clock(words, true)? => Ok(()),
            Some(word) => Err(PhraseError::Unknown(word)),
        }
    }

    /// `3 days`, and from where it counts.
    fn read_shift(&mut self, words: &mut Words) -> Result<bool, PhraseError> {
        let shift = if words.eat("now") {
            Some(Shift::default())
        } else {
            shift::read(words)?
        };
        let Some(shift) = shift else {
            return Ok(false);
        };
        let is_past = words.eat("ago");
        let shift = if is_past { shift.backwards() } else { shift };
        put(&mut self.shift, shift, "how long it is", words)?;
        let is_from_now = words.eat("from now") || words.eat("hence") || words.eat("later");
        if !is_past && !is_from_now && (words.eat("from") || words.eat("after")) {
            words.eat("the");
            if !self.read_day(words)? {
                return Err(match words.peek() {
                    Some(word) => PhraseError::Unknown(word.to_owned()),
                    None => PhraseError::Unfinished(words.last().to_owned()),
                });
            }
        }
        Ok(true)
    }

    fn read_day(&mut self, words: &mut Words) -> Result<bool, PhraseError> {
        if words.eat("tonight") {
            put(&mut self.day, Day::FromToday(0), "the day", words)?;
            put(&mut self.part, Part::Night, "the part of the day", words)?;
            return Ok(true);
        }
        let part = words.attempt(|words| {
            let is_this = words.eat("this");
            Ok::<_, PhraseError>(clock::part(words).map(|part| (part, is_this)))
        })?;
        if let Some((part, is_this)) = part {
            put(&mut self.part, part, "the part of the day", words)?;
            if is_this {
                put(&mut self.day, Day::FromToday(0), "the day", words)?;
            }
            return Ok(true);
        }
        if let Some(weekday) = day::weekday(words)? {
            put(&mut self.weekday, weekday, "the day of the week", words)?;
            return Ok(true);
        }
        if let Some(day) = day::read(words)? {
            put(&mut self.day, day, "the day", words)?;
            return Ok(true);
        }
        Ok(false)
    }

    fn read_clock(&mut self, words: &mut Words, is_after_at: bool) -> Result<bool, PhraseError> {
        let Some(clock) = clock::read(words, is_after_at)? else {
            return Ok(false);
        };
        put(&mut self.clock, clock, "the time of day", words)?;
        Ok(true)
    }
}

fn put<T>(slot: &mut Option<T>, value: T, part: &'static str, words: &Words) -> Result<(), PhraseError> {
    if slot.replace(value).is_some() {
        return Err(PhraseError::Twice {
            part,
            word: words.last().to_owned(),
        });
    }
    Ok(())
}

fn not_understood(word: &str) -> PhraseError {
    if REPEATED.contains(&word) {
        PhraseError::Repeated(word.to_owned())
    } else if word.len() <= 2 && word.bytes().all(|byte| byte.is_ascii_digit()) {
        PhraseError::Number(word.to_owned())
    } else {
        PhraseError::Unknown(word.to_owned())
    }
}
