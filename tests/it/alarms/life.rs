//! How alarms are altered, called off and found again.

use chrono::DateTime;
use chrono::Utc;
use reqwest::Method;
use serde_json::json;

use crate::alarms::Program;
use crate::alarms::calling;
use crate::harness::api::items;
use crate::harness::hook::Hook;
use crate::harness::now;

super::stories!(
    an_alarm_that_is_called_off_before_it_is_due_is_never_heard,
    the_same_key_is_the_same_alarm_and_other_content_is_refused,
    an_alarm_of_somebody_else_is_not_there,
    a_change_of_what_somebody_else_changed_is_refused,
    an_etag_among_others_will_do_and_a_weak_one_will_not,
    what_null_takes_away_is_gone_and_a_zone_alone_moves_nothing,
    what_was_asked_for_before_is_answered_though_it_is_past_by_now,
    an_alarm_is_moved_paused_resumed_and_run,
    a_series_is_paused_resumed_and_run_once_between,
    all_alarms_of_an_owner_are_called_off_at_once,
    alarms_are_listed_newest_first_and_page_by_page,
);

async fn an_alarm_that_is_called_off_before_it_is_due_is_never_heard(program: Program) {
    let hook = Hook::start([]).await;
    let id = program.create(calling(&hook, "1s")).await;

    let first = program.delete(&id).await;
    let second = program.delete(&id).await;

    assert_eq!(first.etag, second.etag);
    assert_eq!(first.ok()["status"], "cancelled");
    let body = second.ok();
    assert_eq!(
        (&body["status"], body.get("next_fire_at")),
        (&json!("cancelled"), None)
    );
    let later = program.create(calling(&hook, "2s")).await;
    program.status(&later, "fired").await;
    let calls = hook.calls();
    assert_eq!(calls.len(), 1, "{calls:?}");
    assert_eq!(program.act(&id, "run").await.status, 409);
    assert_eq!(program.patch(&id, json!({ "delay": "1s" })).await.status, 409);
}

async fn the_same_key_is_the_same_alarm_and_other_content_is_refused(program: Program) {
    let hook = Hook::start([]).await;
    let mut body = calling(&hook, "1h");
    body["idempotency_key"] = json!("tea");
    let id = program.create(body.clone()).await;

    let again = program.post(body.clone()).await;

    assert_eq!(
        (again.status.as_u16(), &again.body["deduped"], &again.body["id"]),
        (200, &json!(true), &json!(id))
    );
    body["label"] = json!("Coffee");
    let other = program.post(body.clone()).await;
    assert_eq!(
        (other.status.as_u16(), &other.body["errors"][0]["pointer"]),
        (422, &json!("/idempotency_key"))
    );
    // Called off or not, the name stays taken.
    program.delete(&id).await.ok();
    assert_eq!(program.post(body).await.status, 422);

    let header = [("idempotency-key", "request-1")];
    let mut body = calling(&hook, "1h");
    body["owner"] = json!(program.owner);
    let first = program
        .ask(Method::POST, "/v1/alarms", &header, Some(body.clone()))
        .await;
    let second = program
        .ask(Method::POST, "/v1/alarms", &header, Some(body.clone()))
        .await;
    assert_eq!((first.status.as_u16(), second.status.as_u16()), (201, 200));
    assert_eq!(first.body["id"], second.body["id"]);
    body["label"] = json!("Coffee");
    let other = program.ask(Method::POST, "/v1/alarms", &header, Some(body)).await;
    assert_eq!(other.status, 422, "{}", other.body);
    assert_eq!(program.get("/v1/alarms/count").await["count"], 2);
}

async fn an_alarm_of_somebody_else_is_not_there(program: Program) {
    let hook = Hook::start([]).await;
    let id = program.create(calling(&hook, "1h")).await;
    let other = Program::new(
        std::rc::Rc::clone(&program.node),
        &format!("not_{}", program.owner),
    )
    .await;
    let nobody = Program {
        node: std::rc::Rc::clone(&program.node),
        owner: "nobody".to_owned(),
    };
    for program in [&other, &nobody] {
        let path = format!("/v1/alarms/{id}");
        assert_eq!(program.ask(Method::GET, &path, &[], None).await.status, 404);
        assert_eq!(program.patch(&id, json!({ "label": "Mine" })).await.status, 404);
        assert_eq!(program.delete(&id).await.status, 404);
        for verb in ["pause", "resume", "run", "cancel"] {
            assert_eq!(program.act(&id, verb).await.status, 404, "{verb}");
        }
    }
    assert!(items(&other.get("/v1/alarms").await).is_empty());
    assert_eq!(program.alarm(&id).await["status"], "active");
    assert_eq!(program.act(&id, "forget").await.status, 404);
    assert_eq!(
        program
            .ask(Method::GET, "/v1/alarms/none", &[], None)
            .await
            .status,
        404
    );
}

