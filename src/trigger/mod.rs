//! What we owe: one [`Trigger`] for each firing, from the moment it is planned until a delivery row records its
//! outcome. Everything here is pure; the store keeps what is decided here, and the stages carry it out.
//!
//! ```text
//! planned ──claim──▶ claimed ──fire-check──▶ sending ──settle──▶ delivery row
//!    ▲                 │  ▲                    │
//!    └─ holder lost ───┘  └──── retry ─────────┘
//! ```

pub mod answers;
pub mod defaults;
pub mod expand;
pub mod firings;
pub mod limit;
pub mod outcome;
pub mod preferences;
pub mod recipients;
pub mod retry;
pub mod series;

use std::fmt;
use std::str::FromStr;

use chrono::DateTime;
use chrono::Utc;
use serde::Deserialize;
use serde::Serialize;
use sha2::Digest;
use sha2::Sha256;

/// The person an alarm belongs to, as the caller names them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OwnerId(pub String);

impl OwnerId {
    /// A short, stable stand-in, by which log lines about the same person can be found. Callers may name people by
    /// their address, which no log may hold.
    pub fn stand_in(&self) -> String {
        let digest = Sha256::digest(self.0.as_bytes());
        let number = digest[..6]
            .iter()
            .fold(0, |number, byte| number << 8 | u64::from(*byte));
        format!("{number:012x}")
    }

    /// A number that stands for the name, the same on every node.
    pub fn hash(&self) -> u64 {
        let digest = Sha256::digest(self.0.as_bytes());
        u64::from_be_bytes(digest[..8].try_into().expect("a digest is longer"))
    }
}

impl fmt::Display for OwnerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A way out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChannelKind {
    /// E-mail through a relay, or the outbox where no relay is configured.
    Email,
    /// Text message.
    Sms,
    /// HTTP call.
    Webhook,
    /// A handler of the program in which this node runs; for stand-alone alarms alone.
    Handler,
}

impl ChannelKind {
    /// All channels, in the order in which tables and metrics list them.
    pub const ALL: [Self; 4] = [Self::Email, Self::Sms, Self::Webhook, Self::Handler];

    /// The name in configuration, store, metrics and API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Email => "email",
            Self::Sms => "sms",
            Self::Webhook => "webhook",
            Self::Handler => "handler",
        }
    }

    /// Whether what it reaches is a program, which reads documents and may be called at any pace.
    pub const fn reaches_programs(self) -> bool {
        matches!(self, Self::Webhook | Self::Handler)
    }
}

impl fmt::Display for ChannelKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for ChannelKind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.as_str() == name)
            .ok_or_else(|| format!("unknown channel `{name}`: use email, sms, webhook or handler"))
    }
}

/// Whom a trigger is for. The owner's address is looked up when the message is sent, so that a corrected address is
/// used and a missing one is an outcome that can be seen.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Recipient {
    /// The owner of the alarm, at whatever address they have when it fires.
    Owner,
    /// Another address, named by the alarm and allowed by the recipients policy.
    Address(String),
}

impl fmt::Display for Recipient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Owner => f.write_str("owner"),
            Self::Address(address) => write!(f, "address:{address}"),
        }
    }
}

impl FromStr for Recipient {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once(':') {
            None if text == "owner" => Ok(Self::Owner),
            Some(("address", address)) => Ok(Self::Address(address.to_owned())),
            _ => Err(format!("`{text}` names no recipient")),
        }
    }
}

/// The identity of an alarm within its event: the VALARM's UID, else a hash of what makes it this alarm.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AlarmIdentity(pub String);

impl fmt::Display for AlarmIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A place in the sequence of an alarm's firings. Places are ordered by instant, then occurrence, then repeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// The instant that was promised.
    pub trigger_at: DateTime<Utc>,
    /// The occurrence, named by its RECURRENCE-ID instant.
    pub occurrence: DateTime<Utc>,
    /// 0 for the first firing, k for the k-th repeat (RFC 5545 section 3.8.6.2).
    pub repeat: u16,
}

impl Place {
    /// The place before all places.
    pub const FIRST: Self = Self {
        trigger_at: DateTime::<Utc>::MIN_UTC,
        occurrence: DateTime::<Utc>::MIN_UTC,
        repeat: 0,
    };

    /// The place of a firing that is an occurrence by itself.
    pub const fn at(instant: DateTime<Utc>) -> Self {
        Self {
            trigger_at: instant,
            occurrence: instant,
            repeat: 0,
        }
    }

    /// The place before every place at or after `instant`.
    pub fn just_before(instant: DateTime<Utc>) -> Self {
        let trigger_at = instant - chrono::TimeDelta::milliseconds(1);
        Self {
            trigger_at,
            occurrence: DateTime::<Utc>::MAX_UTC,
            repeat: u16::MAX,
        }
    }
}

/// The name of a trigger, derived from what it is and never from row numbers, so that the same firing planned twice is
/// one row.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TriggerId(pub [u8; 16]);

impl TriggerId {
    /// The id of the firing of `wish` at `place`.
    pub fn derive(wish: &Wish, place: &Place) -> Self {
        let mut hash = Sha256::new();
        for part in [
            wish.owner.0.as_str(),
            wish.event_uid.as_str(),
            wish.identity.0.as_str(),
            &place.occurrence.timestamp_millis().to_string(),
            &place.trigger_at.timestamp_millis().to_string(),
            &wish.recipient.to_string(),
            wish.channel.as_str(),
        ] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part.as_bytes());
        }
        let digest = hash.finalize();
        let mut id = [0; 16];
        id.copy_from_slice(&digest[..16]);
        Self(id)
    }
}

