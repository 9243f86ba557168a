//! An event as one person sees it, read once and asked many questions: what fires next, how that came about, and what
//! took a firing out.

use chrono::DateTime;
use chrono::Utc;

use crate::calendar::alarm::Alarm;
use crate::calendar::alarm::AlarmTrigger;
use crate::calendar::alarm::Related;
use crate::calendar::event::Component;
use crate::calendar::event::Event;
use crate::calendar::moment::Anchor;
use crate::calendar::recurrence::Budget;
use crate::trigger::AlarmIdentity;
use crate::trigger::Place;
use crate::trigger::expand::EventAlarm;
use crate::trigger::expand::Firing;
use crate::trigger::expand::GaveUp;
use crate::trigger::expand::Person;
use crate::trigger::expand::Refusal;
use crate::trigger::expand::alarms_of;
use crate::trigger::expand::appearance;
use crate::trigger::expand::before;
use crate::trigger::expand::instance::Instance;
use crate::trigger::expand::next_of;
use crate::trigger::expand::search::Search;
use crate::trigger::expand::series::Series;
use crate::trigger::expand::voices;
use crate::trigger::expand::voices::Role;
use crate::trigger::expand::voices::Voice;
use crate::trigger::expand::why::Refused;
use crate::trigger::expand::why::Why;

/// How often the span in which the last firing lies is halved: enough for any two years, to the second.
const HALVINGS: usize = 48;

/// An event as one person sees it.
#[derive(Debug)]
pub struct Outlook<'a> {
    event: &'a Event,
    person: &'a Person,
    series: Series<'a>,
    voices: Vec<Voice<'a>>,
}

/// How a firing came about.
#[derive(Debug, Clone)]
pub struct Account<'a> {
    /// The component whose alarm it is.
    pub component: &'a Component,
    /// What that component speaks for.
    pub speaker: Speaker,
    /// The alarm.
    pub alarm: &'a Alarm,
    /// The occurrence as the master has it, on the clock of DTSTART; none where there is no such occurrence.
    pub slot: Option<Anchor>,
    /// When the occurrence starts; none for a task without DTSTART.
    pub start: Option<Anchor>,
    /// When it ends; none where nobody knows.
    pub end: Option<Anchor>,
    /// The instant of the first firing, repeats not counted.
    pub first: Anchor,
}

/// What a component speaks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speaker {
    /// All occurrences that no override speaks for.
    Master,
    /// An occurrence and all that follow.
    ThisAndFuture,
    /// One occurrence.
    Single,
}

impl<'a> Outlook<'a> {
    /// Reads the event for the person. The error says which rule cannot be followed.
    pub fn new(event: &'a Event, person: &'a Person) -> Result<Self, GaveUp> {
        let series = Series::new(event, person)?;
        Ok(Self {
            event,
            person,
            voices: voices::all(&series, person),
            series,
        })
    }

    /// As [`crate::trigger::expand::alarms`].
    pub fn alarms(&self) -> (Vec<EventAlarm>, Vec<Refusal>) {
        alarms_of(&self.series, &self.voices)
    }

    /// As [`crate::trigger::expand::next`].
    pub fn next(
        &self,
        identity: &AlarmIdentity,
        after: &Place,
        budget: &mut Budget,
    ) -> Result<Option<Firing>, GaveUp> {
        next_of(&self.series, &self.voices, identity, after, budget)
    }

    /// The last firing of an alarm that has none at or after `end`; none where it never fired or cannot be followed.
    pub fn last(&self, identity: &AlarmIdentity, end: DateTime<Utc>, budget: &mut Budget) -> Option<Firing> {
        let mut last = self.next(identity, &Place::FIRST, budget).ok()??;
        let mut end = end;
        for _ in 0..HALVINGS {
            let middle = last.place.trigger_at + (end - last.place.trigger_at) / 2;
            let after = Place::just_before(middle).max(last.place);
            match self.next(identity, &after, budget).ok()? {
                Some(later) => last = later,
                None if after == last.place => break,
                None => end = middle,
            }
        }
        Some(last)
    }

    /// Where an alarm that was refused would fire next after `after`, were it not refused; none where that has no
    /// meaning.
    pub fn silenced(&self, refusal: &Refusal, after: &Place, budget: &mut Budget) -> Option<Place> {
        let meant: Vec<&Voice<'_>> = self
            .voices
            .iter()
            .filter(|voice| voice.refusal(&self.series).as_ref() == Some(refusal))
            .collect();
        let found = Search::new(&self.series, after).run(&meant, budget);
        found.ok().flatten().map(|hit| hit.place)
    }

    /// What took out a firing that the event would have, were it unhindered; none where it has it.
    pub fn hindrance(
        &self,
        identity: &AlarmIdentity,
        place: &Place,
        budget: &mut Budget,
    ) -> Result<Option<Refused>, GaveUp> {
        let owed = self.next(identity, &before(place), budget)?;
        if owed.is_some_and(|firing| firing.place == *place) {
            return Ok(None);
        }
        if let Some(single) = self.series.singles.get(&place.occurrence) {
            return Ok(self.replacement(single, identity, place.occurrence));
        }
        let base = self.series.base.as_ref();
        let is_excluded = base.is_some_and(|base| {
            self.series
                .is_removed(&Anchor::at_instant(place.occurrence, &base.zone))
        });
        if is_excluded {
            return Ok(Some(Why::Excluded.because("EXDATE takes this occurrence out")));
        }
        Ok(None)
    }

