//! VEVENT and VTODO -> [`Component`] (RFC 5545 sections 3.6.1 and 3.6.2).

use chrono::DateTime;
use chrono::Utc;

use crate::calendar::event::Addition;
use crate::calendar::event::Attendee;
use crate::calendar::event::Component;
use crate::calendar::event::End;
use crate::calendar::event::Off;
use crate::calendar::event::Recurrence;
use crate::calendar::event::Words;
use crate::calendar::event::bare_address;
use crate::calendar::ical::Reading;
use crate::calendar::ical::property::Property;
use crate::calendar::ical::structure::Block;
use crate::calendar::ical::valarm;
use crate::calendar::moment::Moment;
use crate::calendar::moment::Span;
use crate::calendar::recurrence::Rule;
use crate::calendar::recurrence::Start;
use crate::calendar::zone::Zone;

/// The most RDATEs and EXDATEs together.
const MOST_DATES: usize = 10_000;

/// Bytes of a UID at the most, since what is longer fits no index; RFC 7986 recommends fewer than 255.
pub(super) const LONGEST_UID: usize = 1_000;

/// The most RRULEs.
const MOST_RULES: usize = 10;

/// The most attendees that are read.
const MOST_ATTENDEES: usize = 100;

/// The UID, if the component has one.
pub(super) fn uid(block: &Block<'_>) -> Option<String> {
    let line = block.lines.iter().find(|line| line.name == "UID")?;
    let uid = Property::read(line)?.text().trim().to_owned();
    Some(uid).filter(|uid| !uid.is_empty())
}

