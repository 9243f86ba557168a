//! From an event to its firings. Pure and bounded.
//!
//! The firings of one alarm identity form a sequence ordered by [`Place`]; the only questions are "what is the first
//! place after this one?" and "does the event still owe this place?".

mod appearance;
mod instance;
mod outlook;
mod overrides;
mod search;
mod series;
mod slots;
mod unhindered;
mod voices;
mod why;

#[cfg(test)]
mod tests;

use std::collections::HashSet;

use chrono::DateTime;
use chrono::TimeDelta;
use chrono::Utc;

use crate::calendar::alarm::AlarmTrigger;
use crate::calendar::event::Event;
use crate::calendar::event::Occurrence;
use crate::calendar::recurrence::Budget;
use crate::calendar::zone::Zone;
use crate::trigger::AlarmIdentity;
use crate::trigger::Place;
use crate::trigger::expand::search::Search;
use crate::trigger::expand::series::Series;
use crate::trigger::expand::voices::Role;
use crate::trigger::expand::voices::Voice;

pub use crate::trigger::expand::outlook::Account;
pub use crate::trigger::expand::outlook::Outlook;
pub use crate::trigger::expand::outlook::Speaker;
pub use crate::trigger::expand::unhindered::unacknowledged;
pub use crate::trigger::expand::unhindered::undisturbed;
pub use crate::trigger::expand::why::Refused;
pub use crate::trigger::expand::why::Why;

/// How many dates, overrides and alarms of an event are sorted anew for one step of the budget. An event that is large in
/// all three is so given up within a second or so, while one with many overrides, each with an alarm of its own, is not.
const READ_A_STEP: u32 = 16;

/// The person for whom an event is read.
#[derive(Debug, Clone)]
pub struct Person {
    /// Where floating and all-day times are understood.
    pub zone: Zone,
    /// Their addresses, without `mailto:`; their own ATTENDEE is found by any of them.
    pub addresses: Vec<String>,
    /// What alarms mean where the standards leave a choice.
    pub choices: Choices,
}

/// What alarms mean where the standards leave a choice; nothing of it is chosen by default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Choices {
    /// What the person declined has its alarms all the same.
    pub with_declined: bool,
    /// So has what the person delegated to somebody else.
    pub with_delegated: bool,
    /// A task that has no DTSTART starts when it is due, for alarms that are related to its start.
    pub due_is_start: bool,
}

/// An alarm of an event, merged over master and overrides by its identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventAlarm {
    /// Its identity.
    pub identity: AlarmIdentity,
    /// ACTION, upper case: `EMAIL`, `DISPLAY`, `AUDIO` or another name.
    pub action: String,
}

/// An alarm that will not fire, with the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Its identity, where it could be formed.
    pub identity: Option<AlarmIdentity>,
    /// ACTION, upper case, where there is one.
    pub action: Option<String>,
    /// The instance it concerns, for an override; none for all.
    pub occurrence: Option<DateTime<Utc>>,
    /// Why, by its name.
    pub why: Why,
    /// Why, naming the value.
    pub reason: String,
}

impl Refusal {
    /// The event as a whole cannot be followed.
    fn of_event(reason: String) -> Self {
        Self {
            identity: None,
            action: None,
            occurrence: None,
            why: Why::RuleUnreadable,
            reason,
        }
    }
}

/// A firing of an alarm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Firing {
    /// Its place in the sequence.
    pub place: Place,
    /// When the occurrence starts.
    pub starts_at: DateTime<Utc>,
    /// When the occurrence ends.
    pub ends_at: DateTime<Utc>,
    /// False only where no firing of this alarm can follow.
    pub has_more: bool,
}

/// Why the next firing is not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct GaveUp(pub String);

/// The alarms of an event that can fire for this person, each once, and those that will not, with the reason.
pub fn alarms(event: &Event, person: &Person) -> (Vec<EventAlarm>, Vec<Refusal>) {
    let series = match Series::new(event, person) {
        Ok(series) => series,
        Err(GaveUp(reason)) => return (Vec::new(), vec![Refusal::of_event(reason)]),
    };
    alarms_of(&series, &voices::all(&series, person))
}

fn alarms_of(series: &Series<'_>, voices: &[Voice<'_>]) -> (Vec<EventAlarm>, Vec<Refusal>) {
    let mut known: HashSet<&str> = HashSet::new();
    let heard: Vec<EventAlarm> = voices
        .iter()
        .filter(|voice| voice.refused.is_none() && known.insert(&voice.alarm.identity))
        .map(|voice| EventAlarm {
            identity: voice.identity(),
            action: voice.alarm.action.clone(),
        })
        .collect();
    let mut refusals: Vec<Refusal> = voices.iter().filter_map(|voice| voice.refusal(series)).collect();
    refusals.extend(dropped(series, &heard));
    (heard, refusals)
}

