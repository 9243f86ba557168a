//! Two at once on PostgreSQL. Each test stops one of them where it matters, by a lock that a connection of the test holds
//! or by a decision that waits, and looks at what the other one does meanwhile.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::mpsc;
use std::time::Duration;

use carillon::clock::Clock;
use carillon::store::Acceptance;
use carillon::store::Candidate;
use carillon::store::Change;
use carillon::store::Changed;
use carillon::store::Claimed;
use carillon::store::Edit;
use carillon::store::Editor;
use carillon::store::EventCopy;
use carillon::store::FireCheck;
use carillon::store::Group;
use carillon::store::Judge;
use carillon::store::Report;
use carillon::store::Rescued;
use carillon::store::Settled;
use carillon::store::Settlement;
use carillon::store::Store;
use carillon::store::Verdict;
use carillon::store::postgres::Options;
use carillon::store::postgres::PostgresStore;
use carillon::store::postgres::Time;
use carillon::store::token::Issued;
use carillon::store::token::NewToken;
use carillon::store::token::Scope;
use carillon::trigger::AttemptToken;
use carillon::trigger::NewTrigger;
use carillon::trigger::SessionId;
use carillon::trigger::State;
use carillon::trigger::outcome::Outcome;
use carillon::trigger::outcome::Reason;
use chrono::DateTime;
use chrono::Utc;
use sqlx::Connection;
use sqlx::Executor;
use sqlx::PgConnection;
use tokio::task::JoinHandle;

use crate::harness::eventually;
use crate::store::Base;
use crate::store::Decided;
use crate::store::Prepared;
use crate::store::Stage;
use crate::store::going_on;
use crate::store::key;
use crate::store::minute;
use crate::store::new;
use crate::store::planning;
use crate::store::put;
use crate::store::put_under;
use crate::store::retry;
use crate::store::rules;
use crate::store::send;
use crate::store::sent;

async fn stage() -> Stage {
    Stage::on(&Base::postgres().await).await
}

/// Another node's store on the same database.
pub async fn another(stage: &Stage) -> Arc<PostgresStore> {
    another_of(stage, Options::default().connections).await
}

/// Another node's store, with so many connections at the most.
pub async fn another_of(stage: &Stage, connections: u32) -> Arc<PostgresStore> {
    let options = Options {
        connections,
        time: Time::Given(Arc::clone(&stage.clock) as Arc<dyn Clock>),
        ..Options::default()
    };
    let store = PostgresStore::open(stage.url(), options).await;
    Arc::new(store.expect("it opens"))
}

async fn connect(stage: &Stage) -> PgConnection {
    PgConnection::connect(stage.url()).await.expect("it answers")
}

/// A connection that holds what it has locked until it is let go.
async fn holding(stage: &Stage, lock: &'static str) -> PgConnection {
    let mut conn = connect(stage).await;
    conn.execute("BEGIN").await.expect("a transaction begins");
    conn.execute(lock).await.expect("the lock is free");
    conn
}

async fn let_go(mut conn: PgConnection) {
    conn.execute("COMMIT").await.expect("it is carried out");
    conn.close().await.expect("the connection closes");
}

/// Waits until so many wait for a lock in statements of this name.
async fn wait(stage: &Stage, statement: &str, many: i64) {
    let mut conn = connect(stage).await;
    eventually(statement, async || {
        let waiting: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM pg_stat_activity
             WHERE datname = current_database() AND wait_event_type = 'Lock' AND starts_with(query, $1)",
        )
        .bind(format!("-- {statement}\n"))
        .fetch_one(&mut conn)
        .await
        .expect("it tells who waits");
        (waiting == many).then_some(())
    })
    .await;
    conn.close().await.expect("the connection closes");
}

fn withdrawing(trigger: &NewTrigger, insert: Vec<NewTrigger>) -> Edit {
    Edit {
        withdraw: vec![trigger.id()],
        insert,
        ..planning(std::slice::from_ref(trigger))
    }
}

/// Changes one event in a task of its own.
fn changing(store: Arc<dyn Store>, change: Change, editor: Arc<dyn Editor>) -> JoinHandle<Changed> {
    tokio::spawn(async move {
        let mut results = store
            .change(&[change], editor.as_ref(), None)
            .await
            .expect("it is applied");
        results.remove(0).expect("the change is taken")
    })
}

