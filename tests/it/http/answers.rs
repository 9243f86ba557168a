//! Reminders answered by the page behind their link, in a time that the test moves.

use axum::body::Body;
use carillon::store::Delivery;
use carillon::token::Purpose;
use carillon::trigger::outcome::Outcome;
use chrono::TimeDelta;
use serde_json::Value;
use serde_json::json;

use super::Edge;
use super::Reply;
use super::event;
use super::local;
use super::reports::EPOCH;
use super::reports::tokens;
use crate::by_hand::instant;

/// Every day at half past nine in Berlin, with an e-mail alarm a quarter of an hour before; the first at 08:15 UTC.
fn daily(uid: &str) -> String {
    event(uid, "093000", "Stand-up")
        .replace("SUMMARY:Stand-up", "RRULE:FREQ=DAILY;COUNT=3\r\nSUMMARY:Stand-up")
}

async fn put(edge: &Edge, ics: String) {
    let path = "/v1/sources/demo/events/stand-up?owner=anna";
    let reply = edge.put_event(path, ics).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
}

/// An edge whose owner was just reminded, at 08:15 UTC, of the first of three stand-ups; and the reminder.
async fn reminded() -> (Edge, Delivery) {
    let mut edge = Edge::with_anna().await;
    put(&edge, daily("stand-up@example.org")).await;
    edge.hand.advance(TimeDelta::minutes(15)).await;
    let history = edge.hand.history("anna").await;
    let [reminder] = &history[..] else {
        panic!("one reminder, not {history:?}");
    };
    let reminder = reminder.clone();
    (edge, reminder)
}

fn link(reminder: &Delivery) -> String {
    let id = reminder.id.to_string();
    format!("/answer/{id}/{}", tokens().token(&id, Purpose::Answer(EPOCH)))
}

/// Presses a button of the page, as it is now.
async fn press(edge: &Edge, reminder: &Delivery, act: &str) -> Reply {
    let page = edge.get(&link(reminder)).await;
    assert_eq!(page.status, 200, "{}", page.text);
    assert!(
        page.text.contains(&format!("value=\"{act}\"")),
        "no `{act}` in {}",
        page.text
    );
    post(edge, &link(reminder), &format!("key={}&act={act}", key(&page))).await
}

fn key(page: &Reply) -> String {
    let (_, rest) = page.text.split_once("name=\"key\" value=\"").expect("a form");
    rest.split('"').next().unwrap().to_owned()
}

async fn post(edge: &Edge, path: &str, form: &str) -> Reply {
    let request = local("POST", path)
        .header("content-type", "application/x-www-form-urlencoded")
        .header("origin", "null");
    edge.send(request.body(form.to_owned().into()).unwrap()).await
}

/// When each reminder was promised, oldest first.
async fn promised(edge: &Edge) -> Vec<String> {
    let history = edge.hand.history("anna").await;
    assert!(
        history.iter().all(|it| it.outcome == Outcome::Sent),
        "{history:?}"
    );
    let instants = history.iter().map(|it| it.place.trigger_at.to_rfc3339());
    instants.map(|it| it.replace("+00:00", "Z")).collect()
}

#[tokio::test]
async fn following_the_link_changes_nothing_however_often() {
    let (mut edge, reminder) = reminded().await;
    for act in ["", "?act=acknowledge", "?act=mute", "?act=nonsense", "?utm=1"] {
        for method in ["GET", "HEAD", "GET"] {
            let request = local(method, &format!("{}{act}", link(&reminder)));
            let request = request.header("sec-purpose", "prefetch").body(Body::empty());
            assert_eq!(edge.send(request.unwrap()).await.status, 200, "{method} {act}");
        }
    }
    // Nor does a scanner that posts to what it found.
    for form in [
        "",
        "act=mute",
        "act=mute&key=",
        "act=mute&key=0123456789abcdef0123456789abcdef",
    ] {
        assert_eq!(post(&edge, &link(&reminder), form).await.status, 400, "{form}");
    }
    edge.hand.advance(TimeDelta::days(3)).await;
    assert_eq!(
        promised(&edge).await,
        [
            "2026-12-01T08:15:00Z",
            "2026-12-02T08:15:00Z",
            "2026-12-03T08:15:00Z"
        ]
    );
}

