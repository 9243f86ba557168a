//! The two examples of the article that the design goes back to: a change must be followed though the worker looks
//! only once an hour.

use std::sync::Arc;

use carillon::clock::ManualClock;
use carillon::trigger::outcome::Outcome;
use chrono::TimeDelta;

use crate::by_hand::Hand;
use crate::by_hand::instant;

const HOURLY: [(&str, &str); 2] = [
    ("CARILLON__WORKER__PERIOD", "1h"),
    ("CARILLON__WORKER__LOOK_AHEAD", "65m"),
];

/// An event in Berlin with an alarm at its start.
fn event(start: &str) -> String {
    format!(
        "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//carillon//test//EN\r\nBEGIN:VEVENT\r\nUID:article\r\n\
         DTSTAMP:20261101T000000Z\r\nDTSTART;TZID=Europe/Berlin:{start}\r\nDURATION:PT1H\r\nSUMMARY:Planning\r\n\
         BEGIN:VALARM\r\nACTION:EMAIL\r\nTRIGGER:PT0S\r\nSUMMARY:x\r\nDESCRIPTION:x\r\nEND:VALARM\r\n\
         END:VEVENT\r\nEND:VCALENDAR\r\n"
    )
}

async fn at_ten(folder: &std::path::Path, start: &str) -> Hand {
    let clock = Arc::new(ManualClock::at(instant("2026-12-01T09:00:00Z")));
    let mut hand = Hand::start(folder, &clock, &HOURLY).await;
    hand.owner("anna", "Europe/Berlin").await;
    hand.change("e", "anna", event(start)).await;
    // The worker looks at 10:00 local time, and not again before 11:00.
    hand.advance(TimeDelta::minutes(13)).await;
    hand
}

async fn sent(hand: &Hand) -> Vec<(chrono::DateTime<chrono::Utc>, Outcome)> {
    let rows = hand.history("anna").await;
    rows.iter()
        .map(|row| (row.handed_over_at.expect("handed over"), row.outcome))
        .collect()
}

#[tokio::test]
async fn an_event_moved_from_tomorrow_to_today_is_reminded_of_today() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut hand = at_ten(folder.path(), "20261202T103000").await;
    hand.change("e", "anna", event("20261201T103000")).await;
    hand.advance(TimeDelta::days(2)).await;
    assert_eq!(
        sent(&hand).await,
        [(instant("2026-12-01T09:30:00Z"), Outcome::Sent)]
    );
}

#[tokio::test]
async fn an_event_moved_from_today_to_tomorrow_is_reminded_of_tomorrow_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut hand = at_ten(folder.path(), "20261201T103000").await;
    hand.change("e", "anna", event("20261202T103000")).await;
    hand.advance(TimeDelta::days(2)).await;
    assert_eq!(
        sent(&hand).await,
        [(instant("2026-12-02T09:30:00Z"), Outcome::Sent)]
    );
}
