//! When to try again. Pure: the jitter comes from the trigger's id and the attempt, so that a decision can be repeated.

use std::time::Duration;

use chrono::DateTime;
use chrono::TimeDelta;
use chrono::Utc;

use crate::trigger::TriggerId;

/// The longest pause after a failure that is not the message's: how often the other side is asked meanwhile is its
/// breaker's affair, and when it is back, everything shall leave within a minute.
const TARGET_PAUSE: Duration = Duration::from_secs(30);

/// How long before the deadline the last attempt is, where the other side asked for more patience than there is.
const LAST: TimeDelta = TimeDelta::minutes(1);

/// The pauses of the preset "minutes", as mail relays expect them; the last of them goes on.
pub const MINUTES: [Duration; 5] = [
    Duration::from_mins(1),
    Duration::from_mins(2),
    Duration::from_mins(5),
    Duration::from_mins(10),
    Duration::from_mins(20),
];

/// How often and how soon a channel tries again.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    /// Attempts in all: retries + 1.
    pub attempts: u32,
    /// The pauses after the first failure, the second and so on; the last of them goes on. Empty: they double.
    pub schedule: Vec<Duration>,
    /// The first pause where they double from attempt to attempt.
    pub backoff: Duration,
    /// The longest pause.
    pub max_backoff: Duration,
    /// How far a pause may be off, either way: 0.2 is 20 %.
    pub jitter: f64,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            attempts: 8,
            schedule: Vec::new(),
            backoff: Duration::from_mins(1),
            max_backoff: Duration::from_mins(20),
            jitter: 0.2,
        }
    }
}

/// What to do after a transient failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Try again then.
    At(DateTime<Utc>),
    /// No attempts are left.
    Exhausted,
    /// The next attempt would come at or after the deadline.
    TooLate,
}

/// One failed attempt.
#[derive(Debug, Clone, Copy)]
pub struct Failure {
    /// Whose attempt it was.
    pub trigger: TriggerId,
    /// Attempts that counted before this one.
    pub attempts: u32,
    /// Whether this one counts: an unreachable relay burns none.
    pub counts: bool,
    /// What the other side asked for.
    pub retry_after: Option<Duration>,
    /// When it failed.
    pub at: DateTime<Utc>,
    /// The deadline of the trigger.
    pub expires_at: DateTime<Utc>,
}

impl Policy {
    /// The same with pauses that double from `backoff` on, whatever was listed.
    #[must_use]
    pub fn doubling(self, backoff: Duration, max_backoff: Duration) -> Self {
        Self {
            schedule: Vec::new(),
            backoff,
            max_backoff: max_backoff.max(backoff),
            ..self
        }
    }

    /// When, if at all, to try again after `failure`. A `retry_after` lengthens the pause, never shortens it, and not beyond
    /// the last moment at which it is still of use.
    pub fn next(&self, failure: &Failure) -> Next {
        let used = failure.attempts + u32::from(failure.counts);
        if used >= self.attempts {
            return Next::Exhausted;
        }
        let later = |pause: Duration| {
            let at = failure.at.checked_add_signed(TimeDelta::from_std(pause).ok()?);
            at.filter(|at| *at < failure.expires_at)
        };
        let Some(own) = later(self.pause(failure, used)) else {
            return Next::TooLate;
        };
        let asked = failure.retry_after.map(|asked| {
            let last = failure.expires_at.checked_sub_signed(LAST).unwrap_or(own);
            later(asked).unwrap_or(last)
        });
        Next::At(asked.unwrap_or(own).max(own))
    }

    fn pause(&self, failure: &Failure, used: u32) -> Duration {
        let pause = if failure.counts {
            self.after(used)
        } else {
            self.after(1).min(TARGET_PAUSE)
        };
        pause.mul_f64(1.0 + self.jitter * spread(failure.trigger, used, failure.at))
    }

    /// The pause after so many failures, from one on, before the jitter.
    fn after(&self, failures: u32) -> Duration {
        let earlier = failures.saturating_sub(1);
        let place = usize::try_from(earlier).unwrap_or(usize::MAX);
        match self.schedule.get(place).or(self.schedule.last()) {
            Some(pause) => *pause,
            None => self
                .backoff
                .saturating_mul(1 << earlier.min(31))
                .min(self.max_backoff),
        }
    }
}

