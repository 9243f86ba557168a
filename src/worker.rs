//! The loops that drive planner and janitor: on a period, on nudges, and when the earliest free trigger comes near.
//!
//! Beside them the loops that tell of this node: its heartbeat, its clock against the database's, and whether somebody leads.
//!
//! A nudge says "look", never what to look at, so that a lost one costs no more than the wait for the next period.

mod heartbeat;
mod rewind;

use std::sync::Arc;
use std::time::Duration;

use chrono::DateTime;
use chrono::TimeDelta;
use chrono::Utc;
use tokio::sync::Notify;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::arbiter;
use crate::change::ChangeHandler;
use crate::clock::Clock;
use crate::clock::DatabaseClock;
use crate::cluster::Cluster;
use crate::cluster::Leadership;
use crate::cluster::Role;
use crate::condition;
use crate::condition::Led;
use crate::condition::MOST_OFFSET;
use crate::condition::Sight;
use crate::epoch::EpochTracker;
use crate::janitor;
use crate::janitor::Janitor;
use crate::metrics::ClaimResult;
use crate::metrics::Metrics;
use crate::planner::Planner;
use crate::post::Seat;
use crate::ready::Readiness;
use crate::store::Report;
use crate::store::RescueRules;
use crate::store::Rescued;
use crate::store::Store;
use crate::store::StoreError;
use crate::trigger::SessionId;
use crate::trigger::outcome::Outcome;
use crate::trigger::outcome::Reason;

/// How often a session says that it lives.
const BEAT: Duration = Duration::from_secs(1);

/// How often a session looks up what it holds that is due about then.
const FIND: Duration = Duration::from_secs(5);

/// How often lapsed claims are looked for, and reports that did not come.
const RESCUE: Duration = Duration::from_secs(5);

/// What is due so soon is somebody's, or the planner looks for it.
const SOON: TimeDelta = TimeDelta::seconds(15);

/// How often what is old is deleted.
const PURGE: Duration = Duration::from_mins(10);

/// How often it is looked whether something must be planned again.
const REPLAN: Duration = Duration::from_mins(1);

/// How long planning everything again may take, in a store of many millions of events.
const LONG_REPLAN: Duration = Duration::from_hours(24);

/// The pause after a run that failed.
const AFTER_FAILURE: Duration = Duration::from_secs(1);

/// A loop counts as stuck when it is silent so much longer than it should be.
const MARGIN: Duration = Duration::from_mins(1);

/// Rows counted for the backlog at the most.
const BACKLOG: u32 = 10_000;

/// How the worker works; names as operators know them from message-alarm workers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Whether this node plans and delivers at all.
    pub enabled: bool,
    /// How often it looks ahead.
    pub period: Duration,
    /// How long after process start it looks for the first time.
    pub initial_delay: Duration,
    /// How far it looks ahead; at least `period`.
    pub look_ahead: Duration,
    /// How long after it was due a claim is taken away from whoever holds it.
    pub overdue_wait_time: Duration,
}

/// What the loops go by; read anew for every round.
#[derive(Debug, Clone)]
pub struct Rounds {
    /// How often the planner looks.
    pub period: Duration,
    /// How far it looks: the look-ahead, widened by the largest time shift.
    pub window: Duration,
    /// How lapsed claims are judged.
    pub rescue: RescueRules,
    /// How long things are kept.
    pub retention: janitor::Config,
}

/// Drives planner and janitor.
#[derive(Debug)]
pub struct Worker {
    /// Where triggers are kept.
    pub store: Arc<dyn Store>,
    /// The node's clocks.
    pub clock: Arc<dyn Clock>,
    /// The clock that the store goes by, where that is not this node's own.
    pub database_clock: Option<Arc<DatabaseClock>>,
    /// Whether this node does the periodic work.
    pub leadership: Leadership,
    /// This start of this node.
    pub session: SessionId,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// What the loops go by.
    pub rounds: watch::Receiver<Rounds>,
    /// Wakes the planner.
    pub nudge: Arc<Notify>,
    /// Told that loops turn.
    pub ready: Readiness,
    /// This node's place among the others.
    pub seat: Seat,
    /// Whether this node may be given claims.
    pub delivers: bool,
    /// Its name, under which it began the session.
    pub node: String,
    /// The epoch of the store, as this node knows it.
    pub epoch: Arc<EpochTracker>,
}

