//! The firings of all events, merged in order of time, and beside them what does not fire.

mod silent;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use chrono::DateTime;
use chrono::Utc;

use crate::calendar::event::Component;
use crate::calendar::event::Event;
use crate::calendar::ical::Calendar;
use crate::calendar::recurrence::Budget;
use crate::preview::Carried;
use crate::preview::Following;
use crate::preview::Line;
use crate::preview::Options;
use crate::preview::Preview;
use crate::preview::cases::Case;
use crate::preview::explain;
use crate::preview::words;
use crate::preview::written;
use crate::trigger::AlarmIdentity;
use crate::trigger::Place;
use crate::trigger::Recipient;
use crate::trigger::expand::EventAlarm;
use crate::trigger::expand::GaveUp;
use crate::trigger::expand::Outlook;
use crate::trigger::expand::Refusal;
use crate::trigger::expand::Why;
use crate::trigger::preferences::Preferences;

/// Search steps that all questions together may cost; some seconds at worst.
const STEPS: u64 = 20_000_000;

/// Search steps that are left to a question when those are spent, so that a hostile event hides no other.
const STEPS_ALWAYS: u64 = 2_000;

/// Firings beyond the limit that are counted at the most.
const COUNTED: usize = 1_000;

/// Firings in a row that are taken out at the most: more EXDATEs than that no event has.
const TAKEN_OUT: usize = 20_000;

/// What a walker finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Finds {
    Firings,
    Acknowledged,
    TakenOut,
}

/// One alarm on its way through its firings.
struct Walker {
    outlook: usize,
    /// What the firings are compared with.
    actual: usize,
    alarm: EventAlarm,
    finds: Finds,
    /// How many in a row it found that do not fire.
    silent: usize,
}

/// All alarms on their way.
pub(super) struct Ahead<'a> {
    options: &'a Options,
    calendar: &'a Calendar,
    outlooks: Vec<(&'a Event, Outlook<'a>, Recipient)>,
    walkers: Vec<Walker>,
    queue: BinaryHeap<Reverse<(Place, usize, Ends)>>,
    past: Vec<(usize, Option<Refusal>, EventAlarm)>,
    past_alarms: usize,
    lines: Vec<Line>,
    steps: u64,
}

/// The bounds of the occurrence that a firing belongs to.
type Ends = (DateTime<Utc>, DateTime<Utc>);

impl<'a> Ahead<'a> {
    pub(super) fn new(calendar: &'a Calendar, options: &'a Options) -> Self {
        let lines = calendar.rejected.iter().map(|rejection| {
            let (component, line, reason) = (&rejection.component, rejection.line, &rejection.reason);
            let reason = format!("{component}, line {line}: {reason}");
            Line::of(rejection.uid.as_deref()).because(Why::EventUnreadable, reason)
        });
        Self {
            options,
            calendar,
            outlooks: Vec::new(),
            walkers: Vec::new(),
            queue: BinaryHeap::new(),
            past: Vec::new(),
            past_alarms: 0,
            lines: lines.collect(),
            steps: STEPS,
        }
    }

    /// Adds an event.
    pub(super) fn add(&mut self, case: &'a Case<'a>) {
        if case.recipient != Recipient::Owner {
            return self.add_other(case);
        }
        self.left_out(case.event);
        let outlook = match Outlook::new(case.event, &self.options.owner) {
            Ok(outlook) => outlook,
            Err(GaveUp(reason)) => {
                let line = timeless(case.event);
                self.lines.push(line.because(Why::RuleUnreadable, reason));
                return;
            }
        };
        let (alarms, refusals) = outlook.alarms();
        if alarms.is_empty() && refusals.is_empty() {
            self.without_alarm(case.event);
        }
        self.superseded(case.event, &outlook);
        if !alarms.is_empty() {
            self.too_close(case.event, &outlook);
        }
        let actual = self.outlooks.len();
        self.outlooks.push((case.event, outlook, Recipient::Owner));
        for refusal in refusals {
            self.refuse(actual, refusal);
        }
        let waiting = self.queue.len();
        self.walk(actual, actual, alarms, Finds::Firings);
        if waiting < self.queue.len() {
            self.untold(case.event, &case.refused);
        }
        self.walk_unhindered(actual, case);
    }

