//! Recurrence rules (RFC 5545 section 3.3.10), enumerated in local time.

use chrono::NaiveDateTime;

use crate::calendar::zone::Zone;

/// A recurrence rule together with the start it belongs to.
#[derive(Debug, Clone)]
pub struct Rule;

/// Where a rule starts.
#[derive(Debug, Clone)]
pub struct Start {
    /// DTSTART in local time; 00:00 for a DATE.
    pub local: NaiveDateTime,
    /// Whether DTSTART is a DATE.
    pub is_date: bool,
    /// The zone of DTSTART, in which an UNTIL with `Z` is understood.
    pub zone: Zone,
}

/// Why a rule cannot be followed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// The text is no rule: the message names the part and the value.
    #[error("{0}")]
    Malformed(String),
}

/// How many search steps one question may cost; shared by all that is asked for it.
#[derive(Debug, Clone)]
pub struct Budget {
    /// Steps left.
    pub steps: u32,
}

/// The search ran out of steps before it found an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the recurrence rule needs more than the allowed search steps")]
pub struct OutOfSteps;

impl Rule {
    /// Reads the value of an RRULE property, from its raw text. Returns what was read leniently as warnings.
    pub fn parse(_text: &str, _start: &Start) -> Result<(Self, Vec<String>), RuleError> {
        todo!()
    }

    /// The first instance at or after `from`, in local time. DTSTART itself is not added: an instance that the rule
    /// does not produce is the caller's to add; it does count toward COUNT (`semantics`: DTSTART takes one of COUNT).
    pub fn first_from(
        &self,
        _from: NaiveDateTime,
        _budget: &mut Budget,
    ) -> Result<Option<NaiveDateTime>, OutOfSteps> {
        todo!()
    }
}
