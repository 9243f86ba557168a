//! A node in this process whose time stands still until the test moves it: the real parts on a real store, driven
//! tick by tick.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use carillon::change::Answer;
use carillon::change::Incoming;
use carillon::channel::Channel;
use carillon::channel::outbox::OutboxChannel;
use carillon::clock::Clock;
use carillon::clock::ManualClock;
use carillon::config::Settings;
use carillon::delivery::message::Renderer;
use carillon::metrics::Metrics;
use carillon::node::Live;
use carillon::node::Node;
use carillon::node::Parts;
use carillon::post::Seat;
use carillon::ready::Readiness;
use carillon::store::Delivery;
use carillon::store::EventKey;
use carillon::store::HistoryQuery;
use carillon::store::Owner;
use carillon::store::Store;
use carillon::store::sqlite::Options;
use carillon::store::sqlite::SqliteStore;
use carillon::trigger::ChannelKind;
use carillon::trigger::OwnerId;
use carillon::trigger::preferences::Preferences;
use chrono::DateTime;
use chrono::TimeDelta;
use chrono::Utc;

/// A node driven by hand.
pub struct Hand {
    /// The time.
    pub clock: Arc<ManualClock>,
    /// The node.
    pub node: Node,
    period: TimeDelta,
    looked: DateTime<Utc>,
}

impl Hand {
    /// Starts a node on the database in `folder`, with further configuration as environment variables. Its messages
    /// stay in the outbox.
    pub async fn start(folder: &Path, clock: &Arc<ManualClock>, environment: &[(&str, &str)]) -> Self {
        Self::start_through(folder, clock, environment, None).await
    }

    /// The same with another way out than the outbox.
    pub async fn start_through(
        folder: &Path,
        clock: &Arc<ManualClock>,
        environment: &[(&str, &str)],
        channel: Option<Arc<dyn Channel>>,
    ) -> Self {
        let path = folder.join("carillon.db");
        let store = SqliteStore::open(&path, clock.clone(), Options::default())
            .await
            .expect("the store opens");
        Self::start_on(Arc::new(store), clock, environment, channel).await
    }

    /// The same on a store that is open.
    pub async fn start_on(
        store: Arc<dyn Store>,
        clock: &Arc<ManualClock>,
        environment: &[(&str, &str)],
        channel: Option<Arc<dyn Channel>>,
    ) -> Self {
        let environment = environment
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let settings = Settings::load(None, environment).expect("the test's settings are right");
        let shared_clock: Arc<dyn Clock> = clock.clone();
        let outbox = OutboxChannel::new(settings.letterhead.clone(), Arc::clone(&shared_clock));
        let channel = channel.unwrap_or_else(|| Arc::new(outbox));
        let parts = Parts {
            store,
            clock: shared_clock,
            database_clock: None,
            channels: BTreeMap::from([(ChannelKind::Email, channel)]),
            renderer: Arc::new(Renderer::new(None).expect("the built-in templates are right")),
            metrics: Arc::new(Metrics::new()),
            ready: Readiness::new(),
            delivers: true,
            seat: Seat::default(),
            epoch: Arc::default(),
        };
        let node = Node::assemble(parts, "local", &Live::new(&settings))
            .await
            .expect("a session begins");
        let period = TimeDelta::from_std(settings.worker.period).expect("a short period");
        Self {
            clock: Arc::clone(clock),
            node,
            period,
            looked: DateTime::UNIX_EPOCH,
        }
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.node.shared.store
    }

    /// Creates or replaces an owner with an address.
    pub async fn owner(&self, id: &str, time_zone: &str) {
        self.put_owner(owner(id, time_zone)).await;
    }

    /// Creates or replaces an owner.
    pub async fn put_owner(&self, owner: Owner) {
        self.node.changes.put_owner(owner).await.expect("the store works");
    }

    /// Sends one change, as its source would.
    pub async fn change(&self, key: &str, owner: &str, ics: impl Into<Option<String>>) -> Answer {
        let at = EventKey {
            source: "test".to_owned(),
            key: key.to_owned(),
            owner: OwnerId(owner.to_owned()),
        };
        let incoming = Incoming {
            at,
            version: None,
            ics: ics.into().map(String::into_bytes),
        };
        let answers = self
            .node
            .changes
            .apply(vec![incoming])
            .await
            .expect("the store works");
        answers.into_iter().next().expect("one answer for one change")
    }

    /// Does all that is due now: plans if the period has passed, fires, settles, until nothing is due.
    pub async fn settle_down(&mut self) {
        if self.clock.now() - self.looked >= self.period {
            self.node.planner.start_over();
            self.node.worker.plan_once(&self.node.planner).await;
            self.looked = self.clock.now();
        }
        loop {
            let mut fired = 0;
            for lane in &self.node.lanes {
                let permit = lane.permit().await;
                fired += lane.tick(permit).await;
            }
            self.node.shared.sends.close();
            self.node.shared.sends.wait().await;
            self.node.shared.sends.reopen();
            while !self.node.settler.is_idle() {
                self.node.settler.tick().await;
            }
            if fired == 0 {
                return;
            }
        }
    }

    /// Lets time pass, doing at each instant what is due then.
    pub async fn advance(&mut self, by: TimeDelta) {
        let end = self.clock.now() + by;
        self.settle_down().await;
        while self.clock.now() < end {
            let timer = self.node.shared.armed.next_due(ChannelKind::Email).unwrap_or(end);
            let next = timer.min(self.looked + self.period).clamp(self.clock.now(), end);
            self.clock
                .advance((next - self.clock.now()).to_std().unwrap_or_default());
            self.settle_down().await;
        }
    }

    /// What was recorded of an owner, oldest first.
    pub async fn history(&self, owner: &str) -> Vec<Delivery> {
        let query = HistoryQuery {
            owner: Some(OwnerId(owner.to_owned())),
            limit: 500,
            ..HistoryQuery::default()
        };
        let mut rows = self.store().history(&query).await.expect("the store works");
        rows.reverse();
        rows
    }
}

/// The instant of an RFC 3339 text.
pub fn instant(text: &str) -> DateTime<Utc> {
    DateTime::parse_from_rfc3339(text).expect("RFC 3339").to_utc()
}

/// An owner with an address.
pub fn owner(id: &str, time_zone: &str) -> Owner {
    Owner {
        id: OwnerId(id.to_owned()),
        email: Some(format!("{id}@example.com")),
        email_dead: None,
        webhook_secrets: None,
        link_epoch: 0,
        addresses: Vec::new(),
        phone: None,
        webhook: None,
        time_zone: time_zone.to_owned(),
        locale: "en".to_owned(),
        enabled: true,
        muted: Vec::new(),
        preferences: Preferences::default(),
    }
}
