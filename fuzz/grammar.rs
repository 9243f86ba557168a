//! Changes a calendar as calendars differ: by lines, values, components and copies of them.

use crate::values;
use crate::values::Dice;

/// Properties that decide about alarms.
const NAMES: [&str; 26] = [
    "DTSTART",
    "DTSTART",
    "DTEND",
    "DUE",
    "DURATION",
    "RRULE",
    "RRULE",
    "RDATE",
    "EXDATE",
    "RECURRENCE-ID",
    "TRIGGER",
    "TRIGGER",
    "REPEAT",
    "ACKNOWLEDGED",
    "STATUS",
    "COMPLETED",
    "METHOD",
    "ACTION",
    "UID",
    "ATTENDEE",
    "RELATED-TO",
    "SEQUENCE",
    "TZID",
    "TZOFFSETFROM",
    "TZOFFSETTO",
    "X-APPLE-PROXIMITY",
];

/// The most bytes that a change makes of a text.
const MOST: usize = 60_000;

/// The text with one to four changes.
pub fn changed(input: &[u8], dice: &mut Dice) -> Vec<u8> {
    let text = String::from_utf8_lossy(input);
    let mut parts: Vec<Vec<String>> = text.split('\0').map(split).collect();
    if dice.one_in(12) {
        parts.truncate(1);
        // The same calendar, about to be edited.
        parts.extend_from_within(..1);
    }
    let part = dice.below(parts.len());
    for _ in 0..=dice.below(4) {
        change(&mut parts[part], dice);
    }
    let texts: Vec<String> = parts.iter().map(|lines| lines.join("\n")).collect();
    let mut bytes = texts.join("\0").into_bytes();
    bytes.truncate(MOST);
    bytes
}

/// Some lines of one text among those of another.
pub fn crossed(one: &[u8], other: &[u8], dice: &mut Dice) -> Vec<u8> {
    let mut lines = split(&String::from_utf8_lossy(one));
    let others = split(&String::from_utf8_lossy(other));
    let at = dice.below(lines.len() + 1);
    let piece = if dice.one_in(2) {
        component(&others, dice)
    } else {
        let from = dice.below(others.len());
        let size = 1 + dice.below(6);
        others.into_iter().skip(from).take(size).collect()
    };
    lines.splice(at..at, piece);
    lines.join("\n").into_bytes()
}

fn split(text: &str) -> Vec<String> {
    text.split('\n')
        .map(|line| line.trim_end_matches('\r').to_owned())
        .collect()
}

fn change(lines: &mut Vec<String>, dice: &mut Dice) {
    let at = dice.below(lines.len());
    match dice.below(16) {
        0 => drop(lines.remove(at)),
        1 => lines.insert(at, lines[at].clone()),
        2 => {
            let other = dice.below(lines.len());
            lines.swap(at, other);
        }
        3..=5 => {
            let at = inside(lines, dice);
            lines.insert(at, line(dice));
        }
        6..=9 => redraw(lines, dice),
        10 | 11 => lines[at] = with_number(&lines[at], dice),
        12 => {
            let piece = component(lines, dice);
            let at = inside(lines, dice);
            lines.splice(at..at, piece);
        }
        13 => add_override(lines, dice),
        14 => add_alarm(lines, dice),
        _ => repeat(lines, at, dice),
    }
    if lines.is_empty() {
        *lines = split(&fresh(dice));
    }
}

fn line(dice: &mut Dice) -> String {
    let name = dice.of(&NAMES);
    format!("{name}{}", values::value(name, dice))
}

/// A place inside of a component: behind a BEGIN, mostly.
fn inside(lines: &[String], dice: &mut Dice) -> usize {
    let opened: Vec<usize> = (0..lines.len())
        .filter(|at| lines[*at].starts_with("BEGIN:V") && !lines[*at].ends_with("VCALENDAR"))
        .collect();
    if opened.is_empty() || dice.one_in(8) {
        return dice.below(lines.len() + 1);
    }
    dice.of(&opened) + 1
}

/// Another value for a property that is there.
fn redraw(lines: &mut [String], dice: &mut Dice) {
    let known: Vec<usize> = (0..lines.len())
        .filter(|at| NAMES.contains(&name(&lines[*at])))
        .collect();
    if known.is_empty() {
        return;
    }
    let at = dice.of(&known);
    let name = name(&lines[at]).to_owned();
    lines[at] = format!("{name}{}", values::value(&name, dice));
}

