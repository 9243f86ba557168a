//! Several commands at once, and several relays: which is asked when.

use std::sync::Arc;
use std::time::Duration;

use carillon::channel::Channel;
use carillon::channel::Deadline;
use carillon::channel::Message;
use carillon::channel::breaker::Openness;
use carillon::channel::email::EmailChannel;
use carillon::clock::Clock;
use carillon::clock::ManualClock;

use crate::harness::calendar::Calendar;
use crate::harness::free_port;
use crate::harness::node::Home;
use crate::harness::sink::Sink;
use crate::harness::whole_second_in;

use super::WHOLE;
use super::channel;
use super::class;
use super::config;
use super::letterhead;
use super::message;
use super::scripted::Act;
use super::scripted::PIPELINING;
use super::scripted::ScriptedRelay;
use super::send;

/// A relay that takes several commands at once and does one unusual thing.
async fn pipelining(point: &'static str, act: Act) -> ScriptedRelay {
    ScriptedRelay::start(move |_, at| match at {
        "EHLO" => Some(PIPELINING),
        _ => (at == point).then_some(act),
    })
    .await
}

#[tokio::test]
async fn a_relay_that_offers_it_gets_the_envelope_at_once() {
    let relay = pipelining("-", Act::Close).await;
    let channel = channel(config(relay.port));
    for _ in 0..3 {
        assert_eq!(class(&send(&channel).await).0, "accepted");
    }
    let seen = relay.seen();
    assert_eq!((seen.connections, seen.messages.len()), (1, 3));
    assert_eq!(
        seen.at_once,
        2 * 3,
        "RCPT and DATA came with MAIL: {:?}",
        seen.commands
    );
}

#[tokio::test]
async fn a_relay_that_would_take_a_body_for_nobody_gets_none() {
    let relay = pipelining("RCPT", Act::Say("550 5.1.1 unknown")).await;
    let channel = channel(config(relay.port));
    for _ in 0..2 {
        assert_eq!(class(&send(&channel).await).0, "gone");
    }
    relay.wait_until(|seen| seen.ended == 2).await;
    assert_eq!(relay.seen().messages.len(), 0);
}

#[tokio::test]
async fn a_refused_envelope_leaves_the_connection_in_step() {
    let relay = ScriptedRelay::start(|_, at| match at {
        "EHLO" => Some(PIPELINING),
        "RCPT" => Some(Act::Say("550 5.1.1 unknown")),
        "DATA" => Some(Act::Say("503 5.5.1 no recipient")),
        _ => None,
    })
    .await;
    let channel = channel(config(relay.port));
    for _ in 0..2 {
        assert_eq!(class(&send(&channel).await).0, "gone");
    }
    let seen = relay.seen();
    assert_eq!(seen.connections, 1);
    let verbs: Vec<_> = seen.commands.iter().map(|command| &command[..4]).collect();
    assert_eq!(
        verbs,
        ["EHLO", "MAIL", "RCPT", "DATA", "RSET", "MAIL", "RCPT", "DATA"]
    );
}

/// A channel over these relays, in this order, with a clock in the test's hand.
fn over(relays: &[&ScriptedRelay]) -> (EmailChannel, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::at("2026-12-01T08:15:00Z".parse().unwrap()));
    let configs = relays.iter().map(|relay| config(relay.port));
    let channel = EmailChannel::new(letterhead(), configs, clock.clone()).expect("no TLS is configured");
    (channel, clock)
}

fn message_to(address: &str) -> Message {
    Message {
        to: address.to_owned(),
        ..message(1)
    }
}

async fn send_one(channel: &EmailChannel, clock: &ManualClock) -> String {
    let report = channel.send(&message(1), Deadline(clock.elapsed() + WHOLE)).await;
    class(&report).0.to_owned()
}

