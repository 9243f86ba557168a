//! What will fire, when, and what will not and why: the answer to `carillon preview`, as a pure function of an
//! iCalendar text. With it a user settles an argument with their calendar.
//!
//! The alarms of all events are walked in order of time (`ahead`). Beside each of them walks what the event would fire
//! if nothing took firings out of it, so that an EXDATE, an override and an acknowledgement can be told with the instant
//! at which nothing comes. Every answer is found within a number of steps; one bad event never hides another.

mod ahead;
mod cases;
mod explain;
mod table;
mod words;

use std::collections::BTreeSet;
use std::collections::HashSet;

use chrono::DateTime;
use chrono::SecondsFormat;
use chrono::Utc;
use serde::Serialize;

use crate::calendar::ical;
use crate::calendar::ical::IcalError;
use crate::calendar::ical::Limits;
use crate::calendar::ical::Rejection;
use crate::calendar::zone::Zone;
use crate::preview::ahead::Ahead;
use crate::trigger::ChannelKind;
use crate::trigger::Recipient;
use crate::trigger::defaults::DefaultPolicy;
use crate::trigger::expand::Person;
use crate::trigger::expand::Why;
use crate::trigger::preferences::Display;
use crate::trigger::recipients::Recipients;

/// A file may be a whole calendar, not one object of it.
const LIMITS: Limits = Limits {
    bytes: 64 << 20,
    components: 200_000,
};

/// What to look at.
#[derive(Debug, Clone)]
pub struct Options {
    /// The owner, in whose zone floating and all-day times are understood.
    pub owner: Person,
    /// Firings before this instant are not listed.
    pub at: DateTime<Utc>,
    /// Firings after this instant are not listed.
    pub until: Option<DateTime<Utc>>,
    /// How many firings are listed at most.
    pub limit: usize,
    /// Up to how many alarms whose last firing is past are listed; where there are more, they are only counted.
    pub past: usize,
    /// What goes out; without it every ACTION does.
    pub carried: Option<Carried>,
    /// The alarms of events that have none of their own.
    pub defaults: DefaultPolicy,
    /// Whom alarms may write to beside the owner.
    pub recipients: Recipients,
    /// Only the events with these UIDs; all where there are none.
    pub uids: Vec<String>,
    /// Whether each firing is told step by step.
    pub is_explained: bool,
}

/// What goes out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Carried {
    /// Through which channel.
    pub by: ChannelKind,
    /// Whether DISPLAY and AUDIO alarms go out too, and not EMAIL alone.
    pub display: Display,
}

/// A firing, or something that will not fire. Instants are RFC 3339 in UTC.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Line {
    /// When it fires, or would.
    pub trigger_at: Option<String>,
    /// The occurrence, by its RECURRENCE-ID instant.
    pub occurrence: Option<String>,
    /// The UID of the event.
    pub uid: Option<String>,
    /// The identity of the alarm: the UID of the VALARM, else a hash of what it says.
    pub alarm: Option<String>,
    /// ACTION.
    pub action: Option<String>,
    /// Whom it is for: `owner`, or `address:` and another address.
    pub recipient: String,
    /// Why it will not fire, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skipped: Option<String>,
    /// Why it will not fire, by a name that stays the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<&'static str>,
    /// Later firings of the alarm do not fire either, for the same reason; they have no lines.
    #[serde(skip_serializing_if = "is_false")]
    pub further: bool,
    /// SUMMARY of the event, or of the override that speaks for the occurrence.
    pub summary: Option<String>,
    /// When the alarm goes off, in words.
    pub timing: Option<String>,
    /// 0 for the first firing, k for the k-th of its repeats.
    pub repeat: Option<u16>,
    /// How many repeats there are.
    pub repeats: Option<u16>,
    /// When the occurrence starts.
    pub starts_at: Option<String>,
    /// When it ends.
    pub ends_at: Option<String>,
    /// What else is to be known: a time that the clock skips or repeats.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// How the instant came about, step by step.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub explanation: Vec<String>,
    /// The file, where it came from one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    #[serde(skip)]
    at: Option<DateTime<Utc>>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands it over so")]
fn is_false(value: &bool) -> bool {
    !*value
}

impl Line {
    fn of(uid: Option<&str>) -> Self {
        Self {
            uid: uid.map(str::to_owned),
            recipient: Recipient::Owner.to_string(),
            ..Self::default()
        }
    }

    fn at(self, instant: DateTime<Utc>) -> Self {
        Self {
            trigger_at: Some(written(instant)),
            at: Some(instant),
            ..self
        }
    }

    fn because(self, why: Why, reason: impl Into<String>) -> Self {
        Self {
            skipped: Some(reason.into()),
            why: Some(why.as_str()),
            ..self
        }
    }

    /// What makes two firings one message: whoever holds an event in two calendars is reminded once.
    fn message(&self) -> [Option<String>; 6] {
        let repeat = self.repeat.map(|repeat| repeat.to_string());
        let (uid, alarm) = (self.uid.clone(), self.alarm.clone());
        let (at, occurrence) = (self.trigger_at.clone(), self.occurrence.clone());
        [at, occurrence, uid, alarm, repeat, Some(self.recipient.clone())]
    }
}

