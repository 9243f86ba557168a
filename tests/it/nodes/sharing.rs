//! Changes that reach a node which neither leads nor holds what they are about: the two examples of the article that the
//! design goes back to (see `article`), cancelling, and the spreading of many.

use std::collections::BTreeMap;

use chrono::DateTime;
use chrono::TimeDelta;
use chrono::Utc;
use serde_json::Value;
use serde_json::json;
use sqlx::Connection;
use sqlx::PgConnection;

use super::Scene;
use crate::harness::api::OWNER;
use crate::harness::api::SOURCE;
use crate::harness::calendar::Calendar;
use crate::harness::eventually;
use crate::harness::now;
use crate::harness::sink::Mail;
use crate::harness::whole_second_in;

/// Three nodes that look ahead once an hour, as in the article.
async fn looking_hourly() -> Scene {
    Scene::set(3, &[("WORKER__PERIOD", "1h"), ("WORKER__LOOK_AHEAD", "65m")]).await
}

/// The number of the node that holds the trigger of [`OWNER`]'s only event.
async fn holder(scene: &Scene) -> i64 {
    let mut conn = PgConnection::connect(&scene.database).await.unwrap();
    let held = "SELECT s.peer FROM alarm_trigger AS t JOIN session AS s ON s.id = t.session WHERE t.state = 'claimed'";
    eventually("a node to hold it", async || {
        let peer: Option<Option<i64>> = sqlx::query_scalar(held).fetch_optional(&mut conn).await.unwrap();
        peer.flatten()
    })
    .await
}

/// The place of a node that neither leads nor is the one of that number.
async fn bystander(scene: &Scene, holder: i64) -> usize {
    let leader = scene.settled(3).await;
    for place in (0..3).filter(|place| *place != leader) {
        if scene.id_of(place).await != holder {
            return place;
        }
    }
    panic!("one of three neither leads nor holds");
}

/// An event that is held by a node which does not lead, and a node that does neither.
async fn held_elsewhere(scene: &Scene, event: &Calendar) -> usize {
    let leader = scene.settled(3).await;
    // What is due within the look-ahead window is claimed where it arrives.
    scene.nodes[(leader + 1) % 3].put_event("e", event).await.ok();
    let holder = holder(scene).await;
    assert_eq!(scene.id_of((leader + 1) % 3).await, holder);
    bystander(scene, holder).await
}

/// All that arrived by the time that a later reminder did, which every node may send.
async fn all_mails_by(scene: &Scene, count: usize) -> Vec<Mail> {
    let due = whole_second_in(2);
    let last = Calendar::far_away("last@example.org").named("Last").alarm_at(due);
    scene.nodes[0].put_event("last", &last).await.ok();
    eventually("the last reminder", async || {
        let mails = scene.sink.log().mails;
        let came = mails.iter().any(|mail| mail.header("Subject").contains("Last"));
        came.then_some(())
    })
    .await;
    let mails = scene.sink.log().mails;
    assert_eq!(mails.len(), count + 1, "{mails:?}");
    mails
}

#[tokio::test]
async fn example_1_an_event_moved_to_today_through_any_node_is_reminded_of_today() {
    let scene = looking_hourly().await;
    let (today, tomorrow) = (whole_second_in(5), whole_second_in(24 * 3600));
    let event = |due| Calendar::far_away("e@example.org").alarm_at(due);
    let leader = scene.settled(3).await;
    scene.nodes[leader].put_event("e", &event(tomorrow)).await.ok();
    assert_eq!(scene.nodes[leader].triggers("e").await[0]["state"], "planned");

    // Nobody holds it, and nobody looks for an hour.
    scene.nodes[(leader + 1) % 3]
        .put_event("e", &event(today))
        .await
        .ok();

    scene.sink.mails(1).await[0].assert_on_time(today);
    let history = scene.nodes[leader].history_of(1).await;
    assert_eq!(history[0]["outcome"], "sent");
    all_mails_by(&scene, 1).await;
}

#[tokio::test]
async fn example_2_an_event_moved_to_tomorrow_through_any_node_is_not_reminded_of_today() {
    let scene = looking_hourly().await;
    let (today, tomorrow) = (whole_second_in(4), whole_second_in(24 * 3600));
    let event = |due| Calendar::far_away("e@example.org").alarm_at(due);
    let elsewhere = held_elsewhere(&scene, &event(today)).await;

    let moved = scene.nodes[elsewhere].put_event("e", &event(tomorrow)).await.ok();

    assert_eq!(
        (&moved["withdrawn"], &moved["planned"]),
        (&Value::from(1), &Value::from(1))
    );
    past(today).await;
    all_mails_by(&scene, 0).await;
    let triggers = scene.nodes[elsewhere].triggers("e").await;
    assert_eq!(
        (triggers.len(), &triggers[0]["state"]),
        (1, &Value::from("planned")),
        "{triggers:?}"
    );
}

#[tokio::test]
async fn an_event_cancelled_through_a_node_that_does_not_hold_it_is_not_reminded_of() {
    let scene = looking_hourly().await;
    let due = whole_second_in(4);
    let elsewhere = held_elsewhere(&scene, &Calendar::far_away("e@example.org").alarm_at(due)).await;

    let path = format!("/v1/sources/{SOURCE}/events/e?owner={OWNER}");
    let deleted = scene.nodes[elsewhere].delete(&path).await.ok();

    assert_eq!(deleted["withdrawn"], 1, "{deleted}");
    past(due).await;
    all_mails_by(&scene, 0).await;
}

/// Waits until that instant has passed by more than a busy machine is late.
async fn past(instant: DateTime<Utc>) {
    eventually("the instant to pass", async || {
        (now() > instant + TimeDelta::seconds(1)).then_some(())
    })
    .await;
}

/// A change of a stream.
fn line(number: usize, due: DateTime<Utc>) -> String {
    let key = format!("e{number}");
    let ics = Calendar::far_away(&format!("{key}@example.org"))
        .alarm_at(due)
        .text();
    json!({ "op": "put", "key": key, "owner": OWNER, "ics": ics }).to_string()
}

#[tokio::test]
async fn two_thousand_triggers_leave_once_each_and_from_all_nodes() {
    let names = ["n0", "n1", "n2"];
    let scene = Scene::of_named(&names).await;
    let due = whole_second_in(15);
    for (place, node) in scene.nodes.iter().enumerate() {
        let lines: Vec<String> = (place..2_000)
            .step_by(3)
            .map(|number| line(number, due))
            .collect();
        let path = format!("/v1/sources/{SOURCE}/changes");
        let answer = node
            .post(&path, "application/x-ndjson", lines.join("\n"))
            .await
            .ok();
        let answers = answer.as_str().expect("several lines are no JSON");
        assert_eq!(answers.matches("\"applied\"").count(), lines.len(), "{answers}");
    }
    assert!(now() < due, "this machine took too long to take 2,000 events");

    let mails = scene.sink.mails(2_000).await;

    assert!(mails.iter().all(|mail| mail.at >= due), "none is early");
    let once = scene.sink.log().by_message_id();
    assert_eq!((once.len(), mails.len()), (2_000, 2_000));
    let mut shares = BTreeMap::new();
    for mail in &mails {
        *shares.entry(mail.from.as_str()).or_insert(0) += 1;
    }
    assert_eq!(shares.len(), 3, "{shares:?}");
    assert!(shares.values().all(|share| *share >= 300), "{shares:?}");
}
