//! A cluster on a simulated network, with simulated clocks and disks, under faults drawn from a seed: nodes crash and
//! come back, some without their disk; links are cut both ways and one way; nodes are isolated, lose their database, hand
//! over. Whatever happens, in each term there is one
//! leader, at each instant one node at the most has authority, and when the faults end a leader is found.
//!
//! What is simulated is what carries bytes, keeps them and tells the time; all else is what ships.
//!
//! `CARILLON_SIM_SEEDS` says how many seeds are run, `CARILLON_SIM_FIRST` which is the first.

use std::collections::BTreeMap;
use std::env;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use chrono::DateTime;
use chrono::TimeDelta;
use chrono::Utc;
use openraft::async_runtime::WatchReceiver;
use openraft::type_config::TypeConfigExt;
use tokio::io::AsyncReadExt;
use tokio::io::AsyncWriteExt;
use tokio::sync::Notify;
use turmoil::Sim;
use turmoil::net::TcpListener;
use turmoil::net::TcpStream;

use super::Charter;
use super::Fence;
use super::MemberStatus;
use super::MemoryRegistry;
use super::NodeId;
use super::Pace;
use super::Peer;
use super::Registry;
use super::RegistryError;
use super::Role;
use super::StartError;
use super::disk::Folder;
use super::disk::Shelf;
use super::mail::Inbox;
use super::member::Materials;
use super::member::Member;
use super::network::Call;
use super::network::CallError;
use super::network::Carrier;
use super::registry::Arbiter;
use super::server::Answer;
use super::server::Door;
use super::server::Head;
use super::state::Runtime;
use super::state::Types;
use crate::clock::Clock;

/// Seeds that are run when nobody asks for more.
const SEEDS: u64 = 50;

/// Faults happen until then; after it the cluster has to heal.
const FAULTS: Duration = Duration::from_secs(30);

/// When a run ends.
const END: Duration = Duration::from_secs(42);

/// How finely time passes.
const TICK: Duration = Duration::from_millis(5);

/// Where everybody listens.
const PORT: u16 = 7000;

/// Boot-time clocks that all go equally fast, and are right to the tick.
#[derive(Debug, Clone, Default)]
struct SimulatedClock(Arc<AtomicU64>);

impl SimulatedClock {
    fn set(&self, elapsed: Duration) {
        let nanos = u64::try_from(elapsed.as_nanos()).expect("a run is short");
        self.0.store(nanos, Ordering::Relaxed);
    }
}

#[async_trait::async_trait]
impl Clock for SimulatedClock {
    fn now(&self) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH + TimeDelta::from_std(self.elapsed()).expect("a run is short")
    }

    fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }

    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

/// Carries calls over the simulated network, one connection for each.
#[derive(Debug)]
struct Wire;

#[async_trait::async_trait]
impl Carrier for Wire {
    async fn carry(&self, call: Call) -> Result<Vec<u8>, CallError> {
        let addr = call.to.addr.clone();
        let silent = |reason: String| CallError::Silent {
            addr: addr.clone(),
            reason,
        };
        let answer = tokio::time::timeout(call.within, exchange(&call)).await;
        let answer: Answer = answer
            .map_err(|_| silent("timed out".to_owned()))?
            .map_err(|error| silent(error.to_string()))?;
        answer.map_err(|(status, reason)| CallError::Refused {
            addr: addr.clone(),
            status,
            reason,
        })
    }
}

async fn exchange(call: &Call) -> std::io::Result<Answer> {
    let mut stream = TcpStream::connect(&*call.to.addr).await?;
    let body = String::from_utf8_lossy(&call.body);
    let head = (&*call.cluster, call.to.id.to_string(), call.path, body);
    send(&mut stream, &serde_json::to_vec(&head)?).await?;
    Ok(serde_json::from_slice(&receive(&mut stream).await?)?)
}

async fn answer(mut stream: TcpStream, door: Arc<Door>) -> std::io::Result<()> {
    let question = receive(&mut stream).await?;
    let (cluster, target, path, body): (String, String, String, String) = serde_json::from_slice(&question)?;
    let head = Head {
        secret: None,
        cluster: Some(cluster),
        target: Some(target),
    };
    let answer = door.answer(&head, &path, body.as_bytes()).await;
    send(&mut stream, &serde_json::to_vec(&answer)?).await
}

async fn send(stream: &mut TcpStream, bytes: &[u8]) -> std::io::Result<()> {
    stream
        .write_u32(u32::try_from(bytes.len()).expect("it is small"))
        .await?;
    stream.write_all(bytes).await
}

