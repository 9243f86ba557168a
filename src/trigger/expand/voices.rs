//! Who asks for firings: each alarm of each component that speaks for some instance, and why some are not heard.

use std::collections::HashSet;

use chrono::DateTime;
use chrono::Utc;

use crate::calendar::alarm::Alarm;
use crate::calendar::alarm::AlarmTrigger;
use crate::calendar::alarm::Related;
use crate::calendar::event::Component;
use crate::calendar::event::End;
use crate::calendar::event::Off;
use crate::calendar::recurrence::Frequency;
use crate::trigger::AlarmIdentity;
use crate::trigger::expand::Person;
use crate::trigger::expand::Refusal;
use crate::trigger::expand::instance::Instance;
use crate::trigger::expand::series::Series;
use crate::trigger::expand::series::Slot;

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
    pub(super) refused: Option<String>,
}

impl<'a> Voice<'a> {
    pub(super) fn identity(&self) -> AlarmIdentity {
        AlarmIdentity(self.alarm.identity.clone())
    }

    /// The instance that an absolute trigger is said to belong to; none for a task without any date.
    pub(super) fn instance(&self, series: &Series<'a>) -> Option<Instance> {
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
        Some(Refusal {
            identity: Some(self.identity()),
            action: Some(self.alarm.action.clone()),
            occurrence: self.occurrence(series),
            reason: self.refused.clone()?,
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
) -> Option<String> {
    silence(component, person)
        .or_else(|| alarm.refused.clone())
        .or_else(|| match alarm.trigger {
            AlarmTrigger::Relative { related, .. } => {
                no_anchor(component, related).or_else(|| too_often(series, role))
            }
            AlarmTrigger::Absolute(_) => None,
        })
}

/// Why a component has no alarms for this person at all.
pub(super) fn silence(component: &Component, person: &Person) -> Option<String> {
    match component.off {
        Some(Off::Cancelled) => return Some("the event is cancelled".to_owned()),
        Some(Off::Completed) => return Some("the task is completed".to_owned()),
        None => {}
    }
    let attendee = component.attendee(&person.addresses)?;
    let has_declined = attendee.status.as_deref() == Some("DECLINED");
    has_declined.then(|| "the person's own PARTSTAT is DECLINED".to_owned())
}

/// A trigger whose anchor is missing means nothing, and is never guessed (RFC 5545 section 3.8.6.3).
fn no_anchor(component: &Component, related: Related) -> Option<String> {
    match (related, &component.end) {
        (Related::Start, _) if component.start.is_none() => {
            Some("TRIGGER is related to the start, but there is no DTSTART".to_owned())
        }
        (Related::End, End::Unreadable) => {
            Some("TRIGGER is related to the end, which cannot be read".to_owned())
        }
        (Related::End, End::Unstated) if component.is_task => {
            Some("TRIGGER is related to the end, but there is no DUE".to_owned())
        }
        (Related::End, End::After(_)) if component.start.is_none() => {
            Some("TRIGGER is related to the end, but DURATION has no DTSTART to count from".to_owned())
        }
        _ => None,
    }
}

/// Alarms closer than a minute are nobody's wish.
fn too_often(series: &Series<'_>, role: Role) -> Option<String> {
    if matches!(role, Role::Single(_)) {
        return None;
    }
    let is_secondly = series
        .rules
        .iter()
        .any(|rule| rule.frequency() == Frequency::Secondly);
    if is_secondly {
        return Some("FREQ=SECONDLY would ring more than once a minute".to_owned());
    }
    let master = series.segments.iter().find(|segment| segment.from.is_none())?;
    let seconds = master
        .component
        .rules
        .iter()
        .find_map(|rule| several_seconds(&rule.text))?;
    Some(format!("`{seconds}` would ring more than once a minute"))
}

fn several_seconds(rule: &str) -> Option<String> {
    let part = rule
        .split(';')
        .map(|part| part.trim().to_ascii_uppercase())
        .find(|part| part.starts_with("BYSECOND="))?;
    part.contains(',').then_some(part)
}
