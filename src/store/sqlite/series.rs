//! Stand-alone series that go on.

use sqlx::Row;
use sqlx::SqliteConnection;

use crate::store::LiveSeries;
use crate::store::StoreError;
use crate::store::sqlite::SqliteStore;
use crate::trigger::AlarmId;
use crate::trigger::OwnerId;

#[async_trait::async_trait]
impl LiveSeries for SqliteStore {
    async fn live_series(
        &self,
        owner: Option<&OwnerId>,
        after: Option<&(OwnerId, AlarmId)>,
        limit: u32,
    ) -> Result<Vec<(OwnerId, AlarmId)>, StoreError> {
        page(&mut *self.reader.acquire().await?, owner, after, limit).await
    }
}

async fn page(
    conn: &mut SqliteConnection,
    owner: Option<&OwnerId>,
    after: Option<&(OwnerId, AlarmId)>,
    limit: u32,
) -> Result<Vec<(OwnerId, AlarmId)>, StoreError> {
    let of_everybody = "-- live_series
         SELECT owner, id FROM standalone_alarm
         WHERE (owner, id) > (?1, ?2) AND kind = 'cron' AND status = 'active' AND NOT paused
         ORDER BY owner, id LIMIT ?3";
    let of_one = "-- live_series: of one owner
         SELECT owner, id FROM standalone_alarm
         WHERE owner = ?4 AND (owner, id) > (?1, ?2) AND kind = 'cron' AND status = 'active' AND NOT paused
         ORDER BY owner, id LIMIT ?3";
    let mut query = sqlx::query(if owner.is_some() { of_one } else { of_everybody })
        .bind(after.map_or("", |(owner, _)| owner.0.as_str()))
        .bind(after.map_or("", |(_, id)| id.0.as_str()))
        .bind(limit);
    if let Some(owner) = owner {
        query = query.bind(&owner.0);
    }
    let rows = query.fetch_all(conn).await?;
    rows.iter()
        .map(|row| Ok((OwnerId(row.try_get("owner")?), AlarmId(row.try_get("id")?))))
        .collect()
}
