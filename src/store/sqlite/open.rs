//! Opening: how we connect, and bringing the schema up to date.

use std::ffi::OsString;
use std::fs::File;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sqlx::Connection;
use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::sqlite::SqliteJournalMode;
use sqlx::sqlite::SqlitePoolOptions;
use sqlx::sqlite::SqliteSynchronous;

use crate::clock::Clock;
use crate::private;
use crate::store::StoreError;
use crate::store::schema;
use crate::store::sqlite::SqliteStore;
use crate::store::sqlite::file;
use crate::store::sqlite::file::DatabaseFile;
use crate::store::sqlite::lock;
use crate::store::sqlite::room::RoomCheck;

/// How the store is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// How long a statement waits for the database, and a caller for a connection.
    pub busy_timeout: Duration,
    /// How many connections read at once.
    pub readers: u32,
    /// Changes are refused while the disk has fewer bytes free.
    pub min_free: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            busy_timeout: Duration::from_secs(10),
            readers: 4,
            min_free: 0,
        }
    }
}

impl SqliteStore {
    /// Opens the store at `path`, creates it if it is not there, and brings its schema up to date.
    ///
    /// # Errors
    ///
    /// [`StoreError::InUse`] while another process holds it, [`StoreError::NewerSchema`] if a newer version wrote it.
    pub async fn open(path: &Path, clock: Arc<dyn Clock>, options: Options) -> Result<Self, StoreError> {
        let lock = lock::take(path)?;
        file::refuse_lost(path)?;
        keep_private(path);
        let connect = connection(path, &options).create_if_missing(true);
        migrate(&connect).await.map_err(|error| about(path, error))?;
        let store = Self::connected((path, connect), clock, &options, Some(lock)).await?;
        file::quick_check(&mut *store.writer.acquire().await?, path).await?;
        Ok(store)
    }

    /// Opens the store at `path` beside the process that may hold it. Whoever does so must claim nothing. A store that
    /// is not there or has an older schema is opened as by [`SqliteStore::open`].
    ///
    /// # Errors
    ///
    /// As of [`SqliteStore::open`]; [`StoreError::InUse`] only where the schema is not that of this version.
    pub async fn open_beside(
        path: &Path,
        clock: Arc<dyn Clock>,
        options: Options,
    ) -> Result<Self, StoreError> {
        let found = schema_version(path).await.map_err(|error| about(path, error))?;
        if found != Some(known_schema_version()) {
            return Self::open(path, clock, options).await;
        }
        Self::connected((path, connection(path, &options)), clock, &options, None).await
    }

    async fn connected(
        (path, connect): (&Path, SqliteConnectOptions),
        clock: Arc<dyn Clock>,
        options: &Options,
        lock: Option<File>,
    ) -> Result<Self, StoreError> {
        let room = RoomCheck {
            file: connect.get_filename().to_owned(),
            min_free: options.min_free,
        };
        let pool = |connections: u32| {
            SqlitePoolOptions::new()
                .max_connections(connections.max(1))
                .acquire_timeout(options.busy_timeout)
                .test_before_acquire(false)
                .idle_timeout(None)
                .max_lifetime(None)
                .after_release(|conn, _| Box::pin(is_in_autocommit(conn)))
        };
        let writer = pool(1).connect_with(connect.clone()).await?;
        Ok(Self {
            file: DatabaseFile::opened(path)?,
            writer,
            reader: pool(options.readers)
                .connect_with(connect.read_only(true))
                .await?,
            clock,
            room,
            _lock: lock,
        })
    }
}

/// Files of the store are for this user alone. SQLite gives its log the mode of the database, so that one is created here;
/// where that fails, SQLite says why.
fn keep_private(path: &Path) {
    let _ = private::options().create_new(true).open(path);
    let files = ["", "-wal", "-shm", ".lock"].map(|end| {
        let mut name = OsString::from(path);
        name.push(end);
        PathBuf::from(name)
    });
    private::narrow(files);
}

