//! One message that stands for several triggers: it bears the id of the first, and each of them has an end of its own.

use std::collections::HashMap;

use crate::store::AttemptEnd;
use crate::store::Candidate;
use crate::trigger::TriggerId;
use crate::trigger::outcome::Outcome;
use crate::trigger::outcome::Reason;

/// What goes out as one message each, the lead first, and then by occurrence. Where the lead is gone, the first of those who
/// joined it leads in its place.
pub fn messages(granted: Vec<Candidate>) -> Vec<Vec<Candidate>> {
    let (joined, leads): (Vec<_>, Vec<_>) = granted.into_iter().partition(|it| it.trigger.joined().is_some());
    let mut places: HashMap<TriggerId, usize> = HashMap::new();
    let mut messages: Vec<Vec<Candidate>> = Vec::new();
    for candidate in leads.into_iter().chain(joined) {
        let message = candidate.trigger.message();
        let at = *places.entry(message).or_insert(messages.len());
        if at == messages.len() {
            messages.push(Vec::new());
        }
        messages[at].push(candidate);
    }
    for message in &mut messages {
        message[1..].sort_by_key(|it| (it.trigger.place.occurrence, it.trigger.id));
    }
    messages
}

/// Puts the ends of what one message stands for in accord: what was handed over was so in the message of `lead`, and what
/// is tried again is so at one instant, so that it meets again.
pub fn agree(ends: &mut [(TriggerId, AttemptEnd)], lead: TriggerId) {
    let instants = ends.iter().filter_map(|(_, end)| match end {
        AttemptEnd::Retry { due_at, .. } => Some(*due_at),
        AttemptEnd::Done { .. } => None,
    });
    let together = instants.min();
    for (id, end) in ends {
        match end {
            AttemptEnd::Retry { due_at, .. } => *due_at = together.unwrap_or(*due_at),
            AttemptEnd::Done {
                outcome: outcome @ (Outcome::Sent | Outcome::Awaiting),
                reason,
                detail,
                reference,
                await_until,
                kept,
                ..
            } if *id != lead => {
                (*outcome, *reason, *detail) = (Outcome::Sent, Reason::Digest, lead.to_string());
                (*reference, *await_until, *kept) = (None, None, None);
            }
            AttemptEnd::Done { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use chrono::TimeDelta;
    use chrono::Utc;

    use super::*;

    const LEAD: TriggerId = TriggerId([1; 16]);
    const OTHER: TriggerId = TriggerId([2; 16]);

    fn at(second: i64) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH + TimeDelta::seconds(second)
    }

    fn retry(second: i64) -> AttemptEnd {
        AttemptEnd::Retry {
            due_at: at(second),
            counts: true,
            doubtful: false,
            error: "451 later".to_owned(),
            payload: None,
        }
    }

    fn done(outcome: Outcome) -> AttemptEnd {
        AttemptEnd::Done {
            outcome,
            reason: Reason::None,
            detail: "250 queued".to_owned(),
            handed_over_at: Some(at(0)),
            reference: Some("queued".to_owned()),
            await_until: Some(at(60)),
            kept: None,
        }
    }

    #[test]
    fn who_joined_was_sent_in_the_message_of_the_lead() {
        let mut ends = [(LEAD, done(Outcome::Awaiting)), (OTHER, done(Outcome::Awaiting))];

        agree(&mut ends, LEAD);

        assert!(
            matches!(&ends[0].1, AttemptEnd::Done { outcome: Outcome::Awaiting, detail, .. } if detail == "250 queued")
        );
        assert!(matches!(
            &ends[1].1,
            AttemptEnd::Done { outcome: Outcome::Sent, reason: Reason::Digest, detail, reference: None, await_until: None, .. }
                if *detail == LEAD.to_string()
        ));
    }

    #[test]
    fn what_failed_has_failed_for_each() {
        let mut ends = [(LEAD, done(Outcome::Failed)), (OTHER, done(Outcome::Failed))];

        agree(&mut ends, LEAD);

        assert!(matches!(
            &ends[1].1,
            AttemptEnd::Done {
                outcome: Outcome::Failed,
                reason: Reason::None,
                ..
            }
        ));
    }

    #[test]
    fn what_is_tried_again_meets_again() {
        let mut ends = [(LEAD, retry(70)), (OTHER, retry(50))];

        agree(&mut ends, LEAD);

        for (_, end) in ends {
            assert!(matches!(end, AttemptEnd::Retry { due_at, .. } if due_at == at(50)));
        }
    }
}
