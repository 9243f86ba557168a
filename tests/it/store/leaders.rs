//! Two leaders at once, which only a fault can bring about: the store keeps what they plan right.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use carillon::planner::Planner;
use carillon::store::Claimed;
use carillon::store::Living;
use carillon::store::Report;
use carillon::store::Store;
use carillon::trigger::AttemptToken;
use carillon::trigger::NewTrigger;
use carillon::trigger::SessionId;
use carillon::trigger::TriggerId;
use carillon::trigger::outcome::Outcome;
use sqlx::Connection;
use sqlx::Executor;
use sqlx::PgConnection;

use crate::store::Base;
use crate::store::Stage;
use crate::store::minute;
use crate::store::new;
use crate::store::planning;
use crate::store::races::another;
use crate::store::rules;
use crate::store::send;
use crate::store::sent;

const WINDOW: Duration = Duration::from_hours(24);
const DEAD_AFTER: Duration = Duration::from_secs(5);

/// What sessions were told to arm.
type Told = Arc<Mutex<Vec<(SessionId, Claimed)>>>;

fn planner(store: Arc<dyn Store>, session: SessionId, told: &Told) -> Planner {
    let told = Arc::clone(told);
    let tell = move |hand: &Living, claims: &[Claimed]| {
        let mut told = told.lock().expect("no holder panics");
        told.extend(claims.iter().map(|claim| (hand.session, *claim)));
    };
    Planner::new(store, session, Arc::new(tell))
}

#[tokio::test]
async fn two_that_lead_at_once_claim_everything_once_and_lose_nothing() {
    let stage = Stage::on(&Base::postgres().await).await;
    let other = another(&stage).await;
    let (second, _) = other.begin_session("node-b", &rules()).await.expect("a session");
    for (store, session) in [
        (&stage.store, stage.session),
        (&(other.clone() as Arc<dyn Store>), second),
    ] {
        assert!(store.beat(session, Report::default()).await.expect("it lives"));
    }
    let triggers: Vec<NewTrigger> = (0..1_000).map(|at| new(&format!("e{}", at % 10), at)).collect();
    for uid in 0..10 {
        let uid = format!("e{uid}");
        let owed: Vec<_> = triggers
            .iter()
            .filter(|it| it.wish.event_uid == uid)
            .cloned()
            .collect();
        let changed = stage.put(&uid, planning(&owed)).await;
        assert_eq!(changed.planned, 100);
    }
    let told = Told::default();
    let one = planner(Arc::clone(&stage.store), stage.session, &told);
    let two = planner(Arc::clone(&other) as Arc<dyn Store>, second, &told);

    // What one has locked, the other passes over, and looks again soon: then there is nothing left.
    let (first_look, same_look) = tokio::join!(
        one.tick(WINDOW, None, DEAD_AFTER),
        two.tick(WINDOW, None, DEAD_AFTER)
    );
    let mut claimed = first_look.expect("a tick").claimed + same_look.expect("a tick").claimed;
    claimed += one.tick(WINDOW, None, DEAD_AFTER).await.expect("a tick").claimed;

    assert_eq!(claimed, 1_000);
    let told = told.lock().expect("no holder panics").clone();
    let mut holders: HashMap<SessionId, Vec<Claimed>> = HashMap::new();
    let mut ids: Vec<TriggerId> = Vec::new();
    for (session, claim) in told {
        ids.push(claim.id);
        holders.entry(session).or_default().push(claim);
    }
    assert_eq!(ids.len(), 1_000);
    ids.sort_unstable_by_key(|id| id.0);
    ids.dedup();
    assert_eq!(ids.len(), 1_000, "each was told once");
    assert_eq!(holders.len(), 2, "both were given some");
    for (token, (session, claims)) in holders.into_iter().enumerate() {
        let judge = send();
        let token = i64::try_from(token).expect("a small number");
        let checked = stage
            .store
            .fire_check(session, &claims, AttemptToken(token), &judge, Duration::ZERO);
        assert_eq!(checked.await.expect("an answer").granted.len(), claims.len());
        let settlements: Vec<_> = claims.iter().map(|claim| sent(*claim, token)).collect();
        stage.store.settle(&settlements).await.expect("it is settled");
    }
    let history = stage.history().await;
    assert_eq!(history.len(), 1_000);
    assert!(
        history
            .iter()
            .all(|row| row.outcome == Outcome::Sent && row.attempts == 1)
    );
}

#[tokio::test]
async fn a_planner_looks_again_soon_for_what_somebody_had_locked() {
    let stage = Stage::on(&Base::postgres().await).await;
    stage
        .plan("e", &[new("e", 1), new("e", 2), new("e", 9_000)])
        .await;
    let told = Told::default();
    let planner = planner(Arc::clone(&stage.store), stage.session, &told);
    let mut conn = PgConnection::connect(stage.url()).await.expect("it answers");
    conn.execute("BEGIN").await.expect("a transaction begins");
    conn.execute("SELECT 1 FROM alarm_trigger ORDER BY due_at LIMIT 1 FOR UPDATE")
        .await
        .expect("the lock is free");

    let tick = planner.tick(WINDOW, None, DEAD_AFTER).await.expect("a tick");

    assert_eq!(
        (tick.claimed, tick.next),
        (1, Some(minute(0))),
        "it looks again at once"
    );
    conn.execute("COMMIT").await.expect("it held nothing but a lock");
    let tick = planner.tick(WINDOW, None, DEAD_AFTER).await.expect("a tick");
    let far = minute(9_000) - WINDOW;
    assert_eq!(
        (tick.claimed, tick.next),
        (1, Some(far)),
        "and then when there is a reason to"
    );
    assert_eq!(told.lock().expect("no holder panics").len(), 2);
}

#[tokio::test]
async fn a_planner_goes_on_from_where_it_looked_until_it_is_told_to_start_over() {
    let stage = Stage::new().await;
    stage.plan("first", &[new("first", 1)]).await;
    let planner = planner(Arc::clone(&stage.store), stage.session, &Told::default());
    let tick = planner.tick(WINDOW, None, DEAD_AFTER).await.expect("a tick");
    assert_eq!(tick.claimed, 1);
    // Nobody claimed it when it was planned, and nobody says that it is there.
    stage.plan("behind", &[new("behind", 2)]).await;
    let window = i64::try_from(WINDOW.as_secs() / 60).expect("some minutes");
    stage.plan("ahead", &[new("ahead", window + 1)]).await;
    stage.pass(2);

    let tick = planner.tick(WINDOW, None, DEAD_AFTER).await.expect("a tick");
    assert_eq!(tick.claimed, 1, "what has come into the window");
    assert!(
        stage
            .trigger(&new("behind", 2))
            .await
            .expect("owed")
            .session
            .is_none()
    );

    // A change that began before that look, and was committed after it, left this to the planner.
    stage.plan("edge", &[new("edge", window + 2)]).await;
    let tick = planner.tick(WINDOW, None, DEAD_AFTER).await.expect("a tick");
    assert_eq!(tick.claimed, 1, "what the last look ended with");

    planner.start_over();
    let tick = planner.tick(WINDOW, None, DEAD_AFTER).await.expect("a tick");
    assert_eq!((tick.claimed, tick.next), (1, None));
}
