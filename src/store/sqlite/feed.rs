//! What happens to stand-alone alarms, in order.

use sqlx::SqliteConnection;

use crate::store::AlarmChange;
use crate::store::AlarmFeed;
use crate::store::FiringCount;
use crate::store::StoreError;
use crate::store::feed;
use crate::store::row::list;
use crate::store::sqlite::SqliteStore;
use crate::trigger::OwnerId;

#[async_trait::async_trait]
impl AlarmFeed for SqliteStore {
    async fn alarm_changes(
        &self,
        owner: &OwnerId,
        after: u64,
        limit: u32,
    ) -> Result<Vec<AlarmChange>, StoreError> {
        changes(&mut *self.reader.acquire().await?, owner, after, limit).await
    }

    async fn last_changes(&self, owners: &[OwnerId]) -> Result<Vec<(OwnerId, u64)>, StoreError> {
        last(&mut *self.reader.acquire().await?, owners).await
    }

    async fn firing_counts(&self, owner: &OwnerId) -> Result<Vec<FiringCount>, StoreError> {
        counts(&mut *self.reader.acquire().await?, owner).await
    }
}

async fn changes(
    conn: &mut SqliteConnection,
    owner: &OwnerId,
    after: u64,
    limit: u32,
) -> Result<Vec<AlarmChange>, StoreError> {
    let rows = sqlx::query(
        "-- alarm_changes
         SELECT c.number, c.at, c.alarm_id, c.what, c.channel, iif(c.trigger_id IS NULL, NULL, lower(hex(c.trigger_id))) AS firing,
             c.scheduled_for, c.attempts, c.detail, s.terms
         FROM alarm_change AS c LEFT JOIN standalone_alarm AS s ON s.owner = c.owner AND s.id = c.alarm_id
         WHERE c.owner = ?1 AND c.number > ?2 ORDER BY c.number LIMIT ?3",
    )
    .bind(&owner.0)
    .bind(i64::try_from(after).unwrap_or(i64::MAX))
    .bind(limit)
    .fetch_all(conn)
    .await?;
    rows.iter().map(feed::change).collect()
}

async fn last(conn: &mut SqliteConnection, owners: &[OwnerId]) -> Result<Vec<(OwnerId, u64)>, StoreError> {
    let names: Vec<&str> = owners.iter().map(|owner| owner.0.as_str()).collect();
    let rows = sqlx::query(
        "-- last_changes
         SELECT owner, last FROM alarm_feed WHERE owner IN (SELECT value FROM json_each(?1))",
    )
    .bind(list(&names))
    .fetch_all(conn)
    .await?;
    rows.iter().map(feed::last).collect()
}

async fn counts(conn: &mut SqliteConnection, owner: &OwnerId) -> Result<Vec<FiringCount>, StoreError> {
    let rows = sqlx::query(
        "-- firing_counts
         SELECT channel, target, outcome, amount FROM firing_count WHERE owner = ?1 ORDER BY channel, target, outcome",
    )
    .bind(&owner.0)
    .fetch_all(conn)
    .await?;
    rows.iter().map(feed::count).collect()
}
