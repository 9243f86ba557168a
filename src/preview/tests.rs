use serde::Deserialize;

use super::*;

const CASES: &str = include_str!("../../tests/it/cases/triggers.jsonl");

#[derive(Deserialize)]
struct Case {
    name: String,
    ics: String,
    user_tz: String,
    now: DateTime<Utc>,
    limit: usize,
    expected_triggers_utc: Vec<String>,
}

fn options(zone: &str, at: DateTime<Utc>, limit: usize) -> Options {
    Options {
        owner: Person {
            zone: Zone::iana(zone).expect("a zone of the case"),
            addresses: vec!["me@example.org".to_owned()],
        },
        at,
        until: None,
        limit,
        channel: None,
    }
}

fn firings(preview: &Preview) -> Vec<String> {
    let lines = preview.lines.iter().filter(|line| line.skipped.is_none());
    lines.filter_map(|line| line.trigger_at.clone()).collect()
}

#[test]
fn every_agreed_case_fires_as_agreed() {
    let mut wrong = Vec::new();
    for text in CASES.lines() {
        let case: Case = serde_json::from_str(text).expect("a case");
        let options = options(&case.user_tz, case.now, case.limit);
        let seen = preview(case.ics.as_bytes(), &options).expect("a calendar");
        if firings(&seen) != case.expected_triggers_utc {
            wrong.push(format!("{}: {:?} {:?}", case.name, firings(&seen), seen.warnings));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
