//! One node, assembled: what it is made of and how its loops are started and drained. Tests and benches drive the same
//! parts by hand.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::sync::mpsc;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::change;
use crate::change::ChangeHandler;
use crate::channel::Channel;
use crate::clock::Clock;
use crate::clock::DatabaseClock;
use crate::condition::Led;
use crate::condition::Sight;
use crate::config::Settings;
use crate::delivery::OnDoubt;
use crate::delivery::lane::Lane;
use crate::delivery::lane::LaneConfig;
use crate::delivery::lane::Shared;
use crate::delivery::message::Renderer;
use crate::delivery::recall::Recall;
use crate::delivery::settler::Settler;
use crate::epoch::EpochTracker;
use crate::janitor;
use crate::janitor::Janitor;
use crate::metrics::ClaimResult;
use crate::metrics::Metrics;
use crate::planner::Planner;
use crate::post::Seat;
use crate::ready::Readiness;
use crate::shutdown::Shutdown;
use crate::store::Changed;
use crate::store::Living;
use crate::store::RescueRules;
use crate::store::Store;
use crate::store::StoreError;
use crate::trigger::ChannelKind;
use crate::trigger::SessionId;
use crate::trigger::series::Lateness;
use crate::worker::Rounds;
use crate::worker::Worker;

/// Attempts that may wait for the settler.
const FINISHED: usize = 10_000;

/// A session whose last beat is older is dead.
const DEAD_AFTER: Duration = Duration::from_secs(5);

/// How long a drain waits for sends under way.
const DRAIN: Duration = Duration::from_secs(30);

/// What a node is given.
#[derive(Debug)]
pub struct Parts {
    /// Where triggers are kept.
    pub store: Arc<dyn Store>,
    /// Its clocks: where the store has one of its own, that is `database_clock`.
    pub clock: Arc<dyn Clock>,
    /// The clock that the store goes by, where that is not this node's own.
    pub database_clock: Option<Arc<DatabaseClock>>,
    /// Its ways out.
    pub channels: BTreeMap<ChannelKind, Arc<dyn Channel>>,
    /// How reminders are worded.
    pub renderer: Arc<Renderer>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// Told that loops turn.
    pub ready: Readiness,
    /// Whether it claims and delivers; without, it takes changes and serves the API.
    pub delivers: bool,
    /// Its place among the others; alone by default.
    pub seat: Seat,
    /// The epoch of the store, as this node knows it; by default nothing is remembered on disk.
    pub epoch: Arc<EpochTracker>,
}

/// The configuration as the loops see it, each part anew for every round.
#[derive(Debug)]
pub struct Live {
    change: watch::Sender<change::Config>,
    lanes: watch::Sender<LaneConfig>,
    rounds: watch::Sender<Rounds>,
}

impl Live {
    /// The parts of `settings`.
    pub fn new(settings: &Settings) -> Self {
        Self {
            change: watch::Sender::new(change_config(settings)),
            lanes: watch::Sender::new(lane_config(settings)),
            rounds: watch::Sender::new(rounds(settings)),
        }
    }

    /// Puts `settings` in force.
    pub fn apply(&self, settings: &Settings) {
        self.change.send_replace(change_config(settings));
        self.lanes.send_replace(lane_config(settings));
        self.rounds.send_replace(rounds(settings));
    }
}

/// A node whose loops do not run yet.
pub struct Node {
    /// Takes changes.
    pub changes: ChangeHandler,
    /// What its loops share.
    pub shared: Arc<Shared>,
    /// One for each channel.
    pub lanes: Vec<Lane>,
    /// Writes what attempts came to.
    pub settler: Settler,
    /// Drives planner and janitor.
    pub worker: Worker,
    /// Looks ahead.
    pub planner: Planner,
    /// Cleans up.
    pub janitor: Janitor,
    delivers: bool,
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node")
            .field("shared", &self.shared)
            .finish_non_exhaustive()
    }
}

