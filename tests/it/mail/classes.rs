//! What a relay does, and what it means for the message: class by stage.

use std::sync::Arc;
use std::time::Duration;

use carillon::channel::Channel;
use carillon::channel::Message;
use carillon::channel::Report;
use carillon::channel::email::EmailChannel;
use carillon::channel::email::Letterhead;
use carillon::channel::smtp::Config;
use carillon::channel::smtp::Login;
use carillon::clock::SystemClock;
use secrecy::SecretString;

use super::SHORT;
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
use super::within;

const TABLE: [(&str, Act, &str, &str); 32] = [
    ("GREETING", Act::Stall, "target", "timed out at the greeting"),
    (
        "GREETING",
        Act::Drip("220 relay.test"),
        "target",
        "timed out at the greeting",
    ),
    ("GREETING", Act::Close, "target", "the greeting"),
    ("GREETING", Act::Say("554 5.3.2 not today"), "target", "554"),
    ("GREETING", Act::Say("421 4.3.2 busy"), "target", "421"),
    ("GREETING", Act::Say("hello"), "target", "no SMTP reply"),
    ("EHLO", Act::Say("421 4.3.2 busy"), "target", "421"),
    ("EHLO", Act::Say("550 5.7.1 bad name"), "target", "EHLO"),
    ("EHLO", Act::Stall, "target", "EHLO"),
    ("MAIL", Act::Say("451 4.3.0 later"), "target", "451"),
    ("MAIL", Act::Say("530 5.7.0 authenticate"), "target", "530"),
    (
        "MAIL",
        Act::Say("550 5.7.1 no such sender"),
        "permanent",
        "MAIL FROM",
    ),
    ("MAIL", Act::Close, "target", "MAIL FROM"),
    ("RCPT", Act::Say("450 4.2.0 greylisted"), "message", "450"),
    (
        "RCPT",
        Act::Say("550 5.1.1 <jo.doe@example.org>: unknown"),
        "gone",
        "550 5.1.1 [address]",
    ),
    ("RCPT", Act::Say("552 5.2.2 full"), "message", "552"),
    ("RCPT", Act::Say("421 4.7.0 too many"), "target", "421"),
    ("RCPT", Act::Stall, "target", "timed out at RCPT TO"),
    (
        "RCPT",
        Act::Drip("250 2.1.5 ok"),
        "target",
        "timed out at RCPT TO",
    ),
    ("DATA", Act::Say("451 4.3.0 later"), "target", "451"),
    ("DATA", Act::Say("554 5.7.1 no"), "permanent", "554"),
    (
        "DATA",
        Act::Say("250 2.0.0 what"),
        "target",
        "unexpected reply at DATA",
    ),
    ("DATA", Act::Close, "target", "DATA"),
    ("DATA", Act::Stall, "target", "timed out at DATA"),
    (
        "DOT",
        Act::Say("451 4.7.1 greylisted"),
        "message",
        "the final dot",
    ),
    ("DOT", Act::Say("554 5.7.1 spam"), "permanent", "the final dot"),
    ("DOT", Act::Say("421 4.3.2 closing"), "target", "421"),
    (
        "DOT",
        Act::Say("354 what"),
        "in doubt",
        "unexpected reply at the final dot",
    ),
    ("DOT", Act::Close, "in doubt", "connection lost at the final dot"),
    ("DOT", Act::Stall, "in doubt", "timed out at the final dot"),
    (
        "DOT",
        Act::Drip("250 2.0.0 ok"),
        "in doubt",
        "timed out at the final dot",
    ),
    ("DOT", Act::Say("250"), "accepted", "250"),
];

/// A configuration that gives up early where the relay never answers, and only there.
fn impatient(port: u16, point: &str, act: Act) -> Config {
    let mut config = config(port);
    let timeouts = &mut config.timeouts;
    let limit = match point {
        _ if !matches!(act, Act::Stall | Act::Drip(_)) => return config,
        "GREETING" | "EHLO" => &mut timeouts.greeting,
        "RCPT" => &mut timeouts.recipient,
        "DATA" => &mut timeouts.data,
        "DOT" => &mut timeouts.accept,
        _ => unreachable!("no row stalls at {point}"),
    };
    *limit = SHORT;
    config
}

#[tokio::test]
async fn every_stage_has_its_faults_and_every_fault_its_class() {
    let ways = TABLE.into_iter().flat_map(|row| [(row, false), (row, true)]);
    for ((point, act, expected, part), pipelines) in ways {
        let relay = ScriptedRelay::start(move |_, at| match at {
            _ if at == point => Some(act),
            "EHLO" if pipelines => Some(PIPELINING),
            _ => None,
        })
        .await;
        let report = send(&channel(impatient(relay.port, point, act))).await;
        let (found, text) = class(&report);
        assert_eq!(found, expected, "{point} {act:?} {pipelines}: {text}");
        assert!(text.contains(part), "{point} {act:?} {pipelines}: {text}");
        assert!(!text.contains('@') && !text.contains("jo.doe"), "{text}");
    }
}

