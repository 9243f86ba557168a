//! One channel's loop on this node: takes what is due out of the timers, fire-checks it in one batch for as many as
//! may be sent at once, and sends each in a task of its own. What came of it goes to the [`settler`](super::settler).

mod turns;

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering;
use std::time::Duration;

use secrecy::ExposeSecret;
use tokio::sync::Notify;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::Semaphore;
use tokio::sync::mpsc;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::channel::Channel;
use crate::channel::Deadline;
use crate::channel::Message;
use crate::channel::Own;
use crate::channel::Report;
use crate::channel::breaker::Openness;
use crate::channel::seats::Seats;
use crate::channel::webhook::Secrets;
use crate::clock::Clock;
use crate::delivery::ChannelConfig;
use crate::delivery::Config;
use crate::delivery::arm::Armed;
use crate::delivery::digest;
use crate::delivery::domains::Domains;
use crate::delivery::fire::FireJudge;
use crate::delivery::fire::own_target;
use crate::delivery::learn;
use crate::delivery::limiter::Limiter;
use crate::delivery::message::Renderer;
use crate::delivery::notice;
use crate::delivery::reminder;
use crate::delivery::settle;
use crate::delivery::settle::Channels;
use crate::delivery::settler::Finished;
use crate::delivery::throughput::Throughput;
use crate::epoch::EpochTracker;
use crate::metrics::ClaimResult;
use crate::metrics::ConnectionState;
use crate::metrics::Metrics;
use crate::metrics::Stage;
use crate::metrics::TargetKind;
use crate::ready::Readiness;
use crate::store::AttemptEnd;
use crate::store::Candidate;
use crate::store::Claimed;
use crate::store::FireCheck;
use crate::store::Owner;
use crate::store::Settlement;
use crate::store::Store;
use crate::trigger::AttemptToken;
use crate::trigger::ChannelKind;
use crate::trigger::SessionId;
use crate::trigger::TriggerId;
use crate::trigger::defaults::DefaultPolicy;
use crate::trigger::expand::Choices;
use crate::trigger::outcome::Outcome;
use crate::trigger::recipients::Recipients;
use crate::trigger::series::Lateness;

/// Claims of one fire-check at the most.
const BATCH: usize = 500;

/// A loop counts as stuck when it is silent so much longer than it should be.
const MARGIN: Duration = Duration::from_mins(1);

/// Pauses between tries of a fire-check whose store does not answer.
const STORE_PAUSE: Duration = Duration::from_millis(200);

/// What all lanes of a node share.
pub struct Shared {
    /// Where triggers are kept.
    pub store: Arc<dyn Store>,
    /// The node's clocks.
    pub clock: Arc<dyn Clock>,
    /// The node's timers.
    pub armed: Arc<Armed>,
    /// Notified once something was recorded.
    pub recorded: Arc<Notify>,
    /// This start of this node.
    pub session: SessionId,
    /// How reminders are worded.
    pub renderer: Arc<Renderer>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// How delivery works; read anew for every batch.
    pub config: watch::Receiver<LaneConfig>,
    /// Sends under way.
    pub sends: TaskTracker,
    /// Cancelled when what is under way is given up: it is picked up after the next start.
    pub given_up: CancellationToken,
    /// Told that loops turn.
    pub ready: Readiness,
    /// Attempts so far, for their tokens.
    pub attempts: AtomicU32,
    /// The epoch of the store, as this node knows it.
    pub epoch: Arc<EpochTracker>,
}

/// What lanes go by.
#[derive(Debug, Clone, PartialEq)]
pub struct LaneConfig {
    /// For all channels.
    pub delivery: Config,
    /// For each channel.
    pub channels: Channels,
    /// How late is too late.
    pub lateness: Lateness,
    /// What alarms mean where the standards leave a choice.
    pub choices: Choices,
    /// To whom alarms may write beside their owner.
    pub recipients: Recipients,
    /// Which alarms events have by default.
    pub defaults: Arc<DefaultPolicy>,
    /// Successors due so soon are claimed with the fire-check.
    pub window: Duration,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("session", &self.session)
            .finish_non_exhaustive()
    }
}

