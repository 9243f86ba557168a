//! Relays that keep everybody waiting: each attempt ends by the time-out of its stage, and those who are reminded in another
//! way do not notice. Four nodes at once, each with a relay that stalls in another place, and webhooks that go well.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::DateTime;
use chrono::TimeDelta;
use chrono::Utc;
use futures_util::future::join_all;
use serde_json::json;

use crate::faults::push;
use crate::faults::size::choose;
use crate::faults::size::seconds;
use crate::harness::calendar::Calendar;
use crate::harness::hook::Hook;
use crate::harness::node::Home;
use crate::harness::node::Node;
use crate::harness::now;
use crate::harness::sink::FINAL_DOT;
use crate::harness::sink::GREETING_ITSELF;
use crate::harness::sink::Manners;
use crate::harness::sink::Sink;
use crate::harness::whole_second_in;

/// The stages that have a time-out.
const STAGES: [&str; 7] = [
    "CONNECT",
    "GREETING",
    "MAIL",
    "RECIPIENT",
    "DATA",
    "BODY",
    "ACCEPT",
];

/// Connections of a node to its relay: so many wait in vain before it is known.
const CONNECTIONS: usize = 8;

/// How the relays misbehave.
fn relays() -> [(&'static str, Manners); 4] {
    let stall = |at| Manners::Stall {
        at,
        pause: Duration::from_secs(30),
    };
    let never_greets = Manners::Stall {
        at: GREETING_ITSELF,
        pause: Duration::from_hours(1),
    };
    [
        ("never greets", never_greets),
        ("30 s at DATA", stall("DATA")),
        ("30 s at the final dot", stall(FINAL_DOT)),
        ("a byte a second", Manners::Drip(Duration::from_secs(1))),
    ]
}

/// A node, its relay, and the target of its webhooks.
struct Scene {
    sink: Sink,
    hook: Hook,
    node: Node,
    due: DateTime<Utc>,
}

impl Scene {
    /// Mails that are due at one instant, and calls that are due at it and in each second after it.
    async fn set(manners: Manners, limit: Duration, (mails, calls): (usize, usize)) -> Self {
        let (sink, hook) = (Sink::start().await, Hook::start([]).await);
        let home = Home::new().with_relay(sink.port).with_webhooks();
        let limit = humantime::format_duration(limit).to_string();
        let home = STAGES.iter().fold(home, |home, stage| {
            home.with(&format!("CHANNELS__EMAIL__SMTP__TIMEOUTS__{stage}"), &limit)
        });
        let home = home.with("CHANNELS__EMAIL__RETRY__BACKOFF", "1s");
        let node = home.start().await;
        sink.be(manners);
        let mailed = json!({ "email": "anna@example.org", "time_zone": "UTC", "locale": "en" });
        let called = json!({
            "time_zone": "UTC",
            "webhook": { "url": hook.url() },
            "routes": [{ "action": "EMAIL", "channel": "webhook" }],
        });
        let owners = [("mailed", mailed), ("called", called)];
        push::owners(&node, owners.map(|(name, it)| (name.to_owned(), it)).into_iter()).await;
        let due = whole_second_in(choose(6, 30));
        let event = |owner: &str, number: usize, at| {
            let key = format!("{owner}-{number}@example.org");
            (
                key.clone(),
                owner.to_owned(),
                Calendar::far_away(&key).alarm_at(at),
            )
        };
        let later = |number: usize| {
            let second = number % choose(3, 60);
            due + TimeDelta::seconds(i64::try_from(second).expect("it is small"))
        };
        let mails = (0..mails).map(|number| event("mailed", number, due));
        let calls = (0..calls).map(|number| event("called", number, later(number)));
        push::events(&node, mails.chain(calls)).await;
        Self {
            sink,
            hook,
            node,
            due,
        }
    }

    /// Waits until the question is answered with yes.
    async fn until(&self, what: &str, patience: Duration, question: impl Fn() -> bool) {
        let mut pace = tokio::time::interval(Duration::from_millis(50));
        let asking = async {
            while !question() {
                pace.tick().await;
            }
        };
        let end = tokio::time::timeout(patience, asking).await;
        assert!(end.is_ok(), "waited {patience:?} in vain for {what}");
    }

    /// How often the relay took responsibility for each message.
    fn accepted(&self) -> BTreeMap<String, usize> {
        let mut accepted = BTreeMap::new();
        self.sink.with_log(|log| {
            for mail in log.mails.iter().filter(|mail| mail.accepted) {
                *accepted.entry(mail.trigger_id()).or_default() += 1;
            }
        });
        accepted
    }

    /// How late the calls came, sorted.
    fn lateness(&self) -> Vec<TimeDelta> {
        let mut lateness = self.hook.with_calls(|calls| {
            let late = calls.iter().map(|call| {
                let promised = call.json()["scheduled_for"].as_str().map(str::parse);
                let promised: DateTime<Utc> = promised.expect("it is there").expect("an instant");
                call.at - promised
            });
            late.collect::<Vec<_>>()
        });
        lateness.sort();
        lateness
    }
}

async fn stalled((name, manners): (&str, Manners)) -> String {
    let limit = seconds(2, 10);
    let (mails, calls) = choose((20, 30), (1_000, 1_000));
    let scene = Scene::set(manners, limit, (mails, calls)).await;
    let least = scene.due + seconds(0, 120);
    let patience = seconds(60, 300);
    scene
        .until(&format!("those who wait to give up ({name})"), patience, || {
            now() >= least && scene.sink.with_log(|log| log.given_up.len() >= CONNECTIONS)
        })
        .await;
    scene
        .until(&format!("all calls ({name})"), patience, || {
            scene.hook.with_calls(|arrived| arrived.len() >= calls)
        })
        .await;
    let given_up = scene.sink.with_log(|log| log.given_up.clone());
    scene.sink.be(Manners::Polite);
    let everybody = format!("all mails once the relay is well ({name})");
    scene
        .until(&everybody, patience, || scene.accepted().len() >= mails)
        .await;

    let (shortest, longest) = (given_up.iter().min(), given_up.iter().max());
    let (shortest, longest) = shortest.zip(longest).expect("some gave up");
    let in_time = limit.mul_f64(0.95)..=limit + seconds(2, 1);
    assert!(
        in_time.contains(shortest) && in_time.contains(longest),
        "{name}: waited {shortest:?} to {longest:?}, where {limit:?} are allowed"
    );
    let lateness = scene.lateness();
    assert_eq!(lateness.len(), calls, "{name}: each call once");
    let p99 = lateness[(calls * 99).div_ceil(100) - 1];
    assert!(lateness[0] >= TimeDelta::zero(), "{name}: early");
    assert!(
        p99 <= TimeDelta::milliseconds(choose(1_500, 1_000)),
        "{name}: p99 of the calls is {p99}"
    );
    let accepted = scene.accepted();
    assert_eq!(
        (accepted.len(), accepted.values().max()),
        (mails, Some(&1)),
        "{name}"
    );
    drop(scene.node);
    format!(
        "{name}: {} gave up after {:.1} to {:.1} s, p99 of calls {:.2} s",
        given_up.len(),
        shortest.as_secs_f64(),
        longest.as_secs_f64(),
        p99.as_seconds_f64()
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f9_a_relay_that_stalls_costs_no_more_than_the_time_of_its_stage_and_delays_nobody_else() {
    let figures = join_all(relays().map(stalled)).await;
    println!("F9 | {}", figures.join("; "));
}
