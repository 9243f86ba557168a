//! Who comes first where owners have a limit: a flood for one of them waits in memory while anybody else has something
//! due, so that it reaches the store behind them and takes nobody's place in a batch.
//!
//! This limiter knows one node and only guesses (it counts what it let pass, sent or not), so it never decides: what it
//! holds back goes to the fire-check a moment later, which counts exactly.

use std::collections::HashSet;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::time::Duration;

use governor::Quota;
use governor::RateLimiter;
use governor::middleware::NoOpMiddleware;
use governor::state::keyed::HashMapStateStore;

use crate::delivery::waiting::Waiting;
use crate::store::Claimed;
use crate::trigger::limit::Limit;

/// However busy the node is, what was held back has a turn so often.
const TURN: Duration = Duration::from_secs(1);

/// So often owners that have their whole limit again are forgotten.
const TIDY: Duration = Duration::from_mins(1);

type Keyed = RateLimiter<u64, HashMapStateStore<u64>, Ticks, NoOpMiddleware<Duration>>;

/// The order in which one channel's claims are fired.
#[derive(Debug, Default)]
pub struct Limiter {
    limit: Option<Limit>,
    keyed: Option<Keyed>,
    ticks: Ticks,
    tidied: Duration,
    held_back: Waiting,
    last_turn: Duration,
}

impl Limiter {
    /// Follows the configuration and the boot-time clock.
    pub fn follow(&mut self, limit: Option<Limit>, now: Duration) {
        self.ticks.set(now);
        if self.limit != limit {
            self.limit = limit;
            let keyed = |quota| RateLimiter::new(quota, HashMapStateStore::default(), self.ticks.clone());
            self.keyed = limit.and_then(quota).map(keyed);
        }
        if let Some(keyed) = self
            .keyed
            .as_ref()
            .filter(|_| now.saturating_sub(self.tidied) >= TIDY)
        {
            keyed.retain_recent();
            self.tidied = now;
        }
        if self.held_back.is_empty() {
            self.last_turn = now;
        }
    }

    /// Whether what was held back has waited long enough while others went ahead.
    pub fn is_turn_of_held_back(&self, now: Duration) -> bool {
        now.saturating_sub(self.last_turn) >= TURN
    }

    /// Those of `due` that go ahead; the others are held back.
    pub fn pass(&mut self, due: Vec<Claimed>) -> Vec<Claimed> {
        let Some(keyed) = &self.keyed else { return due };
        let (pass, held_back): (Vec<_>, Vec<_>) = due
            .into_iter()
            .partition(|claim| keyed.check_key(&claim.owner).is_ok());
        for claim in held_back {
            self.held_back.insert(claim);
        }
        pass
    }

    /// Whether something was held back.
    pub fn holds_something(&self) -> bool {
        !self.held_back.is_empty()
    }

    /// Up to `most` of those of these owners that were held back.
    pub fn held_back_of(&mut self, owners: &HashSet<u64>, most: usize) -> Vec<Claimed> {
        self.held_back.take_of(owners, most)
    }

    /// Up to `most` of those that were held back, of owners whom `admits` admits.
    pub fn held_back(
        &mut self,
        most: usize,
        now: Duration,
        admits: &mut dyn FnMut(u64) -> bool,
    ) -> Vec<Claimed> {
        self.last_turn = now;
        std::iter::from_fn(|| self.held_back.pop(&mut *admits))
            .take(most)
            .collect()
    }
}

/// Where nothing is allowed, nobody goes ahead: there is no quota.
fn quota(limit: Limit) -> Option<Quota> {
    let amount = NonZeroU32::new(limit.amount)?;
    Some(Quota::with_period(limit.timeframe / limit.amount)?.allow_burst(amount))
}

/// The boot-time clock as it was last looked at, in nanoseconds.
#[derive(Debug, Clone, Default)]
pub struct Ticks(Arc<AtomicU64>);

