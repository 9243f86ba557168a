//! Scheduling messages (iTIP, RFC 5546): what a message makes of the copy of the event that is stored. Pure.
//!
//! REQUEST and PUBLISH say how the event, or some of its instances, read now; ADD says it of further instances, CANCEL
//! calls off. Each component is compared with the stored one that speaks for the same instances: by SEQUENCE, then
//! DTSTAMP (section 2.1.5). So messages may come twice or out of order. REPLY says what one attendee answered, and
//! changes nothing else. COUNTER, DECLINECOUNTER and REFRESH are for the organizer to act on.
//!
//! Alarms are private: those of the organizer are left out, and what the owner has stored is kept (section 3.2.2: a
//! REQUEST carries no alarms of the attendee). A new override takes those of what spoke for its instance before, since an
//! override replaces its instance whole.

mod part;
mod reply;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::collections::BTreeSet;

use crate::calendar::event::Attendee;
use crate::calendar::event::Component;
use crate::calendar::ical;
use crate::calendar::ical::Limits;
use crate::calendar::ical::itip::part::Part;
use crate::calendar::ical::itip::part::Scope;
use crate::calendar::ical::tree;
use crate::calendar::ical::tree::Node;

/// What a message makes of the stored copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Merged {
    /// The event reads like this now.
    Text(String),
    /// It is told what it knows already.
    Unchanged,
    /// The message is older than what is stored.
    Stale,
    /// There is nothing that the message could change; why.
    Nothing(String),
    /// The event would become larger than an event may be.
    TooLarge(String),
}

/// The METHOD of a text, upper case; none where it is no message.
pub fn method(text: &str) -> Option<String> {
    let calendar = Node::read(text).ok()?;
    let method = calendar.find("METHOD")?.plain_value().to_ascii_uppercase();
    (!method.is_empty()).then_some(method)
}

/// What `message` makes of `stored`, the copy of whoever has these addresses. Both can be read as calendars of one UID; a
/// stored text that cannot is as good as none.
pub fn merge(stored: Option<&str>, message: &str, addresses: &[String]) -> Merged {
    let Some(message) = Calendar::read(message) else {
        return Merged::Nothing("it cannot be read".to_owned());
    };
    let before = stored.and_then(Calendar::read);
    let method = message.method();
    if let Some(reason) = before.as_ref().and_then(|stored| foreign(stored, &message)) {
        return Merged::Nothing(reason);
    }
    if before
        .as_ref()
        .is_some_and(|stored| uninvites_others(stored, &message, addresses))
    {
        return Merged::Nothing("it uninvites other attendees than the owner".to_owned());
    }
    let mut calendar = match &before {
        Some(stored) => stored.clone().without_method(),
        None => Calendar::without_parts(&message),
    };
    let judged = match method.as_str() {
        "REPLY" => reply::apply(&mut calendar, &message),
        "REQUEST" | "PUBLISH" | "ADD" | "CANCEL" => Ok(calendar.take_all(&message, &method)),
        other => Err(format!("METHOD:{other} asks the organizer, and changes no event")),
    };
    match judged {
        Err(reason) => Merged::Nothing(reason),
        Ok(Verdict::Older) => Merged::Stale,
        Ok(Verdict::Known) => Merged::Unchanged,
        Ok(Verdict::News) => {
            let is_whole = matches!(&*method, "REQUEST" | "PUBLISH") && message.master().is_some();
            calendar.adopt_zones(&message, is_whole);
            let text = calendar.text();
            if before.is_some_and(|before| before.text() == text) {
                return Merged::Unchanged;
            }
            too_large(&text).map_or(Merged::Text(text), Merged::TooLarge)
        }
    }
}

/// Why a message has no say in what is stored. Only its organizer says how an event reads (RFC 5546 section 2.1.1); an
/// answer may leave out to whom it is given.
fn foreign(stored: &Calendar, message: &Calendar) -> Option<String> {
    let is_task = |calendar: &Calendar| calendar.parts.iter().any(|part| part.component.is_task);
    if is_task(stored) != is_task(message) {
        return Some(
            "it is about a VTODO where a VEVENT of the same UID is stored, or the other way round".to_owned(),
        );
    }
    let known: Vec<String> = stored.parts.iter().flat_map(Part::organizer).collect();
    let is_answer = message.method() == "REPLY";
    let is_theirs = |part: &Part| {
        let named = part.organizer();
        is_answer && named.is_empty() || named.iter().any(|address| known.contains(address))
    };
    (!known.is_empty() && !message.parts.iter().all(is_theirs)).then(|| {
        "it names another ORGANIZER than the stored event, or none: where somebody else took over, delete the event first"
            .to_owned()
    })
}

