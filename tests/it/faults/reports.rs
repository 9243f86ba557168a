//! Targets of webhooks that take the work and then do not report, report late, or fail first; the others report at once, and
//! some of them over and over, and one thing after the other.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::time::Duration;

use carillon::clock::Clock;
use carillon::clock::SystemClock;
use chrono::DateTime;
use chrono::TimeDelta;
use chrono::Utc;
use serde_json::Value;
use serde_json::json;

use crate::faults::push;
use crate::faults::size::choose;
use crate::faults::size::seconds;
use crate::harness::api::OWNER;
use crate::harness::api::items;
use crate::harness::calendar::Calendar;
use crate::harness::client::client;
use crate::harness::hook::Call;
use crate::harness::hook::Conduct;
use crate::harness::hook::Hook;
use crate::harness::node::Home;
use crate::harness::node::Node;
use crate::harness::now;
use crate::harness::whole_second_in;

/// How often reports that did not come are looked for: that much later than allowed they are given up in the short form, where
/// this is more than the 20 % of the table.
const LOOK: TimeDelta = TimeDelta::seconds(5);

/// What a target does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    /// Reports at once.
    Prompt,
    /// Reports at once, again, and then that it failed.
    Repeats,
    /// Never reports.
    Silent,
    /// Fails when it is called first, and reports when it is called again.
    FailsFirst,
    /// Reports when nobody waits for it any longer.
    Late,
}

/// One in ten is silent, one in ten fails first, one in twenty is late.
const fn target(number: usize) -> Target {
    match number % 20 {
        1 | 11 => Target::Silent,
        2 | 12 => Target::FailsFirst,
        3 => Target::Late,
        4 | 14 => Target::Repeats,
        _ => Target::Prompt,
    }
}

/// Whose call it is.
fn number_of(call: &Call) -> usize {
    let document = call.json();
    let summary = document["event"]["summary"].as_str().unwrap_or_default();
    let number = summary.strip_prefix("Work ").and_then(|it| it.parse().ok());
    number.unwrap_or_else(|| panic!("a strange call: {document}"))
}

/// Takes every call but the first of those who fail first.
async fn targets() -> Hook {
    let mut failed = BTreeSet::new();
    Hook::by(move |call| {
        let number = number_of(call);
        let fails = target(number) == Target::FailsFirst && failed.insert(number);
        Conduct::status(if fails { 500 } else { 202 })
    })
    .await
}

async fn start(hook: &Hook, count: usize, stale: Duration) -> Node {
    let home = Home::new().with_webhooks();
    let public = format!("http://127.0.0.1:{}", home.port);
    let stale = humantime::format_duration(stale).to_string();
    let node = home
        .with("HTTP__PUBLIC_URL", &public)
        .with("CHANNELS__WEBHOOK__ACK", "callback")
        .with("CHANNELS__WEBHOOK__ACK_TIMEOUT", &stale)
        .with("CHANNELS__WEBHOOK__RETRY__BACKOFF", "1s")
        .start()
        .await;
    let owner = json!({
        "time_zone": "UTC",
        "webhook": { "url": hook.url() },
        "routes": [{ "action": "EMAIL", "channel": "webhook" }],
    });
    push::owners(&node, std::iter::once((OWNER.to_owned(), owner))).await;
    let due = whole_second_in(choose(3, 20));
    let events = (0..count).map(|number| {
        let key = format!("w{number}@example.org");
        let event = Calendar::far_away(&key).named(&format!("Work {number}"));
        (key, OWNER.to_owned(), event.alarm_at(due))
    });
    push::events(&node, events).await;
    node
}

/// What the test has seen.
#[derive(Default)]
struct Seen {
    /// Calls that were looked at.
    calls: usize,
    /// How often each target was called.
    times: BTreeMap<usize, usize>,
    /// Where those who are late report, by the id of what they were called for.
    late: BTreeMap<String, String>,
    /// How long each was waited for until it was given up, and how long it was to be.
    given_up: BTreeMap<String, (TimeDelta, TimeDelta)>,
}

impl Seen {
    /// Has the targets report that were called since the last look.
    async fn report(&mut self, hook: &Hook) {
        let new = hook.with_calls(|calls| calls[self.calls..].to_vec());
        self.calls += new.len();
        for call in new {
            let (number, document) = (number_of(&call), call.json());
            let times = self.times.entry(number).or_default();
            *times += 1;
            let url = |verb: &str| document[verb].as_str().expect("a URL").to_owned();
            match target(number) {
                Target::FailsFirst if *times == 1 => {}
                Target::Silent => {}
                Target::Late => drop(self.late.insert(text(&document["id"]), url("ack_url"))),
                Target::Prompt | Target::FailsFirst => post(&url("ack_url")).await,
                Target::Repeats => {
                    for verb in ["ack_url", "ack_url", "fail_url"] {
                        post(&url(verb)).await;
                    }
                }
            }
        }
    }

