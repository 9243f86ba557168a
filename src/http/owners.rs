//! Owners: where their reminders go and how they read time.

use std::collections::BTreeMap;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::StatusCode;
use chrono::DateTime;
use chrono::Utc;
use secrecy::ExposeSecret;
use serde::Deserialize;
use serde::Deserializer;
use serde::Serialize;

use super::Shared;
use super::body;
use super::caller::Caller;
use super::id;
use super::preferences::DefaultsBody;
use super::preferences::Flaws;
use super::preferences::RouteBody;
use super::preferences::SourceBody;
use super::preferences::Wanted;
use super::problem::At;
use super::problem::Problem;
use crate::calendar::address;
use crate::calendar::zone::Zone;
use crate::channel::sms::number::Number;
use crate::channel::webhook::Guard;
use crate::channel::webhook::Secrets;
use crate::store::Owner;
use crate::store::SigningSecrets;
use crate::store::Webhook;
use crate::trigger::ChannelKind;
use crate::trigger::OwnerId;

/// Bytes of the body of an owner at the most.
const LARGEST: usize = 64 * 1024;

/// An owner as callers see them. What is left out keeps the value shown.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OwnerBody {
    /// Where e-mail goes.
    #[serde(default)]
    email: Option<String>,
    /// That no mail can go there, as the relay says. It is told, and taken back unread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    email_dead: Option<DeadBody>,
    /// Further addresses by which calendars know them.
    #[serde(default)]
    addresses: Vec<String>,
    /// Where text messages go: an E.164 number, `+` and digits; or as people write it in `region`.
    #[serde(default)]
    phone: Option<String>,
    /// Where calls go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    webhook: Option<WebhookBody>,
    /// Where that number is as people write it there, by two letters (ISO 3166). It is answered and kept as E.164.
    #[serde(default, skip_serializing)]
    region: Option<String>,
    /// IANA name; `UTC` if left out.
    #[serde(default = "utc")]
    time_zone: String,
    /// BCP 47 tag; `en` if left out.
    #[serde(default = "english")]
    locale: String,
    /// Whether they get anything at all; true if left out.
    #[serde(default = "yes")]
    enabled: bool,
    /// Channels they switched off.
    #[serde(default)]
    muted: Vec<String>,
    /// `skip` or `deliver`: whether DISPLAY and AUDIO alarms become e-mail; as `policies.display` says if left out.
    #[serde(default)]
    display: Option<String>,
    /// Through which channels alarms leave, by their ACTION; e-mail if left out.
    #[serde(default)]
    routes: Vec<RouteBody>,
    /// Alarms of events that have none of their own; as the configuration says if left out.
    #[serde(default)]
    defaults: DefaultsBody,
    /// What is different for the events of one source, by its name.
    #[serde(default)]
    sources: BTreeMap<String, SourceBody>,
    /// Addresses of others that the back end vouches for, to which their alarms may write.
    #[serde(default)]
    verified: Vec<String>,
    /// What signs their calls in place of the secrets of the configuration; none if empty or null. What is left out keeps
    /// what is stored, for it is never answered.
    #[serde(default, deserialize_with = "secrets", skip_serializing)]
    webhook_secrets: Option<SigningSecrets>,
    /// Whether they have such secrets. It is told, and taken back unread.
    #[serde(default)]
    has_webhook_secrets: bool,
}

/// Secrets, one a line, typed before anything can log them.
fn secrets<'de, D: Deserializer<'de>>(body: D) -> Result<Option<SigningSecrets>, D::Error> {
    let secrets: Option<Vec<String>> = Deserialize::deserialize(body)?;
    let lines = secrets.unwrap_or_default().join("\n");
    Ok(Some(SigningSecrets(lines.into())))
}

/// Nothing is sent to the address for a while.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct DeadBody {
    /// Until when, unless the owner is put again.
    until: DateTime<Utc>,
    /// What the relay said.
    says: String,
}

