//! When a leader may act.
//!
//! Raft says who leads; it does not say since when that may no longer be true. Authority is a lease: it lasts a fixed
//! time from the moment at which a message that a quorum answered was sent, it is read off the boot-time clock, and it
//! begins only once the database has taken the fence of this term.

use std::sync::Arc;
use std::time::Duration;

use openraft::ServerState;
use openraft::async_runtime::Instant;
use openraft::async_runtime::WatchReceiver;
use openraft::errors::Fatal;
use openraft::type_config::alias::InstantOf;
use tokio::sync::watch;

use super::Fence;
use super::member::Member;
use super::state::Types;
use crate::clock::Clock;

/// How often the lease is looked at when nothing happens.
const LOOK: Duration = Duration::from_millis(50);

/// Nothing runs out while nothing is held; the lease is looked at again all the same.
const IDLE: Duration = Duration::from_hours(1);

/// How often a leader sees whether its database answers.
const PING: Duration = Duration::from_secs(1);

/// How long a leader bears with a database that does not answer or does not take its fence, before it lets another try.
const PERSISTENCE: Duration = Duration::from_secs(5);

/// The pause after the database did not take the fence.
const AFTER_REFUSAL: Duration = Duration::from_millis(500);

/// Authority until an instant of the boot-time clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Grant {
    fence: Fence,
    until: Duration,
}

impl Grant {
    pub(super) const fn term(&self) -> u64 {
        self.fence.term
    }
}

/// Authority as it is asked for; clones see the same.
#[derive(Debug, Clone)]
pub(super) struct Lease {
    clock: Arc<dyn Clock>,
    grants: watch::Receiver<Option<Grant>>,
}

impl Lease {
    pub(super) fn new(clock: Arc<dyn Clock>, grants: watch::Receiver<Option<Grant>>) -> Self {
        Self { clock, grants }
    }

    /// The fence, while the lease lasts. Whoever grants may be late or dead: the clock decides.
    pub(super) fn held(&self) -> Option<Fence> {
        let grant = *self.grants.borrow();
        grant
            .filter(|grant| self.clock.elapsed() < grant.until)
            .map(|grant| grant.fence)
    }

    /// Waits until what is held is not `known`.
    pub(super) async fn differs(&self, known: Option<Fence>) {
        let mut grants = self.grants.clone();
        loop {
            let until = grants.borrow_and_update().map(|grant| grant.until);
            if self.held() != known {
                return;
            }
            let left = until.map_or(IDLE, |until| until.saturating_sub(self.clock.elapsed()));
            tokio::select! {
                biased;
                // Without a granter nothing is gained any more, but what is held still runs out.
                Ok(()) = grants.changed() => {}
                () = self.clock.sleep(left) => {}
            }
        }
    }
}

/// Watches Raft and grants authority. Ends when Raft does, and says why if that is a failure.
pub(super) async fn watch_over(member: Arc<Member>) {
    let mut metrics = member.raft.metrics();
    let mut watched = Watched::default();
    loop {
        let seen = {
            let metrics = metrics.borrow_and_update();
            metrics
                .running_state
                .clone()
                .map(|()| watched.lease(&member, &metrics))
        };
        match seen {
            Ok(leads) => {
                let grant = watched.grant(&member, leads).await;
                member.grant(grant);
                if std::mem::take(&mut watched.gives_up) {
                    tracing::warn!("elected, but without the database: another node shall lead");
                    member.hand_over().await;
                }
            }
            Err(fatal) => return member.ended(&fatal),
        }
        tokio::select! {
            biased;
            changed = metrics.changed() => if changed.is_err() {
                return member.ended(&Fatal::Stopped);
            },
            () = member.clock.sleep(LOOK) => {}
        }
    }
}

