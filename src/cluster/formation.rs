//! How a node comes to be a member.
//!
//! The database numbers it and names the cluster and its founder. The founder, and no other, brings the cluster into
//! being, as a cluster of one; it does so again if it crashed before that was done, and it can not if it lost its disk,
//! since it is another node then. Everybody else asks the members to be let in. Two nodes can therefore not found two
//! clusters, whatever they know of each other.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde::Serialize;

use super::disk::Folder;
use super::log::Log;
use super::network::Carrier;
use super::network::Peers;
use super::registry::Arbiter;
use super::registry::Charter;
use super::registry::NodeId;
use super::registry::Peer;
use super::registry::RegistryError;

/// The name of the document.
const NAME: &str = "node.json";

/// How long another process that has our number has to say so.
const HELLO: Duration = Duration::from_secs(1);

/// Why a node does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Anyone could join or lead.
    #[error(
        "cluster.listen is `{0}`, which others can reach: set cluster.secret_file or cluster.tls, or listen on 127.0.0.1"
    )]
    Open(SocketAddr),
    /// Peers could not be told where to find it.
    #[error("cluster.listen is `{0}`, which is no address that peers can call: set cluster.advertise")]
    Nowhere(SocketAddr),
    /// A file of `cluster.tls` can not be used.
    #[error("cannot encrypt with `{0}`: {1}")]
    Tls(PathBuf, String),
    /// The port is taken, most likely.
    #[error("cannot listen for peers on `{0}`: {1}; free it, or set cluster.listen")]
    Listen(SocketAddr, io::Error),
    /// The data directory can not be used.
    #[error("cannot use the data directory `{0}`: {1}")]
    DataDir(PathBuf, io::Error),
    /// What it holds makes no sense.
    #[error(
        "what this node has promised is lost: {0}; delete its data directory, and it joins anew under a new number"
    )]
    Damaged(String),
    /// It is a member of something else.
    #[error(
        "the data directory belongs to the cluster `{here}`, the database to `{database}`: use the right one, or delete the data directory"
    )]
    Foreign {
        /// What the directory says.
        here: String,
        /// What the database says.
        database: String,
    },
    /// It was struck off.
    #[error(
        "node {0} was removed from the cluster: delete its data directory, and it joins anew under a new number"
    )]
    Removed(NodeId),
    /// A copy of its data directory is in use.
    #[error(
        "node {id} already runs at `{addr}`: this data directory is a copy; delete it, and this node joins anew under a new number"
    )]
    Duplicate {
        /// The number of both.
        id: NodeId,
        /// Where the other one is.
        addr: String,
    },
    /// The arbiter is silent.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// Something that should not fail did.
    #[error("cannot start the cluster: {0}")]
    Other(String),
}

/// Who this node is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Identity {
    node: NodeId,
    /// Which cluster, once there is a log to go with it.
    cluster: Option<String>,
}

/// A node that knows who it is.
#[derive(Debug)]
pub(super) struct Formed {
    pub(super) me: Peer,
    pub(super) charter: Charter,
    pub(super) peers: Peers,
    pub(super) log: Log,
}

/// Finds out who this node is, or makes it somebody.
pub(super) async fn form(
    folder: &Arc<Folder>,
    addr: &str,
    arbiter: &Arbiter,
    carrier: Arc<dyn Carrier>,
) -> Result<Formed, StartError> {
    let damaged = |error: io::Error| StartError::Damaged(error.to_string());
    let known: Option<Identity> = folder.read(NAME).map_err(damaged)?;
    let log = Log::open(folder).map_err(damaged)?;
    let is_new = known.is_none();
    let mut identity = match known {
        Some(identity) => identity,
        None if log.is_some() => {
            return Err(StartError::Damaged(
                "there is a log, but no `node.json`".to_owned(),
            ));
        }
        None => number(folder, addr, arbiter).await?,
    };
    let id = identity.node;
    let charter = arbiter
        .ask(|registry| async move { registry.found_or_get(id).await })
        .await?;
    let peers = Peers::new(carrier, &charter.cluster);
    if !is_new {
        check(&identity, &charter, addr, arbiter, &peers).await?;
    }
    let log = match log {
        Some(log) => log,
        // It had one: an empty one in its place would forget votes, or found a second cluster.
        None if identity.cluster.is_some() => {
            return Err(StartError::Damaged("`raft.json` is gone".to_owned()));
        }
        None => Log::create(folder).map_err(damaged)?,
    };
    if identity.cluster.is_none() {
        identity.cluster = Some(charter.cluster.clone());
        folder.replace(NAME, &identity).map_err(damaged)?;
    }
    let me = Peer {
        id,
        addr: addr.to_owned(),
    };
    Ok(Formed {
        me,
        charter,
        peers,
        log,
    })
}

/// A new number, on the disk before it is used.
async fn number(folder: &Folder, addr: &str, arbiter: &Arbiter) -> Result<Identity, StartError> {
    let place = addr.to_owned();
    let node = arbiter
        .ask(|registry| async move { registry.register(&place).await })
        .await?;
    let identity = Identity { node, cluster: None };
    folder
        .replace(NAME, &identity)
        .map_err(|error| StartError::Other(format!("cannot write `{NAME}`: {error}")))?;
    tracing::info!(node, addr, "numbered by the database");
    Ok(identity)
}

/// Whether this node may be who its data directory says.
async fn check(
    identity: &Identity,
    charter: &Charter,
    addr: &str,
    arbiter: &Arbiter,
    peers: &Peers,
) -> Result<(), StartError> {
    if let Some(here) = &identity.cluster
        && *here != charter.cluster
    {
        return Err(StartError::Foreign {
            here: here.clone(),
            database: charter.cluster.clone(),
        });
    }
    let id = identity.node;
    let listed = arbiter
        .ask(|registry| async move { registry.peers().await })
        .await?;
    let Some(recorded) = listed.into_iter().find(|peer| peer.id == id) else {
        return Err(StartError::Removed(id));
    };
    if recorded.addr != addr {
        let answer = peers.ask::<_, NodeId>(&recorded, "/hello", &(), HELLO).await;
        if answer.is_ok() {
            return Err(StartError::Duplicate {
                id,
                addr: recorded.addr,
            });
        }
    }
    let place = addr.to_owned();
    arbiter
        .ask(|registry| async move { registry.seen(id, &place).await })
        .await?;
    Ok(())
}