async fn a_change_of_what_somebody_else_changed_is_refused(program: Program) {
    let hook = Hook::start([]).await;
    let id = program.create(calling(&hook, "1h")).await;
    let path = format!("/v1/alarms/{id}");
    let seen = program.ask(Method::GET, &path, &[], None).await.etag;
    let header = [("if-match", seen.as_str())];
    let first = program
        .ask(Method::PATCH, &path, &header, Some(json!({ "label": "Tea" })))
        .await;
    assert_eq!(first.status, 200, "{}", first.body);
    assert_ne!(first.etag, seen);

    let second = program
        .ask(Method::PATCH, &path, &header, Some(json!({ "label": "Coffee" })))
        .await;
    let third = program.ask(Method::DELETE, &path, &header, None).await;

    assert_eq!((second.status.as_u16(), third.status.as_u16()), (412, 412));
    let alarm = program.alarm(&id).await;
    assert_eq!(
        (&alarm["label"], &alarm["status"]),
        (&json!("Tea"), &json!("active"))
    );
    let header = [("if-match", first.etag.as_str())];
    assert_eq!(
        program.ask(Method::DELETE, &path, &header, None).await.status,
        200
    );
}

async fn an_etag_among_others_will_do_and_a_weak_one_will_not(program: Program) {
    let hook = Hook::start([]).await;
    let id = program.create(calling(&hook, "1h")).await;
    let path = format!("/v1/alarms/{id}");
    let seen = program.ask(Method::GET, &path, &[], None).await.etag;
    let rename = async |tags: &str| {
        let body = Some(json!({ "label": tags }));
        program
            .ask(Method::PATCH, &path, &[("if-match", tags)], body)
            .await
    };

    assert_eq!(rename(&format!("W/{seen}")).await.status, 412);
    assert_eq!(rename("\"1\", \"2\"").await.status, 412);
    assert_eq!(rename("\"of mine\"").await.status, 400);
    assert_eq!(rename(&format!("\"1\", {seen}")).await.status, 200);
}

async fn what_null_takes_away_is_gone_and_a_zone_alone_moves_nothing(program: Program) {
    let hook = Hook::start([]).await;
    let mut body = calling(&hook, "1s");
    body["label"] = json!("Tea");
    body["wake_message"] = json!("It is time");
    body["payload"] = json!(null);
    let created = program.post(body).await.ok();
    assert!(
        created.get("payload").is_some_and(serde_json::Value::is_null),
        "{created}"
    );
    let id = created["id"].as_str().expect("an id");

    let without = program
        .patch(id, json!({ "label": null, "wake_message": null }))
        .await
        .ok();

    assert_eq!(
        (&without["label"], &without["wake_message"]),
        (&json!(""), &json!(""))
    );
    let zone = program.patch(id, json!({ "timezone": "Asia/Tokyo" })).await;
    assert_eq!(
        (zone.status.as_u16(), &zone.body["errors"][0]["pointer"]),
        (422, &json!("/timezone"))
    );
    let calls = hook.until(1).await;
    assert!(calls[0].body.contains("\"payload\":null"), "{}", calls[0].body);
}

async fn what_was_asked_for_before_is_answered_though_it_is_past_by_now(program: Program) {
    use chrono::Timelike;
    let hook = Hook::start([]).await;
    let soon = now() + chrono::TimeDelta::seconds(2);
    // Where it is noon, so that it is the same day.
    let east = 12 - i64::from(soon.hour());
    let local = soon + chrono::TimeDelta::hours(east);
    let body = json!({
        "owner": program.owner, "when": format!("today at {}", local.format("%H:%M:%S")),
        "timezone": format!("Etc/GMT{:+}", -east), "target": hook.url(), "idempotency_key": "noon",
    });
    let first = program
        .ask(Method::POST, "/v1/alarms", &[], Some(body.clone()))
        .await
        .ok();
    let id = first["id"].as_str().expect("an id");
    program.status(id, "fired").await;

    let again = program
        .ask(Method::POST, "/v1/alarms", &[], Some(body.clone()))
        .await;

    assert_eq!(
        (again.status.as_u16(), &again.body["id"]),
        (200, &first["id"]),
        "{}",
        again.body
    );
    let mut other = body;
    other["label"] = json!("Tea");
    let other = program.ask(Method::POST, "/v1/alarms", &[], Some(other)).await;
    assert_eq!(
        other.body["errors"][0]["pointer"], "/idempotency_key",
        "{}",
        other.body
    );
}

