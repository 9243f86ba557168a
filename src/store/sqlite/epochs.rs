//! Epoch and watermark, and what is recorded again after the file went back in time.

use std::collections::BTreeSet;

use chrono::DateTime;
use chrono::Utc;
use sqlx::Row;
use sqlx::SqliteConnection;

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
use crate::store::row::list;
use crate::store::row::millis;
use crate::store::sqlite::SqliteStore;
use crate::store::sqlite::file;
use crate::store::sqlite::sessions;
use crate::trigger::SessionId;
use crate::trigger::TriggerId;

/// Rows that are counted at the most.
const COUNTED: i64 = 100_000;

#[async_trait::async_trait]
impl Epochs for SqliteStore {
    async fn heartbeat(&self, session: SessionId, says: Report) -> Result<Heartbeat, StoreError> {
        let mut tx = self.begin().await?;
        let now = self.clock.now();
        let lives = sessions::beat(&mut tx, session, says, now).await?;
        let epoch = advance(&mut tx, &says, now).await?;
        tx.commit().await?;
        Ok(Heartbeat { lives, epoch })
    }

    async fn epoch(&self) -> Result<Epoch, StoreError> {
        Ok(current(&mut *self.reader.acquire().await?).await?.0)
    }

    async fn resume_session(&self, session: SessionId, node: &str) -> Result<bool, StoreError> {
        let mut tx = self.begin().await?;
        let resumed = resume_session(&mut tx, session, node, self.clock.now()).await?;
        tx.commit().await?;
        Ok(resumed)
    }

    async fn record_again(&self, hand_overs: &[HandOver]) -> Result<u64, StoreError> {
        let mut tx = self.begin().await?;
        let recorded = record_again(&mut tx, hand_overs, self.clock.now()).await?;
        tx.commit().await?;
        Ok(recorded)
    }

    async fn doubtful(&self) -> Result<Doubtful, StoreError> {
        doubtful(&mut *self.reader.acquire().await?, self.clock.now()).await
    }

    async fn release(
        &self,
        epoch: EpochId,
        missed_before: Option<DateTime<Utc>>,
    ) -> Result<bool, StoreError> {
        let mut tx = self.begin().await?;
        let released = release(&mut tx, epoch, missed_before).await?;
        tx.commit().await?;
        Ok(released)
    }

    async fn verify(&self) -> Result<(), StoreError> {
        self.file.check()?;
        if !self.file.is_suspect() {
            return Ok(());
        }
        let path = self.file.path();
        file::quick_check(&mut *self.writer.acquire().await?, path).await?;
        // What this check does not look at is damaged.
        let cause = "a statement found it malformed";
        Err(StoreError::Damaged(file::damaged(path, cause)))
    }
}

/// The row, and a number that no epoch had.
pub async fn current(conn: &mut SqliteConnection) -> Result<(Epoch, i64), StoreError> {
    let row = sqlx::query(
        "-- epoch
         SELECT *, random() AS fresh FROM store_epoch",
    )
    .fetch_one(conn)
    .await?;
    Ok((epoch::read(&row)?, row.try_get("fresh")?))
}

async fn advance(
    conn: &mut SqliteConnection,
    says: &Report,
    now: DateTime<Utc>,
) -> Result<Epoch, StoreError> {
    let (found, fresh) = current(conn).await?;
    let next = found.advanced(says, now, fresh);
    sqlx::query(
        "-- heartbeat
         UPDATE store_epoch SET number = ?3, random = ?4, began_at = ?5, watermark = ?6, raised_at = ?7, lost_after = ?8,
             lost_until = ?9, missed_before = ?10, held = ?11
         WHERE number = ?1 AND random = ?2",
    )
    .bind(found.id.number)
    .bind(found.id.random)
    .bind(next.id.number)
    .bind(next.id.random)
    .bind(millis(next.began_at))
    .bind(next.watermark)
    .bind(millis(next.raised_at))
    .bind(next.lost.map(|lost| millis(lost.after)))
    .bind(next.lost.map(|lost| millis(lost.until)))
    .bind(next.missed_before.map(millis))
    .bind(next.held)
    .execute(conn)
    .await?;
    Ok(next)
}

async fn resume_session(
    conn: &mut SqliteConnection,
    session: SessionId,
    node: &str,
    now: DateTime<Utc>,
) -> Result<bool, StoreError> {
    let done = sqlx::query(
        "-- resume_session
         INSERT INTO session (id, node, started_at, beat_at, held_until, delivers) VALUES (?1, ?2, ?3, ?3, ?3, 0)
         ON CONFLICT (id) DO UPDATE SET beat_at = excluded.beat_at WHERE session.node = excluded.node",
    )
    .bind(session.0)
    .bind(node)
    .bind(millis(now))
    .execute(conn)
    .await?;
    Ok(done.rows_affected() == 1)
}

