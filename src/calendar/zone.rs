//! Time zones: the one place where local time becomes an instant.

use chrono::DateTime;
use chrono::NaiveDateTime;
use chrono::Utc;

/// A time zone. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Zone;

impl Zone {
    /// Universal time.
    pub fn utc() -> Self {
        todo!()
    }

    /// The zone of an IANA name, in any case.
    pub fn iana(_name: &str) -> Option<Self> {
        todo!()
    }

    /// The zone's name: the IANA name, `UTC+05:30` for a fixed offset, the TZID for a custom VTIMEZONE.
    pub fn name(&self) -> &str {
        todo!()
    }

    /// The instant of a local time. A time in a gap takes the offset before the gap, one in a fold is the first of the
    /// two (RFC 5545 section 3.3.5).
    pub fn to_utc(&self, _local: NaiveDateTime) -> DateTime<Utc> {
        todo!()
    }

    /// The local time of an instant.
    pub fn to_local(&self, _instant: DateTime<Utc>) -> NaiveDateTime {
        todo!()
    }
}
