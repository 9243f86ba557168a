//! What is looked at: each event as its owner hears it, its default alarms added, and as others do whom its alarms name.

use crate::calendar::event::Event;
use crate::preview::Options;
use crate::trigger::Recipient;
use crate::trigger::defaults::DefaultPolicy;
use crate::trigger::expand;
use crate::trigger::preferences::Preferences;
use crate::trigger::recipients;

/// Gives events their default alarms.
pub(super) fn complete(events: &mut [Event], defaults: &DefaultPolicy) {
    if *defaults == DefaultPolicy::default() {
        return;
    }
    for event in events {
        let mut copies = [("", event.clone())];
        defaults.complete(&mut copies, &Preferences::default());
        let [(_, completed)] = copies;
        *event = completed;
    }
}

/// An event as others hear it whom its alarms name; none where they may not be written to.
pub(super) struct Told {
    number: usize,
    address: String,
    event: Option<Event>,
}

pub(super) fn told(events: &[Event], options: &Options) -> Vec<Told> {
    let mut all = Vec::new();
    for (number, event) in events.iter().enumerate() {
        let event = std::slice::from_ref(event);
        let wants = Preferences::default();
        let (allowed, refused) = recipients::sorted_out(event, &options.owner, &options.recipients, &wants);
        let heard = |address: &String| recipients::telling(event, address).pop();
        let allowed = allowed.into_iter().map(|address| (heard(&address), address));
        let told = allowed.chain(refused.into_iter().map(|address| (None, address)));
        all.extend(told.map(|(event, address)| Told {
            number,
            address,
            event,
        }));
    }
    all
}

/// An event, and what it would be without what takes firings out of it.
pub(super) struct Case<'a> {
    pub(super) event: &'a Event,
    pub(super) recipient: Recipient,
    /// Addresses that its alarms name and that may not be written to.
    pub(super) refused: Vec<&'a str>,
    pub(super) unacknowledged: Option<Event>,
    pub(super) undisturbed: Option<Event>,
}

/// The cases of a calendar.
pub(super) fn cases<'a>(events: &'a [Event], told: &'a [Told], options: &Options) -> Vec<Case<'a>> {
    let case = |event, recipient| Case {
        event,
        recipient,
        refused: Vec::new(),
        unacknowledged: expand::unacknowledged(event, options.at),
        undisturbed: expand::undisturbed(event),
    };
    let own = events.iter().map(|event| case(event, Recipient::Owner));
    let mut cases: Vec<Case<'a>> = own.collect();
    for told in told {
        match &told.event {
            Some(event) => cases.push(case(event, Recipient::Address(told.address.clone()))),
            None => cases[told.number].refused.push(&told.address),
        }
    }
    cases
}