#[tokio::test]
async fn the_next_relay_is_asked_where_the_first_is_down() {
    let down = ScriptedRelay::that("GREETING", Act::Say("421 4.3.2 closed")).await;
    let up = ScriptedRelay::start(|_, _| None).await;
    let (channel, clock) = over(&[&down, &up]);
    for _ in 0..20 {
        assert_eq!(send_one(&channel, &clock).await, "accepted");
    }
    assert_eq!(up.seen().messages.len(), 20);
    assert_eq!(down.seen().connections, 5, "then it is left alone");
    assert_eq!(channel.openness(), Openness::Everybody);

    clock.advance(Duration::from_secs(5));
    for _ in 0..20 {
        assert_eq!(send_one(&channel, &clock).await, "accepted");
    }
    assert_eq!(down.seen().connections, 6, "one probe in five seconds");
}

#[tokio::test]
async fn what_one_relay_may_have_taken_is_not_given_to_another() {
    let lossy = ScriptedRelay::that("DOT", Act::Close).await;
    let other = ScriptedRelay::start(|_, _| None).await;
    let (channel, clock) = over(&[&lossy, &other]);
    assert_eq!(send_one(&channel, &clock).await, "in doubt");
    assert_eq!(other.seen().connections, 0);
}

#[tokio::test]
async fn what_one_relay_refuses_is_not_offered_to_another() {
    let strict = ScriptedRelay::that("RCPT", Act::Say("550 5.1.1 unknown")).await;
    let other = ScriptedRelay::start(|_, _| None).await;
    let (channel, clock) = over(&[&strict, &other]);
    for _ in 0..10 {
        assert_eq!(send_one(&channel, &clock).await, "gone");
    }
    assert_eq!(other.seen().connections, 0);
    assert_eq!(channel.openness(), Openness::Everybody, "it is there");
}

#[tokio::test]
async fn a_relay_that_refuses_everybody_for_what_we_are_ends_few_messages_and_the_next_one_is_asked() {
    let strict = ScriptedRelay::that("MAIL", Act::Say("554 5.7.1 your address is on our list")).await;
    let other = ScriptedRelay::start(|_, _| None).await;
    let (channel, clock) = over(&[&strict, &other]);
    let mut classes = Vec::new();
    for number in 0..20 {
        let letter = message_to(&format!("p{number}@example.org"));
        let report = channel.send(&letter, Deadline(clock.elapsed() + WHOLE)).await;
        classes.push(class(&report).0.to_owned());
    }
    let (ended, served) = classes.split_at(9);
    assert!(ended.iter().all(|class| class == "permanent"), "{classes:?}");
    assert!(served.iter().all(|class| class == "accepted"), "{classes:?}");
    assert_eq!(other.seen().messages.len(), 11);
    let before = strict.seen().commands.len();
    assert_eq!(send_one(&channel, &clock).await, "accepted");
    assert_eq!(strict.seen().commands.len(), before, "it is left alone");
}

#[tokio::test]
async fn a_relay_that_refuses_everybody_gets_what_waits_when_that_is_mended() {
    let mended = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let is_mended = mended.clone();
    let relay = ScriptedRelay::start(move |_, at| {
        let refuses = at == "RCPT" && !is_mended.load(std::sync::atomic::Ordering::Relaxed);
        refuses.then_some(Act::Say("554 5.7.1 client host blocked"))
    })
    .await;
    let (channel, clock) = over(&[&relay]);
    for number in 0..15 {
        let letter = message_to(&format!("p{number}@example.org"));
        let report = channel.send(&letter, Deadline(clock.elapsed() + WHOLE)).await;
        assert_eq!(
            class(&report).0,
            if number < 9 { "permanent" } else { "target" },
            "{number}"
        );
    }
    assert_eq!(channel.openness(), Openness::Nobody(Duration::from_secs(5)));
    mended.store(true, std::sync::atomic::Ordering::Relaxed);
    clock.advance(Duration::from_secs(5));
    assert_eq!(send_one(&channel, &clock).await, "accepted");
    assert_eq!(channel.openness(), Openness::Everybody);
}

