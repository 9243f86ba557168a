//! The epoch of the store: when it changes, the database went back in time, and a back end must push again what changed since.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderName;
use axum::http::HeaderValue;
use axum::response::Response;
use chrono::DateTime;
use chrono::Utc;
use serde::Serialize;

use super::Shared;
use super::problem::Problem;

/// Named in every answer.
const HEADER: HeaderName = HeaderName::from_static("carillon-epoch");

/// The answer to `GET /v1/epoch`.
#[derive(Debug, Serialize)]
pub(super) struct EpochAnswer {
    /// As in the header.
    epoch: String,
    /// When it began.
    began_at: DateTime<Utc>,
    /// What changed since must be pushed again; absent in the first epoch of a database.
    #[serde(skip_serializing_if = "Option::is_none")]
    push_from: Option<DateTime<Utc>>,
    /// Whether nothing is fired until an operator lets it.
    held: bool,
}

/// `GET /v1/epoch`.
pub(super) async fn read(State(shared): State<Shared>) -> Result<Json<EpochAnswer>, Problem> {
    let epoch = shared.store.epoch().await?;
    Ok(Json(EpochAnswer {
        epoch: epoch.id.to_string(),
        began_at: epoch.began_at,
        push_from: epoch.lost.map(|lost| lost.after),
        held: epoch.held,
    }))
}

/// Names the epoch in an answer.
pub(super) async fn name(State(shared): State<Shared>, mut response: Response) -> Response {
    let name = shared.epoch.known().map(|known| known.id.to_string());
    if let Some(name) = name.and_then(|name| HeaderValue::from_str(&name).ok()) {
        response.headers_mut().insert(HEADER, name);
    }
    response
}
