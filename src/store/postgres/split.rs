//! Batches that cannot be written as a whole are split, so that one row that cannot be written does not hold up the
//! others.

use std::time::Duration;

use sqlx::PgConnection;
use tracing::error;

use crate::store::AttemptEnd;
use crate::store::Claimed;
use crate::store::FireCheck;
use crate::store::Judge;
use crate::store::Settled;
use crate::store::Settlement;
use crate::store::StoreError;
use crate::store::judged::Attempt;
use crate::store::postgres::PostgresStore;
use crate::store::postgres::fire;
use crate::store::postgres::ledger;
use crate::store::postgres::settle;
use crate::store::postgres::transaction::Tries;
use crate::trigger::AttemptToken;
use crate::trigger::SessionId;
use crate::trigger::TriggerId;

impl PostgresStore {
    /// The fire-check: of all claims together, or, where that cannot be written, of each alone.
    pub async fn fire(
        &self,
        claims: &[Claimed],
        (session, token, near): (SessionId, AttemptToken, Duration),
        judge: &dyn Judge,
    ) -> Result<FireCheck, StoreError> {
        let attempt = |now| Attempt {
            session,
            token,
            near,
            now,
        };
        match in_transaction!(self, |tx, now| fire::fire_check(tx, claims, attempt(now), judge)) {
            Ok(checked) => return Ok(checked),
            Err(StoreError::Unavailable(cause)) => return Err(StoreError::Unavailable(cause)),
            Err(cause) => error!(%cause, "a fire-check fails and is split"),
        }
        let mut sum = FireCheck::default();
        for claim in claims {
            let alone = std::slice::from_ref(claim);
            match in_transaction!(self, |tx, now| fire::fire_check(tx, alone, attempt(now), judge)) {
                Ok(checked) => {
                    sum.granted.extend(checked.granted);
                    sum.concluded.extend(checked.concluded);
                    sum.missed.extend(checked.missed);
                    sum.claimed.extend(checked.claimed);
                }
                Err(StoreError::Unavailable(cause)) => return Err(StoreError::Unavailable(cause)),
                Err(cause) => self.set_aside(claim.id, &cause).await?,
            }
        }
        Ok(sum)
    }

    async fn set_aside(&self, id: TriggerId, complaint: &StoreError) -> Result<(), StoreError> {
        in_transaction!(self, |tx, now| ledger::set_aside(tx, &id.0, complaint, now))
    }

    /// Settles a batch that names no trigger twice.
    pub async fn settle_distinct(&self, batch: &[Settlement]) -> Result<Vec<Settled>, StoreError> {
        match in_transaction!(self, |tx, now| settle::settle(tx, batch, now)) {
            Ok(settled) => return Ok(settled),
            Err(StoreError::Unavailable(cause)) => return Err(StoreError::Unavailable(cause)),
            Err(cause) => error!(%cause, "a settle fails and is split"),
        }
        let mut settled = Vec::with_capacity(batch.len());
        for settlement in batch {
            settled.push(self.settle_alone(settlement).await?);
        }
        Ok(settled)
    }

    /// One settlement; where even that fails, the bare outcome without what the other side sent; where that fails too,
    /// the row is left for the rescue.
    async fn settle_alone(&self, settlement: &Settlement) -> Result<Settled, StoreError> {
        for attempt in [settlement.clone(), bare(settlement)] {
            let attempt = std::slice::from_ref(&attempt);
            match in_transaction!(self, |tx, now| settle::settle(tx, attempt, now)) {
                Ok(settled) => return Ok(settled.first().copied().unwrap_or(Settled::Lost)),
                Err(StoreError::Unavailable(cause)) => return Err(StoreError::Unavailable(cause)),
                Err(cause) => error!(trigger.id = %settlement.id, %cause, "a trigger cannot be settled"),
            }
        }
        Ok(Settled::Poisoned)
    }
}

fn bare(settlement: &Settlement) -> Settlement {
    let mut bare = settlement.clone();
    match &mut bare.end {
        AttemptEnd::Done { detail, kept, .. } => {
            detail.clear();
            *kept = None;
        }
        AttemptEnd::Retry { error, .. } => error.clear(),
    }
    bare
}
