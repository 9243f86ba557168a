//! What the database says, asked past the nodes.

use std::collections::HashSet;

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

    /// How many triggers are owed that were due a second ago.
    pub async fn backlog(&mut self) -> i64 {
        self.count("SELECT count(*) FROM alarm_trigger WHERE due_at < now() - interval '1 second'")
            .await
    }

    /// How many triggers are owed.
    pub async fn owed(&mut self) -> i64 {
        self.count("SELECT count(*) FROM alarm_trigger").await
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
