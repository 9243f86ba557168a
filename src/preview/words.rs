//! Words for people: when an alarm goes off, and where a clock that is put forward or back has a say in it.

use chrono::TimeDelta;

use crate::calendar::alarm::Alarm;
use crate::calendar::alarm::AlarmTrigger;
use crate::calendar::alarm::Related;
use crate::calendar::moment::Anchor;
use crate::calendar::moment::Moment;
use crate::calendar::moment::Span;
use crate::trigger::expand::Account;

/// A wall time.
pub(super) const WALL: &str = "%a %Y-%m-%d %H:%M";

/// When an alarm goes off: `15 minutes before the start`.
pub(super) fn timing(alarm: &Alarm) -> String {
    match &alarm.trigger {
        AlarmTrigger::Absolute(time) => format!("at {}", moment(time)),
        AlarmTrigger::Relative { span, related } => {
            let anchor = match related {
                Related::Start => "the start",
                Related::End => "the end",
            };
            match span.seconds_nominal() {
                0 if span.days == 0 => format!("at {anchor}"),
                seconds if seconds < 0 => format!("{} before {anchor}", length(*span)),
                _ => format!("{} after {anchor}", length(*span)),
            }
        }
    }
}

/// A time as it is written.
pub(super) fn moment(time: &Moment) -> String {
    match &time.zone {
        _ if time.is_date => time.local.format("%a %Y-%m-%d").to_string(),
        Some(zone) => format!("{} in {}", time.local.format(WALL), zone.name()),
        None => format!("{} in whatever zone the owner has", time.local.format(WALL)),
    }
}

/// How long a span is, whichever way it goes.
pub(super) fn length(span: Span) -> String {
    let (days, seconds) = (span.days.abs(), span.seconds.abs());
    let whole_weeks = days % 7 == 0 && seconds == 0;
    let parts = [
        (if whole_weeks { days / 7 } else { 0 }, "week"),
        (if whole_weeks { 0 } else { days }, "day"),
        (seconds / 3600, "hour"),
        (seconds / 60 % 60, "minute"),
        (seconds % 60, "second"),
    ];
    let words: Vec<String> = parts
        .iter()
        .filter(|(number, _)| *number != 0)
        .map(|(number, unit)| format!("{number} {unit}{}", if *number == 1 { "" } else { "s" }))
        .collect();
    match words.split_last() {
        None => "no time".to_owned(),
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
    }
}

/// Where the clock skips or repeats a time that the firing was counted from.
pub(super) fn clock_changes(account: &Account<'_>) -> Vec<String> {
    let is_by_days = match &account.alarm.trigger {
        AlarmTrigger::Absolute(_) => true,
        AlarmTrigger::Relative { span, .. } => span.days != 0,
    };
    let start = account.start.as_ref().and_then(clock_change);
    let first = is_by_days.then(|| clock_change(&account.first)).flatten();
    let mut notes: Vec<String> = start.into_iter().chain(first).collect();
    notes.dedup();
    notes
}

/// Whether the wall time is one that the clock skips or repeats, and what is meant then (RFC 5545 section 3.3.5).
fn clock_change(anchor: &Anchor) -> Option<String> {
    let zone = &anchor.zone;
    let (day, time) = (anchor.local.format("%Y-%m-%d"), anchor.local.format("%H:%M"));
    let name = zone.name();
    let shown = zone.to_local(anchor.instant);
    if shown != anchor.local {
        let meant = shown.format("%H:%M");
        return Some(format!(
            "{time} does not exist on {day} in {name}, where the clock is put forward: {meant} is meant"
        ));
    }
    let offset = |instant| zone.offset_at(instant).local_minus_utc();
    let later = offset(anchor.instant + TimeDelta::hours(24));
    let back = TimeDelta::seconds(i64::from(offset(anchor.instant) - later));
    let is_repeated = back > TimeDelta::zero() && zone.to_local(anchor.instant + back) == anchor.local;
    is_repeated.then(|| {
        format!("{time} comes twice on {day} in {name}, where the clock is put back: the first is meant")
    })
}
