//! Time zones: the one place where local time becomes an instant.
//!
//! A [`Zone`] is a fixed offset, a zone of the IANA database (`data`), or the rules that a VTIMEZONE brings along
//! (`table`). Which of them a TZID means is decided by name in `names`; the VTIMEZONE itself is read by
//! `calendar::ical`, which offers its observances to [`Zone::custom`].
//!
//! Local time is not always an instant. A clock that is put forward skips an hour, one that is put back repeats one.
//! RFC 5545 section 3.3.5 settles both, and all three kinds of zone do it alike: a time in the gap takes the offset
//! that was in force before it (02:30 is the instant that the clock calls 03:30), a repeated time is the first of the two.

mod data;
mod names;
mod stretch;
mod table;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::LazyLock;

use chrono::DateTime;
use chrono::FixedOffset;
use chrono::NaiveDateTime;
use chrono::Offset;
use chrono::Utc;

use crate::calendar::recurrence::Budget;
use crate::calendar::zone::data::IanaRules;
use crate::calendar::zone::table::Table;

pub use crate::calendar::zone::data::data_version;
pub use crate::calendar::zone::data::self_check;
pub use crate::calendar::zone::stretch::Shown;
pub use crate::calendar::zone::stretch::Stretch;
pub use crate::calendar::zone::table::Observance;

/// The largest offset from UTC, in seconds: one second less than a day.
const MAX_OFFSET: i32 = 86_399;

/// Universal time, which most texts name many times.
static UTC: LazyLock<Zone> = LazyLock::new(|| Zone::fixed(0));

/// A time zone. Cheap to clone.
#[derive(Debug, Clone, Eq)]
pub struct Zone {
    name: Arc<str>,
    rules: Rules,
}

impl PartialEq for Zone {
    /// Clones share their name. Rules are compared last, since that compares all changes of the clock.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.name, &other.name) || self.name == other.name && self.rules == other.rules
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Rules {
    Fixed(FixedOffset),
    Iana(IanaRules),
    Custom(Arc<Table>),
}

impl Zone {
    /// Universal time.
    pub fn utc() -> Self {
        UTC.clone()
    }

    /// The zone of an IANA name, in any case.
    pub fn iana(name: &str) -> Option<Self> {
        if name.eq_ignore_ascii_case("UTC") {
            // So that it equals `Zone::utc()`, however it was written.
            return Some(Self::utc());
        }
        let (name, rules) = data::find(name)?;
        Some(Self {
            name,
            rules: Rules::Iana(rules),
        })
    }

    /// A zone that is always so many seconds east of UTC; cut to less than a day.
    pub fn fixed(offset_seconds: i32) -> Self {
        let offset = fixed_offset(offset_seconds);
        Self {
            name: offset_name(offset).into(),
            rules: Rules::Fixed(offset),
        }
    }

    /// The zone that the observances of a VTIMEZONE describe (RFC 5545 section 3.6.5), good for 1970 to 2100. `None` if
    /// they describe none: there are no observances, one has a rule or an offset that cannot be understood, they change
    /// the clock more often than any zone, or than `budget` allows, or by more than a day.
    pub fn custom(name: &str, observances: &[Observance], budget: &mut Budget) -> Option<Self> {
        let table = Table::of(observances, budget)?;
        Some(Self {
            name: name.into(),
            rules: Rules::Custom(Arc::new(table)),
        })
    }

    /// All that a TZID can mean by its name alone: an IANA name, one behind a vendor's prefix, a Windows name, the display
    /// names of Outlook and Exchange, or a fixed offset such as `GMT+0200`. `None` for a name that says nothing; the
    /// caller then looks at the VTIMEZONE, or takes the person's zone and says so.
    pub fn lenient(tzid: &str) -> Option<Self> {
        names::resolve(tzid)
    }

    /// The zone's name: the IANA name, `UTC+05:30` for a fixed offset, the TZID for a custom VTIMEZONE.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the zone is a fixed offset, UTC among them.
    pub fn is_fixed(&self) -> bool {
        matches!(self.rules, Rules::Fixed(_))
    }

    /// The instant of a local time. A time in a gap takes the offset before the gap, one in a fold is the first of the
    /// two (RFC 5545 section 3.3.5).
    pub fn to_utc(&self, local: NaiveDateTime) -> DateTime<Utc> {
        let offset = match &self.rules {
            Rules::Fixed(offset) => *offset,
            Rules::Iana(rules) => rules.offset_of_local(local),
            Rules::Custom(table) => table.offset_of_local(local),
        };
        local.checked_sub_offset(offset).unwrap_or(local).and_utc()
    }

    /// The local time of an instant.
    pub fn to_local(&self, instant: DateTime<Utc>) -> NaiveDateTime {
        let utc = instant.naive_utc();
        utc.checked_add_offset(self.offset_at(instant)).unwrap_or(utc)
    }

    /// The offset from UTC that is in force at an instant.
    pub fn offset_at(&self, instant: DateTime<Utc>) -> FixedOffset {
        match &self.rules {
            Rules::Fixed(offset) => *offset,
            Rules::Iana(rules) => rules.offset_at(instant),
            Rules::Custom(table) => table.offset_at(instant),
        }
    }
}

/// The offset of so many seconds, cut to less than a day.
fn fixed_offset(seconds: i32) -> FixedOffset {
    FixedOffset::east_opt(seconds.clamp(-MAX_OFFSET, MAX_OFFSET)).unwrap_or(Utc.fix())
}

/// `UTC`, `UTC+05:30`, `UTC-00:44:30`.
fn offset_name(offset: FixedOffset) -> String {
    let seconds = offset.local_minus_utc();
    match seconds {
        0 => "UTC".into(),
        _ => format!("UTC{offset}"),
    }
}
