//! What this node handed over in the last ten minutes, to be recorded again where the database forgot it.

use std::collections::VecDeque;
use std::sync::Mutex;

use chrono::DateTime;
use chrono::TimeDelta;
use chrono::Utc;

use crate::store::HandOver;

/// How long a hand-over is remembered.
const KEPT: TimeDelta = TimeDelta::minutes(10);

/// Hand-overs that are remembered at the most, which is about 30 MB.
const MOST: usize = 100_000;

/// Hand-overs in the order in which they were settled.
#[derive(Debug, Default)]
pub struct HandOvers(Mutex<Entries>);

#[derive(Debug, Default)]
struct Entries {
    entries: VecDeque<(DateTime<Utc>, HandOver)>,
    /// How many at the front need not be recorded again.
    done: usize,
}

impl HandOvers {
    /// Adds hand-overs that were settled by `now`, and forgets old ones.
    pub fn add(&self, hand_overs: Vec<HandOver>, now: DateTime<Utc>) {
        let mut known = self.lock();
        known.entries.extend(hand_overs.into_iter().map(|it| (now, it)));
        while let Some((at, _)) = known.entries.front() {
            if known.entries.len() <= MOST && *at >= now - KEPT {
                break;
            }
            known.entries.pop_front();
            known.done = known.done.saturating_sub(1);
        }
    }

    /// What was settled at or after `from` must be recorded again.
    pub fn rewind(&self, from: DateTime<Utc>) {
        let mut known = self.lock();
        known.done = known.entries.partition_point(|(at, _)| *at < from);
    }

    /// The next ones that must be recorded again.
    pub fn page(&self, limit: usize) -> Vec<HandOver> {
        let known = self.lock();
        let rest = known.entries.iter().skip(known.done).take(limit);
        rest.map(|(_, hand_over)| hand_over.clone()).collect()
    }

    /// Counts hand-overs that were recorded.
    pub fn done(&self, count: usize) {
        let mut known = self.lock();
        known.done = (known.done + count).min(known.entries.len());
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Entries> {
        self.0.lock().expect("no holder panics")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Ending;
    use crate::trigger::AlarmId;
    use crate::trigger::ChannelKind;
    use crate::trigger::OwnerId;
    use crate::trigger::Place;
    use crate::trigger::TriggerId;
    use crate::trigger::Wish;
    use crate::trigger::outcome::Outcome;
    use crate::trigger::outcome::Reason;

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH + TimeDelta::seconds(seconds)
    }

    fn hand_over() -> HandOver {
        let wish = Wish::standalone(OwnerId("ada".into()), &AlarmId("a".into()), ChannelKind::Email);
        let place = Place::at(at(0));
        HandOver {
            ending: Ending::plain(TriggerId::derive(&wish, &place), Outcome::Sent, Reason::None),
            wish,
            place,
        }
    }

    #[test]
    fn what_was_settled_since_is_recorded_again_once() {
        let known = HandOvers::default();
        known.add(vec![hand_over()], at(0));
        known.add(vec![hand_over(); 3], at(60));
        known.rewind(at(30));
        assert_eq!(known.page(2).len(), 2);
        known.done(2);
        assert_eq!(known.page(2).len(), 1);
        known.done(1);
        known.add(vec![hand_over()], at(61));
        assert_eq!(known.page(2).len(), 1, "one that was under way");
        known.done(1);
        assert!(known.page(2).is_empty());
    }

    #[test]
    fn ten_minutes_and_no_more_than_so_many_are_remembered() {
        let known = HandOvers::default();
        known.add(vec![hand_over(); 5], at(0));
        known.add(vec![hand_over(); MOST - 2], at(300));
        known.rewind(at(0));
        assert_eq!(known.page(usize::MAX).len(), MOST);
        known.add(vec![hand_over()], at(901));
        known.rewind(at(0));
        assert_eq!(known.page(usize::MAX).len(), 1);
    }
}
