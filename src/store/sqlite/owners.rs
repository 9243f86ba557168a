//! Owners, as the caller describes them.

use chrono::DateTime;
use chrono::Utc;
use secrecy::ExposeSecret;
use sqlx::Row;
use sqlx::Sqlite;
use sqlx::SqliteConnection;
use sqlx::query::Query;
use sqlx::sqlite::SqliteArguments;

use crate::store::DeadAddress;
use crate::store::Owner;
use crate::store::PlanMark;
use crate::store::Replaced;
use crate::store::StoreError;
use crate::store::WebhookNews;
use crate::store::row;
use crate::store::row::json;
use crate::store::row::list;
use crate::store::row::millis;
use crate::trigger::ChannelKind;
use crate::trigger::OwnerId;

/// Creates or replaces an owner.
pub async fn put(
    conn: &mut SqliteConnection,
    owner: &Owner,
    now: DateTime<Utc>,
) -> Result<Replaced, StoreError> {
    let before = read(conn, &owner.id).await?;
    let query = sqlx::query(
        "-- put_owner
         INSERT INTO owner (id, email, addresses, phone, time_zone, locale, enabled, muted, preferences, changed_at,
             webhook_url, webhook_secrets, link_epoch)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)
         ON CONFLICT (id) DO UPDATE SET
             email = excluded.email, addresses = excluded.addresses, phone = excluded.phone,
             time_zone = excluded.time_zone, locale = excluded.locale, enabled = excluded.enabled,
             muted = excluded.muted, preferences = excluded.preferences, changed_at = excluded.changed_at,
             webhook_url = excluded.webhook_url, webhook_failing_since = NULL, webhook_disabled = NULL,
             email_dead_until = NULL, email_dead_says = NULL,
             webhook_secrets = coalesce(excluded.webhook_secrets, owner.webhook_secrets),
             link_epoch = CASE
                 WHEN (owner.email, owner.webhook_url, owner.enabled)
                     IS NOT (excluded.email, excluded.webhook_url, excluded.enabled)
                 THEN max(excluded.link_epoch, owner.link_epoch + 1) ELSE owner.link_epoch END,
             plan_asked = plan_asked + ((time_zone, email, addresses, preferences)
                 IS NOT (excluded.time_zone, excluded.email, excluded.addresses, excluded.preferences))
         RETURNING plan_asked, plan_done < plan_asked AS to_plan",
    );
    let row = with_values(query, owner, now).fetch_one(conn).await?;
    let mark = PlanMark(row.try_get("plan_asked")?);
    let to_plan = row.try_get::<bool, _>("to_plan")?.then_some(mark);
    Ok(Replaced { before, to_plan })
}

/// Creates an owner, unless there is one of that id.
pub async fn add(conn: &mut SqliteConnection, owner: &Owner, now: DateTime<Utc>) -> Result<bool, StoreError> {
    let query = sqlx::query(
        "-- add_owner
         INSERT INTO owner (id, email, addresses, phone, time_zone, locale, enabled, muted, preferences, changed_at,
             webhook_url, webhook_secrets, link_epoch)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)
         ON CONFLICT (id) DO NOTHING",
    );
    let done = with_values(query, owner, now).execute(conn).await?;
    Ok(done.rows_affected() == 1)
}

/// The query with what an owner's row has, in the order of its columns.
fn with_values<'q>(
    query: Query<'q, Sqlite, SqliteArguments>,
    owner: &'q Owner,
    now: DateTime<Utc>,
) -> Query<'q, Sqlite, SqliteArguments> {
    let muted: Vec<&str> = owner.muted.iter().copied().map(ChannelKind::as_str).collect();
    query
        .bind(&owner.id.0)
        .bind(&owner.email)
        .bind(list(&owner.addresses))
        .bind(&owner.phone)
        .bind(&owner.time_zone)
        .bind(&owner.locale)
        .bind(owner.enabled)
        .bind(list(&muted))
        .bind(json(&owner.preferences))
        .bind(millis(now))
        .bind(owner.webhook.as_ref().map(|webhook| &webhook.url))
        .bind(
            owner
                .webhook_secrets
                .as_ref()
                .map(|secrets| secrets.0.expose_secret()),
        )
        .bind(millis(now))
}

