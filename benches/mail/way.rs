//! How a mail gets to a relay.

use std::sync::Arc;
use std::time::Duration;

use carillon::channel::Content;
use carillon::channel::Deadline;
use carillon::channel::Message;
use carillon::channel::Report;
use carillon::channel::email::Letterhead;
use carillon::channel::email::compose;
use carillon::channel::smtp::Config;
use carillon::channel::smtp::Letter;
use carillon::channel::smtp::Relay;
use carillon::channel::smtp::Timeouts;
use carillon::channel::smtp::Tls;
use carillon::clock::Clock;
use carillon::clock::SystemClock;
use lettre::AsyncSmtpTransport;
use lettre::AsyncTransport;
use lettre::Tokio1Executor;
use lettre::address::Envelope;
use lettre::transport::smtp::PoolConfig;
use tokio::task::JoinSet;

use crate::raw::Raw;

/// How a mail gets to a relay.
#[derive(Debug, Clone, Copy)]
pub enum Way {
    /// lettre's own transport, as it comes, with a pool of one.
    Stock,
    /// Our pool of so many connections.
    Pool(usize),
    /// Nothing but SMTP.
    Raw,
}

impl Way {
    /// Its name in the table.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stock => "lettre's transport",
            Self::Pool(_) => "ours",
            Self::Raw => "SMTP and nothing else",
        }
    }

    /// Its connections.
    pub const fn connections(self) -> usize {
        match self {
            Self::Stock | Self::Raw => 1,
            Self::Pool(connections) => connections,
        }
    }

    /// Mails a second to the relay on that port, over so much time.
    pub async fn pace(self, port: u16, time: Duration) -> f64 {
        let letter = letter();
        match self {
            Self::Stock => stock(port, &letter, time).await,
            Self::Pool(connections) => pool(port, connections, letter, time).await,
            Self::Raw => raw(port, &letter, time).await,
        }
    }
}

/// About as long as a reminder.
fn letter() -> Letter {
    let letterhead = Letterhead {
        from: "Carillon <carillon@example.org>".parse().expect("an address"),
        envelope_sender: None,
        message_id_domain: "bench.test".to_owned(),
    };
    let message = Message {
        id: format!("{:032x}", 7),
        thread: format!("{:032x}", 8),
        owner: 1,
        to: "jo@example.org".to_owned(),
        content: Content::Letter {
            subject: "Reminder: budget round".to_owned(),
            text: "A line of a reminder.\n".repeat(10),
            html: "<p>A line of a reminder.</p>\n".repeat(10),
        },
        language: "en".to_owned(),
        within: None,
        own: carillon::channel::Own::default(),
    };
    let letter = compose(&letterhead, &message, SystemClock.now()).expect("it can be written");
    assert!(!letter.raw.contains("\r\n."), "nothing is stuffed");
    letter
}

fn per_second(count: u32, began: Duration) -> f64 {
    f64::from(count) / SystemClock.elapsed().saturating_sub(began).as_secs_f64()
}

async fn stock(port: u16, letter: &Letter, time: Duration) -> f64 {
    let transport = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous("127.0.0.1")
        .port(port)
        .pool_config(PoolConfig::new().max_size(1))
        .build();
    let envelope = Envelope::new(letter.sender.clone(), vec![letter.to.clone()]).expect("it has a recipient");
    let send = async || {
        let sent = transport.send_raw(&envelope, letter.raw.as_bytes()).await;
        assert!(sent.expect("it is taken").is_positive());
    };
    // The first opens the connection.
    send().await;
    let (began, mut count) = (SystemClock.elapsed(), 0);
    while SystemClock.elapsed() < began + time {
        send().await;
        count += 1;
    }
    per_second(count, began)
}

async fn pool(port: u16, connections: usize, letter: Letter, time: Duration) -> f64 {
    let config = Config {
        host: "127.0.0.1".to_owned(),
        port,
        tls: Tls::None,
        ca_file: None,
        login: None,
        hello_name: "bench.test".to_owned(),
        connections,
        timeouts: Timeouts::default(),
    };
    let relay = Arc::new(Relay::new(config, Arc::new(SystemClock)).expect("no TLS is asked for"));
    submit(&relay, &letter).await;
    let began = SystemClock.elapsed();
    let mut lanes = JoinSet::new();
    for owner in 0..connections as u64 {
        // No owner gets all connections.
        let letter = Letter {
            owner,
            ..letter.clone()
        };
        let relay = Arc::clone(&relay);
        lanes.spawn(async move {
            let mut count = 0;
            while SystemClock.elapsed() < began + time {
                submit(&relay, &letter).await;
                count += 1;
            }
            count
        });
    }
    let count = lanes.join_all().await.into_iter().sum();
    per_second(count, began)
}

async fn submit(relay: &Relay, letter: &Letter) {
    let deadline = Deadline(SystemClock.elapsed() + Duration::from_mins(2));
    let report = relay.submit(letter, deadline).await;
    assert!(matches!(report, Report::Accepted { .. }), "{report:?}");
}

async fn raw(port: u16, letter: &Letter, time: Duration) -> f64 {
    let mut connection = Raw::connect(port).await;
    let envelope = format!("MAIL FROM:<>\r\nRCPT TO:<{}>\r\nDATA\r\n", letter.to);
    let mail = format!("{}.\r\n", letter.raw);
    connection.send(&envelope, &mail).await;
    let (began, mut count) = (SystemClock.elapsed(), 0);
    while SystemClock.elapsed() < began + time {
        connection.send(&envelope, &mail).await;
        count += 1;
    }
    per_second(count, began)
}
