//! Answers from the message itself: the owner follows a link of their mail to a small page, and its form acts.
//!
//! Following the link changes nothing, however often and by whom: mail scanners and previews follow every link. The form
//! carries a key that only the page has, so that a bare POST to the link does nothing either. The token in the link is the
//! right to answer, and for that reminder's event alone; it lasts as long as the reminder is in the history.

use axum::extract::Request;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::HeaderValue;
use axum::http::StatusCode;
use axum::http::Uri;
use axum::http::header;
use axum::response::Html;
use axum::response::IntoResponse;
use axum::response::Response;
use url::form_urlencoded;

use super::Shared;
use super::body;
use super::problem::At;
use super::problem::Problem;
use super::reports;
use crate::calendar::event::Occurrence;
use crate::calendar::zone::Zone;
use crate::change::Answered;
use crate::delivery::message::AnswerPage;
use crate::delivery::message::Said;
use crate::delivery::reminder;
use crate::store::Delivery;
use crate::store::Owner;
use crate::token::Purpose;
use crate::trigger::Recipient;
use crate::trigger::TriggerId;
use crate::trigger::answers::Act;
use crate::trigger::answers::Refusal;
use crate::trigger::answers::Wait;

/// Bytes of a form at the most.
const LARGEST: usize = 4 * 1024;

/// As for all pages, but that the form may be sent to us.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'self'; \
                      frame-ancestors 'none'";

/// What a link leads to.
struct Opened {
    delivery: Delivery,
    owner: Owner,
    /// What its token is good for.
    purpose: Purpose<'static>,
    /// What the form must give back.
    key: String,
}

/// `GET /answer/{trigger}/{token}?act=…`: shows what can be done, and does nothing.
pub(super) async fn show(
    State(shared): State<Shared>,
    At((id, token)): At<(String, String)>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let Some(opened) = open(&shared, &id, &token).await? else {
        return gone(&shared, &headers);
    };
    let answered = answered(&shared, &opened).await?;
    let chosen = field(uri.query().unwrap_or_default().as_bytes(), "act");
    let chosen = chosen.as_deref().and_then(Act::named);
    page(&shared, &opened, answered.as_ref(), (None, chosen))
}

/// `POST /answer/{trigger}/{token}` with the form of the page. The same again is answered the same.
pub(super) async fn act(
    State(shared): State<Shared>,
    At((id, token)): At<(String, String)>,
    request: Request,
) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    let Some(opened) = open(&shared, &id, &token).await? else {
        return gone(&shared, &parts.headers);
    };
    own_page(&shared, &parts.headers)?;
    let form = body::Arriving::new(body, &parts.headers, LARGEST, &shared)?
        .whole()
        .await?;
    let act = field(&form, "act");
    let act = act.as_deref().and_then(Act::named);
    let has_key = field(&form, "key").is_some_and(|key| {
        let form = form_of(&opened.delivery.id.to_string());
        shared
            .tokens
            .check(&form, opened.purpose, &key, shared.clock.now())
    });
    let (Some(act), true) = (act, has_key) else {
        return Err(Problem::bad_request(
            "open the link of the message, and press one of the buttons of its page",
        ));
    };
    let Delivery { wish, .. } = &opened.delivery;
    let done = shared
        .changes
        .act(&wish.owner, &wish.event_uid, (act, &opened.delivery))
        .await?;
    match done {
        None => page(&shared, &opened, None, (None, None)),
        Some(Ok(answered)) => {
            tracing::info!(trigger.id = %opened.delivery.id, event.uid = %wish.event_uid, act = act.as_str(), "a reminder was answered");
            let until = answered.answers().snooze_of(&wish.identity.0);
            let said = Said::Done(act, until.map(|snooze| snooze.trigger_at));
            page(&shared, &opened, Some(&answered), (Some(said), None))
        }
        Some(Err(refusal)) => {
            let answered = self::answered(&shared, &opened).await?;
            let said = match refusal {
                Refusal::Started => Said::Started,
                Refusal::Gone => Said::Gone,
            };
            page(&shared, &opened, answered.as_ref(), (Some(said), None))
        }
    }
}

/// What the token opens: a reminder that its owner got themselves. None whatever is wrong with the link.
async fn open(shared: &Shared, id: &str, token: &str) -> Result<Option<Opened>, Problem> {
    let Ok(trigger) = id.parse::<TriggerId>() else {
        return Ok(None);
    };
    let id = trigger.to_string();
    let Some(purpose) = reports::answering(shared, trigger, token).await? else {
        return Ok(None);
    };
    let delivery = shared.store.delivery(trigger).await?;
    let Some(delivery) = delivery.filter(|it| it.wish.recipient == Recipient::Owner) else {
        return Ok(None);
    };
    let owner = shared.store.owner(&delivery.wish.owner).await?;
    Ok(owner.map(|owner| Opened {
        delivery,
        owner,
        purpose,
        key: shared.tokens.token(&form_of(&id), purpose),
    }))
}

