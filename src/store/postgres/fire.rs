//! The fire-check: the last look before anything leaves. The owners of series are shared, so that nobody changes their
//! events meanwhile; then claims that are still the caller's are locked, read with everything that may decide about
//! them, judged, and moved to `sending` or to history, with what follows them in their series, in one transaction and a
//! few statements however many there are.

use std::collections::BTreeSet;
use std::collections::HashMap;

use chrono::DateTime;
use chrono::Utc;
use sqlx::PgConnection;

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
use crate::store::postgres::addressees;
use crate::store::postgres::alarms;
use crate::store::postgres::claims;
use crate::store::postgres::columns::Places;
use crate::store::postgres::columns::Wishes;
use crate::store::postgres::columns::cut;
use crate::store::postgres::columns::ids;
use crate::store::postgres::edits;
use crate::store::postgres::epochs;
use crate::store::postgres::groups;
use crate::store::postgres::ledger;
use crate::store::postgres::limits;
use crate::store::postgres::owners;
use crate::store::postgres::sessions;
use crate::store::row::Columns;
use crate::store::row::all;
use crate::store::row::millis;
use crate::trigger::NewTrigger;
use crate::trigger::OwnerId;
use crate::trigger::Place;
use crate::trigger::TriggerId;
use crate::trigger::Wish;
use crate::trigger::outcome::Outcome;

/// Judges the claims and carries the judgement out. Where that cannot be written for all of them together, the caller
/// tries each alone.
pub async fn fire_check(
    conn: &mut PgConnection,
    claims: &[Claimed],
    attempt: Attempt,
    judge: &dyn Judge,
) -> Result<FireCheck, StoreError> {
    epochs::current(conn).await?.check(judge, attempt.now)?;
    let limits = judge.limits();
    let is_limited = claims.iter().any(|claim| limits.contains_key(&claim.channel));
    let shared = if is_limited {
        lock_owners(conn, claims).await?
    } else {
        share_owners(conn, claims).await?
    };
    let (mut mine, mut unreadable) = mine(conn, claims, attempt).await?;
    if mine
        .iter()
        .any(|(trigger, _)| (is_limited || trigger.has_more) && !shared.contains(&trigger.wish.owner))
    {
        // A change made it a series, or planned it, after the owners were looked up.
        return Err(StoreError::Interrupted(
            "an alarm is not what it was a moment ago".to_owned(),
        ));
    }
    judged::in_turn(&mut mine);
    let surroundings = surroundings(conn, &mine, attempt.now).await?;
    let mut allowances = limits::allowances(conn, &triggers(&mine), &limits, attempt.now).await?;
    let mut judged = Judged::with_room(judge.room(), &leads(conn, &mine).await?);
    for (trigger, alarm) in mine {
        match surroundings.of(trigger, alarm) {
            Ok(candidate) => judged.take(candidate, judge, &mut allowances, attempt),
            Err(spoilt) => unreadable.push(spoilt),
        }
    }
    alarms::hold(conn, judged.counted().chain(unreadable.iter().map(|(id, _)| id))).await?;
    for (id, complaint) in &unreadable {
        ledger::set_aside(conn, &id.0, complaint, attempt.now).await?;
    }
    write(conn, &judged, attempt).await?;
    limits::take(conn, &allowances.slots).await?;
    limits::release(conn, &allowances.released).await?;
    let claimed = succeed(conn, &judged, attempt).await?;
    Ok(judged.told(claimed))
}

/// What is known of those whose messages others were part of before.
async fn leads(conn: &mut PgConnection, owed: &[Owed]) -> Result<Vec<Lead>, StoreError> {
    let leads = judged::leads(owed);
    if leads.is_empty() {
        return Ok(Vec::new());
    }
    let rows = sqlx::query(
        "-- fire_check: leads
         SELECT lead.id,
             NOT EXISTS (SELECT FROM alarm_trigger AS t WHERE t.id = lead.id OFFSET 0)
                 AND NOT EXISTS (SELECT FROM delivery AS d WHERE d.id = lead.id AND d.rank >= $3 OFFSET 0) AS is_lost,
             EXISTS (SELECT FROM alarm_trigger AS other
                 WHERE other.digest = lead.id AND other.id <> ALL($2) OFFSET 0) AS is_parted
         FROM unnest($1::bytea[]) AS lead (id)",
    )
    .bind(ids(&leads))
    .bind(ids(&judged::gathered(owed)))
    .bind(i32::from(Outcome::Awaiting.rank()))
    .fetch_all(conn)
    .await?;
    rows.iter().map(judged::lead).collect()
}

