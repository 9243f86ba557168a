//! The timers of this node: what it holds, ordered by due instant. Only ids and generations, never messages.
//!
//! A timer may be stale: its trigger was withdrawn, moved or taken over, and the message about it was lost. That costs
//! nothing but a fire-check that grants nothing.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::MutexGuard;

use chrono::DateTime;
use chrono::Utc;
use tokio::sync::Notify;

use crate::store::Claimed;
use crate::store::Withdrawn;
use crate::trigger::ChannelKind;
use crate::trigger::TriggerId;

type Timers = BTreeMap<(DateTime<Utc>, TriggerId), Claim>;

/// What else is kept of a claim.
#[derive(Debug, Clone, Copy)]
struct Claim {
    generation: i64,
    owner: u64,
}

/// The timers of this node, for each channel.
#[derive(Debug, Default)]
pub struct Armed {
    email: Lane,
    sms: Lane,
    webhook: Lane,
}

#[derive(Debug, Default)]
struct Lane {
    timers: Mutex<Timers>,
    earlier: Notify,
}

impl Armed {
    /// Arms a timer for each claim; wakes a lane whose next timer is earlier now.
    pub fn arm(&self, claims: &[Claimed]) {
        for kind in ChannelKind::ALL {
            let mut of_channel = claims.iter().filter(|claim| claim.channel == kind).peekable();
            if of_channel.peek().is_none() {
                continue;
            }
            let lane = self.lane(kind);
            let mut timers = lane.timers();
            let before = earliest(&timers);
            timers.extend(of_channel.map(|it| {
                let claim = Claim {
                    generation: it.generation,
                    owner: it.owner,
                };
                ((it.due_at, it.id), claim)
            }));
            if before.is_none_or(|before| earliest(&timers).is_some_and(|now| now < before)) {
                lane.earlier.notify_one();
            }
        }
    }

    /// Takes the timers of withdrawn triggers away.
    pub fn disarm(&self, withdrawn: &[Withdrawn]) {
        for gone in withdrawn {
            self.lane(gone.channel).timers().remove(&(gone.due_at, gone.id));
        }
    }

    /// Takes out up to `most` claims of a channel that are due by `until`, in order.
    pub fn take_due(&self, kind: ChannelKind, until: DateTime<Utc>, most: usize) -> Vec<Claimed> {
        let mut timers = self.lane(kind).timers();
        let mut due = Vec::new();
        while due.len() < most {
            let Some(first) = timers.first_entry().filter(|first| first.key().0 <= until) else {
                break;
            };
            let (due_at, id) = *first.key();
            let Claim { generation, owner } = first.remove();
            due.push(Claimed {
                id,
                generation,
                due_at,
                channel: kind,
                owner,
            });
        }
        due
    }

    /// When the next timer of a channel is due.
    pub fn next_due(&self, kind: ChannelKind) -> Option<DateTime<Utc>> {
        earliest(&self.lane(kind).timers())
    }

    /// Waits until a timer of the channel is armed that is earlier than all before.
    pub async fn earlier(&self, kind: ChannelKind) {
        self.lane(kind).earlier.notified().await;
    }

    /// How many timers are armed.
    pub fn len(&self) -> usize {
        ChannelKind::ALL
            .into_iter()
            .map(|kind| self.lane(kind).timers().len())
            .sum()
    }

    /// Whether no timer is armed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    const fn lane(&self, kind: ChannelKind) -> &Lane {
        match kind {
            ChannelKind::Email => &self.email,
            ChannelKind::Sms => &self.sms,
            ChannelKind::Webhook => &self.webhook,
        }
    }
}

impl Lane {
    fn timers(&self) -> MutexGuard<'_, Timers> {
        self.timers.lock().expect("no holder panics")
    }
}

fn earliest(timers: &Timers) -> Option<DateTime<Utc>> {
    timers.first_key_value().map(|((due_at, _), _)| *due_at)
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;

    use super::*;

    fn claim(number: u32, due_ms: i64) -> Claimed {
        let mut id = [0; 16];
        id[..4].copy_from_slice(&number.to_be_bytes());
        Claimed {
            id: TriggerId(id),
            generation: 1,
            due_at: DateTime::UNIX_EPOCH + TimeDelta::milliseconds(due_ms),
            channel: ChannelKind::Email,
            owner: 5,
        }
    }

    #[test]
    fn what_is_due_comes_out_in_order_and_at_most_as_much_as_asked() {
        let armed = Armed::default();
        armed.arm(&[claim(1, 300), claim(2, 100), claim(3, 200), claim(4, 900)]);
        let until = DateTime::UNIX_EPOCH + TimeDelta::milliseconds(300);
        let first = armed.take_due(ChannelKind::Email, until, 2);
        assert_eq!(first, [claim(2, 100), claim(3, 200)]);
        assert_eq!(armed.take_due(ChannelKind::Email, until, 9), [claim(1, 300)]);
        assert_eq!(armed.len(), 1);
    }

    #[test]
    fn arming_twice_is_one_timer_and_a_withdrawn_one_is_gone() {
        let armed = Armed::default();
        armed.arm(&[claim(1, 300)]);
        armed.arm(&[Claimed {
            generation: 2,
            ..claim(1, 300)
        }]);
        assert_eq!(armed.len(), 1);
        let gone = claim(1, 300);
        armed.disarm(&[Withdrawn {
            id: gone.id,
            due_at: gone.due_at,
            channel: gone.channel,
            session: None,
        }]);
        assert!(armed.is_empty());
    }
}
