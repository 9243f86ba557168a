//! The slots in the limits of owners.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use chrono::DateTime;
use chrono::Utc;
use sqlx::Row;
use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteRow;

use crate::store::Recall;
use crate::store::Recalled;
use crate::store::StoreError;
use crate::store::limit;
use crate::store::limit::Allowance;
use crate::store::limit::Allowances;
use crate::store::limit::Bounds;
use crate::store::limit::Latest;
use crate::store::limit::Own;
use crate::store::limit::Slot;
use crate::store::row::Columns;
use crate::store::row::all;
use crate::store::row::instants;
use crate::store::row::list;
use crate::store::row::millis;
use crate::trigger::AttemptToken;
use crate::trigger::ChannelKind;
use crate::trigger::OwnerId;
use crate::trigger::Trigger;
use crate::trigger::TriggerId;
use crate::trigger::limit::Limit;

/// What limits leave to the owners of these triggers.
pub async fn allowances(
    conn: &mut SqliteConnection,
    triggers: &[&Trigger],
    limits: &BTreeMap<ChannelKind, Limit>,
    now: DateTime<Utc>,
) -> Result<Allowances, StoreError> {
    let mut allowances = Allowances::default();
    for (channel, limit, of_channel) in limit::by_channel(triggers, limits) {
        let owners: BTreeSet<&OwnerId> = of_channel.iter().map(|trigger| &trigger.wish.owner).collect();
        let left = left(conn, channel, limit, &owners, now).await?;
        allowances
            .of
            .extend(left.into_iter().map(|(owner, left)| ((owner, channel), left)));
        allowances.own.extend(own(conn, limit, &of_channel, now).await?);
    }
    Ok(allowances)
}

async fn left(
    conn: &mut SqliteConnection,
    channel: ChannelKind,
    limit: &Limit,
    owners: &BTreeSet<&OwnerId>,
    now: DateTime<Utc>,
) -> Result<Vec<(OwnerId, Allowance)>, StoreError> {
    let bounds = Bounds::of(limit, now);
    let owners: Vec<&str> = owners.iter().map(|owner| owner.0.as_str()).collect();
    let rows = sqlx::query(
        "-- fire_check: limits
         SELECT j.value AS owner,
             (SELECT json_group_array(at) FROM (
                 SELECT s.at
                 FROM limit_slot AS s
                 WHERE s.owner = j.value AND s.channel = ?2 AND s.state = 'granted' AND s.at >= ?3
                 ORDER BY s.at DESC LIMIT ?5) AS head) AS granted,
             (SELECT json_group_array(at) FROM (
                 SELECT s.at
                 FROM limit_slot AS s
                 WHERE s.owner = j.value AND s.channel = ?2 AND s.state = 'spent' AND s.at >= ?4
                 ORDER BY s.at DESC LIMIT ?5) AS head) AS spent,
             (SELECT json_group_array(at) FROM (
                 SELECT s.at
                 FROM limit_slot AS s
                 WHERE s.owner = j.value AND s.channel = ?2 AND s.state = 'waiting' AND s.at >= ?3
                   AND EXISTS (SELECT 1 FROM alarm_trigger AS t WHERE t.id = s.id)
                 ORDER BY s.at DESC LIMIT ?5) AS head) AS waiting
         FROM json_each(?1) AS j",
    )
    .bind(list(&owners))
    .bind(channel.as_str())
    .bind(millis(bounds.granted_since))
    .bind(millis(bounds.spent_since))
    .bind(limit.amount)
    .fetch_all(conn)
    .await?;
    rows.iter()
        .map(|row| {
            let columns = Columns::new("limit_slot", "owner", row);
            let latest = |state: &str| columns.json::<Vec<i64>>(state).map(|it| instants(&it));
            let slots = Latest {
                granted: latest("granted")?,
                spent: latest("spent")?,
                waiting: latest("waiting")?,
            };
            let owner = OwnerId(row.try_get("owner")?);
            Ok((owner, Allowance::new(*limit, &slots, now)))
        })
        .collect()
}

/// The slots that the triggers have already.
async fn own(
    conn: &mut SqliteConnection,
    limit: &Limit,
    triggers: &[&Trigger],
    now: DateTime<Utc>,
) -> Result<Vec<(TriggerId, Own)>, StoreError> {
    let bounds = Bounds::of(limit, now);
    let names: Vec<String> = triggers.iter().map(|trigger| trigger.id.to_string()).collect();
    let rows = sqlx::query(
        "-- fire_check: slots
         SELECT id, state = 'waiting' AS waits FROM limit_slot
         WHERE id IN (SELECT unhex(value) FROM json_each(?1))
           AND (state = 'waiting' OR at >= ?3 OR (state = 'granted' AND at >= ?2))",
    )
    .bind(list(&names))
    .bind(millis(bounds.granted_since))
    .bind(millis(bounds.spent_since))
    .fetch_all(conn)
    .await?;
    rows.iter().map(limit::own).collect()
}

