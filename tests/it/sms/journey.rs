//! A text message's whole way, with the real binary: from the event that asks for it to the telephone, and back again as a
//! report of delivery; and what becomes of those that providers lose.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream;
use serde_json::Value;
use serde_json::json;

use super::TO;
use super::own;
use crate::faults::push;
use crate::faults::size::choose;
use crate::faults::size::seconds;
use crate::harness::api::OWNER;
use crate::harness::calendar::Calendar;
use crate::harness::client::client;
use crate::harness::eventually;
use crate::harness::hook::Call;
use crate::harness::hook::Conduct;
use crate::harness::hook::Hook;
use crate::harness::kannel;
use crate::harness::kannel::Kannel;
use crate::harness::node::Home;
use crate::harness::node::Node;
use crate::harness::whole_second_in;

/// A node whose owner gets their alarms as text messages through this one provider.
async fn start(provider: &str) -> Node {
    start_with("", provider).await
}

/// The same with further keys of the channel.
async fn start_with(keys: &str, provider: &str) -> Node {
    let home = Home::new();
    let url = format!("http://127.0.0.1:{}", home.port);
    let file = format!(
        "[channels.sms]\nenabled = true\nroute = [\"own\"]\nallow_countries = [\"+49\"]\n{keys}[channels.sms.limit]\namount = -1\n\
         [channels.sms.retry]\nbackoff = \"1s\"\n{provider}"
    );
    let secret = home.folder().join("secret");
    fs::write(&secret, kannel::PASSWORD).unwrap();
    let file = file.replace("SECRET", &secret.display().to_string());
    let node = home.with("HTTP__PUBLIC_URL", &url).with_file(&file).start().await;
    let owner = json!({
        "phone": TO, "time_zone": "Europe/Berlin", "locale": "en",
        "routes": [{ "action": "EMAIL", "channel": "sms" }],
    });
    let path = format!("/v1/owners/{OWNER}");
    node.put(&path, "application/json", owner.to_string()).await.ok();
    node
}

/// So many events whose alarms are due together.
async fn put_events(node: &Node, count: usize) {
    let due = whole_second_in(choose(4, 20));
    let events = (0..count).map(|number| {
        let key = format!("event-{number}@example.org");
        let event = Calendar::far_away(&key).alarm_at(due);
        (key, OWNER.to_owned(), event)
    });
    push::events(node, events).await;
}

/// Waits until history is as it should be, however many pages it has.
async fn history_until(node: &Node, what: &str, is_right: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    let asking = async {
        let mut pace = tokio::time::interval(Duration::from_millis(100));
        loop {
            pace.tick().await;
            let history = node.whole_history().await;
            if is_right(&history) {
                return history;
            }
        }
    };
    let asked = tokio::time::timeout(seconds(30, 300), asking).await;
    asked.unwrap_or_else(|_| panic!("waited in vain for {what}"))
}

fn outcomes(history: &[Value]) -> BTreeMap<&str, usize> {
    history.iter().fold(BTreeMap::new(), |mut counts, row| {
        *counts.entry(row["outcome"].as_str().unwrap()).or_default() += 1;
        counts
    })
}

/// How often each message was put to the provider.
fn submissions(calls: &[Call]) -> BTreeMap<String, usize> {
    calls.iter().fold(BTreeMap::new(), |mut counts, call| {
        let id = call.json()["ref"].as_str().unwrap().to_owned();
        *counts.entry(id).or_default() += 1;
        counts
    })
}

#[tokio::test]
async fn an_alarm_reaches_a_telephone_through_kannel_and_its_delivery_is_recorded() {
    let kannel = Kannel::start().await;
    let provider = format!(
        "[channels.sms.providers.own]\nkind = \"kannel\"\nusername = \"{}\"\nsecret_file = \"SECRET\"\nfrom = \"Carillon\"\n\
         url = \"http://127.0.0.1:{}/cgi-bin/sendsms\"\n",
        kannel::USER,
        kannel.port
    );
    let node = start(&provider).await;
    let event = Calendar::far_away("budget@example.org")
        .named("“Budget” round")
        .with("LOCATION:Room 12")
        .alarm_at(whole_second_in(3));
    node.put_event("budget", &event).await.ok();

    let message = kannel.messages(1).await.remove(0);
    assert!(message.starts_with("Carillon +4930123456 text "), "{message}");
    let when = ": \"Budget\" round - Mon 3 Jun 2030, 09:00-10:00 (Europe/Berlin, UTC+2) - Room 12";
    assert!(message.ends_with(when), "{message}");

    let row = eventually("delivery to be reported", async || {
        let history = node.history().await;
        history.into_iter().find(|row| row["outcome"] == "completed")
    })
    .await;
    assert_eq!(row["channel"], "sms");
    let metrics = node.get("/metrics").await.ok();
    let metrics = metrics.as_str().unwrap();
    let counted = r#"carillon_submissions_total{channel="sms",class="accepted",provider="own"} 1"#;
    assert!(metrics.contains(counted), "{metrics}");
    assert!(
        !node.home.output().contains("4930123456"),
        "no number reaches the log"
    );
    assert_eq!(kannel.arrived().len(), 1);
}

