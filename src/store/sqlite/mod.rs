//! The store in one file, for one process: SQLite in WAL mode, every commit on disk before it is answered.
//!
//! One connection writes, under `BEGIN IMMEDIATE`; whoever wants to write waits for it in order. A few connections
//! read, each a consistent snapshot. Whoever opens the store holds a [`lock`] beside it, so a second process is refused
//! instead of fighting over claims. The clock by which claims are judged is the one given at [`SqliteStore::open`],
//! read after the writer was reached.
//!
//! A crash loses what was not committed, which is what nobody was told. A crash in the middle of a migration leaves the
//! schema before it: each migration is one transaction together with the note that it was done.

mod addressees;
mod alarms;
mod answers;
mod changes;
mod claims;
mod edits;
mod epochs;
mod feed;
mod file;
mod fire;
mod firings;
mod groups;
mod ledger;
mod limits;
mod lock;
mod open;
mod owners;
mod reading;
mod reports;
mod rescue;
mod room;
mod series;
mod sessions;
mod settle;
mod tokens;
mod upkeep;

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use chrono::DateTime;
use chrono::Utc;
use sqlx::Sqlite;
use sqlx::SqlitePool;
use sqlx::Transaction;

use crate::clock::Clock;
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
use crate::store::Room;
use crate::store::Settled;
use crate::store::Settlement;
use crate::store::Standalone;
use crate::store::Store;
use crate::store::StoreError;
use crate::store::WebhookNews;
use crate::store::group::Unreadable;
use crate::store::judged::Attempt;
use crate::store::page::Page;
use crate::store::sqlite::file::DatabaseFile;
use crate::store::sqlite::room::RoomCheck;
use crate::trigger::AlarmId;
use crate::trigger::AttemptToken;
use crate::trigger::ChannelKind;
use crate::trigger::OwnerId;
use crate::trigger::SessionId;
use crate::trigger::TriggerId;

pub use file::mark_file;
pub use open::Options;
pub use open::known_schema_version;
pub use open::schema_version;

/// The store in one file.
#[derive(Debug)]
pub struct SqliteStore {
    writer: SqlitePool,
    reader: SqlitePool,
    clock: Arc<dyn Clock>,
    room: RoomCheck,
    file: DatabaseFile,
    /// Held as long as the store is open; none where another process may hold it meanwhile.
    _lock: Option<File>,
}

impl SqliteStore {
    async fn begin(&self) -> Result<Transaction<'static, Sqlite>, StoreError> {
        // Nothing is written into a file that no later start will find.
        self.file.check()?;
        Ok(self.writer.begin_with("BEGIN IMMEDIATE").await?)
    }

    async fn snapshot(&self) -> Result<Transaction<'static, Sqlite>, StoreError> {
        Ok(self.reader.begin().await?)
    }
}

#[async_trait::async_trait]
impl Store for SqliteStore {
    async fn now(&self) -> Result<DateTime<Utc>, StoreError> {
        Ok(self.clock.now())
    }

    async fn begin_session(
        &self,
        node: &str,
        rules: &RescueRules,
    ) -> Result<(SessionId, Rescued), StoreError> {
        let mut tx = self.begin().await?;
        let begun = sessions::begin(&mut tx, node, rules, self.clock.now()).await?;
        tx.commit().await?;
        Ok(begun)
    }

    async fn beat(&self, session: SessionId, says: Report) -> Result<bool, StoreError> {
        let mut tx = self.begin().await?;
        let lives = sessions::beat(&mut tx, session, says, self.clock.now()).await?;
        tx.commit().await?;
        Ok(lives)
    }

    async fn living(&self, dead_after: Duration) -> Result<Vec<Living>, StoreError> {
        sessions::living(&mut *self.reader.acquire().await?, self.clock.now() - dead_after).await
    }

    async fn give_back(&self, session: SessionId) -> Result<u64, StoreError> {
        let mut tx = self.begin().await?;
        let given_back = sessions::give_back(&mut tx, session).await?;
        tx.commit().await?;
        Ok(given_back)
    }

    async fn end_session(&self, session: SessionId) -> Result<u64, StoreError> {
        let mut tx = self.begin().await?;
        let given_back = sessions::end(&mut tx, session).await?;
        tx.commit().await?;
        Ok(given_back)
    }

    async fn put_owner(&self, owner: &Owner) -> Result<Replaced, StoreError> {
        self.room.check()?;
        let mut tx = self.begin().await?;
        let replaced = owners::put(&mut tx, owner, self.clock.now()).await?;
        tx.commit().await?;
        Ok(replaced)
    }