/// Has another node lead when this one does and its database no longer answers: whoever leads has work to do there.
pub(super) async fn mind_the_database(member: Arc<Member>) {
    let leadership = member.leadership();
    let mut silent_since = None;
    loop {
        member.clock.sleep(PING).await;
        if !leadership.is_held() {
            silent_since = None;
            continue;
        }
        let asked = member.clock.elapsed();
        let answer = member
            .arbiter
            .ask(|registry| async move { registry.peers().await })
            .await;
        let Err(error) = answer else {
            silent_since = None;
            continue;
        };
        let since = *silent_since.get_or_insert(asked);
        if member.clock.elapsed().saturating_sub(since) >= PERSISTENCE {
            tracing::warn!(%error, "leading without the database: another node shall lead");
            member.hand_over().await;
            silent_since = None;
        }
    }
}

/// An instant by Raft's clock, which stands still while the machine sleeps, and by ours, which does not.
type Both = (InstantOf<Types>, Duration);

/// What the watch remembers from look to look.
#[derive(Debug, Default)]
struct Watched {
    /// When the last message that a quorum answered was sent.
    acked: Option<Both>,
    /// When the clocks were last compared.
    compared: Option<Both>,
    /// The fence that the database took.
    acquired: Option<Fence>,
    /// The database is not asked before.
    ask_from: Duration,
    /// Since when it has not taken the fence.
    refused_since: Option<Duration>,
    /// It has been so for too long.
    gives_up: bool,
}

impl Watched {
    /// What this node may hold by what Raft says: the term, and until when.
    fn lease(&mut self, member: &Member, metrics: &openraft::RaftMetrics<Types>) -> Option<Grant> {
        let leads = metrics.state == ServerState::Leader && metrics.current_leader == Some(member.me.id);
        if !leads || !member.may_hold(metrics.current_term) {
            return None;
        }
        let acked = if member.is_alone(metrics) {
            // It is a majority by itself, and sends messages to nobody.
            member.clock.elapsed()
        } else {
            self.by_our_clock(&*member.clock, metrics.last_quorum_acked?.into_inner())
        };
        Some(Grant {
            fence: Fence {
                generation: member.charter.generation,
                term: metrics.current_term,
                node: member.me.id,
            },
            until: acked + member.pace.lease(),
        })
    }

    /// An instant of Raft's clock by the boot-time clock. It is converted once, when it is first seen, by the comparison
    /// before and by one made now, and the older result counts: if the machine slept between the two, one is too young.
    fn by_our_clock(&mut self, clock: &dyn Clock, acked: InstantOf<Types>) -> Duration {
        // In this order, so that a pause between the two makes it older.
        let ours = clock.elapsed();
        let now = (InstantOf::<Types>::now(), ours);
        let before = self.compared.replace(now).unwrap_or(now);
        match self.acked {
            Some((known, ours)) if known == acked => ours,
            _ => {
                let ours = converted(acked, now).min(converted(acked, before));
                self.acked = Some((acked, ours));
                ours
            }
        }
    }

    /// What is granted: nothing before the database took the fence, once for each term.
    async fn grant(&mut self, member: &Member, leads: Option<Grant>) -> Option<Grant> {
        let Some(lease) = leads.filter(|lease| member.clock.elapsed() < lease.until) else {
            self.refused_since = None;
            return None;
        };
        if self.acquired == Some(lease.fence) {
            return Some(lease);
        }
        if member.clock.elapsed() < self.ask_from {
            return None;
        }
        let fence = lease.fence;
        let answer = member
            .arbiter
            .ask(|registry| async move { registry.acquire(fence).await })
            .await;
        match answer {
            Ok(true) => {
                tracing::info!(
                    term = fence.term,
                    generation = fence.generation,
                    "this node leads"
                );
                self.acquired = Some(fence);
                self.refused_since = None;
                return Some(lease);
            }
            Ok(false) => tracing::warn!(
                term = fence.term,
                generation = fence.generation,
                "the database knows a later leader than this node"
            ),
            Err(error) => {
                tracing::warn!(%error, "elected, but the database did not take the fence; trying again");
            }
        }
        self.refused(member);
        None
    }

