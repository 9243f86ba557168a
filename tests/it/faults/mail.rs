//! A relay that misbehaves, and one node: each owner has an address of their own and one reminder at the same instant, so
//! that the relay's log says by the recipient how often each was tried, and each was told.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::DateTime;
use chrono::TimeDelta;
use chrono::Utc;
use futures_util::StreamExt;
use futures_util::stream;
use serde_json::json;

use crate::faults::size::choose;
use crate::faults::size::seconds;
use crate::harness::api::SOURCE;
use crate::harness::api::items;
use crate::harness::calendar::Calendar;
use crate::harness::node::Home;
use crate::harness::node::Node;
use crate::harness::now;
use crate::harness::sink::Manners;
use crate::harness::sink::Sink;
use crate::harness::whole_second_in;

/// Requests at once.
const AT_ONCE: usize = 16;

/// The pause of an open breaker, less what clocks and a busy machine take from it.
const BREAKER: TimeDelta = TimeDelta::milliseconds(4_800);

/// A node, its relay, and how many are to be told.
struct Post {
    sink: Sink,
    node: Node,
    count: usize,
    due: DateTime<Utc>,
}

/// Whose reminder has this number: each tenth address is a `gone` one.
fn address(number: usize) -> String {
    let kind = if number % 10 == 3 { "gone" } else { "here" };
    format!("{kind}-{number}@example.org")
}

impl Post {
    /// Puts an event for each of `count` owners, all due at an instant that is still to come when the last is put.
    async fn start(count: usize, manners: Manners, settings: &[(&str, &str)]) -> Self {
        let sink = Sink::start().await;
        let home = settings
            .iter()
            .fold(Home::new().with_relay(sink.port), |home, (key, value)| {
                home.with(key, value)
            });
        let node = home.start().await;
        sink.be(manners);
        let due = whole_second_in(choose(8, 60));
        stream::iter(0..count)
            .for_each_concurrent(AT_ONCE, |number| put(&node, number, due))
            .await;
        Self {
            sink,
            node,
            count,
            due,
        }
    }

    /// Waits until the question is answered with yes.
    async fn until(&self, what: &str, patience: Duration, mut question: impl FnMut(&Sink) -> bool) {
        let mut pace = tokio::time::interval(Duration::from_millis(50));
        let asking = async {
            while !question(&self.sink) {
                pace.tick().await;
            }
        };
        let end = tokio::time::timeout(patience, asking).await;
        assert!(
            end.is_ok(),
            "waited {patience:?} in vain for {what}: {}",
            self.state()
        );
    }

    /// Waits until everybody who is to be told is told.
    async fn told(&self, count: usize, patience: Duration) {
        let what = format!("{count} recipients");
        self.until(&what, patience, |sink| accepted(sink).len() >= count)
            .await;
    }

    fn state(&self) -> String {
        self.sink.with_log(|log| {
            let (mails, refused) = (log.mails.len(), log.refused.len());
            format!(
                "{mails} final dots, {refused} refused, {} connections",
                log.connections
            )
        })
    }

    /// How often each address was refused, and when.
    fn refused(&self) -> BTreeMap<String, Vec<DateTime<Utc>>> {
        let mut refused: BTreeMap<String, Vec<_>> = BTreeMap::new();
        self.sink.with_log(|log| {
            for (address, at) in &log.refused {
                refused.entry(address.clone()).or_default().push(*at);
            }
        });
        refused
    }
}

async fn put(node: &Node, number: usize, due: DateTime<Utc>) {
    let owner = json!({ "email": address(number), "time_zone": "UTC", "locale": "en" });
    let path = format!("/v1/owners/o{number}");
    node.put(&path, "application/json", owner.to_string()).await.ok();
    let event = Calendar::far_away(&format!("m{number}@example.org")).alarm_at(due);
    let path = format!("/v1/sources/{SOURCE}/events/m{number}?owner=o{number}");
    node.put(&path, "text/calendar", event.text()).await.ok();
}

/// How often the relay took responsibility for a message to each recipient.
fn accepted(sink: &Sink) -> BTreeMap<String, usize> {
    let mut accepted = BTreeMap::new();
    sink.with_log(|log| {
        for mail in log.mails.iter().filter(|mail| mail.accepted) {
            for recipient in &mail.recipients {
                *accepted.entry(recipient.clone()).or_default() += 1;
            }
        }
    });
    accepted
}

/// That those whom the relay accepted a message for are exactly these, once each.
fn assert_once_each(sink: &Sink, numbers: impl Iterator<Item = usize>) {
    let expected: BTreeMap<String, usize> = numbers.map(|number| (address(number), 1)).collect();
    assert_eq!(accepted(sink), expected);
}

