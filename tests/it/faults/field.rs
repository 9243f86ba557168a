//! Where it happens: three nodes as they come, but for looking ahead more often, on a PostgreSQL that keeps what it
//! commits, with a relay that says who sent what.

use std::time::Duration;

use carillon::clock::Clock;
use carillon::clock::SystemClock;
use rustix::process::Signal;
use serde_json::json;

use crate::faults::load::Load;
use crate::faults::load::OWNERS;
use crate::faults::size::Size;
use crate::faults::size::choose;
use crate::faults::verdict::Arrival;
use crate::faults::verdict::Fault;
use crate::faults::verdict::Promise;
use crate::faults::verdict::Verdict;
use crate::faults::witness::Witness;
use crate::harness::eventually;
use crate::harness::free_port;
use crate::harness::link::Link;
use crate::harness::node::Home;
use crate::harness::node::Node;
use crate::harness::now;
use crate::harness::postgres::Postgres;
use crate::harness::sink::Mail;
use crate::harness::sink::Sink;
use crate::harness::tmpfs::Tmpfs;

/// How long after the last was due, or the last fault ended, everything must have arrived and be settled.
const GRACE: Duration = Duration::from_secs(90);

/// How many nodes.
const NODES: usize = 3;

/// One at a time, where tests share a process.
pub static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// The field.
pub struct Field {
    /// The nodes.
    pub nodes: Vec<Node>,
    /// What each is called by the others.
    pub numbers: Vec<i64>,
    /// What the database says.
    pub witness: Witness,
    /// What was broken so far.
    pub faults: Vec<Fault>,
    /// The wire to each node's peer port.
    pub peers: Vec<Link>,
    /// Each node's wire to the database.
    pub wires: Vec<Link>,
    /// The relay.
    sink: Sink,
    /// Last: the nodes go before their database.
    pub postgres: Postgres,
    _alone: tokio::sync::MutexGuard<'static, ()>,
}

impl Field {
    /// Three nodes, with these settings beside the usual ones.
    pub async fn start(settings: &[(&str, &str)]) -> Self {
        Self::prepared(None, settings, |home| home).await
    }

    /// The same, where each home is made ready by `prepare`.
    pub async fn start_as(settings: &[(&str, &str)], prepare: impl Fn(Home) -> Home) -> Self {
        Self::prepared(None, settings, prepare).await
    }

    /// As [`Field::start`], with the tables on that disk.
    pub async fn start_on(disk: &Tmpfs, settings: &[(&str, &str)]) -> Self {
        Self::prepared(Some(disk), settings, |home| home).await
    }

    async fn prepared(
        disk: Option<&Tmpfs>,
        settings: &[(&str, &str)],
        prepare: impl Fn(Home) -> Home,
    ) -> Self {
        let alone = ALONE.lock().await;
        let postgres = Postgres::start_listening().await;
        let database = match disk {
            Some(disk) => postgres.database_on(disk).await,
            None => postgres.database().await,
        };
        let port = postgres.port;
        let sink = Sink::start().await;
        let (mut peers, mut wires, mut nodes) = (Vec::new(), Vec::new(), Vec::new());
        for at in 0..NODES {
            let own = free_port();
            let (peer, wire) = (Link::to(own).await, Link::to(port).await);
            let mut home = home(at, &sink)
                .with(
                    "STORE__URL",
                    &format!("postgres://postgres@127.0.0.1:{}/t0", wire.port),
                )
                .with("CLUSTER__LISTEN", &format!("127.0.0.1:{own}"))
                .with("CLUSTER__ADVERTISE", &format!("127.0.0.1:{}", peer.port));
            for (key, value) in settings {
                home = home.with(key, value);
            }
            nodes.push(prepare(home).launch());
            peers.push(peer);
            wires.push(wire);
        }
        for node in &mut nodes {
            node.ready().await;
        }
        let witness = Witness::of(&database).await;
        let mut field = Self {
            nodes,
            numbers: Vec::new(),
            witness,
            faults: Vec::new(),
            peers,
            wires,
            sink,
            postgres,
            _alone: alone,
        };
        field.form().await;
        field
    }

    /// Waits until all of them vote, and introduces the owners.
    async fn form(&mut self) {
        for node in &self.nodes {
            let number = eventually("all nodes to vote", async || {
                let cluster = node.get("/v1/cluster").await.ok();
                let members = cluster["members"].as_array()?;
                let voting = members.iter().filter(|member| member["role"] != "learner");
                (voting.count() == NODES).then_some(cluster["node"].as_i64()?)
            })
            .await;
            self.numbers.push(number);
        }
        put_owners(&self.nodes).await;
    }

    /// Begins the load.
    pub fn load(&self, size: Size) -> Load {
        Load::start(size, &self.ports())
    }

