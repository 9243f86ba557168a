//! What lapsed: how a claim or an attempt is judged that its holder may never end. Pure.

use std::time::Duration;

use chrono::DateTime;
use chrono::Utc;

use crate::store::RescueRules;
use crate::store::StoreError;
use crate::store::ending::Ending;
use crate::store::row::Columns;
use crate::store::value::Values;
use crate::trigger::AttemptToken;
use crate::trigger::ChannelKind;
use crate::trigger::State;
use crate::trigger::TriggerId;
use crate::trigger::outcome::Outcome;
use crate::trigger::outcome::Reason;

/// What a claim looks like to the rescue.
#[derive(Debug, Clone, Copy)]
pub struct Held {
    pub id: TriggerId,
    pub state: State,
    pub channel: ChannelKind,
    pub withdrawn: bool,
    pub token: Option<AttemptToken>,
    /// The latest of due, claimed and started.
    pub since: DateTime<Utc>,
    pub started: Option<DateTime<Utc>>,
    /// The last sign of life of its session; none where the session is gone.
    pub beat: Option<DateTime<Utc>>,
    /// It is known that it was handed over: it was reported, or an earlier attempt said so.
    pub handed_over: bool,
}

/// What is to be done with a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lapse {
    /// Its holder has it.
    Not,
    /// Freed: its session is dead.
    Dead,
    /// Freed: nobody fired it.
    Overdue,
    /// Freed to be tried again: nobody knows how the attempt ended.
    Retry,
    /// Recorded: nobody knows how the attempt ended.
    InDoubt,
}

/// Reads what a claim looks like.
pub fn held<R: Values>(row: &R) -> Result<Held, StoreError> {
    let columns = Columns::new("alarm_trigger", "id", row);
    let due_at = columns.instant("due_at")?;
    let started = columns.instant_if_any("attempt_started")?;
    let (state, token) = (
        columns.name("state")?,
        columns.value::<Option<i64>>("attempt_token")?,
    );
    if state == State::Sending && token.is_none() {
        return Err(columns.corrupt("attempt_token", "an attempt is under way without one"));
    }
    let latest = [columns.instant_if_any("processed")?, started];
    Ok(Held {
        id: columns.id()?,
        state,
        channel: columns.name("channel")?,
        withdrawn: columns.value("withdrawn")?,
        token: token.map(AttemptToken),
        since: latest.into_iter().flatten().fold(due_at, DateTime::max),
        started,
        beat: columns.instant_if_any("beat_at")?,
        handed_over: columns.value("handed_over")?,
    })
}

/// Whether a claim has lapsed by `now`.
pub fn lapse(held: &Held, rules: &RescueRules, now: DateTime<Utc>) -> Lapse {
    let past = |instant: DateTime<Utc>, wait: Duration| now > instant + wait;
    match held.state {
        State::Sending if past(held.started.unwrap_or(held.since), rules.send_within) => stopped(held, rules),
        State::Claimed if held.beat.is_none_or(|beat| past(beat, rules.dead_after)) => Lapse::Dead,
        State::Claimed if past(held.since, rules.overdue_wait) => Lapse::Overdue,
        State::Planned | State::Claimed | State::Sending => Lapse::Not,
    }
}

/// What becomes of what nobody holds any more.
pub fn stopped(held: &Held, rules: &RescueRules) -> Lapse {
    match held.state {
        State::Planned => Lapse::Not,
        State::Claimed => Lapse::Dead,
        State::Sending
            if !held.withdrawn && !held.handed_over && rules.retry_in_doubt.contains(&held.channel) =>
        {
            Lapse::Retry
        }
        State::Sending => Lapse::InDoubt,
    }
}

/// Those of one kind.
pub fn ids(lapsed: &[(Held, Lapse)], kind: Lapse) -> Vec<TriggerId> {
    let of_kind = lapsed.iter().filter(|(_, lapse)| *lapse == kind);
    of_kind.map(|(held, _)| held.id).collect()
}

/// What history says of those that may have arrived. Also where it is tried again: it may have arrived, whatever
/// becomes of the next attempt.
pub fn doubtful(lapsed: &[(Held, Lapse)]) -> Vec<Ending> {
    let doubtful = [ids(lapsed, Lapse::InDoubt), ids(lapsed, Lapse::Retry)].concat();
    let ending = |id| Ending {
        attempts: 1,
        ..Ending::plain(id, Outcome::InDoubt, Reason::HolderLost)
    };
    doubtful.into_iter().map(ending).collect()
}

/// The attempts that are over.
pub fn attempts(lapsed: &[(Held, Lapse)]) -> Vec<(TriggerId, Option<AttemptToken>)> {
    let over = lapsed.iter().filter(|(_, lapse)| *lapse == Lapse::InDoubt);
    over.map(|(held, _)| (held.id, held.token)).collect()
}
