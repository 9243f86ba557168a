//! The calendars that are measured.

use chrono::Days;
use chrono::NaiveDate;

/// The search begins here: no measurement depends on the day on which it is made.
pub const NOW: &str = "2026-11-27T12:00:00Z";

/// A VTIMEZONE as clients send it along.
const BERLIN: &str = "BEGIN:VTIMEZONE\nTZID:Europe/Berlin\nBEGIN:DAYLIGHT\nTZOFFSETFROM:+0100\nTZOFFSETTO:+0200\n\
    TZNAME:CEST\nDTSTART:19700329T020000\nRRULE:FREQ=YEARLY;BYMONTH=3;BYDAY=-1SU\nEND:DAYLIGHT\nBEGIN:STANDARD\n\
    TZOFFSETFROM:+0200\nTZOFFSETTO:+0100\nTZNAME:CET\nDTSTART:19701025T030000\n\
    RRULE:FREQ=YEARLY;BYMONTH=10;BYDAY=-1SU\nEND:STANDARD\nEND:VTIMEZONE\n";

/// A calendar of these components, with line ends as RFC 5545 wants them.
pub fn calendar(components: &str) -> String {
    let text =
        format!("BEGIN:VCALENDAR\nVERSION:2.0\nPRODID:-//Example//Bench//EN\n{components}END:VCALENDAR\n");
    text.replace('\n', "\r\n")
}

/// An event with properties and alarms, line by line.
pub fn event(lines: &str) -> String {
    format!("BEGIN:VEVENT\nUID:u\nDTSTAMP:20260101T000000Z\nSUMMARY:Budget round\n{lines}\nEND:VEVENT\n")
}

/// An alarm.
pub fn alarm(trigger: &str) -> String {
    format!("BEGIN:VALARM\nACTION:DISPLAY\nDESCRIPTION:x\nTRIGGER:{trigger}\nEND:VALARM")
}

/// An hour at nine o'clock in Berlin, with an alarm a quarter of an hour before.
fn meeting(day: &str, hour: u32, more: &str) -> String {
    event(&format!(
        "DTSTART;TZID=Europe/Berlin:{day}T{hour:02}0000\nDTEND;TZID=Europe/Berlin:{day}T{:02}0000\n{more}{}",
        hour + 1,
        alarm("-PT15M")
    ))
}

/// The three events whose readings a second are compared, by name.
pub fn usual() -> [(&'static str, String); 3] {
    let weekly = meeting("20161121", 9, "RRULE:FREQ=WEEKLY;BYDAY=MO\n");
    let mut overridden = meeting("20260901", 9, "RRULE:FREQ=DAILY\n");
    for day in days("2026-10-20").take(50) {
        let id = format!("RECURRENCE-ID;TZID=Europe/Berlin:{day}T090000\n");
        overridden += &meeting(&day, 11, &id);
    }
    [
        (
            "single",
            calendar(&(BERLIN.to_owned() + &meeting("20261201", 9, ""))),
        ),
        (
            "weekly, ten years of past",
            calendar(&(BERLIN.to_owned() + &weekly)),
        ),
        (
            "daily, 50 overrides",
            calendar(&(BERLIN.to_owned() + &overridden)),
        ),
    ]
}

/// Days from this one on.
pub fn days(first: &str) -> impl Iterator<Item = String> {
    let first: NaiveDate = first.parse().expect("a day");
    (0..).map(move |number| (first + Days::new(number)).format("%Y%m%d").to_string())
}
