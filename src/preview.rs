//! What will fire, when, and what will not and why: the answer to `carillon preview`, as a pure function of an
//! iCalendar text. With it a user settles an argument with their calendar.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt::Write;

use chrono::DateTime;
use chrono::SecondsFormat;
use chrono::Utc;
use serde::Serialize;

use crate::calendar::event::Event;
use crate::calendar::ical;
use crate::calendar::ical::Calendar;
use crate::calendar::ical::IcalError;
use crate::calendar::ical::Limits;
use crate::calendar::ical::Rejection;
use crate::calendar::recurrence::Budget;
use crate::calendar::zone::Zone;
use crate::trigger::ChannelKind;
use crate::trigger::Place;
use crate::trigger::Recipient;
use crate::trigger::expand;
use crate::trigger::expand::EventAlarm;
use crate::trigger::expand::Person;
use crate::trigger::expand::Refusal;

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
    /// Whether only what goes out through this channel fires; without it every ACTION does.
    pub channel: Option<ChannelKind>,
}

/// A firing, or something that will not fire.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Line {
    /// When it fires, or would.
    pub trigger_at: Option<String>,
    /// The occurrence, by its RECURRENCE-ID instant.
    pub occurrence: Option<String>,
    /// The UID of the event.
    pub uid: Option<String>,
    /// The identity of the alarm.
    pub alarm: Option<String>,
    /// ACTION.
    pub action: Option<String>,
    /// Whom it is for.
    pub recipient: String,
    /// Why it will not fire.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skipped: Option<String>,
}

/// What will become of a text.
#[derive(Debug, Clone)]
pub struct Preview {
    /// Firings, and what will not fire, in order of time; what has no time comes last.
    pub lines: Vec<Line>,
    /// What was read leniently or left out.
    pub warnings: Vec<String>,
    /// Components that cannot be understood; they are among the lines too.
    pub rejected: Vec<Rejection>,
}

impl Preview {
    /// One JSON object a line.
    pub fn json(&self) -> String {
        self.lines
            .iter()
            .map(|line| serde_json::to_string(line).unwrap_or_default() + "\n")
            .collect()
    }

    /// For people: local time in `zone`, and words.
    pub fn table(&self, zone: &Zone) -> String {
        let mut table = format!("{:<22}{:<10}{:<22}{}\n", "FIRES", "ACTION", "OCCURRENCE", "EVENT");
        for line in &self.lines {
            let fires = local(line.trigger_at.as_deref(), zone);
            let occurrence = local(line.occurrence.as_deref(), zone);
            let action = line.action.as_deref().unwrap_or("-");
            let uid = line.uid.as_deref().unwrap_or("-");
            let reason = line
                .skipped
                .as_ref()
                .map_or(String::new(), |reason| format!("  not sent: {reason}"));
            writeln!(table, "{fires:<22}{action:<10}{occurrence:<22}{uid}{reason}")
                .expect("a string takes everything");
        }
        for warning in &self.warnings {
            writeln!(table, "warning: {warning}").expect("a string takes everything");
        }
        let name = zone.name();
        table + &format!("times are those of {name}\n")
    }
}

/// What the text will do for its owner from `options.at` on.
pub fn preview(text: &[u8], options: &Options) -> Result<Preview, IcalError> {
    let calendar = ical::parse_within(text, &LIMITS)?;
    let mut ahead = Ahead {
        options,
        timed: Vec::new(),
        timeless: rejected(&calendar),
        queue: BinaryHeap::new(),
        sources: Vec::new(),
    };
    for event in &calendar.events {
        ahead.add(event);
    }
    ahead.list();
    ahead.timed.sort_by_key(|(at, _)| *at);
    let timed = ahead.timed.into_iter().map(|(_, line)| line);
    Ok(Preview {
        lines: timed.chain(ahead.timeless).collect(),
        warnings: calendar.warnings,
        rejected: calendar.rejected,
    })
}

/// The sequences of all alarms, merged.
struct Ahead<'a> {
    options: &'a Options,
    timed: Vec<(DateTime<Utc>, Line)>,
    timeless: Vec<Line>,
    queue: BinaryHeap<Reverse<(Place, usize)>>,
    sources: Vec<(&'a Event, EventAlarm)>,
}