async fn receive(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let length = stream.read_u32().await?;
    let mut bytes = vec![0; usize::try_from(length).expect("it is small")];
    stream.read_exact(&mut bytes).await?;
    Ok(bytes)
}

/// What the world does to one node, through its crashes.
#[derive(Debug, Default)]
struct Fate {
    /// Its database does not answer.
    cut: AtomicBool,
    /// Its database takes no fence.
    unfenced: AtomicBool,
    /// It shall hand over.
    hand_over: Notify,
}

/// The registry as one node reaches it.
#[derive(Debug)]
struct Reached {
    registry: Arc<MemoryRegistry>,
    fate: Arc<Fate>,
}

impl Reached {
    fn registry(&self) -> Result<&MemoryRegistry, RegistryError> {
        if self.fate.cut.load(Ordering::Relaxed) {
            return Err(RegistryError("cut off".to_owned()));
        }
        Ok(&self.registry)
    }
}

#[async_trait::async_trait]
impl Registry for Reached {
    async fn register(&self, addr: &str) -> Result<NodeId, RegistryError> {
        self.registry()?.register(addr).await
    }

    async fn found_or_get(&self, me: NodeId) -> Result<Charter, RegistryError> {
        self.registry()?.found_or_get(me).await
    }

    async fn peers(&self) -> Result<Vec<Peer>, RegistryError> {
        self.registry()?.peers().await
    }

    async fn seen(&self, me: NodeId, addr: &str) -> Result<(), RegistryError> {
        self.registry()?.seen(me, addr).await
    }

    async fn forget(&self, id: NodeId) -> Result<(), RegistryError> {
        self.registry()?.forget(id).await
    }

    async fn acquire(&self, fence: Fence) -> Result<bool, RegistryError> {
        let registry = self.registry()?;
        if self.fate.unfenced.load(Ordering::Relaxed) {
            return Err(RegistryError("busy".to_owned()));
        }
        registry.acquire(fence).await
    }
}

/// Dice.
struct Dice(u64);

impl Dice {
    /// A number below `sides`.
    fn below(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % sides
    }

    fn millis(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(from + self.below(to - from))
    }
}

/// What is known of the processes that run.
type Running = Arc<Mutex<BTreeMap<usize, Arc<Member>>>>;

/// The world of one run.
struct World<'a> {
    sim: Sim<'a>,
    names: Vec<String>,
    running: Running,
    clock: SimulatedClock,
    shelves: Vec<Shelf>,
    fates: Vec<Arc<Fate>>,
    /// When a crashed node starts again.
    down: BTreeMap<usize, Duration>,
    seen: Seen,
    seed: u64,
}

/// What was seen in a run.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    leaders: BTreeMap<u64, u64>,
    /// Instants at which more than one node thought that it leads.
    rivals: u64,
    /// Instants at which somebody had authority.
    led: u64,
    fences: Vec<(u64, Fence)>,
    faults: u64,
}

