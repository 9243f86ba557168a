//! From a message to the bytes of an e-mail (RFC 5322, MIME).
//!
//! Everything but Date follows from the message, so that a retry is the same mail and a mailbox can tell. The result is
//! ASCII with short lines: no relay needs an extension to carry it.

use chrono::DateTime;
use chrono::Utc;
use lettre::Address;
use lettre::message::Mailbox;
use lettre::message::MessageBuilder;
use lettre::message::MultiPart;
use lettre::message::SinglePart;
use lettre::message::header::HeaderName;
use lettre::message::header::HeaderValue;
use sha2::Digest;
use sha2::Sha256;

use crate::channel::Content;
use crate::channel::Message;
use crate::channel::smtp::Letter;

/// Characters of a subject; no client shows more.
const MAX_SUBJECT: usize = 500;

/// What all our mails have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Letterhead {
    /// From.
    pub from: Mailbox,
    /// Where bounces go (MAIL FROM); `None` is the null sender `<>`, which gets none.
    pub envelope_sender: Option<Address>,
    /// The domain in Message-ID and References: one of our own, the same on every node and for ever.
    pub message_id_domain: String,
}

/// Why a message cannot be made into a mail. None of these mends itself.
#[derive(Debug, thiserror::Error)]
pub enum ComposeError {
    /// Not an e-mail address.
    #[error("the recipient's address is not a valid e-mail address: correct it at the owner")]
    Address,
    /// The local part of the address needs SMTPUTF8 (RFC 6531).
    #[error("the recipient's address has non-ASCII characters before the `@`: use an ASCII address")]
    LocalPart,
    /// The message is for another channel.
    #[error("the message is not a letter")]
    NotALetter,
    /// The mail could not be built.
    #[error("the mail cannot be built: {0}")]
    Build(#[from] lettre::error::Error),
    /// The mail has bytes it must not have.
    #[error("the mail cannot be built as ASCII: use an ASCII `from` address")]
    NotAscii,
}

/// Composes the mail that says `message`, as of `now`.
///
/// # Errors
/// When the recipient's address cannot be used.
pub fn compose(
    letterhead: &Letterhead,
    message: &Message,
    now: DateTime<Utc>,
) -> Result<Letter, ComposeError> {
    let Content::Letter { subject, text, html } = &message.content else {
        return Err(ComposeError::NotALetter);
    };
    let to = recipient(&message.to)?;
    let domain = &letterhead.message_id_domain;
    let mail = MessageBuilder::new()
        .from(letterhead.from.clone())
        .to(Mailbox::new(None, to.clone()))
        .subject(header_text(subject))
        .date(now.into())
        .message_id(Some(format!("<{}@{domain}>", message.id)))
        .references(format!("<{}@{domain}>", message.thread))
        // RFC 3834: vacation programs do not answer. The second is the same for Exchange.
        .raw_header(header("Auto-Submitted", "auto-generated"))
        .raw_header(header("X-Auto-Response-Suppress", "All"))
        .raw_header(header("Content-Language", &message.language))
        .multipart(parts(&message.id, text, html))?;
    let raw = String::from_utf8(mail.formatted()).map_err(|_| ComposeError::NotAscii)?;
    if !raw.is_ascii() {
        return Err(ComposeError::NotAscii);
    }
    Ok(Letter {
        owner: message.owner,
        sender: letterhead.envelope_sender.clone(),
        to,
        raw,
    })
}

fn parts(id: &str, text: &str, html: &str) -> MultiPart {
    MultiPart::alternative()
        .boundary(boundary(id))
        .singlepart(SinglePart::plain(body_text(text)))
        .singlepart(SinglePart::html(body_text(html)))
}

/// A boundary that follows from the id, and that no content holds: encoded lines have no `=_` (RFC 2045 section 6.7),
/// and nobody can know the hash beforehand.
fn boundary(id: &str) -> String {
    let hash = Sha256::digest(format!("boundary of {id}"));
    let number = hash
        .iter()
        .take(16)
        .fold(0_u128, |number, byte| number << 8 | u128::from(*byte));
    format!("=_{number:032x}")
}

fn header(name: &'static str, value: &str) -> HeaderValue {
    HeaderValue::new(HeaderName::new_from_ascii_str(name), header_text(value))
}

/// The address as the relay must get it: `mailto:` taken off, the domain in ASCII (RFC 5891).
fn recipient(to: &str) -> Result<Address, ComposeError> {
    let to = to.trim();
    let to = match to.split_at_checked("mailto:".len()) {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("mailto:") => rest,
        _ => to,
    };
    let (local, domain) = to.rsplit_once('@').ok_or(ComposeError::Address)?;
    if !local.is_ascii() {
        return Err(ComposeError::LocalPart);
    }
    let domain = if domain.is_ascii() {
        domain.to_owned()
    } else {
        idna::domain_to_ascii(domain).map_err(|_| ComposeError::Address)?
    };
    Address::new(local, domain).map_err(|_| ComposeError::Address)
}

/// One line without control characters: a line break in a summary must not become a header of its own.
fn header_text(text: &str) -> String {
    let is_break = |c: char| c.is_control() || c.is_whitespace() || matches!(c, '\u{2028}' | '\u{2029}');
    let line = text
        .split(is_break)
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ");
    let line: String = line.chars().take(MAX_SUBJECT).collect();
    // What reads like an encoded word (RFC 2047) would be decoded by whoever shows it. The word joiner keeps it apart
    // and, being no ASCII, has the whole word encoded.
    line.replace("=?", "=\u{2060}?")
}

/// Lines without control characters; the encoder ends them by CRLF.
fn body_text(text: &str) -> String {
    text.chars()
        .filter(|c| !c.is_control() || matches!(c, '\n' | '\t'))
        .collect()
}

#[cfg(test)]
mod tests;
