//! What an owner answered to reminders of an event: kept beside its copies, and read into them as a calendar client would
//! have written it (RFC 9074 sections 6 and 7).

use std::collections::BTreeMap;

use chrono::DateTime;
use chrono::SubsecRound;
use chrono::TimeDelta;
use chrono::Utc;
use serde::Deserialize;
use serde::Serialize;

use crate::calendar::alarm::Alarm;
use crate::calendar::alarm::AlarmTrigger;
use crate::calendar::event::Component;
use crate::calendar::event::Event;
use crate::calendar::moment::Moment;
use crate::calendar::moment::Span;
use crate::calendar::zone::Zone;
use crate::trigger::Place;
use crate::trigger::TriggerId;
use crate::trigger::expand;
use crate::trigger::expand::Person;

/// Snoozes, and acknowledgements, that are kept of one event; the newest.
const MOST: usize = 50;

/// What an owner answered to reminders of one event.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answers {
    /// Since when all alarms of the event are off; none while they are on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub muted_at: Option<DateTime<Utc>>,
    /// When alarms were last acknowledged, by their identity.
    #[serde(default)]
    pub acknowledged: BTreeMap<String, DateTime<Utc>>,
    /// Snoozes, in the order in which they were asked for.
    #[serde(default)]
    pub snoozes: Vec<Snooze>,
}

/// An alarm that was put off.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snooze {
    /// The UID of the snooze alarm.
    pub uid: String,
    /// The identity of the alarm that was put off first.
    pub parent: String,
    /// When it goes off.
    pub trigger_at: DateTime<Utc>,
    /// The occurrence that it is about, named by its RECURRENCE-ID instant.
    pub occurrence: DateTime<Utc>,
    /// For how long it was asked for.
    pub wait: Wait,
    /// When it was asked for.
    pub snoozed_at: DateTime<Utc>,
    /// The reminder that it answers: a trigger's id.
    pub answers: String,
    /// When it was acknowledged or snoozed again: from then on it is no alarm any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<DateTime<Utc>>,
}

/// For how long an alarm is put off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wait {
    /// Ten minutes from now.
    TenMinutes,
    /// An hour from now.
    Hour,
    /// Until the occurrence starts.
    UntilStart,
}

/// What an owner does about a reminder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// It is done.
    Acknowledge,
    /// Again later.
    Snooze(Wait),
    /// No reminders of this event any more.
    Mute,
    /// Reminders of this event again.
    Unmute,
}

impl Act {
    /// All acts, in the order in which they are offered.
    pub const ALL: [Self; 6] = [
        Self::Acknowledge,
        Self::Snooze(Wait::TenMinutes),
        Self::Snooze(Wait::Hour),
        Self::Snooze(Wait::UntilStart),
        Self::Mute,
        Self::Unmute,
    ];

    /// The name in links, forms and the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Acknowledge => "acknowledge",
            Self::Snooze(Wait::TenMinutes) => "snooze-10m",
            Self::Snooze(Wait::Hour) => "snooze-1h",
            Self::Snooze(Wait::UntilStart) => "snooze-until-start",
            Self::Mute => "mute",
            Self::Unmute => "unmute",
        }
    }

    /// The act of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|act| act.as_str() == name)
    }
}

/// The reminder that is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// Its trigger.
    pub trigger: TriggerId,
    /// The identity of its alarm.
    pub identity: String,
    /// Which firing it was.
    pub place: Place,
    /// When its occurrence starts; none where there is no such occurrence any more.
    pub starts_at: Option<DateTime<Utc>>,
}

/// Why an act cannot be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The start has passed.
    #[error("the occurrence has started: there is nothing to wait for")]
    Started,
    /// The occurrence is gone.
    #[error("the occurrence no longer takes place: there is nothing to be reminded of")]
    Gone,
}

impl Answers {
    /// What is answered once `act` is done about `told`. The same act about the same reminder changes nothing.
    ///
    /// # Errors
    ///
    /// Where there is nothing to be reminded of.
    pub fn after(&self, act: Act, told: &Told, now: DateTime<Utc>) -> Result<Self, Refusal> {
        let mut answers = self.clone();
        match act {
            Act::Acknowledge => answers.acknowledge(told, now),
            // Who wants to be reminded again wants reminders.
            Act::Snooze(wait) => {
                answers.snooze(wait, told, now)?;
                answers.muted_at = None;
            }
            Act::Mute => answers.muted_at = self.muted_at.or(Some(now.trunc_subsecs(0))),
            Act::Unmute => answers.muted_at = None,
        }
        answers.forget_the_oldest();
        Ok(answers)
    }

    /// The snooze that answers this alarm, if one has not ended.
    pub fn snooze_of(&self, identity: &str) -> Option<&Snooze> {
        let origin = self.origin(identity);
        self.live().find(|snooze| snooze.parent == origin)
    }

    /// The snoozes that have not ended.
    pub fn live(&self) -> impl Iterator<Item = &Snooze> {
        self.snoozes.iter().filter(|snooze| snooze.ended_at.is_none())
    }

    /// The alarm that stands behind an identity: a snooze is one of another alarm.
    pub fn origin<'a>(&'a self, identity: &'a str) -> &'a str {
        let snooze = self.snoozes.iter().find(|snooze| snooze.uid == identity);
        snooze.map_or(identity, |snooze| &snooze.parent)
    }

    /// Reads what was answered into a copy of the event, as `person` reads it.
    pub fn read_into(&self, event: &mut Event, person: &Person) {
        let snoozes: Vec<(usize, Alarm)> = self
            .live()
            .filter_map(|snooze| snooze.placed(event, person))
            .collect();
        for component in event.components_mut() {
            for alarm in &mut component.alarms {
                let at = self.acknowledged.get(&alarm.identity).copied();
                alarm.acknowledged = alarm.acknowledged.max(at);
            }
        }
        for (at, alarm) in snoozes {
            event.components_mut()[at].alarms.push(alarm);
        }
    }

