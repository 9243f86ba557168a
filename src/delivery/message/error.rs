//! Why there is no message. Nothing here quotes what was to be written: that is somebody's calendar.

use std::io;
use std::path::PathBuf;

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
    /// A template is wrong.
    #[error("template `{template}`, line {line}: {kind}")]
    Template {
        /// Name of the template.
        template: String,
        /// Line in it.
        line: usize,
        /// What is wrong.
        kind: String,
    },
    /// A file of words is wrong.
    #[error("{}", .0.join("; "))]
    Words(
        /// Each with file, line, message and cure.
        Vec<String>,
    ),
    /// A message cannot be worded.
    #[error("words of `{language}`, message `{message}`: {kind}")]
    Message {
        /// Whose words, a BCP 47 tag.
        language: String,
        /// Name of the message.
        message: &'static str,
        /// What is wrong.
        kind: String,
    },
}
