//! The store of a cluster: PostgreSQL, which any number of nodes may share.
//!
//! Transactions are READ COMMITTED and lock what they decide about: the owner's row for everything of theirs, then
//! triggers in the order of their ids. What is locked is read again, so a decision is about what is there. Where the
//! order cannot be kept (a session is locked before or after its triggers, an owner after an unreadable one), the database
//! finds the deadlock. Work that it gives up, or whose connection is lost, is repeated a few times: reads, and
//! transactions, each of which may be, also where its commit was carried out and only the answer was lost.
//!
//! The clock by which claims are judged is the database's, asked as each transaction begins, so that nodes whose clocks
//! differ judge alike. What it is told may be as old as a lock was waited for, ten seconds at the most: nothing that is
//! decided by it is so fine but a sign of life, for which it is asked again.

#[macro_use]
mod tables;
#[macro_use]
mod transaction;

mod addressees;
mod alarms;
mod answers;
mod changes;
mod claims;
mod columns;
mod edits;
mod epochs;
mod feed;
mod fire;
mod firings;
mod groups;
mod ledger;
mod limits;
mod open;
mod options;
mod owners;
mod reading;
mod registry;
mod reports;
mod rescue;
mod series;
mod sessions;
mod settle;
mod split;
mod tokens;
mod upkeep;

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::time::Duration;

use chrono::DateTime;
use chrono::Utc;
use sqlx::PgConnection;
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;

use crate::store::AlarmAt;
use crate::store::AlarmCount;
use crate::store::AlarmEditor;
use crate::store::AlarmQuery;
use crate::store::Altered;
use crate::store::Answering;
use crate::store::Backlog;
use crate::store::Change;
use crate::store::Changed;
use crate::store::Claimed;
use crate::store::DeadAddress;
use crate::store::Delivery;
use crate::store::Editor;
use crate::store::EventCopy;
use crate::store::EventKey;
use crate::store::Fence;
use crate::store::FireCheck;
use crate::store::Group;
use crate::store::HistoryQuery;
use crate::store::Judge;
use crate::store::Living;
use crate::store::NearClaim;
use crate::store::Noted;
use crate::store::Notice;
use crate::store::OutboxEntry;
use crate::store::Owner;
use crate::store::PlanMark;
use crate::store::Recall;
use crate::store::Recalled;
use crate::store::Replaced;
use crate::store::Report;
use crate::store::RescueRules;
use crate::store::Rescued;
use crate::store::Retention;
use crate::store::Settled;
use crate::store::Settlement;
use crate::store::Standalone;
use crate::store::Store;
use crate::store::StoreError;
use crate::store::WebhookNews;
use crate::store::group::GroupKey;
use crate::store::group::Unreadable;
use crate::store::page::Page;
use crate::store::postgres::changes::Batch;
use crate::store::postgres::changes::Terms;
use crate::store::settling;
use crate::trigger::AlarmId;
use crate::trigger::AttemptToken;
use crate::trigger::ChannelKind;
use crate::trigger::OwnerId;
use crate::trigger::SessionId;
use crate::trigger::TriggerId;

pub use open::SESSION;
pub use open::known_schema_version;
pub use open::schema_version;
pub use options::Options;
pub use options::Time;
pub use registry::Charter;

/// The store in a PostgreSQL database.
pub struct PostgresStore {
    pool: PgPool,
    silence: Duration,
    time: Time,
    /// What each transaction shows, where it is a leader's.
    fence: Option<Fence>,
    /// How often work was interrupted and repeated.
    repeats: Arc<AtomicU64>,
    /// When a connection was last found silent, in milliseconds of the boot-time clock: older ones are given up as well.
    silent_at: Arc<AtomicU64>,
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore")
            .field("time", &self.time)
            .finish_non_exhaustive()
    }
}

