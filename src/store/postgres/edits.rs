//! Edits: what the editor decided about groups, written in one statement per kind for all of them together. Groups do
//! not overlap, so their decisions cannot disturb each other; their triggers are locked.

use std::collections::HashSet;

use chrono::DateTime;
use chrono::Utc;
use sqlx::PgConnection;

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
use crate::store::postgres::claims;
use crate::store::postgres::columns::Places;
use crate::store::postgres::columns::Wishes;
use crate::store::postgres::columns::cut;
use crate::store::postgres::columns::ids;
use crate::store::postgres::ledger;
use crate::store::row;
use crate::store::row::Columns;
use crate::store::row::all;
use crate::trigger::NewTrigger;
use crate::trigger::TriggerId;
use crate::trigger::Wish;

/// Writes the edits of groups. Returns what became of each, in order.
pub async fn apply(
    conn: &mut PgConnection,
    decided: &[(Group, Edit)],
    near: Option<NearClaim>,
    now: DateTime<Utc>,
) -> Result<Vec<Changed>, StoreError> {
    let mut changes: Vec<Changed> = decided
        .iter()
        .map(|_| decided::answer(Acceptance::Apply))
        .collect();
    let (forgotten, news) = decided::alarms(decided);
    forget_alarms(conn, &forgotten).await?;
    put_alarms(conn, &news).await?;
    let withdrawn_by = decided::by_id(decided, |edit| edit.withdraw.clone());
    for withdrawn in withdraw(conn, &decided::collect(decided, |edit| &edit.withdraw)).await? {
        changes[withdrawn_by[&withdrawn.id]].withdrawn.push(withdrawn);
    }
    adjust(conn, &decided::collect(decided, |edit| &edit.adjust)).await?;
    let inserted_by = decided::by_id(decided, |edit| edit.insert.iter().map(NewTrigger::id).collect());
    let wanted = decided::collect(decided, |edit| &edit.insert);
    let planned: HashSet<TriggerId> = insert_triggers(conn, &wanted).await?.into_iter().collect();
    for id in &planned {
        changes[inserted_by[id]].planned += 1;
    }
    let known = wanted
        .iter()
        .map(NewTrigger::id)
        .filter(|id| !planned.contains(id));
    let known: Vec<TriggerId> = known.collect();
    take_back(conn, &known).await?;
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
        // What is new is due when it fires; what was known may be due at another instant.
        let ids: Vec<TriggerId> = wanted
            .iter()
            .map(|trigger| (trigger.id(), trigger.place.trigger_at))
            .filter(|(id, at)| *at <= until || !planned.contains(id))
            .map(|(id, _)| id)
            .collect();
        for claimed in claims::claim_near(conn, near.session, &ids, until, now).await? {
            changes[inserted_by[&claimed.id]].claimed.push(claimed);
        }
    }
    Ok(changes)
}

async fn forget_alarms(conn: &mut PgConnection, forgotten: &[&Wish]) -> Result<(), StoreError> {
    if forgotten.is_empty() {
        return Ok(());
    }
    let wishes: Wishes = forgotten.iter().copied().collect();
    let done = sqlx::query(
        "-- forget_alarms
         DELETE FROM alarm AS a
         USING unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[])
             AS j (owner, event_uid, identity, channel, recipient)
         WHERE a.owner = j.owner COLLATE \"C\" AND a.event_uid = j.event_uid COLLATE \"C\"
           AND a.identity = j.identity COLLATE \"C\" AND a.channel = j.channel COLLATE \"C\"
           AND a.recipient = j.recipient COLLATE \"C\"",
    )
    .bind(wishes.owner)
    .bind(wishes.event_uid)
    .bind(wishes.identity)
    .bind(wishes.channel)
    .bind(wishes.recipient)
    .execute(conn)
    .await?;
    all(done.rows_affected(), forgotten.len(), "forget_alarms")
}

async fn put_alarms(conn: &mut PgConnection, alarms: &[&Alarm]) -> Result<(), StoreError> {
    if alarms.is_empty() {
        return Ok(());
    }
    let wishes: Wishes = alarms.iter().map(|alarm| &alarm.wish).collect();
    let served: Places = alarms.iter().map(|alarm| alarm.served_through).collect();
    sqlx::query(
        "-- put_alarms
         INSERT INTO alarm (owner, event_uid, identity, channel, recipient,
             served_trigger_at, served_occurrence, served_repeat)
         SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[],
             $6::timestamptz[], $7::timestamptz[], $8::bigint[])
         ON CONFLICT (owner, event_uid, identity, channel, recipient) DO UPDATE SET
             served_trigger_at = excluded.served_trigger_at, served_occurrence = excluded.served_occurrence,
             served_repeat = excluded.served_repeat",
    )
    .bind(wishes.owner)
    .bind(wishes.event_uid)
    .bind(wishes.identity)
    .bind(wishes.channel)
    .bind(wishes.recipient)
    .bind(served.trigger_at)
    .bind(served.occurrence)
    .bind(served.repeat)
    .execute(conn)
    .await?;
    Ok(())
}

/// Deletes planned and claimed triggers, and marks those that are being sent.
async fn withdraw(conn: &mut PgConnection, withdrawn: &[TriggerId]) -> Result<Vec<Withdrawn>, StoreError> {
    if withdrawn.is_empty() {
        return Ok(Vec::new());
    }
    let ids = ids(withdrawn);
    let mut rows = sqlx::query(
        "-- withdraw
         DELETE FROM alarm_trigger
         WHERE state IN ('planned', 'claimed') AND id = ANY($1)
         RETURNING id, due_at, channel, session",
    )
    .bind(&ids)
    .fetch_all(&mut *conn)
    .await?;
    let marked = sqlx::query(
        "-- withdraw: being sent
         UPDATE alarm_trigger SET withdrawn = true
         WHERE state = 'sending' AND NOT withdrawn AND id = ANY($1)
         RETURNING id, due_at, channel, session",
    )
    .bind(&ids)
    .fetch_all(conn)
    .await?;
    rows.extend(marked);
    rows.iter().map(row::withdrawn).collect()
}

