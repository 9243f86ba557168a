//! What fires, when, how often, and what is known of it afterwards.

use chrono::DateTime;
use chrono::TimeDelta;
use chrono::Utc;
use reqwest::Method;
use serde_json::Value;
use serde_json::json;

use crate::alarms::Program;
use crate::alarms::calling;
use crate::alarms::start;
use crate::harness::api::items;
use crate::harness::client::client;
use crate::harness::hook::Call;
use crate::harness::hook::Conduct;
use crate::harness::hook::Hook;
use crate::harness::node::Home;
use crate::harness::now;
use crate::harness::postgres::Postgres;

super::stories!(
    an_alarm_calls_its_target_once_at_its_instant_and_is_completed,
    an_alarm_by_mail_goes_to_its_owner,
    a_series_fires_again_and_again_until_it_is_called_off,
    what_fails_is_called_again_after_a_pause_that_doubles,
    an_alarm_whose_attempts_are_used_up_has_failed,
    a_target_that_hangs_is_called_again_when_its_time_is_over,
    a_target_that_never_answers_has_failed_in_the_end,
    nobody_there_costs_an_attempt_where_the_alarm_counts_them,
    alarms_that_wait_for_each_other_have_their_whole_time,
    a_target_that_hangs_for_one_owner_keeps_nobody_else_waiting,
    a_series_whose_target_is_gone_is_paused_until_it_has_another,
    an_alarm_that_nobody_answers_tells_of_all_its_attempts,
    a_handler_that_no_node_has_fails_in_the_end,
);

fn instant(value: &Value) -> DateTime<Utc> {
    value
        .as_str()
        .and_then(|text| text.parse().ok())
        .unwrap_or_else(|| panic!("{value} is no instant"))
}

const PAYLOAD: &str = r#"{"b": 1.50,  "a":["ü", null]}"#;

/// Asks for an alarm that says all there is to say. Its id, and its instant.
async fn ask_for_all(program: &Program, hook: &Hook) -> (String, DateTime<Utc>) {
    let owner = &program.owner;
    let body = format!(
        r#"{{"owner": "{owner}", "kind": "once", "delay": "1s", "channel": "webhook", "target": "{}", "label": "Tea",
            "wake_message": "It is time", "conversation_id": "c-1", "created_by": "agent", "payload": {PAYLOAD}}}"#,
        hook.url()
    );
    let asked_at = now();
    let created = program
        .node
        .post("/v1/alarms", "application/json", body)
        .await
        .ok();
    assert_eq!(
        (&created["status"], &created["deduped"]),
        (&json!("active"), &json!(false))
    );
    let due = instant(&created["next_fire_at"]);
    assert!(
        due >= asked_at + TimeDelta::milliseconds(990),
        "{due} was asked for at {asked_at}"
    );
    (created["id"].as_str().expect("an id").to_owned(), due)
}