    /// Notes what was given up since the last look, and has the late targets report it.
    async fn look(&mut self, node: &Node) {
        let page = node
            .get("/v1/history?outcome=timeout_unknown&limit=500")
            .await
            .ok();
        let at = now();
        for row in items(&page) {
            let id = text(&row["id"]);
            let instant = |field: &str| -> DateTime<Utc> { text(&row[field]).parse().expect("an instant") };
            let handed_over = instant("handed_over_at");
            let waits = (at - handed_over, instant("await_until") - handed_over);
            self.given_up.entry(id.clone()).or_insert(waits);
            if let Some(url) = self.late.remove(&id) {
                post(&url).await;
            }
        }
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

async fn post(url: &str) {
    let answer = client().post(url).send().await.expect("the node answers");
    assert!(answer.status().is_success(), "{answer:?}");
}

/// Outcome and attempts of each, by its number.
async fn outcomes(node: &Node) -> BTreeMap<usize, (String, u64)> {
    let outcome = |row: &Value| {
        let uid = text(&row["event"]);
        let number = uid.trim_start_matches('w').split('@').next();
        let end = (
            text(&row["outcome"]),
            row["attempts"].as_u64().unwrap_or_default(),
        );
        (
            number.and_then(|it| it.parse().ok()).expect("a number of ours"),
            end,
        )
    };
    node.whole_history().await.iter().map(outcome).collect()
}

fn expected(number: usize) -> (String, u64) {
    let (outcome, attempts) = match target(number) {
        Target::Silent => ("timeout_unknown", 1),
        Target::FailsFirst => ("completed", 2),
        Target::Prompt | Target::Repeats | Target::Late => ("completed", 1),
    };
    (outcome.to_owned(), attempts)
}

#[tokio::test]
async fn f13_what_is_never_reported_is_given_up_in_time_and_what_is_reported_late_is_recorded() {
    let (count, stale) = (choose(60, 1_000), seconds(4, 300));
    let hook = targets().await;
    let node = start(&hook, count, stale).await;
    let given_up = (0..count).filter(|it| matches!(target(*it), Target::Silent | Target::Late));
    let given_up = given_up.count();
    let mut seen = Seen::default();
    let ends = SystemClock.elapsed() + stale.mul_f64(1.2) + Duration::from_mins(1);
    let mut pace = tokio::time::interval(Duration::from_millis(100));
    while (seen.given_up.len() < given_up || !seen.late.is_empty()) && SystemClock.elapsed() < ends {
        pace.tick().await;
        seen.report(&hook).await;
        seen.look(&node).await;
    }

    let all: BTreeMap<usize, (String, u64)> = (0..count).map(|it| (it, expected(it))).collect();
    assert_eq!(outcomes(&node).await, all);
    let called = (0..count).map(|it| (it, usize::from(target(it) == Target::FailsFirst) + 1));
    assert_eq!(seen.times, called.collect());
    assert_eq!(seen.given_up.len(), given_up, "nobody else was given up");
    let (first, last) = assert_in_time(
        seen.given_up.values(),
        TimeDelta::from_std(stale).expect("it is short"),
    );
    println!(
        "F13 | {count} calls, {given_up} given up {:.1} to {:.1} s after they were handed over, late reports recorded",
        first.as_seconds_f64(),
        last.as_seconds_f64()
    );
}

/// That all were waited for as long as they should be; returns the shortest time and the longest.
fn assert_in_time<'a>(
    waits: impl Iterator<Item = &'a (TimeDelta, TimeDelta)> + Clone,
    stale: TimeDelta,
) -> (TimeDelta, TimeDelta) {
    for (waited, was_to_be) in waits.clone() {
        assert!(
            (*was_to_be - stale).abs() * 5 <= stale,
            "was to be waited for {was_to_be}"
        );
        assert!(waited >= was_to_be, "given up after {waited} of {was_to_be}");
    }
    let (first, last) = (waits.clone().min(), waits.max());
    let ((first, _), (last, _)) = first.zip(last).expect("some were given up");
    let latest = stale * 6 / 5 + choose(LOOK, TimeDelta::zero());
    assert!(*last <= latest, "given up after {last}");
    (*first, *last)
}
