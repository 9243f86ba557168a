//! A slice of the differential test: random events, and what a plain reading of the standard says about them, against
//! the real binary. `tests/differential.sh` is the whole of it, and writes `cases/differential.jsonl`.

use std::io::Write;
use std::process::Command;
use std::process::Stdio;

use chrono::DateTime;
use chrono::SecondsFormat;
use chrono::Utc;
use serde::Deserialize;

const CASES: &str = include_str!("cases/differential.jsonl");

/// What `carillon preview` says of one firing.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Firing {
    /// UID of the event.
    pub uid: String,
    /// UID of the alarm.
    pub alarm: String,
    /// When it fires.
    pub trigger: DateTime<Utc>,
    /// RECURRENCE-ID.
    pub occurrence: DateTime<Utc>,
}

/// Events of one calendar as their owner sees them, with all that fires from one instant to another.
#[derive(Deserialize)]
struct Case {
    name: String,
    owner: String,
    at: DateTime<Utc>,
    until: DateTime<Utc>,
    ics: String,
    /// UID of the event and of the alarm, trigger, occurrence.
    firings: Vec<(String, String, DateTime<Utc>, DateTime<Utc>)>,
}

/// All that fires in a calendar with these components, by the real binary.
pub fn previewed(components: &str, owner: &str, window: (DateTime<Utc>, DateTime<Utc>)) -> Vec<Firing> {
    let written = |instant: DateTime<Utc>| instant.to_rfc3339_opts(SecondsFormat::Secs, true);
    let mut program = Command::new(env!("CARGO_BIN_EXE_carillon"))
        .args(["preview", "-", "--json", "--limit", "100000", "--tz", owner])
        .args(["--at", &written(window.0), "--until", &written(window.1)])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let text = format!("BEGIN:VCALENDAR\nVERSION:2.0\n{components}END:VCALENDAR\n");
    let mut input = program.stdin.take().expect("it is piped");
    input
        .write_all(text.as_bytes())
        .expect("the binary reads all before it writes");
    drop(input);
    let output = program.wait_with_output().expect("the binary ends");
    assert!(output.status.success(), "{:?}", output.status);
    let lines = String::from_utf8(output.stdout).expect("JSON is text");
    let mut firings: Vec<Firing> = lines.lines().filter_map(firing).collect();
    firings.sort();
    firings
}

/// A line of the preview, unless it says why something does not fire.
fn firing(line: &str) -> Option<Firing> {
    let line: serde_json::Value = serde_json::from_str(line).expect("each line is JSON");
    let text = |key: &str| line[key].as_str().map(str::to_owned);
    let instant = |key: &str| text(key)?.parse().ok();
    if text("skipped").is_some() {
        return None;
    }
    Some(Firing {
        uid: text("uid")?,
        alarm: text("alarm")?,
        trigger: instant("trigger_at")?,
        occurrence: instant("occurrence")?,
    })
}

#[test]
fn random_events_fire_as_a_plain_reading_of_the_standard_says() {
    let mut firings = 0;
    for line in CASES.lines() {
        let case: Case = serde_json::from_str(line).expect("each line is a case");
        let found = previewed(&case.ics, &case.owner, (case.at, case.until));
        let mut expected: Vec<Firing> = case
            .firings
            .into_iter()
            .map(|(uid, alarm, trigger, occurrence)| Firing {
                uid,
                alarm,
                trigger,
                occurrence,
            })
            .collect();
        expected.sort();
        let differs = found
            .iter()
            .zip(&expected)
            .find(|(found, expected)| found != expected);
        assert!(
            differs.is_none(),
            "{}, owner in {}: {differs:#?}\n{}",
            case.name,
            case.owner,
            case.ics
        );
        assert_eq!(
            found.len(),
            expected.len(),
            "{}, owner in {}\n{}",
            case.name,
            case.owner,
            case.ics
        );
        firings += found.len();
    }
    assert!(firings > 4_000, "{firings}");
}
