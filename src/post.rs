//! What nodes tell each other beside Raft: what one has been given, and what is no longer owed. Losing a message costs a
//! stale timer or a look of the receiver's own ([`Planner::find_held`]), never a reminder.
//!
//! [`Planner::find_held`]: crate::planner::Planner::find_held

use std::fmt;
use std::sync::Arc;
use std::sync::OnceLock;

use chrono::DateTime;
use serde::Deserialize;
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::sync::Notify;
use tokio::sync::watch;

use crate::cluster::Cluster;
use crate::cluster::Inbox;
use crate::cluster::Leadership;
use crate::cluster::Topic;
use crate::delivery::arm::Armed;
use crate::store::Claimed;
use crate::store::Living;
use crate::store::Withdrawn;
use crate::trigger::SessionId;
use crate::trigger::TriggerId;

/// Triggers of one message; a message stays small enough to travel with others.
const TOGETHER: usize = 500;

/// A trigger as it travels.
#[derive(Debug, Serialize, Deserialize)]
struct Note {
    id: String,
    generation: i64,
    /// Milliseconds since 1970.
    due_at: i64,
    channel: String,
    /// Of an older version: nothing.
    #[serde(default)]
    owner: u64,
    session: Option<i64>,
}

impl Note {
    fn armed(claimed: &Claimed) -> Self {
        Self {
            id: claimed.id.to_string(),
            generation: claimed.generation,
            due_at: claimed.due_at.timestamp_millis(),
            channel: claimed.channel.as_str().to_owned(),
            owner: claimed.owner,
            session: None,
        }
    }

    fn withdrawn(withdrawn: &Withdrawn) -> Self {
        Self {
            id: withdrawn.id.to_string(),
            generation: 0,
            due_at: withdrawn.due_at.timestamp_millis(),
            channel: withdrawn.channel.as_str().to_owned(),
            owner: 0,
            session: withdrawn.session.map(|session| session.0),
        }
    }

    fn id(&self) -> Option<TriggerId> {
        self.id.parse().ok()
    }

    fn into_claimed(self) -> Option<Claimed> {
        Some(Claimed {
            id: self.id()?,
            generation: self.generation,
            due_at: DateTime::from_timestamp_millis(self.due_at)?,
            channel: self.channel.parse().ok()?,
            owner: self.owner,
        })
    }

    fn into_withdrawn(self) -> Option<Withdrawn> {
        Some(Withdrawn {
            id: self.id()?,
            due_at: DateTime::from_timestamp_millis(self.due_at)?,
            channel: self.channel.parse().ok()?,
            session: self.session.map(SessionId),
        })
    }
}

/// This node's place among the others: its timers, which they may set, and the way to theirs.
#[derive(Clone)]
pub struct Seat {
    /// What this node holds.
    pub armed: Arc<Armed>,
    /// Who may be given claims, as of the last beat.
    pub living: Arc<watch::Sender<Vec<Living>>>,
    /// Notified where something was recorded here of which followers may have to be told.
    pub recorded: Arc<Notify>,
    cluster: Arc<OnceLock<Arc<Cluster>>>,
}

impl fmt::Debug for Seat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seat")
            .field("armed", &self.armed)
            .finish_non_exhaustive()
    }
}

impl Default for Seat {
    fn default() -> Self {
        Self {
            armed: Arc::default(),
            living: Arc::new(watch::Sender::new(Vec::new())),
            recorded: Arc::default(),
            cluster: Arc::default(),
        }
    }
}

impl Seat {
    /// Where messages of peers arrive.
    pub fn inbox(&self) -> Inbox {
        let armed = Arc::clone(&self.armed);
        Inbox::new(move |topic, messages| receive(&armed, topic, &messages))
    }

    /// Takes its place in a cluster; once.
    pub fn join(&self, cluster: Arc<Cluster>) {
        // A second cluster is not possible, and would change nothing.
        let _ = self.cluster.set(cluster);
    }

    /// The cluster, where there is one.
    pub fn cluster(&self) -> Option<&Arc<Cluster>> {
        self.cluster.get()
    }

    /// Who leads: alone, this node does.
    pub fn leadership(&self) -> Leadership {
        self.cluster()
            .map_or_else(Leadership::solo, |cluster| cluster.leadership())
    }

    /// This node's number, where it has one.
    pub fn number(&self) -> Option<i64> {
        self.cluster()
            .and_then(|cluster| i64::try_from(cluster.id()).ok())
    }

    /// Who takes what is due soon: `own` where it may be given claims, else the session that has the least, as of the last
    /// beat.
    pub fn taker(&self, own: Option<SessionId>) -> Option<SessionId> {
        let living = self.living.borrow();
        if living.iter().any(|it| Some(it.session) == own) {
            return own;
        }
        Living::freest(&living).map(|it| it.session).or(own)
    }

