//! The calendars that tests push.

use chrono::DateTime;
use chrono::Utc;

/// An instant as iCalendar writes it.
pub fn stamp(instant: DateTime<Utc>) -> String {
    instant.format("%Y%m%dT%H%M%SZ").to_string()
}

/// An event with alarms, written as a calendar server would send it.
#[derive(Debug, Clone)]
pub struct Calendar {
    uid: String,
    summary: String,
    times: String,
    further: String,
    alarms: String,
}

impl Calendar {
    /// An event that starts on Monday, 3 June 2030 at 09:00 in Berlin, far away, so that its text does not depend on the
    /// day the test runs; its alarms are absolute.
    pub fn far_away(uid: &str) -> Self {
        Self {
            uid: uid.to_owned(),
            summary: "Budget round".to_owned(),
            times:
                "DTSTART;TZID=Europe/Berlin:20300603T090000\r\nDTEND;TZID=Europe/Berlin:20300603T100000\r\n"
                    .to_owned(),
            further: String::new(),
            alarms: String::new(),
        }
    }

    /// An event that starts at `start` and takes an hour.
    pub fn starting(uid: &str, start: DateTime<Utc>) -> Self {
        let end = start + chrono::TimeDelta::hours(1);
        Self {
            times: format!("DTSTART:{}\r\nDTEND:{}\r\n", stamp(start), stamp(end)),
            ..Self::far_away(uid)
        }
    }

    /// With another SUMMARY.
    pub fn named(mut self, summary: &str) -> Self {
        summary.clone_into(&mut self.summary);
        self
    }

    /// With further content lines of the event, each without its line end.
    pub fn with(mut self, line: &str) -> Self {
        self.further.push_str(line);
        self.further.push_str("\r\n");
        self
    }

    /// With an e-mail alarm at that instant.
    pub fn alarm_at(self, instant: DateTime<Utc>) -> Self {
        let trigger = format!("TRIGGER;VALUE=DATE-TIME:{}", stamp(instant));
        self.alarm(&trigger)
    }

    /// With an e-mail alarm that has this TRIGGER line.
    pub fn alarm(self, trigger: &str) -> Self {
        self.alarm_with("EMAIL", trigger)
    }

    /// With an alarm of that ACTION that has this TRIGGER line.
    pub fn alarm_with(mut self, action: &str, trigger: &str) -> Self {
        for part in ["BEGIN:VALARM\r\nACTION:", action, "\r\n", trigger] {
            self.alarms.push_str(part);
        }
        self.alarms
            .push_str("\r\nSUMMARY:Reminder\r\nDESCRIPTION:Reminder\r\nEND:VALARM\r\n");
        self
    }

    /// The text.
    pub fn text(&self) -> String {
        let Self {
            uid,
            summary,
            times,
            further,
            alarms,
        } = self;
        format!(
            "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//Example//Tests//EN\r\nBEGIN:VEVENT\r\nUID:{uid}\r\n\
             DTSTAMP:20261101T120000Z\r\n{times}SUMMARY:{summary}\r\n{further}{alarms}END:VEVENT\r\nEND:VCALENDAR\r\n"
        )
    }
}
