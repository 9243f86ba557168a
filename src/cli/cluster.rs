//! `carillon cluster`: asks a running node who is there, has one struck off that is gone for good, and lets a new cluster
//! be founded where most are gone.

use std::fmt::Write;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use anyhow::bail;
use clap::Args;
use clap::Subcommand;
use reqwest::Method;
use serde::Deserialize;

use crate::cli::asking::Node;
use crate::cli::asking::Which;
use crate::cli::asking::print;
use crate::config::Settings;
use crate::store::Store;
use crate::store::postgres;
use crate::store::postgres::PostgresStore;

/// A node that has shown no sign of life for so long is stopped.
const DEAD_AFTER: Duration = Duration::from_secs(10);

/// What `cluster` takes.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    node: Which,

    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Show the nodes, who leads, who lives, and how many triggers each holds
    Status {
        /// The answer as JSON instead of a table
        #[arg(long)]
        json: bool,
    },

    /// Strike off a node that is gone for good; it must be stopped. Its number is never used again
    Remove {
        /// The number of the node, as `cluster status` shows it
        #[arg(value_name = "ID")]
        id: u64,
    },

    /// Let a new cluster be founded on the database, where most voters have lost their cluster.data_dir for good. All
    /// nodes must be stopped, and what is left of the directories deleted; the next node that starts founds it
    Dissolve,
}

/// The cluster, as a node tells it.
#[derive(Debug, Deserialize)]
struct Cluster {
    #[serde(rename = "cluster")]
    name: String,
    told_by: u64,
    leader: Option<u64>,
    term: u64,
    members: Vec<Member>,
}

#[derive(Debug, Deserialize)]
struct Member {
    id: u64,
    addr: String,
    role: String,
    lives: Option<bool>,
    silent_ms: Option<u64>,
    armed: Option<u64>,
}

/// Asks, and says what was answered.
pub(super) fn run(arguments: &Arguments, settings: &Settings) -> anyhow::Result<ExitCode> {
    let node = || Node::new(&arguments.node, settings);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let said = runtime.block_on(async {
        match arguments.what {
            What::Status { json } => status(&node()?, json).await,
            What::Remove { id } => remove(&node()?, id).await,
            What::Dissolve => dissolve(settings).await,
        }
    })?;
    print(&said)?;
    Ok(ExitCode::SUCCESS)
}

async fn status(node: &Node, json: bool) -> anyhow::Result<String> {
    let answer = node.ask(Method::GET, "/v1/cluster", None).await?;
    if json {
        return Ok(serde_json::to_string_pretty(&answer)? + "\n");
    }
    let url = &node.url;
    let read = serde_json::from_value(answer);
    let read = read.with_context(|| format!("what answers at {url} is no node of this version of Carillon"));
    Ok(table(&read?))
}

async fn remove(node: &Node, id: u64) -> anyhow::Result<String> {
    node.ask(Method::DELETE, &format!("/v1/cluster/{id}"), None)
        .await?;
    Ok(format!("node {id} is no member any more\n"))
}

async fn dissolve(settings: &Settings) -> anyhow::Result<String> {
    if !settings.store.is_postgres() {
        bail!("store.url names a file: nodes form a cluster on a PostgreSQL that they share");
    }
    let store = PostgresStore::open(&settings.store.url, postgres::Options::default()).await?;
    let living = store.dissolve(DEAD_AFTER).await;
    store.close().await;
    match living?.as_slice() {
        [] => Ok("the next node that starts founds a new cluster\n".to_owned()),
        living => bail!("these nodes run: {}; stop all of them first", living.join(", ")),
    }
}

fn table(cluster: &Cluster) -> String {
    let leader = match cluster.leader {
        Some(leader) => format!("node {leader} leads"),
        None => "nobody leads".to_owned(),
    };
    let mut text = format!(
        "cluster {}, term {}: {leader}, as node {} sees it\n",
        cluster.name, cluster.term, cluster.told_by
    );
    let widest = cluster.members.iter().map(|member| member.addr.len()).max();
    let wide = widest.unwrap_or_default().max("ADDRESS".len());
    let mut line = |cells: [&str; 5]| {
        let [node, address, role, lives, holds] = cells;
        writeln!(
            text,
            "{node:>4}  {address:<wide$}  {role:<7}  {lives:<12}  {holds:>6}"
        )
        .expect("a string takes every text");
    };
    line(["NODE", "ADDRESS", "ROLE", "LIVES", "HOLDS"]);
    for member in &cluster.members {
        let holds = member
            .armed
            .map_or_else(|| "-".to_owned(), |armed| armed.to_string());
        line([
            &member.id.to_string(),
            &member.addr,
            &member.role,
            &lives(member),
            &holds,
        ]);
    }
    text
}

/// Only the leader knows who lives.
fn lives(member: &Member) -> String {
    match (member.lives, member.silent_ms) {
        (Some(true), _) => "yes".to_owned(),
        (Some(false), Some(silent)) => format!("no, {} s", silent / 1_000),
        (Some(false), None) => "no".to_owned(),
        (None, _) => "?".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_shows_who_leads_and_who_is_gone() {
        let answer = serde_json::json!({
            "cluster": "c0ffee", "node": 1, "told_by": 2, "leader": 2, "term": 7, "members": [
                {"id": 1, "addr": "10.0.0.1:8086", "role": "voter", "lives": false, "silent_ms": 61_234},
                {"id": 2, "addr": "10.0.0.2:8086", "role": "leader", "lives": true, "silent_ms": 0, "armed": 12},
                {"id": 13, "addr": "[2001:db8::1]:8086", "role": "learner", "lives": null},
            ],
        });
        let cluster: Cluster = serde_json::from_value(answer).unwrap();
        assert_eq!(
            table(&cluster),
            "\
cluster c0ffee, term 7: node 2 leads, as node 2 sees it
NODE  ADDRESS             ROLE     LIVES          HOLDS
   1  10.0.0.1:8086       voter    no, 61 s           -
   2  10.0.0.2:8086       leader   yes               12
  13  [2001:db8::1]:8086  learner  ?                  -
"
        );
    }
}
