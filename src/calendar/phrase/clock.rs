//! Times of day: `5pm`, `17:30`, `noon`, `at 9`, `in the morning`.

use chrono::NaiveTime;

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

const HALVES: [(&str, Half); 6] = [
    ("am", Half::Am),
    ("a.m", Half::Am),
    ("pm", Half::Pm),
    ("p.m", Half::Pm),
    ("a.m.", Half::Am),
    ("p.m.", Half::Pm),
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
        time(hour, 0, 0)
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
        return Ok(Some(Clock::At(time(12, 0, 0))));
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
    let (digits, half) = match HALVES
        .iter()
        .find_map(|(name, half)| Some((word.strip_suffix(name)?, *half)))
    {
        Some((digits, half)) => (digits, Some(half)),
        None => (word.as_str(), words.eat_one(&HALVES)),
    };
    let Some(parts) = parts(digits) else {
        return Ok(None);
    };
    let refused = || PhraseError::NoSuch {
        value: word.clone(),
        cure: "write a time of day as 9am, 5:30pm or 17:30",
    };
    let &[hour, minute, second] = parts.as_slice() else {
        let &[hour] = parts.as_slice() else {
            return Ok(None);
        };
        let is_time = is_after_at | words.eat("o'clock") | half.is_some();
        return if is_time {
            bare_hour(hour, digits, half).ok_or_else(refused).map(Some)
        } else {
            Ok(None)
        };
    };
    let clock = match half {
        Some(half) => hour_of_half(hour, half).map(|hour| (hour, Clock::At as fn(NaiveTime) -> Clock)),
        None => Some((hour, Clock::Written as fn(NaiveTime) -> Clock)),
    };
    let clock = clock.and_then(|(hour, clock)| NaiveTime::from_hms_opt(hour, minute, second).map(clock));
    clock.ok_or_else(refused).map(Some)
}

/// The numbers of `9`, `9:30`, `9:30:15`: one or three, what is not said being 0.
fn parts(text: &str) -> Option<Vec<u32>> {
    let texts: Vec<&str> = text.split(':').collect();
    let is_number = |text: &str, lengths: std::ops::RangeInclusive<usize>| {
        lengths.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
    };
    let (hour, rest) = texts.split_first()?;
    let is_time = is_number(hour, 1..=2) && rest.len() <= 2 && rest.iter().all(|text| is_number(text, 2..=2));
    if !is_time {
        return None;
    }
    let mut numbers: Vec<u32> = texts.iter().filter_map(|text| text.parse().ok()).collect();
    if numbers.len() == 2 {
        numbers.push(0);
    }
    Some(numbers)
}

/// `9`, `9pm`, `17`; `09` is by a clock of 24 hours.
fn bare_hour(hour: u32, digits: &str, half: Option<Half>) -> Option<Clock> {
    if let Some(half) = half {
        return NaiveTime::from_hms_opt(hour_of_half(hour, half)?, 0, 0).map(Clock::At);
    }
    let time = NaiveTime::from_hms_opt(hour, 0, 0)?;
    let is_settled = hour == 0 || hour > 12 || digits.starts_with('0');
    Some(if is_settled {
        Clock::At(time)
    } else {
        Clock::Hour(time)
    })
}

/// The hour of 24: 12am is the first one.
fn hour_of_half(hour: u32, half: Half) -> Option<u32> {
    (1..=12).contains(&hour).then(|| match half {
        Half::Am => hour % 12,
        Half::Pm => hour % 12 + 12,
    })
}

fn time(hour: u32, minute: u32, second: u32) -> NaiveTime {
    NaiveTime::from_hms_opt(hour, minute, second).unwrap_or(NaiveTime::MIN)
}
