//! The load: events that are put through the API shortly before they are due, half of them when the leader has still to
//! claim them, half when the node that takes them claims them at once. A node that does not take one is passed over, as
//! a load balancer does; what was answered with success is a promise.

use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use carillon::clock::Clock;
use carillon::clock::SystemClock;
use chrono::DateTime;
use chrono::TimeDelta;
use chrono::Utc;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::faults::size::Size;
use crate::faults::verdict::Promise;
use crate::harness::api::SOURCE;
use crate::harness::calendar::Calendar;
use crate::harness::client::client_builder;
use crate::harness::now;
use crate::harness::whole_second_in;

/// How long before they are due events are put, in turn.
const LEADS: [TimeDelta; 2] = [TimeDelta::seconds(2), TimeDelta::seconds(8)];

/// Owners, each with an address of their own.
pub const OWNERS: usize = 50;

/// Requests at once, of each half.
const AT_ONCE: usize = 64;

/// How long a node may take to answer, and how long it is passed over when it did not.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long an event is offered before the test gives up.
const STUBBORN: TimeDelta = TimeDelta::minutes(3);

/// A load that is under way.
#[derive(Debug)]
pub struct Load {
    /// When the last trigger is due.
    pub ends: DateTime<Utc>,
    halves: JoinSet<Vec<Promise>>,
}

/// Where events are put.
#[derive(Debug)]
pub struct Door {
    client: reqwest::Client,
    /// The address of each node, and until when it is passed over.
    nodes: Vec<(String, Mutex<DateTime<Utc>>)>,
}

impl Load {
    /// Begins to put events through the APIs on those ports; the first are due in five seconds.
    pub fn start(size: Size, ports: &[u16]) -> Self {
        let door = Arc::new(Door::to(ports));
        let begins = whole_second_in(5);
        let due = move |number: usize| {
            begins + TimeDelta::seconds(i64::try_from(number / size.rate).unwrap_or(i64::MAX))
        };
        let total = size.rate * size.seconds;
        let mut halves = JoinSet::new();
        for (half, lead) in LEADS.into_iter().enumerate() {
            let numbers = (half..total).step_by(LEADS.len());
            let events: Vec<(usize, DateTime<Utc>)> = numbers.map(|number| (number, due(number))).collect();
            halves.spawn(put_all(Arc::clone(&door), events, lead));
        }
        Self {
            ends: due(total - 1),
            halves,
        }
    }

    /// Waits until all is put, and says what was promised.
    pub async fn promises(self) -> Vec<Promise> {
        self.halves.join_all().await.concat()
    }
}

async fn put_all(door: Arc<Door>, events: Vec<(usize, DateTime<Utc>)>, lead: TimeDelta) -> Vec<Promise> {
    let at_once = Arc::new(Semaphore::new(AT_ONCE));
    let mut puts = JoinSet::new();
    for (number, due) in events {
        let early = (due - lead - now()).to_std().unwrap_or_default();
        SystemClock.sleep(early).await;
        let permit = Arc::clone(&at_once).acquire_owned().await;
        let permit = permit.expect("nobody closes it");
        let door = Arc::clone(&door);
        puts.spawn(async move {
            let promise = put(&door, number, due).await;
            drop(permit);
            promise
        });
    }
    puts.join_all().await
}

async fn put(door: &Door, number: usize, due: DateTime<Utc>) -> Promise {
    let name = format!("Load {number:06}");
    let path = format!(
        "/v1/sources/{SOURCE}/events/load-{number}?owner=o{}",
        number % OWNERS
    );
    let event = Calendar::far_away(&format!("load-{number}@example.org"))
        .named(&name)
        .alarm_at(due)
        .text();
    let accepted = door.put(number, &path, &event).await;
    Promise { name, due, accepted }
}

impl Door {
    /// The nodes on those ports.
    pub fn to(ports: &[u16]) -> Self {
        let client = client_builder().timeout(PATIENCE).build();
        let node = |port: &u16| (format!("http://127.0.0.1:{port}"), Mutex::default());
        Self {
            client: client.expect("a client needs nothing"),
            nodes: ports.iter().map(node).collect(),
        }
    }

    /// Puts an event at a path, through the first node from that number on that takes it. Says when it was accepted.
    pub async fn put(&self, number: usize, path: &str, event: &str) -> DateTime<Utc> {
        let first = now();
        for turn in number.. {
            let (address, shunned) = &self.nodes[turn % self.nodes.len()];
            if *shunned.lock().expect("no holder panics") > now() {
                SystemClock.sleep(Duration::from_millis(20)).await;
                continue;
            }
            let request = self.client.put(format!("{address}{path}"));
            let request = request
                .header("content-type", "text/calendar")
                .body(event.to_owned());
            match request.send().await.map(|answer| answer.status()) {
                Ok(status) if status.is_success() => break,
                Ok(status) if status.is_client_error() => panic!("{path} was refused: {status}"),
                _ => *shunned.lock().expect("no holder panics") = now() + PATIENCE,
            }
            assert!(now() - first < STUBBORN, "nobody took {path}");
        }
        now()
    }
}
