//! Calls from node to node.
//!
//! HTTP/1.1 with JSON, over one client for the process: every call has its own time limit, and one that is missed takes
//! its connection with it, so that no call waits behind a connection that died without a word.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use openraft::BasicNode;
use openraft::OptionalSend;
use openraft::RaftNetworkFactory;
use openraft::RaftNetworkV2;
use openraft::errors::RPCError;
use openraft::errors::ReplicationClosed;
use openraft::errors::StreamingError;
use openraft::errors::Unreachable;
use openraft::network::RPCOption;
use openraft::raft::AppendEntriesRequest;
use openraft::raft::AppendEntriesResponse;
use openraft::raft::SnapshotResponse;
use openraft::raft::TransferLeaderRequest;
use openraft::raft::TransferLeaderResponse;
use openraft::raft::VoteRequest;
use openraft::raft::VoteResponse;
use openraft::type_config::alias::SnapshotMetaOf;
use openraft::type_config::alias::SnapshotOf;
use openraft::type_config::alias::VoteOf;
use secrecy::ExposeSecret;
use secrecy::SecretString;
use serde::Deserialize;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio_rustls::rustls::ClientConfig;

use super::registry::NodeId;
use super::registry::Peer;
use super::state::Types;
use super::tls;

/// The header that names the cluster which the caller means.
pub(super) const CLUSTER: &str = "x-cluster";

/// The header that names the node which the caller means.
pub(super) const TARGET: &str = "x-target";

/// How long a snapshot may take; Raft's own limit is meant for chunks.
const SNAPSHOT: Duration = Duration::from_secs(10);

/// Why a call came to nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// Nobody answered in time.
    #[error("no answer from `{addr}`: {reason}")]
    Silent {
        /// Whom we called.
        addr: String,
        /// What the network said.
        reason: String,
    },
    /// The answer was no.
    #[error("`{addr}` refused with {status}: {reason}")]
    Refused {
        /// Whom we called.
        addr: String,
        /// The HTTP status.
        status: u16,
        /// What the peer said.
        reason: String,
    },
    /// The answer was not understood.
    #[error("`{addr}` answered something else: {reason}")]
    Garbled {
        /// Whom we called.
        addr: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// One call.
#[derive(Debug)]
pub struct Call {
    /// Whom.
    pub to: Peer,
    /// The cluster we mean.
    pub cluster: Arc<str>,
    /// What for.
    pub path: &'static str,
    /// The question, as JSON.
    pub body: Vec<u8>,
    /// How long it may take.
    pub within: Duration,
}

/// Carries calls. The other one beside [`HttpCarrier`] is the simulated network, which can be cut.
#[async_trait::async_trait]
pub trait Carrier: Send + Sync + std::fmt::Debug {
    /// Carries one call and brings back the answer, or why there is none.
    async fn carry(&self, call: Call) -> Result<Vec<u8>, CallError>;
}

/// How long a connection is kept for the next call: less than the other side bears with its silence.
const KEPT: Duration = Duration::from_secs(5);

/// Carries calls over HTTP.
#[derive(Debug)]
pub struct HttpCarrier {
    client: reqwest::Client,
    secret: Option<SecretString>,
    scheme: &'static str,
}

impl HttpCarrier {
    /// A carrier that presents `secret`, and encrypts if it is given what with.
    pub fn new(secret: Option<SecretString>, tls: Option<ClientConfig>) -> Result<Self, reqwest::Error> {
        let scheme = if tls.is_some() { "https" } else { "http" };
        let client = reqwest::Client::builder()
            .no_proxy()
            .http1_only()
            .tcp_nodelay(true)
            .redirect(reqwest::redirect::Policy::none())
            .pool_idle_timeout(KEPT)
            // Never the system's authorities, nor a crypto provider that the process would have to agree on.
            .tls_backend_preconfigured(tls.unwrap_or_else(tls::none))
            .build()?;
        Ok(Self {
            client,
            secret,
            scheme,
        })
    }
}

#[async_trait::async_trait]
impl Carrier for HttpCarrier {
    async fn carry(&self, call: Call) -> Result<Vec<u8>, CallError> {
        let Call {
            to,
            cluster,
            path,
            body,
            within,
        } = call;
        let mut request = self
            .client
            .post(format!("{}://{}{path}", self.scheme, to.addr))
            .timeout(within)
            .header(CLUSTER, &*cluster)
            .header(TARGET, to.id.to_string())
            .header("content-type", "application/json")
            .body(body);
        if let Some(secret) = &self.secret {
            request = request.bearer_auth(secret.expose_secret());
        }
        let silent = |error: reqwest::Error| CallError::Silent {
            addr: to.addr.clone(),
            reason: root_cause(&error),
        };
        let response = request.send().await.map_err(silent)?;
        let status = response.status();
        let body = response.bytes().await.map_err(silent)?;
        if status.is_success() {
            return Ok(body.to_vec());
        }
        Err(CallError::Refused {
            addr: to.addr,
            status: status.as_u16(),
            reason: String::from_utf8_lossy(&body).into_owned(),
        })
    }
}

fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}

