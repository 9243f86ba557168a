//! The planner looks ahead: it claims what is due soon, so that timers can be armed before it is due.
//!
//! A tick takes no hints. It claims every free trigger due within the look-ahead, in pages ordered by due instant, and
//! tells the holder. Two planners over one store do no harm: a claim is a compare-and-set. And what the session holds
//! is looked up just before it is due, so that a claim whose message was lost (or whose answer never came) is armed all
//! the same.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use chrono::DateTime;
use chrono::TimeDelta;
use chrono::Utc;

use crate::store::Claimed;
use crate::store::Store;
use crate::store::StoreError;
use crate::trigger::SessionId;
use crate::trigger::TriggerId;

/// Rows of one claim.
const PAGE: u32 = 1_000;

/// How long before it is due a held trigger is looked up, and how long after, in case nobody looked in time.
const BEFORE_DUE: TimeDelta = TimeDelta::seconds(15);
const AFTER_DUE: TimeDelta = TimeDelta::seconds(15);

/// Told what this node holds.
pub type TellClaims = Arc<dyn Fn(&[Claimed]) + Send + Sync>;

/// Looks ahead for one session.
#[derive(Clone)]
pub struct Planner {
    store: Arc<dyn Store>,
    session: SessionId,
    tell: TellClaims,
}

/// What a tick did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tick {
    /// Triggers claimed.
    pub claimed: u64,
    /// When the earliest trigger that is still free comes into the window, if there is one.
    pub next: Option<DateTime<Utc>>,
}

type Cursor = Option<(DateTime<Utc>, TriggerId)>;

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
        Self { store, session, tell }
    }

    /// Claims all that is due within `window` from now by the store's clock.
    pub async fn tick(&self, window: Duration) -> Result<Tick, StoreError> {
        let window = TimeDelta::from_std(window).unwrap_or(TimeDelta::MAX);
        let now = self.store.now().await?;
        let until = now.checked_add_signed(window).unwrap_or(DateTime::<Utc>::MAX_UTC);
        let claimed = self.claim(until).await?;
        let next_free = self.store.next_free_due(until).await?;
        Ok(Tick {
            claimed,
            next: next_free.map(|due_at| due_at - window),
        })
    }

    async fn claim(&self, until: DateTime<Utc>) -> Result<u64, StoreError> {
        let mut claimed = 0;
        let mut cursor: Cursor = None;
        loop {
            let page = self.store.claim_due(self.session, until, cursor, PAGE).await?;
            (self.tell)(&page);
            claimed += page.len() as u64;
            cursor = page.last().map(|last| (last.due_at, last.id));
            if page.len() < PAGE as usize {
                return Ok(claimed);
            }
        }
    }

    /// Tells what the session holds that is due about now. Whoever calls this more often than every 15 s misses none.
    pub async fn find_held(&self) -> Result<(), StoreError> {
        let now = self.store.now().await?;
        let until = now + BEFORE_DUE;
        let mut cursor: Cursor = Some((now - AFTER_DUE, TriggerId([0; 16])));
        loop {
            let page = self.store.held_by(self.session, until, cursor, PAGE).await?;
            (self.tell)(&page);
            cursor = page.last().map(|last| (last.due_at, last.id));
            if page.len() < PAGE as usize {
                return Ok(());
            }
        }
    }
}
