//! The templates: those we bring, and those an operator puts in their place.

use std::fmt;
use std::path::Path;

use chrono::DateTime;
use chrono::Utc;
use linkify::LinkFinder;
use linkify::LinkKind;
use minijinja::Environment;
use minijinja::HtmlEscape;
use minijinja::UndefinedBehavior;
use minijinja::Value;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;

use crate::calendar::zone::Zone;
use crate::channel;
use crate::channel::Content;
use crate::delivery::message::AnswerPage;
use crate::delivery::message::Reminder;
use crate::delivery::message::RenderError;
use crate::delivery::message::TextForm;
use crate::delivery::message::digest::DigestWording;
use crate::delivery::message::digest::listed;
use crate::delivery::message::document;
use crate::delivery::message::document::document;
use crate::delivery::message::facts::Facts;
use crate::delivery::message::facts::LATE_AFTER;
use crate::delivery::message::facts::Moment;
use crate::delivery::message::facts::is_web;
use crate::delivery::message::folder;
use crate::delivery::message::languages::Languages;
use crate::delivery::message::page;
use crate::delivery::message::wording;
use crate::delivery::message::wording::Wording;
use crate::token::Callbacks;
use crate::trigger::ChannelKind;
use crate::trigger::TriggerId;

const TEXT: &str = "reminder.txt";
const HTML: &str = "reminder.html";
const DIGEST_TEXT: &str = "digest.txt";
const DIGEST_HTML: &str = "digest.html";
const ANSWER: &str = "answer.html";

/// What we bring: name in the operator's folder, and content.
const BUILT_IN: [(&str, &str); 5] = [
    (TEXT, include_str!("../../../config/templates/reminder.txt")),
    (HTML, include_str!("../../../config/templates/reminder.html")),
    (DIGEST_TEXT, include_str!("../../../config/templates/digest.txt")),
    (DIGEST_HTML, include_str!("../../../config/templates/digest.html")),
    (ANSWER, include_str!("../../../config/templates/answer.html")),
];

/// Instructions that a template may take. Ours take about a thousand; an endless one must end.
const FUEL: u64 = 100_000;

/// A language that leaves something to English.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gap {
    /// Which, a BCP 47 tag.
    pub language: String,
    /// The messages that it does not have.
    pub messages: Vec<&'static str>,
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { language, messages } = self;
        write!(f, "`{language}` leaves to English: {}", messages.join(", "))
    }
}

/// Writes messages.
#[derive(Debug)]
pub struct Renderer {
    environment: Environment<'static>,
    languages: Languages,
    text_form: TextForm,
    /// Where reminders are answered; none where they cannot be.
    answers: Option<Callbacks>,
}

impl Renderer {
    /// Reads templates and words. What is in `folder` stands in for ours: a template of the same name (`reminder.txt`),
    /// a message of the same name in the file of its language (`de.ftl`).
    ///
    /// # Errors
    /// When a file cannot be read or is wrong.
    pub fn new(folder: Option<&Path>) -> Result<Self, RenderError> {
        let mut environment = Environment::new();
        environment.set_fuel(Some(FUEL));
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        // Debug information holds the values of variables.
        environment.set_debug(false);
        environment.set_syntax(syntax());
        environment.add_filter("linked", linked);
        for (name, built_in) in BUILT_IN {
            let source = match folder {
                Some(folder) => folder::file(&folder.join(name))?,
                None => None,
            };
            let source = source.unwrap_or_else(|| built_in.to_owned());
            environment
                .add_template_owned(name, source)
                .map_err(|error| wrong(name, &error))?;
        }
        let languages = Languages::new(folder)?;
        let renderer = Self {
            environment,
            languages,
            text_form: TextForm::default(),
            answers: None,
        };
        renderer.rehearse()?;
        Ok(renderer)
    }

    /// With text messages worded in this way.
    #[must_use]
    pub const fn with_text_form(mut self, text_form: TextForm) -> Self {
        self.text_form = text_form;
        self
    }

    /// With links by which reminders are answered.
    #[must_use]
    pub fn with_answers(mut self, answers: Option<Callbacks>) -> Self {
        self.answers = answers;
        self
    }

    /// Where the reminder of this trigger is answered, if it can be, in this link epoch of its owner.
    pub fn answer_link(&self, trigger: TriggerId, epoch: i64) -> Option<String> {
        let answers = self.answers.as_ref()?;
        Some(answers.answer(&trigger.to_string(), epoch))
    }

    /// The languages that leave something to English.
    pub fn gaps(&self) -> Vec<Gap> {
        let gaps = self.languages.all().map(|words| Gap {
            language: words.tag.clone(),
            messages: words.gaps(),
        });
        gaps.filter(|gap| !gap.messages.is_empty()).collect()
    }

    /// Writes a reminder that says everything, in every language, so that a mistake shows at the start and not at the
    /// first message.
    fn rehearse(&self) -> Result<(), RenderError> {
        for words in self.languages.all() {
            for facts in Facts::samples() {
                let wording = Value::from(Serde(Wording::of(&facts, words)?));
                for name in [TEXT, HTML] {
                    self.write(name, &wording)?;
                }
                self.text_form.write(&facts, words)?;
            }
            let (facts, count) = (Facts::samples(), Facts::samples().len() + 1);
            let wording = Value::from(Serde(DigestWording::of(
                &facts,
                (&facts[0].trigger_id, count),
                words,
            )?));
            for name in [DIGEST_TEXT, DIGEST_HTML] {
                self.write(name, &wording)?;
            }
            self.text_form.write_digest(&facts[0], count, words)?;
            for page in page::rehearsal(words)? {
                self.write(ANSWER, &Value::from(Serde(page)))?;
            }
        }
        Ok(())
    }

