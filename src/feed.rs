//! What happens to stand-alone alarms, told to whoever follows them here.
//!
//! ```text
//!   store ──numbers of owners that are followed──▶ reader ──ring of an owner──▶ followers
//!     ▲                                                                            │
//!     └────────────── pages after what it has seen, where it fell behind ──────────┘
//! ```
//!
//! One reader looks for all followers of this node: when something was recorded here, and from time to time for what other
//! nodes recorded. What it finds goes into a ring that all followers of the owner share. A follower takes from the ring
//! what comes next by its number; where that is not there any more, it reads the store from where it stands, a page at a
//! time and as fast as it is taken from it. So a slow one costs its page and a place, and holds up nobody. Nothing is kept
//! here that a crash could lose: whoever follows knows the number it has seen, and goes on after it on any node.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::Semaphore;
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::metrics::Metrics;
use crate::store::AlarmChange;
use crate::store::Store;
use crate::store::StoreError;
use crate::trigger::OwnerId;

/// How soon the reader finds what another node recorded.
const PERIOD: Duration = Duration::from_millis(500);

/// The pause between looks, however much is recorded here.
const REST: Duration = Duration::from_millis(50);

/// Changes of an owner that followers may lag behind without reading the store themselves.
const RING: u32 = 256;

/// Changes that a follower takes at once.
const PAGE: u32 = 100;

/// Owners that are asked for in one statement.
const OWNERS: usize = 500;

/// Tells followers what happens.
pub struct Feed {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
    /// Something may have been recorded here.
    recorded: Arc<Notify>,
    /// When it is over.
    stop: CancellationToken,
    most: usize,
    places: Arc<Semaphore>,
    owners: Mutex<BTreeMap<OwnerId, Followed>>,
}

/// An owner who is followed.
struct Followed {
    /// The last number that went into the ring, or need not; unknown as long as the first follower looks where it stands.
    told: Option<u64>,
    ring: broadcast::Sender<Arc<AlarmChange>>,
}

/// Why somebody cannot follow.
#[derive(Debug)]
pub enum Refusal {
    /// So many follow already, and no more may.
    Full(usize),
    /// What comes after that number is not known here any more, or not yet; the last number is this.
    Gone(u64),
    /// The store does not say.
    Failed(StoreError),
}

/// Why a follower is told no more.
#[derive(Debug)]
pub enum End {
    /// This node drains.
    Stopped,
    /// It fell behind so far that what comes next was deleted as old.
    Gone,
    /// The store does not say.
    Failed(StoreError),
}

impl fmt::Debug for Feed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feed")
            .field("most", &self.most)
            .finish_non_exhaustive()
    }
}

/// What a feed is made of.
#[derive(Debug)]
pub struct Parts {
    /// Where changes are kept.
    pub store: Arc<dyn Store>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// Notified where something may have been recorded here.
    pub recorded: Arc<Notify>,
}

impl Feed {
    /// A feed for `most` followers, who are told until `stop`.
    pub fn new(parts: Parts, most: usize, stop: CancellationToken) -> Self {
        Self {
            store: parts.store,
            clock: parts.clock,
            metrics: parts.metrics,
            recorded: parts.recorded,
            stop,
            most,
            places: Arc::new(Semaphore::new(most)),
            owners: Mutex::default(),
        }
    }

    /// Cancelled when followers are told no more.
    pub const fn stop(&self) -> &CancellationToken {
        &self.stop
    }

    /// Takes one of the places of followers; none where all are taken.
    pub fn place(&self) -> Result<OwnedSemaphorePermit, Refusal> {
        let place = Arc::clone(&self.places).try_acquire_owned();
        place.map_err(|_| Refusal::Full(self.most))
    }

    /// Follows an owner after that number; from now on without one. Whoever does has a place.
    pub async fn follow(self: &Arc<Self>, owner: &OwnerId, after: Option<u64>) -> Result<Follower, Refusal> {
        // Before the store is asked: what is recorded from here on is in the ring or in what is read.
        let news = self.subscribe(owner);
        let last = self.store.last_changes(std::slice::from_ref(owner)).await;
        let last = last
            .map_err(Refusal::Failed)?
            .first()
            .map_or(0, |(_, last)| *last);
        if let Some(followed) = self.owners.lock().expect("no holder panics").get_mut(owner) {
            followed.told.get_or_insert(last);
        }
        let seen = after.unwrap_or(last);
        if seen > last {
            return Err(Refusal::Gone(last));
        }
        let mut follower = Follower {
            feed: Arc::clone(self),
            owner: owner.clone(),
            seen,
            waiting: Vec::new(),
            news,
            is_behind: true,
            known: last,
        };
        match follower.catch_up().await {
            Ok(()) => Ok(follower),
            Err(End::Failed(error)) => Err(Refusal::Failed(error)),
            Err(End::Gone | End::Stopped) => Err(Refusal::Gone(last)),
        }
    }

    fn subscribe(&self, owner: &OwnerId) -> broadcast::Receiver<Arc<AlarmChange>> {
        let mut owners = self.owners.lock().expect("no holder panics");
        let followed = owners.entry(owner.clone()).or_insert_with(|| Followed {
            told: None,
            ring: broadcast::Sender::new(RING as usize),
        });
        followed.ring.subscribe()
    }

    /// Looks for what happens, until it is over.
    pub async fn run(&self) {
        loop {
            tokio::select! {
                () = self.stop.cancelled() => return,
                () = self.recorded.notified() => {}
                () = self.clock.sleep(PERIOD) => {}
            }
            if let Err(error) = self.look().await {
                tracing::warn!(%error, "followers of alarms are told nothing for now");
            }
            tokio::select! {
                () = self.stop.cancelled() => return,
                () = self.clock.sleep(REST) => {}
            }
        }
    }

