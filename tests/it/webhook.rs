//! Webhooks through real sockets: what a target does, and where calls may go.

mod bulkheads;
mod classes;
mod guard;
mod journey;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use carillon::channel::Channel;
use carillon::channel::Content;
use carillon::channel::Deadline;
use carillon::channel::Message;
use carillon::channel::Report;
use carillon::channel::webhook::Config;
use carillon::channel::webhook::DEFAULT_CALLS;
use carillon::channel::webhook::Guard;
use carillon::channel::webhook::Lookup;
use carillon::channel::webhook::Secrets;
use carillon::channel::webhook::WebhookChannel;
use carillon::clock::Clock;
use carillon::clock::SystemClock;

use crate::harness::hook::SECRET;

/// For what a test lets time out: short, since the test waits for it.
const SHORT: Duration = Duration::from_millis(300);

/// For all others: no test waits for this unless something hangs.
const WHOLE: Duration = Duration::from_secs(20);

const DOCUMENT: &str = r#"{"type":"alarm","summary":"Größe"}"#;

/// Calls may go to these networks besides what is public.
fn config(allowed: &[&str]) -> Config {
    let allowed = allowed.iter().map(|text| text.parse().expect(text));
    Config {
        guard: Guard::new(allowed.collect()),
        secrets: Some(Secrets::parse(SECRET).expect("it is good")),
        timeout: WHOLE / 2,
        calls: DEFAULT_CALLS,
        ack_timeout: None,
        ca_file: None,
    }
}

/// A channel whose names are all these addresses.
fn channel_that_finds(config: Config, addresses: &[&str]) -> WebhookChannel {
    let addresses: Vec<IpAddr> = addresses.iter().map(|text| text.parse().expect(text)).collect();
    let lookup: Lookup = Arc::new(move |_| {
        let addresses = addresses.clone();
        Box::pin(async move { Ok(addresses) })
    });
    WebhookChannel::new(config, None, &lookup, Arc::new(SystemClock)).expect("it can be set up")
}

/// A channel to this machine.
fn channel(config: Config) -> WebhookChannel {
    channel_that_finds(config, &["127.0.0.1"])
}

fn message(id: u64, to: &str) -> Message {
    Message {
        id: format!("{id:032x}"),
        thread: format!("{:032x}", 7),
        owner: 7,
        to: to.to_owned(),
        content: Content::Json(DOCUMENT.to_owned()),
        language: "en".to_owned(),
        within: None,
        own: carillon::channel::Own::default(),
    }
}

fn within(time: Duration) -> Deadline {
    Deadline(SystemClock.elapsed() + time)
}

async fn send(channel: &WebhookChannel, to: &str) -> Report {
    channel.send(&message(1, to), within(WHOLE)).await
}

/// The class of a report and what it says.
fn class(report: &Report) -> (&'static str, &str) {
    use carillon::channel::Blame;
    match report {
        Report::Accepted { reply, .. } => ("accepted", reply),
        Report::Transient { error, of, .. } => match of {
            Blame::Target => ("target", error),
            Blame::Message => ("message", error),
        },
        Report::Permanent { error } => ("permanent", error),
        Report::Gone { error } => ("gone", error),
        Report::Busy { error, .. } => ("busy", error),
        Report::InDoubt { error } => ("in doubt", error),
        Report::Again { .. } => ("again", ""),
        Report::Abandoned => ("abandoned", ""),
    }
}
