//! What a reply or a loss means for the message: the facts of a [`Report`], by stage and code.
//!
//! The relay's words are kept for the person who looks up what became of a message, without anybody's address.

use std::fmt::Write;
use std::time::Duration;

use lettre::Address;
use lettre::transport::smtp::response::Response;

use crate::channel::Blame;
use crate::channel::Report;
use crate::channel::smtp::stage::Cause;
use crate::channel::smtp::stage::Failure;
use crate::channel::smtp::stage::Stage;
use crate::channel::smtp::standing::About;

/// Characters of a reply that are kept.
const MAX_TEXT: usize = 300;

/// What got no connection comes again so soon.
const PUT_OFF: Duration = Duration::from_secs(5);

/// The relay took responsibility.
pub(super) fn accepted(reply: &Response, recipient: &Address) -> Report {
    Report::Accepted {
        reply: words(reply, Some(recipient)),
        kept: None,
        reference: None,
        awaits: None,
    }
}

/// The attempt failed.
pub(super) fn failed(failure: &Failure, recipient: &Address) -> Report {
    let error = describe(failure, Some(recipient));
    match (&failure.cause, failure.stage) {
        (Cause::OutOfTime, _) => Report::Abandoned,
        (Cause::GaveWay, _) => Report::Busy {
            error,
            after: PUT_OFF,
        },
        // Waiting for each other is not the relay's fault.
        (_, Stage::Permit) => Report::Busy {
            error: "all connections to the relay were in use".to_owned(),
            after: PUT_OFF,
        },
        (Cause::Refused(reply), stage) => refused(stage, reply, error),
        (_, Stage::Accept) => Report::InDoubt { error },
        _ => transient(error, Blame::Target),
    }
}

fn refused(stage: Stage, reply: &Response, error: String) -> Report {
    let code = u16::from(reply.code());
    // 421 is "I am closing"; 53x are about our login, which no message can mend.
    let is_about_us = matches!(code, 421 | 530 | 534 | 535 | 538);
    // Before MAIL no message has been named: even a final no, to our EHLO say, is an operator's to mend, and what waits
    // for that is not lost. 4.3.x is the relay's own trouble, such as a full disk (RFC 3463 section 3.4).
    let names_nobody = stage < Stage::Mail;
    let is_relays_own =
        matches!(code, 451 | 452) && enhanced(reply).is_some_and(|code| code.starts_with("4.3."));
    if is_about_us || names_nobody || is_relays_own || is_about_dialogue(stage, reply) {
        transient(error, Blame::Target)
    } else if code < 500 || is_full_mailbox(stage, reply) {
        transient(error, Blame::Message)
    } else if is_dead_address(stage, reply) {
        Report::Gone { error }
    } else {
        Report::Permanent { error }
    }
}

/// A refusal that may be about us: of our sender, or for reasons of policy (RFC 3463 section 3.8), which a relay that has us
/// on a list gives for every message.
pub(super) fn may_be_about_us(failure: &Failure) -> Option<About> {
    let Cause::Refused(reply) = &failure.cause else {
        return None;
    };
    let is_policy = match enhanced(reply) {
        Some(code) => code.starts_with("5.7.") || matches!(code, "5.1.7" | "5.1.8"),
        None => reply.has_code(554),
    };
    match failure.stage {
        _ if u16::from(reply.code()) < 500 => None,
        Stage::Mail => Some(About::Sender),
        _ => is_policy.then_some(About::Policy),
    }
}

/// The attempt failed for what we are, not for what was sent: an operator can mend it.
pub(super) fn failed_for_us(failure: &Failure, recipient: &Address) -> Report {
    transient(describe(failure, Some(recipient)), Blame::Target)
}

