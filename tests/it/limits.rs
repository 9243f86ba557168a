//! What one owner gets at the most, as the owner sees it: by the relay's log.

use chrono::DateTime;
use chrono::TimeDelta;
use chrono::Utc;
use rustix::process::Signal;

use crate::harness::api::SOURCE;
use crate::harness::calendar::Calendar;
use crate::harness::node::Home;
use crate::harness::sink::Mail;
use crate::harness::sink::Sink;
use crate::harness::whole_second_in;
use crate::nodes::Scene;

const TIMEFRAME: &str = "3s";

const THREE: [(&str, &str); 2] = [
    ("CHANNELS__EMAIL__LIMIT__AMOUNT", "3"),
    ("CHANNELS__EMAIL__LIMIT__TIMEFRAME", TIMEFRAME),
];

/// Checks every window of the timeframe: whichever message it begins with, the third after it is outside.
fn assert_three_in_any_timeframe(mails: &[Mail]) {
    let timeframe = humantime::parse_duration(TIMEFRAME).expect("a duration");
    let mut instants: Vec<DateTime<Utc>> = mails.iter().map(|mail| mail.at).collect();
    instants.sort_unstable();
    for four in instants.windows(4) {
        let within = four[3] - four[0];
        assert!(
            within >= TimeDelta::from_std(timeframe).expect("short"),
            "four in {within}"
        );
    }
}

fn event(number: usize, due: DateTime<Utc>) -> Calendar {
    Calendar::far_away(&format!("e{number}@example.org")).alarm_at(due)
}

#[tokio::test]
async fn what_is_over_the_limit_leaves_as_the_window_allows() {
    let sink = Sink::start().await;
    let home = THREE
        .iter()
        .fold(Home::new().with_relay(sink.port), |home, (key, value)| {
            home.with(key, value)
        });
    let node = home.start_with_owner().await;
    let due = whole_second_in(3);
    for number in 0..8 {
        node.put_event(&format!("e{number}"), &event(number, due))
            .await
            .ok();
    }

    let mails = sink.mails(8).await;

    assert_three_in_any_timeframe(&mails);
    let last = mails.iter().map(|mail| mail.at).max().expect("there are mails");
    assert!(last - due < TimeDelta::seconds(20), "{last}");
    let metrics = node.get("/metrics").await.ok();
    let deferred = "carillon_deferred_total{channel=\"email\"} ";
    let count = metrics.as_str().and_then(|text| text.split_once(deferred));
    assert!(
        count.is_some_and(|(_, rest)| !rest.starts_with('0')),
        "they waited"
    );
}

#[tokio::test]
async fn what_is_over_the_limit_is_recorded_where_it_is_dropped() {
    let sink = Sink::start().await;
    let home = THREE
        .iter()
        .fold(Home::new().with_relay(sink.port), |home, (key, value)| {
            home.with(key, value)
        });
    let node = home
        .with("CHANNELS__EMAIL__LIMIT__TIMEFRAME", "1h")
        .with("CHANNELS__EMAIL__ON_LIMIT", "drop")
        .start_with_owner()
        .await;
    let due = whole_second_in(3);
    for number in 0..8 {
        node.put_event(&format!("e{number}"), &event(number, due))
            .await
            .ok();
    }

    let history = node.history_of(8).await;

    let dropped = history
        .iter()
        .filter(|row| (&row["outcome"], &row["reason"]) == (&"suppressed".into(), &"rate limit".into()));
    assert_eq!(dropped.count(), 5, "{history:?}");
    assert_eq!(sink.log().mails.len(), 3);
}

/// Every node fires for the one owner at once; one of them dies while others wait for their slots, and comes back.
#[tokio::test]
async fn nodes_keep_the_limit_of_an_owner_together_through_a_crash() {
    let mut scene = Scene::set(2, &THREE).await;
    let due = whole_second_in(5);
    for number in 0..11 {
        let node = &scene.nodes[number % 2];
        node.put_event(&format!("e{number}"), &event(number, due))
            .await
            .ok();
    }
    // Three are settled, and the others wait.
    scene.nodes[0].certain_history_of(3).await;

    scene.nodes[1].kill();
    scene.nodes[1].start_again().await;

    let mails = scene.sink.mails(11).await;
    assert_three_in_any_timeframe(&mails);
    let history = scene.nodes[0].certain_history_of(11).await;
    assert!(history.iter().all(|row| row["outcome"] == "sent"), "{history:?}");
    assert_eq!(scene.sink.log().mails.len(), 11, "each once");
}

