//! One content line, read by the parser. Its typed values are used where they are right; the raw text where they are
//! not (durations and rules).

use calcard::Entry;
use calcard::Parser;
use calcard::common::IanaString;
use calcard::common::PartialDateTime;
use calcard::icalendar::ICalendarEntry;
use calcard::icalendar::ICalendarParameterName;
use calcard::icalendar::ICalendarParameterValue;
use calcard::icalendar::ICalendarPeriod;
use calcard::icalendar::ICalendarRelated;
use calcard::icalendar::ICalendarRelationshipType;
use calcard::icalendar::ICalendarUserTypes;
use calcard::icalendar::ICalendarValue;
use calcard::icalendar::Uri;
use chrono::NaiveDate;

use crate::calendar::event::Addition;
use crate::calendar::event::PeriodEnd;
use crate::calendar::ical::structure::Line;
use crate::calendar::moment::Moment;
use crate::calendar::moment::Span;
use crate::calendar::zone::Zone;

/// Properties whose values are times, which hold no colon: the last one on the line ends the parameters, even where a
/// TZID has colons and commas of its own and forgot its quotes.
const TIMES: [&str; 10] = [
    "DTSTART",
    "DTEND",
    "DUE",
    "RECURRENCE-ID",
    "EXDATE",
    "RDATE",
    "TRIGGER",
    "DTSTAMP",
    "COMPLETED",
    "ACKNOWLEDGED",
];

/// A property with its parameters and values.
#[derive(Debug, Clone)]
pub(super) struct Property {
    /// The name, upper case.
    pub(super) name: String,
    /// The line it starts on.
    pub(super) line: usize,
    /// The value as written, without blanks around it.
    pub(super) raw: String,
    /// The text in front of the value.
    head: String,
    entry: ICalendarEntry,
}

impl Property {
    /// Reads a line. None where the parser finds no property in it.
    pub(super) fn read(line: &Line) -> Option<Self> {
        let name = line.name.clone();
        let (head, raw) = if TIMES.contains(&name.as_str()) {
            let (head, raw) = line.text.rsplit_once(':')?;
            (with_quoted_zone(head), raw)
        } else {
            let (head, raw) = line.text.split_at(value_at(&line.text)?);
            (head.to_owned(), &raw[1..])
        };
        Some(Self {
            entry: parsed(&format!("{head}:{raw}"))?,
            name,
            line: line.number,
            raw: raw.trim().to_owned(),
            head,
        })
    }

    /// The same property read as a time, whatever VALUE its name implies.
    pub(super) fn as_time(&self) -> Option<Self> {
        let parameters = self.head.find(';').map_or("", |start| &self.head[start..]);
        Some(Self {
            entry: parsed(&format!("DTSTART{parameters}:{}", self.raw))?,
            ..self.clone()
        })
    }

    /// VALUE=DATE-TIME.
    pub(super) fn says_date_time(&self) -> bool {
        self.head.to_ascii_uppercase().contains("VALUE=DATE-TIME")
    }

    /// The value as text, its escapes undone.
    pub(super) fn text(&self) -> String {
        let parts: Vec<&str> = self
            .entry
            .values
            .iter()
            .filter_map(|value| match value {
                ICalendarValue::Text(text) | ICalendarValue::Uri(Uri::Location(text)) => Some(text.as_str()),
                _ => None,
            })
            .collect();
        if parts.is_empty() {
            self.raw.clone()
        } else {
            parts.join(",")
        }
    }

    /// The times in it; for each that cannot be read, its text.
    pub(super) fn times(&self, zone: Option<&Zone>) -> Vec<Result<Addition, String>> {
        let unreadable = || self.raw.chars().take(40).collect::<String>();
        let mut times = Vec::new();
        for value in &self.entry.values {
            let read = match value {
                ICalendarValue::PartialDateTime(time) => {
                    moment(time, zone).map(|start| Addition { start, end: None })
                }
                ICalendarValue::Period(period) => addition(period, zone),
                _ => None,
            };
            times.push(read.ok_or_else(unreadable));
        }
        if times.is_empty() {
            times.push(Err(unreadable()));
        }
        times
    }

    /// TZID.
    pub(super) fn zone_name(&self) -> Option<&str> {
        self.parameter(&ICalendarParameterName::Tzid)
    }

