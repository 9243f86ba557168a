//! The candidates of one period: its days times the times of day, thinned by BYSETPOS.

use chrono::NaiveDate;
use chrono::NaiveDateTime;
use chrono::Timelike;

use crate::calendar::recurrence::numbers::Numbers;
use crate::calendar::recurrence::numbers::Positions;

/// The times of a day: every hour with every minute with every second.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    pub(super) hours: Numbers,
    pub(super) minutes: Numbers,
    pub(super) seconds: Numbers,
}

/// The instances of one period in ascending order. They are never written out: a hostile rule has 31 million of them in a
/// year.
#[derive(Debug)]
pub(super) struct PeriodSet {
    days: Vec<NaiveDate>,
    times: Times,
    /// The indices that BYSETPOS keeps; `None` for all.
    kept: Option<Vec<usize>>,
    length: usize,
}

impl PeriodSet {
    pub(super) fn new(days: Vec<NaiveDate>, times: Times, positions: &Positions) -> Self {
        let all = days.len() * times.hours.len() * times.minutes.len() * times.seconds.len();
        let kept = (!positions.is_empty()).then(|| positions.indices(all));
        let length = kept.as_ref().map_or(all, Vec::len);
        Self {
            days,
            times,
            kept,
            length,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.length
    }

    pub(super) fn get(&self, index: usize) -> Option<NaiveDateTime> {
        // A period beyond the years that are known has neither days nor times.
        if index >= self.length {
            return None;
        }
        let index = match &self.kept {
            Some(kept) => *kept.get(index)?,
            None => index,
        };
        let Times {
            hours,
            minutes,
            seconds,
        } = &self.times;
        let (index, second) = (index / seconds.len(), seconds.nth(index % seconds.len())?);
        let (index, minute) = (index / minutes.len(), minutes.nth(index % minutes.len())?);
        let (index, hour) = (index / hours.len(), hours.nth(index % hours.len())?);
        self.days.get(index)?.and_hms_opt(hour, minute, second)
    }

    /// The index of the first instance that is not before `local`; the length if there is none.
    pub(super) fn position(&self, local: NaiveDateTime) -> usize {
        let (mut low, mut high) = (0, self.length);
        while low < high {
            let middle = low.midpoint(high);
            if self.get(middle).is_some_and(|instance| instance < local) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }
}

impl Times {
    /// The one time of day of an instant.
    pub(super) fn at(local: NaiveDateTime) -> Self {
        Self {
            hours: Numbers::one(local.hour()),
            minutes: Numbers::one(local.minute()),
            seconds: Numbers::one(local.second()),
        }
    }
}