impl World<'_> {
    fn new(seed: u64, size: usize) -> Self {
        let clock = SimulatedClock::default();
        let running = Running::default();
        let registry = Arc::new(MemoryRegistry::default());
        let mut sim = turmoil::Builder::new()
            .simulation_duration(END * 2)
            .tick_duration(TICK)
            .min_message_latency(Duration::from_millis(1))
            .max_message_latency(Duration::from_millis(15))
            .rng_seed(seed)
            .build();
        let names: Vec<String> = (0..size).map(|index| format!("node{index}")).collect();
        let shelves: Vec<Shelf> = names.iter().map(|_| Shelf::default()).collect();
        let fates: Vec<Arc<Fate>> = names.iter().map(|_| Arc::default()).collect();
        for (index, name) in names.iter().enumerate() {
            let life = Life {
                index,
                place: format!("{name}:{PORT}"),
                shelf: Arc::clone(&shelves[index]),
                fate: Arc::clone(&fates[index]),
                registry: Arc::clone(&registry),
                clock: clock.clone(),
                running: Arc::clone(&running),
            };
            let starts = AtomicU64::new(0);
            sim.host(name.as_str(), move || {
                let start = starts.fetch_add(1, Ordering::Relaxed);
                let dice = Dice(seed ^ (index as u64) << 32 ^ start << 40).below(u64::MAX);
                Runtime::scope(dice, life.clone().live())
            });
        }
        Self {
            sim,
            names,
            running,
            clock,
            shelves,
            fates,
            down: BTreeMap::new(),
            seen: Seen::default(),
            seed,
        }
    }

    /// One tick, and a look at everybody.
    fn step(&mut self) {
        self.sim.step().expect("no node returns");
        self.clock.set(self.sim.elapsed());
        let at = u64::try_from(self.sim.elapsed().as_millis()).expect("a run is short");
        let running = self.running.lock().expect("no holder panics");
        let mut held = Vec::new();
        let mut leading = 0;
        for member in running.values() {
            held.extend(member.leadership().held());
            let metrics = member.raft.metrics();
            let metrics = metrics.borrow_watched();
            assert!(
                metrics.running_state.is_ok(),
                "seed {}, {at} ms: {:?}",
                self.seed,
                metrics.running_state
            );
            if metrics.state.is_leader() {
                leading += 1;
                let leader = *self
                    .seen
                    .leaders
                    .entry(metrics.current_term)
                    .or_insert(metrics.id);
                assert_eq!(
                    leader, metrics.id,
                    "seed {}, {at} ms: two leaders in term {}",
                    self.seed, metrics.current_term
                );
            }
        }
        assert!(
            held.len() <= 1,
            "seed {}, {at} ms: authority is held by {held:?}",
            self.seed
        );
        self.seen.rivals += u64::from(leading > 1);
        if let [fence] = *held {
            self.seen.led += 1;
            if self.seen.fences.last().is_none_or(|(_, last)| *last != fence) {
                self.seen.fences.push((at, fence));
            }
        }
    }

    fn run_until(&mut self, end: Duration) {
        while self.sim.elapsed() < end {
            let due: Vec<usize> = self
                .down
                .iter()
                .filter(|(_, at)| **at <= self.sim.elapsed())
                .map(|(node, _)| *node)
                .collect();
            for node in due {
                self.start(node);
            }
            self.step();
        }
    }

    fn crash(&mut self, node: usize, until: Duration) {
        self.sim.crash(self.names[node].as_str());
        self.running.lock().expect("no holder panics").remove(&node);
        self.down.insert(node, until);
    }

    fn start(&mut self, node: usize) {
        self.down.remove(&node);
        self.sim.bounce(self.names[node].as_str());
    }

    /// Something bad, or something that was bad ends.
    fn fault(&mut self, dice: &mut Dice) {
        let count = self.names.len() as u64;
        let mut pick = |sides: u64| usize::try_from(dice.below(sides)).expect("it is small");
        let node = pick(count);
        let other = (node + 1 + pick(count - 1)) % self.names.len();
        let (one, two) = (self.names[node].clone(), self.names[other].clone());
        self.seen.faults += 1;
        match dice.below(14) {
            0..=2 if !self.down.contains_key(&node) => {
                let until = self.sim.elapsed() + dice.millis(5, 4_000);
                self.crash(node, until);
            }
            3 => self.sim.partition(one.as_str(), two.as_str()),
            4 => self.sim.partition_oneway(one.as_str(), two.as_str()),
            5 | 6 => {
                for peer in self.names.iter().filter(|name| **name != one) {
                    self.sim.partition(one.as_str(), peer.as_str());
                }
            }
            7 => {
                // The worst for a lease: the leader is cut off while those that follow it forget their promise.
                for peer in 0..self.names.len() {
                    if peer != node {
                        self.sim.partition(one.as_str(), self.names[peer].as_str());
                        if !self.down.contains_key(&peer) {
                            let until = self.sim.elapsed() + dice.millis(5, 300);
                            self.crash(peer, until);
                        }
                    }
                }
            }
            8 => self.fates[node].hand_over.notify_one(),
            9 => self.fates[node].cut.store(true, Ordering::Relaxed),
            10 if self.is_whole() => {
                let until = self.sim.elapsed() + dice.millis(5, 4_000);
                self.crash(node, until);
                self.shelves[node].lock().expect("no holder panics").clear();
            }
            _ => self.heal(),
        }
    }

    /// The one that has authority.
    fn leader(&self) -> Option<usize> {
        let running = self.running.lock().expect("no holder panics");
        let mut members = running.iter();
        members.find_map(|(node, member)| member.leadership().is_held().then_some(*node))
    }

    /// Whether everybody runs and votes, so that a disk can be lost and a majority is left. Of two voters neither may go.
    fn is_whole(&self) -> bool {
        let running = self.running.lock().expect("no holder panics");
        let Some(leader) = running.values().find(|member| member.leadership().is_held()) else {
            return false;
        };
        let status = leader.own_status();
        let is_listed = |member: &Arc<Member>| status.members.iter().any(|listed| listed.id == member.me.id);
        running.len() == self.names.len()
            && status.members.len() == self.names.len()
            && !status.changing
            && status.members.iter().all(|member| member.role != Role::Learner)
            && running.values().all(is_listed)
    }

    fn heal(&self) {
        for fate in &self.fates {
            fate.cut.store(false, Ordering::Relaxed);
        }
        for one in &self.names {
            for two in self.names.iter().filter(|two| *two != one) {
                self.sim.repair(one.as_str(), two.as_str());
            }
        }
    }
}

