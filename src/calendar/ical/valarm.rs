//! VALARM -> [`Alarm`] (RFC 5545 section 3.6.6, RFC 9074). An alarm that cannot be read is left out alone, with a
//! warning that names it; a trigger is never invented.

use chrono::DateTime;
use chrono::Utc;
use sha2::Digest;
use sha2::Sha256;

use crate::calendar::address;
use crate::calendar::alarm::Alarm;
use crate::calendar::alarm::AlarmTrigger;
use crate::calendar::alarm::Ignored;
use crate::calendar::alarm::IgnoredPart;
use crate::calendar::alarm::MOST_REPEATS;
use crate::calendar::alarm::Related;
use crate::calendar::alarm::SHORTEST_PAUSE;
use crate::calendar::alarm::UnreadableAlarm;
use crate::calendar::event::Component;
use crate::calendar::event::bare_address;
use crate::calendar::ical::Reading;
use crate::calendar::ical::component;
use crate::calendar::ical::property::Property;
use crate::calendar::ical::short;
use crate::calendar::ical::structure::Block;
use crate::calendar::moment::Span;

/// The most alarms of one component that are read.
const MOST_ALARMS: usize = 50;

/// The most ATTENDEEs of one alarm that are read.
const MOST_ATTENDEES: usize = 100;

/// The far-past trigger that stands where a client wants none (RFC 9074 section 8.1).
const NEVER: &str = "19760401T005545Z";

/// Reads the alarms of the component at `index` into it.
pub(super) fn read_all(
    blocks: &[Block<'_>],
    index: usize,
    component: &mut Component,
    reading: &mut Reading<'_>,
) {
    let mut acknowledged: Vec<(String, DateTime<Utc>)> = Vec::new();
    let mut lines: Vec<usize> = Vec::new();
    let own = within(blocks, index).filter(|block| block.kind == "VALARM" && block.parent == Some(index));
    for (number, block) in own.enumerate() {
        let mut source = Source::read(block);
        let read = if number < MOST_ALARMS {
            alarm(&mut source, reading)
        } else {
            Err(format!("more than {MOST_ALARMS} alarms: this one is left out"))
        };
        acknowledged.extend(source.acknowledged_parent());
        match read {
            Ok((alarm, once)) => {
                let known = component.alarms.iter().position(|known| is_same(known, &alarm));
                let ignored = match known {
                    Some(known) => {
                        let line = lines[known];
                        let reason =
                            format!("the same as the VALARM of line {line}: two equal alarms are one");
                        Some((IgnoredPart::Duplicate, reason))
                    }
                    None => once.map(|why| (IgnoredPart::Repeat, why)),
                };
                component.ignored.extend(ignored.map(|(what, reason)| Ignored {
                    what,
                    identity: alarm.identity.clone(),
                    action: alarm.action.clone(),
                    line: block.line,
                    reason,
                }));
                if known.is_none() {
                    component.alarms.push(alarm);
                    lines.push(block.line);
                }
            }
            Err(reason) => leave_out(component, &blocks[index], (source, reason), reading),
        }
    }
    for alarm in &mut component.alarms {
        for (parent, at) in &acknowledged {
            if alarm.identity == *parent {
                alarm.acknowledged = alarm.acknowledged.max(Some(*at));
            }
        }
    }
}

/// The components inside the one at `index`, which follow it: all of a large text is never looked through for one event.
fn within<'a>(blocks: &'a [Block<'a>], index: usize) -> impl Iterator<Item = &'a Block<'a>> {
    blocks[index + 1..]
        .iter()
        .take_while(move |block| block.parent.is_some_and(|parent| parent >= index))
}

/// Two equal alarms are one.
fn is_same(one: &Alarm, other: &Alarm) -> bool {
    one.identity == other.identity
        && trigger_text(&one.trigger) == trigger_text(&other.trigger)
        && (one.repeat, one.every) == (other.repeat, other.every)
}

fn leave_out(
    component: &mut Component,
    event: &Block<'_>,
    (source, reason): (Source<'_>, String),
    reading: &mut Reading<'_>,
) {
    let event = component::uid(event).unwrap_or_default();
    let line = source.block.line;
    let alarm = source
        .uid
        .as_ref()
        .map_or("alarm".to_owned(), |uid| format!("alarm `{uid}`"));
    reading.warn(
        "VALARM",
        line,
        &format!("{alarm} of `{event}` left out: {reason}"),
    );
    component.unreadable.push(UnreadableAlarm {
        identity: source.uid,
        action: Some(source.action).filter(|action| !action.is_empty()),
        line,
        reason,
    });
}

/// The properties of a VALARM.
struct Source<'a> {
    block: &'a Block<'a>,
    properties: Vec<Property<'a>>,
    uid: Option<String>,
    action: String,
}

impl<'a> Source<'a> {
    fn read(block: &'a Block<'a>) -> Self {
        const NAMES: [&str; 13] = [
            "UID",
            "ACTION",
            "TRIGGER",
            "REPEAT",
            "DURATION",
            "ACKNOWLEDGED",
            "RELATED-TO",
            "PROXIMITY",
            "SUMMARY",
            "DESCRIPTION",
            "ATTENDEE",
            "ATTACH",
            "X-APPLE-PROXIMITY",
        ];
        let lines = block
            .lines
            .iter()
            .filter(|line| NAMES.contains(&line.name.as_ref()));
        let properties: Vec<Property<'_>> = lines.filter_map(Property::read).collect();
        let value = |name: &str| properties.iter().find(|property| property.name == name);
        Self {
            block,
            uid: value("UID")
                .map(Property::text)
                // One that fits no index is as good as none: what the alarm says then stands for it.
                .filter(|uid| !uid.trim().is_empty() && uid.len() <= component::LONGEST_UID),
            action: value("ACTION").map_or(String::new(), |action| action.raw.to_ascii_uppercase()),
            properties,
        }
    }

    fn find(&self, name: &str) -> Option<&Property<'a>> {
        self.properties.iter().find(|property| property.name == name)
    }

    /// To acknowledge a snooze is to acknowledge what was snoozed (RFC 9074 section 7.1).
    fn acknowledged_parent(&self) -> Option<(String, DateTime<Utc>)> {
        let parent = self.find("RELATED-TO").filter(|property| property.is_snooze())?;
        Some((parent.text(), component::instant(self.find("ACKNOWLEDGED")?)?))
    }
}

