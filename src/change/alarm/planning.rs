//! What a stand-alone alarm owes. Pure, given its row, what it owes so far and the time.

use std::time::Duration;

use chrono::DateTime;
use chrono::TimeDelta;
use chrono::Utc;

use crate::change::alarm::deciding::AlarmEditing;
use crate::change::alarm::deciding::Decided;
use crate::change::alarm::deciding::told;
use crate::change::edit::cancelled;
use crate::store::Alarm;
use crate::store::AlarmRefusal;
use crate::store::Edit;
use crate::store::Group;
use crate::store::Owner;
use crate::store::Standalone;
use crate::trigger::ChannelKind;
use crate::trigger::NewTrigger;
use crate::trigger::Place;
use crate::trigger::State;
use crate::trigger::Trigger;
use crate::trigger::firings::Firings;
use crate::trigger::firings::latest;

/// Firings that are stepped over since they are too late are counted up to here.
const COUNTED: u64 = 1_000;

impl AlarmEditing {
    /// Owes the next firing of an alarm, and of a series what is under way besides.
    pub(super) fn plan(&self, alarm: Standalone, group: &Group, now: DateTime<Utc>) -> Decided {
        is_reachable(&alarm, &group.owner)?;
        match firings(&alarm)? {
            Some(firings) => self.plan_series(alarm, group, (&firings, now, now)),
            None => self.plan_once(alarm, group, now),
        }
    }

    fn plan_once(&self, alarm: Standalone, group: &Group, now: DateTime<Utc>) -> Decided {
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
        let next = self.trigger(&alarm)?;
        let is_owed = group.triggers.iter().any(|it| it.id == next.id());
        // Calls may leave ahead of their instants.
        if group.handed_over.contains(&next.id()) && !is_owed {
            return Err(AlarmRefusal::Conflict(format!(
                "it has fired for {} already: give it another instant, or run it",
                told(alarm.fire_at)
            )));
        }
        Ok((alarm, owing(group, &[], Some(next), now)))
    }

    /// What is due, under way or served already goes its way; where nothing of it is still to be followed by the next
    /// firing, that is planned: the first one after `from` that is of use.
    fn plan_series(
        &self,
        mut alarm: Standalone,
        group: &Group,
        (firings, from, now): (&Firings, DateTime<Utc>, DateTime<Utc>),
    ) -> Decided {
        let wish = alarm.wish();
        let served = group.alarms.iter().find(|it| it.wish == wish);
        let served = served.and_then(|it| it.served_through);
        let is_served =
            |it: &Trigger| it.state == State::Sending || served.is_some_and(|served| served >= it.place);
        let owed = group.triggers.iter().filter(|it| it.wish == wish);
        let kept: Vec<&Trigger> = owed
            .filter(|it| is_served(it) || it.place.trigger_at <= now)
            .collect();
        let waiting = kept.iter().filter(|it| it.has_more && !is_served(it));
        let next = if let Some(waiting) = waiting.map(|it| it.place.trigger_at).min() {
            alarm.fire_at = waiting;
            None
        } else {
            let from = served.map_or(from, |served| served.trigger_at.max(from));
            alarm.fire_at = self.next(&alarm, group, (firings, from, now))?;
            Some(self.trigger(&alarm)?)
        };
        let mut edit = owing(group, &kept, next, now);
        for trigger in kept {
            let expires_at = firings.expires_at(trigger.place.trigger_at, self.most);
            if trigger.withdrawn || trigger.expires_at != expires_at {
                edit.adjust.push((trigger.id, expires_at, trigger.has_more));
            }
        }
        Ok((alarm, edit))
    }

    /// The first firing after `from` that is of use, and that was not handed over and is not under way.
    fn next(
        &self,
        alarm: &Standalone,
        group: &Group,
        (firings, from, now): (&Firings, DateTime<Utc>, DateTime<Utc>),
    ) -> Result<DateTime<Utc>, AlarmRefusal> {
        let (mut next, _) = firings.next_in_time(from, (now, self.most), COUNTED);
        while let Some(at) = next {
            let id = self.firing(alarm, at)?.id();
            let is_known = group.handed_over.contains(&id)
                || group
                    .triggers
                    .iter()
                    .any(|it| it.id == id && it.state == State::Sending);
            if !is_known {
                return Ok(at);
            }
            next = firings.after(at);
        }
        Err(never(alarm))
    }

