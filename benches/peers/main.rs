//! `cargo bench --bench peers`: Carillon beside two job queues, Graphile Worker and pg-boss, on one PostgreSQL server in
//! one run, by turns. Prints a table for the documentation: medians of the rounds, and the median of the ratios to Graphile
//! Worker within each round.
//!
//! All three do nothing with a job. Carillon reads the event or alarm, decides, and keeps history; the job queues
//! delete the job. `peer.mjs` drives the job queues, tuned as their documentation advises; npm installs them.
//!
//! `CARILLON_PEERS_JOBS` (40,000), `CARILLON_PEERS_ROUNDS` (3) and `CARILLON_PEERS_ONLY` (a part of a row's name) make
//! the run shorter.

#[path = "../../tests/it/harness/mod.rs"]
#[expect(dead_code, reason = "the tests need more of it")]
mod harness;
#[path = "../drain/node.rs"]
#[expect(dead_code, reason = "the bench `drain` needs more of it")]
mod node;
mod ours;
mod queue;
#[path = "../drain/relay.rs"]
#[expect(dead_code, reason = "the bench `drain` needs more of it")]
mod relay;

use crate::harness::postgres::Postgres;
use crate::node::Load;
use crate::queue::Queue;
use crate::queue::Work;

/// Jobs due each second where lateness is measured.
pub const PACE: usize = 1_000;
/// Seconds for which jobs are due where lateness is measured.
pub const SECONDS: usize = 20;

/// One row of the table: what Carillon is asked to do, and what a job queue does that compares with it.
struct Comparison {
    name: &'static str,
    load: Load,
    work: Work,
}

const COMPARISONS: [Comparison; 6] = [
    Comparison {
        name: "drain, calendar one-shots, /s",
        load: Load::Event,
        work: Work::Drain,
    },
    Comparison {
        name: "drain, daily events, /s",
        load: Load::DailyEvent,
        work: Work::Drain,
    },
    Comparison {
        name: "drain, stand-alone one-shots, /s",
        load: Load::Alarm,
        work: Work::Drain,
    },
    Comparison {
        name: "lateness p99, calendar, at each full second, ms",
        load: Load::Event,
        work: Work::Burst,
    },
    Comparison {
        name: "lateness p99, stand-alone, spread, ms",
        load: Load::Alarm,
        work: Work::Spread,
    },
    Comparison {
        name: "insert, calendar events, /s",
        load: Load::Event,
        work: Work::Insert,
    },
];

fn main() {
    // Test runners start every target; only `cargo bench` says `--bench`.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let runtime = tokio::runtime::Runtime::new().expect("a runtime can be started");
    runtime.block_on(compare());
}

async fn compare() {
    let jobs = number("CARILLON_PEERS_JOBS", 40_000);
    let rounds = number("CARILLON_PEERS_ROUNDS", 3);
    let only = std::env::var("CARILLON_PEERS_ONLY").unwrap_or_default();
    let folder = queue::install();
    // As Debian ships it: every commit is on the disk.
    let server = Postgres::start_listening_with(&["shared_buffers=512MB", "max_wal_size=4GB"]).await;
    println!("{jobs} jobs, {rounds} rounds\n");
    println!("| | Carillon | Graphile Worker | pg-boss | to Graphile Worker |\n|---|---|---|---|---|");
    for comparison in COMPARISONS.iter().filter(|it| it.name.contains(&only)) {
        let mut measured = Vec::new();
        for _ in 0..rounds {
            let ours = ours::measure(&server, comparison.load, comparison.work, jobs).await;
            let graphile = queue::measure(&folder, &server, Queue::GraphileWorker, comparison.work, jobs);
            let pg_boss = queue::measure(&folder, &server, Queue::PgBoss, comparison.work, jobs);
            measured.push([ours, graphile, pg_boss, ours / graphile]);
        }
        let [ours, graphile, pg_boss, ratio] = medians(&measured);
        println!(
            "| {} | {ours:.0} | {graphile:.0} | {pg_boss:.0} | {ratio:.2} |",
            comparison.name
        );
    }
}

/// The median of each column.
fn medians(rounds: &[[f64; 4]]) -> [f64; 4] {
    [0, 1, 2, 3].map(|column| {
        let mut values: Vec<f64> = rounds.iter().map(|round| round[column]).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    })
}

fn number(variable: &str, default: usize) -> usize {
    std::env::var(variable).map_or(default, |text| {
        text.parse()
            .unwrap_or_else(|_| panic!("{variable}: `{text}` is not a number"))
    })
}
