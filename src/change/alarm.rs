//! Stand-alone alarms: what becomes of one that is asked for, altered or called off. Decided inside the transaction, on
//! what it sees; its trigger is planned and claimed as those of events are.

use std::time::Duration;

use chrono::DateTime;
use chrono::SecondsFormat;
use chrono::TimeDelta;
use chrono::Utc;

use crate::change::ChangeHandler;
use crate::change::to_the_end;
use crate::store::Alarm;
use crate::store::AlarmAt;
use crate::store::AlarmEdit;
use crate::store::AlarmEditor;
use crate::store::AlarmQuery;
use crate::store::AlarmRefusal;
use crate::store::AlarmStatus;
use crate::store::AlarmTerms;
use crate::store::Altered;
use crate::store::Edit;
use crate::store::Group;
use crate::store::Owner;
use crate::store::Standalone;
use crate::store::StoreError;
use crate::trigger::AlarmId;
use crate::trigger::ChannelKind;
use crate::trigger::NewTrigger;
use crate::trigger::OwnerId;
use crate::trigger::Place;
use crate::trigger::State;

/// Alarms that are called off in one transaction.
const AT_ONCE: u32 = 500;

/// When an alarm fires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum When {
    /// At this instant.
    At(DateTime<Utc>),
    /// So long after it is asked for.
    In(TimeDelta),
}

/// What to do about an instant that is past.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Past {
    /// Refuse it.
    #[default]
    Reject,
    /// Fire at once.
    Fire,
}

/// An alarm that is asked for.
#[derive(Debug, Clone)]
pub struct NewAlarm {
    /// When it fires.
    pub when: When,
    /// If that is past.
    pub past: Past,
    /// The way out.
    pub channel: ChannelKind,
    /// What else is asked for.
    pub terms: AlarmTerms,
    /// What its target is given back: a JSON document.
    pub payload: Option<String>,
    /// What the request says, as a hash.
    pub request_hash: String,
}

/// What is to be different. What is left out stays.
#[derive(Debug, Clone, Default)]
pub struct AlarmPatch {
    /// When it fires; one that has fired or failed is active again.
    pub when: Option<When>,
    /// If that is past.
    pub past: Past,
    /// The way out.
    pub channel: Option<ChannelKind>,
    /// All terms, where any of them changes.
    pub terms: Option<Terms>,
    /// What its target is given back; a JSON document, or nothing.
    pub payload: Option<Option<String>>,
}

/// How the terms of an alarm are to change.
#[derive(Clone)]
pub struct Terms(pub std::sync::Arc<dyn Fn(&mut AlarmTerms) + Send + Sync>);

impl std::fmt::Debug for Terms {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Terms").finish_non_exhaustive()
    }
}

/// What is asked of an alarm.
#[derive(Debug, Clone)]
pub enum Order {
    /// Let there be one.
    Create(Box<NewAlarm>),
    /// Let it be different.
    Patch(Box<AlarmPatch>),
    /// Call it off. Asked for again, nothing changes.
    Cancel,
    /// Plan nothing until it is resumed.
    Pause,
    /// Go on.
    Resume,
    /// Fire now.
    Run,
}

impl ChangeHandler {
    /// Carries out an order on one alarm. `seen` is when it was last written, as the caller knows it, if that matters.
    pub async fn order_alarm(
        &self,
        at: AlarmAt,
        order: Order,
        seen: Option<DateTime<Utc>>,
    ) -> Result<Altered, StoreError> {
        let mut altered = self.order_alarms(vec![at], order, seen).await?;
        altered.pop().expect("one answer for each alarm")
    }

