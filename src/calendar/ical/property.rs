//! One content line, read by the parser. Its typed values are used where they are right; the raw text where they are
//! not (durations and rules).

use std::borrow::Cow;
use std::cell::OnceCell;

use calcard::Entry;
use calcard::Parser;
use calcard::common::IanaString;
use calcard::common::PartialDateTime;
use calcard::icalendar::ICalendarComponentType;
use calcard::icalendar::ICalendarEntry;
use calcard::icalendar::ICalendarParameter;
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

/// Properties that hold DATE-TIMEs, where VALUE does not say otherwise.
const DATE_TIMES: [&str; 6] = ["DTSTART", "DTEND", "DUE", "RECURRENCE-ID", "EXDATE", "RDATE"];

/// A property with its parameters and values. The parser reads it when it is first needed: most properties are plain, and
/// of many only the raw text is used.
#[derive(Debug, Clone)]
pub(super) struct Property<'a> {
    /// The name, upper case.
    pub(super) name: &'a str,
    /// The line it starts on.
    pub(super) line: usize,
    /// The value as written, without blanks around it.
    pub(super) raw: &'a str,
    /// The value as written.
    value: &'a str,
    /// The text in front of the value.
    head: Cow<'a, str>,
    entry: OnceCell<Option<ICalendarEntry>>,
}

impl<'a> Property<'a> {
    /// Splits a line into head and value. None where it has no name or no value.
    pub(super) fn read(line: &'a Line<'_>) -> Option<Self> {
        let name = line.name.as_ref();
        let (head, value) = if TIMES.contains(&name) {
            let (head, value) = line.text.rsplit_once(':')?;
            (with_quoted_zone(head), value)
        } else {
            let (head, value) = line.text.split_at(value_at(&line.text)?);
            (Cow::Borrowed(head), &value[1..])
        };
        (!name.is_empty()).then(|| Self {
            name,
            line: line.number,
            raw: value.trim(),
            value,
            head,
            entry: OnceCell::new(),
        })
    }

    /// The same property read as a time, whatever VALUE its name implies.
    pub(super) fn as_time(&self) -> Self {
        let head = match self.head.split_once(';') {
            Some((_, parameters)) => Cow::Owned(format!("DTSTART;{parameters}")),
            None => Cow::Borrowed("DTSTART"),
        };
        Self {
            head,
            value: self.raw,
            entry: OnceCell::new(),
            ..self.clone()
        }
    }

    /// VALUE=DATE-TIME.
    pub(super) fn says_date_time(&self) -> bool {
        self.head.to_ascii_uppercase().contains("VALUE=DATE-TIME")
    }

    /// The value as text, its escapes undone.
    pub(super) fn text(&self) -> String {
        let is_escape = |byte: u8| matches!(byte, b'\\' | b'\r');
        let is_plain = self.head == self.name && !self.value.bytes().any(is_escape);
        let is_data = |start: &str| start.eq_ignore_ascii_case("data:");
        if is_plain && !self.value.get(..5).is_some_and(is_data) {
            return self.value.to_owned();
        }
        let parts: Vec<&str> = self
            .values()
            .iter()
            .filter_map(|value| match value {
                ICalendarValue::Text(text) | ICalendarValue::Uri(Uri::Location(text)) => Some(text.as_str()),
                _ => None,
            })
            .collect();
        if parts.is_empty() {
            self.raw.to_owned()
        } else {
            parts.join(",")
        }
    }

