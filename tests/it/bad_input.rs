//! What cannot be understood is refused with its place and its cure, and nothing else suffers from it.

use reqwest::StatusCode;
use serde_json::Value;
use serde_json::json;

use crate::harness::api::OWNER;
use crate::harness::api::SOURCE;
use crate::harness::calendar::Calendar;
use crate::harness::node::Home;
use crate::harness::whole_second_in;

#[tokio::test]
async fn a_bad_line_of_a_stream_is_answered_in_its_place() {
    let node = Home::new().start_with_owner().await;
    let due = whole_second_in(3600);
    let line =
        |key: &str, ics: &str| json!({ "op": "put", "key": key, "owner": OWNER, "ics": ics }).to_string();
    let good = |uid: &str| Calendar::far_away(uid).alarm_at(due).text();
    let body = [
        line("one", &good("one@example.org")),
        line("two", "BEGIN:VCALENDAR\r\nthis is no calendar\r\n"),
        "{ this is no JSON".to_owned(),
        line("three", &good("three@example.org")),
    ];

    let path = format!("/v1/sources/{SOURCE}/changes");
    let answer = node.post(&path, "application/x-ndjson", body.join("\n")).await;

    assert_eq!(answer.status, StatusCode::OK);
    let text = answer.body.as_str().expect("several lines are no JSON");
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("each line is JSON"))
        .collect();
    let results: Vec<&Value> = lines.iter().map(|line| &line["result"]).collect();
    assert_eq!(results, ["applied", "rejected", "rejected", "applied"], "{text}");
    assert_eq!(node.triggers("three").await.len(), 1);
}

#[tokio::test]
async fn a_broken_calendar_is_refused_with_its_place() {
    let node = Home::new().start_with_owner().await;
    let broken = "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nBEGIN:VEVENT\r\nUID:a@example.org\r\n\
                  DTSTART;TZID=Europe/Berlin:20300603T250000\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n";
    let path = format!("/v1/sources/{SOURCE}/events/broken?owner={OWNER}");

    let answer = node.put(&path, "text/calendar", broken.to_owned()).await;

    assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY, "{}", answer.body);
    let text = answer.body.to_string();
    assert!(text.contains("20300603T250000"), "{text}");
    assert!(text.contains("VEVENT"), "{text}");
    assert!(text.contains("\"line\":3"), "{text}");
    assert_eq!(node.get("/readyz").await.status, StatusCode::OK);
}

#[tokio::test]
async fn an_alarm_that_cannot_be_understood_is_dropped_alone() {
    let node = Home::new().start_with_owner().await;
    let event = Calendar::far_away("budget@example.org")
        .alarm("TRIGGER:whenever")
        .alarm_at(whole_second_in(3600));

    let answer = node.put_event("budget", &event).await.ok();

    assert_eq!(answer["planned"], 1, "{answer}");
    assert!(answer["warnings"].to_string().contains("whenever"), "{answer}");
}

#[tokio::test]
async fn an_owner_without_an_address_is_an_outcome() {
    let node = Home::new().start().await;
    let owner = json!({ "time_zone": "Europe/Berlin", "locale": "en" });
    node.put(
        &format!("/v1/owners/{OWNER}"),
        "application/json",
        owner.to_string(),
    )
    .await
    .ok();
    let event = Calendar::far_away("budget@example.org").alarm_at(whole_second_in(2));

    node.put_event("budget", &event).await.ok();

    let rows = node.history_of(1).await;
    assert_eq!(rows[0]["outcome"], "failed", "{rows:?}");
    assert_eq!(rows[0]["reason"], "no address", "{rows:?}");
}

#[tokio::test]
async fn an_event_whose_rules_cost_too_much_is_refused_before_anybody_waits_for_it() {
    let node = Home::new().start_with_owner().await;
    let long_ago = "2019-01-07T09:00:00Z".parse().expect("it is an instant");
    let mut hostile = Calendar::starting("hostile", long_ago);
    for hour in 0..10 {
        hostile = hostile.with(&format!(
            "RRULE:FREQ=MINUTELY;BYHOUR={hour},23;BYDAY=MO;COUNT=1000000"
        ));
    }
    for minutes in 0..50 {
        hostile = hostile.alarm(&format!("TRIGGER:-PT{minutes}M"));
    }
    let refused = node.put_event("hostile", &hostile).await;
    assert_eq!(
        refused.status,
        StatusCode::UNPROCESSABLE_ENTITY,
        "{}",
        refused.body
    );
    assert!(
        refused.body.to_string().contains("cost too much"),
        "{}",
        refused.body
    );

    let rules = hostile.with("RRULE:FREQ=DAILY");
    let refused = node.put_event("hostile", &rules).await;
    assert!(refused.body.to_string().contains("11 RRULEs"), "{}", refused.body);
}
