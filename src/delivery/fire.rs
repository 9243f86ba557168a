//! The fire-check's decisions: whether a claimed trigger is sent now, and how its series goes on. Pure, given the
//! candidate and the time; the store calls it inside the transaction.

mod rewound;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::OnceLock;
use std::time::Duration;

use chrono::DateTime;
use chrono::TimeDelta;
use chrono::Utc;

use crate::calendar::event::Event;
use crate::clock::Clock;
use crate::delivery::CatchUp;
use crate::delivery::ChannelConfig;
use crate::delivery::domains::Domains;
use crate::store::Candidate;
use crate::store::Epoch;
use crate::store::EventCopy;
use crate::store::Judge;
use crate::store::Judgement;
use crate::store::Owner;
use crate::store::Record;
use crate::store::Succession;
use crate::store::Verdict;
use crate::trigger::ChannelKind;
use crate::trigger::NewTrigger;
use crate::trigger::Place;
use crate::trigger::Recipient;
use crate::trigger::Trigger;
use crate::trigger::defaults::DefaultPolicy;
use crate::trigger::expand::Choices;
use crate::trigger::expand::Firing;
use crate::trigger::expand::GaveUp;
use crate::trigger::firings::Firings;
use crate::trigger::limit::Limit;
use crate::trigger::outcome::Outcome;
use crate::trigger::outcome::Reason;
use crate::trigger::recipients;
use crate::trigger::recipients::Recipients;
use crate::trigger::series::Lateness;
use crate::trigger::series::Series;
use crate::trigger::series::read_event;

/// Firings missed in an outage are counted up to here.
const COUNTED: u64 = 1_000;

/// How long the judgements of one fire-check may take together: its transaction holds locks meanwhile, and a database
/// cuts off one that is silent for longer. One more judgement takes some tens of milliseconds at worst.
const PATIENCE: Duration = Duration::from_secs(1);

/// Decides by the configuration of its batch.
#[derive(Debug)]
pub struct FireJudge {
    lateness: Lateness,
    choices: Choices,
    catch_up: CatchUp,
    channels: BTreeMap<ChannelKind, ChannelConfig>,
    defaults: Arc<DefaultPolicy>,
    clock: Arc<dyn Clock>,
    recipients: Recipients,
    room: usize,
    domains: Option<Arc<Mutex<Domains>>>,
    epoch: Option<Epoch>,
    /// When it began to judge.
    began: OnceLock<Duration>,
}

/// Why a series cannot go on.
enum Stuck {
    Unreadable,
    GaveUp(GaveUp),
}

impl Judge for FireJudge {
    fn judge(&self, candidate: &Candidate, now: DateTime<Utc>) -> Judgement {
        self.began.get_or_init(|| self.clock.elapsed());
        let verdict = self.verdict(candidate, now);
        match self.succession(candidate, now) {
            Ok(succession) => Judgement { verdict, succession },
            Err(Stuck::Unreadable) => Judgement {
                verdict: unreadable(verdict),
                succession: Some(ends_here(candidate)),
            },
            Err(Stuck::GaveUp(gave_up)) => {
                tracing::error!(
                    trigger.id = %candidate.trigger.id,
                    event.uid = %candidate.trigger.wish.event_uid,
                    error = %gave_up,
                    "the series ends here: its next firing cannot be found",
                );
                Judgement {
                    verdict,
                    succession: Some(ends_here(candidate)),
                }
            }
        }
    }

    fn may_fire(&self, epoch: &Epoch, now: DateTime<Utc>) -> bool {
        self.epoch.is_none_or(|known| epoch.lets_fire(&known, now))
    }

    fn limits(&self) -> BTreeMap<ChannelKind, Limit> {
        let limited = self.channels.iter();
        limited
            .filter_map(|(kind, config)| Some((*kind, config.limit?)))
            .collect()
    }

    fn room(&self) -> usize {
        self.room
    }

    fn has_room(&self, candidate: &Candidate) -> bool {
        let trigger = &candidate.trigger;
        let is_mail = trigger.wish.channel == ChannelKind::Email;
        let Some(domains) = self.domains.as_ref().filter(|_| is_mail) else {
            return true;
        };
        let mut domains = domains.lock().expect("no holder panics");
        address(candidate).is_none_or(|address| domains.may_leave(trigger.id, &address))
    }

    fn is_spent(&self) -> bool {
        let began = self.began.get();
        began.is_some_and(|began| self.clock.elapsed().saturating_sub(*began) >= PATIENCE)
    }
}

