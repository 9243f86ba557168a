//! Receipts: what a provider says later of a message that it took. Each provider has a way of its own to say it, and so
//! a [`Reader`] of its own; who may say it, and what becomes of the history, is decided elsewhere.

use std::collections::BTreeMap;
use std::sync::Arc;

/// A receipt as it came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slip<'a> {
    /// The query of the address, without the question mark.
    pub query: &'a str,
    /// The type of the body; empty where none was named.
    pub content_type: &'a str,
    /// The body; empty where there was none.
    pub body: &'a [u8],
}

/// What a receipt says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// How far the message has come.
    pub status: Status,
    /// What the provider adds, such as an error code; without personal data.
    pub detail: String,
}

/// How far a message has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// On its way; whoever waits goes on waiting.
    Pending,
    /// The recipient has it.
    Delivered,
    /// The recipient will not get it.
    Undelivered,
}

/// Reads the receipts of one provider. The error says what does not fit, without personal data.
pub type Reader = Arc<dyn Fn(&Slip<'_>) -> Result<Receipt, String> + Send + Sync>;

/// The readers, by the name of the provider in the address of its receipts.
pub type Readers = BTreeMap<String, Reader>;
