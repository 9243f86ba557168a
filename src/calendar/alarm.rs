//! Alarms: the VALARM components of an event (RFC 5545 section 3.6.6, RFC 9074).

use chrono::DateTime;
use chrono::Utc;

use crate::calendar::moment::Moment;
use crate::calendar::moment::Span;

/// The most repeats an alarm may ask for.
pub const MOST_REPEATS: u16 = 100;

/// The shortest pause between two firings of one alarm, in seconds.
pub const SHORTEST_PAUSE: i64 = 60;

/// One VALARM.
#[derive(Debug, Clone)]
pub struct Alarm {
    /// The UID of the VALARM (RFC 9074 section 4), else a hash of what makes it this alarm.
    pub identity: String,
    /// ACTION, upper case.
    pub action: String,
    /// When it goes off.
    pub trigger: AlarmTrigger,
    /// How often it goes off again after the first time (RFC 5545 section 3.8.6.2).
    pub repeat: u16,
    /// The pause between two of its firings for one instance; positive where `repeat` is.
    pub every: Span,
    /// Firings up to here are done (RFC 9074 section 6.1).
    pub acknowledged: Option<DateTime<Utc>>,
    /// ATTENDEE: whom an e-mail alarm names, bare addresses that a relay is likely to take.
    pub attendees: Vec<String>,
    /// Why it never fires, whoever reads it.
    pub refused: Option<String>,
    /// The instance that an absolute trigger is about, by its RECURRENCE-ID; none: that of its component.
    pub about: Option<DateTime<Utc>>,
}

/// When an alarm goes off (RFC 5545 section 3.8.6.3).
#[derive(Debug, Clone)]
pub enum AlarmTrigger {
    /// Counted from every instance.
    Relative {
        /// Negative before, positive after.
        span: Span,
        /// Which end of the instance it is counted from.
        related: Related,
    },
    /// Once, whatever the recurrence.
    Absolute(Moment),
}

/// Which end of an instance a trigger is counted from (RFC 5545 section 3.2.14).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Related {
    /// The start.
    Start,
    /// The end.
    End,
}

/// A VALARM that could not be read and was left out alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadableAlarm {
    /// Its UID, where there is one.
    pub identity: Option<String>,
    /// ACTION, upper case, where there is one.
    pub action: Option<String>,
    /// The line of its BEGIN, from 1.
    pub line: usize,
    /// What is wrong, with the value and the cure.
    pub reason: String,
}

/// Something that a VALARM asks for and that is not followed, though the alarm itself is, or its equal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ignored {
    /// What is not followed.
    pub what: IgnoredPart,
    /// The identity of the alarm.
    pub identity: String,
    /// ACTION, upper case.
    pub action: String,
    /// The line of its BEGIN, from 1.
    pub line: usize,
    /// Why, with the value.
    pub reason: String,
}

/// What is not followed of a VALARM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IgnoredPart {
    /// All of it: another one of the same component is its equal.
    Duplicate,
    /// REPEAT: it goes off once.
    Repeat,
}