fn assert_says_all(call: &Call, id: &str, owner: &str) {
    assert!(
        call.body.contains(&format!(r#""payload":{PAYLOAD}"#)),
        "{}",
        call.body
    );
    let document = call.json();
    for (member, value) in [
        ("type", json!("standalone_alarm")),
        ("alarm_id", json!(id)),
        ("trigger_id", json!(call.headers["webhook-id"])),
        ("attempt", json!(1)),
        ("owner", json!(owner)),
        ("kind", json!("once")),
        ("label", json!("Tea")),
        ("wake_message", json!("It is time")),
        ("conversation_id", json!("c-1")),
    ] {
        assert_eq!(document[member], value, "{member} of {document}");
    }
}

async fn an_alarm_calls_its_target_once_at_its_instant_and_is_completed(program: Program) {
    let hook = Hook::start([Conduct::status(202)]).await;
    let (id, due) = ask_for_all(&program, &hook).await;

    let call = hook.until(1).await.remove(0);

    assert!(
        call.at >= due && call.at - due < TimeDelta::seconds(10),
        "{} for {due}",
        call.at
    );
    assert_says_all(&call, &id, &program.owner);
    let document = call.json();
    assert_eq!(instant(&document["scheduled_for"]), due);
    program.firing(&id, "awaiting").await;
    let ack = document["ack_url"].as_str().expect("a URL");
    let reported = client().post(ack).send().await.expect("the node answers");
    assert!(reported.status().is_success(), "{reported:?}");
    let firing = program.firing(&id, "completed").await;
    assert_eq!(
        (&firing["result"], &firing["attempts"]),
        (&json!("ok"), &json!(1))
    );
    assert_eq!(instant(&firing["scheduled_for"]), due);
    let took = instant(&firing["finished_at"]) - instant(&firing["started_at"]);
    assert_eq!(firing["duration_ms"], took.num_milliseconds());
    let alarm = program.alarm(&id).await;
    assert_eq!(
        (&alarm["status"], alarm.get("next_fire_at")),
        (&json!("fired"), None)
    );
    assert!(instant(&alarm["last_fired_at"]) >= due);
    let stats = program.get("/v1/alarms/stats").await;
    for (number, value) in [
        ("total", 1),
        ("pending", 0),
        ("fired", 1),
        ("completed", 1),
        ("timeout_unknown", 0),
    ] {
        assert_eq!(stats[number], value, "{number} of {stats}");
        assert_eq!(
            stats["by_channel"]["webhook"][number], value,
            "{number} of {stats}"
        );
    }
    assert_eq!(stats["average_duration_ms"], took.num_milliseconds());
    assert_eq!(stats["firings"], json!({ "completed": 1 }));
    assert_eq!(hook.calls().len(), 1);
}

async fn an_alarm_by_mail_goes_to_its_owner(program: Program) {
    let body = json!({ "delay": 500, "channel": "email", "label": "Water <the> plants", "wake_message": "All & each" });
    let id = program.create(body).await;

    program.status(&id, "fired").await;

    let kept = items(&program.get("/v1/outbox").await);
    assert_eq!(kept.len(), 1);
    assert_eq!(kept[0]["to"], format!("{}@example.org", program.owner));
    assert_eq!(
        (&kept[0]["subject"], &kept[0]["text"]),
        (&json!("Water <the> plants"), &json!("All & each\n"))
    );
    assert!(
        kept[0]["raw"].as_str().expect("text").contains("All &amp; each"),
        "{kept:?}"
    );
}

async fn a_series_fires_again_and_again_until_it_is_called_off(program: Program) {
    let hook = Hook::start([]).await;
    let body = json!({ "kind": "cron", "cron": "@every 1s", "channel": "webhook", "target": hook.url() });
    let id = program.create(body).await;

    let calls = hook.until(3).await;

    let scheduled: Vec<_> = calls
        .iter()
        .map(|call| instant(&call.json()["scheduled_for"]))
        .collect();
    assert_eq!(scheduled[1] - scheduled[0], TimeDelta::seconds(1));
    assert_eq!(scheduled[2] - scheduled[1], TimeDelta::seconds(1));
    let ids: std::collections::BTreeSet<_> = calls.iter().map(|call| &call.headers["webhook-id"]).collect();
    assert_eq!(ids.len(), 3);
    let alarm = program.alarm(&id).await;
    assert_eq!(
        (&alarm["status"], &alarm["kind"]),
        (&json!("active"), &json!("cron"))
    );
    assert!(instant(&alarm["next_fire_at"]) > scheduled[1], "{alarm}");
    assert_eq!(program.delete(&id).await.ok()["status"], "cancelled");
    let until = now();
    // Whatever was promised later than this would have come by now.
    let later = program.create(calling(&hook, "2s")).await;
    program.status(&later, "fired").await;
    let calls = hook.calls();
    let of_series = calls.iter().filter(|call| call.json()["alarm_id"] == id);
    let after = of_series
        .filter(|call| instant(&call.json()["scheduled_for"]) > until)
        .count();
    assert_eq!(after, 0);
}

async fn what_fails_is_called_again_after_a_pause_that_doubles(program: Program) {
    let hook = Hook::start([Conduct::status(503), Conduct::status(500)]).await;
    let mut body = calling(&hook, "100ms");
    body["max_retries"] = json!(3);
    body["backoff_ms"] = json!(700);
    let id = program.create(body).await;
    hook.until(1).await;
    let retrying = crate::harness::eventually("it is tried again", async || {
        Some(program.alarm(&id).await).filter(|alarm| alarm.get("result").is_some())
    })
    .await;
    let said = retrying["result"].as_str().expect("text");
    assert!(
        said.starts_with("RETRY: answered 50") && said.ends_with("/4)"),
        "{said}"
    );

    let calls = hook.until(3).await;

    let attempts: Vec<Value> = calls.iter().map(|call| call.json()["attempt"].clone()).collect();
    assert_eq!(attempts, [1, 2, 3]);
    assert!(calls[1].at - calls[0].at >= TimeDelta::milliseconds(690));
    let second = calls[2].at - calls[1].at;
    assert!(
        second >= TimeDelta::milliseconds(1_390) && second < TimeDelta::seconds(4),
        "{second}"
    );
    let firing = program.firing(&id, "sent").await;
    assert_eq!(
        (&firing["attempts"], &firing["result"]),
        (&json!(3), &json!("ok"))
    );
    let whole = instant(&firing["finished_at"]) - instant(&firing["started_at"]);
    assert!(
        whole >= TimeDelta::milliseconds(2_000),
        "from the first attempt: {whole}"
    );
    assert_eq!(program.alarm(&id).await["status"], "fired");
}

async fn an_alarm_whose_attempts_are_used_up_has_failed(program: Program) {
    let hook = Hook::start([Conduct::status(500), Conduct::status(500), Conduct::status(500)]).await;
    let mut body = calling(&hook, "100ms");
    body["max_failures"] = json!(2);
    body["backoff_ms"] = json!(100);
    let id = program.create(body).await;

    let alarm = program.status(&id, "failed").await;

    assert_eq!(alarm["failure_count"], 1);
    assert!(
        alarm["last_error"]
            .as_str()
            .expect("text")
            .contains("answered 500"),
        "{alarm}"
    );
    let failed = items(&program.get("/v1/alarms/failed").await);
    assert_eq!(failed.len(), 1);
    assert_eq!(failed[0]["result"], "FAILED: answered 500 (after 2 attempts)");
    assert_eq!(program.get("/v1/alarms/count?status=failed").await["count"], 1);
    assert_eq!(hook.calls().len(), 2);

    // Asked for once more, it goes well.
    hook.until(2).await;
    let again = Hook::start([]).await;
    program.patch(&id, json!({ "target": again.url() })).await.ok();
    assert_eq!(program.act(&id, "run").await.ok()["status"], "active");
    program.status(&id, "fired").await;
    assert_eq!(again.calls().len(), 1);
    assert_eq!(program.get("/v1/alarms/count?status=failed").await["count"], 0);
}

async fn a_target_that_hangs_is_called_again_when_its_time_is_over(program: Program) {
    let hook = Hook::start([Conduct::Hang]).await;
    let mut body = calling(&hook, "100ms");
    body["dispatch_timeout_ms"] = json!(400);
    body["backoff_ms"] = json!(100);
    let id = program.create(body).await;

    let calls = hook.until(2).await;

    let pause = calls[1].at - calls[0].at;
    assert!(
        pause >= TimeDelta::milliseconds(450) && pause < TimeDelta::seconds(5),
        "{pause}"
    );
    program.firing(&id, "sent").await;
}

async fn nobody_there_costs_an_attempt_where_the_alarm_counts_them(program: Program) {
    let port = crate::harness::free_port();
    let body = json!({
        "delay": "100ms", "channel": "webhook", "target": format!("http://127.0.0.1:{port}/"),
        "max_retries": 1, "backoff_ms": 100,
    });
    let id = program.create(body).await;

    program.status(&id, "failed").await;

    let failed = program.firing(&id, "failed").await;
    assert_eq!(failed["attempts"], 2, "{failed}");
    let of_status = program
        .ask(Method::GET, "/v1/alarms/failed?status=sent", &[], None)
        .await;
    assert_eq!(of_status.status, 400);
    let through = async |channel: &str| {
        items(
            &program
                .get(&format!("/v1/alarms/history?channel={channel}"))
                .await,
        )
        .len()
    };
    assert_eq!((through("webhook").await, through("email").await), (1, 0));
}

async fn a_target_that_never_answers_has_failed_in_the_end(program: Program) {
    let hook = Hook::start([Conduct::Hang, Conduct::Hang, Conduct::Hang]).await;
    let mut body = calling(&hook, "100ms");
    body["dispatch_timeout_ms"] = json!(300);
    body["max_retries"] = json!(1);
    body["backoff_ms"] = json!(500);
    let id = program.create(body.clone()).await;
    program.firing(&id, "in_doubt").await;
    assert_eq!(program.alarm(&id).await["status"], "active");

    let failed = program.status(&id, "failed").await;

    assert_eq!(failed["failure_count"], 1);
    assert_eq!(failed["last_error"], "in_doubt: no answer came in time");
    let listed = items(&program.get("/v1/alarms/failed").await);
    assert_eq!(
        listed[0]["result"],
        "FAILED: no answer came in time (after 2 attempts)"
    );
    body["backoff_ms"] = json!(60_000);
    let other = program.create(body).await;
    program.firing(&other, "in_doubt").await;
    let result = &program.alarm(&other).await["result"];
    assert_eq!(result, "RETRY: no answer came in time (attempt 1/2)");
    let listed = items(&program.get("/v1/alarms/failed").await);
    assert_eq!(listed.len(), 1, "what is tried again has not failed: {listed:?}");
    let reset = program
        .ask(Method::POST, "/v1/alarms/reset", &[], None)
        .await
        .ok();
    assert_eq!(reset["cancelled"], 1);
    assert_eq!(hook.calls().len(), 3);
}

async fn alarms_that_wait_for_each_other_have_their_whole_time(program: Program) {
    // Eight at once: the others begin when the first have ended, and take as long.
    let slow = std::iter::repeat_n(Conduct::Slow(std::time::Duration::from_secs(1)), 12);
    let hook = Hook::start(slow).await;
    let mut ids = Vec::new();
    for _ in 0..12 {
        let mut body = calling(&hook, "1s");
        body["dispatch_timeout_ms"] = json!(1_800);
        body["max_retries"] = json!(0);
        ids.push(program.create(body).await);
    }
    for id in &ids {
        program.firing(id, "sent").await;
    }
    assert_eq!(hook.calls().len(), 12);
}

async fn a_target_that_hangs_for_one_owner_keeps_nobody_else_waiting(program: Program) {
    let hook = Hook::start(std::iter::repeat_n(Conduct::Hang, 8)).await;
    for _ in 0..12 {
        program.create(calling(&hook, "100ms")).await;
    }
    hook.until(8).await;
    let neighbour = Program::new(std::rc::Rc::clone(&program.node), "neighbour").await;
    neighbour.create(calling(&hook, "100ms")).await;

    // The others of the first owner wait for those that hang.
    let call = hook.until(9).await.remove(8);

    assert_eq!(call.json()["owner"], neighbour.owner);
}

async fn a_series_whose_target_is_gone_is_paused_until_it_has_another(program: Program) {
    let hook = Hook::start([Conduct::status(410)]).await;
    let series = json!({ "kind": "cron", "cron": "@every 1h", "channel": "webhook", "target": hook.url() });
    let id = program.create(series).await;
    program.act(&id, "run").await.ok();

    program.firing(&id, "failed").await;

    let alarm = program.alarm(&id).await;
    assert_eq!(
        (&alarm["status"], &alarm["paused"]),
        (&json!("active"), &json!(true))
    );
    assert!(
        alarm["last_error"].as_str().is_some_and(|it| it.contains("410")),
        "{alarm}"
    );
    let other = Hook::start([]).await;
    program.patch(&id, json!({ "target": other.url() })).await.ok();
    let resumed = program.act(&id, "resume").await.ok();
    assert_eq!(resumed.get("paused"), None, "{resumed}");
    assert!(resumed["next_fire_at"].is_string(), "{resumed}");
}

async fn an_alarm_that_nobody_answers_tells_of_all_its_attempts(program: Program) {
    let hook = Hook::start(std::iter::repeat_n(Conduct::HangUp, 3)).await;
    let mut body = calling(&hook, "100ms");
    body["max_retries"] = json!(2);
    body["backoff_ms"] = json!(100);
    let id = program.create(body).await;

    let firing = crate::harness::eventually("its attempts are used up", async || {
        let firing = program.firing(&id, "in_doubt").await;
        (firing["attempts"] == 3).then_some(firing)
    });

    assert_eq!(firing.await["reason"], "exhausted");
    assert_eq!(hook.calls().len(), 3);
    let metrics = program
        .node
        .get("/metrics")
        .await
        .body
        .as_str()
        .expect("text")
        .to_owned();
    assert!(metrics.contains("carillon_in_doubt_total{decision"), "{metrics}");
    assert!(
        !metrics.contains(r#"carillon_in_doubt_total{decision="record"} 0"#),
        "{metrics}"
    );
}

/// Killed between the commit and the instant, and started again.
async fn survives_a_kill(home: Home) {
    let hook = Hook::start([]).await;
    let node = start(home).await;
    let mut program = Program::new(std::rc::Rc::new(node), "ada").await;
    let once = program.create(calling(&hook, "2s")).await;
    let gone = program.create(calling(&hook, "2s")).await;
    program.delete(&gone).await.ok();
    let node = std::rc::Rc::get_mut(&mut program.node).expect("it is ours alone");
    node.kill();
    node.start_again().await;

    program.status(&once, "fired").await;

    let calls = hook.calls();
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0].json()["alarm_id"], once);
    assert_eq!(program.alarm(&gone).await["status"], "cancelled");
}

#[tokio::test]
async fn an_alarm_survives_a_crash_between_its_request_and_its_instant() {
    survives_a_kill(Home::new()).await;
}

#[tokio::test]
async fn an_alarm_survives_a_crash_between_its_request_and_its_instant_on_postgresql() {
    let server = Postgres::start().await;
    survives_a_kill(Home::new().in_cluster(&server.database().await)).await;
}

async fn a_handler_that_no_node_has_fails_in_the_end(program: Program) {
    let id = program
        .create(json!({
            "delay": "0s", "channel": "handler", "target": "tea", "max_retries": 1, "backoff_ms": 100,
        }))
        .await;

    let alarm = program.status(&id, "failed").await;

    let error = alarm["last_error"].as_str().expect("text");
    assert!(error.contains("no such target tea"), "{error}");
    let firing = program.firing(&id, "failed").await;
    assert_eq!(
        (&firing["attempts"], &firing["result"]),
        (&json!(2), &json!("FAILED: no such target tea (after 2 attempts)"))
    );
}