/// The life of one node.
#[derive(Clone)]
struct Life {
    index: usize,
    place: String,
    shelf: Shelf,
    fate: Arc<Fate>,
    registry: Arc<MemoryRegistry>,
    clock: SimulatedClock,
    running: Running,
}

impl Life {
    fn materials(&self) -> Materials {
        let reached = Reached {
            registry: Arc::clone(&self.registry),
            fate: Arc::clone(&self.fate),
        };
        Materials {
            folder: Arc::new(Folder::simulated(Arc::clone(&self.shelf))),
            addr: self.place.clone(),
            stands: true,
            pace: Pace::default(),
            arbiter: Arbiter::new(Arc::new(reached), tokio::runtime::Handle::current()),
            clock: Arc::new(self.clock.clone()),
            carrier: Arc::new(Wire),
            inbox: Inbox::new(|_, _| {}),
        }
    }

    /// From a start to a crash.
    async fn live(self) -> turmoil::Result {
        let member = loop {
            match Member::start(self.materials()).await {
                Ok(member) => break member,
                // A supervisor would start it again.
                Err(StartError::Registry(_)) => self.clock.sleep(Duration::from_millis(500)).await,
                Err(error) => return Err(error.into()),
            }
        };
        let door = Arc::new(Door::new(Arc::clone(&member), None));
        let listener = TcpListener::bind(("0.0.0.0", PORT)).await?;
        self.running
            .lock()
            .expect("no holder panics")
            .insert(self.index, Arc::clone(&member));
        loop {
            tokio::select! {
                biased;
                () = self.fate.hand_over.notified() => {
                    let member = Arc::clone(&member);
                    Types::spawn(async move { member.hand_over().await });
                }
                accepted = listener.accept() => {
                    Types::spawn(answer(accepted?.0, Arc::clone(&door)));
                }
            }
        }
    }
}

/// One run under faults that `seed` draws.
fn run(seed: u64, size: usize) -> Seen {
    let mut world = World::new(seed, size);
    let mut dice = Dice(seed);
    // Every third cluster is under fire from its first moment.
    if !seed.is_multiple_of(3) {
        world.run_until(Duration::from_secs(4));
        assert!(world.seen.led > 0, "seed {seed}: nobody led before the faults");
    }
    while world.sim.elapsed() < FAULTS {
        world.fault(&mut dice);
        let next = world.sim.elapsed() + dice.millis(50, 3_000);
        world.run_until(next);
    }
    world.heal();
    for node in world.down.keys().copied().collect::<Vec<_>>() {
        world.start(node);
    }
    world.run_until(END);
    let running = world.running.lock().expect("no holder panics");
    let leads = |member: &&Arc<Member>| member.leadership().is_held();
    let Some(leader) = running.values().find(leads) else {
        panic!("seed {seed}: it did not heal");
    };
    let status = leader.own_status();
    let is_voter = |member: &&MemberStatus| member.role != Role::Learner;
    let voters = status.members.iter().filter(is_voter).count();
    assert!(
        voters == size && status.members.len() == size && !status.changing,
        "seed {seed}: {status:?}"
    );
    drop(running);
    world.seen
}

fn ticks(count: u64) -> Duration {
    TICK * u32::try_from(count).expect("a run is short")
}

fn asked_for(name: &str, unless: u64) -> u64 {
    env::var(name).map_or(unless, |value| value.parse().expect("it is a number"))
}

#[test]
fn one_leader_for_each_term_and_one_authority_at_each_instant() {
    let first = asked_for("CARILLON_SIM_FIRST", 1);
    let seeds = asked_for("CARILLON_SIM_SEEDS", SEEDS);
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let next = AtomicU64::new(first);
    let total = Mutex::new(Seen::default());
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let seed = next.fetch_add(1, Ordering::Relaxed)
                    && seed < first + seeds
                {
                    let seen = run(seed, if seed.is_multiple_of(5) { 5 } else { 3 });
                    println!(
                        "seed {seed}: {} faults, {} terms, led for {:?} of {END:?}, rivals for {:?}",
                        seen.faults,
                        seen.leaders.len(),
                        ticks(seen.led),
                        ticks(seen.rivals)
                    );
                    total.lock().expect("no holder panics").rivals += seen.rivals;
                }
            });
        }
    });
    let rivals = total.lock().expect("no holder panics").rivals;
    println!("{seeds} seeds: rivals for {:?}", ticks(rivals));
    // Otherwise the faults would be too kind to show anything.
    assert!(seeds < SEEDS || rivals > 0, "two never thought that they lead");
}

