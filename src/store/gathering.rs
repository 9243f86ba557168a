//! What goes out as one message: triggers of one recipient that are over a limit, or were missed. The first of them in a
//! batch leads, and lends the message its id; the others join it. Pure.
//!
//! What leaves together is marked with the id of its lead, the lead with its own. An attempt that failed, was lost or whose
//! answer was lost finds its lead by that, and so goes out under the same id again. It takes nobody in that was not part of
//! it before: whoever has that message already may drop it as one they know. Where the lead was deleted or moved meanwhile,
//! the others go out under its id all the same, if they are all together: two messages of one id would be one to whoever
//! drops the second.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::collections::HashSet;

use crate::store::Candidate;
use crate::trigger::ChannelKind;
use crate::trigger::OwnerId;
use crate::trigger::Recipient;
use crate::trigger::Trigger;
use crate::trigger::TriggerId;

/// Triggers that one message stands for at the most: whatever a channel makes of them has an end.
pub const MOST: usize = 200;

/// Whose message, through what, to whom; and which one, where it was tried before.
pub type GatherKey = (OwnerId, ChannelKind, Recipient, Option<TriggerId>);

/// What a trigger may go out with; none where it goes alone: a stand-alone alarm is a message of its own, and so is what
/// was tried as one.
pub fn key(trigger: &Trigger) -> Option<GatherKey> {
    let was_tried = trigger.attempts > 0 || trigger.last_error.is_some();
    if trigger.wish.alarm_id().is_some() || (was_tried && trigger.digest.is_none()) {
        return None;
    }
    let wish = &trigger.wish;
    Some((
        wish.owner.clone(),
        wish.channel,
        wish.recipient.clone(),
        trigger.digest,
    ))
}

/// A message that others may join.
#[derive(Debug)]
struct Led {
    lead: TriggerId,
    /// The trigger whose id it bears: the lead, but for one whose lead is gone.
    message: TriggerId,
    /// For how many triggers it stands.
    count: usize,
}

/// What is known of a trigger whose message others of a batch were part of before.
#[derive(Debug, Clone, Copy)]
pub struct Lead {
    pub id: TriggerId,
    /// Whether it is no more, and was not handed over for certain.
    pub is_lost: bool,
    /// Whether some who were part of its message are not in the batch.
    pub is_parted: bool,
}

/// What a batch gathers.
#[derive(Debug, Default)]
pub struct Gathering {
    led: HashMap<GatherKey, Led>,
    /// Leads that are no more, and were not handed over for certain.
    gone: HashSet<TriggerId>,
    /// Leads whose id no message of this batch may bear but their own.
    parted: HashSet<TriggerId>,
    /// Who goes out under the id of which lead that is gone.
    heirs: HashMap<TriggerId, TriggerId>,
    /// The marks that change, of triggers that leave.
    pub marks: BTreeMap<TriggerId, Option<TriggerId>>,
}

impl Gathering {
    /// A batch whose triggers were part of the messages of these before.
    pub fn under(leads: &[Lead]) -> Self {
        let mut gathering = Self::default();
        let parted = leads.iter().filter(|lead| lead.is_parted);
        gathering.parted.extend(parted.map(|lead| lead.id));
        for lead in leads.iter().filter(|lead| lead.is_lost) {
            gathering.lose(lead.id);
        }
        gathering
    }

    /// Notes a lead that is no more, and was not handed over for certain.
    pub fn lose(&mut self, lead: TriggerId) {
        if !self.parted.contains(&lead) {
            self.gone.insert(lead);
        }
    }

    /// Notes a trigger that does not leave now. Those who leave without it do so under the id of one of their own: it may be
    /// that its message comes to bear the lost lead's.
    pub fn stay(&mut self, trigger: &Trigger) {
        let Some(lost) = trigger.digest else { return };
        self.parted.insert(lost);
        self.gone.remove(&lost);
        let Some(heir) = self.heirs.remove(&lost) else {
            return;
        };
        for mark in self.marks.values_mut().filter(|mark| **mark == Some(lost)) {
            *mark = Some(heir);
        }
        for led in self.led.values_mut().filter(|led| led.message == lost) {
            led.message = heir;
        }
    }

    /// Lets a trigger join the message that it may go out with, if there is one.
    pub fn join(&mut self, trigger: &Trigger) -> bool {
        let led = key(trigger).and_then(|key| self.led.get_mut(&key));
        let Some(led) = led.filter(|led| led.count < MOST) else {
            return false;
        };
        led.count += 1;
        self.marks.insert(led.lead, Some(led.message));
        self.marks.insert(trigger.id, Some(led.message));
        true
    }

    /// Whether a trigger goes out under the id of a lead that is gone.
    pub fn inherits(&self, trigger: &Trigger) -> bool {
        trigger.digest.is_some_and(|lead| self.gone.contains(&lead))
    }

    /// Notes that a trigger leaves with a message of its own; whether others may join it.
    pub fn leave(&mut self, trigger: &Trigger, may_lead: bool) {
        let inherited = trigger.digest.filter(|lead| self.gone.remove(lead));
        self.heirs.extend(inherited.map(|lost| (lost, trigger.id)));
        if trigger.digest.is_some() {
            self.marks.insert(trigger.id, inherited);
        }
        if let Some(key) = key(trigger).filter(|_| may_lead) {
            let led = Led {
                lead: trigger.id,
                message: inherited.unwrap_or(trigger.id),
                count: 1,
            };
            self.led.insert(key, led);
        }
    }

