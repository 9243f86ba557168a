//! Stand-alone alarms: their rows, and how these are altered together with what they owe.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::sync::Arc;

use chrono::DateTime;
use chrono::Utc;
use sqlx::PgConnection;

use crate::store::AlarmAt;
use crate::store::AlarmCount;
use crate::store::AlarmEditor;
use crate::store::AlarmQuery;
use crate::store::AlarmStatus;
use crate::store::Altered;
use crate::store::NearClaim;
use crate::store::Standalone;
use crate::store::StoreError;
use crate::store::altering;
use crate::store::altering::Rows;
use crate::store::altering::group_of;
use crate::store::group::GroupKey;
use crate::store::group::Unreadable;
use crate::store::postgres::columns;
use crate::store::postgres::columns::cut;
use crate::store::postgres::edits;
use crate::store::postgres::groups;
use crate::store::postgres::owners;
use crate::store::row;
use crate::store::row::all;
use crate::store::row::json;
use crate::trigger::AlarmId;
use crate::trigger::OwnerId;
use crate::trigger::TriggerId;

/// Creates or alters alarms, each as the editor decides.
pub async fn alter(
    conn: &mut PgConnection,
    alarms: &[AlarmAt],
    editor: &dyn AlarmEditor,
    near: Option<NearClaim>,
    now: DateTime<Utc>,
) -> Result<Vec<Result<Altered, StoreError>>, StoreError> {
    // In this order everywhere: owners, triggers, what is counted and told of owners, alarms. Who settles a trigger alters its
    // alarm afterwards.
    owners::lock(conn, alarms.iter().map(|at| &at.owner)).await?;
    let mut meant = Vec::with_capacity(alarms.len());
    for at in alarms {
        meant.push(named(conn, at).await?);
    }
    let keys: BTreeSet<GroupKey> = meant.iter().map(group_of).collect();
    let groups = groups::load(conn, &keys, Unreadable::SetAside, now).await?;
    hold_owners(conn, alarms.iter().map(|at| at.owner.0.as_str())).await?;
    lock(conn, &ids(&meant)).await?;
    let stored = rows(conn, &ids(&meant)).await?;
    let mut plan = altering::plan(&meant, &stored, groups, editor, now);
    for (_, alarm, before) in &plan.rows {
        put(conn, alarm, *before).await?;
    }
    let changes = edits::apply(conn, &plan.decided, near, now).await?;
    // What was withdrawn or recorded with them may have altered them once more.
    let written = rows(conn, &plan.written()).await?;
    plan.answer(written, changes);
    Ok(plan.answers)
}

/// Lets nobody else count or tell what becomes of these triggers until the end of the transaction, where they are those of
/// stand-alone alarms. Asked for before anything is: owners are held in one order.
pub async fn hold(
    conn: &mut PgConnection,
    triggers: impl Iterator<Item = &TriggerId>,
) -> Result<(), StoreError> {
    let triggers = columns::ids(triggers);
    if triggers.is_empty() {
        return Ok(());
    }
    sqlx::query(
        "-- hold_alarms: of triggers
         SELECT alarm_owners_held(ARRAY(
             SELECT owner FROM alarm_trigger WHERE id = ANY($1) AND substr(event_uid, 1, 1) = ' '
             UNION SELECT owner FROM delivery WHERE id = ANY($1) AND substr(event_uid, 1, 1) = ' '))",
    )
    .bind(triggers)
    .execute(conn)
    .await?;
    Ok(())
}

/// The same, by the names of the owners.
pub async fn hold_owners(
    conn: &mut PgConnection,
    owners: impl Iterator<Item = &str>,
) -> Result<(), StoreError> {
    let owners: BTreeSet<&str> = owners.collect();
    sqlx::query(
        "-- hold_alarms
         SELECT alarm_owners_held($1)",
    )
    .bind(owners.into_iter().collect::<Vec<_>>())
    .execute(conn)
    .await?;
    Ok(())
}

