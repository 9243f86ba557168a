//! The janitor frees claims whose holder is gone, gives up reports that do not come, and deletes what is old. All in
//! bounded steps.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use chrono::DateTime;
use chrono::TimeDelta;
use chrono::Utc;

use crate::store::Fence;
use crate::store::RescueRules;
use crate::store::Rescued;
use crate::store::Retention;
use crate::store::Store;
use crate::store::StoreError;
use crate::trigger::ChannelKind;

/// Rows looked at by one rescue.
const RESCUE: u32 = 1_000;

/// Reports given up at once.
const TIME_OUT: u32 = 1_000;

/// Steps of giving up in one go at the most.
const TIME_OUTS: usize = 20;

/// Rows of each kind deleted at once.
const PURGE: u32 = 1_000;

/// Purges in one go at the most: upkeep must never keep the writer busy for long.
const PURGES: usize = 20;

/// How long things are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// History and outbox.
    pub history: Duration,
    /// Tombstones of deleted events.
    pub tombstones: Duration,
}

/// What a purge did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Purged {
    /// Rows deleted.
    pub rows: u64,
    /// Whether there may be more to delete.
    pub more: bool,
}

/// Cleans up.
#[derive(Debug, Clone)]
pub struct Janitor {
    store: Arc<dyn Store>,
}

impl Janitor {
    /// A janitor of this store.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// Frees lapsed claims, as the leader that `fence` names; whoever calls has the planner look if any were freed.
    pub async fn rescue(&self, rules: &RescueRules, fence: Option<Fence>) -> Result<Rescued, StoreError> {
        Arc::clone(&self.store).fenced(fence).rescue(rules, RESCUE).await
    }

    /// Gives up what has awaited a report for too long, but not all of it if it is much; as the leader that `fence` names.
    /// Returns how many of each channel.
    pub async fn time_out(&self, fence: Option<Fence>) -> Result<BTreeMap<ChannelKind, u64>, StoreError> {
        let store = Arc::clone(&self.store).fenced(fence);
        let mut sum = BTreeMap::new();
        for _ in 0..TIME_OUTS {
            let given_up = store.time_out(TIME_OUT).await?;
            let count: u64 = given_up.values().sum();
            for (channel, count) in given_up {
                *sum.entry(channel).or_default() += count;
            }
            if count < u64::from(TIME_OUT) {
                break;
            }
        }
        Ok(sum)
    }

    /// Deletes what is older than it must be kept, but not all of it if it is much; as the leader that `fence` names.
    pub async fn purge(
        &self,
        config: Config,
        now: DateTime<Utc>,
        fence: Option<Fence>,
    ) -> Result<Purged, StoreError> {
        let store = Arc::clone(&self.store).fenced(fence);
        let before = |age| now.checked_sub_signed(TimeDelta::from_std(age).unwrap_or(TimeDelta::MAX));
        let retention = Retention {
            history_before: before(config.history).unwrap_or(DateTime::<Utc>::MIN_UTC),
            tombstones_before: before(config.tombstones).unwrap_or(DateTime::<Utc>::MIN_UTC),
            limit: PURGE,
        };
        let mut purged = Purged { rows: 0, more: true };
        for _ in 0..PURGES {
            let gone = store.purge(&retention).await?;
            purged.rows += gone;
            purged.more = gone > 0;
            if !purged.more {
                break;
            }
        }
        Ok(purged)
    }
}
