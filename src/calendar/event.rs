//! Events: all components of one UID, the master and its overrides.

use chrono::DateTime;
use chrono::NaiveDate;
use chrono::Utc;
use percent_encoding::percent_decode_str;

use crate::calendar::alarm::Alarm;
use crate::calendar::alarm::Ignored;
use crate::calendar::alarm::UnreadableAlarm;
use crate::calendar::moment::Moment;
use crate::calendar::moment::Span;
use crate::calendar::recurrence::Rule;
use crate::calendar::zone::Zone;

/// All components of one UID.
#[derive(Debug, Clone)]
pub struct Event {
    uid: String,
    components: Vec<Component>,
}

impl Event {
    /// The event of these components, in the order of the text.
    pub fn new(uid: String, components: Vec<Component>) -> Self {
        Self { uid, components }
    }

    /// The UID; for a component without one, a hash of its text, so that the same text is the same event.
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// Its components, in the order of the text.
    pub fn components(&self) -> &[Component] {
        &self.components
    }

    /// Its components, to be changed.
    pub fn components_mut(&mut self) -> &mut [Component] {
        &mut self.components
    }

    /// Adds a component that came later in the text.
    pub fn push(&mut self, component: Component) {
        self.components.push(component);
    }
}

/// One VEVENT or VTODO: the master, or an override of one instance or of this and all future ones.
#[derive(Debug, Clone, Default)]
pub struct Component {
    /// The line of its BEGIN, from 1.
    pub line: usize,
    /// Whether it is a VTODO.
    pub is_task: bool,
    /// DTSTART.
    pub start: Option<Moment>,
    /// DTEND, or DUE of a task.
    pub end: End,
    /// Its RRULEs.
    pub rules: Vec<Recurrence>,
    /// RDATE.
    pub rdates: Vec<Addition>,
    /// EXDATE.
    pub exdates: Vec<Moment>,
    /// RECURRENCE-ID: which instance it overrides.
    pub recurrence_id: Option<Moment>,
    /// RANGE=THISANDFUTURE: it overrides the later instances too.
    pub is_this_and_future: bool,
    /// SEQUENCE, then DTSTAMP: which of two overrides of one instance is the newer.
    pub version: (i64, Option<DateTime<Utc>>),
    /// Why it has no alarms at all.
    pub off: Option<Off>,
    /// TRANSP:TRANSPARENT: it takes no time of the person.
    pub is_transparent: bool,
    /// What it says.
    pub words: Words,
    /// ATTENDEE.
    pub attendees: Vec<Attendee>,
    /// Its alarms.
    pub alarms: Vec<Alarm>,
    /// Its alarms that could not be read.
    pub unreadable: Vec<UnreadableAlarm>,
    /// What its alarms ask for and is not followed.
    pub ignored: Vec<Ignored>,
}

impl Component {
    /// What its instances are counted from: DTSTART, or DUE of a task that has no DTSTART.
    pub fn base(&self) -> Option<&Moment> {
        match &self.end {
            End::At(due) if self.is_task => self.start.as_ref().or(Some(due)),
            _ => self.start.as_ref(),
        }
    }

    /// The attendee with one of these addresses; of several one who attends: who declined by one address and accepted
    /// by another comes.
    pub fn attendee(&self, addresses: &[String]) -> Option<&Attendee> {
        let is_own = |attendee: &&Attendee| attendee.is_known_by(addresses);
        let is_absent = |attendee: &&Attendee| {
            let status = attendee.status.as_deref();
            matches!(status, Some("DECLINED" | "DELEGATED"))
        };
        let mine = || self.attendees.iter().filter(is_own);
        mine()
            .find(|attendee| !is_absent(attendee))
            .or_else(|| mine().next())
    }
}

/// An RRULE.
#[derive(Debug, Clone)]
pub struct Recurrence {
    /// The value as written.
    pub text: String,
    /// The rule, read in the zone of DTSTART; in UTC where that is the person's, which matters to an UNTIL alone.
    pub rule: Rule,
}

/// How long a component lasts (RFC 5545 section 3.6.1).
#[derive(Debug, Clone, Default)]
pub enum End {
    /// Neither DTEND, DUE nor DURATION.
    #[default]
    Unstated,
    /// DTEND or DUE.
    At(Moment),
    /// DURATION.
    After(Span),
    /// There is one, but it cannot be read: what is counted from the end is unknown.
    Unreadable,
}

/// An RDATE.
#[derive(Debug, Clone)]
pub struct Addition {
    /// When it starts.
    pub start: Moment,
    /// Its own end, if it is a PERIOD.
    pub end: Option<PeriodEnd>,
}

