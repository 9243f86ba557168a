//! Calls that do not come as requests of their own: over a WebSocket ([`super::ws`]) and from agents ([`super::mcp`]).
//!
//! Each becomes the request that it stands for, and is answered by the very route that answers the same over HTTP, with the
//! headers of the request that brought it: what is read, bounded and refused, and who may see what, is decided there, each
//! time anew.

use std::collections::BTreeMap;

use axum::Router;
use axum::body::Body;
use axum::body::Bytes;
use axum::body::to_bytes;
use axum::http::HeaderMap;
use axum::http::HeaderName;
use axum::http::Method;
use axum::http::Request;
use axum::http::StatusCode;
use axum::http::header;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::problem::Problem;

/// Bytes of an answer at the most.
const LARGEST_ANSWER: usize = 4 * 1024 * 1024;

/// What of the request that brought a call says who calls, and from where.
const SAID: [HeaderName; 5] = [
    header::AUTHORIZATION,
    header::HOST,
    header::ORIGIN,
    HeaderName::from_static("sec-fetch-site"),
    HeaderName::from_static("sec-fetch-mode"),
];

/// The routes by which calls are answered.
#[derive(Debug, Clone)]
pub(super) struct Routes(pub(super) Router);

/// What a route answered.
pub(super) struct Answered {
    pub(super) is_success: bool,
    pub(super) body: Bytes,
}

impl Routes {
    /// What the route answers that takes the same request over HTTP from whoever sent these headers.
    pub(super) async fn answer(
        self,
        headers: &HeaderMap,
        mut request: Request<Body>,
    ) -> Result<Answered, Problem> {
        for name in &SAID {
            if let Some(value) = headers.get(name) {
                request.headers_mut().insert(name, value.clone());
            }
        }
        let Ok(answer) = TowerToHyperService::new(self.0).call(request).await;
        let is_success = answer.status().is_success();
        let body = to_bytes(answer.into_body(), LARGEST_ANSWER).await;
        let body = body.map_err(|_| {
            let detail = "the answer has more than 4 MiB: ask for less with `limit`, or over HTTP";
            Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", detail)
        })?;
        Ok(Answered { is_success, body })
    }
}

/// What a call takes, each as it was written.
#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct Params(BTreeMap<String, Box<RawValue>>);

impl Params {
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// One of them; `null` says no more than nothing.
    pub(super) fn get(&self, name: &str) -> Option<&RawValue> {
        self.0
            .get(name)
            .map(|value| &**value)
            .filter(|value| value.get() != "null")
    }

    pub(super) fn set(&mut self, name: &str, value: Box<RawValue>) {
        self.0.insert(name.to_owned(), value);
    }

    /// One of them as it stands in a query.
    pub(super) fn text(&self, name: &str) -> Result<Option<String>, Problem> {
        let Some(value) = self.get(name) else {
            return Ok(None);
        };
        match serde_json::from_str(value.get()) {
            Ok(Value::String(text)) => Ok(Some(text)),
            Ok(Value::Number(_) | Value::Bool(_)) => Ok(Some(value.get().to_owned())),
            _ => Err(Problem::bad_request(format!(
                "`{name}: {value}` cannot be used: write a text or a number"
            ))),
        }
    }

    /// Takes the one that names what the call is about, as a part of a path.
    pub(super) fn take_id(&mut self, name: &str) -> Result<String, Problem> {
        let missing = || Problem::bad_request(format!("`{name}` is missing: it says what this is about"));
        let id = self.text(name)?.ok_or_else(missing)?;
        // Nothing else is one, and what is not may be another path.
        if id.len() != 32 || !id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(Problem::not_found(format!("there is nothing with the id `{id}`")));
        }
        self.0.remove(name);
        Ok(id)
    }

    /// The request for a path with them. They stand in its body where it has one, but for those that are `queried`.
    pub(super) fn request<S: AsRef<str>>(
        mut self,
        method: Method,
        path: &str,
        queried: &[S],
    ) -> Result<Request<Body>, Problem> {
        let has_body = method == Method::POST;
        let is_queried = |name: &str| !has_body || queried.iter().any(|it| it.as_ref() == name);
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        for name in self.names().filter(|name| is_queried(name)) {
            if let Some(value) = self.text(name)? {
                query.append_pair(name, &value);
            }
        }
        let request = Request::builder()
            .method(method)
            .uri(format!("{path}?{}", query.finish()));
        self.0.retain(|name, _| !is_queried(name));
        let request = if has_body {
            let body = serde_json::to_string(&self.0).expect("what was read as JSON has a JSON form");
            request
                .header(header::CONTENT_TYPE, "application/json")
                .body(body.into())
        } else {
            request.body(Body::empty())
        };
        request.map_err(|error| Problem::bad_request(format!("that is no request: {error}")))
    }
}