impl Worker {
    /// Looks ahead until `stop`; the first time after `initial_delay`, unless other nodes live.
    pub async fn plan(&self, planner: &Planner, initial_delay: Duration, stop: &CancellationToken) {
        let starts_at = self.clock.elapsed().saturating_add(initial_delay);
        let mut pause = initial_delay;
        let mut looks_at_all = Duration::ZERO;
        let mut reloaded = self.rounds.clone();
        reloaded.mark_unchanged();
        loop {
            self.turns("planner", pause);
            let held = self.leadership.held();
            tokio::select! {
                () = stop.cancelled() => return,
                // The earliest of what is left is near.
                () = self.clock.sleep(pause) => {}
                // A node that comes to lead looks at once, unless it has only just started and is alone.
                () = self.leadership.differs(held) => looks_at_all = Duration::ZERO,
                () = self.nudge.notified() => looks_at_all = Duration::ZERO,
                Ok(()) = reloaded.changed() => looks_at_all = Duration::ZERO,
            }
            pause = starts_at.saturating_sub(self.clock.elapsed());
            if !pause.is_zero() && !self.follows_others() {
                continue;
            }
            pause = self.rounds.borrow().period;
            if self.clock.elapsed() >= looks_at_all {
                planner.start_over();
                looks_at_all = self.clock.elapsed().saturating_add(pause);
            }
            if self.leadership.is_held() {
                pause = self.plan_once(planner).await;
            }
        }
    }

    /// Whether other nodes live: then the work goes on where it was, and waits for no start.
    fn follows_others(&self) -> bool {
        let living = self.seat.living.borrow();
        living.iter().any(|living| living.session != self.session)
    }

