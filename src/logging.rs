//! Logs: one line for each change of state, human on a terminal, JSON otherwise.
//!
//! Fields carry the same dotted names everywhere (`trigger.id`, `event.uid`, `channel`, `attempt`, `node`). Never an
//! address, a number, a summary or a body; an owner appears only as [`owner_hash`].

use std::fmt;
use std::io::IsTerminal;

use sha2::Digest;
use sha2::Sha256;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::Registry;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt;

use crate::trigger::OwnerId;

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
    let registry = tracing_subscriber::registry().with(filter);
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

/// Whether `level` can be understood.
pub fn check_level(level: &str) -> Result<(), UnknownLevel> {
    filter(level).map(drop)
}

/// A short, stable stand-in for an owner, by which lines about the same person can be found.
pub fn owner_hash(owner: &OwnerId) -> String {
    let digest = Sha256::digest(owner.0.as_bytes());
    let number = digest[..6]
        .iter()
        .fold(0, |number, byte| number << 8 | u64::from(*byte));
    format!("{number:012x}")
}

fn is_human(format: Format) -> bool {
    match format {
        Format::Human => true,
        Format::Json => false,
        Format::Auto => std::io::stderr().is_terminal(),
    }
}

fn filter(level: &str) -> Result<EnvFilter, UnknownLevel> {
    if level.trim().is_empty() {
        return Err(UnknownLevel("no level".to_owned()));
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
        assert!(check_level("").is_err());
    }

    #[test]
    fn an_owner_is_hashed_and_stays_the_same() {
        let hash = owner_hash(&OwnerId("anna@example.org".to_owned()));
        assert_eq!(hash, owner_hash(&OwnerId("anna@example.org".to_owned())));
        assert_eq!(hash.len(), 12);
        assert!(!hash.contains("anna"));
    }
}