    /// The place of the node that has authority.
    pub async fn leader(&mut self) -> usize {
        let leader = self.witness.leader().await;
        let place = self.numbers.iter().position(|number| *number == leader.node);
        place.expect("a node of ours leads")
    }

    /// Notes what a node was sending when it was hit just now.
    pub async fn hit(&mut self, node: usize) {
        let (at, name) = (now(), name(node));
        let sending = self.witness.sending(Some(&name)).await;
        self.faults.push(Fault {
            at,
            node: Some(name),
            sending,
        });
    }

    /// Kills a node, and starts it again after so long.
    pub async fn kill(&mut self, node: usize, away: Duration) {
        busy_moment().await;
        self.nodes[node].kill();
        self.hit(node).await;
        pause(away).await;
        self.nodes[node].launch_again();
    }

    /// Lets a node stand still for so long.
    pub async fn freeze(&mut self, node: usize, still: Duration) {
        busy_moment().await;
        self.nodes[node].signal(Signal::STOP);
        self.hit(node).await;
        pause(still).await;
        self.nodes[node].signal(Signal::CONT);
    }

    /// Waits until all that was promised has arrived and nothing is owed any more, and judges.
    pub async fn judge(&mut self, load: Load) -> Verdict {
        let promises = load.promises().await;
        self.judge_these(&promises).await
    }

    /// The same, of these promises.
    pub async fn judge_these(&mut self, promises: &[Promise]) -> Verdict {
        self.settled().await;
        Verdict::of(promises, &self.arrivals(), &self.faults)
    }

    /// Where the nodes listen.
    pub fn ports(&self) -> Vec<u16> {
        self.nodes.iter().map(|node| node.home.port).collect()
    }

    /// Waits until nothing is owed that is due within half a minute.
    pub async fn due_is_gone(&mut self) {
        let ends = SystemClock.elapsed() + GRACE;
        while SystemClock.elapsed() < ends && self.witness.due().await > 0 {
            pause(Duration::from_millis(200)).await;
        }
    }

    /// Waits until nothing is owed any more.
    pub async fn settled(&mut self) {
        let ends = SystemClock.elapsed() + GRACE;
        while SystemClock.elapsed() < ends && self.witness.owed().await > 0 {
            pause(Duration::from_millis(200)).await;
        }
    }

    /// What arrived so far.
    pub fn arrivals(&self) -> Vec<Arrival> {
        self.sink.with_log(|log| log.mails.iter().map(arrival).collect())
    }
}

/// Introduces the owners of the load.
pub async fn put_owners(nodes: &[Node]) {
    for owner in 0..OWNERS {
        let body =
            json!({ "email": format!("o{owner}@example.org"), "time_zone": "Europe/Berlin", "locale": "en" });
        let path = format!("/v1/owners/o{owner}");
        nodes[owner % nodes.len()]
            .put(&path, "application/json", body.to_string())
            .await
            .ok();
    }
}

/// What a node is called, in its session and in what it says to the relay.
pub fn name(node: usize) -> String {
    format!("n{node}")
}

/// How long a fault lasts, or does not; not a wait for something.
pub async fn pause(duration: Duration) {
    SystemClock.sleep(duration).await;
}

/// How long ago it was by the boot-time clock.
pub fn since(began: Duration) -> Duration {
    SystemClock.elapsed().saturating_sub(began)
}

/// Waits until the triggers of a second are being sent, which are all due when it begins; with the many faults of the long
/// form, any moment will do.
pub async fn busy_moment() {
    let into = u64::from(now().timestamp_subsec_millis());
    let any = u64::from(now().timestamp_subsec_micros());
    let wait = choose(1_020 + any % 150 - into, any % 1_000);
    pause(Duration::from_millis(wait)).await;
}

/// Waits until the load has been on for a second.
pub async fn load_is_on() {
    pause(Duration::from_secs(7)).await;
}

fn home(node: usize, sink: &Sink) -> Home {
    let home = Home::new();
    let folder = home.folder().join("cluster").display().to_string();
    home.with_relay(sink.port)
        .with("NODE__ID", &name(node))
        .with(
            "CHANNELS__EMAIL__SMTP__HELLO_NAME",
            &format!("{}.example.org", name(node)),
        )
        .with("CLUSTER__DATA_DIR", &folder)
        .with("WORKER__PERIOD", "2s")
        .with("WORKER__LOOK_AHEAD", "5s")
}

/// What arrived with a mail.
pub fn arrival(mail: &Mail) -> Arrival {
    let subject = mail.header("Subject");
    let name = subject.find("Load ").and_then(|at| subject.get(at..at + 11));
    Arrival {
        name: name.unwrap_or(&subject).to_owned(),
        trigger: mail.trigger_id(),
        from: mail.from.split('.').next().unwrap_or_default().to_owned(),
        began: mail.began,
        at: mail.at,
    }
}
