//! What becomes of work whose connection is lost: before its commit, and after it, when only the answer is missing.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering;
use std::time::Duration;

use carillon::clock::Clock;
use carillon::clock::SystemClock;
use carillon::store::Candidate;
use carillon::store::Judge;
use carillon::store::Settled;
use carillon::store::Settlement;
use carillon::store::Store;
use carillon::store::postgres::Options;
use carillon::store::postgres::PostgresStore;
use carillon::store::postgres::Time;
use carillon::trigger::AttemptToken;
use carillon::trigger::outcome::Outcome;
use carillon::trigger::outcome::Reason;
use sqlx::Connection;
use sqlx::PgConnection;
use tempfile::TempDir;
use tokio::io::AsyncReadExt;
use tokio::io::AsyncWriteExt;
use tokio::net::UnixListener;
use tokio::net::UnixStream;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::harness::eventually;
use crate::store::Base;
use crate::store::Decided;
use crate::store::Prepared;
use crate::store::Stage;
use crate::store::minute;
use crate::store::new;
use crate::store::planning;
use crate::store::put;
use crate::store::races::another;
use crate::store::retry;
use crate::store::send;
use crate::store::sent;

/// The name that PostgreSQL gives its socket.
const SOCKET: &str = ".s.PGSQL.5432";

/// A way to the server that loses the answer to a commit when it is asked to, and the connection with it.
struct Lossy {
    store: PostgresStore,
    loses: Arc<AtomicBool>,
    /// Connections of before it changes say nothing any more.
    silence: watch::Sender<()>,
    _relays: JoinSet<()>,
    _folder: TempDir,
}

impl Lossy {
    async fn before(stage: &Stage) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let (database, server) = stage.url().split_once("?host=").expect("the server has a socket");
        let server = PathBuf::from(server).join(SOCKET);
        let listener = UnixListener::bind(folder.path().join(SOCKET)).expect("the folder is ours");
        let loses = Arc::new(AtomicBool::new(false));
        let mut relays = JoinSet::new();
        let losing = Arc::clone(&loses);
        let silence = watch::Sender::new(());
        let falls_silent = silence.clone();
        relays.spawn(async move {
            let mut relays = JoinSet::new();
            loop {
                let (mut client, _) = listener.accept().await.expect("it listens");
                let mut server = UnixStream::connect(&server).await.expect("it answers");
                let mut silent = falls_silent.subscribe();
                let losing = Arc::clone(&losing);
                relays.spawn(async move {
                    tokio::select! {
                        () = relay(&mut client, &mut server, losing) => {}
                        // Both ends stay open.
                        _ = silent.changed() => std::future::pending().await,
                    }
                });
            }
        });
        let options = Options {
            time: Time::Given(Arc::clone(&stage.clock) as Arc<dyn Clock>),
            silence: Duration::from_secs(1),
            ..Options::default()
        };
        let url = format!("{database}?host={}", folder.path().display());
        let store = PostgresStore::open(&url, options).await;
        Self {
            store: store.expect("it opens"),
            loses,
            silence,
            _relays: relays,
            _folder: folder,
        }
    }

    /// The store; the answer to its next commit is lost.
    fn losing(&self) -> &PostgresStore {
        let before = self.loses.swap(true, Ordering::SeqCst);
        assert!(!before, "the last answer was lost");
        &self.store
    }
}

/// Passes on what both say, until an answer to a commit is to be lost.
async fn relay(client: &mut UnixStream, server: &mut UnixStream, loses: Arc<AtomicBool>) {
    let (mut question, mut answer) = (vec![0; 65_536], vec![0; 65_536]);
    loop {
        let passed = tokio::select! {
            read = client.read(&mut question) => match read {
                Ok(length @ 1..) => {
                    let question = &question[..length];
                    let passed = server.write_all(question).await;
                    let commits = question.windows(6).any(|part| part == b"COMMIT");
                    if commits && loses.swap(false, Ordering::SeqCst) {
                        let carried_out = server.read(&mut answer).await;
                        assert!(carried_out.is_ok_and(|length| length > 0));
                        return;
                    }
                    passed
                }
                _ => return,
            },
            read = server.read(&mut answer) => match read {
                Ok(length @ 1..) => client.write_all(&answer[..length]).await,
                _ => return,
            },
        };
        if passed.is_err() {
            return;
        }
    }
}

/// Sends everything, and counts how often it is asked.
fn counting(asked: &Arc<AtomicU32>) -> impl Judge + use<> {
    let asked = Arc::clone(asked);
    Decided(move |candidate: &Candidate| {
        asked.fetch_add(1, Ordering::SeqCst);
        send().judge(candidate, minute(0))
    })
}

#[tokio::test]
async fn connections_that_fall_silent_are_given_up_together() {
    let stage = Stage::on(&Base::postgres().await).await;
    let lossy = Lossy::before(&stage).await;
    let asks = || lossy.store.living(Duration::from_secs(5));
    let (first, second, third) = tokio::join!(asks(), asks(), asks());
    assert!(first.is_ok() && second.is_ok() && third.is_ok());
    // One that is silent on its way back to the others is found by nobody.
    eventually("they wait for work", async || {
        (lossy.store.idle_connections() >= 2).then_some(())
    })
    .await;

    lossy.silence.send_replace(());

    let began = SystemClock.elapsed();
    stage.plan("e", &[new("e", 0)]).await;
    let claimed = lossy.store.claim_due(stage.session, minute(9), None, 10).await;
    assert_eq!(claimed.expect("it found another way").len(), 1);
    let (first, second) = tokio::join!(asks(), asks());
    assert!(first.is_ok() && second.is_ok());
    let took = SystemClock.elapsed().saturating_sub(began);
    assert!(took < Duration::from_secs(10), "{took:?}");
    assert!(lossy.store.repeats() >= 1);
}