    /// Calls off all active alarms of an owner. Returns how many.
    pub async fn reset_alarms(&self, owner: &OwnerId) -> Result<u64, StoreError> {
        let query = AlarmQuery {
            owner: owner.clone(),
            status: Some(AlarmStatus::Active),
            after: None,
            limit: AT_ONCE,
        };
        let mut cancelled = 0;
        loop {
            let active = self.store.alarms(&query).await?;
            let named = active.into_iter().map(|alarm| AlarmAt {
                owner: alarm.owner,
                id: alarm.id,
                key: None,
                request: None,
            });
            let altered = self.order_alarms(named.collect(), Order::Cancel, None).await?;
            let gone = |it: &&Result<Altered, StoreError>| it.as_ref().is_ok_and(|it| it.existed);
            let gone = altered.iter().filter(gone).count() as u64;
            cancelled += gone;
            // Whoever cannot be read stays, and is not asked for for ever.
            if gone == 0 {
                return Ok(cancelled);
            }
        }
    }

    async fn order_alarms(
        &self,
        alarms: Vec<AlarmAt>,
        order: Order,
        seen: Option<DateTime<Utc>>,
    ) -> Result<Vec<Result<Altered, StoreError>>, StoreError> {
        let handler = self.clone();
        let work = async move {
            let near = handler.near();
            let editing = AlarmEditing {
                order,
                seen,
                most: handler.config.borrow().max_lateness,
            };
            let altered = handler.store.alter_alarms(&alarms, &editing, near).await?;
            for altered in altered.iter().flatten() {
                (handler.tell)(&altered.changed, near.map(|near| near.session));
            }
            Ok(altered)
        };
        to_the_end(work).await
    }
}

/// One order, with what it is decided by.
struct AlarmEditing {
    order: Order,
    seen: Option<DateTime<Utc>>,
    /// How long after its instant a firing is of use at the most.
    most: Duration,
}

impl AlarmEditor for AlarmEditing {
    fn edit(
        &self,
        at: &AlarmAt,
        stored: Option<&Standalone>,
        group: &Group,
        now: DateTime<Utc>,
    ) -> AlarmEdit {
        let now = whole(now);
        let edit = match (&self.order, stored) {
            (Order::Create(new), Some(stored)) => return again(at, new, stored),
            (Order::Create(new), None) => self.create(at, new, group, now),
            (_, None) => return AlarmEdit::Refuse(AlarmRefusal::Unknown),
            (_, Some(stored)) if self.seen.is_some_and(|seen| seen != stored.updated_at) => {
                return AlarmEdit::Refuse(AlarmRefusal::Changed);
            }
            (Order::Cancel, Some(stored)) if stored.status == AlarmStatus::Cancelled => {
                return AlarmEdit::Leave;
            }
            (Order::Cancel, Some(stored)) => Ok(cancel(stored, group)),
            (_, Some(stored)) if stored.status == AlarmStatus::Cancelled => {
                let cure = "it was cancelled: create another";
                Err(AlarmRefusal::Conflict(cure.to_owned()))
            }
            (Order::Patch(patch), Some(stored)) => self.patch(patch, stored, group, now),
            (Order::Pause, Some(stored)) if stored.paused => return AlarmEdit::Leave,
            (Order::Pause, Some(stored)) => pause(stored, group),
            (Order::Resume, Some(stored)) if !stored.paused => return AlarmEdit::Leave,
            (Order::Resume, Some(stored)) => self.resume(stored, group, now),
            (Order::Run, Some(stored)) => self.run(stored, group, now),
        };
        match edit {
            Err(refusal) => AlarmEdit::Refuse(refusal),
            Ok((mut alarm, edit)) => {
                let next = stored.map(|stored| stored.updated_at + TimeDelta::milliseconds(1));
                alarm.updated_at = next.map_or(now, |next| next.max(now));
                AlarmEdit::Put(Box::new(alarm), edit)
            }
        }
    }
}

type Decided = Result<(Standalone, Edit), AlarmRefusal>;

impl AlarmEditing {
    fn create(&self, at: &AlarmAt, new: &NewAlarm, group: &Group, now: DateTime<Utc>) -> Decided {
        let alarm = Standalone {
            owner: at.owner.clone(),
            id: at.id.clone(),
            status: AlarmStatus::Active,
            paused: false,
            fire_at: instant(&new.when, new.past, now)?,
            channel: new.channel,
            terms: new.terms.clone(),
            payload: new.payload.clone(),
            key: at.key.clone(),
            request_key: at.request.as_ref().map(|(name, _)| name.clone()),
            request_hash: new.request_hash.clone(),
            created_at: now,
            updated_at: now,
            last_fired_at: None,
            last_error: None,
            failure_count: 0,
        };
        self.plan(alarm, group)
    }

