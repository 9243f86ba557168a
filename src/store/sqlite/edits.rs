//! Edits: what the editor decided about groups, written in one statement per kind for all of them together. Groups do
//! not overlap, so their decisions cannot disturb each other. Rows go in the order of their ids.

use chrono::DateTime;
use chrono::Utc;
use sqlx::SqliteConnection;

use crate::store::Acceptance;
use crate::store::Alarm;
use crate::store::Changed;
use crate::store::Edit;
use crate::store::EventKey;
use crate::store::Group;
use crate::store::NearClaim;
use crate::store::Record;
use crate::store::StoreError;
use crate::store::Withdrawn;
use crate::store::decided;
use crate::store::row;
use crate::store::row::Columns;
use crate::store::row::all;
use crate::store::row::list;
use crate::store::row::millis;
use crate::store::sqlite::claims;
use crate::store::sqlite::ledger;
use crate::trigger::NewTrigger;
use crate::trigger::Place;
use crate::trigger::TriggerId;
use crate::trigger::Wish;

/// Writes the edits of groups. Returns what became of each, in order.
pub async fn apply(
    conn: &mut SqliteConnection,
    decided: &[(Group, Edit)],
    near: Option<NearClaim>,
    now: DateTime<Utc>,
) -> Result<Vec<Changed>, StoreError> {
    let mut changes: Vec<Changed> = decided
        .iter()
        .map(|_| decided::answer(Acceptance::Apply))
        .collect();
    put_alarms(conn, decided).await?;
    let withdrawn_by = decided::by_id(decided, |edit| edit.withdraw.clone());
    for withdrawn in withdraw(conn, &decided::collect(decided, |edit| &edit.withdraw)).await? {
        changes[withdrawn_by[&withdrawn.id]].withdrawn.push(withdrawn);
    }
    adjust(conn, &decided::collect(decided, |edit| &edit.adjust)).await?;
    let inserted_by = decided::by_id(decided, |edit| edit.insert.iter().map(NewTrigger::id).collect());
    let wanted = decided::collect(decided, |edit| &edit.insert);
    for id in insert_triggers(conn, &wanted).await? {
        changes[inserted_by[&id]].planned += 1;
    }
    let ids: Vec<TriggerId> = wanted.iter().map(NewTrigger::id).collect();
    take_back(conn, &ids).await?;
    let records = decided::collect(decided, |edit| &edit.record);
    let recorded = ledger::record_firings(conn, &records, now).await?;
    for (change, (_, edit)) in changes.iter_mut().zip(decided) {
        let is_new = |record: &&Record| recorded.contains(&TriggerId::derive(&record.wish, &record.place));
        change.recorded.extend(edit.record.iter().filter(is_new).cloned());
        let reasons = edit.quarantine.iter().filter_map(|(_, reason)| reason.clone());
        change.set_aside.extend(reasons);
    }
    quarantine(conn, &decided::collect(decided, |edit| &edit.quarantine)).await?;
    if let Some(near) = near {
        let until = now + near.window;
        for claimed in claims::claim_near(conn, near.session, &ids, until, now).await? {
            changes[inserted_by[&claimed.id]].claimed.push(claimed);
        }
    }
    Ok(changes)
}

async fn put_alarms(conn: &mut SqliteConnection, decided: &[(Group, Edit)]) -> Result<(), StoreError> {
    let (forgotten, changed) = decided::alarms(decided);
    let forgotten: Vec<_> = forgotten.into_iter().map(listed_wish).collect();
    let listed = |alarm: &Alarm| listed_alarm(&alarm.wish, alarm.served_through.as_ref());
    let changed: Vec<_> = changed.into_iter().map(listed).collect();
    if !forgotten.is_empty() {
        let done = sqlx::query(
            "-- forget_alarms
             DELETE FROM alarm WHERE (owner, event_uid, identity, channel, recipient) IN (
                 SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4 FROM json_each(?1))",
        )
        .bind(list(&forgotten))
        .execute(&mut *conn)
        .await?;
        all(done.rows_affected(), forgotten.len(), "forget_alarms")?;
    }
    if !changed.is_empty() {
        upsert_alarms(conn, list(&changed)).await?;
    }
    Ok(())
}

async fn upsert_alarms(conn: &mut SqliteConnection, listed: String) -> Result<(), StoreError> {
    sqlx::query(
        "-- put_alarms
         INSERT INTO alarm (owner, event_uid, identity, channel, recipient,
             served_trigger_at, served_occurrence, served_repeat)
         SELECT j.value ->> 0, j.value ->> 1, j.value ->> 2, j.value ->> 3, j.value ->> 4,
             j.value ->> 5, j.value ->> 6, j.value ->> 7
         FROM json_each(?1) AS j
         WHERE true
         ON CONFLICT (owner, event_uid, identity, channel, recipient) DO UPDATE SET
             served_trigger_at = excluded.served_trigger_at, served_occurrence = excluded.served_occurrence,
             served_repeat = excluded.served_repeat",
    )
    .bind(listed)
    .execute(conn)
    .await?;
    Ok(())
}

fn listed_wish(wish: &Wish) -> impl serde::Serialize + use<> {
    (
        wish.owner.0.clone(),
        wish.event_uid.clone(),
        wish.identity.0.clone(),
        wish.channel.as_str(),
        wish.recipient.to_string(),
    )
}

/// A wish and how far it is served, as statements unfold them. Flat: a path into a nested list costs twice as much.
pub fn listed_alarm(wish: &Wish, served_through: Option<&Place>) -> impl serde::Serialize + use<> {
    (
        wish.owner.0.clone(),
        wish.event_uid.clone(),
        wish.identity.0.clone(),
        wish.channel.as_str(),
        wish.recipient.to_string(),
        served_through.map(|place| millis(place.trigger_at)),
        served_through.map(|place| millis(place.occurrence)),
        served_through.map(|place| place.repeat),
    )
}