/// Fires in a task of its own.
fn firing(
    store: Arc<PostgresStore>,
    session: SessionId,
    claims: Vec<Claimed>,
    judge: impl Judge + 'static,
) -> JoinHandle<FireCheck> {
    tokio::spawn(async move {
        let checked = store.fire_check(session, &claims, AttemptToken(9), &judge, Duration::ZERO);
        checked.await.expect("the fire-check succeeds")
    })
}

/// Settles in a task of its own.
fn settling(stage: &Stage, settlement: Settlement) -> JoinHandle<Vec<Settled>> {
    let store = Arc::clone(&stage.store);
    tokio::spawn(async move { store.settle(&[settlement]).await.expect("the settle succeeds") })
}

/// An editor that plans a trigger only where none is owed, and remembers how many copies it saw.
struct PlansOnce {
    trigger: NewTrigger,
    copies: Mutex<Vec<usize>>,
}

impl Editor for PlansOnce {
    fn accept(&self, _: Option<&EventCopy>, _: &Change) -> Acceptance {
        Acceptance::Apply
    }

    fn edit(&self, group: &Group, _: DateTime<Utc>) -> Edit {
        self.copies
            .lock()
            .expect("no holder panics")
            .push(group.copies.len());
        let mut edit = planning(std::slice::from_ref(&self.trigger));
        if !group.triggers.is_empty() {
            edit.insert.clear();
        }
        edit
    }
}

/// Rules out that two copies of one event, put at once, each plan without seeing the other.
#[tokio::test]
async fn two_copies_put_at_once_are_never_planned_blindly() {
    let stage = stage().await;
    let held = holding(&stage, "SELECT 1 FROM owner WHERE id = 'ada' FOR UPDATE").await;
    let editor = Arc::new(PlansOnce {
        trigger: new("e", 10),
        copies: Mutex::default(),
    });
    let shared = || Arc::clone(&editor) as Arc<dyn Editor>;

    let one = changing(Arc::clone(&stage.store), put("e"), shared());
    let two = changing(
        another(&stage).await,
        put_under(key("second copy"), "e"),
        shared(),
    );
    wait(&stage, "lock_owners", 2).await;
    let_go(held).await;
    let planned = one.await.expect("no panic").planned + two.await.expect("no panic").planned;

    assert_eq!(planned, 1);
    let copies = editor.copies.lock().expect("no holder panics");
    assert_eq!(*copies, [1, 2], "the second sees what the first did");
}

/// Rules out that a change overlooks the successor that a fire-check is about to plan.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_change_never_overlooks_a_successor_that_is_being_planned() {
    let stage = stage().await;
    let trigger = new("e", 0);
    stage.plan("e", std::slice::from_ref(&trigger)).await;
    let claims = stage.claim().await;
    let (asked, question) = mpsc::channel();
    let (answer, answered) = mpsc::channel();
    let answered = Mutex::new(answered);
    let judge = Decided(move |candidate: &Candidate| {
        asked.send(()).expect("the test listens");
        let answered = answered.lock().expect("no holder panics");
        answered.recv().expect("the test answers");
        going_on(Verdict::Send, 60).judge(candidate, minute(0))
    });
    let fired = firing(another(&stage).await, stage.session, claims, judge);
    let judged = tokio::task::spawn_blocking(move || question.recv());
    judged.await.expect("no panic").expect("it is judged");

    let editor = Arc::new(Prepared::with("e", withdrawing(&trigger, Vec::new())));
    let change = changing(
        Arc::clone(&stage.store),
        put("e"),
        Arc::clone(&editor) as Arc<dyn Editor>,
    );
    wait(&stage, "lock_owners", 1).await;
    answer.send(()).expect("the judge waits");
    let changed = change.await.expect("no panic");

    assert_eq!(fired.await.expect("no panic").granted.len(), 1);
    let group = editor.groups.lock().expect("no holder panics")[0].clone();
    assert!(
        group.triggers.iter().any(|it| it.id == new("e", 60).id()),
        "the successor is seen"
    );
    assert_eq!(changed.withdrawn.len(), 1);
    let marked = stage.trigger(&trigger).await.expect("it stays");
    assert_eq!((marked.state, marked.withdrawn), (State::Sending, true));
}