async fn an_alarm_is_moved_paused_resumed_and_run(program: Program) {
    let hook = Hook::start([]).await;
    let id = program.create(calling(&hook, "1s")).await;
    let moved = program
        .patch(&id, json!({ "delay": "1h", "label": "Later" }))
        .await
        .ok();
    let fire_at = moved["next_fire_at"]
        .as_str()
        .expect("an instant")
        .parse::<chrono::DateTime<chrono::Utc>>();
    assert!(fire_at.expect("an instant") > now() + chrono::TimeDelta::minutes(59));

    let paused = program.act(&id, "pause").await.ok();
    assert_eq!(
        (&paused["paused"], paused.get("next_fire_at")),
        (&json!(true), None)
    );
    let resumed = program.act(&id, "resume").await.ok();
    assert_eq!(
        (resumed.get("paused"), &resumed["next_fire_at"]),
        (None, &moved["next_fire_at"])
    );
    assert_eq!(program.act(&id, "run").await.ok()["status"], "active");
    program.status(&id, "fired").await;
    assert_eq!(program.act(&id, "pause").await.status, 409);
    assert_eq!(program.act(&id, "run").await.ok()["status"], "active");
    let calls = hook.until(2).await;
    assert_eq!(calls[1].json()["label"], "Later");
    assert_ne!(calls[0].headers["webhook-id"], calls[1].headers["webhook-id"]);
    program.status(&id, "fired").await;
    assert_eq!(hook.calls().len(), 2);

    let short = program.create(calling(&hook, "300ms")).await;
    program.act(&short, "pause").await.ok();
    let later = program.create(calling(&hook, "1s")).await;
    program.status(&later, "fired").await;
    assert_eq!(hook.calls().len(), 3);
    let late = program.act(&short, "resume").await;
    assert_eq!(late.status, 409, "{}", late.body);
}

async fn a_series_is_paused_resumed_and_run_once_between(program: Program) {
    let hook = Hook::start([]).await;
    let body =
        json!({ "cron": "0 12 1 1 *", "timezone": "Asia/Tokyo", "channel": "webhook", "target": hook.url() });
    let created = program.post(body).await.ok();
    let id = created["id"].as_str().expect("an id");
    let next = created["next_fire_at"].as_str().expect("an instant");
    assert!(next.ends_with("-01-01T03:00:00Z"), "{next}");

    assert_eq!(program.act(id, "pause").await.ok()["paused"], true);
    assert_eq!(program.act(id, "run").await.status, 409);
    assert_eq!(program.act(id, "resume").await.ok()["next_fire_at"], next);
    program.act(id, "run").await.ok();
    hook.until(1).await;
    program.firing(id, "sent").await;

    let alarm = program.alarm(id).await;
    assert_eq!(
        (&alarm["status"], &alarm["next_fire_at"]),
        (&json!("active"), &json!(next))
    );
    let moved = program.patch(id, json!({ "timezone": "UTC" })).await.ok();
    assert!(
        moved["next_fire_at"]
            .as_str()
            .expect("an instant")
            .ends_with("-01-01T12:00:00Z"),
        "{moved}"
    );
    assert_eq!(hook.calls().len(), 1);
}

async fn all_alarms_of_an_owner_are_called_off_at_once(program: Program) {
    let hook = Hook::start([]).await;
    for _ in 0..3 {
        program.create(calling(&hook, "1h")).await;
    }
    let reset = program
        .ask(Method::POST, "/v1/alarms/reset", &[], None)
        .await
        .ok();
    assert_eq!(reset["cancelled"], 3);
    let reset = program
        .ask(Method::POST, "/v1/alarms/reset", &[], None)
        .await
        .ok();
    assert_eq!(reset["cancelled"], 0);
    let stats = program.get("/v1/alarms/stats").await;
    assert_eq!((&stats["cancelled"], &stats["pending"]), (&json!(3), &json!(0)));
}

async fn alarms_are_listed_newest_first_and_page_by_page(program: Program) {
    let hook = Hook::start([]).await;
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(program.create(calling(&hook, "1h")).await);
    }
    program.delete(&ids[0]).await.ok();
    let mut listed = Vec::new();
    let mut path = "/v1/alarms?limit=2".to_owned();
    loop {
        let page = program.get(&path).await;
        listed.extend(
            items(&page)
                .into_iter()
                .map(|alarm| alarm["id"].as_str().expect("an id").to_owned()),
        );
        match page["next_cursor"].as_str() {
            Some(cursor) => path = format!("/v1/alarms?limit=2&cursor={cursor}"),
            None => break,
        }
    }
    let created = |id: &String| ids.iter().position(|it| it == id).expect("one of ours");
    assert_eq!(listed.len(), 5);
    // Those of one millisecond have no order that can be told.
    let alarms = items(&program.get("/v1/alarms").await);
    let at: Vec<_> = alarms
        .iter()
        .map(|alarm| alarm["created_at"].as_str().expect("text"))
        .map(|at| at.parse::<DateTime<Utc>>().expect("an instant"))
        .collect();
    assert!(at.windows(2).all(|pair| pair[0] >= pair[1]), "{at:?}");
    let all: std::collections::BTreeSet<usize> = listed.iter().map(created).collect();
    assert_eq!(all.len(), 5);
    assert_eq!(items(&program.get("/v1/alarms?status=cancelled").await).len(), 1);
    assert_eq!(program.get("/v1/alarms/count?status=active").await["count"], 4);
    let bad = program
        .ask(Method::GET, "/v1/alarms?status=asleep", &[], None)
        .await;
    assert_eq!(bad.status, 400);
}
