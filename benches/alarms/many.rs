//! An owner with more alarms and firings than could be asked for one by one: copies of what one had, written straight into
//! the store, with the counts that the store's own triggers would have kept.

use std::path::Path;

use sqlx::Connection;
use sqlx::PgConnection;
use sqlx::SqliteConnection;

/// The store of a node, without the node.
pub enum Database {
    Sqlite(SqliteConnection),
    Postgres(PgConnection),
}

impl Database {
    /// The file of a node that does not run.
    pub async fn sqlite(path: &Path) -> Self {
        let url = format!("sqlite://{}", path.display());
        Self::Sqlite(SqliteConnection::connect(&url).await.expect("the file is there"))
    }

    /// The database at this address.
    pub async fn postgres(url: &str) -> Self {
        Self::Postgres(PgConnection::connect(url).await.expect("it answers"))
    }

    /// Adds so many alarms and firings.
    pub async fn add(mut self, owner: &str, (alarms, firings): (u64, u64)) {
        let triggers = self.without_triggers().await;
        let is_sqlite = matches!(self, Self::Sqlite(_));
        self.run(&copies_of_the_alarm(is_sqlite, owner, alarms)).await;
        self.run(&copies_of_the_firing(is_sqlite, owner, firings)).await;
        for (about, name, amount) in [
            ("alarm", "total", alarms),
            ("alarm", "fired", alarms),
            ("firing", "sent", firings),
        ] {
            let counted = format!(
                "UPDATE alarm_count SET amount = amount + {amount} \
                 WHERE owner = '{owner}' AND channel = 'email' AND about = '{about}' AND name = '{name}'"
            );
            self.run(&counted).await;
        }
        for trigger in triggers {
            self.run(&trigger).await;
        }
        self.run("ANALYZE").await;
    }

    /// Writes without triggers from here on: those of SQLite must go for it, and are told.
    async fn without_triggers(&mut self) -> Vec<String> {
        let Self::Sqlite(conn) = self else {
            self.run("SET session_replication_role = replica").await;
            return Vec::new();
        };
        let all = sqlx::query_as("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'");
        let all: Vec<(String, String)> = all.fetch_all(conn).await.expect("it can be read");
        for (name, _) in &all {
            self.run(&format!("DROP TRIGGER {name}")).await;
        }
        all.into_iter().map(|(_, text)| text).collect()
    }

    async fn run(&mut self, statement: &str) {
        let statement = sqlx::raw_sql(sqlx::AssertSqlSafe(statement.to_owned()));
        let done = match self {
            Self::Sqlite(conn) => statement.execute(conn).await.map(drop),
            Self::Postgres(conn) => statement.execute(conn).await.map(drop),
        };
        done.expect("it is written");
    }
}

fn copies_of_the_alarm(is_sqlite: bool, owner: &str, count: u64) -> String {
    let id = if is_sqlite {
        "printf('%032x', n.i)"
    } else {
        "lpad(to_hex(n.i), 32, '0')"
    };
    let columns = "kind, channel, status, paused, fire_at, request_hash, updated_at, last_fired_at, last_error, \
                   failure_count, terms, payload";
    let one = columns
        .split(", ")
        .map(|column| format!("a.{}", column.trim()))
        .collect::<Vec<_>>()
        .join(", ");
    format!(
        "{} INSERT INTO standalone_alarm (owner, id, created_at, {columns}) SELECT a.owner, {id}, {}, {one} \
         FROM n, standalone_alarm AS a WHERE a.owner = '{owner}' AND a.status = 'fired'",
        numbers(is_sqlite, count),
        earlier(is_sqlite, "a.created_at"),
    )
}

fn copies_of_the_firing(is_sqlite: bool, owner: &str, count: u64) -> String {
    let id = if is_sqlite {
        "unhex(printf('%032x', n.i))"
    } else {
        "decode(lpad(to_hex(n.i), 32, '0'), 'hex')"
    };
    let columns = "event_uid, identity, channel, recipient, occurrence, trigger_at, repeat, outcome, rank, reason, \
                   detail, attempts, count, handed_over_at, first_started_at, target";
    let one = columns
        .split(", ")
        .map(|column| format!("d.{}", column.trim()))
        .collect::<Vec<_>>()
        .join(", ");
    format!(
        "{} INSERT INTO delivery (owner, id, recorded_at, {columns}) SELECT d.owner, {id}, {}, {one} \
         FROM n, delivery AS d WHERE d.owner = '{owner}' AND d.outcome = 'sent'",
        numbers(is_sqlite, count),
        earlier(is_sqlite, "d.recorded_at"),
    )
}

fn numbers(is_sqlite: bool, count: u64) -> String {
    if is_sqlite {
        format!("WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count})")
    } else {
        format!("WITH n (i) AS (SELECT generate_series(1, {count}))")
    }
}

/// A millisecond earlier for each.
fn earlier(is_sqlite: bool, than: &str) -> String {
    if is_sqlite {
        format!("{than} - n.i")
    } else {
        format!("{than} - n.i * interval '1 millisecond'")
    }
}
