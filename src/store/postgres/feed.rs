//! What happens to stand-alone alarms, in order.

use sqlx::PgConnection;

use crate::store::AlarmChange;
use crate::store::AlarmFeed;
use crate::store::FiringCount;
use crate::store::StoreError;
use crate::store::feed;
use crate::store::postgres::PostgresStore;
use crate::store::postgres::columns::ids;
use crate::trigger::OwnerId;
use crate::trigger::TriggerId;

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

/// Takes the feeds of these owners, in their order, before anything is told in them: two transactions that tell of the same
/// owners wait for each other here, and not crosswise.
pub async fn hold<'a>(
    conn: &mut PgConnection,
    owners: impl Iterator<Item = &'a OwnerId>,
) -> Result<(), StoreError> {
    let owners: Vec<&str> = owners.map(|owner| owner.0.as_str()).collect();
    if owners.is_empty() {
        return Ok(());
    }
    sqlx::query(
        "-- alarm_feed: hold
         SELECT owner FROM alarm_feed WHERE owner = ANY($1) ORDER BY owner FOR NO KEY UPDATE",
    )
    .bind(owners)
    .execute(conn)
    .await?;
    Ok(())
}

/// As [`hold`], of the owners of these triggers as far as they are of stand-alone alarms.
pub async fn hold_of<'a>(
    conn: &mut PgConnection,
    triggers: impl Iterator<Item = &'a TriggerId>,
) -> Result<(), StoreError> {
    sqlx::query(
        "-- alarm_feed: hold those of triggers
         SELECT owner FROM alarm_feed WHERE owner = ANY(ARRAY(
             SELECT owner FROM alarm_trigger WHERE id = ANY($1) AND substr(event_uid, 1, 1) = ' '
             UNION SELECT owner FROM delivery WHERE id = ANY($1) AND substr(event_uid, 1, 1) = ' '))
         ORDER BY owner FOR NO KEY UPDATE",
    )
    .bind(ids(triggers))
    .execute(conn)
    .await?;
    Ok(())
}
