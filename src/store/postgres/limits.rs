//! The slots in the limits of owners.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use chrono::DateTime;
use chrono::Utc;
use sqlx::PgConnection;
use sqlx::Row;
use sqlx::postgres::PgRow;

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
use crate::store::postgres::columns::cut;
use crate::store::postgres::columns::ids;
use crate::store::row::all;
use crate::store::row::instants;
use crate::trigger::AttemptToken;
use crate::trigger::ChannelKind;
use crate::trigger::OwnerId;
use crate::trigger::Trigger;
use crate::trigger::TriggerId;
use crate::trigger::limit::Limit;

/// What limits leave to the owners of these triggers. The owners are locked, so that nobody else takes
/// of it meanwhile.
pub async fn allowances(
    conn: &mut PgConnection,
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
    conn: &mut PgConnection,
    channel: ChannelKind,
    limit: &Limit,
    owners: &BTreeSet<&OwnerId>,
    now: DateTime<Utc>,
) -> Result<Vec<(OwnerId, Allowance)>, StoreError> {
    let bounds = Bounds::of(limit, now);
    let owners: Vec<&str> = owners.iter().map(|owner| owner.0.as_str()).collect();
    let rows = sqlx::query(
        "-- fire_check: limits
         SELECT j.owner,
             ARRAY(SELECT (extract(epoch FROM s.at) * 1000)::bigint
                 FROM limit_slot AS s
                 WHERE s.owner = j.owner COLLATE \"C\" AND s.channel = $2 AND s.state = 'granted' AND s.at >= $3
                 ORDER BY s.at DESC LIMIT $5) AS granted,
             ARRAY(SELECT (extract(epoch FROM s.at) * 1000)::bigint
                 FROM limit_slot AS s
                 WHERE s.owner = j.owner COLLATE \"C\" AND s.channel = $2 AND s.state = 'spent' AND s.at >= $4
                 ORDER BY s.at DESC LIMIT $5) AS spent,
             ARRAY(SELECT (extract(epoch FROM s.at) * 1000)::bigint
                 FROM limit_slot AS s
                 WHERE s.owner = j.owner COLLATE \"C\" AND s.channel = $2 AND s.state = 'waiting' AND s.at >= $3
                   AND EXISTS (SELECT 1 FROM alarm_trigger AS t WHERE t.id = s.id)
                 ORDER BY s.at DESC LIMIT $5) AS waiting
         FROM unnest($1::text[]) AS j (owner)",
    )
    .bind(owners)
    .bind(channel.as_str())
    .bind(cut(bounds.granted_since))
    .bind(cut(bounds.spent_since))
    .bind(i64::from(limit.amount))
    .fetch_all(conn)
    .await?;
    rows.iter()
        .map(|row| {
            let latest = |state: &str| row.try_get::<Vec<i64>, _>(state).map(|it| instants(&it));
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
    conn: &mut PgConnection,
    limit: &Limit,
    triggers: &[&Trigger],
    now: DateTime<Utc>,
) -> Result<Vec<(TriggerId, Own)>, StoreError> {
    let bounds = Bounds::of(limit, now);
    let rows = sqlx::query(
        "-- fire_check: slots
         SELECT id, state = 'waiting' AS waits FROM limit_slot
         WHERE id = ANY($1)
           AND (state = 'waiting' OR at >= $3 OR (state = 'granted' AND at >= $2))",
    )
    .bind(ids(triggers.iter().map(|trigger| &trigger.id)))
    .bind(cut(bounds.granted_since))
    .bind(cut(bounds.spent_since))
    .fetch_all(conn)
    .await?;
    rows.iter().map(limit::own).collect()
}

/// Writes what a fire-check granted and deferred.
pub async fn take(conn: &mut PgConnection, slots: &[Slot]) -> Result<(), StoreError> {
    if slots.is_empty() {
        return Ok(());
    }
    sqlx::query(
        "-- fire_check: take slots
         INSERT INTO limit_slot (id, owner, channel, state, token, at)
         SELECT j.id, j.owner, j.channel, j.state, j.token, j.at
         FROM unnest($1::bytea[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::timestamptz[])
             AS j (id, owner, channel, state, token, at)
         ORDER BY j.id
         ON CONFLICT (id) DO UPDATE SET state = excluded.state, token = excluded.token, at = excluded.at",
    )
    .bind(slots.iter().map(|slot| slot.id.0.to_vec()).collect::<Vec<_>>())
    .bind(slots.iter().map(|slot| slot.key.0.0.as_str()).collect::<Vec<_>>())
    .bind(slots.iter().map(|slot| slot.key.1.as_str()).collect::<Vec<_>>())
    .bind(slots.iter().map(|slot| slot.state.as_str()).collect::<Vec<_>>())
    .bind(
        slots
            .iter()
            .map(|slot| slot.token.map(|token| token.0))
            .collect::<Vec<_>>(),
    )
    .bind(slots.iter().map(|slot| cut(slot.at)).collect::<Vec<_>>())
    .execute(conn)
    .await?;
    Ok(())
}

/// Takes the slots away that these waited for.
pub async fn release(conn: &mut PgConnection, released: &[TriggerId]) -> Result<(), StoreError> {
    if released.is_empty() {
        return Ok(());
    }
    let done = sqlx::query(
        "-- fire_check: release slots
         DELETE FROM limit_slot WHERE id = ANY($1) AND state = 'waiting'",
    )
    .bind(ids(released))
    .execute(conn)
    .await?;
    all(done.rows_affected(), released.len(), "fire_check: release slots")
}

/// Notes that these were handed over by now.
pub async fn spend(
    conn: &mut PgConnection,
    spent: &[TriggerId],
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    if spent.is_empty() {
        return Ok(());
    }
    sqlx::query(
        "-- settle: spend slots
         UPDATE limit_slot SET state = 'spent', token = NULL, at = $2 WHERE id = ANY($1)",
    )
    .bind(ids(spent))
    .bind(cut(now))
    .execute(conn)
    .await?;
    Ok(())
}

/// Gives back what attempts took that handed nothing over.
pub async fn give_back(
    conn: &mut PgConnection,
    attempts: &[(TriggerId, AttemptToken)],
) -> Result<(), StoreError> {
    if attempts.is_empty() {
        return Ok(());
    }
    sqlx::query(
        "-- settle: give slots back
         DELETE FROM limit_slot AS s
         USING unnest($1::bytea[], $2::bigint[]) AS j (id, token)
         WHERE s.id = j.id AND s.state = 'granted' AND s.token = j.token",
    )
    .bind(attempts.iter().map(|(id, _)| id.0.to_vec()).collect::<Vec<_>>())
    .bind(attempts.iter().map(|(_, token)| token.0).collect::<Vec<_>>())
    .execute(conn)
    .await?;
    Ok(())
}

/// Makes due what waits for slots.
pub async fn recall(
    conn: &mut PgConnection,
    recall: Recall,
    now: DateTime<Utc>,
) -> Result<Recalled, StoreError> {
    let slots = waiting(conn, recall.from(now), recall.limit).await?;
    let rows = held_back(conn, recall, &slots).await?;
    let (found, mut recalled) = recall.plan(&rows);
    recalled.next = recall.next(&slots);
    let done = sqlx::query(
        "-- recall
         UPDATE alarm_trigger SET due_at = $2
         WHERE id = ANY($1) AND (state = 'planned' OR (state = 'claimed' AND session = $3))",
    )
    .bind(ids(&found))
    .bind(cut(recall.due_at))
    .bind(recall.session.0)
    .execute(conn)
    .await?;
    all(done.rows_affected(), found.len(), "recall")?;
    Ok(recalled)
}

/// One page of slots.
async fn waiting(
    conn: &mut PgConnection,
    (at, id): (DateTime<Utc>, TriggerId),
    limit: u32,
) -> Result<Vec<(DateTime<Utc>, TriggerId)>, StoreError> {
    let rows = sqlx::query(
        "-- recall: slots
         SELECT id, at FROM limit_slot WHERE (at, id) > ($1, $2) ORDER BY at, id LIMIT $3",
    )
    .bind(cut(at))
    .bind(id.0.to_vec())
    .bind(i64::from(limit))
    .fetch_all(conn)
    .await?;
    rows.iter().map(limit::slot).collect()
}

/// The triggers that wait for these slots, as far as they are to be recalled; locked.
async fn held_back(
    conn: &mut PgConnection,
    recall: Recall,
    slots: &[(DateTime<Utc>, TriggerId)],
) -> Result<Vec<PgRow>, StoreError> {
    let rows = sqlx::query(
        "-- recall: triggers
         SELECT t.id, t.owner, t.channel, t.due_at, t.session, t.generation
         FROM alarm_trigger AS t
         WHERE t.id = ANY($1) AND t.due_at > $3 AND (t.state = 'planned' OR (t.state = 'claimed' AND t.session = $4))
           AND EXISTS (SELECT 1 FROM limit_slot AS s
               WHERE s.id = t.id AND s.state = 'waiting' AND s.channel = $2 OFFSET 0)
         ORDER BY t.id FOR UPDATE",
    )
    .bind(ids(slots.iter().map(|(_, id)| id)))
    .bind(recall.channel.as_str())
    .bind(cut(recall.due_at))
    .bind(recall.session.0)
    .fetch_all(conn)
    .await?;
    Ok(rows)
}
