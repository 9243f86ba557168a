//! Owners, as they are remembered.

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
    /// Further addresses by which calendars know them; used to find their own ATTENDEE, never to send.
    pub addresses: Vec<String>,
    /// E.164 number.
    pub phone: Option<String>,
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
}

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