async fn adjust(
    conn: &mut PgConnection,
    adjusted: &[(TriggerId, DateTime<Utc>, bool)],
) -> Result<(), StoreError> {
    if adjusted.is_empty() {
        return Ok(());
    }
    let done = sqlx::query(
        "-- adjust
         UPDATE alarm_trigger AS t SET expires_at = j.expires_at, has_more = j.has_more, withdrawn = false
         FROM unnest($1::bytea[], $2::timestamptz[], $3::boolean[]) AS j (id, expires_at, has_more)
         WHERE t.id = j.id",
    )
    .bind(adjusted.iter().map(|(id, ..)| id.0.to_vec()).collect::<Vec<_>>())
    .bind(adjusted.iter().map(|(_, at, _)| cut(*at)).collect::<Vec<_>>())
    .bind(adjusted.iter().map(|(.., more)| *more).collect::<Vec<_>>())
    .execute(conn)
    .await?;
    all(done.rows_affected(), adjusted.len(), "adjust")
}

/// Plans triggers, except those that exist already or were handed over before. Returns which are new. Whoever calls has
/// made sure that no settle of one of them is under way: its history would not be seen.
pub async fn insert_triggers(
    conn: &mut PgConnection,
    triggers: &[NewTrigger],
) -> Result<Vec<TriggerId>, StoreError> {
    if triggers.is_empty() {
        return Ok(Vec::new());
    }
    let wishes: Wishes = triggers.iter().map(|trigger| &trigger.wish).collect();
    let places: Places = triggers.iter().map(|trigger| Some(trigger.place)).collect();
    let rows = sqlx::query(
        "-- insert_triggers
         INSERT INTO alarm_trigger (id, owner, event_uid, identity, channel, recipient,
             trigger_at, occurrence, repeat, due_at, expires_at, has_more, moved, state)
         SELECT j.id, j.owner, j.event_uid, j.identity, j.channel, j.recipient,
             j.trigger_at, j.occurrence, j.repeat, j.trigger_at, j.expires_at, j.has_more, j.moved,
             'planned'
         FROM unnest($1::bytea[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::timestamptz[],
             $8::timestamptz[], $9::bigint[], $10::timestamptz[], $11::boolean[], $12::boolean[])
             AS j (id, owner, event_uid, identity, channel, recipient, trigger_at, occurrence, repeat,
                 expires_at, has_more, moved)
         WHERE NOT EXISTS (SELECT 1 FROM delivery AS d WHERE d.id = j.id AND d.rank >= 2 OFFSET 0)
         ORDER BY j.id
         ON CONFLICT (id) DO NOTHING
         RETURNING id",
    )
    .bind(triggers.iter().map(|trigger| trigger.id().0.to_vec()).collect::<Vec<_>>())
    .bind(wishes.owner)
    .bind(wishes.event_uid)
    .bind(wishes.identity)
    .bind(wishes.channel)
    .bind(wishes.recipient)
    .bind(places.trigger_at)
    .bind(places.occurrence)
    .bind(places.repeat)
    .bind(triggers.iter().map(|trigger| cut(trigger.expires_at)).collect::<Vec<_>>())
    .bind(triggers.iter().map(|trigger| trigger.has_more).collect::<Vec<_>>())
    .bind(triggers.iter().map(|trigger| trigger.moved).collect::<Vec<_>>())
    .fetch_all(conn)
    .await?;
    rows.iter()
        .map(|row| Columns::new("alarm_trigger", "id", row).id())
        .collect()
}

/// A trigger that was withdrawn while it was being sent, and is owed again, is no longer withdrawn.
async fn take_back(conn: &mut PgConnection, wanted: &[TriggerId]) -> Result<(), StoreError> {
    if wanted.is_empty() {
        return Ok(());
    }
    sqlx::query(
        "-- take_back
         UPDATE alarm_trigger SET withdrawn = false
         WHERE state = 'sending' AND withdrawn AND id = ANY($1)",
    )
    .bind(ids(wanted))
    .execute(conn)
    .await?;
    Ok(())
}

async fn quarantine(
    conn: &mut PgConnection,
    copies: &[(EventKey, Option<String>)],
) -> Result<(), StoreError> {
    if copies.is_empty() {
        return Ok(());
    }
    sqlx::query(
        "-- quarantine
         UPDATE event AS e SET quarantine = j.reason
         FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS j (source, key, owner, reason)
         WHERE e.source = j.source COLLATE \"C\" AND e.key = j.key COLLATE \"C\" AND e.owner = j.owner COLLATE \"C\"
           AND e.deleted_at IS NULL",
    )
    .bind(copies.iter().map(|(at, _)| at.source.as_str()).collect::<Vec<_>>())
    .bind(copies.iter().map(|(at, _)| at.key.as_str()).collect::<Vec<_>>())
    .bind(copies.iter().map(|(at, _)| at.owner.0.as_str()).collect::<Vec<_>>())
    .bind(copies.iter().map(|(_, reason)| reason.as_deref()).collect::<Vec<_>>())
    .execute(conn)
    .await?;
    Ok(())
}