    async fn add_owner(&self, owner: &Owner) -> Result<bool, StoreError> {
        let mut tx = self.begin().await?;
        let added = owners::add(&mut tx, owner, self.clock.now()).await?;
        tx.commit().await?;
        Ok(added)
    }

    async fn owner(&self, id: &OwnerId) -> Result<Option<Owner>, StoreError> {
        owners::read(&mut *self.reader.acquire().await?, id).await
    }

    async fn webhook_news(&self, id: &OwnerId, url: &str, news: WebhookNews<'_>) -> Result<bool, StoreError> {
        let mut tx = self.begin().await?;
        let is_news = owners::webhook_news(&mut tx, id, (url, news), self.clock.now()).await?;
        tx.commit().await?;
        Ok(is_news)
    }

    async fn address_died(&self, id: &OwnerId, email: &str, dead: &DeadAddress) -> Result<bool, StoreError> {
        let mut tx = self.begin().await?;
        let is_news = owners::address_died(&mut tx, id, (email, dead), self.clock.now()).await?;
        tx.commit().await?;
        Ok(is_news)
    }

    async fn owners_to_plan(&self, limit: u32) -> Result<Vec<(OwnerId, PlanMark)>, StoreError> {
        owners::to_plan(&mut *self.reader.acquire().await?, limit).await
    }

