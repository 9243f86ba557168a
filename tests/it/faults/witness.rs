//! What the database says, asked past the nodes.

use std::collections::HashSet;

use chrono::DateTime;
use chrono::Utc;
use sqlx::Connection;
use sqlx::PgConnection;
use sqlx::Row;

use crate::harness::eventually;

/// A way to the database of its own.
#[derive(Debug)]
pub struct Witness {
    url: String,
    conn: PgConnection,
}

/// A trigger that is owed, or a row of history.
#[derive(Debug, Clone)]
pub struct Firing {
    /// The trigger.
    pub trigger: String,
    /// The UID of its event.
    pub uid: String,
    /// The instant that was promised.
    pub trigger_at: DateTime<Utc>,
    /// Its state, or what became of it.
    pub outcome: String,
}

impl Firing {
    /// The event and the instant.
    pub fn instant(&self) -> (String, DateTime<Utc>) {
        (self.uid.clone(), self.trigger_at)
    }
}

/// Who has authority: the latest fence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leader {
    /// The term.
    pub term: i64,
    /// Its number in the cluster.
    pub node: i64,
}

impl Witness {
    /// Goes there.
    pub async fn of(url: &str) -> Self {
        Self {
            url: url.to_owned(),
            conn: connect(url).await,
        }
    }

    /// Goes there again: the database was away.
    pub async fn return_to(&mut self) {
        self.conn = connect(&self.url).await;
    }

    /// The triggers that are `sending`, of the node of that name or of all.
    pub async fn sending(&mut self, node: Option<&str>) -> HashSet<String> {
        let ids: Vec<String> = sqlx::query_scalar(
            "SELECT encode(t.id, 'hex') FROM alarm_trigger AS t
             WHERE t.state = 'sending'
               AND ($1::text IS NULL OR t.session IN (SELECT id FROM session WHERE node LIKE $1 || '-%'))",
        )
        .bind(node)
        .fetch_all(&mut self.conn)
        .await
        .expect("the database answers");
        ids.into_iter().collect()
    }

    /// Who has authority.
    pub async fn leader(&mut self) -> Leader {
        let row = sqlx::query("SELECT term, node FROM leader_epoch")
            .fetch_one(&mut self.conn)
            .await
            .expect("the database answers");
        Leader {
            term: row.get("term"),
            node: row.get("node"),
        }
    }

    /// Waits until another node than that one has authority, and says who.
    pub async fn leader_other_than(&mut self, node: i64) -> Leader {
        eventually("another leader", async || {
            let leader = self.leader().await;
            (leader.node != node).then_some(leader)
        })
        .await
    }

    /// What became of triggers.
    pub async fn history(&mut self) -> Vec<Firing> {
        self.firings("SELECT encode(id, 'hex'), event_uid, trigger_at, outcome FROM delivery")
            .await
    }

    /// What is owed.
    pub async fn planned(&mut self) -> Vec<Firing> {
        self.firings("SELECT encode(id, 'hex'), event_uid, trigger_at, state FROM alarm_trigger")
            .await
    }

    async fn firings(&mut self, statement: &'static str) -> Vec<Firing> {
        let rows: Vec<(String, String, DateTime<Utc>, String)> = sqlx::query_as(statement)
            .fetch_all(&mut self.conn)
            .await
            .expect("the database answers");
        let firing = |(trigger, uid, trigger_at, outcome)| Firing {
            trigger,
            uid,
            trigger_at,
            outcome,
        };
        rows.into_iter().map(firing).collect()
    }

    /// How many triggers are owed that are due.
    pub async fn due(&mut self) -> i64 {
        self.count("SELECT count(*) FROM alarm_trigger WHERE trigger_at <= now() + interval '30 seconds'")
            .await
    }

    /// How many triggers are owed that were due a second ago.
    pub async fn backlog(&mut self) -> i64 {
        self.count("SELECT count(*) FROM alarm_trigger WHERE due_at < now() - interval '1 second'")
            .await
    }

    /// How many triggers are owed.
    pub async fn owed(&mut self) -> i64 {
        self.count("SELECT count(*) FROM alarm_trigger").await
    }

    /// Lets the server take no writes, or take them again.
    pub async fn read_only(&mut self, on: bool) {
        let setting = format!("ALTER SYSTEM SET default_transaction_read_only = {on}");
        for statement in [setting, "SELECT pg_reload_conf()".to_owned()] {
            sqlx::raw_sql(sqlx::AssertSqlSafe(statement))
                .execute(&mut self.conn)
                .await
                .expect("the database answers");
        }
    }

    async fn count(&mut self, statement: &'static str) -> i64 {
        sqlx::query_scalar(statement)
            .fetch_one(&mut self.conn)
            .await
            .expect("the database answers")
    }
}

async fn connect(url: &str) -> PgConnection {
    eventually("the database", async || PgConnection::connect(url).await.ok()).await
}