/// Writes what a fire-check granted and deferred.
pub async fn take(conn: &mut SqliteConnection, slots: &[Slot]) -> Result<(), StoreError> {
    if slots.is_empty() {
        return Ok(());
    }
    let listed: Vec<_> = slots
        .iter()
        .map(|slot| {
            let (owner, channel) = (&slot.key.0.0, slot.key.1.as_str());
            let token = slot.token.map(|token| token.0);
            (
                slot.id.to_string(),
                owner,
                channel,
                slot.state.as_str(),
                token,
                millis(slot.at),
            )
        })
        .collect();
    sqlx::query(
        "-- fire_check: take slots
         INSERT INTO limit_slot (id, owner, channel, state, token, at)
         SELECT unhex(value ->> 0), value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5
         FROM json_each(?1) WHERE true
         ON CONFLICT (id) DO UPDATE SET state = excluded.state, token = excluded.token, at = excluded.at",
    )
    .bind(list(&listed))
    .execute(conn)
    .await?;
    Ok(())
}

/// Takes the slots away that these waited for.
pub async fn release(conn: &mut SqliteConnection, released: &[TriggerId]) -> Result<(), StoreError> {
    if released.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = released.iter().map(TriggerId::to_string).collect();
    let done = sqlx::query(
        "-- fire_check: release slots
         DELETE FROM limit_slot
         WHERE state = 'waiting' AND id IN (SELECT unhex(value) FROM json_each(?1))",
    )
    .bind(list(&names))
    .execute(conn)
    .await?;
    all(done.rows_affected(), released.len(), "fire_check: release slots")
}

/// Notes that these were handed over by now.
pub async fn spend(
    conn: &mut SqliteConnection,
    spent: &[TriggerId],
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    if spent.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = spent.iter().map(TriggerId::to_string).collect();
    sqlx::query(
        "-- settle: spend slots
         UPDATE limit_slot SET state = 'spent', token = NULL, at = ?2
         WHERE id IN (SELECT unhex(value) FROM json_each(?1))",
    )
    .bind(list(&names))
    .bind(millis(now))
    .execute(conn)
    .await?;
    Ok(())
}

/// Gives back what attempts took that handed nothing over.
pub async fn give_back(
    conn: &mut SqliteConnection,
    attempts: &[(TriggerId, AttemptToken)],
) -> Result<(), StoreError> {
    if attempts.is_empty() {
        return Ok(());
    }
    let listed: Vec<_> = attempts
        .iter()
        .map(|(id, token)| (id.to_string(), token.0))
        .collect();
    sqlx::query(
        "-- settle: give slots back
         DELETE FROM limit_slot
         WHERE state = 'granted' AND (id, token) IN (SELECT unhex(value ->> 0), value ->> 1 FROM json_each(?1))",
    )
    .bind(list(&listed))
    .execute(conn)
    .await?;
    Ok(())
}

/// Makes due what waits for slots.
pub async fn recall(
    conn: &mut SqliteConnection,
    recall: Recall,
    now: DateTime<Utc>,
) -> Result<Recalled, StoreError> {
    let slots = waiting(conn, recall.from(now), recall.limit).await?;
    let rows = held_back(conn, recall, &slots).await?;
    let (found, mut recalled) = recall.plan(&rows);
    recalled.next = recall.next(&slots);
    let names: Vec<String> = found.iter().map(TriggerId::to_string).collect();
    let done = sqlx::query(
        "-- recall
         UPDATE alarm_trigger SET due_at = ?2
         WHERE id IN (SELECT unhex(value) FROM json_each(?1))
           AND (state = 'planned' OR (state = 'claimed' AND session = ?3))",
    )
    .bind(list(&names))
    .bind(millis(recall.due_at))
    .bind(recall.session.0)
    .execute(conn)
    .await?;
    all(done.rows_affected(), found.len(), "recall")?;
    Ok(recalled)
}

/// One page of slots.
async fn waiting(
    conn: &mut SqliteConnection,
    (at, id): (DateTime<Utc>, TriggerId),
    limit: u32,
) -> Result<Vec<(DateTime<Utc>, TriggerId)>, StoreError> {
    let rows = sqlx::query(
        "-- recall: slots
         SELECT id, at FROM limit_slot WHERE (at, id) > (?1, ?2) ORDER BY at, id LIMIT ?3",
    )
    .bind(millis(at))
    .bind(id.0.to_vec())
    .bind(limit)
    .fetch_all(conn)
    .await?;
    rows.iter().map(limit::slot).collect()
}

/// The triggers that wait for these slots, as far as they are to be recalled.
async fn held_back(
    conn: &mut SqliteConnection,
    recall: Recall,
    slots: &[(DateTime<Utc>, TriggerId)],
) -> Result<Vec<SqliteRow>, StoreError> {
    let names: Vec<String> = slots.iter().map(|(_, id)| id.to_string()).collect();
    let rows = sqlx::query(
        "-- recall: triggers
         SELECT t.id, t.owner, t.channel, t.due_at, t.session, t.generation
         FROM json_each(?1) AS j
         CROSS JOIN limit_slot AS s ON s.id = unhex(j.value)
         CROSS JOIN alarm_trigger AS t ON t.id = s.id
         WHERE s.state = 'waiting' AND s.channel = ?2 AND t.due_at > ?3
           AND (t.state = 'planned' OR (t.state = 'claimed' AND t.session = ?4))",
    )
    .bind(list(&names))
    .bind(recall.channel.as_str())
    .bind(millis(recall.due_at))
    .bind(recall.session.0)
    .fetch_all(conn)
    .await?;
    Ok(rows)
}
