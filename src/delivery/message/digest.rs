//! Several reminders as one message: what each says in its own message, one below the other.

use fluent::fluent_args;
use serde::Serialize;

use crate::delivery::message::Reminder;
use crate::delivery::message::RenderError;
use crate::delivery::message::direction::Direction;
use crate::delivery::message::facts::Facts;
use crate::delivery::message::wording::Wording;
use crate::delivery::message::words::Words;

/// Reminders that a message lists; beyond, it says how many there are.
const LISTED: usize = 50;

/// All that the templates are given.
#[derive(Debug, Serialize)]
pub(super) struct DigestWording {
    language: String,
    direction: Direction,
    #[serde(skip)]
    pub(super) subject: String,
    headline: String,
    entries: Vec<Wording>,
    more: Option<String>,
    why: String,
    reminder_id: String,
}

impl DigestWording {
    /// Says the first of `count` reminders in the language of `words`, and how many more there are; `id` is the message's.
    ///
    /// # Errors
    /// When the words ask for what there is not.
    pub(super) fn of(
        facts: &[Facts],
        (id, count): (&str, usize),
        words: &Words,
    ) -> Result<Self, RenderError> {
        let entries: Vec<_> = facts
            .iter()
            .map(|facts| Wording::of(facts, words))
            .collect::<Result<_, _>>()?;
        let reminders = reminders(count, words)?;
        let first = entries.first().map_or("", |entry| &entry.title);
        let subject = fluent_args!["reminders" => &*reminders, "title" => words.direction.isolated(first)];
        let more = count - entries.len();
        let more = (more > 0).then(|| words.say_with("digest-more", &fluent_args!["count" => more]));
        Ok(Self {
            language: words.tag.clone(),
            direction: words.direction,
            subject: words.say_with("digest-subject", &subject)?,
            headline: words.say_with("digest-headline", &fluent_args!["reminders" => &*reminders])?,
            more: more.transpose()?,
            why: words.say("why-digest")?,
            reminder_id: words
                .say_with("reminder-id", &fluent_args!["id" => words.direction.isolated(id)])?,
            entries,
        })
    }
}

/// What a message lists.
pub(super) fn listed(first: &Reminder<'_>, others: &[Reminder<'_>]) -> Vec<Facts> {
    let reminders = std::iter::once(first).chain(others);
    reminders.take(LISTED).map(Facts::of).collect()
}

/// 5 reminders
pub(super) fn reminders(count: usize, words: &Words) -> Result<String, RenderError> {
    words.say_with("reminders", &fluent_args!["count" => count])
}
