//! What comes back after a hand-over: whoever took a message says how it ended, and providers say what became of theirs.
//!
//! A capability token opens each of these addresses, and only for the message that named it. A wrong token, an id that
//! nobody has and a provider that is not configured are answered alike.

use axum::Json;
use axum::body::Body;
use axum::extract::Request;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::StatusCode;
use axum::http::header;
use serde::Deserialize;
use serde::Serialize;

use super::Shared;
use super::body;
use super::caller::Caller;
use super::problem::Asked;
use super::problem::At;
use super::problem::Problem;
use crate::channel::receipt::Slip;
use crate::channel::receipt::Status;
use crate::metrics::Metrics;
use crate::store::Delivery;
use crate::store::Noted;
use crate::store::Notice;
use crate::store::Store;
use crate::store::StoreError;
use crate::store::token::Scope;
use crate::token;
use crate::token::Purpose;
use crate::trigger::TriggerId;
use crate::trigger::outcome::Reported;

/// Bytes of a report or a receipt at the most.
const LARGEST: usize = 16 * 1024;

/// `?token=…`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct With {
    token: Option<String>,
}

/// What is said beside the outcome. Of what is left out nothing is said.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Words {
    /// What came of the work.
    result: Option<String>,
    /// Why it failed.
    reason: Option<String>,
}

/// What is known of a delivery once it was reported on.
#[derive(Debug, Serialize)]
pub(super) struct Reply {
    id: String,
    outcome: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    reason: &'static str,
}

impl From<Delivery> for Reply {
    fn from(delivery: Delivery) -> Self {
        Self {
            id: delivery.id.to_string(),
            outcome: delivery.outcome.as_str(),
            reason: delivery.reason.as_str(),
        }
    }
}

/// `POST /v1/deliveries/{id}/complete?token=…`.
pub(super) async fn complete(
    State(shared): State<Shared>,
    At(id): At<String>,
    Asked(with): Asked<With>,
    request: Request,
) -> Result<Json<Reply>, Problem> {
    end(&shared, &id, Reported::Completed, with, request).await
}

/// `POST /v1/deliveries/{id}/fail?token=…`.
pub(super) async fn fail(
    State(shared): State<Shared>,
    At(id): At<String>,
    Asked(with): Asked<With>,
    request: Request,
) -> Result<Json<Reply>, Problem> {
    end(&shared, &id, Reported::Failed, with, request).await
}

/// The same report again is answered like the first.
async fn end(
    shared: &Shared,
    id: &str,
    reported: Reported,
    with: With,
    request: Request,
) -> Result<Json<Reply>, Problem> {
    let (parts, body) = request.into_parts();
    let id = if let Some(token) = &with.token {
        completing(shared, id, token).await?
    } else {
        let caller = shared.guard.admit(&parts, Scope::Write).await?;
        own(shared, &caller, id).await?
    };
    let detail = words(shared, &parts.headers, body).await?;
    let notice = Notice { id, reported, detail };
    record(shared, notice).await?;
    let delivery = shared.store.delivery(id).await?.ok_or_else(nothing_here)?;
    Ok(Json(delivery.into()))
}