impl PostgresStore {
    /// Opens the database at `url` and brings its schema up to date.
    ///
    /// # Errors
    ///
    /// [`StoreError::NewerSchema`] if a newer version wrote it; [`StoreError::Unavailable`], without the password, if it
    /// cannot be reached.
    pub async fn open(url: &str, options: Options) -> Result<Self, StoreError> {
        let connect = open::connection(url)?;
        let silent_at = Arc::new(AtomicU64::new(0));
        let suspected = Arc::clone(&silent_at);
        let pool = PgPoolOptions::new()
            .max_connections(options.connections.max(1))
            .acquire_timeout(options.acquire_timeout)
            .test_before_acquire(false)
            .before_acquire(move |_, connection| {
                let trusted = transaction::is_trusted(connection.age, suspected.load(Ordering::Relaxed));
                Box::pin(async move { trusted })
            })
            .connect_lazy_with(connect.clone().options(open::SESSION));
        let opened = open::migrate(&connect).await;
        opened.map_err(|error| open::about(&connect, error))?;
        Ok(Self {
            pool,
            silence: options.silence,
            time: options.time,
            fence: None,
            repeats: Arc::default(),
            silent_at,
        })
    }

    /// How many connections wait for work.
    #[must_use]
    pub fn idle_connections(&self) -> usize {
        self.pool.num_idle()
    }
}

#[async_trait::async_trait]
impl Store for PostgresStore {
    async fn now(&self) -> Result<DateTime<Utc>, StoreError> {
        repeating!(self, |conn| self.time.now(conn).await)
    }

    async fn begin_session(
        &self,
        node: &str,
        rules: &RescueRules,
    ) -> Result<(SessionId, Rescued), StoreError> {
        in_transaction!(self, |tx, now| sessions::begin(tx, node, rules, now))
    }

    async fn beat(&self, session: SessionId, says: Report) -> Result<bool, StoreError> {
        in_transaction!(self, |tx, _| sessions::beat(tx, session, says, &self.time))
    }

    async fn living(&self, dead_after: Duration) -> Result<Vec<Living>, StoreError> {
        repeating!(self, |conn| {
            let now = self.time.now(conn).await?;
            sessions::living(conn, now - dead_after).await
        })
    }

    async fn give_back(&self, session: SessionId) -> Result<u64, StoreError> {
        in_transaction!(self, |tx, _| sessions::give_back(tx, session))
    }

    async fn end_session(&self, session: SessionId) -> Result<u64, StoreError> {
        in_transaction!(self, |tx, _| sessions::end(tx, session))
    }

    async fn put_owner(&self, owner: &Owner) -> Result<Replaced, StoreError> {
        in_transaction!(self, |tx, now| owners::put(tx, owner, now))
    }

    async fn add_owner(&self, owner: &Owner) -> Result<bool, StoreError> {
        in_transaction!(self, |tx, now| owners::add(tx, owner, now))
    }

    async fn owner(&self, id: &OwnerId) -> Result<Option<Owner>, StoreError> {
        repeating!(self, |conn| owners::read(conn, id).await)
    }

    async fn webhook_news(&self, id: &OwnerId, url: &str, news: WebhookNews<'_>) -> Result<bool, StoreError> {
        in_transaction!(self, |tx, now| owners::webhook_news(tx, id, (url, news), now))
    }

    async fn address_died(&self, id: &OwnerId, email: &str, dead: &DeadAddress) -> Result<bool, StoreError> {
        in_transaction!(self, |tx, now| owners::address_died(tx, id, (email, dead), now))
    }

    async fn owners_to_plan(&self, limit: u32) -> Result<Vec<(OwnerId, PlanMark)>, StoreError> {
        repeating!(self, |conn| owners::to_plan(conn, limit).await)
    }

    async fn owner_planned(&self, id: &OwnerId, mark: PlanMark) -> Result<(), StoreError> {
        in_transaction!(self, |tx, _| owners::planned(tx, id, mark))
    }

