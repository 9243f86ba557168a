//! What does not fire, besides what is taken out of a series: it is told with its reason, and with the instant at which
//! nothing comes where it has one.

use crate::calendar::alarm::IgnoredPart;
use crate::calendar::event::Component;
use crate::calendar::event::Event;
use crate::preview::Line;
use crate::preview::ahead::Ahead;
use crate::preview::ahead::ask;
use crate::preview::ahead::main;
use crate::preview::ahead::timeless;
use crate::preview::words;
use crate::preview::written;
use crate::trigger::AlarmIdentity;
use crate::trigger::Place;
use crate::trigger::expand;
use crate::trigger::expand::EventAlarm;
use crate::trigger::expand::Firing;
use crate::trigger::expand::Outlook;
use crate::trigger::expand::Refusal;
use crate::trigger::expand::Why;

impl Ahead<'_> {
    /// A firing that is past is not worth a line, and neither is the reason why it was none.
    pub(super) fn refuse(&mut self, outlook: usize, refusal: Refusal) {
        // What stands in an override without alarms is told where the master would have fired.
        if refusal.why == Why::OverrideWithoutAlarm {
            return;
        }
        let (event, seen) = &self.outlooks[outlook];
        let mut place_after = |after: &Place| match refusal.why {
            Why::NotByTime => None,
            _ => ask(&mut self.steps, |budget| seen.silenced(&refusal, after, budget)),
        };
        let place = place_after(&Place::just_before(self.options.at));
        let further = place.is_some_and(|place| place_after(&place).is_some());
        let was = place.is_none() && place_after(&Place::FIRST).is_some();
        let identity = refusal.identity.clone();
        if was {
            let (identity, action) = (identity, refusal.action.clone());
            let alarm = EventAlarm {
                identity: identity.unwrap_or_else(|| AlarmIdentity(String::new())),
                action: action.unwrap_or_default(),
            };
            return self.is_past(outlook, Some(refusal), alarm);
        }
        let mut line = Line {
            occurrence: refusal.occurrence.map(written),
            alarm: identity.as_ref().map(ToString::to_string),
            action: refusal.action.clone(),
            timing: identity
                .as_ref()
                .and_then(|identity| seen.alarm(identity))
                .map(words::timing),
            ..timeless(event)
        };
        if let Some((identity, place)) = identity.zip(place) {
            if self.is_beyond(place.trigger_at) {
                return;
            }
            line = self.told(line, outlook, &identity, &place);
        }
        line.further = further;
        self.lines.push(line.because(refusal.why, refusal.reason));
    }

    /// What of the event's alarms is not even an alarm, or only a part of one.
    pub(super) fn left_out(&mut self, event: &Event) {
        for component in event.components() {
            for alarm in &component.unreadable {
                let line = Line {
                    alarm: alarm.identity.clone(),
                    action: alarm.action.clone(),
                    ..timeless(event)
                };
                let reason = format!("VALARM, line {}: {}", alarm.line, alarm.reason);
                self.lines.push(line.because(Why::AlarmUnreadable, reason));
            }
            for ignored in &component.ignored {
                let line = Line {
                    alarm: Some(ignored.identity.clone()),
                    action: Some(ignored.action.clone()),
                    ..timeless(event)
                };
                let why = match ignored.what {
                    IgnoredPart::Duplicate => Why::Duplicate,
                    IgnoredPart::Repeat => Why::RepeatIgnored,
                };
                let reason = format!("VALARM, line {}: {}", ignored.line, ignored.reason);
                self.lines.push(line.because(why, reason));
            }
        }
    }

    /// Versions of an occurrence that a newer one replaces (RFC 5545 section 3.8.7.4), if they have alarms.
    pub(super) fn superseded(&mut self, event: &Event, outlook: &Outlook<'_>) {
        for component in outlook.superseded() {
            for alarm in &component.alarms {
                let line = Line {
                    alarm: Some(alarm.identity.clone()),
                    action: Some(alarm.action.clone()),
                    timing: Some(words::timing(alarm)),
                    ..timeless(event)
                };
                let number = component.line;
                let reason = format!(
                    "the component of line {number} is replaced by a newer version, by SEQUENCE and DTSTAMP"
                );
                self.lines.push(line.because(Why::Superseded, reason));
            }
        }
    }

    /// Occurrences that are left out since another one is less than a minute before them.
    pub(super) fn too_close(&mut self, event: &Event, outlook: &Outlook<'_>) {
        for occurrence in outlook.too_close() {
            if self.options.at <= *occurrence && !self.is_beyond(*occurrence) {
                let line = Line {
                    occurrence: Some(written(*occurrence)),
                    at: Some(*occurrence),
                    ..timeless(event)
                };
                let reason = "this RDATE is less than a minute after another occurrence";
                self.lines.push(line.because(Why::TooOften, reason));
            }
        }
    }

    /// An event without alarms is told of unless it is over.
    pub(super) fn without_alarm(&mut self, event: &Event) {
        if !has_no_alarm(event) {
            return;
        }
        let master = main(event);
        let repeats = master.is_some_and(|master| !master.rules.is_empty() || !master.rdates.is_empty());
        let start = master
            .and_then(Component::base)
            .map(|base| base.instant(&self.options.owner.zone));
        let shown =
            start.and_then(|start| Some((start, expand::occurrence(event, &self.options.owner, start)?)));
        let mut line = timeless(event);
        if let Some((start, shown)) = shown {
            if !repeats && (shown.when.end() <= self.options.at || self.is_beyond(shown.when.start())) {
                return;
            }
            line.occurrence = Some(written(start));
            line.starts_at = Some(written(shown.when.start()));
            line.ends_at = Some(written(shown.when.end()));
        }
        self.lines
            .push(line.because(Why::NoAlarm, "it has no VALARM: it asks for no reminder"));
    }

    /// Until when a firing's alarm was acknowledged, where that covers it.
    pub(super) fn acknowledgement(
        &self,
        actual: usize,
        alarm: &EventAlarm,
        place: &Place,
    ) -> Option<(Why, String)> {
        let seen = &self.outlooks[actual].1;
        let at = seen.acknowledged(&alarm.identity, place)?;
        let (local, offset) = {
            let zone = &self.options.owner.zone;
            (zone.to_local(at).format(words::WALL), zone.offset_at(at))
        };
        Some((
            Why::Acknowledged,
            format!("it was acknowledged at {local} {offset}"),
        ))
    }

    pub(super) fn past_line(&mut self, outlook: usize, refusal: Option<Refusal>, alarm: &EventAlarm) -> Line {
        let (event, seen) = &self.outlooks[outlook];
        let at = self.options.at;
        let last = ask(&mut self.steps, |budget| match &refusal {
            None => seen
                .last(&alarm.identity, at, budget)
                .map(|Firing { place, .. }| place),
            Some(refusal) => seen.silenced(refusal, &Place::FIRST, budget),
        });
        let line = Line {
            alarm: Some(alarm.identity.to_string()),
            action: Some(alarm.action.clone()),
            timing: seen.alarm(&alarm.identity).map(words::timing),
            ..timeless(event)
        };
        let line = match &last {
            Some(place) => self.told(line, outlook, &alarm.identity, place),
            None => line,
        };
        match (refusal, last) {
            (Some(refusal), _) => line.because(refusal.why, refusal.reason),
            (None, Some(_)) => line.because(Why::Past, "this was its last firing"),
            (None, None) => line.because(Why::Acknowledged, "all of it was acknowledged"),
        }
    }
}

fn has_no_alarm(event: &Event) -> bool {
    event
        .components()
        .iter()
        .all(|component| component.alarms.is_empty() && component.unreadable.is_empty())
}
