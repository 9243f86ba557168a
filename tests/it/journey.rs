//! A reminder's whole way, with the real binary: from the request that causes it to the mail that arrives.

use std::process::Output;
use std::time::Duration;

use chrono::DateTime;
use chrono::TimeDelta;
use chrono::Utc;
use reqwest::StatusCode;
use rustix::process::Signal;
use serde_json::Value;
use serde_json::json;

use crate::harness::api::ADDRESS;
use crate::harness::api::OWNER;
use crate::harness::api::SOURCE;
use crate::harness::api::items;
use crate::harness::calendar::Calendar;
use crate::harness::eventually;
use crate::harness::node::Home;
use crate::harness::node::Node;
use crate::harness::postfix;
use crate::harness::postfix::Postfix;
use crate::harness::sink::Mail;
use crate::harness::sink::Manners;
use crate::harness::sink::Sink;
use crate::harness::smtp_sink::SmtpSink;
use crate::harness::whole_second_in;

/// How late a mail may be where nothing is wrong; loose, since the machine of the tests may be busy.
const LATE: TimeDelta = TimeDelta::seconds(10);

/// Checks that a mail came at its instant: never before, and not much later.
fn assert_on_time(arrived: DateTime<Utc>, due: DateTime<Utc>) {
    assert!(arrived >= due, "early: {arrived} before {due}");
    assert!(arrived - due < LATE, "late: {arrived} for {due}");
}

/// A node with that home and the owner.
async fn node_with_owner(home: Home) -> Node {
    let node = home.start().await;
    node.put_owner().await;
    node
}

