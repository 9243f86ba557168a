//! The fire-check: the last look before anything leaves. Claims that are still the caller's are read with everything
//! that may decide about them, judged, and moved to `sending` or to history, with what follows them in their series, in
//! one transaction and a few statements however many there are.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::collections::HashMap;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use chrono::DateTime;
use chrono::Utc;
use sqlx::Connection;
use sqlx::Row;
use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteRow;
use tracing::error;

use crate::store::Alarm;
use crate::store::Candidate;
use crate::store::Claimed;
use crate::store::EventCopy;
use crate::store::FireCheck;
use crate::store::Judge;
use crate::store::Judgement;
use crate::store::Owner;
use crate::store::Record;
use crate::store::StoreError;
use crate::store::Succession;
use crate::store::Verdict;
use crate::store::row;
use crate::store::row::list;
use crate::store::row::millis;
use crate::store::sqlite::claims;
use crate::store::sqlite::edits;
use crate::store::sqlite::groups;
use crate::store::sqlite::groups::ByGroup;
use crate::store::sqlite::groups::GroupKey;
use crate::store::sqlite::ledger;
use crate::store::sqlite::ledger::Ending;
use crate::trigger::AttemptToken;
use crate::trigger::NewTrigger;
use crate::trigger::OwnerId;
use crate::trigger::Place;
use crate::trigger::SessionId;
use crate::trigger::State;
use crate::trigger::Trigger;
use crate::trigger::TriggerId;
use crate::trigger::Wish;
use crate::trigger::outcome::Outcome;
use crate::trigger::outcome::Reason;

/// Who fires, and under which attempt.
#[derive(Debug, Clone, Copy)]
pub struct Attempt {
    /// The session.
    pub session: SessionId,
    /// The attempt.
    pub token: AttemptToken,
    /// Successors due within it are claimed at once.
    pub near: Duration,
    /// Now, by the store's clock.
    pub now: DateTime<Utc>,
}

/// Judges the claims and carries the judgement out. Where that cannot be written for all of them together, each is tried
/// alone, and what cannot be written is set aside.
pub async fn fire_check(
    conn: &mut SqliteConnection,
    claims: &[Claimed],
    attempt: Attempt,
    judge: &dyn Judge,
) -> Result<FireCheck, StoreError> {
    match in_savepoint(conn, claims, attempt, judge).await {
        Ok(checked) => return Ok(checked),
        Err(StoreError::Unavailable(cause)) => return Err(StoreError::Unavailable(cause)),
        Err(cause) => error!(%cause, "a fire-check fails and is split"),
    }
    let mut sum = FireCheck::default();
    for claim in claims {
        match in_savepoint(conn, std::slice::from_ref(claim), attempt, judge).await {
            Ok(checked) => {
                sum.granted.extend(checked.granted);
                sum.concluded.extend(checked.concluded);
                sum.missed.extend(checked.missed);
                sum.claimed.extend(checked.claimed);
            }
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
    let mine = mine(conn, claims, attempt).await?;
    let surroundings = Surroundings::read(conn, &mine, attempt.now).await?;
    let mut judged = Judged::default();
    for (trigger, alarm) in mine {
        match surroundings.of(trigger, alarm) {
            Ok(candidate) => judged.take(candidate, judge, attempt),
            Err((id, complaint)) => ledger::set_aside(conn, &id.0, &complaint, attempt.now).await?,
        }
    }
    judged.write(conn, attempt).await?;
    let claimed = judged.succeed(conn, attempt).await?;
    Ok(FireCheck {
        granted: judged.granted,
        concluded: judged.concluded,
        missed: judged.missed,
        claimed,
    })
}

/// A trigger, and its wish where that is not gone.
type Owed = (Trigger, Option<Alarm>);

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
        match owed(row) {
            Ok(owed) if seen.insert(owed.0.id) => mine.push(owed),
            Ok(_) => {}
            Err(complaint) => ledger::set_aside(conn, row.try_get("id")?, &complaint, attempt.now).await?,
        }
    }
    Ok(mine)
}

/// A wish that cannot be read spoils its trigger: to take it for gone would end its series without a word.
fn owed(row: &SqliteRow) -> Result<Owed, StoreError> {
    let wished: bool = row.try_get("wished")?;
    let alarm = wished.then(|| row::alarm(row)).transpose()?;
    Ok((row::trigger(row)?, alarm))
}

/// What may decide about triggers, read once for all candidates of a group.
struct Surroundings {
    owners: BTreeMap<OwnerId, Result<Owner, StoreError>>,
    copies: BTreeMap<GroupKey, Result<Arc<Vec<EventCopy>>, StoreError>>,
    handed_over: BTreeMap<GroupKey, Result<Arc<Vec<TriggerId>>, StoreError>>,
}

impl Surroundings {
    async fn read(
        conn: &mut SqliteConnection,
        owed: &[Owed],
        now: DateTime<Utc>,
    ) -> Result<Self, StoreError> {
        let triggers = || owed.iter().map(|(trigger, _)| trigger);
        let keys: BTreeSet<GroupKey> = triggers().map(group_of).collect();
        // Only a series goes on: nobody asks what was handed over after the last firing.
        let mut since: BTreeMap<GroupKey, DateTime<Utc>> = BTreeMap::new();
        for trigger in triggers().filter(|trigger| trigger.has_more) {
            let since = since.entry(group_of(trigger)).or_insert(now);
            *since = groups::oldest([*since, trigger.place.trigger_at].into_iter(), now);
        }
        let since: Vec<_> = since.iter().map(|(key, since)| (key, *since)).collect();
        Ok(Self {
            owners: groups::owners(conn, triggers().map(|trigger| &trigger.wish.owner)).await?,
            copies: shared(groups::copies(conn, &keys).await?),
            handed_over: shared(groups::handed_over(conn, &since).await?),
        })
    }

