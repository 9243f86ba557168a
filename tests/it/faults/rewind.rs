//! A database that goes back in time: a standby that missed the last seconds, an older backup, and a SQLite file that is not
//! what it was.

use std::fs;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use carillon::clock::Clock;
use carillon::clock::SystemClock;
use chrono::DateTime;
use chrono::TimeDelta;
use chrono::Utc;

use crate::faults::field::pause;
use crate::faults::field::since;
use crate::faults::size::choose;
use crate::harness::calendar::Calendar;
use crate::harness::client::client;
use crate::harness::eventually;
use crate::harness::node::Home;
use crate::harness::node::Node;
use crate::harness::now;
use crate::harness::postgres::Postgres;
use crate::harness::sink::Sink;
use crate::harness::whole_second_in;

/// How soon a rewind or a lost file must be noticed.
const NOTICED: Duration = Duration::from_secs(5);

/// Two nodes on a PostgreSQL, with a relay.
struct Pair {
    nodes: Vec<Node>,
    database: String,
    sink: Sink,
    on_rewind: &'static str,
    postgres: Postgres,
}

impl Pair {
    async fn start(on_rewind: &'static str) -> Self {
        let postgres = Postgres::start_listening().await;
        let mut pair = Self {
            nodes: Vec::new(),
            database: postgres.database().await,
            sink: Sink::start().await,
            on_rewind,
            postgres,
        };
        pair.join().await;
        pair.nodes[0].put_owner().await;
        pair
    }

    /// One more node.
    async fn join(&mut self) {
        let node = Home::new()
            .in_cluster(&self.database)
            .with_relay(self.sink.port)
            .with("NODE__ID", &format!("n{}", self.nodes.len()))
            .with("STORE__ON_REWIND", self.on_rewind)
            .with("WORKER__PERIOD", "2s")
            .with("WORKER__LOOK_AHEAD", "5s");
        self.nodes.push(node.start().await);
    }

    /// Events that come every day, through both nodes, each with one alarm at that instant.
    async fn push(&self, names: &str, count: usize, due: DateTime<Utc>) {
        for number in 0..count {
            let key = format!("{names}{number}");
            let event = Calendar::starting(&key, due).with("RRULE:FREQ=DAILY");
            let node = &self.nodes[number % self.nodes.len()];
            node.put_event(&key, &event.named(&key).alarm("TRIGGER:PT0S"))
                .await
                .ok();
        }
    }

    /// Waits until the relay has this many mails in all.
    async fn sent(&self, count: usize) {
        eventually(&format!("{count} mails"), async || {
            (self.sink.log().mails.len() >= count).then_some(())
        })
        .await;
    }

    /// Waits until every node says that it is not ready since the database went back in time, and names the later epoch.
    async fn noticed(&self, number: i64) {
        for node in &self.nodes {
            eventually("the rewind to be noticed", async || {
                let ready = node.get("/readyz").await;
                let reason = ready.body.as_str().unwrap_or_default();
                (ready.status == 503 && reason.contains("went back in time")).then_some(())
            })
            .await;
            let epoch = node.get("/v1/epoch").await.ok();
            let name = epoch["epoch"].as_str().expect("it has a name");
            assert!(name.starts_with(&format!("{number}-")), "{epoch}");
            assert!(epoch["push_from"].is_string(), "{epoch}");
            let answer = client().get(node.url("/livez")).send().await.expect("it answers");
            assert_eq!(answer.headers()["carillon-epoch"], name);
            assert!(node.home.output().contains("the database went back in time"));
        }
    }