/// Rules out that what a change withdraws is granted by a fire-check that began before it was committed.
#[tokio::test]
async fn a_fire_check_never_grants_what_a_change_is_withdrawing() {
    let stage = stage().await;
    let trigger = new("e", 0);
    stage.plan("e", std::slice::from_ref(&trigger)).await;
    let claims = stage.claim().await;
    let held = holding(&stage, "SELECT 1 FROM alarm_trigger FOR UPDATE").await;
    let editor = Arc::new(Prepared::with("e", withdrawing(&trigger, vec![new("e", 30)])));
    let change = changing(another(&stage).await, put("e"), editor);
    wait(&stage, "triggers", 1).await;
    let fired = firing(another(&stage).await, stage.session, claims, send());
    wait(&stage, "fire_check: share owners", 1).await;

    let_go(held).await;

    assert_eq!(change.await.expect("no panic").withdrawn.len(), 1);
    let checked = fired.await.expect("no panic");
    assert!(checked.granted.is_empty() && checked.concluded.is_empty());
    let owed: Vec<_> = stage.triggers("e").await.iter().map(|it| it.id).collect();
    assert_eq!(owed, [new("e", 30).id()]);
}

/// Rules out that a last firing, for which no owner is locked, is granted though a change withdraws it at that moment.
#[tokio::test]
async fn a_last_firing_that_a_change_is_withdrawing_is_never_granted() {
    let stage = stage().await;
    let trigger = NewTrigger {
        has_more: false,
        ..new("e", 0)
    };
    stage.plan("e", std::slice::from_ref(&trigger)).await;
    let claims = stage.claim().await;
    let held = holding(&stage, "SELECT 1 FROM alarm_trigger FOR UPDATE").await;
    let editor = Arc::new(Prepared::with("e", withdrawing(&trigger, Vec::new())));
    let change = changing(another(&stage).await, put("e"), editor);
    wait(&stage, "triggers", 1).await;
    let fired = firing(another(&stage).await, stage.session, claims, send());
    wait(&stage, "fire_check", 1).await;

    let_go(held).await;

    assert_eq!(change.await.expect("no panic").withdrawn.len(), 1);
    assert!(fired.await.expect("no panic").granted.is_empty());
    assert!(stage.triggers("e").await.is_empty());
}

/// Rules out that what is handed over at that moment is planned again as a successor.
#[tokio::test]
async fn what_is_being_settled_is_never_planned_again() {
    let stage = stage().await;
    let (first, second) = (new("e", 0), new("e", 60));
    stage.plan("e", &[first.clone(), second.clone()]).await;
    let claims = stage.claim().await;
    stage.fire(&claims[1..], 7, &send()).await;
    // A settle of the second that is under way: the row is deleted and history written, but nothing is committed.
    let mut settle = holding(
        &stage,
        "INSERT INTO delivery (id, owner, event_uid, identity, channel, recipient, occurrence, trigger_at, repeat,
             outcome, rank, reason, detail, attempts, count, handed_over_at, recorded_at)
         SELECT id, owner, event_uid, identity, channel, recipient, occurrence, trigger_at, repeat,
             'sent', 5, '', '', 1, 1, due_at, due_at FROM alarm_trigger WHERE state = 'sending'",
    )
    .await;
    let deleted = settle
        .execute("DELETE FROM alarm_trigger WHERE state = 'sending'")
        .await;
    assert_eq!(deleted.expect("it is there").rows_affected(), 1);

    let fired = firing(
        another(&stage).await,
        stage.session,
        claims[..1].to_vec(),
        going_on(Verdict::Send, 60),
    );
    wait(&stage, "fire_check: await settles", 1).await;
    let_go(settle).await;

    assert_eq!(fired.await.expect("no panic").granted.len(), 1);
    assert!(stage.trigger(&second).await.is_none(), "it was handed over");
    let outcome = stage.outcome(second.id()).await;
    assert_eq!(outcome, Some((Outcome::Sent, Reason::None)));
}

/// A trigger whose first attempt was taken for lost, and the claim under which that was made.
async fn taken_over(stage: &Stage, trigger: &NewTrigger) -> Claimed {
    let old = stage.sending(trigger, 7).await;
    stage.pass(3);
    let rescued = stage.store.rescue(&rules(), 100).await.expect("a rescue");
    assert_eq!(rescued.in_doubt_retried, 1);
    old
}