    async fn owner_planned(&self, id: &OwnerId, mark: PlanMark) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        owners::planned(&mut tx, id, mark).await?;
        tx.commit().await?;
        Ok(())
    }

    async fn change(
        &self,
        changes: &[Change],
        editor: &dyn Editor,
        near: Option<NearClaim>,
    ) -> Result<Vec<Result<Changed, StoreError>>, StoreError> {
        self.room.check()?;
        let mut tx = self.begin().await?;
        let results = changes::change(&mut tx, changes, editor, near, self.clock.now()).await?;
        tx.commit().await?;
        Ok(results)
    }

    async fn edit_groups(
        &self,
        owner: Option<&OwnerId>,
        after: Option<(OwnerId, String)>,
        limit: u32,
        editor: &dyn Editor,
        near: Option<NearClaim>,
    ) -> Result<(Changed, Option<(OwnerId, String)>), StoreError> {
        let mut tx = self.begin().await?;
        let page = changes::page(&mut tx, owner, after.as_ref(), limit).await?;
        let changed = changes::edit_page(&mut tx, &page, editor, near, self.clock.now()).await?;
        tx.commit().await?;
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
        let mut tx = self.begin().await?;
        let changed = answers::answer(&mut tx, (key, answering), editor, near, self.clock.now()).await?;
        tx.commit().await?;
        Ok(changed)
    }

    async fn copy(&self, at: &EventKey) -> Result<Option<EventCopy>, StoreError> {
        reading::copy(&mut *self.reader.acquire().await?, at).await
    }

    async fn holders(
        &self,
        source: &str,
        key: &str,
        after: Option<&OwnerId>,
        limit: u32,
    ) -> Result<Vec<OwnerId>, StoreError> {
        reading::holders(&mut *self.reader.acquire().await?, source, key, after, limit).await
    }

    async fn group(&self, owner: &OwnerId, uid: &str) -> Result<Option<Group>, StoreError> {
        let mut snapshot = self.snapshot().await?;
        let keys = BTreeSet::from([(owner.clone(), uid.to_owned())]);
        let found = groups::load(&mut snapshot, &keys, Unreadable::Report, self.clock.now()).await?;
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
        self.room.check()?;
        let mut tx = self.begin().await?;
        let altered = alarms::alter(&mut tx, alarms, editor, near, self.clock.now()).await?;
        tx.commit().await?;
        Ok(altered)
    }

    async fn alarm(&self, owner: &OwnerId, id: &AlarmId) -> Result<Option<Standalone>, StoreError> {
        alarms::read(&mut *self.reader.acquire().await?, owner, id).await
    }

    async fn alarms(&self, query: &AlarmQuery) -> Result<Vec<Standalone>, StoreError> {
        alarms::list_alarms(&mut *self.reader.acquire().await?, query).await
    }

    async fn alarm_counts(&self, owner: &OwnerId) -> Result<Vec<AlarmCount>, StoreError> {
        alarms::counts(&mut *self.reader.acquire().await?, owner).await
    }

    async fn claim_due(
        &self,
        session: SessionId,
        until: DateTime<Utc>,
        after: Option<(DateTime<Utc>, TriggerId)>,
        limit: u32,
    ) -> Result<Vec<Claimed>, StoreError> {
        let mut tx = self.begin().await?;
        let page = Page { until, after, limit };
        let claims = claims::claim_due(&mut tx, session, page, self.clock.now()).await?;
        tx.commit().await?;
        Ok(claims)
    }

    async fn next_free_due(&self, after: DateTime<Utc>) -> Result<Option<DateTime<Utc>>, StoreError> {
        claims::next_free_due(&mut *self.reader.acquire().await?, after).await
    }

    async fn held_by(
        &self,
        session: SessionId,
        until: DateTime<Utc>,
        after: Option<(DateTime<Utc>, TriggerId)>,
        limit: u32,
    ) -> Result<Vec<Claimed>, StoreError> {
        let mut tx = self.begin().await?;
        let page = Page { until, after, limit };
        let held = claims::held_by(&mut tx, session, page, self.clock.now()).await?;
        tx.commit().await?;
        Ok(held)
    }

    async fn rescue(&self, rules: &RescueRules, limit: u32) -> Result<Rescued, StoreError> {
        let mut tx = self.begin().await?;
        let rescued = rescue::rescue(&mut tx, rules, limit, self.clock.now()).await?;
        tx.commit().await?;
        Ok(rescued)
    }

    async fn fire_check(
        &self,
        session: SessionId,
        claims: &[Claimed],
        token: AttemptToken,
        judge: &dyn Judge,
        near: Duration,
    ) -> Result<FireCheck, StoreError> {
        let mut tx = self.begin().await?;
        let attempt = Attempt {
            session,
            token,
            near,
            now: self.clock.now(),
        };
        let checked = fire::fire_check(&mut tx, claims, attempt, judge).await?;
        tx.commit().await?;
        Ok(checked)
    }

    async fn recall(&self, recall: Recall) -> Result<Recalled, StoreError> {
        let mut tx = self.begin().await?;
        let recalled = limits::recall(&mut tx, recall, self.clock.now()).await?;
        tx.commit().await?;
        Ok(recalled)
    }

    async fn settle(&self, settlements: &[Settlement]) -> Result<Vec<Settled>, StoreError> {
        let mut tx = self.begin().await?;
        let settled = settle::settle(&mut tx, settlements, self.clock.now()).await?;
        tx.commit().await?;
        Ok(settled)
    }

    async fn report(&self, notices: &[Notice]) -> Result<Vec<Noted>, StoreError> {
        let mut tx = self.begin().await?;
        let noted = reports::report(&mut tx, notices, self.clock.now()).await?;
        tx.commit().await?;
        Ok(noted)
    }

    async fn time_out(&self, limit: u32) -> Result<BTreeMap<ChannelKind, u64>, StoreError> {
        let mut tx = self.begin().await?;
        let given_up = reports::time_out(&mut tx, limit, self.clock.now()).await?;
        tx.commit().await?;
        Ok(given_up)
    }

    async fn history(&self, query: &HistoryQuery) -> Result<Vec<Delivery>, StoreError> {
        reading::history(&mut *self.reader.acquire().await?, query).await
    }

    async fn delivery(&self, id: TriggerId) -> Result<Option<Delivery>, StoreError> {
        reading::delivery(&mut *self.reader.acquire().await?, id).await
    }

    async fn outbox(
        &self,
        owner: Option<&OwnerId>,
        after: Option<(DateTime<Utc>, TriggerId)>,
        limit: u32,
    ) -> Result<Vec<OutboxEntry>, StoreError> {
        reading::outbox(&mut *self.reader.acquire().await?, owner, after, limit).await
    }

    async fn backlog(&self, until: DateTime<Utc>, limit: u32) -> Result<Backlog, StoreError> {
        let mut snapshot = self.snapshot().await?;
        reading::backlog(&mut snapshot, until, limit, self.clock.now()).await
    }

    async fn purge(&self, retention: &Retention) -> Result<u64, StoreError> {
        let mut tx = self.begin().await?;
        let gone = upkeep::purge(&mut tx, retention).await?;
        tx.commit().await?;
        Ok(gone)
    }

    async fn remembered(&self, name: &str) -> Result<Option<String>, StoreError> {
        reading::remembered(&mut *self.reader.acquire().await?, name).await
    }

    async fn remember(&self, name: &str, value: &str) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        upkeep::remember(&mut tx, name, value).await?;
        tx.commit().await?;
        Ok(())
    }

    async fn remember_first(&self, name: &str, value: &str) -> Result<String, StoreError> {
        let mut tx = self.begin().await?;
        let first = upkeep::remember_first(&mut tx, name, value).await?;
        tx.commit().await?;
        Ok(first)
    }

    fn room(&self) -> Option<Room> {
        self.room.read()
    }

    fn fenced(self: Arc<Self>, _fence: Option<Fence>) -> Arc<dyn Store> {
        self
    }

    async fn close(&self) {
        self.reader.close().await;
        self.writer.close().await;
    }
}
