//! What a report changes, decided before anything is written. A report moves history forward or changes nothing: so it
//! may come twice, late, before the attempt it speaks of is settled, or behind one that says more.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::collections::HashSet;

use crate::store::StoreError;
use crate::store::row::Columns;
use crate::store::value::Values;
use crate::trigger::ChannelKind;
use crate::trigger::State;
use crate::trigger::TriggerId;
use crate::trigger::outcome::Outcome;
use crate::trigger::outcome::Reason;
use crate::trigger::outcome::Reported;

/// A report of what became of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// Of which trigger.
    pub id: TriggerId,
    /// What became of it.
    pub reported: Reported,
    /// What is said beside that; history keeps 500 characters.
    pub detail: String,
}

/// What a report changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Noted {
    /// It is the last word by now.
    Recorded {
        /// Through what the message went.
        channel: ChannelKind,
        /// What became of the trigger.
        outcome: Outcome,
        /// Why.
        reason: Reason,
    },
    /// As much or more was known.
    Known,
    /// Nothing was ever handed over under this id, or it is forgotten.
    Unknown,
}

/// What a report needs to know of the row of its trigger.
#[derive(Debug, Clone, Copy)]
pub struct Owed {
    pub state: State,
    pub channel: ChannelKind,
    /// Whether there was an attempt before: the series has gone on, and the row may go.
    pub tried: bool,
}

/// What a report needs to know of the history of its trigger.
#[derive(Debug, Clone, Copy)]
pub struct Known {
    pub rank: u8,
    pub channel: ChannelKind,
}

/// Reads what is owed.
pub fn owed<R: Values>(row: &R) -> Result<(TriggerId, Owed), StoreError> {
    let columns = Columns::new("alarm_trigger", "id", row);
    let owed = Owed {
        state: columns.name("state")?,
        channel: columns.name("channel")?,
        tried: columns.value("tried")?,
    };
    Ok((columns.id()?, owed))
}

/// Reads what is known.
pub fn known<R: Values>(row: &R) -> Result<(TriggerId, Known), StoreError> {
    let columns = Columns::new("delivery", "id", row);
    let known = Known {
        rank: columns.number("rank")?,
        channel: columns.name("channel")?,
    };
    Ok((columns.id()?, known))
}

/// How many rows there are of each channel. That of a channel of which this version knows nothing is not counted.
pub fn by_channel<R: Values>(rows: &[R]) -> Result<BTreeMap<ChannelKind, u64>, StoreError> {
    let mut counts = BTreeMap::new();
    for row in rows {
        let channel: String = Columns::new("delivery", "channel", row).value("channel")?;
        if let Ok(channel) = channel.parse() {
            *counts.entry(channel).or_default() += 1;
        }
    }
    Ok(counts)
}

/// How many notices come before one names a trigger again: the second must see what the first changed.
pub fn distinct(notices: &[Notice]) -> usize {
    let mut seen = HashSet::new();
    notices.iter().take_while(|notice| seen.insert(notice.id)).count()
}

/// What is to be written.
#[derive(Default)]
pub struct Plan<'n> {
    /// History that moves forward, with the rank that it leaves.
    pub forward: Vec<(&'n Notice, u8)>,
    /// Triggers that have no history yet: the attempt that handed them over is not settled.
    pub early: Vec<&'n Notice>,
    /// Rows that nobody needs to send again.
    pub overtaken: Vec<TriggerId>,
}

/// What is to be written of notices that name no trigger twice, and what each is answered.
pub fn plan<'n>(
    notices: &'n [Notice],
    owed: &HashMap<TriggerId, Owed>,
    known: &HashMap<TriggerId, Known>,
) -> (Plan<'n>, Vec<Noted>) {
    let mut plan = Plan::default();
    let noted = notices
        .iter()
        .map(|notice| plan.note(notice, owed.get(&notice.id), known.get(&notice.id)))
        .collect();
    (plan, noted)
}

impl<'n> Plan<'n> {
    fn note(&mut self, notice: &'n Notice, owed: Option<&Owed>, known: Option<&Known>) -> Noted {
        let is_sending = owed.is_some_and(|owed| owed.state == State::Sending);
        let was_tried = owed.is_some_and(|owed| owed.tried);
        let channel = match (known, owed) {
            (Some(known), _) if known.rank >= notice.reported.rank() => return Noted::Known,
            (Some(known), _) => {
                self.forward.push((notice, known.rank));
                known.channel
            }
            (None, Some(owed)) if is_sending || was_tried => {
                self.early.push(notice);
                owed.channel
            }
            (None, _) => return Noted::Unknown,
        };
        // An attempt under way ends the row itself.
        if was_tried && !is_sending {
            self.overtaken.push(notice.id);
        }
        let (outcome, reason) = notice.reported.outcome();
        Noted::Recorded {
            channel,
            outcome,
            reason,
        }
    }
}