    /// Tells another session what it has been given, and counts it as held there until the next beat says how much is.
    pub fn entrust(&self, session: SessionId, claimed: &[Claimed]) {
        let mut peer = None;
        self.living.send_if_modified(|living| {
            let taker = living.iter_mut().find(|it| it.session == session);
            if let Some(taker) = taker {
                taker.pending += claimed.len() as u64;
                peer = taker.peer;
            }
            false
        });
        if let Some(peer) = peer {
            self.give(peer, claimed);
        }
    }

    /// Tells a peer what it has been given.
    pub fn give(&self, peer: i64, claimed: &[Claimed]) {
        for part in claimed.chunks(TOGETHER) {
            let notes: Vec<Note> = part.iter().map(Note::armed).collect();
            self.tell(peer, Topic::Armed, &notes);
        }
    }

    /// Tells whoever holds them what is no longer owed; what this node holds itself it forgets at once.
    pub fn withdraw(&self, withdrawn: &[Withdrawn]) {
        self.armed.disarm(withdrawn);
        if self.cluster().is_none() {
            return;
        }
        for living in self.living.borrow().iter() {
            let theirs = withdrawn.iter().filter(|it| it.session == Some(living.session));
            let notes: Vec<Note> = theirs.map(Note::withdrawn).collect();
            if let Some(peer) = living.peer.filter(|_| !notes.is_empty()) {
                self.tell(peer, Topic::Withdrawn, &notes);
            }
        }
    }

    fn tell(&self, peer: i64, topic: Topic, notes: &[Note]) {
        let Some((cluster, peer)) = self.cluster().zip(u64::try_from(peer).ok()) else {
            return;
        };
        if peer != cluster.id() && !cluster.tell(peer, topic, &notes) {
            tracing::debug!(
                peer,
                ?topic,
                "a message was not sent: the peer finds out by itself"
            );
        }
    }
}

/// Takes messages of peers. What cannot be read is passed over: it is from another version, and costs no more than a lost
/// one.
fn receive(armed: &Armed, topic: Topic, messages: &[Box<RawValue>]) {
    let notes = messages
        .iter()
        .filter_map(|message| serde_json::from_str::<Vec<Note>>(message.get()).ok())
        .flatten();
    match topic {
        Topic::Armed => armed.arm(&notes.filter_map(Note::into_claimed).collect::<Vec<_>>()),
        Topic::Withdrawn => armed.disarm(&notes.filter_map(Note::into_withdrawn).collect::<Vec<_>>()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trigger::ChannelKind;

    #[test]
    fn what_is_due_soon_is_taken_here_or_by_whoever_delivers_and_has_the_least() {
        let living = |session, pending| Living {
            session: SessionId(session),
            peer: None,
            pending,
        };
        let own = Some(SessionId(1));
        let seat = Seat::default();
        assert_eq!(
            (seat.taker(own), seat.taker(None)),
            (own, None),
            "nobody is known"
        );
        seat.living
            .send_replace(vec![living(1, 9), living(2, 3), living(3, 1)]);
        assert_eq!((seat.taker(own), seat.taker(None)), (own, Some(SessionId(3))));
        let claimed = Claimed {
            id: TriggerId([7; 16]),
            generation: 1,
            due_at: DateTime::UNIX_EPOCH,
            channel: ChannelKind::Email,
            owner: 1,
        };
        seat.entrust(SessionId(3), &[claimed; 3]);
        assert_eq!(seat.taker(None), Some(SessionId(2)), "the third has four by now");
        seat.living.send_replace(vec![living(2, 3)]);
        assert_eq!(
            seat.taker(own),
            Some(SessionId(2)),
            "this node may be given nothing"
        );
    }

    #[test]
    fn what_a_peer_is_given_and_what_is_taken_back_arrives() {
        let due_at = DateTime::from_timestamp_millis(1_800_000_000_123).unwrap();
        let (id, channel) = (TriggerId([7; 16]), ChannelKind::Email);
        let claimed = Claimed {
            id,
            generation: 3,
            due_at,
            channel,
            owner: 9,
        };
        let withdrawn = Withdrawn {
            id,
            due_at,
            channel,
            session: Some(SessionId(2)),
        };
        let armed = Armed::default();
        let message = |notes: &[Note]| vec![serde_json::value::to_raw_value(notes).unwrap()];

        receive(&armed, Topic::Armed, &message(&[Note::armed(&claimed)]));
        assert_eq!(armed.next_due(channel), Some(due_at));
        receive(&armed, Topic::Withdrawn, &message(&[Note::withdrawn(&withdrawn)]));
        assert!(armed.is_empty());
    }
}
