//! Events that mean harm, or are far larger or older than any is.

use super::texts::alarm;
use super::texts::calendar;
use super::texts::days;
use super::texts::event;

/// Rules that match never, hardly ever, or too often, each from 1601 on.
const RULES: [&str; 26] = [
    "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30",
    "FREQ=MONTHLY;BYDAY=6MO",
    "FREQ=WEEKLY;BYMONTH=2;BYMONTHDAY=30",
    "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30",
    "FREQ=MINUTELY;BYMONTH=2;BYMONTHDAY=30",
    "FREQ=HOURLY;BYYEARDAY=366;BYMONTH=1",
    "FREQ=YEARLY;BYWEEKNO=53;BYMONTH=6",
    "FREQ=YEARLY;BYWEEKNO=53;BYDAY=SU;BYMONTH=1",
    "FREQ=YEARLY;INTERVAL=97;BYMONTH=2;BYMONTHDAY=29",
    "FREQ=YEARLY;INTERVAL=7;BYMONTH=2;BYMONTHDAY=29;BYDAY=MO",
    "FREQ=MINUTELY;INTERVAL=1440;BYHOUR=5",
    "FREQ=SECONDLY;INTERVAL=86400;BYHOUR=3",
    "FREQ=DAILY;BYSETPOS=2",
    "FREQ=MONTHLY;BYDAY=MO;BYSETPOS=6",
    "FREQ=YEARLY;BYDAY=53MO;BYHOUR=1,2;BYSETPOS=3",
    "FREQ=SECONDLY",
    "FREQ=MINUTELY",
    "FREQ=MINUTELY;COUNT=4294967295",
    "FREQ=MINUTELY;BYHOUR=9;COUNT=4294967295",
    "FREQ=WEEKLY;BYDAY=MO,TU;COUNT=1000000",
    "FREQ=DAILY;BYDAY=MO,TU,WE,TH,FR;COUNT=1000000",
    "FREQ=MONTHLY;BYDAY=-1FR;COUNT=1000000",
    "FREQ=MONTHLY;BYMONTHDAY=31;COUNT=4000",
    "FREQ=DAILY;UNTIL=99991231T235959Z",
    "FREQ=DAILY;INTERVAL=4294967295",
    "FREQ=WEEKLY;INTERVAL=2;WKST=SU;BYDAY=SU,MO;COUNT=1000000",
];

/// All of them, by name.
pub fn all() -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = RULES
        .map(|rule| (rule.to_owned(), since("16010101", rule, "-PT15M")))
        .into();
    all.extend(positions());
    all.extend(leads());
    all.extend(crowds());
    all
}

/// Usual rules for an event that began so many years ago, each with a short lead and with one of ten years.
pub fn aged(years: i32) -> Vec<(String, String)> {
    let first = format!("{}1123", 2026 - years);
    let mut all = Vec::new();
    for rule in [
        "FREQ=DAILY",
        "FREQ=DAILY;BYDAY=MO,TU,WE,TH,FR",
        "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,WE",
        "FREQ=WEEKLY;COUNT=100000",
        "FREQ=MONTHLY;BYDAY=-1FR",
        "FREQ=MONTHLY;BYMONTHDAY=31",
        "FREQ=YEARLY",
        "FREQ=YEARLY;BYMONTH=3;BYDAY=-1SU",
        "FREQ=HOURLY;INTERVAL=7",
    ] {
        for lead in ["-PT15M", "-P1D", "-P3650D"] {
            all.push((format!("{rule} {lead}"), since(&first, rule, lead)));
        }
    }
    all
}

fn since(first: &str, rule: &str, lead: &str) -> String {
    let lines = format!(
        "DTSTART;TZID=Europe/Berlin:{first}T000000\nRRULE:{rule}\n{}",
        alarm(lead)
    );
    calendar(&event(&lines))
}

fn list(numbers: impl Iterator<Item = i32>) -> String {
    let numbers: Vec<String> = numbers
        .filter(|number| *number != 0)
        .map(|number| number.to_string())
        .collect();
    numbers.join(",")
}

