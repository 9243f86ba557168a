//! A SQLite node whose disk fills up or fails, or whose database another process locks: it says so, and goes on by itself.

use std::time::Duration;

use carillon::clock::Clock;
use carillon::clock::SystemClock;
use chrono::TimeDelta;
use rustix::process::Pid;
use rustix::process::Resource;
use rustix::process::Rlimit;
use rustix::process::Signal;
use sqlx::Connection;
use sqlx::SqliteConnection;

use crate::harness::calendar::Calendar;
use crate::harness::eventually;
use crate::harness::node::Home;
use crate::harness::node::Node;
use crate::harness::sink::Sink;
use crate::harness::tmpfs::Tmpfs;
use crate::harness::whole_second_in;

/// How soon after its disk works a node has sent what is due.
const SOON: TimeDelta = TimeDelta::seconds(10);

fn on(disk: &Tmpfs, sink: &Sink) -> Home {
    let database = format!("sqlite://{}/carillon.db", disk.path().display());
    Home::new().with_relay(sink.port).with("STORE__URL", &database)
}

/// The status of a change.
async fn change(node: &Node, key: &str) -> u16 {
    let event = Calendar::far_away(&format!("{key}@example.org")).alarm_at(whole_second_in(3_600));
    node.put_event(key, &event).await.status.as_u16()
}

async fn accept(node: &Node, key: &str, seconds: i64) {
    let event = Calendar::far_away(&format!("{key}@example.org")).alarm_at(whole_second_in(seconds));
    node.put_event(key, &event).await.ok();
}

/// Makes changes until one is refused, and returns its status: the first ones may find room in the pages that there are.
async fn until_refused(node: &Node) -> u16 {
    let mut number = 0;
    eventually("a change to be refused", async || {
        number += 1;
        let status = change(node, &format!("refused-{number}")).await;
        (status >= 400).then_some(status)
    })
    .await
}

/// Waits until `/readyz` says that this condition does not hold.
async fn not_ready(node: &Node, condition: &str) -> String {
    eventually(&format!("{condition} in /readyz"), async || {
        let answer = node.get("/readyz").await;
        let said = answer.body.as_str()?.to_owned();
        let line = format!("[-] {condition}:");
        (answer.status == 503 && said.contains(&line)).then_some(said)
    })
    .await
}

/// A node whose database works again: it is ready, takes a change and sends what was due meanwhile.
async fn goes_on(node: &mut Node, sink: &Sink) {
    let again = SystemClock.now();
    node.ready().await;
    assert_eq!(change(node, "after").await, 200);
    let mails = sink.mails(1).await;
    assert!(mails[0].at - again < SOON, "sent {} after", mails[0].at - again);
    assert_eq!(node.history_of(1).await[0]["outcome"], "sent");
    assert_eq!(sink.log().mails.len(), 1);
}

#[tokio::test]
async fn full_disk_is_survived_without_a_restart() {
    let Some(disk) = Tmpfs::mount(16) else { return };
    let sink = Sink::start().await;
    let home = on(&disk, &sink).with("STORE__MIN_FREE", "0MiB");
    let mut node = home.start_with_owner().await;
    accept(&node, "meanwhile", 4).await;

    disk.fill();
    assert_eq!(until_refused(&node).await, 503);
    not_ready(&node, "store").await;
    assert_eq!(node.get("/livez").await.status, 200);
    // Each change that failed had the only writer.
    for _ in 0..5 {
        until_refused(&node).await;
    }
    disk.make_room();

    goes_on(&mut node, &sink).await;
}

#[tokio::test]
async fn stop_on_a_full_disk_takes_five_seconds() {
    let Some(disk) = Tmpfs::mount(16) else { return };
    let sink = Sink::start().await;
    let home = on(&disk, &sink).with("STORE__MIN_FREE", "0MiB");
    let mut node = home.start_with_owner().await;
    accept(&node, "meanwhile", 3).await;
    disk.fill();
    until_refused(&node).await;
    not_ready(&node, "store").await;

    let asked = SystemClock.elapsed();
    let status = node.terminate().await;
    let took = SystemClock.elapsed().saturating_sub(asked);

    assert!(took < Duration::from_secs(5), "{took:?}");
    assert_eq!(status.code(), Some(0), "{status}");
    disk.make_room();
    node.start_again().await;
    goes_on(&mut node, &sink).await;
}

#[tokio::test]
async fn failing_disk_is_survived_without_a_restart() {
    let sink = Sink::start().await;
    let home = Home::new().with_relay(sink.port);
    // A write past the limit then fails with EFBIG, which is an I/O error to SQLite, instead of ending the process.
    let mut node = home
        .under(&["env", "--ignore-signal=XFSZ"])
        .start_with_owner()
        .await;
    accept(&node, "meanwhile", 4).await;

    limit_files(&node, Some(1));
    assert_eq!(until_refused(&node).await, 503);
    not_ready(&node, "store").await;
    limit_files(&node, None);

    goes_on(&mut node, &sink).await;
}

/// How long files may get.
fn limit_files(node: &Node, current: Option<u64>) {
    let id = i32::try_from(node.process()).expect("process ids are small");
    let limit = Rlimit {
        current,
        maximum: None,
    };
    rustix::process::prlimit(Pid::from_raw(id), Resource::Fsize, limit).expect("a child can be limited");
}

#[tokio::test]
async fn lock_held_elsewhere_is_survived_and_does_not_delay_a_stop() {
    let sink = Sink::start().await;
    let mut node = Home::new().with_relay(sink.port).start_with_owner().await;
    accept(&node, "meanwhile", 4).await;
    let url = format!("sqlite://{}", node.home.database().display());
    let mut other = SqliteConnection::connect(&url).await.unwrap();

    let lock = other.begin_with("BEGIN IMMEDIATE").await.unwrap();
    assert_eq!(change(&node, "refused").await, 503);
    not_ready(&node, "store").await;
    lock.rollback().await.unwrap();
    goes_on(&mut node, &sink).await;

    let lock = other.begin_with("BEGIN IMMEDIATE").await.unwrap();
    not_ready(&node, "store").await;
    node.signal(Signal::TERM);
    let asked = SystemClock.elapsed();
    assert!(node.ended().await.success());
    let took = SystemClock.elapsed().saturating_sub(asked);
    assert!(took < Duration::from_secs(5), "{took:?}");
    lock.rollback().await.unwrap();
}

#[tokio::test]
async fn nearly_full_disk_refuses_changes_and_sends_what_was_accepted() {
    let Some(disk) = Tmpfs::mount(96) else { return };
    let sink = Sink::start().await;
    let mut node = on(&disk, &sink).start_with_owner().await;
    accept(&node, "meanwhile", 4).await;

    disk.take(48);
    let event = Calendar::far_away("refused@example.org").alarm_at(whole_second_in(3_600));
    let refused = node.put_event("refused", &event).await;
    assert_eq!(refused.status, 507);
    let detail = refused.body["detail"].as_str().unwrap();
    assert!(detail.contains("store.min_free (64 MiB)"), "{detail}");
    not_ready(&node, "room").await;
    let metrics = node.get("/metrics").await;
    let metrics = metrics.body.as_str().unwrap();
    assert!(
        metrics.contains("\ncarillon_store_min_free_bytes 67108864\n"),
        "{metrics}"
    );
    assert_eq!(sink.mails(1).await.len(), 1);
    assert_eq!(node.history_of(1).await[0]["outcome"], "sent");

    disk.make_room();
    goes_on(&mut node, &sink).await;
}