async fn record_again(
    conn: &mut SqliteConnection,
    hand_overs: &[HandOver],
    now: DateTime<Utc>,
) -> Result<u64, StoreError> {
    let listed: Vec<_> = hand_overs.iter().map(listed).collect();
    let done = sqlx::query(
        "-- record_again
         INSERT INTO delivery (id, owner, event_uid, identity, channel, recipient, occurrence, trigger_at, repeat,
             outcome, rank, reason, detail, attempts, count, handed_over_at, recorded_at, reference, await_until)
         SELECT unhex(j.value ->> '$[0]'), o.id, j.value ->> '$[2]', j.value ->> '$[3]', j.value ->> '$[4]',
             j.value ->> '$[5]', j.value ->> '$[6]', j.value ->> '$[7]', j.value ->> '$[8]', j.value ->> '$[9][0]',
             j.value ->> '$[9][1]', j.value ->> '$[9][2]', j.value ->> '$[9][3]', j.value ->> '$[9][4]', 1,
             j.value ->> '$[9][5]', ?2, j.value ->> '$[9][6]', j.value ->> '$[9][7]'
         FROM json_each(?1) AS j JOIN owner AS o ON o.id = j.value ->> '$[1]'
         WHERE true
         ON CONFLICT (id) DO UPDATE SET
             outcome = excluded.outcome, rank = excluded.rank, reason = excluded.reason, detail = excluded.detail,
             attempts = excluded.attempts, recorded_at = excluded.recorded_at,
             handed_over_at = coalesce(excluded.handed_over_at, delivery.handed_over_at),
             reference = excluded.reference, await_until = excluded.await_until
         WHERE delivery.rank < excluded.rank",
    )
    .bind(list(&listed))
    .bind(millis(now))
    .execute(&mut *conn)
    .await?;
    let ids = hand_overs.iter().map(|it| it.ending.id.to_string());
    sqlx::query(
        "-- record_again: not due any more
         DELETE FROM alarm_trigger WHERE id IN (SELECT unhex(value) FROM json_each(?1))",
    )
    .bind(list(&ids.collect::<Vec<_>>()))
    .execute(&mut *conn)
    .await?;
    let owners: BTreeSet<&str> = hand_overs.iter().map(|it| it.wish.owner.0.as_str()).collect();
    sqlx::query(
        "-- record_again: plan again
         UPDATE owner SET plan_asked = plan_asked + 1 WHERE id IN (SELECT value FROM json_each(?1))",
    )
    .bind(list(&owners.into_iter().collect::<Vec<_>>()))
    .execute(conn)
    .await?;
    Ok(done.rows_affected())
}

fn listed(hand_over: &HandOver) -> impl serde::Serialize + use<> {
    let HandOver { wish, place, ending } = hand_over;
    (
        TriggerId::derive(wish, place).to_string(),
        wish.owner.0.clone(),
        wish.event_uid.clone(),
        wish.identity.0.clone(),
        wish.channel.as_str(),
        wish.recipient.to_string(),
        millis(place.occurrence),
        millis(place.trigger_at),
        place.repeat,
        (
            ending.outcome.as_str(),
            ending.outcome.rank(),
            ending.reason.as_str(),
            shortened(&ending.detail),
            ending.attempts,
            ending.handed_over_at.map(millis),
            ending.reference.as_deref().map(shortened),
            ending.await_until.map(millis),
        ),
    )
}

async fn doubtful(conn: &mut SqliteConnection, now: DateTime<Utc>) -> Result<Doubtful, StoreError> {
    let row = sqlx::query(
        "-- doubtful
         SELECT count(*) FILTER (WHERE expires_at > ?1 AND due_at <= coalesce(lost_until, 0)) AS again,
             count(*) FILTER (WHERE expires_at > ?1 AND due_at > coalesce(lost_until, 0)) AS late,
             count(*) FILTER (WHERE expires_at <= ?1) AS never
         FROM (SELECT due_at, expires_at FROM alarm_trigger WHERE due_at <= ?1 ORDER BY due_at LIMIT ?2) AS head,
             (SELECT lost_until FROM store_epoch)",
    )
    .bind(millis(now))
    .bind(COUNTED)
    .fetch_one(conn)
    .await?;
    epoch::counted(&row)
}

async fn release(
    conn: &mut SqliteConnection,
    epoch: EpochId,
    missed_before: Option<DateTime<Utc>>,
) -> Result<bool, StoreError> {
    let done = sqlx::query(
        "-- release
         UPDATE store_epoch SET held = 0, missed_before = ?3 WHERE number = ?1 AND random = ?2 AND held = 1",
    )
    .bind(epoch.number)
    .bind(epoch.random)
    .bind(missed_before.map(millis))
    .execute(conn)
    .await?;
    Ok(done.rows_affected() == 1)
}
