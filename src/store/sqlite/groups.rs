//! Groups: everything of one event UID of one owner, read in one statement per table however many groups there are.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use chrono::DateTime;
use chrono::Utc;
use sqlx::Row;
use sqlx::SqliteConnection;

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
use crate::store::row;
use crate::store::row::Columns;
use crate::store::row::list;
use crate::store::row::millis;
use crate::store::sqlite::ledger;
use crate::trigger::OwnerId;
use crate::trigger::Trigger;
use crate::trigger::TriggerId;
use crate::trigger::answers::Answers;

/// Reads groups. A group without an owner is not there; one with an unreadable row is an error of its own.
pub async fn load(
    conn: &mut SqliteConnection,
    keys: &BTreeSet<GroupKey>,
    unreadable: Unreadable,
    now: DateTime<Utc>,
) -> Result<Vec<(GroupKey, Result<Group, StoreError>)>, StoreError> {
    let mut rows = Rows {
        owners: owners(conn, keys.iter().map(|(owner, _)| owner)).await?,
        copies: copies(conn, keys).await?,
        answers: answers(conn, keys).await?,
        alarms: alarms(conn, keys).await?,
        triggers: triggers(conn, keys, unreadable, now).await?,
        handed_over: ByGroup::new(),
    };
    rows.handed_over = handed_over(conn, &rows.since(keys, now)).await?;
    Ok(rows.assemble(keys))
}

/// Reads owners.
pub async fn owners(
    conn: &mut SqliteConnection,
    ids: impl Iterator<Item = &OwnerId>,
) -> Result<BTreeMap<OwnerId, Result<Owner, StoreError>>, StoreError> {
    let ids: BTreeSet<&str> = ids.map(|id| id.0.as_str()).collect();
    let ids: Vec<&str> = ids.into_iter().collect();
    let rows = sqlx::query(
        "-- owners
         SELECT * FROM owner WHERE id IN (SELECT value FROM json_each(?1))",
    )
    .bind(list(&ids))
    .fetch_all(conn)
    .await?;
    rows.iter()
        .map(|row| Ok((OwnerId(row.try_get("id")?), row::owner(row))))
        .collect()
}

/// Reads the copies of groups that are not deleted, ordered by source and key.
pub async fn copies(
    conn: &mut SqliteConnection,
    keys: &BTreeSet<GroupKey>,
) -> Result<ByGroup<EventCopy>, StoreError> {
    let rows = sqlx::query(
        "-- copies
         SELECT e.*, e.uid AS event_uid
         FROM json_each(?1) AS j CROSS JOIN event AS e ON e.owner = j.value ->> 0 AND e.uid = j.value ->> 1
         WHERE e.deleted_at IS NULL
         ORDER BY e.source, e.key",
    )
    .bind(listed(keys))
    .fetch_all(conn)
    .await?;
    grouped(&rows, row::copy)
}

/// Reads what was answered to reminders of groups.
pub async fn answers(
    conn: &mut SqliteConnection,
    keys: &BTreeSet<GroupKey>,
) -> Result<ByGroup<Answers>, StoreError> {
    let rows = sqlx::query(
        "-- answers
         SELECT w.owner, w.event_uid, w.answers
         FROM json_each(?1) AS j CROSS JOIN answer AS w ON w.owner = j.value ->> 0 AND w.event_uid = j.value ->> 1",
    )
    .bind(listed(keys))
    .fetch_all(conn)
    .await?;
    grouped(&rows, row::answers)
}

/// Reads the wishes of groups.
pub async fn alarms(
    conn: &mut SqliteConnection,
    keys: &BTreeSet<GroupKey>,
) -> Result<ByGroup<Alarm>, StoreError> {
    let rows = sqlx::query(
        "-- alarms
         SELECT a.*
         FROM json_each(?1) AS j CROSS JOIN alarm AS a ON a.owner = j.value ->> 0 AND a.event_uid = j.value ->> 1
         ORDER BY a.identity, a.channel, a.recipient",
    )
    .bind(listed(keys))
    .fetch_all(conn)
    .await?;
    grouped(&rows, row::alarm)
}

async fn triggers(
    conn: &mut SqliteConnection,
    keys: &BTreeSet<GroupKey>,
    unreadable: Unreadable,
    now: DateTime<Utc>,
) -> Result<ByGroup<Trigger>, StoreError> {
    let mut rows = sqlx::query(
        "-- triggers
         SELECT t.*
         FROM json_each(?1) AS j
         CROSS JOIN alarm_trigger AS t ON t.owner = j.value ->> 0 AND t.event_uid = j.value ->> 1
         ORDER BY t.id",
    )
    .bind(listed(keys))
    .fetch_all(&mut *conn)
    .await?;
    if unreadable == Unreadable::SetAside {
        let mut spoilt = Vec::new();
        for (at, row) in rows.iter().enumerate() {
            if let Err(complaint) = row::trigger(row) {
                ledger::set_aside(conn, row.try_get("id")?, &complaint, now).await?;
                spoilt.push(at);
            }
        }
        for at in spoilt.into_iter().rev() {
            rows.remove(at);
        }
    }
    grouped(&rows, row::trigger)
}

/// Reads which triggers of groups were handed over, with a trigger instant at or after the one given.
pub async fn handed_over(
    conn: &mut SqliteConnection,
    since: &[(&GroupKey, DateTime<Utc>)],
) -> Result<ByGroup<TriggerId>, StoreError> {
    let listed: Vec<_> = since
        .iter()
        .map(|((owner, uid), since)| (owner.0.as_str(), uid.as_str(), millis(*since)))
        .collect();
    let rows = sqlx::query(
        "-- handed_over
         SELECT d.id, d.owner, d.event_uid
         FROM json_each(?1) AS j
         CROSS JOIN delivery AS d
             ON d.owner = j.value ->> 0 AND d.event_uid = j.value ->> 1 AND d.trigger_at >= j.value ->> 2
         WHERE d.rank >= 2
         ORDER BY d.trigger_at, d.id",
    )
    .bind(list(&listed))
    .fetch_all(conn)
    .await?;
    grouped(&rows, |row| Columns::new("delivery", "id", row).id())
}

fn listed(keys: &BTreeSet<GroupKey>) -> String {
    let keys: Vec<_> = keys
        .iter()
        .map(|(owner, uid)| (owner.0.as_str(), uid.as_str()))
        .collect();
    list(&keys)
}