    /// Writes the message of one reminder.
    ///
    /// # Errors
    /// When a template or a message asks for what there is not, or does not end.
    pub fn render(&self, reminder: &Reminder<'_>) -> Result<channel::Message, RenderError> {
        let words = self.languages.nearest(reminder.locale);
        let facts = Facts::of(reminder);
        let content = match reminder.channel {
            ChannelKind::Email => {
                let wording = Wording::of(&facts, words)?;
                let subject = wording.subject.clone();
                self.letter(&subject, &Value::from(Serde(wording)), [TEXT, HTML])?
            }
            ChannelKind::Sms => Content::Text(self.text_form.write(&facts, words)?),
            ChannelKind::Webhook | ChannelKind::Handler => Content::Json(document(reminder)),
        };
        Ok(channel::Message {
            id: reminder.message.to_string(),
            thread: reminder.thread(),
            owner: reminder.owner.hash(),
            to: reminder.to.to_owned(),
            content,
            language: words.tag.clone(),
            within: None,
            own: channel::Own::default(),
        })
    }

    /// Writes one message of several reminders of one recipient. It is named after the first, and a thread of its own.
    ///
    /// # Errors
    /// As for one reminder.
    pub fn render_digest(
        &self,
        first: &Reminder<'_>,
        others: &[Reminder<'_>],
    ) -> Result<channel::Message, RenderError> {
        let words = self.languages.nearest(first.locale);
        let (id, count) = (first.message.to_string(), others.len() + 1);
        let content = match first.channel {
            ChannelKind::Email => {
                let wording = DigestWording::of(&listed(first, others), (&id, count), words)?;
                let subject = wording.subject.clone();
                self.letter(&subject, &Value::from(Serde(wording)), [DIGEST_TEXT, DIGEST_HTML])?
            }
            ChannelKind::Sms => {
                Content::Text(self.text_form.write_digest(&Facts::of(first), count, words)?)
            }
            ChannelKind::Webhook | ChannelKind::Handler => Content::Json(document::digest(first, others)),
        };
        Ok(channel::Message {
            thread: id.clone(),
            id,
            owner: first.owner.hash(),
            to: first.to.to_owned(),
            content,
            language: words.tag.clone(),
            within: None,
            own: channel::Own::default(),
        })
    }

    /// That something is late, in words, where it is: it was due at the first instant, and leaves at the second.
    ///
    /// # Errors
    /// As for a message.
    pub fn late(
        &self,
        locale: &str,
        zone: &Zone,
        (due, now): (DateTime<Utc>, DateTime<Utc>),
    ) -> Result<Option<String>, RenderError> {
        if now - due <= LATE_AFTER {
            return Ok(None);
        }
        let due = Moment::at(zone.to_local(due));
        wording::late(&due, self.languages.nearest(locale)).map(Some)
    }

    /// The page by which a reminder is answered, as HTML.
    ///
    /// # Errors
    /// As for a message.
    pub fn answer_page(&self, page: &AnswerPage<'_>) -> Result<String, RenderError> {
        let wording = page.wording(self.languages.nearest(page.locale))?;
        self.write(ANSWER, &Value::from(Serde(wording)))
    }

    fn letter(&self, subject: &str, wording: &Value, forms: [&str; 2]) -> Result<Content, RenderError> {
        let [text, html] = forms;
        Ok(Content::Letter {
            subject: subject.split_whitespace().collect::<Vec<_>>().join(" "),
            text: self.write(text, wording)?,
            html: self.write(html, wording)?,
        })
    }

    fn write(&self, name: &str, wording: &Value) -> Result<String, RenderError> {
        let template = self.environment.get_template(name);
        let written = template.and_then(|template| template.render(wording));
        written.map_err(|error| wrong(name, &error))
    }
}

/// A tag on a line of its own leaves no line behind.
fn syntax() -> SyntaxConfig {
    SyntaxConfig::builder()
        .trim_blocks(true)
        .lstrip_blocks(true)
        .build()
        .expect("the usual delimiters do not clash")
}

/// The error of `minijinja` may quote values; what is kept is the kind, and for a template that cannot be read (no
/// values yet) what it says.
fn wrong(name: &str, error: &minijinja::Error) -> RenderError {
    let kind = match (error.kind(), error.detail()) {
        (minijinja::ErrorKind::SyntaxError, Some(detail)) => format!("syntax error: {detail}"),
        (kind, _) => kind.to_string(),
    };
    RenderError::Template {
        template: error.name().unwrap_or(name).to_owned(),
        line: error.line().unwrap_or_default(),
        kind,
    }
}

/// Text as HTML: escaped, lines broken, and web links made into links.
fn linked(text: &str) -> Value {
    let mut finder = LinkFinder::new();
    finder.kinds(&[LinkKind::Url]);
    let mut html = String::with_capacity(text.len() * 2);
    for span in finder.spans(text) {
        // The library escapes slashes too; links read better with them, and need it no more than text does.
        let escaped = HtmlEscape(span.as_str()).to_string().replace("&#x2f;", "/");
        if span.kind().is_some() && is_web(span.as_str()) {
            html.push_str("<a href=\"");
            html.push_str(&escaped);
            html.push_str("\">");
            html.push_str(&escaped);
            html.push_str("</a>");
        } else {
            html.push_str(&escaped.replace('\n', "<br>\n"));
        }
    }
    Value::from_safe_string(html)
}

#[cfg(test)]
mod tests;
