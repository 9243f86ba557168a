//! One node of the cluster: Raft, and what keeps it a member.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::time::Duration;

use openraft::BasicNode;
use openraft::Raft;
use openraft::RaftMetrics;
use openraft::async_runtime::WatchReceiver;
use openraft::errors::Fatal;
use openraft::type_config::TypeConfigExt;
use tokio::sync::watch;

use super::Leadership;
use super::authority;
use super::authority::Grant;
use super::authority::Lease;
use super::config;
use super::config::Pace;
use super::disk::Folder;
use super::formation;
use super::formation::Formed;
use super::formation::StartError;
use super::mail::Inbox;
use super::mail::Outbox;
use super::network::Carrier;
use super::network::Peers;
use super::registry::Arbiter;
use super::registry::Charter;
use super::registry::NodeId;
use super::registry::Peer;
use super::state::Membership;
use super::state::Types;
use super::status;
use super::status::Status;
use crate::clock::Clock;

/// How long the leader has to say what it knows.
const STATUS: Duration = Duration::from_secs(1);

/// What a member is made of.
#[derive(Debug)]
pub(super) struct Materials {
    pub(super) folder: Arc<Folder>,
    pub(super) addr: String,
    pub(super) stands: bool,
    pub(super) pace: Pace,
    pub(super) arbiter: Arbiter,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) carrier: Arc<dyn Carrier>,
    pub(super) inbox: Inbox,
}

/// One node of the cluster.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) me: Peer,
    pub(super) charter: Charter,
    pub(super) stands: bool,
    pub(super) pace: Pace,
    pub(super) raft: Raft<Types, Membership>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) arbiter: Arbiter,
    pub(super) inbox: Inbox,
    pub(super) outbox: Outbox,
    pub(super) peers: Peers,
    /// It has just started and may have forgotten a promise.
    quiet: AtomicBool,
    /// The last term in which it has given up authority.
    pub(super) yielded: AtomicU64,
    /// It holds no authority any more.
    pub(super) stopping: AtomicBool,
    grants: watch::Sender<Option<Grant>>,
    failure: watch::Sender<Option<String>>,
}

impl Member {
    /// Starts Raft, and the loops that go with it, on the runtime that this is called on.
    pub(super) async fn start(materials: Materials) -> Result<Arc<Self>, StartError> {
        let Materials {
            folder,
            addr,
            stands,
            pace,
            arbiter,
            clock,
            carrier,
            inbox,
        } = materials;
        let formed = formation::form(&folder, &addr, &arbiter, carrier).await?;
        let Formed {
            me,
            charter,
            peers,
            log,
        } = formed;
        let other = |error: &dyn std::fmt::Display| StartError::Other(error.to_string());
        let settings = config::raft(&charter.cluster, &pace).map_err(|error| other(&error))?;
        let was_there = !log.is_pristine();
        let members = Membership::restore(&log);
        let raft = Raft::new(me.id, Arc::new(settings), peers.clone(), log, members)
            .await
            .map_err(|error| other(&error))?;
        let member = Arc::new(Self {
            me,
            charter,
            stands,
            pace,
            raft,
            clock,
            arbiter,
            inbox,
            outbox: Outbox::new(peers.clone()),
            peers,
            quiet: AtomicBool::new(was_there),
            yielded: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
            grants: watch::Sender::new(None),
            failure: watch::Sender::new(None),
        });
        member.found().await?;
        member.spawn("authority", authority::watch_over(Arc::clone(&member)));
        member.spawn("database", authority::mind_the_database(Arc::clone(&member)));
        member.spawn("elections", Arc::clone(&member).take_part());
        member.spawn("membership", Arc::clone(&member).be_let_in());
        Ok(member)
    }

    /// Runs a loop; a panic in it is the end of this node.
    fn spawn(self: &Arc<Self>, name: &'static str, body: impl Future<Output = ()> + Send + 'static) {
        let (member, task) = (Arc::clone(self), Types::spawn(body));
        Types::spawn(async move {
            if let Err(error) = task.await {
                member.fail(format!("the {name} loop ended: {error}"));
            }
        });
    }

