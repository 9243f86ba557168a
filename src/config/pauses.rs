//! The pauses between attempts: a preset by its name, or a list.

use std::time::Duration;

use super::reader::Reader;
use crate::trigger::ChannelKind;
use crate::trigger::retry;

/// Presets that need no further key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Preset {
    /// They double, as `backoff` and `max_backoff` say.
    Exponential,
    /// [`retry::MINUTES`].
    Minutes,
}

/// The pauses that are listed, by the operator or by a preset; none: they double.
pub(super) fn read(reader: &mut Reader, kind: ChannelKind) -> Vec<Duration> {
    let key = |name: &str| format!("channels.{kind}.retry.{name}");
    let presets = [("exponential", Preset::Exponential), ("minutes", Preset::Minutes)];
    let preset = reader.choice(&key("preset"), &presets);
    let schedule = listed(reader, &key("schedule"));
    if preset == Preset::Exponential {
        return schedule;
    }
    let own = ["schedule", "backoff", "max_backoff"].map(key);
    let changed = reader.changed(&key(""));
    for key in changed.into_iter().filter(|key| own.contains(key)) {
        let problem = format!(
            "has no meaning with {}, which has pauses of its own: leave one of the two out",
            reader.described(&format!("channels.{kind}.retry.preset"))
        );
        reader.complain(&key, problem);
    }
    retry::MINUTES.to_vec()
}

fn listed(reader: &mut Reader, key: &str) -> Vec<Duration> {
    let expected = "a list of up to 100 pauses, each more than 0 and at most 24h, such as [\"1m\", \"5m\"]";
    let pause = |text: &String| {
        let pause = humantime::parse_duration(text).ok()?;
        (!pause.is_zero() && pause <= Duration::from_hours(24)).then_some(pause)
    };
    reader.list(key, expected, |items| {
        let pauses: Option<Vec<Duration>> = items.iter().map(pause).collect();
        pauses.filter(|pauses| pauses.len() <= 100)
    })
}
