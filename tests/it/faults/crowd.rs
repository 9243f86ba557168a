//! Many at once: reminders of many owners that are due at one instant, and a relay that takes so many a second; or of one
//! owner, who is limited. Nothing is broken; what is measured is whether all leave as fast as the relay takes them, in little
//! memory, and fairly.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use chrono::DateTime;
use chrono::TimeDelta;
use chrono::Utc;
use serde_json::Value;
use serde_json::json;

use crate::faults::push;
use crate::faults::size::choose;
use crate::faults::size::seconds;
use crate::harness::api::OWNER;
use crate::harness::calendar::Calendar;
use crate::harness::node::Home;
use crate::harness::node::Node;
use crate::harness::now;
use crate::harness::sink::Log;
use crate::harness::sink::Mail;
use crate::harness::sink::Manners;
use crate::harness::sink::Sink;
use crate::harness::whole_second_in;

/// Connections of a node to its relay.
const CONNECTIONS: u32 = 8;

/// How many reminders one owner may get, in the test of the flood.
const LIMIT: usize = 20;

/// MiB that the node may use.
const MEMORY: u64 = 512;

/// The most memory that the process has used so far, in MiB.
pub fn peak(node: &Node) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", node.process())).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.expect("Linux tells it") / 1_024
}

/// Waits until the relay took responsibility for so many.
async fn taken(sink: &Sink, count: usize, patience: Duration) {
    let mut pace = tokio::time::interval(Duration::from_millis(50));
    let arriving = async {
        while sink.with_log(|log| log.mails.iter().filter(|mail| mail.accepted).count()) < count {
            pace.tick().await;
        }
    };
    let arrived = tokio::time::timeout(patience, arriving).await;
    assert!(arrived.is_ok(), "waited {patience:?} in vain for {count} mails");
}

fn owner(name: &str) -> (String, Value) {
    let owner = json!({ "email": format!("{name}@example.org"), "time_zone": "UTC", "locale": "en" });
    (name.to_owned(), owner)
}

/// How long each owner waited for each reminder, in order.
fn waits(sink: &Sink, due: DateTime<Utc>) -> BTreeMap<String, Vec<TimeDelta>> {
    let mut waits: BTreeMap<String, Vec<TimeDelta>> = BTreeMap::new();
    sink.with_log(|log| {
        for mail in &log.mails {
            waits
                .entry(mail.recipients[0].clone())
                .or_default()
                .push(mail.at - due);
        }
    });
    for owner in waits.values_mut() {
        owner.sort();
    }
    waits
}

fn mean(of: &[TimeDelta]) -> TimeDelta {
    of.iter().sum::<TimeDelta>() / i32::try_from(of.len()).expect("it is small")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f27_what_is_due_at_one_instant_leaves_as_fast_as_the_relay_takes_it_and_fairly() {
    let (owners, each, pace) = choose((100, 6, 40), (1_000, 20, 20));
    let count = owners * each;
    let pace = Duration::from_millis(pace);
    let sink = Sink::start().await;
    sink.be(Manners::Pace(pace));
    let node = Home::new().with_relay(sink.port).start().await;
    push::owners(&node, (0..owners).map(|number| owner(&format!("o{number}")))).await;
    let due = whole_second_in(choose(6, 90));
    let events = (0..count).map(|number| {
        let key = format!("c{number}@example.org");
        let event = Calendar::far_away(&key).alarm_at(due);
        // Those of an owner follow each other.
        (key, format!("o{}", number / each), event)
    });
    push::events(&node, events).await;
    assert!(
        now() < due,
        "the machine became slow: not all were there when they were due"
    );

    let needed = pace * u32::try_from(count).expect("it is small") / CONNECTIONS;
    let allowed = choose(needed * 3, needed.mul_f64(1.25)) + Duration::from_secs(2);
    let patience = (due - now()).to_std().unwrap_or_default() + allowed + Duration::from_secs(30);
    taken(&sink, count, patience).await;

    assert_eq!(sink.with_log(|log| log.by_message_id().len()), count);
    assert_eq!(sink.with_log(|log| log.mails.len()), count, "each once");
    let waits = waits(&sink, due);
    assert!(
        waits.len() == owners
            && waits
                .values()
                .all(|it| it.len() == each && it[0] >= TimeDelta::zero())
    );
    let latest = waits
        .values()
        .filter_map(|it| it.last())
        .max()
        .expect("there are owners");
    assert!(
        latest.to_std().is_ok_and(|latest| latest <= allowed),
        "{latest} of {allowed:?}"
    );
    let means: Vec<TimeDelta> = waits.values().map(|it| mean(it)).collect();
    let (longest, usual) = (means.iter().max().expect("there are owners"), mean(&means));
    assert!(*longest <= usual * 2, "one owner waits {longest}, all {usual}");
    // Nobody has everything before everybody has something.
    let served = waits.values().filter_map(|it| it.first()).max();
    let done = waits.values().filter_map(|it| it.last()).min();
    assert!(
        served < done,
        "one is done after {done:?}, and another has nothing until {served:?}"
    );
    let peak = peak(&node);
    assert!((5..MEMORY).contains(&peak), "{peak} MiB");
    println!(
        "F27 | {count} reminders of {owners} owners in {:.1} s (the relay needs {:.1}), {peak} MiB at the most, longest mean wait {:.2} of {:.2} s",
        latest.as_seconds_f64(),
        needed.as_secs_f64(),
        longest.as_seconds_f64(),
        usual.as_seconds_f64()
    );
}

/// What an owner's slow mailbox holds up is their own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_mailbox_of_one_owner_delays_nobody_else_whatever_the_relay_seemed_to_be() {
    let (sink, _node) = others_beside(1, 200).await;
    let theirs = sink.with_log(|log| log.given_up.len());
    assert_eq!(theirs, 0, "nothing of theirs was given up so soon");
}