/// BYSETPOS with as many positions as there are.
fn positions() -> Vec<(String, String)> {
    let (every, late) = (list(-366..=366), list(6..=366));
    [
        (
            "MONTHLY, positions that no month has",
            format!("FREQ=MONTHLY;BYDAY=MO;BYSETPOS={late}"),
        ),
        (
            "MONTHLY, never, every position",
            format!("FREQ=MONTHLY;BYMONTH=2;BYMONTHDAY=30;BYSETPOS={every}"),
        ),
        ("YEARLY, every second, every position", {
            let (hours, sixty) = (list(0..=23), list(0..=59));
            format!("FREQ=YEARLY;BYDAY=MO,TU;BYHOUR={hours};BYMINUTE={sixty};BYSECOND=0;BYSETPOS={every}")
        }),
    ]
    .into_iter()
    .map(|(name, rule)| (name.to_owned(), since("16010101", &rule, "-PT15M")))
    .collect()
}

/// Alarms ten years away, and repeated over a thousand.
fn leads() -> Vec<(String, String)> {
    let mut all = Vec::new();
    for rule in ["FREQ=DAILY", "FREQ=MINUTELY"] {
        for lead in ["-P3650D", "P3650D", "-P3650D\nREPEAT:100\nDURATION:P3650D"] {
            let name = format!("{rule} {}", lead.replace('\n', " "));
            all.push((name, since("19700101", rule, lead)));
        }
    }
    all
}

/// Events with very many parts.
fn crowds() -> Vec<(String, String)> {
    let dates: Vec<String> = days("2026-01-01")
        .take(7)
        .flat_map(|day| (0..1440).map(move |minute| format!("{day}T{:02}{:02}00", minute / 60, minute % 60)))
        .take(9_999)
        .collect();
    let (some, others) = dates.split_at(5_000);
    let repeated: Vec<String> = (0..50)
        .map(|days| alarm(&format!("-P{days}D\nREPEAT:100\nDURATION:PT7M")))
        .collect();
    let listed = |rdates: &[String], exdates: &[String], alarms: &str| {
        let zone = "TZID=Europe/Berlin";
        let line = |name: &str, dates: &[String]| match dates {
            [] => String::new(),
            dates => format!("{name};{zone}:{}\n", dates.join(",")),
        };
        let (rdates, exdates) = (line("RDATE", rdates), line("EXDATE", exdates));
        calendar(&event(&format!(
            "DTSTART;{zone}:20251231T000000\n{rdates}{exdates}{alarms}"
        )))
    };
    vec![
        ("10,000 RDATE".to_owned(), listed(&dates, &[], &alarm("-P400D"))),
        (
            "5,000 RDATE, 5,000 EXDATE".to_owned(),
            listed(some, others, &alarm("P300D")),
        ),
        (
            "10,000 RDATE, 50 alarms, REPEAT 100".to_owned(),
            listed(&dates, &[], &repeated.join("\n")),
        ),
        (
            "daily, 50 alarms, REPEAT 100".to_owned(),
            calendar(&event(&format!(
                "DTSTART:20251130T000000Z\nRRULE:FREQ=DAILY\n{}",
                repeated.join("\n")
            ))),
        ),
        ("499 overrides".to_owned(), overridden(499, 1)),
        (
            "499 overrides, 20 alarms of its own each".to_owned(),
            overridden(499, 20),
        ),
    ]
}

fn overridden(instances: usize, alarms: usize) -> String {
    let mut text = event(&format!(
        "DTSTART:20250101T090000Z\nRRULE:FREQ=DAILY\n{}",
        alarm("PT0S")
    ));
    for (number, day) in days("2026-01-01").take(instances).enumerate() {
        let own: Vec<String> = (0..alarms)
            .map(|minute| alarm(&format!("-PT{}M", 1 + number * alarms + minute)))
            .collect();
        text += &event(&format!(
            "RECURRENCE-ID:{day}T090000Z\nDTSTART:{day}T100000Z\n{}",
            own.join("\n")
        ));
    }
    calendar(&text)
}
