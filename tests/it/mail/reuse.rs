//! Connections: how many, how often, and when they end.

use std::sync::Arc;
use std::time::Duration;

use carillon::channel::Channel;
use carillon::channel::Deadline;
use carillon::channel::Message;
use carillon::channel::Report;
use carillon::channel::email::EmailChannel;
use carillon::clock::Clock;
use carillon::clock::ManualClock;

use super::WHOLE;
use super::channel;
use super::class;
use super::config;
use super::letterhead;
use super::message;
use super::scripted::Act;
use super::scripted::ScriptedRelay;
use super::send;
use super::within;

fn count(commands: &[String], verb: &str) -> usize {
    commands
        .iter()
        .filter(|command| command.starts_with(verb))
        .count()
}

#[tokio::test]
async fn a_fresh_connection_is_used_again_without_a_question() {
    let relay = ScriptedRelay::start(|_, _| None).await;
    let channel = channel(config(relay.port));
    for _ in 0..3 {
        assert_eq!(class(&send(&channel).await).0, "accepted");
    }
    let seen = relay.seen();
    assert_eq!((seen.connections, seen.messages.len()), (1, 3));
    assert_eq!(count(&seen.commands, "RSET"), 0);
}

#[tokio::test]
async fn a_connection_serves_a_hundred_messages_and_says_goodbye() {
    let relay = ScriptedRelay::start(|_, _| None).await;
    let channel = channel(config(relay.port));
    for id in 0..101 {
        let report = channel.send(&message(id), within(WHOLE)).await;
        assert_eq!(class(&report).0, "accepted");
    }
    relay.wait_until(|seen| seen.ended == 1).await;
    let seen = relay.seen();
    assert_eq!((seen.connections, seen.messages.len()), (2, 101));
    assert_eq!(count(&seen.commands, "QUIT"), 1);
}

#[tokio::test]
async fn there_are_never_more_connections_than_configured() {
    let relay = ScriptedRelay::start(|_, _| None).await;
    let channel = channel(config(relay.port));
    let sends = (0..40).map(|id| {
        let owner = u64::from(id % 4);
        let (channel, message) = (&channel, Message { owner, ..message(id) });
        async move { channel.send(&message, within(WHOLE)).await }
    });
    let reports = futures_util::future::join_all(sends).await;
    assert!(reports.iter().all(|report| class(report).0 == "accepted"));
    let seen = relay.seen();
    assert_eq!((seen.connections, seen.messages.len()), (2, 40));
}

#[tokio::test]
async fn who_gets_no_connection_in_time_has_sent_nothing() {
    let relay = ScriptedRelay::that("RCPT", Act::Stall).await;
    let mut config = config(relay.port);
    config.connections = 1;
    config.timeouts.recipient = Duration::from_secs(2);
    let channel = channel(config);
    let (holder, waiter) = (message(1), message(2));
    let (first, second) = tokio::join!(
        channel.send(&holder, within(WHOLE)),
        channel.send(&waiter, within(Duration::from_millis(300))),
    );
    assert_eq!(class(&first).0, "target");
    assert_eq!(class(&second).0, "busy");
}

/// What a relay says of its own accord would be taken for its answer to the next message, and all later answers with it.
#[tokio::test]
async fn replies_to_nothing_end_the_connection() {
    let forged = "250 ok\r\n250 m\r\n250 r\r\n354 d\r\n250 2.0.0 FORGED";
    let relay = ScriptedRelay::start(move |connection, point| {
        (connection == 0 && point == "DOT").then_some(Act::Say(forged))
    })
    .await;
    let channel = channel(config(relay.port));
    assert_eq!(class(&send(&channel).await).0, "accepted");
    let second = send(&channel).await;
    let (class, words) = class(&second);
    assert_eq!(class, "accepted");
    assert!(!words.contains("FORGED"), "{words}");
    let seen = relay.seen();
    assert_eq!((seen.connections, seen.messages.len()), (2, 2));
}

