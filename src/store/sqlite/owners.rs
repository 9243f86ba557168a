//! Owners, as the caller describes them.

use chrono::DateTime;
use chrono::Utc;
use sqlx::SqliteConnection;

use crate::store::Owner;
use crate::store::StoreError;
use crate::store::row;
use crate::store::row::list;
use crate::store::row::millis;
use crate::trigger::ChannelKind;
use crate::trigger::OwnerId;

/// Creates or replaces an owner. Returns the one before.
pub async fn put(
    conn: &mut SqliteConnection,
    owner: &Owner,
    now: DateTime<Utc>,
) -> Result<Option<Owner>, StoreError> {
    let before = read(conn, &owner.id).await?;
    let muted: Vec<&str> = owner.muted.iter().copied().map(ChannelKind::as_str).collect();
    sqlx::query(
        "-- put_owner
         INSERT INTO owner (id, email, addresses, phone, time_zone, locale, enabled, muted, changed_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
         ON CONFLICT (id) DO UPDATE SET
             email = excluded.email, addresses = excluded.addresses, phone = excluded.phone,
             time_zone = excluded.time_zone, locale = excluded.locale, enabled = excluded.enabled,
             muted = excluded.muted, changed_at = excluded.changed_at",
    )
    .bind(&owner.id.0)
    .bind(&owner.email)
    .bind(list(&owner.addresses))
    .bind(&owner.phone)
    .bind(&owner.time_zone)
    .bind(&owner.locale)
    .bind(owner.enabled)
    .bind(list(&muted))
    .bind(millis(now))
    .execute(conn)
    .await?;
    Ok(before)
}

/// Reads an owner.
pub async fn read(conn: &mut SqliteConnection, id: &OwnerId) -> Result<Option<Owner>, StoreError> {
    let found = sqlx::query(
        "-- owner
         SELECT * FROM owner WHERE id = ?1",
    )
    .bind(&id.0)
    .fetch_optional(conn)
    .await?;
    found.as_ref().map(row::owner).transpose()
}