    /// The times in it; for each that cannot be read, its text.
    pub(super) fn times(&self, zone: Option<&Zone>) -> Vec<Result<Addition, String>> {
        let unreadable = || self.raw.chars().take(40).collect::<String>();
        let single = |time: &PartialDateTime| moment(time, zone).map(|start| Addition { start, end: None });
        if let Some(time) = self.plain_time() {
            return vec![single(&time).ok_or_else(unreadable)];
        }
        let mut times = Vec::new();
        for value in self.values() {
            let read = match value {
                ICalendarValue::PartialDateTime(time) => single(time),
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

    /// A DATE or DATE-TIME in the form of RFC 5545 under plain parameters.
    fn plain_time(&self) -> Option<PartialDateTime> {
        self.plain_zone()?;
        let name = self.head.split(';').next().unwrap_or_default();
        let is_plain = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'T' | b'Z');
        if !DATE_TIMES.contains(&name) || !self.raw.bytes().all(is_plain) {
            return None;
        }
        let mut time = PartialDateTime::default();
        time.parse_timestamp(&mut self.raw.as_bytes().iter().peekable(), false)
            .then_some(time)
    }

    /// The TZID, where the property has no parameter but a TZID that needs no quotes, empty where it has no parameter at
    /// all; none where it has others.
    fn plain_zone(&self) -> Option<&str> {
        let Some((_, parameters)) = self.head.split_once(';') else {
            return Some("");
        };
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/_+-".contains(&byte);
        parameters
            .strip_prefix("TZID=")
            .filter(|zone| !zone.is_empty() && zone.bytes().all(is_plain))
    }

    /// The parameters, of which VALUE and a plain TZID are read elsewhere.
    fn parameters(&self) -> &[ICalendarParameter] {
        if self.plain_zone().is_some() {
            return &[];
        }
        self.entry().map_or(&[], |entry| &entry.params)
    }

    fn values(&self) -> &[ICalendarValue] {
        self.entry().map_or(&[], |entry| &entry.values)
    }

    fn entry(&self) -> Option<&ICalendarEntry> {
        let read = || parsed(&[&self.head, ":", self.value, "\n"].concat());
        self.entry.get_or_init(read).as_ref()
    }

    /// TZID.
    pub(super) fn zone_name(&self) -> Option<&str> {
        match self.plain_zone() {
            Some(zone) => Some(zone).filter(|zone| !zone.is_empty()),
            None => self.parameter(&ICalendarParameterName::Tzid),
        }
    }

    /// RELATED=END.
    pub(super) fn is_related_to_end(&self) -> bool {
        self.parameters()
            .iter()
            .any(|parameter| parameter.value == ICalendarParameterValue::Related(ICalendarRelated::End))
    }

    /// RANGE=THISANDFUTURE.
    pub(super) fn is_this_and_future(&self) -> bool {
        self.parameters().iter().any(|parameter| {
            parameter.name == ICalendarParameterName::Range
                && parameter.value == ICalendarParameterValue::Bool(true)
        })
    }

    /// A RANGE that is not THISANDFUTURE.
    pub(super) fn has_other_range(&self) -> bool {
        self.parameters()
            .iter()
            .any(|parameter| parameter.name == ICalendarParameterName::Range)
            && !self.is_this_and_future()
    }

    /// RELTYPE=SNOOZE (RFC 9074 section 7.1).
    pub(super) fn is_snooze(&self) -> bool {
        self.parameters().iter().any(|parameter| {
            parameter.value == ICalendarParameterValue::Reltype(ICalendarRelationshipType::Snooze)
        })
    }

    /// PARTSTAT, upper case.
    pub(super) fn status(&self) -> Option<String> {
        let parameter = self
            .parameters()
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
            .parameters()
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
            .parameters()
            .iter()
            .find(|parameter| parameter.name == *name)?;
        match &parameter.value {
            ICalendarParameterValue::Text(text) => Some(text.as_str()),
            _ => None,
        }
    }
}

/// One content line, which stands by itself: what is wrong in it costs nothing else.
fn parsed(line: &str) -> Option<ICalendarEntry> {
    match Parser::new(line).icalendar(ICalendarComponentType::VEvent) {
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
fn with_quoted_zone(head: &str) -> Cow<'_, str> {
    const TZID: &str = ";TZID=";
    let is_tzid = |name: &[u8]| name.eq_ignore_ascii_case(TZID.as_bytes());
    let Some(at) = head.as_bytes().windows(TZID.len()).position(is_tzid) else {
        return Cow::Borrowed(head);
    };
    let (before, value) = head.split_at(at + TZID.len());
    let (name, after) = value.split_at(value.find(';').unwrap_or(value.len()));
    if name.contains('"') || !name.contains([':', ',']) {
        return Cow::Borrowed(head);
    }
    Cow::Owned(format!("{before}\"{name}\"{after}"))
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

    fn line(text: &str) -> Line<'_> {
        Line::new(7, text).named()
    }

    fn read<'a>(line: &'a Line<'_>) -> Property<'a> {
        Property::read(line).expect("a property")
    }

    #[test]
    fn an_unquoted_colon_in_a_tzid_does_not_cut_the_value() {
        let line = line("DTSTART;TZID=(UTC+01:00) Amsterdam, Berlin:20250101T100000");
        let start = read(&line);
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
                read(&line(&format!("DTSTART:{impossible}"))).times(None)[0].is_err(),
                "{impossible}"
            );
        }
        let leap = read(&line("DTSTART:20250101T235960"))
            .times(None)
            .remove(0)
            .expect("a time");
        assert_eq!(leap.start.local.to_string(), "2025-01-01 23:59:59");
    }

