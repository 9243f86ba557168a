//! One endpoint never delays another.

use std::sync::Arc;
use std::time::Duration;

use carillon::channel::Channel;
use carillon::channel::Message;
use carillon::channel::Report;
use carillon::channel::webhook::Config;
use carillon::clock::Clock;
use carillon::clock::SystemClock;
use tokio::task::JoinSet;

use super::WHOLE;
use super::channel;
use super::class;
use super::config;
use super::message;
use super::within;
use crate::harness::hook::Conduct;
use crate::harness::hook::Hook;

const HERE: [&str; 1] = ["127.0.0.0/8"];

/// What the short test allows to a call among hundreds; on an idle machine it takes a few milliseconds.
const PROMPT: Duration = Duration::from_secs(2);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_that_hangs_takes_its_own_share_and_is_then_left_alone() {
    let hanging = Hook::start(std::iter::repeat_n(Conduct::Hang, 1_000)).await;
    let healthy = Hook::start([]).await;
    let patient = Config {
        timeout: Duration::from_secs(3),
        ..config(&HERE)
    };
    let channel = Arc::new(channel(patient));
    let mut lost = JoinSet::new();
    for id in 0..500 {
        let (channel, url) = (Arc::clone(&channel), hanging.url());
        lost.spawn(async move {
            channel
                .send(&message(id, &url), within(Duration::from_mins(1)))
                .await
        });
    }
    hanging.until(8).await;

    let mut took = Vec::new();
    for id in 0..200 {
        let began = SystemClock.elapsed();
        let report = channel
            .send(&message(id, &healthy.url()), within(Duration::from_mins(1)))
            .await;
        assert_eq!(class(&report).0, "accepted", "{report:?}");
        took.push(SystemClock.elapsed().saturating_sub(began));
    }
    took.sort_unstable();
    let p99 = took[took.len() * 99 / 100];
    assert!(p99 < PROMPT, "{p99:?}");

    let mut classes = std::collections::BTreeMap::<_, usize>::new();
    while let Some(report) = lost.join_next().await {
        *classes.entry(class(&report.expect("no panic")).0).or_default() += 1;
    }
    // Eight at once, and one more for each of the first four that failed; after the fifth nobody who waited is sent there.
    let arrived = hanging.calls().len();
    assert!((8..=12).contains(&arrived), "{arrived}");
    assert_eq!(
        classes,
        [("busy", 500 - arrived), ("in doubt", arrived)].into(),
        "what was not sent costs no attempt"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_hangs_for_one_owner_is_called_for_another_all_the_same() {
    // One host, and even one URL: what comes after the first eight is answered.
    let shared = Hook::start(std::iter::repeat_n(Conduct::Hang, 8)).await;
    let channel = Arc::new(channel(config(&HERE)));
    let mut lost = JoinSet::new();
    for id in 0..8 {
        let hasty = Message {
            within: Some(Duration::from_secs(2)),
            ..message(id, &shared.url())
        };
        let channel = Arc::clone(&channel);
        lost.spawn(async move { channel.send(&hasty, within(WHOLE)).await });
    }
    shared.until(8).await;
    let of_another = async |id| {
        let message = Message {
            owner: 8,
            ..message(id, &shared.url())
        };
        let report = channel.send(&message, within(WHOLE)).await;
        assert_eq!(class(&report).0, "accepted", "{report:?}");
    };
    // While they hang, and when the endpoint is left alone for their owner.
    of_another(100).await;
    while lost.join_next().await.is_some() {}
    let left_alone = channel.send(&message(1, &shared.url()), within(WHOLE)).await;
    assert_eq!(class(&left_alone).0, "busy", "{left_alone:?}");
    of_another(101).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_finds_no_room_is_told_when_there_is_some_and_all_arrive() {
    let slow = Hook::start(std::iter::repeat_n(
        Conduct::Slow(Duration::from_millis(20)),
        10_000,
    ))
    .await;
    let channel = Arc::new(channel(config(&HERE)));
    let mut sends = JoinSet::new();
    for id in 0..400 {
        let (channel, url) = (Arc::clone(&channel), slow.url());
        sends.spawn(async move {
            let mut tries = 0_u32;
            loop {
                tries += 1;
                match channel
                    .send(&message(id, &url), within(Duration::from_mins(1)))
                    .await
                {
                    Report::Busy { after, .. } => SystemClock.sleep(after).await,
                    report => {
                        assert_eq!(class(&report).0, "accepted", "{report:?}");
                        return tries;
                    }
                }
            }
        });
    }
    let mut tries = Vec::new();
    while let Some(count) = sends.join_next().await {
        tries.push(count.expect("no panic"));
    }
    assert_eq!(slow.calls().len(), 400);
    let all: u32 = tries.iter().sum();
    assert!(all < 400 * 4, "{all} tries for 400 calls");
}
