//! What a target does, and what becomes of it.

use std::time::Duration;

use carillon::channel::Channel;
use carillon::channel::Message;
use carillon::channel::Report;
use carillon::channel::webhook::Config;
use carillon::clock::Clock;
use carillon::clock::SystemClock;
use chrono::TimeDelta;
use hmac::Hmac;
use hmac::KeyInit;
use hmac::Mac;

use super::DOCUMENT;
use super::SECRET;
use super::SHORT;
use super::WHOLE;
use super::channel;
use super::class;
use super::config;
use super::message;
use super::send;
use super::within;
use crate::harness::free_port;
use crate::harness::hook::Call;
use crate::harness::hook::Conduct;
use crate::harness::hook::Hook;
use crate::mail::certificates::Authority;

const HERE: [&str; 1] = ["127.0.0.0/8"];

/// Whether a call bears a signature by this secret, by nothing but the specification.
pub(super) fn is_signed(call: &Call, secret: &str) -> bool {
    use base64::Engine;
    let base64 = base64::engine::general_purpose::STANDARD;
    let key = base64
        .decode(secret.strip_prefix("whsec_").expect("a secret"))
        .expect("base64");
    let (id, timestamp) = (&call.headers["webhook-id"], &call.headers["webhook-timestamp"]);
    let mut mac = Hmac::<sha2::Sha256>::new_from_slice(&key).expect("any length");
    mac.update(format!("{id}.{timestamp}.{}", call.body).as_bytes());
    let expected = format!("v1,{}", base64.encode(mac.finalize().into_bytes()));
    let mut signatures = call.headers["webhook-signature"].split(' ');
    signatures.any(|it| it == expected)
}

/// Checks a call as a receiver does.
pub(super) fn verify(call: &Call, secret: &str) {
    assert!(is_signed(call, secret), "{:?}", call.headers);
    let timestamp = &call.headers["webhook-timestamp"];
    let at = chrono::DateTime::from_timestamp(timestamp.parse().expect("seconds"), 0).expect("in range");
    assert!(
        (call.at - at).abs() < TimeDelta::seconds(30),
        "{at} and {}",
        call.at
    );
}

#[tokio::test]
async fn a_call_is_posted_signed_and_accepted() {
    let hook = Hook::start([]).await;
    let channel = channel(config(&HERE));

    let report = send(&channel, &hook.url()).await;

    assert_eq!(class(&report), ("accepted", "answered 204"));
    let calls = hook.calls();
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0].line, "POST /hook HTTP/1.1");
    assert_eq!(calls[0].body, DOCUMENT);
    assert_eq!(calls[0].json()["type"], "alarm");
    assert_eq!(calls[0].headers["content-type"], "application/json");
    assert_eq!(calls[0].headers["webhook-id"], format!("{:032x}", 1));
    verify(&calls[0], SECRET);
}

#[tokio::test]
async fn one_connection_carries_many_calls() {
    let hook = Hook::start([]).await;
    let channel = channel(config(&HERE));
    for _ in 0..5 {
        assert_eq!(class(&send(&channel, &hook.url()).await).0, "accepted");
    }
    assert_eq!((hook.calls().len(), hook.connections()), (5, 1));
}

#[tokio::test]
async fn https_is_spoken_to_whom_the_authorities_vouch_for() {
    let authority = Authority::new();
    let hook = Hook::with_tls([], Some(authority.acceptor())).await;
    let url = format!("https://127.0.0.1:{}/hook", hook.port);

    let strange = send(&channel(config(&HERE)), &url).await;
    assert_eq!(class(&strange).0, "target", "{strange:?}");
    assert!(class(&strange).1.contains("certificate"), "{strange:?}");
    assert!(hook.calls().is_empty());

    let trusting = carillon::channel::webhook::Config {
        ca_file: Some(authority.ca_file()),
        ..config(&HERE)
    };
    let report = send(&channel(trusting), &url).await;
    assert_eq!(class(&report).0, "accepted", "{report:?}");
    assert_eq!(hook.calls().len(), 1);
}

