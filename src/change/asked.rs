//! What an event asks for: all its copies that are not muted, as their owner reads them.

use std::collections::BTreeMap;

use crate::calendar::event::Event;
use crate::change::Policies;
use crate::store::Owner;
use crate::trigger::ChannelKind;
use crate::trigger::Recipient;
use crate::trigger::Wish;
use crate::trigger::answers::Answers;
use crate::trigger::expand;
use crate::trigger::expand::Person;
use crate::trigger::recipients;

/// The copies of an event, as each recipient hears them.
#[derive(Debug)]
pub struct Asked {
    /// As whom their owner reads them.
    pub person: Person,
    /// As the owner hears them.
    pub own: Vec<Event>,
    /// As others hear them, by their addresses.
    others: BTreeMap<String, Vec<Event>>,
    /// Addresses that are named and may not be written to.
    pub refused: Vec<String>,
}

impl Asked {
    /// Reads copies, each with its source, as `owner` does, with what they answered to reminders. What comes from a source
    /// that they muted asks for nothing, and nothing does where they muted the event.
    pub fn of(mut copies: Vec<(&str, Event)>, owner: &Owner, answers: &Answers, policies: &Policies) -> Self {
        let wants = &owner.preferences;
        copies.retain(|(source, _)| answers.muted_at.is_none() && !wants.mutes(source));
        policies.defaults.complete(&mut copies, wants);
        let mut own: Vec<Event> = copies.into_iter().map(|(_, event)| event).collect();
        let person = owner.person_by(policies.choices);
        let (allowed, refused) = recipients::sorted_out(&own, &person, &policies.recipients, wants);
        let others = allowed
            .into_iter()
            .map(|address| (address.clone(), recipients::telling(&own, &address)))
            .collect();
        // What the owner acknowledged or put off is told to others all the same.
        for event in &mut own {
            answers.read_into(event, &person);
        }
        Self {
            person,
            own,
            others,
            refused,
        }
    }

    /// The copies, as this recipient hears them.
    pub fn heard_by(&self, recipient: &Recipient) -> &[Event] {
        match recipient {
            Recipient::Owner => &self.own,
            Recipient::Address(address) => self.others.get(address).map_or(&[], Vec::as_slice),
        }
    }

    /// The addresses of others that may be written to.
    pub fn others(&self) -> impl Iterator<Item = &str> {
        self.others.keys().map(String::as_str)
    }

    /// The wishes of the event `uid`, each once.
    pub fn wishes(&self, uid: &str, owner: &Owner, policies: &Policies) -> Vec<Wish> {
        let mut wishes = Vec::new();
        let mut wish = |identity, channel, recipient| {
            wishes.push(Wish {
                owner: owner.id.clone(),
                event_uid: uid.to_owned(),
                identity,
                channel,
                recipient,
            });
        };
        for alarm in alarms(&self.own, &self.person) {
            for channel in owner.preferences.channels(&alarm.action, policies.display) {
                wish(alarm.identity.clone(), channel, Recipient::Owner);
            }
        }
        for (address, events) in &self.others {
            for alarm in alarms(events, &self.person) {
                let recipient = Recipient::Address(address.clone());
                wish(alarm.identity, ChannelKind::Email, recipient);
            }
        }
        wishes.sort();
        wishes.dedup();
        wishes
    }
}

fn alarms<'a>(events: &'a [Event], person: &'a Person) -> impl Iterator<Item = expand::EventAlarm> + 'a {
    events.iter().flat_map(|event| expand::alarms(event, person).0)
}
