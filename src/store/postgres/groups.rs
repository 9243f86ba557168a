//! Groups: everything of one event UID of one owner, read in one statement per table however many groups there are.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use chrono::DateTime;
use chrono::Utc;
use sqlx::PgConnection;
use sqlx::Row;

use crate::store::Alarm;
use crate::store::EventCopy;
use crate::store::Group;
use crate::store::Owner;
use crate::store::StoreError;
use crate::store::group::ByGroup;
use crate::store::group::GroupKey;
use crate::store::group::Rows;
use crate::store::group::Unreadable;
use crate::store::group::grouped;
use crate::store::postgres::alarms;
use crate::store::postgres::columns::cut;
use crate::store::postgres::ledger;
use crate::store::row;
use crate::store::row::Columns;
use crate::trigger::OwnerId;
use crate::trigger::Trigger;
use crate::trigger::TriggerId;
use crate::trigger::answers::Answers;

/// Reads groups. A group without an owner is not there; one with an unreadable row is an error of its own.
pub async fn load(
    conn: &mut PgConnection,
    keys: &BTreeSet<GroupKey>,
    unreadable: Unreadable,
    now: DateTime<Utc>,
) -> Result<Vec<(GroupKey, Result<Group, StoreError>)>, StoreError> {
    // The triggers first: they are locked, and whoever settled one before has written its history by then.
    let triggers = triggers(conn, keys, unreadable, now).await?;
    let mut rows = Rows {
        owners: owners(conn, keys.iter().map(|(owner, _)| owner)).await?,
        copies: copies(conn, keys).await?,
        answers: answers(conn, keys).await?,
        alarms: alarms(conn, keys).await?,
        triggers,
        handed_over: ByGroup::new(),
    };
    rows.handed_over = handed_over(conn, &rows.since(keys, now)).await?;
    Ok(rows.assemble(keys))
}

/// Reads owners.
pub async fn owners(
    conn: &mut PgConnection,
    ids: impl Iterator<Item = &OwnerId>,
) -> Result<BTreeMap<OwnerId, Result<Owner, StoreError>>, StoreError> {
    let ids: BTreeSet<&str> = ids.map(|id| id.0.as_str()).collect();
    let ids: Vec<&str> = ids.into_iter().collect();
    let rows = sqlx::query(concat!(
        "-- owners
         SELECT ",
        columns!(owner),
        " FROM owner AS o WHERE o.id = ANY($1)"
    ))
    .bind(ids)
    .fetch_all(conn)
    .await?;
    rows.iter()
        .map(|row| Ok((OwnerId(row.try_get("id")?), row::owner(row))))
        .collect()
}

/// Reads the copies of groups that are not deleted, ordered by source and key.
pub async fn copies(
    conn: &mut PgConnection,
    keys: &BTreeSet<GroupKey>,
) -> Result<ByGroup<EventCopy>, StoreError> {
    let (owners, uids) = columns(keys.iter());
    let rows = sqlx::query(concat!(
        "-- copies
         SELECT ",
        columns!(event),
        ", e.uid AS event_uid
         FROM unnest($1::text[], $2::text[]) AS j (owner, uid)
         CROSS JOIN LATERAL (SELECT ",
        columns!(event),
        " FROM event AS e
             WHERE e.owner = j.owner COLLATE \"C\" AND e.uid = j.uid COLLATE \"C\" AND e.deleted_at IS NULL
             OFFSET 0) AS e
         ORDER BY e.source, e.key"
    ))
    .bind(owners)
    .bind(uids)
    .fetch_all(conn)
    .await?;
    grouped(&rows, row::copy)
}