/// Nor do more of them than there are connections, of whom nothing was known.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_mailboxes_of_a_dozen_owners_give_way_to_others() {
    others_beside(12, 5).await;
}

/// Has so many owners with slow mailboxes and so many reminders each, and others who are on time all the same.
async fn others_beside(slow: usize, each: usize) -> (Sink, Node) {
    const SECONDS: usize = 4;
    let sink = Sink::start().await;
    let node = Home::new().with_relay(sink.port).start().await;
    let others = || (0..10).map(|number| format!("o{number}"));
    push::owners(&node, others().map(|name| owner(&name))).await;
    push::owners(&node, (0..slow).map(|number| owner(&format!("slow{number}")))).await;
    let due = whole_second_in(6);
    // The relay is quick at first, and many may be on their way.
    let first = others().map(|name| {
        let key = format!("first-{name}@example.org");
        let event = Calendar::far_away(&key).alarm_at(second_after(due, 0));
        (key, name, event)
    });
    let theirs = (0..slow * each).map(|number| {
        let key = format!("slow-{number}@example.org");
        let event = Calendar::far_away(&key).alarm_at(second_after(due, 1));
        (key, format!("slow{}", number % slow), event)
    });
    let later = (2..SECONDS).flat_map(|second| others().map(move |name| (second, name)));
    let later = later.map(|(second, name)| {
        let key = format!("{second}-{name}@example.org");
        let event = Calendar::far_away(&key).alarm_at(second_after(due, second));
        (key, name, event)
    });
    push::events(&node, first.chain(theirs).chain(later)).await;
    assert!(
        now() < due,
        "the machine became slow: not all were there when they were due"
    );
    sink.be(Manners::SlowTo {
        part: "slow",
        pause: Duration::from_secs(20),
    });

    let of_others = |log: &Log| {
        let is_anothers = |mail: &&Mail| !mail.recipients[0].starts_with("slow");
        log.mails
            .iter()
            .filter(is_anothers)
            .map(|mail| mail.at)
            .collect::<Vec<_>>()
    };
    let count = 10 * (SECONDS - 1);
    let mut pace = tokio::time::interval(Duration::from_millis(50));
    let arriving = async {
        while sink.with_log(|log| of_others(log).len()) < count {
            pace.tick().await;
        }
    };
    let arrived = tokio::time::timeout(Duration::from_secs(30), arriving).await;
    assert!(arrived.is_ok(), "others wait: {:?}", sink.with_log(of_others));

    let last = sink.with_log(of_others).into_iter().max().expect("they arrived");
    let late = last - second_after(due, SECONDS - 1);
    assert!(late < TimeDelta::seconds(3), "{late}");
    (sink, node)
}

/// What one owner has too much of, and others little.
struct Flood {
    /// Reminders of the one owner.
    of_one: usize,
    /// The others.
    others: usize,
    /// Seconds in which all is due.
    seconds: usize,
}