impl FireJudge {
    /// A judge of one batch: how late is too late, what alarms mean, what becomes of what was missed, how each channel
    /// delivers, which alarms events have by default, and the clock by which it tires.
    pub const fn new(
        (lateness, choices, catch_up): (Lateness, Choices, CatchUp),
        channels: BTreeMap<ChannelKind, ChannelConfig>,
        defaults: Arc<DefaultPolicy>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            lateness,
            choices,
            catch_up,
            channels,
            defaults,
            clock,
            recipients: Recipients::Any,
            room: usize::MAX,
            domains: None,
            epoch: None,
            began: OnceLock::new(),
        }
    }

    /// With the policy on recipients other than the owner.
    #[must_use]
    pub(super) fn with_recipients(mut self, recipients: &Recipients) -> Self {
        self.recipients = recipients.clone();
        self
    }

    /// With room for so many messages, and for mails as these domains have it.
    #[must_use]
    pub(super) fn with_room(mut self, room: usize, domains: &Arc<Mutex<Domains>>) -> Self {
        self.room = room;
        self.domains = Some(Arc::clone(domains));
        self
    }

    fn verdict(&self, candidate: &Candidate, now: DateTime<Utc>) -> Verdict {
        let channel = candidate.trigger.wish.channel;
        let owner = &candidate.owner;
        let is_on = self.channels.get(&channel).is_some_and(|config| config.enabled);
        if is_gone(candidate) {
            Verdict::Conclude(Outcome::Cancelled, Reason::Withdrawn)
        } else if !owner.enabled {
            Verdict::Conclude(Outcome::Suppressed, Reason::Disabled)
        } else if !is_on {
            Verdict::Conclude(Outcome::Suppressed, Reason::SwitchedOff)
        } else if owner.muted.contains(&channel) || is_unheard(candidate) {
            Verdict::Conclude(Outcome::Suppressed, Reason::Muted)
        } else if now >= candidate.trigger.expires_at {
            Verdict::Conclude(Outcome::Expired, Reason::Late)
        } else if address(candidate).is_none() {
            Verdict::Conclude(Outcome::Failed, Reason::NoAddress)
        } else if let Some(verdict) = self.rewound(&candidate.trigger) {
            verdict
        } else if let Some(reason) = spared(candidate) {
            Verdict::Conclude(Outcome::Suppressed, reason)
        } else if self.is_routed(candidate) {
            Verdict::Conclude(Outcome::Suppressed, Reason::RoutedAddress)
        } else if channel == ChannelKind::Webhook && is_disabled(candidate) {
            Verdict::Conclude(Outcome::Suppressed, Reason::EndpointDisabled)
        } else if self.catch_up == CatchUp::Drop
            && self.was_missed(&candidate.trigger)
            && candidate.trigger.due_at == candidate.trigger.place.trigger_at
        {
            Verdict::Conclude(Outcome::Missed, Reason::Outage)
        } else if channel == ChannelKind::Email && is_dead(candidate, now) {
            Verdict::Conclude(Outcome::Suppressed, Reason::DeadAddress)
        } else if self.catch_up == CatchUp::Digest && self.was_missed(&candidate.trigger) {
            Verdict::Gather
        } else {
            Verdict::Send
        }
    }

    /// Whether the relay may send it on to another address than the policy allows.
    fn is_routed(&self, candidate: &Candidate) -> bool {
        match &candidate.trigger.wish.recipient {
            Recipient::Owner => false,
            Recipient::Address(address) => self.recipients.refuse_route(address),
        }
    }

    /// Whether nobody held it when it was due, nor for the grace period after: it was claimed later, and never tried. A notice
    /// of a move is planned late.
    fn was_missed(&self, trigger: &Trigger) -> bool {
        let promised = trigger.place.trigger_at;
        let latest = TimeDelta::from_std(self.lateness.grace)
            .ok()
            .and_then(|grace| promised.checked_add_signed(grace));
        !trigger.moved
            && trigger.attempts == 0
            && trigger
                .processed
                .zip(latest)
                .is_some_and(|(processed, latest)| processed > latest)
    }

    /// How the series goes on, at the first time a trigger leaves planned/claimed; none at a retry.
    fn succession(&self, candidate: &Candidate, now: DateTime<Utc>) -> Result<Option<Succession>, Stuck> {
        let place = candidate.trigger.place;
        let Some(alarm) = &candidate.alarm else {
            return Ok(None);
        };
        if alarm.served_through.is_some_and(|served| served >= place) {
            return Ok(None);
        }
        if !candidate.trigger.has_more {
            // A stand-alone series that fires once more in between goes on with what it owes already.
            return Ok(candidate.standalone.is_none().then(|| ends_here(candidate)));
        }
        if let Some(firings) = candidate.standalone.as_ref().and_then(|alarm| alarm.firings()) {
            let firings = firings.map_err(|_| Stuck::Unreadable)?;
            return Ok(Some(self.come_again(candidate, &firings, now)));
        }
        let mut copies = read_copies(candidate).map_err(|_| Stuck::Unreadable)?;
        self.defaults.complete(&mut copies, &candidate.owner.preferences);
        let mut events: Vec<Event> = copies.into_iter().map(|(_, event)| event).collect();
        let person = candidate.owner.person_by(self.choices);
        match &alarm.wish.recipient {
            Recipient::Address(address) => events = recipients::telling(&events, address),
            Recipient::Owner => {
                for answers in candidate.answers.iter() {
                    for event in &mut events {
                        answers.read_into(event, &person);
                    }
                }
            }
        }
        let series = Series {
            events: &events,
            person: &person,
            identity: &alarm.wish.identity,
            budget: &RefCell::default(),
        };
        self.go_on(candidate, &series, now)
            .map(Some)
            .map_err(Stuck::GaveUp)
    }

    /// The successor is strictly after the served place, never "after now"; what is too late already is stepped over
    /// arithmetically and counted in one row.
    fn go_on(
        &self,
        candidate: &Candidate,
        series: &Series<'_>,
        now: DateTime<Utc>,
    ) -> Result<Succession, GaveUp> {
        let wish = &candidate.trigger.wish;
        let place = candidate.trigger.place;
        let mut served_through = place;
        let first_missed = series.next(&place)?.filter(|it| self.is_too_late(it, now));
        if first_missed.is_some() {
            // Whatever was promised so long ago is too late, without looking at each.
            let most = TimeDelta::from_std(self.lateness.most).unwrap_or_default();
            served_through = Place::just_before(now - most).max(place);
        }
        let next = series.next_but(&mut served_through, |firing| {
            let id = self.lateness.trigger(wish, firing).id();
            self.is_too_late(firing, now) || candidate.handed_over.contains(&id)
        })?;
        let missed = first_missed.map(|first| -> Result<Record, GaveUp> {
            Ok(Record {
                wish: wish.clone(),
                place: first.place,
                outcome: Outcome::Missed,
                reason: Reason::Outage,
                count: series.count(&place, &served_through, COUNTED)?,
            })
        });
        Ok(Succession {
            served_through,
            successor: next.map(|firing| self.lateness.trigger(wish, &firing)),
            missed: missed.transpose()?,
        })
    }

    /// The same of a stand-alone alarm.
    fn come_again(&self, candidate: &Candidate, firings: &Firings, now: DateTime<Utc>) -> Succession {
        let wish = &candidate.trigger.wish;
        let place = candidate.trigger.place;
        let most = self.lateness.most;
        let first_missed = firings.after(place.trigger_at);
        let (next, missed) = firings.next_in_time(place.trigger_at, (now, most), COUNTED);
        let planned = |at| NewTrigger {
            wish: wish.clone(),
            place: Place::at(at),
            expires_at: firings.expires_at(at, most),
            has_more: true,
            moved: false,
        };
        let mut successor = next.map(planned);
        while let Some(known) = successor
            .as_ref()
            .filter(|it| candidate.handed_over.contains(&it.id()))
        {
            successor = firings.after(known.place.trigger_at).map(planned);
        }
        Succession {
            served_through: place,
            successor,
            missed: first_missed.filter(|_| missed > 0).map(|first| Record {
                wish: wish.clone(),
                place: Place::at(first),
                outcome: Outcome::Missed,
                reason: Reason::Outage,
                count: missed,
            }),
        }
    }

    fn is_too_late(&self, firing: &Firing, now: DateTime<Utc>) -> bool {
        self.lateness.expires_at(firing) <= now
    }
}

