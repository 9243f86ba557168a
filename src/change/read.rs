//! Reading a change before its transaction: what it says, what is wrong with it, and what it will cost to follow.

use chrono::DateTime;
use chrono::TimeDelta;
use chrono::Utc;

use crate::calendar::event::Event;
use crate::calendar::ical;
use crate::calendar::ical::itip;
use crate::change::Complaint;
use crate::change::Incoming;
use crate::change::Policies;
use crate::change::SourceKind;
use crate::change::asked::Asked;
use crate::change::edit;
use crate::store::Change;
use crate::store::ChangeBody;
use crate::store::Owner;
use crate::trigger::answers::Answers;
use crate::trigger::expand;
use crate::trigger::recipients::Recipients;

/// The methods of iTIP (RFC 5546 section 1.4).
const METHODS: [&str; 8] = [
    "PUBLISH",
    "REQUEST",
    "REPLY",
    "ADD",
    "CANCEL",
    "REFRESH",
    "COUNTER",
    "DECLINECOUNTER",
];

/// What merging a message into what is stored costs at the most, in search steps: both texts are read, and written.
const COST_OF_MERGING: u32 = edit::MOST_STEPS / 20;

/// What a deletion costs, in search steps: who else holds the event is asked what remains, at a price that is not known yet.
const COST_OF_DELETING: u32 = edit::MOST_STEPS / 100;

/// How far the clock of whoever sends a message may be ahead of ours: a zone that was taken for UTC.
const MOST_AHEAD: TimeDelta = TimeDelta::hours(24);

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
            cost: COST_OF_DELETING,
        });
    };
    let calendar = calendar(&bytes)?;
    let event = only_event(&calendar.events)?;
    let ics = ical::decode(&bytes).into_owned();
    let is_message = is_message(&ics, policies.source(&at.source).kind)?;
    let mut warnings = calendar.warnings;
    let mut cost = 0;
    if let Some(owner) = owner {
        let asked = Asked::of(
            vec![(&at.source, event.clone())],
            owner,
            &Answers::default(),
            policies,
        );
        if !is_message {
            warnings.extend(unheard(event, &at.source, owner, policies));
            warnings.extend(unwritten(&asked.refused, policies));
            warnings.extend(routed(&asked, policies));
        }
        let wishes = asked.wishes(event.uid(), owner, policies);
        cost = edit::cost(&asked, &wishes, now).map_err(|error| {
            vec![complaint(format!(
                "its rules cost too much to follow ({error}): send fewer or simpler RRULEs, or fewer alarms"
            ))]
        })?;
    }
    let uid = event.uid().to_owned();
    let body = if is_message {
        is_of_our_time(event, now)?;
        warnings.extend(foreign_alarms(event));
        cost += COST_OF_MERGING;
        ChangeBody::Message {
            uid,
            ics,
            addresses: owner.map_or_else(Vec::new, |owner| owner.person().addresses),
        }
    } else {
        ChangeBody::Put { uid, ics }
    };
    Ok(Read {
        change: Change { at, version, body },
        warnings,
        cost,
    })
}

/// The calendar of a text that can be read whole.
fn calendar(bytes: &[u8]) -> Result<ical::Calendar, Vec<Complaint>> {
    let calendar = ical::parse(bytes).map_err(|error| {
        vec![Complaint {
            component: None,
            line: Some(error.line),
            reason: error.reason,
        }]
    })?;
    if calendar.rejected.is_empty() {
        Ok(calendar)
    } else {
        Err(calendar.rejected.into_iter().map(rejection).collect())
    }
}

/// Whether a text is a scheduling message about the event, and not the event (RFC 5546 section 1.4).
fn is_message(ics: &str, kind: SourceKind) -> Result<bool, Vec<Complaint>> {
    let Some(method) = itip::method(ics) else {
        return Ok(false);
    };
    let is_known = METHODS.contains(&method.as_str());
    let is_event = ["PUBLISH", "REQUEST", "ADD", "CANCEL"].contains(&method.as_str());
    match kind {
        SourceKind::Itip if is_known => Ok(true),
        SourceKind::Itip => Err(vec![complaint(format!(
            "METHOD:{method} is none of iTIP: leave it out, or send one of {}",
            METHODS.join(", ")
        ))]),
        SourceKind::Calendar if is_known && !is_event => Err(vec![complaint(format!(
            "METHOD:{method} says something about an event and is none: set `kind = \"itip\"` for this source, or send \
             the event as it reads now"
        ))]),
        SourceKind::Calendar => Ok(false),
    }
}

/// Messages are ordered by DTSTAMP: one from far ahead would make all that follow look old.
fn is_of_our_time(event: &Event, now: DateTime<Utc>) -> Result<(), Vec<Complaint>> {
    let stamps = event.components().iter().filter_map(|it| it.version.1);
    match stamps.max() {
        Some(stamp) if now + MOST_AHEAD < stamp => Err(vec![complaint(format!(
            "DTSTAMP {} lies in the future: send the instant at which the message was made, in UTC",
            stamp.format("%Y%m%dT%H%M%SZ")
        ))]),
        _ => Ok(()),
    }
}

/// What is said of alarms that a message carries: they are the organizer's.
fn foreign_alarms(event: &Event) -> Option<String> {
    let components = event.components().iter();
    let alarms: usize = components.map(|it| it.alarms.len() + it.unreadable.len()).sum();
    (alarms > 0).then(|| {
        format!("the message has {alarms} VALARMs of whoever sent it, which are left out: alarms are the owner's own")
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

/// That an alarm names an address that gets nothing because of its form.
fn routed(asked: &Asked, policies: &Policies) -> Option<String> {
    let routed = asked.others().find(|it| policies.recipients.refuse_route(it))?;
    Some(format!(
        "`{routed}` gets nothing: a relay may send mail for it on to another address; name the address itself, without \
         `%`, `!` or quotes before the `@`"
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
