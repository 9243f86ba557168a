//! Firings of a new version that lie before a message that has already left, or waits to leave. They are not sent, since a
//! series only goes forward; history records them. Pure.

use std::cell::RefCell;

use chrono::DateTime;
use chrono::TimeDelta;
use chrono::Utc;

use crate::calendar::recurrence::Budget;
use crate::store::Record;
use crate::trigger::Place;
use crate::trigger::Wish;
use crate::trigger::expand::Firing;
use crate::trigger::expand::GaveUp;
use crate::trigger::outcome::Outcome;
use crate::trigger::outcome::Reason;
use crate::trigger::series::Lateness;
use crate::trigger::series::Series;

/// How far back the firings of a recurring alarm are searched: each costs a search.
const RECURRING: TimeDelta = TimeDelta::hours(1);

/// Search steps. They do not come out of the budget of planning, which must not fail for the sake of history.
const STEPS: u32 = 30_000;

/// Records the first firing before `end` that `is_known` does not know, with the number of them. A single firing is
/// searched as far back as it would have been of use.
pub fn record(
    series: &Series<'_>,
    wish: &Wish,
    (end, now, lateness): (Place, DateTime<Utc>, Lateness),
    is_known: impl Fn(&Firing) -> bool,
) -> Result<Option<Record>, GaveUp> {
    let budget = RefCell::new(Budget { steps: STEPS });
    let series = Series {
        budget: &budget,
        ..*series
    };
    let recurs = series.next(&Place::FIRST)?.is_some_and(|first| first.has_more);
    let most = TimeDelta::from_std(lateness.most).unwrap_or(RECURRING);
    let mut place = Place::just_before(now - if recurs { RECURRING } else { most });
    let mut found: Option<Record> = None;
    while let Some(firing) = series.next(&place)?.filter(|firing| firing.place < end) {
        place = firing.place;
        if !is_known(&firing) {
            found.get_or_insert_with(|| past(wish, place, 0)).count += 1;
        }
    }
    Ok(found)
}

/// Firings that were past when they were asked for, from `place` on.
pub fn past(wish: &Wish, place: Place, count: u64) -> Record {
    Record {
        wish: wish.clone(),
        place,
        outcome: Outcome::Suppressed,
        reason: Reason::Past,
        count,
    }
}