    /// Looks up what this session holds, just before it is due, until `stop`.
    pub async fn find(&self, planner: &Planner, stop: &CancellationToken) {
        loop {
            self.turns("finder", FIND);
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.clock.sleep(FIND) => {}
            }
            if let Err(error) = planner.find_held().await {
                tracing::warn!(%error, "looking up what is held failed; trying again");
            }
        }
    }

    /// One look ahead. Returns when to look again.
    pub async fn plan_once(&self, planner: &Planner) -> Duration {
        let rounds = self.rounds.borrow().clone();
        let began = self.clock.elapsed();
        let Some(held) = self.leadership.held() else {
            return rounds.period;
        };
        let fence = arbiter::fence(held);
        match planner.tick(rounds.window, fence, rounds.rescue.dead_after).await {
            Ok(tick) => {
                let now = self.clock.now();
                self.metrics.claims(
                    ClaimResult::Claimed,
                    usize::try_from(tick.claimed).unwrap_or(usize::MAX),
                );
                self.metrics
                    .planner_ran(now, self.clock.elapsed().saturating_sub(began));
                tracing::debug!(claimed = tick.claimed, "looked ahead");
                until_next(tick.next, now).min(rounds.period)
            }
            Err(StoreError::Fenced) => {
                tracing::info!("another node leads by now");
                AFTER_FAILURE
            }
            Err(error) => {
                tracing::warn!(%error, "looking ahead failed; trying again");
                AFTER_FAILURE
            }
        }
    }

    /// The loop of this name turns and will turn again after `pause`.
    fn turns(&self, name: &'static str, pause: Duration) {
        self.ready
            .beat(name, self.clock.elapsed(), pause.saturating_add(MARGIN));
    }

    /// Frees lapsed claims, gives up reports that do not come, and deletes what is old, until `stop`.
    pub async fn clean(&self, janitor: &Janitor, stop: &CancellationToken) {
        let mut purged = self.clock.elapsed();
        let mut more = false;
        let mut steps = Steps::new(self.clock.now(), self.clock.elapsed());
        loop {
            self.turns("janitor", RESCUE);
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.clock.sleep(RESCUE) => {}
            }
            if !self.leadership.is_held() {
                continue;
            }
            // Whoever cleans up lives, however long the store kept their last sign of life waiting.
            if let Err(error) = self.store.beat(self.session, self.report()).await {
                tracing::warn!(%error, "the heartbeat failed; lapsed claims are not looked for");
                continue;
            }
            let mut rules = self.rounds.borrow().rescue.clone();
            steps.look(self.clock.now(), self.clock.elapsed());
            rules.send_within = steps.send_within(rules.send_within);
            self.rescue_once(janitor, &rules).await;
            self.time_out_once(janitor).await;
            self.look_if_forgotten().await;
            if more || self.clock.elapsed().saturating_sub(purged) >= PURGE {
                more = self.purge_once(janitor).await;
                purged = self.clock.elapsed();
            }
        }
    }

    /// One look for lapsed claims; has the planner look if any were freed.
    pub async fn rescue_once(&self, janitor: &Janitor, rules: &RescueRules) {
        let Some(held) = self.leadership.held() else {
            return;
        };
        match janitor.rescue(rules, arbiter::fence(held)).await {
            Ok(rescued) => {
                self.metrics.rescued(&rescued);
                if rescued != Rescued::default() {
                    tracing::warn!(?rescued, "lapsed claims were freed");
                    self.nudge.notify_one();
                }
            }
            Err(error) => tracing::warn!(%error, "looking for lapsed claims failed; trying again"),
        }
    }

    /// One look for reports that have not come in time.
    pub async fn time_out_once(&self, janitor: &Janitor) {
        let Some(held) = self.leadership.held() else {
            return;
        };
        match janitor.time_out(arbiter::fence(held)).await {
            Ok(given_up) => {
                for (channel, count) in given_up {
                    tracing::warn!(%channel, count, "no report came in time");
                    let (outcome, reason) = (Outcome::TimeoutUnknown, Reason::NoReport);
                    self.metrics.reported(channel, outcome, reason, count);
                }
            }
            Err(error) => {
                tracing::warn!(%error, "looking for reports that did not come failed; trying again");
            }
        }
    }

    /// Has the planner look if something due soon is nobody's: it was planned where nobody could take it, or for somebody
    /// who has just gone.
    async fn look_if_forgotten(&self) {
        let soon = async { self.store.backlog(self.store.now().await? + SOON, BACKLOG).await };
        match soon.await {
            Ok(backlog) if backlog.planned > 0 => self.nudge.notify_one(),
            Ok(_) => {}
            Err(error) => tracing::warn!(%error, "looking for what is due soon failed; trying again"),
        }
    }

    /// Deletes what is old. Returns whether there may be more, to be deleted in the next round.
    async fn purge_once(&self, janitor: &Janitor) -> bool {
        let retention = self.rounds.borrow().retention;
        let Some(held) = self.leadership.held() else {
            return false;
        };
        let fence = arbiter::fence(held);
        let purged = async { janitor.purge(retention, self.store.now().await?, fence).await };
        match purged.await {
            Ok(purged) => {
                if purged.rows > 0 {
                    tracing::info!(rows = purged.rows, "old history was deleted");
                }
                purged.more
            }
            Err(error) => {
                tracing::warn!(%error, "deleting old history failed; trying again later");
                false
            }
        }
    }

    /// Plans again what has to be, until `stop`: at once, when the configuration is another, and from time to time.
    pub async fn replan(&self, changes: &ChangeHandler, stop: &CancellationToken) {
        let mut reloaded = changes.config();
        let mut pause = Duration::ZERO;
        loop {
            self.turns("replanner", pause);
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.clock.sleep(pause) => {}
                Ok(()) = reloaded.changed() => {}
            }
            pause = REPLAN;
            if !self.leadership.is_held() {
                continue;
            }
            self.turns("replanner", LONG_REPLAN);
            let caught_up = tokio::select! {
                () = stop.cancelled() => return,
                caught_up = changes.catch_up() => caught_up,
            };
            if let Err(error) = caught_up {
                tracing::error!(%error, "planning again failed; trying again");
            }
        }
    }

    /// Says once a second that this session lives, and measures. Ends with an error when the session was ended by
    /// somebody else: what it held belongs to others now.
    pub async fn beat(&self, stop: &CancellationToken) -> Result<(), String> {
        loop {
            self.turns("heartbeat", BEAT);
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                () = self.clock.sleep(BEAT) => {}
            }
            let Some(beat) = self.unless_stopped(self.beat_once(), stop).await else {
                return Ok(());
            };
            match beat {
                Ok(true) => {}
                Ok(false) => return Err("this node's session was taken over by another process".to_owned()),
                Err(StoreError::Damaged(reason)) => return Err(self.damage(reason).await),
                Err(error) => {
                    self.ready.store_refused();
                    tracing::warn!(%error, "the heartbeat failed; trying again");
                }
            }
        }
    }

    /// Sees once a second whether somebody leads, until `stop`.
    pub async fn watch(&self, cluster: &Cluster, stop: &CancellationToken) {
        let mut led = Led::default();
        loop {
            self.turns("watch", BEAT);
            let sight = self.sight(cluster).await;
            self.ready.set("cluster", led.look(sight, self.clock.elapsed()));
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.clock.sleep(BEAT) => {}
            }
        }
    }

    /// What the leader says of this node: one that delivers votes as well.
    async fn sight(&self, cluster: &Cluster) -> Sight {
        let status = cluster.status().await;
        if !status.authority {
            return Sight::Nobody;
        }
        let own = status.members.iter().find(|member| member.id == cluster.id());
        match own {
            Some(own) if own.role != Role::Learner || !self.delivers => Sight::Inside,
            _ => Sight::Outside,
        }
    }

    /// Who is given claims should know what time it is. Alone, a node delivers all the same, by the database's clock.
    fn report(&self) -> Report {
        let offset = self.database_clock.as_ref().and_then(|clock| clock.offset());
        Report {
            delivers: self.delivers && !offset.is_some_and(|offset| offset.exceeds(MOST_OFFSET)),
            peer: self.seat.number(),
            pending: self.seat.armed.len() as u64,
            seen: self.epoch.seen(),
            hold: self.epoch.holds(),
            fence: self.leadership.held().and_then(arbiter::fence),
        }
    }

    /// Asks the store for the time, and compares.
    async fn read_clock(&self) -> Result<DateTime<Utc>, StoreError> {
        let asked = self.clock.elapsed();
        let now = self.store.now().await?;
        let Some(clock) = &self.database_clock else {
            let step = self.clock.held_step();
            self.metrics.clock_offset(step.unwrap_or_default());
            self.ready.set("clock", step.map_or(Ok(()), condition::step));
            return Ok(now);
        };
        clock.read(asked, now);
        if let Some(offset) = clock.offset() {
            self.metrics.clock_offset(offset.ahead);
            self.ready.set("clock", condition::clock(offset));
        }
        Ok(now)
    }

    /// One beat. False: the session was ended by somebody else.
    pub async fn beat_once(&self) -> Result<bool, StoreError> {
        self.store.verify().await?;
        self.metrics.store_repeated(self.store.repeats());
        self.look_at_room();
        let now = self.read_clock().await?;
        let lives = self.heartbeat().await?;
        self.ready.store_wrote(self.clock.elapsed());
        self.writer_turns();
        self.metrics.leads(self.leadership.is_held());
        if self.seat.cluster().is_some() {
            let dead_after = self.rounds.borrow().rescue.dead_after;
            self.seat
                .living
                .send_replace(self.store.living(dead_after).await?);
        }
        let window = TimeDelta::from_std(self.rounds.borrow().window).unwrap_or(TimeDelta::MAX);
        let until = now.checked_add_signed(window).unwrap_or(DateTime::<Utc>::MAX_UTC);
        self.metrics
            .backlog(&self.store.backlog(until, BACKLOG).await?, now);
        Ok(lives)
    }
}

