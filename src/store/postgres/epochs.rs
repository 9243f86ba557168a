//! Epoch and watermark, and what is recorded again after the database went back in time.

use std::collections::BTreeSet;

use chrono::DateTime;
use chrono::Utc;
use sqlx::PgConnection;
use sqlx::Row;

use crate::store::Course;
use crate::store::Doubtful;
use crate::store::Epoch;
use crate::store::EpochId;
use crate::store::Epochs;
use crate::store::HandOver;
use crate::store::Heartbeat;
use crate::store::Report;
use crate::store::StoreError;
use crate::store::ending::shortened;
use crate::store::epoch;
use crate::store::postgres::PostgresStore;
use crate::store::postgres::alarms;
use crate::store::postgres::columns::Places;
use crate::store::postgres::columns::Wishes;
use crate::store::postgres::columns::cut;
use crate::store::postgres::columns::ids;
use crate::store::postgres::owners;
use crate::store::postgres::registry;
use crate::store::postgres::sessions;
use crate::trigger::SessionId;

/// Rows that are counted at the most.
const COUNTED: i64 = 100_000;

#[async_trait::async_trait]
impl Epochs for PostgresStore {
    async fn heartbeat(&self, session: SessionId, says: Report) -> Result<Heartbeat, StoreError> {
        let heartbeat = in_transaction!(self, |tx, _| async {
            let lives = sessions::beat(tx, session, says, &self.time).await?;
            // Last, since all nodes write this row: it is locked for no longer than the commit takes.
            let now = self.time.now(tx).await?;
            let epoch = advance(tx, &says, now).await?;
            Ok::<_, StoreError>(Heartbeat { lives, epoch })
        })?;
        // In a transaction of its own, since a session lives on a full disk as well.
        in_transaction!(self, |tx, _| sessions::prove_room(tx))?;
        Ok(heartbeat)
    }

    async fn epoch(&self) -> Result<Epoch, StoreError> {
        repeating!(self, |conn| current(conn).await)
    }

    async fn resume_session(&self, session: SessionId, node: &str) -> Result<bool, StoreError> {
        in_transaction!(self, |tx, now| resume_session(tx, session, node, now))
    }

    async fn record_again(&self, hand_overs: &[HandOver]) -> Result<u64, StoreError> {
        in_transaction!(self, |tx, now| record_again(tx, hand_overs, now))
    }

    async fn doubtful(&self) -> Result<Doubtful, StoreError> {
        in_transaction!(self, |tx, now| doubtful(tx, now))
    }

    async fn release(
        &self,
        epoch: EpochId,
        missed_before: Option<DateTime<Utc>>,
    ) -> Result<bool, StoreError> {
        in_transaction!(self, |tx, _| release(tx, epoch, missed_before))
    }
}

/// The row.
pub async fn current(conn: &mut PgConnection) -> Result<Epoch, StoreError> {
    let row = sqlx::query(
        "-- epoch
         SELECT number, random, began_at, watermark, raised_at, lost_after, lost_until, missed_before, held FROM store_epoch",
    )
    .fetch_one(conn)
    .await?;
    epoch::read(&row)
}

