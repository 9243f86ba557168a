//! Opening, closing, migrating; sessions; what is remembered.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use carillon::clock::Clock;
use carillon::clock::ManualClock;
use carillon::store::Report;
use carillon::store::Settled;
use carillon::store::Store;
use carillon::store::StoreError;
use carillon::store::sqlite::Options;
use carillon::store::sqlite::SqliteStore;
use carillon::store::sqlite::known_schema_version;
use carillon::store::sqlite::schema_version;
use carillon::trigger::ChannelKind;
use carillon::trigger::OwnerId;
use carillon::trigger::State;
use sqlx::Connection;
use sqlx::Executor;
use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteConnectOptions;

use crate::harness::eventually;
use crate::store::Base;
use crate::store::Stage;
use crate::store::minute;
use crate::store::new;
use crate::store::owner;
use crate::store::rules;
use crate::store::sent;
use crate::store::sms;

contract! {
    an_owner_whose_zone_changed_is_to_be_planned_until_the_last_demand_is_met,
    an_owner_who_wants_something_else_is_to_be_planned,
    an_owner_comes_back_as_it_was_put_and_keeps_what_is_its_own,
    an_owner_that_is_there_is_not_added,
    a_node_that_starts_again_takes_over_at_once_what_it_held,
    another_node_takes_over_nothing,
    a_session_that_ends_gives_back_what_it_claimed_but_not_what_it_sends,
    a_session_that_gives_back_is_not_offered_for_more_and_settles_what_it_sends,
    the_store_judges_by_its_own_clock,
}

async fn open(path: &Path, clock: &Arc<ManualClock>) -> Result<SqliteStore, StoreError> {
    let clock = Arc::clone(clock) as Arc<dyn Clock>;
    SqliteStore::open(path, clock, Options::default()).await
}

#[tokio::test]
async fn a_second_process_is_refused_with_the_cure() {
    let stage = Stage::new().await;

    let refused = open(stage.path(), &stage.clock)
        .await
        .expect_err("the store is in use");

    let StoreError::InUse(message) = refused else {
        panic!("{refused:?}")
    };
    assert!(message.contains("carillon.db"), "{message}");
    assert!(message.contains("stop that one first"), "{message}");
}

#[tokio::test]
async fn a_lock_file_left_by_a_dead_process_is_no_obstacle() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("carillon.db");
    std::fs::write(folder.path().join("carillon.db.lock"), "4194304").expect("the file is written");
    let clock = Arc::new(ManualClock::at(minute(0)));

    let opened = SqliteStore::open(&path, clock, Options::default()).await;

    assert!(opened.is_ok(), "{opened:?}");
}

#[tokio::test]
async fn what_was_committed_is_there_after_a_restart() {
    let stage = Stage::new().await;
    stage.plan("e", &[new("e", 10)]).await;
    stage
        .store
        .remember("zone data", "2026f")
        .await
        .expect("it is remembered");

    let remains = stage.crash();
    let reopened = open(&remains.path(), &remains.clock)
        .await
        .expect("the lock went with its holder");

    let group = reopened
        .group(&OwnerId("ada".into()), "e")
        .await
        .expect("it can be read");
    assert_eq!(group.expect("it is there").triggers.len(), 1);
    let remembered = reopened.remembered("zone data").await.expect("it can be read");
    assert_eq!(remembered.as_deref(), Some("2026f"));
}

#[tokio::test]
async fn the_schema_version_can_be_read_while_the_store_is_in_use() {
    let stage = Stage::new().await;

    let version = schema_version(stage.path()).await.expect("it can be read");

    assert_eq!(version, Some(known_schema_version()));
    let absent = schema_version(&stage.path().with_extension("absent")).await;
    assert_eq!(absent.expect("nothing is no failure"), None);
}