#[tokio::test]
async fn the_page_is_for_its_reader_alone() {
    let (edge, reminder) = reminded().await;
    let page = edge.get(&format!("{}?act=snooze-1h", link(&reminder))).await;
    assert_eq!(page.headers["referrer-policy"], "no-referrer");
    assert_eq!(page.headers["cache-control"], "no-store");
    assert_eq!(page.headers["x-robots-tag"], "noindex, nofollow");
    let policy = page.headers["content-security-policy"].to_str().unwrap();
    assert!(policy.starts_with("default-src 'none'") && policy.contains("form-action 'self'"));
    assert!(page.text.contains("Stand-up") && !page.text.contains("<script"));
    assert!(
        page.text.contains("value=\"snooze-1h\" class=\"chosen\""),
        "{}",
        page.text
    );
}

#[tokio::test]
async fn what_is_done_is_done_and_the_series_goes_on() {
    let (mut edge, reminder) = reminded().await;
    for _ in 0..2 {
        let said = press(&edge, &reminder, "acknowledge").await;
        assert_eq!(said.status, 200);
        assert!(said.text.contains("marked as done"), "{}", said.text);
        assert!(
            said.text
                .contains("Next reminder: Wednesday, 2 December 2026, 09:15"),
            "{}",
            said.text
        );
    }
    edge.hand.advance(TimeDelta::days(3)).await;
    assert_eq!(promised(&edge).await.len(), 3);
}

#[tokio::test]
async fn a_snooze_fires_once_at_its_time_and_outlives_a_change_of_the_event() {
    for (act, at) in [
        ("snooze-10m", "2026-12-01T08:26:00Z"),
        ("snooze-1h", "2026-12-01T09:16:00Z"),
        ("snooze-until-start", "2026-12-01T08:30:00Z"),
    ] {
        let (mut edge, reminder) = reminded().await;
        edge.hand.advance(TimeDelta::minutes(1)).await;
        for _ in 0..2 {
            let said = press(&edge, &reminder, act).await;
            assert!(
                said.text.contains("You will be reminded again: Tuesday"),
                "{}",
                said.text
            );
        }
        put(
            &edge,
            daily("stand-up@example.org").replace("Stand-up", "Sit-down"),
        )
        .await;
        edge.hand.advance(TimeDelta::days(3)).await;
        let expected = [
            "2026-12-01T08:15:00Z",
            at,
            "2026-12-02T08:15:00Z",
            "2026-12-03T08:15:00Z",
        ];
        assert_eq!(promised(&edge).await, expected, "{act}");
        let outbox = edge.get("/v1/outbox?owner=anna").await.json();
        let again = &outbox["items"][2];
        assert!(
            again["subject"]
                .as_str()
                .unwrap()
                .contains("Sit-down - Tue 1 Dec 2026"),
            "it is about the occurrence that was put off: {again}"
        );
    }
}

#[tokio::test]
async fn a_snooze_is_snoozed_again_acknowledged_and_withdrawn() {
    let (mut edge, reminder) = reminded().await;
    press(&edge, &reminder, "snooze-10m").await;
    edge.hand.advance(TimeDelta::minutes(10)).await;
    let again = edge.hand.history("anna").await.remove(1);
    press(&edge, &again, "snooze-10m").await;
    press(&edge, &again, "acknowledge").await;
    edge.hand.advance(TimeDelta::minutes(30)).await;
    assert_eq!(
        promised(&edge).await,
        ["2026-12-01T08:15:00Z", "2026-12-01T08:25:00Z"]
    );

    press(&edge, &reminder, "snooze-10m").await;
    let path = "/v1/sources/demo/events/stand-up?owner=anna";
    assert_eq!(edge.delete(path).await.status, 200);
    let page = edge.get(&link(&reminder)).await;
    assert_eq!(page.status, 410);
    assert!(page.text.contains("no longer valid") && !page.text.contains("<form"));
    put(&edge, daily("stand-up@example.org")).await;
    edge.hand.advance(TimeDelta::hours(1)).await;
    assert_eq!(promised(&edge).await.len(), 2, "it went with the event");
}

