//! Who is let in, and who is struck off.
//!
//! A node asks to be let in until it is; the leader first has it catch up as a learner, and then makes it a voter in the
//! same change that drops a dead node with its address.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use openraft::BasicNode;
use openraft::ChangeMembers;
use openraft::ServerState;
use openraft::async_runtime::WatchReceiver;
use openraft::type_config::TypeConfigExt;
use serde::Deserialize;
use serde::Serialize;

use super::member::Member;
use super::registry::NodeId;
use super::registry::Peer;
use super::state::Types;
use super::status::is_joint;

/// How long a member has to let another in.
const ADMISSION: Duration = Duration::from_secs(5);

/// The first pause between two requests to be let in; it grows.
const ASK_AGAIN: Duration = Duration::from_millis(200);

/// The longest one.
const LONGEST: Duration = Duration::from_secs(2);

/// How often the log says why this node is still not let in.
const REMINDER: Duration = Duration::from_mins(1);

/// How often a removal is tried: a leader may have to be followed by another, or a change to end.
const REMOVALS: u32 = 5;

/// How often changes that nobody finishes are looked for.
const FINISH: Duration = Duration::from_secs(1);

/// A request to be let in, or to be what one should be.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Application {
    pub(super) peer: Peer,
    pub(super) stands: bool,
}

impl Member {
    /// Asks to be let in, or to be what it should be, until it is.
    pub(super) async fn be_let_in(self: Arc<Self>) {
        let mut pause = ASK_AGAIN;
        let mut told = None;
        while !self.is_in_place() {
            if let Err(reason) = self.apply().await {
                // An election, or another who is being let in, takes a while; what lasts longer is worth a word.
                let now = self.clock.elapsed();
                let is_news = told.is_none_or(|told| now.saturating_sub(told) >= REMINDER);
                if pause == LONGEST && is_news {
                    tracing::warn!(reason, "not let into the cluster; asking again");
                    told = Some(now);
                }
            }
            if self.is_in_place() {
                break;
            }
            self.clock.sleep(pause).await;
            pause = (pause * 2).min(LONGEST);
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
        // A dead one that had this place is gone too.
        let mut here = agreed.nodes().filter(|(_, node)| node.addr == self.me.addr);
        !is_joint(agreed)
            && here.all(|(id, _)| *id == self.me.id)
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
            // A leader that shall not vote is followed by one that may, before anything else.
            let is_in_the_way = !self.stands && self.members().voter_ids().count() > 1;
            if !is_in_the_way {
                return self.admit(application).await;
            }
            self.hand_over().await;
        }
        let known = self.listed().await?;
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
        if self.listed().await?.iter().all(|peer| peer.id != id) {
            return Err(format!("node {id} was removed"));
        }
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
                self.peers.moved(id, &addr);
            }
            Some(_) => {}
        }
        let is_replaced = |(other, node): &(&NodeId, &BasicNode)| **other != id && node.addr == addr;
        let replaced: Vec<NodeId> = known
            .nodes()
            .filter(is_replaced)
            .map(|(other, _)| *other)
            .collect();
        let voters: BTreeSet<NodeId> = known.voter_ids().collect();
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
            let forgotten = self
                .arbiter
                .ask(|registry| async move { registry.forget(gone).await })
                .await;
            if let Err(error) = forgotten {
                // It is no member any more; its number stays on the list of whom to ask.
                tracing::warn!(node = gone, %error, "a node that was replaced is still numbered");
            }
        }
        Ok(())
    }

    /// Everybody whom the database has numbered.
    async fn listed(&self) -> Result<Vec<Peer>, String> {
        let listed = self
            .arbiter
            .ask(|registry| async move { registry.peers().await })
            .await;
        listed.map_err(|error| error.to_string())
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
        if id == self.me.id {
            self.hand_over().await;
            return Err(format!("node {id} led until now"));
        }
        let known = self.members();
        let mut wanted: BTreeSet<NodeId> = known.voter_ids().collect();
        if wanted.remove(&id) {
            if wanted.is_empty() {
                return Err(format!("node {id} is the only voter"));
            }
            self.change(ChangeMembers::ReplaceAllVoters(wanted), false)
                .await?;
        } else if known.get_node(&id).is_some() {
            self.change(ChangeMembers::RemoveNodes([id].into()), false)
                .await?;
        } else if self.listed().await?.iter().all(|peer| peer.id != id) {
            return Err(format!("there is no node {id}"));
        }
        let forgotten = self
            .arbiter
            .ask(|registry| async move { registry.forget(id).await })
            .await;
        forgotten.map_err(|error| error.to_string())
    }

    /// Strikes a node off; any member will do, and a leader is followed by another first.
    pub(super) async fn remove(&self, id: NodeId) -> Result<(), String> {
        let mut tries = 1;
        loop {
            match self.try_to_remove(id).await {
                Err(_) if tries < REMOVALS => tries += 1,
                result => return result,
            }
            self.clock.sleep(ASK_AGAIN).await;
        }
    }

    async fn try_to_remove(&self, id: NodeId) -> Result<(), String> {
        if self.raft.is_leader() {
            return self.expel(id).await;
        }
        let leader = self.leader().ok_or_else(|| "nobody leads just now".to_owned())?;
        let answer = self.peers.ask(&leader, "/remove", &id, ADMISSION).await;
        answer.map_err(|error| error.to_string())
    }
}
