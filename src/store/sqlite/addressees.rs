//! What is known of the addresses to which alarms write beside their owner's.

use std::collections::BTreeMap;

use sqlx::Row;
use sqlx::SqliteConnection;

use crate::store::Addressee;
use crate::store::StoreError;
use crate::store::judged::Owed;
use crate::store::judged::to_others;
use crate::store::row::Columns;
use crate::store::row::list;
use crate::store::sqlite::groups;
use crate::trigger::OwnerId;
use crate::trigger::TriggerId;

/// Reads what is known of the addressees of these triggers, where they are not for their owners.
pub async fn addressees(
    conn: &mut SqliteConnection,
    owed: &[Owed],
) -> Result<BTreeMap<TriggerId, Addressee>, StoreError> {
    let ids = to_others(owed);
    if ids.is_empty() {
        return Ok(BTreeMap::new());
    }
    let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
    let rows = sqlx::query(
        "-- addressees
         SELECT t.id,
             (SELECT o.id FROM owner AS o
              WHERE lower(o.email) = substr(t.recipient, 9) AND o.email IS NOT NULL AND o.id <> t.owner
              ORDER BY o.id LIMIT 1) AS person,
             EXISTS (SELECT 1 FROM owner AS o JOIN event AS e ON e.owner = o.id AND e.uid = t.event_uid
              WHERE lower(o.email) = substr(t.recipient, 9) AND o.email IS NOT NULL AND o.id <> t.owner
                AND e.deleted_at IS NULL AND e.quarantine IS NULL) AS holds_copy,
             EXISTS (SELECT 1 FROM alarm_trigger AS r JOIN owner AS o ON o.id = r.owner
              WHERE r.event_uid = t.event_uid AND r.recipient = t.recipient AND r.recipient <> 'owner'
                AND r.channel = t.channel AND r.trigger_at = t.trigger_at AND r.occurrence = t.occurrence
                AND NOT r.withdrawn AND o.enabled
                AND (r.owner < t.owner OR (r.owner <> t.owner AND r.state = 'sending')))
             OR EXISTS (SELECT 1 FROM delivery AS d
              WHERE d.event_uid = t.event_uid AND d.recipient = t.recipient AND d.recipient <> 'owner'
                AND d.channel = t.channel AND d.trigger_at = t.trigger_at AND d.occurrence = t.occurrence
                AND d.owner <> t.owner AND d.rank >= 2) AS is_told
         FROM json_each(?1) AS j CROSS JOIN alarm_trigger AS t ON t.id = unhex(j.value)",
    )
    .bind(list(&ids))
    .fetch_all(&mut *conn)
    .await?;
    let mut found = Vec::with_capacity(rows.len());
    for row in &rows {
        let person: Option<String> = row.try_get("person")?;
        let id = Columns::new("alarm_trigger", "id", row).id()?;
        found.push((
            id,
            person.map(OwnerId),
            row.try_get("holds_copy")?,
            row.try_get("is_told")?,
        ));
    }
    let persons = groups::owners(conn, found.iter().filter_map(|it| it.1.as_ref())).await?;
    Ok(Addressee::all(found, &persons))
}