    /// What the alarms of an event tell others; what does not fire is told for the owner alone.
    fn add_other(&mut self, case: &'a Case<'a>) {
        let Ok(outlook) = Outlook::new(case.event, &self.options.owner) else {
            return;
        };
        let (alarms, _) = outlook.alarms();
        self.outlooks.push((case.event, outlook, case.recipient.clone()));
        let actual = self.outlooks.len() - 1;
        self.walk(actual, actual, alarms, Finds::Firings);
        self.walk_unhindered(actual, case);
    }

    fn walk_unhindered(&mut self, actual: usize, case: &'a Case<'a>) {
        for (event, finds) in [
            (&case.unacknowledged, Finds::Acknowledged),
            (&case.undisturbed, Finds::TakenOut),
        ] {
            let unhindered = event
                .as_ref()
                .and_then(|event| Some((event, Outlook::new(event, &self.options.owner).ok()?)));
            if let Some((event, outlook)) = unhindered {
                let alarms = outlook.alarms().0;
                self.outlooks.push((event, outlook, case.recipient.clone()));
                self.walk(self.outlooks.len() - 1, actual, alarms, finds);
            }
        }
    }

    fn walk(&mut self, outlook: usize, actual: usize, alarms: Vec<EventAlarm>, finds: Finds) {
        for alarm in alarms {
            let is_carried = not_carried(self.options.carried, &alarm.action).is_none();
            if finds != Finds::Firings && !is_carried {
                continue;
            }
            self.walkers.push(Walker {
                outlook,
                actual,
                alarm,
                finds,
                silent: 0,
            });
            let walker = self.walkers.len() - 1;
            let is_past = !self.advance(walker, &Place::just_before(self.options.at));
            let alarm = self.walkers[walker].alarm.clone();
            let is_own = self.outlooks[outlook].2 == Recipient::Owner;
            if is_past && is_own && finds == Finds::Firings && !self.is_acknowledged(outlook, &alarm) {
                self.is_past(outlook, None, alarm);
            }
        }
    }

    /// Puts the next firing of a walker into the queue. False where there is none.
    fn advance(&mut self, walker: usize, after: &Place) -> bool {
        let Walker {
            outlook,
            alarm,
            finds,
            ..
        } = &self.walkers[walker];
        let (event, outlook, recipient) = &self.outlooks[*outlook];
        match ask(&mut self.steps, |budget| {
            outlook.next(&alarm.identity, after, budget)
        }) {
            Ok(Some(firing)) => {
                let ends = (firing.starts_at, firing.ends_at);
                self.queue.push(Reverse((firing.place, walker, ends)));
            }
            Ok(None) => return false,
            Err(GaveUp(reason)) if *finds == Finds::Firings => {
                let line = Line {
                    alarm: Some(alarm.identity.to_string()),
                    action: Some(alarm.action.clone()),
                    timing: outlook.alarm(&alarm.identity).map(words::timing),
                    recipient: recipient.to_string(),
                    ..timeless(event)
                };
                self.lines.push(line.because(Why::TooCostly, reason));
            }
            Err(_) => {}
        }
        true
    }

    /// Whether an alarm was acknowledged since we look: then its firings since have lines of their own.
    fn is_acknowledged(&self, outlook: usize, alarm: &EventAlarm) -> bool {
        let alarm = self.outlooks[outlook].1.alarm(&alarm.identity);
        alarm
            .and_then(|alarm| alarm.acknowledged)
            .is_some_and(|at| self.options.at <= at)
    }

