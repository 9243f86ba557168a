//! The fire-check: the last look before anything leaves. Claims that are still the caller's are read with everything
//! that may decide about them, judged, and moved to `sending` or to history, with what follows them in their series, in
//! one transaction and a few statements however many there are.

use std::collections::BTreeSet;
use std::collections::HashMap;
use std::collections::HashSet;

use chrono::DateTime;
use chrono::Utc;
use sqlx::Connection;
use sqlx::Row;
use sqlx::SqliteConnection;
use tracing::error;

use crate::store::Claimed;
use crate::store::FireCheck;
use crate::store::Judge;
use crate::store::StoreError;
use crate::store::gathering::Lead;
use crate::store::group::GroupKey;
use crate::store::judged;
use crate::store::judged::Attempt;
use crate::store::judged::Judged;
use crate::store::judged::Owed;
use crate::store::judged::Surroundings;
use crate::store::judged::group_of;
use crate::store::judged::triggers;
use crate::store::row;
use crate::store::row::list;
use crate::store::row::millis;
use crate::store::sqlite::addressees;
use crate::store::sqlite::alarms;
use crate::store::sqlite::claims;
use crate::store::sqlite::edits;
use crate::store::sqlite::epochs;
use crate::store::sqlite::groups;
use crate::store::sqlite::ledger;
use crate::store::sqlite::limits;
use crate::store::sqlite::sessions;
use crate::trigger::NewTrigger;
use crate::trigger::Place;
use crate::trigger::SessionId;
use crate::trigger::Trigger;
use crate::trigger::TriggerId;
use crate::trigger::Wish;
use crate::trigger::outcome::Outcome;
use crate::trigger::outcome::Reason;

/// Judges the claims and carries the judgement out. Where that cannot be written for all of them together, each is tried
/// alone, and what cannot be written is set aside.
pub async fn fire_check(
    conn: &mut SqliteConnection,
    claims: &[Claimed],
    attempt: Attempt,
    judge: &dyn Judge,
) -> Result<FireCheck, StoreError> {
    let (epoch, _) = epochs::current(conn).await?;
    epoch.check(judge, attempt.now)?;
    match in_savepoint(conn, claims, attempt, judge).await {
        Ok(checked) => return Ok(checked),
        Err(StoreError::Unavailable(cause)) => return Err(StoreError::Unavailable(cause)),
        Err(cause) => error!(%cause, "a fire-check fails and is split"),
    }
    let mut sum = FireCheck::default();
    for claim in claims {
        match in_savepoint(conn, std::slice::from_ref(claim), attempt, judge).await {
            Ok(checked) => sum.add(checked),
            Err(StoreError::Unavailable(cause)) => return Err(StoreError::Unavailable(cause)),
            Err(cause) => ledger::set_aside(conn, &claim.id.0, &cause, attempt.now).await?,
        }
    }
    Ok(sum)
}

async fn in_savepoint(
    conn: &mut SqliteConnection,
    claims: &[Claimed],
    attempt: Attempt,
    judge: &dyn Judge,
) -> Result<FireCheck, StoreError> {
    let mut savepoint = conn.begin().await?;
    let checked = check(&mut savepoint, claims, attempt, judge).await?;
    savepoint.commit().await?;
    Ok(checked)
}

async fn check(
    conn: &mut SqliteConnection,
    claims: &[Claimed],
    attempt: Attempt,
    judge: &dyn Judge,
) -> Result<FireCheck, StoreError> {
    let mut mine = mine(conn, claims, attempt).await?;
    judged::in_turn(&mut mine);
    let surroundings = surroundings(conn, &mine, attempt.now).await?;
    let mut allowances = limits::allowances(conn, &triggers(&mine), &judge.limits(), attempt.now).await?;
    let mut judged = Judged::with_room(judge.room(), &leads(conn, &mine).await?);
    for (trigger, alarm) in mine {
        match surroundings.of(trigger, alarm) {
            Ok(candidate) => judged.take(candidate, judge, &mut allowances, attempt),
            Err((id, complaint)) => ledger::set_aside(conn, &id.0, &complaint, attempt.now).await?,
        }
    }
    write(conn, &judged, attempt).await?;
    limits::take(conn, &allowances.slots).await?;
    limits::release(conn, &allowances.released).await?;
    let claimed = succeed(conn, &judged, attempt).await?;
    Ok(judged.told(claimed))
}