/// The way to the other nodes of this cluster.
#[derive(Debug, Clone)]
pub(super) struct Peers {
    carrier: Arc<dyn Carrier>,
    cluster: Arc<str>,
    /// Where members were last known to be. Raft keeps its way to a member for as long as a term lasts.
    places: Arc<Mutex<BTreeMap<NodeId, String>>>,
}

impl Peers {
    pub(super) fn new(carrier: Arc<dyn Carrier>, cluster: &str) -> Self {
        Self {
            carrier,
            cluster: Arc::from(cluster),
            places: Arc::default(),
        }
    }

    /// Notes where a member is from now on.
    pub(super) fn moved(&self, id: NodeId, addr: &str) {
        let mut places = self.places.lock().expect("no holder panics");
        places.insert(id, addr.to_owned());
    }

    fn place_of(&self, id: NodeId) -> Option<String> {
        self.places.lock().expect("no holder panics").get(&id).cloned()
    }

    /// Asks one node one question.
    pub(super) async fn ask<Q, A>(
        &self,
        to: &Peer,
        path: &'static str,
        question: &Q,
        within: Duration,
    ) -> Result<A, CallError>
    where
        Q: Serialize + Sync,
        A: DeserializeOwned,
    {
        let garbled = |error: serde_json::Error| CallError::Garbled {
            addr: to.addr.clone(),
            reason: error.to_string(),
        };
        let call = Call {
            to: to.clone(),
            cluster: Arc::clone(&self.cluster),
            path,
            body: serde_json::to_vec(question).map_err(garbled)?,
            within,
        };
        let answer = self.carrier.carry(call).await?;
        serde_json::from_slice(&answer).map_err(garbled)
    }
}

impl RaftNetworkFactory<Types> for Peers {
    type Network = Line;

    async fn new_client(&mut self, target: NodeId, node: &BasicNode) -> Line {
        self.moved(target, &node.addr);
        Line {
            peers: self.clone(),
            to: target,
        }
    }
}

/// Raft's way to one other node.
#[derive(Debug)]
pub(super) struct Line {
    peers: Peers,
    to: NodeId,
}

/// A snapshot on its way: all that there is to it is its head.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SentSnapshot {
    pub(super) vote: VoteOf<Types>,
    pub(super) meta: SnapshotMetaOf<Types>,
}

impl Line {
    /// Asks; every failure counts as unreachable, upon which Raft waits a little instead of trying at once.
    async fn ask<Q, A>(
        &self,
        path: &'static str,
        question: &Q,
        within: Duration,
    ) -> Result<A, Unreachable<Types>>
    where
        Q: Serialize + Sync,
        A: DeserializeOwned,
    {
        let to = Peer {
            id: self.to,
            addr: self.peers.place_of(self.to).unwrap_or_default(),
        };
        self.peers
            .ask(&to, path, question, within)
            .await
            .map_err(|error| {
                tracing::debug!(peer = self.to, path, %error, "a call failed");
                Unreachable::new(&error)
            })
    }
}

impl RaftNetworkV2<Types> for Line {
    type SnapshotData = ();

    async fn append_entries(
        &mut self,
        rpc: AppendEntriesRequest<Types>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<Types>, RPCError<Types>> {
        Ok(self.ask("/append", &rpc, option.soft_ttl()).await?)
    }

    async fn vote(
        &mut self,
        rpc: VoteRequest<Types>,
        option: RPCOption,
    ) -> Result<VoteResponse<Types>, RPCError<Types>> {
        Ok(self.ask("/vote", &rpc, option.soft_ttl()).await?)
    }

    async fn pre_vote(
        &mut self,
        rpc: VoteRequest<Types>,
        option: RPCOption,
    ) -> Result<VoteResponse<Types>, RPCError<Types>> {
        Ok(self.ask("/pre-vote", &rpc, option.soft_ttl()).await?)
    }

    async fn full_snapshot(
        &mut self,
        vote: VoteOf<Types>,
        snapshot: SnapshotOf<Types, ()>,
        _cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        _option: RPCOption,
    ) -> Result<SnapshotResponse<Types>, StreamingError<Types>> {
        let sent = SentSnapshot {
            vote,
            meta: snapshot.meta,
        };
        Ok(self.ask("/snapshot", &sent, SNAPSHOT).await?)
    }

    async fn transfer_leader(
        &mut self,
        rpc: TransferLeaderRequest<Types>,
        option: RPCOption,
    ) -> Result<TransferLeaderResponse<Types>, RPCError<Types>> {
        Ok(self.ask("/transfer", &rpc, option.soft_ttl()).await?)
    }
}