/// Deletes planned and claimed triggers, and marks those that are being sent.
async fn withdraw(conn: &mut SqliteConnection, ids: &[TriggerId]) -> Result<Vec<Withdrawn>, StoreError> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let names: Vec<String> = ids.iter().map(TriggerId::to_string).collect();
    let names = list(&names);
    let mut rows = sqlx::query(
        "-- withdraw
         DELETE FROM alarm_trigger
         WHERE state IN ('planned', 'claimed') AND id IN (SELECT unhex(value) FROM json_each(?1))
         RETURNING id, due_at, channel, session",
    )
    .bind(&names)
    .fetch_all(&mut *conn)
    .await?;
    let marked = sqlx::query(
        "-- withdraw: being sent
         UPDATE alarm_trigger SET withdrawn = 1
         WHERE state = 'sending' AND withdrawn = 0 AND id IN (SELECT unhex(value) FROM json_each(?1))
         RETURNING id, due_at, channel, session",
    )
    .bind(&names)
    .fetch_all(conn)
    .await?;
    rows.extend(marked);
    rows.iter().map(row::withdrawn).collect()
}

async fn adjust(
    conn: &mut SqliteConnection,
    adjusted: &[(TriggerId, DateTime<Utc>, bool)],
) -> Result<(), StoreError> {
    if adjusted.is_empty() {
        return Ok(());
    }
    let listed: Vec<_> = adjusted
        .iter()
        .map(|(id, expires_at, has_more)| (id.to_string(), millis(*expires_at), i64::from(*has_more)))
        .collect();
    let done = sqlx::query(
        "-- adjust
         UPDATE alarm_trigger SET expires_at = j.value ->> 1, has_more = j.value ->> 2, withdrawn = 0
         FROM json_each(?1) AS j WHERE alarm_trigger.id = unhex(j.value ->> 0)",
    )
    .bind(list(&listed))
    .execute(conn)
    .await?;
    all(done.rows_affected(), adjusted.len(), "adjust")
}

/// Plans triggers, except those that exist already or were handed over before. Returns which are new.
pub async fn insert_triggers(
    conn: &mut SqliteConnection,
    triggers: &[NewTrigger],
) -> Result<Vec<TriggerId>, StoreError> {
    if triggers.is_empty() {
        return Ok(Vec::new());
    }
    let listed: Vec<_> = triggers.iter().map(listed_trigger).collect();
    let rows = sqlx::query(
        "-- insert_triggers
         INSERT INTO alarm_trigger (id, owner, event_uid, identity, channel, recipient,
             trigger_at, occurrence, repeat, due_at, expires_at, has_more, moved, state)
         SELECT unhex(j.value ->> 0), j.value ->> 1, j.value ->> 2, j.value ->> 3, j.value ->> 4, j.value ->> 5,
             j.value ->> 6, j.value ->> 7, j.value ->> 8, j.value ->> 6, j.value ->> 9, j.value ->> 10,
             j.value ->> 11, 'planned'
         FROM json_each(?1) AS j
         WHERE NOT EXISTS (SELECT 1 FROM delivery AS d WHERE d.id = unhex(j.value ->> 0) AND d.rank >= 2)
         ON CONFLICT (id) DO NOTHING
         RETURNING id",
    )
    .bind(list(&listed))
    .fetch_all(conn)
    .await?;
    rows.iter()
        .map(|row| Columns::new("alarm_trigger", "id", row).id())
        .collect()
}

fn listed_trigger(trigger: &NewTrigger) -> impl serde::Serialize + use<> {
    (
        trigger.id().to_string(),
        trigger.wish.owner.0.clone(),
        trigger.wish.event_uid.clone(),
        trigger.wish.identity.0.clone(),
        trigger.wish.channel.as_str(),
        trigger.wish.recipient.to_string(),
        millis(trigger.place.trigger_at),
        millis(trigger.place.occurrence),
        trigger.place.repeat,
        millis(trigger.expires_at),
        i64::from(trigger.has_more),
        i64::from(trigger.moved),
    )
}

/// A trigger that was withdrawn while it was being sent, and is owed again, is no longer withdrawn.
async fn take_back(conn: &mut SqliteConnection, ids: &[TriggerId]) -> Result<(), StoreError> {
    if ids.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = ids.iter().map(TriggerId::to_string).collect();
    sqlx::query(
        "-- take_back
         UPDATE alarm_trigger SET withdrawn = 0
         WHERE state = 'sending' AND withdrawn = 1 AND id IN (SELECT unhex(value) FROM json_each(?1))",
    )
    .bind(list(&names))
    .execute(conn)
    .await?;
    Ok(())
}

async fn quarantine(
    conn: &mut SqliteConnection,
    copies: &[(EventKey, Option<String>)],
) -> Result<(), StoreError> {
    if copies.is_empty() {
        return Ok(());
    }
    let listed: Vec<_> = copies
        .iter()
        .map(|(at, reason)| (&at.source, &at.key, &at.owner.0, reason))
        .collect();
    sqlx::query(
        "-- quarantine
         UPDATE event SET quarantine = j.value ->> 3
         FROM json_each(?1) AS j
         WHERE event.source = j.value ->> 0 AND event.key = j.value ->> 1 AND event.owner = j.value ->> 2
           AND event.deleted_at IS NULL",
    )
    .bind(list(&listed))
    .execute(conn)
    .await?;
    Ok(())
}
