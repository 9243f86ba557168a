//! One event at a time: put it, delete it, read it, and see what is planned for it.

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::HeaderValue;
use axum::http::header;
use axum::response::IntoResponse;
use axum::response::Response;
use chrono::DateTime;
use chrono::Utc;
use serde::Deserialize;
use serde::Serialize;

use super::Shared;
use super::body;
use super::caller::Caller;
use super::id;
use super::problem::Asked;
use super::problem::At;
use super::problem::Problem;
use crate::change::Answer;
use crate::change::ChangeResult;
use crate::change::Incoming;
use crate::store::EventCopy;
use crate::store::EventKey;
use crate::store::Version;
use crate::trigger::OwnerId;
use crate::trigger::Trigger;

/// Triggers that the answer to a change shows at the most.
const SHOWN: usize = 10;

/// Copies deleted in one transaction where every owner's goes.
const HOLDERS: u32 = 500;

/// `?owner=…&version=…`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Of {
    owner: Option<String>,
    version: Option<String>,
}

/// `?owner=…`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OfOwner {
    owner: Option<String>,
}

/// What became of a change.
#[derive(Debug, Serialize)]
pub(super) struct Taken {
    /// `applied`, `unchanged` or `stale`.
    result: &'static str,
    /// Triggers planned by it.
    planned: usize,
    /// Triggers withdrawn by it.
    withdrawn: usize,
    /// What was read leniently, which alarms will not fire and why.
    warnings: Vec<String>,
    /// The next triggers that are planned for it now, earliest first; told of a change that comes alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<Vec<Planned>>,
}

impl Default for Taken {
    fn default() -> Self {
        Self {
            result: "unchanged",
            planned: 0,
            withdrawn: 0,
            warnings: Vec::new(),
            next: None,
        }
    }
}

impl Taken {
    /// Adds what became of further changes; the first problem among them ends it.
    fn add(&mut self, answers: Vec<Answer>) -> Result<(), Problem> {
        for answer in answers {
            self.result = match (answer.result, self.result) {
                (ChangeResult::Rejected(complaints), _) => return Err(Problem::rejected(&complaints)),
                (ChangeResult::Conflict(reason), _) => return Err(Problem::conflict(&reason)),
                (ChangeResult::Applied, _) | (_, "applied") => "applied",
                (ChangeResult::Stale, _) | (_, "stale") => "stale",
                (ChangeResult::Unchanged, _) => "unchanged",
            };
            self.planned += answer.planned;
            self.withdrawn += answer.withdrawn;
            self.warnings.extend(answer.warnings);
        }
        Ok(())
    }
}

/// A trigger that is owed.
#[derive(Debug, Serialize)]
pub(super) struct Planned {
    id: String,
    state: &'static str,
    /// The instant that was promised.
    trigger_at: DateTime<Utc>,
    /// When it is fired: later than promised while it is retried.
    due_at: DateTime<Utc>,
    /// When it is too late.
    expires_at: DateTime<Utc>,
    /// The occurrence, named by its RECURRENCE-ID instant.
    occurrence: DateTime<Utc>,
    /// 0 for the first firing of an alarm, then 1, 2 …
    repeat: u16,
    /// Which alarm of the event.
    alarm: String,
    channel: &'static str,
    recipient: String,
    /// Attempts that counted so far.
    attempts: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_error: Option<String>,
}

impl From<Trigger> for Planned {
    fn from(trigger: Trigger) -> Self {
        Self {
            id: trigger.id.to_string(),
            state: trigger.state.as_str(),
            trigger_at: trigger.place.trigger_at,
            due_at: trigger.due_at,
            expires_at: trigger.expires_at,
            occurrence: trigger.place.occurrence,
            repeat: trigger.place.repeat,
            alarm: trigger.wish.identity.0,
            channel: trigger.wish.channel.as_str(),
            recipient: trigger.wish.recipient.to_string(),
            attempts: trigger.attempts,
            last_error: trigger.last_error,
        }
    }
}

/// A stored copy.
#[derive(Debug, Serialize)]
pub(super) struct Stored {
    source: String,
    key: String,
    owner: String,
    uid: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    /// Why it is set aside, if it cannot be followed.
    #[serde(skip_serializing_if = "Option::is_none")]
    quarantine: Option<String>,
    changed_at: DateTime<Utc>,
    ics: String,
}

/// What is planned for an event.
#[derive(Debug, Serialize)]
pub(super) struct PlannedAnswer {
    uid: String,
    triggers: Vec<Planned>,
}

