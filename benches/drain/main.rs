//! The bench command: `cargo bench --bench drain`. Prints a table for the README.
//!
//! One node in this process: on SQLite as it is shipped (WAL, `synchronous=FULL`), in a temporary folder, and on a private
//! PostgreSQL that syncs each commit. Two questions: how fast is a backlog drained that is due at one instant, and how late
//! is a reminder when many are due each second? Both with a channel that does nothing, which shows what the house itself
//! costs, and with `smtp-sink` over eight connections, which shows the whole way. iCalendar knows whole seconds, so "500 a
//! second" comes as 500 at once.

#[path = "../../tests/it/harness/mod.rs"]
#[expect(dead_code, reason = "the tests need more of it")]
mod harness;
#[expect(dead_code, reason = "the bench `peers` needs more of it")]
mod node;
mod relay;

use std::time::Duration;

use carillon::clock::Clock;
use carillon::clock::SystemClock;
use chrono::TimeDelta;

use crate::node::Base;
use crate::node::BenchNode;
use crate::node::Load;
use crate::relay::Way;

impl Base {
    const fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "SQLite",
            Self::Postgres => "PostgreSQL",
        }
    }

    /// Triggers due at one instant.
    const fn backlog(self) -> usize {
        match self {
            Self::Sqlite => 20_000,
            Self::Postgres => 100_000,
        }
    }

    /// Triggers due each second.
    const fn pace(self) -> usize {
        match self {
            Self::Sqlite => 500,
            Self::Postgres => 1_000,
        }
    }
}

/// For how many seconds they are due.
const SECONDS: usize = 20;

fn main() {
    // Test runners start every target; only `cargo bench` says `--bench`.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let runtime = tokio::runtime::Runtime::new().expect("a runtime can be started");
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    println!("{cores} cores\n");
    println!(
        "| database | channel | pushed, events/s | backlog | drained, triggers/s | due each second | lateness p50 | p99 | worst | early |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    for base in [Base::Sqlite, Base::Postgres] {
        for way in [Way::Nothing, Way::SmtpSink] {
            runtime.block_on(measure(base, way));
        }
    }
}

async fn measure(base: Base, way: Way) {
    let (pushed, drained) = drain(base, way).await;
    let lateness = lateness(base, way).await;
    let early = lateness.iter().filter(|late| **late < 0).count();
    let at = |share: f64| lateness[share_of(lateness.len(), share)];
    println!(
        "| {} | {} | {pushed:.0} | {} | {drained:.0} | {} | {} ms | {} ms | {} ms | {early} |",
        base.name(),
        way.name(),
        base.backlog(),
        base.pace(),
        at(0.5),
        at(0.99),
        at(1.0)
    );
}

/// Events pushed per second, and triggers drained per second.
async fn drain(base: Base, way: Way) -> (f64, f64) {
    let node = BenchNode::start(base, way).await;
    let backlog = base.backlog();
    let due = node.instant_after(Load::Event, backlog).await;
    let began = SystemClock.elapsed();
    node.push(Load::Event, backlog, |_| due).await;
    let pushing = SystemClock.elapsed().saturating_sub(began);
    assert!(SystemClock.now() < due, "the machine became slow; run it again");
    SystemClock
        .sleep((due - SystemClock.now()).to_std().unwrap_or_default())
        .await;
    let began = SystemClock.elapsed();
    node.drained(due).await;
    let draining = SystemClock.elapsed().saturating_sub(began);
    let sent = node.deliveries().await;
    assert_eq!(sent.len(), backlog, "every trigger has its row");
    node.stop().await;
    (per_second(backlog, pushing), per_second(backlog, draining))
}

/// Milliseconds from the promised instant to the hand-over, ascending.
async fn lateness(base: Base, way: Way) -> Vec<i64> {
    let node = BenchNode::start(base, way).await;
    let (each_second, seconds) = (base.pace(), SECONDS);
    let first = node.instant_after(Load::Event, each_second * seconds).await;
    let instant = |index: usize| {
        let second = i64::try_from(index / each_second).expect("few seconds");
        first + TimeDelta::seconds(second)
    };
    node.push(Load::Event, each_second * seconds, instant).await;
    assert!(SystemClock.now() < first, "the machine became slow; run it again");
    node.drained(instant(each_second * seconds)).await;
    let mut lateness: Vec<i64> = node
        .deliveries()
        .await
        .into_iter()
        .map(|(promised, handed_over)| (handed_over - promised).num_milliseconds())
        .collect();
    assert_eq!(lateness.len(), each_second * seconds, "every trigger has its row");
    lateness.sort_unstable();
    node.stop().await;
    lateness
}

#[expect(clippy::cast_precision_loss, reason = "counts are small")]
fn per_second(count: usize, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64()
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a place in a short list"
)]
fn share_of(length: usize, share: f64) -> usize {
    ((length - 1) as f64 * share) as usize
}
