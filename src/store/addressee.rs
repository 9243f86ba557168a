//! Those to whom alarms write beside their owner, as far as they are known.

use std::collections::BTreeMap;

use crate::store::Owner;
use crate::store::StoreError;
use crate::trigger::OwnerId;
use crate::trigger::TriggerId;

/// What is known of an address that is not that of the trigger's owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Addressee {
    /// Who has it as their e-mail address, of the owners; the first of them by id.
    pub person: Option<Owner>,
    /// Whether an owner with this e-mail address holds a copy of the event: their own alarms tell them.
    pub holds_copy: bool,
    /// Whether another owner's copy tells the same address of the same firing, or has told it. Of those that wait, the
    /// one of the first owner by id tells.
    pub is_told: bool,
}

/// A trigger, its addressee among the owners, and whether they hold a copy and are told by another.
pub type Found = (TriggerId, Option<OwnerId>, bool, bool);

impl Addressee {
    /// Puts together what was read. A person whose row cannot be read is as good as unknown.
    pub fn all(
        found: Vec<Found>,
        persons: &BTreeMap<OwnerId, Result<Owner, StoreError>>,
    ) -> BTreeMap<TriggerId, Self> {
        let known = |id: &OwnerId| persons.get(id)?.as_ref().ok().cloned();
        let addressees = found.into_iter().map(|(trigger, person, holds_copy, is_told)| {
            let addressee = Self {
                person: person.as_ref().and_then(known),
                holds_copy,
                is_told,
            };
            (trigger, addressee)
        });
        addressees.collect()
    }
}