/// Reads what was answered to reminders of groups.
pub async fn answers(
    conn: &mut PgConnection,
    keys: &BTreeSet<GroupKey>,
) -> Result<ByGroup<Answers>, StoreError> {
    let (owners, uids) = columns(keys.iter());
    let rows = sqlx::query(
        "-- answers
         SELECT w.owner, w.event_uid, w.answers
         FROM unnest($1::text[], $2::text[]) AS j (owner, uid)
         CROSS JOIN LATERAL (SELECT w.owner, w.event_uid, w.answers FROM answer AS w
             WHERE w.owner = j.owner COLLATE \"C\" AND w.event_uid = j.uid COLLATE \"C\" OFFSET 0) AS w",
    )
    .bind(owners)
    .bind(uids)
    .fetch_all(conn)
    .await?;
    grouped(&rows, row::answers)
}

/// Reads the wishes of groups.
pub async fn alarms(
    conn: &mut PgConnection,
    keys: &BTreeSet<GroupKey>,
) -> Result<ByGroup<Alarm>, StoreError> {
    let (owners, uids) = columns(keys.iter());
    let rows = sqlx::query(concat!(
        "-- alarms: of groups
         SELECT ",
        columns!(alarm),
        "
         FROM unnest($1::text[], $2::text[]) AS j (owner, uid)
         CROSS JOIN LATERAL (SELECT ",
        columns!(alarm),
        " FROM alarm AS a
             WHERE a.owner = j.owner COLLATE \"C\" AND a.event_uid = j.uid COLLATE \"C\" OFFSET 0) AS a
         ORDER BY a.identity, a.channel, a.recipient"
    ))
    .bind(owners)
    .bind(uids)
    .fetch_all(conn)
    .await?;
    grouped(&rows, row::alarm)
}

/// Reads the triggers of groups, and locks them where they may be changed.
async fn triggers(
    conn: &mut PgConnection,
    keys: &BTreeSet<GroupKey>,
    unreadable: Unreadable,
    now: DateTime<Utc>,
) -> Result<ByGroup<Trigger>, StoreError> {
    let locking = concat!(
        "-- triggers
         SELECT ",
        columns!(alarm_trigger),
        "
         FROM alarm_trigger AS t
         WHERE t.id = ANY(ARRAY(
             SELECT g.id FROM unnest($1::text[], $2::text[]) AS j (owner, uid)
             CROSS JOIN LATERAL (SELECT g.id FROM alarm_trigger AS g
                 WHERE g.owner = j.owner COLLATE \"C\" AND g.event_uid = j.uid COLLATE \"C\" OFFSET 0) AS g))
         ORDER BY t.id FOR UPDATE"
    );
    let reading = concat!(
        "-- triggers: to look at
         SELECT ",
        columns!(alarm_trigger),
        "
         FROM unnest($1::text[], $2::text[]) AS j (owner, uid)
         CROSS JOIN LATERAL (SELECT ",
        columns!(alarm_trigger),
        " FROM alarm_trigger AS t
             WHERE t.owner = j.owner COLLATE \"C\" AND t.event_uid = j.uid COLLATE \"C\" OFFSET 0) AS t
         ORDER BY t.id"
    );
    let changes = unreadable == Unreadable::SetAside;
    let (owners, uids) = columns(keys.iter());
    let mut rows = sqlx::query(if changes { locking } else { reading })
        .bind(owners)
        .bind(uids)
        .fetch_all(&mut *conn)
        .await?;
    if changes {
        let mut spoilt = Vec::new();
        for (at, row) in rows.iter().enumerate() {
            if let Err(complaint) = row::trigger(row) {
                spoilt.push((at, Columns::new("alarm_trigger", "id", row).id()?, complaint));
            }
        }
        alarms::hold(conn, spoilt.iter().map(|(_, id, _)| id)).await?;
        for (_, id, complaint) in &spoilt {
            ledger::set_aside(conn, &id.0, complaint, now).await?;
        }
        for (at, ..) in spoilt.into_iter().rev() {
            rows.remove(at);
        }
    }
    grouped(&rows, row::trigger)
}

/// Reads which triggers of groups were handed over, with a trigger instant at or after the one given.
pub async fn handed_over(
    conn: &mut PgConnection,
    since: &[(&GroupKey, DateTime<Utc>)],
) -> Result<ByGroup<TriggerId>, StoreError> {
    if since.is_empty() {
        return Ok(ByGroup::new());
    }
    let (owners, uids) = columns(since.iter().map(|(key, _)| *key));
    let since: Vec<_> = since.iter().map(|(_, since)| cut(*since)).collect();
    let rows = sqlx::query(
        "-- handed_over
         SELECT d.id, d.owner, d.event_uid
         FROM unnest($1::text[], $2::text[], $3::timestamptz[]) AS j (owner, uid, since)
         CROSS JOIN LATERAL (SELECT d.id, d.owner, d.event_uid, d.trigger_at FROM delivery AS d
             WHERE d.owner = j.owner COLLATE \"C\" AND d.event_uid = j.uid COLLATE \"C\"
               AND d.trigger_at >= j.since AND d.rank >= 2 OFFSET 0) AS d
         ORDER BY d.trigger_at, d.id",
    )
    .bind(owners)
    .bind(uids)
    .bind(since)
    .fetch_all(conn)
    .await?;
    grouped(&rows, |row| Columns::new("delivery", "id", row).id())
}

fn columns<'k>(keys: impl Iterator<Item = &'k GroupKey>) -> (Vec<&'k str>, Vec<&'k str>) {
    keys.map(|(owner, uid)| (owner.0.as_str(), uid.as_str())).unzip()
}