#[tokio::test]
async fn a_commit_whose_answer_was_lost_is_not_done_twice() {
    let stage = Stage::on(&Base::postgres().await).await;
    let lossy = Lossy::before(&stage).await;
    let trigger = new("e", 0);
    let editor = Prepared::with("e", planning(std::slice::from_ref(&trigger)));
    let changed = lossy.losing().change(&[put("e")], &editor, None).await;
    assert!(changed.expect("it is applied")[0].is_ok());
    assert_eq!(stage.triggers("e").await.len(), 1);

    let told = lossy.losing().claim_due(stage.session, minute(9), None, 10).await;
    assert!(told.expect("an answer").is_empty(), "it is claimed already");
    let claims = lossy.store.held_by(stage.session, minute(9), None, 10).await;
    let claims = claims.expect("a page");
    assert_eq!(
        claims.len(),
        1,
        "and is found by whoever looks for what they hold"
    );

    let asked = Arc::default();
    let fire = async || {
        let (token, near) = (AttemptToken(7), Duration::ZERO);
        let judge = counting(&asked);
        let checked = lossy
            .losing()
            .fire_check(stage.session, &claims, token, &judge, near)
            .await;
        assert_eq!(checked.expect("an answer").granted.len(), 1);
    };
    let settle = async |settlement: Settlement| {
        let settled = lossy.losing().settle(&[settlement]).await;
        settled.expect("an answer")[0]
    };
    fire().await;
    assert_eq!(asked.load(Ordering::SeqCst), 1, "it was granted before");
    let again = settle(retry(claims[0], 7, 0, true)).await;
    assert_eq!(again, Settled::Retrying(claims[0]));
    fire().await;
    assert_eq!(settle(sent(claims[0], 7)).await, Settled::Lost, "it has ended");

    assert!(stage.triggers("e").await.is_empty());
    let history = stage.history().await;
    assert_eq!(history.len(), 1);
    assert_eq!((history[0].outcome, history[0].attempts), (Outcome::Sent, 2));
    assert_eq!(lossy.store.repeats(), 6);
}

/// Ends all connections to the database but its own.
async fn end_all(url: &str) -> usize {
    let mut conn = PgConnection::connect(url).await.expect("it answers");
    let ended: Vec<bool> = sqlx::query_scalar(
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
         WHERE datname = current_database() AND pid <> pg_backend_pid()",
    )
    .fetch_all(&mut conn)
    .await
    .expect("they end");
    conn.close().await.expect("the connection closes");
    ended.len()
}

#[tokio::test]
async fn what_is_asked_after_all_connections_were_lost_is_answered() {
    let stage = Stage::on(&Base::postgres().await).await;
    let store = another(&stage).await;
    store.remember("a", "b").await.expect("it is remembered");
    for round in 1..=2 {
        let mut asking = JoinSet::new();
        for _ in 0..8 {
            let store = Arc::clone(&store);
            asking.spawn(async move { store.remembered("a").await });
        }
        asking.join_all().await;
        let ended = end_all(stage.url()).await;
        assert!(ended > 6, "more than may be tried one by one: {ended}");

        if round == 1 {
            let answer = store.remembered("a").await;
            assert_eq!(answer.expect("an answer").as_deref(), Some("b"));
        } else {
            store.remember("a", "c").await.expect("it is remembered");
        }
        assert_eq!(store.repeats(), round);
    }
}

#[tokio::test]
async fn a_fire_check_whose_connection_is_lost_is_done_again_and_counted() {
    let stage = Stage::on(&Base::postgres().await).await;
    let trigger = new("e", 0);
    stage.plan("e", std::slice::from_ref(&trigger)).await;
    let claims = stage.claim().await;
    let store = another(&stage).await;
    let asked = Arc::new(AtomicU32::new(0));
    let (counted, url) = (counting(&asked), stage.url().to_owned());
    let asked_before = Arc::clone(&asked);
    let judge = Decided(move |candidate: &Candidate| {
        if asked_before.load(Ordering::SeqCst) == 0 {
            let url = url.clone();
            let ending = std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                runtime.expect("a runtime").block_on(end_all(&url))
            });
            assert!(ending.join().expect("no panic") > 0);
        }
        counted.judge(candidate, minute(0))
    });

    let (token, near) = (AttemptToken(7), Duration::ZERO);
    let checked = store
        .fire_check(stage.session, &claims, token, &judge, near)
        .await;

    assert_eq!(checked.expect("it is repeated").granted.len(), 1);
    assert_eq!(asked.load(Ordering::SeqCst), 2);
    assert_eq!(store.repeats(), 1);
    let settled = store.settle(&[sent(claims[0], 7)]).await;
    assert_eq!(settled.expect("an answer"), [Settled::Recorded]);
    let outcome = stage.outcome(trigger.id()).await;
    assert_eq!(outcome, Some((Outcome::Sent, Reason::None)));
}
