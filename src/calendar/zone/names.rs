//! What a TZID means by its name.
//!
//! RFC 5545 leaves the names free, and every producer uses the freedom. The order is from the certain to the guessed: an
//! IANA name, an IANA name behind a vendor's prefix, a Windows name, a display name, a fixed offset.

use std::str::FromStr;

use calcard::common::timezone::Tz;

use crate::calendar::zone::Zone;

/// Windows names that calcard does not have, or maps to a place whose clocks have since left that zone.
const WINDOWS: [(&str, &str); 5] = [
    ("British Columbia Standard Time", "America/Vancouver"),
    // Almaty went to +05:00 in 2024, the Windows zone stays at +06:00.
    ("Central Asia Standard Time", "Asia/Bishkek"),
    ("Coordinated Universal Time", "UTC"),
    ("Kamchatka Standard Time", "Asia/Kamchatka"),
    ("South Sudan Standard Time", "Africa/Juba"),
];

/// Words that Windows names write in capitals.
const CAPITALS: [&str; 10] = ["AUS", "E.", "FLE", "GMT", "GTB", "N.", "SA", "SE", "US", "W."];

/// How long a TZID may be: the longest display names have some 70 characters.
const LONGEST: usize = 256;

pub(super) fn resolve(tzid: &str) -> Option<Zone> {
    let tzid = tzid.trim().trim_matches('"').trim();
    if tzid.is_empty() || tzid.len() > LONGEST {
        return None;
    }
    Zone::iana(tzid)
        .or_else(|| behind_prefix(tzid))
        .or_else(|| windows(tzid))
        .or_else(|| display_name(tzid))
        .or_else(|| offset(tzid).map(Zone::fixed))
}

/// `/softwarestudio.org/Olson_20011030_5/Europe/London`: the longest end that is an IANA name.
fn behind_prefix(tzid: &str) -> Option<Zone> {
    tzid.match_indices('/')
        .find_map(|(at, slash)| Zone::iana(&tzid[at + slash.len()..]))
}

/// `W. Europe Standard Time`, in any case.
fn windows(tzid: &str) -> Option<Zone> {
    if let Some((_, iana)) = WINDOWS.iter().find(|(name, _)| name.eq_ignore_ascii_case(tzid)) {
        return Zone::iana(iana);
    }
    if tzid.starts_with('(') {
        return None;
    }
    [tzid.to_owned(), in_title_case(tzid)].iter().find_map(|name| {
        let zone = from_calcard(name)?;
        // `Dateline Standard Time` really is Etc/GMT+12.
        (!is_bare_offset(&zone) || name.ends_with(" Standard Time")).then_some(zone)
    })
}

/// `(UTC+01:00) Amsterdam, Berlin, Bern, Rome, Stockholm, Vienna`. What calcard makes of the offset in front, where it
/// does not know the cities, is refused: a zone that has daylight saving time would lose it.
fn display_name(tzid: &str) -> Option<Zone> {
    let (_, cities) = tzid.strip_prefix('(')?.split_once(')')?;
    windows(cities.trim())
}

/// Asks calcard, and takes from it the name only: the rules are to be ours, which are newer.
fn from_calcard(name: &str) -> Option<Zone> {
    match Tz::from_str(name).ok()? {
        Tz::Tz(zone) => Zone::iana(zone.name()),
        Tz::Floating | Tz::Fixed(_) => None,
    }
}

fn is_bare_offset(zone: &Zone) -> bool {
    zone.name().starts_with("Etc/GMT") && zone.name().len() > "Etc/GMT".len()
}

/// `w. europe standard time` as Windows writes it.
fn in_title_case(name: &str) -> String {
    let words: Vec<String> = name.split(' ').map(word_in_title_case).collect();
    words.join(" ")
}

fn word_in_title_case(word: &str) -> String {
    let upper = word.to_ascii_uppercase();
    if CAPITALS.contains(&upper.as_str()) {
        return upper;
    }
    let mut rest = word.to_ascii_lowercase();
    if let Some(at) = rest.find(|c: char| c.is_ascii_alphabetic()) {
        rest[at..=at].make_ascii_uppercase();
    }
    rest
}

/// The seconds of `GMT+0200`, `UTC+1`, `UTC-03:30`, `+02:00`, `UTC`, `Z`.
fn offset(tzid: &str) -> Option<i32> {
    let upper = tzid.to_ascii_uppercase();
    let rest = ["UTC", "GMT", "Z"]
        .iter()
        .find_map(|prefix| upper.strip_prefix(prefix))
        .unwrap_or(&upper)
        .trim();
    if rest.is_empty() {
        return Some(0);
    }
    let sign = match rest.chars().next()? {
        '+' => 1,
        '-' => -1,
        _ => return None,
    };
    let (hours, minutes) = hours_and_minutes(rest[1..].trim())?;
    (hours <= 14 && minutes <= 59).then_some(sign * (hours * 3600 + minutes * 60))
}

/// `2`, `02`, `0200`, `2:00`, `02.00`.
fn hours_and_minutes(digits: &str) -> Option<(i32, i32)> {
    let (hours, minutes) = match digits.split_once([':', '.']) {
        Some((hours, minutes)) if minutes.len() == 2 => (hours, minutes),
        Some(_) => return None,
        None if digits.len() == 4 && digits.is_ascii() => digits.split_at(2),
        None => (digits, "0"),
    };
    let is_number = |text: &str| (1..=2).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    (is_number(hours) && is_number(minutes)).then_some(())?;
    Some((hours.parse().ok()?, minutes.parse().ok()?))
}