    fn is_past(&mut self, outlook: usize, refusal: Option<Refusal>, alarm: EventAlarm) {
        self.past_alarms += 1;
        if self.past.len() < self.options.past {
            self.past.push((outlook, refusal, alarm));
        }
    }

    fn is_beyond(&self, time: DateTime<Utc>) -> bool {
        self.options.until.is_some_and(|until| until < time)
    }

    /// A line with all that is known about a firing.
    fn told(&self, line: Line, outlook: usize, identity: &AlarmIdentity, place: &Place) -> Line {
        let (event, outlook, recipient) = &self.outlooks[outlook];
        let mut line = Line {
            recipient: recipient.to_string(),
            occurrence: Some(written(place.occurrence)),
            alarm: Some(identity.to_string()),
            repeat: Some(place.repeat),
            ..line.at(place.trigger_at)
        };
        let Some(account) = outlook.account(identity, place) else {
            return line;
        };
        let summary = account.component.words.summary.clone();
        line.summary = Some(summary).filter(|summary| !summary.is_empty());
        line.action = Some(account.alarm.action.clone());
        line.timing = Some(words::timing(account.alarm));
        line.repeats = Some(account.alarm.repeat);
        let (start, end) = (account.start.as_ref(), account.end.as_ref());
        line.starts_at = start.or(end).map(|anchor| written(anchor.instant));
        line.ends_at = end.or(start).map(|anchor| written(anchor.instant));
        line.notes = words::clock_changes(&account);
        if self.options.is_explained {
            let owner = &self.options.owner.zone;
            line.explanation = explain::steps(event, &account, place, &self.calendar.zones, owner);
        }
        line
    }

    /// Takes the earliest firing of all, as often as is asked for. What does not fire is listed, but does not count.
    fn list(&mut self) -> Following {
        let mut listed = 0;
        while let Some(Reverse((place, walker, ends))) = self.queue.pop() {
            if self.is_beyond(place.trigger_at) {
                break;
            }
            let is_firing = self.walkers[walker].finds == Finds::Firings;
            if listed >= self.options.limit && is_firing {
                self.queue.push(Reverse((place, walker, ends)));
                return self.following();
            }
            if !is_firing {
                self.list_silent(walker, &place);
                self.walkers[walker].silent += 1;
                // One that is silent for so long ends here, and hides no other.
                if self.walkers[walker].silent <= TAKEN_OUT {
                    self.advance(walker, &place);
                }
                continue;
            }
            let Walker { outlook, alarm, .. } = &self.walkers[walker];
            let line = self.told(
                timeless(self.outlooks[*outlook].0),
                *outlook,
                &alarm.identity,
                &place,
            );
            let line = Line {
                starts_at: Some(written(ends.0)),
                ends_at: Some(written(ends.1)),
                action: Some(alarm.action.clone()),
                ..line
            };
            if let Some(reason) = not_carried(self.options.carried, &alarm.action) {
                let further = self.has_next(walker, &place);
                self.lines.push(Line {
                    further,
                    ..line.because(Why::NotCarried, reason)
                });
            } else {
                self.lines.push(line);
                listed += 1;
                self.advance(walker, &place);
            }
        }
        Following::default()
    }

    fn has_next(&mut self, walker: usize, place: &Place) -> bool {
        let Walker { outlook, alarm, .. } = &self.walkers[walker];
        let outlook = &self.outlooks[*outlook].1;
        let next = ask(&mut self.steps, |budget| {
            outlook.next(&alarm.identity, place, budget)
        });
        matches!(next, Ok(Some(_)))
    }

