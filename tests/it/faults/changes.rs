//! Events that are changed again and again around the instants at which they are due, while nodes are killed. The oracle
//! ([`edits`]) compares the versions that the API accepted with the history, with what is planned, and with the relay's log.

mod edits;

use std::sync::Arc;
use std::time::Duration;

use carillon::clock::Clock;
use carillon::clock::SystemClock;
use chrono::DateTime;
use chrono::TimeDelta;
use chrono::Utc;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::faults::changes::edits::Edit;
use crate::faults::changes::edits::Findings;
use crate::faults::field::Field;
use crate::faults::field::pause;
use crate::faults::load::Door;
use crate::faults::load::OWNERS;
use crate::faults::processes::AWAY;
use crate::faults::processes::any_node;
use crate::faults::size::choose;
use crate::harness::api::SOURCE;
use crate::harness::calendar::Calendar;
use crate::harness::now;
use crate::harness::whole_second_in;

/// Requests at once.
const AT_ONCE: usize = 64;

/// Chooses when the next version of an event is due, and how long it stays.
type Moves = fn(&mut Dice) -> (DateTime<Utc>, Duration);

/// Chance that is the same in each run.
struct Dice(u64);

impl Dice {
    /// A number below `sides`.
    fn roll(&mut self, sides: u64) -> u64 {
        // Knuth's MMIX constants; the high bits are the random ones.
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    /// A number of seconds from `from` on, below `to`.
    fn seconds(&mut self, from: i64, to: i64) -> TimeDelta {
        let sides = u64::try_from(to - from).expect("the range is not empty");
        TimeDelta::seconds(from + i64::try_from(self.roll(sides)).expect("it is small"))
    }

    fn millis(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(from + self.roll(to - from))
    }
}

/// The second that has begun: iCalendar knows no fractions.
fn this_second() -> DateTime<Utc> {
    whole_second_in(-1)
}

async fn put(door: &Door, event: usize, version: usize, due: DateTime<Utc>) -> Edit {
    let owner = event % OWNERS;
    let path = format!("/v1/sources/{SOURCE}/events/moved-{event}?owner=o{owner}&version={version}");
    let calendar = Calendar::starting(&edits::uid(event), due).alarm("TRIGGER:PT0S");
    let asked = now();
    let answered = door.put(event + version, &path, &calendar.text()).await;
    Edit {
        event,
        version,
        due,
        asked,
        answered,
    }
}

/// Moves this number of events, one version after the other, until `ends`.
async fn move_events(field: &mut Field, count: usize, moves: Moves, ends: DateTime<Utc>) -> Vec<Edit> {
    let door = Arc::new(Door::to(&field.ports()));
    let mut tasks = JoinSet::new();
    for event in 0..count {
        let door = Arc::clone(&door);
        tasks.spawn(async move {
            let mut dice = Dice(event as u64);
            let mut edits = Vec::new();
            while now() < ends {
                let (due, stays) = moves(&mut dice);
                edits.push(put(&door, event, edits.len() + 1, due).await);
                pause(stays).await;
            }
            edits
        });
    }
    kill_until(field, ends).await;
    tasks.join_all().await.concat()
}

/// Kills a node every ten seconds.
async fn kill_until(field: &mut Field, ends: DateTime<Utc>) {
    pause(Duration::from_secs(5)).await;
    while now() + TimeDelta::seconds(4) < ends {
        field.kill(any_node(), AWAY).await;
        pause(Duration::from_secs(10).saturating_sub(AWAY)).await;
    }
}

/// What must hold wherever events are moved and nodes are killed.
async fn judge(field: &mut Field, number: &str, edits: &[Edit]) -> Findings {
    field.due_is_gone().await;
    let findings = Findings::of(field, edits).await;
    println!("{number} | {findings}");
    findings.verdict.assert_exact();
    assert_eq!(
        findings.untold,
        Vec::<String>::new(),
        "due, and neither sent nor recorded"
    );
    assert_eq!(
        findings.superseded,
        Vec::<String>::new(),
        "sent though superseded a second before"
    );
    findings
        .verdict
        .assert_late(TimeDelta::seconds(20), TimeDelta::seconds(45));
    findings
}

#[tokio::test(flavor = "multi_thread")]
async fn f35_events_are_moved_around_their_due_instants() {
    let mut field = Field::start(&[]).await;
    let ends = now() + TimeDelta::seconds(choose(15, 300));
    let moves: Moves = |dice| (this_second() + dice.seconds(-2, 3), dice.millis(100, 1_900));
    let edits = move_events(&mut field, choose(30, 100), moves, ends).await;
    judge(&mut field, "F35", &edits).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn f23_events_are_moved_in_and_out_of_the_look_ahead() {
    let mut field = Field::start(&[]).await;
    let ends = now() + TimeDelta::seconds(choose(12, 120));
    // The nodes look five seconds ahead, every two seconds.
    let moves: Moves = |dice| {
        let ahead = match dice.roll(4) {
            0 => dice.seconds(-2, 3),
            1 => dice.seconds(2, 7),
            2 => dice.seconds(4, 9),
            _ => dice.seconds(8, 14),
        };
        (this_second() + ahead, dice.millis(100, 2_300))
    };
    let edits = move_events(&mut field, choose(36, 100), moves, ends).await;
    assert!(edits.len() >= choose(100, 9_000), "{} moves", edits.len());
    judge(&mut field, "F23", &edits).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn f22_changes_come_twice_and_in_any_order() {
    let (events, rate, length) = choose((300, 40, 12), (5_000, 200, 300));
    let mut field = Field::start(&[]).await;
    let door = Arc::new(Door::to(&field.ports()));
    let begins = whole_second_in(1);
    let mut dice = Dice(22);
    let mut copies = Vec::new();
    let mut versions = vec![0; events];
    for number in 0..rate * length {
        let into = i64::from(number * 1_000 / rate);
        let at = begins + TimeDelta::milliseconds(into);
        let event = usize::try_from(dice.roll(events as u64)).expect("it is small");
        versions[event] += 1;
        let due = match dice.roll(2) {
            0 => whole(at) + dice.seconds(2, 12),
            _ => whole(begins) + TimeDelta::hours(1) + dice.seconds(0, 3_600),
        };
        for _ in 0..2 {
            let late = TimeDelta::milliseconds(i64::try_from(dice.roll(5_000)).expect("it is small"));
            copies.push((at + late, event, versions[event], due));
        }
    }
    copies.sort();
    let ends = copies.last().expect("there are changes").0;
    let sending = tokio::spawn(send_all(door, copies));
    kill_until(&mut field, ends).await;
    let edits = sending.await.expect("no change is refused");

    let findings = judge(&mut field, "F22", &edits).await;
    assert_eq!(
        findings.misplanned,
        Vec::<String>::new(),
        "planned for another instant than the last version's"
    );
}

fn whole(instant: DateTime<Utc>) -> DateTime<Utc> {
    DateTime::from_timestamp(instant.timestamp(), 0).expect("the present is in range")
}

/// Sends copies of versions, each at its instant: (when, event, version, due).
async fn send_all(door: Arc<Door>, copies: Vec<(DateTime<Utc>, usize, usize, DateTime<Utc>)>) -> Vec<Edit> {
    let at_once = Arc::new(Semaphore::new(AT_ONCE));
    let mut puts = JoinSet::new();
    for (at, event, version, due) in copies {
        SystemClock.sleep((at - now()).to_std().unwrap_or_default()).await;
        let permit = Arc::clone(&at_once).acquire_owned().await;
        let permit = permit.expect("nobody closes it");
        let door = Arc::clone(&door);
        puts.spawn(async move {
            let edit = put(&door, event, version, due).await;
            drop(permit);
            edit
        });
    }
    puts.join_all().await
}
