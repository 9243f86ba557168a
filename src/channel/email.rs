//! E-mail.

use lettre::message::Mailbox;

/// What all our mails have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Letterhead {
    /// From.
    pub from: Mailbox,
    /// The domain in Message-ID and References: one of our own, the same on every node and for ever.
    pub message_id_domain: String,
}
