//! What the nodes of a cluster ask the database before they know each other: numbers, the founder, the fence.

use std::time::Duration;

use chrono::DateTime;
use chrono::Utc;
use sqlx::PgConnection;
use sqlx::Row;

use crate::store::Fence;
use crate::store::StoreError;
use crate::store::postgres::PostgresStore;

impl PostgresStore {
    /// Numbers a new node of the cluster.
    pub async fn register(&self, addr: &str) -> Result<i64, StoreError> {
        in_transaction!(self, |tx, _| register(tx, addr))
    }

    /// The charter of the cluster; if there is none, one with `me` as the founder.
    pub async fn found_or_get(&self, me: i64) -> Result<Charter, StoreError> {
        in_transaction!(self, |tx, _| found_or_get(tx, me))
    }

    /// Forgets a cluster whose voters have lost what they promised: the next node founds another one. Returns the names of
    /// nodes that showed a sign of life within `dead_after`: then nothing is done.
    pub async fn dissolve(&self, dead_after: Duration) -> Result<Vec<String>, StoreError> {
        in_transaction!(self, |tx, now| dissolve(tx, now - dead_after))
    }

    /// All nodes that were numbered and not forgotten, with their addresses.
    pub async fn peers(&self) -> Result<Vec<(i64, String)>, StoreError> {
        repeating!(self, |conn| peers(conn).await)
    }

    /// Notes that a node is there, and where.
    pub async fn seen(&self, me: i64, addr: &str) -> Result<(), StoreError> {
        in_transaction!(self, |tx, _| seen(tx, me, addr))
    }

    /// Strikes a node that is gone for good.
    pub async fn forget(&self, id: i64) -> Result<(), StoreError> {
        in_transaction!(self, |tx, _| forget(tx, id))
    }

    /// Makes `fence` the one in force, unless a later one is; whether it now is.
    pub async fn acquire(&self, fence: Fence) -> Result<bool, StoreError> {
        in_transaction!(self, |tx, _| acquire(tx, fence))
    }
}

/// What makes the cluster this one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Charter {
    /// Its name.
    pub cluster: String,
    /// How often it was founded anew.
    pub generation: i64,
    /// Who may bring it into being.
    pub founder: i64,
}

/// Numbers a new node.
pub async fn register(conn: &mut PgConnection, addr: &str) -> Result<i64, StoreError> {
    Ok(sqlx::query_scalar(
        "-- register
         INSERT INTO raft_node (addr) VALUES ($1) RETURNING node_id",
    )
    .bind(addr)
    .fetch_one(conn)
    .await?)
}

/// Never gives the number of this node to another one, where the database forgot that it was given.
pub async fn keep_number(conn: &mut PgConnection, id: i64) -> Result<(), StoreError> {
    sqlx::query(
        "-- keep_number
         SELECT setval('raft_node_node_id_seq', greatest($1, nextval('raft_node_node_id_seq')))",
    )
    .bind(id)
    .execute(conn)
    .await?;
    Ok(())
}

/// The charter; if there is none, one with `me` as the founder.
pub async fn found_or_get(conn: &mut PgConnection, me: i64) -> Result<Charter, StoreError> {
    sqlx::query(
        "-- found
         INSERT INTO raft_cluster (founder, generation) SELECT $1, generation + 1 FROM leader_epoch
         ON CONFLICT DO NOTHING",
    )
    .bind(me)
    .execute(&mut *conn)
    .await?;
    let row = sqlx::query(
        "-- charter
         SELECT cluster::text AS cluster, generation, founder FROM raft_cluster",
    )
    .fetch_one(conn)
    .await?;
    Ok(Charter {
        cluster: row.try_get("cluster")?,
        generation: row.try_get("generation")?,
        founder: row.try_get("founder")?,
    })
}

/// Forgets a cluster whose voters have lost what they promised, so that the next node founds another one, of a later
/// generation. Returns the names of nodes that live: then nothing is done.
pub async fn dissolve(
    conn: &mut PgConnection,
    dead_before: DateTime<Utc>,
) -> Result<Vec<String>, StoreError> {
    let living: Vec<String> = sqlx::query_scalar(
        "-- dissolve: who lives
         SELECT node FROM session WHERE beat_at >= $1 ORDER BY node",
    )
    .bind(dead_before)
    .fetch_all(&mut *conn)
    .await?;
    if !living.is_empty() {
        return Ok(living);
    }
    for statement in [
        "-- dissolve: cluster
         DELETE FROM raft_cluster WHERE one",
        "-- dissolve: nodes
         DELETE FROM raft_node WHERE node_id > 0",
    ] {
        sqlx::query(statement).execute(&mut *conn).await?;
    }
    Ok(Vec::new())
}

/// All nodes that were numbered and not forgotten.
pub async fn peers(conn: &mut PgConnection) -> Result<Vec<(i64, String)>, StoreError> {
    let rows = sqlx::query(
        "-- peers
         SELECT node_id, addr FROM raft_node ORDER BY node_id",
    )
    .fetch_all(conn)
    .await?;
    rows.iter()
        .map(|row| Ok((row.try_get("node_id")?, row.try_get("addr")?)))
        .collect()
}

/// Notes that a node is there, and where.
pub async fn seen(conn: &mut PgConnection, me: i64, addr: &str) -> Result<(), StoreError> {
    sqlx::query(
        "-- seen
         UPDATE raft_node SET addr = $2, seen = now() WHERE node_id = $1",
    )
    .bind(me)
    .bind(addr)
    .execute(conn)
    .await?;
    Ok(())
}

/// Strikes a node that is gone for good.
pub async fn forget(conn: &mut PgConnection, id: i64) -> Result<(), StoreError> {
    sqlx::query(
        "-- forget
         DELETE FROM raft_node WHERE node_id = $1",
    )
    .bind(id)
    .execute(conn)
    .await?;
    Ok(())
}

/// Makes `fence` the one in force, unless a later one is. Waits for the transactions that hold the one in force.
pub async fn acquire(conn: &mut PgConnection, fence: Fence) -> Result<bool, StoreError> {
    let done = sqlx::query(
        "-- acquire
         UPDATE leader_epoch SET generation = $1, term = $2, node = $3
         WHERE (generation, term) < ($1, $2) OR (generation, term, node) = ($1, $2, $3)",
    )
    .bind(fence.generation)
    .bind(fence.term)
    .bind(fence.node)
    .execute(conn)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// Shares the fence until the end of the transaction, or says that another is in force.
pub async fn show(conn: &mut PgConnection, fence: Fence) -> Result<(), StoreError> {
    let found = sqlx::query(
        "-- fence
         SELECT 1 FROM leader_epoch WHERE generation = $1 AND term = $2 AND node = $3 FOR SHARE",
    )
    .bind(fence.generation)
    .bind(fence.term)
    .bind(fence.node)
    .fetch_optional(conn)
    .await?;
    found.map(drop).ok_or(StoreError::Fenced)
}