/// `GET` and `POST /v1/receipts/{provider}/{trigger}/{token}`. Answered once it is on record: a provider that got no
/// answer sends it again.
pub(super) async fn receipt(
    State(shared): State<Shared>,
    At((provider, id, token)): At<(String, String, String)>,
    request: Request,
) -> Result<StatusCode, Problem> {
    let id = opened(&shared, &id, Purpose::Receipt(&provider), &token).await?;
    let read = shared.receipts.get(&provider).ok_or_else(nothing_here)?;
    let (parts, body) = request.into_parts();
    let body = body::Arriving::new(body, &parts.headers, LARGEST, &shared)?
        .whole()
        .await?;
    let content_type = parts.headers.get(header::CONTENT_TYPE);
    let slip = Slip {
        query: parts.uri.query().unwrap_or_default(),
        content_type: content_type
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default(),
        body: &body,
    };
    let receipt = read(&slip).map_err(|error| {
        tracing::warn!(trigger.id = %id, provider, error, "a receipt cannot be read");
        Problem::bad_request(format!("the receipt cannot be read: {error}"))
    })?;
    let reported = match receipt.status {
        Status::Pending => return Ok(StatusCode::NO_CONTENT),
        Status::Delivered => Reported::Delivered,
        Status::Undelivered => Reported::Undelivered,
    };
    let notice = Notice {
        id,
        reported,
        detail: receipt.detail,
    };
    record(&shared, notice).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The trigger of this id, if its owner is the caller's. Of one that is not on record yet nobody knows that.
async fn own(shared: &Shared, caller: &Caller, id: &str) -> Result<TriggerId, Problem> {
    let id: TriggerId = id.parse().map_err(|_| nothing_here())?;
    if caller.sees_all() {
        return Ok(id);
    }
    let delivery = shared.store.delivery(id).await?;
    let is_own = delivery.is_some_and(|delivery| caller.sees(&delivery.wish.owner));
    is_own.then_some(id).ok_or_else(nothing_here)
}

/// The trigger that `token` speaks of.
async fn opened(shared: &Shared, id: &str, purpose: Purpose<'_>, token: &str) -> Result<TriggerId, Problem> {
    let id: TriggerId = id.parse().map_err(|_| nothing_here())?;
    let opens = opens(shared, id, purpose, token).await?;
    opens.then_some(id).ok_or_else(nothing_here)
}

/// Whether `token` opens this, by the secret that the store has now: another node may have rotated it.
async fn opens(shared: &Shared, id: TriggerId, purpose: Purpose<'_>, token: &str) -> Result<bool, Problem> {
    if let Some(remembered) = shared.store.remembered(token::SECRET).await? {
        shared.tokens.follow(&remembered);
    }
    let now = shared.clock.now();
    Ok(shared.tokens.check(&id.to_string(), purpose, token, now))
}

/// What `token` is good for, if it answers the reminder of this trigger in the link epoch of its owner.
pub(super) async fn answering(
    shared: &Shared,
    id: TriggerId,
    token: &str,
) -> Result<Option<Purpose<'static>>, Problem> {
    let Some(epoch) = shared.store.link_epoch(id).await? else {
        return Ok(None);
    };
    let purpose = Purpose::Answer(epoch);
    Ok(opens(shared, id, purpose, token).await?.then_some(purpose))
}

/// The trigger whose work `token` may report on, in the link epoch of its owner.
async fn completing(shared: &Shared, id: &str, token: &str) -> Result<TriggerId, Problem> {
    let trigger: TriggerId = id.parse().map_err(|_| nothing_here())?;
    let epoch = shared.store.link_epoch(trigger).await?.ok_or_else(nothing_here)?;
    opened(shared, id, Purpose::Complete(epoch), token).await
}

async fn record(shared: &Shared, notice: Notice) -> Result<(), Problem> {
    let is_known = note(shared.store.as_ref(), &shared.metrics, notice).await?;
    shared.seat.recorded.notify_one();
    is_known.then_some(()).ok_or_else(nothing_here)
}

/// Records what is said of a message after it was handed over. False: nothing is known of that message.
///
/// # Errors
///
/// When the store fails.
pub async fn note(store: &dyn Store, metrics: &Metrics, notice: Notice) -> Result<bool, StoreError> {
    let id = notice.id;
    let detail = visible(&notice.detail);
    let noted = store.report(&[Notice { detail, ..notice }]).await?;
    match noted.first() {
        Some(Noted::Recorded {
            channel,
            outcome,
            reason,
        }) => {
            metrics.reported(*channel, *outcome, *reason, 1);
            tracing::info!(trigger.id = %id, %channel, %outcome, %reason, "a report was recorded");
            Ok(true)
        }
        Some(Noted::Known) => Ok(true),
        Some(Noted::Unknown) | None => Ok(false),
    }
}

/// What the body says beside the outcome; nothing where there is none.
async fn words(shared: &Shared, headers: &HeaderMap, body: Body) -> Result<String, Problem> {
    body::expect_type(
        headers,
        &["application/json"],
        "send {\"result\": …} or {\"reason\": …} as JSON, or no body",
    )?;
    let bytes = body::Arriving::new(body, headers, LARGEST, shared)?
        .whole()
        .await?;
    if bytes.trim_ascii().is_empty() {
        return Ok(String::new());
    }
    let words: Words = body::json(&bytes)?;
    Ok(words.result.or(words.reason).unwrap_or_default())
}

/// What others say is shown to people: without characters that command their terminals.
fn visible(text: &str) -> String {
    text.chars().filter(|it| !it.is_control()).collect()
}

fn nothing_here() -> Problem {
    Problem::not_found("there is no delivery with this id and token")
}
