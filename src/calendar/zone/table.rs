//! The rules of a VTIMEZONE, worked out once into a table of transitions (RFC 5545 section 3.6.5).

use chrono::DateTime;
use chrono::FixedOffset;
use chrono::NaiveDate;
use chrono::NaiveDateTime;
use chrono::TimeDelta;
use chrono::Utc;

use crate::calendar::recurrence::Budget;
use crate::calendar::recurrence::Rule;
use crate::calendar::recurrence::Start;
use crate::calendar::zone::MAX_OFFSET;
use crate::calendar::zone::Zone;
use crate::calendar::zone::fixed_offset;

/// The years that a table covers. The first onset of every observance is in it too, however old; after the end, the
/// last offset stays.
const FIRST_YEAR: i32 = 1967;
const LAST_YEAR: i32 = 2100;

/// How far the offsets of one zone are apart at the most, in seconds: some have crossed the date line.
const WIDEST_CHANGE: i32 = 86_400;

/// No zone changes its clock as often. Each local time is compared with the changes of some days.
const MOST_ONSETS: usize = 2_000;

/// A day in seconds: more than any offset.
const DAY: i64 = 86_400;

/// A STANDARD or DAYLIGHT part of a VTIMEZONE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observance {
    /// DTSTART: the first onset, in the local time that was in force just before it.
    pub local_onset: NaiveDateTime,
    /// TZOFFSETFROM, seconds east of UTC.
    pub offset_from: i32,
    /// TZOFFSETTO, seconds east of UTC.
    pub offset_to: i32,
    /// The values of the RRULE properties, as written.
    pub rules: Vec<String>,
    /// RDATE: further onsets, in the local time that was in force just before them.
    pub rdates: Vec<NaiveDateTime>,
}

/// The instants at which the offset changes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Table {
    /// Before the first transition: TZOFFSETFROM of the earliest observance.
    before: i32,
    /// (seconds since 1970, the offset from then on), in order of time.
    transitions: Vec<(i64, i32)>,
}

impl Table {
    pub(super) fn of(observances: &[Observance], budget: &mut Budget) -> Option<Self> {
        let is_offset = |seconds: i32| seconds.abs() <= MAX_OFFSET;
        if !observances
            .iter()
            .all(|part| is_offset(part.offset_from) && is_offset(part.offset_to))
        {
            return None;
        }
        let offsets = observances
            .iter()
            .flat_map(|part| [part.offset_from, part.offset_to]);
        if offsets.clone().max()? - offsets.min()? > WIDEST_CHANGE {
            return None;
        }
        let mut onsets = Vec::new();
        for part in observances {
            for onset in part.onsets(budget)? {
                onsets.push((
                    utc_seconds(onset, part.offset_from),
                    part.offset_to,
                    part.offset_from,
                ));
            }
        }
        if onsets.len() > MOST_ONSETS {
            return None;
        }
        onsets.sort_unstable();
        let before = onsets.first()?.2;
        let mut transitions: Vec<(i64, i32)> = onsets.into_iter().map(|(at, to, _)| (at, to)).collect();
        transitions.dedup_by_key(|(at, _)| *at);
        transitions.shrink_to_fit();
        Some(Self { before, transitions })
    }

    pub(super) fn offset_at(&self, instant: DateTime<Utc>) -> FixedOffset {
        let seconds = instant.timestamp();
        let after = self.transitions.partition_point(|(at, _)| *at <= seconds);
        fixed_offset(self.offset_before(after))
    }

    /// The last change at or before an instant, and the first after it.
    pub(super) fn changes_around(
        &self,
        instant: DateTime<Utc>,
    ) -> (Option<DateTime<Utc>>, Option<DateTime<Utc>>) {
        let seconds = instant.timestamp();
        let next = self.transitions.partition_point(|(at, _)| *at <= seconds);
        let change = |index: usize| DateTime::from_timestamp(self.transitions.get(index)?.0, 0);
        (next.checked_sub(1).and_then(change), change(next))
    }

    /// The offset that turns a local time into its instant.
    pub(super) fn offset_of_local(&self, local: NaiveDateTime) -> FixedOffset {
        let local = local.and_utc().timestamp();
        // No offset is a whole day: what changed two days earlier is surely in force.
        let mut next = self.transitions.partition_point(|(at, _)| *at <= local - 2 * DAY);
        let mut offset = self.offset_before(next);
        while let Some(&(at, to)) = self.transitions.get(next) {
            // Before the transition by the old clock: this is the first time that the clock shows it. Before it by the new
            // clock only: the clock never shows it, and the offset before the gap counts.
            if local - i64::from(offset.max(to)) < at {
                break;
            }
            offset = to;
            next += 1;
        }
        fixed_offset(offset)
    }

    /// The offset in force before the transition of this index.
    fn offset_before(&self, index: usize) -> i32 {
        index
            .checked_sub(1)
            .and_then(|last| self.transitions.get(last))
            .map_or(self.before, |(_, to)| *to)
    }
}

impl Observance {
    /// All onsets inside the years of a table, and the first one. `None` if a rule cannot be understood or ends in
    /// nothing but work.
    fn onsets(&self, budget: &mut Budget) -> Option<Vec<NaiveDateTime>> {
        let mut onsets = vec![self.local_onset];
        onsets.extend(&self.rdates);
        for text in &self.rules {
            // UNTIL of an observance is in UTC, and its local time is told by the offset before the onset.
            let start = Start {
                local: self.local_onset,
                is_date: false,
                zone: Zone::fixed(self.offset_from),
            };
            let (rule, _) = Rule::parse_within(text, &start, budget).ok()?;
            let before = onsets.len();
            onsets_of_rule(&rule, first_of_year(FIRST_YEAR)?, budget, &mut onsets)?;
            if onsets.len() == before && rule.is_finite() {
                // It ended before the table begins, but its last onset may still be in force then.
                onsets_of_rule(&rule, self.local_onset, budget, &mut onsets)?;
            }
        }
        Some(onsets)
    }
}

fn onsets_of_rule(
    rule: &Rule,
    from: NaiveDateTime,
    budget: &mut Budget,
    onsets: &mut Vec<NaiveDateTime>,
) -> Option<()> {
    let end = first_of_year(LAST_YEAR + 1)?;
    let mut from = from;
    while let Some(onset) = rule.first_from(from, budget).ok()? {
        if onset >= end {
            break;
        }
        onsets.push(onset);
        from = onset.checked_add_signed(TimeDelta::seconds(1))?;
    }
    Some(())
}

fn first_of_year(year: i32) -> Option<NaiveDateTime> {
    NaiveDate::from_ymd_opt(year, 1, 1)?.and_hms_opt(0, 0, 0)
}

fn utc_seconds(local: NaiveDateTime, offset: i32) -> i64 {
    local.and_utc().timestamp() - i64::from(offset)
}
