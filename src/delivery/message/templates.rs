//! The templates: those we bring, and those an operator puts in their place.

use std::fs;
use std::io;
use std::path::Path;
use std::path::PathBuf;

use linkify::LinkFinder;
use linkify::LinkKind;
use minijinja::Environment;
use minijinja::HtmlEscape;
use minijinja::UndefinedBehavior;
use minijinja::Value;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;

use crate::channel;
use crate::delivery::message::Reminder;
use crate::delivery::message::facts::Facts;
use crate::delivery::message::facts::is_web;

/// What we bring: name below the operator's folder, and content.
const BUILT_IN: [(&str, &str); 4] = [
    (
        "en/wording.txt",
        include_str!("../../../config/templates/en/wording.txt"),
    ),
    (
        "en/subject.txt",
        include_str!("../../../config/templates/en/subject.txt"),
    ),
    (
        "en/reminder.txt",
        include_str!("../../../config/templates/en/reminder.txt"),
    ),
    (
        "en/reminder.html",
        include_str!("../../../config/templates/en/reminder.html"),
    ),
];

/// The languages we bring, each a folder with these parts.
const LANGUAGES: [&str; 1] = ["en"];
const SUBJECT: &str = "subject.txt";
const TEXT: &str = "reminder.txt";
const HTML: &str = "reminder.html";

/// Instructions that a template may take. Ours take about a thousand; an endless one must end.
const FUEL: u64 = 100_000;

/// Bytes of a template file.
const MAX_FILE: u64 = 256 * 1_024;

/// Why there is no message.
#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    /// A file of the operator's folder cannot be read.
    #[error("cannot read template `{}`: {source}", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A template is wrong. Says where, and nothing of what was to be written.
    #[error("template `{template}`, line {line}: {kind}")]
    Template {
        /// Name of the template.
        template: String,
        /// Line in it.
        line: usize,
        /// What is wrong.
        kind: String,
    },
}

/// Writes messages.
#[derive(Debug)]
pub struct Renderer {
    environment: Environment<'static>,
}

impl Renderer {
    /// Reads the templates: any file of the same name in `folder` (`en/subject.txt`) stands in for ours.
    ///
    /// # Errors
    /// When a file cannot be read or is no template.
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
                Some(folder) => replacement(&folder.join(name))?,
                None => None,
            };
            let source = source.unwrap_or_else(|| built_in.to_owned());
            environment
                .add_template_owned(name, source)
                .map_err(|error| wrong(name, &error))?;
        }
        let renderer = Self { environment };
        renderer.rehearse()?;
        Ok(renderer)
    }

    /// Writes a reminder that says everything, so that a mistake in a template shows at the start and not at the first
    /// message.
    fn rehearse(&self) -> Result<(), RenderError> {
        let facts = Value::from(Serde(Facts::sample()));
        for language in LANGUAGES {
            for part in [SUBJECT, TEXT, HTML] {
                self.write(language, part, &facts)?;
            }
        }
        Ok(())
    }

    /// Writes the message of one reminder.
    ///
    /// # Errors
    /// When a template asks for what there is not, or does not end.
    pub fn render(&self, reminder: &Reminder<'_>) -> Result<channel::Message, RenderError> {
        let facts = Value::from(Serde(Facts::of(reminder)));
        let language = language(reminder.locale);
        let subject = self.write(language, SUBJECT, &facts)?;
        Ok(channel::Message {
            id: reminder.trigger.to_string(),
            thread: reminder.thread(),
            to: reminder.to.to_owned(),
            subject: subject.split_whitespace().collect::<Vec<_>>().join(" "),
            text: self.write(language, TEXT, &facts)?,
            html: self.write(language, HTML, &facts)?,
            language: language.to_owned(),
        })
    }

    fn write(&self, language: &str, part: &str, facts: &Value) -> Result<String, RenderError> {
        let name = &format!("{language}/{part}");
        let template = self
            .environment
            .get_template(name)
            .map_err(|error| wrong(name, &error))?;
        template.render(facts).map_err(|error| wrong(name, &error))
    }
}

/// The language nearest to a locale (BCP 47): the one with the same first subtag, else the first we have.
fn language(locale: &str) -> &'static str {
    let wanted = locale.split(['-', '_']).next().unwrap_or_default();
    let found = LANGUAGES
        .into_iter()
        .find(|language| language.eq_ignore_ascii_case(wanted));
    found.unwrap_or(LANGUAGES[0])
}

/// A tag on a line of its own leaves no line behind.
fn syntax() -> SyntaxConfig {
    SyntaxConfig::builder()
        .trim_blocks(true)
        .lstrip_blocks(true)
        .build()
        .expect("the usual delimiters do not clash")
}

fn replacement(path: &Path) -> Result<Option<String>, RenderError> {
    let unreadable = |source| RenderError::File {
        path: path.to_owned(),
        source,
    };
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(unreadable(error)),
        Ok(file) if file.len() > MAX_FILE => {
            let reason = format!("larger than {MAX_FILE} bytes");
            Err(unreadable(io::Error::new(io::ErrorKind::InvalidData, reason)))
        }
        Ok(_) => fs::read_to_string(path).map(Some).map_err(unreadable),
    }
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
