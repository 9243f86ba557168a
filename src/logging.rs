//! Logs: one line for each change of state, human on a terminal, JSON otherwise.
//!
//! Fields carry the same dotted names everywhere (`trigger.id`, `event.uid`, `channel`, `attempt`). Never an address, a
//! number, a summary or a body; an owner appears only as their stand-in (`OwnerId::stand_in`).

use std::fmt;
use std::io::IsTerminal;

use tracing::Level;
use tracing::Metadata;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::Registry;
use tracing_subscriber::filter::FilterFn;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt;

/// How logs are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The form of a line.
    pub format: Format,
    /// A level, or a list of levels for each module, as `tracing` understands it.
    pub level: String,
}

/// The form of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Human on a terminal, JSON otherwise.
    Auto,
    /// For people.
    Human,
    /// One JSON object a line.
    Json,
}

/// Changes the level of a running process.
#[derive(Debug, Clone)]
pub struct Levels(reload::Handle<EnvFilter, Registry>);

/// Why a level is not understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownLevel(String);

impl fmt::Display for UnknownLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UnknownLevel {}

impl Levels {
    /// From now on logs at `level`.
    pub fn set(&self, level: &str) -> Result<(), UnknownLevel> {
        let filter = filter(level)?;
        self.0
            .reload(filter)
            .map_err(|error| UnknownLevel(error.to_string()))
    }
}

/// Starts logging to standard error. Called once, by the process that owns it.
pub fn start(config: &Config) -> Result<Levels, UnknownLevel> {
    let (filter, levels) = reload::Layer::new(filter(&config.level)?);
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let registry = tracing_subscriber::registry().with(filter).with(discreet());
    let started = if is_human(config.format) {
        let lines = lines
            .with_ansi(std::io::stderr().is_terminal())
            .with_target(false);
        registry.with(lines).try_init()
    } else {
        registry
            .with(lines.json().flatten_event(true).with_current_span(false))
            .try_init()
    };
    started.map_err(|error| UnknownLevel(error.to_string()))?;
    Ok(Levels(levels))
}

/// Keeps out what would tell what is in messages, whatever level was asked for: the library that speaks with agents writes
/// down whole requests, answers and their errors, each but its failures.
fn discreet() -> FilterFn<impl Fn(&Metadata<'_>) -> bool> {
    filter_fn(|line| !line.target().starts_with("rmcp") || *line.level() == Level::ERROR)
}

/// Whether `level` can be understood.
pub fn check_level(level: &str) -> Result<(), UnknownLevel> {
    filter(level).map(drop)
}

fn is_human(format: Format) -> bool {
    match format {
        Format::Human => true,
        Format::Json => false,
        Format::Auto => std::io::stderr().is_terminal(),
    }
}

fn is_level(word: &str) -> bool {
    let levels = ["off", "error", "warn", "info", "debug", "trace"];
    levels.iter().any(|level| word.eq_ignore_ascii_case(level))
}

fn filter(level: &str) -> Result<EnvFilter, UnknownLevel> {
    if level.trim().is_empty() {
        return Err(UnknownLevel("no level".to_owned()));
    }
    let mut directives = level.split(',').map(str::trim);
    // A bare word that is no level would be taken for the name of a module, whose lines alone would be written.
    if let Some(word) = directives.find(|word| !word.contains('=') && !is_level(word)) {
        return Err(UnknownLevel(format!(
            "`{word}` is no level: use off, error, warn, info, debug or trace, or MODULE=LEVEL"
        )));
    }
    // What Raft remarks by itself is for its makers, and comes twice a second while a peer is down: the cluster logs what
    // matters. Who wants it names it.
    let level = if level.contains("openraft") {
        level.to_owned()
    } else {
        format!("{level},openraft=error")
    };
    EnvFilter::builder()
        .parse(level)
        .map_err(|error| UnknownLevel(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_levels_is_understood_and_nonsense_is_not() {
        assert!(check_level("info").is_ok());
        assert!(check_level("info,sqlx=warn").is_ok());
        assert!(check_level("info,sqlx=loud").is_err());
        assert!(check_level("loud").is_err());
        assert!(check_level("").is_err());
    }

    /// What is written at this level.
    fn written(level: &str, lines: impl FnOnce()) -> String {
        let (reader, writer) = std::io::pipe().unwrap();
        let written = tracing_subscriber::fmt::layer().with_writer(move || writer.try_clone().unwrap());
        let registry = tracing_subscriber::registry()
            .with(filter(level).unwrap())
            .with(discreet());
        tracing::subscriber::with_default(registry.with(written), lines);
        std::io::read_to_string(reader).unwrap()
    }

    #[test]
    fn what_is_in_messages_of_agents_is_never_written() {
        for level in ["trace", "rmcp=trace", "warn,rmcp::service=debug"] {
            let text = written(level, || {
                tracing::debug!(target: "rmcp::service", "a request");
                tracing::warn!(target: "rmcp::service", "an error of a request");
                tracing::error!(target: "rmcp::service", "a failure");
                tracing::warn!(target: "carillon::http", "ours");
            });
            assert!(!text.contains("request"), "{level}: {text}");
            assert!(text.contains("a failure"), "{level}: {text}");
            assert_eq!(text.contains("ours"), level != "rmcp=trace", "{level}: {text}");
        }
    }
}