fn ids(alarms: &[AlarmAt]) -> BTreeSet<GroupKey> {
    let ids = alarms.iter().map(|at| (at.owner.clone(), at.id.0.clone()));
    ids.collect()
}

/// The alarm that is meant: one that its owner, or a request of late, gave the same name.
async fn named(conn: &mut PgConnection, at: &AlarmAt) -> Result<AlarmAt, StoreError> {
    let mut found: Option<String> = None;
    if let Some(key) = &at.key {
        found = sqlx::query_scalar(
            "-- alter_alarms: of this name
             SELECT id FROM standalone_alarm WHERE owner = $1 AND key = $2",
        )
        .bind(&at.owner.0)
        .bind(key)
        .fetch_optional(&mut *conn)
        .await?;
    }
    if let Some((request, since)) = at.request.as_ref().filter(|_| found.is_none()) {
        found = sqlx::query_scalar(
            "-- alter_alarms: of this request
             SELECT id FROM standalone_alarm WHERE owner = $1 AND request_key = $2 AND created_at > $3
             ORDER BY created_at DESC LIMIT 1",
        )
        .bind(&at.owner.0)
        .bind(request)
        .bind(cut(*since))
        .fetch_optional(&mut *conn)
        .await?;
    }
    Ok(found.map_or_else(
        || at.clone(),
        |id| AlarmAt {
            id: AlarmId(id),
            ..at.clone()
        },
    ))
}

