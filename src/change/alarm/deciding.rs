//! What becomes of a stand-alone alarm. Pure, given its row, what it owes and the time.

use std::time::Duration;

use chrono::DateTime;
use chrono::Datelike;
use chrono::SecondsFormat;
use chrono::TimeDelta;
use chrono::Utc;

use crate::change::alarm::AlarmPatch;
use crate::change::alarm::NewAlarm;
use crate::change::alarm::Order;
use crate::change::alarm::Past;
use crate::change::alarm::When;
use crate::change::alarm::planning;
use crate::change::edit::cancelled;
use crate::store::AlarmAt;
use crate::store::AlarmEdit;
use crate::store::AlarmEditor;
use crate::store::AlarmRefusal;
use crate::store::AlarmStatus;
use crate::store::Edit;
use crate::store::Group;
use crate::store::Standalone;
use crate::trigger::NewTrigger;
use crate::trigger::State;

/// One order, with what it is decided by.
pub struct AlarmEditing {
    /// What is asked.
    pub order: Order,
    /// When it was last written, as the caller knows it: any of these, or whenever.
    pub seen: Option<Vec<DateTime<Utc>>>,
    /// How long after its instant a firing is of use at the most.
    pub most: Duration,
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
            (Order::Create(new), Some(stored)) => return again(at, &new.request_hash, stored),
            (Order::Find { request_hash }, Some(stored)) => return again(at, request_hash, stored),
            (Order::Create(new), None) => self.create(at, new, group, now),
            (_, None) => return AlarmEdit::Refuse(AlarmRefusal::Unknown),
            (_, Some(stored)) if self.is_not_as_seen(stored) => {
                return AlarmEdit::Refuse(AlarmRefusal::Changed);
            }
            (Order::Cancel, Some(stored)) if stored.status == AlarmStatus::Cancelled => {
                return AlarmEdit::Leave;
            }
            (Order::Cancel, Some(stored)) => Ok(cancel(stored, group, now)),
            (_, Some(stored)) if stored.status == AlarmStatus::Cancelled => {
                let cure = "it was cancelled: create another";
                Err(AlarmRefusal::Conflict(cure.to_owned()))
            }
            (Order::PutRight, Some(stored)) => match self.put_right(stored, group, now) {
                Some(decided) => Ok(decided),
                None => return AlarmEdit::Leave,
            },
            (Order::Patch(patch), Some(stored)) => self.patch(patch, stored, group, now),
            (Order::Pause, Some(stored)) if stored.paused => return AlarmEdit::Leave,
            (Order::Pause, Some(stored)) => pause(stored, group, now),
            (Order::Resume, Some(stored)) if !stored.paused => return AlarmEdit::Leave,
            (Order::Resume, Some(stored)) => self.resume(stored, group, now),
            (Order::Run, Some(stored)) if is_about_to_fire(stored, group, now) => return AlarmEdit::Leave,
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

pub(super) type Decided = Result<(Standalone, Edit), AlarmRefusal>;

impl AlarmEditing {
    fn is_not_as_seen(&self, stored: &Standalone) -> bool {
        self.seen
            .as_ref()
            .is_some_and(|seen| !seen.contains(&stored.updated_at))
    }

