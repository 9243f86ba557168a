//! Epoch and watermark: how a node notices that the database went back in time.
//!
//! The store has one row: the epoch and a watermark that each heartbeat raises. Every node keeps the last pair that it saw (its
//! [`Mark`]) on its own disk. A watermark below that of the mark, or an older epoch, means that a backup was restored, or that
//! a standby took over which had not received everything. The first heartbeat that notices begins a new epoch, while it holds
//! the row; every other node finds an epoch that is newer than its mark.
//!
//! There are no false alarms: a watermark counts as seen only once its transaction is committed, and is compared with what a
//! later transaction finds.

use std::fmt;
use std::str::FromStr;

use chrono::DateTime;
use chrono::TimeDelta;
use chrono::Utc;
use serde::Deserialize;
use serde::Serialize;

use crate::store::Judge;
use crate::store::Report;
use crate::store::Settled;
use crate::store::Settlement;
use crate::store::StoreError;
use crate::store::ending::Ending;
use crate::store::row::Columns;
use crate::store::settling;
use crate::store::value::Values;
use crate::trigger::Place;
use crate::trigger::SessionId;
use crate::trigger::Trigger;
use crate::trigger::Wish;
use crate::trigger::outcome::Outcome;

/// After an epoch began, nothing is fired for this long: every live node notices within it and records again what it settled.
pub const RECORDING: TimeDelta = TimeDelta::seconds(5);

/// A node may have sent for this long after the heartbeat that it last knows of.
const BETWEEN_HEARTBEATS: TimeDelta = TimeDelta::seconds(2);

/// The name of an epoch: `2-00a1b2c3d4e5f607`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EpochId {
    /// Counts the epochs of a database.
    pub number: i64,
    /// Distinguishes two databases, and two epochs that were begun with the same number.
    pub random: i64,
}

impl fmt::Display for EpochId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{:016x}", self.number, self.random)
    }
}

impl FromStr for EpochId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts = text.split_once('-').and_then(|(number, random)| {
            let random = u64::from_str_radix(random, 16).ok()?;
            Some((number.parse().ok()?, random.cast_signed()))
        });
        let (number, random) = parts.ok_or_else(|| format!("`{text}` is no epoch"))?;
        Ok(Self { number, random })
    }
}

impl Serialize for EpochId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for EpochId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// The last pair of epoch and watermark that a node saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// The epoch.
    pub epoch: EpochId,
    /// The watermark.
    pub watermark: i64,
    /// When that watermark was written, by the clock of the store.
    pub at: DateTime<Utc>,
}

/// What the database lost when it went back in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lost {
    /// Everything committed up to here is still there.
    pub after: DateTime<Utc>,
    /// A node saw the database as late as this.
    pub until: DateTime<Utc>,
}

impl Lost {
    /// Whether a trigger that is due then may have been sent without a trace.
    pub fn may_hide(&self, due_at: DateTime<Utc>) -> bool {
        due_at <= self.until + BETWEEN_HEARTBEATS
    }
}

/// The row of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Epoch {
    /// Its name.
    pub id: EpochId,
    /// When it began.
    pub began_at: DateTime<Utc>,
    /// Raised by each heartbeat.
    pub watermark: i64,
    /// When the watermark was last raised.
    pub raised_at: DateTime<Utc>,
    /// What was lost when it began; none in the first epoch of a database.
    pub lost: Option<Lost>,
    /// What was to be sent before this instant is recorded as missed instead.
    pub missed_before: Option<DateTime<Utc>>,
    /// Nothing is fired until `carillon after-restore`.
    pub held: bool,
}

/// What a heartbeat finds, compared with the mark of its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Course {
    /// Time went on.
    Onward,
    /// A later epoch: another node noticed a rewind and began it.
    NewEpoch,
    /// The database went back in time.
    Rewound,
}

impl Epoch {
    /// The pair to remember.
    pub const fn mark(&self) -> Mark {
        Mark {
            epoch: self.id,
            watermark: self.watermark,
            at: self.raised_at,
        }
    }

    /// What it means that a node with this mark finds this row. A node without a mark cannot tell.
    pub fn course(&self, seen: Option<Mark>) -> Course {
        match seen {
            None => Course::Onward,
            Some(seen) if seen.epoch == self.id && self.watermark >= seen.watermark => Course::Onward,
            Some(seen) if self.id.number > seen.epoch.number => Course::NewEpoch,
            Some(_) => Course::Rewound,
        }
    }

