//! One node of the cluster: Raft, and what keeps it a member.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::time::Duration;

use openraft::BasicNode;
use openraft::ChangeMembers;
use openraft::Raft;
use openraft::RaftMetrics;
use openraft::ServerState;
use openraft::async_runtime::Instant;
use openraft::async_runtime::WatchReceiver;
use openraft::errors::Fatal;
use openraft::type_config::TypeConfigExt;
use serde::Deserialize;
use serde::Serialize;
use tokio::sync::watch;

use super::HAND_OVER;
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
use super::status::is_joint;
use crate::clock::Clock;

/// How long a member has to let another in.
const ADMISSION: Duration = Duration::from_secs(5);

/// The first pause between two requests to be let in; it grows tenfold at the most.
const ASK_AGAIN: Duration = Duration::from_millis(200);

/// How often changes that nobody finishes are looked for.
const FINISH: Duration = Duration::from_secs(1);

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
    peers: Peers,
    /// It has just started and may have forgotten a promise.
    quiet: AtomicBool,
    yielding: AtomicBool,
    stopping: AtomicBool,
    grants: watch::Sender<Option<Grant>>,
    failure: watch::Sender<Option<String>>,
}

/// A request to be let in, or to be what one should be.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Application {
    pub(super) peer: Peer,
    pub(super) stands: bool,
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
            yielding: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            grants: watch::Sender::new(None),
            failure: watch::Sender::new(None),
        });
        member.found().await?;
        member.spawn("authority", authority::watch_over(Arc::clone(&member)));
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
            // Nobody else could win: there is nothing to wait for.
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

    fn is_alone(&self, metrics: &RaftMetrics<Types>) -> bool {
        let mut voters = metrics.membership_config.voter_ids();
        voters.next() == Some(self.me.id) && voters.next().is_none()
    }

    /// Whether it may neither vote nor be made the leader. It may have forgotten to whom it gave its word.
    pub(super) fn is_quiet(&self) -> bool {
        self.quiet.load(Ordering::Acquire)
    }

    /// Asks to be let in, or to be what it should be, until it is.
    async fn be_let_in(self: Arc<Self>) {
        let mut pause = ASK_AGAIN;
        while !self.is_in_place() {
            if let Err(reason) = self.apply().await {
                tracing::debug!(reason, "not let in yet");
            }
            if self.is_in_place() {
                break;
            }
            self.clock.sleep(pause).await;
            pause = (pause * 2).min(ASK_AGAIN * 10);
        }
        tracing::info!(node = self.me.id, stands = self.stands, "a member of the cluster");
        self.finish_changes().await;
    }

    /// A leader that dies while it changes the voters leaves both the old and the new ones in force, so that a majority
    /// of each is needed for everything. Whoever leads then brings the change to its end.
    async fn finish_changes(&self) {
        let mut unfinished = None;
        loop {
            self.clock.sleep(FINISH).await;
            let metrics = self.raft.metrics().borrow_watched().clone();
            if metrics.running_state.is_err() {
                return;
            }
            let agreed = metrics.committed_membership_config;
            let is_unfinished = metrics.state == ServerState::Leader && is_joint(agreed.membership());
            // Seen twice, or it is a change under way.
            if is_unfinished && unfinished == Some(*agreed.log_id()) {
                let wanted = agreed.get_joint_config().last().cloned().unwrap_or_default();
                let finished = self.change(ChangeMembers::ReplaceAllVoters(wanted), true).await;
                tracing::info!(?finished, "a change of the members was left unfinished");
            }
            unfinished = is_unfinished.then_some(*agreed.log_id());
        }
    }

    /// Whether the members agree on where this node is and as what.
    fn is_in_place(&self) -> bool {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched();
        let agreed = metrics.committed_membership_config.membership();
        !is_joint(agreed)
            && agreed
                .get_node(&self.me.id)
                .is_some_and(|node| node.addr == self.me.addr)
            && agreed.voter_ids().any(|voter| voter == self.me.id) == self.stands
    }

    /// Asks the leader, whoever that is.
    async fn apply(&self) -> Result<(), String> {
        let application = Application {
            peer: self.me.clone(),
            stands: self.stands,
        };
        if self.raft.is_leader() {
            return self.admit(application).await;
        }
        let known = self
            .arbiter
            .ask(|registry| async move { registry.peers().await })
            .await;
        let known = known.map_err(|error| error.to_string())?;
        let mut reason = "there is nobody to ask".to_owned();
        for peer in known.iter().filter(|peer| peer.id != self.me.id) {
            match self.peers.ask(peer, "/join", &application, ADMISSION).await {
                Ok(()) => return Ok(()),
                Err(error) => reason = error.to_string(),
            }
        }
        Err(reason)
    }

    /// Lets a node in, as the leader; a dead member that had its address goes.
    pub(super) async fn admit(&self, applicant: Application) -> Result<(), String> {
        if !self.raft.is_leader() {
            return Err("not the leader".to_owned());
        }
        let limit = Types::timeout(ADMISSION, self.change_for(applicant));
        limit
            .await
            .map_err(|_| "the members did not agree in time".to_owned())?
    }

    async fn change_for(&self, Application { peer, stands }: Application) -> Result<(), String> {
        let Peer { id, addr } = peer;
        let node = BasicNode::new(&addr);
        let known = self.members();
        match known.get_node(&id) {
            None => self
                .raft
                .add_learner(id, node, true)
                .await
                .map(drop)
                .map_err(|error| error.to_string())?,
            Some(there) if there.addr != addr => {
                self.change(ChangeMembers::SetNodes([(id, node)].into()), true)
                    .await?;
            }
            Some(_) => {}
        }
        let is_replaced = |(other, node): &(&NodeId, &BasicNode)| **other != id && node.addr == addr;
        let replaced: Vec<NodeId> = known
            .nodes()
            .filter(is_replaced)
            .map(|(other, _)| *other)
            .collect();
        let voters: std::collections::BTreeSet<NodeId> = known.voter_ids().collect();
        let mut wanted = voters.clone();
        wanted.retain(|voter| !replaced.contains(voter));
        if stands {
            wanted.insert(id);
        } else {
            wanted.remove(&id);
        }
        if wanted.is_empty() {
            return Err("somebody has to lead".to_owned());
        }
        if wanted != voters || is_joint(&known) {
            // Those that no longer vote listen on: the replaced ones go below, the one that does not stand stays.
            self.change(ChangeMembers::ReplaceAllVoters(wanted), true).await?;
        }
        if !replaced.is_empty() {
            self.change(
                ChangeMembers::RemoveNodes(replaced.iter().copied().collect()),
                false,
            )
            .await?;
        }
        for gone in replaced {
            let _ = self
                .arbiter
                .ask(|registry| async move { registry.forget(gone).await })
                .await;
        }
        Ok(())
    }

    async fn change(&self, change: ChangeMembers<NodeId, BasicNode>, retain: bool) -> Result<(), String> {
        let changed = self.raft.change_membership(change, retain).await;
        changed.map(drop).map_err(|error| error.to_string())
    }

    /// Strikes a node off, as the leader. It must be stopped, or be about to.
    pub(super) async fn expel(&self, id: NodeId) -> Result<(), String> {
        if !self.raft.is_leader() {
            return Err("not the leader".to_owned());
        }
        let known = self.members();
        if known.get_node(&id).is_none() {
            return Err(format!("there is no node {id}"));
        }
        let mut wanted: std::collections::BTreeSet<NodeId> = known.voter_ids().collect();
        if wanted.remove(&id) {
            if wanted.is_empty() {
                return Err(format!("node {id} is the only voter"));
            }
            self.change(ChangeMembers::ReplaceAllVoters(wanted), false)
                .await?;
        } else {
            self.change(ChangeMembers::RemoveNodes([id].into()), false)
                .await?;
        }
        let forgotten = self
            .arbiter
            .ask(|registry| async move { registry.forget(id).await })
            .await;
        forgotten.map_err(|error| error.to_string())
    }

    /// Strikes a node off; any member will do.
    pub(super) async fn remove(&self, id: NodeId) -> Result<(), String> {
        if self.raft.is_leader() {
            return self.expel(id).await;
        }
        let leader = self.leader().ok_or_else(|| "nobody leads just now".to_owned())?;
        let answer = self.peers.ask(&leader, "/remove", &id, ADMISSION).await;
        answer.map_err(|error| error.to_string())
    }

    fn members(&self) -> openraft::Membership<NodeId, BasicNode> {
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
    fn leader(&self) -> Option<Peer> {
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
        let grant = grant.filter(|_| !self.is_yielding());
        self.grants.send_if_modified(|granted| {
            let differs = *granted != grant;
            *granted = grant;
            differs
        });
    }

    /// Raft has ended.
    pub(super) fn ended(&self, why: &Fatal<Types>) {
        self.grants.send_replace(None);
        let asked_for = matches!(why, Fatal::Stopped) && self.is_yielding();
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

    pub(super) fn is_yielding(&self) -> bool {
        self.yielding.load(Ordering::Acquire)
    }

    /// Gives up authority, and has the most caught-up voter that answers take over. Whether somebody else leads.
    pub(super) async fn hand_over(&self) -> bool {
        self.yielding.store(true, Ordering::Release);
        self.grants.send_replace(None);
        let succeeded = self.transfer().await;
        self.yielding
            .store(self.stopping.load(Ordering::Acquire), Ordering::Release);
        succeeded
    }

    async fn transfer(&self) -> bool {
        let mut metrics = self.raft.metrics();
        let successor = {
            let metrics = metrics.borrow_and_update();
            if metrics.state != ServerState::Leader {
                return true;
            }
            self.successor(&metrics)
        };
        let Some(successor) = successor else {
            return false;
        };
        if self.raft.trigger().transfer_leader(successor).await.is_err() {
            return false;
        }
        let me = self.me.id;
        let another = metrics.wait_until(|metrics| metrics.current_leader.is_some_and(|leader| leader != me));
        let done = matches!(Types::timeout(HAND_OVER, another).await, Ok(Ok(_)));
        tracing::info!(successor, done, "leadership was handed over");
        done
    }

    /// A transfer to a node that is dead or behind leaves nobody leading for a whole election.
    fn successor(&self, metrics: &RaftMetrics<Types>) -> Option<NodeId> {
        let heard = metrics.heartbeat.as_ref()?;
        let reached = metrics.replication.as_ref()?;
        let voters = metrics.membership_config.voter_ids();
        let alive = voters.filter(|id| *id != self.me.id).filter_map(|id| {
            let silent = heard.get(&id).copied().flatten()?.elapsed();
            (silent < self.pace.election_max).then_some((id, silent))
        });
        let best =
            alive.max_by_key(|(id, silent)| (reached.get(id).copied().flatten(), std::cmp::Reverse(*silent)));
        best.map(|(id, _)| id)
    }

    /// Hands over and stops Raft.
    pub(super) async fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.hand_over().await;
        let _ = self.raft.shutdown().await;
    }
}
