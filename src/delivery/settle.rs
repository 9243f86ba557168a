//! What became of attempts, written in batches.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::DateTime;
use chrono::TimeDelta;
use chrono::Utc;

use crate::channel::Blame;
use crate::channel::Content;
use crate::channel::Kept;
use crate::channel::Message;
use crate::channel::Report;
use crate::delivery::ChannelConfig;
use crate::delivery::OnDoubt;
use crate::store::AttemptEnd;
use crate::store::KeptMessage;
use crate::trigger::ChannelKind;
use crate::trigger::Trigger;
use crate::trigger::outcome::Outcome;
use crate::trigger::outcome::Reason;
use crate::trigger::retry::Failure;
use crate::trigger::retry::Next;

/// Characters of an error or reply that are kept.
const DETAIL: usize = 500;

/// Why a target is not given again what it asks for.
const NO_MORE: &str = "the target asked for it once more than there are attempts or time";

/// What a report means for its trigger. Pure.
pub fn decide(
    report: Report,
    trigger: &Trigger,
    message: &Message,
    config: &ChannelConfig,
    now: DateTime<Utc>,
) -> AttemptEnd {
    let setback = match report {
        Report::Accepted {
            reply,
            kept,
            reference,
            awaits,
        } => {
            let kept = kept.map(|kept| keep(message, kept));
            return accepted(&reply, kept, reference, awaits, now);
        }
        Report::Again { after, payload } => {
            return asked_again(trigger, config, (after, payload), now);
        }
        Report::Busy { error, after } => return put_off(trigger, config, (after, &error), now),
        Report::Permanent { error } | Report::Gone { error } => {
            return over(Outcome::Failed, Reason::Refused, &error);
        }
        Report::InDoubt { error } if config.on_doubt == OnDoubt::Fail => {
            return over(Outcome::InDoubt, Reason::ConnectionLost, &error);
        }
        Report::InDoubt { error } => Setback {
            error,
            counts: true,
            retry_after: None,
            doubt: true,
        },
        Report::Transient {
            error,
            of,
            retry_after,
        } => Setback {
            error,
            counts: of == Blame::Message,
            retry_after,
            doubt: false,
        },
        Report::Abandoned => {
            let error = "the time for the attempt ran out before anything was sent".to_owned();
            Setback {
                error,
                counts: false,
                retry_after: None,
                doubt: false,
            }
        }
    };
    again(trigger, config, &setback, now)
}

/// The target has the message, so that it counts as sent where it cannot be given it again.
fn asked_again(
    trigger: &Trigger,
    config: &ChannelConfig,
    (after, payload): (Duration, Option<String>),
    now: DateTime<Utc>,
) -> AttemptEnd {
    let is_handler = trigger.wish.channel == ChannelKind::Handler;
    match within(trigger, after, now) {
        Some(due_at) if trigger.attempts + 1 < config.retry.attempts => AttemptEnd::Retry {
            due_at: due_at + TimeDelta::milliseconds(config.time_shift_ms),
            counts: true,
            doubtful: false,
            error: "the target asked to be given it again".to_owned(),
            // A handler that says nothing of its message goes on with the one that it has.
            payload: payload.or_else(|| trigger.payload.clone().filter(|_| is_handler)),
        },
        // A handler that asks to be called again has not done it, and says so.
        Some(_) if is_handler => over(Outcome::Failed, Reason::Exhausted, NO_MORE),
        None if is_handler => over(Outcome::Expired, Reason::Late, NO_MORE),
        _ => AttemptEnd::Done {
            outcome: Outcome::Sent,
            reason: Reason::None,
            detail: NO_MORE.to_owned(),
            handed_over_at: Some(now),
            reference: None,
            await_until: None,
            kept: None,
        },
    }
}