    /// The row that a heartbeat writes in place of this one; `random` names a new epoch.
    pub(super) fn advanced(self, says: &Report, now: DateTime<Utc>, random: i64) -> Self {
        let raised = Self {
            watermark: self.watermark + 1,
            raised_at: now,
            ..self
        };
        let Some(seen) = says.seen.filter(|_| self.course(says.seen) == Course::Rewound) else {
            return raised;
        };
        Self {
            id: EpochId {
                number: self.id.number.max(seen.epoch.number) + 1,
                random,
            },
            began_at: now,
            lost: Some(Lost {
                after: self.raised_at.min(seen.at),
                until: seen.at.max(self.raised_at),
            }),
            missed_before: None,
            held: says.hold,
            ..raised
        }
    }

    /// Whether a node that knows `known` may fire when it finds this row.
    pub fn lets_fire(&self, known: &Self, now: DateTime<Utc>) -> bool {
        self.course(Some(known.mark())) == Course::Onward && known.is_open(now) && !self.held
    }

    /// Refuses a fire-check on a database that went back in time.
    pub(super) fn check(&self, judge: &dyn Judge, now: DateTime<Utc>) -> Result<(), StoreError> {
        if judge.may_fire(self, now) {
            return Ok(());
        }
        Err(StoreError::Unavailable(
            "nothing is fired: the database went back in time, and /readyz says what follows".to_owned(),
        ))
    }

    /// Whether the epoch lets anything be fired at all.
    pub fn is_open(&self, now: DateTime<Utc>) -> bool {
        !self.held && (self.lost.is_none() || now >= self.began_at + RECORDING)
    }
}

/// What came of a heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heartbeat {
    /// Whether the session is still there.
    pub lives: bool,
    /// The row as this heartbeat wrote it.
    pub epoch: Epoch,
}

/// A message that was or may have been handed over, to be recorded again where the database forgot it.
#[derive(Debug, Clone)]
pub struct HandOver {
    /// Whose message, and through which channel.
    pub wish: Wish,
    /// Which firing.
    pub place: Place,
    /// What became of it.
    pub ending: Ending,
}

impl HandOver {
    /// What came of an attempt, if that is a hand-over.
    pub fn of(trigger: &Trigger, settlement: &Settlement, settled: Settled) -> Option<Self> {
        let mut ending = settling::ending(settlement)?;
        if settled == Settled::InDoubt {
            ending.outcome = Outcome::InDoubt;
        }
        ending.attempts += trigger.attempts;
        ending.outcome.is_hand_over().then(|| Self {
            wish: trigger.wish.clone(),
            place: trigger.place,
            ending,
        })
    }
}

/// How many triggers a rewind concerns, of those that are due by now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Doubtful {
    /// Due when a node last saw the database, so that they may have been sent before.
    pub again: u64,
    /// Due since.
    pub late: u64,
    /// Too late by now.
    pub never: u64,
}

/// Noticing that the database went back in time, and going on after it.
#[async_trait::async_trait]
pub trait Epochs: Send + Sync {
    /// [`Store::beat`](crate::store::Store::beat), which in the same transaction raises the watermark, or begins a new epoch
    /// if the database is older than `says.seen`. A leader's fence is acquired again in a later epoch.
    async fn heartbeat(&self, session: SessionId, says: Report) -> Result<Heartbeat, StoreError>;

    /// The row as it is.
    async fn epoch(&self) -> Result<Epoch, StoreError>;

    /// Writes the row of a running session that the database forgot. False: the id belongs to another node by now.
    async fn resume_session(&self, session: SessionId, node: &str) -> Result<bool, StoreError>;

    /// Records hand-overs that the database forgot, and asks that their owners be planned again. A trigger that is still due
    /// goes; history that knows more stays. An unknown owner has no history. Returns how many were recorded.
    async fn record_again(&self, hand_overs: &[HandOver]) -> Result<u64, StoreError>;

    /// How many triggers the last rewind concerns; of 100,000 at most.
    async fn doubtful(&self) -> Result<Doubtful, StoreError>;

    /// Ends the hold of this epoch, if it is held. What was due before `missed_before` is recorded as missed. Says whether it
    /// was held.
    async fn release(&self, epoch: EpochId, missed_before: Option<DateTime<Utc>>)
    -> Result<bool, StoreError>;

