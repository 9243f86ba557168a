//! What of all that is due has its turn now, and when to look again.

use std::collections::HashSet;
use std::sync::MutexGuard;
use std::sync::atomic::Ordering;
use std::time::Duration;

use chrono::DateTime;
use chrono::TimeDelta;
use chrono::Utc;

use crate::channel::breaker::Openness;
use crate::channel::seats::Seats;
use crate::delivery::OnDoubt;
use crate::delivery::domains::Domains;
use crate::delivery::lane::BATCH;
use crate::delivery::lane::Lane;
use crate::delivery::throughput::Throughput;
use crate::store::Claimed;

/// A lane looks at the wall clock at least this often, since it may have been stepped.
const LOOK: Duration = Duration::from_secs(1);

/// Who may have more under way, as claims are taken.
#[derive(Clone)]
struct Admission<'a> {
    lane: &'a Lane,
    quick: Seats,
    /// Of owners for whom the channel is slow.
    slow: Seats,
    permits: usize,
    of_one: Option<usize>,
    /// Whether something was due of somebody who may not.
    is_anybody_left: bool,
}

impl<'a> Admission<'a> {
    fn to(lane: &'a Lane) -> Self {
        let (quick, slow) = lane.seats().parted(|owner| lane.channel.is_slow(owner));
        Self {
            lane,
            quick,
            slow,
            permits: lane.window(),
            of_one: lane.channel.permits_of_one(),
            is_anybody_left: false,
        }
    }

    fn admit(&mut self, owner: u64) -> bool {
        let (under_way, most) = if self.lane.channel.is_slow(owner) {
            (&mut self.slow, self.permits.div_ceil(2))
        } else {
            (&mut self.quick, self.permits)
        };
        let is_admitted = self
            .of_one
            .is_none_or(|own| under_way.of(owner) < own && under_way.admit(owner, most));
        if is_admitted {
            under_way.take(owner);
        }
        self.is_anybody_left |= !is_admitted;
        is_admitted
    }
}

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

    /// Up to `most` claims that are due and may be under way: those that waited for a place of their domain, then others.
    pub(super) fn in_turn(&self, most: usize) -> Vec<Claimed> {
        let mut admission = Admission::to(self);
        let mut claims = self.of_domains(most, &mut admission);
        claims.extend(self.fresh(most - claims.len(), &mut admission));
        self.waits_for_seat
            .store(admission.is_anybody_left, Ordering::Relaxed);
        claims
    }

    fn of_domains(&self, most: usize, admission: &mut Admission<'_>) -> Vec<Claimed> {
        let rate = {
            let config = self.shared.config.borrow();
            let channel = config.channels.get(&self.kind);
            channel.and_then(|it| it.domain_throughput)
        };
        let mut domains = self.domains();
        domains.follow(rate, self.shared.clock.elapsed());
        domains.take(most, &mut |owner| admission.admit(owner))
    }

    /// Up to `most` claims that are due: those of owners who got much lately come after those of everybody else.
    fn fresh(&self, most: usize, admission: &mut Admission<'_>) -> Vec<Claimed> {
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
        if limiter.is_turn_of_held_back(now) {
            let held_back = limiter.held_back(most, now, &mut |owner| admission.admit(owner));
            if !held_back.is_empty() {
                return held_back;
            }
        }
        let before = admission.clone();
        let (armed, until) = (&self.shared.armed, self.due_until());
        let due = armed.take_due(self.kind, until, most, &mut |owner| admission.admit(owner));
        let pass = limiter.pass(due);
        if !pass.is_empty() {
            return pass;
        }
        // What is held back now is not under way; who was refused waits all the same.
        *admission = Admission {
            is_anybody_left: admission.is_anybody_left,
            ..before
        };
        limiter.held_back(most, now, &mut |owner| admission.admit(owner))
    }

    /// For how many messages, up to `most`, the channel's throughput has room now.
    pub(super) fn room(&self, most: usize) -> usize {
        let rate = {
            let config = self.shared.config.borrow();
            let channel = config.channels.get(&self.kind);
            channel.and_then(|it| it.throughput)
        };
        self.throughput().room(most, rate, self.shared.clock.elapsed())
    }

    /// How many messages may be in flight now.
    fn window(&self) -> usize {
        let config = self.shared.config.borrow();
        let channel = config.channels.get(&self.kind);
        let permits = self.channel.permits_now();
        if channel.is_some_and(|it| it.on_doubt == OnDoubt::Fail) {
            permits.min(self.channel.permits_in_doubt())
        } else {
            permits
        }
    }

    /// How fast this channel sends.
    pub(super) fn throughput(&self) -> MutexGuard<'_, Throughput> {
        self.throughput.lock().expect("no holder panics")
    }

    /// Whose messages are under way.
    pub(super) fn seats(&self) -> MutexGuard<'_, Seats> {
        self.seats.lock().expect("no holder panics")
    }

    /// Whether the epoch of the store lets anything be fired.
    pub(super) fn is_open(&self) -> bool {
        self.shared.epoch.is_open(self.shared.clock.now())
    }

    /// How long nothing will be due that may leave.
    pub(super) fn pause(&self) -> Duration {
        if !self.is_open() {
            return LOOK;
        }
        if let Openness::Nobody(pause) = self.channel.openness() {
            return pause.min(LOOK);
        }
        let due_until = self.due_until();
        let until = |next: DateTime<Utc>| (next - due_until).to_std().unwrap_or_default();
        if self.waits_for_seat.load(Ordering::Relaxed) {
            // What is due goes on once a message is no longer under way; another owner's may be due before, or have a
            // place of its domain.
            let next = self.shared.armed.next_due_after(self.kind, due_until).map(until);
            let place = self.domains().next_place(self.shared.clock.elapsed());
            return [next, place].into_iter().flatten().fold(LOOK, Duration::min);
        }
        let until_due = self.shared.armed.next_due(self.kind).map(until);
        let now = self.shared.clock.elapsed();
        let no_room = self.throughput().pause(now);
        let by_domain = self.domains().pause(now);
        let held_back = self.limiter.lock().expect("no holder panics").holds_something();
        let held_back = held_back.then_some(Duration::ZERO);
        let until_due = [until_due, by_domain, held_back].into_iter().flatten().min();
        until_due.unwrap_or(LOOK).max(no_room).min(LOOK)
    }
}