/// Whether what it belongs to is gone.
fn is_gone(candidate: &Candidate) -> bool {
    let is_gone = if candidate.trigger.wish.alarm_id().is_some() {
        candidate
            .standalone
            .as_ref()
            .is_none_or(|alarm| alarm.is_called_off())
    } else {
        candidate.copies.is_empty()
    };
    is_gone || candidate.alarm.is_none()
}

/// Whether its owner muted all that it comes from.
fn is_unheard(candidate: &Candidate) -> bool {
    candidate.standalone.is_none() && heard(candidate).next().is_none()
}

/// Where the message of a candidate goes; none if there is no such address.
pub fn address(candidate: &Candidate) -> Option<String> {
    let owner = &candidate.owner;
    match (&candidate.trigger.wish.recipient, candidate.trigger.wish.channel) {
        (Recipient::Address(address), _) => Some(address.clone()),
        (Recipient::Owner, ChannelKind::Email) => owner.email.clone(),
        (Recipient::Owner, ChannelKind::Sms) => owner.phone.clone(),
        (Recipient::Owner, ChannelKind::Handler) => own_target(candidate).map(str::to_owned),
        (Recipient::Owner, ChannelKind::Webhook) => {
            let own = own_target(candidate).map(str::to_owned);
            own.or_else(|| owner.webhook.as_ref().map(|webhook| webhook.url.clone()))
        }
    }
}

