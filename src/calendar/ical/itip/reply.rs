//! REPLY (RFC 5546 section 3.2.3): the answer of one attendee, for all of an event or for one instance.

use chrono::DateTime;
use chrono::TimeDelta;
use chrono::Utc;

use crate::calendar::event::Attendee;
use crate::calendar::event::End;
use crate::calendar::ical::component;
use crate::calendar::ical::itip::Calendar;
use crate::calendar::ical::itip::Verdict;
use crate::calendar::ical::itip::part::Part;
use crate::calendar::ical::itip::part::Scope;
use crate::calendar::ical::property::Property;
use crate::calendar::ical::structure::Line;
use crate::calendar::ical::tree;
use crate::calendar::ical::tree::Node;
use crate::calendar::moment::Anchor;
use crate::calendar::moment::Moment;
use crate::calendar::zone::Zone;

/// When the answer was given, at the ATTENDEE it belongs to: so that an older one that comes later is known.
const ANSWERED: &str = "X-CARILLON-ANSWERED";

/// Writes the answers of a REPLY into the stored copy. The error says why there is nothing to write.
pub(super) fn apply(calendar: &mut Calendar, message: &Calendar) -> Result<Verdict, String> {
    if calendar.parts.is_empty() {
        return Err("no event is stored that this REPLY could answer".to_owned());
    }
    let mut verdict: Option<Verdict> = None;
    for reply in &message.parts {
        let named = reply
            .node
            .lines
            .iter()
            .filter(|line| line.name == "ATTENDEE")
            .count();
        if named != 1 {
            return Err(format!(
                "a REPLY is the answer of one ATTENDEE, this one names {named}"
            ));
        }
        let scope = reply.scope(calendar.master());
        for given in answers(&reply.node) {
            verdict = verdict.max(answer(calendar, reply, scope, &given));
        }
    }
    verdict.ok_or_else(|| "nobody who answers is an ATTENDEE of the stored event".to_owned())
}

/// What somebody answered.
struct Answer {
    attendee: Attendee,
    status: String,
}

fn answers(node: &Node) -> Vec<Answer> {
    let attendees = node.lines.iter().filter_map(attendee);
    attendees
        .filter_map(|attendee| {
            let status = attendee.status.clone()?;
            Some(Answer { attendee, status })
        })
        .collect()
}

fn attendee(line: &Line<'_>) -> Option<Attendee> {
    if line.name != "ATTENDEE" {
        return None;
    }
    Property::read(line).map(|property| component::attendee(&property))
}

/// Writes an answer into all that it is about; an instance gets an override of its own if it has none.
fn answer(calendar: &mut Calendar, reply: &Part, scope: Scope, answer: &Answer) -> Option<Verdict> {
    let master = calendar.master().cloned();
    let mut verdict = None;
    for part in &mut calendar.parts {
        let of_part = part.scope(master.as_ref());
        if of_part == scope || scope.covers(of_part) {
            verdict = verdict.max(answer_in(part, reply, answer));
        }
    }
    if scope == Scope::All || calendar.at(scope).is_some() {
        return verdict;
    }
    let mut own = instance(calendar.around(scope)?, reply, master.as_ref())?;
    let of_own = answer_in(&mut own, reply, answer);
    if of_own == Some(Verdict::News) {
        calendar.parts.push(own);
    }
    verdict.max(of_own)
}

/// Writes an answer into a component; none where it has no such attendee.
fn answer_in(part: &mut Part, reply: &Part, answer: &Answer) -> Option<Verdict> {
    let is_theirs = |known: &Attendee| shares_address(known, &answer.attendee);
    let mut lines = part.node.lines.iter_mut();
    let line = lines.find(|line| attendee(line).as_ref().is_some_and(is_theirs))?;
    let stamp = reply.component.version.1;
    let last = tree::parameter(line, ANSWERED).and_then(read_stamp);
    if reply.sequence() < part.component.version.0 || last.zip(stamp).is_some_and(|(last, now)| now < last) {
        return Some(Verdict::Older);
    }
    let answered = with_answer(line, &answer.status, stamp.or(last));
    if answered.text == line.text {
        return Some(Verdict::Known);
    }
    *line = answered;
    Some(Verdict::News)
}