    fn patch(&self, patch: &AlarmPatch, stored: &Standalone, group: &Group, now: DateTime<Utc>) -> Decided {
        let mut alarm = stored.clone();
        alarm.channel = patch.channel.unwrap_or(alarm.channel);
        if let Some(Terms(change)) = &patch.terms {
            change(&mut alarm.terms);
        }
        if let Some(payload) = &patch.payload {
            alarm.payload.clone_from(payload);
        }
        if let Some(when) = &patch.when {
            alarm.fire_at = instant(when, patch.past, now)?;
            alarm.status = AlarmStatus::Active;
        }
        if alarm.is_live() {
            return self.plan(alarm, group);
        }
        Ok((alarm, as_it_is(group)))
    }

    fn resume(&self, stored: &Standalone, group: &Group, now: DateTime<Utc>) -> Decided {
        let alarm = Standalone {
            paused: false,
            ..stored.clone()
        };
        if alarm.status == AlarmStatus::Active && alarm.fire_at <= now {
            return Err(AlarmRefusal::Conflict(format!(
                "its instant, {}, passed while it was paused: give it another with `at` or `delay`, or run it",
                told(alarm.fire_at)
            )));
        }
        self.plan(alarm, group)
    }

    /// Fires now, whatever became of it before.
    fn run(&self, stored: &Standalone, group: &Group, now: DateTime<Utc>) -> Decided {
        if group.triggers.iter().any(|it| it.state == State::Sending) {
            return Err(AlarmRefusal::Conflict(
                "it is being fired at this moment: try again when that is over".to_owned(),
            ));
        }
        let mut alarm = Standalone {
            paused: false,
            status: AlarmStatus::Active,
            fire_at: now,
            ..stored.clone()
        };
        // A firing of this very millisecond would be taken for that one.
        let was_handed_over = |alarm: &Standalone| group.handed_over.contains(&self.trigger(alarm).id());
        while was_handed_over(&alarm) {
            alarm.fire_at += TimeDelta::milliseconds(1);
        }
        self.plan(alarm, group)
    }

    /// Owes the next firing of an alarm, and nothing else.
    fn plan(&self, alarm: Standalone, group: &Group) -> Decided {
        is_reachable(&alarm, &group.owner)?;
        if let Some(expires_at) = alarm.terms.expires_at.filter(|at| *at <= alarm.fire_at) {
            return Err(AlarmRefusal::Invalid(
                "/expires_at",
                format!(
                    "it expires at {}, and would fire at {}: let it expire later, or not at all",
                    told(expires_at),
                    told(alarm.fire_at)
                ),
            ));
        }
        let next = self.trigger(&alarm);
        let mut edit = Edit {
            alarms: vec![Alarm {
                served_through: group
                    .alarms
                    .iter()
                    .find(|it| it.wish == next.wish)
                    .and_then(|it| it.served_through),
                wish: next.wish.clone(),
            }],
            ..Edit::default()
        };
        for trigger in &group.triggers {
            if trigger.id != next.id() {
                edit.withdraw.push(trigger.id);
            } else if trigger.expires_at != next.expires_at || trigger.withdrawn {
                edit.adjust.push((trigger.id, next.expires_at, next.has_more));
            }
        }
        edit.insert.push(next);
        Ok((alarm, edit))
    }

    fn trigger(&self, alarm: &Standalone) -> NewTrigger {
        let most = TimeDelta::from_std(self.most).unwrap_or(TimeDelta::MAX);
        let useful = alarm.fire_at.checked_add_signed(most);
        let latest = useful.unwrap_or(DateTime::<Utc>::MAX_UTC);
        NewTrigger {
            wish: alarm.wish(),
            place: Place {
                trigger_at: alarm.fire_at,
                occurrence: alarm.fire_at,
                repeat: 0,
            },
            expires_at: alarm.terms.expires_at.map_or(latest, |at| at.min(latest)),
            has_more: false,
        }
    }
}

