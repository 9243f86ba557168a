//! Nodes of a cluster with the default pace.

use std::time::Duration;

use carillon::clock::Clock;
use carillon::clock::SystemClock;
use serde_json::Value;

use crate::harness::client::client_builder;
use crate::harness::node::Home;
use crate::harness::node::Node;

/// How often a node is asked while something is timed.
const PACE: Duration = Duration::from_millis(5);

/// A node that is to join the cluster of this database.
pub fn home(database: &str) -> Home {
    Home::new().in_cluster(database)
}

/// So many nodes that are ready and know each other.
pub async fn cluster(database: &str, count: usize) -> Vec<Node> {
    let mut nodes = Vec::new();
    for _ in 0..count {
        nodes.push(home(database).start().await);
    }
    while !is_whole(&nodes, count).await {
        SystemClock.sleep(PACE).await;
    }
    nodes
}

/// Whether every node knows so many voters and a leader.
pub async fn is_whole(nodes: &[Node], voters: usize) -> bool {
    for node in nodes {
        let Some(cluster) = asked(node).await else {
            return false;
        };
        let members = cluster["members"].as_array().cloned().unwrap_or_default();
        let voting = members
            .iter()
            .filter(|member| member["role"] != "learner")
            .count();
        if voting != voters || cluster["leader"].is_null() {
            return false;
        }
    }
    true
}

/// The place of the node that leads by its own word.
pub async fn leader(nodes: &[Node]) -> Option<usize> {
    for (place, node) in nodes.iter().enumerate() {
        if let Some(cluster) = asked(node).await
            && !cluster["leader"].is_null()
            && cluster["leader"] == cluster["node"]
        {
            return Some(place);
        }
    }
    None
}

/// How long it takes from now until one of them leads.
pub async fn until_one_leads(nodes: &[Node]) -> Duration {
    let began = SystemClock.elapsed();
    while leader(nodes).await.is_none() {
        SystemClock.sleep(PACE).await;
    }
    SystemClock.elapsed().saturating_sub(began)
}

async fn asked(node: &Node) -> Option<Value> {
    let client = client_builder().timeout(Duration::from_secs(1)).build().ok()?;
    let answer = client.get(node.url("/v1/cluster")).send().await.ok()?;
    answer.json().await.ok()
}
