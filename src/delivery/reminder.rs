//! From a granted candidate to its message: the occurrence is read from the event as it is now.

use chrono::DateTime;
use chrono::Utc;

use crate::calendar::event::Occurrence;
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

/// The message for `candidate`, worded as of `now`. The error says why there is none, without personal data.
pub fn message(
    renderer: &Renderer,
    candidate: &Candidate,
    content: Detail,
    now: DateTime<Utc>,
) -> Result<Message, String> {
    let trigger = &candidate.trigger;
    let owner = &candidate.owner;
    let to = address(candidate).ok_or_else(|| "the owner has no address for this channel".to_owned())?;
    if let Some(alarm) = &candidate.standalone {
        return Ok(notice::message(candidate, alarm, to, now));
    }
    let person = reader(candidate, &to);
    // Somebody else who is an owner, too, reads in their own zone and language.
    let known = candidate.addressee.as_ref().and_then(|it| it.person.as_ref());
    let (zone, locale) = known.map_or((person.zone.clone(), &owner.locale), |known| {
        (known.person().zone, &known.locale)
    });
    let occurrence = read_copies(candidate)?
        .iter()
        .find_map(|(_, event)| expand::occurrence(event, &person, trigger.place.occurrence))
        .ok_or_else(|| "the occurrence is no longer in its event".to_owned())?;
    let content = content.min(most(&occurrence, &trigger.wish.recipient));
    let occurrence = told(occurrence, content);
    let is_own = trigger.wish.recipient == Recipient::Owner;
    let answer = is_own.then(|| renderer.answer_link(trigger.id)).flatten();
    let reminder = Reminder {
        trigger: trigger.id,
        trigger_at: trigger.place.trigger_at,
        now,
        owner: &owner.id,
        event_uid: &trigger.wish.event_uid,
        channel: trigger.wish.channel,
        to: &to,
        zone: &zone,
        locale,
        occurrence: &occurrence,
        moved: trigger.moved,
        attempt: trigger.attempts + 1,
        payload: trigger.payload.as_deref(),
        notes: &[],
        answer: answer.as_deref(),
    };
    renderer.render(&reminder).map_err(|error| error.to_string())
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