/// Where an owner's calls go. What is known of it is told, and taken back unread.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct WebhookBody {
    /// An https address on the public Internet, or one that the operator allows.
    url: String,
    /// When a call failed, if none has succeeded since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    failing_since: Option<DateTime<Utc>>,
    /// Why nothing is sent there until the owner is put again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    disabled: Option<String>,
}

fn utc() -> String {
    "UTC".to_owned()
}

fn english() -> String {
    "en".to_owned()
}

fn yes() -> bool {
    true
}

/// An owner with their id.
#[derive(Debug, Serialize)]
pub(super) struct OwnerAnswer {
    id: String,
    #[serde(flatten)]
    owner: OwnerBody,
}

/// `PUT /v1/owners/{id}`: creates (201) or replaces (200).
pub(super) async fn put(
    State(shared): State<Shared>,
    At(id): At<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<(StatusCode, Json<OwnerAnswer>), Problem> {
    let id = OwnerId(id::checked("owner id", id)?);
    body::expect_type(
        &headers,
        &["application/json"],
        "with curl use --json, or -H 'content-type: application/json'",
    )?;
    let bytes = body::Arriving::new(body, &headers, LARGEST, &shared)?
        .whole()
        .await?;
    let owner = owner_of(id, body::json(&bytes)?, shared.webhooks.as_ref())?;
    let before = shared.changes.put_owner(owner.clone()).await?;
    let kept = before.as_ref().and_then(|before| before.webhook_secrets.clone());
    let owner = Owner {
        webhook_secrets: owner.webhook_secrets.or(kept),
        ..owner
    };
    let status = if before.is_some() {
        StatusCode::OK
    } else {
        StatusCode::CREATED
    };
    Ok((status, Json(answer(owner))))
}

/// `GET /v1/owners/{id}`.
pub(super) async fn read(
    State(shared): State<Shared>,
    caller: Caller,
    At(id): At<String>,
) -> Result<Json<OwnerAnswer>, Problem> {
    let id = caller.owner(Some(id))?;
    let owner = shared.store.owner(&id).await?;
    let owner = owner.ok_or_else(|| Problem::not_found(format!("there is no owner `{id}`")))?;
    Ok(Json(answer(owner)))
}

fn answer(owner: Owner) -> OwnerAnswer {
    let wanted = Wanted::of(owner.preferences);
    OwnerAnswer {
        id: owner.id.0,
        owner: OwnerBody {
            email: owner.email,
            email_dead: owner.email_dead.map(|dead| DeadBody {
                until: dead.until,
                says: dead.says,
            }),
            addresses: owner.addresses,
            phone: owner.phone,
            webhook: owner.webhook.map(|webhook| WebhookBody {
                url: webhook.url,
                failing_since: webhook.failing_since,
                disabled: webhook.disabled,
            }),
            region: None,
            time_zone: owner.time_zone,
            locale: owner.locale,
            enabled: owner.enabled,
            muted: owner.muted.iter().map(ToString::to_string).collect(),
            display: wanted.display,
            routes: wanted.routes,
            defaults: wanted.defaults,
            sources: wanted.sources,
            verified: wanted.verified,
            has_webhook_secrets: owner.webhook_secrets.is_some_and(|secrets| !secrets.is_empty()),
            webhook_secrets: None,
        },
    }
}

/// The owner that `body` describes, or everything that is wrong with it.
fn owner_of(id: OwnerId, body: OwnerBody, targets: Option<&Guard>) -> Result<Owner, Problem> {
    let mut flaws = Flaws::default();
    if let Some(email) = &body.email {
        flaws.check("/email".to_owned(), address::check(email));
    }
    flaws.addresses("/addresses", &body.addresses);
    let region = body.region.as_deref();
    let number = body.phone.as_deref().map(|phone| Number::written(phone, region));
    let number = number.and_then(|number| {
        let number = number.map_err(|error| error.to_string());
        flaws.check("/phone".to_owned(), number)
    });
    if let Some(webhook) = &body.webhook {
        flaws.check("/webhook/url".to_owned(), is_target(&webhook.url, targets));
    }
    if let Some(secrets) = body.webhook_secrets.as_ref().filter(|it| !it.is_empty()) {
        let read = Secrets::parse(secrets.0.expose_secret());
        flaws.check("/webhook_secrets".to_owned(), read.map(drop));
    }
    flaws.check("/time_zone".to_owned(), is_zone(&body.time_zone));
    flaws.check("/locale".to_owned(), is_language(&body.locale));
    let muted = muted_of(&body.muted, &mut flaws);
    let wanted = Wanted {
        display: body.display,
        routes: body.routes,
        defaults: body.defaults,
        sources: body.sources,
        verified: body.verified,
    };
    let preferences = wanted.read(&mut flaws);
    for (channel, at, is_there) in [
        (ChannelKind::Email, "/email", body.email.is_some()),
        (ChannelKind::Sms, "/phone", body.phone.is_some()),
        (ChannelKind::Webhook, "/webhook", body.webhook.is_some()),
    ] {
        let is_routed = preferences.routes.iter().any(|route| route.channel == channel);
        if is_routed && !is_there {
            flaws.check(at.to_owned(), leads_nowhere(channel));
        }
    }
    if !flaws.0.is_empty() {
        return Err(Problem::invalid(flaws.0));
    }
    Ok(Owner {
        id,
        email: body.email,
        email_dead: None,
        addresses: body.addresses,
        phone: number.map(|number| number.to_string()),
        webhook: body.webhook.map(|webhook| Webhook::at(webhook.url)),
        time_zone: body.time_zone,
        locale: body.locale,
        enabled: body.enabled,
        muted,
        preferences,
        webhook_secrets: body.webhook_secrets,
        link_epoch: 0,
    })
}

/// The muted channels, each once.
fn muted_of(names: &[String], flaws: &mut Flaws) -> Vec<ChannelKind> {
    let mut muted = Vec::new();
    for (index, name) in names.iter().enumerate() {
        let channel = flaws.check(format!("/muted/{index}"), name.parse());
        muted.extend(channel.filter(|channel| !muted.contains(channel)));
    }
    muted
}

/// A route to nowhere would swallow reminders.
fn leads_nowhere(channel: ChannelKind) -> Result<(), String> {
    let cure = match channel {
        ChannelKind::Email => "name the address",
        ChannelKind::Sms => "name the number",
        ChannelKind::Webhook => "name the `url` that is to be called",
        ChannelKind::Handler => "use another channel",
    };
    Err(format!("a route leads here: {cure}"))
}

/// The address itself is not repeated: it is often a secret.
pub(super) fn is_target(url: &str, targets: Option<&Guard>) -> Result<(), String> {
    let Some(targets) = targets else {
        let cure = "no call leaves here: the operator must name a file in channels.webhook.secret_file";
        return Err(cure.to_owned());
    };
    let target = targets.target(url);
    target
        .map(drop)
        .map_err(|problem| format!("the address {problem}"))
}

fn is_zone(name: &str) -> Result<(), String> {
    let zone = Zone::iana(name);
    zone.map(drop)
        .ok_or_else(|| format!("unknown time zone `{name}`: use an IANA name such as Europe/Berlin"))
}

fn is_language(tag: &str) -> Result<(), String> {
    let parts: Vec<&str> = tag.split('-').collect();
    let fits =
        |part: &str| (1..=8).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if tag.len() <= 35 && parts.len() <= 5 && parts[0].len() >= 2 && parts.iter().all(|part| fits(part)) {
        return Ok(());
    }
    Err(format!("`{tag}` is no language tag: write it as en or de-AT"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn language_tags_are_short_and_plain() {
        assert!(
            is_language("en").is_ok() && is_language("de-AT").is_ok() && is_language("zh-Hant-TW").is_ok()
        );
        for tag in ["", "e", "de_AT", "de-", "../../etc", "a-b-c-d-e-f"] {
            assert!(is_language(tag).is_err(), "{tag}");
        }
    }
}
