//! Reading a change before its transaction: what it says, what is wrong with it, and what it will cost to follow.

use chrono::DateTime;
use chrono::Utc;

use crate::calendar::event::Event;
use crate::calendar::ical;
use crate::calendar::zone::Zone;
use crate::change::Complaint;
use crate::change::Incoming;
use crate::change::Policies;
use crate::change::edit;
use crate::change::route;
use crate::store::Change;
use crate::store::ChangeBody;
use crate::store::Owner;
use crate::trigger::expand;
use crate::trigger::expand::Choices;
use crate::trigger::expand::Person;

/// A change that was understood.
pub struct Read {
    /// What is to be done.
    pub change: Change,
    /// What was read leniently, and which alarms will not become messages.
    pub warnings: Vec<String>,
    /// Search steps.
    pub cost: u32,
}

/// Reads a change as its owner would.
pub fn read(
    incoming: Incoming,
    owner: Option<&Owner>,
    policies: &Policies,
    now: DateTime<Utc>,
) -> Result<Read, Vec<Complaint>> {
    let Incoming { at, version, ics } = incoming;
    let Some(bytes) = ics else {
        let change = Change {
            at,
            version,
            body: ChangeBody::Delete,
        };
        return Ok(Read {
            change,
            warnings: Vec::new(),
            cost: 0,
        });
    };
    let calendar = ical::parse(&bytes).map_err(|error| {
        vec![Complaint {
            component: None,
            line: Some(error.line),
            reason: error.reason,
        }]
    })?;
    if !calendar.rejected.is_empty() {
        return Err(calendar.rejected.into_iter().map(rejection).collect());
    }
    let event = only_event(&calendar.events)?;
    let mut warnings = calendar.warnings;
    warnings.extend(
        owner
            .map(|owner| silent_alarms(event, owner, policies))
            .unwrap_or_default(),
    );
    let person = owner.map_or_else(nobody, |owner| owner.person_by(policies.choices));
    let cost = edit::cost(event, &person, now).map_err(|error| {
        vec![complaint(format!(
            "its rules cost too much to follow ({error}): send fewer or simpler RRULEs, or fewer alarms"
        ))]
    })?;
    let body = ChangeBody::Put {
        uid: event.uid().to_owned(),
        ics: ical::decode(&bytes),
    };
    Ok(Read {
        change: Change { at, version, body },
        warnings,
        cost,
    })
}

/// Whoever an event is read for before it is known whose it is.
fn nobody() -> Person {
    Person {
        zone: Zone::utc(),
        addresses: Vec::new(),
        choices: Choices::default(),
    }
}

fn only_event(events: &[Event]) -> Result<&Event, Vec<Complaint>> {
    match events {
        [event] => Ok(event),
        [] => Err(vec![complaint(
            "there is no VEVENT or VTODO in it: send the event's own iCalendar text".into(),
        )]),
        several => Err(vec![complaint(format!(
            "there are {} events with different UIDs in it: send each under a key of its own",
            several.len()
        ))]),
    }
}

/// Which alarms of the event will not become messages, and why.
fn silent_alarms(event: &Event, owner: &Owner, policies: &Policies) -> Vec<String> {
    let (alarms, refusals) = expand::alarms(event, &owner.person_by(policies.choices));
    let unrouted = alarms
        .into_iter()
        .filter(|alarm| route(&alarm.action, policies).is_none())
        .map(|alarm| {
            let action = alarm.action;
            match action.as_str() {
                "DISPLAY" | "AUDIO" => format!(
                    "a VALARM with ACTION:{action} is left to the calendar client: use ACTION:EMAIL, or set \
                 policies.display = \"deliver\""
                ),
                _ => format!("a VALARM with ACTION:{action} is not delivered: use ACTION:EMAIL"),
            }
        });
    unrouted
        .chain(refusals.into_iter().map(|refusal| refusal.reason))
        .collect()
}

fn rejection(rejection: ical::Rejection) -> Complaint {
    Complaint {
        component: Some(rejection.component),
        line: Some(rejection.line),
        reason: rejection.reason,
    }
}

/// A complaint about the whole.
pub fn complaint(reason: String) -> Complaint {
    Complaint {
        component: None,
        line: None,
        reason,
    }
}
