//! Several real nodes on one real PostgreSQL. The oracle is the relay's log.

mod alarms;
mod command;
mod complaints;
mod feed;
mod sharing;

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::time::Duration;

use chrono::TimeDelta;
use serde_json::Value;
use tokio::io::AsyncReadExt;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::harness::api::OWNER;
use crate::harness::api::SOURCE;
use crate::harness::calendar::Calendar;
use crate::harness::eventually;
use crate::harness::node::Home;
use crate::harness::node::Node;
use crate::harness::postgres::Postgres;
use crate::harness::sink::Sink;
use crate::harness::whole_second_in;

/// Three nodes that look two seconds ahead every second, so that what they hold is what the leader gave them.
pub struct Scene {
    pub nodes: Vec<Node>,
    pub sink: Sink,
    /// Where the nodes' database is.
    pub database: String,
    /// Last: the nodes go before their database.
    _postgres: Postgres,
}

impl Scene {
    async fn of(count: usize) -> Self {
        Self::set(count, &[]).await
    }

    /// Nodes with further settings.
    pub async fn set(count: usize, settings: &[(&str, &str)]) -> Self {
        let scene = Self::with(|database, relay| {
            let set = || {
                let home = home(database, relay);
                settings
                    .iter()
                    .fold(home, |home, (key, value)| home.with(key, value))
            };
            (0..count).map(|_| set()).collect()
        })
        .await;
        scene.settled(count).await;
        scene
    }

    /// Nodes that tell the relay these names.
    pub async fn of_named(names: &[&str]) -> Self {
        let scene = Self::with(|database, relay| {
            let hello = "CHANNELS__EMAIL__SMTP__HELLO_NAME";
            let home_of = |name: &&str| home(database, relay).with(hello, &format!("{name}.example.org"));
            names.iter().map(home_of).collect()
        })
        .await;
        scene.settled(names.len()).await;
        scene
    }

    /// So many nodes that deliver and a last one that only takes changes. They look ahead as seldom as they do by default.
    async fn with_an_entrance(delivering: usize) -> Self {
        let scene = Self::with(|database, relay| {
            let seldom = || {
                home(database, relay)
                    .with("WORKER__PERIOD", "30m")
                    .with("WORKER__LOOK_AHEAD", "35m")
            };
            let mut homes: Vec<Home> = (0..delivering).map(|_| seldom()).collect();
            homes.push(seldom().with("WORKER__ENABLED", "false"));
            homes
        })
        .await;
        scene.settled(delivering).await;
        scene
    }

    async fn with(homes: impl FnOnce(&str, u16) -> Vec<Home>) -> Self {
        let postgres = Postgres::start().await;
        let database = postgres.database().await;
        let sink = Sink::start().await;
        let launched: Vec<Node> = homes(&database, sink.port)
            .into_iter()
            .map(Home::launch)
            .collect();
        let mut nodes = Vec::new();
        for mut node in launched {
            node.ready().await;
            nodes.push(node);
        }
        nodes[0].put_owner().await;
        Self {
            nodes,
            sink,
            database,
            _postgres: postgres,
        }
    }

    /// The number of a node.
    async fn id_of(&self, at: usize) -> Value {
        self.nodes[at].get("/v1/cluster").await.ok()["node"].clone()
    }

    /// Waits until every node knows so many voters and one leader; returns the leader's place among the nodes.
    pub async fn settled(&self, voters: usize) -> usize {
        eventually(&format!("{voters} voters and a leader"), async || {
            let mut leader = None;
            for (at, node) in self.nodes.iter().enumerate() {
                let cluster = node.get("/v1/cluster").await.ok();
                let members = cluster["members"].as_array()?;
                let voting = members
                    .iter()
                    .filter(|member| member["role"] != "learner")
                    .count();
                if voting != voters || cluster["leader"].is_null() {
                    return None;
                }
                if cluster["leader"] == cluster["node"] {
                    leader = Some(at);
                }
            }
            leader
        })
        .await
    }
}

fn home(database: &str, relay: u16) -> Home {
    Home::new()
        .in_cluster(database)
        .with_relay(relay)
        .with("CLUSTER__HEARTBEAT", "100ms")
        .with("CLUSTER__ELECTION_TIMEOUT_MIN", "400ms")
        .with("CLUSTER__ELECTION_TIMEOUT_MAX", "800ms")
        .with("WORKER__PERIOD", "1s")
        .with("WORKER__LOOK_AHEAD", "2s")
}

