//! Processes that die, stand still, or are asked to stop.

use std::collections::HashSet;
use std::time::Duration;

use carillon::clock::Clock;
use carillon::clock::SystemClock;
use chrono::DateTime;
use chrono::TimeDelta;
use chrono::Utc;

use crate::faults::field::Field;
use crate::faults::field::busy_moment;
use crate::faults::field::load_is_on;
use crate::faults::field::name;
use crate::faults::field::pause;
use crate::faults::field::since;
use crate::faults::leaders::Leaders;
use crate::faults::size::Size;
use crate::faults::size::choose;
use crate::faults::size::seconds;
use crate::faults::verdict::Arrival;
use crate::faults::verdict::Verdict;
use crate::harness::now;

/// How long a killed node stays away.
pub const AWAY: Duration = Duration::from_secs(3);

/// A node, by the clock.
pub fn any_node() -> usize {
    usize::try_from(now().timestamp_subsec_micros()).expect("it is small") % 3
}

#[tokio::test(flavor = "multi_thread")]
async fn f1_nothing_fails() {
    let mut field = Field::start(&[]).await;
    let load = field.load(Size::of(20, 300));
    let verdict = field.judge(load).await;
    println!("F1 | {verdict}");
    verdict.assert_exact();
    assert!(
        verdict.percentile(50) <= TimeDelta::milliseconds(choose(2_000, 200)),
        "{verdict}"
    );
    verdict.assert_late(
        TimeDelta::seconds(choose(5, 1)),
        TimeDelta::seconds(choose(15, 5)),
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn f2_nodes_are_killed() {
    let mut field = Field::start(&[]).await;
    let load = field.load(Size::of(22, 300));
    load_is_on().await;
    let mut kills = 0;
    while now() < load.ends {
        field.kill(any_node(), AWAY).await;
        kills += 1;
        pause(Duration::from_secs(10).saturating_sub(AWAY)).await;
    }
    let verdict = field.judge(load).await;
    println!("F2 | {kills} kills | {verdict}");
    assert!(kills >= 2, "{kills} kills");
    assert_killed(&verdict);
}

/// The table's limits where nodes are killed. In the short form every kill is aimed at a burst, and 0.5 % is asked of the
/// long one.
fn assert_killed(verdict: &Verdict) {
    verdict.assert_exact();
    let most = choose(verdict.in_flight, verdict.promised / 200);
    assert!(verdict.excused <= most, "more than {most} excused: {verdict}");
    verdict.assert_late(TimeDelta::seconds(20), TimeDelta::seconds(45));
}

#[tokio::test(flavor = "multi_thread")]
async fn f3_the_leader_is_killed() {
    let mut field = Field::start(&[]).await;
    let load = field.load(Size::of(18, 300));
    let leaders = Leaders::watch(&field);
    load_is_on().await;
    let mut gaps = Vec::new();
    while now() < load.ends {
        let leader = field.leader().await;
        busy_moment().await;
        let began = SystemClock.elapsed();
        field.nodes[leader].kill();
        field.hit(leader).await;
        field.witness.leader_other_than(field.numbers[leader]).await;
        let gap = since(began);
        gaps.push(gap);
        pause(AWAY.saturating_sub(gap)).await;
        field.nodes[leader].launch_again();
        pause(Duration::from_secs(20).saturating_sub(AWAY)).await;
    }
    let verdict = field.judge(load).await;
    let terms = leaders.assert_one_a_term();
    let longest = gaps.iter().max().expect("the leader was killed");
    println!(
        "F3 | {} kills, {terms} terms, next leader <= {longest:.1?} | {verdict}",
        gaps.len()
    );
    assert!(*longest <= seconds(20, 4), "{gaps:?}");
    assert_killed(&verdict);
}

/// One node stood still.
struct Freeze {
    name: String,
    began: DateTime<Utc>,
    ended: DateTime<Utc>,
}

impl Freeze {
    /// Whether the later message was begun after it, by the node that stood still, although another had sent the earlier
    /// one meanwhile.
    fn explains(&self, earlier: &Arrival, later: &Arrival) -> bool {
        later.from == self.name
            && later.began >= self.ended
            && earlier.from != self.name
            && (self.began..self.ended).contains(&earlier.at)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn f17_a_node_stands_still() {
    // Sends are given up, and taken over, while it does.
    let within = choose("4s", "15s");
    let settings = [
        ("DELIVERY__SEND_WITHIN", within),
        ("WORKER__OVERDUE_WAIT_TIME", choose("8s", "30s")),
    ];
    let mut field = Field::start(&settings).await;
    let load = field.load(Size::of(28, 440));
    load_is_on().await;
    let mut freezes = Vec::new();
    while now() < load.ends {
        let node = match freezes.len() % 2 {
            0 => field.leader().await,
            _ => any_node(),
        };
        let began = now();
        field.freeze(node, seconds(12, 40)).await;
        let (name, ended) = (name(node), now());
        freezes.push(Freeze { name, began, ended });
        pause(Duration::from_secs(3)).await;
    }
    let verdict = field.judge(load).await;
    let started = started_after_takeover(&field.arrivals(), &freezes);
    println!(
        "F17 | {} times, {started} started on a lost claim | {verdict}",
        freezes.len()
    );
    verdict.assert_exact();
    assert_eq!(started, 0, "sends started on a claim that was taken over");
    assert!(freezes.len() >= 2, "{} times", freezes.len());
}

/// Triggers that a node sent once more when it went on, after another had sent them.
fn started_after_takeover(arrivals: &[Arrival], freezes: &[Freeze]) -> usize {
    let twice = |later: &&Arrival| {
        arrivals.iter().any(|earlier| {
            earlier.trigger == later.trigger && freezes.iter().any(|freeze| freeze.explains(earlier, later))
        })
    };
    let started = arrivals.iter().filter(twice).map(|later| &later.trigger);
    started.collect::<HashSet<_>>().len()
}

#[tokio::test(flavor = "multi_thread")]
async fn f25_nodes_are_asked_to_stop_in_turn() {
    let mut field = Field::start(&[]).await;
    let load = field.load(Size::of(22, 130));
    load_is_on().await;
    let mut longest = Duration::ZERO;
    for node in 0..field.nodes.len() {
        busy_moment().await;
        let began = SystemClock.elapsed();
        let status = field.nodes[node].terminate().await;
        longest = longest.max(since(began));
        assert!(status.success(), "{status}");
        field.nodes[node].start_again().await;
        pause(seconds(3, 30)).await;
    }
    let verdict = field.judge(load).await;
    println!("F25 | each stopped within {longest:.1?} | {verdict}");
    verdict.assert_exact();
    assert_eq!(verdict.excused, 0, "{verdict}");
    assert!(longest <= Duration::from_secs(30), "{longest:?}");
    verdict.assert_late(TimeDelta::seconds(choose(10, 2)), TimeDelta::seconds(45));
}
