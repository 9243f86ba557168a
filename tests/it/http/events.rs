//! One event at a time.

use serde_json::json;

use super::Edge;
use super::event;
use super::local;
use axum::body::Body;

const TEA: &str = "/v1/sources/demo/events/tea?owner=anna";

#[tokio::test]
async fn an_event_is_planned_and_the_answer_says_when() {
    let edge = Edge::with_anna().await;
    let answer = edge.put_event(TEA, event("tea", "103000", "Tea")).await.json();
    assert_eq!(
        (&answer["result"], &answer["planned"]),
        (&json!("applied"), &json!(1))
    );
    let next = &answer["next"][0];
    assert_eq!(next["trigger_at"], "2026-12-01T09:15:00Z");
    assert_eq!(next["due_at"], "2026-12-01T09:15:00Z");
    assert_eq!(next["occurrence"], "2026-12-01T09:30:00Z");
    assert_eq!(
        (&next["channel"], &next["recipient"]),
        (&json!("email"), &json!("owner"))
    );
    let planned = edge
        .get("/v1/sources/demo/events/tea/triggers?owner=anna")
        .await
        .json();
    assert_eq!(planned["uid"], "tea");
    assert_eq!(planned["triggers"][0]["id"], next["id"]);
}

#[tokio::test]
async fn the_same_again_is_unchanged_older_is_stale_and_a_contradiction_is_a_conflict() {
    let edge = Edge::with_anna().await;
    let put = async |version: &str, time: &str| {
        edge.put_event(&format!("{TEA}&version={version}"), event("tea", time, "Tea"))
            .await
    };
    assert_eq!(put("7", "103000").await.json()["result"], "applied");
    assert_eq!(put("7", "103000").await.json()["result"], "unchanged");
    assert_eq!(put("6", "110000").await.json()["result"], "stale");
    put("7", "110000").await.problem(409);
    assert_eq!(put("10", "110000").await.json()["result"], "applied");
}

#[tokio::test]
async fn a_stored_event_is_read_as_json_or_as_it_came() {
    let edge = Edge::with_anna().await;
    let ics = event("tea", "103000", "Tea");
    edge.put_event(&format!("{TEA}&version=3"), ics.clone()).await;
    let stored = edge.get(TEA).await.json();
    assert_eq!((&stored["uid"], &stored["version"]), (&json!("tea"), &json!("3")));
    let request = local("GET", TEA)
        .header("accept", "text/calendar")
        .body(Body::empty())
        .unwrap();
    let bare = edge.send(request).await;
    assert_eq!(bare.headers["content-type"], "text/calendar; charset=utf-8");
    assert_eq!(bare.headers["x-content-type-options"], "nosniff");
    assert!(bare.text.contains("SUMMARY:Tea"));
}

#[tokio::test]
async fn a_deleted_event_owes_nothing_and_is_gone() {
    let edge = Edge::with_anna().await;
    edge.put_event(TEA, event("tea", "103000", "Tea")).await;
    let answer = edge.delete(TEA).await.json();
    assert_eq!(
        (&answer["result"], &answer["withdrawn"]),
        (&json!("applied"), &json!(1))
    );
    edge.get(TEA).await.problem(404);
    edge.get("/v1/sources/demo/events/tea/triggers?owner=anna")
        .await
        .problem(404);
    assert_eq!(edge.delete(TEA).await.json()["result"], "unchanged");
}

#[tokio::test]
async fn m04_deleting_without_an_owner_deletes_every_copy() {
    let edge = Edge::with_anna().await;
    edge.put_json("/v1/owners/bert", &json!({ "email": "bert@example.org" }))
        .await;
    for owner in ["anna", "bert"] {
        let path = format!("/v1/sources/demo/events/tea?owner={owner}");
        edge.put_event(&path, event("tea", "103000", "Tea")).await;
    }
    assert_eq!(
        edge.delete("/v1/sources/demo/events/tea").await.json()["withdrawn"],
        2
    );
    edge.get(TEA).await.problem(404);
    assert_eq!(
        edge.delete("/v1/sources/demo/events/tea").await.json()["result"],
        "unchanged"
    );
}

#[tokio::test]
async fn what_cannot_be_understood_is_refused_with_its_place() {
    let edge = Edge::with_anna().await;
    let broken = event("tea", "103000", "Tea").replace("DTSTART;TZID=Europe/Berlin:20261201T103000\r\n", "");
    let problem = edge.put_event(TEA, broken).await.problem(422);
    assert_eq!(problem["errors"][0]["component"], "VEVENT", "{problem}");
    assert!(problem["errors"][0]["line"].is_number(), "{problem}");
    edge.put_event(TEA, "this is no calendar").await.problem(422);
    edge.get(TEA).await.problem(404);
}

#[tokio::test]
async fn an_unknown_owner_is_named() {
    let edge = Edge::open().await;
    let problem = edge
        .put_event(TEA, event("tea", "103000", "Tea"))
        .await
        .problem(422);
    assert!(problem["detail"].as_str().unwrap().contains("anna"), "{problem}");
}

#[tokio::test]
async fn bounds_hold_for_one_event() {
    let edge = Edge::with_anna().await;
    edge.put_event(TEA, "x".repeat((1 << 20) + 1)).await.problem(413);
    let announced = local("PUT", TEA)
        .header("content-type", "text/calendar")
        .header("content-length", "99999999");
    edge.send(announced.body(Body::empty()).unwrap())
        .await
        .problem(413);
    let json = local("PUT", TEA).header("content-type", "application/json");
    edge.send(json.body(Body::empty()).unwrap()).await.problem(415);
    edge.put_event("/v1/sources/demo/events/tea", "")
        .await
        .problem(400);
    edge.put_event(&format!("{TEA}&versoin=1"), "").await.problem(400);
}

#[tokio::test]
async fn a_key_may_be_a_path_of_its_own() {
    let edge = Edge::with_anna().await;
    let path = "/v1/sources/demo/events/cal%2Fanna%2Ftea.ics?owner=anna";
    edge.put_event(path, event("tea", "103000", "Tea")).await;
    assert_eq!(edge.get(path).await.json()["key"], "cal/anna/tea.ics");
}
