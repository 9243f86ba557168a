//! Nodes that have a handler, and such that do not.

use serde_json::json;

use super::*;
use crate::harness::node::Home;

#[tokio::test]
async fn an_alarm_posted_to_a_node_without_its_handler_waits_for_a_program_that_has_it() {
    let mut without = Home::new().start().await;
    let owner = json!({ "time_zone": "UTC" }).to_string();
    without
        .put("/v1/owners/anna", "application/json", owner)
        .await
        .ok();
    let alarm = json!({
        "owner": "anna", "delay": "0s", "channel": "handler", "target": "tea", "payload": "black",
        "max_retries": 99, "backoff_ms": 100,
    });
    let posted = without
        .post("/v1/alarms", "application/json", alarm.to_string())
        .await;
    let id = AlarmId(posted.ok()["id"].as_str().expect("an id").to_owned());
    let told = eventually("it is tried", async || {
        let path = format!("/v1/alarms/{}?owner=anna", id.0);
        let alarm = without.get(&path).await.ok();
        alarm["result"].is_string().then_some(alarm)
    })
    .await;
    assert_eq!(told["status"], "active");
    let error = told["result"].as_str().expect("text");
    assert!(
        error.starts_with("RETRY: no such target tea (attempt "),
        "{error}"
    );
    assert!(without.terminate().await.success());

    let calls = Given::default();
    let noting = calls.clone();
    let with = on(&without.home.database())
        .handler("tea", move |call: Call<String>| {
            noting.note(&call);
            std::future::ready(Answer::Ok)
        })
        .start()
        .await
        .expect("the store was let go of");

    let anna = OwnerId("anna".to_owned());
    eventually("it has fired", async || {
        let alarm = with.store().alarm(&anna, &id).await.expect("the store works");
        alarm.filter(|alarm| alarm.status == AlarmStatus::Fired)
    })
    .await;
    let calls = calls.all();
    assert!(
        matches!(&calls[..], [(message, attempt)] if message == "black" && *attempt > 1),
        "{calls:?}"
    );
}