async fn leads(node: &Node) -> bool {
    let metrics = node.get("/metrics").await.ok();
    metrics
        .as_str()
        .is_some_and(|text| text.contains("\ncarillon_leader 1\n"))
}

/// Pushes so many events with a reminder at that instant, through the nodes in turn.
async fn push(scene: &Scene, count: usize, due: chrono::DateTime<chrono::Utc>) {
    for number in 0..count {
        let node = &scene.nodes[number % scene.nodes.len()];
        let event = Calendar::far_away(&format!("e{number}@example.org")).alarm_at(due);
        node.put_event(&format!("e{number}"), &event).await.ok();
    }
}

#[tokio::test]
async fn three_nodes_elect_one_leader_and_each_delivers_its_share_once() {
    let scene = Scene::of(3).await;
    eventually("one leader in the metrics", async || {
        let mut leading = 0;
        for node in &scene.nodes {
            leading += u32::from(leads(node).await);
        }
        (leading == 1).then_some(())
    })
    .await;
    let due = whole_second_in(8);

    push(&scene, 600, due).await;

    let mails = scene.sink.mails(600).await;
    assert!(mails.iter().all(|mail| mail.at >= due), "none is early");
    let late = mails
        .iter()
        .map(|mail| mail.at - due)
        .max()
        .expect("there are mails");
    assert!(late < TimeDelta::seconds(20), "{late}");
    for node in &scene.nodes {
        let sent = eventually("its share in the metrics", async || {
            let metrics = node.get("/metrics").await.ok();
            let line = "carillon_deliveries_total{channel=\"email\",outcome=\"sent\",reason=\"\"} ";
            let (_, count) = metrics.as_str()?.split_once(line)?;
            count.lines().next()?.parse::<u32>().ok()
        })
        .await;
        assert!(sent >= 20, "a node delivered {sent} of 600");
    }
    assert_eq!(scene.sink.log().mails.len(), 600);
}

#[tokio::test]
async fn any_node_takes_a_change_and_the_right_message_leaves_once() {
    let scene = Scene::of(3).await;
    let (first, then) = (whole_second_in(4), whole_second_in(7));
    let event = |due| Calendar::far_away("moved@example.org").alarm_at(due);
    scene.nodes[0].put_event("moved", &event(first)).await.ok();
    let gone = Calendar::far_away("gone@example.org").alarm_at(first);
    scene.nodes[0].put_event("gone", &gone).await.ok();
    scene.nodes[1].trigger_in_state("moved", "claimed").await;

    // Whoever holds them, the third node is told first.
    scene.nodes[2].put_event("moved", &event(then)).await.ok();
    let path = format!("/v1/sources/{SOURCE}/events/gone?owner={OWNER}");
    let deleted = scene.nodes[2].delete(&path).await.ok();
    assert_eq!(deleted["withdrawn"], 1, "{deleted}");

    let mails = scene.sink.mails(1).await;
    mails[0].assert_on_time(then);
    let history = scene.nodes[1].history_of(1).await;
    assert_eq!(
        (history.len(), &history[0]["outcome"]),
        (1, &Value::from("sent")),
        "{history:?}"
    );
    assert_eq!(scene.sink.log().mails.len(), 1);
}

#[tokio::test]
async fn what_a_node_takes_that_does_not_deliver_is_given_at_once_to_one_that_does() {
    let scene = Scene::with_an_entrance(2).await;
    // One that is still there when it is looked for, however slow the machine, and one to see it leave.
    let soon = Calendar::far_away("soon@example.org").alarm_at(whole_second_in(300));
    scene.nodes[2].put_event("soon", &soon).await.ok();
    let triggers = scene.nodes[2].triggers("soon").await;
    assert_eq!(triggers[0]["state"], "claimed", "{triggers:?}");
    let due = whole_second_in(3);
    let event = Calendar::far_away("near@example.org").alarm_at(due);

    scene.nodes[2].put_event("near", &event).await.ok();

    let mails = scene.sink.mails(1).await;
    mails[0].assert_on_time(due);
    assert_eq!(scene.nodes[0].history_of(1).await[0]["outcome"], "sent");
}

#[tokio::test]
async fn what_was_meant_for_a_node_that_has_just_gone_goes_to_another() {
    let mut scene = Scene::with_an_entrance(3).await;
    assert!(scene.nodes[0].terminate().await.success());

    // The entrance may still take the first for alive, and whoever leads looks ahead in half an hour.
    let due = whole_second_in(7);
    let event = Calendar::far_away("near@example.org").alarm_at(due);
    scene.nodes[3].put_event("near", &event).await.ok();

    scene.sink.mails(1).await[0].assert_on_time(due);
}