/// The leader is cut off, and at once all others start anew: they have forgotten what they promised it.
#[test]
fn a_restart_breaks_no_promise() {
    for seed in 1..=20 {
        let mut world = World::new(seed, 3);
        world.run_until(Duration::from_secs(4));
        let leader = world.leader().expect("somebody leads by then");
        let now = world.sim.elapsed();
        for node in (0..3).filter(|node| *node != leader) {
            world
                .sim
                .partition(world.names[leader].as_str(), world.names[node].as_str());
            world.crash(node, now);
        }
        world.run_until(now + Duration::from_secs(6));
        let terms = world.seen.fences.len();
        assert!(terms > 1, "seed {seed}: the others have not elected anybody");
    }
}

/// The leader dies, and of the two that are left one has no database: if it is elected, it lets the other lead.
#[test]
fn who_has_the_database_comes_to_lead() {
    for seed in 1..=10 {
        let mut world = World::new(seed, 3);
        world.run_until(Duration::from_secs(4));
        let leader = world.leader().expect("somebody leads by then");
        let (with, without) = ((leader + 1) % 3, (leader + 2) % 3);
        world.fates[without].cut.store(true, Ordering::Relaxed);
        world.crash(leader, END);
        world.run_until(Duration::from_secs(20));
        assert_eq!(world.leader(), Some(with), "seed {seed}");
    }
}

/// The leader asks another to take over, and then hears nothing more: neither that it did nor that it did not.
#[test]
fn authority_does_not_come_back_after_a_hand_over() {
    let mut handed = 0;
    for seed in 1..=30 {
        let mut world = World::new(seed, 3);
        world.run_until(Duration::from_secs(4));
        let leader = world.leader().expect("somebody leads by then");
        world.fates[leader].hand_over.notify_one();
        world.run_until(Duration::from_secs(4) + TICK * u32::try_from(4 + seed % 10).expect("it is small"));
        for node in (0..3).filter(|node| *node != leader) {
            let (from, to) = (world.names[node].as_str(), world.names[leader].as_str());
            world.sim.partition_oneway(from, to);
        }
        world.run_until(Duration::from_secs(8));
        handed += usize::from(world.seen.fences.len() > 1);
    }
    assert!(handed > 5, "{handed}: hardly any request came through");
}

#[test]
fn without_faults_authority_lasts() {
    for size in [1, 2, 3, 5] {
        let mut world = World::new(1, size);
        world.run_until(Duration::from_secs(2));
        let (before, since) = (world.seen.led, world.sim.elapsed());
        world.run_until(Duration::from_secs(30));
        let led = ticks(world.seen.led - before);
        assert_eq!(led, world.sim.elapsed().saturating_sub(since), "{size} nodes");
        assert_eq!(world.seen.leaders.len(), 1, "{size} nodes");
    }
}

#[test]
fn a_leader_that_loses_its_database_is_followed_by_another() {
    for size in [1, 2, 3] {
        let mut world = World::new(1, size);
        world.run_until(Duration::from_secs(4));
        let leader = world.leader().expect("somebody leads by then");
        world.fates[leader].cut.store(true, Ordering::Relaxed);
        world.run_until(Duration::from_secs(12));
        let now = world.leader().expect("somebody leads again");
        assert_eq!(now != leader, size > 1, "{size} nodes");
    }
}

/// With one node there is nobody to hand over to, and it goes on trying.
#[test]
fn a_database_that_is_gone_for_a_while_costs_no_more_than_that() {
    for (seed, size) in [(1, 1), (2, 3), (3, 3), (4, 5)] {
        let mut world = World::new(seed, size);
        for fate in &world.fates {
            fate.unfenced.store(true, Ordering::Relaxed);
        }
        world.run_until(Duration::from_secs(20));
        assert_eq!(world.leader(), None, "seed {seed}");
        for fate in &world.fates {
            fate.unfenced.store(false, Ordering::Relaxed);
        }
        world.run_until(Duration::from_secs(26));
        assert!(world.leader().is_some(), "seed {seed}");
    }
}

#[test]
fn a_seed_plays_the_same_again() {
    assert_eq!(run(7, 3), run(7, 3));
}
