//! What became of triggers, and the messages that stayed with us.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header;
use axum::response::IntoResponse;
use axum::response::Response;
use chrono::DateTime;
use chrono::Utc;
use serde::Deserialize;
use serde::Serialize;

use super::Shared;
use super::caller::Caller;
use super::id;
use super::page;
use super::problem::Asked;
use super::problem::At;
use super::problem::Problem;
use crate::store::Delivery;
use crate::store::HistoryQuery;
use crate::store::OutboxEntry;
use crate::trigger::TriggerId;

/// Which history rows.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Which {
    owner: Option<String>,
    event: Option<String>,
    outcome: Option<String>,
    since: Option<String>,
    limit: Option<String>,
    cursor: Option<String>,
}

/// Which messages of the outbox.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Kept {
    owner: Option<String>,
    limit: Option<String>,
    cursor: Option<String>,
}

/// A page of a listing.
#[derive(Debug, Serialize)]
pub(super) struct Page<T> {
    pub(super) items: Vec<T>,
    /// Where the next page starts; absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next_cursor: Option<String>,
}

/// A history row.
#[derive(Debug, Serialize)]
pub(super) struct DeliveryAnswer {
    id: String,
    owner: String,
    /// The UID of the event; none of a stand-alone alarm.
    #[serde(skip_serializing_if = "Option::is_none")]
    event: Option<String>,
    alarm: String,
    channel: &'static str,
    recipient: String,
    trigger_at: DateTime<Utc>,
    occurrence: DateTime<Utc>,
    repeat: u16,
    outcome: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    reason: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    detail: String,
    attempts: u32,
    /// How many firings this row stands for.
    count: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    handed_over_at: Option<DateTime<Utc>>,
    recorded_at: DateTime<Utc>,
    /// By what name the other side knows the message.
    #[serde(skip_serializing_if = "Option::is_none")]
    reference: Option<String>,
    /// When the last attempt began.
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at: Option<DateTime<Utc>>,
    /// Until when a report was expected, where one was.
    #[serde(skip_serializing_if = "Option::is_none")]
    await_until: Option<DateTime<Utc>>,
    /// What the report said, beside the outcome.
    #[serde(skip_serializing_if = "Option::is_none")]
    report: Option<String>,
    /// When the report came.
    #[serde(skip_serializing_if = "Option::is_none")]
    reported_at: Option<DateTime<Utc>>,
}

impl From<Delivery> for DeliveryAnswer {
    fn from(delivery: Delivery) -> Self {
        let (event, alarm) = match delivery.wish.alarm_id() {
            Some(alarm) => (None, alarm.0),
            None => (Some(delivery.wish.event_uid), delivery.wish.identity.0),
        };
        Self {
            id: delivery.id.to_string(),
            owner: delivery.wish.owner.0,
            event,
            alarm,
            channel: delivery.wish.channel.as_str(),
            recipient: delivery.wish.recipient.to_string(),
            trigger_at: delivery.place.trigger_at,
            occurrence: delivery.place.occurrence,
            repeat: delivery.place.repeat,
            outcome: delivery.outcome.as_str(),
            reason: delivery.reason.as_str(),
            detail: delivery.detail,
            attempts: delivery.attempts,
            count: delivery.count,
            handed_over_at: delivery.handed_over_at,
            recorded_at: delivery.recorded_at,
            reference: delivery.reference,
            started_at: delivery.started_at,
            await_until: delivery.await_until,
            report: delivery.report.filter(|report| !report.is_empty()),
            reported_at: delivery.reported_at,
        }
    }
}

/// A message of the outbox.
#[derive(Debug, Serialize)]
pub(super) struct OutboxAnswer {
    /// The trigger it was sent for.
    id: String,
    owner: String,
    handed_over_at: DateTime<Utc>,
    to: String,
    subject: String,
    text: String,
    /// The whole message as it would have left (RFC 5322).
    raw: String,
}

