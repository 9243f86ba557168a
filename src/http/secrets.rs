//! Rotating the secret under which the links in messages are made.

use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use chrono::DateTime;
use chrono::Utc;
use serde::Deserialize;
use serde::Serialize;

use super::Shared;
use super::body;
use super::problem::Flaw;
use super::problem::Problem;
use crate::token;
use crate::token::Tokens;

/// Bytes of a body at the most.
const LARGEST: usize = 4 * 1024;

/// How long the secret before may stay good: messages are answered for as long as they are in the history.
const LONGEST: Duration = Duration::from_hours(24 * 365);

/// What is asked for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rotation {
    /// How long links under the secret before stay good, such as `24h`; `0s`: no longer.
    keep: String,
}

/// What was done.
#[derive(Debug, Serialize)]
pub(super) struct Rotated {
    /// Until when links that were made before are good.
    previous_until: DateTime<Utc>,
}

/// `POST /v1/secrets/rotate`.
pub(super) async fn rotate(
    State(shared): State<Shared>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Rotated>, Problem> {
    let cure = "send {\"keep\": \"24h\"} as JSON";
    body::expect_type(&headers, &["application/json"], cure)?;
    let bytes = body::Arriving::new(body, &headers, LARGEST, &shared)?
        .whole()
        .await?;
    let Rotation { keep } = body::json(&bytes)?;
    let previous_until = shared.clock.now() + length(&keep)?;
    let unavailable =
        || Problem::conflict("the secret was rotated at the same time: look whether it still has to be");
    let before = shared.store.remembered(token::SECRET).await?;
    let before = before.ok_or_else(unavailable)?;
    let fresh = Tokens::fresh_secret().map_err(|error| {
        tracing::error!(%error, "the system has no random numbers to give");
        Problem::new(
            axum::http::StatusCode::INTERNAL_SERVER_ERROR,
            "internal",
            "the system has no random numbers to give",
        )
    })?;
    let after = Tokens::rotated(&before, &fresh, previous_until);
    if !shared
        .store
        .remember_instead(token::SECRET, (&before, &after))
        .await?
    {
        return Err(unavailable());
    }
    shared.tokens.follow(&after);
    tracing::info!(%previous_until, "the secret of links was rotated");
    Ok(Json(Rotated { previous_until }))
}

fn length(text: &str) -> Result<Duration, Problem> {
    let length = humantime::parse_duration(text).ok();
    length.filter(|length| *length <= LONGEST).ok_or_else(|| {
        Problem::invalid(vec![Flaw {
            pointer: Some("/keep".to_owned()),
            detail: format!("`{text}` is no length up to 365d: write it as 24h or 0s"),
            ..Flaw::default()
        }])
    })
}
