//! Events: all components of one UID, the master and its overrides.

use chrono::DateTime;
use chrono::NaiveDate;
use chrono::Utc;

use crate::calendar::zone::Zone;

/// All components of one UID.
#[derive(Debug, Clone)]
pub struct Event;

impl Event {
    /// The UID; for a component without one, a hash of its text, so that the same text is the same event.
    pub fn uid(&self) -> &str {
        todo!()
    }
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
