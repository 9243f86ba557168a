//! The node that the bench drives: the shipped one, assembled in this process.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use carillon::change::ChangeHandler;
use carillon::change::ChangeResult;
use carillon::change::Incoming;
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
use tempfile::TempDir;

use crate::Base;
use crate::harness::postgres::Postgres;
use crate::harness::smtp_sink::SmtpSink;
use crate::relay::NothingChannel;
use crate::relay::Way;

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
    _folder: TempDir,
    /// Last: the node goes before its database.
    _server: Option<Postgres>,
}

impl BenchNode {
    /// Starts one on this database that sends this way.
    pub async fn start(base: Base, way: Way) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
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
        let (store, server) = open(base, folder.path(), &clock).await;
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
            _folder: folder,
            _server: server,
        };
        bench.put_owners().await;
        bench
    }

    /// Pushes so many events with one alarm each, at the instant that `at` names for its index.
    pub async fn push(&self, count: usize, at: impl Fn(usize) -> DateTime<Utc>) {
        self.push_named("event", count, at).await;
    }

    /// An instant by which so many events can be pushed: a few are, and timed.
    pub async fn instant_after(&self, count: usize) -> DateTime<Utc> {
        let began = SystemClock.elapsed();
        let far = SystemClock.now() + TimeDelta::days(300);
        self.push_named("probe", PROBE, |_| far).await;
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

    async fn push_named(&self, name: &str, count: usize, at: impl Fn(usize) -> DateTime<Utc>) {
        let indices: Vec<usize> = (0..count).collect();
        for batch in indices.chunks(BATCH) {
            let incoming = batch
                .iter()
                .map(|index| incoming(name, *index, at(*index)))
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

async fn open(base: Base, folder: &Path, clock: &Arc<dyn Clock>) -> (Arc<dyn Store>, Option<Postgres>) {
    match base {
        Base::Sqlite => {
            let path = folder.join("bench.db");
            let store = SqliteStore::open(&path, Arc::clone(clock), sqlite::Options::default()).await;
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
fn incoming(name: &str, index: usize, due: DateTime<Utc>) -> Incoming {
    let start = due + TimeDelta::minutes(15);
    let ics = format!(
        "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//Example//Bench//EN\r\nBEGIN:VEVENT\r\nUID:{name}{index}@example.org\r\n\
         DTSTAMP:20261101T120000Z\r\nDTSTART:{}\r\nDURATION:PT1H\r\nSUMMARY:Meeting {index}\r\nLOCATION:Room {index}\r\n\
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
