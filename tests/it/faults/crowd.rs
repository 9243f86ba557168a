//! Everybody at once: reminders of many owners that are due at one instant, and a relay that takes so many a second. Nothing
//! is broken; what is measured is whether all leave as fast as the relay takes them, in little memory, and fairly.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use chrono::DateTime;
use chrono::TimeDelta;
use chrono::Utc;
use serde_json::json;

use crate::faults::push;
use crate::faults::size::choose;
use crate::harness::calendar::Calendar;
use crate::harness::node::Home;
use crate::harness::node::Node;
use crate::harness::now;
use crate::harness::sink::Manners;
use crate::harness::sink::Sink;
use crate::harness::whole_second_in;

/// Connections of a node to its relay.
const CONNECTIONS: u32 = 8;

/// MiB that the node may use.
const MEMORY: u64 = 512;

/// The most memory that the process has used so far, in MiB.
fn peak(node: &Node) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", node.process())).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.expect("Linux tells it") / 1_024
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
    let due = whole_second_in(choose(8, 120));
    let people = (0..owners).map(|number| {
        let owner = json!({ "email": format!("o{number}@example.org"), "time_zone": "UTC", "locale": "en" });
        (format!("o{number}"), owner)
    });
    push::owners(&node, people).await;
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

    let least = pace * u32::try_from(count).expect("it is small") / CONNECTIONS;
    let allowed = choose(least * 3, least.mul_f64(1.25)) + Duration::from_secs(2);
    let patience = (due - now()).to_std().unwrap_or_default() + allowed + Duration::from_secs(30);
    let mut look = tokio::time::interval(Duration::from_millis(50));
    let arriving = async {
        while sink.with_log(|log| log.mails.iter().filter(|mail| mail.accepted).count()) < count {
            look.tick().await;
        }
    };
    let arrived = tokio::time::timeout(patience, arriving).await;
    assert!(arrived.is_ok(), "waited {patience:?} in vain for {count} mails");

    assert_eq!(sink.with_log(|log| log.by_message_id().len()), count);
    assert_eq!(sink.with_log(|log| log.mails.len()), count, "each once");
    let waits = waits(&sink, due);
    assert!(
        waits.len() == owners
            && waits
                .values()
                .all(|it| it.len() == each && it[0] >= TimeDelta::zero())
    );
    let last = waits
        .values()
        .filter_map(|it| it.last())
        .max()
        .expect("there are owners");
    assert!(
        last.to_std().is_ok_and(|last| last <= allowed),
        "{last} of {allowed:?}"
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
        last.as_seconds_f64(),
        least.as_secs_f64(),
        longest.as_seconds_f64(),
        usual.as_seconds_f64()
    );
}