    /// To acknowledge a snooze is to acknowledge what was snoozed (RFC 9074 section 7.1); the snooze is gone then.
    fn acknowledge(&mut self, told: &Told, now: DateTime<Utc>) {
        let origin = self.origin(&told.identity).to_owned();
        let known = self.acknowledged.get(&origin);
        let is_known = known.is_some_and(|at| *at >= told.place.trigger_at);
        if is_known && !self.live().any(|snooze| snooze.puts_off(&origin, told)) {
            return;
        }
        self.end_snoozes(&origin, told, now);
        self.acknowledged.insert(origin, now.trunc_subsecs(0));
    }

    /// The alarm is acknowledged, and an alarm of its own stands for what is still to come.
    fn snooze(&mut self, wait: Wait, told: &Told, now: DateTime<Utc>) -> Result<(), Refusal> {
        let origin = self.origin(&told.identity).to_owned();
        let trigger = told.trigger.to_string();
        let is_same = |snooze: &Snooze| snooze.answers == trigger && snooze.wait == wait;
        if self
            .live()
            .any(|snooze| is_same(snooze) && snooze.trigger_at > now)
        {
            return Ok(());
        }
        let starts_at = told.starts_at.ok_or(Refusal::Gone)?;
        let trigger_at = match wait {
            Wait::TenMinutes => in_whole_seconds(now + TimeDelta::minutes(10)),
            Wait::Hour => in_whole_seconds(now + TimeDelta::hours(1)),
            Wait::UntilStart if starts_at <= now => return Err(Refusal::Started),
            Wait::UntilStart => starts_at,
        };
        self.end_snoozes(&origin, told, now);
        self.acknowledged.insert(origin.clone(), now.trunc_subsecs(0));
        self.snoozes.push(Snooze {
            uid: format!("{trigger}-{}", trigger_at.timestamp()),
            parent: origin,
            trigger_at,
            occurrence: told.place.occurrence,
            wait,
            snoozed_at: now.trunc_subsecs(0),
            answers: trigger,
            ended_at: None,
        });
        Ok(())
    }

    /// Of this occurrence: what was put off of another one is still to come.
    fn end_snoozes(&mut self, origin: &str, told: &Told, now: DateTime<Utc>) {
        for snooze in &mut self.snoozes {
            if snooze.puts_off(origin, told) {
                snooze.ended_at = snooze.ended_at.or(Some(now.trunc_subsecs(0)));
            }
        }
    }

    fn forget_the_oldest(&mut self) {
        let spare = self.snoozes.len().saturating_sub(MOST);
        self.snoozes.drain(..spare);
        while self.acknowledged.len() > MOST {
            let oldest = self.acknowledged.iter().min_by_key(|(_, at)| **at);
            let Some(oldest) = oldest.map(|(identity, _)| identity.clone()) else {
                return;
            };
            self.acknowledged.remove(&oldest);
        }
    }
}

impl Snooze {
    fn puts_off(&self, origin: &str, told: &Told) -> bool {
        self.parent == origin && self.occurrence == told.place.occurrence
    }

    /// The alarm that it is, and the component that has it: that of its occurrence, else that of its parent. None where its
    /// occurrence does not take place, its parent is gone or was acknowledged since by another client, or somebody wrote
    /// the snooze into the event already.
    fn placed(&self, event: &Event, person: &Person) -> Option<(usize, Alarm)> {
        let components = event.components();
        let alarms = || components.iter().flat_map(|component| &component.alarms);
        if alarms().any(|alarm| alarm.identity == self.uid) {
            return None;
        }
        let parent = alarms().find(|alarm| alarm.identity == self.parent)?;
        let acknowledged = alarms().filter(|alarm| alarm.identity == self.parent);
        let acknowledged = acknowledged.filter_map(|alarm| alarm.acknowledged).max();
        if acknowledged.is_some_and(|at| at > self.snoozed_at) {
            return None;
        }
        expand::occurrence(event, person, self.occurrence)?;
        let base = components.iter().find(|it| it.recurrence_id.is_none());
        let base = base.and_then(Component::base);
        let overrides = |component: &Component| {
            let id = component.recurrence_id.as_ref();
            id.is_some_and(|id| id.slot(base, &person.zone).instant == self.occurrence)
        };
        let has_parent =
            |component: &Component| component.alarms.iter().any(|alarm| alarm.identity == self.parent);
        let at = components
            .iter()
            .position(overrides)
            .or_else(|| components.iter().position(has_parent))?;
        Some((at, self.alarm(parent)))
    }

    fn alarm(&self, parent: &Alarm) -> Alarm {
        Alarm {
            identity: self.uid.clone(),
            action: parent.action.clone(),
            trigger: AlarmTrigger::Absolute(Moment {
                local: self.trigger_at.naive_utc(),
                zone: Some(Zone::utc()),
                is_date: false,
            }),
            repeat: 0,
            every: Span::default(),
            acknowledged: None,
            attendees: Vec::new(),
            refused: None,
            about: Some(self.occurrence),
        }
    }
}

/// The next whole second: iCalendar has none smaller, and an alarm must not be early.
fn in_whole_seconds(at: DateTime<Utc>) -> DateTime<Utc> {
    let whole = at.trunc_subsecs(0);
    if whole < at {
        whole + TimeDelta::seconds(1)
    } else {
        whole
    }
}

#[cfg(test)]
mod tests;