    /// Tells what leaves as part of which message.
    pub fn mark(&self, leaving: &mut [Candidate]) {
        for candidate in leaving {
            if let Some(mark) = self.marks.get(&candidate.trigger.id) {
                candidate.trigger.digest = *mark;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;

    use super::*;
    use crate::trigger::AlarmId;
    use crate::trigger::AlarmIdentity;
    use crate::trigger::Place;
    use crate::trigger::State;
    use crate::trigger::Wish;

    fn trigger(number: u8) -> Trigger {
        Trigger {
            id: TriggerId([number; 16]),
            wish: Wish {
                owner: OwnerId("ada".to_owned()),
                event_uid: format!("e{number}"),
                identity: AlarmIdentity("alarm".to_owned()),
                channel: ChannelKind::Email,
                recipient: Recipient::Owner,
            },
            place: Place::at(DateTime::UNIX_EPOCH),
            due_at: DateTime::UNIX_EPOCH,
            expires_at: DateTime::UNIX_EPOCH,
            has_more: false,
            state: State::Claimed,
            processed: None,
            session: None,
            generation: 1,
            attempts: 0,
            attempt_token: None,
            attempt_started: None,
            withdrawn: false,
            last_error: None,
            payload: None,
            moved: false,
            digest: None,
        }
    }

    #[test]
    fn what_may_go_out_together_joins_the_first() {
        let mut gathering = Gathering::default();
        assert!(!gathering.join(&trigger(1)), "there is nobody to join");
        gathering.leave(&trigger(1), true);

        assert!(gathering.join(&trigger(2)));

        let lead = Some(TriggerId([1; 16]));
        assert_eq!(gathering.marks.into_values().collect::<Vec<_>>(), [lead; 2]);
    }

    #[test]
    fn nobody_joins_what_goes_alone() {
        let mut gathering = Gathering::default();
        gathering.leave(&trigger(1), false);
        let tried = Trigger {
            last_error: Some("451 later".to_owned()),
            ..trigger(2)
        };
        gathering.leave(&tried, true);

        assert!(!gathering.join(&trigger(3)));
    }

    #[test]
    fn a_stand_alone_alarm_and_what_was_tried_alone_join_nobody() {
        let mut gathering = Gathering::default();
        gathering.leave(&trigger(1), true);
        let id = AlarmId("0123456789abcdef0123456789abcdef".to_owned());
        let alarm = Trigger {
            wish: Wish::standalone(OwnerId("ada".to_owned()), &id, ChannelKind::Email),
            ..trigger(2)
        };
        let tried = Trigger {
            attempts: 1,
            ..trigger(3)
        };

        assert!(!gathering.join(&alarm) && !gathering.join(&tried));
    }

    #[test]
    fn a_lead_that_goes_alone_this_time_is_a_lead_no_more() {
        let mut gathering = Gathering::default();
        let lead = Trigger {
            digest: Some(TriggerId([1; 16])),
            ..trigger(1)
        };

        gathering.leave(&lead, true);

        assert_eq!(gathering.marks.get(&lead.id), Some(&None));
    }

    #[test]
    fn whose_lead_is_gone_go_out_under_its_id() {
        let lost = TriggerId([9; 16]);
        let orphan = |number| Trigger {
            digest: Some(lost),
            attempts: 1,
            ..trigger(number)
        };
        let mut gathering = Gathering::default();
        gathering.lose(lost);
        gathering.leave(&orphan(1), true);
        assert!(gathering.join(&orphan(2)));
        assert!(!gathering.join(&trigger(3)), "it was not part of it");
        assert_eq!(gathering.marks.into_values().collect::<Vec<_>>(), [Some(lost); 2]);
    }

    #[test]
    fn no_two_messages_bear_the_id_of_one_lead() {
        let lost = TriggerId([9; 16]);
        let orphan = |number| Trigger {
            digest: Some(lost),
            ..trigger(number)
        };
        let mut gathering = Gathering::default();
        gathering.lose(lost);
        gathering.leave(&orphan(1), false);
        gathering.leave(&orphan(2), false);
        assert_eq!(
            gathering.marks.into_values().collect::<Vec<_>>(),
            [Some(lost), None]
        );
    }

    #[test]
    fn whose_companions_are_elsewhere_or_stay_go_out_under_an_id_of_their_own() {
        let lost = TriggerId([9; 16]);
        let orphan = |number| Trigger {
            digest: Some(lost),
            ..trigger(number)
        };
        let lead = |is_lost| Lead {
            id: lost,
            is_lost,
            is_parted: true,
        };
        let mut elsewhere = Gathering::under(&[lead(true)]);
        elsewhere.leave(&orphan(1), true);
        let mut over_now = Gathering::under(&[lead(false)]);
        over_now.lose(lost);
        over_now.leave(&orphan(1), true);
        let mut stays_first = Gathering::default();
        stays_first.lose(lost);
        stays_first.stay(&orphan(3));
        stays_first.leave(&orphan(1), true);
        let mut stays_last = Gathering::default();
        stays_last.lose(lost);
        stays_last.leave(&orphan(1), true);
        stays_last.stay(&orphan(3));

        for mut gathering in [elsewhere, over_now, stays_first, stays_last] {
            assert!(gathering.join(&orphan(2)));
            assert_eq!(
                gathering.marks.into_values().collect::<Vec<_>>(),
                [Some(TriggerId([1; 16])); 2]
            );
        }
    }
}