/// Rules out that a fire-check sends again what a late settle says was handed over while the fire-check waited.
#[tokio::test]
async fn what_a_late_settle_hands_in_is_never_granted_again() {
    let stage = stage().await;
    let trigger = new("e", 0);
    let old = taken_over(&stage, &trigger).await;
    let newer = stage.claim().await;
    let held = holding(&stage, "SELECT 1 FROM owner FOR NO KEY UPDATE").await;
    let fired = firing(another(&stage).await, stage.session, newer, send());
    wait(&stage, "fire_check: share owners", 1).await;

    assert_eq!(stage.settle(sent(old, 7)).await, Settled::Lost);
    let_go(held).await;

    assert!(fired.await.expect("no panic").granted.is_empty());
    assert!(stage.trigger(&trigger).await.is_none());
    let outcome = stage.outcome(trigger.id()).await;
    assert_eq!(outcome, Some((Outcome::Sent, Reason::None)));
}

/// Rules out that an attempt is repeated though an earlier one, taken for lost, says at that moment that it arrived.
#[tokio::test]
async fn a_retry_never_overlooks_a_hand_over_that_is_being_recorded() {
    let stage = stage().await;
    let trigger = new("e", 0);
    let old = taken_over(&stage, &trigger).await;
    let newer = stage.send_claimed(8).await;
    let held = holding(&stage, "SELECT 1 FROM alarm_trigger FOR UPDATE").await;

    let late = settling(&stage, sent(old, 7));
    wait(&stage, "settle", 1).await;
    let again = settling(&stage, retry(newer, 8, 9, true));
    wait(&stage, "settle", 2).await;
    let_go(held).await;

    assert_eq!(late.await.expect("no panic"), [Settled::Lost]);
    assert_eq!(again.await.expect("no panic"), [Settled::Known]);
    assert!(stage.triggers("e").await.is_empty());
    let outcome = stage.outcome(trigger.id()).await;
    assert_eq!(outcome, Some((Outcome::Sent, Reason::None)));
}

/// Rules out that a rescue takes a trigger from a holder who fires it at that moment.
#[tokio::test]
async fn a_rescue_never_takes_what_is_being_fired() {
    let stage = stage().await;
    let trigger = new("e", 0);
    stage.plan("e", std::slice::from_ref(&trigger)).await;
    let claims = stage.claim().await;
    stage.pass(6);
    let held = holding(&stage, "SELECT 1 FROM alarm_trigger FOR UPDATE").await;

    let rescued = stage.store.rescue(&rules(), 100).await.expect("a rescue");
    let_go(held).await;

    assert_eq!(rescued, Rescued::default(), "somebody has it in hand");
    assert_eq!(stage.fire(&claims, 7, &send()).await.granted.len(), 1);
}

/// Rules out that what a change has locked, and leaves as it is, is forgotten by the planner.
#[tokio::test]
async fn what_a_claim_passes_over_is_never_out_of_sight() {
    let stage = stage().await;
    stage.plan("e", &[new("e", 1), new("e", 2)]).await;
    let held = holding(
        &stage,
        "SELECT 1 FROM alarm_trigger ORDER BY due_at LIMIT 1 FOR UPDATE",
    )
    .await;

    let claims = stage.claim().await;

    let due: Vec<_> = claims.iter().map(|claim| claim.due_at).collect();
    assert_eq!(due, [minute(2)], "nobody waits for a lock");
    let next = stage.store.next_free_due(DateTime::UNIX_EPOCH).await;
    assert_eq!(next.expect("an answer"), Some(minute(1)));
    let_go(held).await;
    assert_eq!(stage.claim().await.len(), 1);
}

