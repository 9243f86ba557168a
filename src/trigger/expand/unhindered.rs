//! What an event would fire if nothing took firings out of it. Compared with what it does fire, it shows what was taken
//! out, and by what.

use chrono::DateTime;
use chrono::Utc;

use crate::calendar::event::Component;
use crate::calendar::event::Event;

/// The event as if nothing had been acknowledged at or after `since`. None where that changes nothing.
pub fn unacknowledged(event: &Event, since: DateTime<Utc>) -> Option<Event> {
    let is_recent = |at: Option<DateTime<Utc>>| at.is_some_and(|at| since <= at);
    let mut components = event.components().to_vec();
    let mut changes = false;
    for alarm in components.iter_mut().flat_map(|component| &mut component.alarms) {
        if is_recent(alarm.acknowledged) {
            alarm.acknowledged = None;
            changes = true;
        }
    }
    changes.then(|| Event::new(event.uid().to_owned(), components))
}

/// The event without EXDATEs and without overrides of single occurrences. None where that changes nothing.
pub fn undisturbed(event: &Event) -> Option<Event> {
    let is_single =
        |component: &Component| component.recurrence_id.is_some() && !component.is_this_and_future;
    let has_master = event
        .components()
        .iter()
        .any(|component| component.recurrence_id.is_none());
    let is_disturbed = event
        .components()
        .iter()
        .any(|component| is_single(component) || !component.exdates.is_empty());
    if !has_master || !is_disturbed {
        return None;
    }
    let left = event
        .components()
        .iter()
        .filter(|component| !is_single(component));
    let components = left.map(|component| Component {
        exdates: Vec::new(),
        ..component.clone()
    });
    Some(Event::new(event.uid().to_owned(), components.collect()))
}