/// What the key of the form is a token for; no trigger has such an id.
fn form_of(id: &str) -> String {
    format!("form of {id}")
}

async fn answered(shared: &Shared, opened: &Opened) -> Result<Option<Answered>, Problem> {
    let wish = &opened.delivery.wish;
    Ok(shared.changes.answered(&wish.owner, &wish.event_uid).await?)
}

/// A page of another site must not send our form. Browsers say `null` where the page that sends it, as ours, tells nobody
/// where it is.
fn own_page(shared: &Shared, headers: &HeaderMap) -> Result<(), Problem> {
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let host = text("host");
    let public = shared.public_url.as_deref().map(without_scheme);
    let public = public.map(|it| it.split_once('/').map_or(it, |(host, _)| host));
    let is_foreign = text("origin").is_some_and(|origin| {
        let origin = without_scheme(origin);
        origin != "null" && Some(origin) != host && Some(origin) != public
    });
    if is_foreign || matches!(text("sec-fetch-site"), Some("cross-site")) {
        let detail = "only the page that the link of the message leads to may answer";
        return Err(Problem::new(StatusCode::FORBIDDEN, "forbidden", detail));
    }
    Ok(())
}

fn without_scheme(origin: &str) -> &str {
    origin.split_once("://").map_or(origin, |(_, rest)| rest)
}

/// The first field of that name in a form or a query.
fn field(form: &[u8], name: &str) -> Option<String> {
    let mut fields = form_urlencoded::parse(form);
    fields
        .find(|(key, _)| key == name)
        .map(|(_, value)| value.into_owned())
}

fn page(
    shared: &Shared,
    opened: &Opened,
    answered: Option<&Answered>,
    (said, chosen): (Option<Said>, Option<Act>),
) -> Result<Response, Problem> {
    let Opened {
        delivery, owner, key, ..
    } = opened;
    let zone = owner.person().zone;
    let occurrence = answered.and_then(|answered| answered.occurrence(delivery.place.occurrence));
    let occurrence = occurrence.map(|occurrence| reminder::told(occurrence, (shared.detail)()));
    let offers = answered.map_or_else(Vec::new, |answered| offers(shared, answered, occurrence.as_ref()));
    let page = AnswerPage {
        locale: &owner.locale,
        zone: &zone,
        occurrence: occurrence.as_ref(),
        said: said.or_else(|| answered.is_none().then_some(Said::Gone)),
        next: answered.map(|answered| answered.next(None)),
        chosen: chosen.filter(|act| offers.contains(act)),
        offers: &offers,
        key,
    };
    let status = match said {
        _ if answered.is_none() => StatusCode::GONE,
        Some(Said::Started | Said::Gone) => StatusCode::CONFLICT,
        _ => StatusCode::OK,
    };
    written(shared, status, &page)
}

/// What can be done now: what is off can only be turned on.
fn offers(shared: &Shared, answered: &Answered, occurrence: Option<&Occurrence>) -> Vec<Act> {
    if answered.answers().muted_at.is_some() {
        return vec![Act::Unmute];
    }
    let now = shared.clock.now();
    let is_ahead = occurrence.is_some_and(|occurrence| occurrence.when.start() > now);
    let can = |act: &Act| match act {
        Act::Acknowledge | Act::Mute => true,
        Act::Snooze(Wait::UntilStart) => is_ahead,
        Act::Snooze(_) => occurrence.is_some(),
        Act::Unmute => false,
    };
    Act::ALL.into_iter().filter(can).collect()
}

/// The page of a link that leads nowhere, in the language of the browser: nobody knows whose it was.
fn gone(shared: &Shared, headers: &HeaderMap) -> Result<Response, Problem> {
    let accepted = headers.get(header::ACCEPT_LANGUAGE);
    let accepted = accepted.and_then(|value| value.to_str().ok()).unwrap_or_default();
    let locale = accepted.split([',', ';']).next().unwrap_or_default().trim();
    let page = AnswerPage {
        locale,
        zone: &Zone::utc(),
        occurrence: None,
        said: Some(Said::Gone),
        next: None,
        offers: &[],
        chosen: None,
        key: "",
    };
    written(shared, StatusCode::NOT_FOUND, &page)
}

fn written(shared: &Shared, status: StatusCode, page: &AnswerPage<'_>) -> Result<Response, Problem> {
    let html = shared.pages.answer_page(page).map_err(|error| {
        tracing::error!(%error, "the page for answers cannot be written");
        let detail = "the page cannot be written; the log of this node says why";
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail)
    })?;
    let headers = [
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
        (
            header::HeaderName::from_static("x-robots-tag"),
            HeaderValue::from_static("noindex, nofollow"),
        ),
    ];
    Ok((status, headers, Html(html)).into_response())
}
