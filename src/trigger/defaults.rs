//! Default alarms: what goes off where an event has no alarm of its own. They come from settings whenever an event is
//! read, and are never written into it.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::Deserialize;
use serde::Serialize;

use crate::calendar::moment::Span;

/// Default alarms of one kind of event at the most.
pub const MOST: usize = 10;

/// One default alarm: how long after the start of each instance it goes off; negative is before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DefaultAlarm(pub Span);

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