fn with_answer(line: &Line<'_>, status: &str, stamp: Option<DateTime<Utc>>) -> Line<'static> {
    let stamp = stamp.map(|stamp| stamp.format("%Y%m%dT%H%M%SZ").to_string());
    let mut parameters = vec![("PARTSTAT", status)];
    parameters.extend(stamp.as_deref().map(|stamp| (ANSWERED, stamp)));
    tree::with_parameters(line, &parameters)
}

fn read_stamp(text: &str) -> Option<DateTime<Utc>> {
    let local = chrono::NaiveDateTime::parse_from_str(text, "%Y%m%dT%H%M%SZ").ok()?;
    Some(local.and_utc())
}

fn shares_address(one: &Attendee, other: &Attendee) -> bool {
    one.addresses
        .iter()
        .any(|address| other.addresses.contains(address))
}

/// What a message says of when somebody answered is not ours.
pub(super) fn forget_answers(part: &mut Part) {
    for line in part.node.lines.iter_mut().filter(|line| line.name == "ATTENDEE") {
        if tree::parameter(line, ANSWERED).is_some() {
            *line = tree::without_parameter(line, ANSWERED);
        }
    }
}

/// What was answered stays where the organizer, who may not have heard of it, has sent the same SEQUENCE again.
pub(super) fn keep_answers(known: &Part, part: &mut Part) {
    for line in &mut part.node.lines {
        let Some(invited) = attendee(line) else { continue };
        if !matches!(invited.status.as_deref(), None | Some("NEEDS-ACTION")) {
            continue;
        }
        let mut answered = known.node.lines.iter().filter(|line| {
            let attendee = attendee(line);
            attendee.is_some_and(|attendee| shares_address(&attendee, &invited))
        });
        if let Some(answered) = answered.next()
            && let Some(status) = tree::parameter(answered, "PARTSTAT")
        {
            let stamp = tree::parameter(answered, ANSWERED).and_then(read_stamp);
            *line = with_answer(line, status, stamp);
        }
    }
}

/// The override that says of the instance which a REPLY names what was said of it before.
fn instance(around: &Part, reply: &Part, master: Option<&Part>) -> Option<Part> {
    let mut own = around.clone();
    let floating = Zone::utc();
    let slot = reply.slot(master)?;
    let from = around.component.base()?;
    let begins = match around.slot(master) {
        None => Anchor::at_instant(slot.instant, from.zone.as_ref().unwrap_or(&floating)),
        Some(point) => moved(&slot, from, &point),
    };
    let delta = begins.instant - from.instant(&floating);
    own.node
        .remove(&["RRULE", "RDATE", "EXDATE", "EXRULE", "RECURRENCE-ID"]);
    let id = reply.node.find("RECURRENCE-ID")?;
    own.node.lines.insert(0, id.clone());
    if let (Some(start), Some(line)) = (&around.component.start, around.node.find("DTSTART")) {
        own.node.set(rewritten(line, start, begins.instant));
    }
    if let End::At(end) = &around.component.end {
        let name = if around.component.is_task { "DUE" } else { "DTEND" };
        let instant = match &around.component.start {
            // Whole days stay whole days, whatever the clock does meanwhile.
            Some(start) if start.is_date && end.is_date => begins.instant + (end.local - start.local),
            _ => end.instant(&floating) + delta,
        };
        own.node.set(rewritten(around.node.find(name)?, end, instant));
    }
    own.component
        .recurrence_id
        .clone_from(&reply.component.recurrence_id);
    own.component.is_this_and_future = reply.component.is_this_and_future;
    Some(own)
}

/// Where a THISANDFUTURE override has an instance start: as far from its place as the first one is, on the wall clock.
fn moved(slot: &Anchor, from: &Moment, point: &Anchor) -> Anchor {
    let zone = from.zone.clone().unwrap_or_else(Zone::utc);
    let shift: TimeDelta = from.local - zone.to_local(point.instant);
    Anchor::at_local(zone.to_local(slot.instant) + shift, &zone)
}

/// The line with another time, written as its own was.
fn rewritten(line: &Line<'_>, time: &Moment, instant: DateTime<Utc>) -> Line<'static> {
    let head = line
        .text
        .rsplit_once(':')
        .map_or(line.text.as_ref(), |(head, _)| head);
    let has_zone = tree::parameter(line, "TZID").is_some();
    let local = time.zone.as_ref().unwrap_or(&Zone::utc()).to_local(instant);
    let value = match &time.zone {
        _ if time.is_date => local.format("%Y%m%d").to_string(),
        Some(_) if !has_zone => instant.format("%Y%m%dT%H%M%SZ").to_string(),
        _ => local.format("%Y%m%dT%H%M%S").to_string(),
    };
    tree::line(&format!("{head}:{value}"))
}
