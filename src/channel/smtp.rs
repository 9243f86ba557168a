//! The relay: one SMTP server (RFC 5321) to which every message is handed, and the small pool of connections to it.
//!
//! ```text
//! submit: pass ▸ idle or fresh connection ▸ MAIL ▸ RCPT ▸ DATA ▸ body │ final dot ▸ reply
//!                                                    nothing was sent ──┘  └── in doubt until the reply
//! ```
//! The dialogue is our own because three things must be known that no SMTP client library tells: *at which stage* an
//! attempt failed (a connection lost after the final dot is neither sent nor unsent), that every stage *ends* (a relay
//! that stalls must not hold a permit), and that what the relay says is *bounded*. Commands, replies and
//! authentication are still those of `lettre`. One recipient per transaction, so that nobody pays for somebody else's
//! full mailbox.
//!
//! If the process dies before the final dot, the relay throws the message away; if it dies after it, `delivery` finds
//! a `sending` row and decides by its `on_doubt`.

mod classify;
mod connection;
mod dialogue;
mod failing;
mod pool;
mod relay;
mod stage;
mod standing;
mod tempo;
mod tls;
mod turnstile;
mod window;

use std::path::PathBuf;
use std::time::Duration;

use lettre::Address;
use secrecy::SecretString;

pub use self::relay::Relay;
pub use self::tls::TlsError;
pub use self::tls::trusting;

/// How the relay is reached and who we are to it.
#[derive(Debug, Clone)]
pub struct Config {
    /// Name or IP address of the relay; its certificate must carry it.
    pub host: String,
    /// TCP port: usually 25 or 587 for `none` and `starttls`, 465 for `implicit`.
    pub port: u16,
    /// How the connection is encrypted.
    pub tls: Tls,
    /// PEM file of certificate authorities that are trusted besides those of the system.
    pub ca_file: Option<PathBuf>,
    /// Who we are to the relay; without it we do not authenticate.
    pub login: Option<Login>,
    /// The name given in EHLO (RFC 5321 section 4.1.4): the public name of this machine.
    pub hello_name: String,
    /// Most connections at a time; at least 1.
    pub connections: usize,
    /// How long each stage may take.
    pub timeouts: Timeouts,
}

/// A mail, ready for the relay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Letter {
    /// A number that stands for the owner on whose behalf it is sent.
    pub owner: u64,
    /// Envelope sender, where bounces go; `None` is the null sender `<>`, which gets none.
    pub sender: Option<Address>,
    /// Envelope recipient.
    pub to: Address,
    /// The whole mail: ASCII, lines ended by CRLF.
    pub raw: String,
}

/// How a connection is encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tls {
    /// Not at all.
    None,
    /// By STARTTLS (RFC 3207); a relay that does not offer it gets nothing.
    Starttls,
    /// From the first byte (RFC 8314).
    Implicit,
}

/// User name and password for AUTH (RFC 4954), by PLAIN or else LOGIN.
#[derive(Debug, Clone)]
pub struct Login {
    /// User name.
    pub username: String,
    /// Password.
    pub password: SecretString,
}

/// How long each stage may take; the deadline of the attempt ends it earlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// TCP connect, and TLS handshake.
    pub connect: Duration,
    /// Greeting, EHLO and AUTH.
    pub greeting: Duration,
    /// MAIL FROM.
    pub mail: Duration,
    /// RCPT TO.
    pub recipient: Duration,
    /// DATA until the relay says go on.
    pub data: Duration,
    /// Writing the message.
    pub body: Duration,
    /// The final dot until the relay takes responsibility.
    pub accept: Duration,
    /// How long an unused connection is kept.
    pub idle: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            greeting: Duration::from_secs(30),
            mail: Duration::from_secs(30),
            recipient: Duration::from_secs(30),
            data: Duration::from_mins(1),
            body: Duration::from_mins(1),
            accept: Duration::from_mins(2),
            idle: Duration::from_secs(30),
        }
    }
}

/// Connections per relay and node where nothing else is configured.
pub const DEFAULT_CONNECTIONS: usize = 8;
