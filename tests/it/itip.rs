//! A source of scheduling messages, through the API of the real binary on both databases.

use serde_json::Value;
use serde_json::json;

use crate::harness::calendar::Calendar;
use crate::harness::node::Home;
use crate::harness::node::Node;
use crate::harness::postgres::Postgres;

const PATH: &str = "/v1/sources/tests/events/meeting?owner=anna";
const UID: &str = "meeting@example.org";
const WEEK: &str = "DTSTART;TZID=Europe/Berlin:20300603T090000\nDURATION:PT1H\nRRULE:FREQ=DAILY;COUNT=5";
const ALARM: &str =
    "BEGIN:VALARM\nUID:mine\nACTION:EMAIL\nTRIGGER:-PT15M\nSUMMARY:s\nDESCRIPTION:d\nEND:VALARM";

/// A text about the meeting: METHOD (none for a calendar's own), SEQUENCE, day of DTSTAMP, lines.
fn text(method: &str, sequence: u32, day: u32, lines: &str) -> String {
    let method = match method {
        "" => String::new(),
        method => format!("METHOD:{method}\n"),
    };
    let text = format!(
        "BEGIN:VCALENDAR\nVERSION:2.0\nPRODID:-//Example//Tests//EN\n{method}BEGIN:VEVENT\nUID:{UID}\n\
         SEQUENCE:{sequence}\nDTSTAMP:202511{day:02}T120000Z\n{lines}\nEND:VEVENT\nEND:VCALENDAR\n"
    );
    text.replace('\n', "\r\n")
}

/// What the node answers to a text, and when the next reminder is due after it.
async fn told(node: &Node, text: String) -> (Value, Value, Value) {
    let answer = node.put(PATH, "text/calendar", text).await.ok();
    let next = node.triggers("meeting").await;
    let next = next
        .first()
        .map_or(Value::Null, |trigger| trigger["trigger_at"].clone());
    (answer["result"].clone(), next, answer["warnings"].clone())
}

/// Tells the node a text, and returns the warnings.
async fn expect_of(node: &Node, text: String, result: &str, next: Value) -> String {
    let (came, due, warnings) = told(node, text.clone()).await;
    assert_eq!((came, due), (json!(result), next), "{text}\n{warnings}");
    warnings.to_string()
}

async fn a_meeting_follows_its_messages(home: Home) {
    let node = home.with("SOURCES__TESTS__KIND", "itip").start_with_owner().await;
    it_is_moved_and_answered(&node).await;
    it_is_called_off_and_on_again(&node).await;
    what_is_stored_is_an_event(&node).await;
}

async fn it_is_moved_and_answered(node: &Node) {
    let expect = async |text, result, next| expect_of(node, text, result, next).await;
    let attendee = "ATTENDEE;PARTSTAT=ACCEPTED:mailto:anna@example.org";
    let own = text("", 0, 1, &format!("{WEEK}\n{attendee}\n{ALARM}"));
    let from_ahead = text("REPLY", 0, 1, attendee).replace("DTSTAMP:2025", "DTSTAMP:2099");
    let answer = node.put(PATH, "text/calendar", from_ahead).await;
    assert_eq!(answer.status, 422);
    let problem = answer.body.to_string();
    assert!(
        problem.contains("DTSTAMP 20991101T120000Z lies in the future"),
        "{problem}"
    );
    expect(own, "applied", json!("2030-06-03T06:45:00Z")).await;

    let theirs = ALARM.replace("mine", "theirs").replace("PT15M", "PT2H");
    let at_ten = WEEK.replace("T090000", "T100000");
    let request = text("REQUEST", 1, 2, &format!("{at_ten}\n{attendee}\n{theirs}"));
    let warnings = expect(request.clone(), "applied", json!("2030-06-03T07:45:00Z")).await;
    assert!(warnings.contains("1 VALARMs"), "{warnings}");
    expect(request, "unchanged", json!("2030-06-03T07:45:00Z")).await;
    let older = text("REQUEST", 0, 9, WEEK);
    expect(older, "stale", json!("2030-06-03T07:45:00Z")).await;

    let declined = "ATTENDEE;PARTSTAT=DECLINED:mailto:Anna@Example.org";
    let reply = text(
        "REPLY",
        1,
        3,
        &format!("RECURRENCE-ID:20300603T080000Z\n{declined}"),
    );
    expect(reply.clone(), "applied", json!("2030-06-04T07:45:00Z")).await;
    expect(reply, "unchanged", json!("2030-06-04T07:45:00Z")).await;
    let counter = text("COUNTER", 1, 4, "DTSTART:20300603T200000Z");
    let warnings = expect(counter, "unchanged", json!("2030-06-04T07:45:00Z")).await;
    assert!(warnings.contains("COUNTER"), "{warnings}");
}

