//! What three nodes take that have nothing to do.

use std::fs;
use std::time::Duration;

use carillon::clock::Clock;
use carillon::clock::SystemClock;

use crate::harness::postgres::Postgres;
use crate::nodes;

const WATCHED: Duration = Duration::from_mins(1);

/// Prints a table.
pub async fn measure() {
    let server = Postgres::start().await;
    let database = server.database().await;
    let nodes = nodes::cluster(&database, 3).await;
    SystemClock.sleep(Duration::from_secs(5)).await;
    let before = (processor(), loopback());
    SystemClock.sleep(WATCHED).await;
    let after = (processor(), loopback());
    assert!(nodes::is_whole(&nodes, 3).await, "they are well");
    let minutes_per_hour = 60;
    println!("| three nodes and their PostgreSQL, idle | |\n|---|---|");
    println!("| processor, of one core | {:.2} % |", share(after.0 - before.0));
    println!(
        "| over loopback in an hour | {} MB |",
        (after.1 - before.1) * minutes_per_hour / 1_000_000
    );
}

/// Clock ticks that the children of this process took so far, the nodes and the server, and theirs. This process is left out.
fn processor() -> u64 {
    let own = std::process::id();
    let processes = fs::read_dir("/proc").expect("Linux tells of processes");
    let ids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    ids.filter(|id| *id != own && descends(*id, own)).map(ticks).sum()
}

fn descends(mut id: u32, from: u32) -> bool {
    while id > 1 {
        let Some(parent) = stat(id).and_then(|fields| fields.get(1)?.parse().ok()) else {
            return false;
        };
        if parent == from {
            return true;
        }
        id = parent;
    }
    false
}

fn ticks(id: u32) -> u64 {
    let fields = stat(id).unwrap_or_default();
    let tick = |at: usize| {
        fields
            .get(at)
            .and_then(|field| field.parse::<u64>().ok())
            .unwrap_or(0)
    };
    tick(11) + tick(12)
}

/// What follows the name in `/proc/ID/stat`: the state first.
fn stat(id: u32) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let (_, fields) = text.rsplit_once(')')?;
    Some(fields.split_whitespace().map(str::to_owned).collect())
}

/// Linux counts a hundred ticks a second.
#[expect(clippy::cast_precision_loss, reason = "a small count")]
fn share(ticks: u64) -> f64 {
    ticks as f64 / WATCHED.as_secs_f64()
}

/// Bytes that went over loopback so far.
fn loopback() -> u64 {
    let text = fs::read_to_string("/proc/net/dev").expect("Linux tells of networks");
    let line = text.lines().find_map(|line| line.trim().strip_prefix("lo:"));
    let field = line.and_then(|line| line.split_whitespace().next());
    field.and_then(|bytes| bytes.parse().ok()).unwrap_or(0)
}
