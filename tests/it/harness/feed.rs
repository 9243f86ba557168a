//! A caller who follows what happens to alarms, as a browser would: it knows the last number that it saw.

use std::collections::VecDeque;
use std::time::Duration;

use reqwest::Response;
use reqwest::StatusCode;
use serde_json::Value;

use crate::harness::PATIENCE;
use crate::harness::client::client;

/// A stream of changes that is read as it comes.
pub struct Stream {
    response: Response,
    rest: String,
    whole: VecDeque<Value>,
    /// The last number that was told.
    pub seen: Option<u64>,
}

impl Stream {
    /// Follows at this address, after what was seen.
    pub async fn open(url: &str, seen: Option<u64>) -> Self {
        let opened = Self::try_open(url, seen).await;
        opened.unwrap_or_else(|(status, problem)| panic!("{status}: {problem}"))
    }

    /// Follows, or says why not.
    pub async fn try_open(url: &str, seen: Option<u64>) -> Result<Self, (StatusCode, Value)> {
        let mut request = client().get(url);
        if let Some(seen) = seen {
            request = request.header("last-event-id", seen.to_string());
        }
        let response = request.send().await.expect("the node answers");
        let status = response.status();
        if !status.is_success() {
            return Err((status, response.json().await.expect("a problem")));
        }
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Ok(Self {
            response,
            rest: String::new(),
            whole: VecDeque::new(),
            seen,
        })
    }

    /// The next change; none where the stream has ended.
    pub async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(change) = self.whole.pop_front() {
                self.seen = change["id"].as_u64();
                return Some(change);
            }
            let part = tokio::time::timeout(PATIENCE, self.response.chunk()).await;
            let part = part.expect("something is told in time").ok()??;
            self.take(&String::from_utf8_lossy(&part));
        }
    }

    /// The next changes, of which there must be so many.
    pub async fn some(&mut self, count: usize) -> Vec<Value> {
        let mut changes = Vec::new();
        while changes.len() < count {
            changes.push(self.next().await.expect("the stream goes on"));
        }
        changes
    }

    /// Whether it is silent for so long.
    pub async fn is_silent_for(&mut self, time: Duration) -> bool {
        tokio::time::timeout(time, self.next()).await.is_err()
    }

    fn take(&mut self, part: &str) {
        self.rest += part;
        while let Some((frame, rest)) = self.rest.split_once("\n\n") {
            let field = |name: &str| frame.lines().find_map(|line| line.strip_prefix(name));
            if let Some(data) = field("data: ") {
                let change: Value = serde_json::from_str(data).expect("JSON");
                assert_eq!(field("id: "), Some(&*change["id"].to_string()));
                self.whole.push_back(change);
            } else if let Some(id) = field("id: ") {
                self.seen = id.parse().ok();
            }
            self.rest = rest.to_owned();
        }
    }
}

/// What happened, by its words.
pub fn types(changes: &[Value]) -> Vec<&str> {
    changes
        .iter()
        .map(|change| change["type"].as_str().expect("a word"))
        .collect()
}
