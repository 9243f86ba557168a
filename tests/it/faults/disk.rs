//! A database that takes no writes: its disk is full, it is read-only, or it stands still.

use std::collections::HashSet;
use std::time::Duration;

use carillon::clock::Clock;
use carillon::clock::SystemClock;
use chrono::DateTime;
use chrono::TimeDelta;
use chrono::Utc;
use rustix::process::Signal;
use sqlx::Connection;
use sqlx::SqliteConnection;

use crate::faults::field::ALONE;
use crate::faults::field::Field;
use crate::faults::field::arrival;
use crate::faults::field::load_is_on;
use crate::faults::field::pause;
use crate::faults::field::put_owners;
use crate::faults::field::since;
use crate::faults::load::Load;
use crate::faults::size::Size;
use crate::faults::size::seconds;
use crate::faults::verdict::Arrival;
use crate::faults::verdict::Fault;
use crate::faults::verdict::Promise;
use crate::faults::verdict::Verdict;
use crate::harness::api::SOURCE;
use crate::harness::calendar::Calendar;
use crate::harness::eventually;
use crate::harness::node::Home;
use crate::harness::node::Node;
use crate::harness::now;
use crate::harness::sink::Sink;
use crate::harness::tmpfs::Tmpfs;

/// How soon after there is room again all that was accepted has been sent.
const SENT_AFTER_ROOM: TimeDelta = TimeDelta::seconds(10);

#[tokio::test(flavor = "multi_thread")]
async fn f30_the_disk_of_sqlite_fills_up_under_load() {
    let _alone = ALONE.lock().await;
    let Some(disk) = Tmpfs::mount(128) else { return };
    let sink = Sink::start().await;
    let database = format!("sqlite://{}/carillon.db", disk.path().display());
    let home = Home::new().with_relay(sink.port).with("STORE__URL", &database);
    let mut node = home.start().await;
    put_owners(std::slice::from_ref(&node)).await;
    let load = Load::start(Size::of(18, 60), &[node.home.port]);
    load_is_on().await;

    disk.take(80);
    let refused = refused_status(&node).await;
    let began = SystemClock.elapsed();
    disk.fill();
    let mut connection = SqliteConnection::connect(&database)
        .await
        .expect("reading needs no room");
    let told = until_not_ready(std::slice::from_ref(&node)).await;
    pause(seconds(8, 20).saturating_sub(since(began))).await;
    disk.make_room();
    let room = now();

    let promises = load.promises().await;
    let arrivals = || -> Vec<Arrival> { sink.with_log(|log| log.mails.iter().map(arrival).collect()) };
    eventually("everything to be settled", async || {
        let owed: i64 = sqlx::query_scalar("SELECT count(*) FROM alarm_trigger")
            .fetch_one(&mut connection)
            .await
            .ok()?;
        (owed == 0).then_some(())
    })
    .await;
    let verdict = Verdict::of(&promises, &arrivals(), &[]);
    let late = sent_after(&promises, &arrivals(), room + SENT_AFTER_ROOM, room);
    println!("F30 | {refused} while nearly full, not ready after {told:.1?} | {verdict}");
    verdict.assert_exact();
    assert_eq!(refused, 507);
    assert_eq!(late, 0, "sent more than {SENT_AFTER_ROOM} after there was room");
    assert!(node.runs(), "the node ended");
}

/// Of what was accepted and due before there was `room`, how many were sent after `limit`.
fn sent_after(
    promises: &[Promise],
    arrivals: &[Arrival],
    limit: DateTime<Utc>,
    room: DateTime<Utc>,
) -> usize {
    let in_time = arrivals.iter().filter(|arrival| arrival.at <= limit);
    let in_time: HashSet<&str> = in_time.map(|arrival| arrival.name.as_str()).collect();
    let before = promises
        .iter()
        .filter(|promise| promise.due <= room && promise.accepted <= room);
    before
        .filter(|promise| !in_time.contains(promise.name.as_str()))
        .count()
}

/// The status with which a change is refused. The first ones, without an alarm, may find room in the pages that there are.
async fn refused_status(node: &Node) -> u16 {
    let mut number = 0;
    eventually("a change to be refused", async || {
        number += 1;
        let key = format!("refused-{number}");
        let event = Calendar::far_away(&format!("{key}@example.org"));
        let path = format!("/v1/sources/{SOURCE}/events/{key}?owner=o0");
        let status = node.put(&path, "text/calendar", event.text()).await.status;
        (!status.is_success()).then_some(status.as_u16())
    })
    .await
}

/// Waits until no node is ready, and says how long that took.
async fn until_not_ready(nodes: &[Node]) -> Duration {
    let began = SystemClock.elapsed();
    for node in nodes {
        eventually("a node not to be ready", async || {
            (node.get("/readyz").await.status == 503).then_some(())
        })
        .await;
    }
    since(began)
}

impl Field {
    /// What was being sent as the database stopped taking writes.
    async fn hit_all(&mut self) {
        let (at, sending) = (now(), self.witness.sending(None).await);
        self.faults.push(Fault {
            at,
            node: None,
            sending,
        });
    }

    /// Waits for the nodes to say that they are not ready, and for the fault to have lasted so long.
    async fn not_ready_for(&self, lasting: Duration) -> Duration {
        let began = SystemClock.elapsed();
        let told = until_not_ready(&self.nodes).await;
        pause(lasting.saturating_sub(since(began))).await;
        told
    }

    /// Judges, once the database takes writes again.
    async fn judge_writes(mut self, name: &str, load: Load, told: Duration) {
        let verdict = self.judge(load).await;
        println!("{name}, not ready after {told:.1?} | {verdict}");
        verdict.assert_exact();
        assert!(told <= seconds(8, 5), "not ready after {told:?}");
        for node in &mut self.nodes {
            assert!(node.runs(), "a node ended");
            node.ready().await;
        }
    }
}

/// A cluster whose tables are on a disk that is full for so long.
async fn full(name: &str, size: Size, lasting: Duration) {
    let Some(disk) = Tmpfs::mount(192) else { return };
    let mut field = Field::start_on(&disk, &[]).await;
    let load = field.load(size);
    load_is_on().await;
    field.hit_all().await;
    disk.fill();
    let told = field.not_ready_for(lasting).await;
    assert_eq!(refused_status(&field.nodes[0]).await, 503);
    disk.make_room();
    field.judge_writes(name, load, told).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn f20_the_disk_of_postgresql_is_full_for_long() {
    full("F20 | full for long", Size::of(14, 120), seconds(6, 60)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn f34_the_disk_of_postgresql_is_full() {
    full("F34 | full", Size::of(14, 60), seconds(6, 20)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn f34_postgresql_is_read_only() {
    let mut field = Field::start(&[]).await;
    let load = field.load(Size::of(14, 60));
    load_is_on().await;
    field.hit_all().await;
    field.witness.read_only(true).await;
    let told = field.not_ready_for(seconds(6, 15)).await;
    field.witness.read_only(false).await;
    field.judge_writes("F34 | read-only", load, told).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn f34_postgresql_stands_still() {
    let mut field = Field::start(&[]).await;
    let load = field.load(Size::of(14, 60));
    load_is_on().await;
    field.hit_all().await;
    field.postgres.signal_all(Signal::STOP);
    let told = field.not_ready_for(seconds(6, 20)).await;
    field.postgres.signal_all(Signal::CONT);
    field.judge_writes("F34 | stands still", load, told).await;
}