/// Steps of the wall clock. By a clock that was set forward, sends that began a second ago look hours old; those under
/// way when it was set have ended once `send_within` has passed by the boot-time clock, by which they are bounded.
#[derive(Debug, Clone, Copy)]
struct Steps {
    now: DateTime<Utc>,
    elapsed: Duration,
    stepped: Option<Duration>,
}

impl Steps {
    /// How far the clocks may drift apart between two looks and still tell the same time.
    const DRIFT: TimeDelta = TimeDelta::seconds(2);

    /// While sends of before a step may be under way, none is old enough to be rescued.
    const NEVER: Duration = Duration::from_hours(24 * 365 * 100);

    const fn new(now: DateTime<Utc>, elapsed: Duration) -> Self {
        Self {
            now,
            elapsed,
            stepped: None,
        }
    }

    fn look(&mut self, now: DateTime<Utc>, elapsed: Duration) {
        let passed = TimeDelta::from_std(elapsed.saturating_sub(self.elapsed)).unwrap_or(TimeDelta::MAX);
        if (now - self.now - passed).abs() > Self::DRIFT {
            self.stepped = Some(elapsed);
        }
        (self.now, self.elapsed) = (now, elapsed);
    }

    fn send_within(&self, configured: Duration) -> Duration {
        match self.stepped {
            Some(stepped) if self.elapsed.saturating_sub(stepped) <= configured => Self::NEVER,
            _ => configured,
        }
    }
}

fn until_next(next: Option<DateTime<Utc>>, now: DateTime<Utc>) -> Duration {
    next.map_or(Duration::MAX, |next| {
        (next - now).to_std().unwrap_or_default().max(AFTER_FAILURE)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_set_does_not_age_the_sends_under_way() {
        let within = Duration::from_mins(2);
        let at = |seconds| DateTime::UNIX_EPOCH + TimeDelta::seconds(seconds);
        let mut steps = Steps::new(at(0), Duration::ZERO);
        steps.look(at(5), Duration::from_secs(5));
        assert_eq!(steps.send_within(within), within);
        steps.look(at(3_610), Duration::from_secs(10));
        assert_eq!(steps.send_within(within), Steps::NEVER);
        steps.look(at(3_725), Duration::from_secs(125));
        assert_eq!(steps.send_within(within), Steps::NEVER);
        steps.look(at(3_735), Duration::from_secs(135));
        assert_eq!(steps.send_within(within), within);
    }
}