impl Shared {
    /// A token that no other attempt in this store has: the session's number, then a count within it.
    fn token(&self) -> AttemptToken {
        let count = self.attempts.fetch_add(1, Ordering::Relaxed);
        AttemptToken((self.session.0 << 32) | i64::from(count))
    }
}

/// What passed its fire-check, and goes out as one message.
struct Grant {
    candidates: Vec<Candidate>,
    token: AttemptToken,
    deadline: Deadline,
    config: ChannelConfig,
}

/// A message that is under way for an owner; no longer once this is dropped.
struct Seat {
    seats: Arc<Mutex<Seats>>,
    freed: Arc<Notify>,
    owner: u64,
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.seats.lock().expect("no holder panics").leave(self.owner);
        self.freed.notify_one();
    }
}

/// One channel's loop.
#[derive(Debug, Clone)]
pub struct Lane {
    kind: ChannelKind,
    channel: Arc<dyn Channel>,
    shared: Arc<Shared>,
    permits: Arc<Semaphore>,
    limiter: Arc<Mutex<Limiter>>,
    throughput: Arc<Mutex<Throughput>>,
    domains: Arc<Mutex<Domains>>,
    seats: Arc<Mutex<Seats>>,
    /// Notified once a message is no longer under way.
    freed: Arc<Notify>,
    /// Whether something is due that has no seat.
    waits_for_seat: Arc<AtomicBool>,
    finished: mpsc::Sender<Vec<Finished>>,
}

impl Lane {
    /// A lane that sends through `channel` and reports to `finished`.
    pub fn new(
        kind: ChannelKind,
        channel: Arc<dyn Channel>,
        shared: Arc<Shared>,
        finished: mpsc::Sender<Vec<Finished>>,
    ) -> Self {
        let permits = Arc::new(Semaphore::new(channel.permits()));
        Self {
            kind,
            channel,
            shared,
            permits,
            limiter: Arc::default(),
            throughput: Arc::default(),
            domains: Arc::default(),
            seats: Arc::default(),
            freed: Arc::default(),
            waits_for_seat: Arc::default(),
            finished,
        }
    }

