//! What is known of stand-alone alarms: lists, history, and what phrases mean.

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header;
use axum::response::IntoResponse;
use axum::response::Response;
use chrono::DateTime;
use chrono::Utc;
use serde::Deserialize;
use serde::Serialize;

use crate::calendar::phrase;
use crate::calendar::zone::Zone;
use crate::http::Shared;
use crate::http::alarms::OfOwner;
use crate::http::alarms::answer::AlarmAnswer;
use crate::http::alarms::asked_of;
use crate::http::alarms::etag;
use crate::http::alarms::named;
use crate::http::alarms::unknown;
use crate::http::caller::Caller;
use crate::http::history::Page;
use crate::http::history::cut;
use crate::http::id;
use crate::http::problem::Asked;
use crate::http::problem::At;
use crate::http::problem::Flaw;
use crate::http::problem::Problem;
use crate::store::AlarmQuery;
use crate::store::AlarmStatus;
use crate::store::Delivery;
use crate::store::HistoryQuery;
use crate::trigger::AlarmId;
use crate::trigger::State as TriggerState;
use crate::trigger::Trigger;
use crate::trigger::TriggerId;
use crate::trigger::outcome::Outcome;
use crate::trigger::outcome::Reason;

/// How a line begins that tells of a firing that is tried again.
const RETRY: &str = "RETRY:";

/// Which alarms.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct Which {
    owner: Option<String>,
    status: Option<String>,
    limit: Option<String>,
    cursor: Option<String>,
}

/// Which firings.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct Firings {
    owner: Option<String>,
    /// Of one alarm.
    alarm: Option<String>,
    /// Their outcome.
    status: Option<String>,
    /// Their way out.
    channel: Option<String>,
    /// What their alarms call.
    target: Option<String>,
    since: Option<String>,
    limit: Option<String>,
    cursor: Option<String>,
}

/// A firing that is over.
#[derive(Debug, Serialize)]
pub(in crate::http) struct FiringAnswer {
    alarm_id: String,
    trigger_id: String,
    channel: &'static str,
    scheduled_for: DateTime<Utc>,
    status: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    reason: &'static str,
    /// `ok`, or `FAILED: reason (after n attempts)`; absent while that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    detail: String,
    attempts: u32,
    /// How many firings this stands for.
    count: u64,
    /// When the first attempt began.
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at: Option<DateTime<Utc>>,
    /// When it was handed over, reported as done, or given up.
    #[serde(skip_serializing_if = "Option::is_none")]
    finished_at: Option<DateTime<Utc>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_ms: Option<i64>,
    recorded_at: DateTime<Utc>,
    /// What its target said of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    report: Option<String>,
}

/// An alarm, and how its firing under way is going.
#[derive(Debug, Serialize)]
struct Seen {
    #[serde(flatten)]
    alarm: AlarmAnswer,
    /// Attempts of that firing so far.
    attempts: u32,
    /// `RETRY: reason (attempt n/max)`, while it is tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<String>,
    /// When it is tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_at: Option<DateTime<Utc>>,
}

/// A phrase, and where it is read.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct Phrase {
    text: String,
    timezone: String,
}

/// What a phrase means.
#[derive(Debug, Serialize)]
pub(in crate::http) struct Meant {
    at: DateTime<Utc>,
    /// All that it may mean, where that is more than one.
    candidates: Vec<DateTime<Utc>>,
}