async fn advance(conn: &mut PgConnection, says: &Report, now: DateTime<Utc>) -> Result<Epoch, StoreError> {
    let row = sqlx::query(
        "-- heartbeat: lock
         SELECT number, random, began_at, watermark, raised_at, lost_after, lost_until, missed_before, held,
             (random() * 9e15)::bigint AS fresh
         FROM store_epoch FOR NO KEY UPDATE",
    )
    .fetch_one(&mut *conn)
    .await?;
    let found = epoch::read(&row)?;
    let next = found.advanced(says, now, row.try_get("fresh")?);
    sqlx::query(
        "-- heartbeat
         UPDATE store_epoch SET number = $3, random = $4, began_at = $5, watermark = $6, raised_at = $7, lost_after = $8,
             lost_until = $9, missed_before = $10, held = $11
         WHERE number = $1 AND random = $2",
    )
    .bind(found.id.number)
    .bind(found.id.random)
    .bind(next.id.number)
    .bind(next.id.random)
    .bind(cut(next.began_at))
    .bind(next.watermark)
    .bind(cut(next.raised_at))
    .bind(next.lost.map(|lost| cut(lost.after)))
    .bind(next.lost.map(|lost| cut(lost.until)))
    .bind(next.missed_before.map(cut))
    .bind(next.held)
    .execute(&mut *conn)
    .await?;
    if found.course(says.seen) != Course::Onward {
        // The fence went back in time as well, and its leader acquires it only once for each term.
        if let Some(fence) = says.fence {
            registry::acquire(conn, fence).await?;
        }
        if let Some(peer) = says.peer {
            registry::keep_number(conn, peer).await?;
        }
    }
    Ok(next)
}

async fn resume_session(
    conn: &mut PgConnection,
    session: SessionId,
    node: &str,
    now: DateTime<Utc>,
) -> Result<bool, StoreError> {
    let done = sqlx::query(
        "-- resume_session
         INSERT INTO session (id, node, started_at, beat_at, held_until, delivers) OVERRIDING SYSTEM VALUE
         VALUES ($1, $2, $3, $3, $3, false)
         ON CONFLICT (id) DO UPDATE SET beat_at = excluded.beat_at WHERE session.node = excluded.node",
    )
    .bind(session.0)
    .bind(node)
    .bind(now)
    .execute(&mut *conn)
    .await?;
    // The sequence went back in time as well, and this number must not be given to a second session.
    sqlx::query(
        "-- resume_session: sequence
         SELECT setval('session_id_seq', greatest($1, nextval('session_id_seq')))",
    )
    .bind(session.0)
    .execute(conn)
    .await?;
    Ok(done.rows_affected() == 1)
}

async fn record_again(
    conn: &mut PgConnection,
    hand_overs: &[HandOver],
    now: DateTime<Utc>,
) -> Result<u64, StoreError> {
    let known = owners::lock(conn, hand_overs.iter().map(|it| &it.wish.owner)).await?;
    let mut known: Vec<&HandOver> = hand_overs
        .iter()
        .filter(|it| known.contains(&it.wish.owner))
        .collect();
    known.sort_by_key(|it| it.ending.id.0);
    let names: BTreeSet<&str> = known.iter().map(|it| it.wish.owner.0.as_str()).collect();
    let triggers = || ids(known.iter().map(|it| &it.ending.id));
    sqlx::query(
        "-- record_again: lock
         SELECT 1 FROM alarm_trigger WHERE id = ANY($1) ORDER BY id FOR UPDATE",
    )
    .bind(triggers())
    .execute(&mut *conn)
    .await?;
    let alarms = known.iter().filter(|it| it.wish.alarm_id().is_some());
    alarms::hold_owners(conn, alarms.map(|it| it.wish.owner.0.as_str())).await?;
    let recorded = insert(conn, &known, now).await?;
    sqlx::query(
        "-- record_again: not due any more
         DELETE FROM alarm_trigger WHERE id = ANY($1)",
    )
    .bind(triggers())
    .execute(&mut *conn)
    .await?;
    owners::ask_for(conn, names.into_iter().collect()).await?;
    Ok(recorded)
}