    /// How an override takes the place of a firing of the master; none where a refusal of its own alarm tells it.
    fn replacement(
        &self,
        single: &Component,
        identity: &AlarmIdentity,
        occurrence: DateTime<Utc>,
    ) -> Option<Refused> {
        let has_it = single.alarms.iter().any(|alarm| alarm.identity == identity.0);
        if let Some(silence) = voices::silence(single, self.person) {
            let reason = match silence.why {
                Why::Cancelled => "an override cancels this occurrence".to_owned(),
                _ => format!("in the override of this occurrence {}", silence.reason),
            };
            return (!has_it).then(|| silence.why.because(reason));
        }
        if single.alarms.is_empty() {
            return Some(Why::OverrideWithoutAlarm.because("the override of this occurrence has no alarm"));
        }
        let instance = self.series.single(occurrence, single)?;
        let start = instance.start.or(instance.end)?;
        let is_moved = start.instant != occurrence;
        let reason = if is_moved {
            let (local, zone) = (start.local.format("%a %Y-%m-%d %H:%M"), start.zone.name());
            format!("an override moves this occurrence to {local} in {zone}")
        } else {
            "an override gives this occurrence alarms of its own".to_owned()
        };
        Some(Why::Replaced.because(reason))
    }

    /// Until when an alarm is acknowledged, where that takes out the firing at `place`.
    pub fn acknowledged(&self, identity: &AlarmIdentity, place: &Place) -> Option<DateTime<Utc>> {
        let heard = self
            .voices
            .iter()
            .filter(|voice| voice.refused.is_none() && voice.alarm.identity == identity.0);
        heard
            .filter(|voice| self.account_of(voice, place).is_some())
            .find_map(|voice| voice.alarm.acknowledged.filter(|at| place.trigger_at <= *at))
    }

    /// How a firing came about, or one that was refused.
    pub fn account(&self, identity: &AlarmIdentity, place: &Place) -> Option<Account<'a>> {
        self.voices
            .iter()
            .filter(|voice| voice.alarm.identity == identity.0)
            .find_map(|voice| self.account_of(voice, place))
    }

    fn account_of(&self, voice: &Voice<'a>, place: &Place) -> Option<Account<'a>> {
        let instance = match (&voice.alarm.trigger, voice.role) {
            (AlarmTrigger::Absolute(_), _) => voice.instance(&self.series),
            (AlarmTrigger::Relative { .. }, role) => Some(self.instance(voice, role, place.occurrence)?),
        };
        let first = match &voice.alarm.trigger {
            AlarmTrigger::Absolute(time) => time.anchor(self.series.zone),
            AlarmTrigger::Relative { span, related } => {
                let instance = instance.as_ref()?;
                let anchor = match related {
                    Related::Start => instance.start.as_ref()?,
                    Related::End => instance.end.as_ref()?,
                };
                anchor.plus(*span)
            }
        };
        let at = first.plus(voice.alarm.every.times(place.repeat)).instant;
        let (start, end) = instance.map_or((None, None), |instance| (instance.start, instance.end));
        (at == place.trigger_at).then(|| Account {
            component: voice.component,
            speaker: self.speaker(voice.role),
            alarm: voice.alarm,
            slot: self.slot(place.occurrence),
            start,
            end,
            first,
        })
    }

    fn instance(&self, voice: &Voice<'a>, role: Role, occurrence: DateTime<Utc>) -> Option<Instance> {
        match role {
            Role::Single(own) => (own == occurrence)
                .then(|| self.series.single(own, voice.component))
                .flatten(),
            Role::Segment(index) => {
                let segment = &self.series.segments[index];
                let slot = appearance::slot(&self.series, occurrence)?;
                segment
                    .covers(occurrence)
                    .then(|| self.series.instance(segment, &slot))
            }
        }
    }

    fn speaker(&self, role: Role) -> Speaker {
        match role {
            Role::Single(_) => Speaker::Single,
            Role::Segment(index) if self.series.segments[index].from.is_some() => Speaker::ThisAndFuture,
            Role::Segment(_) => Speaker::Master,
        }
    }

    fn slot(&self, occurrence: DateTime<Utc>) -> Option<Anchor> {
        let base = self.series.base.as_ref()?;
        let slot = appearance::slot(&self.series, occurrence).map(|slot| slot.at);
        Some(slot.unwrap_or_else(|| Anchor::at_instant(occurrence, &base.zone)))
    }

    /// Components that speak for nothing, since a newer version of the same does.
    pub fn superseded(&self) -> impl Iterator<Item = &'a Component> {
        let segments = self.series.segments.iter().map(|segment| segment.component);
        let speaking: Vec<&Component> = segments.chain(self.series.singles.values().copied()).collect();
        self.event
            .components()
            .iter()
            .filter(move |component| !speaking.iter().any(|other| std::ptr::eq(*other, *component)))
    }

    /// Occurrences that are left out because another one is less than a minute before them.
    pub fn too_close(&self) -> &[DateTime<Utc>] {
        &self.series.too_close
    }

    /// The alarm of that identity, refused or not.
    pub fn alarm(&self, identity: &AlarmIdentity) -> Option<&'a Alarm> {
        let voice = self
            .voices
            .iter()
            .find(|voice| voice.alarm.identity == identity.0)?;
        Some(voice.alarm)
    }
}
