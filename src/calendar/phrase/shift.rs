//! Lengths of time: `90s`, `1h30m`, `2 hours and 15 minutes`, `half an hour`, `a week`.

use chrono::TimeDelta;

use crate::calendar::phrase::error::PhraseError;
use crate::calendar::phrase::words::Words;

/// The longest shift, in milliseconds: 100 years.
const LONGEST: i64 = 100 * 366 * DAY;

const SECOND: i64 = 1_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// A number is read with so many digits at the most.
const MOST_DIGITS: usize = 13;

/// A length of time: what the calendar counts, and what passes beside it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Shift {
    pub(super) months: i64,
    pub(super) days: i64,
    /// Milliseconds.
    pub(super) exact: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Months(i64),
    Days(i64),
    /// So many milliseconds.
    Exact(i64),
}

const UNITS: [(&str, Unit); 34] = [
    ("ms", Unit::Exact(1)),
    ("msec", Unit::Exact(1)),
    ("millisecond", Unit::Exact(1)),
    ("milliseconds", Unit::Exact(1)),
    ("s", Unit::Exact(SECOND)),
    ("sec", Unit::Exact(SECOND)),
    ("secs", Unit::Exact(SECOND)),
    ("second", Unit::Exact(SECOND)),
    ("seconds", Unit::Exact(SECOND)),
    ("m", Unit::Exact(MINUTE)),
    ("min", Unit::Exact(MINUTE)),
    ("mins", Unit::Exact(MINUTE)),
    ("minute", Unit::Exact(MINUTE)),
    ("minutes", Unit::Exact(MINUTE)),
    ("h", Unit::Exact(HOUR)),
    ("hr", Unit::Exact(HOUR)),
    ("hrs", Unit::Exact(HOUR)),
    ("hour", Unit::Exact(HOUR)),
    ("hours", Unit::Exact(HOUR)),
    ("d", Unit::Days(1)),
    ("day", Unit::Days(1)),
    ("days", Unit::Days(1)),
    ("w", Unit::Days(7)),
    ("wk", Unit::Days(7)),
    ("wks", Unit::Days(7)),
    ("week", Unit::Days(7)),
    ("weeks", Unit::Days(7)),
    ("mo", Unit::Months(1)),
    ("month", Unit::Months(1)),
    ("months", Unit::Months(1)),
    ("yr", Unit::Months(12)),
    ("yrs", Unit::Months(12)),
    ("year", Unit::Months(12)),
    ("years", Unit::Months(12)),
];

/// Numbers that people spell out, in thousandths.
const NUMBERS: [(&str, i64); 18] = [
    ("a", 1_000),
    ("an", 1_000),
    ("one", 1_000),
    ("two", 2_000),
    ("three", 3_000),
    ("four", 4_000),
    ("five", 5_000),
    ("six", 6_000),
    ("seven", 7_000),
    ("eight", 8_000),
    ("nine", 9_000),
    ("ten", 10_000),
    ("eleven", 11_000),
    ("twelve", 12_000),
    ("fifteen", 15_000),
    ("twenty", 20_000),
    ("thirty", 30_000),
    ("forty", 40_000),
];

impl Shift {
    /// The same into the past.
    pub(super) fn backwards(self) -> Self {
        Self {
            months: -self.months,
            days: -self.days,
            exact: -self.exact,
        }
    }

    /// Adds so many thousandths of a unit. What the calendar counts is counted whole.
    fn add(&mut self, thousandths: i64, unit: Unit, text: &str) -> Result<(), PhraseError> {
        let count = |of: i64| match (thousandths.checked_mul(of), thousandths % 1_000) {
            (None, _) => Err(PhraseError::TooFar(text.to_owned())),
            (Some(_), 1..) => Err(PhraseError::NoSuch {
                value: text.to_owned(),
                cure: "days, weeks, months and years are counted whole; write the rest in hours",
            }),
            (Some(sum), _) => Ok(sum / 1_000),
        };
        match unit {
            Unit::Months(of) => self.months = self.months.saturating_add(count(of)?),
            Unit::Days(of) => self.days = self.days.saturating_add(count(of)?),
            Unit::Exact(of) => {
                let sum = thousandths.checked_mul(of);
                let sum = sum.ok_or_else(|| PhraseError::TooFar(text.to_owned()))?;
                self.exact = self.exact.saturating_add(sum / 1_000);
            }
        }
        if self.is_bounded() {
            Ok(())
        } else {
            Err(PhraseError::TooFar(text.to_owned()))
        }
    }

    fn is_bounded(&self) -> bool {
        self.months <= 1_200 && self.days <= LONGEST / DAY && self.exact <= LONGEST
    }
}

