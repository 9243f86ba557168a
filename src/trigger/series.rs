//! One wish over all copies of its event: two calendars that hold the same event for one person are one.

use std::cell::RefCell;
use std::time::Duration;

use chrono::DateTime;
use chrono::TimeDelta;
use chrono::Utc;

use crate::calendar::event::Event;
use crate::calendar::ical;
use crate::calendar::recurrence::Budget;
use crate::trigger::AlarmIdentity;
use crate::trigger::NewTrigger;
use crate::trigger::Place;
use crate::trigger::Wish;
use crate::trigger::expand;
use crate::trigger::expand::Firing;
use crate::trigger::expand::GaveUp;
use crate::trigger::expand::Person;

/// After its trigger instant an alarm is of use at least this long, however short its event is.
const USEFUL_FOR: TimeDelta = TimeDelta::minutes(5);

/// Firings in a row that are passed over one by one at the most: two weeks of one a minute.
const PASSED_OVER: usize = 20_000;

/// How late is too late.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lateness {
    /// How late a trigger may already be when its event is created or moved, and still be sent at once.
    pub grace: Duration,
    /// How long after its trigger instant a trigger is of use at the most.
    pub most: Duration,
}

impl Lateness {
    /// From when on a firing is too late to send: at the end of its occurrence, but at least five minutes and at most
    /// [`Lateness::most`] after its trigger instant.
    pub fn expires_at(&self, firing: &Firing) -> DateTime<Utc> {
        let trigger_at = firing.place.trigger_at;
        let useful = firing.ends_at.max(trigger_at + USEFUL_FOR);
        useful.min(trigger_at + TimeDelta::from_std(self.most).unwrap_or(TimeDelta::MAX))
    }

    /// The trigger of a firing.
    pub fn trigger(&self, wish: &Wish, firing: &Firing) -> NewTrigger {
        NewTrigger {
            wish: wish.clone(),
            place: firing.place,
            expires_at: self.expires_at(firing),
            has_more: firing.has_more,
            moved: false,
        }
    }

    /// The trigger of a firing that is past, where its event was moved at `now`: of use as if it were due now. Nothing
    /// follows it, since its series has gone on without it.
    pub fn notice(&self, wish: &Wish, firing: &Firing, now: DateTime<Utc>) -> NewTrigger {
        let useful = firing.ends_at.max(now + USEFUL_FOR);
        NewTrigger {
            wish: wish.clone(),
            place: firing.place,
            expires_at: useful.min(now + TimeDelta::from_std(self.most).unwrap_or(TimeDelta::MAX)),
            has_more: false,
            moved: true,
        }
    }
}

/// The event with this UID in an iCalendar text.
pub fn read_event(ics: &str, uid: &str) -> Result<Event, String> {
    let calendar = ical::parse(ics.as_bytes()).map_err(|error| error.to_string())?;
    if let Some(rejection) = calendar.rejected.first() {
        return Err(format!(
            "{} at line {}: {}",
            rejection.component, rejection.line, rejection.reason
        ));
    }
    let found = calendar.events.into_iter().find(|event| event.uid() == uid);
    found.ok_or_else(|| "the event is no longer in its own text".to_owned())
}

/// The sequence of firings of one alarm, over all copies of its event.
#[derive(Debug, Clone, Copy)]
pub struct Series<'a> {
    /// The copies.
    pub events: &'a [Event],
    /// For whom.
    pub person: &'a Person,
    /// Which alarm.
    pub identity: &'a AlarmIdentity,
    /// What all searches together may cost.
    pub budget: &'a RefCell<Budget>,
}

impl Series<'_> {
    /// The first firing strictly after `after`.
    pub fn next(&self, after: &Place) -> Result<Option<Firing>, GaveUp> {
        let mut first: Option<Firing> = None;
        let mut has_more = false;
        for event in self.events {
            if let Some(firing) = expand::next(
                event,
                self.person,
                self.identity,
                after,
                &mut self.budget.borrow_mut(),
            )? {
                has_more |= firing.has_more || first.as_ref().is_some_and(|it| it.place != firing.place);
                if first.as_ref().is_none_or(|it| firing.place < it.place) {
                    first = Some(firing);
                }
            }
        }
        Ok(first.map(|firing| Firing { has_more, ..firing }))
    }

    /// The first firing after `after` that is not to be passed over; `after` moves over those that are. Gives up rather
    /// than return one that is to be passed over.
    pub fn next_but(
        &self,
        after: &mut Place,
        is_passed_over: impl Fn(&Firing) -> bool,
    ) -> Result<Option<Firing>, GaveUp> {
        for _ in 0..PASSED_OVER {
            match self.next(after)? {
                Some(firing) if is_passed_over(&firing) => *after = firing.place,
                next => return Ok(next),
            }
        }
        Err(GaveUp(format!(
            "more than {PASSED_OVER} firings in a row are too late or were handed over"
        )))
    }

    /// The firing at exactly `place`, if a copy owes it. That another copy costs too much to ask, or what follows does,
    /// takes nothing from it: then there may be more.
    pub fn owed(&self, place: &Place) -> Result<Option<Firing>, GaveUp> {
        let mut found: Option<Firing> = None;
        let mut gave_up = None;
        for event in self.events {
            let mut budget = self.budget.borrow_mut();
            match expand::owed(event, self.person, self.identity, place, &mut budget) {
                Ok(Some(firing)) => {
                    let has_more = firing.has_more || found.as_ref().is_some_and(|it| it.has_more);
                    found = Some(Firing { has_more, ..firing });
                }
                Ok(None) => {}
                Err(error) => gave_up = Some(error),
            }
        }
        let Some(firing) = found else {
            return gave_up.map_or(Ok(None), Err);
        };
        let has_more = if self.events.len() < 2 {
            firing.has_more
        } else {
            self.next(place).map_or(true, |next| next.is_some())
        };
        Ok(Some(Firing { has_more, ..firing }))
    }

    /// How many firings lie after `after` and not after `until`: so many, or from `most` on at least so many.
    pub fn count(&self, after: &Place, until: &Place, most: u64) -> Result<u64, GaveUp> {
        let mut place = *after;
        let mut count = 0;
        while count < most {
            match self.next(&place)? {
                Some(firing) if firing.place <= *until => place = firing.place,
                _ => break,
            }
            count += 1;
        }
        Ok(count)
    }
}