    /// Whether the files of the store are those that were opened, and whole as far as is known.
    async fn verify(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

/// Reads the row.
pub(super) fn read<R: Values>(row: &R) -> Result<Epoch, StoreError> {
    let columns = Columns::new("store_epoch", "number", row);
    let after = columns.instant_if_any("lost_after")?;
    let until = columns.instant_if_any("lost_until")?;
    Ok(Epoch {
        id: EpochId {
            number: columns.value("number")?,
            random: columns.value("random")?,
        },
        began_at: columns.instant("began_at")?,
        watermark: columns.value("watermark")?,
        raised_at: columns.instant("raised_at")?,
        lost: after.zip(until).map(|(after, until)| Lost { after, until }),
        missed_before: columns.instant_if_any("missed_before")?,
        held: columns.value("held")?,
    })
}

/// Reads how many triggers a rewind concerns.
pub(super) fn counted<R: Values>(row: &R) -> Result<Doubtful, StoreError> {
    let columns = Columns::new("alarm_trigger", "due_at", row);
    Ok(Doubtful {
        again: columns.number("again")?,
        late: columns.number("late")?,
        never: columns.number("never")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH + TimeDelta::seconds(seconds)
    }

    fn epoch(number: i64, watermark: i64) -> Epoch {
        Epoch {
            id: EpochId { number, random: 7 },
            began_at: at(0),
            watermark,
            raised_at: at(watermark),
            lost: None,
            missed_before: None,
            held: false,
        }
    }

    fn says(seen: Epoch) -> Report {
        Report {
            seen: Some(seen.mark()),
            ..Report::default()
        }
    }

    #[test]
    fn an_epoch_is_read_back() {
        let id = EpochId {
            number: 3,
            random: -5,
        };
        assert_eq!(id.to_string().parse(), Ok(id));
        assert!("3".parse::<EpochId>().is_err());
    }

    #[test]
    fn time_goes_on_where_the_watermark_did_not_fall() {
        let found = epoch(1, 10);
        assert_eq!(found.course(None), Course::Onward);
        assert_eq!(found.course(Some(epoch(1, 10).mark())), Course::Onward);
        assert_eq!(found.course(Some(epoch(1, 3).mark())), Course::Onward);
    }

    #[test]
    fn a_lower_watermark_or_an_older_or_foreign_epoch_is_a_rewind() {
        let found = epoch(2, 10);
        assert_eq!(found.course(Some(epoch(2, 11).mark())), Course::Rewound);
        assert_eq!(found.course(Some(epoch(3, 1).mark())), Course::Rewound);
        let mut foreign = epoch(2, 1).mark();
        foreign.epoch.random = 8;
        assert_eq!(found.course(Some(foreign)), Course::Rewound);
        assert_eq!(found.course(Some(epoch(1, 99).mark())), Course::NewEpoch);
    }

    #[test]
    fn only_the_first_heartbeat_after_a_rewind_begins_an_epoch() {
        let found = epoch(1, 10);
        let first = found.advanced(&says(epoch(1, 15)), at(20), 99);
        assert_eq!(
            first.id,
            EpochId {
                number: 2,
                random: 99
            }
        );
        let lost = first.lost.expect("it was rewound");
        assert_eq!((lost.after, lost.until), (at(10), at(15)));
        assert_eq!(first.course(Some(epoch(1, 14).mark())), Course::NewEpoch);
        let second = first.advanced(&says(epoch(1, 14)), at(21), 98);
        assert_eq!((second.id, second.watermark), (first.id, first.watermark + 1));
    }

    #[test]
    fn nothing_fires_until_the_others_have_noticed_or_while_held() {
        let old = epoch(1, 15);
        let rewound = epoch(1, 10);
        assert!(!rewound.lets_fire(&old, at(16)), "nobody noticed yet");
        let begun = rewound.advanced(&says(old), at(20), 9);
        assert!(!begun.lets_fire(&begun, at(24)));
        assert!(begun.lets_fire(&begun, at(25)));
        let held = Epoch { held: true, ..begun };
        assert!(!held.lets_fire(&begun, at(99)));
        assert!(!begun.lets_fire(&held, at(99)), "this node was not told yet");
    }
}