/// What is known of those whose messages others were part of before.
async fn leads(conn: &mut SqliteConnection, owed: &[Owed]) -> Result<Vec<Lead>, StoreError> {
    let leads = judged::leads(owed);
    if leads.is_empty() {
        return Ok(Vec::new());
    }
    let gathered = judged::gathered(owed);
    let rows = sqlx::query(
        "-- fire_check: leads
         SELECT lead.id,
             NOT EXISTS (SELECT 1 FROM alarm_trigger AS t WHERE t.id = lead.id)
                 AND NOT EXISTS (SELECT 1 FROM delivery AS d WHERE d.id = lead.id AND d.rank >= ?3) AS is_lost,
             EXISTS (SELECT 1 FROM alarm_trigger AS other
                 WHERE other.digest = lead.id AND other.id NOT IN (SELECT unhex(value) FROM json_each(?2))) AS is_parted
         FROM (SELECT unhex(value) AS id FROM json_each(?1)) AS lead",
    )
    .bind(list(&leads.iter().map(TriggerId::to_string).collect::<Vec<_>>()))
    .bind(list(&gathered.iter().map(TriggerId::to_string).collect::<Vec<_>>()))
    .bind(i64::from(Outcome::Awaiting.rank()))
    .fetch_all(conn)
    .await?;
    rows.iter().map(judged::lead).collect()
}

/// Those of the claims that are still the session's: claimed, or sending under this very attempt, whose answer was lost.
async fn mine(
    conn: &mut SqliteConnection,
    claims: &[Claimed],
    attempt: Attempt,
) -> Result<Vec<Owed>, StoreError> {
    let listed: Vec<_> = claims
        .iter()
        .map(|claim| (claim.id.to_string(), claim.generation, millis(claim.due_at)))
        .collect();
    let rows = sqlx::query(
        "-- fire_check
         SELECT t.*, a.owner IS NOT NULL AS wished, a.served_trigger_at, a.served_occurrence, a.served_repeat
         FROM json_each(?1) AS j
         CROSS JOIN alarm_trigger AS t ON t.id = unhex(j.value ->> 0)
         LEFT JOIN alarm AS a
             ON a.owner = t.owner AND a.event_uid = t.event_uid AND a.identity = t.identity
             AND a.channel = t.channel AND a.recipient = t.recipient
         WHERE t.generation = j.value ->> 1 AND t.due_at = j.value ->> 2 AND t.session = ?2
           AND (t.state = 'claimed' OR (t.state = 'sending' AND t.attempt_token = ?3))",
    )
    .bind(list(&listed))
    .bind(attempt.session.0)
    .bind(attempt.token.0)
    .fetch_all(&mut *conn)
    .await?;
    let mut mine = Vec::with_capacity(rows.len());
    let mut seen = HashSet::with_capacity(rows.len());
    for row in &rows {
        match judged::owed(row) {
            Ok(owed) if seen.insert(owed.0.id) => mine.push(owed),
            Ok(_) => {}
            Err(complaint) => ledger::set_aside(conn, row.try_get("id")?, &complaint, attempt.now).await?,
        }
    }
    Ok(mine)
}

/// What surrounds triggers.
async fn surroundings(
    conn: &mut SqliteConnection,
    owed: &[Owed],
    now: DateTime<Utc>,
) -> Result<Surroundings, StoreError> {
    let triggers = || owed.iter().map(|(trigger, _)| trigger);
    let keys: BTreeSet<GroupKey> = triggers().map(group_of).collect();
    let since = judged::since(owed, now);
    let since: Vec<_> = since.iter().map(|(key, since)| (key, *since)).collect();
    Ok(Surroundings {
        owners: groups::owners(conn, triggers().map(|trigger| &trigger.wish.owner)).await?,
        copies: judged::shared(groups::copies(conn, &keys).await?),
        answers: judged::shared(groups::answers(conn, &keys).await?),
        handed_over: judged::shared(groups::handed_over(conn, &since).await?),
        addressees: addressees::addressees(conn, owed).await?,
        standalone: alarms::of_triggers(conn, &judged::standalone_keys(owed)).await?,
    })
}

async fn write(conn: &mut SqliteConnection, judged: &Judged, attempt: Attempt) -> Result<(), StoreError> {
    start_sending(conn, &judged.to_send, attempt).await?;
    gather(conn, judged, attempt).await?;
    defer(conn, judged, attempt).await?;
    ledger::record_endings(conn, &judged.endings(), attempt.now).await?;
    delete_claimed(conn, &judged.concluded, attempt.session).await
}

/// Lets the series go on: what was served, what was stepped over, what is owed next.
async fn succeed(
    conn: &mut SqliteConnection,
    judged: &Judged,
    attempt: Attempt,
) -> Result<Vec<Claimed>, StoreError> {
    serve(conn, &judged.served).await?;
    ledger::record_firings(conn, &judged.missed, attempt.now).await?;
    edits::insert_triggers(conn, &judged.successors).await?;
    let ids: Vec<TriggerId> = judged.successors.iter().map(NewTrigger::id).collect();
    let until = attempt.now + attempt.near;
    claims::claim_near(conn, attempt.session, &ids, until, attempt.now).await
}

