//! The API, called without a socket: real routes on a real store, in a time that the test moves.

mod access;
mod answers;
mod changes;
mod document;
mod ending;
mod events;
mod feed;
mod guard;
mod owners;
mod pages;
mod people;
mod reading;
mod reports;
mod talk;

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::body::to_bytes;
use axum::http::HeaderMap;
use axum::http::Request;
use axum::http::StatusCode;
use axum::http::request::Builder;
use carillon::clock::ManualClock;
use carillon::config::Complaint;
use carillon::config::Complaints;
use carillon::config::Origin;
use carillon::config::Settings;
use carillon::delivery::Detail;
use carillon::delivery::message::Renderer;
use carillon::feed::Feed;
use carillon::http::Api;
use carillon::http::router;
use carillon::post::Seat;
use carillon::ready::Readiness;
use serde_json::Value;
use serde_json::json;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use crate::by_hand::Hand;
use crate::by_hand::instant;

/// An API with a node behind it.
struct Edge {
    hand: Hand,
    router: Router,
    ready: Readiness,
    _folder: TempDir,
}

/// What came back.
struct Reply {
    status: StatusCode,
    headers: HeaderMap,
    text: String,
}

impl Edge {
    /// An API at 08:00 UTC on 1 December 2026, without a token.
    async fn open() -> Self {
        Self::with(&[]).await
    }

    /// The same, with further configuration.
    async fn with(environment: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let clock = Arc::new(ManualClock::at(instant("2026-12-01T08:00:00Z")));
        let hand = Hand::start(folder.path(), &clock, environment).await;
        Self::around(hand, folder, environment)
    }

    /// An API around this node.
    fn around(hand: Hand, folder: TempDir, environment: &[(&str, &str)]) -> Self {
        let pairs = environment
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let settings = Settings::load(None, pairs).expect("the test's settings are right");
        let ready = Readiness::new();
        let api = Api {
            store: Arc::clone(hand.store()),
            changes: hand.node.changes.clone(),
            clock: hand.clock.clone(),
            metrics: Arc::clone(&hand.node.shared.metrics),
            ready: ready.clone(),
            reload: Arc::new(|| Err(Complaints(vec![complaint()]))),
            seat: Seat::default(),
            epoch: Arc::clone(&hand.node.shared.epoch),
            tokens: reports::tokens(),
            receipts: reports::readers(),
            pages: Arc::new(Renderer::new(None).expect("the built-in templates are right")),
            detail: Arc::new(|| Detail::Full),
            webhooks: settings.webhook.targets(),
        };
        let feed = carillon::feed::Parts {
            store: Arc::clone(&api.store),
            clock: Arc::clone(&api.clock),
            metrics: Arc::clone(&api.metrics),
            recorded: Arc::clone(&api.seat.recorded),
        };
        let feed = Feed::new(feed, 10, CancellationToken::new());
        let router = router(api, &settings.http, Arc::new(feed));
        Self {
            hand,
            router,
            ready,
            _folder: folder,
        }
    }

    /// The same, with the owner `anna` in Berlin.
    async fn with_anna() -> Self {
        let edge = Self::open().await;
        let owner = json!({ "email": "anna@example.org", "time_zone": "Europe/Berlin" });
        assert_eq!(edge.put_json("/v1/owners/anna", &owner).await.status, 201);
        edge
    }

    async fn send(&self, request: Request<Body>) -> Reply {
        let response = self
            .router
            .clone()
            .oneshot(request)
            .await
            .expect("it cannot fail");
        let (parts, body) = response.into_parts();
        let bytes = to_bytes(body, 64 << 20).await.expect("the body is complete");
        Reply {
            status: parts.status,
            headers: parts.headers,
            text: String::from_utf8(bytes.to_vec()).expect("it is UTF-8"),
        }
    }

    async fn get(&self, path: &str) -> Reply {
        self.send(local("GET", path).body(Body::empty()).unwrap()).await
    }

    async fn put_json(&self, path: &str, body: &Value) -> Reply {
        let request = local("PUT", path).header("content-type", "application/json");
        self.send(request.body(body.to_string().into()).unwrap()).await
    }

    async fn put_event(&self, path: &str, ics: impl Into<Body>) -> Reply {
        let request = local("PUT", path).header("content-type", "text/calendar; charset=utf-8");
        self.send(request.body(ics.into()).unwrap()).await
    }

    async fn delete(&self, path: &str) -> Reply {
        self.send(local("DELETE", path).body(Body::empty()).unwrap())
            .await
    }

    async fn post_lines(&self, lines: &[String]) -> Vec<Value> {
        let request =
            local("POST", "/v1/sources/demo/changes").header("content-type", "application/x-ndjson");
        let reply = self.send(request.body(lines.join("\n").into()).unwrap()).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        reply.lines()
    }
}

impl Reply {
    fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    fn lines(&self) -> Vec<Value> {
        let lines = self
            .text
            .lines()
            .map(|line| serde_json::from_str(line).expect("each line is JSON"));
        lines.collect()
    }

    /// The problem in it, with this status.
    fn problem(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text);
        assert_eq!(
            self.headers["content-type"], "application/problem+json",
            "{}",
            self.text
        );
        let problem = self.json();
        assert_eq!(problem["status"], status);
        assert!(
            problem["type"]
                .as_str()
                .is_some_and(|kind| kind.starts_with("urn:carillon:problem:"))
        );
        assert!(
            problem["detail"]
                .as_str()
                .is_some_and(|detail| !detail.is_empty()),
            "{problem}"
        );
        problem
    }
}

/// A request as `curl` on this machine sends it.
fn local(method: &str, path: &str) -> Builder {
    Request::builder()
        .method(method)
        .uri(path)
        .header("host", "127.0.0.1:8085")
}

fn complaint() -> Complaint {
    Complaint {
        key: "worker.period".to_owned(),
        value: Some("0s".to_owned()),
        origin: Origin::File("carillon.toml".to_owned()),
        problem: "must be more than 0".to_owned(),
    }
}

/// An event in Berlin on 1 December 2026 with an e-mail alarm a quarter of an hour before.
fn event(uid: &str, time: &str, summary: &str) -> String {
    format!(
        "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//carillon//test//EN\r\nBEGIN:VEVENT\r\nUID:{uid}\r\n\
         DTSTAMP:20261101T000000Z\r\nDTSTART;TZID=Europe/Berlin:20261201T{time}\r\nDURATION:PT1H\r\n\
         SUMMARY:{summary}\r\nBEGIN:VALARM\r\nACTION:EMAIL\r\nTRIGGER:-PT15M\r\nSUMMARY:x\r\nDESCRIPTION:x\r\n\
         END:VALARM\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"
    )
}