    /// Nothing was sent twice, and every node still runs.
    fn assert_well(&mut self) {
        let twice: Vec<_> = self.sink.log().by_message_id().into_iter().collect();
        let twice: Vec<_> = twice.iter().filter(|(_, count)| *count > 1).collect();
        assert!(twice.is_empty(), "sent twice: {twice:?}");
        for node in &mut self.nodes {
            assert!(node.runs(), "a node ended");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn f32_postgres_fails_over_to_a_standby_that_missed_five_seconds() {
    let count = choose(20, 1_000);
    let mut pair = Pair::start("go_on").await;
    pair.join().await;
    let due = whole_second_in(choose(9, 60));
    let later = due + TimeDelta::seconds(choose(15, 60));
    pair.push("early", count, due).await;
    pair.push("later", count, later).await;
    pair.postgres.copy("standby", true);
    let copied = now();
    assert!(copied < due, "the machine became slow: the copy was late");
    pair.sent(count).await;
    pair.push("lost", 1, due + TimeDelta::hours(1)).await;
    while now() < copied + TimeDelta::seconds(5) {
        pause(Duration::from_millis(50)).await;
    }

    pair.postgres.fail_over("standby").await;

    let failed_over = SystemClock.elapsed();
    pair.noticed(2).await;
    let noticed = since(failed_over);
    for node in &mut pair.nodes {
        node.ready().await;
    }
    let lost = pair.nodes[0]
        .get("/v1/sources/tests/events/lost0/triggers?owner=anna")
        .await;
    assert_eq!(lost.status, 404, "it was lost");
    pair.push("lost", 1, due + TimeDelta::hours(1)).await;
    pair.sent(2 * count).await;
    // What was sent before goes on with its series, once its owner is planned again: within a minute.
    let planned_by = SystemClock.elapsed() + Duration::from_secs(75);
    while pair.nodes[0].triggers("early1").await.is_empty() && SystemClock.elapsed() < planned_by {
        pause(Duration::from_millis(200)).await;
    }
    for name in ["early0", "early1", "later0"] {
        let next = pair.nodes[0].trigger_in_state(name, "planned").await;
        assert!(next["trigger_at"].as_str() > Some(&due.to_rfc3339()), "{next}");
    }
    pair.assert_well();
    println!(
        "F32 | failover that lost 5 s, {count} reminders sent meanwhile, 0 sent again, noticed after {noticed:.1?}"
    );
    assert!(noticed < NOTICED, "{noticed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn f32_an_older_backup_is_restored_and_held_until_an_operator_lets_it_go_on() {
    let mut pair = Pair::start("hold").await;
    let due = whole_second_in(14);
    pair.push("early", 10, due).await;
    pair.postgres.copy("backup", false);
    // Its session is in no backup.
    pair.join().await;
    pair.push("unknown", 4, due).await;
    assert!(
        now() < due,
        "the machine became slow: not all were there when they were due"
    );
    pair.sent(14).await;
    pair.postgres.fail_over("backup").await;
    let restored = SystemClock.elapsed();
    pair.noticed(2).await;
    let noticed = since(restored);

    // Pushed again, as a back end does that sees another epoch: they were sent, and this is known again.
    pair.push("unknown", 4, due).await;
    let late = whole_second_in(1);
    pair.push("late", 2, late).await;
    while now() < late + TimeDelta::seconds(7) {
        pause(Duration::from_millis(100)).await;
    }
    assert_eq!(
        pair.sink.log().mails.len(),
        14,
        "nothing is fired while it is held"
    );

    let output = pair.nodes[0].home.command(&["after-restore", "--yes"]).output();
    let output = output.expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{output:?}");
    assert!(said.contains("may be sent again"), "{said}");
    for node in &mut pair.nodes {
        node.ready().await;
    }
    pair.sent(16).await;
    pair.assert_well();
    println!("F32 | older backup, held: 14 reminders sent before, 0 sent again, noticed after {noticed:.1?}");
    assert!(noticed < NOTICED, "{noticed:?}");
}

/// Waits for the end of a node that must fail, and says after how long, and why.
async fn failed(node: &mut Node) -> (Duration, String) {
    let began = SystemClock.elapsed();
    let before = node.home.output().len();
    assert!(!node.ended().await.success(), "it must fail");
    (since(began), node.home.output().split_off(before))
}

#[tokio::test(flavor = "multi_thread")]
async fn f32_a_sqlite_file_is_restored_unlinked_emptied_and_damaged() {
    let sink = Sink::start().await;
    let mut node = Home::new().with_relay(sink.port).start_with_owner().await;
    let file = node.home.database();
    let backup = node.home.folder().join("backup.db");
    let event = |key: &str| Calendar::far_away(key).alarm_at(now() + TimeDelta::hours(1));
    node.terminate().await;
    fs::copy(&file, &backup).expect("the file is whole");

    // An older backup.
    node.start_again().await;
    node.put_event("lost", &event("lost")).await.ok();
    node.terminate().await;
    fs::copy(&backup, &file).expect("it is restored");
    node.start_again().await;
    let epoch = node.get("/v1/epoch").await.ok();
    assert!(
        epoch["epoch"].as_str().expect("a name").starts_with("2-"),
        "{epoch}"
    );

    // Unlinked: nothing is taken any more.
    let mut slowest = Duration::ZERO;
    fs::remove_file(&file).expect("it is there");
    let refused = node.put_event("unseen", &event("unseen")).await;
    assert!(!refused.status.is_success(), "it was taken into nothing");
    let (took, why) = failed(&mut node).await;
    slowest = slowest.max(took);
    assert!(why.contains("is gone"), "{why}");
    node.launch_again();
    let (_, why) = failed(&mut node).await;
    assert!(why.contains("delete the mark to begin anew"), "{why}");

    // Emptied.
    fs::copy(&backup, &file).expect("it is restored");
    node.start_again().await;
    let opened = OpenOptions::new().write(true).open(&file);
    opened.and_then(|it| it.set_len(0)).expect("it is emptied");
    let (took, why) = failed(&mut node).await;
    slowest = slowest.max(took);
    assert!(why.contains("was cut"), "{why}");

    // Zeroed pages.
    remove_logs(&node);
    fs::copy(&backup, &file).expect("it is restored");
    node.start_again().await;
    let length = fs::metadata(&file).expect("it is there").len();
    let zeros = vec![0; usize::try_from(length).expect("it is small") - 4096];
    let opened = OpenOptions::new().write(true).open(&file).expect("it opens");
    opened.write_all_at(&zeros, 4096).expect("it is written");
    let took = SystemClock.elapsed();
    for path in ["/v1/outbox", "/v1/alarms/failed"] {
        // What is read there is damaged, and the node may be gone by now.
        let _ = client().get(node.url(path)).send().await;
    }
    let (_, why) = failed(&mut node).await;
    slowest = slowest.max(since(took));
    assert!(why.contains("is damaged"), "{why}");
    node.launch_again();
    let (_, why) = failed(&mut node).await;
    assert!(why.contains("restore it from a backup"), "{why}");

    println!(
        "F32 | SQLite file restored, unlinked, emptied, zeroed: ended with the reason after {slowest:.1?} at the latest"
    );
    assert!(slowest < NOTICED, "{slowest:?}");
}

/// The logs of a file that is replaced must go with it.
fn remove_logs(node: &Node) {
    for end in ["-wal", "-shm"] {
        let mut name = node.home.database().into_os_string();
        name.push(end);
        // A process that ended well has removed them.
        let _ = fs::remove_file(name);
    }
}
