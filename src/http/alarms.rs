//! Stand-alone alarms: programs ask for them, alter them and call them off here.

mod answer;
mod asked;
mod bounds;
mod counting;
pub(super) mod feed;
mod reading;
mod times;

use axum::Json;
use axum::body::Body;
use axum::extract::Request;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::HeaderName;
use axum::http::HeaderValue;
use axum::http::StatusCode;
use axum::http::header;
use axum::response::IntoResponse;
use axum::response::Response;
use chrono::DateTime;
use chrono::TimeDelta;
use chrono::Utc;
use serde::Deserialize;
use serde::Serialize;

use self::answer::AlarmAnswer;
use self::asked::Given;
use super::Shared;
use super::body;
use super::caller::Caller;
use super::id;
use super::preferences::Flaws;
use super::problem::Asked;
use super::problem::At;
use super::problem::Flaw;
use super::problem::Problem;
use crate::change::alarm::AlarmPatch;
use crate::change::alarm::Order;
use crate::change::alarm::fresh_id;
use crate::store::AlarmAt;
use crate::store::AlarmRefusal;
use crate::store::Altered;
use crate::store::Owner;
use crate::store::Standalone;
use crate::trigger::AlarmId;
use crate::trigger::ChannelKind;
use crate::trigger::OwnerId;

pub use self::bounds::allow;
pub(super) use self::counting::count;
pub(super) use self::counting::stats;
pub(super) use self::feed::feed;
pub(super) use self::reading::failed;
pub(super) use self::reading::history;
pub(super) use self::reading::list;
pub(super) use self::reading::parse_time;
pub(super) use self::reading::read;

/// Bytes of a request at the most: a payload of 256 KiB, and what else there is to say.
const LARGEST: usize = 512 * 1024;

/// How long the `Idempotency-Key` of a request is good.
const REQUEST_KEY: TimeDelta = TimeDelta::hours(24);

/// How often a change is put to what it finds, where that is changed meanwhile and the caller minds no more.
const TRIES: u32 = 50;

/// `?owner=…`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OfOwner {
    owner: Option<String>,
}

/// An alarm that was asked for, and whether it was there before.
#[derive(Debug, Serialize)]
struct Created {
    #[serde(flatten)]
    alarm: AlarmAnswer,
    deduped: bool,
}

/// How many were called off.
#[derive(Debug, Serialize)]
pub(super) struct Reset {
    cancelled: u64,
}

/// `POST /v1/alarms`: creates one (201), or finds the one that was asked for before (200).
pub(super) async fn create(
    State(shared): State<Shared>,
    caller: Caller,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let mut wanted: asked::Wanted = asked_of(&shared, &headers, body).await?;
    let owner = owner_of(&shared, caller.owner(wanted.owner.take())?).await?;
    // Named or not, it is the same that is asked for.
    wanted.owner = Some(owner.id.0.clone());
    let now = shared.clock.now();
    let at = AlarmAt {
        owner: owner.id.clone(),
        id: fresh_id()?,
        key: wanted.idempotency_key.clone(),
        request: request_key(&headers)?.map(|key| (key, now - REQUEST_KEY)),
    };
    let request_hash = wanted.hash();
    let order = match wanted.read(&reading(&shared, &owner.time_zone, now)) {
        Ok(new) => Order::Create(Box::new(new)),
        // What was taken before is answered as it was then, though it is past or means something else by now.
        Err(problem) if at.key.is_some() || at.request.is_some() => {
            let find = Order::Find { request_hash };
            let altered = shared.changes.order_alarm(at.clone(), find, None).await?;
            return match altered.refusal {
                Some(AlarmRefusal::Unknown) => Err(problem),
                _ => created(altered, &at),
            };
        }
        Err(problem) => return Err(problem),
    };
    let altered = shared.changes.order_alarm(at.clone(), order, None).await?;
    created(altered, &at)
}

fn created(altered: Altered, at: &AlarmAt) -> Result<Response, Problem> {
    let deduped = altered.existed;
    let alarm = taken(altered, at)?;
    let status = if deduped {
        StatusCode::OK
    } else {
        StatusCode::CREATED
    };
    let (etag, alarm) = (etag(&alarm), alarm.into());
    Ok((status, [(header::ETAG, etag)], Json(Created { alarm, deduped })).into_response())
}

