//! How a group is put right: pure, given the group and the time.

use std::cell::RefCell;

use chrono::DateTime;
use chrono::TimeDelta;
use chrono::Utc;

use crate::calendar::event::Event;
use crate::calendar::recurrence::Budget;
use crate::change::Policies;
use crate::change::asked::Asked;
use crate::change::moved;
use crate::change::moved::Moved;
use crate::change::overtaken;
use crate::store::Alarm;
use crate::store::Edit;
use crate::store::Group;
use crate::store::Record;
use crate::trigger::Place;
use crate::trigger::State;
use crate::trigger::Trigger;
use crate::trigger::TriggerId;
use crate::trigger::Wish;
use crate::trigger::expand::Firing;
use crate::trigger::expand::GaveUp;
use crate::trigger::expand::Person;
use crate::trigger::outcome::Outcome;
use crate::trigger::outcome::Reason;
use crate::trigger::series::Lateness;
use crate::trigger::series::Series;
use crate::trigger::series::read_event;

/// Firings behind a moved event are counted up to here: each costs a search, and everybody else waits for the change.
const COUNTED: u64 = 10;

/// Search steps that one event may cost, all its alarms together: some tens of milliseconds.
pub const MOST_STEPS: u32 = 300_000;

/// How many search steps it takes to find what the wishes of an event owe next after `now`; an error if more than
/// [`MOST_STEPS`].
pub fn cost(asked: &Asked, wishes: &[Wish], now: DateTime<Utc>) -> Result<u32, GaveUp> {
    let budget = RefCell::new(Budget { steps: MOST_STEPS });
    for wish in wishes {
        let series = Series {
            events: asked.heard_by(&wish.recipient),
            person: &asked.person,
            identity: &wish.identity,
            budget: &budget,
        };
        series.next(&Place::just_before(now))?;
    }
    Ok(MOST_STEPS - budget.into_inner().steps)
}

/// Puts `group` right.
pub fn edit(group: &Group, policies: &Policies, lateness: Lateness, now: DateTime<Utc>) -> Edit {
    let mut edit = Edit::default();
    let asked = Asked::of(
        read_copies(group, &mut edit),
        &group.owner,
        &group.answers,
        policies,
    );
    let wishes = asked.wishes(&group.uid, &group.owner, policies);
    let editing = Editing {
        group,
        asked: &asked,
        person: &asked.person,
        wishes: &wishes,
        lateness,
        now,
        budget: RefCell::new(Budget { steps: MOST_STEPS }),
    };
    let mut moved = Vec::new();
    for wish in &wishes {
        let mut draft = Draft::default();
        match editing.put_right(wish, &mut draft) {
            Ok(()) => {
                moved.extend(draft.moved.take());
                draft.add_to(&mut edit);
            }
            Err(gave_up) => editing.set_aside(wish, &gave_up, &mut edit),
        }
    }
    editing.tell_of_moves(moved, &mut edit);
    for trigger in &group.triggers {
        if !wishes.contains(&trigger.wish) {
            edit.withdraw.push(trigger.id);
        }
    }
    edit.record.extend(cancelled(group, &edit.withdraw, now));
    edit
}

/// What was due already and is withdrawn before it left: somebody will ask why it did not.
pub fn cancelled(group: &Group, withdrawn: &[TriggerId], now: DateTime<Utc>) -> Vec<Record> {
    let withdrawn = group.triggers.iter().filter(|it| withdrawn.contains(&it.id));
    let was_due = withdrawn.filter(|it| it.place.trigger_at <= now && it.state != State::Sending);
    was_due
        .map(|trigger| Record {
            wish: trigger.wish.clone(),
            place: trigger.place,
            outcome: Outcome::Cancelled,
            reason: Reason::Withdrawn,
            count: 1,
        })
        .collect()
}

/// The copies that can be read, each with its source.
fn read_copies<'a>(group: &'a Group, edit: &mut Edit) -> Vec<(&'a str, Event)> {
    let mut events = Vec::new();
    for copy in &group.copies {
        let quarantine = match read_event(&copy.ics, &group.uid) {
            Ok(event) => {
                events.push((copy.at.source.as_str(), event));
                None
            }
            Err(reason) => Some(reason),
        };
        if copy.quarantine != quarantine {
            edit.quarantine.push((copy.at.clone(), quarantine));
        }
    }
    events
}

/// What one wish contributes to the edit.
#[derive(Debug, Default)]
struct Draft {
    edit: Edit,
    moved: Option<Moved>,
}

impl Draft {
    fn add_to(self, edit: &mut Edit) {
        edit.alarms.extend(self.edit.alarms);
        edit.withdraw.extend(self.edit.withdraw);
        edit.adjust.extend(self.edit.adjust);
        edit.insert.extend(self.edit.insert);
        edit.record.extend(self.edit.record);
    }
}

