//! The cluster, as several nodes of one process that talk over loopback.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use carillon::clock::Clock;
use carillon::clock::SystemClock;
use carillon::cluster::Cluster;
use carillon::cluster::Config;
use carillon::cluster::Fence;
use carillon::cluster::Inbox;
use carillon::cluster::MemoryRegistry;
use carillon::cluster::Pace;
use carillon::cluster::Parts;
use carillon::cluster::Registry;
use carillon::cluster::Role;
use carillon::cluster::StartError;
use carillon::cluster::Tls;
use carillon::cluster::Topic;
use tempfile::TempDir;

use crate::harness::client::client;
use crate::mail::certificates::Authority;

/// How long anything may take before a test gives up.
const DEADLINE: Duration = Duration::from_secs(20);

/// So that a dead leader is not missed for long.
const FAST: Pace = Pace {
    heartbeat: Duration::from_millis(100),
    election_min: Duration::from_millis(400),
    election_max: Duration::from_millis(800),
};

type Received = Arc<Mutex<Vec<(Topic, String)>>>;

/// A machine: what outlives a process.
struct Machine {
    disk: TempDir,
    registry: Arc<MemoryRegistry>,
    listen: SocketAddr,
    stands: bool,
    secret: Option<&'static str>,
    tls: Option<Tls>,
    pace: Pace,
    received: Received,
}

impl Machine {
    fn new(registry: &Arc<MemoryRegistry>) -> Self {
        Self {
            disk: tempfile::tempdir().unwrap(),
            registry: Arc::clone(registry),
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            stands: true,
            secret: Some("of this cluster"),
            tls: None,
            pace: FAST,
            received: Received::default(),
        }
    }

    async fn try_start(&self) -> Result<Cluster, StartError> {
        let config = Config {
            listen: self.listen,
            advertise: None,
            data_dir: self.disk.path().to_owned(),
            secret: self.secret.map(Into::into),
            tls: self.tls.clone(),
            stands: self.stands,
            pace: self.pace,
        };
        let received = Arc::clone(&self.received);
        let parts = Parts {
            registry: Arc::<MemoryRegistry>::clone(&self.registry),
            clock: Arc::new(SystemClock),
            inbox: Inbox::new(move |topic, messages| {
                let mut received = received.lock().unwrap();
                received.extend(messages.iter().map(|message| (topic, message.get().to_owned())));
            }),
        };
        Cluster::start(config, parts).await
    }

    /// Starts, once the process before has let go of the disk and the port.
    async fn start(&self) -> Cluster {
        until("the disk and the port", || async {
            match self.try_start().await {
                Err(StartError::DataDir(..) | StartError::Listen(..)) => None,
                started => Some(started.unwrap()),
            }
        })
        .await
    }

    /// Starts at the address that it had.
    async fn start_again(&mut self, addr: &str) -> Cluster {
        self.listen = addr.parse().unwrap();
        self.start().await
    }
}

async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    let done = tokio::time::timeout(DEADLINE, future).await;
    done.unwrap_or_else(|_| panic!("{what}: not within {DEADLINE:?}"))
}

fn since(began: Duration) -> Duration {
    SystemClock.elapsed().saturating_sub(began)
}

/// Waits until `look` finds something.
async fn until<T, F: Future<Output = Option<T>>>(what: &str, mut look: impl FnMut() -> F) -> T {
    within(what, async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            SystemClock.sleep(Duration::from_millis(5)).await;
        }
    })
    .await
}

/// The one that holds authority, once there is one.
async fn leader(nodes: &[&Cluster]) -> (usize, Fence) {
    until("a leader", || async {
        let held = nodes.iter().map(|node| node.leadership().held());
        held.enumerate().find_map(|(index, fence)| Some((index, fence?)))
    })
    .await
}

/// Waits until there are so many voters, agreed upon.
async fn voters(node: &Cluster, count: usize) {
    until("the voters", || async {
        let status = node.status().await;
        let voting = status
            .members
            .iter()
            .filter(|member| member.role != Role::Learner);
        (voting.count() == count && !status.changing).then_some(())
    })
    .await;
}

async fn three() -> (Arc<MemoryRegistry>, [Machine; 3], [Cluster; 3]) {
    three_at(FAST).await
}

