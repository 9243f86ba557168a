//! Wall clocks that jump: of the only node, on SQLite, which goes by its own clock; and of one of three, which go by the
//! clock of their database.

use std::time::Duration;

use carillon::clock::Clock;
use carillon::clock::SystemClock;
use chrono::DateTime;
use chrono::TimeDelta;
use chrono::Utc;

use crate::faults::field::Field;
use crate::faults::field::arrival;
use crate::faults::field::load_is_on;
use crate::faults::field::name;
use crate::faults::field::pause;
use crate::faults::size::Size;
use crate::faults::size::choose;
use crate::faults::size::seconds;
use crate::faults::verdict::Arrival;
use crate::faults::verdict::Promise;
use crate::faults::verdict::Verdict;
use crate::harness::calendar::Calendar;
use crate::harness::eventually;
use crate::harness::node::Home;
use crate::harness::node::Node;
use crate::harness::now;
use crate::harness::sink::Sink;
use crate::harness::whole_second_in;

/// The reason that `/readyz` gives while a jump is held.
const HELD: &str = "[-] clock: this node's clock jumped";

/// One node on SQLite whose wall clock jumps.
struct Jumping {
    node: Node,
    sink: Sink,
    promises: Vec<Promise>,
}

impl Jumping {
    async fn start(hold: Duration) -> Self {
        let sink = Sink::start().await;
        let home = Home::new()
            .with_relay(sink.port)
            .with_wall_clock()
            .with("CLOCK__HOLD", &format!("{}s", hold.as_secs()));
        Self {
            node: home.start_with_owner().await,
            sink,
            promises: Vec::new(),
        }
    }

    /// Puts an event that is due at that instant of the machine, by a clock of the node that is ahead by so much.
    async fn remind(&mut self, due: DateTime<Utc>, ahead: TimeDelta) {
        let name = format!("Load {:06}", self.promises.len());
        let event = Calendar::far_away(&format!("{name}@example.org"))
            .named(&name)
            .alarm_at(due + ahead);
        let key = format!("load-{}", self.promises.len());
        self.node.put_event(&key, &event).await.ok();
        self.promises.push(Promise {
            name,
            due,
            accepted: now(),
        });
    }

    /// Whether the node says that it holds a jump.
    async fn holds(&self) -> bool {
        let answer = self.node.get("/readyz?verbose").await;
        answer.body.as_str().unwrap_or_default().contains(HELD)
    }

    /// Sets the wall clock, and waits until the node says that it holds the jump.
    async fn jump(&self, ahead: TimeDelta) {
        self.node.set_wall_clock(ahead);
        eventually("the jump to be held", async || self.holds().await.then_some(())).await;
    }

    /// Waits until the node is ready.
    async fn is_believed(&self, within: Duration) {
        let began = SystemClock.elapsed();
        while !self.node.get("/readyz").await.status.is_success() {
            let waited = SystemClock.elapsed().saturating_sub(began);
            assert!(waited < within, "not ready after {waited:?}");
            pause(Duration::from_millis(50)).await;
        }
    }