    /// Puts what is new into the rings of those who are followed.
    pub async fn look(&self) -> Result<(), StoreError> {
        self.metrics
            .followers(self.most - self.places.available_permits());
        let followed = self.followed();
        let names: Vec<OwnerId> = followed.keys().cloned().collect();
        for some in names.chunks(OWNERS) {
            for (owner, last) in self.store.last_changes(some).await? {
                let told = followed.get(&owner).copied().unwrap_or(last);
                if told < last {
                    self.tell(&owner, told, last).await?;
                }
            }
        }
        Ok(())
    }

    /// Who is followed, and up to which number that is told. Who is not followed any more is forgotten.
    fn followed(&self) -> BTreeMap<OwnerId, u64> {
        let mut owners = self.owners.lock().expect("no holder panics");
        owners.retain(|_, followed| followed.ring.receiver_count() > 0);
        let known = owners
            .iter()
            .filter_map(|(owner, followed)| Some((owner.clone(), followed.told?)));
        known.collect()
    }

    /// Tells the changes after `told`. Of more than the ring holds only the last: followers see that some are missing.
    async fn tell(&self, owner: &OwnerId, told: u64, last: u64) -> Result<(), StoreError> {
        let after = told.max(last.saturating_sub(u64::from(RING)));
        let changes = self.store.alarm_changes(owner, after, RING).await?;
        let mut owners = self.owners.lock().expect("no holder panics");
        let Some(followed) = owners.get_mut(owner) else {
            return Ok(());
        };
        for change in changes {
            followed.told = Some(change.number);
            // Who left meanwhile hears nothing.
            let _ = followed.ring.send(Arc::new(change));
        }
        Ok(())
    }
}

/// Somebody who follows an owner.
pub struct Follower {
    feed: Arc<Feed>,
    owner: OwnerId,
    /// The number of the last change that was taken.
    seen: u64,
    /// What comes next, read from the store.
    waiting: Vec<Arc<AlarmChange>>,
    news: broadcast::Receiver<Arc<AlarmChange>>,
    /// Whether the ring may not hold what comes next.
    is_behind: bool,
    /// A number that was given, so that what comes before it must be there.
    known: u64,
}

impl fmt::Debug for Follower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Follower")
            .field("seen", &self.seen)
            .finish_non_exhaustive()
    }
}

impl Follower {
    /// The number after which it goes on.
    pub const fn seen(&self) -> u64 {
        self.seen
    }

    /// Waits for what comes next, and takes what there is of it, up to a page. Given up in the middle, it loses nothing.
    pub async fn next(&mut self) -> Result<Vec<Arc<AlarmChange>>, End> {
        let stop = self.feed.stop.clone();
        tokio::select! {
            biased;
            () = stop.cancelled() => Err(End::Stopped),
            next = self.wait() => next,
        }
    }

    /// What comes next of what there is by now; empty where that is all.
    pub async fn rest(&mut self) -> Result<Vec<Arc<AlarmChange>>, End> {
        if self.waiting.is_empty() && self.is_behind {
            self.catch_up().await?;
        }
        Ok(self.give())
    }

    fn give(&mut self) -> Vec<Arc<AlarmChange>> {
        if let Some(last) = self.waiting.last() {
            self.seen = last.number;
        }
        std::mem::take(&mut self.waiting)
    }

    async fn wait(&mut self) -> Result<Vec<Arc<AlarmChange>>, End> {
        loop {
            if self.is_behind && self.waiting.is_empty() {
                self.catch_up().await?;
            }
            if !self.waiting.is_empty() {
                return Ok(self.give());
            }
            match self.news.recv().await {
                Ok(change) if change.number <= self.seen => {}
                Ok(change) if change.number == self.seen + 1 => self.take(change),
                Ok(change) => self.fell_behind(change.number),
                Err(broadcast::error::RecvError::Lagged(_)) => self.fell_behind(self.seen + 1),
                Err(broadcast::error::RecvError::Closed) => return Err(End::Stopped),
            }
        }
    }

    /// Takes a change out of the ring, and those behind it.
    fn take(&mut self, first: Arc<AlarmChange>) {
        let mut next = first.number + 1;
        self.waiting.push(first);
        while self.waiting.len() < PAGE as usize {
            match self.news.try_recv() {
                Ok(change) if change.number == next => {
                    next += 1;
                    self.waiting.push(change);
                }
                Ok(change) if change.number < next => {}
                Ok(change) => return self.fell_behind(change.number),
                Err(broadcast::error::TryRecvError::Lagged(_)) => return self.fell_behind(next),
                Err(_) => return,
            }
        }
    }

    /// The ring went on without us, to that number at least.
    fn fell_behind(&mut self, number: u64) {
        self.is_behind = true;
        self.known = self.known.max(number);
    }

    /// Reads the next page from the store.
    async fn catch_up(&mut self) -> Result<(), End> {
        let page = self.feed.store.alarm_changes(&self.owner, self.seen, PAGE).await;
        let page = page.map_err(End::Failed)?;
        let next = page.first().map(|first| first.number);
        if next.map_or(self.known > self.seen, |next| next != self.seen + 1) {
            return Err(End::Gone);
        }
        // A page that is not full ends with the last there was when it was read; what came since is in the ring.
        self.is_behind = page.len() == PAGE as usize;
        self.waiting = page.into_iter().map(Arc::new).collect();
        Ok(())
    }
}
