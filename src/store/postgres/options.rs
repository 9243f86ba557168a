//! How the store is opened, and whose clock it goes by.

use std::sync::Arc;
use std::time::Duration;

use chrono::DateTime;
use chrono::Utc;
use sqlx::PgConnection;

use crate::clock::Clock;
use crate::store::StoreError;

/// Whose clock judges claims.
#[derive(Debug, Clone)]
pub enum Time {
    /// The database's.
    Database,
    /// This one, in tests.
    Given(Arc<dyn Clock>),
}

impl Time {
    pub(super) async fn now(&self, conn: &mut PgConnection) -> Result<DateTime<Utc>, StoreError> {
        match self {
            Self::Given(clock) => Ok(clock.now()),
            Self::Database => Ok(sqlx::query_scalar(
                "-- now
                 SELECT date_trunc('milliseconds', clock_timestamp())",
            )
            .fetch_one(conn)
            .await?),
        }
    }
}

/// How the store is opened.
#[derive(Debug, Clone)]
pub struct Options {
    /// How long a caller waits for a connection.
    pub acquire_timeout: Duration,
    /// How long work may take as a whole: so late its connection is taken for lost without a word, and given up. Longer
    /// than a lock is waited for.
    pub silence: Duration,
    /// Connections at the most.
    pub connections: u32,
    /// Whose clock judges claims.
    pub time: Time,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            acquire_timeout: Duration::from_secs(10),
            silence: Duration::from_secs(15),
            connections: 10,
            time: Time::Database,
        }
    }
}
