//! A call over a WebSocket, as the request that it stands for.

use axum::body::Body;
use axum::http::Method;
use axum::http::Request;
use axum::http::request::Parts;
use serde::Deserialize;
use serde::Serialize;
use serde_json::Value;
use serde_json::json;
use serde_json::value::RawValue;
use serde_json::value::to_raw_value;

use crate::http::calls::Answered;
use crate::http::calls::Params;
use crate::http::calls::Routes;
use crate::http::problem::Problem;

/// A call.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Call {
    /// What its answer is known by.
    id: Box<RawValue>,
    #[serde(rename = "call")]
    name: String,
    #[serde(default)]
    params: Params,
}

/// An answer.
#[derive(Serialize)]
struct Answer<'a> {
    id: &'a RawValue,
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
        if let Some(name) = self.params.names().find(|name| !known.contains(name)) {
            return Err(Problem::bad_request(format!(
                "`{name}` is nothing that subscribe takes: use owner and after"
            )));
        }
        let owner = self.params.text("owner")?;
        let after = self.params.get("after").map(|after| {
            serde_json::from_str(after.get()).map_err(|_| {
                Problem::bad_request(format!(
                    "`after: {after}` is no number of a change: use the `id` of the last one that you saw"
                ))
            })
        });
        Ok((owner, after.transpose()?))
    }

    /// What the route answers that takes the same request over HTTP.
    pub(super) async fn answered_by(&self, routes: Routes, parts: &Parts) -> String {
        let answered = match self.request() {
            Ok(request) => routes.answer(&parts.headers, request).await,
            Err(problem) => Err(problem),
        };
        match answered {
            Ok(answered) => self.passed_on(&answered),
            Err(problem) => self.refused(&problem),
        }
    }

    /// An answer of this place.
    pub(super) fn result(&self, result: &Value) -> String {
        self.said(true, &written(result))
    }

    /// Why there is no answer.
    pub(super) fn refused(&self, problem: &Problem) -> String {
        self.said(false, &written(problem))
    }

    fn passed_on(&self, answered: &Answered) -> String {
        let body = serde_json::from_slice::<&RawValue>(&answered.body).unwrap_or(RawValue::NULL);
        self.said(answered.is_success, body)
    }

    /// An answer under the id of the call, as that was written.
    fn said(&self, is_success: bool, body: &RawValue) -> String {
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
    fn request(&self) -> Result<Request<Body>, Problem> {
        let mut params = self.params.clone();
        let alarm = |id: &str| format!("/v1/alarms/{id}");
        let (method, path) = match self.name.as_str() {
            "list" => (Method::GET, "/v1/alarms".to_owned()),
            "count" | "history" | "stats" | "failed" => (Method::GET, alarm(&self.name)),
            "get" => (Method::GET, alarm(&params.take_id("id")?)),
            "cancel" => (Method::DELETE, alarm(&params.take_id("id")?)),
            "complete" | "fail" => {
                let path = format!("/v1/deliveries/{}/{}", params.take_id("id")?, self.name);
                (Method::POST, path)
            }
            other => {
                return Err(Problem::bad_request(format!(
                    "there is no call `{other}`: use list, get, count, history, stats, failed, cancel, complete, fail or subscribe"
                )));
            }
        };
        params.request(method, &path, &["token"])
    }
}

fn written(what: &impl Serialize) -> Box<RawValue> {
    to_raw_value(what).expect("it has names for keys")
}