/// `PUT /v1/sources/{source}/events/{key}?owner=…&version=…` with iCalendar as it is.
pub(super) async fn put(
    State(shared): State<Shared>,
    At((source, key)): At<(String, String)>,
    Asked(of): Asked<Of>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Taken>, Problem> {
    let missing = "`owner` is missing: say whose event it is with ?owner=…";
    let owner = of.owner.ok_or_else(|| Problem::bad_request(missing))?;
    let at = event_key(source, key, OwnerId(id::checked("owner", owner)?))?;
    let version = version(of.version)?;
    body::expect_type(
        &headers,
        &["text/calendar"],
        "with curl use -H 'content-type: text/calendar'",
    )?;
    let limit = shared.limits.event_bytes;
    let ics = body::Arriving::new(body, &headers, limit, &shared)?
        .whole()
        .await?;
    let incoming = Incoming {
        at: at.clone(),
        version,
        ics: Some(ics),
    };
    let answers = apply(&shared, vec![incoming]).await?;
    let mut taken = taken(answers)?;
    let mut next = planned(&shared, &at)
        .await?
        .map(|answer| answer.triggers)
        .unwrap_or_default();
    next.truncate(SHOWN);
    taken.next = Some(next);
    Ok(Json(taken))
}

/// `DELETE /v1/sources/{source}/events/{key}?owner=…&version=…`; without an owner, every owner's copy.
pub(super) async fn delete(
    State(shared): State<Shared>,
    At((source, key)): At<(String, String)>,
    Asked(of): Asked<Of>,
) -> Result<Json<Taken>, Problem> {
    let version = version(of.version)?;
    if let Some(owner) = of.owner {
        let at = event_key(source, key, OwnerId(id::checked("owner", owner)?))?;
        let answers = apply(
            &shared,
            vec![Incoming {
                at,
                version,
                ics: None,
            }],
        )
        .await?;
        return taken(answers).map(Json);
    }
    let (source, key) = (id::checked("source", source)?, id::checked("key", key)?);
    delete_copies(&shared, &source, &key, version).await.map(Json)
}

/// `GET /v1/sources/{source}/events/{key}?owner=…`: as JSON, or the bare iCalendar to whoever accepts `text/calendar`.
pub(super) async fn read(
    State(shared): State<Shared>,
    caller: Caller,
    At((source, key)): At<(String, String)>,
    Asked(of): Asked<OfOwner>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let at = event_key(source, key, caller.owner(of.owner)?)?;
    let copy = copy_of(&shared, &at).await?.ok_or_else(|| unknown(&at))?;
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    if accept.is_some_and(|accept| accept.contains("text/calendar")) {
        let calendar = HeaderValue::from_static("text/calendar; charset=utf-8");
        return Ok(([(header::CONTENT_TYPE, calendar)], copy.ics).into_response());
    }
    let stored = Stored {
        source: copy.at.source,
        key: copy.at.key,
        owner: copy.at.owner.0,
        uid: copy.uid,
        version: copy.version.map(|version| version.0),
        quarantine: copy.quarantine,
        changed_at: copy.changed_at,
        ics: copy.ics,
    };
    Ok(Json(stored).into_response())
}

/// `GET /v1/sources/{source}/events/{key}/triggers?owner=…`.
pub(super) async fn triggers(
    State(shared): State<Shared>,
    caller: Caller,
    At((source, key)): At<(String, String)>,
    Asked(of): Asked<OfOwner>,
) -> Result<Json<PlannedAnswer>, Problem> {
    let at = event_key(source, key, caller.owner(of.owner)?)?;
    let answer = planned(&shared, &at).await?;
    answer.map(Json).ok_or_else(|| unknown(&at))
}

/// Deletes every owner's copy.
pub(super) async fn delete_copies(
    shared: &Shared,
    source: &str,
    key: &str,
    version: Option<Version>,
) -> Result<Taken, Problem> {
    let deletion = |owner: OwnerId| Incoming {
        at: EventKey {
            source: source.to_owned(),
            key: key.to_owned(),
            owner,
        },
        version: version.clone(),
        ics: None,
    };
    let mut sum = Taken::default();
    let mut after = None;
    loop {
        let holders = shared.store.holders(source, key, after.as_ref(), HOLDERS).await?;
        after = holders.last().cloned();
        let changes = holders.into_iter().map(deletion).collect();
        sum.add(apply(shared, changes).await?)?;
        if after.is_none() {
            return Ok(sum);
        }
    }
}

/// Applies changes and counts them.
pub(super) async fn apply(shared: &Shared, changes: Vec<Incoming>) -> Result<Vec<Answer>, Problem> {
    let sources: Vec<String> = changes.iter().map(|change| change.at.source.clone()).collect();
    let answers = shared.changes.apply(changes).await?;
    for (source, answer) in sources.iter().zip(&answers) {
        shared.metrics.changed(source, &answer.result);
    }
    Ok(answers)
}

/// A version as callers give it.
pub(super) fn version(version: Option<String>) -> Result<Option<Version>, Problem> {
    let version = version
        .map(|version| id::checked("version", version))
        .transpose()?;
    Ok(version.map(Version))
}

fn event_key(source: String, key: String, owner: OwnerId) -> Result<EventKey, Problem> {
    Ok(EventKey {
        source: id::checked("source", source)?,
        key: id::checked("key", key)?,
        owner,
    })
}

/// The answer to one request from the answers to its changes: the first problem, else their sum.
pub(super) fn taken(answers: Vec<Answer>) -> Result<Taken, Problem> {
    let mut taken = Taken::default();
    taken.add(answers)?;
    Ok(taken)
}

async fn copy_of(shared: &Shared, at: &EventKey) -> Result<Option<EventCopy>, Problem> {
    let copy = shared.store.copy(at).await?;
    Ok(copy.filter(|copy| copy.deleted_at.is_none()))
}

/// What is planned for the event of this copy, earliest first; none if there is no such copy.
async fn planned(shared: &Shared, at: &EventKey) -> Result<Option<PlannedAnswer>, Problem> {
    let Some(copy) = copy_of(shared, at).await? else {
        return Ok(None);
    };
    let group = shared.store.group(&at.owner, &copy.uid).await?;
    let mut triggers = group.map(|group| group.triggers).unwrap_or_default();
    triggers.retain(|trigger| !trigger.withdrawn);
    triggers.sort_by_key(|trigger| (trigger.due_at, trigger.id.0));
    Ok(Some(PlannedAnswer {
        uid: copy.uid,
        triggers: triggers.into_iter().map(Planned::from).collect(),
    }))
}

fn unknown(at: &EventKey) -> Problem {
    Problem::not_found(format!(
        "`{}` has no event `{}` of source `{}`",
        at.owner, at.key, at.source
    ))
}
