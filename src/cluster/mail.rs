//! Messages between nodes beside Raft: quick and unreliable.
//!
//! The database is the truth, and a node that misses a message finds out by itself; so a message is sent once, with a
//! second of patience. What waits for the same node travels together. What the messages say is not known here.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;
use tokio::sync::mpsc;

use openraft::type_config::TypeConfigExt;

use super::network::Peers;
use super::registry::NodeId;
use super::registry::Peer;
use super::state::Types;

/// How long a message may take.
const PATIENCE: Duration = Duration::from_secs(1);

/// Messages that may wait for one node and one topic; more are dropped.
const WAITING: usize = 4_096;

/// Bytes of one batch, well below what a peer accepts.
const BATCH: usize = 512 * 1024;

/// What a message is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Topic {
    /// The receiver has been given work.
    Armed,
    /// The receiver need not do work that it was given.
    Withdrawn,
}

impl Topic {
    const fn path(self) -> &'static str {
        match self {
            Self::Armed => "/armed",
            Self::Withdrawn => "/withdrawn",
        }
    }
}

/// Takes the messages that arrive, in batches. It is called on the cluster's own thread: it must put them aside and
/// return, for while it runs no heartbeat is answered.
#[derive(Clone)]
pub struct Inbox(Arc<dyn Fn(Topic, Vec<Box<RawValue>>) + Send + Sync>);

impl Inbox {
    /// An inbox that hands messages to `receive`.
    pub fn new(receive: impl Fn(Topic, Vec<Box<RawValue>>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(receive))
    }

    pub(super) fn receive(&self, topic: Topic, messages: Vec<Box<RawValue>>) {
        (self.0)(topic, messages);
    }
}

impl fmt::Debug for Inbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbox").finish_non_exhaustive()
    }
}

/// Sends messages: a queue for each node and topic, so that a silent node holds up nobody else.
#[derive(Debug)]
pub(super) struct Outbox {
    peers: Peers,
    queues: Mutex<BTreeMap<(NodeId, Topic), mpsc::Sender<Letter>>>,
}

#[derive(Debug)]
struct Letter {
    addr: String,
    message: Box<RawValue>,
}

impl Outbox {
    pub(super) fn new(peers: Peers) -> Self {
        Self {
            peers,
            queues: Mutex::new(BTreeMap::new()),
        }
    }

    /// Queues a message; whether there was room. Must be called on the cluster's runtime.
    pub(super) fn send(&self, to: Peer, topic: Topic, message: &impl Serialize) -> bool {
        let Ok(message) = serde_json::value::to_raw_value(message) else {
            return false;
        };
        let letter = Letter {
            addr: to.addr,
            message,
        };
        let mut queues = self.queues.lock().expect("no holder panics");
        let queue = queues.entry((to.id, topic)).or_insert_with(|| {
            let (queue, letters) = mpsc::channel(WAITING);
            Types::spawn(deliver(self.peers.clone(), to.id, topic, letters));
            queue
        });
        queue.try_send(letter).is_ok()
    }
}

/// Sends what waits, a batch at a time, until the outbox is gone.
async fn deliver(peers: Peers, id: NodeId, topic: Topic, mut letters: mpsc::Receiver<Letter>) {
    while let Some(first) = letters.recv().await {
        let to = Peer { id, addr: first.addr };
        let mut bytes = first.message.get().len();
        let mut batch = vec![first.message];
        while bytes < BATCH
            && let Ok(next) = letters.try_recv()
        {
            bytes += next.message.get().len();
            batch.push(next.message);
        }
        if let Err(error) = peers.ask::<_, ()>(&to, topic.path(), &batch, PATIENCE).await {
            tracing::debug!(peer = id, ?topic, messages = batch.len(), %error, "a message was lost");
        }
    }
}
