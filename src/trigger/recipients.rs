//! Whom alarms write to beside the person they belong to: the ATTENDEEs of an e-mail alarm (RFC 5545 section 3.6.6), where
//! the operator allows it.

use std::collections::BTreeSet;

use crate::calendar::event::Component;
use crate::calendar::event::Event;
use crate::calendar::event::bare_address;
use crate::trigger::expand::Person;
use crate::trigger::preferences::Preferences;

/// Addresses beside the person's that the alarms of one event may write to at the most.
pub const MOST: usize = 20;

/// To whom alarms may write beside the person they belong to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Recipients {
    /// To nobody.
    #[default]
    Owner,
    /// To addresses that the back end vouches for ([`Preferences::verified`]).
    Verified,
    /// To these too, and to every address of one of these domains, lower case.
    Domains(Vec<String>),
    /// To everybody.
    Any,
}

impl Recipients {
    /// Whether the alarms of a person who wants `wants` may write to this address, which is bare.
    pub fn allow(&self, address: &str, wants: &Preferences) -> bool {
        let is_verified = || wants.verified.iter().any(|it| bare_address(it) == address);
        match self {
            Self::Owner => false,
            Self::Verified => is_verified(),
            Self::Domains(domains) => is_verified() || domains.iter().any(|it| is_of(address, it)),
            Self::Any => true,
        }
    }

    /// Whether an address that is allowed gets nothing, since a relay may send the mail on to an address that its local part
    /// names: `user%other.example@here.example` (the percent hack), `other!user@…` (a bang path), a quoted part, or a source
    /// route. Otherwise the policy would say where mail goes, and the calendar would.
    pub fn refuse_route(&self, address: &str) -> bool {
        let is_limited = matches!(self, Self::Verified | Self::Domains(_));
        let local = address.rsplit_once('@').map_or(address, |(local, _)| local);
        is_limited && local.contains(['%', '!', '"', '@', ':', ','])
    }
}

fn is_of(address: &str, domain: &str) -> bool {
    address.rsplit_once('@').is_some_and(|(_, own)| own == domain)
}

/// The addresses that e-mail alarms of these copies of an event name, without the person's own.
pub fn named(events: &[Event], person: &Person) -> BTreeSet<String> {
    let own: Vec<String> = person.addresses.iter().map(|it| bare_address(it)).collect();
    let components = events.iter().flat_map(Event::components);
    let alarms = components.flat_map(|component| &component.alarms);
    let by_mail = alarms.filter(|alarm| alarm.action == "EMAIL");
    let named = by_mail.flat_map(|alarm| &alarm.attendees);
    named.filter(|address| !own.contains(*address)).cloned().collect()
}

/// The named addresses that may be written to, as many as may be, and those that may not.
pub fn sorted_out(
    events: &[Event],
    person: &Person,
    policy: &Recipients,
    wants: &Preferences,
) -> (Vec<String>, Vec<String>) {
    let named = named(events, person).into_iter();
    let (mut allowed, mut refused): (Vec<_>, Vec<_>) =
        named.partition(|address| policy.allow(address, wants));
    refused.extend(allowed.split_off(allowed.len().min(MOST)));
    (allowed, refused)
}

/// The copies of an event with those alarms alone that name this address, where it stands for somebody who comes.
pub fn telling(events: &[Event], address: &str) -> Vec<Event> {
    let mut events = events.to_vec();
    for component in events.iter_mut().flat_map(Event::components_mut) {
        let comes = is_wanted(component, address);
        component.alarms.retain(|alarm| {
            comes && alarm.action == "EMAIL" && alarm.attendees.iter().any(|it| it == address)
        });
    }
    events
}

/// Rooms do not read, and who declined or sent somebody else does not want to.
fn is_wanted(component: &Component, address: &str) -> bool {
    let attendee = component.attendee(&[address.to_owned()]);
    attendee.is_none_or(|attendee| {
        attendee.is_person && !matches!(attendee.status.as_deref(), Some("DECLINED" | "DELEGATED"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routed_addresses_are_refused_only_where_the_policy_limits_them() {
        let domains = Recipients::Domains(vec!["example.com".to_owned()]);
        for address in [
            "victim%elsewhere.example@example.com",
            "elsewhere.example!victim@example.com",
            "\"victim@elsewhere.example\"@example.com",
            "@example.com,@b.example:victim@example.com",
            "victim@elsewhere.example@example.com",
        ] {
            assert!(domains.refuse_route(address), "{address}");
            assert!(Recipients::Verified.refuse_route(address), "{address}");
            assert!(!Recipients::Any.refuse_route(address), "{address}");
        }
        assert!(!domains.refuse_route("bert.o'hara+calendar=x@example.com"));
    }
}