impl From<OutboxEntry> for OutboxAnswer {
    fn from(entry: OutboxEntry) -> Self {
        Self {
            id: entry.id.to_string(),
            owner: entry.owner.0,
            handed_over_at: entry.handed_over_at,
            to: entry.message.to,
            subject: entry.message.subject,
            text: entry.message.text,
            raw: entry.message.raw,
        }
    }
}

/// `GET /v1/history?owner=&event=&outcome=&since=&limit=&cursor=`, newest first.
pub(super) async fn list(
    State(shared): State<Shared>,
    caller: Caller,
    Asked(which): Asked<Which>,
) -> Result<Json<Page<DeliveryAnswer>>, Problem> {
    let limit = id::rows(which.limit.as_deref())?;
    let outcome = which.outcome.map(|outcome| outcome.parse()).transpose();
    let query = HistoryQuery {
        owner: caller.owner_if_any(which.owner)?,
        standalone: false,
        event_uid: which.event,
        outcome: outcome.map_err(Problem::bad_request)?,
        since: which.since.as_deref().map(id::instant).transpose()?,
        after: id::row_of(which.cursor.as_deref())?,
        limit: limit + 1,
        ..HistoryQuery::default()
    };
    let rows = shared.store.history(&query).await?;
    let (rows, next_cursor) = cut(rows, limit, |row| (row.recorded_at, row.id));
    let items = rows.into_iter().map(DeliveryAnswer::from).collect();
    Ok(Json(Page { items, next_cursor }))
}

/// `GET /v1/deliveries/{id}`: what became of one trigger.
pub(super) async fn delivery(
    State(shared): State<Shared>,
    caller: Caller,
    At(trigger): At<String>,
) -> Result<Json<DeliveryAnswer>, Problem> {
    let trigger: TriggerId = trigger.parse().map_err(Problem::bad_request)?;
    let delivery = shared.store.delivery(trigger).await?;
    let delivery = delivery.filter(|delivery| caller.sees(&delivery.wish.owner));
    let unknown = || {
        Problem::not_found(format!(
            "nothing is recorded of trigger `{trigger}`: it may still be planned"
        ))
    };
    delivery.map(|delivery| Json(delivery.into())).ok_or_else(unknown)
}

/// `GET /v1/outbox?owner=&limit=&cursor=`, newest first; a page to whoever prefers HTML.
pub(super) async fn outbox(
    State(shared): State<Shared>,
    caller: Caller,
    Asked(kept): Asked<Kept>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    let prefers_html = accept.is_some_and(|accept| accept.trim_start().starts_with("text/html"));
    let (entries, next_cursor) = kept_messages(&shared, &caller, kept).await?;
    if prefers_html {
        return Ok(page::outbox_page(entries, next_cursor).into_response());
    }
    let items = entries.into_iter().map(OutboxAnswer::from).collect();
    Ok(Json(Page { items, next_cursor }).into_response())
}

/// A page of the outbox, and the cursor of the next.
pub(super) async fn kept_messages(
    shared: &Shared,
    caller: &Caller,
    kept: Kept,
) -> Result<(Vec<OutboxEntry>, Option<String>), Problem> {
    let limit = id::rows(kept.limit.as_deref())?;
    let owner = caller.owner_if_any(kept.owner)?;
    let after = id::row_of(kept.cursor.as_deref())?;
    let entries = shared.store.outbox(owner.as_ref(), after, limit + 1).await?;
    Ok(cut(entries, limit, |entry| (entry.handed_over_at, entry.id)))
}

/// Cuts off the row beyond the page; where there was one, the cursor after the last that stays.
pub(super) fn cut<T>(
    mut rows: Vec<T>,
    limit: u32,
    place: impl Fn(&T) -> (DateTime<Utc>, TriggerId),
) -> (Vec<T>, Option<String>) {
    let limit = limit as usize;
    let has_more = rows.len() > limit;
    rows.truncate(limit);
    let last = rows.last().filter(|_| has_more).map(place);
    let next = last.map(|(instant, id)| id::cursor(instant, id));
    (rows, next)
}
