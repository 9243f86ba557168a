//! Times of day: `5pm`, `17:30`, `noon`, `at 9`, `in the morning`.

use chrono::NaiveTime;
use chrono::Timelike;

use crate::calendar::phrase::error::PhraseError;
use crate::calendar::phrase::words::Words;

/// A time of day as it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Clock {
    /// One time: `5pm`, `noon`, `17`.
    At(NaiveTime),
    /// `9:30`, by a clock of 24 hours unless a part of the day says otherwise.
    Written(NaiveTime),
    /// `9` alone: in the morning or in the evening.
    Hour(NaiveTime),
    /// The midnight with which a day begins, or that with which it ends.
    Midnight,
}

/// A part of the day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Morning,
    Afternoon,
    Evening,
    Night,
}

const PARTS: [(&str, Part); 4] = [
    ("morning", Part::Morning),
    ("afternoon", Part::Afternoon),
    ("evening", Part::Evening),
    ("night", Part::Night),
];

const HALVES: [(&str, Half); 4] = [
    ("am", Half::Am),
    ("a.m", Half::Am),
    ("pm", Half::Pm),
    ("p.m", Half::Pm),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Half {
    Am,
    Pm,
}

impl Part {
    /// The time that is meant where none is said.
    pub(super) fn usual(self) -> NaiveTime {
        let hour = match self {
            Self::Morning => 9,
            Self::Afternoon => 15,
            Self::Evening => 18,
            Self::Night => 21,
        };
        whole(hour)
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Morning => "morning",
            Self::Afternoon => "afternoon",
            Self::Evening => "evening",
            Self::Night => "night",
        }
    }
}

/// Takes a part of the day if one comes next.
pub(super) fn part(words: &mut Words) -> Option<Part> {
    words.eat_one(&PARTS)
}

/// Takes a time of day if one comes next. A bare number is one only behind `at`, or with `o'clock`.
pub(super) fn read(words: &mut Words, is_after_at: bool) -> Result<Option<Clock>, PhraseError> {
    if words.eat("noon") || words.eat("midday") {
        return Ok(Some(Clock::At(whole(12))));
    }
    if words.eat("midnight") {
        return Ok(Some(Clock::Midnight));
    }
    words.attempt(|words| numbers(words, is_after_at))
}

fn numbers(words: &mut Words, is_after_at: bool) -> Result<Option<Clock>, PhraseError> {
    let Some(word) = words.take() else {
        return Ok(None);
    };
    let attached = HALVES
        .iter()
        .find_map(|(name, half)| Some((word.strip_suffix(name)?, *half)));
    let (digits, half) = match attached {
        Some((digits, half)) => (digits, Some(half)),
        None => (word.as_str(), words.eat_one(&HALVES)),
    };
    let Some((hour, behind)) = split(digits) else {
        return Ok(None);
    };
    let (minute, second) = behind.unwrap_or((0, 0));
    let time = |hour| NaiveTime::from_hms_opt(hour, minute, second);
    let clock = match (behind, half) {
        (_, Some(half)) => hour_of_half(hour, half).and_then(time).map(Clock::At),
        (Some(_), None) => time(hour).map(Clock::Written),
        (None, None) if is_after_at || words.eat("o'clock") => {
            words.eat("o'clock");
            time(hour).map(|time| hour_alone(time, digits))
        }
        (None, None) => return Ok(None),
    };
    let refused = || PhraseError::NoSuch {
        value: word.clone(),
        cure: "write a time of day as 9am, 5:30pm or 17:30",
    };
    clock.map(Some).ok_or_else(refused)
}

/// `9`, `9:30`, `9:30:15`: the hour, and what is said beside it.
fn split(text: &str) -> Option<(u32, Option<(u32, u32)>)> {
    let two_digits = |text: &str| (text.len() == 2).then(|| number(text)).flatten();
    let parts: Vec<&str> = text.split(':').collect();
    match parts.as_slice() {
        [hour] => Some((number(hour)?, None)),
        [hour, minute] => Some((number(hour)?, Some((two_digits(minute)?, 0)))),
        [hour, minute, second] => {
            let behind = (two_digits(minute)?, two_digits(second)?);
            Some((number(hour)?, Some(behind)))
        }
        _ => None,
    }
}

/// A number of one or two digits and nothing else.
fn number(text: &str) -> Option<u32> {
    let is_number = (1..=2).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

/// `9` may be in either half of the day; `17`, `0` and `09` are by a clock of 24 hours.
fn hour_alone(time: NaiveTime, digits: &str) -> Clock {
    if (1..=12).contains(&time.hour()) && !digits.starts_with('0') {
        Clock::Hour(time)
    } else {
        Clock::At(time)
    }
}

/// The hour of 24: 12am is the first one.
fn hour_of_half(hour: u32, half: Half) -> Option<u32> {
    (1..=12).contains(&hour).then(|| match half {
        Half::Am => hour % 12,
        Half::Pm => hour % 12 + 12,
    })
}

fn whole(hour: u32) -> NaiveTime {
    NaiveTime::from_hms_opt(hour, 0, 0).unwrap_or(NaiveTime::MIN)
}