impl From<Delivery> for FiringAnswer {
    fn from(delivery: Delivery) -> Self {
        let started_at = delivery.first_started_at.or(delivery.started_at);
        let failed_at = Some(delivery.recorded_at).filter(|_| delivery.outcome == Outcome::Failed);
        let finished_at = delivery.reported_at.or(delivery.handed_over_at).or(failed_at);
        let duration = started_at
            .zip(finished_at)
            .map(|(from, to)| (to - from).num_milliseconds());
        Self {
            alarm_id: delivery.wish.alarm_id().map(|id| id.0).unwrap_or_default(),
            trigger_id: delivery.id.to_string(),
            channel: delivery.wish.channel.as_str(),
            scheduled_for: delivery.place.trigger_at,
            status: delivery.outcome.as_str(),
            reason: delivery.reason.as_str(),
            result: result(&delivery),
            detail: delivery.detail,
            attempts: delivery.attempts,
            count: delivery.count,
            started_at,
            finished_at,
            duration_ms: duration.filter(|it| *it >= 0),
            recorded_at: delivery.recorded_at,
            report: delivery.report.filter(|report| !report.is_empty()),
        }
    }
}

/// What came of a firing, in a line.
fn result(delivery: &Delivery) -> Option<String> {
    match delivery.outcome {
        Outcome::Sent | Outcome::Completed => Some("ok".to_owned()),
        // It is not over.
        Outcome::InDoubt if is_tried_again(delivery) => Some(delivery.detail.clone()),
        Outcome::Failed | Outcome::Expired | Outcome::InDoubt => {
            let said = delivery.report.as_deref().filter(|it| !it.is_empty());
            let said =
                said.or(Some(delivery.detail.as_str()).filter(|it| !it.is_empty() && !it.starts_with(RETRY)));
            let (why, attempts) = (said.unwrap_or(delivery.reason.as_str()), delivery.attempts);
            let times = if attempts == 1 { "attempt" } else { "attempts" };
            Some(format!("FAILED: {why} (after {attempts} {times})"))
        }
        _ => None,
    }
}

/// `GET /v1/alarms?owner=&status=&limit=&cursor=`, newest first.
pub(in crate::http) async fn list(
    State(shared): State<Shared>,
    caller: Caller,
    Asked(which): Asked<Which>,
) -> Result<Json<Page<AlarmAnswer>>, Problem> {
    let limit = id::rows(which.limit.as_deref())?;
    let after = id::row_of(which.cursor.as_deref())?;
    let query = AlarmQuery {
        owner: caller.owner(which.owner)?,
        status: status(which.status.as_deref())?,
        after: after.map(|(at, id)| (at, AlarmId(id.to_string()))),
        limit: limit + 1,
    };
    let rows = shared.store.alarms(&query).await?;
    let (rows, next_cursor) = cut(rows, limit, |row| {
        (row.created_at, row.id.0.parse().unwrap_or(TriggerId([0; 16])))
    });
    let items = rows.into_iter().map(AlarmAnswer::from).collect();
    Ok(Json(Page { items, next_cursor }))
}

/// `GET /v1/alarms/{id}?owner=…`.
pub(in crate::http) async fn read(
    State(shared): State<Shared>,
    caller: Caller,
    At(alarm): At<String>,
    Asked(of): Asked<OfOwner>,
) -> Result<Response, Problem> {
    let at = named(&caller, &alarm, of)?;
    let alarm = shared.store.alarm(&at.owner, &at.id).await?;
    let alarm = alarm.ok_or_else(|| unknown(&at))?;
    let group = shared.store.group(&at.owner, &at.id.as_event_uid()).await?;
    let triggers = group.map(|group| group.triggers).unwrap_or_default();
    let under_way = triggers.into_iter().find(|it| it.last_error.is_some());
    let tag = etag(&alarm);
    let seen = Seen {
        alarm: alarm.into(),
        attempts: under_way.as_ref().map_or(0, |it| it.attempts),
        retry_at: under_way
            .as_ref()
            .filter(|it| it.state != TriggerState::Sending)
            .map(|it| it.due_at),
        result: under_way.as_ref().and_then(again),
    };
    Ok(([(header::ETAG, tag)], Json(seen)).into_response())
}

/// Whether the last word on it is that of an attempt that is made again.
fn is_tried_again(delivery: &Delivery) -> bool {
    delivery.reason == Reason::ConnectionLost && delivery.detail.starts_with(RETRY)
}

