//! A stand-alone alarm that one node takes, another fires, and a third hears the end of.

use serde_json::Value;
use serde_json::json;

use super::Scene;
use super::home;
use crate::harness::api::OWNER;
use crate::harness::api::items;
use crate::harness::client::client;
use crate::harness::eventually;
use crate::harness::hook::Conduct;
use crate::harness::hook::Hook;

#[tokio::test]
async fn an_alarm_is_taken_by_one_node_fired_by_another_and_completed_at_a_third() {
    let folder = tempfile::tempdir().unwrap();
    let secrets = folder.path().join("secrets");
    std::fs::write(&secrets, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
    let scene = Scene::with(|database, relay| {
        let node = |delivers: &str| {
            home(database, relay)
                .with("WORKER__ENABLED", delivers)
                .with("CHANNELS__WEBHOOK__SECRET_FILE", &secrets.display().to_string())
                .with("CHANNELS__WEBHOOK__ALLOW_NETWORKS", "127.0.0.0/8")
                .with("CHANNELS__WEBHOOK__ACK", "callback")
                .with("HTTP__PUBLIC_URL", "http://reminders.test")
        };
        vec![node("false"), node("true"), node("false")]
    })
    .await;
    let hook = Hook::start([Conduct::status(202)]).await;
    let body = json!({ "owner": OWNER, "delay": "1s", "channel": "webhook", "target": hook.url() });
    let created = scene.nodes[0]
        .post("/v1/alarms", "application/json", body.to_string())
        .await
        .ok();

    let call = hook.until(1).await.remove(0);

    let document = call.json();
    assert_eq!(document["alarm_id"], created["id"]);
    let ack = document["ack_url"].as_str().unwrap();
    let path = ack.strip_prefix("http://reminders.test").unwrap();
    let report = async || {
        let answer = client().post(scene.nodes[2].url(path)).send().await.unwrap();
        answer.status().is_success().then_some(())
    };
    eventually("the report is taken", report).await;
    let completed = async || {
        let path = format!("/v1/alarms/history?owner={OWNER}");
        let rows: Vec<Value> = items(&scene.nodes[0].get(&path).await.ok());
        rows.into_iter().find(|row| row["status"] == "completed")
    };
    let row = eventually("the firing is completed", completed).await;
    assert_eq!((&row["alarm_id"], &row["result"]), (&created["id"], &json!("ok")));
    assert_eq!(hook.calls().len(), 1);
}
