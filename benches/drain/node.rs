//! The node that the bench drives: the shipped one, assembled in this process.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use carillon::change::ChangeHandler;
use carillon::change::ChangeResult;
use carillon::change::Incoming;
use carillon::change::alarm::NewAlarm;
use carillon::change::alarm::Order;
use carillon::change::alarm::Past;
use carillon::change::alarm::When;
use carillon::change::alarm::fresh_id;
use carillon::change::alarm::request_hash;
use carillon::channel::Channel;
use carillon::channel::email::EmailChannel;
use carillon::clock::Clock;
use carillon::clock::SystemClock;
use carillon::config::Settings;
use carillon::delivery::message::Renderer;
use carillon::metrics::Metrics;
use carillon::node::Live;
use carillon::node::Node;
use carillon::node::Parts;
use carillon::node::Running;
use carillon::post::Seat;
use carillon::ready::Readiness;
use carillon::shutdown::Shutdown;
use carillon::store::AlarmAt;
use carillon::store::AlarmTerms;
use carillon::store::EventKey;
use carillon::store::HistoryQuery;
use carillon::store::Owner;
use carillon::store::Store;
use carillon::store::postgres;
use carillon::store::postgres::PostgresStore;
use carillon::store::sqlite;
use carillon::store::sqlite::SqliteStore;
use carillon::trigger::ChannelKind;
use carillon::trigger::OwnerId;
use carillon::trigger::outcome::Outcome;
use carillon::trigger::preferences::Preferences;
use chrono::DateTime;
use chrono::TimeDelta;
use chrono::Utc;
use futures_util::StreamExt;
use futures_util::stream;
use tempfile::TempDir;

use crate::harness::postgres::Postgres;
use crate::harness::smtp_sink::SmtpSink;
use crate::relay::NothingChannel;
use crate::relay::Way;

/// The database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Base {
    /// In a file.
    Sqlite,
    /// On a private server.
    Postgres,
}

/// What a node is asked to deliver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Load {
    /// An event with one alarm.
    Event,
    /// An event of every day with one alarm: each delivery plans the next one.
    DailyEvent,
    /// A stand-alone alarm that fires once.
    Alarm,
}

/// Callers that create stand-alone alarms at the same time.
const CALLERS: usize = 32;

/// People among whom the events are spread.
const OWNERS: usize = 200;

/// Events in one batch of changes.
const BATCH: usize = 500;

/// Events by which the speed of the machine is guessed.
const PROBE: usize = 1_000;

/// History rows in one page.
const PAGE: u32 = 500;

/// A node on a database of its own.
pub struct BenchNode {
    store: Arc<dyn Store>,
    changes: ChangeHandler,
    running: Running,
    shutdown: Shutdown,
    _sink: Option<SmtpSink>,
    folder: Option<TempDir>,
    /// Last: the node goes before its database.
    server: Option<Postgres>,
}