/// A number in -1.0..1.0 that looks random and is the same for the same failure.
fn spread(trigger: TriggerId, used: u32, at: DateTime<Utc>) -> f64 {
    let low = u64::from_be_bytes(trigger.0[8..].try_into().expect("eight of sixteen bytes"));
    let mixed = (low ^ u64::from(used) ^ at.timestamp_millis().cast_unsigned())
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .rotate_left(31)
        .wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let unit = f64::from(u32::try_from(mixed >> 32).expect("32 bits are left")) / f64::from(u32::MAX);
    unit.mul_add(2.0, -1.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn failure(attempts: u32, counts: bool) -> Failure {
        let at = DateTime::from_timestamp(1_800_000_000, 0).expect("in range");
        let expires_at = at + TimeDelta::hours(12);
        Failure {
            trigger: TriggerId([7; 16]),
            attempts,
            counts,
            retry_after: None,
            at,
            expires_at,
        }
    }

    fn pause_of(policy: &Policy, failure: &Failure) -> TimeDelta {
        match policy.next(failure) {
            Next::At(at) => at - failure.at,
            other => panic!("no retry: {other:?}"),
        }
    }

    #[test]
    fn pauses_double_up_to_the_longest() {
        let policy = Policy {
            jitter: 0.0,
            attempts: 100,
            ..Policy::default()
        };
        let minutes: Vec<i64> = (0..7)
            .map(|attempts| pause_of(&policy, &failure(attempts, true)).num_minutes())
            .collect();
        assert_eq!(minutes, [1, 2, 4, 8, 16, 20, 20]);
    }

    #[test]
    fn listed_pauses_are_kept_and_the_last_goes_on() {
        let minutes = [1, 2, 5, 10].map(Duration::from_mins);
        let policy = Policy {
            jitter: 0.0,
            attempts: 7,
            schedule: minutes.to_vec(),
            ..Policy::default()
        };
        let pauses: Vec<i64> = (0..6)
            .map(|attempts| pause_of(&policy, &failure(attempts, true)).num_minutes())
            .collect();
        assert_eq!(pauses, [1, 2, 5, 10, 10, 10]);
        assert_eq!(policy.next(&failure(6, true)), Next::Exhausted);
        assert_eq!(
            pause_of(&policy, &failure(3, false)).num_seconds(),
            30,
            "the relay's"
        );

        let second = Duration::from_secs(1);
        let doubling = policy.doubling(second, Duration::ZERO);
        assert_eq!(
            pause_of(&doubling, &failure(4, true)).num_seconds(),
            1,
            "it is the longest, too"
        );
    }

    #[test]
    fn the_last_attempt_is_not_repeated() {
        assert_eq!(Policy::default().next(&failure(7, true)), Next::Exhausted);
    }

    #[test]
    fn an_unreachable_relay_burns_no_attempt() {
        let policy = Policy {
            attempts: 1,
            ..Policy::default()
        };
        assert!(matches!(policy.next(&failure(0, false)), Next::At(_)));
    }

    #[test]
    fn a_relay_that_is_back_gets_everything_within_a_minute() {
        for attempts in 0..7 {
            let pause = pause_of(&Policy::default(), &failure(attempts, false));
            assert!((24..=36).contains(&pause.num_seconds()), "{pause}");
        }
    }

    #[test]
    fn a_longer_retry_after_wins() {
        let asked = Failure {
            retry_after: Some(Duration::from_hours(1)),
            ..failure(0, true)
        };
        assert_eq!(pause_of(&Policy::default(), &asked).num_minutes(), 60);
        let shorter = Failure {
            retry_after: Some(Duration::from_secs(1)),
            ..failure(0, true)
        };
        assert!(pause_of(&Policy::default(), &shorter).num_seconds() >= 48);
    }

    #[test]
    fn a_retry_after_beyond_the_deadline_leaves_one_more_attempt() {
        let patient = |minutes: i64| Failure {
            retry_after: Some(Duration::MAX),
            expires_at: failure(0, true).at + TimeDelta::minutes(minutes),
            ..failure(0, true)
        };
        assert_eq!(pause_of(&Policy::default(), &patient(60)).num_minutes(), 59);
        let soon = pause_of(&Policy::default(), &patient(2));
        assert!(
            soon < TimeDelta::minutes(2) && soon >= TimeDelta::seconds(48),
            "{soon}"
        );
        assert_eq!(Policy::default().next(&patient(0)), Next::TooLate);
    }

    #[test]
    fn nothing_is_tried_at_or_after_the_deadline() {
        let late = Failure {
            expires_at: failure(0, true).at,
            ..failure(0, true)
        };
        assert_eq!(Policy::default().next(&late), Next::TooLate);
    }

    proptest! {
        #[test]
        fn a_retry_lies_within_the_jitter_and_before_the_deadline(
            id in any::<[u8; 16]>(), attempts in 0u32..10, counts: bool, asked in proptest::option::of(0u64..u64::MAX),
        ) {
            let policy = Policy::default();
            let retry_after = asked.map(Duration::from_secs);
            let failure = Failure { trigger: TriggerId(id), retry_after, ..failure(attempts, counts) };
            if let Next::At(at) = policy.next(&failure) {
                prop_assert!(at < failure.expires_at);
                let shortest = if counts { 48 } else { 24 };
                prop_assert!(at - failure.at >= TimeDelta::seconds(shortest));
            }
        }
    }
}
