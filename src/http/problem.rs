//! Problems (RFC 9457): what is wrong, where, and how to put it right. Never SQL, never a stack.

use axum::Json;
use axum::extract::FromRequestParts;
use axum::extract::Path;
use axum::extract::Query;
use axum::http::HeaderValue;
use axum::http::Method;
use axum::http::StatusCode;
use axum::http::Uri;
use axum::http::header;
use axum::http::request::Parts;
use axum::response::IntoResponse;
use axum::response::Response;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::change::Complaint;
use crate::config::Complaints;
use crate::store::StoreError;

/// An error as callers see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Problem {
    /// Names the kind of problem; stays the same between versions.
    #[serde(rename = "type")]
    kind: String,
    title: &'static str,
    #[serde(serialize_with = "as_number")]
    pub(super) status: StatusCode,
    detail: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<Flaw>,
}

/// One of several things that are wrong.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(super) struct Flaw {
    /// JSON pointer (RFC 6901) into the body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) pointer: Option<String>,
    /// `VEVENT` …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) component: Option<String>,
    /// Line of the iCalendar text, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) line: Option<usize>,
    /// What is wrong, with the cure.
    pub(super) detail: String,
}

impl Problem {
    /// A problem that its status and detail describe.
    pub(super) fn new(status: StatusCode, kind: &'static str, detail: impl Into<String>) -> Self {
        Self {
            kind: format!("urn:carillon:problem:{kind}"),
            title: status.canonical_reason().unwrap_or("Error"),
            status,
            detail: detail.into(),
            errors: Vec::new(),
        }
    }

    /// A request that makes no sense.
    pub(super) fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad-request", detail)
    }

    /// Something that is not there, or not for this caller.
    pub(super) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not-found", detail)
    }

    /// A body with these things wrong in it.
    pub(super) fn invalid(errors: Vec<Flaw>) -> Self {
        let detail = errors
            .first()
            .map_or_else(String::new, |first| first.detail.clone());
        let problem = Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid-body", detail);
        Self { errors, ..problem }
    }

    /// An event that cannot be understood.
    pub(super) fn rejected(complaints: &[Complaint]) -> Self {
        let errors = complaints.iter().map(|complaint| Flaw {
            pointer: None,
            component: complaint.component.clone(),
            line: complaint.line,
            detail: complaint.reason.clone(),
        });
        let errors: Vec<Flaw> = errors.collect();
        let detail = errors
            .first()
            .map_or_else(String::new, |first| first.detail.clone());
        let problem = Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid-event", detail);
        Self { errors, ..problem }
    }

    /// A change that contradicts what is stored.
    pub(super) fn conflict(reason: &str) -> Self {
        Self::new(StatusCode::CONFLICT, "conflict", reason)
    }

    /// A configuration that is not taken.
    pub(super) fn refused_configuration(complaints: &Complaints) -> Self {
        let errors = complaints.0.iter().map(|complaint| Flaw {
            detail: complaint.to_string(),
            ..Flaw::default()
        });
        let detail = "the configuration has mistakes; what applied before still does";
        let problem = Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid-configuration", detail);
        Self {
            errors: errors.collect(),
            ..problem
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn as_number<S: serde::Serializer>(status: &StatusCode, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u16(status.as_u16())
}

impl From<StoreError> for Problem {
    /// What the store says goes to the log; callers learn only whether trying again may help.
    fn from(error: StoreError) -> Self {
        match &error {
            StoreError::UnknownOwner(_) => Self::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "unknown-owner",
                error.to_string(),
            ),
            StoreError::NoRoom(_) => {
                Self::new(StatusCode::INSUFFICIENT_STORAGE, "no-room", error.to_string())
            }
            StoreError::Unavailable(_)
            | StoreError::Interrupted(_)
            | StoreError::Fenced
            | StoreError::InUse(_)
            | StoreError::Damaged(_)
            | StoreError::NewerSchema { .. } => {
                tracing::warn!(%error, "a request was turned away");
                let detail = "the store is not available right now: try again in a moment";
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", detail)
            }
            StoreError::Corrupt { .. } | StoreError::Refused(_) | StoreError::Failed(_) => {
                tracing::error!(%error, "a request failed");
                let detail = "the request failed inside; the log of this node says why";
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail)
            }
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = self.status;
        let mut response = (status, Json(self)).into_response();
        let headers = response.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/problem+json"),
        );
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(
                header::WWW_AUTHENTICATE,
                HeaderValue::from_static("Bearer realm=\"carillon\""),
            );
        }
        if status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("5"));
        }
        response
    }
}

/// Answers a path that no route has.
pub(super) async fn unknown_path(uri: Uri) -> Problem {
    Problem::not_found(format!("there is nothing at `{}`: see /docs", uri.path()))
}

/// Answers a method that the route does not have; the `Allow` header names those it has.
pub(super) async fn wrong_method(method: Method, uri: Uri) -> Problem {
    let detail = format!("`{}` does not take {method}: see the Allow header", uri.path());
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method-not-allowed", detail)
}

/// The variables of the path.
pub(super) struct At<T>(pub(super) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for At<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let path = Path::from_request_parts(parts, state).await;
        path.map(|Path(path)| Self(path))
            .map_err(|rejection| Problem::bad_request(rejection.body_text()))
    }
}

/// The parameters of the query.
pub(super) struct Asked<T>(pub(super) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Asked<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let query = Query::from_request_parts(parts, state).await;
        query
            .map(|Query(query)| Self(query))
            .map_err(|rejection| Problem::bad_request(unfit(parts, &rejection.body_text())))
    }
}

/// What is wrong with a query string, with the value. What reads it says `…: limit: invalid digit …`, without.
fn unfit(parts: &Parts, complaint: &str) -> String {
    let reason = complaint
        .split_once("query string: ")
        .map_or(complaint, |(_, reason)| reason);
    let given = Query::<Vec<(String, String)>>::try_from_uri(&parts.uri);
    let (key, why) = reason.split_once(": ").unwrap_or_default();
    match given {
        Ok(Query(given)) => match given.into_iter().find(|(name, _)| name == key) {
            Some((name, value)) => format!("`{name}={value}` cannot be used: {why}"),
            None => reason.to_owned(),
        },
        Err(_) => reason.to_owned(),
    }
}