impl BenchNode {
    /// Starts a node that sends this way, on a database of its own.
    pub async fn start(base: Base, way: Way) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let (store, server) = open(base, folder.path()).await;
        let mut node = Self::start_on(store, way).await;
        node.folder = Some(folder);
        node.server = server;
        node
    }

    /// Starts a node that sends this way, on this store.
    pub async fn start_on(store: Arc<dyn Store>, way: Way) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let sink = match way {
            Way::Nothing => None,
            Way::SmtpSink => Some(SmtpSink::start(&[]).await),
        };
        let settings = settings(sink.as_ref());
        let channel: Arc<dyn Channel> = if settings.relays.is_empty() {
            Arc::new(NothingChannel)
        } else {
            let (letterhead, relays) = (settings.letterhead.clone(), settings.relays.clone());
            let channel = EmailChannel::new(letterhead, relays, Arc::clone(&clock));
            Arc::new(channel.expect("no TLS is asked for"))
        };
        let parts = Parts {
            store: Arc::clone(&store),
            clock,
            database_clock: None,
            channels: BTreeMap::from([(ChannelKind::Email, channel)]),
            renderer: Arc::new(Renderer::new(None).expect("the built-in templates are right")),
            metrics: Arc::new(Metrics::new()),
            ready: Readiness::new(),
            delivers: true,
            seat: Seat::default(),
            epoch: Arc::default(),
        };
        let live = Live::new(&settings);
        let node = Node::assemble(parts, "bench", &live)
            .await
            .expect("a new database has no session");
        let shutdown = Shutdown::new();
        let changes = node.changes.clone();
        let running = node.run(Duration::ZERO, &shutdown);
        let bench = Self {
            store,
            changes,
            running,
            shutdown,
            _sink: sink,
            folder: None,
            server: None,
        };
        bench.put_owners().await;
        bench
    }

    /// Pushes `count` events or alarms of this kind; each is due at the instant that `at` names for its index.
    pub async fn push(&self, load: Load, count: usize, at: impl Fn(usize) -> DateTime<Utc>) {
        self.push_named("event", load, count, at).await;
    }

    /// An instant by which so many events can be pushed: a few are, and timed.
    pub async fn instant_after(&self, load: Load, count: usize) -> DateTime<Utc> {
        let began = SystemClock.elapsed();
        let far = SystemClock.now() + TimeDelta::days(300);
        self.push_named("probe", load, PROBE, |_| far).await;
        let each =
            SystemClock.elapsed().saturating_sub(began) / u32::try_from(PROBE).expect("a small number");
        let needed = each * u32::try_from(count).expect("a small number") * 4 + Duration::from_secs(2);
        let instant = SystemClock.now() + needed;
        DateTime::from_timestamp(instant.timestamp() + 1, 0).expect("the present is in range")
    }

    /// Waits until nothing that was due by `until` is owed any more.
    pub async fn drained(&self, until: DateTime<Utc>) {
        loop {
            let backlog = self.store.backlog(until, 1).await.expect("the store answers");
            if backlog.planned + backlog.claimed == 0 {
                return;
            }
            SystemClock.sleep(Duration::from_millis(5)).await;
        }
    }

    /// The promised instant and that of the hand-over of everything that was sent.
    pub async fn deliveries(&self) -> Vec<(DateTime<Utc>, DateTime<Utc>)> {
        let mut found = Vec::new();
        let mut query = HistoryQuery {
            outcome: Some(Outcome::Sent),
            limit: PAGE,
            ..HistoryQuery::default()
        };
        loop {
            let page = self.store.history(&query).await.expect("the store answers");
            let Some(last) = page.last() else {
                return found;
            };
            query.after = Some((last.recorded_at, last.id));
            let instants =
                |row: &carillon::store::Delivery| Some((row.place.trigger_at, row.handed_over_at?));
            found.extend(page.iter().filter_map(instants));
        }
    }

    /// Creates stand-alone alarms one by one, as callers of the API do.
    async fn create_alarms(&self, name: &str, count: usize, at: impl Fn(usize) -> DateTime<Utc>) {
        let orders = (0..count).map(|index| alarm(name, index, at(index)));
        let created = stream::iter(orders).map(|(at, new)| async {
            let order = Order::Create(Box::new(new));
            self.changes.order_alarm(at, order, None).await
        });
        let created: Vec<_> = created.buffer_unordered(CALLERS).collect().await;
        for altered in created {
            let altered = altered.expect("the store answers");
            assert!(altered.refusal.is_none(), "{:?}", altered.refusal);
        }
    }

    /// Stops it.
    pub async fn stop(self) {
        self.shutdown.drain();
        self.running.drain(&self.shutdown.hard).await;
    }

    async fn put_owners(&self) {
        for index in 0..OWNERS {
            let owner = Owner {
                id: owner(index),
                email: Some(format!("person{index}@example.org")),
                email_dead: None,
                webhook_secrets: None,
                link_epoch: 0,
                addresses: Vec::new(),
                phone: None,
                webhook: None,
                time_zone: "Europe/Berlin".to_owned(),
                locale: "en".to_owned(),
                enabled: true,
                muted: Vec::new(),
                preferences: Preferences::default(),
            };
            self.changes.put_owner(owner).await.expect("the store answers");
        }
    }

    async fn push_named(&self, name: &str, load: Load, count: usize, at: impl Fn(usize) -> DateTime<Utc>) {
        if load == Load::Alarm {
            return self.create_alarms(name, count, at).await;
        }
        let indices: Vec<usize> = (0..count).collect();
        for batch in indices.chunks(BATCH) {
            let incoming = batch
                .iter()
                .map(|index| incoming(name, load, *index, at(*index)))
                .collect();
            let answers = self.changes.apply(incoming).await.expect("the store answers");
            assert!(
                answers
                    .iter()
                    .all(|answer| answer.result == ChangeResult::Applied),
                "{:?}",
                answers[0]
            );
        }
    }
}