    /// RELATED=END.
    pub(super) fn is_related_to_end(&self) -> bool {
        self.entry
            .params
            .iter()
            .any(|parameter| parameter.value == ICalendarParameterValue::Related(ICalendarRelated::End))
    }

    /// RANGE=THISANDFUTURE.
    pub(super) fn is_this_and_future(&self) -> bool {
        self.entry.params.iter().any(|parameter| {
            parameter.name == ICalendarParameterName::Range
                && parameter.value == ICalendarParameterValue::Bool(true)
        })
    }

    /// A RANGE that is not THISANDFUTURE.
    pub(super) fn has_other_range(&self) -> bool {
        self.entry
            .params
            .iter()
            .any(|parameter| parameter.name == ICalendarParameterName::Range)
            && !self.is_this_and_future()
    }

    /// RELTYPE=SNOOZE (RFC 9074 section 7.1).
    pub(super) fn is_snooze(&self) -> bool {
        self.entry.params.iter().any(|parameter| {
            parameter.value == ICalendarParameterValue::Reltype(ICalendarRelationshipType::Snooze)
        })
    }

    /// PARTSTAT, upper case.
    pub(super) fn status(&self) -> Option<String> {
        let parameter = self
            .entry
            .params
            .iter()
            .find(|parameter| parameter.name == ICalendarParameterName::Partstat)?;
        match &parameter.value {
            ICalendarParameterValue::Partstat(status) => Some(status.as_str().to_ascii_uppercase()),
            ICalendarParameterValue::Text(text) => Some(text.to_ascii_uppercase()),
            _ => None,
        }
    }

    /// Whether CUTYPE leaves open that it is a person: neither a room nor another thing.
    pub(super) fn is_person(&self) -> bool {
        use ICalendarUserTypes::Resource;
        use ICalendarUserTypes::Room;
        let is_thing = |value: &ICalendarParameterValue| {
            matches!(value, ICalendarParameterValue::Cutype(Resource | Room))
        };
        !self
            .entry
            .params
            .iter()
            .any(|parameter| is_thing(&parameter.value))
    }

    /// CN, its carets undone (RFC 6868).
    pub(super) fn common_name(&self) -> Option<String> {
        let name = self.parameter(&ICalendarParameterName::Cn)?;
        Some(without_carets(name)).filter(|name| !name.trim().is_empty())
    }

    /// The EMAIL parameter (RFC 7986 section 6.2).
    pub(super) fn email(&self) -> Option<&str> {
        self.parameter(&ICalendarParameterName::Email)
    }

    fn parameter(&self, name: &ICalendarParameterName) -> Option<&str> {
        let parameter = self
            .entry
            .params
            .iter()
            .find(|parameter| parameter.name == *name)?;
        match &parameter.value {
            ICalendarParameterValue::Text(text) => Some(text.as_str()),
            _ => None,
        }
    }
}

fn parsed(text: &str) -> Option<ICalendarEntry> {
    match Parser::new(&format!("BEGIN:VEVENT\r\n{text}\r\nEND:VEVENT\r\n")).entry() {
        Entry::ICalendar(calendar) => calendar.components.into_iter().next()?.entries.into_iter().next(),
        _ => None,
    }
}

/// The colon in front of the value: the first that is not quoted.
pub(super) fn value_at(text: &str) -> Option<usize> {
    let mut is_quoted = false;
    for (index, character) in text.char_indices() {
        match character {
            '"' => is_quoted = !is_quoted,
            ':' if !is_quoted => return Some(index),
            _ => {}
        }
    }
    text.find(':')
}

/// Quotes a TZID that needs it.
fn with_quoted_zone(head: &str) -> String {
    let Some(at) = head.to_ascii_uppercase().find(";TZID=") else {
        return head.to_owned();
    };
    let (before, value) = head.split_at(at + ";TZID=".len());
    let (name, after) = value.split_at(value.find(';').unwrap_or(value.len()));
    if name.contains('"') || !name.contains([':', ',']) {
        return head.to_owned();
    }
    format!("{before}\"{name}\"{after}")
}

fn without_carets(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(character) = rest.next() {
        let (decoded, is_pair) = match (character, rest.as_str().chars().next()) {
            ('^', Some('n')) => ('\n', true),
            ('^', Some('^')) => ('^', true),
            ('^', Some('\'')) => ('"', true),
            _ => (character, false),
        };
        if is_pair {
            rest.next();
        }
        plain.push(decoded);
    }
    plain
}