/// Whether a CANCEL takes others off the list, and neither the owner nor everybody (RFC 5546 section 3.2.5: the attendees that
/// are removed are named, and STATUS is left out).
fn uninvites_others(stored: &Calendar, message: &Calendar, addresses: &[String]) -> bool {
    let is_named =
        |addresses: &[String], named: &[Attendee]| named.iter().any(|it| it.is_known_by(addresses));
    let invited = |calendar: &Calendar| -> Vec<Attendee> {
        let parts = calendar.parts.iter();
        parts.flat_map(|part| part.component.attendees.clone()).collect()
    };
    let uninvited = invited(message);
    message.method() == "CANCEL"
        && !addresses.is_empty()
        && !uninvited.is_empty()
        && !message.parts.iter().any(Part::says_cancelled)
        && !is_named(addresses, &uninvited)
        && invited(stored)
            .iter()
            .any(|invited| !is_named(&invited.addresses, &uninvited))
}

fn too_large(text: &str) -> Option<String> {
    let limits = Limits::default();
    if text.len() > limits.bytes {
        let (size, most) = (text.len(), limits.bytes);
        return Some(format!(
            "with this message the event has {size} bytes: {most} are allowed"
        ));
    }
    let read = ical::parse(text.as_bytes());
    let reason = match &read {
        Err(error) => Some(&error.reason),
        Ok(calendar) => calendar.rejected.first().map(|rejection| &rejection.reason),
    };
    reason.map(|reason| format!("with this message the event cannot be followed: {reason}"))
}

/// What becomes of a part of a message; of several the greatest counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    Older,
    Known,
    News,
}

/// A calendar of one event.
#[derive(Debug, Clone)]
struct Calendar {
    /// All but the parts.
    rest: Node,
    parts: Vec<Part>,
}

impl Calendar {
    fn read(text: &str) -> Option<Self> {
        let mut rest = Node::read(text).ok()?;
        let calendar = ical::parse(text.as_bytes()).ok()?;
        let [event] = calendar.events.as_slice() else {
            return None;
        };
        let nodes = rest.take(|child| matches!(child.kind.as_str(), "VEVENT" | "VTODO"));
        let meaning = |line: usize| event.components().iter().find(|it: &&Component| it.line == line);
        let parts = nodes.into_iter().filter_map(|node| {
            Some(Part {
                component: meaning(node.line)?.clone(),
                node,
            })
        });
        Some(Self {
            parts: parts.collect(),
            rest,
        })
    }

    fn without_parts(message: &Self) -> Self {
        let mut rest = message.rest.clone();
        rest.remove(&["METHOD"]);
        Self {
            rest,
            parts: Vec::new(),
        }
    }

    /// As a calendar stores it: what its METHOD said of it is said by each component.
    fn without_method(mut self) -> Self {
        if self.method() == "CANCEL" {
            for part in &mut self.parts {
                let by = part.clone();
                part.cancel(&by);
            }
        }
        self.rest.remove(&["METHOD"]);
        self
    }

    fn method(&self) -> String {
        let line = self.rest.find("METHOD");
        line.map_or(String::new(), |line| line.plain_value().to_ascii_uppercase())
    }

    fn text(&self) -> String {
        let mut whole = self.rest.clone();
        whole
            .children
            .extend(self.parts.iter().map(|part| part.node.clone()));
        whole.text()
    }

    /// The newest component without a RECURRENCE-ID.
    fn master(&self) -> Option<&Part> {
        let masters = self
            .parts
            .iter()
            .filter(|part| part.component.recurrence_id.is_none());
        masters.max_by_key(|part| part.component.version)
    }

    /// The part that speaks for exactly this.
    fn at(&self, scope: Scope) -> Option<usize> {
        let master = self.master();
        let same = self
            .parts
            .iter()
            .enumerate()
            .filter(|(_, part)| part.scope(master) == scope);
        let newest = same.max_by_key(|(_, part)| part.component.version);
        newest.map(|(index, _)| index)
    }

    /// The part that speaks for this unless a part of its own does: the last THISANDFUTURE before it, else the master.
    fn around(&self, scope: Scope) -> Option<&Part> {
        let master = self.master();
        let around = self.parts.iter().filter(|part| part.scope(master).covers(scope));
        around.max_by_key(|part| part.scope(master))
    }

    /// Takes the components of a message, the master first.
    fn take_all(&mut self, message: &Self, method: &str) -> Verdict {
        let mut incoming: Vec<Part> = message.parts.iter().map(|part| prepared(part, method)).collect();
        let of_message = message.master().cloned();
        let master = of_message.or_else(|| self.master().cloned());
        incoming.sort_by_key(|part| part.scope(master.as_ref()));
        let verdicts = incoming
            .into_iter()
            .map(|part| self.take(part, method == "CANCEL"));
        verdicts.max().unwrap_or(Verdict::Known)
    }

    /// Takes one component if it is news.
    fn take(&mut self, part: Part, is_cancel: bool) -> Verdict {
        let scope = part.scope(self.master());
        let verdict = self.judge(&part, scope, is_cancel);
        if verdict != Verdict::News {
            return verdict;
        }
        if is_cancel {
            self.cancel(part, scope);
        } else {
            self.put(part, scope);
        }
        Verdict::News
    }

