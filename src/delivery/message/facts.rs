//! What there is to say, without words: what the templates are given.

use chrono::DateTime;
use chrono::Datelike;
use chrono::NaiveDate;
use chrono::NaiveDateTime;
use chrono::TimeDelta;
use chrono::Timelike;
use chrono::Utc;
use serde::Serialize;

use crate::calendar::event::Occurrence;
use crate::calendar::event::When;
use crate::calendar::zone::Zone;
use crate::delivery::message::Reminder;
use crate::delivery::message::relative::Relative;

/// Characters of a description that are shown.
const MAX_DESCRIPTION: usize = 2_000;

/// Characters of a title, a place or a name that are shown.
const MAX_LINE: usize = 200;

/// Bytes of a link; browsers take no more in earnest.
const MAX_LINK: usize = 2_000;

/// From here on a message says that it is late.
const LATE_AFTER: TimeDelta = TimeDelta::minutes(5);

/// All that a template can say.
#[derive(Debug, Serialize)]
pub(super) struct Facts {
    /// One line; empty if the event has no title.
    title: String,
    is_task: bool,
    relative: Relative,
    /// In the recipient's zone.
    when: Range,
    /// In the event's own zone, where that differs.
    event_when: Option<Range>,
    location: String,
    /// http or https.
    link: Option<String>,
    organizer: Option<String>,
    /// PARTSTAT in upper case.
    my_status: Option<String>,
    /// Lines, at most 2,000 characters.
    description: String,
    /// Whether the description goes on in the calendar.
    description_is_cut: bool,
    notes: Vec<String>,
    /// When the reminder was due, if it is late.
    due: Option<Moment>,
    trigger_id: String,
}

impl Facts {
    pub(super) fn of(reminder: &Reminder<'_>) -> Self {
        let Reminder { occurrence, zone, .. } = reminder;
        let description = lines(&occurrence.description);
        let shown = cut(&description, MAX_DESCRIPTION);
        Self {
            title: line(&occurrence.summary),
            is_task: occurrence.is_task,
            relative: relative(reminder),
            when: Range::of(&occurrence.when, zone),
            event_when: event_range(occurrence, zone),
            location: line(&occurrence.location),
            link: occurrence
                .link
                .as_deref()
                .filter(|link| is_web(link))
                .map(str::to_owned),
            organizer: occurrence
                .organizer
                .as_deref()
                .map(line)
                .filter(|name| !name.is_empty()),
            my_status: occurrence.my_status.as_deref().map(line),
            description_is_cut: shown.len() < description.len(),
            description: shown.to_owned(),
            notes: reminder.notes.iter().map(|note| line(note)).collect(),
            due: (reminder.now - reminder.trigger_at > LATE_AFTER)
                .then(|| Moment::at(zone.to_local(reminder.trigger_at))),
            trigger_id: reminder.trigger.to_string(),
        }
    }
}

impl Facts {
    /// Facts of every kind, for a rehearsal.
    pub(super) fn sample() -> Self {
        let range = || {
            Range::of(
                &When::Timed {
                    start: DateTime::UNIX_EPOCH,
                    end: DateTime::UNIX_EPOCH + TimeDelta::hours(1),
                },
                &Zone::utc(),
            )
        };
        let text = || "sample".to_owned();
        Self {
            title: text(),
            is_task: false,
            relative: Relative::timed(DateTime::UNIX_EPOCH, DateTime::UNIX_EPOCH, DateTime::UNIX_EPOCH),
            when: range(),
            event_when: Some(range()),
            location: text(),
            link: Some("https://example.org/".to_owned()),
            organizer: Some(text()),
            my_status: Some("ACCEPTED".to_owned()),
            description: text(),
            description_is_cut: true,
            notes: vec![text()],
            due: Some(Moment::at(DateTime::UNIX_EPOCH.naive_utc())),
            trigger_id: text(),
        }
    }
}

/// A point of a calendar, in numbers: the templates name the days and months.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Moment {
    year: i32,
    /// 1 to 12.
    month: u32,
    day: u32,
    /// 0 is Monday.
    weekday: u32,
    /// `09:30`; none for a whole day.
    time: Option<String>,
}

