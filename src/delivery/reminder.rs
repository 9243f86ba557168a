//! From a granted candidate to its message: the occurrence is read from the event as it is now.

use chrono::DateTime;
use chrono::Utc;

use crate::calendar::event::Occurrence;
use crate::calendar::zone::Zone;
use crate::channel::Message;
use crate::delivery::Detail;
use crate::delivery::fire::address;
use crate::delivery::fire::read_copies;
use crate::delivery::message::Reminder;
use crate::delivery::message::Renderer;
use crate::delivery::notice;
use crate::store::Candidate;
use crate::trigger::Recipient;
use crate::trigger::expand;
use crate::trigger::expand::Person;

/// What is told of candidates that go out as one message.
#[derive(Debug)]
pub struct Told {
    /// The message, with the candidate whose id it bears; none where nothing can be told.
    pub message: Option<(usize, Message)>,
    /// Why nothing is told of a candidate, for each; without personal data.
    pub flaws: Vec<Option<String>>,
}

/// The message for `candidates`, worded as of `now`. What stands alone has a message of its own kind.
pub fn tell(renderer: &Renderer, candidates: &[Candidate], content: Detail, now: DateTime<Utc>) -> Told {
    let mut flaws = vec![None; candidates.len()];
    let mut readable: Vec<usize> = (0..candidates.len()).collect();
    let mut occasions = Vec::new();
    if candidates.len() > 1 {
        for (candidate, flaw) in candidates.iter().zip(&mut flaws) {
            match Occasion::of(candidate, content) {
                Ok(occasion) => occasions.push(occasion),
                Err(error) => *flaw = Some(error),
            }
        }
        readable.retain(|at| flaws[*at].is_none());
    }
    let Some(&lead) = readable.first() else {
        return Told { message: None, flaws };
    };
    let message = if let [only] = *readable {
        message(renderer, &candidates[only], content, now)
    } else {
        let others: Vec<_> = occasions[1..].iter().map(|it| it.reminder(now)).collect();
        renderer
            .render_digest(&occasions[0].reminder(now), &others)
            .map_err(|error| error.to_string())
    };
    match message {
        Ok(message) => Told {
            message: Some((lead, message)),
            flaws,
        },
        Err(error) => {
            for at in readable {
                flaws[at] = Some(error.clone());
            }
            Told { message: None, flaws }
        }
    }
}

/// The message for `candidate`, worded as of `now`. The error says why there is none, without personal data.
fn message(
    renderer: &Renderer,
    candidate: &Candidate,
    content: Detail,
    now: DateTime<Utc>,
) -> Result<Message, String> {
    if let Some(alarm) = &candidate.standalone {
        let (owner, due) = (&candidate.owner, candidate.trigger.place.trigger_at);
        let zone = Zone::iana(&owner.time_zone).unwrap_or_else(Zone::utc);
        let late = renderer.late(&owner.locale, &zone, (due, now));
        let late = late.map_err(|error| error.to_string())?;
        return Ok(notice::message(
            (candidate, alarm),
            to(candidate)?,
            late.as_deref(),
            now,
        ));
    }
    let trigger = &candidate.trigger;
    let is_own = trigger.wish.recipient == Recipient::Owner;
    let epoch = candidate.owner.link_epoch;
    let answer = is_own.then(|| renderer.answer_link(trigger.id, epoch)).flatten();
    let occasion = Occasion::of(candidate, content)?;
    let reminder = Reminder {
        answer: answer.as_deref(),
        ..occasion.reminder(now)
    };
    renderer.render(&reminder).map_err(|error| error.to_string())
}

fn to(candidate: &Candidate) -> Result<String, String> {
    address(candidate).ok_or_else(|| "the owner has no address for this channel".to_owned())
}

/// What a candidate is about, as its recipient reads it.
struct Occasion<'c> {
    candidate: &'c Candidate,
    to: String,
    zone: Zone,
    locale: &'c str,
    occurrence: Occurrence,
}

impl<'c> Occasion<'c> {
    fn of(candidate: &'c Candidate, content: Detail) -> Result<Self, String> {
        let trigger = &candidate.trigger;
        let to = to(candidate)?;
        let person = reader(candidate, &to);
        // Somebody else who is an owner, too, reads in their own zone and language.
        let known = candidate.addressee.as_ref().and_then(|it| it.person.as_ref());
        let (zone, locale) = known.map_or((person.zone.clone(), &candidate.owner.locale), |known| {
            (known.person().zone, &known.locale)
        });
        let occurrence = read_copies(candidate)?
            .iter()
            .find_map(|(_, event)| expand::occurrence(event, &person, trigger.place.occurrence))
            .ok_or_else(|| "the occurrence is no longer in its event".to_owned())?;
        let content = content.min(most(&occurrence, &trigger.wish.recipient));
        Ok(Self {
            candidate,
            to,
            zone,
            locale,
            occurrence: told(occurrence, content),
        })
    }

    fn reminder(&self, now: DateTime<Utc>) -> Reminder<'_> {
        let trigger = &self.candidate.trigger;
        Reminder {
            trigger: trigger.id,
            message: trigger.message(),
            trigger_at: trigger.place.trigger_at,
            now,
            owner: &self.candidate.owner.id,
            event_uid: &trigger.wish.event_uid,
            channel: trigger.wish.channel,
            to: &self.to,
            zone: &self.zone,
            locale: self.locale,
            occurrence: &self.occurrence,
            moved: trigger.moved,
            attempt: trigger.attempts + 1,
            payload: trigger.payload.as_deref(),
            notes: &[],
            answer: None,
        }
    }
}

/// As whom the event is read: floating and all-day times are the owner's, but the answer to the invitation is that of
/// whoever gets the message.
fn reader(candidate: &Candidate, to: &str) -> Person {
    let person = candidate.owner.person();
    match candidate.trigger.wish.recipient {
        Recipient::Owner => person,
        Recipient::Address(_) => Person {
            addresses: vec![to.to_owned()],
            ..person
        },
    }
}

/// How much others may be told: of a private event (CLASS:PRIVATE, CONFIDENTIAL) when it is.
fn most(occurrence: &Occurrence, recipient: &Recipient) -> Detail {
    match recipient {
        Recipient::Address(_) if occurrence.is_private => Detail::None,
        _ => Detail::Full,
    }
}

/// The occurrence with no more than may be told of it.
pub fn told(occurrence: Occurrence, content: Detail) -> Occurrence {
    if content == Detail::Full {
        return occurrence;
    }
    let summary = if content == Detail::Title {
        occurrence.summary
    } else {
        String::new()
    };
    Occurrence {
        summary,
        description: String::new(),
        location: String::new(),
        link: None,
        organizer: None,
        my_status: None,
        ..occurrence
    }
}
