//! What a settle is going to write, decided before anything is written.

use std::collections::HashMap;
use std::collections::HashSet;

use chrono::DateTime;
use chrono::Utc;

use crate::store::AttemptEnd;
use crate::store::Claimed;
use crate::store::KeptMessage;
use crate::store::Settled;
use crate::store::Settlement;
use crate::store::StoreError;
use crate::store::ending::Ending;
use crate::store::row::Columns;
use crate::store::row::millis;
use crate::store::value::Values;
use crate::trigger::AttemptToken;
use crate::trigger::ChannelKind;
use crate::trigger::OwnerId;
use crate::trigger::SessionId;
use crate::trigger::State;
use crate::trigger::TriggerId;
use crate::trigger::outcome::Outcome;
use crate::trigger::outcome::Reason;

/// What a settlement needs to know of its trigger.
#[derive(Debug, Clone, Copy)]
pub struct Held {
    pub state: State,
    pub channel: ChannelKind,
    pub owner: u64,
    pub generation: i64,
    pub session: Option<SessionId>,
    pub token: Option<AttemptToken>,
    pub withdrawn: bool,
    pub due_at: DateTime<Utc>,
    /// An earlier attempt, taken for lost, said meanwhile that it was handed over.
    pub handed_over: bool,
    /// An earlier attempt may have handed it over: history goes on saying so.
    pub doubted: bool,
}

/// Reads what a settlement needs to know of its trigger; `rank` is that of its history, 0 where there is none.
pub fn read<R: Values>(row: &R, rank: u8) -> Result<Held, StoreError> {
    let columns = Columns::new("alarm_trigger", "id", row);
    Ok(Held {
        state: columns.name("state")?,
        channel: columns.name("channel")?,
        owner: columns.value::<String>("owner").map(OwnerId)?.hash(),
        generation: columns.value("generation")?,
        session: columns.value::<Option<i64>>("session")?.map(SessionId),
        token: columns.value::<Option<i64>>("attempt_token")?.map(AttemptToken),
        withdrawn: columns.value("withdrawn")?,
        due_at: columns.instant("due_at")?,
        handed_over: rank >= Outcome::Awaiting.rank(),
        doubted: rank == Outcome::InDoubt.rank(),
    })
}

/// How many settlements come before one names a trigger again: the second must see what became of the first.
pub fn distinct(settlements: &[Settlement]) -> usize {
    let mut seen = HashSet::new();
    let distinct = settlements
        .iter()
        .take_while(|settlement| seen.insert(settlement.id));
    distinct.count()
}

/// The settlement without what the other side said, which may be what cannot be written.
pub fn bare(settlement: &Settlement) -> Settlement {
    let mut bare = settlement.clone();
    match &mut bare.end {
        AttemptEnd::Done {
            detail,
            reference,
            kept,
            ..
        } => {
            detail.clear();
            *reference = None;
            *kept = None;
        }
        AttemptEnd::Retry { error, payload, .. } => {
            error.clear();
            *payload = None;
        }
    }
    bare
}

/// What is to be written of a batch that names no trigger twice, and what each settlement is told.
pub fn plan<'s>(
    batch: &'s [Settlement],
    held: &HashMap<TriggerId, Result<Held, ()>>,
    now: DateTime<Utc>,
) -> (Plan<'s>, Vec<Settled>) {
    let mut plan = Plan::default();
    plan.count(batch);
    let settled = batch
        .iter()
        .map(|settlement| match held.get(&settlement.id) {
            Some(Ok(held)) => plan.settle(settlement, held, now),
            Some(Err(())) => plan.settle_unreadable(settlement, now),
            None => plan.settle_gone(settlement, now),
        })
        .collect();
    (plan, settled)
}