async fn insert(conn: &mut PgConnection, known: &[&HandOver], now: DateTime<Utc>) -> Result<u64, StoreError> {
    let wishes: Wishes = known.iter().map(|it| &it.wish).collect();
    let places: Places = known.iter().map(|it| Some(it.place)).collect();
    let endings = || known.iter().map(|it| &it.ending);
    let done = sqlx::query(
        "-- record_again
         INSERT INTO delivery (id, owner, event_uid, identity, channel, recipient, occurrence, trigger_at, repeat,
             outcome, rank, reason, detail, attempts, count, handed_over_at, recorded_at, reference, await_until)
         SELECT j.id, j.owner, j.event_uid, j.identity, j.channel, j.recipient, j.occurrence, j.trigger_at, j.repeat,
             j.outcome, j.rank, j.reason, j.detail, j.attempts, 1, j.handed_over_at, $18, j.reference, j.await_until
         FROM unnest($1::bytea[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::timestamptz[],
             $8::timestamptz[], $9::bigint[], $10::text[], $11::bigint[], $12::text[], $13::text[], $14::bigint[],
             $15::timestamptz[], $16::text[], $17::timestamptz[])
             AS j (id, owner, event_uid, identity, channel, recipient, occurrence, trigger_at, repeat,
                 outcome, rank, reason, detail, attempts, handed_over_at, reference, await_until)
         ORDER BY j.id
         ON CONFLICT (id) DO UPDATE SET
             outcome = excluded.outcome, rank = excluded.rank, reason = excluded.reason, detail = excluded.detail,
             attempts = excluded.attempts, recorded_at = excluded.recorded_at,
             handed_over_at = coalesce(excluded.handed_over_at, delivery.handed_over_at),
             reference = excluded.reference, await_until = excluded.await_until
         WHERE delivery.rank < excluded.rank",
    )
    .bind(ids(endings().map(|ending| &ending.id)))
    .bind(wishes.owner)
    .bind(wishes.event_uid)
    .bind(wishes.identity)
    .bind(wishes.channel)
    .bind(wishes.recipient)
    .bind(places.occurrence)
    .bind(places.trigger_at)
    .bind(places.repeat)
    .bind(endings().map(|it| it.outcome.as_str()).collect::<Vec<_>>())
    .bind(endings().map(|it| i64::from(it.outcome.rank())).collect::<Vec<_>>())
    .bind(endings().map(|it| it.reason.as_str()).collect::<Vec<_>>())
    .bind(endings().map(|it| shortened(&it.detail)).collect::<Vec<_>>())
    .bind(endings().map(|it| i64::from(it.attempts)).collect::<Vec<_>>())
    .bind(endings().map(|it| it.handed_over_at.map(cut)).collect::<Vec<_>>())
    .bind(endings().map(|it| it.reference.as_deref().map(shortened)).collect::<Vec<_>>())
    .bind(endings().map(|it| it.await_until.map(cut)).collect::<Vec<_>>())
    .bind(now)
    .execute(conn)
    .await?;
    Ok(done.rows_affected())
}

async fn doubtful(conn: &mut PgConnection, now: DateTime<Utc>) -> Result<Doubtful, StoreError> {
    let row = sqlx::query(
        "-- doubtful
         SELECT count(*) FILTER (WHERE t.expires_at > $1 AND t.due_at <= e.lost_until) AS again,
             count(*) FILTER (WHERE t.expires_at > $1 AND (t.due_at <= e.lost_until) IS NOT TRUE) AS late,
             count(*) FILTER (WHERE t.expires_at <= $1) AS never
         FROM (SELECT due_at, expires_at FROM alarm_trigger WHERE due_at <= $1 ORDER BY due_at LIMIT $2) AS t,
             store_epoch AS e",
    )
    .bind(now)
    .bind(COUNTED)
    .fetch_one(conn)
    .await?;
    epoch::counted(&row)
}

async fn release(
    conn: &mut PgConnection,
    epoch: EpochId,
    missed_before: Option<DateTime<Utc>>,
) -> Result<bool, StoreError> {
    let done = sqlx::query(
        "-- release
         UPDATE store_epoch SET held = false, missed_before = $3 WHERE number = $1 AND random = $2 AND held",
    )
    .bind(epoch.number)
    .bind(epoch.random)
    .bind(missed_before.map(cut))
    .execute(conn)
    .await?;
    Ok(done.rows_affected() == 1)
}