impl Ticks {
    /// Looks at it.
    pub fn set(&self, now: Duration) {
        let nanoseconds = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        self.0.store(nanoseconds, Ordering::Relaxed);
    }
}

impl governor::clock::Clock for Ticks {
    type Instant = Duration;

    fn now(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;

    use super::*;
    use crate::trigger::ChannelKind;
    use crate::trigger::TriggerId;
    use crate::trigger::limit::OnLimit;

    const LIMIT: Limit = Limit {
        amount: 2,
        timeframe: Duration::from_mins(1),
        over: OnLimit::Defer,
        send_within: Duration::from_mins(2),
        time_shift_ms: 0,
    };

    fn of(owner: u64, number: u8) -> Claimed {
        Claimed {
            id: TriggerId([number; 16]),
            generation: 1,
            due_at: DateTime::UNIX_EPOCH,
            channel: ChannelKind::Email,
            owner,
        }
    }

    fn limiter() -> Limiter {
        let mut limiter = Limiter::default();
        limiter.follow(Some(LIMIT), Duration::from_secs(100));
        limiter
    }

    #[test]
    fn a_flood_for_one_owner_comes_after_everybody_else() {
        let mut limiter = limiter();

        let passed = limiter.pass(vec![of(1, 1), of(1, 2), of(1, 3), of(2, 4), of(1, 5)]);

        assert_eq!(passed, [of(1, 1), of(1, 2), of(2, 4)]);
        let later = limiter.held_back(9, Duration::from_secs(100), &mut |_| true);
        assert_eq!(later, [of(1, 3), of(1, 5)]);
    }

    #[test]
    fn what_was_held_back_has_a_turn_every_second() {
        let mut limiter = limiter();
        limiter.pass(vec![of(1, 1), of(1, 2), of(1, 3), of(1, 4)]);

        assert!(!limiter.is_turn_of_held_back(Duration::from_millis(100_999)));
        assert!(limiter.is_turn_of_held_back(Duration::from_secs(101)));
        assert_eq!(
            limiter.held_back(1, Duration::from_secs(101), &mut |_| true),
            [of(1, 3)]
        );
        assert!(!limiter.is_turn_of_held_back(Duration::from_millis(101_500)));
    }

    #[test]
    fn an_owner_goes_ahead_again_once_time_has_passed() {
        let mut limiter = limiter();
        limiter.pass(vec![of(1, 1), of(1, 2), of(1, 3)]);

        limiter.follow(Some(LIMIT), Duration::from_secs(131));

        assert_eq!(limiter.pass(vec![of(1, 6)]), [of(1, 6)]);
    }

    #[test]
    fn what_is_brought_again_is_held_back_once() {
        let mut limiter = limiter();
        limiter.pass(vec![of(1, 1), of(1, 2), of(1, 3)]);

        limiter.pass(vec![of(1, 3)]);

        assert_eq!(
            limiter.held_back(9, Duration::from_secs(100), &mut |_| true),
            [of(1, 3)]
        );
    }

    #[test]
    fn what_was_held_back_of_an_owner_can_be_had_alone() {
        let mut limiter = limiter();
        limiter.pass((1..5).map(|number| of(1, number)).collect());
        limiter.pass((5..9).map(|number| of(2, number)).collect());

        let of_one = limiter.held_back_of(&HashSet::from([2]), 1);

        assert_eq!(of_one, [of(2, 7)]);
        let others = limiter.held_back(9, Duration::from_secs(100), &mut |_| true);
        assert_eq!(others, [of(1, 3), of(2, 8), of(1, 4)], "in turn");
    }

    #[test]
    fn without_a_limit_all_pass_as_they_come() {
        let mut limiter = Limiter::default();
        limiter.follow(None, Duration::from_secs(100));

        let many: Vec<_> = (0..9).map(|number| of(1, number)).collect();

        assert_eq!(limiter.pass(many.clone()), many);
    }
}