/// The end of a PERIOD (RFC 5545 section 3.3.9).
#[derive(Debug, Clone)]
pub enum PeriodEnd {
    /// A time.
    At(Moment),
    /// A duration.
    After(Span),
}

/// Why a component has no alarms at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Off {
    /// STATUS:CANCELLED or METHOD:CANCEL.
    Cancelled,
    /// A task with COMPLETED or STATUS:COMPLETED.
    Completed,
    /// It is not the event, but an answer or a question about it (METHOD:REPLY, COUNTER …).
    Message,
}

/// What a component says to people.
#[derive(Debug, Clone, Default)]
pub struct Words {
    /// SUMMARY.
    pub summary: String,
    /// DESCRIPTION.
    pub description: String,
    /// LOCATION.
    pub location: String,
    /// URL or CONFERENCE, http or https only.
    pub link: Option<String>,
    /// ORGANIZER: the CN, else the address.
    pub organizer: Option<String>,
    /// CLASS is PRIVATE or CONFIDENTIAL.
    pub is_private: bool,
}

/// An ATTENDEE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attendee {
    /// By which addresses the person is known: the value and the EMAIL parameter, lower case, without `mailto:`.
    pub addresses: Vec<String>,
    /// PARTSTAT, upper case, where there is one.
    pub status: Option<String>,
    /// False where CUTYPE says that it is a room or another thing.
    pub is_person: bool,
}

impl Attendee {
    /// Whether somebody with these addresses is meant.
    pub fn is_known_by(&self, addresses: &[String]) -> bool {
        let is_theirs = |address: &String| self.addresses.contains(&bare_address(address));
        addresses.iter().any(is_theirs)
    }
}

/// An address as addresses are compared: lower case, without `mailto:` and what that adds (RFC 6068): `%2B` for `+`, and
/// header fields after a question mark.
pub fn bare_address(address: &str) -> String {
    let lower = address.trim().to_lowercase();
    let Some(uri) = lower.strip_prefix("mailto:") else {
        return lower;
    };
    let (encoded, _) = uri.split_once('?').unwrap_or((uri, ""));
    percent_decode_str(encoded).decode_utf8_lossy().into_owned()
}

/// One occurrence as a person sees it: what a message says about it.
#[derive(Debug, Clone)]
pub struct Occurrence {
    /// SUMMARY, as written; empty if there is none.
    pub summary: String,
    /// DESCRIPTION of the event.
    pub description: String,
    /// LOCATION.
    pub location: String,
    /// URL of the event or CONFERENCE link (http or https only).
    pub link: Option<String>,
    /// ORGANIZER: the CN, else the address.
    pub organizer: Option<String>,
    /// The person's own PARTSTAT, upper case.
    pub my_status: Option<String>,
    /// CLASS is PRIVATE or CONFIDENTIAL.
    pub is_private: bool,
    /// When it takes place.
    pub when: When,
    /// The event's own zone, where it has one that is not the person's.
    pub zone: Option<Zone>,
    /// Whether it is a VTODO.
    pub is_task: bool,
}

/// When an occurrence takes place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum When {
    /// At instants; the end is the start where the event has none.
    Timed {
        /// Start.
        start: DateTime<Utc>,
        /// End, exclusive.
        end: DateTime<Utc>,
    },
    /// On whole days; the instants are local midnights of the person's zone.
    AllDay {
        /// First day.
        first: NaiveDate,
        /// Last day, inclusive.
        last: NaiveDate,
        /// Start as an instant.
        start: DateTime<Utc>,
        /// End as an instant, exclusive.
        end: DateTime<Utc>,
    },
}

impl When {
    /// Start as an instant.
    pub fn start(&self) -> DateTime<Utc> {
        match self {
            Self::Timed { start, .. } | Self::AllDay { start, .. } => *start,
        }
    }

    /// End as an instant, exclusive.
    pub fn end(&self) -> DateTime<Utc> {
        match self {
            Self::Timed { end, .. } | Self::AllDay { end, .. } => *end,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_out_of_its_uri() {
        for (written, bare) in [
            ("mailto:Jo@Example.org", "jo@example.org"),
            ("MAILTO:ok%2Btag@y.example", "ok+tag@y.example"),
            ("mailto:jo+tag@y.example?subject=hello", "jo+tag@y.example"),
            (" jo%2Btag@y.example ", "jo%2btag@y.example"),
            ("urn:uuid:1", "urn:uuid:1"),
        ] {
            assert_eq!(bare_address(written), bare);
        }
    }
}
