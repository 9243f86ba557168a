//! Links that are cut.

use std::time::Duration;

use carillon::clock::Clock;
use carillon::clock::SystemClock;
use chrono::TimeDelta;

use crate::faults::field::Field;
use crate::faults::field::busy_moment;
use crate::faults::field::load_is_on;
use crate::faults::field::pause;
use crate::faults::field::since;
use crate::faults::leaders::Leaders;
use crate::faults::size::Size;
use crate::faults::size::seconds;
use crate::harness::eventually;
use crate::harness::link::Cut;

#[tokio::test(flavor = "multi_thread")]
async fn f14_the_leader_is_cut_off_from_the_others() {
    let mut field = Field::start(&[]).await;
    let load = field.load(Size::of(20, 120));
    let leaders = Leaders::watch(&field);
    load_is_on().await;
    let leader = field.leader().await;
    busy_moment().await;
    let began = SystemClock.elapsed();
    cut_off(&field, leader, Cut::Everybody, Cut::Process);
    field.hit(leader).await;
    field.witness.leader_other_than(field.numbers[leader]).await;
    let gap = since(began);
    pause(seconds(12, 60).saturating_sub(gap)).await;
    mend(&field);
    let verdict = field.judge(load).await;
    let terms = leaders.assert_one_a_term();
    println!("F14 | {terms} terms, next leader <= {gap:.1?} | {verdict}");
    verdict.assert_exact();
    assert!(gap <= seconds(20, 4), "{gap:?}");
}

/// Cuts the wires between a node and its peers: its own wire so, and at the others' wires its process so.
fn cut_off(field: &Field, node: usize, own: Cut, theirs: impl Fn(u32) -> Cut) {
    let process = field.nodes[node].process();
    for (place, link) in field.peers.iter().enumerate() {
        link.cut(if place == node { own } else { theirs(process) });
    }
}

/// Mends all wires between the nodes.
fn mend(field: &Field) {
    for link in &field.peers {
        link.cut(Cut::Nobody);
    }
}

/// A node's peers do not hear it any more.
fn mute(field: &Field, node: usize) {
    cut_off(field, node, Cut::Node, Cut::Caller);
}

/// A node does not hear its peers any more.
fn deafen(field: &Field, node: usize) {
    cut_off(field, node, Cut::Callers, Cut::NodeTo);
}

/// How long a reminder may take to count as progress.
const PROMPT: TimeDelta = TimeDelta::seconds(10);

#[tokio::test(flavor = "multi_thread")]
async fn f15_links_are_cut_in_one_direction_and_flap() {
    let mut field = Field::start(&[]).await;
    let load = field.load(Size::of(20, 180));
    let leaders = Leaders::watch(&field);
    load_is_on().await;
    let (first, began) = (highest_term(&field).await, SystemClock.elapsed());
    let leader = field.leader().await;
    mute(&field, leader);
    field.witness.leader_other_than(field.numbers[leader]).await;
    let gap = since(began);
    pause(seconds(6, 30).saturating_sub(gap)).await;
    mend(&field);
    pause(Duration::from_secs(2)).await;
    let mut flaps = 0;
    let flapping = SystemClock.elapsed();
    while since(flapping) < seconds(8, 120) {
        // The leader of this moment for eight seconds, then another node; in turn not heard and not hearing.
        let node = match flaps / 2 % 2 {
            0 => field.leader().await,
            _ => (field.leader().await + 1) % field.nodes.len(),
        };
        match flaps % 2 {
            0 => deafen(&field, node),
            _ => mute(&field, node),
        }
        pause(Duration::from_secs(2)).await;
        mend(&field);
        pause(Duration::from_secs(2)).await;
        flaps += 1;
    }
    let lasted = since(began);
    let terms = highest_term(&field).await - first;
    let verdict = field.judge(load).await;
    leaders.assert_one_a_term();
    let prompt = 100 * (verdict.promised - verdict.lost - verdict.later_than(PROMPT)) / verdict.promised;
    println!(
        "F15 | cut {flaps} times, next leader after {gap:.1?}, {terms} terms in {:.0} s, {prompt} % within {} s | {verdict}",
        lasted.as_secs_f64(),
        PROMPT.num_seconds()
    );
    verdict.assert_exact();
    assert!(prompt >= 95, "{prompt} %");
    assert!(Duration::from_secs(terms) < lasted, "{terms} terms in {lasted:?}");
}

/// The highest term that a node knows.
async fn highest_term(field: &Field) -> u64 {
    let mut highest = None;
    for node in &field.nodes {
        let cluster = node.get("/v1/cluster").await.ok();
        highest = highest.max(cluster["term"].as_u64());
    }
    highest.expect("nodes know their term")
}

#[tokio::test(flavor = "multi_thread")]
async fn f16_the_leader_loses_its_database() {
    let mut field = Field::start(&[]).await;
    let load = field.load(Size::of(24, 120));
    let leaders = Leaders::watch(&field);
    load_is_on().await;
    let leader = field.leader().await;
    busy_moment().await;
    let began = SystemClock.elapsed();
    field.wires[leader].cut(Cut::Everybody);
    field.hit(leader).await;
    eventually("it not to be ready", async || {
        let answer = field.nodes[leader].get("/readyz").await;
        (!answer.status.is_success()).then_some(())
    })
    .await;
    field.witness.leader_other_than(field.numbers[leader]).await;
    let gap = since(began);
    let cut = seconds(20, 60);
    pause(cut.saturating_sub(gap)).await;
    field.wires[leader].cut(Cut::Nobody);
    field.nodes[leader].ready().await;
    let verdict = field.judge(load).await;
    let terms = leaders.assert_one_a_term();
    println!("F16 | {terms} terms, next leader after {gap:.1?} | {verdict}");
    verdict.assert_exact();
    // What was not sent by then had to wait for the cut node; that may be so of what it was sending when it was cut.
    let most = TimeDelta::from_std(
        cut.min(Duration::from_secs(34))
            .saturating_sub(Duration::from_secs(4)),
    );
    let late = verdict.later_than(most.expect("it is short"));
    assert!(late <= verdict.in_flight, "{late} were not taken over: {verdict}");
}
