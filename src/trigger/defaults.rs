//! Default alarms: what goes off where an event has no alarm of its own. They come from settings whenever an event is
//! read, and are never written into it.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::Deserialize;
use serde::Serialize;

use crate::calendar::alarm::Alarm;
use crate::calendar::alarm::AlarmTrigger;
use crate::calendar::alarm::Related;
use crate::calendar::event::Component;
use crate::calendar::event::Event;
use crate::calendar::moment::Span;
use crate::trigger::preferences::Preferences;

/// Default alarms of one kind of event at the most.
pub const MOST: usize = 10;

/// One default alarm: how long after the start of each instance it goes off; negative is before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DefaultAlarm(pub Span);

impl DefaultAlarm {
    /// The alarm of an event. Its identity is what it says, so that the same default is one wish in every copy, and
    /// stays the same when others come or go. It leaves as an e-mail alarm does: defaults are there to be delivered.
    fn of_an_event(self) -> Alarm {
        Alarm {
            identity: format!("default {self}"),
            action: "EMAIL".to_owned(),
            trigger: AlarmTrigger::Relative {
                span: self.0,
                related: Related::Start,
            },
            repeat: 0,
            every: Span::default(),
            acknowledged: None,
            attendees: Vec::new(),
            refused: None,
            about: None,
        }
    }
}

impl FromStr for DefaultAlarm {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match Span::parse(text)? {
            (span, false) => Ok(Self(span)),
            (_, true) => Err(format!("`{text}` is no duration: write it like -PT15M or -P1D")),
        }
    }
}

impl fmt::Display for DefaultAlarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Span { days, seconds } = self.0;
        f.write_str(if days < 0 || seconds < 0 { "-P" } else { "P" })?;
        if days != 0 {
            write!(f, "{}D", days.unsigned_abs())?;
        }
        let seconds = seconds.unsigned_abs();
        let units = [
            (seconds / 3600, 'H'),
            (seconds / 60 % 60, 'M'),
            (seconds % 60, 'S'),
        ];
        if seconds != 0 || days == 0 {
            f.write_str("T")?;
        }
        for (number, unit) in units {
            if number != 0 || (unit, days, seconds) == ('S', 0, 0) {
                write!(f, "{number}{unit}")?;
            }
        }
        Ok(())
    }
}

impl TryFrom<String> for DefaultAlarm {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<DefaultAlarm> for String {
    fn from(alarm: DefaultAlarm) -> Self {
        alarm.to_string()
    }
}

/// Default alarms as one place states them; what it does not state is left to a less specific one. An empty list is
/// a statement: none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Defaults {
    /// Of events at a time of day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timed: Option<Vec<DefaultAlarm>>,
    /// Of events of whole days.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all_day: Option<Vec<DefaultAlarm>>,
}

impl Defaults {
    /// Whether everything is left to a less specific place.
    pub const fn state_nothing(&self) -> bool {
        self.timed.is_none() && self.all_day.is_none()
    }
}

/// What the operator says about default alarms.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DefaultPolicy {
    /// For everybody and every source.
    pub general: Defaults,
    /// For everybody's events of one source.
    pub sources: BTreeMap<String, Defaults>,
    /// Whether events that take no time of the person (TRANSP:TRANSPARENT) get any.
    pub transparent: bool,
}

impl DefaultPolicy {
    /// Gives copies of one event, each with its source, the default alarms of a person who wants `wants`, unless one of
    /// the copies has an alarm of its own, be it one that cannot be read or asks for none. Overrides get them like the
    /// master; tasks get none.
    pub fn complete(&self, copies: &mut [(&str, Event)], wants: &Preferences) {
        let mut components = copies.iter().flat_map(|(_, event)| event.components());
        if components.any(|component| !component.alarms.is_empty() || !component.unreadable.is_empty()) {
            return;
        }
        for (source, event) in copies {
            for component in event.components_mut() {
                component.alarms = self.alarms(source, component, wants);
            }
        }
    }

    fn alarms(&self, source: &str, component: &Component, wants: &Preferences) -> Vec<Alarm> {
        let Some(start) = component.start.as_ref().filter(|_| !component.is_task) else {
            return Vec::new();
        };
        if component.is_transparent && !self.transparent {
            return Vec::new();
        }
        let alarms = self.stated(source, wants, start.is_date);
        alarms.iter().map(|alarm| alarm.of_an_event()).collect()
    }

    /// What the most specific place states.
    fn stated<'a>(&'a self, source: &str, wants: &'a Preferences, is_all_day: bool) -> &'a [DefaultAlarm] {
        let own = wants.sources.get(source).map(|own| &own.defaults);
        let places = [
            own,
            Some(&wants.defaults),
            self.sources.get(source),
            Some(&self.general),
        ];
        let mut stated = places.into_iter().flatten().filter_map(|place| {
            let kind = if is_all_day { &place.all_day } else { &place.timed };
            kind.as_deref()
        });
        stated.next().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_default_alarm_is_written_as_it_is_read() {
        for (text, written) in [
            ("-PT15M", "-PT15M"),
            ("-P1D", "-P1D"),
            ("-P1W", "-P7D"),
            ("-P1DT2H", "-P1DT2H"),
            ("PT0S", "PT0S"),
            ("-PT90S", "-PT1M30S"),
            ("PT9H", "PT9H"),
        ] {
            assert_eq!(
                text.parse::<DefaultAlarm>().unwrap().to_string(),
                written,
                "{text}"
            );
        }
        for text in ["", "15m", "-p1d", "-P300S", "-P99W999W"] {
            assert!(text.parse::<DefaultAlarm>().is_err(), "{text}");
        }
    }
}
