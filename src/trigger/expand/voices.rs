//! Who asks for firings: each alarm of each component that speaks for some instance, and why some are not heard.

use std::collections::BTreeSet;
use std::collections::HashSet;

use chrono::DateTime;
use chrono::TimeDelta;
use chrono::Utc;

use crate::calendar::alarm::Alarm;
use crate::calendar::alarm::AlarmTrigger;
use crate::calendar::alarm::Related;
use crate::calendar::alarm::SHORTEST_PAUSE;
use crate::calendar::event::Component;
use crate::calendar::event::End;
use crate::calendar::event::Off;
use crate::calendar::recurrence::Frequency;
use crate::calendar::recurrence::Rule;
use crate::trigger::AlarmIdentity;
use crate::trigger::expand::Person;
use crate::trigger::expand::Refusal;
use crate::trigger::expand::appearance;
use crate::trigger::expand::instance::Instance;
use crate::trigger::expand::series::Series;
use crate::trigger::expand::series::Slot;
use crate::trigger::expand::why::Refused;
use crate::trigger::expand::why::Why;

/// What a component speaks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// The segment of that number.
    Segment(usize),
    /// One instance, by its RECURRENCE-ID.
    Single(DateTime<Utc>),
}

/// One alarm of one component.
#[derive(Debug)]
pub(super) struct Voice<'a> {
    pub(super) role: Role,
    pub(super) component: &'a Component,
    pub(super) alarm: &'a Alarm,
    /// Why it is not heard.
    pub(super) refused: Option<Refused>,
}

impl<'a> Voice<'a> {
    pub(super) fn identity(&self) -> AlarmIdentity {
        AlarmIdentity(self.alarm.identity.clone())
    }

    /// The instance that an absolute trigger is said to belong to; none for a task without any date.
    pub(super) fn instance(&self, series: &Series<'a>) -> Option<Instance> {
        if let Some(about) = self.alarm.about {
            return appearance::instance(series, about);
        }
        match self.role {
            Role::Single(occurrence) => series.single(occurrence, self.component),
            Role::Segment(index) => {
                let segment = &series.segments[index];
                if let Some(from) = segment.from {
                    return series.single(from, self.component);
                }
                let at = series.base.clone()?;
                Some(series.instance(segment, &Slot { at, end: None }))
            }
        }
    }

    /// The override it belongs to, if any.
    fn occurrence(&self, series: &Series<'a>) -> Option<DateTime<Utc>> {
        match self.role {
            Role::Single(occurrence) => Some(occurrence),
            Role::Segment(index) => series.segments[index].from,
        }
    }

    pub(super) fn refusal(&self, series: &Series<'a>) -> Option<Refusal> {
        let Refused { why, reason } = self.refused.clone()?;
        Some(Refusal {
            identity: Some(self.identity()),
            action: Some(self.alarm.action.clone()),
            occurrence: self.occurrence(series),
            why,
            reason,
        })
    }
}

/// All alarms, the master's first, then those of THISANDFUTURE overrides, then those of single ones.
pub(super) fn all<'a>(series: &Series<'a>, person: &Person) -> Vec<Voice<'a>> {
    let segments = series.segments.iter().enumerate();
    let roles = segments
        .map(|(index, segment)| (Role::Segment(index), segment.component))
        .chain(
            series
                .singles
                .iter()
                .map(|(at, component)| (Role::Single(*at), *component)),
        );
    let mut voices: Vec<Voice<'a>> = Vec::new();
    let mut heard: HashSet<(&str, DateTime<Utc>)> = HashSet::new();
    for (role, component) in roles {
        for alarm in &component.alarms {
            let refused = refused(series, person, component, alarm, role);
            // An absolute trigger that an override copied from the master fires once all the same.
            if let AlarmTrigger::Absolute(time) = &alarm.trigger
                && refused.is_none()
                && !heard.insert((&alarm.identity, time.instant(series.zone)))
            {
                continue;
            }
            voices.push(Voice {
                role,
                component,
                alarm,
                refused,
            });
        }
    }
    voices
}

fn refused(
    series: &Series<'_>,
    person: &Person,
    component: &Component,
    alarm: &Alarm,
    role: Role,
) -> Option<Refused> {
    silence(component, person)
        .or_else(|| alarm.refused.clone().map(|reason| Why::NotByTime.because(reason)))
        .or_else(|| match alarm.trigger {
            AlarmTrigger::Relative { related, .. } => no_anchor(component, related)
                .filter(|_| !stands_in(component, related, person))
                .or_else(|| too_often(series, role, alarm)),
            AlarmTrigger::Absolute(_) => None,
        })
}

