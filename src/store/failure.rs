//! How the store fails: which failures of a database pass by themselves, and which are to be repeated at once.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;

use sqlx::error::DatabaseError;
use sqlx::postgres::PgDatabaseError;
use sqlx::sqlite::SqliteError;

use crate::store::Room;
use crate::trigger::OwnerId;

/// How often any SQLite database of this process was found corrupt. Errors are converted where no store is at hand, so this is
/// the one counter of the process; each store checks its own file when it has risen.
static CORRUPTIONS: AtomicU64 = AtomicU64::new(0);

/// How often a statement found a SQLite database corrupt.
pub(super) fn corruptions() -> u64 {
    CORRUPTIONS.load(Ordering::Relaxed)
}

/// A failure of the store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database cannot be reached or is busy for too long; trying again may help.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// The database gave the transaction up in favour of others, or its connection was lost: it may be repeated.
    #[error("the transaction was interrupted: {0}")]
    Interrupted(String),
    /// The disk is nearly full: only what was accepted before is still written.
    #[error("{0}")]
    NoRoom(Room),
    /// Another node leads by now: what this one wanted to do as the leader was not done.
    #[error("another node leads by now")]
    Fenced,
    /// The schema was written by a newer version.
    #[error("the store has schema version {found}, this version knows up to {known}: start a newer version")]
    NewerSchema {
        /// What the store has.
        found: i64,
        /// What this version knows.
        known: i64,
    },
    /// Another process holds the store.
    #[error("{0}")]
    InUse(String),
    /// The files of the database are gone, replaced or damaged: the process must end.
    #[error("{0}")]
    Damaged(String),
    /// A row makes no sense.
    #[error("table {table}, row {row}: {reason}")]
    Corrupt {
        /// The table.
        table: &'static str,
        /// Its key.
        row: String,
        /// What is wrong.
        reason: String,
    },
    /// The database refuses these values, however often they are offered.
    #[error("the store refuses it: {0}")]
    Refused(String),
    /// The owner does not exist.
    #[error("unknown owner `{0}`: create it first with PUT /v1/owners/{0}")]
    UnknownOwner(OwnerId),
    /// A statement failed in a way that trying again will not cure.
    #[error("the store failed: {0}")]
    Failed(String),
}

/// Which failures pass by themselves. The messages of the database name tables and columns, never values.
impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        match &error {
            sqlx::Error::Io(_) => Self::Interrupted(error.to_string()),
            sqlx::Error::Database(cause) if is_interrupted(cause.as_ref()) => {
                Self::Interrupted(error.to_string())
            }
            sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed | sqlx::Error::WorkerCrashed => {
                Self::Unavailable(error.to_string())
            }
            sqlx::Error::Database(cause) if is_damaged(cause.as_ref()) => {
                CORRUPTIONS.fetch_add(1, Ordering::Relaxed);
                Self::Damaged(error.to_string())
            }
            sqlx::Error::Database(cause) if is_refused(cause.as_ref()) => Self::Refused(error.to_string()),
            sqlx::Error::Database(cause) if passes(cause.as_ref()) => Self::Unavailable(error.to_string()),
            _ => Self::Failed(error.to_string()),
        }
    }
}

impl StoreError {
    /// Whether it is about the rows and values at hand, so that the others can be written without them.
    pub(super) const fn is_poison(&self) -> bool {
        matches!(self, Self::Corrupt { .. } | Self::Refused(_))
    }
}

/// Serialization failure, deadlock, lock or idle timeout, connections that the server ends, and a plan that is no longer
/// good (SQLSTATE).
fn is_interrupted(cause: &dyn DatabaseError) -> bool {
    let server = cause.try_downcast_ref::<PgDatabaseError>();
    server.is_some_and(|server| {
        let code = server.code();
        matches!(
            code,
            "40001" | "40P01" | "55P03" | "25P03" | "25P04" | "57P01" | "57P02"
        ) || code.starts_with("08")
            || (code == "0A000" && server.routine() == Some("RevalidateCachedQuery"))
    })
}

/// Values out of range, constraints, limits of the server, and what a trigger of the database raises (SQLSTATE).
fn is_refused(cause: &dyn DatabaseError) -> bool {
    let server = cause.try_downcast_ref::<PgDatabaseError>();
    server.is_some_and(|server| {
        ["22", "23", "54", "P0"]
            .iter()
            .any(|class| server.code().starts_with(class))
    })
}

/// SQLite: corrupt, or no database at all (primary result codes).
fn is_damaged(cause: &dyn DatabaseError) -> bool {
    cause.try_downcast_ref::<SqliteError>().is_some()
        && sqlite_code(cause).is_some_and(|code| matches!(code, 11 | 26))
}

/// SQLite: interrupted by us.
pub(super) fn is_stopped(cause: &dyn DatabaseError) -> bool {
    sqlite_code(cause) == Some(9)
}

fn sqlite_code(cause: &dyn DatabaseError) -> Option<i32> {
    let code: i32 = cause.code()?.parse().ok()?;
    Some(code & 0xff)
}

/// SQLite: busy, locked, out of memory, read-only, I/O error, full, cannot open (primary result codes). PostgreSQL:
/// out of resources, starting up or shutting down, a statement that took too long, a server that is read-only.
fn passes(cause: &dyn DatabaseError) -> bool {
    if let Some(server) = cause.try_downcast_ref::<PgDatabaseError>() {
        let code = server.code();
        return code.starts_with("53") || code.starts_with("57") || code == "25006";
    }
    sqlite_code(cause).is_some_and(|code| matches!(code, 5 | 6 | 7 | 8 | 10 | 13 | 14))
}