    /// A leader that the database does not take is in the way of one that it would.
    fn refused(&mut self, member: &Member) {
        let now = member.clock.elapsed();
        self.ask_from = now + AFTER_REFUSAL;
        let since = *self.refused_since.get_or_insert(now);
        self.gives_up = now.saturating_sub(since) >= PERSISTENCE;
        if self.gives_up {
            self.refused_since = None;
        }
    }
}

/// An instant of Raft's clock by ours, if the machine did not sleep between it and the comparison.
fn converted(instant: InstantOf<Types>, (theirs, ours): Both) -> Duration {
    let later = instant.saturating_duration_since(theirs);
    let earlier = theirs.saturating_duration_since(instant);
    (ours + later).saturating_sub(earlier)
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use futures_util::FutureExt;

    use super::*;
    use crate::clock::ManualClock;

    const FENCE: Fence = Fence {
        generation: 1,
        term: 2,
        node: 3,
    };

    #[tokio::test]
    async fn a_lease_runs_out_by_the_clock_alone() {
        let clock = Arc::new(ManualClock::at(DateTime::UNIX_EPOCH));
        let grants = watch::Sender::new(None);
        let lease = Lease::new(Arc::<ManualClock>::clone(&clock), grants.subscribe());
        assert_eq!(lease.held(), None);
        assert_eq!(lease.differs(None).now_or_never(), None);

        let until = clock.elapsed() + Duration::from_secs(1);
        grants.send_replace(Some(Grant { fence: FENCE, until }));
        assert_eq!(lease.held(), Some(FENCE));
        assert_eq!(lease.differs(None).now_or_never(), Some(()));
        assert_eq!(lease.differs(Some(FENCE)).now_or_never(), None);

        clock.advance(Duration::from_secs(1));
        assert_eq!(lease.held(), None);
        assert_eq!(lease.differs(Some(FENCE)).now_or_never(), Some(()));
    }

    #[test]
    fn a_message_of_before_a_sleep_is_as_old_as_the_sleep() {
        let clock = ManualClock::at(DateTime::UNIX_EPOCH);
        clock.advance(Duration::from_secs(100));
        let mut watched = Watched::default();
        let sent = InstantOf::<Types>::now();
        let first = watched.by_our_clock(&clock, sent);
        assert!(clock.elapsed().saturating_sub(first) < Duration::from_secs(1));

        // The machine sleeps after it has sent a message, and is answered when it wakes.
        let asleep_at = clock.elapsed();
        let sent = InstantOf::<Types>::now();
        clock.advance(Duration::from_mins(1));
        let slept = watched.by_our_clock(&clock, sent);
        assert!(slept < asleep_at + Duration::from_secs(1), "{slept:?}");
        assert_eq!(
            watched.by_our_clock(&clock, sent),
            slept,
            "it does not get younger"
        );

        let sent = InstantOf::<Types>::now();
        let awake = watched.by_our_clock(&clock, sent);
        assert!(clock.elapsed().saturating_sub(awake) < Duration::from_secs(1));
    }

    #[tokio::test]
    async fn without_a_granter_a_lease_still_runs_out() {
        let clock = Arc::new(ManualClock::at(DateTime::UNIX_EPOCH));
        let until = clock.elapsed() + Duration::from_secs(1);
        let grants = watch::Sender::new(Some(Grant { fence: FENCE, until }));
        let lease = Lease::new(Arc::<ManualClock>::clone(&clock), grants.subscribe());
        drop(grants);
        let waiting = lease.clone();
        let lost = tokio::spawn(async move { waiting.differs(Some(FENCE)).await });
        tokio::task::yield_now().await;
        clock.advance(Duration::from_secs(2));
        lost.await.unwrap();
        assert_eq!(lease.held(), None);
    }
}