    async fn change(
        &self,
        changes: &[Change],
        editor: &dyn Editor,
        near: Option<NearClaim>,
    ) -> Result<Vec<Result<Changed, StoreError>>, StoreError> {
        let mut spoilt = BTreeMap::new();
        // Ends: every further round leaves out at least one more group.
        loop {
            let spoilt_by_now = &spoilt;
            let batch = repeating!(self, |conn| {
                let mut transaction = sqlx::Connection::begin(conn).await?;
                let now = self.time.now(&mut transaction).await?;
                let terms = Terms {
                    editor,
                    near,
                    spoilt: spoilt_by_now,
                };
                let batch = changes::change(&mut transaction, changes, terms, now).await?;
                if matches!(batch, Batch::Done(_)) {
                    transaction.commit().await?;
                }
                Ok(batch)
            });
            match batch? {
                Batch::Done(results) => return Ok(results),
                Batch::Spoilt(groups) => spoilt.extend(groups),
            }
        }
    }

    async fn edit_groups(
        &self,
        owner: Option<&OwnerId>,
        after: Option<(OwnerId, String)>,
        limit: u32,
        editor: &dyn Editor,
        near: Option<NearClaim>,
    ) -> Result<(Changed, Option<(OwnerId, String)>), StoreError> {
        let page = repeating!(self, |conn| changes::page(conn, owner, after.as_ref(), limit)
            .await)?;
        let changed = in_transaction!(self, |tx, now| changes::edit_page(tx, &page, editor, near, now))?;
        let more = u32::try_from(page.len()) == Ok(limit);
        Ok((changed, page.into_iter().next_back().filter(|_| more)))
    }

    async fn answer(
        &self,
        key: &(OwnerId, String),
        answering: &Answering,
        editor: &dyn Editor,
        near: Option<NearClaim>,
    ) -> Result<Option<Changed>, StoreError> {
        in_transaction!(self, |tx, now| answers::answer(
            tx,
            (key, answering),
            editor,
            near,
            now
        ))
    }

    async fn copy(&self, at: &EventKey) -> Result<Option<EventCopy>, StoreError> {
        repeating!(self, |conn| reading::copy(conn, at).await)
    }

    async fn holders(
        &self,
        source: &str,
        key: &str,
        after: Option<&OwnerId>,
        limit: u32,
    ) -> Result<Vec<OwnerId>, StoreError> {
        repeating!(self, |conn| reading::holders(conn, source, key, after, limit)
            .await)
    }

    async fn group(&self, owner: &OwnerId, uid: &str) -> Result<Option<Group>, StoreError> {
        let keys: BTreeSet<GroupKey> = BTreeSet::from([(owner.clone(), uid.to_owned())]);
        let found = in_snapshot!(self, |tx, now| groups::load(tx, &keys, Unreadable::Report, now))?;
        let group = found.into_iter().next().map(|(_, group)| group).transpose()?;
        Ok(group.filter(|group| {
            !(group.copies.is_empty()
                && group.alarms.is_empty()
                && group.triggers.is_empty()
                && group.handed_over.is_empty())
        }))
    }

    async fn alter_alarms(
        &self,
        alarms: &[AlarmAt],
        editor: &dyn AlarmEditor,
        near: Option<NearClaim>,
    ) -> Result<Vec<Result<Altered, StoreError>>, StoreError> {
        in_transaction!(self, |tx, now| alarms::alter(tx, alarms, editor, near, now))
    }

    async fn alarm(&self, owner: &OwnerId, id: &AlarmId) -> Result<Option<Standalone>, StoreError> {
        repeating!(self, |conn| alarms::read(conn, owner, id).await)
    }

    async fn alarms(&self, query: &AlarmQuery) -> Result<Vec<Standalone>, StoreError> {
        repeating!(self, |conn| alarms::list_alarms(conn, query).await)
    }

    async fn alarm_counts(&self, owner: &OwnerId) -> Result<Vec<AlarmCount>, StoreError> {
        repeating!(self, |conn| alarms::counts(conn, owner).await)
    }

    async fn claim_due(
        &self,
        session: SessionId,
        until: DateTime<Utc>,
        after: Option<(DateTime<Utc>, TriggerId)>,
        limit: u32,
    ) -> Result<Vec<Claimed>, StoreError> {
        let page = Page { until, after, limit };
        in_transaction!(self, |tx, now| claims::claim_due(tx, session, page, now))
    }

    async fn next_free_due(&self, after: DateTime<Utc>) -> Result<Option<DateTime<Utc>>, StoreError> {
        repeating!(self, |conn| claims::next_free_due(conn, after).await)
    }

