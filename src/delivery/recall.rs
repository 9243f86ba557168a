//! Slots in limits are given for the limits of then. Where there is more room now, because a reload or a start brought
//! a wider limit or none, what waits is looked at again at once: its fire-check finds the slot that there is by now.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use tokio_util::sync::CancellationToken;

use crate::delivery::lane::LaneConfig;
use crate::delivery::lane::Shared;
use crate::store;
use crate::trigger::ChannelKind;
use crate::trigger::limit::Limit;

/// Slots of one transaction at the most.
const PAGE: u32 = 500;

/// The pause before a page is tried again whose store does not answer.
const PAUSE: Duration = Duration::from_secs(1);

/// Looks again at what waits for slots, where there is more room.
pub struct Recall {
    shared: Arc<Shared>,
    /// The limits by which what waits was given its slots; none at the start, when nobody knows.
    known: Option<Limits>,
}

type Limits = BTreeMap<ChannelKind, Option<Limit>>;

impl fmt::Debug for Recall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recall")
            .field("known", &self.known)
            .finish_non_exhaustive()
    }
}

impl Recall {
    /// Over what the lanes share.
    pub const fn new(shared: Arc<Shared>) -> Self {
        Self { shared, known: None }
    }

    /// Recalls at the start and after each reload, until `stop`.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut config = self.shared.config.clone();
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.tick() => {}
            }
            tokio::select! {
                () = stop.cancelled() => return,
                changed = config.changed() => if changed.is_err() {
                    stop.cancelled().await;
                },
            }
        }
    }

    /// Recalls what waits in channels whose limits are wider than when this was last asked.
    pub async fn tick(&mut self) {
        let limits = limits(&self.shared.config.borrow());
        for (kind, limit) in &limits {
            let known = self.known.as_ref();
            let known = known.map(|known| known.get(kind).copied().flatten());
            if known.is_none_or(|known| Limit::is_wider(known, *limit)) {
                self.recall(*kind).await;
            }
        }
        self.known = Some(limits);
    }

    async fn recall(&self, kind: ChannelKind) {
        let Shared {
            store,
            clock,
            armed,
            session,
            ..
        } = &*self.shared;
        let shift = self
            .shared
            .config
            .borrow()
            .channels
            .get(&kind)
            .map(|it| it.time_shift_ms);
        let due_at = clock.now() + TimeDelta::milliseconds(shift.unwrap_or_default());
        let mut next = store::Recall {
            session: *session,
            channel: kind,
            due_at,
            after: None,
            limit: PAGE,
        };
        let mut count = 0;
        loop {
            match store.recall(next).await {
                Ok(recalled) => {
                    armed.disarm(&recalled.before);
                    armed.arm(&recalled.claims);
                    count += recalled.claims.len();
                    next.after = recalled.next;
                }
                Err(error) => {
                    tracing::warn!(channel = %kind, %error, "what waits for slots could not be recalled; trying again");
                    clock.sleep(PAUSE).await;
                    continue;
                }
            }
            if next.after.is_none() {
                break;
            }
        }
        if count > 0 {
            tracing::info!(channel = %kind, count, "there is more room: what waits for slots is looked at again");
        }
    }
}

fn limits(config: &LaneConfig) -> Limits {
    let channels = config.channels.iter();
    channels.map(|(kind, channel)| (*kind, channel.limit)).collect()
}
