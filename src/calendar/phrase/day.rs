//! Days: `tomorrow`, `next friday`, `dec 25`, `the 25th`, `2026-12-25`, `last day of this month`.

use chrono::NaiveDate;
use chrono::Weekday;

use crate::calendar::phrase::error::PhraseError;
use crate::calendar::phrase::resolve::LAST_YEAR;
use crate::calendar::phrase::words::Words;

/// A day as it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Day {
    /// So many days from today.
    FromToday(i64),
    /// A date with its year.
    Date(NaiveDate),
    /// `03/04/2026`: month first or day first.
    EitherDate(NaiveDate, NaiveDate),
    /// A day of a month: the next time that it comes.
    OfYear { month: u32, day: u32 },
    /// A day of whichever month has it next.
    OfMonth(u32),
    /// The last day of the month that is so many months from now.
    LastOfMonth(u32),
    /// `next week`, `next month`, `next year`: its first day, or this day of it.
    Next(Period),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Period {
    Week,
    Month,
    Year,
}

/// A day of the week as it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WeekdayOf {
    /// `friday`, `this friday`: the next time that it comes, today included.
    Coming(Weekday),
    /// `next friday`: the first one after today, or that of the next week.
    Next(Weekday),
    /// `friday next week`.
    NextWeek(Weekday),
}

impl WeekdayOf {
    pub(super) fn weekday(self) -> Weekday {
        match self {
            Self::Coming(weekday) | Self::Next(weekday) | Self::NextWeek(weekday) => weekday,
        }
    }
}

const WEEKDAYS: [(&str, Weekday); 18] = [
    ("monday", Weekday::Mon),
    ("mon", Weekday::Mon),
    ("tuesday", Weekday::Tue),
    ("tues", Weekday::Tue),
    ("tue", Weekday::Tue),
    ("wednesday", Weekday::Wed),
    ("weds", Weekday::Wed),
    ("wed", Weekday::Wed),
    ("thursday", Weekday::Thu),
    ("thurs", Weekday::Thu),
    ("thur", Weekday::Thu),
    ("thu", Weekday::Thu),
    ("friday", Weekday::Fri),
    ("fri", Weekday::Fri),
    ("saturday", Weekday::Sat),
    ("sat", Weekday::Sat),
    ("sunday", Weekday::Sun),
    ("sun", Weekday::Sun),
];

const MONTHS: [(&str, u32); 24] = [
    ("january", 1),
    ("jan", 1),
    ("february", 2),
    ("feb", 2),
    ("march", 3),
    ("mar", 3),
    ("april", 4),
    ("apr", 4),
    ("may", 5),
    ("june", 6),
    ("jun", 6),
    ("july", 7),
    ("jul", 7),
    ("august", 8),
    ("aug", 8),
    ("september", 9),
    ("sept", 9),
    ("sep", 9),
    ("october", 10),
    ("oct", 10),
    ("november", 11),
    ("nov", 11),
    ("december", 12),
    ("dec", 12),
];

const DAYS: [(&str, i64); 3] = [("today", 0), ("tomorrow", 1), ("yesterday", -1)];

const PERIODS: [(&str, Period); 3] = [
    ("week", Period::Week),
    ("month", Period::Month),
    ("year", Period::Year),
];

/// How a day that there is not is to be written.
const CURE: &str = "write a day of the calendar, as 2026-12-25, 12/25/2026 or dec 25";

/// The days that each month can have.
const LONGEST_MONTHS: [u32; 12] = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/// Takes a day of the week if one comes next.
pub(super) fn weekday(words: &mut Words) -> Result<Option<WeekdayOf>, PhraseError> {
    words.attempt(|words| {
        let is_next = words.eat("next");
        let _ = !is_next && (words.eat("this") || words.eat("coming"));
        let Some(weekday) = words.eat_one(&WEEKDAYS) else {
            return Ok(None);
        };
        Ok(Some(if words.eat("next week") {
            WeekdayOf::NextWeek(weekday)
        } else if is_next {
            WeekdayOf::Next(weekday)
        } else {
            WeekdayOf::Coming(weekday)
        }))
    })
}

/// Takes a day if one comes next.
pub(super) fn read(words: &mut Words) -> Result<Option<Day>, PhraseError> {
    if words.eat("day after tomorrow") {
        return Ok(Some(Day::FromToday(2)));
    }
    if words.eat("day before yesterday") {
        return Ok(Some(Day::FromToday(-2)));
    }
    if let Some(days) = words.eat_one(&DAYS) {
        return Ok(Some(Day::FromToday(days)));
    }
    for form in [last_of_month, next_period, month_first, day_first, in_numbers] {
        if let Some(day) = words.attempt(form)? {
            return Ok(Some(day));
        }
    }
    Ok(None)
}