    /// A firing of the event as it would be unhindered: told where the event does not have it.
    fn list_silent(&mut self, walker: usize, place: &Place) {
        let Walker {
            outlook,
            actual,
            alarm,
            finds,
            ..
        } = &self.walkers[walker];
        let seen = &self.outlooks[*actual].1;
        let refused = match finds {
            Finds::Acknowledged => self.acknowledgement(*actual, alarm, place),
            _ => ask(&mut self.steps, |budget| {
                seen.hindrance(&alarm.identity, place, budget)
            })
            .ok()
            .flatten()
            .map(|refused| (refused.why, refused.reason)),
        };
        if let Some((why, reason)) = refused {
            let line = timeless(self.outlooks[*outlook].0);
            let line = self.told(line, *outlook, &alarm.identity, place);
            self.lines.push(line.because(why, reason));
        }
    }

    /// Counts what is left in the queue.
    fn following(&mut self) -> Following {
        let mut following = Following::default();
        while let Some(Reverse((place, walker, _))) = self.queue.pop() {
            if self.is_beyond(place.trigger_at) {
                break;
            }
            let Walker { alarm, finds, .. } = &self.walkers[walker];
            if *finds != Finds::Firings || not_carried(self.options.carried, &alarm.action).is_some() {
                continue;
            }
            following.next_at = following.next_at.or(Some(place.trigger_at));
            following.count += 1;
            if self.options.until.is_none() || following.count > COUNTED {
                return following;
            }
            self.advance(walker, &place);
        }
        following.is_all = true;
        following
    }

    /// All that was found out.
    pub(super) fn finish(mut self) -> Preview {
        let following = self.list();
        self.lines.sort_by_key(|line| (line.at.is_none(), line.at));
        let mut past = std::mem::take(&mut self.past);
        if self.past_alarms > self.options.past {
            past.clear();
        }
        let past = past
            .into_iter()
            .map(|(outlook, refusal, alarm)| self.past_line(outlook, refusal, &alarm));
        let past = past.collect();
        Preview {
            lines: self.lines,
            past,
            past_alarms: self.past_alarms,
            following,
            until: self.options.until,
            zones: self.calendar.zones.iter().map(explain::taken).collect(),
            warnings: self.calendar.warnings.clone(),
            rejected: self.calendar.rejected.clone(),
            ..Preview::default()
        }
    }
}

/// A line about an event, without an instant.
fn timeless(event: &Event) -> Line {
    let summary = main(event).map(|component| component.words.summary.clone());
    Line {
        summary: summary.filter(|summary| !summary.is_empty()),
        ..Line::of(Some(event.uid()))
    }
}

/// Asks a question within what is left of the steps.
fn ask<T>(steps: &mut u64, question: impl FnOnce(&mut Budget) -> T) -> T {
    let most = u64::from(Budget::default().steps).min((*steps).max(STEPS_ALWAYS));
    let mut budget = Budget {
        steps: u32::try_from(most).unwrap_or(u32::MAX),
    };
    let answer = question(&mut budget);
    *steps = steps.saturating_sub(most - u64::from(budget.steps).min(most));
    answer
}

fn not_carried(carried: Option<Carried>, action: &str) -> Option<String> {
    let Carried { by, display } = carried?;
    let channels = Preferences::default().channels(action, display);
    if channels.contains(&by) {
        return None;
    }
    Some(if channels.is_empty() {
        format!("ACTION:{action} is for the person's own client, not for {by}")
    } else {
        format!("ACTION:{action} leaves by {by} only for an owner whose `routes` say so")
    })
}

/// The component that speaks for the event: the master, else the first override.
fn main(event: &Event) -> Option<&Component> {
    let master = event
        .components()
        .iter()
        .find(|component| component.recurrence_id.is_none());
    master.or(event.components().first())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_costs_what_it_takes_and_is_always_given_something() {
        let mut steps = 300_000;
        let all = |budget: &mut Budget| std::mem::take(&mut budget.steps);
        assert_eq!(ask(&mut steps, all), 200_000);
        assert_eq!(ask(&mut steps, |budget| budget.steps), 100_000);
        assert_eq!(steps, 100_000);
        assert_eq!(ask(&mut steps, all), 100_000);
        assert_eq!((ask(&mut steps, all), steps), (2_000, 0));
    }
}