/// The link epoch of the owner of a trigger that waits or is in history, unless the owner is disabled.
pub async fn link_epoch(conn: &mut SqliteConnection, trigger: &[u8]) -> Result<Option<i64>, StoreError> {
    let found = sqlx::query_scalar(
        "-- link_epoch
         SELECT link_epoch FROM owner WHERE enabled AND id = (
             SELECT owner FROM delivery WHERE id = ?1
             UNION ALL SELECT owner FROM alarm_trigger WHERE id = ?1 LIMIT 1)",
    )
    .bind(trigger)
    .fetch_optional(conn)
    .await?;
    Ok(found)
}

/// Notes what was learnt of an owner's webhook, if that is news.
pub async fn webhook_news(
    conn: &mut SqliteConnection,
    id: &OwnerId,
    (url, news): (&str, WebhookNews<'_>),
    now: DateTime<Utc>,
) -> Result<bool, StoreError> {
    let query = match news {
        WebhookNews::Fails => sqlx::query(
            "-- webhook_news: fails
             UPDATE owner SET webhook_failing_since = ?3
             WHERE id = ?1 AND webhook_url = ?2 AND webhook_failing_since IS NULL",
        ),
        WebhookNews::Works => sqlx::query(
            "-- webhook_news: works
             UPDATE owner SET webhook_failing_since = NULL
             WHERE id = ?1 AND webhook_url = ?2 AND webhook_failing_since IS NOT NULL",
        ),
        WebhookNews::Gone(_) => sqlx::query(
            "-- webhook_news: gone
             UPDATE owner SET webhook_disabled = ?3
             WHERE id = ?1 AND webhook_url = ?2 AND webhook_disabled IS NULL",
        ),
        WebhookNews::Disabled(..) => sqlx::query(
            "-- webhook_news: disabled
             UPDATE owner SET webhook_disabled = ?3
             WHERE id = ?1 AND webhook_url = ?2 AND webhook_disabled IS NULL AND webhook_failing_since = ?4",
        ),
    };
    let query = query.bind(&id.0).bind(url);
    let query = match news {
        WebhookNews::Fails => query.bind(millis(now)),
        WebhookNews::Works => query,
        WebhookNews::Gone(reason) => query.bind(reason),
        WebhookNews::Disabled(since, reason) => query.bind(reason).bind(millis(since)),
    };
    Ok(query.execute(conn).await?.rows_affected() == 1)
}

/// Notes that an owner's address is dead, if that is news.
pub async fn address_died(
    conn: &mut SqliteConnection,
    id: &OwnerId,
    (email, dead): (&str, &DeadAddress),
    now: DateTime<Utc>,
) -> Result<bool, StoreError> {
    let done = sqlx::query(
        "-- address_died
         UPDATE owner SET email_dead_until = ?3, email_dead_says = ?4
         WHERE id = ?1 AND email = ?2 AND (email_dead_until IS NULL OR email_dead_until <= ?5)",
    )
    .bind(&id.0)
    .bind(email)
    .bind(millis(dead.until))
    .bind(&dead.says)
    .bind(millis(now))
    .execute(conn)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// Owners whose events must be planned again.
pub async fn to_plan(
    conn: &mut SqliteConnection,
    limit: u32,
) -> Result<Vec<(OwnerId, PlanMark)>, StoreError> {
    let rows = sqlx::query(
        "-- owners_to_plan
         SELECT id, plan_asked FROM owner WHERE plan_done < plan_asked ORDER BY id LIMIT ?1",
    )
    .bind(limit)
    .fetch_all(conn)
    .await?;
    rows.iter()
        .map(|row| Ok((OwnerId(row.try_get("id")?), PlanMark(row.try_get("plan_asked")?))))
        .collect()
}

/// Notes that an owner's events were planned again.
pub async fn planned(conn: &mut SqliteConnection, id: &OwnerId, mark: PlanMark) -> Result<(), StoreError> {
    sqlx::query(
        "-- owner_planned
         UPDATE owner SET plan_done = ?2 WHERE id = ?1 AND plan_done < ?2",
    )
    .bind(&id.0)
    .bind(mark.0)
    .execute(conn)
    .await?;
    Ok(())
}

/// Asks that everything of the owner of this trigger be planned again.
pub async fn ask_to_plan(conn: &mut SqliteConnection, trigger: &[u8]) -> Result<(), StoreError> {
    sqlx::query(
        "-- ask_to_plan
         UPDATE owner SET plan_asked = plan_asked + 1
         WHERE id = (SELECT owner FROM alarm_trigger WHERE id = ?1)",
    )
    .bind(trigger)
    .execute(conn)
    .await?;
    Ok(())
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
