//! A database that goes away.

use std::time::Duration;

use carillon::clock::Clock;
use carillon::clock::SystemClock;
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
        self.postgres.start_again().await;
        self.witness.return_to().await;
        let sending = self.witness.sending(None).await;
        self.faults.push(Fault {
            at,
            node: None,
            sending,
        });
        for wire in &self.wires {
            wire.cut(Cut::Nobody);
        }
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
    let returned = SystemClock.elapsed();
    while field.witness.backlog().await > 0 && since(returned) < BACKLOG_GONE {
        pause(Duration::from_millis(100)).await;
    }
    let gone = since(returned);
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