fn name(line: &str) -> &str {
    line.split([':', ';']).next().unwrap_or_default()
}

/// The line with one of its numbers changed.
fn with_number(line: &str, dice: &mut Dice) -> String {
    let starts: Vec<usize> = line
        .char_indices()
        .filter(|(at, c)| c.is_ascii_digit() && !line[..*at].ends_with(|c: char| c.is_ascii_digit()))
        .map(|(at, _)| at)
        .collect();
    if starts.is_empty() {
        return line.to_owned();
    }
    let start = dice.of(&starts);
    let rest = line[start..].trim_start_matches(|c: char| c.is_ascii_digit());
    let digits = line.len() - start - rest.len();
    let number = values::number(dice);
    // Dates and times keep their length, so that they stay what they are.
    let number = if digits >= 4 {
        format!(
            "{:0digits$}",
            number.unsigned_abs() % 10_u64.pow(digits.min(19) as u32)
        )
    } else {
        number.to_string()
    };
    format!("{}{number}{rest}", &line[..start])
}

/// The lines of a component, BEGIN to END.
fn component(lines: &[String], dice: &mut Dice) -> Vec<String> {
    let begins: Vec<usize> = (0..lines.len())
        .filter(|at| lines[*at].starts_with("BEGIN:V") && !lines[*at].ends_with("VCALENDAR"))
        .collect();
    if begins.is_empty() {
        return Vec::new();
    }
    let from = dice.of(&begins);
    let end = lines[from].replacen("BEGIN", "END", 1);
    let length = lines[from..].iter().position(|line| *line == end).unwrap_or(0);
    lines[from..=from + length].to_vec()
}

fn add_override(lines: &mut Vec<String>, dice: &mut Dice) {
    let mut piece = component(lines, dice);
    if piece.len() < 2 {
        return;
    }
    piece.retain(|line| !line.starts_with("RRULE"));
    piece.insert(
        1,
        format!("RECURRENCE-ID{}", values::value("RECURRENCE-ID", dice)),
    );
    if dice.one_in(2) {
        redraw(&mut piece, dice);
    }
    let end = lines.iter().rposition(|line| line == "END:VCALENDAR");
    let at = end.unwrap_or(lines.len());
    lines.splice(at..at, piece);
}

fn add_alarm(lines: &mut Vec<String>, dice: &mut Dice) {
    let mut piece = vec![
        "BEGIN:VALARM".to_owned(),
        format!("TRIGGER{}", values::trigger(dice)),
    ];
    piece.push(format!("ACTION{}", values::value("ACTION", dice)));
    if dice.one_in(2) {
        piece.push(format!("REPEAT:{}", dice.of(&[1, 2, 99, 100, 101])));
        piece.push(format!("DURATION:{}", values::duration(dice)));
    }
    if dice.one_in(3) {
        piece.push(format!("UID{}", values::value("UID", dice)));
    }
    piece.push("END:VALARM".to_owned());
    let at = inside(lines, dice);
    lines.splice(at..at, piece);
}

/// Many of one line, or a long list of its values.
fn repeat(lines: &mut Vec<String>, at: usize, dice: &mut Dice) {
    let times = dice.of(&[2, 10, 60, 500]);
    let line = lines[at].clone();
    if line.len() * times > MOST {
        return;
    }
    if let Some((head, values)) = line.split_once(':').filter(|_| dice.one_in(2)) {
        lines[at] = format!("{head}:{}", vec![values; times].join(","));
        return;
    }
    let copies: Vec<String> = (0..times).map(|_| with_number(&line, dice)).collect();
    lines.splice(at..at, copies);
}

/// A calendar to begin with.
fn fresh(dice: &mut Dice) -> String {
    format!(
        "BEGIN:VCALENDAR\nBEGIN:VEVENT\nUID:u\nDTSTART{}\nRRULE:{}\nBEGIN:VALARM\nACTION:EMAIL\nTRIGGER{}\n\
         END:VALARM\nEND:VEVENT\nEND:VCALENDAR",
        values::moment(dice),
        values::rule(dice),
        values::trigger(dice)
    )
}
