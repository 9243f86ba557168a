//! What happens to stand-alone alarms, as it happens: server-sent events, which a caller resumes after the last one it saw.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::HeaderName;
use axum::http::HeaderValue;
use axum::http::StatusCode;
use axum::http::header;
use axum::http::request::Parts;
use axum::response::IntoResponse;
use axum::response::Response;
use chrono::DateTime;
use chrono::Utc;
use serde::Deserialize;
use serde::Serialize;
use tokio::sync::OwnedSemaphorePermit;

use crate::feed::Follower;
use crate::feed::Refusal;
use crate::http::Shared;
use crate::http::alarms::owner_of;
use crate::http::caller::Caller;
use crate::http::problem::Asked;
use crate::http::problem::Problem;
use crate::store::AlarmChange;
use crate::store::token::Scope;

/// How often a caller is shown that the connection lives, and is looked at again whether it may still follow.
pub(in crate::http) const HEARTBEAT: Duration = Duration::from_secs(10);

/// How soon a browser comes back, in milliseconds.
const RETRY: u32 = 1_000;

/// Whose alarms, and from where on.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct Followed {
    owner: Option<String>,
    after: Option<String>,
    /// `false`: only what there is by now.
    wait: Option<String>,
}

/// Something that happened.
#[derive(Debug, Serialize)]
pub(in crate::http) struct ChangeAnswer<'a> {
    /// Counts what happens to the alarms of an owner, without a gap.
    id: u64,
    r#type: &'a str,
    at: DateTime<Utc>,
    alarm_id: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    label: &'a str,
    channel: &'static str,
    #[serde(flatten)]
    firing: Option<FiringAnswer<'a>>,
}

/// What it happened to, if to a firing.
#[derive(Debug, Serialize)]
struct FiringAnswer<'a> {
    trigger_id: String,
    scheduled_for: DateTime<Utc>,
    attempts: u32,
    #[serde(skip_serializing_if = "str::is_empty")]
    detail: &'a str,
}

impl<'a> From<&'a AlarmChange> for ChangeAnswer<'a> {
    fn from(change: &'a AlarmChange) -> Self {
        Self {
            id: change.number,
            r#type: &change.what,
            at: change.at,
            alarm_id: &change.alarm_id,
            label: &change.label,
            channel: change.channel.as_str(),
            firing: change.firing.as_ref().map(|firing| FiringAnswer {
                trigger_id: firing.trigger_id.to_string(),
                scheduled_for: firing.scheduled_for,
                attempts: firing.attempts,
                detail: &firing.detail,
            }),
        }
    }
}

/// Somebody who is told, until they may not be any more.
struct Listener {
    shared: Shared,
    follower: Follower,
    /// The request, by which is looked again at who calls.
    parts: Parts,
    /// When that was last done.
    admitted: Duration,
    /// Whether what comes later is waited for.
    waits: bool,
    /// What is told first.
    greeting: Option<String>,
    _place: OwnedSemaphorePermit,
}

/// `GET /v1/alarms/feed?owner=&after=&wait=`: what happens after that number, or after the header `Last-Event-ID`, which a
/// browser sends when it comes back; from now on without either.
pub(in crate::http) async fn feed(
    State(shared): State<Shared>,
    caller: Caller,
    Asked(asked): Asked<Followed>,
    request: Request,
) -> Result<Response, Problem> {
    let (parts, _) = request.into_parts();
    let after = after(asked.after.as_deref(), &parts.headers)?;
    let waits = waits(asked.wait.as_deref())?;
    let place = shared.feed.place().map_err(refused)?;
    let follower = follow(&shared, &caller, asked.owner, after).await?;
    let listener = Listener {
        greeting: Some(format!("retry: {RETRY}\nid: {}\n\n", follower.seen())),
        admitted: shared.clock.elapsed(),
        waits,
        shared,
        follower,
        parts,
        _place: place,
    };
    let told = futures_util::stream::unfold(listener, Listener::tell);
    let headers = [
        (
            header::CONTENT_TYPE,
            HeaderValue::from_static("text/event-stream"),
        ),
        // Proxies that would collect it pass it on.
        (
            HeaderName::from_static("x-accel-buffering"),
            HeaderValue::from_static("no"),
        ),
    ];
    Ok((headers, Body::from_stream(told)).into_response())
}

