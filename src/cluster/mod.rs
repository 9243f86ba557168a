//! Who leads, and who is there.
//!
//! Leadership saves work: the planner and the janitor run where it is held. It is never needed for correctness, which
//! is the store's.
//!
//! On SQLite there is one process, and [`Leadership::solo`] says that it leads. On PostgreSQL the nodes elect a leader
//! by Raft, and this module is the only place that knows of Raft. What the nodes agree on is the membership and
//! nothing else; all work is shared out in the database.
//!
//! ```text
//!   start ──▶ numbered by the database ──▶ founder? ──yes──▶ a cluster of one, which leads itself
//!                (formation)                   │
//!                                              no ──▶ asks to be let in ──▶ learner ──▶ voter
//!
//!   voter ──elected──▶ leader ──a quorum answers──▶ lease ──fence acquired──▶ authority: [`Leadership::held`]
//!                        ▲                            │
//!                        └── the lease runs out ◀─────┘  0.8 × the longest election timeout after the last
//!                                                         message that a quorum answered
//! ```
//!
//! **To be leader is not authority.** A leader that is cut off goes on thinking that it leads. Authority ends by itself
//! when the lease runs out, by the boot-time clock, and followers do not elect another before that: they keep silent
//! for the longest election timeout after they heard from a leader, and as long after a start, since a restart forgets
//! whom they heard. A process that was paused can still wake up in the middle of a transaction; so each transaction of
//! the leader carries its [`Fence`], and the database refuses all but the latest.
//!
//! Leadership goes to where the work can be done: a leader whose database does not answer for some seconds hands over, as
//! does one that shuts down. A hand-over takes milliseconds, and its term never has authority again.
//!
//! **After a crash** a node comes back with what it had promised (`log`), under the same number. A node that lost its
//! disk is a new node, and takes the place of the dead one with its address.
//!
//! **How many.** Everything needs a majority of the voters: of three, one may be gone; of two, none. So a cluster has one
//! node, three or five. When a majority is lost for good, nobody leads again over this charter: an operator strikes it
//! from the database (`carillon cluster dissolve`), and the nodes start with empty data directories and found another, of
//! a later generation.

mod admission;
mod authority;
mod config;
mod disk;
mod formation;
mod log;
mod mail;
mod member;
mod network;
mod node;
mod registry;
mod server;
#[cfg(test)]
mod simulation;
mod state;
mod status;
mod succession;
mod tls;

use serde::Deserialize;
use serde::Serialize;

use self::authority::Lease;

pub use self::config::Config;
pub use self::config::Pace;
pub use self::formation::StartError;
pub use self::mail::Inbox;
pub use self::mail::Topic;
pub use self::network::CallError;
pub use self::node::Cluster;
pub use self::node::Parts;
pub use self::registry::Charter;
pub use self::registry::MemoryRegistry;
pub use self::registry::NodeId;
pub use self::registry::Peer;
pub use self::registry::Registry;
pub use self::registry::RegistryError;
pub use self::status::MemberStatus;
pub use self::status::Role;
pub use self::status::Status;
pub use self::tls::Tls;

/// What each transaction of a leader shows to the database, which accepts the latest only. Later is: a higher
/// generation, or the same and a higher term. In one term there is one leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Fence {
    /// How often the cluster was founded anew: terms start over with it.
    pub generation: u64,
    /// Raft's term.
    pub term: u64,
    /// The leader.
    pub node: NodeId,
}

impl Fence {
    /// Where there is one process, nothing is fenced.
    pub const SOLO: Self = Self {
        generation: 0,
        term: 0,
        node: 0,
    };
}

/// Whether this node does the periodic work of the cluster. Cheap to clone; asked before each batch.
#[derive(Debug, Clone)]
pub struct Leadership(Kind);

#[derive(Debug, Clone)]
enum Kind {
    Solo,
    Elected(Lease),
}

impl Leadership {
    /// There is one node, so it leads: SQLite admits one process by construction.
    pub const fn solo() -> Self {
        Self(Kind::Solo)
    }

    pub(self) const fn elected(lease: Lease) -> Self {
        Self(Kind::Elected(lease))
    }

    /// Whether this node leads now.
    pub fn is_held(&self) -> bool {
        self.held().is_some()
    }

    /// What to show to the database, if this node leads now. It may have ended by the time the work is done: that is
    /// what the fence is for.
    pub fn held(&self) -> Option<Fence> {
        match &self.0 {
            Kind::Solo => Some(Fence::SOLO),
            Kind::Elected(lease) => lease.held(),
        }
    }

    /// Waits until [`Leadership::held`] is something else than `known`: it was gained, lost, or won anew.
    pub async fn differs(&self, known: Option<Fence>) {
        match &self.0 {
            Kind::Solo if known == Some(Fence::SOLO) => std::future::pending().await,
            Kind::Solo => {}
            Kind::Elected(lease) => lease.differs(known).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn one_node_leads_for_ever() {
        let solo = Leadership::solo();
        assert!(solo.is_held());
        assert_eq!(solo.differs(solo.held()).now_or_never(), None);
        assert_eq!(solo.differs(None).now_or_never(), Some(()));
    }
}
