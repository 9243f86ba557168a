//! Work that is repeated where it was interrupted: transactions, and reads outside of them.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::time::Duration;

use sqlx::Connection;
use sqlx::PgConnection;
use sqlx::Postgres;
use sqlx::pool::PoolConnection;

use crate::clock::Clock;
use crate::clock::SystemClock;
use crate::store::StoreError;
use crate::store::postgres::PostgresStore;
use crate::store::postgres::registry;

/// How often work that was interrupted is tried again.
const AGAIN: u32 = 5;

/// How long a connection is waited for that may be lost without a word.
const ANSWER: Duration = Duration::from_secs(2);

/// The pause before the first repetition; it doubles.
const PAUSE: Duration = Duration::from_millis(20);

/// Does the work on a connection, and again where it was interrupted.
macro_rules! repeating {
    ($store:expr, |$conn:ident| $work:expr) => {{
        let mut tries = $crate::store::postgres::transaction::Tries::new(&$store.repeats);
        loop {
            let mut lent = $store.connection(&tries).await?;
            let done = async {
                let $conn: &mut PgConnection = &mut lent;
                $work
            };
            let done = tokio::time::timeout($store.silence, done).await;
            match done {
                Ok(Err(StoreError::Interrupted(cause))) => tries.again(cause).await?,
                Ok(done) => break done,
                Err(_) => {
                    drop(lent.detach());
                    $store.suspect();
                    tries.again("the database says nothing".to_owned()).await?;
                }
            }
        }
    }};
}

/// Does the work in a transaction, and again where it was interrupted.
macro_rules! in_transaction {
    ($store:expr, |$tx:ident, $now:pat_param| $work:expr) => {
        repeating!($store, |conn| {
            let mut transaction = sqlx::Connection::begin(conn).await?;
            $store.show_fence(&mut transaction).await?;
            let $now = $store.time.now(&mut transaction).await?;
            let $tx: &mut PgConnection = &mut transaction;
            let value = $work.await?;
            transaction.commit().await?;
            Ok::<_, StoreError>(value)
        })
    };
}

/// Reads in a view in which nothing changes, and again where it was interrupted.
macro_rules! in_snapshot {
    ($store:expr, |$tx:ident, $now:pat_param| $work:expr) => {
        repeating!($store, |conn| {
            let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
            let mut snapshot = sqlx::Connection::begin_with(conn, begin).await?;
            let $now = $store.time.now(&mut snapshot).await?;
            let $tx: &mut PgConnection = &mut snapshot;
            $work.await
        })
    };
}

/// Whether a connection of that age is newer than the last one that was found silent. What cuts one off without a word cuts
/// off the others as well.
pub fn is_trusted(age: Duration, silent_at: u64) -> Result<bool, sqlx::Error> {
    let opened_at = SystemClock.elapsed().saturating_sub(age);
    if silent_at == 0 || opened_at > Duration::from_millis(silent_at) {
        return Ok(true);
    }
    // An error closes it without waiting for the other side.
    Err(sqlx::Error::Protocol(
        "it may be as silent as the one before".to_owned(),
    ))
}

impl PostgresStore {
    /// What the transaction must show before anything else.
    pub(super) async fn show_fence(&self, conn: &mut PgConnection) -> Result<(), StoreError> {
        match self.fence {
            Some(fence) => registry::show(conn, fence).await,
            None => Ok(()),
        }
    }

    /// Notes that a connection is silent.
    pub(super) fn suspect(&self) {
        let now = u64::try_from(SystemClock.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.silent_at.store(now, Ordering::Relaxed);
    }

    /// A connection. Where one was interrupted, the others may have been lost with it, or remember plans that are no
    /// longer good: then one that answers, and remembers none.
    pub(super) async fn connection(&self, tries: &Tries<'_>) -> Result<PoolConnection<Postgres>, StoreError> {
        for _ in 0..self.pool.options().get_max_connections() {
            let mut connection = self.pool.acquire().await?;
            if tries.made == 0 {
                return Ok(connection);
            }
            let answers = async {
                connection.ping().await?;
                connection.clear_cached_statements().await
            };
            if let Ok(Ok(())) = tokio::time::timeout(ANSWER, answers).await {
                return Ok(connection);
            }
            drop(connection.detach());
        }
        Ok(self.pool.acquire().await?)
    }
}

/// How often work was tried.
#[derive(Debug)]
pub struct Tries<'a> {
    made: u32,
    /// Where repetitions are counted.
    repeats: &'a AtomicU64,
}

impl<'a> Tries<'a> {
    /// No try yet.
    pub const fn new(repeats: &'a AtomicU64) -> Self {
        Self { made: 0, repeats }
    }

    /// Waits a little before the next try; an error once there were enough.
    pub async fn again(&mut self, cause: String) -> Result<(), StoreError> {
        self.made += 1;
        if self.made > AGAIN {
            return Err(StoreError::Unavailable(cause));
        }
        self.repeats.fetch_add(1, Ordering::Relaxed);
        // Counted, and no more: whoever asked handles the failure, if it comes to that, and says so once.
        tracing::debug!(
            cause,
            attempt = self.made,
            "the store was interrupted and does it again"
        );
        SystemClock.sleep(PAUSE * 2_u32.pow(self.made - 1)).await;
        Ok(())
    }
}