#[tokio::test]
async fn a_relay_that_refuses_what_one_owner_wants_sent_serves_the_others() {
    let is_theirs = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let refuses = is_theirs.clone();
    let relay = ScriptedRelay::start(move |_, at| {
        let refuses = at == "RCPT" && refuses.load(std::sync::atomic::Ordering::Relaxed);
        refuses.then_some(Act::Say("554 5.7.1 not to them"))
    })
    .await;
    let (channel, clock) = over(&[&relay]);
    assert_eq!(send_one(&channel, &clock).await, "accepted");
    is_theirs.store(true, std::sync::atomic::Ordering::Relaxed);
    for number in 0..30 {
        let letter = Message {
            owner: 77,
            ..message_to(&format!("p{number}@refused.example"))
        };
        let report = channel.send(&letter, Deadline(clock.elapsed() + WHOLE)).await;
        assert_eq!(class(&report).0, "permanent", "{number}");
    }
    assert_eq!(channel.openness(), Openness::Everybody);
    is_theirs.store(false, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(send_one(&channel, &clock).await, "accepted");
}

#[tokio::test]
async fn a_relay_that_refuses_our_password_is_left_alone_and_told_of() {
    let relay = ScriptedRelay::that("MAIL", Act::Say("530 5.7.0 authenticate first")).await;
    let (channel, clock) = over(&[&relay]);
    for _ in 0..5 {
        assert_eq!(send_one(&channel, &clock).await, "target");
    }
    assert_eq!(channel.openness(), Openness::Nobody(Duration::from_secs(5)));
    assert_eq!(channel.breakers(), [(format!("127.0.0.1:{}", relay.port), true)]);
    let before = relay.seen().commands.len();
    assert_eq!(send_one(&channel, &clock).await, "target");
    assert_eq!(relay.seen().commands.len(), before);
}

#[tokio::test]
async fn a_relay_that_is_back_gets_everything_again() {
    let connections = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let relay = ScriptedRelay::start(move |_, at| {
        let is_down = at == "GREETING" && connections.fetch_add(1, std::sync::atomic::Ordering::Relaxed) < 6;
        is_down.then_some(Act::Close)
    })
    .await;
    let (channel, clock) = over(&[&relay]);
    for _ in 0..8 {
        assert_eq!(send_one(&channel, &clock).await, "target");
    }
    clock.advance(Duration::from_secs(5));
    assert_eq!(channel.openness(), Openness::OneProbe);
    assert_eq!(send_one(&channel, &clock).await, "target", "the sixth");
    clock.advance(Duration::from_secs(5));
    assert_eq!(send_one(&channel, &clock).await, "accepted");
    assert_eq!(channel.openness(), Openness::Everybody);
    assert_eq!(relay.seen().connections, 7);
}

#[tokio::test]
async fn a_node_whose_first_relay_is_down_sends_through_the_second() {
    let down = free_port();
    let second = Sink::start().await;
    let home = Home::new().with_file(&format!(
        "[channels.email]\nfurther_relays = [\"second\"]\n\
         [channels.email.relays.second]\nhost = \"127.0.0.1\"\nport = {}\ntls = \"none\"\n",
        second.port
    ));
    let node = home.with_relay(down).start_with_owner().await;
    let due = whole_second_in(3);
    let event = Calendar::far_away("budget@example.org").alarm_at(due);

    node.put_event("budget", &event).await.ok();

    second.mails(1).await[0].assert_on_time(due);
    let rows = node.history_of(1).await;
    assert_eq!(
        (&rows[0]["outcome"], &rows[0]["attempts"]),
        (&"sent".into(), &1.into())
    );
    let metrics = node.get("/metrics").await.ok();
    let metrics = metrics.as_str().expect("text");
    for (class, port) in [("transient_target", down), ("accepted", second.port)] {
        let counted = format!(
            r#"carillon_submissions_total{{channel="email",class="{class}",provider="127.0.0.1:{port}"}} 1"#
        );
        assert!(metrics.contains(&counted), "{counted}\n{metrics}");
        let connections = format!(r#"carillon_smtp_connections{{relay="127.0.0.1:{port}",state="busy"}}"#);
        assert!(metrics.contains(&connections), "{connections}\n{metrics}");
    }
}
