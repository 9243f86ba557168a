//! kill -9 at every named point of a trigger's life, from outside: nothing is lost, and a duplicate exists only where the
//! relay had the final dot, with the same Message-ID.
//!
//! The points are held open by the world around the process (a relay that says nothing, a database that is locked), so
//! the product needs no hooks for it.

use std::time::Duration;

use chrono::DateTime;
use chrono::Utc;
use sqlx::Connection;
use sqlx::Executor;
use sqlx::SqliteConnection;

use crate::harness::calendar::Calendar;
use crate::harness::eventually;
use crate::harness::node::Home;
use crate::harness::node::Node;
use crate::harness::sink::Manners;
use crate::harness::sink::Sink;
use crate::harness::whole_second_in;

const KEY: &str = "budget";

/// A node with a relay, and one event whose alarm is due in so many seconds.
async fn node_with_alarm(sink: &Sink, seconds: i64) -> (Node, DateTime<Utc>) {
    let node = Home::new().with_relay(sink.port).start_with_owner().await;
    let due = whole_second_in(seconds);
    let event = Calendar::far_away("budget@example.org").alarm_at(due);
    node.put_event(KEY, &event).await.ok();
    (node, due)
}

/// Whoever may write to the database now: nobody else, until this is rolled back or dropped.
pub async fn lock(home: &Home) -> SqliteConnection {
    let url = format!("sqlite://{}?mode=rwc", home.database().display());
    let mut connection = SqliteConnection::connect(&url)
        .await
        .expect("the database can be opened");
    connection
        .execute("PRAGMA journal_mode = WAL; BEGIN IMMEDIATE")
        .await
        .expect("the database can be locked");
    connection
}

/// Waits until the one trigger is settled as sent, and checks that nothing else was.
async fn settled_as_sent(node: &Node) {
    let rows = node.certain_history_of(1).await;
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert_eq!(rows[0]["outcome"], "sent", "{rows:?}");
    assert!(node.triggers(KEY).await.is_empty(), "it is still owed");
}

#[tokio::test]
async fn killed_after_the_claim_it_sends_once_and_not_early() {
    let sink = Sink::start().await;
    let (mut node, due) = node_with_alarm(&sink, 4).await;
    node.trigger_in_state(KEY, "claimed").await;
    node.kill();
    assert_eq!(sink.log().mails.len(), 0, "it was not due yet");

    node.start_again().await;

    let mails = sink.mails(1).await;
    mails[0].assert_on_time(due);
    settled_as_sent(&node).await;
    assert_eq!(sink.log().mails.len(), 1);
}

#[tokio::test]
async fn killed_after_the_fire_check_it_sends_once() {
    let sink = Sink::start().await;
    sink.be(Manners::HoldGreeting);
    let (mut node, _) = node_with_alarm(&sink, 2).await;
    sink.connections(1).await;
    node.trigger_in_state(KEY, "sending").await;
    node.kill();
    sink.be(Manners::Polite);

    node.start_again().await;

    sink.mails(1).await;
    settled_as_sent(&node).await;
    assert_eq!(sink.log().mails.len(), 1, "nothing had left before the kill");
}

#[tokio::test]
async fn killed_after_the_final_dot_it_repeats_the_same_message_id() {
    let sink = Sink::start().await;
    sink.be(Manners::HoldReply);
    let (mut node, _) = node_with_alarm(&sink, 2).await;
    sink.mails(1).await;
    node.kill();
    sink.be(Manners::Polite);

    node.start_again().await;

    let mails = sink.mails(2).await;
    assert_eq!(mails[0].message_id(), mails[1].message_id());
    settled_as_sent(&node).await;
    assert_eq!(sink.log().mails.len(), 2, "one duplicate is excused, not more");
}

#[tokio::test]
async fn d04_killed_before_the_settle_it_repeats_the_same_message_id() {
    let sink = Sink::start().await;
    sink.be(Manners::HoldReply);
    let (mut node, _) = node_with_alarm(&sink, 2).await;
    sink.mails(1).await;
    let lock_of_ours = lock(&node.home).await;
    sink.be(Manners::Polite);
    eventually("the relay to have answered", async || {
        sink.log().mails[0].accepted.then_some(())
    })
    .await;
    node.kill();
    drop(lock_of_ours);

    node.start_again().await;

    let mails = sink.mails(2).await;
    assert_eq!(mails[0].message_id(), mails[1].message_id());
    settled_as_sent(&node).await;
    assert_eq!(sink.log().mails.len(), 2, "one duplicate is excused, not more");
}

#[tokio::test]
async fn killed_after_the_settle_it_sends_nothing_again() {
    let sink = Sink::start().await;
    let (mut node, _) = node_with_alarm(&sink, 2).await;
    settled_as_sent(&node).await;
    node.kill();

    node.start_again().await;

    // What follows is sent, and so what preceded would have been.
    let event = Calendar::far_away("later@example.org").alarm_at(whole_second_in(2));
    node.put_event("later", &event).await.ok();
    node.history_of(2).await;
    let counts = sink.log().by_message_id();
    assert_eq!(counts.len(), 2, "{counts:?}");
    assert!(counts.values().all(|count| *count == 1), "{counts:?}");
}

#[tokio::test]
async fn killed_while_a_migration_waits_it_starts_from_nothing() {
    let home = Home::new();
    let lock_of_ours = lock(&home).await;
    let mut node = home.launch();
    let ready = tokio::time::timeout(Duration::from_millis(700), node.ready()).await;
    assert!(ready.is_err(), "ready without a schema");
    node.kill();
    drop(lock_of_ours);

    node.start_again().await;
    node.put_owner().await;
}

#[tokio::test]
async fn killed_at_any_moment_of_its_first_start_it_starts_again() {
    for milliseconds in [1, 2, 4, 6, 8, 10, 12, 15, 20, 30] {
        let mut node = Home::new().launch();
        killed_after(&mut node, milliseconds).await;
        node.start_again().await;
        node.put_owner().await;
    }
}

#[tokio::test]
async fn killed_at_any_moment_of_its_start_it_forgets_nothing() {
    let sink = Sink::start().await;
    let (mut node, due) = node_with_alarm(&sink, 8).await;
    for milliseconds in [1, 3, 7, 15, 30, 60, 90, 120, 180, 250] {
        node.kill();
        node.launch_again();
        killed_after(&mut node, milliseconds).await;
    }
    node.start_again().await;

    let mails = sink.mails(1).await;
    mails[0].assert_on_time(due);
    settled_as_sent(&node).await;
    assert_eq!(sink.log().mails.len(), 1);
}

/// Kills it so long after its launch; the time is the test, not a wait for something.
async fn killed_after(node: &mut Node, milliseconds: u64) {
    let ended = tokio::time::timeout(Duration::from_millis(milliseconds), node.ended()).await;
    assert!(ended.is_err(), "it ended by itself: {ended:?}");
    node.kill();
}