/// Rules out that something is lost where a session ends while it fires, and the database must give one of them up.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_session_that_ends_while_it_fires_never_loses_a_trigger() {
    let stage = stage().await;
    let trigger = new("e", 0);
    stage.plan("e", std::slice::from_ref(&trigger)).await;
    let claims = stage.claim().await;
    let (asked, question) = mpsc::channel();
    let (answer, answered) = mpsc::channel();
    let answered = Mutex::new(answered);
    let judge = Decided(move |candidate: &Candidate| {
        // Once only: if it is asked again, nobody listens, and it need not wait.
        if asked.send(()).is_ok() {
            let answered = answered.lock().expect("no holder panics");
            let _ = answered.recv();
        }
        going_on(Verdict::Send, 60).judge(candidate, minute(0))
    });
    let firing_store = another(&stage).await;
    let fired = firing(Arc::clone(&firing_store), stage.session, claims, judge);
    let judged = tokio::task::spawn_blocking(move || question.recv());
    judged.await.expect("no panic").expect("it is judged");
    let (store, session) = (Arc::clone(&stage.store), stage.session);
    let ended = tokio::spawn(async move { store.end_session(session).await });
    wait(&stage, "give_back", 1).await;
    // It locks the session to claim what follows, and the end of the session waits for the trigger.
    answer.send(()).expect("the judge waits");

    let granted = fired.await.expect("no panic").granted.len();
    let given_back = ended.await.expect("no panic").expect("it ends");

    assert_eq!(
        firing_store.repeats() + stage.store.repeats(),
        1,
        "one was given up"
    );
    let left = stage.trigger(&trigger).await.expect("it is owed");
    match granted {
        0 => assert_eq!((given_back, left.state), (1, State::Planned)),
        _ => assert_eq!((given_back, left.state), (0, State::Sending)),
    }
    let lives = stage.store.beat(session, Report::default()).await;
    assert!(!lives.expect("an answer"), "it has ended");
}

/// Rules out that a session whose row somebody had locked is taken for dead as soon as it can say that it lives.
#[tokio::test]
async fn a_sign_of_life_that_had_to_wait_is_never_old() {
    let stage = stage().await;
    stage.plan("e", &[new("e", 20)]).await;
    stage.claim().await;
    let held = holding(&stage, "SELECT 1 FROM session FOR UPDATE").await;
    let (store, session) = (Arc::clone(&stage.store), stage.session);
    let beat = tokio::spawn(async move { store.beat(session, Report::default()).await });
    wait(&stage, "beat: lock", 1).await;
    stage.pass(1);
    let_go(held).await;
    assert!(beat.await.expect("no panic").expect("an answer"));

    let rescued = stage.store.rescue(&rules(), 100).await.expect("a rescue");

    assert_eq!(rescued, Rescued::default());
}

/// Sent, failed, in doubt, sent, ...
fn by_turns(claims: &[Claimed]) -> Vec<Settlement> {
    let ends = claims.iter().enumerate().map(|(at, claim)| match at % 3 {
        0 => sent(*claim, 7),
        1 => crate::store::done(*claim, 7, Outcome::Failed, Reason::Refused),
        _ => crate::store::done(*claim, 7, Outcome::InDoubt, Reason::ConnectionLost),
    });
    ends.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn settles_of_alarms_of_the_same_owners_never_wait_for_each_other_crosswise() {
    const WRITERS: i64 = 4;
    const BATCHES: i64 = 6;
    const EACH: i64 = 30;
    let stage = stage().await;
    for id in ["bob", "eve"] {
        stage.store.put_owner(&crate::store::owner(id)).await.unwrap();
    }
    let all = WRITERS * BATCHES * EACH;
    stage
        .damage(&format!(
            "INSERT INTO standalone_alarm (owner, id, kind, channel, status, paused, fire_at, request_hash, created_at,
                 updated_at, failure_count, terms)
             SELECT (ARRAY['ada', 'bob', 'eve'])[n % 3 + 1], lpad(to_hex(n), 32, '0'), 'once', 'email', 'active', false,
                 '2026-01-01Z', '', '2026-01-01Z', '2026-01-01Z', 0, '{{}}' FROM generate_series(1, {all}) AS n;
             INSERT INTO alarm_trigger (id, owner, event_uid, identity, channel, recipient, trigger_at, occurrence,
                 repeat, due_at, expires_at, has_more, state)
             SELECT decode(lpad(to_hex(n * 7919 % 65521), 32, '0'), 'hex'), owner, ' ' || id, '', channel, 'owner',
                 fire_at, fire_at, 0, fire_at, '2100-01-01Z', false, 'planned'
             FROM standalone_alarm, LATERAL (SELECT ('x' || substr(id, 25))::bit(32)::bigint AS n) AS w;"
        ))
        .await;
    let claims = stage.claim().await;
    assert_eq!(claims.len(), 720);
    let mut granted = 0;
    for part in claims.chunks(100) {
        granted += stage.fire(part, 7, &send()).await.granted.len();
    }
    assert_eq!(granted, 720);
    let mut writers = Vec::new();
    for part in claims.chunks(usize::try_from(BATCHES * EACH).unwrap()) {
        let (store, part) = (Arc::clone(&stage.store), part.to_vec());
        writers.push(tokio::spawn(async move {
            for batch in part.chunks(usize::try_from(EACH).unwrap()) {
                store.settle(&by_turns(batch)).await.unwrap();
            }
        }));
    }
    for writer in writers {
        writer.await.unwrap();
    }

    assert_eq!(stage.store.repeats(), 0, "they waited for each other");
    let mut settled = std::collections::BTreeMap::<String, i64>::new();
    for id in ["ada", "bob", "eve"] {
        let owner = carillon::trigger::OwnerId(id.to_owned());
        for count in stage.store.alarm_counts(&owner).await.unwrap() {
            *settled.entry(count.name).or_default() += count.amount;
        }
    }
    settled.retain(|_, amount| *amount != 0);
    let expected = [("fired", 240), ("sent", 240), ("in_doubt", 240)];
    for (name, amount) in expected {
        assert_eq!(settled.get(name), Some(&amount), "{name} of {settled:?}");
    }
    // Those that failed twice: as alarms, and as firings.
    assert_eq!(settled.get("failed"), Some(&(480 + 240)), "{settled:?}");
}

