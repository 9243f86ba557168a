//! Many events at once, by a stream of changes, for tests that break something else than the API.

use futures_util::StreamExt;
use futures_util::stream;
use serde_json::Value;
use serde_json::json;

use crate::harness::api::SOURCE;
use crate::harness::calendar::Calendar;
use crate::harness::node::Node;

/// Requests at once.
const AT_ONCE: usize = 16;

/// Changes of one stream.
const CHANGES: usize = 1_000;

/// Introduces owners by their names.
pub async fn owners(node: &Node, owners: impl Iterator<Item = (String, Value)>) {
    stream::iter(owners)
        .for_each_concurrent(AT_ONCE, async |(name, owner)| {
            let path = format!("/v1/owners/{name}");
            node.put(&path, "application/json", owner.to_string()).await.ok();
        })
        .await;
}

/// Puts events, each with its owner; the UID is the key.
pub async fn events(node: &Node, events: impl Iterator<Item = (String, String, Calendar)>) {
    let lines: Vec<String> = events
        .map(|(key, owner, event)| {
            json!({ "op": "put", "key": key, "owner": owner, "ics": event.text() }).to_string()
        })
        .collect();
    for part in lines.chunks(CHANGES) {
        let path = format!("/v1/sources/{SOURCE}/changes");
        let answer = node
            .post(&path, "application/x-ndjson", part.join("\n"))
            .await
            .ok();
        let answers = answer.as_str().unwrap_or_default();
        let applied = answers
            .lines()
            .filter(|line| line.contains(r#""result":"applied""#));
        assert_eq!(applied.count(), part.len(), "{answers}");
    }
}