/// Nothing was sent: it is tried again when there is room, and that costs no attempt.
fn put_off(
    trigger: &Trigger,
    config: &ChannelConfig,
    (after, error): (Duration, &str),
    now: DateTime<Utc>,
) -> AttemptEnd {
    let Some(due_at) = within(trigger, after, now) else {
        return over(Outcome::Expired, Reason::Late, error);
    };
    AttemptEnd::Retry {
        due_at: due_at + TimeDelta::milliseconds(config.time_shift_ms),
        counts: false,
        doubtful: false,
        error: cut(error),
        payload: trigger.payload.clone(),
    }
}

/// The instant so much later, if the trigger is of use then.
fn within(trigger: &Trigger, after: Duration, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
    let after = TimeDelta::from_std(after).ok()?;
    now.checked_add_signed(after)
        .filter(|at| *at < trigger.expires_at)
}

/// Handed over; where a report is outstanding, that is not the last word.
fn accepted(
    reply: &str,
    kept: Option<KeptMessage>,
    reference: Option<String>,
    awaits: Option<Duration>,
    now: DateTime<Utc>,
) -> AttemptEnd {
    let await_until = awaits.and_then(|awaits| now.checked_add_signed(TimeDelta::from_std(awaits).ok()?));
    AttemptEnd::Done {
        outcome: await_until.map_or(Outcome::Sent, |_| Outcome::Awaiting),
        reason: Reason::None,
        detail: cut(reply),
        handed_over_at: Some(now),
        reference: reference.map(|reference| cut(&reference)),
        await_until,
        kept,
    }
}

fn keep(message: &Message, kept: Kept) -> KeptMessage {
    let (subject, text) = match &message.content {
        Content::Letter { subject, text, .. } => (subject.clone(), text.clone()),
        Content::Text(text) | Content::Json(text) => (String::new(), text.clone()),
    };
    KeptMessage {
        to: message.to.clone(),
        subject,
        text,
        raw: kept.raw,
    }
}

/// The end of an attempt whose message could not be made.
pub fn unreadable(error: &str) -> AttemptEnd {
    over(Outcome::Failed, Reason::Unreadable, error)
}

struct Setback {
    error: String,
    counts: bool,
    retry_after: Option<Duration>,
    doubt: bool,
}

fn again(trigger: &Trigger, config: &ChannelConfig, setback: &Setback, now: DateTime<Utc>) -> AttemptEnd {
    let failure = Failure {
        trigger: trigger.id,
        attempts: trigger.attempts,
        counts: setback.counts,
        retry_after: setback.retry_after,
        at: now,
        expires_at: trigger.expires_at,
    };
    match config.retry.next(&failure) {
        // The shift moves what was promised, not the pause between attempts.
        Next::At(due_at) => AttemptEnd::Retry {
            due_at: due_at + TimeDelta::milliseconds(config.time_shift_ms),
            counts: setback.counts,
            doubtful: setback.doubt,
            error: cut(&setback.error),
            payload: trigger.payload.clone(),
        },
        // What may have arrived is never called failed.
        Next::Exhausted if setback.doubt => over(Outcome::InDoubt, Reason::Exhausted, &setback.error),
        Next::TooLate if setback.doubt => over(Outcome::InDoubt, Reason::Late, &setback.error),
        Next::Exhausted => over(Outcome::Failed, Reason::Exhausted, &setback.error),
        Next::TooLate => over(Outcome::Expired, Reason::Late, &setback.error),
    }
}

fn over(outcome: Outcome, reason: Reason, detail: &str) -> AttemptEnd {
    AttemptEnd::Done {
        outcome,
        reason,
        detail: cut(detail),
        handed_over_at: None,
        reference: None,
        await_until: None,
        kept: None,
    }
}

fn cut(text: &str) -> String {
    text.chars().filter(|it| !it.is_control()).take(DETAIL).collect()
}

/// The configurations of the channels, as the loops see them.
pub type Channels = BTreeMap<ChannelKind, ChannelConfig>;