#[tokio::test]
async fn a_leader_that_dies_is_followed_and_what_it_held_leaves_once() {
    let mut scene = Scene::of(3).await;
    let due = whole_second_in(10);
    push(&scene, 45, due).await;
    let leader = scene.settled(3).await;

    scene.nodes[leader].kill();
    let mut dead = scene.nodes.remove(leader);

    let mails = scene.sink.mails(45).await;
    assert!(mails.iter().all(|mail| mail.at >= due), "none is early");
    let late = mails
        .iter()
        .map(|mail| mail.at - due)
        .max()
        .expect("there are mails");
    assert!(late < TimeDelta::seconds(25), "{late}");
    // Back again, it is one of three, and sends nothing a second time.
    dead.start_again().await;
    scene.nodes.push(dead);
    scene.settled(3).await;
    let certain = scene.nodes[0].certain_history_of(45).await;
    assert!(certain.iter().all(|row| row["outcome"] == "sent"), "{certain:?}");
    assert_eq!(scene.sink.log().mails.len(), 45);
}

#[tokio::test]
async fn a_node_that_is_asked_to_stop_hands_over_at_once() {
    let mut scene = Scene::of(3).await;
    let leader = scene.settled(3).await;
    let mut stopping = scene.nodes.remove(leader);

    assert!(stopping.terminate().await.success());

    eventually("another leader", async || {
        for node in &scene.nodes {
            if leads(node).await {
                return Some(());
            }
        }
        None
    })
    .await;
    let due = whole_second_in(3);
    push(&scene, 2, due).await;
    let mails = scene.sink.mails(2).await;
    assert!(mails.iter().all(|mail| mail.at - due < TimeDelta::seconds(10)));
}

#[tokio::test]
async fn strangers_that_crowd_the_peer_ports_keep_nobody_out() {
    let mut scene = Scene::of(3).await;
    let leader = scene.settled(3).await;
    let follower = (leader + 1) % 3;
    let cluster = scene.nodes[leader].get("/v1/cluster").await.ok();
    let members = cluster["members"].as_array().unwrap();
    let shown_out = Arc::new(AtomicUsize::new(0));
    let addresses = members.iter().map(|member| member["addr"].as_str().unwrap());
    let crowd = addresses.flat_map(|addr| std::iter::repeat_n(addr, 300));
    for (addr, asks) in crowd.zip([false, true].into_iter().cycle()) {
        tokio::spawn(stay(addr.to_owned(), asks, Arc::clone(&shown_out)));
    }
    eventually("more strangers than there are places", async || {
        (shown_out.load(Ordering::Relaxed) > 0).then_some(())
    })
    .await;

    // It comes back through the crowd, and needs new connections for that.
    scene.nodes[follower].kill();
    scene.nodes[follower].start_again().await;
    scene.settled(3).await;
    let due = whole_second_in(5);
    push(&scene, 6, due).await;

    let mails = scene.sink.mails(6).await;
    assert!(mails.iter().all(|mail| mail.at - due < TimeDelta::seconds(10)));
}

/// Connects, asks what is not there or says nothing, and stays; again once a second where it is shown out.
async fn stay(addr: String, asks: bool, shown_out: Arc<AtomicUsize>) {
    let mut pace = tokio::time::interval(Duration::from_secs(1));
    loop {
        pace.tick().await;
        if let Ok(mut stream) = TcpStream::connect(&addr).await {
            if asks {
                let _ = stream
                    .write_all(b"GET /status HTTP/1.1\r\nhost: peer\r\n\r\n")
                    .await;
            }
            let _ = stream.read_to_end(&mut Vec::new()).await;
            shown_out.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[tokio::test]
async fn one_node_on_postgresql_needs_no_cluster_section() {
    let postgres = Postgres::start().await;
    let database = postgres.database().await;
    let sink = Sink::start().await;
    let node = Home::new()
        .with_relay(sink.port)
        .with("STORE__URL", &database)
        .with("CLUSTER__LISTEN", "127.0.0.1:0")
        .start_with_owner()
        .await;
    let due = whole_second_in(3);
    let event = Calendar::far_away("alone@example.org").alarm_at(due);
    node.put_event("alone", &event).await.ok();
    sink.mails(1).await[0].assert_on_time(due);
    assert_eq!(node.history_of(1).await[0]["outcome"], "sent");
}
