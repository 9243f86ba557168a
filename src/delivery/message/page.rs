//! The page by which a reminder is answered from the message itself.

use chrono::DateTime;
use chrono::Utc;
use fluent::fluent_args;
use serde::Serialize;

use crate::calendar::event::Occurrence;
use crate::calendar::zone::Zone;
use crate::delivery::message::RenderError;
use crate::delivery::message::direction::Direction;
use crate::delivery::message::facts::Moment;
use crate::delivery::message::facts::Range;
use crate::delivery::message::facts::line;
use crate::delivery::message::wording::Teller;
use crate::delivery::message::wording::offer;
use crate::delivery::message::words::Words;
use crate::trigger::answers::Act;

/// What the page shows.
#[derive(Debug, Clone)]
pub struct AnswerPage<'a> {
    /// The owner's language, a BCP 47 tag.
    pub locale: &'a str,
    /// The owner's zone.
    pub zone: &'a Zone,
    /// What the reminder was about, as far as it may be told.
    pub occurrence: Option<&'a Occurrence>,
    /// What became of an answer; none where none was given yet.
    pub said: Option<Said>,
    /// When the owner is reminded of the event next; none where nobody asked.
    pub next: Option<Option<DateTime<Utc>>>,
    /// What can be done.
    pub offers: &'a [Act],
    /// What the link asked for: it stands out among the offers.
    pub chosen: Option<Act>,
    /// What the form must give back.
    pub key: &'a str,
}

/// What became of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Said {
    /// It was done; where it was to put the alarm off, until then.
    Done(Act, Option<DateTime<Utc>>),
    /// It has started: there is nothing to wait for.
    Started,
    /// The link leads nowhere, or the event is gone.
    Gone,
}

/// All that the template is given.
#[derive(Debug, Serialize)]
pub(super) struct PageWording {
    language: String,
    direction: Direction,
    heading: String,
    title: Option<String>,
    when: Option<String>,
    said: Option<String>,
    next: Option<String>,
    offers: Vec<Offer>,
    key: String,
}

#[derive(Debug, Serialize)]
struct Offer {
    name: &'static str,
    label: String,
    is_chosen: bool,
}

impl AnswerPage<'_> {
    /// The page in the language of `words`.
    ///
    /// # Errors
    /// When the words ask for what there is not.
    pub(super) fn wording(&self, words: &Words) -> Result<PageWording, RenderError> {
        let teller = Teller { words };
        let title = self.occurrence.map(|occurrence| line(&occurrence.summary));
        let when = self.occurrence.map(|occurrence| {
            let range = Range::of(&occurrence.when, self.zone);
            teller.when(&range, occurrence.is_task, "date")
        });
        let offers = self.offers.iter().map(|act| {
            Ok(Offer {
                name: act.as_str(),
                label: words.say(offer(*act))?,
                is_chosen: self.chosen == Some(*act),
            })
        });
        Ok(PageWording {
            language: words.tag.clone(),
            direction: words.direction,
            heading: words.say("answer-title")?,
            title: title.filter(|title| !title.is_empty()),
            when: when.transpose()?,
            said: self.said.map(|said| self.said(&teller, said)).transpose()?,
            next: self.next.map(|next| self.next(&teller, next)).transpose()?,
            offers: offers.collect::<Result<_, RenderError>>()?,
            key: self.key.to_owned(),
        })
    }

    fn said(&self, teller: &Teller<'_>, said: Said) -> Result<String, RenderError> {
        let words = teller.words;
        match said {
            Said::Done(Act::Snooze(_), Some(at)) => {
                let args = fluent_args!["moment" => self.moment(teller, at)?];
                words.say_with("answered-snooze", &args)
            }
            Said::Done(Act::Acknowledge | Act::Snooze(_), _) => words.say("answered-acknowledge"),
            Said::Done(Act::Mute, _) => words.say("answered-mute"),
            Said::Done(Act::Unmute, _) => words.say("answered-unmute"),
            Said::Started => words.say("answer-started"),
            Said::Gone => words.say("answer-gone"),
        }
    }

    fn next(&self, teller: &Teller<'_>, next: Option<DateTime<Utc>>) -> Result<String, RenderError> {
        let Some(next) = next else {
            return teller.words.say("answer-no-next");
        };
        let args = fluent_args!["moment" => self.moment(teller, next)?];
        teller.words.say_with("answer-next", &args)
    }

    fn moment(&self, teller: &Teller<'_>, at: DateTime<Utc>) -> Result<String, RenderError> {
        teller.moment(&Moment::at(self.zone.to_local(at)), "date")
    }
}

/// Pages that say everything.
pub(super) fn rehearsal(words: &Words) -> Result<Vec<PageWording>, RenderError> {
    let now = DateTime::UNIX_EPOCH;
    let done = Act::ALL.map(|act| Said::Done(act, Some(now)));
    let said = done.into_iter().chain([Said::Started, Said::Gone]).map(Some);
    said.chain([None])
        .flat_map(|said| [Some(Some(now)), Some(None), None].map(|next| (said, next)))
        .map(|(said, next)| {
            let page = AnswerPage {
                locale: &words.tag,
                zone: &Zone::utc(),
                occurrence: None,
                said,
                next,
                offers: &Act::ALL,
                chosen: Some(Act::Acknowledge),
                key: "key",
            };
            page.wording(words)
        })
        .collect()
}