/// Why a firing is tried again, in a line.
fn again(trigger: &Trigger) -> Option<String> {
    let error = trigger.last_error.as_deref()?;
    if error.starts_with(RETRY) {
        return Some(error.to_owned());
    }
    Some(format!("{RETRY} {error} (attempt {})", trigger.attempts))
}

/// `GET /v1/alarms/history?owner=&alarm=&status=&channel=&target=&since=&limit=&cursor=`, newest first.
pub(in crate::http) async fn history(
    State(shared): State<Shared>,
    caller: Caller,
    Asked(which): Asked<Firings>,
) -> Result<Json<Page<FiringAnswer>>, Problem> {
    let outcome = which.status.as_deref().map(str::parse).transpose();
    let of = HistoryQuery {
        outcome: outcome.map_err(Problem::bad_request)?,
        ..HistoryQuery::default()
    };
    firings(&shared, &caller, which, of).await
}

/// `GET /v1/alarms/failed?owner=&alarm=&channel=&target=&since=&limit=&cursor=`: firings that were not handed over as far as
/// anybody knows, newest first.
pub(in crate::http) async fn failed(
    State(shared): State<Shared>,
    caller: Caller,
    Asked(which): Asked<Firings>,
) -> Result<Json<Page<FiringAnswer>>, Problem> {
    if let Some(status) = &which.status {
        return Err(Problem::bad_request(format!(
            "`status={status}` is not for /v1/alarms/failed: use /v1/alarms/history?status={status}"
        )));
    }
    let of = HistoryQuery {
        failed: true,
        ..HistoryQuery::default()
    };
    firings(&shared, &caller, which, of).await
}

async fn firings(
    shared: &Shared,
    caller: &Caller,
    which: Firings,
    of: HistoryQuery,
) -> Result<Json<Page<FiringAnswer>>, Problem> {
    let limit = id::rows(which.limit.as_deref())?;
    let alarm = which.alarm.as_deref().map(str::parse::<AlarmId>).transpose();
    let alarm = alarm.map_err(Problem::bad_request)?;
    let channel = which.channel.as_deref().map(str::parse).transpose();
    let query = HistoryQuery {
        owner: Some(caller.owner(which.owner)?),
        standalone: true,
        event_uid: alarm.map(|alarm| alarm.as_event_uid()),
        channel: channel.map_err(Problem::bad_request)?,
        target: which.target,
        since: which.since.as_deref().map(id::instant).transpose()?,
        after: id::row_of(which.cursor.as_deref())?,
        limit: limit + 1,
        ..of
    };
    let rows = shared.store.history(&query).await?;
    let (rows, next_cursor) = cut(rows, limit, |row| (row.recorded_at, row.id));
    let items = rows.into_iter().map(FiringAnswer::from).collect();
    Ok(Json(Page { items, next_cursor }))
}

/// `POST /v1/parse-time`: what a phrase means in a zone.
pub(in crate::http) async fn parse_time(
    State(shared): State<Shared>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Meant>, Problem> {
    let phrase: Phrase = asked_of(&shared, &headers, body).await?;
    let wrong = |pointer: &str, detail| {
        let pointer = Some(pointer.to_owned());
        Problem::invalid(vec![Flaw {
            pointer,
            detail,
            ..Flaw::default()
        }])
    };
    let zone = Zone::iana(&phrase.timezone);
    let zone = zone.ok_or_else(|| {
        let name = &phrase.timezone;
        let detail = format!("unknown time zone `{name}`: use an IANA name such as Europe/Berlin");
        wrong("/timezone", detail)
    })?;
    let meaning = phrase::read(&phrase.text, shared.clock.now(), &zone);
    let meaning = meaning.map_err(|error| wrong("/text", error.to_string()))?;
    Ok(Json(Meant {
        at: meaning.at,
        candidates: meaning.candidates,
    }))
}

pub(super) fn status(status: Option<&str>) -> Result<Option<AlarmStatus>, Problem> {
    status.map(str::parse).transpose().map_err(Problem::bad_request)
}