async fn start_sending(
    conn: &mut SqliteConnection,
    claims: &[(TriggerId, i64)],
    attempt: Attempt,
) -> Result<(), StoreError> {
    if claims.is_empty() {
        return Ok(());
    }
    let listed: Vec<_> = claims
        .iter()
        .map(|(id, generation)| (id.to_string(), generation))
        .collect();
    let done = sqlx::query(
        "-- fire_check: send
         UPDATE alarm_trigger SET state = 'sending', attempt_token = ?2, attempt_started = ?3,
             first_started_at = coalesce(first_started_at, ?3)
         WHERE state = 'claimed' AND session = ?4
           AND (id, generation) IN (SELECT unhex(value ->> 0), value ->> 1 FROM json_each(?1))",
    )
    .bind(list(&listed))
    .bind(attempt.token.0)
    .bind(millis(attempt.now))
    .bind(attempt.session.0)
    .execute(conn)
    .await?;
    row::all(done.rows_affected(), claims.len(), "fire_check: send")
}

/// Marks what leaves as one message, and takes the mark of what no longer does.
async fn gather(conn: &mut SqliteConnection, judged: &Judged, attempt: Attempt) -> Result<(), StoreError> {
    let marks = &judged.gathering.marks;
    if marks.is_empty() {
        return Ok(());
    }
    let listed: Vec<_> = marks
        .iter()
        .map(|(id, lead)| (id.to_string(), lead.map(|lead| lead.to_string())))
        .collect();
    let done = sqlx::query(
        "-- fire_check: gather
         UPDATE alarm_trigger SET digest = unhex(j.value ->> 1)
         FROM json_each(?1) AS j
         WHERE alarm_trigger.id = unhex(j.value ->> 0) AND state = 'sending' AND attempt_token = ?2",
    )
    .bind(list(&listed))
    .bind(attempt.token.0)
    .execute(conn)
    .await?;
    row::all(done.rows_affected(), marks.len(), "fire_check: gather")
}

/// Lets those that are over a limit wait, under the same claim.
async fn defer(conn: &mut SqliteConnection, judged: &Judged, attempt: Attempt) -> Result<(), StoreError> {
    let Some(until) = judged.deferred_until() else {
        return Ok(());
    };
    let listed: Vec<_> = judged
        .deferred
        .iter()
        .map(|claim| (claim.id.to_string(), claim.generation, millis(claim.due_at)))
        .collect();
    let done = sqlx::query(
        "-- fire_check: defer
         UPDATE alarm_trigger SET due_at = j.value ->> 2
         FROM json_each(?1) AS j
         WHERE alarm_trigger.id = unhex(j.value ->> 0) AND state = 'claimed' AND session = ?2
           AND generation = j.value ->> 1",
    )
    .bind(list(&listed))
    .bind(attempt.session.0)
    .execute(&mut *conn)
    .await?;
    row::all(done.rows_affected(), judged.deferred.len(), "fire_check: defer")?;
    sessions::reach(conn, attempt.session, until).await?;
    Ok(())
}

async fn delete_claimed(
    conn: &mut SqliteConnection,
    concluded: &[(Trigger, Outcome, Reason)],
    session: SessionId,
) -> Result<(), StoreError> {
    if concluded.is_empty() {
        return Ok(());
    }
    let listed: Vec<_> = concluded
        .iter()
        .map(|(trigger, ..)| (trigger.id.to_string(), trigger.generation))
        .collect();
    let done = sqlx::query(
        "-- fire_check: conclude
         DELETE FROM alarm_trigger
         WHERE state = 'claimed' AND session = ?2
           AND (id, generation) IN (SELECT unhex(value ->> 0), value ->> 1 FROM json_each(?1))",
    )
    .bind(list(&listed))
    .bind(session.0)
    .execute(conn)
    .await?;
    row::all(done.rows_affected(), concluded.len(), "fire_check: conclude")
}

/// Moves `served_through` forward, never back. A wish that is gone has nothing to move.
async fn serve(conn: &mut SqliteConnection, served: &HashMap<Wish, Place>) -> Result<(), StoreError> {
    if served.is_empty() {
        return Ok(());
    }
    let listed: Vec<_> = served
        .iter()
        .map(|(wish, place)| edits::listed_alarm(wish, Some(place)))
        .collect();
    sqlx::query(
        "-- fire_check: serve
         UPDATE alarm SET served_trigger_at = j.value ->> 5, served_occurrence = j.value ->> 6,
             served_repeat = j.value ->> 7
         FROM json_each(?1) AS j
         WHERE alarm.owner = j.value ->> 0 AND alarm.event_uid = j.value ->> 1 AND alarm.identity = j.value ->> 2
           AND alarm.channel = j.value ->> 3 AND alarm.recipient = j.value ->> 4
           AND (served_trigger_at IS NULL OR (served_trigger_at, served_occurrence, served_repeat)
               < (j.value ->> 5, j.value ->> 6, j.value ->> 7))",
    )
    .bind(list(&listed))
    .execute(conn)
    .await?;
    Ok(())
}