/// Reads the component at `index` with its alarms. The error says why it cannot be followed.
pub(super) fn read(
    blocks: &[Block<'_>],
    index: usize,
    off: Option<Off>,
    reading: &mut Reading<'_>,
) -> Result<Component, String> {
    let block = &blocks[index];
    let mut reader = Reader {
        kind: &block.kind,
        reading,
        component: Component {
            line: block.line,
            is_task: block.kind == "VTODO",
            off,
            ..Component::default()
        },
        rules: Vec::new(),
    };
    for line in &block.lines {
        if is_of_interest(&line.name)
            && let Some(property) = Property::read(line)
        {
            reader.take(&property)?;
        }
    }
    reader.check()?;
    reader.limit_attendees();
    let mut component = reader.component;
    valarm::read_all(blocks, index, &mut component, reading);
    Ok(component)
}

fn is_of_interest(name: &str) -> bool {
    const NAMES: [&str; 22] = [
        "DTSTART",
        "DTEND",
        "DUE",
        "DURATION",
        "RRULE",
        "RDATE",
        "EXDATE",
        "EXRULE",
        "RECURRENCE-ID",
        "SEQUENCE",
        "DTSTAMP",
        "STATUS",
        "COMPLETED",
        "SUMMARY",
        "DESCRIPTION",
        "LOCATION",
        "URL",
        "CONFERENCE",
        "ORGANIZER",
        "CLASS",
        "TRANSP",
        "ATTENDEE",
    ];
    NAMES.contains(&name)
}

/// The times of a property, its TZID resolved. An unknown zone is an error: a reminder at a guessed hour is worse than
/// a refusal that names the cure.
pub(super) fn times(property: &Property<'_>, reading: &mut Reading<'_>) -> Vec<Result<Addition, String>> {
    let zone = match property.zone_name() {
        None => None,
        Some(tzid) => match reading.zones.resolve(tzid) {
            Some(zone) => Some(zone),
            None => return vec![Err(unknown_zone(tzid, property.name))],
        },
    };
    let times = property.times(zone.as_ref()).into_iter();
    times
        .map(|time| time.map_err(|text| unreadable(property, &text)))
        .collect()
}

struct Reader<'a, 'text> {
    kind: &'a str,
    reading: &'a mut Reading<'text>,
    component: Component,
    /// RRULEs, which can be read only once DTSTART is known.
    rules: Vec<Property<'a>>,
}

impl<'a> Reader<'a, '_> {
    fn take(&mut self, property: &Property<'a>) -> Result<(), String> {
        match property.name {
            "DTSTART" => self.component.start = Some(self.needed(property)?),
            "RECURRENCE-ID" => {
                let id = self.needed(property)?;
                if !id.is_within_reach() {
                    let text = "no instance lies there: name one before the year 9989";
                    return Err(format!("RECURRENCE-ID `{}`: {text}", property.raw));
                }
                self.component.recurrence_id = Some(id);
                self.component.is_this_and_future = property.is_this_and_future();
                if property.has_other_range() {
                    self.warn(
                        property,
                        "RANGE is followed only as THISANDFUTURE: it overrides its own instance alone",
                    );
                }
            }
            "DTEND" if !self.component.is_task => self.take_end(property),
            "DUE" if self.component.is_task => self.take_end(property),
            "DURATION" => self.take_duration(property),
            "RRULE" => self.rules.push(property.clone()),
            "RDATE" => self.take_rdate(property),
            "EXDATE" => self.take_exdate(property),
            "EXRULE" => self.warn(property, "EXRULE is not followed: list the dates as EXDATE"),
            _ => self.take_word(property),
        }
        Ok(())
    }

    fn take_word(&mut self, property: &Property<'_>) {
        let words = &mut self.component.words;
        match property.name {
            "SUMMARY" => words.summary = property.text(),
            "DESCRIPTION" => words.description = property.text(),
            "LOCATION" => words.location = property.text(),
            "URL" | "CONFERENCE" => take_link(words, property.raw),
            "ORGANIZER" => {
                let name = property.common_name();
                words.organizer = Some(name.unwrap_or_else(|| bare_address(&property.text())));
            }
            "CLASS" => {
                words.is_private =
                    ["PRIVATE", "CONFIDENTIAL"].contains(&property.raw.to_ascii_uppercase().as_str());
            }
            "TRANSP" => {
                self.component.is_transparent = property.raw.eq_ignore_ascii_case("TRANSPARENT");
            }
            "ATTENDEE" => self.component.attendees.push(attendee(property)),
            "SEQUENCE" => self.component.version.0 = property.raw.parse::<i32>().map_or(0, i64::from),
            "DTSTAMP" => self.component.version.1 = instant(property),
            "STATUS" => self.take_status(&property.raw.to_ascii_uppercase()),
            "COMPLETED" if self.component.is_task => self.component.off = Some(Off::Completed),
            _ => {}
        }
    }

    fn take_status(&mut self, status: &str) {
        match status {
            "CANCELLED" => self.component.off = Some(Off::Cancelled),
            "COMPLETED" if self.component.is_task => self.component.off = Some(Off::Completed),
            _ => {}
        }
    }

    /// A time without which the component means nothing.
    fn needed(&mut self, property: &Property<'_>) -> Result<Moment, String> {
        let first = times(property, self.reading).into_iter().next();
        match first {
            Some(Ok(time)) => Ok(time.start),
            Some(Err(reason)) => Err(reason),
            None => Err(unreadable(property, "")),
        }
    }

    fn take_end(&mut self, property: &Property<'_>) {
        match self.needed(property) {
            Ok(time) => self.component.end = End::At(time),
            Err(reason) => {
                self.component.end = End::Unreadable;
                self.warn(property, &reason);
            }
        }
    }

    /// DTEND or DUE and DURATION exclude each other (RFC 5545 section 3.6.1); the first says more.
    fn take_duration(&mut self, property: &Property<'_>) {
        if matches!(self.component.end, End::At(_)) {
            return;
        }
        self.component.end = match Span::parse(property.raw) {
            Ok((span, _)) => End::After(span),
            Err(reason) => {
                self.warn(property, &reason);
                End::Unreadable
            }
        };
    }

    fn take_rdate(&mut self, property: &Property<'_>) {
        for time in times(property, self.reading) {
            match time {
                Ok(time) => self.component.rdates.push(time),
                Err(reason) => self.warn(property, &reason),
            }
        }
    }

    fn take_exdate(&mut self, property: &Property<'_>) {
        for time in times(property, self.reading) {
            match time {
                Ok(time) => self.component.exdates.push(time.start),
                Err(reason) => self.warn(property, &reason),
            }
        }
    }

    fn check(&mut self) -> Result<(), String> {
        let component = &self.component;
        if component.start.is_none() && !component.is_task && component.off.is_none() {
            return Err("no DTSTART: an event without a start has no alarms".to_owned());
        }
        let floating = Zone::utc();
        if let (Some(start), End::At(end)) = (&component.start, &component.end)
            && end.instant(&floating) < start.instant(&floating)
        {
            let end = if component.is_task { "DUE" } else { "DTEND" };
            let text = format!("{end} lies before DTSTART: it ends when it starts");
            self.reading.warn(self.kind, component.line, &text);
        }
        let dates = component.rdates.len() + component.exdates.len();
        if dates > MOST_DATES {
            return Err(format!("{dates} RDATEs and EXDATEs are more than {MOST_DATES}"));
        }
        let rules = self.rules.len();
        if rules > MOST_RULES {
            return Err(format!(
                "{rules} RRULEs are more than {MOST_RULES}: RFC 5545 expects one"
            ));
        }
        self.read_rules()
    }

    /// A rule that cannot be read is no missing rule: the event would look as if it took place once.
    fn read_rules(&mut self) -> Result<(), String> {
        let Some(base) = self.component.base() else {
            return match self.rules.first() {
                None => Ok(()),
                Some(_) => Err("RRULE without DTSTART or DUE".to_owned()),
            };
        };
        let start = Start {
            local: base.local,
            is_date: base.is_date,
            zone: base.zone.clone().unwrap_or_else(Zone::utc),
        };
        for property in std::mem::take(&mut self.rules) {
            let (rule, warnings) = Rule::parse_within(property.raw, &start, &mut self.reading.budget)
                .map_err(|error| format!("RRULE: {error}"))?;
            for warning in warnings {
                self.warn(&property, &format!("RRULE: {warning}"));
            }
            let text = property.raw.to_owned();
            self.component.rules.push(Recurrence { text, rule });
        }
        Ok(())
    }

    /// Beyond the limit only those are kept whose answer decides about alarms.
    fn limit_attendees(&mut self) {
        if self.component.attendees.len() <= MOST_ATTENDEES {
            return;
        }
        let mut number = 0;
        self.component.attendees.retain(|attendee| {
            number += 1;
            let is_absent = matches!(attendee.status.as_deref(), Some("DECLINED" | "DELEGATED"));
            number <= MOST_ATTENDEES || is_absent || !attendee.is_person
        });
        let text = format!(
            "{number} attendees: beyond {MOST_ATTENDEES} only those who declined or sent somebody else, and rooms, are read"
        );
        self.reading.warn(self.kind, self.component.line, &text);
    }

    fn warn(&mut self, property: &Property<'_>, text: &str) {
        self.reading.warn(self.kind, property.line, text);
    }
}

fn unknown_zone(tzid: &str, property: &str) -> String {
    format!("unknown time zone `{tzid}` in {property}: use an IANA name, or send its VTIMEZONE along")
}

fn unreadable(property: &Property<'_>, text: &str) -> String {
    let name = property.name;
    format!("{name} `{text}` is no date or time: write it like 20261201T090000Z")
}

fn take_link(words: &mut Words, url: &str) {
    let is_web = ["http://", "https://"].iter().any(|scheme| {
        url.get(..scheme.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    });
    if is_web && words.link.is_none() {
        words.link = Some(url.to_owned());
    }
}

/// An ATTENDEE (RFC 5545 section 3.8.4.1).
pub(super) fn attendee(property: &Property<'_>) -> Attendee {
    let mut addresses = vec![bare_address(&property.text())];
    addresses.extend(property.email().map(bare_address));
    Attendee {
        addresses,
        status: property.status(),
        is_person: property.is_person(),
    }
}

/// A property that RFC 5545 wants in UTC; without a zone it is read so.
pub(super) fn instant(property: &Property<'_>) -> Option<DateTime<Utc>> {
    let time = property.as_time().times(None).into_iter().next()?.ok()?;
    Some(time.start.instant(&Zone::utc()))
}
