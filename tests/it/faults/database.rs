//! A database that goes away, alone or together with all nodes.

use std::time::Duration;

use carillon::clock::Clock;
use carillon::clock::SystemClock;
use chrono::DateTime;
use chrono::Utc;
use rustix::process::Signal;

use crate::faults::field::Field;
use crate::faults::field::busy_moment;
use crate::faults::field::load_is_on;
use crate::faults::field::pause;
use crate::faults::field::since;
use crate::faults::size::Size;
use crate::faults::size::choose;
use crate::faults::size::seconds;
use crate::faults::verdict::Fault;
use crate::harness::link::Cut;
use crate::harness::now;

/// How soon after its return all that fell due meanwhile must have been sent.
const BACKLOG_GONE: Duration = Duration::from_mins(1);

impl Field {
    /// Ends the database, and starts it again after so long. Before the nodes are let in, it says what they were sending.
    async fn lose_database(&mut self, signal: Signal, away: Duration) {
        busy_moment().await;
        self.postgres.end(signal);
        let at = now();
        pause(away).await;
        for wire in &self.wires {
            wire.cut(Cut::Everybody);
        }
        self.database_returns(at).await;
        for wire in &self.wires {
            wire.cut(Cut::Nobody);
        }
    }

    /// Kills all nodes and the database at once, and starts them again after so long.
    async fn kill_everything(&mut self, away: Duration) {
        busy_moment().await;
        for node in &self.nodes {
            node.signal(Signal::KILL);
        }
        self.postgres.end(Signal::KILL);
        let at = now();
        for node in &mut self.nodes {
            node.kill();
        }
        pause(away).await;
        self.database_returns(at).await;
        for node in &mut self.nodes {
            node.launch_again();
        }
    }

    /// Starts the database again while no node reaches it, and notes what was being sent when it ended.
    async fn database_returns(&mut self, ended: DateTime<Utc>) {
        self.postgres.start_again().await;
        self.witness.return_to().await;
        let sending = self.witness.sending(None).await;
        self.faults.push(Fault {
            at: ended,
            node: None,
            sending,
        });
    }

    /// Waits until all that fell due has been sent, and says how long that took.
    async fn backlog_gone(&mut self) -> Duration {
        let began = SystemClock.elapsed();
        while self.witness.backlog().await > 0 && since(began) < BACKLOG_GONE {
            pause(Duration::from_millis(100)).await;
        }
        since(began)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn f4_the_database_restarts_and_crashes_and_is_away() {
    let mut field = Field::start(&[]).await;
    let load = field.load(Size::of(28, 240));
    load_is_on().await;
    let (restarts, crashes) = choose((1, 1), (5, 3));
    for _ in 0..restarts {
        field.lose_database(Signal::QUIT, Duration::ZERO).await;
        pause(seconds(5, 20)).await;
    }
    for _ in 0..crashes {
        field.lose_database(Signal::KILL, Duration::ZERO).await;
        pause(seconds(5, 20)).await;
    }
    field.lose_database(Signal::QUIT, seconds(10, 30)).await;
    let gone = field.backlog_gone().await;
    let verdict = field.judge(load).await;
    println!(
        "F4 | {restarts} restarts, {crashes} crashes, 1 outage, backlog gone after {gone:.1?} | {verdict}"
    );
    verdict.assert_exact();
    assert!(gone < BACKLOG_GONE, "{gone:?}");
    for node in &mut field.nodes {
        assert!(node.runs(), "a node ended");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn f26_all_nodes_and_the_database_are_killed_at_once() {
    let mut field = Field::start(&[]).await;
    let load = field.load(Size::of(14, 240));
    load_is_on().await;
    let kills = choose(1, 3);
    let mut longest = Duration::ZERO;
    for _ in 0..kills {
        field.kill_everything(Duration::from_secs(3)).await;
        longest = longest.max(field.backlog_gone().await);
        pause(seconds(0, 45)).await;
    }
    let verdict = field.judge(load).await;
    println!("F26 | {kills} times all killed, caught up within {longest:.1?} | {verdict}");
    verdict.assert_exact();
    assert!(longest < BACKLOG_GONE, "{longest:?}");
    for node in &mut field.nodes {
        node.ready().await;
    }
}
