//! What of all that is due has its turn now, and when to look again.

use std::collections::HashSet;
use std::sync::MutexGuard;
use std::time::Duration;

use chrono::DateTime;
use chrono::TimeDelta;
use chrono::Utc;

use crate::channel::breaker::Openness;
use crate::delivery::domains::Domains;
use crate::delivery::lane::BATCH;
use crate::delivery::lane::Lane;
use crate::store::Claimed;

/// A lane looks at the wall clock at least this often, since it may have been stepped.
const LOOK: Duration = Duration::from_secs(1);

impl Lane {
    /// What else is due of the same owners, where it may go out in the same messages.
    pub(super) fn company(&self, claims: &[Claimed]) -> Vec<Claimed> {
        let gathers = {
            let config = self.shared.config.borrow();
            let channel = config.channels.get(&self.kind);
            channel.is_some_and(|it| it.gathers(config.delivery.catch_up))
        };
        if !gathers {
            return Vec::new();
        }
        let owners: HashSet<u64> = claims.iter().map(|claim| claim.owner).collect();
        let most = BATCH.saturating_sub(claims.len());
        let mut limiter = self.limiter.lock().expect("no holder panics");
        let mut company = limiter.held_back_of(&owners, most);
        company.extend(self.domains().take_of(&owners, most - company.len()));
        let most = most - company.len();
        let armed = &self.shared.armed;
        company.extend(armed.take_due_of(self.kind, self.due_until(), &owners, most));
        company
    }

    /// Until when triggers count as due: now, moved by the channel's time shift.
    fn due_until(&self) -> DateTime<Utc> {
        let shift = self
            .shared
            .config
            .borrow()
            .channels
            .get(&self.kind)
            .map_or(0, |it| it.time_shift_ms);
        self.shared.clock.now() + TimeDelta::milliseconds(shift)
    }

    /// What waits for a place of its domain.
    pub(super) fn domains(&self) -> MutexGuard<'_, Domains> {
        self.domains.lock().expect("no holder panics")
    }

    /// Up to `most` claims that are due: those that waited for a place of their domain, then others.
    pub(super) fn in_turn(&self, most: usize) -> Vec<Claimed> {
        let mut claims = self.domains().take(most);
        claims.extend(self.fresh(most - claims.len()));
        claims
    }

    /// Up to `most` claims that are due: those of owners who got much lately come after those of everybody else.
    fn fresh(&self, most: usize) -> Vec<Claimed> {
        if most == 0 {
            return Vec::new();
        }
        let now = self.shared.clock.elapsed();
        let limit = self
            .shared
            .config
            .borrow()
            .channels
            .get(&self.kind)
            .and_then(|it| it.limit);
        let mut limiter = self.limiter.lock().expect("no holder panics");
        limiter.follow(limit, now);
        if !limiter.is_turn_of_held_back(now) {
            let due = self.shared.armed.take_due(self.kind, self.due_until(), most);
            let pass = limiter.pass(due);
            if !pass.is_empty() {
                return pass;
            }
        }
        limiter.held_back(most, now)
    }

    /// For how many of what waits, up to `most`, the channel's throughput has room now.
    pub(super) fn room(&self, most: usize) -> usize {
        let config = self.shared.config.borrow().channels.get(&self.kind).cloned();
        let now = self.shared.clock.elapsed();
        let by_domain = {
            let mut domains = self.domains();
            domains.follow(config.as_ref().and_then(|it| it.domain_throughput), now);
            domains.ready(most)
        };
        let held_back = self.limiter.lock().expect("no holder panics").len();
        let due = self.shared.armed.count_due(self.kind, self.due_until(), most);
        let waiting = most.min(due + held_back + by_domain);
        let mut throughput = self.throughput.lock().expect("no holder panics");
        let rate = config.and_then(|it| it.throughput);
        throughput.room(waiting, rate, now)
    }

    pub(super) fn pause(&self) -> Duration {
        if let Openness::Nobody(pause) = self.channel.openness() {
            return pause.min(LOOK);
        }
        let next = self.shared.armed.next_due(self.kind);
        let until_due = next.map(|due_at| (due_at - self.due_until()).to_std().unwrap_or_default());
        let no_room = self.throughput.lock().expect("no holder panics").pause();
        let by_domain = self.domains().pause(self.shared.clock.elapsed());
        let until_due = until_due.unwrap_or(LOOK).min(by_domain.unwrap_or(LOOK));
        until_due.max(no_room).min(LOOK)
    }
}