/// Locks alarms against what becomes of their triggers.
async fn lock(conn: &mut PgConnection, ids: &BTreeSet<GroupKey>) -> Result<(), StoreError> {
    let (owners, ids): (Vec<&str>, Vec<&str>) = ids
        .iter()
        .map(|(owner, id)| (owner.0.as_str(), id.as_str()))
        .unzip();
    sqlx::query(
        "-- alter_alarms: lock
         SELECT s.id FROM unnest($1::text[], $2::text[]) AS j (owner, id)
         CROSS JOIN LATERAL (SELECT s.id FROM standalone_alarm AS s
             WHERE s.owner = j.owner COLLATE \"C\" AND s.id = j.id COLLATE \"C\" OFFSET 0 FOR UPDATE) AS s",
    )
    .bind(owners)
    .bind(ids)
    .execute(conn)
    .await?;
    Ok(())
}

/// Reads alarms by their owners and ids.
async fn rows(conn: &mut PgConnection, ids: &BTreeSet<GroupKey>) -> Result<Rows, StoreError> {
    let (owners, ids): (Vec<&str>, Vec<&str>) = ids
        .iter()
        .map(|(owner, id)| (owner.0.as_str(), id.as_str()))
        .unzip();
    let rows = sqlx::query(concat!(
        "-- alarms: by name
         SELECT ",
        columns!(standalone_alarm),
        "
         FROM unnest($1::text[], $2::text[]) AS j (owner, id)
         CROSS JOIN LATERAL (SELECT ",
        columns!(standalone_alarm),
        " FROM standalone_alarm AS s
             WHERE s.owner = j.owner COLLATE \"C\" AND s.id = j.id COLLATE \"C\" OFFSET 0) AS s"
    ))
    .bind(owners)
    .bind(ids)
    .fetch_all(conn)
    .await?;
    rows.iter().map(row::standalone_by_group).collect()
}

/// Reads the alarms of triggers, by the names of their groups.
pub async fn of_triggers(
    conn: &mut PgConnection,
    ids: &BTreeSet<GroupKey>,
) -> Result<BTreeMap<GroupKey, Result<Arc<Standalone>, StoreError>>, StoreError> {
    if ids.is_empty() {
        return Ok(BTreeMap::new());
    }
    let rows = rows(conn, ids).await?.into_iter();
    Ok(rows.map(|(key, alarm)| (key, alarm.map(Arc::new))).collect())
}

async fn put(
    conn: &mut PgConnection,
    alarm: &Standalone,
    before: Option<DateTime<Utc>>,
) -> Result<(), StoreError> {
    let new = "-- alter_alarms: new
         INSERT INTO standalone_alarm (owner, id, kind, channel, status, paused, fire_at, updated_at, terms, payload,
             failure_count, key, request_key, request_hash, created_at)
         SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 0, $12, $13, $14, $15 WHERE $11::timestamptz IS NULL";
    let known = "-- alter_alarms: known
         UPDATE standalone_alarm SET
             kind = $3, channel = $4, status = $5, paused = $6, fire_at = $7, updated_at = $8, terms = $9, payload = $10
         WHERE owner = $1 AND id = $2 AND updated_at = $11";
    let mut query = sqlx::query(if before.is_some() { known } else { new })
        .bind(&alarm.owner.0)
        .bind(&alarm.id.0)
        .bind(alarm.kind())
        .bind(alarm.channel.as_str())
        .bind(alarm.status.as_str())
        .bind(alarm.paused)
        .bind(cut(alarm.fire_at))
        .bind(cut(alarm.updated_at))
        .bind(json(&alarm.terms))
        .bind(&alarm.payload)
        .bind(before.map(cut));
    if before.is_none() {
        query = query
            .bind(&alarm.key)
            .bind(&alarm.request_key)
            .bind(&alarm.request_hash)
            .bind(cut(alarm.created_at));
    }
    let done = query.execute(conn).await?;
    all(done.rows_affected(), 1, "alter_alarms")
}

/// Reads one alarm.
pub async fn read(
    conn: &mut PgConnection,
    owner: &OwnerId,
    id: &AlarmId,
) -> Result<Option<Standalone>, StoreError> {
    let found = sqlx::query(concat!(
        "-- alarm
         SELECT ",
        columns!(standalone_alarm),
        " FROM standalone_alarm AS s WHERE s.owner = $1 AND s.id = $2"
    ))
    .bind(&owner.0)
    .bind(&id.0)
    .fetch_optional(conn)
    .await?;
    found.as_ref().map(row::standalone).transpose()
}

/// Lists alarms, newest first.
pub async fn list_alarms(conn: &mut PgConnection, query: &AlarmQuery) -> Result<Vec<Standalone>, StoreError> {
    let of_all = concat!(
        "-- alarms
         SELECT ",
        columns!(standalone_alarm),
        "
         FROM standalone_alarm AS s
         WHERE s.owner = $1 AND (s.created_at, s.id) < (coalesce($2::timestamptz, 'infinity'), $3) AND $4::text IS NULL
         ORDER BY s.created_at DESC, s.id DESC LIMIT $5"
    );
    let of_status = concat!(
        "-- alarms: in one state
         SELECT ",
        columns!(standalone_alarm),
        "
         FROM standalone_alarm AS s
         WHERE s.owner = $1 AND s.status = $4 AND (s.created_at, s.id) < (coalesce($2::timestamptz, 'infinity'), $3)
         ORDER BY s.created_at DESC, s.id DESC LIMIT $5"
    );
    let (created_at, id) = query
        .after
        .as_ref()
        .map_or((None, ""), |(at, id)| (Some(cut(*at)), id.0.as_str()));
    let rows = sqlx::query(if query.status.is_some() { of_status } else { of_all })
        .bind(&query.owner.0)
        .bind(created_at)
        .bind(id)
        .bind(query.status.map(AlarmStatus::as_str))
        .bind(i64::from(query.limit))
        .fetch_all(conn)
        .await?;
    rows.iter().map(row::standalone).collect()
}

/// Reads the counters of an owner.
pub async fn counts(conn: &mut PgConnection, owner: &OwnerId) -> Result<Vec<AlarmCount>, StoreError> {
    let rows = sqlx::query(
        "-- alarm_counts
         SELECT channel, about, name, amount FROM alarm_count WHERE owner = $1 ORDER BY channel, about, name",
    )
    .bind(&owner.0)
    .fetch_all(conn)
    .await?;
    rows.iter().map(row::alarm_count).collect()
}
