//! What became of reminders.

use chrono::TimeDelta;
use serde_json::json;

use super::Edge;
use super::event;

/// An API behind which these events of `anna` have been reminded of, in order of their keys.
async fn after(keys: &[&str]) -> Edge {
    let mut edge = Edge::with_anna().await;
    for (index, key) in keys.iter().enumerate() {
        let path = format!("/v1/sources/demo/events/{key}?owner=anna");
        edge.put_event(&path, event(key, &format!("10{index:02}00"), "Tea"))
            .await;
    }
    edge.hand.advance(TimeDelta::hours(2)).await;
    edge
}

#[tokio::test]
async fn a_reminder_that_left_is_in_history_under_its_trigger() {
    let edge = after(&["tea"]).await;
    let listed = edge
        .get("/v1/history?owner=anna&event=tea&outcome=sent")
        .await
        .json();
    let row = &listed["items"][0];
    assert_eq!(
        (&row["outcome"], &row["channel"]),
        (&json!("sent"), &json!("email")),
        "{listed}"
    );
    assert_eq!(row["trigger_at"], "2026-12-01T08:45:00Z");
    assert_eq!((&row["attempts"], &row["count"]), (&json!(1), &json!(1)));
    let id = row["id"].as_str().unwrap();
    assert_eq!(&edge.get(&format!("/v1/deliveries/{id}")).await.json(), row);
    for elsewhere in [
        "owner=bert",
        "event=coffee",
        "outcome=failed",
        "since=2027-01-01T00:00:00Z",
    ] {
        let listed = edge.get(&format!("/v1/history?{elsewhere}")).await.json();
        assert_eq!(listed, json!({ "items": [] }), "{elsewhere}");
    }
}

#[tokio::test]
async fn pages_follow_each_other_without_gap_or_repetition() {
    let edge = after(&["a", "b", "c", "d", "e"]).await;
    for listing in ["/v1/history?owner=anna&limit=2", "/v1/outbox?owner=anna&limit=2"] {
        let (mut seen, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = edge.get(&format!("{listing}{cursor}")).await.json();
            let items = page["items"].as_array().unwrap();
            seen.extend(items.iter().map(|item| item["id"].as_str().unwrap().to_owned()));
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        assert_eq!(seen.len(), 5, "{listing}");
        let different: std::collections::BTreeSet<&String> = seen.iter().collect();
        assert_eq!(different.len(), 5, "{listing}");
    }
}

#[tokio::test]
async fn a_question_that_makes_no_sense_is_answered_with_its_value_and_the_cure() {
    let edge = Edge::open().await;
    for (query, told) in [
        ("limit=99999999999", "`limit=99999999999`: use 1 to 500"),
        ("limit=abc", "`limit=abc`: use 1 to 500"),
        ("since=yesterday", "`since=yesterday`: write it as 2026-"),
        (
            "lim=3",
            "`lim=3` cannot be used: unknown field `lim`, expected one of",
        ),
        ("outcome=lost", "`lost`"),
    ] {
        let problem = edge.get(&format!("/v1/history?{query}")).await.problem(400);
        assert!(problem["detail"].as_str().unwrap().contains(told), "{problem}");
    }
}