/// How many wait for a lock.
async fn waiting(stage: &Stage) -> i64 {
    let mut conn = connect(stage).await;
    let waiting = sqlx::query_scalar(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
    );
    let waiting = waiting.fetch_one(&mut conn).await.expect("it answers");
    conn.close().await.expect("the connection closes");
    waiting
}

/// Whether a lock is had at once.
async fn is_free(stage: &Stage, lock: &'static str) -> bool {
    let mut conn = connect(stage).await;
    let locked = conn.execute(lock).await;
    conn.close().await.expect("the connection closes");
    locked.is_ok()
}

const HOLD_ADA: &str =
    "INSERT INTO alarm_owner (owner) VALUES ('ada') ON CONFLICT (owner) DO UPDATE SET owner = excluded.owner";

#[tokio::test(flavor = "multi_thread")]
async fn who_forgets_alarms_waits_for_their_owner_before_they_are_touched() {
    let stage = stage().await;
    stage
        .damage(
            "INSERT INTO standalone_alarm (owner, id, kind, channel, status, paused, fire_at, request_hash, created_at,
                 updated_at, failure_count, terms)
             VALUES ('ada', 'a', 'once', 'email', 'fired', false, '2020-01-01Z', '', '2020-01-01Z', '2020-01-01Z', 0, '{}')",
        )
        .await;
    let counting = holding(&stage, HOLD_ADA).await;
    let store = Arc::clone(&stage.store);
    let purging = tokio::spawn(async move {
        let retention = carillon::store::Retention {
            history_before: minute(0),
            tombstones_before: minute(0),
            limit: 100,
        };
        store.purge(&retention).await.expect("a count")
    });
    eventually("the purge to wait", async || {
        (waiting(&stage).await == 1).then_some(())
    })
    .await;

    let alarm = "SELECT 1 FROM standalone_alarm WHERE owner = 'ada' FOR UPDATE NOWAIT";
    assert!(is_free(&stage, alarm).await, "who counts may be waiting for it");
    let_go(counting).await;
    assert_eq!(purging.await.unwrap(), 2, "the alarm, and what was told of it");
    assert_eq!(stage.store.repeats(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_tokens_issued_at_once_are_counted_together() {
    let stage = stage().await;
    stage
        .damage(
            "INSERT INTO access_token (hash, name, scope, created_at)
             SELECT decode(md5('t' || n), 'hex'), 't' || n, 'read', now() FROM generate_series(1, 999) AS n",
        )
        .await;
    let other = holding(
        &stage,
        "INSERT INTO access_token (hash, name, scope, created_at) VALUES ('x', 'the last', 'read', now())",
    )
    .await;
    let store = Arc::clone(&stage.store);
    let issuing = tokio::spawn(async move {
        let token = NewToken {
            hash: [7; 32],
            name: "one more".to_owned(),
            scope: Scope::Read,
            owner: None,
            lasts: None,
        };
        store.issue_token(&token).await.expect("an answer")
    });
    eventually("the token to wait or to be issued", async || {
        (waiting(&stage).await == 1 || issuing.is_finished()).then_some(())
    })
    .await;

    let_go(other).await;

    assert_eq!(issuing.await.unwrap(), Issued::TooMany);
}

/// Two triggers that are claimed, the first of the second of their owners.
async fn of_two_owners(base: &Base) -> (Stage, Vec<Claimed>) {
    let stage = Stage::on(base).await;
    stage.store.put_owner(&crate::store::owner("bob")).await.unwrap();
    stage
        .damage(
            "INSERT INTO standalone_alarm (owner, id, kind, channel, status, paused, fire_at, request_hash, created_at,
                 updated_at, failure_count, terms)
             SELECT owner, owner, 'once', 'email', 'active', false, '2026-01-01Z', '', '2026-01-01Z', '2026-01-01Z', 0, '{}'
             FROM unnest(ARRAY['bob', 'ada']) AS owner;
             INSERT INTO alarm_trigger (id, owner, event_uid, identity, channel, recipient, trigger_at, occurrence,
                 repeat, due_at, expires_at, has_more, state)
             SELECT decode(lpad(n::text, 32, '0'), 'hex'), owner, ' ' || owner, '', 'email', 'owner', '2026-01-01Z',
                 '2026-01-01Z', 0, '2026-01-01Z', '2100-01-01Z', false, 'planned'
             FROM unnest(ARRAY['bob', 'ada']) WITH ORDINALITY AS j (owner, n)",
        )
        .await;
    let claims = stage.claim().await;
    assert_eq!(claims.len(), 2);
    (stage, claims)
}

/// Whoever counts for ada makes this wait; meanwhile bob is anybody's.
async fn holds_nobody_while_it_waits(stage: &Stage, doing: impl Future<Output = ()> + Send + 'static) {
    let counting = holding(stage, HOLD_ADA).await;
    let doing = tokio::spawn(doing);
    eventually("it to wait", async || (waiting(stage).await == 1).then_some(())).await;

    let bob = "SELECT 1 FROM alarm_owner WHERE owner = 'bob' FOR NO KEY UPDATE NOWAIT";
    assert!(
        is_free(stage, bob).await,
        "whoever counts for him may wait for her"
    );
    let_go(counting).await;
    doing.await.unwrap();
    assert_eq!(stage.store.repeats(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_sets_aside_holds_no_owner_while_it_waits_for_another() {
    let base = Base::postgres().await;

    let (stage, claims) = of_two_owners(&base).await;
    assert_eq!(stage.fire(&claims, 7, &send()).await.granted.len(), 2);
    stage.damage("UPDATE alarm_trigger SET channel = 'pigeon'").await;
    let store = Arc::clone(&stage.store);
    holds_nobody_while_it_waits(&stage, async move {
        let batch: Vec<Settlement> = claims.iter().map(|claim| sent(*claim, 7)).collect();
        let settled = store.settle(&batch).await.expect("it is settled");
        assert_eq!(settled, [Settled::Poisoned, Settled::Poisoned]);
    })
    .await;

    let (stage, claims) = of_two_owners(&base).await;
    stage.damage("UPDATE alarm_trigger SET channel = 'pigeon'").await;
    let (store, session) = (another(&stage).await, stage.session);
    holds_nobody_while_it_waits(&stage, async move {
        let checked = firing(store, session, claims, send()).await.unwrap();
        assert!(checked.granted.is_empty());
    })
    .await;

    let (stage, _) = of_two_owners(&base).await;
    stage.damage("UPDATE alarm_trigger SET state = 'lost'").await;
    stage.pass(1);
    let store = Arc::clone(&stage.store);
    holds_nobody_while_it_waits(&stage, async move {
        store.rescue(&rules(), 100).await.expect("a rescue");
    })
    .await;
}
