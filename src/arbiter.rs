//! The database as the arbiter of the cluster: its verbs, spoken in the cluster's words.

use std::sync::Arc;

use crate::cluster;
use crate::cluster::NodeId;
use crate::cluster::Peer;
use crate::cluster::Registry;
use crate::cluster::RegistryError;
use crate::store::Fence;
use crate::store::StoreError;
use crate::store::postgres::PostgresStore;

/// The registry of nodes in PostgreSQL.
#[derive(Debug)]
pub struct Arbiter(pub Arc<PostgresStore>);

/// The fence as the store shows it; none where there is one process.
pub fn fence(held: cluster::Fence) -> Option<Fence> {
    (held != cluster::Fence::SOLO).then(|| Fence {
        generation: signed(held.generation),
        term: signed(held.term),
        node: signed(held.node),
    })
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}

#[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` hands over")]
fn unanswered(error: StoreError) -> RegistryError {
    RegistryError(error.to_string())
}

#[async_trait::async_trait]
impl Registry for Arbiter {
    async fn register(&self, addr: &str) -> Result<NodeId, RegistryError> {
        self.0.register(addr).await.map(unsigned).map_err(unanswered)
    }

    async fn found_or_get(&self, me: NodeId) -> Result<cluster::Charter, RegistryError> {
        let charter = self.0.found_or_get(signed(me)).await.map_err(unanswered)?;
        Ok(cluster::Charter {
            cluster: charter.cluster,
            generation: unsigned(charter.generation),
            founder: unsigned(charter.founder),
        })
    }

    async fn peers(&self) -> Result<Vec<Peer>, RegistryError> {
        let peers = self.0.peers().await.map_err(unanswered)?;
        let peer = |(id, addr)| Peer {
            id: unsigned(id),
            addr,
        };
        Ok(peers.into_iter().map(peer).collect())
    }

    async fn seen(&self, me: NodeId, addr: &str) -> Result<(), RegistryError> {
        self.0.seen(signed(me), addr).await.map_err(unanswered)
    }

    async fn forget(&self, id: NodeId) -> Result<(), RegistryError> {
        self.0.forget(signed(id)).await.map_err(unanswered)
    }

    async fn acquire(&self, held: cluster::Fence) -> Result<bool, RegistryError> {
        match fence(held) {
            Some(fence) => self.0.acquire(fence).await.map_err(unanswered),
            None => Ok(true),
        }
    }
}
