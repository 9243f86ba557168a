//! Batches that cannot be written as a whole are split, so that one row that cannot be written does not hold up the
//! others.

use std::time::Duration;

use sqlx::PgConnection;
use tracing::error;

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
use crate::store::settling;
use crate::trigger::AttemptToken;
use crate::trigger::SessionId;

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
            Err(cause) if cause.is_poison() => error!(%cause, "a fire-check fails and is split"),
            Err(cause) => return Err(cause),
        }
        let mut sum = FireCheck::default();
        for claim in claims {
            let alone = std::slice::from_ref(claim);
            match in_transaction!(self, |tx, now| fire::fire_check(tx, alone, attempt(now), judge)) {
                Ok(checked) => sum.add(checked),
                Err(cause) if cause.is_poison() => self.set_aside(claim, session, &cause).await?,
                Err(cause) => return Err(cause),
            }
        }
        Ok(sum)
    }

    async fn set_aside(
        &self,
        claim: &Claimed,
        session: SessionId,
        complaint: &StoreError,
    ) -> Result<(), StoreError> {
        in_transaction!(self, |tx, now| ledger::set_aside_claim(
            tx, claim, session, complaint, now
        ))
    }

    /// Settles a batch that names no trigger twice.
    pub async fn settle_distinct(&self, batch: &[Settlement]) -> Result<Vec<Settled>, StoreError> {
        match in_transaction!(self, |tx, now| settle::settle(tx, batch, now)) {
            Ok(settled) => return Ok(settled),
            Err(cause) if cause.is_poison() => error!(%cause, "a settle fails and is split"),
            Err(cause) => return Err(cause),
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
        for attempt in [settlement.clone(), settling::bare(settlement)] {
            let attempt = std::slice::from_ref(&attempt);
            match in_transaction!(self, |tx, now| settle::settle(tx, attempt, now)) {
                Ok(settled) => return Ok(settled.first().copied().unwrap_or(Settled::Lost)),
                Err(cause) if cause.is_poison() => {
                    error!(trigger.id = %settlement.id, %cause, "a trigger cannot be settled");
                }
                Err(cause) => return Err(cause),
            }
        }
        Ok(Settled::Poisoned)
    }
}
