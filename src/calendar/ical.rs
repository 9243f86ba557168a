//! iCalendar text -> events. The only file that knows the parser.

use crate::calendar::event::Event;

/// What an iCalendar object holds.
#[derive(Debug, Clone)]
pub struct Calendar {
    /// One for each UID, in the order of the text.
    pub events: Vec<Event>,
    /// What was read leniently or left out, with component and line.
    pub warnings: Vec<String>,
    /// Components that cannot be understood and were left out; the rest stands.
    pub rejected: Vec<Rejection>,
}

/// A component that cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    /// The UID, where there is one.
    pub uid: Option<String>,
    /// `VEVENT`, `VTODO` …
    pub component: String,
    /// The line of its BEGIN, from 1.
    pub line: usize,
    /// What is wrong, with the value and the cure.
    pub reason: String,
}

/// Why a text is no calendar at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct IcalError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong, with the value and the cure.
    pub reason: String,
}

/// Reads an iCalendar object from bytes in whatever encoding and line ends it comes.
pub fn parse(_bytes: &[u8]) -> Result<Calendar, IcalError> {
    todo!()
}