    /// What arrived, once all that was promised has.
    async fn arrivals(&self) -> Vec<Arrival> {
        let count = self.promises.len();
        self.sink.mails(count).await;
        self.sink.with_log(|log| log.mails.iter().map(arrival).collect())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f33_a_wall_clock_jumps_for_a_while_and_for_good() {
    let (short, hold) = (seconds(3, 6), seconds(6, 60));
    let mut jumping = Jumping::start(hold).await;
    let begins = whole_second_in(2);
    for second in 0..choose(9, 50) {
        let due = begins + TimeDelta::seconds(second);
        jumping.remind(due, TimeDelta::zero()).await;
    }
    let far = [TimeDelta::minutes(130), TimeDelta::days(30)];
    for (number, ahead) in far.into_iter().enumerate() {
        let event = Calendar::far_away(&format!("far-{number}@example.org")).alarm_at(begins + ahead);
        jumping
            .node
            .put_event(&format!("far-{number}"), &event)
            .await
            .ok();
    }
    pause(Duration::from_secs(2)).await;
    jumping.jump(TimeDelta::days(365)).await;
    pause(short).await;
    jumping.node.set_wall_clock(TimeDelta::zero());
    jumping.is_believed(Duration::from_secs(5)).await;

    // For good: what is due goes on by the old time, until the new one holds.
    let mut before = TimeDelta::zero();
    for ahead in [TimeDelta::hours(-1), TimeDelta::hours(2)] {
        jumping.jump(ahead).await;
        let due = whole_second_in(1);
        jumping.remind(due, before).await;
        jumping.is_believed(hold + Duration::from_secs(5)).await;
        assert!(due < now(), "the jump was not held");
        jumping.remind(whole_second_in(1), ahead).await;
        before = ahead;
    }
    let arrivals = jumping.arrivals().await;
    let verdict = Verdict::of(&jumping.promises, &arrivals, &[]);
    println!("F33 | {verdict}");
    verdict.assert_exact();
    verdict.assert_late(
        TimeDelta::seconds(choose(5, 2)),
        TimeDelta::seconds(choose(10, 5)),
    );
    let wrong = jumping.node.whole_history().await.into_iter();
    let wrong: Vec<_> = wrong.filter(|row| row["outcome"] != "sent").collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    for (number, ahead) in far.iter().enumerate() {
        let planned = jumping.node.triggers(&format!("far-{number}")).await;
        assert_eq!(planned.len(), 1, "the event that is {ahead} ahead");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn f18_a_wall_clock_in_a_cluster_is_wrong() {
    let mut field = Field::start_as(&[], Home::with_wall_clock).await;
    let load = field.load(Size::of(25, 60));
    load_is_on().await;
    let skewed = field.leader().await;
    let mut noticed = Vec::new();
    for ahead in [TimeDelta::hours(1), TimeDelta::minutes(-10)] {
        field.nodes[skewed].set_wall_clock(ahead);
        noticed.push(says_that_it_is_skewed(&field.nodes[skewed]).await);
        pause(seconds(4, 15)).await;
    }
    let mut ahead = TimeDelta::seconds(5);
    while now() < load.ends {
        field.nodes[skewed].set_wall_clock(ahead);
        ahead = -ahead;
        pause(Duration::from_secs(1)).await;
    }
    let promises = load.promises().await;
    let verdict = field.judge_these(&promises).await;
    let given = claims_after(noticed[0], &field.arrivals(), &promises, &name(skewed));
    println!("F18 | {given} given to the skewed node | {verdict}");
    verdict.assert_exact();
    assert_eq!(given, 0, "a node whose clock is wrong was given what is due");
    verdict.assert_late(TimeDelta::seconds(10), TimeDelta::seconds(30));
}

/// Waits until the alert for a wrong clock would fire and the node is not ready; says when.
async fn says_that_it_is_skewed(node: &Node) -> DateTime<Utc> {
    eventually("the node to notice its clock", async || {
        let metrics = node.get("/metrics").await.body;
        let metrics = metrics.as_str()?;
        let (_, offset) = metrics.split_once("\ncarillon_clock_offset_seconds ")?;
        let offset: f64 = offset.lines().next()?.parse().ok()?;
        let is_ready = node.get("/readyz").await.status.is_success();
        (offset.abs() > 1.0 && !is_ready).then(now)
    })
    .await
}

/// How many of the events that were accepted a while after `noticed` the node of that name sent.
fn claims_after(noticed: DateTime<Utc>, arrivals: &[Arrival], promises: &[Promise], node: &str) -> usize {
    let theirs = arrivals.iter().filter(|arrival| arrival.from == node);
    let late = |arrival: &&Arrival| {
        let promise = promises.iter().find(|promise| promise.name == arrival.name);
        promise.is_some_and(|promise| promise.accepted > noticed + TimeDelta::seconds(3))
    };
    theirs.filter(late).count()
}
