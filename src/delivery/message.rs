//! What a reminder says. Pure: an occurrence and the moment of sending in, a [`Message`](crate::channel::Message) out.
//!
//! ```text
//! Reminder ──facts──▶ what there is to say ──words──▶ how it is said ──templates──▶ text, HTML
//! ```
//! All words are in Fluent files, one per language, so that a language is a file and an operator can add one or replace
//! any message of it. The templates are the form and know no language. Rust computes what is the same in every language:
//! local times, how long until, what is a link, what must be kept apart from text of the other direction.

mod digest;
mod direction;
mod document;
mod error;
mod facts;
mod flaws;
mod folder;
mod languages;
mod page;
mod relative;
#[cfg(test)]
mod samples;
mod short;
mod templates;
mod wording;
mod words;

use chrono::DateTime;
use chrono::Utc;
use sha2::Digest;
use sha2::Sha256;

use crate::calendar::event::Occurrence;
use crate::calendar::zone::Zone;
use crate::trigger::ChannelKind;
use crate::trigger::OwnerId;
use crate::trigger::TriggerId;

pub use self::error::RenderError;
pub use self::page::AnswerPage;
pub use self::page::Said;
pub use self::short::TextForm;
pub use self::templates::Gap;
pub use self::templates::Renderer;

/// A reminder that is about to be sent.
#[derive(Debug, Clone)]
pub struct Reminder<'a> {
    /// The trigger.
    pub trigger: TriggerId,
    /// The trigger whose id the message bears: the same one, but for what goes out again as part of another's message.
    pub message: TriggerId,
    /// The instant that was promised.
    pub trigger_at: DateTime<Utc>,
    /// The moment of sending.
    pub now: DateTime<Utc>,
    /// Whose alarm it is.
    pub owner: &'a OwnerId,
    /// The event's UID: all reminders of one event to one owner are one thread.
    pub event_uid: &'a str,
    /// The way out, which says what form the message has.
    pub channel: ChannelKind,
    /// Where it goes.
    pub to: &'a str,
    /// The recipient's zone.
    pub zone: &'a Zone,
    /// The recipient's language, a BCP 47 tag.
    pub locale: &'a str,
    /// What it is about.
    pub occurrence: &'a Occurrence,
    /// Whether it is sent at once because the event was moved past its alarms.
    pub moved: bool,
    /// Which attempt it is, from 1.
    pub attempt: u32,
    /// What the target asked to be given back: a JSON document.
    pub payload: Option<&'a str>,
    /// What else the recipient should know, a line each.
    pub notes: &'a [String],
    /// Where the recipient answers; none where they cannot.
    pub answer: Option<&'a str>,
}

impl Reminder<'_> {
    /// Name of the thread. A hash, because UIDs hold characters that no Message-ID may.
    fn thread(&self) -> String {
        let hash = Sha256::digest(format!("{}\n{}", self.owner, self.event_uid));
        let number = hash
            .iter()
            .take(16)
            .fold(0_u128, |number, byte| number << 8 | u128::from(*byte));
        format!("{number:032x}")
    }
}
