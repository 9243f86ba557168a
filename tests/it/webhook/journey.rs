//! A reminder's whole way to a webhook, with the real binary.

use chrono::TimeDelta;
use serde_json::Value;
use serde_json::json;

use super::SECRET;
use super::classes::is_signed;
use super::classes::verify;
use crate::harness::api::OWNER;
use crate::harness::calendar::Calendar;
use crate::harness::client::client;
use crate::harness::eventually;
use crate::harness::hook::Conduct;
use crate::harness::hook::Hook;
use crate::harness::node::Home;
use crate::harness::node::Node;
use crate::harness::whole_second_in;

/// A node that calls this machine, and tries again soon.
async fn start(more: &[(&str, &str)]) -> Node {
    let home = Home::new()
        .with_webhooks()
        .with("CHANNELS__WEBHOOK__RETRY__BACKOFF", "1s");
    let public = format!("http://127.0.0.1:{}", home.port);
    let home = home.with("HTTP__PUBLIC_URL", &public);
    let home = more.iter().fold(home, |home, (key, value)| home.with(key, value));
    home.start().await
}

async fn put_owner(node: &Node, owner: &str, hook: &Hook) {
    let body = json!({
        "time_zone": "Europe/Berlin",
        "webhook": { "url": hook.url() },
        "routes": [{ "action": "EMAIL", "channel": "webhook" }],
    });
    node.put(
        &format!("/v1/owners/{owner}"),
        "application/json",
        body.to_string(),
    )
    .await
    .ok();
}

async fn put_event(node: &Node, owner: &str, uid: &str, seconds: i64) -> chrono::DateTime<chrono::Utc> {
    let due = whole_second_in(seconds);
    let event = Calendar::far_away(uid).with("LOCATION:Room 12").alarm_at(due);
    let path = format!("/v1/sources/tests/events/{uid}?owner={owner}");
    let answer = node.put(&path, "text/calendar", event.text()).await.ok();
    assert_eq!(answer["planned"], 1, "{answer}");
    due
}

/// Waits until history says of so many triggers what became of them; oldest first.
async fn outcomes(node: &Node, count: usize) -> Vec<Value> {
    let mut rows = node.certain_history_of(count).await;
    rows.reverse();
    rows
}

#[tokio::test]
async fn an_alarm_becomes_one_signed_call_at_its_instant() {
    let hook = Hook::start([]).await;
    let node = start(&[]).await;
    put_owner(&node, OWNER, &hook).await;
    let due = put_event(&node, OWNER, "budget@example.org", 2).await;

    let call = hook.until(1).await.remove(0);

    assert!(
        call.at >= due && call.at - due < TimeDelta::seconds(10),
        "{}",
        call.at
    );
    verify(&call, SECRET);
    let document = call.json();
    assert_eq!(document["id"], *call.headers["webhook-id"]);
    assert_eq!(document["event"]["summary"], "Budget round");
    assert_eq!(document["event"]["location"], "Room 12");
    assert_eq!(document["occurrence"]["start"], "2030-06-03T07:00:00Z");
    assert_eq!(
        (&document["attempt"], &document["owner"]),
        (&json!(1), &json!(OWNER))
    );
    let row = outcomes(&node, 1).await.remove(0);
    assert_eq!(
        (&row["id"], &row["outcome"], &row["channel"]),
        (&document["id"], &json!("sent"), &json!("webhook"))
    );
    assert_eq!(hook.calls().len(), 1);
    let metrics = node.get("/metrics").await.body.as_str().expect("text").to_owned();
    let attempt =
        r#"carillon_delivery_attempts_total{channel="webhook",class="accepted",provider="webhook"} 1"#;
    assert!(metrics.contains(attempt), "{metrics}");
}

#[tokio::test]
async fn what_may_pass_is_called_again_with_the_same_id() {
    let hook = Hook::start([Conduct::status(503), Conduct::HangUp]).await;
    let node = start(&[]).await;
    put_owner(&node, OWNER, &hook).await;
    put_event(&node, OWNER, "budget@example.org", 1).await;

    let calls = hook.until(3).await;

    let ids: std::collections::BTreeSet<_> = calls.iter().map(|call| &call.headers["webhook-id"]).collect();
    assert_eq!(ids.len(), 1);
    let attempts: Vec<Value> = calls.iter().map(|call| call.json()["attempt"].clone()).collect();
    assert_eq!(attempts, [1, 2, 3]);
    for call in &calls {
        verify(call, SECRET);
    }
    assert_eq!(outcomes(&node, 1).await[0]["outcome"], "sent");
}

