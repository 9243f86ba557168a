//! iCalendar text -> events. The only module that knows the parser, and of it only [`property`].
//!
//! Bytes are decoded, lines unfolded and sorted into components by us; one line at a time is then read by the parser.
//! What cannot be understood is left out alone: an alarm without its event suffering, an event without its neighbours.

mod component;
mod decode;
pub mod itip;
mod property;
mod structure;
mod tree;
mod valarm;
mod zones;

#[cfg(test)]
mod tests;

use std::collections::HashMap;

use sha2::Digest;
use sha2::Sha256;

use crate::calendar::event::Component;
use crate::calendar::event::Event;
use crate::calendar::event::Off;
use crate::calendar::ical::component::LONGEST_UID;
use crate::calendar::ical::structure::Block;
use crate::calendar::ical::zones::Zones;
use crate::calendar::recurrence::Budget;

pub use crate::calendar::ical::decode::decode;
pub use crate::calendar::ical::zones::ReadZone;

/// The most warnings that one text is worth.
const MOST_WARNINGS: usize = 200;

/// Components of one event at the most: itself and its overrides.
const MOST_INSTANCES: usize = 500;

/// What an iCalendar object holds.
#[derive(Debug, Clone)]
pub struct Calendar {
    /// One for each UID, in the order of the text.
    pub events: Vec<Event>,
    /// What was read leniently or left out, with component and line.
    pub warnings: Vec<String>,
    /// Components that cannot be understood and were left out; the rest stands.
    pub rejected: Vec<Rejection>,
    /// TZIDs that are no IANA names, and what they were taken for.
    pub zones: Vec<ReadZone>,
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

/// How large a text may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes.
    pub bytes: usize,
    /// Components besides the VCALENDAR around them, VALARMs and the parts of VTIMEZONEs.
    pub components: usize,
}

impl Default for Limits {
    /// What one calendar object may be.
    fn default() -> Self {
        Self {
            bytes: 1 << 20,
            components: 500,
        }
    }
}

/// Content lines as text, folded (RFC 5545 section 3.1).
pub fn folded(lines: &[String]) -> String {
    lines.iter().fold(String::new(), |mut text, line| {
        tree::fold(line, &mut text);
        text
    })
}

/// A TEXT value as it is written (RFC 5545 section 3.3.11).
pub fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace(';', "\\;")
        .replace(',', "\\,")
        .replace('\n', "\\n")
}

/// Reads an iCalendar object from bytes in whatever encoding and line ends it comes.
pub fn parse(bytes: &[u8]) -> Result<Calendar, IcalError> {
    parse_within(bytes, &Limits::default())
}

/// Reads an iCalendar text that may be larger than one object, such as a whole calendar in a file.
pub fn parse_within(bytes: &[u8], limits: &Limits) -> Result<Calendar, IcalError> {
    if bytes.len() > limits.bytes {
        let (size, most) = (bytes.len(), limits.bytes);
        return Err(IcalError {
            line: 1,
            reason: format!("{size} bytes are more than {most}: send events one by one"),
        });
    }
    let text = decode::decode(bytes);
    let blocks = structure::blocks(&text, limits)?;
    let mut reading = Reading {
        zones: Zones::read(&blocks),
        warnings: Vec::new(),
        budget: Budget::default(),
    };
    let mut sorter = Sorter::default();
    for (index, block) in blocks.iter().enumerate() {
        if matches!(block.kind.as_str(), "VEVENT" | "VTODO") {
            sorter.add(&blocks, index, &mut reading);
        }
    }
    Ok(Calendar {
        events: sorter.events,
        zones: reading.zones.taken(),
        warnings: reading.warnings,
        rejected: sorter.rejected,
    })
}

/// What is carried along while a text is read.
struct Reading<'a> {
    zones: Zones<'a>,
    warnings: Vec<String>,
    /// What all rules together may cost while they are read.
    budget: Budget,
}

impl Reading<'_> {
    fn warn(&mut self, component: &str, line: usize, text: &str) {
        if self.warnings.len() < MOST_WARNINGS {
            self.warnings.push(format!("{component}, line {line}: {text}"));
        }
    }
}

/// Puts components to the events of their UIDs.
#[derive(Default)]
struct Sorter {
    events: Vec<Event>,
    by_uid: HashMap<String, usize>,
    rejected: Vec<Rejection>,
}

impl Sorter {
    fn add(&mut self, blocks: &[Block<'_>], index: usize, reading: &mut Reading<'_>) {
        let block = &blocks[index];
        let uid = component::uid(block);
        if let Some(length) = uid
            .as_ref()
            .map(String::len)
            .filter(|length| *length > LONGEST_UID)
        {
            self.rejected.push(Rejection {
                uid: None,
                component: block.kind.clone(),
                line: block.line,
                reason: format!("a UID of {length} bytes: {LONGEST_UID} are allowed"),
            });
            return;
        }
        let off = off_by_method(blocks, block);
        match component::read(blocks, index, off, reading) {
            Ok(read) => {
                let uid = uid.unwrap_or_else(|| uid_of_text(block));
                if !self.keep(&uid, read) {
                    self.rejected.push(Rejection {
                        uid: Some(uid),
                        component: block.kind.clone(),
                        line: block.line,
                        reason: format!("more than {MOST_INSTANCES} components of one UID"),
                    });
                }
            }
            Err(reason) => self.rejected.push(Rejection {
                uid,
                component: block.kind.clone(),
                line: block.line,
                reason,
            }),
        }
    }

    /// Puts a component to its event; false if that has too many.
    fn keep(&mut self, uid: &str, component: Component) -> bool {
        if let Some(index) = self.by_uid.get(uid) {
            let event = &mut self.events[*index];
            if event.components().len() >= MOST_INSTANCES {
                return false;
            }
            event.push(component);
        } else {
            self.by_uid.insert(uid.to_owned(), self.events.len());
            self.events.push(Event::new(uid.to_owned(), vec![component]));
        }
        true
    }
}

/// What the METHOD of the VCALENDAR around it says: it is called off (RFC 5546 section 3.2.5), or this is no event but
/// what somebody says of one (sections 3.2.3, 3.2.6 to 3.2.8).
fn off_by_method(blocks: &[Block<'_>], block: &Block<'_>) -> Option<Off> {
    let around = &blocks[block.parent?];
    let method = around.lines.iter().find(|line| line.name == "METHOD")?;
    match method.plain_value().to_ascii_uppercase().as_str() {
        "CANCEL" => Some(Off::Cancelled),
        "REPLY" | "REFRESH" | "COUNTER" | "DECLINECOUNTER" => Some(Off::Message),
        _ => None,
    }
}

fn uid_of_text(block: &Block<'_>) -> String {
    let mut hash = Sha256::new();
    for line in &block.lines {
        hash.update(line.text.as_bytes());
        hash.update(b"\n");
    }
    format!("text-{}", short(&hash.finalize()))
}

/// Half of a digest, in hexadecimal digits: enough to tell all texts apart.
fn short(digest: &[u8]) -> String {
    let half = digest.first_chunk().map_or(0, |half| u128::from_be_bytes(*half));
    format!("{half:032x}")
}