    /// Fires what is due when it is due, until `stop`.
    pub async fn run(&self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            for (relay, busy, idle) in self.channel.connections() {
                let metrics = &self.shared.metrics;
                metrics.smtp_connections(&relay, ConnectionState::Busy, busy);
                metrics.smtp_connections(&relay, ConnectionState::Idle, idle);
            }
            for (target, is_open) in self.channel.breakers() {
                self.shared.metrics.breaker(&target, is_open);
            }
            let silence = self.shared.config.borrow().delivery.send_within + MARGIN;
            self.shared
                .ready
                .beat(self.kind.as_str(), self.shared.clock.elapsed(), silence);
            // A tick is never cut short: what its fire-check granted is sent.
            let permit = tokio::select! {
                () = stop.cancelled() => return,
                permit = self.permit() => permit,
            };
            if self.tick(permit).await == 0 {
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = self.shared.armed.changed(self.kind) => {}
                    () = self.freed.notified() => {}
                    () = self.shared.clock.sleep(self.pause()) => {}
                }
            }
        }
    }

    /// Waits until at least one more message may be sent.
    pub async fn permit(&self) -> OwnedSemaphorePermit {
        let permit = self.permits.clone().acquire_owned().await;
        permit.expect("the semaphore is never closed")
    }

    /// Fires what is due now, as much as may be sent at once. Returns how many timers were taken.
    pub async fn tick(&self, mut permits: OwnedSemaphorePermit) -> usize {
        if !self.is_open() {
            return 0;
        }
        let most = match self.channel.openness() {
            Openness::Everybody => (self.permits.available_permits() + 1).min(BATCH),
            Openness::OneProbe => 1,
            // What is due waits here, and leaves when the other side is back.
            Openness::Nobody(_) => return 0,
        };
        let mut claims = self.in_turn(self.room(most));
        let room = claims.len();
        let more = u32::try_from(claims.len().saturating_sub(1)).expect("a batch is small");
        if let Ok(more) = self.permits.clone().try_acquire_many_owned(more) {
            permits.merge(more);
        }
        if !claims.is_empty() {
            claims.extend(self.company(&claims));
            self.fire(&claims, room, permits).await;
        }
        claims.len()
    }

    async fn fire(&self, claims: &[Claimed], room: usize, mut permits: OwnedSemaphorePermit) {
        let config = self.shared.config.borrow().clone();
        let token = self.shared.token();
        let began = self.shared.clock.elapsed();
        let deadline = Deadline(began + config.delivery.send_within);
        let Some(checked) = self.fire_check(claims, room, (token, deadline), &config).await else {
            // The store is gone for longer than the check is good for. Nothing is lost by asking again.
            self.domains().hold(claims, &[], &HashSet::new());
            self.shared.armed.arm(claims);
            return;
        };
        self.shared.armed.arm(&checked.claimed);
        self.shared.armed.arm(&checked.deferred);
        let granted = checked.granted.iter();
        let granted: HashSet<TriggerId> = granted.map(|candidate| candidate.trigger.id).collect();
        let left = self.domains().hold(claims, &checked.left, &granted);
        self.shared.armed.arm(&left);
        self.tell_of_unsent(claims.len(), &checked);
        let messages = digest::messages(checked.granted);
        self.throughput()
            .spend(messages.len(), self.shared.clock.elapsed());
        for candidates in messages {
            let permit = permits.split(1);
            let seat = self.seat(candidates[0].owner.id.hash());
            let config = config.channels.get(&self.kind);
            if let Some(config) = config.map(|config| notice::config_for(&candidates[0], config)) {
                let grant = Grant {
                    candidates,
                    token,
                    deadline,
                    config,
                };
                self.shared.sends.spawn(self.clone().send(grant, (permit, seat)));
            }
        }
    }

    fn seat(&self, owner: u64) -> Seat {
        self.seats().take(owner);
        Seat {
            seats: Arc::clone(&self.seats),
            freed: Arc::clone(&self.freed),
            owner,
        }
    }

    /// Counts what a fire-check of so many claims came to, and tells of what was recorded without being sent.
    fn tell_of_unsent(&self, claims: usize, checked: &FireCheck) {
        let metrics = &self.shared.metrics;
        metrics.deferred(self.kind, checked.deferred.len());
        metrics.claims(ClaimResult::Claimed, checked.claimed.len());
        let lost = claims.saturating_sub(
            checked.granted.len() + checked.concluded.len() + checked.deferred.len() + checked.left.len(),
        );
        metrics.claims(ClaimResult::Lost, lost);
        for missed in &checked.missed {
            metrics.missed(missed.count);
            metrics.concluded(self.kind, missed.outcome, missed.reason);
        }
        for (trigger, outcome, reason) in &checked.concluded {
            metrics.concluded(self.kind, *outcome, *reason);
            metrics.missed(u64::from(*outcome == Outcome::Missed));
            tracing::info!(
                trigger.id = %trigger.id,
                event.uid = %trigger.wish.event_uid,
                channel = %self.kind,
                %outcome,
                %reason,
                "trigger recorded without being sent",
            );
        }
    }

    /// Asks the store until it answers or the check is no longer good for anything. The token stays the same, so that
    /// grants whose answer was lost are granted again.
    async fn fire_check(
        &self,
        claims: &[Claimed],
        room: usize,
        (token, deadline): (AttemptToken, Deadline),
        config: &LaneConfig,
    ) -> Option<FireCheck> {
        let shared = &self.shared;
        while shared.clock.elapsed() < deadline.0 {
            let judge = FireJudge::new(
                (config.lateness, config.choices, config.delivery.catch_up),
                config.channels.clone(),
                Arc::clone(&config.defaults),
                Arc::clone(&shared.clock),
            )
            .with_recipients(&config.recipients)
            .with_room(room, &self.domains)
            .in_epoch(shared.epoch.known());
            match shared
                .store
                .fire_check(shared.session, claims, token, &judge, config.window)
                .await
            {
                Ok(checked) => return Some(checked),
                Err(error) => tracing::warn!(channel = %self.kind, %error, "fire-check failed; trying again"),
            }
            shared.clock.sleep(STORE_PAUSE).await;
        }
        None
    }

    async fn send(self, grant: Grant, room: (Option<OwnedSemaphorePermit>, Seat)) {
        let ends = tokio::select! {
            ends = self.attempt(&grant) => ends,
            () = self.shared.given_up.cancelled() => return,
        };
        let token = grant.token;
        let finished = grant
            .candidates
            .into_iter()
            .zip(ends)
            .map(|(candidate, end)| Finished {
                target: own_target(&candidate).map_or(TargetKind::Owner, |_| TargetKind::Url),
                settlement: Settlement {
                    id: candidate.trigger.id,
                    generation: candidate.trigger.generation,
                    token,
                    end,
                },
                trigger: candidate.trigger,
            });
        // The settler outlives the lanes; without it the rows stay `sending` and are rescued.
        let _ = self.finished.send(finished.collect()).await;
        drop(room);
    }

    /// Sends the message, and says what that means for each that it stands for.
    async fn attempt(&self, grant: &Grant) -> Vec<AttemptEnd> {
        let Shared { clock, renderer, .. } = &*self.shared;
        let (candidates, config) = (&grant.candidates, &grant.config);
        let began = clock.elapsed();
        let told = reminder::tell(renderer, candidates, config.content, clock.now());
        for (candidate, error) in candidates.iter().zip(&told.flaws) {
            if let Some(error) = error {
                tracing::error!(trigger.id = %candidate.trigger.id, %error, "no message could be made");
            }
        }
        let Some((lead, message)) = told.message else {
            let unreadable = told.flaws.iter().flatten();
            return unreadable.map(|error| settle::unreadable(error)).collect();
        };
        let lead = &candidates[lead];
        let message = self.completed(message, &lead.owner);
        let report = self.put(&message, grant.deadline, began).await;
        learn::from(&self.shared, self.kind, lead, &report).await;
        let report = notice::report_for(lead, report);
        let now = clock.now();
        let mut ends: Vec<_> = candidates
            .iter()
            .zip(&told.flaws)
            .map(|(candidate, flaw)| {
                let trigger = &candidate.trigger;
                let end = match flaw {
                    Some(error) => settle::unreadable(error),
                    None => settle::decide(report.clone(), trigger, &message, config, now),
                };
                (trigger.id, end)
            })
            .collect();
        digest::agree(&mut ends, lead.trigger.id);
        let ends = ends.into_iter().map(|(_, end)| end);
        ends.map(|end| notice::end_for(lead, config, end)).collect()
    }

    /// The message with what its owner alone has. A call that may take as long as the whole attempt would never have all
    /// of its time.
    fn completed(&self, mut message: Message, owner: &Owner) -> Message {
        let most = self.shared.config.borrow().delivery.send_within / 2;
        message.within = message.within.map(|within| within.min(most));
        let secrets = owner.webhook_secrets.as_ref();
        message.own = Own {
            link_epoch: owner.link_epoch,
            // They were checked when they were set.
            secrets: secrets.and_then(|secrets| Secrets::parse(secrets.0.expose_secret()).ok()),
        };
        message
    }

    /// Puts the message, which was being made since then, to the channel.
    async fn put(&self, message: &Message, deadline: Deadline, began: Duration) -> Report {
        let Shared { clock, metrics, .. } = &*self.shared;
        let made = clock.elapsed();
        let report = self.channel.send(message, deadline).await;
        let (provider, sent) = (self.channel.name(), clock.elapsed());
        metrics.took(self.kind, provider, Stage::Render, made.saturating_sub(began));
        metrics.took(self.kind, provider, Stage::Send, sent.saturating_sub(made));
        metrics.attempted(self.kind, provider, &report);
        report
    }
}
