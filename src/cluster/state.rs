//! What the nodes agree on: who is a member, and nothing else. Everything of ours lives in the database; a second copy
//! in a log would have to be kept in step with it.

use std::fmt;
use std::io;

use futures_util::Stream;
use futures_util::TryStreamExt;
use openraft::BasicNode;
use openraft::EntryPayload;
use openraft::OptionalSend;
use openraft::RaftSnapshotBuilder;
use openraft::storage::EntryResponder;
use openraft::storage::RaftStateMachine;
use openraft::type_config::alias::LogIdOf;
use openraft::type_config::alias::SnapshotMetaOf;
use openraft::type_config::alias::SnapshotOf;
use openraft::type_config::alias::StoredMembershipOf;
use serde::Deserialize;
use serde::Serialize;

use super::log::Log;

/// Where Raft's tasks run.
#[cfg(not(test))]
pub type Runtime = openraft_rt_tokio::TokioRuntime;

/// Where Raft's tasks run, with dice that a simulation can load.
#[cfg(test)]
pub type Runtime = openraft_rt::deterministic_rng::DeterministicRng<openraft_rt_tokio::TokioRuntime>;

openraft::declare_raft_types!(
    /// Raft as we use it: one leader for each term, so that a term is a fencing token, and no data of ours.
    pub Types:
        D = Nothing,
        R = (),
        NodeId = u64,
        Node = BasicNode,
        LeaderId = openraft::impls::leader_id_std::LeaderId<u64, u64>,
        AsyncRuntime = Runtime,
);

/// The data of ours in the log: there is none, and there can be none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Nothing {}

impl fmt::Display for Nothing {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {}
    }
}

/// The membership as far as the log has been applied. It lives in memory; what is durable is its snapshot, beside the
/// log, from which it is built up again.
#[derive(Debug, Clone)]
pub struct Membership {
    log: Log,
    applied: Option<LogIdOf<Types>>,
    members: StoredMembershipOf<Types>,
}

impl Membership {
    /// The membership of the log's snapshot.
    pub fn restore(log: &Log) -> Self {
        let snapshot = log.snapshot().unwrap_or_default();
        Self {
            log: log.clone(),
            applied: snapshot.last_log_id,
            members: snapshot.last_membership,
        }
    }
}

impl RaftStateMachine<Types> for Membership {
    type SnapshotData = ();
    type SnapshotBuilder = Self;

    async fn applied_state(
        &mut self,
    ) -> Result<(Option<LogIdOf<Types>>, StoredMembershipOf<Types>), io::Error> {
        Ok((self.applied, self.members.clone()))
    }

    async fn apply<Strm>(&mut self, mut entries: Strm) -> Result<(), io::Error>
    where
        Strm: Stream<Item = Result<EntryResponder<Types>, io::Error>> + Unpin + OptionalSend,
    {
        while let Some((entry, responder)) = entries.try_next().await? {
            self.applied = Some(entry.log_id);
            match entry.payload {
                EntryPayload::Blank => {}
                EntryPayload::Normal(nothing) => match nothing {},
                EntryPayload::Membership(members) => {
                    self.members = StoredMembershipOf::<Types>::new(Some(entry.log_id), members);
                }
            }
            if let Some(responder) = responder {
                responder.send(());
            }
        }
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> Self {
        self.clone()
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMetaOf<Types>,
        (): Self::SnapshotData,
    ) -> Result<(), io::Error> {
        self.log.keep_snapshot(meta.clone()).await?;
        self.applied = meta.last_log_id;
        self.members = meta.last_membership.clone();
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<SnapshotOf<Types, ()>>, io::Error> {
        Ok(self
            .log
            .snapshot()
            .map(|meta| SnapshotOf::<Types, ()> { meta, snapshot: () }))
    }
}

impl RaftSnapshotBuilder<Types> for Membership {
    type SnapshotData = ();

    async fn build_snapshot(&mut self) -> Result<SnapshotOf<Types, ()>, io::Error> {
        let meta = SnapshotMetaOf::<Types> {
            last_log_id: self.applied,
            last_membership: self.members.clone(),
        };
        self.log.keep_snapshot(meta.clone()).await?;
        Ok(SnapshotOf::<Types, ()> { meta, snapshot: () })
    }
}