/// The delay that the words, or a bare number of milliseconds, mean.
pub(super) fn delay(text: &str, words: &mut Words) -> Result<TimeDelta, PhraseError> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        let milliseconds = text.parse().ok().filter(|number| *number <= LONGEST);
        words.take();
        return milliseconds
            .map(TimeDelta::milliseconds)
            .ok_or_else(|| PhraseError::TooFar(text.to_owned()));
    }
    words.eat("in");
    let Some(shift) = read(words)? else {
        return Err(PhraseError::Unknown(words.peek().unwrap_or(text).to_owned()));
    };
    let _ = words.eat("from now") || words.eat("later");
    if shift.months != 0 {
        return Err(PhraseError::NoDelay(text.to_owned()));
    }
    Ok(TimeDelta::days(shift.days) + TimeDelta::milliseconds(shift.exact))
}

/// Takes a length of time if one comes next.
pub(super) fn read(words: &mut Words) -> Result<Option<Shift>, PhraseError> {
    let mut shift = Shift::default();
    let mut last = None;
    loop {
        let read = words.attempt(|words| {
            if last.is_some() {
                words.eat("and");
            }
            part(words, &mut shift, last)
        })?;
        match read {
            Some(unit) => last = Some(unit),
            None => return Ok(last.map(|_| shift)),
        }
    }
}

/// Takes one amount and its unit: `2 hours`, `half an hour`, `90s`, `1h30m`. Behind a unit also `a half` of it.
fn part(words: &mut Words, shift: &mut Shift, last: Option<Unit>) -> Result<Option<Unit>, PhraseError> {
    if let Some(unit) = last
        && words.eat("a half")
    {
        shift.add(500, unit, words.last())?;
        return Ok(Some(unit));
    }
    if let Some(unit) = compound(words, shift)? {
        return Ok(Some(unit));
    }
    let Some(amount) = amount(words)? else {
        return Ok(None);
    };
    let Some(unit) = words.eat_one(&UNITS) else {
        return Ok(None);
    };
    if last == Some(unit) {
        return Err(PhraseError::Twice {
            part: "how long it is",
            word: words.last().to_owned(),
        });
    }
    shift.add(amount, unit, words.last())?;
    Ok(Some(unit))
}

/// An amount in thousandths.
fn amount(words: &mut Words) -> Result<Option<i64>, PhraseError> {
    if words.eat("half") {
        let _ = words.eat("an") || words.eat("a");
        return Ok(Some(500));
    }
    if words.eat("a couple of") {
        return Ok(Some(2_000));
    }
    if let Some(number) = words.eat_one(&NUMBERS) {
        return Ok(Some(number));
    }
    let Some((number, "")) = words.peek().and_then(number) else {
        return Ok(None);
    };
    words.take();
    number.map(Some)
}

/// A word of amounts and units: `90s`, `1h30m`.
fn compound(words: &mut Words, shift: &mut Shift) -> Result<Option<Unit>, PhraseError> {
    let Some(word) = words.peek().map(str::to_owned) else {
        return Ok(None);
    };
    let mut parts = Vec::new();
    let mut rest = word.as_str();
    while !rest.is_empty() {
        let Some((amount, behind)) = number(rest) else {
            return Ok(None);
        };
        let end = behind.find(|c: char| c.is_ascii_digit()).unwrap_or(behind.len());
        let (name, behind) = behind.split_at(end);
        let Some((_, unit)) = UNITS.iter().find(|(unit, _)| *unit == name) else {
            return Ok(None);
        };
        parts.push((amount?, *unit));
        rest = behind;
    }
    words.take();
    let mut last = None;
    for (amount, unit) in parts {
        shift.add(amount, unit, &word)?;
        last = Some(unit);
    }
    Ok(last)
}

/// The number in thousandths with which a text begins, and what stands behind it; an error if it is too large.
fn number(text: &str) -> Option<(Result<i64, PhraseError>, &str)> {
    let (whole, behind) = digits(text)?;
    let (fraction, behind) = behind.strip_prefix('.').and_then(digits).unwrap_or(("", behind));
    if whole.len() > MOST_DIGITS || fraction.len() > 3 {
        return Some((Err(PhraseError::TooFar(text.to_owned())), behind));
    }
    let thousandths = format!("{whole}{fraction:0<3}").parse();
    Some((
        thousandths.map_err(|_| PhraseError::TooFar(text.to_owned())),
        behind,
    ))
}

/// The digits with which a text begins, and what stands behind them.
fn digits(text: &str) -> Option<(&str, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}