/// Holds off changes of the events whose next firing is about to be planned. The last firing of an alarm needs no lock:
/// whatever alters when or whether it fires removes the trigger or raises its generation.
async fn share_owners(conn: &mut PgConnection, claims: &[Claimed]) -> Result<BTreeSet<OwnerId>, StoreError> {
    let owners: Vec<String> = sqlx::query_scalar(
        "-- fire_check: share owners
         SELECT id FROM owner
         WHERE id = ANY(ARRAY(SELECT DISTINCT owner FROM alarm_trigger WHERE id = ANY($1) AND has_more))
         ORDER BY id FOR SHARE",
    )
    .bind(ids(claims.iter().map(|claim| &claim.id)))
    .fetch_all(conn)
    .await?;
    Ok(owners.into_iter().map(OwnerId).collect())
}

/// Holds off changes, and whoever else counts against the limits of these owners.
async fn lock_owners(conn: &mut PgConnection, claims: &[Claimed]) -> Result<BTreeSet<OwnerId>, StoreError> {
    let owners: Vec<String> = sqlx::query_scalar(
        "-- fire_check: lock owners
         SELECT id FROM owner
         WHERE id = ANY(ARRAY(SELECT DISTINCT owner FROM alarm_trigger WHERE id = ANY($1)))
         ORDER BY id FOR NO KEY UPDATE",
    )
    .bind(ids(claims.iter().map(|claim| &claim.id)))
    .fetch_all(conn)
    .await?;
    Ok(owners.into_iter().map(OwnerId).collect())
}

