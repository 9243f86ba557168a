//! How leadership is handed over: within milliseconds, where a dead leader is missed for seconds.
//!
//! A successor is elected without regard to the promises that protect a leader's lease. So authority ends before it is
//! asked to take over, and in that term it does not come back, even if nobody takes over: the request may be late.

use std::cmp::Reverse;
use std::sync::atomic::Ordering;
use std::time::Duration;

use openraft::RaftMetrics;
use openraft::ServerState;
use openraft::async_runtime::Instant;
use openraft::async_runtime::WatchReceiver;
use openraft::type_config::TypeConfigExt;

use super::member::Member;
use super::registry::NodeId;
use super::state::Types;

/// How long a successor is waited for.
const PATIENCE: Duration = Duration::from_secs(2);

impl Member {
    /// Gives up authority, and has the most caught-up voter that answers take over. Whether somebody else leads. If there
    /// is nobody to take over, nothing changes.
    pub(super) async fn hand_over(&self) -> bool {
        let mut metrics = self.raft.metrics();
        let successor = {
            let metrics = metrics.borrow_and_update();
            if metrics.state != ServerState::Leader {
                return true;
            }
            let Some(successor) = self.successor(&metrics) else {
                return false;
            };
            self.yielded.fetch_max(metrics.current_term, Ordering::AcqRel);
            successor
        };
        self.grant(None);
        if self.raft.trigger().transfer_leader(successor).await.is_err() {
            return false;
        }
        let me = self.me.id;
        let another = metrics.wait_until(|metrics| metrics.current_leader.is_some_and(|leader| leader != me));
        let done = matches!(Types::timeout(PATIENCE, another).await, Ok(Ok(_)));
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
        let best = alive.max_by_key(|(id, silent)| (reached.get(id).copied().flatten(), Reverse(*silent)));
        best.map(|(id, _)| id)
    }

    /// Hands over and stops Raft.
    pub(super) async fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.hand_over().await;
        self.grant(None);
        // An error says that it has ended already.
        let _ = self.raft.shutdown().await;
    }
}
