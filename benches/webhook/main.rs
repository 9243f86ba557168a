//! How many calls a second: `cargo bench --bench webhook`. Prints a table for ARCHITECTURE.md.
//!
//! The channel alone, with what it does for each call (target checked, room at its endpoint, signature, HTTP), against
//! targets of ours on loopback that answer 204. Beside it the same client without the channel, which shows what HTTP itself
//! costs here.

#[path = "../../tests/it/harness/mod.rs"]
#[expect(dead_code, reason = "the tests need more of it")]
mod harness;

use std::sync::Arc;
use std::time::Duration;

use carillon::channel::Channel;
use carillon::channel::Content;
use carillon::channel::Deadline;
use carillon::channel::Message;
use carillon::channel::Report;
use carillon::channel::webhook;
use carillon::channel::webhook::Config;
use carillon::channel::webhook::DEFAULT_CALLS;
use carillon::channel::webhook::Guard;
use carillon::channel::webhook::Secrets;
use carillon::channel::webhook::WebhookChannel;
use carillon::clock::Clock;
use carillon::clock::SystemClock;
use tokio::task::JoinSet;

use crate::harness::client::client;
use crate::harness::hook::Hook;

/// Calls of one measurement.
const CALLS: u64 = 20_000;

fn main() {
    // Test runners start every target; only `cargo bench` says `--bench`.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let runtime = tokio::runtime::Runtime::new().expect("a runtime can be started");
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    println!("{cores} cores\n");
    println!("| way | endpoints | at once, each | calls/s | connections |");
    println!("|---|---|---|---|---|");
    runtime.block_on(async {
        for endpoints in [1, 8, 32] {
            through_the_channel(endpoints).await;
        }
        through_the_client_alone().await;
    });
}

async fn hooks(count: usize) -> Vec<Hook> {
    let mut hooks = Vec::new();
    for _ in 0..count {
        hooks.push(Hook::start([]).await);
    }
    hooks
}

fn document() -> String {
    format!(r#"{{"type":"alarm","summary":"{}"}}"#, "x".repeat(600))
}

fn tell(way: &str, hooks: &[Hook], took: Duration) {
    let pace = f64::from(u32::try_from(CALLS).expect("it is small")) / took.as_secs_f64();
    let connections: usize = hooks.iter().map(Hook::connections).sum();
    let arrived: usize = hooks.iter().map(|hook| hook.calls().len()).sum();
    assert_eq!(arrived as u64, CALLS, "every call arrives once");
    println!(
        "| {way} | {} | {DEFAULT_CALLS} | {pace:.0} | {connections} |",
        hooks.len()
    );
}

async fn through_the_channel(endpoints: usize) {
    let config = Config {
        guard: Guard::new(vec!["127.0.0.0/8".parse().expect("a network")]),
        secrets: Secrets::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").ok(),
        timeout: Duration::from_secs(5),
        calls: DEFAULT_CALLS,
        ack_timeout: None,
        ca_file: None,
    };
    let channel = WebhookChannel::new(config, None, &webhook::system(), Arc::new(SystemClock));
    let channel = Arc::new(channel.expect("it can be set up"));
    let hooks = hooks(endpoints).await;
    let began = SystemClock.elapsed();
    let mut lanes = JoinSet::new();
    let each = DEFAULT_CALLS * endpoints;
    for lane in 0..each {
        // An owner each, since what one owner may have under way is bounded, too.
        let (channel, endpoint) = (Arc::clone(&channel), lane % endpoints);
        let (owner, url) = (endpoint as u64, hooks[endpoint].url());
        lanes.spawn(async move {
            for number in (0..CALLS).skip(lane).step_by(each) {
                let message = Message {
                    id: format!("{number:032x}"),
                    thread: String::new(),
                    owner,
                    to: url.clone(),
                    content: Content::Json(document()),
                    language: "en".to_owned(),
                    within: None,
                    own: carillon::channel::Own::default(),
                };
                let deadline = Deadline(SystemClock.elapsed() + Duration::from_mins(1));
                let report = channel.send(&message, deadline).await;
                assert!(matches!(report, Report::Accepted { .. }), "{report:?}");
            }
        });
    }
    while let Some(lane) = lanes.join_next().await {
        lane.expect("no lane panics");
    }
    tell("the channel", &hooks, SystemClock.elapsed().saturating_sub(began));
}

async fn through_the_client_alone() {
    let hooks = hooks(1).await;
    let client = client();
    let began = SystemClock.elapsed();
    let mut lanes = JoinSet::new();
    for lane in 0..DEFAULT_CALLS {
        let (client, url) = (client.clone(), hooks[0].url());
        lanes.spawn(async move {
            for _ in (0..CALLS).skip(lane).step_by(DEFAULT_CALLS) {
                let response = client.post(&url).body(document()).send().await;
                assert!(response.expect("it answers").status().is_success());
            }
        });
    }
    while let Some(lane) = lanes.join_next().await {
        lane.expect("no lane panics");
    }
    tell(
        "the client alone",
        &hooks,
        SystemClock.elapsed().saturating_sub(began),
    );
}
