//! Streams of changes.

use std::time::Duration;

use axum::body::Body;
use axum::body::Bytes;
use futures_util::StreamExt;
use serde_json::Value;
use serde_json::json;
use tower::ServiceExt;

use super::Edge;
use super::event;
use super::local;

fn put(key: &str) -> String {
    json!({ "op": "put", "key": key, "owner": "anna", "ics": event(key, "103000", "Tea") }).to_string()
}

fn results(answers: &[Value]) -> Vec<&str> {
    answers
        .iter()
        .map(|answer| answer["result"].as_str().expect("each has one"))
        .collect()
}

#[tokio::test]
async fn each_line_is_answered_in_its_place_and_a_bad_one_stops_nothing() {
    let edge = Edge::with_anna().await;
    let answers = edge
        .post_lines(&[
            put("one"),
            "{ no JSON".to_owned(),
            json!({ "op": "put", "key": "two", "owner": "nobody", "ics": event("two", "103000", "x") })
                .to_string(),
            json!({ "op": "put", "key": "three", "owner": "anna", "ics": "no calendar" }).to_string(),
            json!({ "op": "sing", "key": "four" }).to_string(),
            json!({ "op": "put", "key": "five", "ics": "" }).to_string(),
            String::new(),
            json!({ "op": "delete", "key": "", "owner": "anna" }).to_string(),
            put("six"),
        ])
        .await;
    let expected = [
        "applied", "rejected", "rejected", "rejected", "rejected", "rejected", "rejected", "applied",
    ];
    assert_eq!(results(&answers), expected, "{answers:#?}");
    let lines: Vec<u64> = answers
        .iter()
        .map(|answer| answer["line"].as_u64().unwrap())
        .collect();
    assert_eq!(lines, [1, 2, 3, 4, 5, 6, 8, 9]);
    assert_eq!(answers[0]["key"], "one");
    assert_eq!(answers[1]["problem"]["status"], 400);
    assert_eq!(answers[4]["problem"]["errors"][0]["pointer"], "/op");
}

#[tokio::test]
async fn a_version_is_a_text_or_a_whole_number() {
    let edge = Edge::with_anna().await;
    let versioned = |version: Value, time: &str| {
        let ics = event("tea", time, "Tea");
        json!({ "op": "put", "key": "tea", "owner": "anna", "version": version, "ics": ics }).to_string()
    };
    let answers = edge
        .post_lines(&[
            versioned(json!(9), "103000"),
            versioned(json!("10"), "104000"),
            versioned(json!(9), "103000"),
            versioned(json!(1.5), "103000"),
            versioned(json!(10), "110000"),
        ])
        .await;
    assert_eq!(
        results(&answers),
        ["applied", "applied", "stale", "rejected", "rejected"]
    );
    assert_eq!(answers[4]["problem"]["status"], 409);
}

#[tokio::test]
async fn deleting_every_copy_sees_what_came_before_in_the_same_stream() {
    let edge = Edge::with_anna().await;
    let delete = json!({ "op": "delete", "key": "tea" }).to_string();
    let answers = edge
        .post_lines(&[put("tea"), delete.clone(), put("tea"), delete])
        .await;
    assert_eq!(results(&answers), ["applied"; 4]);
    assert_eq!(answers[3]["withdrawn"], 1);
    edge.get("/v1/sources/demo/events/tea?owner=anna")
        .await
        .problem(404);
}

#[tokio::test]
async fn a_line_that_is_too_long_is_skipped_alone() {
    let edge = Edge::with_anna().await;
    let answers = edge
        .post_lines(&[put("one"), "x".repeat(3 << 20), put("two")])
        .await;
    assert_eq!(results(&answers), ["applied", "rejected", "applied"]);
    assert_eq!(answers[1]["problem"]["status"], 413);
}

#[tokio::test]
async fn a_long_stream_goes_through_in_order() {
    let edge = Edge::with_anna().await;
    let lines: Vec<String> = (0..1_203).map(|number| put(&format!("tea-{number}"))).collect();
    let answers = edge.post_lines(&lines).await;
    assert_eq!(answers.len(), lines.len());
    let in_order = answers.iter().enumerate().all(|(index, answer)| {
        answer["key"] == format!("tea-{index}")
            && answer["line"] == index + 1
            && answer["result"] == "applied"
    });
    assert!(in_order);
}

#[tokio::test]
async fn whoever_sends_one_line_and_waits_is_answered() {
    let edge = Edge::with_anna().await;
    let (sender, receiver) = tokio::sync::mpsc::unbounded_channel::<Result<Bytes, std::io::Error>>();
    let body = futures_util::stream::unfold(receiver, |mut receiver| async {
        receiver.recv().await.map(|piece| (piece, receiver))
    });
    let request = local("POST", "/v1/sources/demo/changes").header("content-type", "application/x-ndjson");
    let request = request.body(Body::from_stream(body)).unwrap();
    let mut answers = edge
        .router
        .clone()
        .oneshot(request)
        .await
        .unwrap()
        .into_body()
        .into_data_stream();
    for key in ["one", "two"] {
        sender.send(Ok((put(key) + "\n").into())).unwrap();
        // Time stands still: the pause is the caller's, as the service sees it.
        let answer = loop {
            tokio::select! {
                answer = answers.next() => break answer.expect("an answer").unwrap(),
                () = tokio::task::yield_now() => edge.hand.clock.advance(Duration::from_millis(1)),
            }
        };
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        assert_eq!(
            (&answer["key"], &answer["result"]),
            (&json!(key), &json!("applied"))
        );
    }
    drop(sender);
    assert!(answers.next().await.is_none());
}

#[tokio::test]
async fn a_stream_that_breaks_off_is_told_where() {
    let edge = Edge::with_anna().await;
    let pieces: [Result<Bytes, std::io::Error>; 2] = [
        Ok((put("one") + "\n").into()),
        Err(std::io::Error::other("reset")),
    ];
    let request = local("POST", "/v1/sources/demo/changes").header("content-type", "application/x-ndjson");
    let body = Body::from_stream(futures_util::stream::iter(pieces));
    let answers = edge.send(request.body(body).unwrap()).await.lines();
    assert_eq!(results(&answers), ["applied", "rejected"]);
    assert_eq!(answers[1]["line"], 2);
}
