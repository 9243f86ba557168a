//! What may be asked for, and what is wrong with the rest: the field is named, and the cure.

use reqwest::Method;
use serde_json::Value;
use serde_json::json;

use crate::alarms::Program;
use crate::alarms::calling;
use crate::harness::hook::Hook;

super::stories!(
    what_makes_no_sense_is_refused_by_its_field,
    times_are_read_in_their_zones,
    what_is_past_fires_at_once_where_that_is_asked_for,
    a_phrase_is_read_without_an_alarm,
);

/// The field that is complained of, and what is said.
fn complaint(body: &Value) -> (String, String) {
    let error = &body["errors"][0];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (text(&error["pointer"]), text(&error["detail"]))
}

/// What is different about a request that would do, the field that is complained of, and what is said. `null` leaves a
/// field out.
const REFUSED: [(&str, &str, &str); 36] = [
    (
        r#"{"delay": null, "at": "2020-01-01T00:00:00Z"}"#,
        "/at",
        "2020-01-01T00:00:00Z is past",
    ),
    (
        r#"{"delay": null, "cron": "30 2 30 2 *"}"#,
        "/cron",
        "30 2 30 2 *",
    ),
    (r#"{"delay": null, "cron": "61 * * * *"}"#, "/cron", "61"),
    (
        r#"{"delay": null, "when": "whenever you like"}"#,
        "/when",
        "whenever",
    ),
    (
        r#"{"delay": null, "when": "2030-10-27 02:30", "timezone": "Europe/Berlin"}"#,
        "/when",
        "2030-10-27T00:30:00Z, 2030-10-27T01:30:00Z",
    ),
    (r#"{"delay": "soon"}"#, "/delay", "soon"),
    (r#"{"delay": [1]}"#, "/delay", "milliseconds"),
    (
        r#"{"delay": null, "at": "2030-01-01T09:00", "timezone": "Mars/Olympus"}"#,
        "/timezone",
        "Mars/Olympus",
    ),
    (
        r#"{"delay": null, "at": "2030-03-31T02:30", "timezone": "Europe/Berlin"}"#,
        "/at",
        "the clock in Europe/Berlin never shows",
    ),
    (r#"{"delay": null, "at": "2030-01-01T09:00"}"#, "/at", "zone"),
    (r#"{"delay": null}"#, "", "send one of"),
    (r#"{"at": "2030-01-01T09:00:00Z"}"#, "", "more than once"),
    (r#"{"kind": "cron"}"#, "/kind", "needs `cron`"),
    (r#"{"kind": "twice"}"#, "/kind", "use once or cron"),
    (r#"{"past": "ignore"}"#, "/past", "use reject or fire"),
    (r#"{"channel": "pigeon"}"#, "/channel", "pigeon"),
    (r#"{"channel": "email"}"#, "/target", "only a webhook"),
    (
        r#"{"channel": "handler", "target": null}"#,
        "/target",
        "say which",
    ),
    (r#"{"channel": "handler", "target": ""}"#, "/target", "empty"),
    (
        r#"{"channel": "email", "target": null}"#,
        "/label",
        "says nothing",
    ),
    (
        r#"{"channel": "sms", "target": null, "label": "x"}"#,
        "/channel",
        "phone number",
    ),
    (
        r#"{"channel": "email", "target": null, "label": "x", "delay": null, "cron": "@every 5s"}"#,
        "/cron",
        "@every 1m",
    ),
    (r#"{"target": null}"#, "/channel", "target"),
    (r#"{"target": "http://192.0.2.1/"}"#, "/target", "address"),
    (r#"{"max_retries": 100}"#, "/max_retries", "use 1 to 100"),
    (r#"{"max_failures": 0}"#, "/max_retries", "use 1 to 100"),
    (
        r#"{"max_failures": 1, "max_retries": 1}"#,
        "/max_retries",
        "leave one out",
    ),
    (r#"{"max_retries": -1}"#, "/max_retries", ""),
    (r#"{"backoff_ms": 0}"#, "/backoff_ms", "use 1 to"),
    (
        r#"{"dispatch_timeout_ms": 5}"#,
        "/dispatch_timeout_ms",
        "use 100 to 60000",
    ),
    (r#"{"expires_at": "tomorrow"}"#, "/expires_at", "tomorrow"),
    (
        r#"{"expires_at": "2020-01-01T00:00:00Z"}"#,
        "/expires_at",
        "let it expire later",
    ),
    (r#"{"conversation_id": ""}"#, "/conversation_id", "empty"),
    (
        r#"{"idempotency_key": "a\nb"}"#,
        "/idempotency_key",
        "control character",
    ),
    (r#"{"label": "a\u0000b"}"#, "/label", "NUL"),
    (r#"{"colour": "red"}"#, "/colour", "unknown field `colour`"),
];

async fn what_makes_no_sense_is_refused_by_its_field(program: Program) {
    let hook = Hook::start([]).await;
    let refused = async |change: &Value, pointer: &str, says: &str| {
        let mut body = calling(&hook, "1h");
        for (name, value) in change.as_object().expect("an object") {
            match value {
                Value::Null => _ = body.as_object_mut().expect("an object").remove(name),
                value => body[name] = value.clone(),
            }
        }
        let answer = program.post(body).await;
        assert_eq!(answer.status, 422, "{pointer} {says}: {}", answer.body);
        let (field, detail) = complaint(&answer.body);
        assert_eq!(field, pointer, "{detail}");
        assert!(detail.contains(says), "{pointer}: {detail}");
    };
    for (change, pointer, says) in REFUSED {
        refused(&serde_json::from_str(change).expect(change), pointer, says).await;
    }
    for (field, length, says) in [
        ("payload", 256 * 1024, "262144 are allowed"),
        ("label", 501, "500 are allowed"),
        ("wake_message", 20_000, "16384 are allowed"),
    ] {
        refused(&json!({ field: "x".repeat(length) }), &format!("/{field}"), says).await;
    }
    let unknown = json!({ "owner": "nobody-at-all", "delay": "1s", "channel": "email", "label": "x" });
    let answer = program.ask(Method::POST, "/v1/alarms", &[], Some(unknown)).await;
    assert_eq!(answer.status, 422);
    assert!(
        answer.body["detail"]
            .as_str()
            .expect("text")
            .contains("nobody-at-all")
    );
    assert_eq!(program.get("/v1/alarms/count").await["count"], 0);
}

async fn times_are_read_in_their_zones(program: Program) {
    let hook = Hook::start([]).await;
    let asked = async |times: Value| {
        let mut body = times;
        body["channel"] = json!("webhook");
        body["target"] = json!(hook.url());
        let answer = program.post(body).await.ok();
        answer["next_fire_at"].as_str().expect("an instant").to_owned()
    };
    for (times, fire_at) in [
        (
            json!({ "at": "2031-07-01T09:00:00+02:00" }),
            "2031-07-01T07:00:00Z",
        ),
        (
            json!({ "at": "2031-07-01T09:00", "timezone": "America/New_York" }),
            "2031-07-01T13:00:00Z",
        ),
    ] {
        assert_eq!(asked(times).await, fire_at);
    }
    // The owner is in Berlin.
    let tomorrow = asked(json!({ "when": "tomorrow at noon" })).await;
    assert!(
        tomorrow.ends_with("T11:00:00Z") || tomorrow.ends_with("T10:00:00Z"),
        "{tomorrow}"
    );
    let soon = asked(json!({ "when": "in 2 hours" })).await;
    let soon: chrono::DateTime<chrono::Utc> = soon.parse().expect("an instant");
    let off = soon - crate::harness::now() - chrono::TimeDelta::hours(2);
    assert!(off.abs() < chrono::TimeDelta::minutes(1), "{off}");
}

async fn what_is_past_fires_at_once_where_that_is_asked_for(program: Program) {
    let hook = Hook::start([]).await;
    let body = json!({
        "at": "2020-01-01T00:00:00Z", "past": "fire", "channel": "webhook", "target": hook.url(),
    });

    let id = program.create(body).await;

    program.status(&id, "fired").await;
    assert_eq!(hook.calls().len(), 1);
}

async fn a_phrase_is_read_without_an_alarm(program: Program) {
    let ask = async |body: Value| {
        let answer = program
            .node
            .post("/v1/parse-time", "application/json", body.to_string())
            .await;
        (answer.status.as_u16(), answer.body)
    };
    let (status, meant) = ask(json!({ "text": "2030-01-01 09:00", "timezone": "Asia/Tokyo" })).await;
    assert_eq!(
        (status, &meant),
        (200, &json!({ "at": "2030-01-01T00:00:00Z", "candidates": [] }))
    );
    let (status, twice) = ask(json!({ "text": "2030-10-27 02:30", "timezone": "Europe/Berlin" })).await;
    let both = json!(["2030-10-27T00:30:00Z", "2030-10-27T01:30:00Z"]);
    assert_eq!((status, &twice["candidates"]), (200, &both));
    let (status, wrong) = ask(json!({ "text": "gibberish", "timezone": "UTC" })).await;
    assert_eq!((status, complaint(&wrong).0), (422, "/text".to_owned()));
    let (status, wrong) = ask(json!({ "text": "tomorrow", "timezone": "Mars/Olympus" })).await;
    assert_eq!((status, complaint(&wrong).0), (422, "/timezone".to_owned()));
}