#[tokio::test]
async fn a_newer_schema_is_refused_and_left_alone() {
    let stage = Stage::new().await;
    stage
        .damage("INSERT INTO _sqlx_migrations VALUES (99, 'from tomorrow', 0, true, x'00', 0)")
        .await;
    let remains = stage.crash();

    let refused = open(&remains.path(), &remains.clock)
        .await
        .expect_err("the schema is newer");

    assert!(
        matches!(refused, StoreError::NewerSchema { found: 99, .. }),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_crash_in_the_middle_of_a_migration_is_recovered() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("carillon.db");
    let options = SqliteConnectOptions::new()
        .filename(&path)
        .create_if_missing(true);
    let mut dying = SqliteConnection::connect_with(&options)
        .await
        .expect("the file opens");
    dying
        .execute("BEGIN; CREATE TABLE owner (id TEXT); CREATE TABLE event (id TEXT);")
        .await
        .expect("half a migration");
    dying.close_hard().await.expect("it dies");
    // Its thread lets go of the file a moment later.
    eventually("the lock of the dead to go", async || {
        let mut heir = SqliteConnection::connect_with(&options).await.ok()?;
        heir.execute("BEGIN EXCLUSIVE; ROLLBACK").await.ok()
    })
    .await;
    let clock = Arc::new(ManualClock::at(minute(0)));

    let store = SqliteStore::open(&path, clock, Options::default())
        .await
        .expect("it opens");

    store.put_owner(&owner("ada")).await.expect("the schema is whole");
}

async fn an_owner_whose_zone_changed_is_to_be_planned_until_the_last_demand_is_met(base: &Base) {
    let stage = Stage::on(base).await;
    let ada = OwnerId("ada".into());
    let mut changed = owner("ada");
    changed.muted = vec![ChannelKind::Sms];
    let unmoved = stage.store.put_owner(&changed).await.expect("it is stored");
    assert_eq!(unmoved.to_plan, None, "what events mean is the same");
    let mut marks = Vec::new();
    for zone in ["Asia/Tokyo", "Europe/Paris"] {
        changed.time_zone = zone.into();
        let replaced = stage.store.put_owner(&changed).await.expect("it is stored");
        marks.push(replaced.to_plan.expect("it is to be planned"));
    }
    let to_plan = async || stage.store.owners_to_plan(10).await.expect("a list");
    assert_eq!(to_plan().await, [(ada.clone(), marks[1])]);

    stage
        .store
        .owner_planned(&ada, marks[0])
        .await
        .expect("it is noted");
    assert_eq!(
        to_plan().await,
        [(ada.clone(), marks[1])],
        "the later demand stays"
    );

    stage
        .store
        .owner_planned(&ada, marks[1])
        .await
        .expect("it is noted");
    assert_eq!(to_plan().await, []);
}

async fn an_owner_who_wants_something_else_is_to_be_planned(base: &Base) {
    let stage = Stage::on(base).await;
    let mut changed = owner("ada");
    changed.preferences.verified.clear();

    let replaced = stage.store.put_owner(&changed).await.expect("it is stored");

    assert!(replaced.to_plan.is_some());
    let read = stage.store.owner(&changed.id).await.expect("it is read");
    assert_eq!(read, Some(changed));
}

async fn an_owner_comes_back_as_it_was_put_and_keeps_what_is_its_own(base: &Base) {
    let stage = Stage::on(base).await;
    stage.plan("e", &[new("e", 10)]).await;
    let mut changed = owner("ada");
    changed.email = None;
    changed.muted.clear();

    let before = stage.store.put_owner(&changed).await.expect("it is stored");

    assert_eq!(before.before, Some(owner("ada")));
    // Another address begins another link epoch, at the same instant, too.
    changed.link_epoch += 1;
    let stored = stage
        .store
        .owner(&OwnerId("ada".into()))
        .await
        .expect("it can be read");
    assert_eq!(stored, Some(changed));
    assert_eq!(stage.triggers("e").await.len(), 1);
    let unknown = stage
        .store
        .owner(&OwnerId("bob".into()))
        .await
        .expect("it can be read");
    assert_eq!(unknown, None);
}

async fn a_node_that_starts_again_takes_over_at_once_what_it_held(base: &Base) {
    let stage = Stage::on(base).await;
    let (claimed, mail, text) = (new("e", 1), new("f", 2), sms(new("g", 3)));
    stage.sending(&mail, 7).await;
    stage.sending(&text, 8).await;
    stage.plan("e", std::slice::from_ref(&claimed)).await;
    let old = stage.claim().await[0];

    let (session, rescued) = stage
        .store
        .begin_session("node-a", &rules())
        .await
        .expect("a session");

    assert!(session > stage.session);
    assert_eq!(
        (
            rescued.dead_session,
            rescued.in_doubt_retried,
            rescued.in_doubt_recorded
        ),
        (1, 1, 1)
    );
    let freed = stage.trigger(&claimed).await.expect("it is owed");
    assert_eq!((freed.state, freed.processed), (State::Planned, None));
    assert!(freed.generation > old.generation);
    assert!(
        !stage
            .store
            .beat(stage.session, Report::default())
            .await
            .expect("an answer")
    );
    assert!(
        stage
            .store
            .beat(session, Report::default())
            .await
            .expect("an answer")
    );
}

async fn another_node_takes_over_nothing(base: &Base) {
    let stage = Stage::on(base).await;
    stage.plan("e", &[new("e", 1)]).await;
    stage.claim().await;

    let (_, rescued) = stage
        .store
        .begin_session("node-b", &rules())
        .await
        .expect("a session");

    assert_eq!(rescued, carillon::store::Rescued::default());
    assert_eq!(stage.triggers("e").await[0].state, State::Claimed);
}

async fn a_session_that_ends_gives_back_what_it_claimed_but_not_what_it_sends(base: &Base) {
    let stage = Stage::on(base).await;
    let sending = new("f", 1);
    stage.sending(&sending, 7).await;
    stage.plan("e", &[new("e", 1), new("e", 2)]).await;
    let old = stage.claim().await;

    let given_back = stage.store.end_session(stage.session).await.expect("it ends");

    assert_eq!(given_back, 2);
    let freed = stage.triggers("e").await;
    assert!(freed.iter().all(|trigger| trigger.state == State::Planned));
    assert!(freed.iter().all(|trigger| trigger.generation > old[0].generation));
    let trigger = stage.trigger(&sending).await.expect("it is owed");
    assert_eq!(trigger.state, State::Sending);
    assert!(
        stage.claim().await.is_empty(),
        "an ended session is given nothing"
    );
}

async fn a_session_that_gives_back_is_not_offered_for_more_and_settles_what_it_sends(base: &Base) {
    let stage = Stage::on(base).await;
    stage
        .store
        .beat(stage.session, Report::default())
        .await
        .expect("it lives");
    let sending = new("f", 1);
    let claim = stage.sending(&sending, 7).await;
    stage.plan("e", &[new("e", 1), new("e", 2)]).await;
    stage.claim().await;

    let given_back = stage.store.give_back(stage.session).await.expect("it gives back");

    assert_eq!(given_back, 2);
    let living = stage
        .store
        .living(Duration::from_secs(5))
        .await
        .expect("an answer");
    assert_eq!(living, [], "nobody gives it anything");
    let freed = stage.triggers("e").await;
    assert!(freed.iter().all(|trigger| trigger.state == State::Planned));
    assert_eq!(stage.settle(sent(claim, 7)).await, Settled::Recorded);
}

async fn the_store_judges_by_its_own_clock(base: &Base) {
    let stage = Stage::on(base).await;
    stage.pass(3);

    assert_eq!(stage.store.now().await.expect("a time"), minute(3));
}

#[tokio::test]
async fn what_is_no_database_is_named_with_the_cure() {
    let folder = tempfile::tempdir().expect("a folder");
    let clock = Arc::new(ManualClock::at(minute(0)));
    let file = folder.path().join("notes.txt");
    std::fs::write(&file, "these are notes, and many of them\n".repeat(100)).expect("the folder is ours");

    for path in [file.clone(), folder.path().join("missing/carillon.db")] {
        let complaint = open(&path, &clock).await.expect_err("it is none").to_string();

        assert!(complaint.contains(&path.display().to_string()), "{complaint}");
        assert!(complaint.contains("store.url"), "{complaint}");
    }
    let foreign = folder.path().join("notes.db");
    let options = SqliteConnectOptions::new()
        .filename(&foreign)
        .create_if_missing(true);
    let mut conn = SqliteConnection::connect_with(&options)
        .await
        .expect("a database");
    let made = conn.execute("CREATE TABLE notes (text TEXT)").await;
    made.expect("a table");
    conn.close().await.expect("it closes");
    let complaint = open(&foreign, &clock)
        .await
        .expect_err("it is another's")
        .to_string();
    assert!(complaint.contains("`notes`"), "{complaint}");

    let notes = std::fs::read_to_string(&file).expect("it is still there");
    assert!(notes.starts_with("these are notes"));
}

async fn an_owner_that_is_there_is_not_added(base: &Base) {
    let stage = Stage::on(base).await;
    let added = async |id: &str| {
        let mut other = owner(id);
        other.time_zone = "Asia/Tokyo".into();
        stage.store.add_owner(&other).await.expect("an answer")
    };

    assert!(!added("ada").await);
    assert!(added("bob").await);

    for (id, zone) in [("ada", &*owner("ada").time_zone), ("bob", "Asia/Tokyo")] {
        let read = stage.store.owner(&OwnerId(id.into())).await;
        let expected = carillon::store::Owner {
            time_zone: zone.to_owned(),
            ..owner(id)
        };
        assert_eq!(read.expect("it is read"), Some(expected));
    }
}
