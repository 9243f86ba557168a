//! What an operator can say about the cluster. Nothing needs to be said for one node.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use openraft::SnapshotPolicy;
use secrecy::SecretString;

use super::formation::StartError;
use super::tls::Tls;

/// How a node takes part in its cluster.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where peers are listened to. Port 0 takes a free one.
    pub listen: SocketAddr,
    /// Where peers reach this node, as `host:port`, if that is not where it listens.
    pub advertise: Option<String>,
    /// Where it keeps who it is and what it has promised.
    pub data_dir: PathBuf,
    /// What peers present to each other; the same on all nodes.
    pub secret: Option<SecretString>,
    /// What it encrypts with. Peers then show a certificate.
    pub tls: Option<Tls>,
    /// Whether it may lead and vote. If not, it listens in as a learner: it knows who is there and can be told things.
    pub stands: bool,
    /// How fast failures are noticed.
    pub pace: Pace,
}

/// How fast failures are noticed. A leader that dies is followed by another after about twice `election_max`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// How often the leader says that it lives. Must be longer than a message takes on a bad day, the disk included.
    pub heartbeat: Duration,
    /// The shortest wait for a leader before standing for election.
    pub election_min: Duration,
    /// The longest one; also how long a node keeps its promise to a leader.
    pub election_max: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            heartbeat: Duration::from_millis(250),
            election_min: Duration::from_secs(1),
            election_max: Duration::from_millis(1_600),
        }
    }
}

impl Pace {
    /// How long authority lasts after a message that a quorum answered was sent. Followers wait for `election_max`
    /// before they elect another; the difference is for clocks that do not go equally fast.
    pub fn lease(&self) -> Duration {
        self.election_max * 4 / 5
    }
}

impl Config {
    /// Whom this configuration would let in or talk to in the clear beyond this machine.
    pub(super) fn check(&self) -> Result<(), StartError> {
        if self.secret.is_none() && self.tls.is_none() && !self.listen.ip().is_loopback() {
            return Err(StartError::Open(self.listen));
        }
        if self.listen.ip().is_unspecified() && self.advertise.is_none() {
            return Err(StartError::Nowhere(self.listen));
        }
        Ok(())
    }
}

/// Raft's settings. A node joins elections when it is told to, hence `enable_elect`.
pub(super) fn raft(cluster: &str, pace: &Pace) -> Result<openraft::Config, openraft::ConfigError> {
    let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    openraft::Config {
        cluster_name: cluster.to_owned(),
        heartbeat_interval: millis(pace.heartbeat),
        election_timeout_min: millis(pace.election_min),
        election_timeout_max: millis(pace.election_max),
        install_snapshot_timeout: 5_000,
        snapshot_policy: SnapshotPolicy::LogsSinceLast(64),
        max_in_snapshot_log_to_keep: 16,
        replication_lag_threshold: 128,
        enable_elect: false,
        enable_pre_vote: Some(true),
        enable_leader_restore: Some(false),
        // An old leader that still reaches one voter must not hold up an election for ever.
        quorum_loss_probe_interval: Some(3 * millis(pace.election_max)),
        backoff: "500ms 500ms 500ms".to_owned(),
        ..openraft::Config::default()
    }
    .validate()
}