#[tokio::test]
async fn every_answer_has_its_class() {
    let location = vec!["location: http://127.0.0.1:1/".to_owned()];
    for (conduct, expected) in [
        (Conduct::status(200), "accepted"),
        (Conduct::status(202), "accepted"),
        (Conduct::Answer(301, location.clone(), String::new()), "permanent"),
        (Conduct::Answer(307, location.clone(), String::new()), "permanent"),
        (Conduct::Answer(308, location, String::new()), "permanent"),
        (Conduct::status(400), "permanent"),
        (Conduct::status(401), "permanent"),
        (Conduct::status(404), "permanent"),
        (Conduct::status(408), "message"),
        (Conduct::status(410), "gone"),
        (Conduct::status(425), "message"),
        (Conduct::status(429), "message"),
        (Conduct::status(500), "message"),
        (Conduct::status(503), "message"),
        // The connection is known to be there, so that it is not known what was read.
        (Conduct::HangUp, "in doubt"),
        (Conduct::Flood, "accepted"),
    ] {
        let told = format!("{conduct:?}");
        let hook = Hook::start([conduct]).await;
        let report = send(&channel(config(&HERE)), &hook.url()).await;
        assert_eq!(class(&report).0, expected, "{told}: {report:?}");
        assert_eq!(hook.calls().len(), 1, "{told}");
        assert!(
            !format!("{report:?}").contains("/hook"),
            "paths are secrets: {report:?}"
        );
    }
}

#[tokio::test]
async fn nobody_there_is_the_targets_fault() {
    let url = format!("http://127.0.0.1:{}/hook", free_port());
    let report = send(&channel(config(&HERE)), &url).await;
    assert_eq!(class(&report).0, "target", "{report:?}");
    assert!(class(&report).1.contains("refused"), "{report:?}");
}

#[tokio::test]
async fn what_does_not_answer_in_time_is_in_doubt_and_a_success_that_does_not_end_is_one() {
    for (conduct, expected) in [(Conduct::Hang, "in doubt"), (Conduct::Stall, "accepted")] {
        let hook = Hook::start([conduct]).await;
        let hasty = Config {
            timeout: SHORT,
            ..config(&HERE)
        };
        let began = SystemClock.elapsed();
        let report = send(&channel(hasty), &hook.url()).await;
        assert_eq!(class(&report).0, expected, "{report:?}");
        let took = SystemClock.elapsed().saturating_sub(began);
        assert!(took >= SHORT && took < WHOLE / 2, "{took:?}");
    }
}

#[tokio::test]
async fn a_call_has_its_whole_time_or_is_not_begun() {
    let hook = Hook::start([Conduct::Slow(SHORT)]).await;
    let channel = channel(Config {
        timeout: SHORT / 3,
        ..config(&HERE)
    });
    let patient = Message {
        within: Some(WHOLE / 2),
        ..message(1, &hook.url())
    };
    // What the message says of its own, whatever the channel would give it.
    assert_eq!(class(&channel.send(&patient, within(WHOLE)).await).0, "accepted");

    let report = channel.send(&patient, within(WHOLE / 3)).await;
    assert_eq!(class(&report).0, "busy", "it would be cut short: {report:?}");
    let late = channel
        .send(&message(1, &hook.url()), within(Duration::ZERO))
        .await;
    assert_eq!(late, Report::Abandoned);
    assert_eq!(hook.calls().len(), 1);
}

#[tokio::test]
async fn a_target_says_when_to_call_again_and_what_it_wants_back() {
    let asked = r#"{"retry_in_ms":30000,"payload":{"step":2}}"#;
    let busy = Conduct::Answer(503, vec!["retry-after: 90".to_owned()], String::new());
    let hook = Hook::start([Conduct::says(asked), busy]).await;
    let channel = channel(config(&HERE));
    assert_eq!(
        send(&channel, &hook.url()).await,
        Report::Again {
            after: Duration::from_secs(30),
            payload: Some(r#"{"step":2}"#.to_owned()),
        }
    );
    let Report::Transient { retry_after, .. } = send(&channel, &hook.url()).await else {
        panic!("503 may pass");
    };
    assert_eq!(retry_after, Some(Duration::from_secs(90)));
}
