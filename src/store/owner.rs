//! Owners, as they are remembered.

use chrono::DateTime;
use chrono::Utc;
use secrecy::ExposeSecret;
use secrecy::SecretString;

use crate::calendar::zone::Zone;
use crate::trigger::ChannelKind;
use crate::trigger::OwnerId;
use crate::trigger::expand::Choices;
use crate::trigger::expand::Person;
use crate::trigger::preferences::Preferences;

/// The person an alarm belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// The name the caller gave them.
    pub id: OwnerId,
    /// Where e-mail goes.
    pub email: Option<String>,
    /// What is known of that address, if it is dead. Not written with the owner.
    pub email_dead: Option<DeadAddress>,
    /// Further addresses by which calendars know them; used to find their own ATTENDEE, never to send.
    pub addresses: Vec<String>,
    /// E.164 number.
    pub phone: Option<String>,
    /// Where calls go.
    pub webhook: Option<Webhook>,
    /// IANA name; floating and all-day times are understood in it.
    pub time_zone: String,
    /// BCP 47 tag.
    pub locale: String,
    /// Whether they get anything at all.
    pub enabled: bool,
    /// Channels they switched off.
    pub muted: Vec<ChannelKind>,
    /// What they want of their alarms.
    pub preferences: Preferences,
    /// What signs their calls; none: as the configuration says. Written with the owner, none keeps what is stored.
    pub webhook_secrets: Option<SigningSecrets>,
    /// Links in messages are good for the epoch that made them. Not written with the owner: the store raises it when an
    /// address changes or the owner is disabled or enabled.
    pub link_epoch: i64,
}

/// Secrets that sign the calls of one owner, one a line; empty where the owner has none.
#[derive(Debug, Clone, Default)]
pub struct SigningSecrets(pub SecretString);

impl SigningSecrets {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.expose_secret().is_empty()
    }
}

impl PartialEq for SigningSecrets {
    fn eq(&self, other: &Self) -> bool {
        self.0.expose_secret() == other.0.expose_secret()
    }
}

impl Eq for SigningSecrets {}

impl Owner {
    /// The person as whom they read events. A zone that is no longer known is read as UTC.
    pub fn person(&self) -> Person {
        self.person_by(Choices::default())
    }

    /// The same, where what alarms mean was chosen.
    pub fn person_by(&self, choices: Choices) -> Person {
        Person {
            zone: Zone::iana(&self.time_zone).unwrap_or_else(Zone::utc),
            addresses: self.email.iter().chain(&self.addresses).cloned().collect(),
            choices,
        }
    }
}

/// An address that the relay refuses for good: there is no such mailbox, or it takes nothing any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadAddress {
    /// Until when nothing is sent there, unless the owner is put again.
    pub until: DateTime<Utc>,
    /// What the relay said, without personal data.
    pub says: String,
}

/// Where an owner's calls go, and how that has been going.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Webhook {
    /// Where.
    pub url: String,
    /// When a call failed, if none has succeeded since. Not written with the owner.
    pub failing_since: Option<DateTime<Utc>>,
    /// Why nothing is sent there, until the owner is put again. Not written with the owner.
    pub disabled: Option<String>,
}

impl Webhook {
    /// One of which nothing is known.
    pub const fn at(url: String) -> Self {
        Self {
            url,
            failing_since: None,
            disabled: None,
        }
    }
}

/// What is learnt of an owner's webhook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WebhookNews<'a> {
    /// A call failed, and the one before did not.
    Fails,
    /// A call succeeded, and the one before did not.
    Works,
    /// It is gone for good, as it says in these words: nothing is sent there any more.
    Gone(&'a str),
    /// It has failed since then, with no success between, if that is still so: nothing is sent there any more, for this
    /// reason.
    Disabled(DateTime<Utc>, &'a str),
}

/// A demand that everything of an owner be planned again; later demands have greater marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PlanMark(pub i64);

/// What became of the replacement of an owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replaced {
    /// The owner before; none if they are new.
    pub before: Option<Owner>,
    /// What must be planned again, since zone, addresses or preferences changed now or before.
    pub to_plan: Option<PlanMark>,
}