/// What is to be written.
#[derive(Default)]
pub struct Plan<'s> {
    /// From trigger rows.
    pub endings: Vec<Ending>,
    /// Of triggers without a row.
    pub improvements: Vec<Ending>,
    /// Of triggers of which a report came first: what it could not say is added to it.
    pub reported: Vec<Ending>,
    /// Rows that end with their own attempt.
    pub ended: Vec<(TriggerId, Option<AttemptToken>)>,
    /// Rows that are free or claimed again, and turn out to have been handed over.
    pub overtaken: Vec<TriggerId>,
    pub retries: Vec<Retry<'s>>,
    pub kept: Vec<(TriggerId, DateTime<Utc>, &'s KeptMessage)>,
    /// Handed over, or perhaps: they count against the limits of their owners.
    pub spent: Vec<TriggerId>,
    /// Attempts that handed nothing over, and give back what they took.
    pub given_back: Vec<(TriggerId, AttemptToken)>,
}

pub struct Retry<'s> {
    pub id: TriggerId,
    pub token: AttemptToken,
    pub session: Option<SessionId>,
    pub due_at: DateTime<Utc>,
    pub counts: bool,
    pub error: &'s str,
    pub payload: Option<&'s str>,
}

impl<'s> Plan<'s> {
    /// What counts against the limits of owners: whatever became of the claim, a message that was handed over does.
    fn count(&mut self, batch: &[Settlement]) {
        for settlement in batch {
            if may_be_handed_over(&settlement.end) {
                self.spent.push(settlement.id);
            } else {
                self.given_back.push((settlement.id, settlement.token));
            }
        }
    }

    /// What is to be done about a settlement whose trigger has a row.
    pub fn settle(&mut self, settlement: &'s Settlement, held: &Held, now: DateTime<Utc>) -> Settled {
        let own = held.generation == settlement.generation;
        match held.state {
            State::Sending if own && held.token == Some(settlement.token) => {
                self.settle_own(settlement, held, now)
            }
            State::Claimed if own && already_retrying(settlement, held) => {
                Settled::Retrying(claim(settlement, held))
            }
            state => self.settle_late(settlement, state, now),
        }
    }

    fn settle_own(&mut self, settlement: &'s Settlement, held: &Held, now: DateTime<Utc>) -> Settled {
        let id = settlement.id;
        match &settlement.end {
            end if held.handed_over && has_failed(end) => {
                self.ended.push((id, Some(settlement.token)));
                return Settled::Known;
            }
            AttemptEnd::Retry {
                due_at,
                counts,
                doubtful,
                error,
                payload,
            } if !held.withdrawn => {
                if *doubtful {
                    self.endings.push(doubt(id, error));
                }
                self.retries.push(Retry {
                    id,
                    token: settlement.token,
                    session: held.session,
                    due_at: *due_at,
                    counts: *counts,
                    error,
                    payload: payload.as_deref(),
                });
                return Settled::Retrying(Claimed {
                    due_at: *due_at,
                    ..claim(settlement, held)
                });
            }
            AttemptEnd::Retry {
                doubtful: true,
                error,
                ..
            } => self.endings.push(doubt(id, error)),
            AttemptEnd::Retry { counts, error, .. } => self.endings.push(Ending {
                detail: error.clone(),
                attempts: u32::from(*counts),
                ..Ending::plain(id, Outcome::Cancelled, Reason::Withdrawn)
            }),
            AttemptEnd::Done { .. } => {
                let ending = ending(settlement);
                if held.handed_over {
                    self.reported.extend(ending.clone());
                }
                self.endings.extend(ending);
                self.keep(settlement, now);
            }
        }
        self.ended.push((id, Some(settlement.token)));
        if is_in_doubt(&settlement.end, held) {
            Settled::InDoubt
        } else {
            Settled::Recorded
        }
    }

    /// The claim was lost. What was handed over is recorded all the same, and nobody sends it again, unless somebody is
    /// about to: their own settle will end the row.
    fn settle_late(&mut self, settlement: &'s Settlement, state: State, now: DateTime<Utc>) -> Settled {
        if let Some(ending) = late_ending(settlement) {
            self.endings.push(ending);
            self.keep(settlement, now);
            if state != State::Sending {
                self.overtaken.push(settlement.id);
            }
        }
        Settled::Lost
    }

