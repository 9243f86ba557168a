//! How a firing came about, step by step: from what is written to the instant.

use chrono::NaiveDateTime;

use crate::calendar::alarm::AlarmTrigger;
use crate::calendar::event::Component;
use crate::calendar::event::Event;
use crate::calendar::ical::ReadZone;
use crate::calendar::moment::Anchor;
use crate::calendar::moment::Moment;
use crate::calendar::zone::Zone;
use crate::preview::words;
use crate::trigger::Place;
use crate::trigger::expand::Account;
use crate::trigger::expand::Speaker;

/// The steps of one firing.
pub(super) fn steps(
    event: &Event,
    account: &Account<'_>,
    place: &Place,
    zones: &[ReadZone],
    owner: &Zone,
) -> Vec<String> {
    let mut steps = vec![speaker(account)];
    let master = event
        .components()
        .iter()
        .find(|component| component.recurrence_id.is_none());
    let written = master.unwrap_or(account.component);
    if let Some(base) = written.base() {
        let name = if written.start.is_some() { "DTSTART" } else { "DUE" };
        steps.push(format!("{name} is {}", written_time(base, zones, owner)));
    }
    steps.extend(written.rules.iter().map(|rule| format!("RRULE is {}", rule.text)));
    if let Some(slot) = &account.slot {
        steps.push(format!("the occurrence is that of {}", reading(slot)));
    }
    let slot = account.slot.as_ref().map(|slot| slot.instant);
    let base = account.start.as_ref().or(account.end.as_ref());
    if let Some(base) = base.filter(|base| slot != Some(base.instant)) {
        steps.push(format!("here it starts {}", reading(base)));
    }
    steps.push(trigger(account));
    if place.repeat > 0 {
        let (number, of) = (place.repeat, account.alarm.repeat);
        let every = words::length(account.alarm.every);
        steps.push(format!("it is repeat {number} of {of}, {every} apart"));
    }
    steps.push(format!("the instant is {}", super::written(place.trigger_at)));
    steps
}

fn speaker(account: &Account<'_>) -> String {
    let Component { line, is_task, .. } = account.component;
    let kind = if *is_task { "VTODO" } else { "VEVENT" };
    let what = match account.speaker {
        Speaker::Master => "",
        Speaker::ThisAndFuture => ", an override of an occurrence and all later ones",
        Speaker::Single => ", an override of this occurrence",
    };
    format!("the alarm is that of the {kind} at line {line}{what}")
}

fn written_time(time: &Moment, zones: &[ReadZone], owner: &Zone) -> String {
    let local = time.local.format(words::WALL);
    match &time.zone {
        _ if time.is_date => {
            let day = time.local.format("%a %Y-%m-%d");
            format!(
                "{day}, a whole day: it begins at 00:00 where the owner is, {}",
                owner.name()
            )
        }
        None => format!("{local} without a zone: where the owner is, {}", owner.name()),
        Some(zone) => {
            let read = zones.iter().find(|read| read.zone == *zone);
            let tzid = read.map_or(String::new(), |read| format!(" ({})", taken(read)));
            format!("{local} in {}{tzid}", zone.name())
        }
    }
}

/// What a TZID was taken for.
pub(super) fn taken(read: &ReadZone) -> String {
    let (tzid, name) = (&read.tzid, read.zone.name());
    if read.is_custom {
        format!("TZID `{tzid}` is no zone that is known: the rules of its VTIMEZONE are followed")
    } else {
        format!("TZID `{tzid}` is read as {name}")
    }
}

fn trigger(account: &Account<'_>) -> String {
    let timing = words::timing(account.alarm);
    match account.alarm.trigger {
        AlarmTrigger::Absolute(_) => format!("TRIGGER is {timing}, once, whatever the recurrence"),
        AlarmTrigger::Relative { span, .. } => {
            let how = match (span.days != 0, span.seconds != 0) {
                (true, false) => ", days counted on the wall clock",
                (true, true) => ", days counted on the wall clock, then exact time",
                _ => "",
            };
            format!("TRIGGER is {timing}{how}: {}", reading(&account.first))
        }
    }
}

/// An instant as the clock of its zone shows it.
fn reading(anchor: &Anchor) -> String {
    let shown: NaiveDateTime = anchor.zone.to_local(anchor.instant);
    let offset = anchor.zone.offset_at(anchor.instant);
    let (local, name) = (shown.format(words::WALL), anchor.zone.name());
    format!("{local} {offset} in {name}")
}
