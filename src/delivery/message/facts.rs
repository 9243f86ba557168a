//! What there is to say, without words.

use chrono::DateTime;
use chrono::Datelike;
use chrono::NaiveDate;
use chrono::NaiveDateTime;
use chrono::TimeDelta;
use chrono::Timelike;
use chrono::Utc;
use unicode_segmentation::UnicodeSegmentation;

use crate::calendar::event::Occurrence;
use crate::calendar::event::When;
use crate::calendar::zone::Zone;
use crate::delivery::message::Reminder;
use crate::delivery::message::direction::steers;
use crate::delivery::message::relative::Relative;
use crate::trigger::answers::Act;
use crate::trigger::answers::Wait;

/// Characters of a description that are shown.
const MAX_DESCRIPTION: usize = 2_000;

/// Characters of a title, a place or a name that are shown.
const MAX_LINE: usize = 200;

/// Bytes of a link; browsers take no more in earnest.
const MAX_LINK: usize = 2_000;

/// From here on a message says that it is late.
pub(super) const LATE_AFTER: TimeDelta = TimeDelta::minutes(5);

/// All that a message can say.
#[derive(Debug)]
pub(super) struct Facts {
    /// One line; empty if the event has no title.
    pub(super) title: String,
    pub(super) is_task: bool,
    /// Whether others must not read it over somebody's shoulder.
    pub(super) is_private: bool,
    pub(super) relative: Relative,
    /// Why it is said now.
    pub(super) occasion: Occasion,
    /// In the recipient's zone.
    pub(super) when: Range,
    /// In the event's own zone, where that differs.
    pub(super) event_when: Option<Range>,
    pub(super) location: String,
    /// http or https.
    pub(super) link: Option<String>,
    pub(super) organizer: Option<String>,
    /// PARTSTAT in upper case.
    pub(super) my_status: Option<String>,
    /// Lines, at most 2,000 characters.
    pub(super) description: String,
    /// Whether the description goes on in the calendar.
    pub(super) description_is_cut: bool,
    pub(super) notes: Vec<String>,
    pub(super) trigger_id: String,
    /// How it can be answered, each with its link.
    pub(super) answers: Vec<(Act, String)>,
}

/// Why a message says what it says now.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Occasion {
    /// It is due.
    Due,
    /// It was due then, and is late.
    Late(Moment),
    /// The event was moved past its alarms.
    Moved,
}

impl Occasion {
    fn of(reminder: &Reminder<'_>) -> Self {
        if reminder.moved {
            Self::Moved
        } else if reminder.now - reminder.trigger_at > LATE_AFTER {
            Self::Late(Moment::at(reminder.zone.to_local(reminder.trigger_at)))
        } else {
            Self::Due
        }
    }
}

impl Facts {
    pub(super) fn of(reminder: &Reminder<'_>) -> Self {
        let Reminder { occurrence, zone, .. } = reminder;
        let description = lines(&occurrence.description);
        let shown = cut(&description, MAX_DESCRIPTION);
        Self {
            title: line(&occurrence.summary),
            is_task: occurrence.is_task,
            is_private: occurrence.is_private,
            relative: relative(reminder),
            occasion: Occasion::of(reminder),
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
            trigger_id: reminder.trigger.to_string(),
            answers: reminder
                .answer
                .map(|link| answers(link, occurrence.when.start() > reminder.now))
                .unwrap_or_default(),
        }
    }
}

impl Facts {
    /// Facts of every kind, for a rehearsal: an event at a time of day, one of whole days, and a task.
    pub(super) fn samples() -> [Self; 3] {
        let (start, end) = (DateTime::UNIX_EPOCH, DateTime::UNIX_EPOCH + TimeDelta::hours(1));
        let late = || Occasion::Late(Moment::at(start.naive_utc()));
        let timed = Range::of(&When::Timed { start, end }, &Zone::utc());
        let (first, last) = (start.date_naive(), start.date_naive() + TimeDelta::days(1));
        let whole_days = Range::of(
            &When::AllDay {
                first,
                last,
                start,
                end,
            },
            &Zone::utc(),
        );
        [
            Self::sample(
                timed.clone(),
                Relative::timed(end, end, start),
                Occasion::Moved,
                false,
            ),
            Self::sample(whole_days, Relative::all_day(last, last, first), late(), false),
            Self::sample(timed, Relative::timed(start, end, start), Occasion::Moved, true),
        ]
    }

    fn sample(when: Range, relative: Relative, occasion: Occasion, is_task: bool) -> Self {
        let text = || "sample".to_owned();
        Self {
            title: text(),
            is_task,
            is_private: false,
            relative,
            occasion,
            event_when: Some(when.clone()),
            when,
            location: text(),
            link: Some("https://example.org/".to_owned()),
            organizer: Some(text()),
            my_status: Some("ACCEPTED".to_owned()),
            description: text(),
            description_is_cut: true,
            notes: vec![text()],
            trigger_id: text(),
            answers: answers("https://example.org/", true),
        }
    }
}

/// A point of a calendar, in numbers: the words name the days and months.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Moment {
    pub(super) year: i32,
    /// 1 to 12.
    pub(super) month: u32,
    pub(super) day: u32,
    /// `mon` to `sun`.
    pub(super) weekday: &'static str,
    /// Hour and minute; none for a whole day.
    pub(super) time: Option<(u32, u32)>,
}

impl Moment {
    pub(super) fn at(local: NaiveDateTime) -> Self {
        Self {
            time: Some((local.hour(), local.minute())),
            ..Self::on(local.date())
        }
    }

    fn on(date: NaiveDate) -> Self {
        let weekdays = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
        let index = date.weekday().num_days_from_monday() as usize;
        Self {
            year: date.year(),
            month: date.month(),
            day: date.day(),
            weekday: weekdays[index],
            time: None,
        }
    }
}

/// From when until when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) first: Moment,
    pub(super) last: Moment,
    /// Whether both are on the same day.
    pub(super) is_one_day: bool,
    /// Whether there is no duration.
    pub(super) is_point: bool,
    /// `Europe/Berlin, UTC+1`; none for whole days, which are the same everywhere.
    pub(super) zone: Option<String>,
}

impl Range {
    /// Whether it is not about whole days.
    pub(super) fn is_timed(&self) -> bool {
        self.first.time.is_some()
    }

    pub(super) fn of(when: &When, zone: &Zone) -> Self {
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

/// What can be answered: to wait for the start makes sense before it. What is off is turned on again on the page.
fn answers(link: &str, is_ahead: bool) -> Vec<(Act, String)> {
    Act::ALL
        .into_iter()
        .filter(|act| *act != Act::Unmute && (is_ahead || *act != Act::Snooze(Wait::UntilStart)))
        .map(|act| (act, format!("{link}?act={}", act.as_str())))
        .collect()
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

/// One line of at most [`MAX_LINE`] characters, without control characters, those of direction included: a line is
/// isolated as a whole.
pub(super) fn line(text: &str) -> String {
    let is_break = |c: char| c.is_whitespace() || c.is_control();
    let text = text.replace(steers, "");
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

/// So many characters at the most, without dividing a grapheme.
fn cut(text: &str, characters: usize) -> &str {
    let (mut end, mut count) = (0, 0);
    for (at, grapheme) in text.grapheme_indices(true) {
        count += grapheme.chars().count();
        if count > characters {
            break;
        }
        end = at + grapheme.len();
    }
    &text[..end]
}
