//! What an operator sees of the cluster.

use std::time::Duration;

use openraft::BasicNode;
use openraft::RaftMetrics;
use openraft::async_runtime::Instant;
use serde::Deserialize;
use serde::Serialize;

use super::member::Member;
use super::registry::NodeId;
use super::state::Types;

/// The cluster as one node sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// The name of the cluster.
    pub cluster: String,
    /// How often it was founded anew.
    pub generation: u64,
    /// The node that says this.
    pub node: NodeId,
    /// Its term.
    pub term: u64,
    /// Whom it follows, itself included.
    pub leader: Option<NodeId>,
    /// Whether it may act as the leader now.
    pub authority: bool,
    /// Whether the members are being changed: until that is done, old and new ones both have to agree.
    pub changing: bool,
    /// Everybody, by number.
    pub members: Vec<MemberStatus>,
}

/// One member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberStatus {
    /// Who.
    pub id: NodeId,
    /// Where, as `host:port`.
    pub addr: String,
    /// As what.
    pub role: Role,
    /// Whether it answered the leader within the longest election timeout; unknown to all but the leader.
    pub lives: Option<bool>,
    /// How long ago the latest message that it answered was sent, in milliseconds; unknown to all but the leader.
    pub silent_ms: Option<u64>,
}

/// What a member is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Leads, as far as this node knows.
    Leader,
    /// Votes.
    Voter,
    /// Listens.
    Learner,
}

/// Whether a change of the voters has begun and not ended.
pub(super) fn is_joint(membership: &openraft::Membership<NodeId, BasicNode>) -> bool {
    membership.get_joint_config().len() > 1
}

/// The cluster as `member` sees it.
pub(super) fn of(member: &Member, metrics: &RaftMetrics<Types>) -> Status {
    let membership = metrics.membership_config.membership();
    let voters: Vec<NodeId> = membership.voter_ids().collect();
    let members = membership.nodes().map(|(&id, node)| {
        let silent = silence(member, metrics, id);
        let leads = metrics.heartbeat.is_some();
        MemberStatus {
            id,
            addr: node.addr.clone(),
            role: match () {
                () if metrics.current_leader == Some(id) => Role::Leader,
                () if voters.contains(&id) => Role::Voter,
                () => Role::Learner,
            },
            lives: leads.then(|| silent.is_some_and(|silent| silent < member.pace.election_max)),
            silent_ms: silent.map(|silent| u64::try_from(silent.as_millis()).unwrap_or(u64::MAX)),
        }
    });
    Status {
        cluster: member.charter.cluster.clone(),
        generation: member.charter.generation,
        node: member.me.id,
        term: metrics.current_term,
        leader: metrics.current_leader,
        authority: member.leadership().is_held(),
        changing: is_joint(membership) || metrics.membership_config != metrics.committed_membership_config,
        members: members.collect(),
    }
}

/// How long a member has been silent, if this node leads and the member ever answered.
fn silence(member: &Member, metrics: &RaftMetrics<Types>, id: NodeId) -> Option<Duration> {
    let heard = metrics.heartbeat.as_ref()?;
    if id == member.me.id {
        return Some(Duration::ZERO);
    }
    heard.get(&id).copied().flatten().map(|heard| heard.elapsed())
}
