//! What happens to stand-alone alarms, in order.

use sqlx::PgConnection;

use crate::store::AlarmChange;
use crate::store::AlarmFeed;
use crate::store::FiringCount;
use crate::store::StoreError;
use crate::store::feed;
use crate::store::postgres::PostgresStore;
use crate::trigger::OwnerId;

#[async_trait::async_trait]
impl AlarmFeed for PostgresStore {
    async fn alarm_changes(
        &self,
        owner: &OwnerId,
        after: u64,
        limit: u32,
    ) -> Result<Vec<AlarmChange>, StoreError> {
        repeating!(self, |conn| changes(conn, owner, after, limit).await)
    }

    async fn last_changes(&self, owners: &[OwnerId]) -> Result<Vec<(OwnerId, u64)>, StoreError> {
        repeating!(self, |conn| last(conn, owners).await)
    }

    async fn firing_counts(&self, owner: &OwnerId) -> Result<Vec<FiringCount>, StoreError> {
        repeating!(self, |conn| counts(conn, owner).await)
    }
}

async fn changes(
    conn: &mut PgConnection,
    owner: &OwnerId,
    after: u64,
    limit: u32,
) -> Result<Vec<AlarmChange>, StoreError> {
    let rows = sqlx::query(
        "-- alarm_changes
         SELECT c.number, c.at, c.alarm_id, c.what, c.channel, encode(c.trigger_id, 'hex') AS firing, c.scheduled_for,
             c.attempts, c.detail, s.terms
         FROM alarm_change AS c LEFT JOIN standalone_alarm AS s ON s.owner = c.owner AND s.id = c.alarm_id
         WHERE c.owner = $1 AND c.number > $2 ORDER BY c.number LIMIT $3",
    )
    .bind(&owner.0)
    .bind(i64::try_from(after).unwrap_or(i64::MAX))
    .bind(i64::from(limit))
    .fetch_all(conn)
    .await?;
    rows.iter().map(feed::change).collect()
}

async fn last(conn: &mut PgConnection, owners: &[OwnerId]) -> Result<Vec<(OwnerId, u64)>, StoreError> {
    let rows = sqlx::query(
        "-- last_changes
         SELECT owner, last FROM alarm_feed WHERE owner = ANY($1)",
    )
    .bind(owners.iter().map(|owner| owner.0.as_str()).collect::<Vec<_>>())
    .fetch_all(conn)
    .await?;
    rows.iter().map(feed::last).collect()
}

async fn counts(conn: &mut PgConnection, owner: &OwnerId) -> Result<Vec<FiringCount>, StoreError> {
    let rows = sqlx::query(
        "-- firing_counts
         SELECT channel, target, outcome, amount FROM firing_count WHERE owner = $1 ORDER BY channel, target, outcome",
    )
    .bind(&owner.0)
    .fetch_all(conn)
    .await?;
    rows.iter().map(feed::count).collect()
}