/// The alarm; and why it goes off only once, though it has a REPEAT.
fn alarm(source: &mut Source<'_>, reading: &mut Reading<'_>) -> Result<(Alarm, Option<String>), String> {
    if source.action.is_empty() {
        reading.warn("VALARM", source.block.line, "no ACTION: read as DISPLAY");
        "DISPLAY".clone_into(&mut source.action);
    }
    let triggers: Vec<&Property<'_>> = source
        .properties
        .iter()
        .filter(|property| property.name == "TRIGGER")
        .collect();
    let trigger = match triggers.as_slice() {
        [trigger] => read_trigger(trigger, reading)?,
        [] => return Err("no TRIGGER: say when it is to go off".to_owned()),
        more => return Err(format!("{} TRIGGERs: it can have only one", more.len())),
    };
    let ((repeat, every), once) = repeats(source)?;
    if let Some((line, why)) = &once {
        reading.warn("VALARM", *line, why);
    }
    let attendees = attendees(source, reading);
    let alarm = Alarm {
        attendees,
        identity: source
            .uid
            .clone()
            .unwrap_or_else(|| identity(source, &trigger, repeat, every)),
        refused: refusal(source, triggers[0]),
        action: source.action.clone(),
        trigger,
        repeat,
        every,
        acknowledged: source.find("ACKNOWLEDGED").and_then(component::instant),
        about: None,
    };
    Ok((alarm, once.map(|(_, why)| why)))
}

/// Whom it names. What no relay would take is left out alone, and so are rooms.
fn attendees(source: &Source<'_>, reading: &mut Reading<'_>) -> Vec<String> {
    let mut addresses = Vec::new();
    let named = source
        .properties
        .iter()
        .filter(|property| property.name == "ATTENDEE");
    for attendee in named.filter(|attendee| attendee.is_person()) {
        let written = bare_address(&attendee.text());
        let address = match attendee.email() {
            // A principal's path or a URN: EMAIL says where mail goes (RFC 7986 section 6.2).
            Some(email) if !written.contains('@') => bare_address(email),
            _ => written,
        };
        if addresses.contains(&address) {
            continue;
        }
        match address::check(&address) {
            Ok(()) if addresses.len() < MOST_ATTENDEES => addresses.push(address),
            Ok(()) => {
                let text = format!("more than {MOST_ATTENDEES} ATTENDEEs: the others are not read");
                reading.warn("VALARM", attendee.line, &text);
                break;
            }
            Err(reason) => {
                reading.warn("VALARM", attendee.line, &format!("ATTENDEE left out: {reason}"));
            }
        }
    }
    addresses
}