    /// Plans a series again whose trigger was set aside, or whose zone reads differently now. None where all is right, or
    /// nothing can be done.
    pub(super) fn put_right(
        &self,
        stored: &Standalone,
        group: &Group,
        now: DateTime<Utc>,
    ) -> Option<(Standalone, Edit)> {
        let firings = firings(stored).ok()?.filter(|_| stored.is_live())?;
        // With nothing that is owed, its last known firing was set aside, and may still be of use.
        let lost = stored.fire_at - TimeDelta::milliseconds(1);
        let from = if group.triggers.is_empty() {
            lost.min(now)
        } else {
            now
        };
        let (alarm, edit) = self
            .plan_series(stored.clone(), group, (&firings, from, now))
            .ok()?;
        let is_new = |it: &NewTrigger| group.triggers.iter().all(|owed| owed.id != it.id());
        let is_right = edit.withdraw.is_empty() && edit.adjust.is_empty() && !edit.insert.iter().any(is_new);
        (!is_right).then_some((alarm, edit))
    }

    /// The trigger of its next firing.
    pub(super) fn trigger(&self, alarm: &Standalone) -> Result<NewTrigger, AlarmRefusal> {
        self.firing(alarm, alarm.fire_at)
    }

    fn firing(&self, alarm: &Standalone, at: DateTime<Utc>) -> Result<NewTrigger, AlarmRefusal> {
        let firings = firings(alarm)?;
        Ok(NewTrigger {
            wish: alarm.wish(),
            place: Place::at(at),
            expires_at: expires_at(alarm, firings.as_ref(), (at, self.most)),
            has_more: firings.is_some(),
            moved: false,
        })
    }
}

fn expires_at(
    alarm: &Standalone,
    firings: Option<&Firings>,
    (at, most): (DateTime<Utc>, Duration),
) -> DateTime<Utc> {
    let latest = latest(at, most);
    match firings {
        Some(firings) => firings.expires_at(at, most),
        None => alarm.terms.expires_at.map_or(latest, |end| end.min(latest)),
    }
}

/// Owes `next` and what is kept, and nothing else. What was due and is withdrawn is recorded.
fn owing(group: &Group, kept: &[&Trigger], next: Option<NewTrigger>, now: DateTime<Utc>) -> Edit {
    let mut edit = Edit::default();
    let wish = next
        .as_ref()
        .map(|next| &next.wish)
        .or_else(|| kept.first().map(|kept| &kept.wish));
    edit.alarms = wish
        .map(|wish| {
            let known = group.alarms.iter().find(|it| it.wish == *wish);
            Alarm {
                served_through: known.and_then(|it| it.served_through),
                wish: wish.clone(),
            }
        })
        .into_iter()
        .collect();
    for trigger in &group.triggers {
        match &next {
            Some(next) if trigger.id == next.id() => {
                if trigger.expires_at != next.expires_at || trigger.withdrawn {
                    edit.adjust.push((trigger.id, next.expires_at, next.has_more));
                }
            }
            _ if kept.iter().any(|it| it.id == trigger.id) => {}
            _ => edit.withdraw.push(trigger.id),
        }
    }
    edit.insert.extend(next);
    edit.record = cancelled(group, &edit.withdraw, now);
    edit
}

/// When a series fires; none of an alarm that fires once.
pub(super) fn firings(alarm: &Standalone) -> Result<Option<Firings>, AlarmRefusal> {
    let firings = alarm.firings().transpose();
    firings.map_err(|reason| AlarmRefusal::Invalid("/cron", reason))
}

/// Why a series without a next firing is refused.
pub(super) fn never(alarm: &Standalone) -> AlarmRefusal {
    match alarm.terms.expires_at {
        Some(end) => AlarmRefusal::Invalid(
            "/expires_at",
            format!(
                "nothing of it fires before {}: let it expire later, or not at all",
                told(end)
            ),
        ),
        None => AlarmRefusal::Invalid("/cron", "it never fires: use another expression".to_owned()),
    }
}

/// Whether there is anywhere to send it. It is asked again when it fires.
pub(super) fn is_reachable(alarm: &Standalone, owner: &Owner) -> Result<(), AlarmRefusal> {
    let (is_there, what) = match alarm.channel {
        ChannelKind::Email => (owner.email.is_some(), "e-mail address"),
        ChannelKind::Sms => (owner.phone.is_some(), "phone number"),
        ChannelKind::Webhook => (
            owner.webhook.is_some() || alarm.terms.target.is_some(),
            "webhook, and the alarm no `target`",
        ),
        ChannelKind::Handler => return Ok(()),
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