    /// Somebody else ended it, or it was withdrawn after it was taken from this attempt.
    pub fn settle_gone(&mut self, settlement: &'s Settlement, now: DateTime<Utc>) -> Settled {
        if let Some(ending) = late_ending(settlement) {
            self.improvements.push(ending);
            self.keep(settlement, now);
        }
        Settled::Lost
    }

    /// The row was set aside as unreadable; what was handed over is known all the same.
    pub fn settle_unreadable(&mut self, settlement: &'s Settlement, now: DateTime<Utc>) -> Settled {
        self.settle_gone(settlement, now);
        Settled::Poisoned
    }

    fn keep(&mut self, settlement: &'s Settlement, now: DateTime<Utc>) {
        if let AttemptEnd::Done {
            kept: Some(kept),
            handed_over_at,
            ..
        } = &settlement.end
        {
            self.kept
                .push((settlement.id, handed_over_at.unwrap_or(now), kept));
        }
    }
}

fn claim(settlement: &Settlement, held: &Held) -> Claimed {
    Claimed {
        id: settlement.id,
        generation: settlement.generation,
        due_at: held.due_at,
        channel: held.channel,
        owner: held.owner,
    }
}

/// The same retry was settled before, and the answer was lost.
fn already_retrying(settlement: &Settlement, held: &Held) -> bool {
    matches!(settlement.end, AttemptEnd::Retry { due_at, .. } if millis(due_at) == millis(held.due_at))
}

const fn may_be_handed_over(end: &AttemptEnd) -> bool {
    match end {
        AttemptEnd::Done { outcome, .. } => outcome.is_hand_over(),
        AttemptEnd::Retry { doubtful, .. } => *doubtful,
    }
}

/// Whether nobody can tell whether an attempt that ends its trigger, or one before it, handed it over.
fn is_in_doubt(end: &AttemptEnd, held: &Held) -> bool {
    match end {
        AttemptEnd::Done { outcome, .. } if held.doubted => outcome.rank() <= Outcome::InDoubt.rank(),
        AttemptEnd::Done { outcome, .. } => *outcome == Outcome::InDoubt,
        AttemptEnd::Retry { doubtful, .. } => *doubtful || held.doubted,
    }
}

/// Whether the attempt itself does not say that it was handed over.
const fn has_failed(end: &AttemptEnd) -> bool {
    match end {
        AttemptEnd::Done { outcome, .. } => outcome.rank() < Outcome::Awaiting.rank(),
        AttemptEnd::Retry { .. } => true,
    }
}

/// It may have arrived: whatever becomes of the next attempt, it is not called failed, and never planned again.
fn doubt(id: TriggerId, error: &str) -> Ending {
    Ending {
        detail: error.to_owned(),
        attempts: 1,
        ..Ending::plain(id, Outcome::InDoubt, Reason::ConnectionLost)
    }
}

/// The ending of an attempt that ends its trigger.
pub fn ending(settlement: &Settlement) -> Option<Ending> {
    match &settlement.end {
        AttemptEnd::Retry { .. } => None,
        AttemptEnd::Done {
            outcome,
            reason,
            detail,
            handed_over_at,
            reference,
            await_until,
            ..
        } => Some(Ending {
            id: settlement.id,
            outcome: *outcome,
            reason: *reason,
            detail: detail.clone(),
            attempts: 1,
            handed_over_at: *handed_over_at,
            reference: reference.clone(),
            await_until: *await_until,
        }),
    }
}

/// What is worth recording of an attempt that was taken for lost. It was counted when it was.
fn late_ending(settlement: &Settlement) -> Option<Ending> {
    let ending = ending(settlement).filter(|ending| ending.outcome.is_hand_over())?;
    Some(Ending {
        attempts: 0,
        ..ending
    })
}