    /// Brings the cluster into being, if that is for this node to do and was not done.
    async fn found(&self) -> Result<(), StartError> {
        let other = |error: &dyn std::fmt::Display| StartError::Other(error.to_string());
        let is_there = self.raft.is_initialized().await.map_err(|error| other(&error))?;
        if self.charter.founder != self.me.id || is_there {
            return Ok(());
        }
        tracing::info!(node = self.me.id, "founding the cluster");
        let members = std::collections::BTreeMap::from([(self.me.id, BasicNode::new(&self.me.addr))]);
        self.raft.initialize(members).await.map_err(|error| other(&error))
    }

    /// Keeps out of elections as long as a promise of before the start may last, and follows what this node is then. A
    /// member that is alone made promises to nobody. A node that does not stand leads only if it is alone, without
    /// authority, so that it can let in somebody who does.
    async fn take_part(self: Arc<Self>) {
        let mut metrics = self.raft.metrics();
        let is_alone = self.is_alone(&metrics.borrow_watched());
        if self.quiet.load(Ordering::Acquire) && !is_alone {
            self.clock.sleep(self.pace.election_max).await;
        }
        self.quiet.store(false, Ordering::Release);
        if is_alone {
            // Nobody else could win: there is nothing to wait for. It fails only with Raft itself, which is watched.
            let _ = self.raft.trigger().elect(false).await;
        }
        loop {
            let elects = self.stands || self.is_alone(&metrics.borrow_and_update());
            self.raft.runtime_config().elect(elects);
            if metrics.changed().await.is_err() {
                return;
            }
        }
    }

    /// Whether it is the only one that votes.
    pub(super) fn is_alone(&self, metrics: &RaftMetrics<Types>) -> bool {
        let mut voters = metrics.membership_config.voter_ids();
        voters.next() == Some(self.me.id) && voters.next().is_none()
    }

    /// Whether it may neither vote nor be made the leader. It may have forgotten to whom it gave its word.
    pub(super) fn is_quiet(&self) -> bool {
        self.quiet.load(Ordering::Acquire)
    }

    /// The members, whether all agreed to them or not.
    pub(super) fn members(&self) -> openraft::Membership<NodeId, BasicNode> {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched();
        metrics.membership_config.membership().clone()
    }

    /// Where a member is.
    pub(super) fn peer(&self, id: NodeId) -> Option<Peer> {
        let addr = self.members().get_node(&id)?.addr.clone();
        Some(Peer { id, addr })
    }

    /// The leader, if it is another node.
    pub(super) fn leader(&self) -> Option<Peer> {
        let leader = self.raft.metrics().borrow_watched().current_leader;
        leader
            .filter(|leader| *leader != self.me.id)
            .and_then(|leader| self.peer(leader))
    }

    /// The cluster as the leader sees it, or else as this node does.
    pub(super) async fn status(&self) -> Status {
        if let Some(leader) = self.leader()
            && let Ok(status) = self.peers.ask(&leader, "/status", &(), STATUS).await
        {
            return status;
        }
        self.own_status()
    }

    pub(super) fn own_status(&self) -> Status {
        status::of(self, &self.raft.metrics().borrow_watched())
    }

    pub(super) fn leadership(&self) -> Leadership {
        Leadership::elected(Lease::new(Arc::clone(&self.clock), self.grants.subscribe()))
    }

    pub(super) fn grant(&self, grant: Option<Grant>) {
        let grant = grant.filter(|grant| self.may_hold(grant.term()));
        self.grants.send_if_modified(|granted| {
            let differs = *granted != grant;
            *granted = grant;
            differs
        });
    }

    /// Raft has ended.
    pub(super) fn ended(&self, why: &Fatal<Types>) {
        self.grants.send_replace(None);
        let asked_for = matches!(why, Fatal::Stopped) && self.stopping.load(Ordering::Acquire);
        if !asked_for {
            self.fail(format!("Raft has ended: {why}"));
        }
    }

    /// This node is of no use any more.
    pub(super) fn fail(&self, reason: String) {
        tracing::error!(reason, "the cluster has failed");
        self.failure.send_replace(Some(reason));
    }

    /// Why it has failed, as soon as it has.
    pub(super) fn failure(&self) -> watch::Receiver<Option<String>> {
        self.failure.subscribe()
    }

    /// Whether it may hold authority in a term at all.
    pub(super) fn may_hold(&self, term: u64) -> bool {
        self.stands && term > self.yielded.load(Ordering::Acquire) && !self.stopping.load(Ordering::Acquire)
    }
}
