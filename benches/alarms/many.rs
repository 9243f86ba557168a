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
        self.run(&ALARMS.statement(is_sqlite, owner, alarms)).await;
        self.run(&FIRINGS.statement(is_sqlite, owner, firings)).await;
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
        let counted = format!(
            "UPDATE firing_count SET amount = amount + {firings} WHERE owner = '{owner}' AND outcome = 'sent'"
        );
        self.run(&counted).await;
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

/// A table, and what of it is copied.
struct Copies {
    table: &'static str,
    /// As 32 hexadecimal digits, or as the bytes that these stand for.
    id_is_text: bool,
    /// What says how old a row is.
    age: &'static str,
    /// Which row of the owner is copied.
    one: &'static str,
    /// The other columns.
    columns: &'static [&'static str],
}

const ALARMS: Copies = Copies {
    table: "standalone_alarm",
    id_is_text: true,
    age: "created_at",
    one: "status = 'fired'",
    columns: &[
        "kind",
        "channel",
        "status",
        "paused",
        "fire_at",
        "request_hash",
        "updated_at",
        "last_fired_at",
        "last_error",
        "failure_count",
        "terms",
        "payload",
    ],
};

const FIRINGS: Copies = Copies {
    table: "delivery",
    id_is_text: false,
    age: "recorded_at",
    one: "outcome = 'sent'",
    columns: &[
        "event_uid",
        "identity",
        "channel",
        "recipient",
        "occurrence",
        "trigger_at",
        "repeat",
        "outcome",
        "rank",
        "reason",
        "detail",
        "attempts",
        "count",
        "handed_over_at",
        "first_started_at",
        "target",
    ],
};

impl Copies {
    /// So many of what this owner has one of, each a millisecond older.
    fn statement(&self, is_sqlite: bool, owner: &str, count: u64) -> String {
        let (id, older, numbers) = if is_sqlite {
            (
                "printf('%032x', n.i)",
                "n.i",
                format!("WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count})"),
            )
        } else {
            (
                "lpad(to_hex(n.i), 32, '0')",
                "n.i * interval '1 millisecond'",
                format!("WITH n (i) AS (SELECT generate_series(1, {count}))"),
            )
        };
        let id = match (self.id_is_text, is_sqlite) {
            (true, _) => id.to_owned(),
            (false, true) => format!("unhex({id})"),
            (false, false) => format!("decode({id}, 'hex')"),
        };
        let Self { table, age, one, .. } = self;
        let columns = self.columns.join(", ");
        let copied = self.columns.join(", t.");
        format!(
            "{numbers} INSERT INTO {table} (owner, id, {age}, {columns}) \
             SELECT t.owner, {id}, t.{age} - {older}, t.{copied} FROM n, {table} AS t \
             WHERE t.owner = '{owner}' AND t.{one}"
        )
    }
}
