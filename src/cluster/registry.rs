//! What the nodes of a cluster ask the database, which they have in common before they know each other.
//!
//! The database is the arbiter of formation: it numbers the nodes, it names the one that founds the cluster, and so a
//! cluster needs no list of peers and cannot be founded twice.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use serde::Deserialize;
use serde::Serialize;
use tokio::runtime::Handle;

use super::Fence;

/// Names one node. Given by the database, never given twice: a node that lost its disk is another node.
pub type NodeId = u64;

/// How long the database has for one answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// A node and where its peers reach it, as `host:port`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peer {
    /// Who.
    pub id: NodeId,
    /// Where.
    pub addr: String,
}

/// What makes a cluster this one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Charter {
    /// The name of the cluster, which no other has.
    pub cluster: String,
    /// How often the cluster was founded anew over this database, counted by whoever did it.
    pub generation: u64,
    /// The one node that may bring the cluster into being.
    pub founder: NodeId,
}

/// The database did not answer, or not with what was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the database did not answer the cluster: {0}")]
pub struct RegistryError(pub String);

/// The part of the database that a cluster needs. Each method is one transaction; all may be called again after a lost
/// answer.
#[async_trait::async_trait]
pub trait Registry: Send + Sync + std::fmt::Debug {
    /// Numbers a new node.
    async fn register(&self, addr: &str) -> Result<NodeId, RegistryError>;

    /// The charter; if there is none, one with `me` as the founder.
    async fn found_or_get(&self, me: NodeId) -> Result<Charter, RegistryError>;

    /// All nodes that were numbered and not forgotten, dead ones too.
    async fn peers(&self) -> Result<Vec<Peer>, RegistryError>;

    /// Notes that `me` is there, and where.
    async fn seen(&self, me: NodeId, addr: &str) -> Result<(), RegistryError>;

    /// Strikes a node that is gone for good. Its number is not given again.
    async fn forget(&self, id: NodeId) -> Result<(), RegistryError>;

    /// Makes `fence` the one in force, unless a later one is; whether it now is. Must wait for the transactions that
    /// hold the fence in force.
    async fn acquire(&self, fence: Fence) -> Result<bool, RegistryError>;
}

/// The registry as a cluster calls it: on the runtime of whoever started the cluster, where the database's connections
/// live, so that Raft's own runtime waits for nothing but Raft.
#[derive(Debug, Clone)]
pub(super) struct Arbiter {
    registry: Arc<dyn Registry>,
    home: Handle,
}

impl Arbiter {
    pub(super) fn new(registry: Arc<dyn Registry>, home: Handle) -> Self {
        Self { registry, home }
    }

    /// Asks one question, for 5 s at the most.
    pub(super) async fn ask<T, F>(
        &self,
        question: impl FnOnce(Arc<dyn Registry>) -> F,
    ) -> Result<T, RegistryError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, RegistryError>> + Send + 'static,
    {
        let asked = question(Arc::clone(&self.registry));
        let answer = self.home.spawn(tokio::time::timeout(PATIENCE, asked));
        match answer.await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(RegistryError(format!("no answer within {PATIENCE:?}"))),
            Err(gone) => Err(RegistryError(gone.to_string())),
        }
    }
}

/// A registry for tests, in memory.
#[derive(Debug, Default)]
pub struct MemoryRegistry(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    name: String,
    numbered: NodeId,
    peers: BTreeMap<NodeId, String>,
    charter: Option<Charter>,
    fence: Option<Fence>,
}

impl MemoryRegistry {
    /// One of a database that will name its cluster so.
    pub fn named(name: &str) -> Self {
        Self(Mutex::new(Known {
            name: name.to_owned(),
            ..Known::default()
        }))
    }

    /// The fence in force.
    pub fn fence(&self) -> Option<Fence> {
        self.known(|known| known.fence)
    }

    fn known<T>(&self, ask: impl FnOnce(&mut Known) -> T) -> T {
        ask(&mut self.0.lock().expect("no holder panics"))
    }
}

#[async_trait::async_trait]
impl Registry for MemoryRegistry {
    async fn register(&self, addr: &str) -> Result<NodeId, RegistryError> {
        Ok(self.known(|known| {
            known.numbered += 1;
            known.peers.insert(known.numbered, addr.to_owned());
            known.numbered
        }))
    }

    async fn found_or_get(&self, me: NodeId) -> Result<Charter, RegistryError> {
        Ok(self.known(|known| {
            let founded = Charter {
                cluster: known.name.clone(),
                generation: 1,
                founder: me,
            };
            known.charter.get_or_insert(founded).clone()
        }))
    }

    async fn peers(&self) -> Result<Vec<Peer>, RegistryError> {
        Ok(self.known(|known| {
            let peers = known.peers.iter();
            peers
                .map(|(id, addr)| Peer {
                    id: *id,
                    addr: addr.clone(),
                })
                .collect()
        }))
    }

    async fn seen(&self, me: NodeId, addr: &str) -> Result<(), RegistryError> {
        self.known(|known| {
            known.peers.entry(me).and_modify(|known| addr.clone_into(known));
        });
        Ok(())
    }

    async fn forget(&self, id: NodeId) -> Result<(), RegistryError> {
        self.known(|known| known.peers.remove(&id));
        Ok(())
    }

    async fn acquire(&self, fence: Fence) -> Result<bool, RegistryError> {
        Ok(self.known(|known| {
            let held = known.fence;
            let is_later = held.is_none_or(|held| {
                (held.generation, held.term) < (fence.generation, fence.term) || held == fence
            });
            if is_later {
                known.fence = Some(fence);
            }
            is_later
        }))
    }
}
