//! Carillon: the node that is shipped, in this process, on the same server.

use std::sync::Arc;
use std::time::Duration;

use carillon::clock::Clock;
use carillon::clock::SystemClock;
use carillon::store::postgres::Options;
use carillon::store::postgres::PostgresStore;
use chrono::DateTime;
use chrono::TimeDelta;
use chrono::Utc;

use crate::PACE;
use crate::SECONDS;
use crate::harness::postgres::Postgres;
use crate::node::BenchNode;
use crate::node::Load;
use crate::queue::Work;
use crate::relay::Way;

/// What Carillon reaches on a database of its own.
pub async fn measure(server: &Postgres, load: Load, work: Work, jobs: usize) -> f64 {
    let url = server.database().await;
    let store = PostgresStore::open(&url, Options::default()).await;
    let node = BenchNode::start_on(Arc::new(store.expect("a new database can be made")), Way::Nothing).await;
    let figure = match work {
        Work::Drain => drain(&node, load, jobs).await,
        Work::Burst => lateness(&node, load, |index| TimeDelta::seconds(seconds(index))).await,
        Work::Spread => {
            lateness(&node, load, |index| {
                TimeDelta::milliseconds(seconds(index * 1_000))
            })
            .await
        }
        Work::Insert => insert(&node, load, jobs).await,
    };
    node.stop().await;
    figure
}

/// The second of this index.
fn seconds(index: usize) -> i64 {
    i64::try_from(index / PACE).expect("few seconds")
}

async fn drain(node: &BenchNode, load: Load, jobs: usize) -> f64 {
    let due = node.instant_after(load, jobs).await;
    node.push(load, jobs, |_| due).await;
    wait_until(due).await;
    node.drained(due).await;
    let took = (SystemClock.now() - due).to_std().unwrap_or_default();
    assert_eq!(node.deliveries().await.len(), jobs, "every trigger has its row");
    per_second(jobs, took)
}

/// The 99th percentile, in milliseconds; none may be early.
async fn lateness(node: &BenchNode, load: Load, after_first: impl Fn(usize) -> TimeDelta) -> f64 {
    let jobs = PACE * SECONDS;
    let first = node.instant_after(load, jobs).await;
    node.push(load, jobs, |index| first + after_first(index)).await;
    wait_until(first).await;
    node.drained(first + after_first(jobs)).await;
    let deliveries = node.deliveries().await;
    assert_eq!(deliveries.len(), jobs, "every trigger has its row");
    let late = |(due, sent): (DateTime<Utc>, DateTime<Utc>)| (sent - due).num_milliseconds();
    let mut lateness: Vec<i64> = deliveries.into_iter().map(late).collect();
    lateness.sort_unstable();
    assert!(lateness[0] >= 0, "sent {} ms early", -lateness[0]);
    f64::from(i32::try_from(lateness[(jobs - 1) * 99 / 100]).expect("less than a month"))
}

async fn insert(node: &BenchNode, load: Load, jobs: usize) -> f64 {
    let far = SystemClock.now() + TimeDelta::days(300);
    let began = SystemClock.elapsed();
    node.push(load, jobs, |_| far).await;
    per_second(jobs, SystemClock.elapsed().saturating_sub(began))
}

async fn wait_until(due: DateTime<Utc>) {
    let left = due - SystemClock.now();
    let left = left.to_std().expect("the machine became slow; run it again");
    SystemClock.sleep(left).await;
}

#[expect(clippy::cast_precision_loss, reason = "counts are small")]
fn per_second(count: usize, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64()
}