#[tokio::test]
async fn a_limit_that_is_raised_or_lifted_by_a_reload_frees_what_waits() {
    let limited = |amount: u32| format!("[channels.email.limit]\namount = {amount}\ntimeframe = \"1h\"\n");
    let sink = Sink::start().await;
    let node = Home::new()
        .with_file(&limited(2))
        .with_relay(sink.port)
        .start_with_owner()
        .await;
    let due = whole_second_in(3);
    for number in 0..8 {
        node.put_event(&format!("e{number}"), &event(number, due))
            .await
            .ok();
    }
    node.certain_history_of(2).await;

    for (file, sent) in [(limited(5), 5), (String::new(), 8)] {
        std::fs::write(node.home.config_file(), file).expect("the folder is ours");
        node.signal(Signal::HUP);
        sink.mails(sent).await;
        node.certain_history_of(sent).await;
        assert_eq!(sink.log().mails.len(), sent);
    }
}

#[tokio::test]
async fn a_limit_that_is_lifted_before_a_start_frees_what_waits() {
    let sink = Sink::start().await;
    let one = "[channels.email.limit]\namount = 1\ntimeframe = \"1h\"\n";
    let mut node = Home::new()
        .with_file(one)
        .with_relay(sink.port)
        .start_with_owner()
        .await;
    let due = whole_second_in(3);
    for number in 0..3 {
        node.put_event(&format!("e{number}"), &event(number, due))
            .await
            .ok();
    }
    node.certain_history_of(1).await;
    node.terminate().await;
    std::fs::write(node.home.config_file(), "").expect("the folder is ours");

    node.start_again().await;

    sink.mails(3).await;
}

#[tokio::test]
async fn f28_a_channel_keeps_its_throughput_and_a_flood_for_one_owner_delays_nobody() {
    let sink = Sink::start().await;
    let node = Home::new()
        .with("CHANNELS__EMAIL__THROUGHPUT", "10")
        .with_relay(sink.port)
        .start_with_owner()
        .await;
    let bert = r#"{"email": "bert@example.org", "time_zone": "UTC", "locale": "en"}"#;
    let json = "application/json";
    node.put("/v1/owners/bert", json, bert.to_owned()).await.ok();
    let due = whole_second_in(6);
    for number in 0..50 {
        node.put_event(&format!("e{number}"), &event(number, due))
            .await
            .ok();
    }
    for number in 50..53 {
        let path = format!("/v1/sources/{SOURCE}/events/e{number}?owner=bert");
        node.put(&path, "text/calendar", event(number, due).text())
            .await
            .ok();
    }

    let mails = sink.mails(53).await;

    let mut instants: Vec<_> = mails.iter().map(|mail| mail.at).collect();
    instants.sort_unstable();
    let whole = instants[52] - instants[0];
    assert!(whole > TimeDelta::milliseconds(4_500), "{whole}");
    let for_bert = mails
        .iter()
        .filter(|mail| mail.recipients.iter().any(|to| to.contains("bert")));
    let last = for_bert.map(|mail| mail.at).max().expect("they came");
    let waited = last - due;
    assert!(waited < TimeDelta::seconds(3), "{waited}");
    println!(
        "F28 | 50 of one owner at 10 a second, and another's 3 within {:.2} s",
        waited.as_seconds_f64()
    );
}

#[tokio::test]
async fn a_domain_gets_its_mails_at_its_pace_and_others_do_not_wait_for_it() {
    let sink = Sink::start().await;
    let node = Home::new()
        .with("CHANNELS__EMAIL__DOMAIN_THROUGHPUT", "4")
        .with_relay(sink.port)
        .start_with_owner()
        .await;
    let bert = r#"{"email": "bert@other.example", "time_zone": "UTC", "locale": "en"}"#;
    let json = "application/json";
    node.put("/v1/owners/bert", json, bert.to_owned()).await.ok();
    let due = whole_second_in(5);
    for number in 0..16 {
        node.put_event(&format!("e{number}"), &event(number, due))
            .await
            .ok();
    }
    for number in 16..18 {
        let path = format!("/v1/sources/{SOURCE}/events/e{number}?owner=bert");
        node.put(&path, "text/calendar", event(number, due).text())
            .await
            .ok();
    }

    let mails = sink.mails(18).await;

    let (for_bert, others): (Vec<_>, Vec<_>) = mails
        .iter()
        .partition(|mail| mail.recipients.iter().any(|to| to.contains("bert")));
    let mut instants: Vec<_> = others.iter().map(|mail| mail.at).collect();
    instants.sort_unstable();
    for five in instants.windows(5) {
        let within = five[4] - five[0];
        assert!(within > TimeDelta::milliseconds(700), "five in {within}");
    }
    let last = for_bert.iter().map(|mail| mail.at).max().expect("they came");
    assert!(last < instants[8], "{last}: half of the others left later");
    assert_eq!(sink.log().mails.len(), 18, "each once");
}
