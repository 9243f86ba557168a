//! The bench command: `cargo bench --bench drain`. Prints a table for the README.
//!
//! One node in this process, on SQLite as it is shipped (WAL, `synchronous=FULL`), in a temporary folder. Two questions:
//! how fast is a backlog drained when 20,000 triggers are due at one instant, and how late is a reminder when 500 are due
//! each second? Both with a channel that does nothing, which shows what the house itself costs, and with `smtp-sink` over
//! eight connections, which shows the whole way. iCalendar knows whole seconds, so "500 a second" comes as 500 at once.

mod node;
mod relay;

use std::time::Duration;

use carillon::clock::Clock;
use carillon::clock::SystemClock;
use chrono::TimeDelta;

use crate::node::BenchNode;
use crate::relay::Way;

/// Triggers due at one instant.
const BACKLOG: usize = 20_000;

/// Triggers due each second, and for how many seconds.
const PACE: (usize, usize) = (500, 20);

fn main() {
    // Test runners start every target; only `cargo bench` says `--bench`.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let runtime = tokio::runtime::Runtime::new().expect("a runtime can be started");
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    println!("SQLite, {cores} cores\n");
    println!(
        "| channel | pushed, events/s | drained, triggers/s | lateness at 500/s, p50 | p99 | worst | early |"
    );
    println!("|---|---|---|---|---|---|---|");
    for way in [Way::Nothing, Way::SmtpSink] {
        runtime.block_on(measure(way));
    }
}

async fn measure(way: Way) {
    let (pushed, drained) = drain(way).await;
    let lateness = lateness(way).await;
    let early = lateness.iter().filter(|late| **late < 0).count();
    let at = |share: f64| lateness[share_of(lateness.len(), share)];
    println!(
        "| {} | {pushed:.0} | {drained:.0} | {} ms | {} ms | {} ms | {early} |",
        way.name(),
        at(0.5),
        at(0.99),
        at(1.0)
    );
}

/// Events pushed per second, and triggers drained per second.
async fn drain(way: Way) -> (f64, f64) {
    let node = BenchNode::start(way).await;
    let due = node.instant_after(BACKLOG).await;
    let began = SystemClock.elapsed();
    node.push(BACKLOG, |_| due).await;
    let pushing = SystemClock.elapsed().saturating_sub(began);
    assert!(SystemClock.now() < due, "the machine became slow; run it again");
    SystemClock
        .sleep((due - SystemClock.now()).to_std().unwrap_or_default())
        .await;
    let began = SystemClock.elapsed();
    node.drained(due).await;
    let draining = SystemClock.elapsed().saturating_sub(began);
    let sent = node.deliveries().await;
    assert_eq!(sent.len(), BACKLOG, "every trigger has its row");
    node.stop().await;
    (per_second(BACKLOG, pushing), per_second(BACKLOG, draining))
}

/// Milliseconds from the promised instant to the hand-over, ascending.
async fn lateness(way: Way) -> Vec<i64> {
    let node = BenchNode::start(way).await;
    let (each_second, seconds) = PACE;
    let first = node.instant_after(each_second * seconds).await;
    let instant = |index: usize| {
        let second = i64::try_from(index / each_second).expect("few seconds");
        first + TimeDelta::seconds(second)
    };
    node.push(each_second * seconds, instant).await;
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