impl Moment {
    fn at(local: NaiveDateTime) -> Self {
        Self {
            time: Some(format!("{:02}:{:02}", local.hour(), local.minute())),
            ..Self::on(local.date())
        }
    }

    fn on(date: NaiveDate) -> Self {
        Self {
            year: date.year(),
            month: date.month(),
            day: date.day(),
            weekday: date.weekday().num_days_from_monday(),
            time: None,
        }
    }
}

/// From when until when.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Range {
    first: Moment,
    last: Moment,
    /// Whether both are on the same day.
    is_one_day: bool,
    /// Whether there is no duration.
    is_point: bool,
    /// `Europe/Berlin, UTC+1`; none for whole days, which are the same everywhere.
    zone: Option<String>,
}

impl Range {
    fn of(when: &When, zone: &Zone) -> Self {
        match when {
            When::Timed { start, end } => {
                let (first, last) = (zone.to_local(*start), zone.to_local(*end));
                Self {
                    is_one_day: first.date() == last.date(),
                    is_point: start >= end,
                    first: Moment::at(first),
                    last: Moment::at(last),
                    zone: Some(zone_label(zone, *start)),
                }
            }
            When::AllDay { first, last, .. } => Self {
                is_one_day: first >= last,
                is_point: false,
                first: Moment::on(*first),
                last: Moment::on(*last),
                zone: None,
            },
        }
    }
}

/// A task is about the moment it is due, everything else about when it begins.
fn relative(reminder: &Reminder<'_>) -> Relative {
    let is_task = reminder.occurrence.is_task;
    match reminder.occurrence.when {
        When::Timed { end, .. } if is_task => Relative::timed(end, end, reminder.now),
        When::Timed { start, end } => Relative::timed(start, end, reminder.now),
        When::AllDay { first, last, .. } => {
            let today = reminder.zone.to_local(reminder.now).date();
            Relative::all_day(if is_task { last } else { first }, last, today)
        }
    }
}

fn event_range(occurrence: &Occurrence, zone: &Zone) -> Option<Range> {
    let When::Timed { start, end } = occurrence.when else {
        return None;
    };
    let own = occurrence.zone.as_ref()?;
    // Berlin and Paris show the same; saying it twice would only puzzle.
    let differs = [start, end]
        .iter()
        .any(|instant| own.to_local(*instant) != zone.to_local(*instant));
    differs.then(|| Range::of(&occurrence.when, own))
}

/// The name and what it means on that day.
fn zone_label(zone: &Zone, instant: DateTime<Utc>) -> String {
    let name = zone.name();
    if name.starts_with("UTC") {
        return name.to_owned();
    }
    let minutes = (zone.to_local(instant) - instant.naive_utc()).num_minutes();
    let sign = if minutes < 0 { '-' } else { '+' };
    let (hours, minutes) = (minutes.abs() / 60, minutes.abs() % 60);
    let minutes = if minutes == 0 {
        String::new()
    } else {
        format!(":{minutes:02}")
    };
    format!("{}, UTC{sign}{hours}{minutes}", line(name))
}

/// Whether it is a link that may be followed.
pub(super) fn is_web(link: &str) -> bool {
    let scheme = link.split_once("://").map(|(scheme, _)| scheme);
    scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https"))
        && !link.contains(|c: char| c.is_whitespace() || c.is_control())
        && link.len() <= MAX_LINK
}

/// One line of at most [`MAX_LINE`] characters, without control characters.
fn line(text: &str) -> String {
    let is_break = |c: char| c.is_whitespace() || c.is_control();
    let words: Vec<_> = text.split(is_break).filter(|word| !word.is_empty()).collect();
    let joined = words.join(" ");
    let shown = cut(&joined, MAX_LINE);
    if shown.len() < joined.len() {
        format!("{shown}…")
    } else {
        joined
    }
}

/// Lines without control characters, and without empty ones at either end.
fn lines(text: &str) -> String {
    let kept: String = text
        .chars()
        .filter(|c| !c.is_control() || matches!(c, '\n' | '\t'))
        .collect();
    kept.trim().to_owned()
}

fn cut(text: &str, characters: usize) -> &str {
    text.char_indices()
        .nth(characters)
        .map_or(text, |(end, _)| &text[..end])
}