/// The parser lets the 32nd of month 13 pass; a second of 60 is the leap second, read as 59.
fn moment(time: &PartialDateTime, zone: Option<&Zone>) -> Option<Moment> {
    let day = NaiveDate::from_ymd_opt(
        i32::from(time.year?),
        u32::from(time.month?),
        u32::from(time.day?),
    )?;
    let Some(hour) = time.hour else {
        return Some(Moment {
            local: day.and_hms_opt(0, 0, 0)?,
            zone: None,
            is_date: true,
        });
    };
    let second = match time.second.unwrap_or(0) {
        60 => 59,
        second => second,
    };
    let local = day.and_hms_opt(
        u32::from(hour),
        u32::from(time.minute.unwrap_or(0)),
        u32::from(second),
    )?;
    let own = time.tz_hour.map(|hours| {
        let seconds = i32::from(hours) * 3600 + i32::from(time.tz_minute.unwrap_or(0)) * 60;
        match (seconds, time.tz_minus) {
            (0, _) => Zone::utc(),
            (_, true) => Zone::fixed(-seconds),
            (_, false) => Zone::fixed(seconds),
        }
    });
    Some(Moment {
        local,
        zone: own.or_else(|| zone.cloned()),
        is_date: false,
    })
}

fn addition(period: &ICalendarPeriod, zone: Option<&Zone>) -> Option<Addition> {
    let (start, end) = match period {
        ICalendarPeriod::Range { start, end } => (start, PeriodEnd::At(moment(end, zone)?)),
        ICalendarPeriod::Duration { start, duration } => {
            let sign = if duration.neg { "-" } else { "" };
            let days = u64::from(duration.weeks) * 7 + u64::from(duration.days);
            let (hours, minutes, seconds) = (duration.hours, duration.minutes, duration.seconds);
            let text = format!("{sign}P{days}DT{hours}H{minutes}M{seconds}S");
            (start, PeriodEnd::After(Span::parse(&text).ok()?.0))
        }
    };
    Some(Addition {
        start: moment(start, zone)?,
        end: Some(end),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Property {
        let line = Line::new(7, text).named();
        Property::read(&line).expect("a property")
    }

    #[test]
    fn an_unquoted_colon_in_a_tzid_does_not_cut_the_value() {
        let start = read("DTSTART;TZID=(UTC+01:00) Amsterdam, Berlin:20250101T100000");
        assert_eq!(start.zone_name(), Some("(UTC+01:00) Amsterdam, Berlin"));
        assert_eq!(start.raw, "20250101T100000");
        assert!(start.times(None)[0].is_ok());
    }

    #[test]
    fn impossible_dates_are_unreadable_and_a_leap_second_is_the_one_before() {
        for impossible in [
            "20251332T100000",
            "20250101T256161",
            "2025-01-01T10:00:00",
            "garbage",
            "",
        ] {
            assert!(
                read(&format!("DTSTART:{impossible}")).times(None)[0].is_err(),
                "{impossible}"
            );
        }
        let leap = read("DTSTART:20250101T235960")
            .times(None)
            .remove(0)
            .expect("a time");
        assert_eq!(leap.start.local.to_string(), "2025-01-01 23:59:59");
    }

    #[test]
    fn a_date_needs_no_value_parameter() {
        let start = read("DTSTART:20250101")
            .times(None)
            .remove(0)
            .expect("a date")
            .start;
        assert!(start.is_date);
    }

    #[test]
    fn carets_in_a_name_are_undone() {
        assert_eq!(
            read("ORGANIZER;CN=\"^'q^' ^n^^\":mailto:a@b.c").common_name(),
            Some("\"q\" \n^".to_owned())
        );
    }

    #[test]
    fn escapes_in_text_are_undone() {
        assert_eq!(read("SUMMARY:a\\, b\\; c\\nd").text(), "a, b; c\nd");
        assert_eq!(read("LOCATION:a,b").text(), "a,b");
    }

    #[test]
    fn a_million_parameters_are_read_in_no_time() {
        let text = format!("SUMMARY{}:x", ";A=1".repeat(1_000_000));
        assert_eq!(read(&text).text(), "x");
    }
}