impl fmt::Display for TriggerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for TriggerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for TriggerId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let complaint = || format!("`{text}` is no trigger id: 32 hexadecimal digits expected");
        if text.len() != 32 || !text.is_ascii() {
            return Err(complaint());
        }
        let mut id = [0; 16];
        for (byte, digits) in id.iter_mut().zip(text.as_bytes().chunks(2)) {
            let digits = std::str::from_utf8(digits).map_err(|_| complaint())?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| complaint())?;
        }
        Ok(Self(id))
    }
}

/// The wish that a trigger belongs to: one alarm of one event (by UID, in however many calendars it stands) for one
/// owner, through one channel, to one recipient.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Wish {
    /// Whose alarm it is.
    pub owner: OwnerId,
    /// The UID of the event.
    pub event_uid: String,
    /// Which alarm of the event.
    pub identity: AlarmIdentity,
    /// The way out.
    pub channel: ChannelKind,
    /// Whom it is for.
    pub recipient: Recipient,
}

/// What stands before the id of a stand-alone alarm where the UID of an event would be. No UID begins with it: they are
/// trimmed where they are read.
const STANDALONE: char = ' ';

impl Wish {
    /// The wish of a stand-alone alarm, which has no event.
    pub fn standalone(owner: OwnerId, alarm: &AlarmId, channel: ChannelKind) -> Self {
        Self {
            owner,
            event_uid: alarm.as_event_uid(),
            identity: AlarmIdentity("alarm".to_owned()),
            channel,
            recipient: Recipient::Owner,
        }
    }

    /// The stand-alone alarm whose wish it is; none where it is that of an event.
    pub fn alarm_id(&self) -> Option<AlarmId> {
        self.event_uid
            .strip_prefix(STANDALONE)
            .map(|id| AlarmId(id.to_owned()))
    }
}

/// The name of a stand-alone alarm: 32 hexadecimal digits that nobody can guess.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AlarmId(pub String);

impl AlarmId {
    /// What its wish, triggers and history have in place of the UID of an event.
    pub fn as_event_uid(&self) -> String {
        format!("{STANDALONE}{}", self.0)
    }
}

impl fmt::Display for AlarmId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for AlarmId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if text.len() == 32 && text.bytes().all(is_digit) {
            return Ok(Self(text.to_owned()));
        }
        Err(format!(
            "`{text}` is no id of an alarm: 32 hexadecimal digits expected"
        ))
    }
}

/// How far a trigger has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// Nobody holds it.
    Planned,
    /// A session holds it and will fire it.
    Claimed,
    /// It passed its fire-check; bytes may be going out.
    Sending,
}

impl State {
    /// The name in the store and the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Planned => "planned",
            Self::Claimed => "claimed",
            Self::Sending => "sending",
        }
    }
}

impl FromStr for State {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        [Self::Planned, Self::Claimed, Self::Sending]
            .into_iter()
            .find(|state| state.as_str() == name)
            .ok_or_else(|| format!("`{name}` is no trigger state"))
    }
}

/// One start of one node, numbered by the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(pub i64);

/// The name of one attempt, unique in the store: written with the fire-check, compared by the settle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AttemptToken(pub i64);

/// A firing that is to be planned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTrigger {
    /// What it belongs to.
    pub wish: Wish,
    /// Its place in the wish's sequence.
    pub place: Place,
    /// From this instant on it is not sent but recorded as expired.
    pub expires_at: DateTime<Utc>,
    /// False only where no firing can follow: such a trigger needs no look at its event to find a successor.
    pub has_more: bool,
    /// It is sent though it is past, since its event was moved past all its alarms.
    pub moved: bool,
}

impl NewTrigger {
    /// The derived id.
    pub fn id(&self) -> TriggerId {
        TriggerId::derive(&self.wish, &self.place)
    }
}

/// A firing that is owed, as the store holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trigger {
    /// The derived id.
    pub id: TriggerId,
    /// What it belongs to.
    pub wish: Wish,
    /// Its place in the wish's sequence.
    pub place: Place,
    /// When it is to be fired: the trigger instant at first, later a retry or deferral instant.
    pub due_at: DateTime<Utc>,
    /// From this instant on it is not sent but recorded as expired.
    pub expires_at: DateTime<Utc>,
    /// False only where no firing can follow.
    pub has_more: bool,
    /// How far it has come.
    pub state: State,
    /// When it was claimed; none while it is free.
    pub processed: Option<DateTime<Utc>>,
    /// Who holds it.
    pub session: Option<SessionId>,
    /// Raised by every claim and every release: older holders lose their compare-and-set.
    pub generation: i64,
    /// Attempts that counted so far.
    pub attempts: u32,
    /// The attempt under way, while sending.
    pub attempt_token: Option<AttemptToken>,
    /// When the attempt under way passed its fire-check.
    pub attempt_started: Option<DateTime<Utc>>,
    /// Its event no longer owes it, but it was `sending` when that was decided: it is recorded, not retried.
    pub withdrawn: bool,
    /// Why the last attempt failed.
    pub last_error: Option<String>,
    /// What the target asked to be given back with the next attempt: a JSON document.
    pub payload: Option<String>,
    /// It is sent though it is past, since its event was moved past all its alarms.
    pub moved: bool,
    /// The trigger whose message its last attempt was part of, where that stood for several: maybe itself.
    pub digest: Option<TriggerId>,
}

impl Trigger {
    /// The trigger whose id its message bears: its own, or that of another whose message it is part of.
    pub fn message(&self) -> TriggerId {
        self.digest.unwrap_or(self.id)
    }

    /// The other trigger whose message its last attempt was part of.
    pub fn joined(&self) -> Option<TriggerId> {
        self.digest.filter(|lead| *lead != self.id)
    }
}
