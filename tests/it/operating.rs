//! What operators meet: configuration, signals, logs, metrics.

use std::fs::File;
use std::process::Command;
use std::process::Output;
use std::time::Duration;

use reqwest::StatusCode;
use rustix::process::Signal;
use serde_json::json;

use crate::harness::api::ADDRESS;
use crate::harness::api::OWNER;
use crate::harness::api::SOURCE;
use crate::harness::calendar::Calendar;
use crate::harness::client::client;
use crate::harness::eventually;
use crate::harness::node::Home;
use crate::harness::node::Node;
use crate::harness::program;
use crate::harness::sink::Manners;
use crate::harness::sink::Sink;
use crate::harness::whole_second_in;

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
async fn a_node_that_does_not_deliver_takes_changes_and_leaves_their_triggers_free() {
    let mut node = Home::new()
        .with("WORKER__ENABLED", "false")
        .start_with_owner()
        .await;
    let event = Calendar::far_away("idle@example.org").alarm_at(whole_second_in(1));
    node.put_event("idle", &event).await.ok();

    let triggers = node.triggers("idle").await;
    assert_eq!(triggers[0]["state"], "planned", "{triggers:?}");
    assert_eq!(node.get("/readyz").await.status, StatusCode::OK);

    assert!(node.terminate().await.success());
}

#[tokio::test]
async fn what_a_channel_that_is_switched_off_does_not_send_is_told_apart_from_what_is_muted() {
    let node = Home::new()
        .with("CHANNELS__EMAIL__ENABLED", "false")
        .start_with_owner()
        .await;
    let event = Calendar::far_away("off@example.org").alarm_at(whole_second_in(1));
    node.put_event("off", &event).await.ok();

    let row = node.history_of(1).await.remove(0);

    let end = ["outcome", "reason", "attempts"].map(|name| row[name].clone());
    assert_eq!(end, [json!("suppressed"), json!("switched off"), json!(0)]);
}

#[tokio::test]
async fn asked_to_stop_it_stops_with_success_and_gives_back_what_it_holds() {
    let sink = Sink::start().await;
    let mut node = Home::new().with_relay(sink.port).start_with_owner().await;
    let due = whole_second_in(4);
    let event = Calendar::far_away("budget@example.org").alarm_at(due);
    node.put_event("budget", &event).await.ok();
    node.trigger_in_state("budget", "claimed").await;

    let status = node.terminate().await;
    assert_eq!(status.code(), Some(0), "{status}");
    node.start_again().await;

    let mails = sink.mails(1).await;
    mails[0].assert_on_time(due);
    assert_eq!(sink.log().mails.len(), 1);
    assert!(node.terminate().await.success());
    let log = node.home.folder().join("carillon.db-wal");
    assert!(!log.exists(), "after a clean stop the file is whole by itself");
}