/// The mail with what differs from run to run blanked.
fn blanked(mail: &Mail) -> String {
    let boundary = mail.header("Content-Type");
    let boundary = boundary.split("boundary=\"").nth(1).unwrap_or_default();
    let boundary = boundary.split('"').next().unwrap_or_default();
    let mut text = mail.raw.replace(&mail.trigger_id(), "[trigger]");
    if !boundary.is_empty() {
        text = text.replace(boundary, "[boundary]");
    }
    let lines = text.lines().map(|line| match line.split_once(':') {
        Some(("Date", _)) => "Date: [now]",
        _ if line.starts_with("Starts in ") => "Starts in [long]",
        _ => line,
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn an_alarm_becomes_one_mail_at_its_instant() {
    let sink = Sink::start().await;
    let node = node_with_owner(Home::new().with_relay(sink.port)).await;
    let due = whole_second_in(3);
    let event = Calendar::far_away("budget@example.org")
        .with("LOCATION:Room 12")
        .with("DESCRIPTION:Bring the figures <of last year> & a pen.")
        .alarm_at(due);

    let answer = node.put_event("budget", &event).await.ok();
    assert_eq!(answer["planned"], 1, "{answer}");

    let mails = sink.mails(1).await;
    assert_on_time(mails[0].at, due);
    assert_eq!(mails[0].recipients, [ADDRESS]);
    insta::assert_snapshot!("mail", blanked(&mails[0]));
    let rows = node.history_of(1).await;
    assert_eq!(rows[0]["id"], mails[0].trigger_id());
    assert_eq!(rows[0]["outcome"], "sent");
    assert_eq!(sink.log().mails.len(), 1);
}

#[tokio::test]
async fn smtp_sink_takes_it_too() {
    let sink = SmtpSink::start(&[]).await;
    let node = node_with_owner(Home::new().with_relay(sink.port)).await;
    let event = Calendar::far_away("budget@example.org").alarm_at(whole_second_in(2));

    node.put_event("budget", &event).await.ok();

    let mails = sink.mails(1).await;
    assert!(
        mails[0].contains(&format!("X-Rcpt-Args: <{ADDRESS}>")),
        "{}",
        mails[0]
    );
    assert_eq!(node.history_of(1).await[0]["outcome"], "sent");
    assert_eq!(sink.mails(1).await.len(), 1);
}

#[tokio::test]
async fn a_real_postfix_relays_it() {
    let sink = Sink::start().await;
    let postfix = Postfix::start(sink.port).await;
    let node = node_with_owner(Home::new().with_relay(postfix.port)).await;
    let due = whole_second_in(3);
    let event = Calendar::far_away("budget@example.org").alarm_at(due);

    node.put_event("budget", &event).await.ok();

    let mails = sink.mails(1).await;
    assert_on_time(mails[0].at, due);
    assert_eq!(mails[0].recipients, [ADDRESS]);
    let rows = node.history_of(1).await;
    assert_eq!(rows[0]["outcome"], "sent");
    assert_eq!(
        rows[0]["id"],
        mails[0].trigger_id(),
        "Postfix kept the Message-ID"
    );
    assert_eq!(sink.log().mails.len(), 1);
}

#[tokio::test]
async fn what_a_real_postfix_refuses_for_good_is_tried_once() {
    let sink = Sink::start().await;
    let postfix = Postfix::start(sink.port).await;
    let node = Home::new().with_relay(postfix.port).start().await;
    let owner = json!({ "email": postfix::GONE, "time_zone": "UTC", "locale": "en" });
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
    assert_eq!(rows[0]["reason"], "refused", "{rows:?}");
    assert_eq!(rows[0]["attempts"], 1, "{rows:?}");
}

#[tokio::test]
async fn what_is_refused_for_now_is_tried_again_with_the_same_message_id() {
    let sink = Sink::start().await;
    sink.be(Manners::Refuse {
        times: 2,
        reply: "451 4.7.1 come back later",
    });
    let home = Home::new()
        .with_relay(sink.port)
        .with("CHANNELS__EMAIL__RETRY__BACKOFF", "1s");
    let node = node_with_owner(home).await;
    let event = Calendar::far_away("budget@example.org").alarm_at(whole_second_in(2));

    node.put_event("budget", &event).await.ok();

    let rows = node.history_of(1).await;
    assert_eq!(rows[0]["outcome"], "sent", "{rows:?}");
    assert_eq!(rows[0]["attempts"], 3, "{rows:?}");
    assert_eq!(sink.log().mails.len(), 1);
}

#[tokio::test]
async fn a_connection_lost_after_the_final_dot_is_repeated_with_the_same_message_id() {
    let sink = Sink::start().await;
    sink.be(Manners::HangUpAfterDot);
    let home = Home::new()
        .with_relay(sink.port)
        .with("CHANNELS__EMAIL__RETRY__BACKOFF", "1s");
    let node = node_with_owner(home).await;
    let event = Calendar::far_away("budget@example.org").alarm_at(whole_second_in(2));
    node.put_event("budget", &event).await.ok();
    sink.mails(1).await;
    sink.be(Manners::Polite);

    let mails = sink.mails(2).await;

    assert_eq!(
        mails[0].raw, mails[1].raw,
        "the rendered bytes are the same on every retry"
    );
    assert_eq!(node.history_of(1).await[0]["outcome"], "sent");
}

#[tokio::test]
async fn without_a_relay_the_outbox_keeps_it() {
    let node = node_with_owner(Home::new()).await;
    let event = Calendar::far_away("budget@example.org").alarm_at(whole_second_in(2));

    node.put_event("budget", &event).await.ok();

    node.history_of(1).await;
    let entries = items(&node.get("/v1/outbox").await.ok());
    assert_eq!(entries.len(), 1, "{entries:?}");
    assert_eq!(entries[0]["to"], ADDRESS);
    let subject = entries[0]["subject"].as_str().expect("a message has a subject");
    assert!(subject.contains("Budget round"), "{subject}");
    assert!(
        node.home.output().contains("outbox"),
        "the log says where messages go"
    );
}

#[tokio::test]
async fn the_second_alarm_follows_the_first() {
    let sink = Sink::start().await;
    let home = Home::new()
        .with_relay(sink.port)
        .with("POLICIES__MIN_INTERVAL", "1s");
    let node = node_with_owner(home).await;
    let due = [whole_second_in(3), whole_second_in(5)];
    let event = Calendar::far_away("budget@example.org")
        .alarm_at(due[0])
        .alarm_at(due[1]);

    node.put_event("budget", &event).await.ok();

    let mails = sink.mails(2).await;
    assert_on_time(mails[0].at, due[0]);
    assert_on_time(mails[1].at, due[1]);
    assert_ne!(mails[0].message_id(), mails[1].message_id());
}

#[tokio::test]
async fn every_occurrence_of_a_series_follows_the_one_before() {
    let sink = Sink::start().await;
    let home = Home::new()
        .with_relay(sink.port)
        .with("POLICIES__MIN_INTERVAL", "1s");
    let node = node_with_owner(home).await;
    let starts = [whole_second_in(3), whole_second_in(5), whole_second_in(7)];
    let dates: Vec<String> = starts
        .iter()
        .map(|start| crate::harness::calendar::stamp(*start))
        .collect();
    let event = Calendar::starting("standup@example.org", starts[0])
        .with(&format!("RDATE:{},{}", dates[1], dates[2]))
        .alarm("TRIGGER:PT0S");

    node.put_event("standup", &event).await.ok();
    assert_eq!(node.triggers("standup").await.len(), 1, "one at a time is owed");

    let mails = sink.mails(3).await;
    for (mail, start) in mails.iter().zip(starts) {
        assert_on_time(mail.at, start);
    }
    node.history_of(3).await;
    assert!(node.triggers("standup").await.is_empty(), "the series is over");
}

#[tokio::test]
async fn a_moved_event_reminds_at_its_new_instant_only() {
    let sink = Sink::start().await;
    let node = node_with_owner(Home::new().with_relay(sink.port)).await;
    let (before, after) = (whole_second_in(4), whole_second_in(6));
    let event = |due| Calendar::starting("budget@example.org", due).alarm("TRIGGER:PT0S");

    node.put_event("budget", &event(before)).await.ok();
    let moved = node.put_event("budget", &event(after)).await.ok();

    assert_eq!(moved["withdrawn"], 1, "{moved}");
    let mails = sink.mails(1).await;
    assert_on_time(mails[0].at, after);
    node.history_of(1).await;
    assert_eq!(sink.log().mails.len(), 1);
}

#[tokio::test]
async fn a_deleted_event_reminds_of_nothing() {
    let sink = Sink::start().await;
    let node = node_with_owner(Home::new().with_relay(sink.port)).await;
    let due = whole_second_in(2);
    let doomed = Calendar::far_away("doomed@example.org").alarm_at(due);
    node.put_event("doomed", &doomed).await.ok();
    let path = format!("/v1/sources/{SOURCE}/events/doomed?owner={OWNER}");
    let deleted = reqwest::Client::new().delete(node.url(&path)).send().await;
    assert!(deleted.expect("the node answers").status().is_success());

    let kept = Calendar::far_away("kept@example.org").alarm_at(due + TimeDelta::seconds(1));
    node.put_event("kept", &kept).await.ok();

    node.history_of(1).await;
    assert_eq!(sink.log().mails.len(), 1, "only the one that was kept");
}

#[tokio::test]
async fn a_bad_line_of_a_stream_is_answered_in_its_place() {
    let node = node_with_owner(Home::new()).await;
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
    let node = node_with_owner(Home::new()).await;
    let broken = "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nBEGIN:VEVENT\r\nUID:a@example.org\r\n\
                  DTSTART;TZID=Mars/Olympus:20300603T090000\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n";
    let path = format!("/v1/sources/{SOURCE}/events/broken?owner={OWNER}");

    let answer = node.put(&path, "text/calendar", broken.to_owned()).await;

    assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY, "{}", answer.body);
    let text = answer.body.to_string();
    assert!(text.contains("Mars/Olympus"), "{text}");
    assert!(text.contains("VEVENT"), "{text}");
    assert!(text.contains("\"line\":5"), "{text}");
    assert_eq!(node.get("/readyz").await.status, StatusCode::OK);
}

#[tokio::test]
async fn an_alarm_that_cannot_be_understood_is_dropped_alone() {
    let node = node_with_owner(Home::new()).await;
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
async fn a_wrong_configuration_ends_with_every_complaint() {
    let home = Home::new()
        .with_file("[worker]\nperiod = \"soon\"\nlook_ahed = \"35m\"\n\n[channels.email]\nenabled = 7\n");

    let ended = run(&home, &["serve"]).await;

    assert_eq!(ended.status.code(), Some(78), "{ended:?}");
    let complaints = String::from_utf8_lossy(&ended.stderr);
    for named in ["soon", "look_ahed", "look_ahead", "channels.email.enabled"] {
        assert!(complaints.contains(named), "`{named}` is not in:\n{complaints}");
    }
}

#[tokio::test]
async fn a_second_node_on_the_same_file_is_refused_with_the_cure() {
    let node = Home::new().start().await;
    let database = format!("sqlite://{}", node.home.database().display());
    let second = Home::new().with("STORE__URL", &database);

    let ended = run(&second, &["serve"]).await;

    assert!(!ended.status.success());
    let complaint = String::from_utf8_lossy(&ended.stderr);
    assert!(complaint.contains("carillon.db"), "{complaint}");
    assert_eq!(
        node.get("/readyz").await.status,
        StatusCode::OK,
        "the first goes on"
    );
}

#[tokio::test]
async fn asked_to_stop_it_stops_with_success_and_gives_back_what_it_holds() {
    let sink = Sink::start().await;
    let mut node = node_with_owner(Home::new().with_relay(sink.port)).await;
    let due = whole_second_in(4);
    let event = Calendar::far_away("budget@example.org").alarm_at(due);
    node.put_event("budget", &event).await.ok();
    node.trigger_in_state("budget", "claimed").await;

    let status = node.terminate().await;
    assert_eq!(status.code(), Some(0), "{status}");
    node.start_again().await;

    let mails = sink.mails(1).await;
    assert_on_time(mails[0].at, due);
    assert_eq!(sink.log().mails.len(), 1);
}

#[tokio::test]
async fn asked_to_stop_in_mid_send_it_finishes_it() {
    let sink = Sink::start().await;
    sink.be(Manners::HoldReply);
    let mut node = node_with_owner(Home::new().with_relay(sink.port)).await;
    let event = Calendar::far_away("budget@example.org").alarm_at(whole_second_in(2));
    node.put_event("budget", &event).await.ok();
    sink.mails(1).await;

    node.signal(Signal::TERM);
    eventually("the node to be unready", async || {
        let answer = reqwest::get(node.url("/readyz")).await;
        // It may have closed its door already, which is as good a no.
        answer
            .map_or(true, |answer| !answer.status().is_success())
            .then_some(())
    })
    .await;
    sink.be(Manners::Polite);

    let status = node.ended().await;
    assert_eq!(status.code(), Some(0), "{status}");
    node.start_again().await;
    assert_eq!(node.history_of(1).await[0]["outcome"], "sent");
    assert_eq!(sink.log().mails.len(), 1, "a stop is no reason for a duplicate");
}

#[tokio::test]
async fn a_reload_with_a_bad_file_keeps_what_was() {
    let sink = Sink::start().await;
    let home = Home::new()
        .with_file("[delivery]\nmax_lateness = \"6h\"\n")
        .with_relay(sink.port);
    let node = node_with_owner(home).await;
    std::fs::write(
        node.home.config_file(),
        "[delivery]\nmax_lateness = \"eternity\"\n",
    )
    .expect("the folder is ours");

    node.signal(Signal::HUP);

    eventually("the complaint", async || {
        node.home.output().contains("eternity").then_some(())
    })
    .await;
    let event = Calendar::far_away("budget@example.org").alarm_at(whole_second_in(2));
    node.put_event("budget", &event).await.ok();
    sink.mails(1).await;
}

#[tokio::test]
async fn no_secret_and_nothing_personal_is_ever_logged() {
    let sink = Sink::start().await;
    sink.be(Manners::Refuse {
        times: 1,
        reply: "450 4.2.0 <anna@example.org> is greylisted",
    });
    let home = Home::new().with_relay(sink.port);
    std::fs::write(home.folder().join("token"), "planted-token\n").expect("the folder is ours");
    let token_file = home.folder().join("token").display().to_string();
    let home = home
        .with("HTTP__TOKEN_FILE", &token_file)
        .with("CHANNELS__EMAIL__RETRY__BACKOFF", "1s")
        .with("LOG__LEVEL", "trace");
    let node = home.start().await;
    let path = format!("/v1/sources/{SOURCE}/events/budget?owner={OWNER}");
    let event = Calendar::far_away("budget@example.org")
        .named("Planted summary")
        .with("DESCRIPTION:Planted description")
        .alarm_at(whole_second_in(2));

    let unknown = node.put(&path, "text/calendar", event.text()).await;
    assert_eq!(unknown.status, StatusCode::UNAUTHORIZED, "{}", unknown.body);
    let owner =
        json!({ "email": ADDRESS, "phone": "+4915112345678", "time_zone": "Europe/Berlin", "locale": "en" });
    put_with_token(&node, &format!("/v1/owners/{OWNER}"), owner.to_string()).await;
    put_with_token(&node, &path, event.text()).await;
    sink.mails(1).await;
    eventually("its settle", async || {
        let request = reqwest::Client::new()
            .get(node.url("/v1/history"))
            .bearer_auth("planted-token");
        let text = request.send().await.ok()?.text().await.ok()?;
        text.contains("\"sent\"").then_some(())
    })
    .await;

    let output = node.home.output();
    for secret in [
        "planted-token",
        ADDRESS,
        "4915112345678",
        "Planted summary",
        "Planted description",
    ] {
        assert!(!output.contains(secret), "`{secret}` is in the log:\n{output}");
    }
}

async fn put_with_token(node: &Node, path: &str, body: String) {
    let request = reqwest::Client::new()
        .put(node.url(path))
        .bearer_auth("planted-token");
    let content_type = if body.starts_with('{') {
        "application/json"
    } else {
        "text/calendar"
    };
    let request = request.header("content-type", content_type).body(body);
    let answer = request.send().await.expect("the node answers");
    assert!(answer.status().is_success(), "{answer:?}");
}

/// Runs a command of the binary to its end.
async fn run(home: &Home, arguments: &[&str]) -> Output {
    let mut command = home.command(arguments);
    let running = tokio::task::spawn_blocking(move || command.output());
    let ended = tokio::time::timeout(Duration::from_secs(30), running).await;
    ended
        .expect("it ends by itself")
        .expect("waiting does not panic")
        .expect("the binary can be run")
}