/// `last day of this month`, `end of next month`.
#[expect(
    clippy::unnecessary_wraps,
    reason = "it is one of the forms of a day, and others can fail"
)]
fn last_of_month(words: &mut Words) -> Result<Option<Day>, PhraseError> {
    if !(words.eat("last day of") || words.eat("end of")) {
        return Ok(None);
    }
    let months = u32::from(words.eat("next"));
    let _ = words.eat("this") || words.eat("the");
    Ok(words.eat("month").then_some(Day::LastOfMonth(months)))
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "it is one of the forms of a day, and others can fail"
)]
fn next_period(words: &mut Words) -> Result<Option<Day>, PhraseError> {
    if !words.eat("next") {
        return Ok(None);
    }
    Ok(words.eat_one(&PERIODS).map(Day::Next))
}

/// `dec 25`, `december 25th 2026`.
fn month_first(words: &mut Words) -> Result<Option<Day>, PhraseError> {
    let Some(month) = words.eat_one(&MONTHS) else {
        return Ok(None);
    };
    words.eat("the");
    let Some((day, _)) = words.take().as_deref().and_then(day_number) else {
        return Ok(None);
    };
    of_year(words, month, day).map(Some)
}

/// `25 dec 2026`, `25th of december`, `the 25th`.
fn day_first(words: &mut Words) -> Result<Option<Day>, PhraseError> {
    let Some((day, is_ordinal)) = words.take().as_deref().and_then(day_number) else {
        return Ok(None);
    };
    words.eat("of");
    match words.eat_one(&MONTHS) {
        Some(month) => of_year(words, month, day).map(Some),
        None if is_ordinal && words.last() != "of" => of_month(day).map(Some),
        None => Ok(None),
    }
}

fn of_month(day: u32) -> Result<Day, PhraseError> {
    if (1..=31).contains(&day) {
        Ok(Day::OfMonth(day))
    } else {
        Err(no_such(&format!("{day}. day of a month")))
    }
}

/// The day of a month, with the year if one comes next.
fn of_year(words: &mut Words, month: u32, day: u32) -> Result<Day, PhraseError> {
    let year = words.peek().and_then(year);
    if let Some(year) = year {
        words.take();
        return date(year, month, day, &format!("{year}-{month:02}-{day:02}")).map(Day::Date);
    }
    let longest = LONGEST_MONTHS.get(month as usize - 1).copied().unwrap_or(31);
    if (1..=longest).contains(&day) {
        Ok(Day::OfYear { month, day })
    } else {
        Err(no_such(&format!("day {day} of month {month}")))
    }
}

/// `2026-12-25`, `2026/12/25`, `12/25/2026`, `25.12.2026`.
fn in_numbers(words: &mut Words) -> Result<Option<Day>, PhraseError> {
    let Some(word) = words.take() else {
        return Ok(None);
    };
    for divider in ['-', '/', '.'] {
        let texts: Vec<&str> = word.split(divider).collect();
        let &[first, second, third] = texts.as_slice() else {
            continue;
        };
        if let (Some(year), Some(month), Some(day)) = (year(first), two_digits(second), two_digits(third)) {
            return date(year, month, day, &word).map(|date| Some(Day::Date(date)));
        }
        if let (Some(first), Some(second), Some(year)) = (two_digits(first), two_digits(second), year(third))
        {
            let month_first = date(year, first, second, &word);
            let day_first = date(year, second, first, &word);
            return match (divider, month_first, day_first) {
                ('/', Ok(one), Ok(other)) if one != other => Ok(Some(Day::EitherDate(one, other))),
                ('/', Ok(date), _) => Ok(Some(Day::Date(date))),
                (_, _, day_first) => day_first.map(|date| Some(Day::Date(date))),
            };
        }
    }
    Ok(None)
}

/// `25`, `25th`: the number, and whether it is an ordinal.
fn day_number(word: &str) -> Option<(u32, bool)> {
    let ordinal = ["st", "nd", "rd", "th"]
        .iter()
        .find_map(|ending| word.strip_suffix(ending));
    Some((two_digits(ordinal.unwrap_or(word))?, ordinal.is_some()))
}

fn two_digits(text: &str) -> Option<u32> {
    let is_number = (1..=2).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

fn year(text: &str) -> Option<i32> {
    let is_year = text.len() == 4 && text.bytes().all(|byte| byte.is_ascii_digit());
    is_year.then(|| text.parse().ok()).flatten()
}

fn date(year: i32, month: u32, day: u32, written: &str) -> Result<NaiveDate, PhraseError> {
    if !(1..=LAST_YEAR).contains(&year) {
        return Err(PhraseError::TooFar(written.to_owned()));
    }
    NaiveDate::from_ymd_opt(year, month, day).ok_or_else(|| no_such(written))
}

fn no_such(value: &str) -> PhraseError {
    PhraseError::NoSuch {
        value: value.to_owned(),
        cure: CURE,
    }
}