/// `PATCH /v1/alarms/{id}?owner=…`: what is left out stays.
pub(super) async fn patch(
    State(shared): State<Shared>,
    caller: Caller,
    At(alarm): At<String>,
    Asked(of): Asked<OfOwner>,
    request: Request,
) -> Result<Response, Problem> {
    let at = named(&caller, &alarm, of)?;
    let (parts, body) = request.into_parts();
    let body = bytes_of(&shared, &parts.headers, body).await?;
    let seen = seen(&parts.headers)?;
    let mut tries = 0;
    loop {
        let stored = shared.store.alarm(&at.owner, &at.id).await?;
        let stored = stored.ok_or_else(|| unknown(&at))?;
        let owner = owner_of(&shared, at.owner.clone()).await?;
        let zone = stored.terms.time_zone.as_deref().unwrap_or(&owner.time_zone);
        let reading = reading(&shared, zone, shared.clock.now());
        let patch = patch_of(body::json(&body)?, &stored, &reading)?;
        // It holds of what was read.
        let read = seen.clone().or_else(|| Some(vec![stored.updated_at]));
        let order = Order::Patch(Box::new(patch));
        let altered = shared.changes.order_alarm(at.clone(), order, read).await?;
        tries += 1;
        let is_overtaken = altered.refusal == Some(AlarmRefusal::Changed) && seen.is_none();
        if is_overtaken && tries >= TRIES {
            let cure = "others change the alarm all the time: try again";
            return Err(Problem::conflict(cure));
        }
        if !is_overtaken {
            let alarm = taken(altered, &at)?;
            return Ok(([(header::ETAG, etag(&alarm))], Json(AlarmAnswer::from(alarm))).into_response());
        }
    }
}

/// `DELETE /v1/alarms/{id}?owner=…`: calls it off. Asked for again, it is answered the same.
pub(super) async fn cancel(
    State(shared): State<Shared>,
    caller: Caller,
    At(alarm): At<String>,
    Asked(of): Asked<OfOwner>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    order(
        &shared,
        named(&caller, &alarm, of)?,
        Order::Cancel,
        seen(&headers)?,
    )
    .await
}

/// `POST /v1/alarms/{id}/{verb}?owner=…`: `pause`, `resume`, and `run`, which fires now.
pub(super) async fn act(
    State(shared): State<Shared>,
    caller: Caller,
    At((alarm, verb)): At<(String, String)>,
    Asked(of): Asked<OfOwner>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let what = match verb.as_str() {
        "pause" => Order::Pause,
        "resume" => Order::Resume,
        "run" => Order::Run,
        "cancel" => Order::Cancel,
        _ => {
            let cure = format!("an alarm does not take `{verb}`: use pause, resume, run or cancel");
            return Err(Problem::not_found(cure));
        }
    };
    order(&shared, named(&caller, &alarm, of)?, what, seen(&headers)?).await
}

/// `POST /v1/alarms/reset?owner=…`: calls off all that are active.
pub(super) async fn reset(
    State(shared): State<Shared>,
    caller: Caller,
    Asked(of): Asked<OfOwner>,
) -> Result<Json<Reset>, Problem> {
    let owner = owner_of(&shared, caller.owner(of.owner)?).await?;
    let cancelled = shared.changes.reset_alarms(&owner.id).await?;
    Ok(Json(Reset { cancelled }))
}

async fn order(
    shared: &Shared,
    at: AlarmAt,
    what: Order,
    seen: Option<Vec<DateTime<Utc>>>,
) -> Result<Response, Problem> {
    let altered = shared.changes.order_alarm(at.clone(), what, seen).await;
    let altered = altered.map_err(|error| match error {
        // Whoever has no alarm here learns no more of an owner.
        crate::store::StoreError::UnknownOwner(_) => unknown(&at),
        other => other.into(),
    })?;
    let alarm = taken(altered, &at)?;
    let etag = etag(&alarm);
    Ok(([(header::ETAG, etag)], Json(AlarmAnswer::from(alarm))).into_response())
}

/// What is to be different, or everything that is wrong with it.
fn patch_of(
    mut changes: asked::Changes,
    stored: &Standalone,
    reading: &times::Reading<'_>,
) -> Result<AlarmPatch, Problem> {
    let mut flaws = Flaws::default();
    let mut terms = stored.terms.clone();
    let when = times::when(changes.times(), &mut terms, reading, &mut flaws);
    let past = flaws.check("/past".to_owned(), bounds::past(changes.past.as_deref()));
    let channel = changes.channel.as_deref().map(str::parse::<ChannelKind>);
    let channel = flaws.check("/channel".to_owned(), channel.unwrap_or(Ok(stored.channel)));
    terms.label = changes.label.or(Some(terms.label)).unwrap_or_default();
    terms.wake_message = changes
        .wake_message
        .or(Some(terms.wake_message))
        .unwrap_or_default();
    terms.target = changes.target.or(terms.target);
    terms.conversation_id = changes.conversation_id.or(terms.conversation_id);
    terms.backoff_ms = changes.backoff_ms.or(terms.backoff_ms);
    terms.dispatch_timeout_ms = changes.dispatch_timeout_ms.or(terms.dispatch_timeout_ms);
    if let Given::Value(retries) = changes.max_retries {
        let attempts = flaws.check("/max_retries".to_owned(), bounds::attempts(retries, None));
        terms.attempts = attempts.flatten();
    }
    if let Given::Value(end) = changes.expires_at {
        let end = end.as_deref().map(bounds::end).transpose();
        terms.expires_at = flaws.check("/expires_at".to_owned(), end).flatten();
    }
    bounds::check(
        &terms,
        channel.unwrap_or(stored.channel),
        reading.targets,
        &mut flaws,
    );
    let payload = match changes.payload {
        Given::Nothing => stored.payload.clone(),
        Given::Value(payload) => payload.map(|payload| String::from(Box::<str>::from(payload))),
    };
    flaws.check("/payload".to_owned(), bounds::small(payload.as_deref()));
    let (Some(past), Some(channel), true) = (past, channel, flaws.0.is_empty()) else {
        return Err(Problem::invalid(flaws.0));
    };
    Ok(AlarmPatch {
        when,
        past,
        channel,
        terms,
        payload,
    })
}

