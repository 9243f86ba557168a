//! E-mail through real sockets: a scripted relay for every fault, smtp-sink for a relay that others wrote.

pub mod certificates;
mod classes;
mod dead;
mod dkim;
mod relays;
mod reuse;
mod scripted;
mod sink;
mod tls;

use std::sync::Arc;
use std::time::Duration;

use carillon::channel::Blame;
use carillon::channel::Channel;
use carillon::channel::Content;
use carillon::channel::Deadline;
use carillon::channel::Message;
use carillon::channel::Report;
use carillon::channel::email::EmailChannel;
use carillon::channel::email::Letterhead;
use carillon::channel::smtp::Config;
use carillon::channel::smtp::Timeouts;
use carillon::channel::smtp::Tls;
use carillon::clock::Clock;
use carillon::clock::SystemClock;

/// For a stage that a test lets time out: short, since the test waits for it.
const SHORT: Duration = Duration::from_millis(300);

/// For all others, and for the whole: no test waits for this unless something hangs.
const WHOLE: Duration = Duration::from_secs(20);

/// A relay on this machine.
fn config(port: u16) -> Config {
    Config {
        host: "127.0.0.1".to_owned(),
        port,
        tls: Tls::None,
        ca_file: None,
        login: None,
        hello_name: "carillon.test".to_owned(),
        connections: 2,
        timeouts: Timeouts {
            connect: WHOLE,
            greeting: WHOLE,
            mail: WHOLE,
            recipient: WHOLE,
            data: WHOLE,
            body: WHOLE,
            accept: WHOLE,
            idle: Duration::from_mins(1),
        },
    }
}

fn letterhead() -> Letterhead {
    Letterhead {
        from: "Carillon <carillon@example.org>".parse().unwrap(),
        envelope_sender: Some("bounces@example.org".parse().unwrap()),
        message_id_domain: "carillon.test".to_owned(),
    }
}

fn channel(config: Config) -> EmailChannel {
    let clock = Arc::new(SystemClock);
    EmailChannel::new(letterhead(), [config], clock).expect("the test's certificates are good")
}

fn message(id: u32) -> Message {
    Message {
        id: format!("{id:032x}"),
        thread: format!("{:032x}", 7),
        owner: 7,
        to: "jo.doe@example.org".to_owned(),
        content: Content::Letter {
            subject: "Reminder: Größe".to_owned(),
            text: ".starts with a dot\n".to_owned(),
            html: "<p>Größe</p>\n".to_owned(),
        },
        language: "en".to_owned(),
        within: None,
        own: carillon::channel::Own::default(),
    }
}

fn within(time: Duration) -> Deadline {
    Deadline(SystemClock.elapsed() + time)
}

async fn send(channel: &EmailChannel) -> Report {
    channel.send(&message(1), within(WHOLE)).await
}

/// The class of a report and what it says.
fn class(report: &Report) -> (&'static str, &str) {
    match report {
        Report::Accepted { reply, .. } => ("accepted", reply),
        Report::Transient {
            error,
            of: Blame::Target,
            ..
        } => ("target", error),
        Report::Transient {
            error,
            of: Blame::Message,
            ..
        } => ("message", error),
        Report::Permanent { error } => ("permanent", error),
        Report::InDoubt { error } => ("in doubt", error),
        Report::Gone { error } => ("gone", error),
        Report::Busy { error, .. } => ("busy", error),
        Report::Again { .. } => ("a webhook's", ""),
        Report::Abandoned => ("abandoned", ""),
    }
}