#[tokio::test]
async fn a_relay_that_is_not_there_is_the_targets_fault() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let report = send(&channel(config(port))).await;
    assert_eq!(class(&report).0, "target");
    assert!(class(&report).1.contains("connect"));
}

#[tokio::test]
async fn an_accepted_message_arrives_whole() {
    let relay = ScriptedRelay::start(|_, _| None).await;
    let report = send(&channel(config(relay.port))).await;
    assert_eq!(
        class(&report),
        ("accepted", "250 2.0.0 Ok: queued as ABC123 for [address]")
    );
    let seen = relay.seen();
    assert_eq!(
        seen.commands,
        [
            "EHLO carillon.test",
            "MAIL FROM:<bounces@example.org>",
            "RCPT TO:<jo.doe@example.org>",
            "DATA"
        ]
    );
    assert!(seen.messages[0].contains("\r\n\r\n.starts with a dot\r\n"));
    assert!(seen.messages[0].contains(&format!("Message-ID: <{}@carillon.test>\r\n", message(1).id)));
}

#[tokio::test]
async fn the_null_sender_asks_for_no_bounces() {
    let relay = ScriptedRelay::start(|_, _| None).await;
    let anonymous = Letterhead {
        envelope_sender: None,
        ..letterhead()
    };
    let channel = EmailChannel::new(anonymous, [config(relay.port)], Arc::new(SystemClock)).unwrap();
    send(&channel).await;
    assert!(relay.seen().commands.contains(&"MAIL FROM:<>".to_owned()));
}

#[tokio::test]
async fn an_address_that_is_none_never_reaches_the_relay() {
    let relay = ScriptedRelay::start(|_, _| None).await;
    let message = Message {
        to: "nobody".to_owned(),
        ..message(1)
    };
    let report = channel(config(relay.port)).send(&message, within(WHOLE)).await;
    assert_eq!(class(&report).0, "permanent");
    assert_eq!(relay.seen().connections, 0);
}

#[tokio::test]
async fn a_deadline_that_has_passed_sends_no_byte() {
    let relay = ScriptedRelay::start(|_, _| None).await;
    let report = channel(config(relay.port))
        .send(&message(1), within(Duration::ZERO))
        .await;
    assert_eq!(report, Report::Abandoned);
    assert_eq!(relay.seen().connections, 0);
}

#[tokio::test]
async fn the_deadline_ends_a_stage_that_could_go_on() {
    let relay = ScriptedRelay::that("RCPT", Act::Stall).await;
    let mut config = config(relay.port);
    config.timeouts.recipient = Duration::from_mins(10);
    let report = channel(config)
        .send(&message(1), within(Duration::from_millis(500)))
        .await;
    assert_eq!(class(&report), ("target", "timed out at RCPT TO"));
}

#[tokio::test]
async fn a_login_is_made_by_what_the_relay_offers() {
    let plain = ScriptedRelay::start(|_, _| None).await;
    assert_eq!(class(&send(&channel(with_login(plain.port))).await).0, "accepted");
    assert!(
        plain
            .seen()
            .commands
            .contains(&"AUTH PLAIN AGNhcmlsbG9uAHNlY3JldA==".to_owned())
    );

    let login = ScriptedRelay::start(|_, point| match point {
        "EHLO" => Some(Act::Say("250-relay.test\r\n250 AUTH LOGIN")),
        "AUTH" => Some(Act::Say("334 VXNlcm5hbWU6")),
        "Y2FyaWxsb24=" => Some(Act::Say("334 UGFzc3dvcmQ6")),
        "c2VjcmV0" => Some(Act::Say("235 2.7.0 welcome")),
        _ => None,
    })
    .await;
    assert_eq!(class(&send(&channel(with_login(login.port))).await).0, "accepted");
}

#[tokio::test]
async fn a_login_that_fails_is_the_targets_fault() {
    let without = Act::Say("250 relay.test");
    let endless = Act::Say("334 VXNlcm5hbWU6");
    for (point, act) in [
        ("AUTH", Act::Say("535 5.7.8 carillon: wrong")),
        ("AUTH", Act::Say("454 4.7.0 later")),
        ("AUTH", endless),
        ("EHLO", without),
    ] {
        let relay = ScriptedRelay::that(point, act).await;
        let channel = channel(with_login(relay.port));
        let report = send(&channel).await;
        assert_eq!(class(&report).0, "target", "{report:?}");
        assert!(!class(&report).1.contains("secret") && !format!("{channel:?}").contains("secret"));
    }
}

fn with_login(port: u16) -> Config {
    Config {
        login: Some(Login {
            username: "carillon".to_owned(),
            password: SecretString::from("secret".to_owned()),
        }),
        ..config(port)
    }
}