#[tokio::test]
async fn f6_a_relay_that_puts_everybody_off_gets_retries_that_are_spread() {
    let refuse = Manners::Refuse {
        times: usize::MAX,
        reply: "451 4.7.1 not now",
    };
    let (backoff, patience) = choose(("4s", 60), ("1m", 900));
    let retry = [("CHANNELS__EMAIL__RETRY__BACKOFF", backoff)];
    let post = Post::start(choose(150, 10_000), refuse, &retry).await;
    let patience = Duration::from_secs(patience);
    let least = post.due + seconds(0, 120);
    post.until("two refusals of everybody", patience, |_| {
        let refused = post.refused();
        now() >= least && refused.len() == post.count && refused.values().all(|times| times.len() >= 2)
    })
    .await;
    post.sink.be(Manners::Polite);
    post.told(post.count, patience).await;

    assert_once_each(&post.sink, 0..post.count);
    let refused = post.refused();
    let most = refused.values().map(Vec::len).max().unwrap_or_default() + 1;
    assert!(most <= 6, "{most} attempts");
    // The pauses lie within 20 % either way of the first: ten equal parts of that, none with more than thrice its share.
    let nominal = humantime::parse_duration(backoff).expect("a duration");
    let nominal = TimeDelta::from_std(nominal)
        .expect("a short one")
        .num_milliseconds();
    let mut parts: BTreeMap<i64, usize> = BTreeMap::new();
    for times in refused.values() {
        let pause = (times[1] - times[0]).num_milliseconds();
        assert!(pause >= nominal * 79 / 100, "a second attempt after {pause} ms");
        let part = (pause - nominal * 8 / 10).max(0) * 25 / nominal;
        *parts.entry(part).or_default() += 1;
    }
    let fullest = parts.values().max().copied().unwrap_or_default();
    assert!(fullest * 10 <= post.count * 3, "{parts:?}");
    println!(
        "F6 | {} mails, <= {most} attempts, fullest tenth {fullest}",
        post.count
    );
}

/// The connections after those that found out that the relay is away.
fn probes(arrivals: &[DateTime<Utc>]) -> Vec<DateTime<Utc>> {
    let first = arrivals.first().copied();
    let later = arrivals.iter().copied();
    later
        .filter(|at| first.is_some_and(|first| *at - first > TimeDelta::seconds(2)))
        .collect()
}

#[tokio::test]
async fn f7_a_relay_that_is_away_is_left_alone_and_gets_everything_when_it_is_back() {
    // One attempt: if being away burnt any, nothing would be left.
    let settings = [
        ("CHANNELS__EMAIL__RETRY__ATTEMPTS", "1"),
        ("CHANNELS__EMAIL__RETRY__BACKOFF", choose("2s", "1m")),
    ];
    let post = Post::start(choose(150, 10_000), Manners::Shut, &settings).await;
    let least = post.due + seconds(11, 180);
    let patience = seconds(60, 600);
    post.until("two probes", patience, |sink| {
        now() >= least && sink.with_log(|log| probes(&log.arrivals).len() >= 2)
    })
    .await;
    let arrivals = post.sink.with_log(|log| log.arrivals.clone());
    post.sink.be(Manners::Polite);
    let back = now();
    post.told(post.count, Duration::from_mins(1)).await;

    assert_once_each(&post.sink, 0..post.count);
    // Five failures open the breaker; those who were connecting then, eight at the most, know nothing of it yet.
    let probes = probes(&arrivals);
    let first = arrivals.len() - probes.len();
    assert!(first <= 5 + 8, "{first} connections before it was known");
    assert!(probes.len() >= 2, "nobody looked whether it is back");
    for two in probes.windows(2) {
        assert!(two[1] - two[0] >= BREAKER, "{probes:?}");
    }
    let took = (now() - back).as_seconds_f64();
    println!(
        "F7 | {first} connections, then {} probes, all sent {took:.1} s after return",
        probes.len()
    );
}

#[tokio::test]
async fn f8_a_connection_that_is_lost_after_the_final_dot_costs_one_more_message_with_the_same_id() {
    let (count, each) = choose((200, 25), (5_000, 100));
    let retry = [("CHANNELS__EMAIL__RETRY__BACKOFF", "1s")];
    let post = Post::start(count, Manners::HangUpAfterEach(each), &retry).await;
    post.told(count, seconds(60, 300)).await;

    assert_once_each(&post.sink, 0..count);
    let by_id = post.sink.log().by_message_id();
    assert_eq!(by_id.len(), count, "a message came back under another Message-ID");
    let (twice, most) = (
        by_id.values().filter(|times| **times == 2).count(),
        by_id.values().max().copied().unwrap_or_default(),
    );
    assert_eq!((twice, most), (count / each, 2));
    println!("F8 | {count} mails, {twice} cut, each sent once more");
}

#[tokio::test]
async fn f10_what_the_relay_refuses_for_good_is_tried_once_and_failed() {
    let refuse = Manners::RefuseThose {
        part: "gone-",
        reply: "550 5.1.1 no such user",
    };
    let count = choose(200, 1_000);
    // Soon, so that a second attempt would come before all is told.
    let retry = [("CHANNELS__EMAIL__RETRY__BACKOFF", "100ms")];
    let post = Post::start(count, refuse, &retry).await;
    let (gone, here): (Vec<usize>, Vec<usize>) = (0..count).partition(|number| number % 10 == 3);
    post.told(here.len(), seconds(60, 120)).await;
    for number in &gone {
        let what = format!("the end of {}", address(*number));
        let outcome = crate::harness::eventually(&what, async || {
            let page = post.node.get(&format!("/v1/history?owner=o{number}")).await.ok();
            items(&page).first().map(|row| row["outcome"].clone())
        })
        .await;
        assert_eq!(outcome, "failed", "{what}");
    }

    assert_once_each(&post.sink, here.into_iter());
    let refused: BTreeMap<String, usize> = post
        .refused()
        .into_iter()
        .map(|(to, at)| (to, at.len()))
        .collect();
    let expected = gone.iter().map(|number| (address(*number), 1)).collect();
    assert_eq!(refused, expected);
    println!(
        "F10 | {count} mails, {} refused and failed, one attempt each",
        gone.len()
    );
}
