//! The interface of a node as a caller sees it.

use reqwest::StatusCode;
use serde_json::Value;
use serde_json::json;

use crate::harness::calendar::Calendar;
use crate::harness::client::client;
use crate::harness::eventually;
use crate::harness::node::Home;
use crate::harness::node::Node;

/// Whose events the tests push, unless they say otherwise.
pub const OWNER: &str = "anna";

/// Where the owner's mail goes.
pub const ADDRESS: &str = "anna@example.org";

/// Where the tests' events come from.
pub const SOURCE: &str = "tests";

/// An answer: its status and its body, as JSON where it is JSON.
#[derive(Debug)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// The body; a JSON string where it is no JSON.
    pub body: Value,
}

impl Answer {
    async fn read(response: reqwest::Response) -> Self {
        let status = response.status();
        let text = response.text().await.expect("the node finishes its answers");
        let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
        Self { status, body }
    }

    /// The body of an answer that must be a success.
    pub fn ok(self) -> Value {
        assert!(self.status.is_success(), "{}: {}", self.status, self.body);
        self.body
    }
}

impl Home {
    /// Starts the node, waits until it is ready, and introduces [`OWNER`].
    pub async fn start_with_owner(self) -> Node {
        let node = self.start().await;
        node.put_owner().await;
        node
    }
}

impl Node {
    /// GET.
    pub async fn get(&self, path: &str) -> Answer {
        let response = client().get(self.url(path)).send().await;
        Answer::read(response.expect("the node answers")).await
    }

    /// PUT of a body of that type.
    pub async fn put(&self, path: &str, content_type: &str, body: String) -> Answer {
        let request = client().put(self.url(path));
        let request = request.header("content-type", content_type).body(body);
        Answer::read(request.send().await.expect("the node answers")).await
    }

    /// POST of a body of that type.
    pub async fn post(&self, path: &str, content_type: &str, body: String) -> Answer {
        let request = client().post(self.url(path));
        let request = request.header("content-type", content_type).body(body);
        Answer::read(request.send().await.expect("the node answers")).await
    }

    /// DELETE.
    pub async fn delete(&self, path: &str) -> Answer {
        let response = client().delete(self.url(path)).send().await;
        Answer::read(response.expect("the node answers")).await
    }

    /// Introduces [`OWNER`], in Berlin.
    pub async fn put_owner(&self) {
        let owner = json!({ "email": ADDRESS, "time_zone": "Europe/Berlin", "locale": "en" });
        self.put(
            &format!("/v1/owners/{OWNER}"),
            "application/json",
            owner.to_string(),
        )
        .await
        .ok();
    }

    /// Pushes an event of [`OWNER`].
    pub async fn put_event(&self, key: &str, calendar: &Calendar) -> Answer {
        let path = format!("/v1/sources/{SOURCE}/events/{key}?owner={OWNER}");
        self.put(&path, "text/calendar", calendar.text()).await
    }

    /// What is owed for an event of [`OWNER`].
    pub async fn triggers(&self, key: &str) -> Vec<Value> {
        let path = format!("/v1/sources/{SOURCE}/events/{key}/triggers?owner={OWNER}");
        list(&self.get(&path).await.ok(), "triggers")
    }

    /// Waits until one trigger of the event is in that state, and returns it.
    pub async fn trigger_in_state(&self, key: &str, state: &str) -> Value {
        eventually(&format!("a trigger of `{key}` to be {state}"), async || {
            let triggers = self.triggers(key).await;
            triggers.into_iter().find(|trigger| trigger["state"] == state)
        })
        .await
    }

    /// What became of the triggers of [`OWNER`], newest first.
    pub async fn history(&self) -> Vec<Value> {
        items(&self.get(&format!("/v1/history?owner={OWNER}")).await.ok())
    }

    /// The same, all pages of it.
    pub async fn whole_history(&self) -> Vec<Value> {
        let (mut rows, mut cursor) = (Vec::new(), Some(String::new()));
        while let Some(after) = cursor {
            let path = format!("/v1/history?owner={OWNER}&limit=500{after}");
            let page = self.get(&path).await.ok();
            rows.extend(items(&page));
            cursor = page["next_cursor"].as_str().map(|it| format!("&cursor={it}"));
        }
        rows
    }

    /// Waits until history has so many rows, none of them in doubt, and returns them: what a rescue could not know is
    /// known once the next attempt is settled.
    pub async fn certain_history_of(&self, count: usize) -> Vec<Value> {
        eventually(&format!("{count} certain history rows"), async || {
            let rows = self.history().await;
            let is_certain = rows.iter().all(|row| row["outcome"] != "in_doubt");
            (rows.len() >= count && is_certain).then_some(rows)
        })
        .await
    }

    /// Waits until history has so many rows, and returns them.
    pub async fn history_of(&self, count: usize) -> Vec<Value> {
        eventually(&format!("{count} history rows"), async || {
            let rows = self.history().await;
            (rows.len() >= count).then_some(rows)
        })
        .await
    }
}

/// The items of a page.
pub fn items(page: &Value) -> Vec<Value> {
    list(page, "items")
}

fn list(answer: &Value, field: &str) -> Vec<Value> {
    let list = answer[field].as_array();
    list.unwrap_or_else(|| panic!("no `{field}` in {answer}")).clone()
}