async fn it_is_called_off_and_on_again(node: &Node) {
    let expect = async |text, result, next| expect_of(node, text, result, next).await;
    let at_ten = WEEK.replace("T090000", "T100000");
    let attendee = "ATTENDEE;PARTSTAT=ACCEPTED:mailto:anna@example.org";
    let moved = "RECURRENCE-ID:20300604T080000Z\nDTSTART;TZID=Europe/Berlin:20300604T150000\nDURATION:PT1H";
    let instance = text("REQUEST", 1, 4, moved);
    expect(instance, "applied", json!("2030-06-04T12:45:00Z")).await;
    let rest = text(
        "CANCEL",
        2,
        5,
        "RECURRENCE-ID;RANGE=THISANDFUTURE:20300604T080000Z",
    );
    expect(rest, "applied", Value::Null).await;
    let anew = text("REQUEST", 3, 6, &format!("{at_ten}\n{attendee}"));
    // The 3rd, which takes place as before, stays declined.
    expect(anew, "applied", json!("2030-06-04T07:45:00Z")).await;
    let cancel = text("CANCEL", 4, 7, "");
    expect(cancel.clone(), "applied", Value::Null).await;
    expect(cancel, "unchanged", Value::Null).await;
    let late = text("REQUEST", 3, 8, WEEK);
    expect(late, "stale", Value::Null).await;
}

async fn what_is_stored_is_an_event(node: &Node) {
    let stored = node.get(PATH).await.ok();
    let ics = stored["ics"].as_str().expect("a text");
    assert!(
        ics.contains("STATUS:CANCELLED") && !ics.contains("METHOD"),
        "{ics}"
    );
    let another = node
        .put(PATH, "text/calendar", Calendar::far_away("x").text())
        .await;
    assert!(
        another.status.is_success(),
        "an event of its own replaces what is stored"
    );
    let other = node.put(PATH, "text/calendar", text("REQUEST", 9, 9, WEEK)).await;
    assert_eq!(other.status, 409, "{}", other.body);
}

#[tokio::test]
async fn a_meeting_follows_its_messages_on_sqlite() {
    a_meeting_follows_its_messages(Home::new()).await;
}

#[tokio::test]
async fn a_meeting_follows_its_messages_on_postgresql() {
    let postgres = Postgres::start().await;
    let database = postgres.database().await;
    a_meeting_follows_its_messages(Home::new().in_cluster(&database)).await;
}

#[tokio::test]
async fn messages_of_one_stream_build_on_each_other() {
    let node = Home::new()
        .with("SOURCES__TESTS__KIND", "itip")
        .start_with_owner()
        .await;
    let line =
        |ics: String| json!({ "op": "put", "key": "meeting", "owner": "anna", "ics": ics }).to_string();
    let lines = [
        text("REQUEST", 0, 1, WEEK),
        text("CANCEL", 1, 2, "RECURRENCE-ID:20300603T070000Z"),
        text("REQUEST", 0, 1, WEEK),
        text("GREETING", 0, 1, WEEK),
    ];
    let body = lines.map(line).join("\n");
    let answer = node
        .post("/v1/sources/tests/changes", "application/x-ndjson", body)
        .await;
    let text = answer.ok();
    let text = text.as_str().expect("lines");
    let answers: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let results: Vec<&Value> = answers.iter().map(|answer| &answer["result"]).collect();
    assert_eq!(
        results[..3],
        [&json!("applied"), &json!("applied"), &json!("unchanged")],
        "{text}"
    );
    assert!(answers[3].to_string().contains("METHOD:GREETING"), "{text}");
    let stored = node.get(PATH).await.ok();
    assert_eq!(
        stored["ics"]
            .as_str()
            .unwrap_or_default()
            .matches("BEGIN:VEVENT")
            .count(),
        2
    );
}

#[tokio::test]
async fn an_answer_in_a_calendar_is_refused_with_the_cure() {
    let node = Home::new().start_with_owner().await;
    for method in ["REPLY", "COUNTER", "REFRESH"] {
        let answer = node.put(PATH, "text/calendar", text(method, 0, 1, "")).await;
        assert_eq!(answer.status, 422, "{}", answer.body);
        let said = answer.body.to_string();
        assert!(said.contains(method) && said.contains("kind = "), "{said}");
    }
    let request = node
        .put(
            PATH,
            "text/calendar",
            text("REQUEST", 0, 1, &format!("{WEEK}\n{ALARM}")),
        )
        .await;
    assert_eq!(request.ok()["planned"], 1);
}