impl Flood {
    /// How many each of the others has: some now and then, and no more than the limit.
    fn each(&self) -> usize {
        self.seconds.min(LIMIT)
    }

    fn names(&self) -> impl Iterator<Item = String> + use<> {
        (0..self.others).map(|number| format!("o{number}"))
    }

    /// Puts everything, due from that instant on.
    async fn put(&self, node: &Node, due: DateTime<Utc>) {
        let (each, seconds) = (self.each(), self.seconds);
        let event = |owner: &str, number: usize, second: usize| {
            let key = format!("{owner}-{number}@example.org");
            let event = Calendar::far_away(&key).named(&format!("Second [{second}]"));
            (key, owner.to_owned(), event.alarm_at(second_after(due, second)))
        };
        let theirs = self
            .names()
            .flat_map(|name| (0..each).map(move |number| (name.clone(), number)))
            .map(|(name, number)| event(&name, number, number * seconds / each));
        let flooding = (0..self.of_one).map(|number| event(OWNER, number, number % seconds));
        push::events(node, flooding.chain(theirs)).await;
        assert!(
            now() < due,
            "the machine became slow: not all were there when they were due"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f28_a_flood_of_one_owner_is_limited_on_record_and_nobody_else_is_late() {
    let (of_one, others, minute) = choose((900, 20, 3), (100_000, 200, 60));
    let flood = Flood {
        of_one,
        others,
        seconds: minute,
    };
    let sink = Sink::start().await;
    let node = Home::new()
        .with_relay(sink.port)
        .with("CHANNELS__EMAIL__LIMIT__AMOUNT", &LIMIT.to_string())
        .with("CHANNELS__EMAIL__LIMIT__TIMEFRAME", "1h")
        .with("CHANNELS__EMAIL__ON_LIMIT", "drop")
        .start()
        .await;
    let people = flood.names().chain([OWNER.to_owned()]);
    push::owners(&node, people.map(|name| owner(&name))).await;
    let due = whole_second_in(choose(7, 150));
    flood.put(&node, due).await;

    let count = others * flood.each() + LIMIT;
    let patience = (due - now()).to_std().unwrap_or_default() + seconds(30, 180);
    taken(&sink, count, patience).await;
    let mut pace = tokio::time::interval(Duration::from_millis(200));
    let recording = async {
        let mut history = Vec::new();
        while history.len() < of_one {
            pace.tick().await;
            history = node.whole_history().await;
        }
        history
    };
    let history = tokio::time::timeout(patience, recording).await;
    let history = history.expect("all that was due is on record in time");

    let limited = history.iter().filter(|row| row["reason"] == "rate limit").count();
    assert_eq!((history.len(), limited), (of_one, of_one - LIMIT));
    assert_eq!(sink.with_log(|log| log.mails.len()), count, "each once");
    let lateness = sink.with_log(|log| lateness_of_others(log, due));
    assert_eq!(
        lateness.len(),
        others * flood.each(),
        "the flood within its limit"
    );
    let p99 = lateness[(lateness.len() * 99).div_ceil(100) - 1];
    assert!(lateness[0] >= TimeDelta::zero(), "early: {}", lateness[0]);
    assert!(
        p99 <= TimeDelta::seconds(choose(3, 1)),
        "p99 of the others is {p99}"
    );
    println!(
        "F28 | {of_one} of one owner, {limited} of them limited on record; p99 of {} others {:.2} s",
        lateness.len(),
        p99.as_seconds_f64()
    );
}

/// How late the mails to the others came, sorted.
fn lateness_of_others(log: &Log, due: DateTime<Utc>) -> Vec<TimeDelta> {
    let theirs = log
        .mails
        .iter()
        .filter(|mail| !mail.recipients[0].starts_with(OWNER));
    let mut lateness: Vec<TimeDelta> = theirs.map(|mail| mail.at - promised(mail, due)).collect();
    lateness.sort();
    lateness
}

fn second_after(due: DateTime<Utc>, second: usize) -> DateTime<Utc> {
    due + TimeDelta::seconds(i64::try_from(second).expect("it is small"))
}

/// When it was due, by the second in its event's name.
fn promised(mail: &Mail, due: DateTime<Utc>) -> DateTime<Utc> {
    let subject = mail.header("Subject");
    let second = subject.split(['[', ']']).nth(1).and_then(|it| it.parse().ok());
    second_after(due, second.unwrap_or_else(|| panic!("a strange mail: {subject}")))
}
