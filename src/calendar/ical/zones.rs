//! TZID -> zone (RFC 5545 section 3.2.19).

use std::collections::HashMap;

use chrono::NaiveDateTime;

use crate::calendar::ical::property::Property;
use crate::calendar::ical::structure::Block;
use crate::calendar::recurrence::Budget;
use crate::calendar::zone::Observance;
use crate::calendar::zone::Zone;

/// More observances than any zone has had.
const MOST_OBSERVANCES: usize = 500;

/// A VTIMEZONE of the file. Its observances are read only where its name says too little.
#[derive(Debug, Default)]
struct Definition<'a> {
    location: Option<&'a str>,
    observances: Vec<&'a Block<'a>>,
}

/// What a TZID was taken for that is no IANA name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadZone {
    /// The TZID as written.
    pub tzid: String,
    /// What it was taken for.
    pub zone: Zone,
    /// Whether the rules of its VTIMEZONE are followed, and not those of a place that it names.
    pub is_custom: bool,
}

/// The zones a file may name: those that everybody knows and those that it defines.
#[derive(Debug, Default)]
pub(super) struct Zones<'a> {
    definitions: HashMap<&'a str, Definition<'a>>,
    resolved: HashMap<String, Option<Zone>>,
    /// Shared by all VTIMEZONEs of a text, so that many of them cost no more than one.
    budget: Budget,
}

impl<'a> Zones<'a> {
    /// Finds the VTIMEZONEs of a file.
    pub(super) fn read(blocks: &'a [Block<'a>]) -> Self {
        let mut zones = Self::default();
        for block in blocks {
            match block.kind.as_str() {
                "VTIMEZONE" => {
                    if let Some(tzid) = value(block, "TZID") {
                        let definition = zones.definitions.entry(tzid).or_default();
                        definition.location = value(block, "X-LIC-LOCATION");
                    }
                }
                "STANDARD" | "DAYLIGHT" => {
                    let around = block.parent.map(|parent| &blocks[parent]);
                    let definition = around
                        .filter(|around| around.kind == "VTIMEZONE")
                        .and_then(|around| zones.definitions.get_mut(value(around, "TZID")?));
                    if let Some(definition) = definition {
                        definition.observances.push(block);
                    }
                }
                _ => {}
            }
        }
        zones
    }

    /// The zone of a TZID; none where nobody knows it.
    pub(super) fn resolve(&mut self, tzid: &str) -> Option<Zone> {
        if let Some(known) = self.resolved.get(tzid) {
            return known.clone();
        }
        let zone = self
            .abbreviated(tzid)
            .or_else(|| Zone::iana(tzid))
            .or_else(|| self.defined(tzid))
            .or_else(|| Zone::lenient(tzid));
        self.resolved.insert(tzid.to_owned(), zone.clone());
        zone
    }

    /// An abbreviation is no name of one place: EST is New York's and was Sydney's. The rules that came along say whose.
    fn abbreviated(&mut self, tzid: &str) -> Option<Zone> {
        if matches!(tzid, "UTC" | "GMT") {
            return None;
        }
        let is_abbreviation =
            (3..=4).contains(&tzid.len()) && tzid.bytes().all(|byte| byte.is_ascii_uppercase());
        is_abbreviation.then(|| self.defined(tzid)).flatten()
    }

    /// What the TZIDs so far were taken for, where they are no IANA names; in order of their names.
    pub(super) fn taken(&self) -> Vec<ReadZone> {
        let zones = self.resolved.iter().filter_map(|(tzid, zone)| {
            let zone = zone.clone()?;
            let is_custom = zone.name() == tzid && Zone::iana(tzid).is_none();
            let is_plain = zone.name().eq_ignore_ascii_case(tzid) && !is_custom;
            (!is_plain).then(|| ReadZone {
                tzid: tzid.clone(),
                zone,
                is_custom,
            })
        });
        let mut zones: Vec<ReadZone> = zones.collect();
        zones.sort_by(|one, other| one.tzid.cmp(&other.tzid));
        zones
    }

    /// Outlook writes rules that hold for one year only under names that say more: such a name wins over the rules.
    fn defined(&mut self, tzid: &str) -> Option<Zone> {
        let definition = self.definitions.get(tzid)?;
        let place = definition.location.and_then(Zone::iana);
        let is_windows_name = tzid.to_ascii_lowercase().ends_with("standard time");
        let observances = || {
            let read = definition
                .observances
                .iter()
                .filter_map(|block| observance(block));
            read.take(MOST_OBSERVANCES).collect::<Vec<_>>()
        };
        place
            .or_else(|| is_windows_name.then(|| Zone::lenient(tzid)).flatten())
            .or_else(|| Zone::custom(tzid, &observances(), &mut self.budget))
    }
}

/// The value of the first property of this name.
fn value<'a>(block: &'a Block<'_>, name: &str) -> Option<&'a str> {
    let line = block.lines.iter().find(|line| line.name == name)?;
    Some(line.plain_value())
}

fn observance(block: &Block<'_>) -> Option<Observance> {
    let mut start = None;
    let mut offsets = (None, None);
    let mut rules = Vec::new();
    let mut rdates = Vec::new();
    for line in &block.lines {
        match line.name.as_ref() {
            "DTSTART" => start = locals(&Property::read(line)?).into_iter().next(),
            "TZOFFSETFROM" => offsets.0 = offset(line.plain_value()),
            "TZOFFSETTO" => offsets.1 = offset(line.plain_value()),
            "RRULE" => rules.push(line.plain_value().to_owned()),
            "RDATE" => rdates.extend(locals(&Property::read(line)?)),
            _ => {}
        }
    }
    Some(Observance {
        local_onset: start?,
        offset_from: offsets.0?,
        offset_to: offsets.1?,
        rules,
        rdates,
    })
}

fn locals(property: &Property<'_>) -> Vec<NaiveDateTime> {
    let times = property.times(None);
    times.into_iter().flatten().map(|time| time.start.local).collect()
}

/// Seconds east of Greenwich (RFC 5545 section 3.3.14).
fn offset(text: &str) -> Option<i32> {
    let (sign, digits) = match text.as_bytes().first()? {
        b'-' => (-1, &text[1..]),
        b'+' => (1, &text[1..]),
        _ => (1, text),
    };
    if !matches!(digits.len(), 4 | 6) || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let pair = |at: usize| {
        digits
            .get(at..at + 2)
            .map_or(Some(0), |pair| pair.parse::<i32>().ok())
    };
    let seconds = pair(0)? * 3600 + pair(2)? * 60 + pair(4)?;
    (seconds < 86_400).then_some(sign * seconds)
}
