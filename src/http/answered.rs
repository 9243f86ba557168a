//! The state of an event's alarms: what its owner answered, as a calendar client would have written it (RFC 9074); and the
//! same answers for programs.

use std::collections::BTreeMap;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::StatusCode;
use chrono::DateTime;
use chrono::Utc;
use serde::Deserialize;
use serde::Serialize;

use super::Shared;
use super::body;
use super::caller::Caller;
use super::id;
use super::problem::At;
use super::problem::Flaw;
use super::problem::Problem;
use crate::calendar::alarm::AlarmTrigger;
use crate::calendar::alarm::Related;
use crate::calendar::event::Event;
use crate::calendar::ical;
use crate::calendar::zone::Zone;
use crate::change::Answered;
use crate::store::Delivery;
use crate::trigger::OwnerId;
use crate::trigger::TriggerId;
use crate::trigger::answers::Act;
use crate::trigger::answers::Snooze;
use crate::trigger::defaults::DefaultAlarm;

/// Bytes of an answer at the most.
const LARGEST: usize = 4 * 1024;

/// The alarms of an event, with what was answered to their reminders.
#[derive(Debug, Serialize)]
pub(super) struct Answering {
    owner: String,
    uid: String,
    /// Since when all of them are off.
    #[serde(skip_serializing_if = "Option::is_none")]
    muted_at: Option<DateTime<Utc>>,
    /// When the owner is reminded next.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<DateTime<Utc>>,
    alarms: Vec<AlarmState>,
    /// The same as iCalendar: a VEVENT with the VALARMs that were answered, and their snoozes.
    ics: String,
}

/// One alarm.
#[derive(Debug, Serialize)]
struct AlarmState {
    /// Its UID, or what stands for it.
    identity: String,
    /// ACTION.
    action: String,
    /// TRIGGER, with its parameters.
    #[serde(skip)]
    trigger: String,
    /// ACKNOWLEDGED.
    #[serde(skip_serializing_if = "Option::is_none")]
    acknowledged: Option<DateTime<Utc>>,
    /// When it goes off next.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<DateTime<Utc>>,
    /// The alarm that stands for it until then.
    #[serde(skip_serializing_if = "Option::is_none")]
    snooze: Option<SnoozeState>,
}

/// The alarm that a snooze is.
#[derive(Debug, Serialize)]
struct SnoozeState {
    /// UID.
    uid: String,
    /// RELATED-TO, with RELTYPE=SNOOZE.
    related_to: String,
    /// TRIGGER, VALUE=DATE-TIME.
    trigger: DateTime<Utc>,
    /// The occurrence that it is about, named by its RECURRENCE-ID instant.
    occurrence: DateTime<Utc>,
}

/// An answer.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Said {
    /// `acknowledge`, `snooze-10m`, `snooze-1h`, `snooze-until-start`, `mute` or `unmute`.
    act: String,
    /// The reminder that is answered, by its id in the history.
    trigger: String,
}

/// `GET /v1/owners/{id}/events/{uid}/alarms`.
pub(super) async fn read(
    State(shared): State<Shared>,
    caller: Caller,
    At((owner, uid)): At<(String, String)>,
) -> Result<Json<Answering>, Problem> {
    let (owner, uid) = named(&caller, owner, uid)?;
    let answered = shared.changes.answered(&owner, &uid).await?;
    let answered = answered.ok_or_else(|| unknown(&owner, &uid))?;
    Ok(Json(state(&owner, &uid, &answered)))
}

