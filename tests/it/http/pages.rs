//! The pages for people.

use axum::body::Body;
use chrono::TimeDelta;

use super::Edge;
use super::event;
use super::local;

#[tokio::test]
async fn a_newcomer_finds_the_way() {
    let edge = Edge::open().await;
    let page = edge.get("/").await;
    assert!(
        page.headers["content-type"]
            .to_str()
            .unwrap()
            .starts_with("text/html")
    );
    assert!(page.text.contains("href=\"/outbox\"") && page.text.contains("127.0.0.1:8085/v1/owners/anna"));
    let empty = edge.get("/outbox").await;
    assert!(empty.text.contains("Nothing yet"));
}

#[tokio::test]
async fn the_outbox_shows_the_reminder_and_runs_nothing() {
    let mut edge = Edge::with_anna().await;
    let hostile = "Tea <script>alert(1)</script> \"onload=x";
    let path = "/v1/sources/demo/events/tea?owner=anna";
    assert_eq!(
        edge.put_event(path, event("tea", "103000", hostile)).await.json()["planned"],
        1
    );
    edge.hand.advance(TimeDelta::hours(2)).await;

    let page = edge.get("/outbox").await;
    assert!(page.text.contains("anna@example.org"), "{}", page.text);
    assert!(page.text.contains("<iframe sandbox=\"\"") && page.text.contains("srcdoc=\""));
    assert!(!page.text.contains("<script"), "{}", page.text);
    assert!(!page.text.contains("\"onload=x"), "{}", page.text);
    let policy = page.headers["content-security-policy"].to_str().unwrap();
    assert!(
        policy.contains("default-src 'none'") && !policy.contains("script-src"),
        "{policy}"
    );

    let listed = edge.get("/v1/outbox?owner=anna").await.json();
    let entry = &listed["items"][0];
    assert_eq!(entry["to"], "anna@example.org");
    assert!(
        entry["subject"].as_str().unwrap().starts_with("Reminder: Tea"),
        "{entry}"
    );
    assert!(
        entry["raw"]
            .as_str()
            .unwrap()
            .contains("Auto-Submitted: auto-generated"),
        "{entry}"
    );
    let request = local("GET", "/v1/outbox").header("accept", "text/html,application/xhtml+xml");
    let html = edge.send(request.body(Body::empty()).unwrap()).await;
    assert_eq!(html.text, page.text);
}
