//! Stand-alone alarms through the real binary, on both databases: what a program asks for, and what its target is told.

mod agents;
mod asking;
mod command;
mod firing;
mod life;
mod live;
mod talk;

use reqwest::Method;
use reqwest::StatusCode;
use serde_json::Value;
use serde_json::json;

use crate::harness::api::items;
use crate::harness::client::client;
use crate::harness::eventually;
use crate::harness::hook::Hook;
use crate::harness::node::Home;
use crate::harness::node::Node;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// Every story is a test on SQLite; on PostgreSQL those of a file share a node, each with an owner of its own.
macro_rules! stories {
    ($($story:ident),+ $(,)?) => {
        mod sqlite {
            $(
                #[tokio::test]
                async fn $story() {
                    let node = crate::alarms::start(crate::harness::node::Home::new()).await;
                    let program = crate::alarms::Program::new(std::rc::Rc::new(node), stringify!($story)).await;
                    super::$story(program).await;
                }
            )+
        }

        #[tokio::test]
        async fn postgres() {
            let server = crate::harness::postgres::Postgres::start().await;
            let home = crate::harness::node::Home::new().in_cluster(&server.database().await);
            let node = std::rc::Rc::new(crate::alarms::start(home).await);
            let mut broken = Vec::new();
            let told = tokio::task::LocalSet::new();
            let all = told.run_until(async {
                let mut running = Vec::new();
                $(
                    let program = crate::alarms::Program::new(std::rc::Rc::clone(&node), stringify!($story)).await;
                    running.push((stringify!($story), tokio::task::spawn_local($story(program))));
                )+
                for (story, running) in running {
                    if running.await.is_err() {
                        broken.push(story);
                    }
                }
            });
            all.await;
            assert!(broken.is_empty(), "on PostgreSQL: {broken:#?}");
        }
    };
}
use stories;

/// A node that calls this machine, asks for reports and tries again soon.
pub async fn start(home: Home) -> Node {
    let secrets = home.folder().join("secrets");
    std::fs::write(&secrets, SECRET).expect("the folder is ours");
    let public = format!("http://127.0.0.1:{}", home.port);
    home.with("CHANNELS__WEBHOOK__SECRET_FILE", &secrets.display().to_string())
        .with("CHANNELS__WEBHOOK__ALLOW_NETWORKS", "127.0.0.0/8")
        .with("CHANNELS__WEBHOOK__RETRY__BACKOFF", "1s")
        .with("CHANNELS__WEBHOOK__ACK", "callback")
        .with("HTTP__PUBLIC_URL", &public)
        .start()
        .await
}

/// A program that asks for alarms of one owner.
struct Program {
    node: std::rc::Rc<Node>,
    owner: String,
}

/// An answer: status, ETag and body.
struct Answer {
    status: StatusCode,
    etag: String,
    body: Value,
}

impl Answer {
    /// The body of a success.
    fn ok(self) -> Value {
        assert!(self.status.is_success(), "{}: {}", self.status, self.body);
        self.body
    }
}

impl Program {
    async fn new(node: std::rc::Rc<Node>, owner: &str) -> Self {
        let body = json!({ "email": format!("{owner}@example.org"), "time_zone": "Europe/Berlin" });
        let path = format!("/v1/owners/{owner}");
        node.put(&path, "application/json", body.to_string()).await.ok();
        Self {
            node,
            owner: owner.to_owned(),
        }
    }

    async fn ask(&self, method: Method, path: &str, headers: &[(&str, &str)], body: Option<Value>) -> Answer {
        let mark = if path.contains('?') { '&' } else { '?' };
        let scoped = if method == Method::POST && path == "/v1/alarms" {
            path.to_owned()
        } else {
            format!("{path}{mark}owner={}", self.owner)
        };
        let mut request = client().request(method, self.node.url(&scoped));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(body) = body {
            request = request
                .header("content-type", "application/json")
                .body(body.to_string());
        }
        let response = request.send().await.expect("the node answers");
        let etag = response.headers().get("etag");
        let etag = etag
            .map(|etag| etag.to_str().expect("ASCII").to_owned())
            .unwrap_or_default();
        let status = response.status();
        let text = response.text().await.expect("the node finishes its answers");
        let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
        Answer { status, etag, body }
    }

    /// Asks for an alarm of this program's owner.
    async fn post(&self, mut body: Value) -> Answer {
        body["owner"] = json!(self.owner);
        self.ask(Method::POST, "/v1/alarms", &[], Some(body)).await
    }

    /// The id of an alarm that is asked for and must be new.
    async fn create(&self, body: Value) -> String {
        let answer = self.post(body).await;
        assert_eq!(answer.status, 201, "{}", answer.body);
        assert_eq!(answer.body["deduped"], false);
        answer.body["id"].as_str().expect("an id").to_owned()
    }

    async fn get(&self, path: &str) -> Value {
        self.ask(Method::GET, path, &[], None).await.ok()
    }

    async fn alarm(&self, id: &str) -> Value {
        self.get(&format!("/v1/alarms/{id}")).await
    }

    async fn act(&self, id: &str, verb: &str) -> Answer {
        self.ask(Method::POST, &format!("/v1/alarms/{id}/{verb}"), &[], None)
            .await
    }

    async fn patch(&self, id: &str, body: Value) -> Answer {
        self.ask(Method::PATCH, &format!("/v1/alarms/{id}"), &[], Some(body))
            .await
    }

    async fn delete(&self, id: &str) -> Answer {
        self.ask(Method::DELETE, &format!("/v1/alarms/{id}"), &[], None)
            .await
    }

    /// What became of firings, newest first.
    async fn history(&self) -> Vec<Value> {
        items(&self.get("/v1/alarms/history").await)
    }

    /// Waits until history has a row of the alarm with that status.
    async fn firing(&self, id: &str, status: &str) -> Value {
        eventually(&format!("a firing of {id} to be {status}"), async || {
            let rows = self.history().await;
            rows.into_iter()
                .find(|row| row["alarm_id"] == id && row["status"] == status)
        })
        .await
    }

    /// Waits until the alarm has that status.
    async fn status(&self, id: &str, status: &str) -> Value {
        eventually(&format!("alarm {id} to be {status}"), async || {
            Some(self.alarm(id).await).filter(|alarm| alarm["status"] == status)
        })
        .await
    }
}

/// An alarm that calls the hook so much later.
fn calling(hook: &Hook, delay: &str) -> Value {
    json!({ "delay": delay, "channel": "webhook", "target": hook.url() })
}