#[tokio::test]
async fn a_target_is_called_again_when_it_asked_to_with_what_it_gave() {
    let asked = r#"{"retry_in_ms": 1500, "payload": {"step": 2}}"#;
    let hook = Hook::start([Conduct::says(asked)]).await;
    let node = start(&[]).await;
    put_owner(&node, OWNER, &hook).await;
    put_event(&node, OWNER, "budget@example.org", 1).await;

    let calls = hook.until(2).await;

    assert!(calls[1].at - calls[0].at >= TimeDelta::milliseconds(1_400));
    assert_eq!(calls[0].json().get("payload"), None);
    assert_eq!(calls[1].json()["payload"], json!({ "step": 2 }));
    let row = outcomes(&node, 1).await.remove(0);
    assert_eq!((&row["outcome"], &row["attempts"]), (&json!("sent"), &json!(2)));
}

#[tokio::test]
async fn a_target_that_takes_the_work_reports_how_it_ended() {
    let hook = Hook::start([Conduct::status(202), Conduct::status(202)]).await;
    let node = start(&[("CHANNELS__WEBHOOK__ACK", "callback")]).await;
    put_owner(&node, OWNER, &hook).await;
    for (number, (verb, outcome)) in [("ack_url", "completed"), ("fail_url", "failed")]
        .iter()
        .enumerate()
    {
        put_event(&node, OWNER, &format!("{outcome}@example.org"), 1).await;
        let call = hook.until(number + 1).await.remove(number);
        verify(&call, SECRET);
        let ended = async || {
            let rows = node.history().await;
            let row = rows.into_iter().find(|row| row["id"] == call.json()["id"])?;
            row["outcome"].as_str().map(str::to_owned)
        };
        eventually("a report is awaited", async || {
            ended().await.filter(|it| it == "awaiting")
        })
        .await;

        let url = call.json()[*verb].as_str().expect("a URL").to_owned();
        let reported = client().post(&url).send().await.expect("the node answers");

        assert!(reported.status().is_success(), "{reported:?}");
        assert_eq!(ended().await.as_deref(), Some(*outcome));
    }
}

#[tokio::test]
async fn an_endpoint_that_is_gone_is_called_no_more_until_its_owner_is_put_again() {
    let hook = Hook::start([Conduct::status(410)]).await;
    let node = start(&[]).await;
    put_owner(&node, OWNER, &hook).await;
    put_event(&node, OWNER, "first@example.org", 1).await;
    let ends = outcomes(&node, 1).await;
    assert_eq!(
        (&ends[0]["outcome"], &ends[0]["reason"]),
        (&json!("failed"), &json!("refused"))
    );
    let disabled = eventually("the webhook is disabled", async || {
        let owner = node.get(&format!("/v1/owners/{OWNER}")).await.ok();
        owner["webhook"]["disabled"].as_str().map(str::to_owned)
    })
    .await;
    assert!(disabled.contains("410"), "{disabled}");

    put_event(&node, OWNER, "second@example.org", 1).await;
    let ends = outcomes(&node, 2).await;
    assert_eq!(ends[1]["outcome"], "suppressed");
    assert_eq!(ends[1]["reason"], "endpoint disabled");
    assert_eq!(hook.calls().len(), 1);

    put_owner(&node, OWNER, &hook).await;
    put_event(&node, OWNER, "third@example.org", 1).await;
    assert_eq!(outcomes(&node, 3).await[2]["outcome"], "sent");
    assert_eq!(hook.calls().len(), 2);
}

#[tokio::test]
async fn an_endpoint_that_hangs_delays_nobody_elses_reminders() {
    let hanging = Hook::start(std::iter::repeat_n(Conduct::Hang, 1_000)).await;
    let healthy = Hook::start([]).await;
    let node = start(&[("CHANNELS__WEBHOOK__TIMEOUT", "20s")]).await;
    put_owner(&node, "hung", &hanging).await;
    put_owner(&node, OWNER, &healthy).await;
    for number in 0..100 {
        put_event(&node, "hung", &format!("hung-{number}@example.org"), 1).await;
    }
    hanging.until(8).await;
    let due = put_event(&node, OWNER, "budget@example.org", 2).await;

    let call = healthy.until(1).await.remove(0);

    assert!(call.at - due < TimeDelta::seconds(5), "{} for {due}", call.at);
    assert!(hanging.calls().len() <= 12, "{}", hanging.calls().len());
}