/// Why a component has no alarms for this person at all: STATUS and METHOD (RFC 5545 section 3.8.1.11, RFC 5546 section
/// 3.2.5), COMPLETED (RFC 5545 section 3.8.2.1), or the person's own PARTSTAT (RFC 5545 section 3.2.12).
pub(super) fn silence(component: &Component, person: &Person) -> Option<Refused> {
    match component.off {
        Some(Off::Cancelled) => return Some(Why::Cancelled.because("the event is cancelled")),
        Some(Off::Completed) => return Some(Why::Completed.because("the task is completed")),
        Some(Off::Message) => {
            return Some(Why::NoEvent.because("it is an answer or a question about an event"));
        }
        None => {}
    }
    let status = component.attendee(&person.addresses)?.status.as_deref()?;
    let why = match status {
        "DECLINED" if !person.choices.with_declined => Why::Declined,
        "DELEGATED" if !person.choices.with_delegated => Why::Delegated,
        _ => return None,
    };
    Some(why.because(format!("the person's own PARTSTAT is {status}")))
}

/// A trigger whose anchor is missing means nothing, and is never guessed (RFC 5545 section 3.8.6.3).
fn no_anchor(component: &Component, related: Related) -> Option<Refused> {
    match (related, &component.end) {
        (Related::Start, _) if component.start.is_none() => {
            Some(Why::NoAnchor.because("TRIGGER is related to the start, but there is no DTSTART"))
        }
        (Related::End, End::Unreadable) => {
            Some(Why::NoAnchor.because("TRIGGER is related to the end, which cannot be read"))
        }
        (Related::End, End::Unstated) if component.is_task => {
            Some(Why::NoAnchor.because("TRIGGER is related to the end, but there is no DUE"))
        }
        (Related::End, End::After(_)) if component.start.is_none() => Some(
            Why::NoAnchor.because("TRIGGER is related to the end, but DURATION has no DTSTART to count from"),
        ),
        _ => None,
    }
}

/// Whether DUE stands in for a DTSTART that is missing, since that is the choice.
fn stands_in(component: &Component, related: Related, person: &Person) -> bool {
    related == Related::Start && person.choices.due_is_start && component.base().is_some()
}

/// Alarms closer than a minute are nobody's wish.
fn too_often(series: &Series<'_>, role: Role, alarm: &Alarm) -> Option<Refused> {
    if matches!(role, Role::Single(_)) {
        return None;
    }
    let too_often =
        |what: &str| Some(Why::TooOften.because(format!("{what} would ring more than once a minute")));
    let is_secondly = |rule: &Rule| rule.frequency() == Frequency::Secondly;
    if series.rules.iter().any(is_secondly) {
        return too_often("FREQ=SECONDLY");
    }
    let master = series.segments.iter().find(|segment| segment.from.is_none())?;
    let mut rules = master.component.rules.iter();
    if let Some(seconds) = rules.find_map(|rule| several_seconds(&rule.text)) {
        return too_often(&format!("`{seconds}`"));
    }
    let frequent = series
        .rules
        .iter()
        .filter(|rule| rule.shortest_gap() < TimeDelta::hours(1));
    let seconds: BTreeSet<u32> = frequent.filter_map(Rule::second).collect();
    if seconds.len() > 1 {
        return too_often("several RRULEs at different seconds");
    }
    let is_crowded = |rule: &Rule| is_crowded(rule, alarm);
    if series.rules.iter().any(is_crowded) {
        return too_often(&format!("REPEAT `{}` in a series as dense as this", alarm.repeat));
    }
    None
}

/// Whether so many instances repeat their alarm at the same time that it rings more than once a minute.
fn is_crowded(rule: &Rule, alarm: &Alarm) -> bool {
    let every = alarm.every.seconds_nominal();
    let lasts = every.saturating_mul(i64::from(alarm.repeat));
    let at_once = lasts / rule.shortest_gap().num_seconds().max(1) + 1;
    alarm.repeat > 0 && at_once.saturating_mul(SHORTEST_PAUSE) > every
}

fn several_seconds(rule: &str) -> Option<String> {
    let part = rule
        .split(';')
        .map(|part| part.trim().to_ascii_uppercase())
        .find(|part| part.starts_with("BYSECOND="))?;
    part.contains(',').then_some(part)
}
