//! Reading a change before its transaction: what it says, what is wrong with it, and what it will cost to follow.

use chrono::DateTime;
use chrono::Utc;

use crate::calendar::event::Event;
use crate::calendar::ical;
use crate::change::Complaint;
use crate::change::Incoming;
use crate::change::Policies;
use crate::change::asked::Asked;
use crate::change::edit;
use crate::store::Change;
use crate::store::ChangeBody;
use crate::store::Owner;
use crate::trigger::expand;
use crate::trigger::recipients::Recipients;

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
    let mut cost = 0;
    if let Some(owner) = owner {
        let asked = Asked::of(vec![(&at.source, event.clone())], owner, policies);
        warnings.extend(unheard(event, &at.source, owner, policies));
        warnings.extend(unwritten(&asked.refused, policies));
        let wishes = asked.wishes(event.uid(), owner, policies);
        cost = edit::cost(&asked, &wishes, &owner.person_by(policies.choices), now).map_err(|error| {
            vec![complaint(format!(
                "its rules cost too much to follow ({error}): send fewer or simpler RRULEs, or fewer alarms"
            ))]
        })?;
    }
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
fn unheard(event: &Event, source: &str, owner: &Owner, policies: &Policies) -> Vec<String> {
    if owner.preferences.mutes(source) {
        return vec![format!(
            "its owner muted source `{source}`: nothing of it is sent"
        )];
    }
    let (alarms, refusals) = expand::alarms(event, &owner.person_by(policies.choices));
    let unrouted = alarms
        .into_iter()
        .filter(|alarm| {
            let channels = owner.preferences.channels(&alarm.action, policies.display);
            channels.is_empty()
        })
        .map(|alarm| {
            let action = alarm.action;
            match action.as_str() {
                "DISPLAY" | "AUDIO" => format!(
                    "a VALARM with ACTION:{action} is left to the calendar client: use ACTION:EMAIL, or set \
                 policies.display or the owner's display to \"deliver\""
                ),
                _ => format!("a VALARM with ACTION:{action} is not delivered: use ACTION:EMAIL"),
            }
        });
    unrouted
        .chain(refusals.into_iter().map(|refusal| refusal.reason))
        .collect()
}

/// That alarms name people who get nothing.
fn unwritten(refused: &[String], policies: &Policies) -> Option<String> {
    let number = refused.len();
    let first = refused.first()?;
    let cure = match policies.recipients {
        Recipients::Owner => "policies.recipients lets alarms write to their owner alone",
        Recipients::Verified => {
            "policies.recipients lets alarms write to their owner's `verified` addresses alone"
        }
        Recipients::Domains(_) => {
            "policies.recipients lets alarms write to policies.recipient_domains and the owner's `verified` addresses alone"
        }
        Recipients::Any => "there are too many of them",
    };
    Some(format!(
        "addresses that its alarms name get nothing ({number}, `{first}` first): {cure}"
    ))
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