    fn create(&self, at: &AlarmAt, new: &NewAlarm, group: &Group, now: DateTime<Utc>) -> Decided {
        let mut alarm = Standalone {
            owner: at.owner.clone(),
            id: at.id.clone(),
            status: AlarmStatus::Active,
            paused: false,
            fire_at: now,
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
        alarm.fire_at = instant(&alarm, &new.when, new.past, now)?;
        self.plan(alarm, group, now)
    }

    fn patch(&self, patch: &AlarmPatch, stored: &Standalone, group: &Group, now: DateTime<Utc>) -> Decided {
        let mut alarm = Standalone {
            channel: patch.channel,
            terms: patch.terms.clone(),
            payload: patch.payload.clone(),
            ..stored.clone()
        };
        let is_another = alarm.channel != stored.channel || alarm.terms.expires_at != stored.terms.expires_at;
        // A series of which nothing changes that matters goes on with all that it owes; one that has ended may have more
        // to come.
        let goes_on = matches!(alarm.status, AlarmStatus::Active | AlarmStatus::Fired) && !alarm.paused;
        let again = Some(&When::Again).filter(|_| is_another && alarm.terms.cron.is_some() && goes_on);
        if let Some(when) = patch.when.as_ref().or(again) {
            alarm.fire_at = instant(&alarm, when, patch.past, now)?;
            alarm.status = AlarmStatus::Active;
        }
        let is_owed_anew = alarm.terms.cron.is_none() || is_another || patch.when.is_some();
        if alarm.is_live() && is_owed_anew {
            return self.plan(alarm, group, now);
        }
        Ok((alarm, as_it_is(group)))
    }

    fn resume(&self, stored: &Standalone, group: &Group, now: DateTime<Utc>) -> Decided {
        let mut alarm = Standalone {
            paused: false,
            ..stored.clone()
        };
        if alarm.terms.cron.is_some() {
            alarm.fire_at = instant(&alarm, &When::Again, Past::Reject, now)?;
        } else if alarm.fire_at <= now {
            return Err(AlarmRefusal::Conflict(format!(
                "its instant, {}, passed while it was paused: give it another with `at` or `delay`, or run it",
                told(alarm.fire_at)
            )));
        }
        self.plan(alarm, group, now)
    }

    /// Fires now, whatever became of it before.
    fn run(&self, stored: &Standalone, group: &Group, now: DateTime<Utc>) -> Decided {
        if stored.terms.cron.is_some() {
            return self.run_between(stored, group, now);
        }
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
        while group.handed_over.contains(&self.trigger(&alarm)?.id()) {
            alarm.fire_at += TimeDelta::milliseconds(1);
        }
        self.plan(alarm, group, now)
    }

    /// A series fires once more now, and goes on as it would have.
    fn run_between(&self, stored: &Standalone, group: &Group, now: DateTime<Utc>) -> Decided {
        if !stored.is_live() {
            let what = if stored.paused { "is paused" } else { "has ended" };
            return Err(AlarmRefusal::Conflict(format!(
                "the series {what}: resume it, or give it another `cron`, first"
            )));
        }
        planning::is_reachable(stored, &group.owner)?;
        let once_more = Standalone {
            fire_at: now,
            ..stored.clone()
        };
        let mut edit = as_it_is(group);
        edit.insert.push(NewTrigger {
            has_more: false,
            ..self.trigger(&once_more)?
        });
        Ok((stored.clone(), edit))
    }
}

/// What was asked for before is there; other content under the same name is a mistake.
fn again(at: &AlarmAt, request_hash: &str, stored: &Standalone) -> AlarmEdit {
    if stored.request_hash == request_hash {
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
fn cancel(stored: &Standalone, group: &Group, now: DateTime<Utc>) -> (Standalone, Edit) {
    let alarm = Standalone {
        status: AlarmStatus::Cancelled,
        paused: false,
        ..stored.clone()
    };
    (alarm, owing_nothing(group, now))
}

fn pause(stored: &Standalone, group: &Group, now: DateTime<Utc>) -> Decided {
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
    Ok((alarm, owing_nothing(group, now)))
}

fn owing_nothing(group: &Group, now: DateTime<Utc>) -> Edit {
    let withdraw: Vec<_> = group.triggers.iter().map(|trigger| trigger.id).collect();
    Edit {
        record: cancelled(group, &withdraw, now),
        withdraw,
        ..Edit::default()
    }
}

/// Whether it is due, and nothing was tried yet.
fn is_about_to_fire(stored: &Standalone, group: &Group, now: DateTime<Utc>) -> bool {
    let mut owed = group
        .triggers
        .iter()
        .filter(|it| !it.withdrawn && it.place.trigger_at <= now);
    let is_once = stored.terms.cron.is_none() && stored.is_live();
    is_once && owed.any(|it| it.state != State::Sending && it.last_error.is_none())
}

fn as_it_is(group: &Group) -> Edit {
    Edit {
        alarms: group.alarms.clone(),
        ..Edit::default()
    }
}

/// RFC 3339 writes years with four digits.
const LAST_YEAR: i32 = 9999;

/// When it fires. The store keeps milliseconds.
fn instant(
    alarm: &Standalone,
    when: &When,
    past: Past,
    now: DateTime<Utc>,
) -> Result<DateTime<Utc>, AlarmRefusal> {
    let (at, field) = match when {
        When::Again => {
            let next = planning::firings(alarm)?.and_then(|firings| firings.after(now));
            return next.ok_or_else(|| planning::never(alarm));
        }
        When::At(at) => (Some(whole(*at)), "/at"),
        When::Meant(at) => (Some(whole(*at)), "/when"),
        When::In(delay) => (now.checked_add_signed(*delay).map(whole), "/delay"),
    };
    let far = || {
        AlarmRefusal::Invalid(
            field,
            "it lies beyond all calendars: use something sooner".to_owned(),
        )
    };
    let at = at.filter(|at| at.year() <= LAST_YEAR).ok_or_else(far)?;
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

pub(super) fn whole(at: DateTime<Utc>) -> DateTime<Utc> {
    DateTime::from_timestamp_millis(at.timestamp_millis()).unwrap_or(at)
}

pub(super) fn told(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::AutoSi, true)
}