async fn open(base: Base, folder: &Path) -> (Arc<dyn Store>, Option<Postgres>) {
    match base {
        Base::Sqlite => {
            let path = folder.join("bench.db");
            let store = SqliteStore::open(&path, Arc::new(SystemClock), sqlite::Options::default()).await;
            (Arc::new(store.expect("a new database can be made")), None)
        }
        Base::Postgres => {
            // As Debian ships it: what is committed is on the disk.
            let server = Postgres::start_with(&["shared_buffers=512MB", "max_wal_size=4GB"]).await;
            let url = server.database().await;
            let store = PostgresStore::open(&url, postgres::Options::default()).await;
            (Arc::new(store.expect("a new database can be made")), Some(server))
        }
    }
}

fn settings(sink: Option<&SmtpSink>) -> Settings {
    let relay = sink.map(|sink| {
        [
            ("CARILLON__CHANNELS__EMAIL__SMTP__HOST", "127.0.0.1".to_owned()),
            ("CARILLON__CHANNELS__EMAIL__SMTP__PORT", sink.port.to_string()),
            ("CARILLON__CHANNELS__EMAIL__SMTP__TLS", "none".to_owned()),
            (
                "CARILLON__CHANNELS__EMAIL__FROM",
                "calendar@carillon.test".to_owned(),
            ),
        ]
    });
    let environment = relay
        .into_iter()
        .flatten()
        .map(|(key, value)| (key.to_owned(), value));
    Settings::load(None, environment).unwrap_or_else(|complaints| panic!("{complaints:?}"))
}

fn owner(index: usize) -> OwnerId {
    OwnerId(format!("person{}", index % OWNERS))
}

/// An event that starts a quarter of an hour after its alarm.
fn incoming(name: &str, load: Load, index: usize, due: DateTime<Utc>) -> Incoming {
    let start = due + TimeDelta::minutes(15);
    let rule = match load {
        Load::DailyEvent => "RRULE:FREQ=DAILY\r\n",
        Load::Event | Load::Alarm => "",
    };
    let ics = format!(
        "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//Example//Bench//EN\r\nBEGIN:VEVENT\r\nUID:{name}{index}@example.org\r\n\
         DTSTAMP:20261101T120000Z\r\nDTSTART:{}\r\n{rule}DURATION:PT1H\r\nSUMMARY:Meeting {index}\r\nLOCATION:Room {index}\r\n\
         BEGIN:VALARM\r\nACTION:EMAIL\r\nTRIGGER:-PT15M\r\nSUMMARY:Reminder\r\nDESCRIPTION:Reminder\r\nEND:VALARM\r\n\
         END:VEVENT\r\nEND:VCALENDAR\r\n",
        start.format("%Y%m%dT%H%M%SZ")
    );
    Incoming {
        at: EventKey {
            source: "bench".to_owned(),
            key: format!("{name}{index}"),
            owner: owner(index),
        },
        version: None,
        ics: Some(ics.into_bytes()),
    }
}

/// An alarm that fires once.
fn alarm(name: &str, index: usize, due: DateTime<Utc>) -> (AlarmAt, NewAlarm) {
    let at = AlarmAt {
        owner: owner(index),
        id: fresh_id().expect("the system has random numbers"),
        key: None,
        request: None,
    };
    let new = NewAlarm {
        when: When::At(due),
        past: Past::Reject,
        channel: ChannelKind::Email,
        terms: AlarmTerms {
            label: format!("Meeting {index}"),
            ..AlarmTerms::default()
        },
        payload: None,
        request_hash: request_hash(&format!("{name}{index}")),
    };
    (at, new)
}