    async fn held_by(
        &self,
        session: SessionId,
        until: DateTime<Utc>,
        after: Option<(DateTime<Utc>, TriggerId)>,
        limit: u32,
    ) -> Result<Vec<Claimed>, StoreError> {
        let page = Page { until, after, limit };
        in_transaction!(self, |tx, now| claims::held_by(tx, session, page, now))
    }

    async fn rescue(&self, rules: &RescueRules, limit: u32) -> Result<Rescued, StoreError> {
        in_transaction!(self, |tx, now| rescue::rescue(tx, rules, limit, now))
    }

    async fn fire_check(
        &self,
        session: SessionId,
        claims: &[Claimed],
        token: AttemptToken,
        judge: &dyn Judge,
        near: Duration,
    ) -> Result<FireCheck, StoreError> {
        self.fire(claims, (session, token, near), judge).await
    }

    /// A batch that names a trigger twice is cut there, since the second settlement must see the first.
    async fn recall(&self, recall: Recall) -> Result<Recalled, StoreError> {
        in_transaction!(self, |tx, now| limits::recall(tx, recall, now))
    }

    async fn settle(&self, settlements: &[Settlement]) -> Result<Vec<Settled>, StoreError> {
        let mut settled = Vec::with_capacity(settlements.len());
        let mut rest = settlements;
        while !rest.is_empty() {
            let length = settling::distinct(rest);
            let (batch, later) = rest.split_at(length);
            settled.extend(self.settle_distinct(batch).await?);
            rest = later;
        }
        Ok(settled)
    }

    async fn report(&self, notices: &[Notice]) -> Result<Vec<Noted>, StoreError> {
        in_transaction!(self, |tx, now| reports::report(tx, notices, now))
    }

    async fn time_out(&self, limit: u32) -> Result<BTreeMap<ChannelKind, u64>, StoreError> {
        in_transaction!(self, |tx, now| reports::time_out(tx, limit, now))
    }

    async fn history(&self, query: &HistoryQuery) -> Result<Vec<Delivery>, StoreError> {
        repeating!(self, |conn| reading::history(conn, query).await)
    }

    async fn delivery(&self, id: TriggerId) -> Result<Option<Delivery>, StoreError> {
        repeating!(self, |conn| reading::delivery(conn, id).await)
    }

    async fn outbox(
        &self,
        owner: Option<&OwnerId>,
        after: Option<(DateTime<Utc>, TriggerId)>,
        limit: u32,
    ) -> Result<Vec<OutboxEntry>, StoreError> {
        repeating!(self, |conn| reading::outbox(conn, owner, after, limit).await)
    }

    async fn backlog(&self, until: DateTime<Utc>, limit: u32) -> Result<Backlog, StoreError> {
        in_snapshot!(self, |tx, now| reading::backlog(tx, until, limit, now))
    }

    async fn purge(&self, retention: &Retention) -> Result<u64, StoreError> {
        in_transaction!(self, |tx, _| upkeep::purge(tx, retention))
    }

    async fn remembered(&self, name: &str) -> Result<Option<String>, StoreError> {
        repeating!(self, |conn| upkeep::remembered(conn, name).await)
    }

    async fn remember(&self, name: &str, value: &str) -> Result<(), StoreError> {
        in_transaction!(self, |tx, _| upkeep::remember(tx, name, value))
    }

    async fn remember_first(&self, name: &str, value: &str) -> Result<String, StoreError> {
        in_transaction!(self, |tx, _| upkeep::remember_first(tx, name, value))
    }

    fn fenced(self: Arc<Self>, fence: Option<Fence>) -> Arc<dyn Store> {
        Arc::new(Self {
            pool: self.pool.clone(),
            silence: self.silence,
            time: self.time.clone(),
            fence,
            repeats: Arc::clone(&self.repeats),
            silent_at: Arc::clone(&self.silent_at),
        })
    }

    fn repeats(&self) -> u64 {
        self.repeats.load(Ordering::Relaxed)
    }

    async fn close(&self) {
        self.pool.close().await;
    }
}
