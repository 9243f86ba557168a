//! What owners answer to reminders: each answer is decided on what is stored, and written if that still is so.

use chrono::DateTime;
use chrono::Utc;

use crate::calendar::event::Event;
use crate::calendar::event::Occurrence;
use crate::change::ChangeHandler;
use crate::change::Policies;
use crate::change::to_the_end;
use crate::store::Answering;
use crate::store::Delivery;
use crate::store::Group;
use crate::store::StoreError;
use crate::trigger::OwnerId;
use crate::trigger::Recipient;
use crate::trigger::State;
use crate::trigger::answers::Act;
use crate::trigger::answers::Answers;
use crate::trigger::answers::Refusal;
use crate::trigger::answers::Told;
use crate::trigger::expand;
use crate::trigger::expand::Person;
use crate::trigger::series::read_event;

/// How often an answer is decided anew where another came between.
const TRIES: usize = 5;

/// An event, and what its owner answered to reminders of it.
#[derive(Debug)]
pub struct Answered {
    group: Group,
    /// As their owner reads the copies, before anything was answered.
    events: Vec<Event>,
    person: Person,
}

impl Answered {
    fn of(group: Group, policies: &Policies) -> Self {
        let copies = group.copies.iter();
        let read = copies
            .filter_map(|copy| Some((copy.at.source.as_str(), read_event(&copy.ics, &group.uid).ok()?)));
        let mut read: Vec<(&str, Event)> = read.collect();
        policies.defaults.complete(&mut read, &group.owner.preferences);
        let events = read.into_iter().map(|(_, event)| event).collect();
        let person = group.owner.person_by(policies.choices);
        Self {
            group,
            events,
            person,
        }
    }

    /// What was answered.
    pub const fn answers(&self) -> &Answers {
        &self.group.answers
    }

    /// The copies as their owner hears them now.
    pub fn heard(&self) -> Vec<Event> {
        let mut events = self.events.clone();
        for event in &mut events {
            self.group.answers.read_into(event, &self.person);
        }
        events
    }

    /// The occurrence with this RECURRENCE-ID, if it takes place.
    pub fn occurrence(&self, at: DateTime<Utc>) -> Option<Occurrence> {
        let mut events = self.events.iter();
        events.find_map(|event| expand::occurrence(event, &self.person, at))
    }

    /// When the owner is reminded next, of all alarms or of the one with this identity.
    pub fn next(&self, identity: Option<&str>) -> Option<DateTime<Utc>> {
        let owed = self.group.triggers.iter().filter(|trigger| {
            !trigger.withdrawn
                && trigger.state != State::Sending
                && trigger.wish.recipient == Recipient::Owner
        });
        let owed = owed.filter(|trigger| identity.is_none_or(|identity| trigger.wish.identity.0 == identity));
        owed.map(|trigger| trigger.place.trigger_at).min()
    }

    fn told(&self, delivery: &Delivery) -> Told {
        Told {
            trigger: delivery.id,
            identity: delivery.wish.identity.0.clone(),
            place: delivery.place,
            starts_at: self
                .occurrence(delivery.place.occurrence)
                .map(|occurrence| occurrence.when.start()),
        }
    }
}

impl ChangeHandler {
    /// What is answered to reminders of an event of `owner`, and what follows from it; none where there is no such event.
    pub async fn answered(&self, owner: &OwnerId, uid: &str) -> Result<Option<Answered>, StoreError> {
        let group = self.store.group(owner, uid).await?;
        let group = group.filter(|group| !group.copies.is_empty());
        Ok(group.map(|group| Answered::of(group, &self.config.borrow().policies)))
    }

    /// Does `act` about one reminder, and puts the event right. None where there is no such event any more; an act that
    /// cannot be done is refused.
    pub async fn act(
        &self,
        owner: &OwnerId,
        uid: &str,
        (act, told): (Act, &Delivery),
    ) -> Result<Option<Result<Answered, Refusal>>, StoreError> {
        let (handler, owner, uid) = (self.clone(), owner.clone(), uid.to_owned());
        let told = told.clone();
        to_the_end(async move { handler.act_now((owner, uid), act, &told).await }).await
    }

    async fn act_now(
        &self,
        key: (OwnerId, String),
        act: Act,
        told: &Delivery,
    ) -> Result<Option<Result<Answered, Refusal>>, StoreError> {
        for _ in 0..TRIES {
            let Some(answered) = self.answered(&key.0, &key.1).await? else {
                return Ok(None);
            };
            let before = answered.group.answers.clone();
            let now = self.store.now().await?;
            let after = match before.after(act, &answered.told(told), now) {
                Err(refusal) => return Ok(Some(Err(refusal))),
                Ok(after) if after == before => return Ok(Some(Ok(answered))),
                Ok(after) => after,
            };
            let (near, answering) = (self.near(), Answering { before, after });
            let written = self.store.answer(&key, &answering, &self.editing(), near).await?;
            if let Some(changed) = written {
                (self.tell)(&changed, near.map(|near| near.session));
                return Ok(self.answered(&key.0, &key.1).await?.map(Ok));
            }
        }
        Err(StoreError::Unavailable(
            "others answer the same reminders all the time".to_owned(),
        ))
    }
}
