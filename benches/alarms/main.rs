//! Stand-alone alarms over HTTP: `cargo bench --bench alarms`. Prints tables for ARCHITECTURE.md.
//!
//! The real binary on each store: how many alarms a second are asked for and called off, by one caller and by many at once,
//! beside how many a second are read one at a time; and how long a page of a list, of history and the stats take for an
//! owner with many alarms and firings, beside an owner with one of each.
//!
//! `cargo bench --bench alarms -- 10000 100000` takes so many alarms and firings in place of 1,000,000 and 10,000,000.

#[path = "../../tests/it/harness/mod.rs"]
#[expect(dead_code, reason = "the tests need more of it")]
mod harness;
mod many;

use std::future::Future;
use std::time::Duration;

use carillon::clock::Clock;
use carillon::clock::SystemClock;
use serde_json::Value;
use serde_json::json;
use tokio::task::JoinSet;

use crate::harness::client::client;
use crate::harness::eventually;
use crate::harness::node::Home;
use crate::harness::node::Node;
use crate::harness::postgres::Postgres;
use crate::many::Database;

/// Who has many, and who has one.
const OWNERS: [&str; 2] = ["many", "one"];

/// Alarms that are asked for and called off by each number of callers.
const ALARMS: usize = 2_000;

/// Callers at once.
const CALLERS: [usize; 2] = [1, 32];

/// How often each page is read.
const PAGES: usize = 201;

fn main() {
    // Test runners start every target; only `cargo bench` says `--bench`.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let mut sizes = std::env::args().filter_map(|argument| argument.parse().ok());
    let (alarms, firings) = (
        sizes.next().unwrap_or(1_000_000),
        sizes.next().unwrap_or(10_000_000),
    );
    let runtime = tokio::runtime::Runtime::new().expect("a runtime can be started");
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    println!("{cores} cores, {alarms} alarms and {firings} firings\n");
    runtime.block_on(async {
        let home = Home::new();
        let file = home.database();
        measure("SQLite", home, (alarms, firings), async || {
            Database::sqlite(&file).await
        })
        .await;
        let server = Postgres::start_with(&["shared_buffers=1GB", "max_wal_size=8GB"]).await;
        let database = server.database().await;
        let home = Home::new().in_cluster(&database);
        measure("PostgreSQL", home, (alarms, firings), async || {
            Database::postgres(&database).await
        })
        .await;
    });
}

async fn measure(store: &str, home: Home, sizes: (u64, u64), database: impl AsyncFnOnce() -> Database) {
    let mut node = home.start().await;
    for owner in OWNERS {
        let body = json!({ "email": format!("{owner}@example.org") });
        let path = format!("/v1/owners/{owner}");
        node.put(&path, "application/json", body.to_string()).await.ok();
    }
    println!("| {store} | callers | a second | to reads |\n|---|---|---|---|");
    for callers in CALLERS {
        paces(&node, callers).await;
    }
    for owner in OWNERS {
        fire_one(&node, owner).await;
    }
    node.terminate().await;
    database().await.add(OWNERS[0], sizes).await;
    node.start_again().await;
    println!("\n| {store} | middle, ms | slowest of {PAGES}, ms | to one alarm |\n|---|---|---|---|");
    for (what, path) in [
        ("list, newest 50", "/v1/alarms?"),
        ("list, newest 500", "/v1/alarms?limit=500&"),
        ("list, failed", "/v1/alarms?status=failed&"),
        ("count", "/v1/alarms/count?"),
        ("history, newest 50", "/v1/alarms/history?"),
        ("stats", "/v1/alarms/stats?"),
    ] {
        latency(&node, what, path).await;
    }
    println!();
}

async fn paces(node: &Node, callers: usize) {
    let body = json!({ "owner": OWNERS[0], "delay": "90d", "channel": "email", "label": "Tea", "payload": { "n": 1 } });
    let body = body.to_string();
    let url = node.url("/v1/alarms");
    let (created, ids) = pace(callers, |_| {
        let (url, body) = (url.clone(), body.clone());
        async move {
            let request = client()
                .post(url)
                .header("content-type", "application/json")
                .body(body);
            text(&answer(request).await, "id")
        }
    })
    .await;
    let of = |number: usize| format!("{url}/{}?owner={}", ids[number], OWNERS[0]);
    let (read, _) = pace(callers, |number| {
        let url = of(number);
        async move { text(&answer(client().get(url)).await, "id") }
    })
    .await;
    let (cancelled, _) = pace(callers, |number| {
        let url = of(number);
        async move { text(&answer(client().delete(url)).await, "id") }
    })
    .await;
    for (what, pace) in [("create", created), ("cancel", cancelled), ("read", read)] {
        println!("| {what} | {callers} | {pace:.0} | {:.2} |", pace / read);
    }
}

/// Does it so often, so many at once; how many a second, and what came of each.
async fn pace<F>(callers: usize, ask: impl Fn(usize) -> F) -> (f64, Vec<String>)
where
    F: Future<Output = String> + Send + 'static,
{
    let began = SystemClock.elapsed();
    let mut under_way = JoinSet::new();
    let mut done = Vec::with_capacity(ALARMS);
    for number in 0..ALARMS {
        if under_way.len() == callers {
            done.extend(under_way.join_next().await);
        }
        under_way.spawn(ask(number));
    }
    done.extend(under_way.join_all().await.into_iter().map(Ok));
    let took = SystemClock.elapsed().saturating_sub(began).as_secs_f64();
    let done = done.into_iter().map(|it| it.expect("no caller panics")).collect();
    (
        f64::from(u32::try_from(ALARMS).expect("it is small")) / took,
        done,
    )
}

async fn answer(request: reqwest::RequestBuilder) -> Value {
    let response = request.send().await.expect("the node answers");
    let status = response.status();
    let body = response.text().await.expect("the node finishes its answers");
    assert!(status.is_success(), "{status}: {body}");
    serde_json::from_str(&body).expect("it is JSON")
}

fn text(answer: &Value, name: &str) -> String {
    answer[name].as_str().expect("text").to_owned()
}

/// Of which the many are copies.
async fn fire_one(node: &Node, owner: &str) {
    let body = json!({ "owner": owner, "delay": "1s", "channel": "email", "label": "Tea" });
    node.post("/v1/alarms", "application/json", body.to_string())
        .await
        .ok();
    eventually("its firing to be recorded", async || {
        let path = format!("/v1/alarms/history?owner={owner}&status=sent");
        let page = node.get(&path).await.ok();
        page["items"]
            .as_array()
            .is_some_and(|rows| !rows.is_empty())
            .then_some(())
    })
    .await;
}

/// Both owners by turns, since the machine is another a minute later.
async fn latency(node: &Node, what: &str, path: &str) {
    let mut times = OWNERS.map(|_| Vec::with_capacity(PAGES));
    for _ in 0..PAGES {
        for (owner, times) in OWNERS.iter().zip(&mut times) {
            let url = node.url(&format!("{path}owner={owner}"));
            let began = SystemClock.elapsed();
            answer(client().get(url)).await;
            times.push(SystemClock.elapsed().saturating_sub(began));
        }
    }
    let [(middle, slowest), (of_one, _)] = times.map(|mut times| {
        times.sort_unstable();
        (millis(times[PAGES / 2]), millis(times[PAGES - 1]))
    });
    println!("| {what} | {middle:.2} | {slowest:.2} | {:.1} |", middle / of_one);
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}