impl Node {
    /// Starts a session in the store, taking over what an earlier session of this node held, and assembles the node.
    pub async fn assemble(parts: Parts, node: &str, live: &Live) -> Result<Self, StoreError> {
        let Parts {
            store,
            clock,
            database_clock,
            channels,
            renderer,
            metrics,
            ready,
            delivers,
            seat,
            epoch,
        } = parts;
        let session = begin_session(&*store, node, live, &metrics).await?;
        let shared = Arc::new(Shared {
            store: Arc::clone(&store),
            clock: Arc::clone(&clock),
            armed: Arc::clone(&seat.armed),
            recorded: Arc::clone(&seat.recorded),
            session,
            renderer,
            metrics: Arc::clone(&metrics),
            config: live.lanes.subscribe(),
            sends: TaskTracker::new(),
            given_up: CancellationToken::new(),
            ready: ready.clone(),
            attempts: AtomicU32::new(0),
            epoch: Arc::clone(&epoch),
        });
        let (finished, settling) = mpsc::channel(FINISHED);
        let lane = |(kind, channel)| Lane::new(kind, channel, Arc::clone(&shared), finished.clone());
        let lanes = channels.into_iter().map(lane).collect();
        let worker = Worker {
            store: Arc::clone(&store),
            clock,
            database_clock,
            leadership: seat.leadership(),
            session,
            metrics,
            rounds: live.rounds.subscribe(),
            nudge: Arc::new(Notify::new()),
            ready,
            seat: seat.clone(),
            delivers,
            node: node.to_owned(),
            epoch,
        };
        // Before the first change comes it is known who may be given what it owes soon.
        worker.beat_once().await?;
        Ok(Self {
            changes: changes(&shared, live, delivers.then_some(session), &seat),
            planner: planner(&shared, &seat),
            janitor: Janitor::new(store),
            settler: Settler::new(Arc::clone(&shared), settling),
            shared,
            lanes,
            worker,
            delivers,
        })
    }

    /// Starts the loops; they stop taking new work when `shutdown.soft` is cancelled.
    pub fn run(self, initial_delay: Duration, shutdown: &Shutdown) -> Running {
        let Self {
            changes,
            shared,
            lanes,
            settler,
            worker,
            planner,
            janitor,
            delivers,
        } = self;
        let worker = Arc::new(worker);
        let loops = TaskTracker::new();
        let settling = TaskTracker::new();
        if delivers {
            // It ends when the last lane has: later than `soft`, or something is wrong and outcomes are lost.
            watched(&settling, "settler", shutdown, move |_| settler.run());
            deliver(&loops, lanes, Recall::new(Arc::clone(&shared)), shutdown);
            let (finding, finder) = (Arc::clone(&worker), planner.clone());
            watched(&loops, "finder", shutdown, move |stop| async move {
                finding.find(&finder, &stop).await;
            });
            let planning = Arc::clone(&worker);
            watched(&loops, "planner", shutdown, move |stop| async move {
                planning.plan(&planner, initial_delay, &stop).await;
            });
            let replanning = Arc::clone(&worker);
            watched(&loops, "replanner", shutdown, move |stop| async move {
                replanning.replan(&changes, &stop).await;
            });
            let cleaning = Arc::clone(&worker);
            watched(&loops, "janitor", shutdown, move |stop| async move {
                cleaning.clean(&janitor, &stop).await;
            });
        }
        watch_cluster(&worker, &loops, shutdown);
        let fails = shutdown.clone();
        watched(&loops, "heartbeat", shutdown, move |stop| async move {
            if let Err(reason) = worker.beat(&stop).await {
                fails.fail(reason);
            }
        });
        loops.close();
        settling.close();
        Running {
            shared,
            loops,
            settling,
        }
    }
}

async fn begin_session(
    store: &dyn Store,
    node: &str,
    live: &Live,
    metrics: &Metrics,
) -> Result<SessionId, StoreError> {
    let rescue = live.rounds.borrow().rescue.clone();
    let (session, taken_over) = store.begin_session(node, &rescue).await?;
    metrics.rescued(&taken_over);
    tracing::info!(session = session.0, ?taken_over, "session begun");
    Ok(session)
}

/// Watches who leads, where there is a cluster.
fn watch_cluster(worker: &Arc<Worker>, loops: &TaskTracker, shutdown: &Shutdown) {
    let Some(cluster) = worker.seat.cluster().cloned() else {
        return;
    };
    // A node is ready once it knows that somebody leads.
    worker
        .ready
        .set("cluster", Led::default().look(Sight::Nobody, Duration::ZERO));
    let watching = Arc::clone(worker);
    watched(loops, "watch", shutdown, move |stop| async move {
        watching.watch(&cluster, &stop).await;
    });
}

/// A node whose loops run.
#[derive(Debug)]
pub struct Running {
    shared: Arc<Shared>,
    loops: TaskTracker,
    settling: TaskTracker,
}

impl Running {
    /// Finishes what is under way (for at most 30 s, or until `hard` is cancelled), and gives back the rest.
    pub async fn drain(self, hard: &CancellationToken) {
        self.shared.sends.close();
        let finish = async {
            self.loops.wait().await;
            // What is not yet being sent is for others, however long the sends take.
            if let Err(error) = self.shared.store.give_back(self.shared.session).await {
                tracing::warn!(%error, "what is held could not be given back; it lapses");
            }
            self.shared.sends.wait().await;
            // The last lane and the last send are gone, and with them the ways to the settler.
            self.settling.wait().await;
        };
        let is_over = tokio::select! {
            () = finish => true,
            () = hard.cancelled() => false,
            () = self.shared.clock.sleep(DRAIN) => {
                tracing::warn!("sends under way did not end in time; they are picked up after the next start");
                false
            }
        };
        if !is_over {
            // The session stays: the next start takes over all that it held, at once. Nothing here holds on to the store.
            self.shared.given_up.cancel();
            return;
        }
        match self.shared.store.end_session(self.shared.session).await {
            Ok(given_back) => tracing::info!(given_back, "session ended"),
            Err(error) => tracing::warn!(%error, "the session could not be ended; its claims lapse"),
        }
    }
}