    /// The trigger with what surrounds it, or why that cannot be read.
    fn of(&self, trigger: Trigger, alarm: Option<Alarm>) -> Result<Candidate, (TriggerId, StoreError)> {
        let id = trigger.id;
        let key = group_of(&trigger);
        let complain = |complaint: &StoreError| (id, groups::again(complaint));
        let Some(owner) = self.owners.get(&key.0) else {
            let reason = "its owner does not exist".to_owned();
            let (table, row) = ("alarm_trigger", id.to_string());
            return Err((id, StoreError::Corrupt { table, row, reason }));
        };
        let owner = owner.as_ref().map_err(complain)?.clone();
        Ok(Candidate {
            alarm,
            owner,
            copies: found(&self.copies, &key).map_err(complain)?,
            handed_over: found(&self.handed_over, &key).map_err(complain)?,
            trigger,
        })
    }
}

fn group_of(trigger: &Trigger) -> GroupKey {
    (trigger.wish.owner.clone(), trigger.wish.event_uid.clone())
}

type Shared<T> = BTreeMap<GroupKey, Result<Arc<Vec<T>>, StoreError>>;

fn shared<T>(rows: ByGroup<T>) -> Shared<T> {
    rows.into_iter()
        .map(|(key, rows)| (key, rows.map(Arc::new)))
        .collect()
}

fn found<'a, T>(rows: &'a Shared<T>, key: &GroupKey) -> Result<Arc<Vec<T>>, &'a StoreError> {
    match rows.get(key) {
        None => Ok(Arc::default()),
        Some(rows) => rows.as_ref().map(Arc::clone),
    }
}

/// What was judged, before it is written.
#[derive(Default)]
struct Judged {
    granted: Vec<Candidate>,
    /// Those of the granted that are not `sending` yet.
    to_send: Vec<(TriggerId, i64)>,
    concluded: Vec<(Trigger, Outcome, Reason)>,
    served: HashMap<Wish, Place>,
    successors: Vec<NewTrigger>,
    missed: Vec<Record>,
}

impl Judged {
    fn take(&mut self, mut candidate: Candidate, judge: &dyn Judge, attempt: Attempt) {
        if candidate.trigger.state == State::Sending {
            self.granted.push(candidate);
            return;
        }
        // Another place of the same series may have been served in this very batch.
        if let Some(alarm) = &mut candidate.alarm {
            alarm.served_through = alarm.served_through.max(self.served.get(&alarm.wish).copied());
        }
        let Judgement { verdict, succession } = judge.judge(&candidate, attempt.now);
        if let Some(succession) = succession {
            self.go_on(&candidate.trigger.wish, succession);
        }
        match verdict {
            Verdict::Send => {
                self.to_send
                    .push((candidate.trigger.id, candidate.trigger.generation));
                candidate.trigger.state = State::Sending;
                candidate.trigger.attempt_token = Some(attempt.token);
                candidate.trigger.attempt_started = Some(attempt.now);
                self.granted.push(candidate);
            }
            Verdict::Conclude(outcome, reason) => self.concluded.push((candidate.trigger, outcome, reason)),
        }
    }

    fn go_on(&mut self, wish: &Wish, succession: Succession) {
        let served = self
            .served
            .entry(wish.clone())
            .or_insert(succession.served_through);
        *served = succession.served_through.max(*served);
        self.successors.extend(succession.successor);
        self.missed.extend(succession.missed);
    }

    async fn write(&self, conn: &mut SqliteConnection, attempt: Attempt) -> Result<(), StoreError> {
        start_sending(conn, &self.to_send, attempt).await?;
        let endings: Vec<Ending> = self
            .concluded
            .iter()
            .map(|(trigger, outcome, reason)| Ending::plain(trigger.id, *outcome, *reason))
            .collect();
        ledger::record_endings(conn, &endings, attempt.now).await?;
        delete_claimed(conn, &self.concluded, attempt.session).await
    }

    /// Lets the series go on: what was served, what was stepped over, what is owed next.
    async fn succeed(
        &self,
        conn: &mut SqliteConnection,
        attempt: Attempt,
    ) -> Result<Vec<Claimed>, StoreError> {
        serve(conn, &self.served).await?;
        ledger::record_firings(conn, &self.missed, attempt.now).await?;
        edits::insert_triggers(conn, &self.successors).await?;
        let ids: Vec<TriggerId> = self.successors.iter().map(NewTrigger::id).collect();
        let until = attempt.now + attempt.near;
        claims::claim_near(conn, attempt.session, &ids, until, attempt.now).await
    }
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
         UPDATE alarm_trigger SET state = 'sending', attempt_token = ?2, attempt_started = ?3
         WHERE state = 'claimed' AND session = ?4
           AND (id, generation) IN (SELECT unhex(value ->> 0), value ->> 1 FROM json_each(?1))",
    )
    .bind(list(&listed))
    .bind(attempt.token.0)
    .bind(millis(attempt.now))
    .bind(attempt.session.0)
    .execute(conn)
    .await?;
    ledger::all(done.rows_affected(), claims.len(), "fire_check: send")
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
    ledger::all(done.rows_affected(), concluded.len(), "fire_check: conclude")
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
