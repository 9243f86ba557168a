//! The values of a rule's parts, each checked against its range (RFC 5545 section 3.3.10).

use std::ops::RangeInclusive;

use chrono::NaiveDate;
use chrono::NaiveDateTime;
use chrono::Weekday;

use crate::calendar::recurrence::Frequency;
use crate::calendar::recurrence::RuleError;
use crate::calendar::recurrence::numbers::Numbers;
use crate::calendar::recurrence::numbers::Positions;

/// How much of a value a message repeats.
const MAX_QUOTED: usize = 40;

/// UNTIL as it is written.
#[derive(Clone, Copy)]
pub(super) enum UntilText {
    Date(NaiveDate),
    Local(NaiveDateTime),
    Utc(NaiveDateTime),
}

pub(super) fn frequency(value: &str) -> Result<Frequency, RuleError> {
    match value {
        "SECONDLY" => Ok(Frequency::Secondly),
        "MINUTELY" => Ok(Frequency::Minutely),
        "HOURLY" => Ok(Frequency::Hourly),
        "DAILY" => Ok(Frequency::Daily),
        "WEEKLY" => Ok(Frequency::Weekly),
        "MONTHLY" => Ok(Frequency::Monthly),
        "YEARLY" => Ok(Frequency::Yearly),
        _ => Err(malformed(format!(
            "`FREQ={}` is unknown: use SECONDLY to YEARLY",
            quoted(value)
        ))),
    }
}

/// A number that must be there and above zero. One that is too large for any calendar is as good as the largest.
pub(super) fn positive(name: &str, value: &str) -> Result<i64, RuleError> {
    let digits = value.strip_prefix('+').unwrap_or(value);
    let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    let number = is_number.then(|| digits.parse().unwrap_or(i64::MAX));
    number
        .filter(|number| *number > 0)
        .ok_or_else(|| malformed(format!("`{name}={}` is not a number above 0", quoted(value))))
}

pub(super) fn numbers(name: &str, value: &str, range: RangeInclusive<u32>) -> Result<Numbers, RuleError> {
    let (least, most) = (*range.start(), *range.end());
    let read = |item: &str| {
        let number = item.trim().parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| {
            malformed(format!(
                "`{}` in {name} is not from {least} to {most}",
                quoted(item)
            ))
        })
    };
    value.split(',').map(read).collect()
}

/// Numbers from 1 to `most`, or from -1 to -`most`.
pub(super) fn positions(name: &str, value: &str, most: i32) -> Result<Positions, RuleError> {
    let mut positions = Positions::default();
    for item in value.split(',') {
        let number = item
            .trim()
            .parse()
            .ok()
            .filter(|number: &i32| *number != 0 && number.abs() <= most);
        positions.insert(number.ok_or_else(|| {
            malformed(format!(
                "`{}` in {name} is not from 1 to {most} or -{most} to -1",
                quoted(item)
            ))
        })?);
    }
    Ok(positions)
}

/// BYDAY; the number is 0 where there is none.
pub(super) fn numbered_weekdays(value: &str) -> Result<Vec<(i32, Weekday)>, RuleError> {
    let read = |item: &str| {
        let item = item.trim();
        let wrong = || {
            malformed(format!(
                "`{}` in BYDAY is not a weekday as `MO` or `-1MO`",
                quoted(item)
            ))
        };
        let at = item.find(|c: char| c.is_ascii_alphabetic()).ok_or_else(wrong)?;
        let (number, name) = item.split_at(at);
        let number = match number.trim() {
            "" => 0,
            text => {
                let number = text
                    .parse()
                    .ok()
                    .filter(|number: &i32| (1..=53).contains(&number.abs()));
                number.ok_or_else(wrong)?
            }
        };
        Ok((number, weekday("BYDAY", name)?))
    };
    value.split(',').map(read).collect()
}

pub(super) fn weekday(name: &str, value: &str) -> Result<Weekday, RuleError> {
    match value {
        "MO" => Ok(Weekday::Mon),
        "TU" => Ok(Weekday::Tue),
        "WE" => Ok(Weekday::Wed),
        "TH" => Ok(Weekday::Thu),
        "FR" => Ok(Weekday::Fri),
        "SA" => Ok(Weekday::Sat),
        "SU" => Ok(Weekday::Sun),
        _ => Err(malformed(format!(
            "`{}` in {name} is not a weekday: use MO to SU",
            quoted(value)
        ))),
    }
}

pub(super) fn until(value: &str) -> Result<UntilText, RuleError> {
    let (text, is_utc) = value
        .strip_suffix('Z')
        .map_or((value, false), |text| (text, true));
    let (date, time) = text
        .split_once('T')
        .map_or((text, None), |(date, time)| (date, Some(time)));
    let read = || {
        let day = NaiveDate::from_ymd_opt(
            digits(date, 0, 4)?.try_into().ok()?,
            digits(date, 4, 6)?,
            digits(date, 6, 8)?,
        )?;
        let Some(time) = time else {
            return (date.len() == 8).then_some(UntilText::Date(day));
        };
        let (hour, minute, second) = (digits(time, 0, 2)?, digits(time, 2, 4)?, digits(time, 4, 6)?);
        let leap_second_as_59 = if second == 60 { 59 } else { second };
        let local = day.and_hms_opt(hour, minute, leap_second_as_59)?;
        let until = if is_utc {
            UntilText::Utc(local)
        } else {
            UntilText::Local(local)
        };
        (date.len() == 8 && time.len() == 6).then_some(until)
    };
    read().ok_or_else(|| {
        malformed(format!(
            "`UNTIL={}` is no date or time: write it as `20261231T235959Z`",
            quoted(value)
        ))
    })
}

/// The number that a piece of a text is, if it is all digits.
fn digits(text: &str, from: usize, to: usize) -> Option<u32> {
    let piece = text.get(from..to)?;
    piece
        .bytes()
        .all(|b| b.is_ascii_digit())
        .then(|| piece.parse().ok())
        .flatten()
}

pub(super) fn malformed(message: impl Into<String>) -> RuleError {
    RuleError::Malformed(message.into())
}

/// A value in a message: no longer than it helps.
pub(super) fn quoted(value: &str) -> String {
    value.trim().chars().take(MAX_QUOTED).collect()
}
