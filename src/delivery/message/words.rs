//! The words of one language, as Fluent messages (<https://projectfluent.org>).

use std::fmt;
use std::sync::Arc;

use fluent::FluentArgs;
use fluent::FluentResource;
use fluent::concurrent::FluentBundle;
use fluent_syntax::ast::Pattern;
use unic_langid::LanguageIdentifier;

use crate::delivery::message::RenderError;
use crate::delivery::message::direction::Direction;

const DAY: &[&str] = &["weekday", "day", "month", "year"];
const TIME: &[&str] = &["hour", "hh", "hour12", "minute", "half"];
const DISTANCE: &[&str] = &["distance"];

/// Every message we say, and what it is given.
pub(super) const MESSAGES: [(&str, &[&str]); 71] = [
    ("subject", &["title", "when"]),
    ("headline", &["relative", "title"]),
    ("moved", &["relative"]),
    ("line", &["label", "value"]),
    ("text-message", &["headline", "when"]),
    ("text-message-where", &["text", "where"]),
    ("private-event", &[]),
    ("reminders", &["count"]),
    ("digest-subject", &["reminders", "title"]),
    ("digest-headline", &["reminders"]),
    ("digest-more", &["count"]),
    ("why-digest", &[]),
    ("text-message-digest", &["reminders", "text"]),
    ("no-title", &[]),
    ("late", &["moment"]),
    ("more", &[]),
    ("why-event", &[]),
    ("why-task", &[]),
    ("reminder-id", &["id"]),
    ("label-when", &[]),
    ("label-due", &[]),
    ("label-local-time", &[]),
    ("label-where", &[]),
    ("label-link", &[]),
    ("label-organizer", &[]),
    ("label-answer", &[]),
    ("label-status", &[]),
    ("status", &["status"]),
    ("days", &["count"]),
    ("hours", &["count"]),
    ("minutes", &["count"]),
    ("two-units", &["larger", "smaller"]),
    ("starts-in", DISTANCE),
    ("starts-now", &[]),
    ("started", DISTANCE),
    ("ended", DISTANCE),
    ("ended-now", &[]),
    ("day-in", DISTANCE),
    ("day-tomorrow", &[]),
    ("day-today", &[]),
    ("started-yesterday", &[]),
    ("ended-yesterday", &[]),
    ("due-in", DISTANCE),
    ("due-now", &[]),
    ("due-tomorrow", &[]),
    ("due-today", &[]),
    ("was-due", DISTANCE),
    ("was-due-yesterday", &[]),
    ("date", DAY),
    ("date-short", DAY),
    ("time", TIME),
    ("moment", &["date", "time"]),
    ("same-day", &["date", "start", "end"]),
    ("from-to", &["first", "last"]),
    ("in-zone", &["when", "zone"]),
    ("answer-intro", &[]),
    ("answer-acknowledge", &[]),
    ("answer-snooze-10m", &[]),
    ("answer-snooze-1h", &[]),
    ("answer-snooze-until-start", &[]),
    ("answer-mute", &[]),
    ("answer-unmute", &[]),
    ("answer-title", &[]),
    ("answered-acknowledge", &[]),
    ("answered-snooze", &["moment"]),
    ("answered-mute", &[]),
    ("answered-unmute", &[]),
    ("answer-next", &["moment"]),
    ("answer-no-next", &[]),
    ("answer-started", &[]),
    ("answer-gone", &[]),
];

/// The words of one language.
pub(super) struct Words {
    /// BCP 47.
    pub(super) tag: String,
    pub(super) direction: Direction,
    bundle: FluentBundle<Arc<FluentResource>>,
    /// What is said where this language has no words; none for English.
    english: Option<Arc<Words>>,
}

impl fmt::Debug for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Words")
            .field("tag", &self.tag)
            .finish_non_exhaustive()
    }
}

impl Words {
    /// The words of `layers`, where a later one stands in for an earlier one.
    pub(super) fn new(
        language: LanguageIdentifier,
        layers: &[Arc<FluentResource>],
        english: Option<Arc<Words>>,
    ) -> Self {
        let tag = language.to_string();
        let direction = Direction::of(&language);
        let mut bundle = FluentBundle::new_concurrent(vec![language]);
        // Fluent would isolate every value, dates and plain ASCII too: `Direction::isolated` does where it matters.
        bundle.set_use_isolating(false);
        for layer in layers {
            bundle.add_resource_overriding(Arc::clone(layer));
        }
        Self {
            tag,
            direction,
            bundle,
            english,
        }
    }

    /// What English says instead.
    pub(super) fn gaps(&self) -> Vec<&'static str> {
        let names = MESSAGES.iter().map(|(name, _)| *name);
        names.filter(|name| self.pattern(name).is_none()).collect()
    }

    /// One message without values.
    ///
    /// # Errors
    /// See [`Words::say_with`].
    pub(super) fn say(&self, message: &'static str) -> Result<String, RenderError> {
        self.say_with(message, &FluentArgs::new())
    }

    /// One message.
    ///
    /// # Errors
    /// When it asks for what there is not, or for itself.
    pub(super) fn say_with(
        &self,
        message: &'static str,
        args: &FluentArgs<'_>,
    ) -> Result<String, RenderError> {
        let Some(pattern) = self.pattern(message) else {
            let english = self.english.as_ref();
            let english = english.ok_or_else(|| self.wrong(message, "there is none"))?;
            return english.say_with(message, args);
        };
        let mut errors = Vec::new();
        let said = self.bundle.format_pattern(pattern, Some(args), &mut errors);
        match errors.first() {
            None => Ok(said.into_owned()),
            Some(error) => Err(self.wrong(message, &error.to_string())),
        }
    }

    fn pattern(&self, message: &str) -> Option<&Pattern<&str>> {
        self.bundle.get_message(message)?.value()
    }

    fn wrong(&self, message: &'static str, kind: &str) -> RenderError {
        RenderError::Message {
            language: self.tag.clone(),
            message,
            kind: kind.to_owned(),
        }
    }
}
