//! How soon somebody leads again.

use std::time::Duration;

use carillon::clock::Clock;
use carillon::clock::SystemClock;

use crate::harness::node::Node;
use crate::harness::postgres::Postgres;
use crate::nodes;

/// A node that comes back keeps out of elections for the longest election timeout, and votes for nobody.
const QUIET: Duration = Duration::from_secs(2);

/// Crashes, and clean stops.
const TIMES: (usize, usize) = (20, 10);

/// Prints a table.
pub async fn measure() {
    let server = Postgres::start().await;
    let database = server.database().await;
    println!("| event | times | p50 | max |\n|---|---|---|---|");
    let mut alone = Vec::new();
    for _ in 0..TIMES.1 {
        let own = server.database().await;
        let node = nodes::home(&own).launch();
        alone.push(nodes::until_one_leads(std::slice::from_ref(&node)).await);
    }
    print("a node that is alone starts: leads after", alone);
    let mut cluster = nodes::cluster(&database, 3).await;
    let mut crashes = Vec::new();
    for _ in 0..TIMES.0 {
        let mut leader = taken(&mut cluster).await;
        leader.kill();
        crashes.push(nodes::until_one_leads(&cluster).await);
        back(&mut cluster, leader).await;
    }
    print("kill -9 of the leader: another leads after", crashes);
    let mut stops = Vec::new();
    for _ in 0..TIMES.1 {
        let mut leader = taken(&mut cluster).await;
        leader.signal(rustix::process::Signal::TERM);
        stops.push(nodes::until_one_leads(&cluster).await);
        leader.ended().await;
        back(&mut cluster, leader).await;
    }
    print("SIGTERM to the leader: another leads after", stops);
}

async fn taken(cluster: &mut Vec<Node>) -> Node {
    loop {
        if let Some(place) = nodes::leader(cluster).await {
            return cluster.remove(place);
        }
    }
}

async fn back(cluster: &mut Vec<Node>, mut node: Node) {
    node.start_again().await;
    cluster.push(node);
    while !nodes::is_whole(cluster, 3).await {}
    SystemClock.sleep(QUIET).await;
}

fn print(event: &str, mut took: Vec<Duration>) {
    took.sort_unstable();
    let (median, most) = (took[took.len() / 2].as_millis(), took[took.len() - 1].as_millis());
    println!("| {event} | {} | {median} ms | {most} ms |", took.len());
}