    #[test]
    fn a_date_needs_no_value_parameter() {
        let start = read(&line("DTSTART:20250101"))
            .times(None)
            .remove(0)
            .expect("a date")
            .start;
        assert!(start.is_date);
    }

    #[test]
    fn carets_in_a_name_are_undone() {
        assert_eq!(
            read(&line("ORGANIZER;CN=\"^'q^' ^n^^\":mailto:a@b.c")).common_name(),
            Some("\"q\" \n^".to_owned())
        );
    }

    #[test]
    fn escapes_in_text_are_undone() {
        assert_eq!(read(&line("SUMMARY:a\\, b\\; c\\nd")).text(), "a, b; c\nd");
        assert_eq!(read(&line("LOCATION:a,b")).text(), "a,b");
    }

    #[test]
    fn plain_times_are_read_as_the_parser_reads_them() {
        for text in [
            "DTSTART:20250101",
            "DTSTART:20250101T100000Z",
            "DTEND;TZID=Europe/Berlin:20250101T235960",
            "EXDATE;TZID=Etc/GMT-3:20251332T100000",
            "RECURRENCE-ID:20250101T1000",
            "RDATE:2025T",
            "DUE:20250101T100000Z0100",
            "DTSTART: 20250101T100000Z ",
        ] {
            let line = line(text);
            let property = read(&line);
            let of_parser = match property.values() {
                [ICalendarValue::PartialDateTime(time)] => Some(time.as_ref().clone()),
                _ => None,
            };
            assert_eq!(property.plain_time(), of_parser, "{text}");
            let parameters = &property.entry().expect("an entry").params;
            let zone = parameters
                .iter()
                .find_map(|parameter| match (&parameter.name, &parameter.value) {
                    (ICalendarParameterName::Tzid, ICalendarParameterValue::Text(zone)) => {
                        Some(zone.as_str())
                    }
                    _ => None,
                });
            assert_eq!(property.zone_name(), zone, "{text}");
        }
    }

    #[test]
    fn plain_properties_are_not_given_to_the_parser() {
        for (text, is_time) in [
            ("SUMMARY: Budget, round; two", false),
            ("UID:u", false),
            ("DTSTART;TZID=Europe/Berlin:20261201T090000", true),
            ("RECURRENCE-ID:20260101T000000Z", true),
        ] {
            let line = line(text);
            let property = read(&line);
            if is_time {
                assert!(property.times(None)[0].is_ok(), "{text}");
            } else {
                assert_eq!(property.text(), property.value);
            }
            assert!(!property.is_this_and_future() && !property.has_other_range());
            property.zone_name();
            assert!(property.entry.get().is_none(), "{text}");
        }
    }

    #[test]
    fn a_million_parameters_are_read_in_no_time() {
        let text = format!("SUMMARY{}:x", ";A=1".repeat(1_000_000));
        assert_eq!(read(&line(&text)).text(), "x");
    }
}