/// Alarms of the master that an override leaves out: it replaces its instance whole (RFC 5545 section 3.8.4.4).
fn dropped(series: &Series<'_>, heard: &[EventAlarm]) -> Vec<Refusal> {
    let silent = series
        .singles
        .iter()
        .filter(|(_, component)| component.alarms.is_empty());
    let mut refusals = Vec::new();
    for (occurrence, _) in silent {
        let master = series
            .segment_of(*occurrence)
            .map_or(&[][..], |segment| &segment.component.alarms);
        let identities: HashSet<&str> = master.iter().map(|alarm| alarm.identity.as_str()).collect();
        refusals.extend(
            heard
                .iter()
                .filter(|alarm| identities.contains(alarm.identity.0.as_str()))
                .map(|alarm| Refusal {
                    identity: Some(alarm.identity.clone()),
                    action: Some(alarm.action.clone()),
                    occurrence: Some(*occurrence),
                    why: Why::OverrideWithoutAlarm,
                    reason: "the override of this instance has no alarm".to_owned(),
                }),
        );
    }
    refusals
}

/// The first firing of `identity` strictly after `after`, found within `budget`.
pub fn next(
    event: &Event,
    person: &Person,
    identity: &AlarmIdentity,
    after: &Place,
    budget: &mut Budget,
) -> Result<Option<Firing>, GaveUp> {
    let series = Series::new(event, person)?;
    let voices = voices::all(&series, person);
    let size = u32::try_from(series.size() + voices.len()).unwrap_or(u32::MAX);
    budget
        .charge(size / READ_A_STEP)
        .map_err(|error| GaveUp(error.to_string()))?;
    next_of(&series, &voices, identity, after, budget)
}

fn next_of(
    series: &Series<'_>,
    voices: &[Voice<'_>],
    identity: &AlarmIdentity,
    after: &Place,
    budget: &mut Budget,
) -> Result<Option<Firing>, GaveUp> {
    let heard: Vec<&Voice<'_>> = voices
        .iter()
        .filter(|voice| voice.refused.is_none() && voice.alarm.identity == identity.0)
        .collect();
    let found = Search::new(series, after)
        .run(&heard, budget)
        .map_err(|error| GaveUp(error.to_string()))?;
    Ok(found.map(|hit| Firing {
        has_more: is_endless(series, &heard) || has_more(series, &heard, &hit.place, budget),
        place: hit.place,
        starts_at: hit.starts_at,
        ends_at: hit.ends_at,
    }))
}

/// Whether a rule without an end speaks through an alarm: then there is no need to look.
fn is_endless(series: &Series<'_>, heard: &[&Voice<'_>]) -> bool {
    series.rules.iter().any(|rule| !rule.is_finite())
        && heard.iter().any(|voice| {
            let is_relative = matches!(voice.alarm.trigger, AlarmTrigger::Relative { .. });
            let lasts = |index: usize| series.segments[index].until.is_none();
            is_relative && matches!(voice.role, Role::Segment(index) if lasts(index))
        })
}

/// False only where it is certain.
fn has_more(series: &Series<'_>, heard: &[&Voice<'_>], place: &Place, budget: &mut Budget) -> bool {
    let following = Search::new(series, place).run(heard, budget);
    following.map_or(true, |hit| hit.is_some())
}

/// The firing of `identity` at exactly `place`, if the event owes it; found within `budget`.
pub fn owed(
    event: &Event,
    person: &Person,
    identity: &AlarmIdentity,
    place: &Place,
    budget: &mut Budget,
) -> Result<Option<Firing>, GaveUp> {
    let firing = next(event, person, identity, &before(place), budget)?;
    Ok(firing.filter(|firing| firing.place == *place))
}

/// The place right before this one.
fn before(place: &Place) -> Place {
    match place.repeat.checked_sub(1) {
        Some(repeat) => Place { repeat, ..*place },
        None => Place {
            occurrence: place.occurrence - TimeDelta::milliseconds(1),
            repeat: u16::MAX,
            ..*place
        },
    }
}

/// What the occurrence named by its RECURRENCE-ID instant looks like to this person. None where there is no such
/// occurrence, or where it is cancelled.
pub fn occurrence(event: &Event, person: &Person, occurrence: DateTime<Utc>) -> Option<Occurrence> {
    let series = Series::new(event, person).ok()?;
    appearance::of(&series, person, occurrence)
}