/// Those of the claims that are still the session's: claimed, or sending under this very attempt, whose answer was lost. And
/// those that cannot be read.
async fn mine(
    conn: &mut PgConnection,
    claims: &[Claimed],
    attempt: Attempt,
) -> Result<(Vec<Owed>, Vec<(TriggerId, StoreError)>), StoreError> {
    let mine: Vec<Vec<u8>> = sqlx::query_scalar(
        "-- fire_check
         SELECT id FROM alarm_trigger
         WHERE id = ANY($1) AND session = $2
           AND (state = 'claimed' OR (state = 'sending' AND attempt_token = $3))
         ORDER BY id FOR UPDATE",
    )
    .bind(ids(claims.iter().map(|claim| &claim.id)))
    .bind(attempt.session.0)
    .bind(attempt.token.0)
    .fetch_all(&mut *conn)
    .await?;
    // Read after the wait for the locks: a statement sees other tables as they were when it began.
    let rows = sqlx::query(concat!(
        "-- fire_check: read
         SELECT ",
        columns!(alarm_trigger),
        ", a.owner IS NOT NULL AS wished, a.served_trigger_at, a.served_occurrence, a.served_repeat
         FROM unnest($1::bytea[]) AS j (id)
         CROSS JOIN LATERAL (SELECT ",
        columns!(alarm_trigger),
        " FROM alarm_trigger AS t WHERE t.id = j.id OFFSET 0) AS t
         LEFT JOIN LATERAL (SELECT a.owner, a.served_trigger_at, a.served_occurrence, a.served_repeat FROM alarm AS a
             WHERE a.owner = t.owner AND a.event_uid = t.event_uid AND a.identity = t.identity
               AND a.channel = t.channel AND a.recipient = t.recipient OFFSET 0) AS a ON true",
    ))
    .bind(mine)
    .fetch_all(&mut *conn)
    .await?;
    let claimed: HashMap<TriggerId, &Claimed> = claims.iter().map(|claim| (claim.id, claim)).collect();
    let (mut mine, mut unreadable) = (Vec::with_capacity(rows.len()), Vec::new());
    for row in &rows {
        match judged::owed(row) {
            Ok(owed) if is_as_claimed(&owed, &claimed) => mine.push(owed),
            Ok(_) => {}
            Err(complaint) => unreadable.push((Columns::new("alarm_trigger", "id", row).id()?, complaint)),
        }
    }
    Ok((mine, unreadable))
}

fn is_as_claimed((trigger, _): &Owed, claimed: &HashMap<TriggerId, &Claimed>) -> bool {
    claimed.get(&trigger.id).is_some_and(|claim| {
        claim.generation == trigger.generation && millis(claim.due_at) == millis(trigger.due_at)
    })
}

/// What surrounds triggers.
async fn surroundings(
    conn: &mut PgConnection,
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

async fn write(conn: &mut PgConnection, judged: &Judged, attempt: Attempt) -> Result<(), StoreError> {
    start_sending(conn, &judged.to_send, attempt).await?;
    gather(conn, judged, attempt).await?;
    defer(conn, judged, attempt).await?;
    ledger::record_endings(conn, &judged.endings(), attempt.now).await?;
    delete_claimed(conn, judged, attempt).await
}

/// Lets the series go on: what was served, what was stepped over, what is owed next.
async fn succeed(
    conn: &mut PgConnection,
    judged: &Judged,
    attempt: Attempt,
) -> Result<Vec<Claimed>, StoreError> {
    serve(conn, &judged.served).await?;
    ledger::record_firings(conn, &judged.missed, attempt.now).await?;
    let next: Vec<TriggerId> = judged.successors.iter().map(NewTrigger::id).collect();
    let owed = await_settles(conn, &next).await?;
    let planned = edits::insert_triggers(conn, &judged.successors).await?;
    // What is neither owed nor could be planned was handed over a moment ago: its series goes on from there.
    let handed_over = judged
        .successors
        .iter()
        .filter(|it| !owed.contains(&it.id()) && !planned.contains(&it.id()));
    owners::ask_for(conn, handed_over.map(|it| it.wish.owner.0.as_str()).collect()).await?;
    let until = attempt.now + attempt.near;
    claims::claim_near(conn, attempt.session, &next, until, attempt.now).await
}

/// Lets a settle of one of these that is under way finish, so that its history is seen. Returns those that are owed still.
async fn await_settles(
    conn: &mut PgConnection,
    triggers: &[TriggerId],
) -> Result<Vec<TriggerId>, StoreError> {
    if triggers.is_empty() {
        return Ok(Vec::new());
    }
    let rows = sqlx::query(
        "-- fire_check: await settles
         SELECT id FROM alarm_trigger WHERE id = ANY($1) ORDER BY id FOR UPDATE",
    )
    .bind(ids(triggers))
    .fetch_all(conn)
    .await?;
    rows.iter()
        .map(|row| Columns::new("alarm_trigger", "id", row).id())
        .collect()
}

async fn start_sending(
    conn: &mut PgConnection,
    claims: &[(TriggerId, i64)],
    attempt: Attempt,
) -> Result<(), StoreError> {
    if claims.is_empty() {
        return Ok(());
    }
    // Their generations were compared when they were locked.
    let done = sqlx::query(
        "-- fire_check: send
         UPDATE alarm_trigger SET state = 'sending', attempt_token = $2, attempt_started = $3,
             first_started_at = coalesce(first_started_at, $3)
         WHERE id = ANY($1) AND state = 'claimed' AND session = $4",
    )
    .bind(ids(claims.iter().map(|(id, _)| id)))
    .bind(attempt.token.0)
    .bind(attempt.now)
    .bind(attempt.session.0)
    .execute(conn)
    .await?;
    all(done.rows_affected(), claims.len(), "fire_check: send")
}

/// Marks what leaves as one message, and takes the mark of what no longer does.
async fn gather(conn: &mut PgConnection, judged: &Judged, attempt: Attempt) -> Result<(), StoreError> {
    let marks = &judged.gathering.marks;
    if marks.is_empty() {
        return Ok(());
    }
    let leads = marks.values().map(|lead| lead.map(|lead| lead.0.to_vec()));
    let done = sqlx::query(
        "-- fire_check: gather
         UPDATE alarm_trigger AS t SET digest = j.lead
         FROM unnest($1::bytea[], $2::bytea[]) AS j (id, lead)
         WHERE t.id = j.id AND t.state = 'sending' AND t.attempt_token = $3",
    )
    .bind(ids(marks.keys()))
    .bind(leads.collect::<Vec<_>>())
    .bind(attempt.token.0)
    .execute(conn)
    .await?;
    all(done.rows_affected(), marks.len(), "fire_check: gather")
}

/// Lets those that are over a limit wait, under the same claim.
async fn defer(conn: &mut PgConnection, judged: &Judged, attempt: Attempt) -> Result<(), StoreError> {
    let Some(until) = judged.deferred_until() else {
        return Ok(());
    };
    let deferred = &judged.deferred;
    let done = sqlx::query(
        "-- fire_check: defer
         UPDATE alarm_trigger AS t SET due_at = j.due_at
         FROM unnest($1::bytea[], $2::timestamptz[]) AS j (id, due_at)
         WHERE t.id = j.id AND t.state = 'claimed' AND t.session = $3",
    )
    .bind(
        deferred
            .iter()
            .map(|claim| claim.id.0.to_vec())
            .collect::<Vec<_>>(),
    )
    .bind(deferred.iter().map(|claim| cut(claim.due_at)).collect::<Vec<_>>())
    .bind(attempt.session.0)
    .execute(&mut *conn)
    .await?;
    all(done.rows_affected(), deferred.len(), "fire_check: defer")?;
    sessions::reach(conn, attempt.session, until).await?;
    Ok(())
}

async fn delete_claimed(
    conn: &mut PgConnection,
    judged: &Judged,
    attempt: Attempt,
) -> Result<(), StoreError> {
    if judged.concluded.is_empty() {
        return Ok(());
    }
    let done = sqlx::query(
        "-- fire_check: conclude
         DELETE FROM alarm_trigger WHERE id = ANY($1) AND state = 'claimed' AND session = $2",
    )
    .bind(ids(judged.concluded.iter().map(|(trigger, ..)| &trigger.id)))
    .bind(attempt.session.0)
    .execute(conn)
    .await?;
    all(
        done.rows_affected(),
        judged.concluded.len(),
        "fire_check: conclude",
    )
}

/// Moves `served_through` forward, never back. A wish that is gone has nothing to move.
async fn serve(conn: &mut PgConnection, served: &HashMap<Wish, Place>) -> Result<(), StoreError> {
    if served.is_empty() {
        return Ok(());
    }
    let mut served: Vec<(&Wish, &Place)> = served.iter().collect();
    served.sort_unstable_by_key(|(wish, _)| *wish);
    let wishes: Wishes = served.iter().map(|(wish, _)| *wish).collect();
    let places: Places = served.iter().map(|(_, place)| Some(**place)).collect();
    sqlx::query(
        "-- fire_check: serve
         UPDATE alarm AS a SET served_trigger_at = j.trigger_at, served_occurrence = j.occurrence,
             served_repeat = j.repeat
         FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[],
             $6::timestamptz[], $7::timestamptz[], $8::bigint[])
             AS j (owner, event_uid, identity, channel, recipient, trigger_at, occurrence, repeat)
         WHERE a.owner = j.owner COLLATE \"C\" AND a.event_uid = j.event_uid COLLATE \"C\"
           AND a.identity = j.identity COLLATE \"C\" AND a.channel = j.channel COLLATE \"C\"
           AND a.recipient = j.recipient COLLATE \"C\"
           AND (a.served_trigger_at IS NULL OR (a.served_trigger_at, a.served_occurrence, a.served_repeat)
               < (j.trigger_at, j.occurrence, j.repeat))",
    )
    .bind(wishes.owner)
    .bind(wishes.event_uid)
    .bind(wishes.identity)
    .bind(wishes.channel)
    .bind(wishes.recipient)
    .bind(places.trigger_at)
    .bind(places.occurrence)
    .bind(places.repeat)
    .execute(conn)
    .await?;
    Ok(())
}
