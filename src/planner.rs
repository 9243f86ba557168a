//! The planner looks ahead: it claims what is due soon, so that timers can be armed before it is due.
//!
//! A tick claims every free trigger due within the look-ahead, in pages ordered by due instant, and tells the holder. What
//! it went through before it does not go through again, until it is told that something there may be free. Two planners
//! over one store do no harm: a claim is a compare-and-set. And what the session holds
//! is looked up just before it is due, so that a claim whose message was lost (or whose answer never came) is armed all
//! the same.

use std::fmt;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering;
use std::time::Duration;

use chrono::DateTime;
use chrono::TimeDelta;
use chrono::Utc;

use crate::store::Claimed;
use crate::store::Fence;
use crate::store::Living;
use crate::store::Store;
use crate::store::StoreError;
use crate::trigger::SessionId;
use crate::trigger::TriggerId;

/// Rows of one claim.
const PAGE: u32 = 1_000;

/// Rows of one claim where there are several sessions.
const SHARE: u32 = 100;

/// How long before it is due a held trigger is looked up, and how long after, in case nobody looked in time.
const BEFORE_DUE: TimeDelta = TimeDelta::seconds(15);
const AFTER_DUE: TimeDelta = TimeDelta::seconds(15);

/// Told what a session has been given.
pub type TellClaims = Arc<dyn Fn(&Living, &[Claimed]) + Send + Sync>;

/// Looks ahead for one session.
#[derive(Clone)]
pub struct Planner {
    store: Arc<dyn Store>,
    session: SessionId,
    tell: TellClaims,
    /// How often it was looked for what is held.
    looks: Arc<AtomicU32>,
    /// How far the last tick looked, unless the next one looks at everything.
    looked_until: Arc<Mutex<Option<DateTime<Utc>>>>,
}

/// What a tick did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tick {
    /// Triggers claimed.
    pub claimed: u64,
    /// When the earliest trigger that is still free comes into the window, if there is one; now, where one is in it.
    pub next: Option<DateTime<Utc>>,
}

/// One in so many looks for what is held goes back to the beginning.
const THOROUGH: u32 = 12;

type Cursor = Option<(DateTime<Utc>, TriggerId)>;

/// A change claims what is due soon by the time at which it began, and may be committed so much later: what it left lies
/// no further before the end of a look.
const WAITED: TimeDelta = TimeDelta::minutes(1);

/// The last of all that are due at one instant.
const LAST: TriggerId = TriggerId([0xff; 16]);

/// The sessions that may be given claims, and how much each has.
struct Hands(Vec<Living>);

impl Hands {
    fn give(&mut self, session: SessionId, count: usize) {
        let hand = self.0.iter_mut().find(|hand| hand.session == session);
        if let Some(hand) = hand {
            hand.pending += count as u64;
        }
    }
}

impl fmt::Debug for Planner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Planner")
            .field("session", &self.session)
            .finish_non_exhaustive()
    }
}

impl Planner {
    /// A planner that claims for `session` and tells `tell`.
    pub fn new(store: Arc<dyn Store>, session: SessionId, tell: TellClaims) -> Self {
        Self {
            store,
            session,
            tell,
            looks: Arc::default(),
            looked_until: Arc::default(),
        }
    }

    /// Has the next tick look at the whole window: something in it may have become free.
    pub fn start_over(&self) {
        *self.looked_until.lock().expect("no holder panics") = None;
    }

    /// Claims all that is due within `window` from now by the store's clock and was not looked at before, as the leader that
    /// `fence` names, and spreads it over the sessions that have shown a sign of life within `dead_after`.
    pub async fn tick(
        &self,
        window: Duration,
        fence: Option<Fence>,
        dead_after: Duration,
    ) -> Result<Tick, StoreError> {
        let mut hands = Hands(self.store.living(dead_after).await?);
        if hands.0.is_empty() {
            hands.0.push(self.own());
        }
        let leading = Arc::clone(&self.store).fenced(fence);
        let window = TimeDelta::from_std(window).unwrap_or(TimeDelta::MAX);
        let now = self.store.now().await?;
        let until = now.checked_add_signed(window).unwrap_or(DateTime::<Utc>::MAX_UTC);
        let from = *self.looked_until.lock().expect("no holder panics");
        let claimed = self.claim(leading.as_ref(), &mut hands, (from, until)).await?;
        let next_free = self
            .store
            .next_free_due(from.unwrap_or(DateTime::UNIX_EPOCH))
            .await?;
        // What is free still had been locked by a change: it is looked for again.
        let is_passed_over = next_free.is_some_and(|due_at| due_at <= until);
        if !is_passed_over {
            *self.looked_until.lock().expect("no holder panics") = Some(until - WAITED);
        }
        Ok(Tick {
            claimed,
            next: next_free.map(|due_at| if is_passed_over { now } else { due_at - window }),
        })
    }

    async fn claim(
        &self,
        store: &dyn Store,
        hands: &mut Hands,
        (from, until): (Option<DateTime<Utc>>, DateTime<Utc>),
    ) -> Result<u64, StoreError> {
        let mut claimed = 0;
        let mut cursor: Cursor = from.map(|from| (from, LAST));
        while let Some(hand) = Living::freest(&hands.0) {
            let limit = if hands.0.len() == 1 { PAGE } else { SHARE };
            let page = store.claim_due(hand.session, until, cursor, limit).await?;
            (self.tell)(&hand, &page);
            claimed += page.len() as u64;
            hands.give(hand.session, page.len());
            cursor = page.last().map(|last| (last.due_at, last.id)).or(cursor);
            if page.is_empty() && hands.0.len() > 1 {
                // Nothing is free, or the session has just ended: another one knows.
                hands.0.retain(|it| it.session != hand.session);
            } else if page.len() < limit as usize {
                break;
            }
        }
        Ok(claimed)
    }

    const fn own(&self) -> Living {
        Living {
            session: self.session,
            peer: None,
            pending: 0,
        }
    }

    /// Tells what the session holds that is due about now. Called at least every 15 s it misses none, but what was claimed
    /// when it was overdue for longer: every twelfth call tells that too.
    pub async fn find_held(&self) -> Result<(), StoreError> {
        let now = self.store.now().await?;
        let until = now + BEFORE_DUE;
        let looks = self.looks.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let mut cursor: Cursor =
            (!looks.is_multiple_of(THOROUGH)).then(|| (now - AFTER_DUE, TriggerId([0; 16])));
        loop {
            let page = self.store.held_by(self.session, until, cursor, PAGE).await?;
            (self.tell)(&self.own(), &page);
            cursor = page.last().map(|last| (last.due_at, last.id));
            if page.len() < PAGE as usize {
                return Ok(());
            }
        }
    }
}