/// Whether a connection may be used again. SQLite rolls back by itself when the disk is full or fails; the `ROLLBACK` that
/// follows is refused, and sqlx goes on counting a transaction, in which none can begin.
async fn is_in_autocommit(conn: &mut SqliteConnection) -> Result<bool, sqlx::Error> {
    // The rollback of a transaction that was dropped waits in the same queue.
    conn.ping().await?;
    Ok(!conn.is_in_transaction())
}

/// The schema version that this version of Carillon knows.
pub fn known_schema_version() -> i64 {
    schema::version(&schema::sqlite())
}

/// The schema version of the store at `path`, which may be in use; none where there is no store.
pub async fn schema_version(path: &Path) -> Result<Option<i64>, StoreError> {
    if !path.exists() {
        return Ok(None);
    }
    let connect = connection(path, &Options::default()).read_only(true);
    let mut conn = SqliteConnection::connect_with(&connect).await?;
    let version = applied(&mut conn).await?;
    conn.close().await?;
    Ok(version)
}

/// How we connect.
pub fn connection(path: &Path, options: &Options) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .foreign_keys(true)
        .busy_timeout(options.busy_timeout)
        .statement_cache_capacity(200)
        // A whole batch fits, so that the thread that reads rows never waits for the one that takes them.
        .row_buffer_size(4096)
        // 32 MiB: the due part of the indices stays in memory, whatever the history weighs.
        .pragma("cache_size", "-32768")
        // 32 MiB of log between two checkpoints, so that a burst writes a page that it changes often back once.
        .pragma("wal_autocheckpoint", "8192")
}

/// A database with tables, none of which says that they are ours, belongs to another program.
async fn refuse_foreign(conn: &mut SqliteConnection) -> Result<(), StoreError> {
    let table: Option<String> = sqlx::query_scalar(
        "-- foreign_tables
         SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE '\\_sqlx%' ESCAPE '\\' LIMIT 1",
    )
    .fetch_optional(conn)
    .await?;
    table.map_or(Ok(()), |table| {
        Err(StoreError::Failed(format!(
            "it holds a table `{table}` of another program"
        )))
    })
}

async fn applied(conn: &mut SqliteConnection) -> Result<Option<i64>, StoreError> {
    let notes: i64 = sqlx::query_scalar(
        "-- schema_version
         SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = '_sqlx_migrations'",
    )
    .fetch_one(&mut *conn)
    .await?;
    if notes == 0 {
        return Ok(None);
    }
    let version = sqlx::query_scalar(
        "-- schema_version
         SELECT max(version) FROM _sqlx_migrations WHERE success",
    );
    Ok(version.fetch_one(conn).await?)
}

/// A failure to open names the file and the cure.
pub fn about(path: &Path, error: StoreError) -> StoreError {
    let told = |cause: String| {
        format!(
            "`{}` cannot be opened ({cause}): it must be a SQLite database that this user may write; see store.url",
            path.display()
        )
    };
    match error {
        StoreError::Failed(cause) => StoreError::Failed(told(cause)),
        StoreError::Damaged(cause) => StoreError::Damaged(file::damaged(path, &cause)),
        StoreError::Unavailable(cause) => StoreError::Unavailable(told(cause)),
        other => other,
    }
}

/// Brings the schema up to date.
pub async fn migrate(connect: &SqliteConnectOptions) -> Result<(), StoreError> {
    let mut conn = SqliteConnection::connect_with(connect).await?;
    let migrations = schema::sqlite();
    let known = schema::version(&migrations);
    match applied(&mut conn).await? {
        Some(found) if found > known => return Err(StoreError::NewerSchema { found, known }),
        Some(_) => {}
        None => refuse_foreign(&mut conn).await?,
    }
    migrations.run(&mut conn).await.map_err(schema::failure)?;
    Ok(conn.close().await?)
}
