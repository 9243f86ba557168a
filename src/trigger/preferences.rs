//! What a person wants of their alarms, where that is not what everybody gets.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::Deserialize;
use serde::Serialize;

use crate::trigger::ChannelKind;
use crate::trigger::defaults::Defaults;

/// What a person wants. As JSON it is what the store keeps; what is not stated is left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Preferences {
    /// What becomes of DISPLAY and AUDIO alarms; none: what the operator says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub display: Option<Display>,
    /// Through which channels alarms leave, by their ACTION; an ACTION that is not named goes as the operator says.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<Route>,
    /// Alarms of events that have none of their own.
    #[serde(skip_serializing_if = "Defaults::state_nothing")]
    pub defaults: Defaults,
    /// What is different for the events of one source, by its name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub sources: BTreeMap<String, SourcePreference>,
    /// Addresses of others to which the person's alarms may write.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub verified: Vec<String>,
}

/// What a person wants of the events of one source.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SourcePreference {
    /// Whether its events ask for nothing.
    pub muted: bool,
    /// Alarms of its events that have none of their own.
    pub defaults: Defaults,
}

/// What becomes of DISPLAY and AUDIO alarms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Display {
    /// They are the client's affair.
    Skip,
    /// They become e-mail.
    Deliver,
}

impl Display {
    /// Whether DISPLAY and AUDIO alarms become messages.
    pub const fn delivers(self) -> bool {
        matches!(self, Self::Deliver)
    }

    /// The name in the configuration and the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Skip => "skip",
            Self::Deliver => "deliver",
        }
    }
}

impl FromStr for Display {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        [Self::Skip, Self::Deliver]
            .into_iter()
            .find(|display| display.as_str() == name)
            .ok_or_else(|| format!("unknown `{name}`: use skip or deliver"))
    }
}

/// One way for alarms with one ACTION. Two ways for one ACTION are two messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// Which alarms.
    pub action: Action,
    /// Their way out.
    pub channel: ChannelKind,
}

/// The ACTIONs that can become messages (RFC 5545 section 3.8.6.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Action {
    /// EMAIL.
    Email,
    /// DISPLAY.
    Display,
    /// AUDIO.
    Audio,
}

impl Action {
    /// The name in calendars and the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Email => "EMAIL",
            Self::Display => "DISPLAY",
            Self::Audio => "AUDIO",
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Action {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        [Self::Email, Self::Display, Self::Audio]
            .into_iter()
            .find(|action| action.as_str() == name)
            .ok_or_else(|| format!("unknown ACTION `{name}`: use EMAIL, DISPLAY or AUDIO"))
    }
}

impl Preferences {
    /// Whether the events of this source ask for nothing.
    pub fn mutes(&self, source: &str) -> bool {
        self.sources
            .get(source)
            .is_some_and(|preference| preference.muted)
    }

    /// The channels through which alarms with this ACTION leave, where `display` is what the operator says of DISPLAY
    /// and AUDIO; each once.
    pub fn channels(&self, action: &str, display: Display) -> Vec<ChannelKind> {
        let Ok(action) = action.parse::<Action>() else {
            return Vec::new();
        };
        let mut channels = Vec::new();
        for route in self.routes.iter().filter(|route| route.action == action) {
            if !channels.contains(&route.channel) {
                channels.push(route.channel);
            }
        }
        let is_delivered = action == Action::Email || self.display.unwrap_or(display) == Display::Deliver;
        if channels.is_empty() && is_delivered {
            channels.push(ChannelKind::Email);
        }
        channels
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routes(routes: &[(Action, ChannelKind)]) -> Preferences {
        Preferences {
            routes: routes
                .iter()
                .map(|(action, channel)| Route {
                    action: *action,
                    channel: *channel,
                })
                .collect(),
            ..Preferences::default()
        }
    }

    #[test]
    fn what_no_route_names_goes_as_the_operator_says() {
        let nothing = Preferences::default();
        assert_eq!(nothing.channels("EMAIL", Display::Skip), [ChannelKind::Email]);
        assert_eq!(nothing.channels("DISPLAY", Display::Skip), []);
        assert_eq!(nothing.channels("AUDIO", Display::Deliver), [ChannelKind::Email]);
        assert_eq!(nothing.channels("PROCEDURE", Display::Deliver), []);
        let sms = routes(&[(Action::Display, ChannelKind::Sms)]);
        assert_eq!(sms.channels("DISPLAY", Display::Skip), [ChannelKind::Sms]);
        assert_eq!(sms.channels("EMAIL", Display::Skip), [ChannelKind::Email]);
    }

    #[test]
    fn several_routes_are_several_messages_and_the_same_twice_is_one() {
        let both = routes(&[
            (Action::Email, ChannelKind::Sms),
            (Action::Email, ChannelKind::Email),
            (Action::Email, ChannelKind::Sms),
        ]);
        assert_eq!(
            both.channels("EMAIL", Display::Skip),
            [ChannelKind::Sms, ChannelKind::Email]
        );
    }

    #[test]
    fn what_is_not_stated_is_not_stored() {
        let text = serde_json::to_string(&Preferences::default()).unwrap();
        assert_eq!(text, "{}", "which is what the store has of people it knew before");
        let read: Preferences = serde_json::from_str("{}").unwrap();
        assert_eq!(read, Preferences::default());
    }
}