#[tokio::test]
async fn a_muted_event_is_silent_until_that_is_lifted() {
    let (mut edge, reminder) = reminded().await;
    let said = press(&edge, &reminder, "mute").await;
    assert!(said.text.contains("All reminders of this event are off."));
    assert!(said.text.contains("No further reminder"), "{}", said.text);
    assert!(
        !said.text.contains("value=\"acknowledge\""),
        "there is nothing to answer"
    );
    put(
        &edge,
        daily("stand-up@example.org").replace("Stand-up", "Sit-down"),
    )
    .await;
    edge.hand.advance(TimeDelta::hours(25)).await;
    assert_eq!(promised(&edge).await.len(), 1);

    let said = press(&edge, &reminder, "unmute").await;
    assert!(said.text.contains("on again"), "{}", said.text);
    edge.hand.advance(TimeDelta::days(2)).await;
    assert_eq!(
        promised(&edge).await,
        ["2026-12-01T08:15:00Z", "2026-12-03T08:15:00Z"]
    );
}

#[tokio::test]
async fn what_has_started_is_not_waited_for() {
    let (mut edge, reminder) = reminded().await;
    let page = edge.get(&link(&reminder)).await;
    edge.hand.advance(TimeDelta::minutes(15)).await;
    let form = format!("key={}&act=snooze-until-start", key(&page));
    let said = post(&edge, &link(&reminder), &form).await;
    assert_eq!(said.status, 409);
    assert!(said.text.contains("already started"), "{}", said.text);
    assert!(!said.text.contains("value=\"snooze-until-start\""));
}

#[tokio::test]
async fn a_wrong_link_opens_nothing() {
    let (edge, reminder) = reminded().await;
    let id = reminder.id.to_string();
    let token = tokens().token(&id, Purpose::Answer(EPOCH));
    let other = "0123456789abcdef0123456789abcdef";
    let wrong = [
        format!("/answer/{id}/{}", tokens().token(&id, Purpose::Complete(EPOCH))),
        format!("/answer/{id}/{}", &token[1..]),
        format!("/answer/{other}/{token}"),
        format!(
            "/answer/{other}/{}",
            tokens().token(other, Purpose::Answer(EPOCH))
        ),
        format!("/answer/nonsense/{token}"),
    ];
    let page = edge.get(&link(&reminder)).await;
    for path in wrong {
        let request = local("GET", &path).header("accept-language", "de-AT,de;q=0.9");
        let reply = edge.send(request.body(Body::empty()).unwrap()).await;
        assert_eq!(reply.status, 404, "{path}");
        assert!(reply.text.contains("nicht mehr gültig"), "{}", reply.text);
        let form = format!("key={}&act=mute", key(&page));
        assert_eq!(post(&edge, &path, &form).await.status, 404, "{path}");
    }
}

#[tokio::test]
async fn pages_of_other_sites_send_no_form() {
    let (edge, reminder) = reminded().await;
    let page = edge.get(&link(&reminder)).await;
    let form = format!("key={}&act=acknowledge", key(&page));
    for (origin, status) in [
        ("https://evil.example", 403),
        ("http://127.0.0.1:9", 403),
        ("http://127.0.0.1:8085", 200),
        ("null", 200),
    ] {
        let request = local("POST", &link(&reminder)).header("origin", origin);
        let reply = edge.send(request.body(form.clone().into()).unwrap()).await;
        assert_eq!(reply.status, status, "{origin}");
    }
}

#[tokio::test]
async fn a_link_lasts_as_long_as_its_reminder_is_in_the_history() {
    let (edge, reminder) = reminded().await;
    let retention = carillon::store::Retention {
        history_before: instant("2026-12-02T00:00:00Z"),
        tombstones_before: instant("2026-12-02T00:00:00Z"),
        limit: 100,
    };
    edge.hand.store().purge(&retention).await.unwrap();
    assert_eq!(edge.get(&link(&reminder)).await.status, 404);
}

const STATE: &str = "/v1/owners/anna/events/stand-up@example.org/alarms";

async fn say(edge: &Edge, body: &Value) -> Reply {
    let request = local("POST", STATE).header("content-type", "application/json");
    edge.send(request.body(body.to_string().into()).unwrap()).await
}

