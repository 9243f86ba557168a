//! From an event to its firings. Pure and bounded.
//!
//! The firings of one alarm identity form a sequence ordered by [`Place`]; the only questions are "what is the first
//! place after this one?" and "does the event still owe this place?".

use chrono::DateTime;
use chrono::Utc;

use crate::calendar::event::Event;
use crate::calendar::event::Occurrence;
use crate::calendar::zone::Zone;
use crate::trigger::AlarmIdentity;
use crate::trigger::Place;

/// The person for whom an event is read.
#[derive(Debug, Clone)]
pub struct Person {
    /// Where floating and all-day times are understood.
    pub zone: Zone,
    /// Their addresses, without `mailto:`; their own ATTENDEE is found by any of them.
    pub addresses: Vec<String>,
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
    /// Why, naming the value.
    pub reason: String,
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
pub fn alarms(_event: &Event, _person: &Person) -> (Vec<EventAlarm>, Vec<Refusal>) {
    todo!()
}

/// The first firing of `identity` strictly after `after`.
pub fn next(
    _event: &Event,
    _person: &Person,
    _identity: &AlarmIdentity,
    _after: &Place,
) -> Result<Option<Firing>, GaveUp> {
    todo!()
}

/// The firing of `identity` at exactly `place`, if the event owes it.
pub fn owed(
    _event: &Event,
    _person: &Person,
    _identity: &AlarmIdentity,
    _place: &Place,
) -> Result<Option<Firing>, GaveUp> {
    todo!()
}

/// What the occurrence named by its RECURRENCE-ID instant looks like to this person.
pub fn occurrence(_event: &Event, _person: &Person, _occurrence: DateTime<Utc>) -> Option<Occurrence> {
    todo!()
}