    fn judge(&self, part: &Part, scope: Scope, is_cancel: bool) -> Verdict {
        if let Some(stored) = self.at(scope).map(|index| &self.parts[index]) {
            return match part.compare(stored) {
                Some(Ordering::Less) => Verdict::Older,
                Some(Ordering::Equal) if !is_cancel || stored.is_cancelled() => Verdict::Known,
                None if is_cancel && stored.is_cancelled() => Verdict::Known,
                Some(Ordering::Equal | Ordering::Greater) | None => Verdict::News,
            };
        }
        let Some(around) = self.around(scope) else {
            return Verdict::News;
        };
        let is_called_off = around.is_cancelled() && !part.is_newer_than(around);
        let is_outdated = self.master().is_some_and(|master| !part.has_place_beside(master));
        if is_called_off && is_cancel {
            Verdict::Known
        } else if is_called_off || is_outdated {
            Verdict::Older
        } else {
            Verdict::News
        }
    }

    /// Puts a component in the place of the stored one, with the alarms of its owner.
    fn put(&mut self, mut part: Part, scope: Scope) {
        let known = self.at(scope).map(|index| self.parts[index].clone());
        let own = known
            .as_ref()
            .filter(|it| !it.is_cancelled() || it.alarms().count() > 0);
        let alarms: Vec<Node> = own
            .or_else(|| self.around(scope))
            .map_or_else(Vec::new, |part| part.alarms().cloned().collect());
        part.node.children.extend(alarms);
        if let Some(known) = known.filter(|known| known.sequence() == part.sequence()) {
            reply::keep_answers(&known, &mut part);
        }
        self.replace(part.clone(), scope);
        if scope == Scope::All {
            self.parts
                .retain(|it| it.component.recurrence_id.is_none() || it.has_place_beside(&part));
        }
    }

    /// Calls off what a message calls off, and what was said of parts of it before.
    fn cancel(&mut self, part: Part, scope: Scope) {
        let by = part.clone();
        let mut cancelled = match self.at(scope) {
            Some(index) => self.parts[index].clone(),
            None => part,
        };
        cancelled.cancel(&by);
        self.replace(cancelled, scope);
        let master = self.master().cloned();
        self.parts.retain(|it| {
            let is_part = scope.covers(it.scope(master.as_ref()));
            !is_part || by.compare(it) == Some(Ordering::Less)
        });
    }

    fn replace(&mut self, part: Part, scope: Scope) {
        let master = self.master().cloned();
        let first = self.at(scope).unwrap_or(self.parts.len());
        let before = self.parts[..first].iter();
        let at = before.filter(|it| it.scope(master.as_ref()) != scope).count();
        self.parts.retain(|it| it.scope(master.as_ref()) != scope);
        self.parts.insert(at, part);
    }

    /// Takes over the time zones of a message: in place of those of the same name where it says how the whole event reads,
    /// else beside them, since what is stored keeps its times. Those that nobody names go.
    fn adopt_zones(&mut self, message: &Self, is_whole: bool) {
        let tzid = |zone: &Node| zone.find("TZID").map(|line| line.plain_value().to_owned());
        let is_zone = |child: &Node| child.kind == "VTIMEZONE";
        let new = message.rest.children.iter().filter(|it| is_zone(it)).cloned();
        let stored = self.rest.take(is_zone);
        let (mut zones, others): (Vec<Node>, Vec<Node>) = if is_whole {
            (new.collect(), stored)
        } else {
            (stored, new.collect())
        };
        let names: BTreeSet<Option<String>> = zones.iter().map(tzid).collect();
        zones.extend(others.into_iter().filter(|zone| !names.contains(&tzid(zone))));
        let mut needed = BTreeSet::new();
        for part in &self.parts {
            part.node.zones(&mut needed);
        }
        zones.retain(|zone| tzid(zone).is_some_and(|name| needed.contains(&name)));
        zones.sort_by_key(tzid);
        zones.extend(self.rest.take(|_| true));
        self.rest.children = zones;
    }
}

/// A component of a message as it is stored: without alarms and our own notes, and with what its METHOD says about it.
fn prepared(part: &Part, method: &str) -> Part {
    let mut part = part.clone();
    part.node.take(|child| child.kind == "VALARM");
    reply::forget_answers(&mut part);
    // An instance that is added is one of its own, named by its start (RFC 5546 section 3.2.4).
    if method == "ADD"
        && part.component.recurrence_id.is_none()
        && let Some(start) = part.node.find("DTSTART")
    {
        let id = format!("RECURRENCE-ID{}", &start.text["DTSTART".len()..]);
        part.node.remove(&["RRULE", "RDATE", "EXDATE"]);
        part.node.set(tree::line(&id));
        part.component.recurrence_id.clone_from(&part.component.start);
    }
    part
}