#[tokio::test]
async fn what_is_over_the_limit_is_told_in_one_call_with_the_document_of_each() {
    let hook = Hook::start([]).await;
    let node = start(&[
        ("CHANNELS__WEBHOOK__ON_LIMIT", "digest"),
        ("CHANNELS__WEBHOOK__LIMIT__AMOUNT", "1"),
        ("CHANNELS__WEBHOOK__LIMIT__TIMEFRAME", "1h"),
    ])
    .await;
    put_owner(&node, OWNER, &hook).await;
    let due = whole_second_in(2);
    for uid in ["a", "b", "c"] {
        node.put_event(uid, &Calendar::far_away(uid).alarm_at(due))
            .await
            .ok();
    }

    let call = hook.until(1).await.remove(0);

    let document = call.json();
    assert_eq!(document["type"], "digest");
    let listed = document["digest"].as_array().expect("a list");
    assert!(listed.iter().all(|it| it["type"] == "alarm"), "{document}");
    let mut uids: Vec<_> = listed.iter().map(|it| it["event"]["uid"].as_str()).collect();
    uids.sort_unstable();
    assert_eq!(uids, [Some("a"), Some("b"), Some("c")]);
    assert_eq!(listed[0]["id"], document["id"], "the first lends its id");
    let rows = outcomes(&node, 3).await;
    let named = rows
        .iter()
        .filter(|row| row["reason"] == "digest" && row["detail"] == document["id"]);
    assert_eq!(named.count(), 2, "{rows:?}");
    assert!(rows.iter().all(|row| row["outcome"] == "sent"), "{rows:?}");
    assert_eq!(hook.calls().len(), 1);
}

async fn owners_have_secrets_of_their_own(home: Home) {
    const OLD: &str = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    const NEW: &str = "whsec_AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";
    let hook = Hook::start([]).await;
    let mut node = home.with_webhooks().with("LOG__LEVEL", "trace").start().await;
    let put = async |node: &Node, owner: &str, secrets: Option<Value>| {
        let mut body = json!({
            "webhook": { "url": hook.url() },
            "routes": [{ "action": "EMAIL", "channel": "webhook" }],
        });
        if let Some(secrets) = secrets {
            body["webhook_secrets"] = secrets;
        }
        node.put(
            &format!("/v1/owners/{owner}"),
            "application/json",
            body.to_string(),
        )
        .await
    };
    let signed_by = async |node: &Node, owner: &str, number: usize| {
        put_event(node, owner, &format!("e{number}@example.org"), 1).await;
        let call = hook.until(number).await.remove(number - 1);
        [OLD, NEW, SECRET].map(|secret| is_signed(&call, secret))
    };
    put(&node, "ben", None).await.ok();
    let answer = put(&node, OWNER, Some(json!([OLD]))).await.ok();
    assert_eq!(answer["has_webhook_secrets"], true, "{answer}");

    assert_eq!(signed_by(&node, OWNER, 1).await, [true, false, false]);
    assert_eq!(signed_by(&node, "ben", 2).await, [false, false, true]);

    // Both sign while one takes the place of the other; a PUT that names none, and a restart, keep them.
    put(&node, OWNER, Some(json!([NEW, OLD]))).await.ok();
    let kept = put(&node, OWNER, None).await.ok();
    assert_eq!(kept["has_webhook_secrets"], true, "{kept}");
    assert!(node.terminate().await.success());
    node.start_again().await;
    assert_eq!(signed_by(&node, OWNER, 3).await, [true, true, false]);
    let read = node.get(&format!("/v1/owners/{OWNER}")).await.ok();
    assert_eq!(read["has_webhook_secrets"], true, "{read}");
    assert!(!read.to_string().contains("whsec_"), "{read}");

    let refused = put(&node, OWNER, Some(json!(["whsec_c2hvcnQ="]))).await;
    assert_eq!(refused.status, 422, "{}", refused.body);
    assert!(!refused.body.to_string().contains("c2hvcnQ"), "{}", refused.body);
    let removed = put(&node, OWNER, Some(json!([]))).await.ok();
    assert_eq!(removed["has_webhook_secrets"], false, "{removed}");
    assert_eq!(signed_by(&node, OWNER, 4).await, [false, false, true]);
    let output = node.home.output();
    for secret in [OLD, NEW, "whsec_c2hvcnQ="] {
        assert!(
            !output.contains(&secret["whsec_".len()..]),
            "a secret is in the log"
        );
    }
}

#[tokio::test]
async fn owners_have_secrets_of_their_own_on_sqlite() {
    owners_have_secrets_of_their_own(Home::new()).await;
}

#[tokio::test]
async fn owners_have_secrets_of_their_own_on_postgres() {
    let server = crate::harness::postgres::Postgres::start().await;
    let database = server.database().await;
    owners_have_secrets_of_their_own(Home::new().in_cluster(&database)).await;
}
