//! A node whose wall clock is an hour off, on a real PostgreSQL: it fires by the database's clock all the same, says so,
//! and is given nothing where another node knows what time it is.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use carillon::change::Incoming;
use carillon::channel::Channel;
use carillon::channel::outbox::OutboxChannel;
use carillon::clock::Clock;
use carillon::clock::DatabaseClock;
use carillon::clock::SystemClock;
use carillon::config::Settings;
use carillon::delivery::message::Renderer;
use carillon::metrics::Metrics;
use carillon::node::Live;
use carillon::node::Node;
use carillon::node::Parts;
use carillon::post::Seat;
use carillon::ready::Readiness;
use carillon::shutdown::Shutdown;
use carillon::store::EventKey;
use carillon::store::HistoryQuery;
use carillon::store::Report;
use carillon::store::RescueRules;
use carillon::store::Store;
use carillon::store::postgres::Options;
use carillon::store::postgres::PostgresStore;
use carillon::trigger::ChannelKind;
use carillon::trigger::OwnerId;
use chrono::DateTime;
use chrono::TimeDelta;
use chrono::Utc;

use crate::by_hand::owner;
use crate::harness::calendar::Calendar;
use crate::harness::eventually;
use crate::harness::now;
use crate::harness::postgres::Postgres;
use crate::harness::whole_second_in;

/// The machine's clock, and how far this one is ahead of it.
#[derive(Debug)]
struct Off(TimeDelta);

#[async_trait::async_trait]
impl Clock for Off {
    fn now(&self) -> DateTime<Utc> {
        SystemClock.now() + self.0
    }

    fn elapsed(&self) -> Duration {
        SystemClock.elapsed()
    }

    async fn sleep(&self, duration: Duration) {
        SystemClock.sleep(duration).await;
    }
}

struct Scene {
    node: Node,
    store: Arc<PostgresStore>,
    ready: Readiness,
    metrics: Arc<Metrics>,
    _postgres: Postgres,
}

impl Scene {
    async fn off_by(ahead: TimeDelta) -> Self {
        let postgres = Postgres::start().await;
        let database = postgres.database().await;
        let store = PostgresStore::open(&database, Options::default()).await;
        let store = Arc::new(store.expect("it opens"));
        let clock = Arc::new(DatabaseClock::over(Arc::new(Off(ahead))));
        let settings = Settings::load(None, []).expect("the defaults are right");
        let shared = Arc::clone(&clock) as Arc<dyn Clock>;
        let outbox: Arc<dyn Channel> = Arc::new(OutboxChannel::new(
            settings.letterhead.clone(),
            Arc::clone(&shared),
        ));
        let (ready, metrics) = (Readiness::new(), Arc::new(Metrics::new()));
        let parts = Parts {
            store: Arc::clone(&store) as Arc<dyn Store>,
            clock: shared,
            database_clock: Some(clock),
            channels: BTreeMap::from([(ChannelKind::Email, outbox)]),
            renderer: Arc::new(Renderer::new(None).expect("the built-in templates are right")),
            metrics: Arc::clone(&metrics),
            ready: ready.clone(),
            delivers: true,
            seat: Seat::default(),
            epoch: Arc::default(),
        };
        let node = Node::assemble(parts, "off", &Live::new(&settings)).await;
        let node = node.expect("a session begins");
        let anna = owner("anna", "UTC");
        node.changes.put_owner(anna).await.expect("the store works");
        Self {
            node,
            store,
            ready,
            metrics,
            _postgres: postgres,
        }
    }

    async fn remind(&self, due: DateTime<Utc>) {
        let at = EventKey {
            source: "test".to_owned(),
            key: "e".to_owned(),
            owner: OwnerId("anna".to_owned()),
        };
        let event = Calendar::far_away("e@example.org").alarm_at(due);
        let incoming = Incoming {
            at,
            version: None,
            ics: Some(event.text().into_bytes()),
        };
        let applied = self.node.changes.apply(vec![incoming]).await;
        assert_eq!(applied.expect("the store works")[0].planned, 1);
    }
}

#[tokio::test]
async fn a_node_whose_clock_is_wrong_fires_at_the_right_instant_and_says_that_it_is_wrong() {
    for (ahead, told) in [
        (TimeDelta::hours(1), " s ahead of the database's"),
        (TimeDelta::hours(-1), " s behind the database's"),
    ] {
        let scene = Scene::off_by(ahead).await;
        let reason = scene
            .ready
            .conditions(Duration::ZERO)
            .remove("clock")
            .expect("it was compared");
        let reason = reason.expect_err("it is wrong");
        assert!(reason.contains(told) && reason.contains("NTP"), "{reason}");
        let metrics = scene.metrics.render();
        let (_, offset) = metrics
            .split_once("\ncarillon_clock_offset_seconds ")
            .expect("it is counted");
        let offset: f64 = offset
            .lines()
            .next()
            .and_then(|it| it.parse().ok())
            .expect("a number");
        assert!((offset - ahead.as_seconds_f64()).abs() < 0.5, "{offset}");
        let due = whole_second_in(2);
        scene.remind(due).await;
        let shutdown = Shutdown::new();
        let Scene { node, store, .. } = scene;
        let running = node.run(Duration::ZERO, &shutdown);

        let query = HistoryQuery {
            limit: 1,
            ..HistoryQuery::default()
        };
        let (seen, row) = eventually("a history row", async || {
            let row = store.history(&query).await.expect("the store works").pop()?;
            Some((now(), row))
        })
        .await;

        assert!(seen >= due, "early: {seen} for {due}");
        assert!(seen - due < TimeDelta::seconds(10), "late: {seen} for {due}");
        let handed_over = row.handed_over_at.expect("it was sent");
        assert!(
            (handed_over - due).abs() < TimeDelta::seconds(10),
            "{handed_over}"
        );
        shutdown.soft.cancel();
        running.drain(&shutdown.hard).await;
    }
}

#[tokio::test]
async fn a_node_whose_clock_is_right_says_so() {
    let scene = Scene::off_by(TimeDelta::zero()).await;
    assert_eq!(scene.ready.conditions(Duration::ZERO)["clock"], Ok(()));
    let living = scene
        .store
        .living(Duration::from_mins(1))
        .await
        .expect("it answers");
    assert_eq!(living.len(), 1, "it may be given claims");
}

#[tokio::test]
async fn a_node_whose_clock_is_wrong_is_given_nothing_while_another_one_is_there() {
    let scene = Scene::off_by(TimeDelta::seconds(3)).await;
    let rules = RescueRules {
        dead_after: Duration::from_secs(5),
        overdue_wait: Duration::from_mins(5),
        send_within: Duration::from_mins(2),
        retry_in_doubt: Vec::new(),
    };
    let (other, _) = scene
        .store
        .begin_session("right", &rules)
        .await
        .expect("a session begins");
    assert!(
        scene
            .store
            .beat(other, Report::default())
            .await
            .expect("it answers")
    );
    // Beyond the look-ahead, so that the change leaves it to the planner.
    let due = whole_second_in(3_000);
    scene.remind(due).await;

    let tick = scene
        .node
        .planner
        .tick(Duration::from_hours(1), None, rules.dead_after);

    assert_eq!(tick.await.expect("it answers").claimed, 1);
    let living = scene
        .store
        .living(Duration::from_mins(1))
        .await
        .expect("it answers");
    assert_eq!(living.iter().map(|it| it.session).collect::<Vec<_>>(), [other]);
    let held = scene
        .store
        .held_by(other, due, None, 10)
        .await
        .expect("it answers");
    assert_eq!(held.len(), 1);
}