/// Follows the alarms of an owner whose things the caller may see.
pub(in crate::http) async fn follow(
    shared: &Shared,
    caller: &Caller,
    owner: Option<String>,
    after: Option<u64>,
) -> Result<Follower, Problem> {
    let owner = owner_of(shared, caller.owner(owner)?).await?;
    let follower = shared.feed.follow(&owner.id, after).await;
    follower.map_err(refused)
}

/// Why somebody may not follow.
pub(in crate::http) fn refused(refusal: Refusal) -> Problem {
    match refusal {
        Refusal::Full(most) => {
            let detail = format!(
                "{most} callers follow alarms here, and no more may: try again later, or on another node"
            );
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "too-many-followers", detail)
        }
        Refusal::Gone(last) => {
            let detail = format!(
                "what comes after that number is not known here: read the alarms anew, and follow them after {last}"
            );
            Problem::new(StatusCode::GONE, "gone", detail)
        }
        Refusal::Failed(error) => error.into(),
    }
}

/// From where on. A browser that comes back asks for what it asked for at first, and says in the header what it has seen.
fn after(asked: Option<&str>, headers: &HeaderMap) -> Result<Option<u64>, Problem> {
    let seen = headers.get(HeaderName::from_static("last-event-id"));
    let seen = seen.map(|seen| ("Last-Event-ID", seen.to_str().unwrap_or("?").trim()));
    let Some((name, number)) = seen.or(asked.map(|asked| ("after", asked))) else {
        return Ok(None);
    };
    number.parse().map(Some).map_err(|_| {
        Problem::bad_request(format!(
            "`{name}: {number}` is no number of a change: use the `id` of the last one that you saw, or 0 for all that is kept"
        ))
    })
}

/// Whether the caller stays for what comes later; goes without saying.
fn waits(asked: Option<&str>) -> Result<bool, Problem> {
    match asked {
        None | Some("true") => Ok(true),
        Some("false") => Ok(false),
        Some(other) => Err(Problem::bad_request(format!(
            "`wait={other}`: use false for what there is by now alone, or true"
        ))),
    }
}

impl Listener {
    /// What is told next; nothing more where this node drains, what comes next is gone, or the caller may not be told.
    async fn tell(mut self) -> Option<(Result<String, std::convert::Infallible>, Self)> {
        if let Some(greeting) = self.greeting.take() {
            return Some((Ok(greeting), self));
        }
        if !self.waits {
            let rest = self.follower.rest().await.ok().filter(|rest| !rest.is_empty())?;
            return Some((Ok(frames(&rest)), self));
        }
        let clock = Arc::clone(&self.shared.clock);
        let silent = HEARTBEAT.saturating_sub(clock.elapsed().saturating_sub(self.admitted));
        let told = tokio::select! {
            changes = self.follower.next() => match changes {
                Ok(changes) => frames(&changes),
                Err(end) => {
                    tracing::debug!(?end, "a caller is told no more of alarms");
                    return None;
                }
            },
            () = clock.sleep(silent) => String::new(),
        };
        if clock.elapsed().saturating_sub(self.admitted) < HEARTBEAT {
            return Some((Ok(told), self));
        }
        self.shared.guard.admit(&self.parts, Scope::Read).await.ok()?;
        self.admitted = clock.elapsed();
        let told = if told.is_empty() { ":\n\n".to_owned() } else { told };
        Some((Ok(told), self))
    }
}

fn frames(changes: &[Arc<AlarmChange>]) -> String {
    let mut frames = String::new();
    for change in changes {
        let data = serde_json::to_string(&ChangeAnswer::from(&**change));
        let data = data.expect("what is answered has names for keys");
        write!(frames, "id: {}\ndata: {data}\n\n", change.number).expect("a string takes every text");
    }
    frames
}