async fn three_at(pace: Pace) -> (Arc<MemoryRegistry>, [Machine; 3], [Cluster; 3]) {
    let registry = Arc::new(MemoryRegistry::default());
    let mut machines = [
        Machine::new(&registry),
        Machine::new(&registry),
        Machine::new(&registry),
    ];
    for machine in &mut machines {
        machine.pace = pace;
    }
    let (a, b, c) = tokio::join!(machines[0].start(), machines[1].start(), machines[2].start());
    voters(&a, 3).await;
    (registry, machines, [a, b, c])
}

#[tokio::test]
async fn a_single_node_leads_itself_at_once() {
    let began = SystemClock.elapsed();
    let registry = Arc::new(MemoryRegistry::default());
    let mut machine = Machine::new(&registry);
    let node = machine.start().await;
    let (_, first) = leader(&[&node]).await;
    let took = since(began);
    println!("led after {took:?}");
    assert!(took < Duration::from_secs(2), "{took:?}");
    assert_eq!(registry.fence(), Some(first));

    let addr = node.addr().to_owned();
    node.shut_down().await;
    let began = SystemClock.elapsed();
    let node = machine.start_again(&addr).await;
    let (_, second) = leader(&[&node]).await;
    println!("led again after {:?}", since(began));
    assert_eq!((second.node, second.generation), (first.node, first.generation));
    assert!(second.term > first.term, "each start is a term of its own");
    node.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn three_nodes_find_each_other_and_one_leads() {
    let began = SystemClock.elapsed();
    let (registry, _machines, nodes) = three().await;
    println!("three voters after {:?}", since(began));
    let (index, fence) = leader(&[&nodes[0], &nodes[1], &nodes[2]]).await;
    assert_eq!(fence.node, nodes[index].id());
    assert_eq!(registry.fence(), Some(fence));
    for node in &nodes {
        let status = node.status().await;
        assert_eq!(status.leader, Some(fence.node));
        assert_eq!(status.members.len(), 3);
    }
    for node in nodes {
        node.shut_down().await;
    }
}

/// Takes out the one that leads.
async fn take_leader(nodes: &mut Vec<Cluster>) -> (Cluster, Fence) {
    let (index, fence) = leader(&nodes.iter().collect::<Vec<_>>()).await;
    (nodes.remove(index), fence)
}

#[tokio::test(flavor = "multi_thread")]
async fn when_the_leader_dies_another_leads_in_a_later_term() {
    let (registry, _machines, nodes) = three().await;
    let mut nodes = Vec::from(nodes);
    let (dying, first) = take_leader(&mut nodes).await;
    let was_held = dying.leadership();
    let began = SystemClock.elapsed();
    drop(dying);
    let (_, second) = leader(&[&nodes[0], &nodes[1]]).await;
    println!("another led after {:?}", since(began));
    assert!(!was_held.is_held(), "the dead one's authority had run out before");
    assert!(second.term > first.term && second.node != first.node);
    assert_eq!(registry.fence(), Some(second));

    // The majority is gone with the next one: nobody leads, whatever they think of themselves.
    let (dying, _) = take_leader(&mut nodes).await;
    drop(dying);
    let last = &nodes[0];
    until("it gives up", || async {
        (!last.leadership().is_held()).then_some(())
    })
    .await;
    assert_eq!(
        last.status()
            .await
            .leader
            .filter(|leader| *leader != last.id() && *leader != second.node),
        None
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_comes_back_is_who_it_was() {
    let (_registry, mut machines, nodes) = three().await;
    let mut nodes = Vec::from(nodes);
    let (index, _) = leader(&nodes.iter().collect::<Vec<_>>()).await;
    let leaving = nodes.remove(index);
    let (id, addr) = (leaving.id(), leaving.addr().to_owned());
    drop(leaving);
    leader(&[&nodes[0], &nodes[1]]).await;
    let back = machines[index].start_again(&addr).await;
    assert_eq!(back.id(), id);
    until("it is alive to the leader", || async {
        let members = back.status().await.members;
        let me = members.into_iter().find(|member| member.id == id)?;
        (me.lives == Some(true)).then_some(())
    })
    .await;
    voters(&back, 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_moves_is_found_where_it_is() {
    let (_registry, machines, nodes) = three().await;
    let mut nodes = Vec::from(nodes);
    let (leading, before) = leader(&nodes.iter().collect::<Vec<_>>()).await;
    let index = (leading + 1) % 3;
    let gone = nodes.remove(index);
    let (id, place) = (gone.id(), gone.addr().to_owned());
    drop(gone);
    // Port 0: it takes another one.
    let moved = machines[index].start().await;
    assert_eq!(moved.id(), id);
    assert_ne!(moved.addr(), place);
    until("it is alive there", || async {
        let status = nodes[0].status().await;
        let it = status.members.iter().find(|member| member.id == id)?;
        (it.addr == moved.addr() && it.lives == Some(true)).then_some(())
    })
    .await;
    voters(&nodes[1], 3).await;
    let (_, after) = leader(&[&nodes[0], &nodes[1], &moved]).await;
    assert_eq!(after.term, before.term, "by the leader that knew it elsewhere");
}

#[tokio::test(flavor = "multi_thread")]
async fn leadership_is_handed_over_at_shutdown() {
    let (_registry, _machines, nodes) = three_at(Pace::default()).await;
    let mut nodes = Vec::from(nodes);
    let (leaving, first) = take_leader(&mut nodes).await;
    let began = SystemClock.elapsed();
    let others = [&nodes[0], &nodes[1]];
    let ((), (_, second)) = tokio::join!(leaving.shut_down(), leader(&others));
    let took = since(began);
    println!("handed over within {took:?}");
    assert!(second.term > first.term);
    // An election would take longer: nobody stands for it before 2.6 s have passed.
    assert!(took < Duration::from_millis(2_500), "{took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_lost_its_disk_takes_its_own_place_as_another() {
    let (_registry, mut machines, nodes) = three().await;
    let mut nodes = Vec::from(nodes);
    let (index, _) = leader(&nodes.iter().collect::<Vec<_>>()).await;
    let losing = nodes.remove(index);
    let (id, addr) = (losing.id(), losing.addr().to_owned());
    drop(losing);
    machines[index].disk = tempfile::tempdir().unwrap();
    let began = SystemClock.elapsed();
    let back = machines[index].start_again(&addr).await;
    assert_ne!(back.id(), id);
    until("the dead number is gone", || async {
        let members = back.status().await.members;
        let voting: Vec<_> = members
            .iter()
            .filter(|member| member.role != Role::Learner)
            .map(|member| member.id)
            .collect();
        (voting.len() == 3 && voting.contains(&back.id()) && !members.iter().any(|member| member.id == id))
            .then_some(())
    })
    .await;
    println!("a voter again after {:?}", since(began));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_does_not_stand_listens_and_never_leads() {
    let registry = Arc::new(MemoryRegistry::default());
    let mut machine = Machine::new(&registry);
    machine.stands = false;
    // It comes first and founds the cluster; but nobody has authority.
    let listener = machine.start().await;
    until("it leads in name", || async {
        (listener.status().await.leader == Some(listener.id())).then_some(())
    })
    .await;
    assert!(!listener.leadership().is_held());
    // The one that comes is let in, takes over, and the first no longer votes.
    let other = Machine::new(&registry);
    let other = other.start().await;
    let (_, fence) = leader(&[&other]).await;
    assert_eq!(fence.node, other.id());
    until("the first one only listens", || async {
        let members = other.status().await.members;
        let first = members.into_iter().find(|member| member.id == listener.id())?;
        (first.role == Role::Learner).then_some(())
    })
    .await;
    assert!(!listener.leadership().is_held());
    assert!(other.leadership().is_held(), "one voter is a majority of one");
}

#[tokio::test]
async fn a_stranger_is_refused() {
    let registry = Arc::new(MemoryRegistry::default());
    let machine = Machine::new(&registry);
    let node = machine.start().await;
    let cluster = node.status().await.cluster;
    let ask = async |path: &str, secret: &str, cluster: &str, target: &str, body: Vec<u8>| {
        let request = client()
            .post(format!("http://{}{path}", node.addr()))
            .header("x-cluster", cluster)
            .header("x-target", target)
            .bearer_auth(secret)
            .body(body);
        request.send().await.unwrap().status().as_u16()
    };
    let (secret, me) = ("of this cluster", node.id().to_string());
    let question = || b"null".to_vec();
    assert_eq!(ask("/hello", secret, &cluster, &me, question()).await, 200);
    assert_eq!(ask("/hello", "of another", &cluster, &me, question()).await, 401);
    assert_eq!(ask("/hello", "", &cluster, &me, question()).await, 401);
    assert_eq!(ask("/hello", secret, "another", &me, question()).await, 421);
    assert_eq!(ask("/hello", secret, &cluster, "99", question()).await, 421);
    assert_eq!(ask("/nonsense", secret, &cluster, &me, question()).await, 404);
    assert_eq!(ask("/vote", secret, &cluster, &me, question()).await, 400);
    assert_eq!(
        ask("/armed", secret, &cluster, &me, vec![b' '; 1024 * 1024 + 1]).await,
        413
    );
    node.shut_down().await;
}

#[tokio::test]
async fn a_node_with_another_secret_is_not_let_in() {
    let registry = Arc::new(MemoryRegistry::default());
    let machine = Machine::new(&registry);
    let node = machine.start().await;
    leader(&[&node]).await;
    let mut stranger = Machine::new(&registry);
    stranger.secret = Some("of another");
    let stranger = stranger.start().await;
    // By the time that a third node has been let in, the stranger has asked too.
    let third = Machine::new(&registry);
    let third = third.start().await;
    voters(&third, 2).await;
    let members = node.status().await.members;
    assert!(
        members.iter().all(|member| member.id != stranger.id()),
        "{members:?}"
    );
    assert!(!stranger.leadership().is_held());
}

#[tokio::test]
async fn others_are_not_listened_to_in_the_clear() {
    let registry = Arc::new(MemoryRegistry::default());
    let mut machine = Machine::new(&registry);
    machine.listen = SocketAddr::from(([0, 0, 0, 0], 0));
    assert!(matches!(machine.try_start().await, Err(StartError::Nowhere(_))));
    machine.secret = None;
    assert!(matches!(machine.try_start().await, Err(StartError::Open(_))));
    machine.listen = SocketAddr::from(([127, 0, 0, 1], 0));
    leader(&[&machine.start().await]).await;
}

#[tokio::test]
async fn a_data_directory_serves_one_node_of_one_cluster() {
    let registry = Arc::new(MemoryRegistry::default());
    let mut machine = Machine::new(&registry);
    let node = machine.start().await;
    leader(&[&node]).await;
    assert!(
        matches!(machine.try_start().await, Err(StartError::DataDir(..))),
        "it is in use"
    );

    let copy = Machine::new(&registry);
    for name in ["node.json", "raft.json"] {
        std::fs::copy(machine.disk.path().join(name), copy.disk.path().join(name)).unwrap();
    }
    let refused = copy.try_start().await;
    assert!(
        matches!(&refused, Err(StartError::Duplicate { id, .. }) if *id == node.id()),
        "{refused:?}"
    );
    node.shut_down().await;

    // A database that knows another cluster.
    let other = Arc::new(MemoryRegistry::named("another"));
    Machine::new(&other).start().await.shut_down().await;
    other.register("127.0.0.1:1").await.unwrap();
    machine.registry = other;
    let refused = machine.try_start().await;
    assert!(matches!(refused, Err(StartError::Foreign { .. })), "{refused:?}");
}

#[tokio::test]
async fn a_damaged_or_halved_data_directory_is_refused() {
    let registry = Arc::new(MemoryRegistry::default());
    let machine = Machine::new(&registry);
    machine.start().await.shut_down().await;
    let raft = machine.disk.path().join("raft.json");
    let whole = std::fs::read(&raft).unwrap();
    std::fs::write(&raft, &whole[..whole.len() / 2]).unwrap();
    let refused = machine.try_start().await;
    assert!(matches!(refused, Err(StartError::Damaged(_))), "{refused:?}");
    std::fs::remove_file(&raft).unwrap();
    let refused = machine.try_start().await;
    assert!(matches!(refused, Err(StartError::Damaged(_))), "{refused:?}");
    std::fs::write(&raft, &whole).unwrap();
    std::fs::remove_file(machine.disk.path().join("node.json")).unwrap();
    let refused = machine.try_start().await;
    assert!(matches!(refused, Err(StartError::Damaged(_))), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_node_does_not_come_back() {
    let (_registry, machines, nodes) = three().await;
    let [a, b, c] = nodes;
    let gone = c.id();
    c.shut_down().await;
    until("it is struck off", || async {
        let _ = a.remove(gone).await;
        (a.status().await.members.len() == 2).then_some(())
    })
    .await;
    let refused = machines[2].try_start().await;
    assert!(
        matches!(refused, Err(StartError::Removed(id)) if id == gone),
        "{refused:?}"
    );
    voters(&b, 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_can_be_removed_while_it_leads() {
    let (_registry, _machines, nodes) = three().await;
    let mut nodes = Vec::from(nodes);
    let (leading, first) = take_leader(&mut nodes).await;
    until("it is struck off", || async {
        leading.remove(leading.id()).await.ok()
    })
    .await;
    let (_, second) = leader(&[&nodes[0], &nodes[1]]).await;
    assert!(second.term > first.term);
    assert!(!leading.leadership().is_held());
    voters(&nodes[0], 2).await;
    assert!(
        nodes[0]
            .status()
            .await
            .members
            .iter()
            .all(|member| member.id != leading.id())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_fails_is_the_end_of_its_node_and_of_no_other() {
    let (_registry, machines, nodes) = three().await;
    let mut nodes = Vec::from(nodes);
    let (index, _) = leader(&nodes.iter().collect::<Vec<_>>()).await;
    // A directory in its way: the log can not be written aside.
    let failing = (index + 1) % 3;
    std::fs::create_dir(machines[failing].disk.path().join("raft.json.new")).unwrap();
    let leading = &nodes[index];
    // The next term is the next thing to write.
    let (_, reason) = tokio::join!(leading.hand_over(), within("its end", nodes[failing].failed()));
    assert!(reason.contains("Raft has ended"), "{reason}");
    assert!(!nodes[failing].leadership().is_held());
    drop(nodes.remove(failing));
    leader(&nodes.iter().collect::<Vec<_>>()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_reach_the_node_they_are_for() {
    let (_registry, machines, nodes) = three().await;
    until("the members are known", || async {
        let told = (0..2).all(|_| nodes[0].tell(nodes[1].id(), Topic::Armed, &"ring"));
        (told && nodes[0].tell(nodes[1].id(), Topic::Withdrawn, &[1, 2])).then_some(())
    })
    .await;
    until("the messages", || async {
        let received = machines[1].received.lock().unwrap();
        let rings = received
            .iter()
            .filter(|message| **message == (Topic::Armed, "\"ring\"".to_owned()));
        let withdrawn = received.contains(&(Topic::Withdrawn, "[1,2]".to_owned()));
        (rings.count() >= 2 && withdrawn).then_some(())
    })
    .await;
    assert!(machines[2].received.lock().unwrap().is_empty());
    assert!(!nodes[0].tell(99, Topic::Armed, &"nobody"));
}

fn tls(authority: &Authority) -> Tls {
    Tls {
        ca_file: authority.ca_file(),
        certificate_file: authority.certificate_file(),
        key_file: authority.key_file(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn peers_with_certificates_of_one_authority_find_each_other() {
    let registry = Arc::new(MemoryRegistry::default());
    let (ours, theirs) = (Authority::new(), Authority::new());
    let mut machines = [
        Machine::new(&registry),
        Machine::new(&registry),
        Machine::new(&registry),
    ];
    for machine in &mut machines {
        machine.secret = None;
        machine.tls = Some(tls(&ours));
    }
    machines[1].tls = Some(tls(&theirs));
    let first = machines[0].start().await;
    leader(&[&first]).await;
    let stranger = machines[1].start().await;
    let third = machines[2].start().await;
    voters(&third, 2).await;
    let members = third.status().await.members;
    assert!(
        members.iter().all(|member| member.id != stranger.id()),
        "{members:?}"
    );

    // Without a certificate, and in the clear, nobody answers at all.
    let url = format!("http://{}/hello", first.addr());
    let answer = client().post(url).body("null").send().await;
    assert!(!answer.is_ok_and(|answer| answer.status().is_success()));
}

#[tokio::test]
async fn a_key_that_is_not_there_is_named() {
    let registry = Arc::new(MemoryRegistry::default());
    let authority = Authority::new();
    let mut machine = Machine::new(&registry);
    machine.tls = Some(Tls {
        key_file: "/nowhere/key.pem".into(),
        ..tls(&authority)
    });
    let refused = machine.try_start().await.map(drop).unwrap_err().to_string();
    assert!(refused.contains("`/nowhere/key.pem`"), "{refused}");
}