fn read_trigger(property: &Property<'_>, reading: &mut Reading<'_>) -> Result<AlarmTrigger, String> {
    if property.raw.starts_with(|first: char| first.is_ascii_digit())
        && let Some(Ok(first)) = component::times(&property.as_time(), reading).into_iter().next()
    {
        let lenient = if property.raw.contains(',') {
            Some("has several times: the first is meant")
        } else {
            (!property.says_date_time() || first.start.is_date)
                .then_some("is no DATE-TIME with VALUE=DATE-TIME")
        };
        if let Some(what) = lenient {
            let text = format!("TRIGGER `{}` {what}", property.raw);
            reading.warn("VALARM", property.line, &text);
        }
        return Ok(AlarmTrigger::Absolute(first.start));
    }
    let (span, is_lenient) = Span::parse(property.raw).map_err(|reason| format!("TRIGGER: {reason}"))?;
    if is_lenient {
        let text = format!(
            "TRIGGER `{}` is not well-formed, but leaves no doubt",
            property.raw
        );
        reading.warn("VALARM", property.line, &text);
    }
    let related = if property.is_related_to_end() {
        Related::End
    } else {
        Related::Start
    };
    Ok(AlarmTrigger::Relative { span, related })
}

/// How often and how far apart it goes off again; and the line of a REPEAT that is ignored, with the reason.
type Repeats = ((u16, Span), Option<(usize, String)>);

/// REPEAT and DURATION mean something only together (RFC 5545 section 3.8.6.2).
fn repeats(source: &Source<'_>) -> Result<Repeats, String> {
    let none = (0, Span::default());
    let Some(repeat) = source.find("REPEAT").filter(|repeat| repeat.raw != "0") else {
        return Ok((none, None));
    };
    let only_once = |why: &str| {
        let text = format!("REPEAT `{}` ignored: {why}", repeat.raw);
        Ok((none, Some((repeat.line, text))))
    };
    if repeat.raw.is_empty() || !repeat.raw.bytes().all(|byte| byte.is_ascii_digit()) {
        return only_once("it is no number");
    }
    let Some(times) = repeat.raw.parse().ok().filter(|times| *times <= MOST_REPEATS) else {
        return Err(format!("REPEAT `{}` is more than {MOST_REPEATS}", repeat.raw));
    };
    let Some(pause) = source.find("DURATION") else {
        return only_once("there is no DURATION with it");
    };
    match Span::parse(pause.raw) {
        Ok((every, _)) if every.days < 0 || every.seconds < 0 || every == Span::default() => {
            only_once("its DURATION is not positive")
        }
        Ok((every, _)) if every.seconds_nominal() < SHORTEST_PAUSE => {
            only_once("its DURATION is shorter than a minute")
        }
        Ok((every, _)) => Ok(((times, every), None)),
        Err(reason) => only_once(&reason),
    }
}

fn refusal(source: &Source<'_>, trigger: &Property<'_>) -> Option<String> {
    let by_place = source
        .find("PROXIMITY")
        .or_else(|| source.find("X-APPLE-PROXIMITY"));
    if source.action == "NONE" {
        return Some("ACTION:NONE asks for no alarm".to_owned());
    }
    if let Some(place) = by_place {
        return Some(format!(
            "PROXIMITY `{}` goes off at a place, not at a time",
            place.raw
        ));
    }
    (trigger.raw == NEVER).then(|| format!("TRIGGER `{NEVER}` stands for no time at all"))
}

/// What makes an alarm this one. What clients add for themselves does not.
fn identity(source: &Source<'_>, trigger: &AlarmTrigger, repeat: u16, every: Span) -> String {
    let mut hash = Sha256::new();
    let mut add = |part: &str| {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part.as_bytes());
    };
    add(&source.action);
    add(&trigger_text(trigger));
    add(&format!("{repeat} {} {}", every.days, every.seconds));
    for property in &source.properties {
        if matches!(property.name, "SUMMARY" | "DESCRIPTION" | "ATTENDEE" | "ATTACH") {
            add(property.name);
            add(property.raw);
        }
    }
    short(&hash.finalize())
}

fn trigger_text(trigger: &AlarmTrigger) -> String {
    match trigger {
        AlarmTrigger::Relative { span, related } => format!("{} {} {related:?}", span.days, span.seconds),
        AlarmTrigger::Absolute(time) => {
            let zone = time.zone.as_ref().map_or("", |zone| zone.name());
            format!("{} {zone} {}", time.local, time.is_date)
        }
    }
}
