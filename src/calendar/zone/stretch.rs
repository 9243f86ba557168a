//! A stretch of time in which a clock keeps its offset: from one change to the next. Whoever asks what a change does to
//! local times, beyond what RFC 5545 settles, asks for the stretches on both sides of it.

use chrono::DateTime;
use chrono::FixedOffset;
use chrono::NaiveDateTime;
use chrono::TimeDelta;
use chrono::Utc;

use crate::calendar::zone::Rules;
use crate::calendar::zone::Zone;

/// A stretch of time in which a clock keeps its offset. What changes only the name of an offset may end it, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch {
    /// The change that begins it; `None` if it has always been so.
    pub begin: Option<DateTime<Utc>>,
    /// The change that ends it; `None` if none is known.
    pub end: Option<DateTime<Utc>>,
    /// The offset from UTC that is in force.
    pub offset: FixedOffset,
}

/// When a clock shows a local time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// At one instant, as nearly always.
    Once(DateTime<Utc>),
    /// Twice, since the clock is put back.
    Twice(DateTime<Utc>, DateTime<Utc>),
    /// Never, since the clock is put forward: the local times between which it jumps.
    Never {
        /// The first local time that is skipped.
        from: NaiveDateTime,
        /// The first local time that is shown again.
        to: NaiveDateTime,
    },
}

impl Zone {
    /// The stretch that an instant lies in.
    pub fn stretch(&self, instant: DateTime<Utc>) -> Stretch {
        let (begin, end) = match &self.rules {
            Rules::Fixed(_) => (None, None),
            Rules::Iana(rules) => rules.changes_around(instant),
            Rules::Custom(table) => table.changes_around(instant),
        };
        Stretch {
            begin,
            end,
            offset: self.offset_at(instant),
        }
    }

    /// When the zone's clock shows a local time, without the choices that [`Zone::to_utc`] makes.
    pub fn shown(&self, local: NaiveDateTime) -> Shown {
        let first = self.to_utc(local);
        let stretch = self.stretch(first);
        if self.to_local(first) != local
            && let Some(change) = stretch.begin
        {
            return Shown::Never {
                from: self.local_before(change),
                to: self.to_local(change),
            };
        }
        let second = stretch.end.and_then(|change| {
            let again = local.checked_sub_offset(self.offset_at(change))?.and_utc();
            (again >= change && self.to_local(again) == local).then_some(again)
        });
        second.map_or(Shown::Once(first), |second| Shown::Twice(first, second))
    }

    /// What the clock would show at the instant of a change without it.
    pub fn local_before(&self, change: DateTime<Utc>) -> NaiveDateTime {
        let just_before = change.checked_sub_signed(TimeDelta::seconds(1)).unwrap_or(change);
        let utc = change.naive_utc();
        utc.checked_add_offset(self.offset_at(just_before)).unwrap_or(utc)
    }
}