/// What was asked for before is there; other content under the same name is a mistake.
fn again(at: &AlarmAt, new: &NewAlarm, stored: &Standalone) -> AlarmEdit {
    if stored.request_hash == new.request_hash {
        return AlarmEdit::Leave;
    }
    let by_key = at.key.is_some() && at.key == stored.key;
    AlarmEdit::Refuse(AlarmRefusal::OtherContent(if by_key {
        "idempotency_key"
    } else {
        "Idempotency-Key"
    }))
}

/// Everything that is owed is withdrawn; what is being sent arrives, and is not tried again.
fn cancel(stored: &Standalone, group: &Group) -> (Standalone, Edit) {
    let alarm = Standalone {
        status: AlarmStatus::Cancelled,
        paused: false,
        ..stored.clone()
    };
    (alarm, owing_nothing(group))
}

fn pause(stored: &Standalone, group: &Group) -> Decided {
    if stored.status != AlarmStatus::Active {
        return Err(AlarmRefusal::Conflict(format!(
            "it has {}: there is nothing to pause",
            stored.status
        )));
    }
    let alarm = Standalone {
        paused: true,
        ..stored.clone()
    };
    Ok((alarm, owing_nothing(group)))
}

fn owing_nothing(group: &Group) -> Edit {
    Edit {
        withdraw: group.triggers.iter().map(|trigger| trigger.id).collect(),
        ..Edit::default()
    }
}

fn as_it_is(group: &Group) -> Edit {
    Edit {
        alarms: group.alarms.clone(),
        ..Edit::default()
    }
}

/// When it fires. The store keeps milliseconds.
fn instant(when: &When, past: Past, now: DateTime<Utc>) -> Result<DateTime<Utc>, AlarmRefusal> {
    let (at, field) = match when {
        When::At(at) => (Some(whole(*at)), "/at"),
        When::In(delay) => (now.checked_add_signed(*delay).map(whole), "/delay"),
    };
    let far = || {
        AlarmRefusal::Invalid(
            field,
            "it lies beyond all calendars: use something sooner".to_owned(),
        )
    };
    let at = at.ok_or_else(far)?;
    match past {
        _ if at >= now => Ok(at),
        Past::Fire => Ok(now),
        Past::Reject => Err(AlarmRefusal::Invalid(
            field,
            format!(
                "{} is past, it is {}: use a later instant, or \"past\": \"fire\" to fire at once",
                told(at),
                told(now)
            ),
        )),
    }
}

/// Whether there is anywhere to send it. It is asked again when it fires.
fn is_reachable(alarm: &Standalone, owner: &Owner) -> Result<(), AlarmRefusal> {
    let (is_there, what) = match alarm.channel {
        ChannelKind::Email => (owner.email.is_some(), "e-mail address"),
        ChannelKind::Sms => (owner.phone.is_some(), "phone number"),
        ChannelKind::Webhook => (
            owner.webhook.is_some() || alarm.terms.target.is_some(),
            "webhook, and the alarm no `target`",
        ),
    };
    if is_there {
        return Ok(());
    }
    Err(AlarmRefusal::Invalid(
        "/channel",
        format!(
            "owner `{}` has no {what}: put one with PUT /v1/owners/{0}",
            owner.id
        ),
    ))
}

fn whole(at: DateTime<Utc>) -> DateTime<Utc> {
    DateTime::from_timestamp_millis(at.timestamp_millis()).unwrap_or(at)
}

fn told(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::AutoSi, true)
}

/// A name that nobody has and nobody can guess.
///
/// # Errors
///
/// When the system has no random numbers to give.
pub fn fresh_id() -> Result<AlarmId, StoreError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(|error| StoreError::Failed(format!("the system has no random numbers to give: {error}")))?;
    Ok(AlarmId(format!("{:032x}", u128::from_be_bytes(bytes))))
}