async fn asked_of<T: serde::de::DeserializeOwned>(
    shared: &Shared,
    headers: &HeaderMap,
    body: Body,
) -> Result<T, Problem> {
    body::json(&bytes_of(shared, headers, body).await?)
}

async fn bytes_of(shared: &Shared, headers: &HeaderMap, body: Body) -> Result<Vec<u8>, Problem> {
    body::expect_type(
        headers,
        &["application/json"],
        "with curl use --json, or -H 'content-type: application/json'",
    )?;
    body::Arriving::new(body, headers, LARGEST, shared)?.whole().await
}

fn reading<'a>(shared: &'a Shared, zone: &'a str, now: DateTime<Utc>) -> times::Reading<'a> {
    times::Reading {
        zone,
        now,
        targets: shared.webhooks.as_ref(),
    }
}

async fn owner_of(shared: &Shared, id: OwnerId) -> Result<Owner, Problem> {
    let owner = shared.store.owner(&id).await?;
    owner.ok_or_else(|| crate::store::StoreError::UnknownOwner(id).into())
}

fn named(caller: &Caller, alarm: &str, of: OfOwner) -> Result<AlarmAt, Problem> {
    let owner = caller.owner(of.owner)?;
    let no_such = || Problem::not_found(format!("owner `{owner}` has no alarm `{alarm}`"));
    let id: AlarmId = alarm.parse().map_err(|_| no_such())?;
    Ok(AlarmAt {
        owner: owner.clone(),
        id,
        key: None,
        request: None,
    })
}

fn unknown(at: &AlarmAt) -> Problem {
    Problem::not_found(format!("owner `{}` has no alarm `{}`", at.owner, at.id))
}

/// The alarm as it is now, or why it is not as was asked.
fn taken(altered: Altered, at: &AlarmAt) -> Result<Standalone, Problem> {
    match altered.refusal {
        None => altered.alarm.ok_or_else(|| unknown(at)),
        Some(AlarmRefusal::Unknown) => Err(unknown(at)),
        Some(AlarmRefusal::Changed) => Err(Problem::new(
            StatusCode::PRECONDITION_FAILED,
            "precondition-failed",
            "the alarm was changed meanwhile: read it again, and try with its new ETag",
        )),
        Some(AlarmRefusal::Conflict(reason)) => Err(Problem::conflict(&reason)),
        Some(AlarmRefusal::Invalid(pointer, detail)) => Err(Problem::invalid(vec![Flaw {
            pointer: Some(pointer.to_owned()),
            detail,
            ..Flaw::default()
        }])),
        Some(AlarmRefusal::OtherContent(name)) => Err(Problem::invalid(vec![Flaw {
            pointer: (name == "idempotency_key").then(|| "/idempotency_key".to_owned()),
            detail: format!(
                "another alarm was asked for with this {name}: send the same body again, or use a new one"
            ),
            ..Flaw::default()
        }])),
    }
}

/// Of what it was when it was last written.
fn etag(alarm: &Standalone) -> HeaderValue {
    let tag = format!("\"{:x}\"", alarm.updated_at.timestamp_millis());
    HeaderValue::try_from(tag).expect("digits are ASCII")
}

/// The instants of the `If-Match` of a request; none where any will do. A weak ETag matches nothing (RFC 9110, 13.1.1).
fn seen(headers: &HeaderMap) -> Result<Option<Vec<DateTime<Utc>>>, Problem> {
    let Some(tags) = headers.get(header::IF_MATCH) else {
        return Ok(None);
    };
    let tags = tags.to_str().unwrap_or("?").trim();
    if tags == "*" {
        return Ok(None);
    }
    let mut seen = Vec::new();
    for tag in tags.split(',').map(str::trim) {
        let is_quoted = tag.len() > 2 && tag.ends_with('"');
        if is_quoted && tag.starts_with("W/\"") {
            continue;
        }
        let digits = tag.trim_matches('"');
        let at = i64::from_str_radix(digits, 16).ok();
        let at = at.and_then(DateTime::from_timestamp_millis);
        seen.push(at.ok_or_else(|| {
            Problem::bad_request(format!(
                "`If-Match: {tag}` is no ETag of an alarm: use one as it is"
            ))
        })?);
    }
    Ok(Some(seen))
}

/// The `Idempotency-Key` of a request.
fn request_key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let Some(key) = headers.get(HeaderName::from_static("idempotency-key")) else {
        return Ok(None);
    };
    let unfit = || Problem::bad_request("the Idempotency-Key holds what is not ASCII");
    let key = key.to_str().map_err(|_| unfit())?;
    Ok(Some(id::checked("Idempotency-Key", key.to_owned())?))
}