/// How many messages F11 and F12 send.
fn messages() -> usize {
    choose(40, 2_000)
}

/// How many of them are lost: one of ten, or of fifty.
fn lost() -> usize {
    messages() / choose(10, 50)
}

/// [`own`] at a pace at which all are sent soon.
fn fast(port: u16) -> String {
    own("own", port) + "rate = 1000\n"
}

/// A provider that hangs up on some of the first so many messages, evenly, once it has read them.
async fn losing(count: usize) -> Hook {
    let script = (0..2 * count).map(|number| {
        if number < count && number % (messages() / lost()) == 3 {
            Conduct::HangUp
        } else {
            super::taken()
        }
    });
    Hook::start(script).await
}

#[tokio::test]
async fn f11_what_may_have_been_taken_is_not_put_to_the_provider_again() {
    let (count, lost) = (messages(), lost());
    let hook = losing(count).await;
    let node = start(&fast(hook.port)).await;
    put_events(&node, count).await;
    let history = history_until(&node, "all to end", |rows| rows.len() >= count).await;
    assert_eq!(
        outcomes(&history),
        BTreeMap::from([("in_doubt", lost), ("sent", count - lost)])
    );
    let submissions = submissions(&hook.calls());
    assert_eq!(submissions.len(), count);
    assert!(submissions.values().all(|count| *count == 1), "{submissions:?}");
    println!("F11 | fail: {count} messages, {lost} cut, none submitted twice");
}

#[tokio::test]
async fn f11_where_that_is_wanted_it_is_put_to_it_exactly_once_more() {
    let (count, lost) = (messages(), lost());
    let hook = losing(count).await;
    let node = start_with("on_doubt = \"retry\"\n", &fast(hook.port)).await;
    put_events(&node, count).await;
    let history = history_until(&node, "all to end", |rows| {
        rows.len() >= count && rows.iter().all(|row| row["outcome"] != "in_doubt")
    })
    .await;
    assert_eq!(outcomes(&history), BTreeMap::from([("sent", count)]));
    let submissions = submissions(&hook.calls());
    let twice = submissions.values().filter(|count| **count == 2).count();
    let once = submissions.values().filter(|count| **count == 1).count();
    assert_eq!((once, twice), (count - lost, lost), "{submissions:?}");
    println!("F11 | retry: {count} messages, {lost} cut, each submitted once more");
}

/// Has the provider report on a message over and over, the end before what went before it, also that it was not delivered
/// after it was; returns how it must end.
async fn report(number: usize, call: Call) -> (String, &'static str) {
    let body = call.json();
    let callback = body["callback"].as_str().unwrap();
    let (end, outcome) = if number.is_multiple_of(4) {
        ("UNDELIV", "failed")
    } else {
        ("DELIVRD", "completed")
    };
    for status in [end, end, "ENROUTE", end, "UNDELIV", "ACCEPTD"] {
        let answer = client()
            .get(format!("{callback}?status={status}"))
            .send()
            .await
            .unwrap();
        assert!(answer.status().is_success(), "{}", answer.status());
    }
    let forged = callback.rsplit_once('/').unwrap().0;
    let forged = format!("{forged}/{:032x}?status={end}", 7);
    assert_eq!(client().get(forged).send().await.unwrap().status(), 404);
    (body["ref"].as_str().unwrap().to_owned(), outcome)
}

#[tokio::test]
async fn f12_reports_tripled_reversed_and_early_end_right() {
    let count = choose(20, 2_000);
    // One of ten, or of twenty, is answered so late that its report comes first.
    let script = (0..count).map(|number| match number % choose(10, 20) {
        3 => Conduct::Slow(Duration::from_secs(2)),
        _ => Conduct::status(204),
    });
    let hook = Hook::start(script).await;
    let provider = own("own", hook.port)
        .replace("\"ref\"", "\"callback\": {{ callback }}, \"ref\"")
        .replace(
            "success = [\"202\"]",
            "success = [\"204\"]\nconnections = 20\nrate = 1000",
        )
        + "receipts.status = \"status\"\nreceipts.delivered = [\"DELIVRD\"]\nreceipts.undelivered = [\"UNDELIV\"]\n";
    let node = start(&provider.replace("timeout = \"2s\"", "timeout = \"10s\"")).await;
    put_events(&node, count).await;
    let mut expected = BTreeMap::new();
    while expected.len() < count {
        let looked_at = expected.len();
        hook.until(looked_at + 1).await;
        let new = hook.with_calls(|calls| calls[looked_at..].to_vec());
        let reports = (looked_at..).zip(new).map(|(number, call)| report(number, call));
        expected.extend(
            stream::iter(reports)
                .buffer_unordered(32)
                .collect::<Vec<_>>()
                .await,
        );
    }
    history_until(&node, "every message to end as it was reported", |history| {
        let ended: BTreeMap<String, &str> = history
            .iter()
            .map(|row| {
                let id = row["trigger"].as_str().or(row["id"].as_str()).unwrap();
                (id.to_owned(), row["outcome"].as_str().unwrap())
            })
            .collect();
        ended == expected
    })
    .await;
    assert_eq!(hook.with_calls(<[Call]>::len), count);
    println!("F12 | {count} messages, each reported on six times, all ended as reported");
}
