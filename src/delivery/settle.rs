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

/// How long before a trigger is of no use it is tried once more at the latest, where it is put off for longer.
const LAST_TRY: TimeDelta = TimeDelta::seconds(5);

/// A report is not awaited for longer: who asks for more means for ever.
const LONGEST: TimeDelta = TimeDelta::days(36_500);

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
        Report::InDoubt { error } => Setback::in_doubt(error),
        Report::Transient {
            error,
            of,
            retry_after,
        } => Setback {
            counts: of == Blame::Message,
            retry_after,
            ..Setback::of_nobody(error)
        },
        Report::Abandoned => {
            Setback::of_nobody("the time for the attempt ran out before anything was sent".to_owned())
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
    match within(trigger.expires_at, after, now) {
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

/// Nothing was sent: it is tried again when there is room, and that costs no attempt. Where that would be too late, it is
/// tried once more just before: there may be room sooner than was said.
fn put_off(
    trigger: &Trigger,
    config: &ChannelConfig,
    (after, error): (Duration, &str),
    now: DateTime<Utc>,
) -> AttemptEnd {
    let Some(due_at) = within(trigger.expires_at, after, now).or_else(|| last_try(trigger.expires_at, now))
    else {
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
fn within(expires_at: DateTime<Utc>, after: Duration, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
    let after = TimeDelta::from_std(after).ok()?;
    now.checked_add_signed(after).filter(|at| *at < expires_at)
}

/// The instant of the last try, if that is still to come.
fn last_try(expires_at: DateTime<Utc>, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
    let last = expires_at.checked_sub_signed(LAST_TRY)?;
    Some(last).filter(|last| *last > now)
}

/// Handed over; where a report is outstanding, that is not the last word.
fn accepted(
    reply: &str,
    kept: Option<KeptMessage>,
    reference: Option<String>,
    awaits: Option<Duration>,
    now: DateTime<Utc>,
) -> AttemptEnd {
    let await_until = awaits.map(|awaits| now + TimeDelta::from_std(awaits).unwrap_or(LONGEST).min(LONGEST));
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

impl Setback {
    /// One that costs no attempt.
    const fn of_nobody(error: String) -> Self {
        Self {
            error,
            counts: false,
            retry_after: None,
            doubt: false,
        }
    }

    /// One of which nobody knows whether it is one.
    fn in_doubt(error: String) -> Self {
        Self {
            counts: true,
            doubt: true,
            ..Self::of_nobody(error)
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delivery::Detail;
    use crate::trigger::AlarmId;
    use crate::trigger::OwnerId;
    use crate::trigger::Place;
    use crate::trigger::State;
    use crate::trigger::TriggerId;
    use crate::trigger::Wish;
    use crate::trigger::retry;

    /// When everything here begins.
    const NOW: DateTime<Utc> = DateTime::UNIX_EPOCH;

    fn trigger(useful: TimeDelta) -> Trigger {
        let wish = Wish::standalone(OwnerId("ada".into()), &AlarmId("a".into()), ChannelKind::Email);
        let place = Place {
            trigger_at: NOW,
            occurrence: NOW,
            repeat: 0,
        };
        Trigger {
            id: TriggerId::derive(&wish, &place),
            wish,
            place,
            due_at: NOW,
            expires_at: NOW + useful,
            has_more: false,
            state: State::Sending,
            processed: None,
            session: None,
            generation: 1,
            attempts: 0,
            attempt_token: None,
            attempt_started: None,
            withdrawn: false,
            last_error: None,
            payload: None,
            moved: false,
            digest: None,
        }
    }

    /// What becomes of one that is of use for so many seconds, and for which there is room after so many.
    fn put_off_for(seconds: u64, useful: i64) -> Option<i64> {
        let config = ChannelConfig {
            enabled: true,
            time_shift_ms: 0,
            retry: retry::Policy::default(),
            on_doubt: OnDoubt::Fail,
            throughput: None,
            domain_throughput: None,
            limit: None,
            content: Detail::Full,
        };
        let busy = (Duration::from_secs(seconds), "no room");
        match put_off(&trigger(TimeDelta::seconds(useful)), &config, busy, NOW) {
            AttemptEnd::Retry { due_at, counts, .. } => {
                assert!(!counts);
                Some((due_at - NOW).num_seconds())
            }
            AttemptEnd::Done { outcome, .. } => {
                assert_eq!(outcome, Outcome::Expired);
                None
            }
        }
    }

    #[test]
    fn what_is_put_off_for_too_long_is_tried_once_more_before_it_is_of_no_use() {
        assert_eq!(put_off_for(30, 60), Some(30));
        assert_eq!(put_off_for(59, 60), Some(59));
        assert_eq!(put_off_for(60, 60), Some(55));
        assert_eq!(put_off_for(u64::MAX, 60), Some(55));
        // That was the last try.
        assert_eq!(put_off_for(60, 5), None);
        assert_eq!(put_off_for(60, 0), None);
    }
}