#[tokio::test]
async fn asked_to_stop_in_mid_send_it_finishes_it() {
    let sink = Sink::start().await;
    sink.be(Manners::HoldReply);
    let mut node = Home::new().with_relay(sink.port).start_with_owner().await;
    let event = Calendar::far_away("budget@example.org").alarm_at(whole_second_in(2));
    node.put_event("budget", &event).await.ok();
    sink.mails(1).await;

    node.signal(Signal::TERM);
    eventually("the node to be unready", async || {
        let answer = client().get(node.url("/readyz")).send().await;
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
    let node = home.start_with_owner().await;
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
async fn a_time_shift_is_in_force_after_a_reload_also_for_what_is_held_already() {
    let sink = Sink::start().await;
    let node = Home::new()
        .with_file("")
        .with_relay(sink.port)
        .start_with_owner()
        .await;
    let due = whole_second_in(60);
    let event = Calendar::far_away("budget@example.org").alarm_at(due);
    node.put_event("budget", &event).await.ok();
    node.trigger_in_state("budget", "claimed").await;

    let file = "[channels.email]\ntime_shift = \"59s\"\n";
    std::fs::write(node.home.config_file(), file).expect("the folder is ours");
    node.signal(Signal::HUP);

    let early = due - sink.mails(1).await[0].at;
    assert!(early > chrono::TimeDelta::seconds(20), "{early}");
    assert!(
        early <= chrono::TimeDelta::seconds(59),
        "never by more than the shift: {early}"
    );
}

#[tokio::test]
async fn a_reload_plans_again_by_the_policies_that_are_in_force_last() {
    const DELIVER: &str = "[policies]\ndisplay = \"deliver\"\n";
    const SKIP: &str = "[policies]\ndisplay = \"skip\"\n";
    let node = Home::new().with_file(SKIP).start_with_owner().await;
    let event = Calendar::far_away("budget@example.org").alarm_with("DISPLAY", "TRIGGER:PT0S");
    node.put_event("budget", &event).await.ok();
    assert!(node.triggers("budget").await.is_empty());

    for (files, planned) in [
        (&[DELIVER][..], 1),
        (&[SKIP, DELIVER, SKIP][..], 0),
        (&[DELIVER][..], 1),
    ] {
        for file in files {
            std::fs::write(node.home.config_file(), file).expect("the folder is ours");
            node.signal(Signal::HUP);
        }
        eventually("the event to be planned again", async || {
            (node.triggers("budget").await.len() == planned).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn rule_22_what_other_zone_data_planned_is_planned_again_at_the_start() {
    let mut node = Home::new().start_with_owner().await;
    let event = Calendar::far_away("budget@example.org").alarm("TRIGGER:-PT15M");
    node.put_event("budget", &event).await.ok();
    let planned = node.triggers("budget").await;
    assert_eq!(planned[0]["trigger_at"], "2030-06-03T06:45:00Z");
    let metrics = node.get("/metrics").await.ok().to_string();
    let version = metrics
        .split("tzdata=\\\"")
        .nth(1)
        .and_then(|rest| rest.split('\\').next());
    let version = version
        .expect("the version of the zone data is a label")
        .to_owned();
    assert!(version.starts_with("20"), "{version}");

    let times = |node: &Node| node.home.output().matches("planning everything again").count();
    let log = node.home.output();
    let planned_by = log
        .split("\"planned_by\":\"")
        .nth(1)
        .and_then(|rest| rest.split('"').next());
    let planned_by = planned_by.expect("by what it is planned is logged").to_owned();
    let before = times(&node);
    // What is missing is found only where everything is planned again.
    for (by, found) in [
        (planned_by.clone(), 0),
        (planned_by.replace(&version, "2019a"), 1),
    ] {
        node.terminate().await;
        let statement = format!(
            "DELETE FROM alarm_trigger; INSERT OR REPLACE INTO memory (name, value) VALUES ('planned_by', '{by}');"
        );
        crate::store::damage_file(&node.home.database(), &statement).await;
        node.start_again().await;
        eventually("what other data planned to be planned again", async || {
            let triggers = node.triggers("budget").await;
            (triggers.len() == found && times(&node) == before + found).then_some(())
        })
        .await;
    }
    let planned = node.triggers("budget").await;
    assert_eq!(planned[0]["trigger_at"], "2030-06-03T06:45:00Z");
}

#[tokio::test]
async fn a_reload_tells_every_time_what_needs_a_restart() {
    let node = Home::new().with_file("").start().await;
    std::fs::write(node.home.config_file(), "[http]\nmax_event_bytes = 70000\n").expect("the folder is ours");

    for _ in 0..2 {
        let answer = node.post("/-/reload", "application/json", String::new()).await;
        assert_eq!(answer.ok()["needs_restart"], json!(["http"]));
    }
}

#[tokio::test]
async fn no_secret_and_nothing_personal_is_ever_logged() {
    let sink = Sink::start().await;
    sink.be(Manners::Refuse {
        times: 1,
        reply: "450 4.2.0 <anna@example.org> is greylisted",
    });
    let home = Home::new().with_relay(sink.port);
    let planted = |name: &str| {
        let path = home.folder().join(name);
        std::fs::write(&path, format!("planted-{name}\n")).expect("the folder is ours");
        path.display().to_string()
    };
    let (token, password) = (planted("token"), planted("password"));
    let home = home
        .with("HTTP__TOKEN_FILE", &token)
        .with("CHANNELS__EMAIL__SMTP__USERNAME", "planted-user")
        .with("CHANNELS__EMAIL__SMTP__PASSWORD_FILE", &password)
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
        let request = client().get(node.url("/v1/history")).bearer_auth("planted-token");
        let text = request.send().await.ok()?.text().await.ok()?;
        text.contains("\"sent\"").then_some(())
    })
    .await;

    let output = node.home.output();
    for secret in [
        "planted-token",
        "planted-password",
        ADDRESS,
        "4915112345678",
        "Planted summary",
        "Planted description",
    ] {
        assert!(!output.contains(secret), "`{secret}` is in the log:\n{output}");
    }
}

async fn put_with_token(node: &Node, path: &str, body: String) {
    let request = client().put(node.url(path)).bearer_auth("planted-token");
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

#[tokio::test]
async fn metrics_follow_the_conventions_of_prometheus() {
    let node = Home::new().start_with_owner().await;
    let event = Calendar::far_away("budget@example.org").alarm_at(whole_second_in(1));
    node.put_event("budget", &event).await.ok();
    node.history_of(1).await;
    let metrics = node.get("/metrics").await.ok();
    let metrics = metrics.as_str().expect("metrics are no JSON").to_owned();
    let delivered = "carillon_deliveries_total{channel=\"email\",outcome=\"sent\",reason=\"\"} 1";
    assert!(metrics.contains(delivered), "{metrics}");
    assert!(metrics.contains("\ncarillon_ready 1\n"), "{metrics}");

    let file = node.home.folder().join("metrics.txt");
    std::fs::write(&file, metrics).expect("the folder is ours");
    let mut promtool = Command::new(program("promtool", "prometheus"));
    promtool
        .args(["check", "metrics"])
        .stdin(File::open(&file).expect("it was just written"));
    let checked = promtool.output().expect("promtool can be run");

    assert!(
        checked.status.success(),
        "{}",
        String::from_utf8_lossy(&checked.stderr)
    );
}