/// `POST /v1/owners/{id}/events/{uid}/alarms`. The same again is answered the same.
pub(super) async fn post(
    State(shared): State<Shared>,
    caller: Caller,
    At((owner, uid)): At<(String, String)>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Answering>, Problem> {
    let (owner, uid) = named(&caller, owner, uid)?;
    let cure = "send {\"act\": …, \"trigger\": …} as JSON";
    body::expect_type(&headers, &["application/json"], cure)?;
    let bytes = body::Arriving::new(body, &headers, LARGEST, &shared)?
        .whole()
        .await?;
    let said: Said = body::json(&bytes)?;
    let act = Act::named(&said.act).ok_or_else(|| {
        let names = Act::ALL.map(Act::as_str).join(", ");
        flaw("/act", format!("`{}` is no answer: use one of {names}", said.act))
    })?;
    let reminder = reminder(&shared, &said.trigger, (&owner, &uid)).await?;
    let done = shared.changes.act(&owner, &uid, (act, &reminder)).await?;
    match done.ok_or_else(|| unknown(&owner, &uid))? {
        Ok(answered) => Ok(Json(state(&owner, &uid, &answered))),
        Err(refusal) => Err(Problem::new(
            StatusCode::CONFLICT,
            "conflict",
            format!("`{}` cannot be done: {refusal}", said.act),
        )),
    }
}

/// The reminder that is answered: one of this event.
async fn reminder(
    shared: &Shared,
    trigger: &str,
    (owner, uid): (&OwnerId, &str),
) -> Result<Delivery, Problem> {
    let nothing = || {
        flaw(
            "/trigger",
            format!("`{trigger}` is no reminder of this event: take an `id` of GET /v1/history?owner=…"),
        )
    };
    let id: TriggerId = trigger.parse().map_err(|_| nothing())?;
    let delivery = shared.store.delivery(id).await?.ok_or_else(nothing)?;
    let is_own = delivery.wish.owner == *owner && delivery.wish.event_uid == uid;
    is_own.then_some(delivery).ok_or_else(nothing)
}

fn flaw(pointer: &str, detail: String) -> Problem {
    Problem::invalid(vec![Flaw {
        pointer: Some(pointer.to_owned()),
        detail,
        ..Flaw::default()
    }])
}

fn named(caller: &Caller, owner: String, uid: String) -> Result<(OwnerId, String), Problem> {
    let owner = caller.owner(Some(owner))?;
    Ok((owner, id::checked("UID", uid)?))
}

fn unknown(owner: &OwnerId, uid: &str) -> Problem {
    Problem::not_found(format!("`{owner}` has no event `{uid}`"))
}

fn state(owner: &OwnerId, uid: &str, answered: &Answered) -> Answering {
    let answers = answered.answers();
    let mut alarms: BTreeMap<String, AlarmState> = BTreeMap::new();
    let heard = answered.heard();
    let heard = heard.iter().flat_map(Event::components);
    for alarm in heard.flat_map(|component| &component.alarms) {
        // A snooze is told of with the alarm that it stands for.
        if answers.live().any(|snooze| snooze.uid == alarm.identity) {
            continue;
        }
        let known = alarms
            .entry(alarm.identity.clone())
            .or_insert_with(|| AlarmState {
                identity: alarm.identity.clone(),
                action: alarm.action.clone(),
                trigger: trigger(&alarm.trigger),
                acknowledged: None,
                next: answered.next(Some(&alarm.identity)),
                snooze: answers.snooze_of(&alarm.identity).map(told),
            });
        known.acknowledged = known.acknowledged.max(alarm.acknowledged);
    }
    Answering {
        owner: owner.0.clone(),
        uid: uid.to_owned(),
        muted_at: answers.muted_at,
        next: answered.next(None),
        ics: ics(uid, alarms.values()),
        alarms: alarms.into_values().collect(),
    }
}

fn told(snooze: &Snooze) -> SnoozeState {
    SnoozeState {
        uid: snooze.uid.clone(),
        related_to: snooze.parent.clone(),
        trigger: snooze.trigger_at,
        occurrence: snooze.occurrence,
    }
}

/// A TRIGGER; one at a floating time as it reads in UTC.
fn trigger(trigger: &AlarmTrigger) -> String {
    match trigger {
        AlarmTrigger::Absolute(at) => absolute(at.instant(&Zone::utc())),
        AlarmTrigger::Relative { span, related } => {
            let related = if *related == Related::End {
                ";RELATED=END"
            } else {
                ""
            };
            format!("TRIGGER{related}:{}", DefaultAlarm(*span))
        }
    }
}

fn absolute(at: DateTime<Utc>) -> String {
    format!("TRIGGER;VALUE=DATE-TIME:{}", stamp(at))
}

fn stamp(at: DateTime<Utc>) -> String {
    at.format("%Y%m%dT%H%M%SZ").to_string()
}

/// The VALARMs that a client would have changed or added (RFC 9074 section 7). Of a changed one there is what says which
/// it is, and what is new; everything else of it stays as it was.
fn ics<'a>(uid: &str, alarms: impl Iterator<Item = &'a AlarmState>) -> String {
    let mut lines = vec!["BEGIN:VEVENT".to_owned(), format!("UID:{}", ical::escaped(uid))];
    for alarm in alarms {
        let Some(acknowledged) = alarm.acknowledged else {
            continue;
        };
        let identity = ical::escaped(&alarm.identity);
        lines.extend([
            "BEGIN:VALARM".to_owned(),
            format!("UID:{identity}"),
            format!("ACTION:{}", alarm.action),
            alarm.trigger.clone(),
            format!("ACKNOWLEDGED:{}", stamp(acknowledged)),
            "END:VALARM".to_owned(),
        ]);
        if let Some(snooze) = &alarm.snooze {
            lines.extend([
                "BEGIN:VALARM".to_owned(),
                format!("UID:{}", ical::escaped(&snooze.uid)),
                format!("RELATED-TO;RELTYPE=SNOOZE:{identity}"),
                format!("ACTION:{}", alarm.action),
                absolute(snooze.trigger),
                "END:VALARM".to_owned(),
            ]);
        }
    }
    lines.push("END:VEVENT".to_owned());
    ical::folded(&lines)
}