/// What will become of a text.
#[derive(Debug, Clone, Default)]
pub struct Preview {
    /// Firings, and what will not fire, in order of time; what has no time comes last.
    pub lines: Vec<Line>,
    /// Alarms whose last firing is past; none where there are more than were asked for.
    pub past: Vec<Line>,
    /// How many there are of them.
    pub past_alarms: usize,
    /// What follows beyond the limit.
    pub following: Following,
    /// Until when was looked.
    pub until: Option<DateTime<Utc>>,
    /// TZIDs that are no IANA names, and what they were taken for.
    pub zones: Vec<String>,
    /// What was read leniently or left out.
    pub warnings: Vec<String>,
    /// Components that cannot be understood; they are among the lines too.
    pub rejected: Vec<Rejection>,
    /// How many lines were in order last time: putting them in order with each file would take long for many files.
    settled: usize,
}

/// Firings beyond the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Following {
    /// When the first of them is; none where there are none.
    pub next_at: Option<DateTime<Utc>>,
    /// How many were counted.
    pub count: usize,
    /// Whether these are all until the end that was asked for.
    pub is_all: bool,
}

impl Preview {
    /// One JSON object a line.
    pub fn json(&self) -> String {
        self.lines
            .iter()
            .chain(&self.past)
            .map(|line| serde_json::to_string(line).unwrap_or_default() + "\n")
            .collect()
    }

    /// For people: local time in `zone`, and words.
    pub fn table(&self, zone: &Zone) -> String {
        table::of(self, zone)
    }

    /// Says which file it was made from.
    pub fn name(&mut self, source: &str) {
        for line in self.lines.iter_mut().chain(&mut self.past) {
            line.source = Some(source.to_owned());
        }
    }

    fn sources(&self) -> usize {
        let lines = self.lines.iter().chain(&self.past);
        let sources: HashSet<Option<&str>> = lines.map(|line| line.source.as_deref()).collect();
        sources.len()
    }

    /// Adds what another file of the same person will do; in the end [`Preview::settle`] makes one of all.
    pub fn add(&mut self, other: Self, options: &Options) {
        self.lines.extend(other.lines);
        self.past.extend(other.past);
        self.past_alarms += other.past_alarms;
        if self.past_alarms > options.past {
            self.past.clear();
        }
        self.following.add(other.following);
        self.until = other.until;
        let zones: BTreeSet<String> = self.zones.drain(..).chain(other.zones).collect();
        self.zones = zones.into_iter().collect();
        self.warnings.extend(other.warnings);
        self.rejected.extend(other.rejected);
        if self.lines.len() > 2 * (self.settled + options.limit) {
            self.settle(options);
        }
    }

    /// Puts what was added in order, and cuts it to the limit.
    pub fn settle(&mut self, options: &Options) {
        self.lines.sort_by_key(|line| (line.at.is_none(), line.at));
        self.send_once();
        self.cut(options.limit);
        self.settled = self.lines.len();
    }

    fn send_once(&mut self) {
        let mut sent: HashSet<[Option<String>; 6]> = HashSet::new();
        for line in &mut self.lines {
            if line.skipped.is_none() && !sent.insert(line.message()) {
                let copy = std::mem::take(line);
                let reason = "another copy of the event has the same alarm: one message is sent";
                *line = copy.because(Why::Copy, reason);
            }
        }
    }

    /// Cuts what fires after the last of `limit` firings, and what does not fire after it.
    fn cut(&mut self, limit: usize) {
        let firings = self.lines.iter().filter(|line| line.skipped.is_none());
        let Some(horizon) = firings
            .clone()
            .nth(limit.saturating_sub(1))
            .and_then(|line| line.at)
        else {
            return;
        };
        let beyond: Vec<DateTime<Utc>> = firings.skip(limit).filter_map(|line| line.at).collect();
        if beyond.is_empty() {
            return;
        }
        self.following.add(Following {
            next_at: beyond.first().copied(),
            count: beyond.len(),
            is_all: true,
        });
        let mut number = 0;
        self.lines.retain(|line| {
            number += usize::from(line.skipped.is_none());
            match line.skipped {
                None => number <= limit,
                Some(_) => line.at.is_none_or(|at| at <= horizon),
            }
        });
    }
}

impl Following {
    fn add(&mut self, other: Self) {
        self.is_all = match (self.next_at, other.next_at) {
            (Some(_), Some(_)) => self.is_all && other.is_all,
            (None, Some(_)) => other.is_all,
            (_, None) => self.is_all,
        };
        self.next_at = self.next_at.into_iter().chain(other.next_at).min();
        self.count += other.count;
    }
}

/// What the text will do for its owner from `options.at` on.
pub fn preview(text: &[u8], options: &Options) -> Result<Preview, IcalError> {
    watched(text, options, &mut |_, _| {})
}

/// As [`preview`]; `watch` is told how many of how many events have been looked at.
pub fn watched(
    text: &[u8],
    options: &Options,
    watch: &mut dyn FnMut(usize, usize),
) -> Result<Preview, IcalError> {
    let mut calendar = ical::parse_within(text, &LIMITS)?;
    if !options.uids.is_empty() {
        let is_meant = |uid: &str| options.uids.iter().any(|wanted| wanted == uid);
        calendar.events.retain(|event| is_meant(event.uid()));
        calendar
            .rejected
            .retain(|rejection| rejection.uid.as_deref().is_some_and(is_meant));
    }
    cases::complete(&mut calendar.events, &options.defaults);
    let told = cases::told(&calendar.events, options);
    let cases = cases::cases(&calendar.events, &told, options);
    let mut ahead = Ahead::new(&calendar, options);
    for (number, case) in cases.iter().enumerate() {
        watch(number, cases.len());
        ahead.add(case);
    }
    Ok(ahead.finish())
}

fn written(instant: DateTime<Utc>) -> String {
    instant.to_rfc3339_opts(SecondsFormat::Secs, true)
}

#[cfg(test)]
mod tests;
