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
    isolate(&field, leader);
    field.hit(leader).await;
    field.witness.leader_other_than(field.numbers[leader]).await;
    let gap = since(began);
    pause(seconds(12, 60).saturating_sub(gap)).await;
    for link in &field.peers {
        link.cut(Cut::Nobody);
    }
    let verdict = field.judge(load).await;
    let terms = leaders.assert_one_a_term();
    println!("F14 | {terms} terms, next leader <= {gap:.1?} | {verdict}");
    verdict.assert_exact();
    assert!(gap <= seconds(20, 4), "{gap:?}");
}

/// Cuts all wires between a node and its peers, both ways.
fn isolate(field: &Field, node: usize) {
    let process = field.nodes[node].process();
    for (place, link) in field.peers.iter().enumerate() {
        link.cut(if place == node {
            Cut::Everybody
        } else {
            Cut::Process(process)
        });
    }
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