#[tokio::test]
async fn a_refused_transaction_is_reset_before_the_next() {
    let relay = ScriptedRelay::start(|_, point| (point == "RCPT").then_some(Act::Say("550 5.1.1 no"))).await;
    let channel = channel(config(relay.port));
    for _ in 0..2 {
        assert_eq!(class(&send(&channel).await).0, "gone");
    }
    let seen = relay.seen();
    assert_eq!(seen.connections, 1);
    let verbs: Vec<_> = seen.commands.iter().map(|command| &command[..4]).collect();
    assert_eq!(verbs, ["EHLO", "MAIL", "RCPT", "RSET", "MAIL", "RCPT"]);
}

#[tokio::test]
async fn a_connection_that_died_of_age_is_replaced_within_the_attempt() {
    for act in [
        Act::Close,
        Act::Say("421 4.4.2 idle for too long"),
        Act::Say("503 5.5.1 nested"),
    ] {
        let mails = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let relay = ScriptedRelay::start(move |connection, point| {
            let is_second = connection == 0
                && point == "MAIL"
                && mails.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 1;
            is_second.then_some(act)
        })
        .await;
        let channel = channel(config(relay.port));
        for _ in 0..2 {
            assert_eq!(class(&send(&channel).await).0, "accepted", "{act:?}");
        }
        assert_eq!((relay.seen().connections, relay.seen().messages.len()), (2, 2));
    }
}

#[tokio::test]
async fn a_relay_that_ends_every_session_is_tried_once_more_only() {
    let relay = ScriptedRelay::that("MAIL", Act::Close).await;
    assert_eq!(class(&send(&channel(config(relay.port))).await).0, "target");
    assert_eq!(relay.seen().connections, 1);
}

/// A channel whose clock is in the test's hand.
fn clocked(port: u16) -> (EmailChannel, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::at("2026-12-01T08:15:00Z".parse().unwrap()));
    let channel =
        EmailChannel::new(letterhead(), [config(port)], clock.clone()).expect("no TLS is configured");
    (channel, clock)
}

async fn send_by(channel: &EmailChannel, clock: &ManualClock) -> Report {
    let deadline = Deadline(clock.elapsed() + WHOLE);
    channel.send(&message(1), deadline).await
}

#[tokio::test]
async fn a_connection_left_alone_is_asked_first_and_replaced_if_it_is_gone() {
    let relay =
        ScriptedRelay::start(|number, point| (number == 0 && point == "RSET").then_some(Act::Close)).await;
    let (channel, clock) = clocked(relay.port);
    for (connections, resets) in [(1, 0), (2, 1), (2, 2)] {
        assert_eq!(class(&send_by(&channel, &clock).await).0, "accepted");
        let seen = relay.seen();
        assert_eq!(
            (seen.connections, count(&seen.commands, "RSET")),
            (connections, resets)
        );
        clock.advance(Duration::from_secs(6));
    }
}

#[tokio::test]
async fn a_connection_that_nobody_needs_is_closed() {
    let relay = ScriptedRelay::start(|_, _| None).await;
    let (channel, clock) = clocked(relay.port);
    send_by(&channel, &clock).await;
    // The watching task may begin to wait only after the clock moved: it is moved until the relay has seen the end.
    relay
        .wait_until(|seen| {
            clock.advance(Duration::from_mins(2));
            seen.ended == 1
        })
        .await;
    assert_eq!(count(&relay.seen().commands, "QUIT"), 1);
}

#[tokio::test]
async fn a_pause_in_mid_dialogue_sends_nothing() {
    let clock = Arc::new(ManualClock::at("2026-12-01T08:15:00Z".parse().unwrap()));
    let paused = clock.clone();
    let relay = ScriptedRelay::start(move |_, point| {
        if point == "DATA" {
            paused.advance(Duration::from_mins(10));
        }
        None
    })
    .await;
    let channel =
        EmailChannel::new(letterhead(), [config(relay.port)], clock.clone()).expect("no TLS is configured");
    assert_eq!(send_by(&channel, &clock).await, Report::Abandoned);
    relay.wait_until(|seen| seen.ended == 1).await;
    assert_eq!(relay.seen().messages.len(), 0);
}