#[tokio::test]
async fn a_source_reads_what_was_answered_as_a_client_would_have_written_it() {
    let mut edge = Edge::with_anna().await;
    put(
        &edge,
        daily("stand-up@example.org").replace("ACTION:EMAIL", "UID:quarter\r\nACTION:EMAIL"),
    )
    .await;
    edge.hand.advance(TimeDelta::minutes(16)).await;
    let reminder = edge.hand.history("anna").await.remove(0);
    let untouched = edge.get(STATE).await.json();
    assert_eq!(
        untouched["alarms"],
        json!([{ "identity": "quarter", "action": "EMAIL", "next": "2026-12-02T08:15:00Z" }])
    );

    let id = reminder.id.to_string();
    let said = say(&edge, &json!({ "act": "snooze-10m", "trigger": id })).await;
    assert_eq!(said.status, 200, "{}", said.text);
    let uid = format!("{id}-1796113560");
    let state = said.json();
    assert_eq!(
        state["alarms"],
        json!([{
            "identity": "quarter",
            "action": "EMAIL",
            "acknowledged": "2026-12-01T08:16:00Z",
            "next": "2026-12-02T08:15:00Z",
            "snooze": {
                "uid": uid,
                "related_to": "quarter",
                "trigger": "2026-12-01T08:26:00Z",
                "occurrence": "2026-12-01T08:30:00Z",
            },
        }])
    );
    assert_eq!(state["next"], "2026-12-01T08:26:00Z");
    assert_eq!(edge.get(STATE).await.json(), state);
    let ics = state["ics"].as_str().unwrap();
    assert_eq!(
        ics.replace("\r\n", "\n"),
        format!(
            "BEGIN:VEVENT\nUID:stand-up@example.org\nBEGIN:VALARM\nUID:quarter\nACTION:EMAIL\nTRIGGER:-PT15M\n\
             ACKNOWLEDGED:20261201T081600Z\nEND:VALARM\nBEGIN:VALARM\nUID:{uid}\n\
             RELATED-TO;RELTYPE=SNOOZE:quarter\nACTION:EMAIL\nTRIGGER;VALUE=DATE-TIME:20261201T082600Z\n\
             END:VALARM\nEND:VEVENT\n"
        )
    );

    // A source that writes what it read, as a client would, gets the same reminders.
    let alarms = &ics[ics.find("BEGIN:VALARM").unwrap()..ics.find("END:VEVENT").unwrap()];
    let whole = daily("stand-up@example.org");
    let (before, rest) = whole.split_once("BEGIN:VALARM").unwrap();
    let (_, after) = rest.split_once("END:VALARM\r\n").unwrap();
    put(&edge, format!("{before}{alarms}{after}")).await;
    edge.hand.advance(TimeDelta::days(1)).await;
    let expected = [
        "2026-12-01T08:15:00Z",
        "2026-12-01T08:26:00Z",
        "2026-12-02T08:15:00Z",
    ];
    assert_eq!(promised(&edge).await, expected);

    let said = say(&edge, &json!({ "act": "mute", "trigger": id })).await.json();
    assert_eq!(said["muted_at"], "2026-12-02T08:16:00Z");
    assert_eq!(said.get("next"), None);
}

#[tokio::test]
async fn programs_are_told_what_is_wrong_with_their_answers() {
    let (edge, reminder) = reminded().await;
    let id = reminder.id.to_string();
    let other = "0123456789abcdef0123456789abcdef";
    for (body, pointer, says) in [
        (
            json!({ "act": "sleep", "trigger": id }),
            "/act",
            "`sleep` is no answer: use one of acknowledge,",
        ),
        (
            json!({ "act": "mute", "trigger": other }),
            "/trigger",
            "is no reminder of this event",
        ),
        (
            json!({ "act": "mute", "trigger": "x" }),
            "/trigger",
            "`x` is no reminder of this event",
        ),
    ] {
        let problem = say(&edge, &body).await.problem(422);
        assert_eq!(problem["errors"][0]["pointer"], pointer);
        assert!(problem["detail"].as_str().unwrap().contains(says), "{problem}");
    }
    for path in [
        "/v1/owners/anna/events/other/alarms",
        "/v1/owners/bert/events/stand-up@example.org/alarms",
    ] {
        edge.get(path).await.problem(404);
    }
}