/// What a stand-alone alarm calls in place of its owner's endpoint.
pub fn own_target(candidate: &Candidate) -> Option<&str> {
    candidate.standalone.as_ref()?.terms.target.as_deref()
}

/// Whether nothing is sent to the owner's endpoint any more, where it goes there.
fn is_disabled(candidate: &Candidate) -> bool {
    let webhook = candidate.owner.webhook.as_ref();
    own_target(candidate).is_none() && webhook.is_some_and(|webhook| webhook.disabled.is_some())
}

/// Whose address a message goes to, as far as that is one of the owners.
pub fn receiver(candidate: &Candidate) -> Option<&Owner> {
    match &candidate.trigger.wish.recipient {
        Recipient::Owner => Some(&candidate.owner),
        Recipient::Address(_) => candidate.addressee.as_ref()?.person.as_ref(),
    }
}

/// Whether the relay said not long ago that no mail can go there.
fn is_dead(candidate: &Candidate, now: DateTime<Utc>) -> bool {
    let dead = receiver(candidate).and_then(|person| person.email_dead.as_ref());
    dead.is_some_and(|dead| now < dead.until)
}

/// Why somebody who is not the alarm's owner gets nothing: they are told anyway, or want nothing of this kind.
fn spared(candidate: &Candidate) -> Option<Reason> {
    let addressee = candidate.addressee.as_ref()?;
    if addressee.holds_copy || addressee.is_told {
        return Some(Reason::ToldAnyway);
    }
    let person = addressee.person.as_ref()?;
    if !person.enabled {
        return Some(Reason::Disabled);
    }
    let channel = candidate.trigger.wish.channel;
    person.muted.contains(&channel).then_some(Reason::Muted)
}

/// The copies of a candidate's event that are not muted.
fn heard(candidate: &Candidate) -> impl Iterator<Item = &EventCopy> {
    let wants = &candidate.owner.preferences;
    let is_muted = candidate.answers.iter().any(|answers| answers.muted_at.is_some());
    let copies = candidate.copies.iter();
    copies.filter(move |copy| !is_muted && !wants.mutes(&copy.at.source))
}

/// The copies of a candidate's event that are not muted and can be read, each with its source; an error if none of them
/// can.
pub fn read_copies(candidate: &Candidate) -> Result<Vec<(&str, Event)>, String> {
    let uid = &candidate.trigger.wish.event_uid;
    let mut complaint = None;
    let mut events = Vec::with_capacity(candidate.copies.len());
    for copy in heard(candidate) {
        match read_event(&copy.ics, uid) {
            Ok(event) => events.push((copy.at.source.as_str(), event)),
            Err(reason) => complaint = Some(reason),
        }
    }
    match complaint {
        Some(reason) if events.is_empty() => Err(reason),
        _ => Ok(events),
    }
}

/// A trigger whose event cannot be read is recorded as that, unless there is a better reason not to send it.
const fn unreadable(verdict: Verdict) -> Verdict {
    match verdict {
        Verdict::Send | Verdict::Gather => Verdict::Conclude(Outcome::Failed, Reason::Unreadable),
        concluded @ Verdict::Conclude(..) => concluded,
    }
}

const fn ends_here(candidate: &Candidate) -> Succession {
    Succession {
        served_through: candidate.trigger.place,
        successor: None,
        missed: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;

    #[test]
    fn a_judge_tires_a_second_after_it_began_to_judge() {
        let clock = Arc::new(ManualClock::at(DateTime::UNIX_EPOCH));
        let lateness = Lateness {
            grace: Duration::ZERO,
            most: Duration::ZERO,
        };
        let judge = FireJudge::new(
            (lateness, Choices::default(), CatchUp::Send),
            BTreeMap::new(),
            Arc::default(),
            Arc::clone(&clock) as Arc<dyn Clock>,
        );
        clock.advance(PATIENCE);
        assert!(!judge.is_spent(), "it waited, and judged nothing");
        judge.began.get_or_init(|| clock.elapsed());
        clock.advance(PATIENCE / 2);
        assert!(!judge.is_spent());

        clock.advance(PATIENCE / 2);

        assert!(judge.is_spent());
    }
}
