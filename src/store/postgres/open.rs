//! Opening: how we connect, and bringing the schema up to date.

use std::str::FromStr;
use std::time::Duration;

use sqlx::Connection;
use sqlx::PgConnection;
use sqlx::postgres::PgConnectOptions;

use crate::store::StoreError;
use crate::store::schema;

/// How long the server may take to let us in before a start gives up.
const CONNECT: Duration = Duration::from_secs(10);

/// How often it is said that a start waits for the schema: another node may be bringing it up to date, for as long as
/// that takes.
const STILL_WAITING: Duration = Duration::from_secs(10);

/// What the server is told about our connections, but for migrations, which may take long: limits, since a node that is
/// paused in mid-transaction must not hold its locks for ever. The planner is told nothing: each statement is written so that
/// there is one way to run it (`tests/it/store/work.rs` counts what that costs).
pub const SESSION: [(&str, &str); 4] = [
    ("max_parallel_workers_per_gather", "0"),
    ("idle_in_transaction_session_timeout", "3s"),
    ("lock_timeout", "10s"),
    ("statement_timeout", "30s"),
];

/// The schema version that this version of Carillon knows.
pub fn known_schema_version() -> i64 {
    schema::version(&schema::postgres())
}

/// The schema version of the database at `url`; none where there is no schema yet.
pub async fn schema_version(url: &str) -> Result<Option<i64>, StoreError> {
    let connect = connection(url)?;
    let version = async {
        let mut conn = connect_with(&connect).await?;
        let version = applied(&mut conn).await?;
        conn.close().await?;
        Ok(version)
    };
    version.await.map_err(|error| about(&connect, error))
}

/// How we connect.
pub fn connection(url: &str) -> Result<PgConnectOptions, StoreError> {
    let options = PgConnectOptions::from_str(url).map_err(|_| {
        StoreError::Failed(
            "store.url cannot be understood: write it as postgres://user@host:5432/database".to_owned(),
        )
    })?;
    Ok(options.application_name("carillon").statement_cache_capacity(200))
}

/// A failure to open names the server and the database, never the password.
pub fn about(connect: &PgConnectOptions, error: StoreError) -> StoreError {
    let told = |cause: String| {
        let database = connect.get_database().unwrap_or(connect.get_username());
        format!(
            "database `{database}` on {}:{} cannot be opened ({cause}): see store.url",
            connect.get_host(),
            connect.get_port(),
        )
    };
    match error {
        StoreError::Failed(cause) => StoreError::Failed(told(cause)),
        StoreError::Unavailable(cause) | StoreError::Interrupted(cause) => {
            StoreError::Unavailable(told(cause))
        }
        other => other,
    }
}

/// Connects, or says soon that it cannot.
async fn connect_with(connect: &PgConnectOptions) -> Result<PgConnection, StoreError> {
    let connecting = PgConnection::connect_with(connect);
    let Ok(connected) = tokio::time::timeout(CONNECT, connecting).await else {
        return Err(StoreError::Unavailable(format!("no answer within {CONNECT:?}")));
    };
    Ok(connected?)
}

/// Brings the schema up to date, and says so while that takes long.
pub async fn migrate(connect: &PgConnectOptions) -> Result<(), StoreError> {
    let conn = connect_with(connect).await?;
    let migrating = bring_up_to_date(conn);
    tokio::pin!(migrating);
    loop {
        if let Ok(done) = tokio::time::timeout(STILL_WAITING, &mut migrating).await {
            return done;
        }
        tracing::warn!("the schema is being brought up to date, here or by another node; still waiting");
    }
}

async fn bring_up_to_date(mut conn: PgConnection) -> Result<(), StoreError> {
    let migrations = schema::postgres();
    let known = schema::version(&migrations);
    if let Some(found) = applied(&mut conn).await?.filter(|found| *found > known) {
        return Err(StoreError::NewerSchema { found, known });
    }
    migrations.run(&mut conn).await.map_err(schema::failure)?;
    Ok(conn.close().await?)
}

async fn applied(conn: &mut PgConnection) -> Result<Option<i64>, StoreError> {
    let noted: bool = sqlx::query_scalar(
        "-- schema_version
         SELECT to_regclass('_sqlx_migrations') IS NOT NULL",
    )
    .fetch_one(&mut *conn)
    .await?;
    if !noted {
        return Ok(None);
    }
    let version = sqlx::query_scalar(
        "-- schema_version: applied
         SELECT max(version) FROM _sqlx_migrations WHERE success",
    );
    Ok(version.fetch_one(conn).await?)
}