/// MAIL says the same for every message: that it is not understood, or does not belong here, is about the dialogue.
fn is_about_dialogue(stage: Stage, reply: &Response) -> bool {
    let is_such = match enhanced(reply) {
        Some(code) => code.starts_with("5.5."),
        None => matches!(u16::from(reply.code()), 500..=504),
    };
    stage == Stage::Mail && is_such
}

/// The mailbox is unknown, misspelt or closed (RFC 3463 sections 3.2 and 3.3), whatever is sent there. X.1.7 and X.1.8 are about
/// the sender, which many relays judge only here.
fn is_dead_address(stage: Stage, reply: &Response) -> bool {
    let is_dead = match enhanced(reply) {
        Some("5.1.7" | "5.1.8") => false,
        Some(code) => code.starts_with("5.1.") || code == "5.2.1",
        None => reply.has_code(553),
    };
    stage == Stage::Recipient && is_dead
}

/// A mailbox that is full today may be emptied before the deadline. A bare 552 to RCPT says the same; to the message
/// it means that the message is too large.
fn is_full_mailbox(stage: Stage, reply: &Response) -> bool {
    match enhanced(reply) {
        Some(code) => code == "5.2.2",
        None => stage == Stage::Recipient && reply.has_code(552),
    }
}

/// The enhanced status code (RFC 2034), if the relay gives one.
fn enhanced(reply: &Response) -> Option<&str> {
    let word = reply.first_word()?;
    let is_code = word.split('.').count() == 3 && word.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    is_code.then_some(word)
}

fn transient(error: String, of: Blame) -> Report {
    Report::Transient {
        error,
        of,
        retry_after: None,
    }
}

/// What went wrong, without addresses. Before MAIL nobody has been named, and there is no recipient to leave out.
pub(super) fn describe(failure: &Failure, recipient: Option<&Address>) -> String {
    let stage = failure.stage.as_str();
    match &failure.cause {
        Cause::Refused(reply) => format!("refused at {stage}: {}", words(reply, recipient)),
        Cause::Unexpected(reply) => format!("unexpected reply at {stage}: {}", words(reply, recipient)),
        Cause::Missing(what) => format!("the relay does not offer {what}"),
        Cause::Lost(error) => format!(
            "connection lost at {stage}: {}",
            redact(&error.to_string(), recipient)
        ),
        Cause::TimedOut => format!("timed out at {stage}"),
        Cause::OutOfTime => format!("no time left at {stage}"),
        Cause::LeftAlone => "the relay is down; it was not asked again".to_owned(),
        Cause::GaveWay => "it took long, and gave way to others: nothing was sent".to_owned(),
    }
}

fn words(reply: &Response, recipient: Option<&Address>) -> String {
    let text: Vec<_> = reply.message().collect();
    let mut words = reply.code().to_string();
    let said = redact(&text.join(" "), recipient);
    if !said.is_empty() {
        write!(words, " {said}").expect("a string takes every write");
    }
    words
}

/// Takes out whatever looks like an address or names the recipient.
fn redact(text: &str, recipient: Option<&Address>) -> String {
    let kept = text.split_whitespace().map(|word| {
        if names_somebody(word, recipient) {
            "[address]".to_owned()
        } else {
            printable(word)
        }
    });
    kept.collect::<Vec<_>>()
        .join(" ")
        .chars()
        .take(MAX_TEXT)
        .collect()
}

/// An address, plain or encoded, or the recipient's local part standing alone (`<jo>`, `bounce+jo=example.org`).
fn names_somebody(word: &str, recipient: Option<&Address>) -> bool {
    let is_local = |part: &str| recipient.is_some_and(|it| part.eq_ignore_ascii_case(it.user()));
    let word = word.trim_matches(|c: char| "<>()[]{},;:'\"".contains(c));
    word.contains('@') || word.contains("%40") || is_local(word) || word.split(['=', '+', ':']).any(is_local)
}

fn printable(word: &str) -> String {
    word.chars().filter(|c| !c.is_control()).collect()
}

#[cfg(test)]
mod tests;