struct Editing<'a> {
    group: &'a Group,
    asked: &'a Asked,
    person: &'a Person,
    wishes: &'a [Wish],
    lateness: Lateness,
    now: DateTime<Utc>,
    /// Shared by all alarms, so that many of them cost no more than one.
    budget: RefCell<Budget>,
}

impl Editing<'_> {
    fn put_right(&self, wish: &Wish, draft: &mut Draft) -> Result<(), GaveUp> {
        let series = Series {
            events: self.asked.heard_by(&wish.recipient),
            person: self.person,
            identity: &wish.identity,
            budget: &self.budget,
        };
        let known = self.group.alarms.iter().find(|alarm| alarm.wish == *wish);
        let known = known.and_then(|alarm| alarm.served_through);
        let mut served_through = known.max(self.sending(wish));
        let unserved = self.keep_what_is_owed(&series, wish, served_through, draft)?;
        // A trigger that is past but unsent stays what is owed next; its successor comes when it leaves.
        let past = unserved.iter().map(|trigger| trigger.place);
        let waiting = past.filter(|place| place.trigger_at <= self.now).max();
        let overtaken = self.overtaken(&series, wish, waiting.max(served_through));
        draft.edit.record.extend(overtaken);
        if waiting.is_none() {
            let next = self.next(&series, wish, &mut served_through, draft)?;
            for trigger in unserved
                .iter()
                .filter(|it| next.as_ref().is_none_or(|next| next.place != it.place))
            {
                draft.edit.withdraw.push(trigger.id);
                draft.edit.adjust.retain(|(id, _, _)| *id != trigger.id);
            }
            draft
                .edit
                .insert
                .extend(next.map(|firing| self.lateness.trigger(wish, &firing)));
        }
        draft.edit.alarms.push(Alarm {
            wish: wish.clone(),
            served_through,
        });
        Ok(())
    }

    /// The last place that has left planned/claimed though the wish may not remember it: the wish was dropped and comes
    /// back while its trigger is `sending`. Taken for unserved, it would end its series when it is settled.
    fn sending(&self, wish: &Wish) -> Option<Place> {
        let sending = self
            .group
            .triggers
            .iter()
            .filter(|it| it.wish == *wish && it.state == State::Sending);
        sending.map(|trigger| trigger.place).max()
    }

    /// Withdraws what is no longer owed; returns what is owed and was not served yet.
    fn keep_what_is_owed(
        &self,
        series: &Series<'_>,
        wish: &Wish,
        served_through: Option<Place>,
        draft: &mut Draft,
    ) -> Result<Vec<&Trigger>, GaveUp> {
        let mut unserved = Vec::new();
        for trigger in self.group.triggers.iter().filter(|trigger| trigger.wish == *wish) {
            let Some(firing) = series.owed(&trigger.place)? else {
                draft.edit.withdraw.push(trigger.id);
                continue;
            };
            // A notice is of use for longer than what it stands for, and nothing follows it.
            let (expires_at, has_more) = if trigger.moved {
                (trigger.expires_at, trigger.has_more)
            } else {
                (self.lateness.expires_at(&firing), firing.has_more)
            };
            let differs = (expires_at, has_more) != (trigger.expires_at, trigger.has_more);
            if differs || trigger.withdrawn {
                draft.edit.adjust.push((trigger.id, expires_at, has_more));
            }
            if served_through.is_none_or(|served| served < trigger.place) {
                unserved.push(trigger);
            }
        }
        Ok(unserved)
    }

    /// The firings before `end` that nothing is known of.
    fn overtaken(&self, series: &Series<'_>, wish: &Wish, end: Option<Place>) -> Option<Record> {
        let is_known = |firing: &Firing| {
            let id = self.lateness.trigger(wish, firing).id();
            self.group.handed_over.contains(&id) || self.group.triggers.iter().any(|it| it.id == id)
        };
        overtaken::record(series, wish, (end?, self.now, self.lateness), is_known).unwrap_or_default()
    }

    /// What is owed next. What is already too far past is stepped over, and so is what was handed over before.
    fn next(
        &self,
        series: &Series<'_>,
        wish: &Wish,
        served_through: &mut Option<Place>,
        draft: &mut Draft,
    ) -> Result<Option<Firing>, GaveUp> {
        let inherited = self.inherited(wish).map(|at| Place::just_before(at.trigger_at));
        let floor = inherited.into_iter().fold(self.floor(), Place::min);
        let known = self.group.alarms.iter().any(|alarm| alarm.wish == *wish);
        let start = served_through.unwrap_or(Place::FIRST);
        let mut after = start;
        if let Some(past) = series.next(&start)?.filter(|firing| firing.place <= floor) {
            after = floor;
            // A series that is new to us has its past behind it; there is nothing to say about that.
            if known || series.next(&floor)?.is_none() {
                let count = if known {
                    series.count(&start, &floor, COUNTED)?
                } else {
                    1
                };
                let record = overtaken::past(wish, past.place, count);
                draft.moved = self.moved(series, start, &record, draft)?;
                if draft.moved.is_none() {
                    draft.edit.record.push(record);
                }
            }
        }
        let next = series.next_but(&mut after, |firing| {
            let id = self.lateness.trigger(wish, firing).id();
            self.group.handed_over.contains(&id)
        })?;
        if after > start {
            *served_through = Some(after);
        }
        Ok(next)
    }

    /// What waits to be sent in another way, is in time, and is no longer to go that way: it is owed still.
    fn inherited(&self, wish: &Wish) -> Option<Place> {
        let is_the_same = |before: &Wish| {
            before.identity == wish.identity
                && before.recipient == wish.recipient
                && before.channel != wish.channel
        };
        let triggers = self.group.triggers.iter();
        let waiting =
            triggers.filter(|it| it.state != State::Sending && !it.withdrawn && it.expires_at > self.now);
        let inherited = waiting.filter(|it| is_the_same(&it.wish) && !self.wishes.contains(&it.wish));
        inherited.map(|it| it.place).min()
    }

    /// What is not after it is too far past.
    fn floor(&self) -> Place {
        Place::just_before(self.now - TimeDelta::from_std(self.lateness.grace).unwrap_or_default())
    }

    /// What this edit moves into the past of what is recorded as `all`, if it does.
    fn moved(
        &self,
        series: &Series<'_>,
        start: Place,
        all: &Record,
        draft: &Draft,
    ) -> Result<Option<Moved>, GaveUp> {
        let (wish, floor) = (&all.wish, self.floor());
        let Some(firing) = moved::last_unstarted(series, start, floor, self.now)? else {
            return Ok(None);
        };
        let owed =
            self.group.triggers.iter().filter(|trigger| {
                trigger.state != State::Sending && draft.edit.withdraw.contains(&trigger.id)
            });
        let was_moved = owed
            .into_iter()
            .any(|before| moved::is_move(before, &firing, floor));
        let id = self.lateness.trigger(wish, &firing).id();
        if !was_moved || self.group.handed_over.contains(&id) {
            return Ok(None);
        }
        let others = if all.count <= 1 {
            None
        } else if all.place == firing.place {
            let next = series.next(&firing.place)?;
            next.map(|next| overtaken::past(wish, next.place, all.count - 1))
        } else {
            Some(overtaken::past(wish, all.place, all.count - 1))
        };
        Ok(Some(Moved {
            wish: wish.clone(),
            firing,
            all: all.clone(),
            others,
        }))
    }

    /// One notice for each recipient and channel of an event that was moved past all its alarms.
    fn tell_of_moves(&self, moved: Vec<Moved>, edit: &mut Edit) {
        let (spokesmen, silent) = moved::spokesmen(moved);
        edit.record.extend(silent.into_iter().map(|moved| moved.all));
        for moved in spokesmen {
            if self.speaks_later(&moved) {
                edit.record.push(moved.all);
            } else {
                edit.record.extend(moved.others);
                let notice = self.lateness.notice(&moved.wish, &moved.firing, self.now);
                edit.insert.push(notice);
            }
        }
    }

    /// Whether the same recipient will be told of the occurrence anyway, through the same channel. An alarm that cannot be
    /// followed says nothing.
    fn speaks_later(&self, moved: &Moved) -> bool {
        let of = |wish: &Wish| (wish.channel, wish.recipient.clone());
        let same = self.wishes.iter().filter(|wish| of(wish) == of(&moved.wish));
        same.into_iter().any(|wish| {
            let series = Series {
                events: self.asked.heard_by(&wish.recipient),
                person: self.person,
                identity: &wish.identity,
                budget: &self.budget,
            };
            moved::speaks_later(&series, moved.firing.place.occurrence, self.floor()).unwrap_or(false)
        })
    }

    /// A wish whose firings cannot be found is withdrawn, and its copies are set aside with the reason.
    fn set_aside(&self, wish: &Wish, gave_up: &GaveUp, edit: &mut Edit) {
        edit.alarms.extend(
            self.group
                .alarms
                .iter()
                .find(|alarm| alarm.wish == *wish)
                .cloned(),
        );
        let held = self.group.triggers.iter().filter(|trigger| trigger.wish == *wish);
        edit.withdraw.extend(held.map(|trigger| trigger.id));
        for copy in &self.group.copies {
            edit.quarantine.retain(|(at, _)| *at != copy.at);
            if copy.quarantine.as_ref() != Some(&gave_up.0) {
                edit.quarantine.push((copy.at.clone(), Some(gave_up.0.clone())));
            }
        }
    }
}
