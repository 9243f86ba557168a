//! Transactions that are repeated where they were interrupted.

use std::time::Duration;

use crate::clock::Clock;
use crate::clock::SystemClock;
use crate::store::StoreError;

/// How often a transaction that was interrupted is tried again.
const AGAIN: u32 = 5;

/// The pause before the first repetition; it doubles.
const PAUSE: Duration = Duration::from_millis(20);

/// Does the work in a transaction, and again where it was interrupted.
macro_rules! in_transaction {
    ($store:expr, |$tx:ident, $now:pat_param| $work:expr) => {{
        let mut tries = Tries::default();
        loop {
            let done = async {
                let mut transaction = $store.pool.begin().await?;
                $store.show_fence(&mut transaction).await?;
                let $now = $store.time.now(&mut transaction).await?;
                let $tx: &mut PgConnection = &mut transaction;
                let value = $work.await?;
                transaction.commit().await?;
                Ok::<_, StoreError>(value)
            };
            match done.await {
                Err(StoreError::Interrupted(cause)) => tries.again(cause).await?,
                done => break done,
            }
        }
    }};
}

/// How often a transaction was tried.
#[derive(Debug, Default)]
pub struct Tries(u32);

impl Tries {
    /// Waits a little before the next try; an error once there were enough.
    pub async fn again(&mut self, cause: String) -> Result<(), StoreError> {
        self.0 += 1;
        if self.0 > AGAIN {
            return Err(StoreError::Unavailable(cause));
        }
        tracing::warn!(
            cause,
            attempt = self.0,
            "a transaction was interrupted and is repeated"
        );
        SystemClock.sleep(PAUSE * 2_u32.pow(self.0 - 1)).await;
        Ok(())
    }
}
