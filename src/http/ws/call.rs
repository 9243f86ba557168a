//! A call over a WebSocket, as the request that it stands for.

use axum::Router;
use axum::body::Body;
use axum::body::to_bytes;
use axum::http::HeaderMap;
use axum::http::HeaderName;
use axum::http::Method;
use axum::http::Request;
use axum::http::StatusCode;
use axum::http::header;
use axum::http::request::Parts;
use axum::response::Response;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use serde::Deserialize;
use serde::Serialize;
use serde_json::Map;
use serde_json::Value;
use serde_json::json;
use serde_json::value::RawValue;

use crate::http::problem::Problem;

/// Bytes of an answer at the most.
const LARGEST_ANSWER: usize = 4 * 1024 * 1024;

/// What of the request that opened the connection says who calls, and from where.
const SAID: [HeaderName; 5] = [
    header::AUTHORIZATION,
    header::HOST,
    header::ORIGIN,
    HeaderName::from_static("sec-fetch-site"),
    HeaderName::from_static("sec-fetch-mode"),
];

/// A call.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Call {
    /// What its answer is known by.
    id: Value,
    #[serde(rename = "call")]
    name: String,
    #[serde(default)]
    params: Map<String, Value>,
}

/// An answer.
#[derive(Serialize)]
struct Answer<'a> {
    id: &'a Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a RawValue>,
}

impl Call {
    /// Reads a message, or says what is wrong with it.
    pub(super) fn read(message: &str) -> Result<Self, String> {
        serde_json::from_str(message).map_err(|error| {
            let detail = format!(
                "that is no call ({error}): write it as {{\"id\": 1, \"call\": \"list\", \"params\": {{\"owner\": \"anna\"}}}}"
            );
            json!({ "id": null, "error": Problem::bad_request(detail) }).to_string()
        })
    }

    pub(super) fn is_subscription(&self) -> bool {
        self.name == "subscribe"
    }

    /// Whose alarms are followed, and after which number.
    pub(super) fn followed(&self) -> Result<(Option<String>, Option<u64>), Problem> {
        let known = ["owner", "after"];
        if let Some(name) = self.params.keys().find(|name| !known.contains(&name.as_str())) {
            return Err(Problem::bad_request(format!(
                "`{name}` is nothing that subscribe takes: use owner and after"
            )));
        }
        let owner = self.text("owner")?;
        let after = match self.params.get("after") {
            None | Some(Value::Null) => None,
            Some(after) => Some(after.as_u64().ok_or_else(|| {
                Problem::bad_request(format!(
                    "`after: {after}` is no number of a change: use the `id` of the last one that you saw"
                ))
            })?),
        };
        Ok((owner, after))
    }

    /// What the route answers that takes the same request over HTTP.
    pub(super) async fn answered_by(&self, routes: Router, parts: &Parts) -> String {
        let request = match self.request(&parts.headers) {
            Ok(request) => request,
            Err(problem) => return self.refused(&problem),
        };
        let answer = TowerToHyperService::new(routes).call(request).await;
        let Ok(answer) = answer;
        self.passed_on(answer).await
    }

    /// An answer of this place.
    pub(super) fn result(&self, result: &Value) -> String {
        json!({ "id": self.id, "result": result }).to_string()
    }

    /// Why there is no answer.
    pub(super) fn refused(&self, problem: &Problem) -> String {
        json!({ "id": self.id, "error": problem }).to_string()
    }

    async fn passed_on(&self, answer: Response) -> String {
        let is_success = answer.status().is_success();
        let Ok(body) = to_bytes(answer.into_body(), LARGEST_ANSWER).await else {
            let detail = "the answer has more than 4 MiB: ask for less with `limit`, or over HTTP";
            return self.refused(&Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", detail));
        };
        let body = serde_json::from_slice::<&RawValue>(&body).unwrap_or(RawValue::NULL);
        let (result, error) = if is_success {
            (Some(body), None)
        } else {
            (None, Some(body))
        };
        let answer = Answer {
            id: &self.id,
            result,
            error,
        };
        serde_json::to_string(&answer).expect("what is answered has names for keys")
    }

    /// The request that it stands for.
    fn request(&self, headers: &HeaderMap) -> Result<Request<Body>, Problem> {
        let alarm = |id: &str| format!("/v1/alarms/{id}");
        let (method, path, in_path) = match self.name.as_str() {
            "list" => (Method::GET, "/v1/alarms".to_owned(), false),
            "count" | "history" | "stats" | "failed" => (Method::GET, alarm(&self.name), false),
            "get" => (Method::GET, alarm(&self.id_in_path()?), true),
            "cancel" => (Method::DELETE, alarm(&self.id_in_path()?), true),
            "complete" | "fail" => {
                let path = format!("/v1/deliveries/{}/{}", self.id_in_path()?, self.name);
                (Method::POST, path, true)
            }
            other => {
                return Err(Problem::bad_request(format!(
                    "there is no call `{other}`: use list, get, count, history, stats, failed, cancel, complete, fail or subscribe"
                )));
            }
        };
        let mut rest: Map<String, Value> = self.params.clone();
        if in_path {
            rest.remove("id");
        }
        let has_body = method == Method::POST;
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        for name in rest.keys().filter(|name| !has_body || *name == "token") {
            if let Some(value) = self.text(name)? {
                query.append_pair(name, &value);
            }
        }
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{path}?{}", query.finish()));
        for (name, value) in SAID.iter().filter_map(|name| Some((name, headers.get(name)?))) {
            request = request.header(name, value);
        }
        let body = if has_body {
            rest.remove("token");
            request = request.header(header::CONTENT_TYPE, "application/json");
            Body::from(Value::Object(rest).to_string())
        } else {
            Body::empty()
        };
        let unfit = |error: axum::http::Error| Problem::bad_request(format!("that is no request: {error}"));
        request.body(body).map_err(unfit)
    }

    /// The name of what it is about, as a part of a path.
    fn id_in_path(&self) -> Result<String, Problem> {
        let missing =
            || Problem::bad_request(format!("`id` is missing in params: {} says of what", self.name));
        let id = self.text("id")?.ok_or_else(missing)?;
        // Nothing else is one, and what is not may be another path.
        if id.len() != 32 || !id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(Problem::not_found(format!("there is nothing with the id `{id}`")));
        }
        Ok(id)
    }

    /// A parameter as it stands in a query.
    fn text(&self, name: &str) -> Result<Option<String>, Problem> {
        Ok(match self.params.get(name) {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => Some(text.clone()),
            Some(value @ (Value::Number(_) | Value::Bool(_))) => Some(value.to_string()),
            Some(value) => {
                return Err(Problem::bad_request(format!(
                    "`{name}: {value}` cannot be used: write a text or a number"
                )));
            }
        })
    }
}