impl<'a> Ahead<'a> {
    fn add(&mut self, event: &'a Event) {
        let (alarms, refusals) = expand::alarms(event, &self.options.owner);
        for refusal in refusals {
            self.refuse(event, &refusal);
        }
        for alarm in event
            .components()
            .iter()
            .flat_map(|component| &component.unreadable)
        {
            self.timeless.push(Line {
                alarm: alarm.identity.clone(),
                action: alarm.action.clone(),
                ..skipped(
                    Some(event.uid()),
                    &format!("VALARM, line {}: {}", alarm.line, alarm.reason),
                )
            });
        }
        for alarm in alarms {
            self.sources.push((event, alarm));
            self.advance(self.sources.len() - 1, &Place::just_before(self.options.at));
        }
    }

    /// A firing that is past is not worth a line, and neither is the reason why it was none.
    fn refuse(&mut self, event: &Event, refusal: &Refusal) {
        let owner = &self.options.owner;
        let place = expand::silenced(event, owner, refusal, &Place::just_before(self.options.at));
        let occurrence = place.map(|place| place.occurrence).or(refusal.occurrence);
        let time = place.map(|place| place.trigger_at).or(refusal.occurrence);
        let line = Line {
            trigger_at: place.map(|place| written(place.trigger_at)),
            occurrence: occurrence.map(written),
            alarm: refusal.identity.as_ref().map(ToString::to_string),
            action: refusal.action.clone(),
            ..skipped(Some(event.uid()), &refusal.reason)
        };
        match time {
            Some(time) if time <= self.options.at || self.is_beyond(time) => {}
            Some(time) => self.timed.push((time, line)),
            None => self.timeless.push(line),
        }
    }

    fn is_beyond(&self, time: DateTime<Utc>) -> bool {
        self.options.until.is_some_and(|until| until < time)
    }

    fn advance(&mut self, source: usize, after: &Place) {
        let (event, alarm) = &self.sources[source];
        match expand::next(
            event,
            &self.options.owner,
            &alarm.identity,
            after,
            &mut Budget::default(),
        ) {
            Ok(Some(firing)) => self.queue.push(Reverse((firing.place, source))),
            Ok(None) => {}
            Err(error) => {
                let line = Line {
                    alarm: Some(alarm.identity.to_string()),
                    action: Some(alarm.action.clone()),
                    ..skipped(Some(event.uid()), &error.to_string())
                };
                self.timeless.push(line);
            }
        }
    }

    /// Takes the earliest firing of all, as often as is asked for. What the channel does not carry is listed, but does
    /// not count.
    fn list(&mut self) {
        let mut listed = 0;
        while listed < self.options.limit {
            let Some(Reverse((place, source))) = self.queue.pop() else {
                break;
            };
            if self.is_beyond(place.trigger_at) {
                break;
            }
            let (event, alarm) = &self.sources[source];
            let skipped = not_carried(self.options.channel, &alarm.action);
            let is_carried = skipped.is_none();
            let line = Line {
                trigger_at: Some(written(place.trigger_at)),
                occurrence: Some(written(place.occurrence)),
                uid: Some(event.uid().to_owned()),
                alarm: Some(alarm.identity.to_string()),
                action: Some(alarm.action.clone()),
                recipient: Recipient::Owner.to_string(),
                skipped,
            };
            self.timed.push((place.trigger_at, line));
            if is_carried {
                listed += 1;
                self.advance(source, &place);
            }
        }
    }
}

fn not_carried(channel: Option<ChannelKind>, action: &str) -> Option<String> {
    let channel = channel?;
    (action != "EMAIL").then(|| format!("ACTION:{action} is for the person's own client, not for {channel}"))
}

fn rejected(calendar: &Calendar) -> Vec<Line> {
    calendar
        .rejected
        .iter()
        .map(|rejection| {
            let (component, line, reason) = (&rejection.component, rejection.line, &rejection.reason);
            skipped(
                rejection.uid.as_deref(),
                &format!("{component}, line {line}: {reason}"),
            )
        })
        .collect()
}

fn skipped(uid: Option<&str>, reason: &str) -> Line {
    Line {
        trigger_at: None,
        occurrence: None,
        uid: uid.map(str::to_owned),
        alarm: None,
        action: None,
        recipient: Recipient::Owner.to_string(),
        skipped: Some(reason.to_owned()),
    }
}

fn written(instant: DateTime<Utc>) -> String {
    instant.to_rfc3339_opts(SecondsFormat::Secs, true)
}

fn local(instant: Option<&str>, zone: &Zone) -> String {
    instant
        .and_then(|text| DateTime::parse_from_rfc3339(text).ok())
        .map_or("-".to_owned(), |instant| {
            zone.to_local(instant.to_utc())
                .format("%a %Y-%m-%d %H:%M")
                .to_string()
        })
}

#[cfg(test)]
mod tests;