/// Runs the lanes, and what lets those go that wait in them.
fn deliver(loops: &TaskTracker, lanes: Vec<Lane>, recall: Recall, shutdown: &Shutdown) {
    for lane in lanes {
        watched(loops, "delivery", shutdown, move |stop| async move {
            lane.run(stop).await;
        });
    }
    watched(loops, "recall", shutdown, |stop| recall.run(stop));
}

/// Runs a loop that must not end before it is asked to: if it does, the process goes down.
fn watched<F, L>(loops: &TaskTracker, name: &'static str, shutdown: &Shutdown, body: F)
where
    F: FnOnce(CancellationToken) -> L,
    L: Future<Output = ()> + Send + 'static,
{
    let task = tokio::spawn(body(shutdown.soft.clone()));
    let shutdown = shutdown.clone();
    loops.spawn(async move {
        let ended = task.await;
        // A panic is a failure whenever it comes: a drain that lost outcomes does not end with 0.
        if ended.is_err() || !shutdown.soft.is_cancelled() {
            let how = ended.map_or_else(|error| error.to_string(), |()| "it returned".to_owned());
            tracing::error!(name, how, "a loop ended");
            shutdown.fail(format!("the {name} loop ended: {how}"));
        }
    });
}

fn changes(shared: &Arc<Shared>, live: &Live, own: Option<SessionId>, seat: &Seat) -> ChangeHandler {
    let (seat, asked) = (seat.clone(), seat.clone());
    let metrics = Arc::clone(&shared.metrics);
    let tell = Arc::new(move |changed: &Changed, taker: Option<SessionId>| {
        seat.recorded.notify_one();
        seat.withdraw(&changed.withdrawn);
        match taker.filter(|taker| Some(*taker) != own) {
            Some(other) => seat.entrust(other, &changed.claimed),
            None => seat.armed.arm(&changed.claimed),
        }
        metrics.claims(ClaimResult::Claimed, changed.claimed.len());
        for record in &changed.recorded {
            metrics.concluded(record.wish.channel, record.outcome, record.reason);
        }
    });
    let taker = Arc::new(move || asked.taker(own));
    ChangeHandler::new(Arc::clone(&shared.store), live.change.subscribe(), taker, tell)
}

fn planner(shared: &Arc<Shared>, seat: &Seat) -> Planner {
    let (own, seat) = (shared.session, seat.clone());
    let tell = move |hand: &Living, claims: &[_]| {
        if hand.session == own {
            seat.armed.arm(claims);
        } else if let Some(peer) = hand.peer {
            seat.give(peer, claims);
        }
    };
    Planner::new(Arc::clone(&shared.store), own, Arc::new(tell))
}

/// The look-ahead, widened by the largest time shift: what is sent earlier must be claimed earlier.
fn window(settings: &Settings) -> Duration {
    let shifts = settings.channels.values().map(|channel| channel.time_shift_ms);
    let largest = u64::try_from(shifts.max().unwrap_or_default()).unwrap_or_default();
    settings.worker.look_ahead + Duration::from_millis(largest)
}

fn lateness(settings: &Settings) -> Lateness {
    Lateness {
        grace: settings.policies.late_grace,
        most: settings.delivery.max_lateness,
    }
}

fn change_config(settings: &Settings) -> change::Config {
    change::Config {
        policies: settings.policies.clone(),
        max_lateness: settings.delivery.max_lateness,
        alarms_per_owner: settings.alarms_per_owner,
        window: window(settings),
    }
}

fn lane_config(settings: &Settings) -> LaneConfig {
    LaneConfig {
        delivery: settings.delivery.clone(),
        channels: settings.channels.clone(),
        lateness: lateness(settings),
        choices: settings.policies.choices,
        recipients: settings.policies.recipients.clone(),
        defaults: Arc::new(settings.policies.defaults.clone()),
        window: window(settings),
    }
}

fn rounds(settings: &Settings) -> Rounds {
    let retries = settings
        .channels
        .iter()
        .filter(|(_, channel)| channel.on_doubt == OnDoubt::Retry);
    Rounds {
        period: settings.worker.period,
        window: window(settings),
        rescue: RescueRules {
            dead_after: DEAD_AFTER,
            overdue_wait: settings.worker.overdue_wait_time,
            send_within: settings.delivery.send_within,
            retry_in_doubt: retries.map(|(kind, _)| *kind).collect(),
        },
        retention: janitor::Config {
            history: settings.retention.history,
            tombstones: settings.retention.tombstones,
        },
    }
}
