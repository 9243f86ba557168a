//! The layers, and typed reading that goes on after a mistake.
//!
//! A value that cannot be read becomes a complaint and the default takes its place, so that one run names everything
//! that is wrong.

mod providers;
mod shown;

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::path::Path;
use std::time::Duration;

use config::File;
use config::FileFormat;
use config::Value;
use config::ValueKind;
use secrecy::SecretString;

use super::complaint::Complaint;
use super::complaint::Origin;

use self::shown::literal;
use self::shown::named;
use self::shown::printed;
use self::shown::shown;
use self::shown::without;

/// The prefix of our environment variables.
pub(super) const PREFIX: &str = "CARILLON__";

/// Longer durations are refused: they cannot be meant, and sums with instants must stay in range.
const LONGEST: Duration = Duration::from_hours(3_650 * 24);

/// A value as it applies.
#[derive(Debug, Clone)]
pub(super) struct Applied {
    /// What may be shown of it, as TOML.
    pub(super) shown: String,
    /// All of it, to be told from another.
    pub(super) whole: SecretString,
    /// Who said so.
    pub(super) origin: Origin,
}

/// The merged layers while they are being read.
#[derive(Debug)]
pub(super) struct Reader {
    file: String,
    defaults: BTreeMap<String, Value>,
    values: BTreeMap<String, Value>,
    taken: BTreeSet<String>,
    pub(super) complaints: Vec<Complaint>,
}

impl Reader {
    /// Merges the layers and complains about keys that nobody knows.
    pub(super) fn layered(file: Option<&Path>, environment: BTreeMap<String, String>) -> Self {
        let mut complaints = Vec::new();
        let defaults = config::Config::builder().add_source(embedded());
        let mut layers = defaults.clone();
        if let Some(path) = file {
            let source = File::from(path.to_owned()).format(FileFormat::Toml);
            match config::Config::builder().add_source(source.clone()).build() {
                Ok(_) => layers = layers.add_source(source),
                Err(error) => complaints.push(unreadable(path, &error)),
            }
        }
        let environment = config::Environment::default()
            .prefix("CARILLON")
            .prefix_separator("__")
            .separator("__")
            .source(Some(environment.into_iter().collect()));
        let defaults = defaults.build().expect("a test parses the embedded defaults");
        let merged = layers
            .add_source(environment)
            .build()
            .expect("every layer was parsed before");
        let mut reader = Self {
            file: file.map(|path| path.display().to_string()).unwrap_or_default(),
            defaults: leaves(&defaults.cache),
            values: leaves(&merged.cache),
            taken: BTreeSet::new(),
            complaints,
        };
        reader.know_sources();
        reader.know_providers();
        reader.know_relays();
        reader.complain_about_unknown_keys();
        reader
    }

    /// Each source that anybody names has the same keys.
    fn know_sources(&mut self) {
        let unstated = || Value::new(None, ValueKind::Array(Vec::new()));
        for name in self.sources() {
            let kind = Value::new(None, ValueKind::String("calendar".to_owned()));
            let kind_of = format!("sources.{name}.kind");
            self.values.entry(kind_of.clone()).or_insert_with(|| kind.clone());
            self.defaults.insert(kind_of, kind);
            for list in ["timed", "all_day"] {
                let key = format!("sources.{name}.defaults.{list}");
                self.defaults.insert(key, unstated());
            }
        }
    }

    /// The names of the sources that have a section.
    pub(super) fn sources(&self) -> Vec<String> {
        let below = self.values.keys().filter_map(|key| key.strip_prefix("sources."));
        let sections = below.filter_map(|key| Some(key.rsplit_once('.')?.0));
        let names: BTreeSet<&str> = sections
            .map(|section| section.strip_suffix(".defaults").unwrap_or(section))
            .collect();
        names.into_iter().map(str::to_owned).collect()
    }

    /// Whether anybody but the defaults says something about `key`.
    pub(super) fn is_set(&self, key: &str) -> bool {
        self.values.contains_key(key)
    }

    fn complain_about_unknown_keys(&mut self) {
        let unknown = self
            .values
            .iter()
            .filter(|(key, _)| !self.defaults.contains_key(*key));
        let complaints: Vec<Complaint> = unknown.map(|(key, value)| self.unknown(key, value)).collect();
        self.complaints.extend(complaints);
    }

    fn unknown(&self, key: &str, value: &Value) -> Complaint {
        let origin = self.origin_of(key, value);
        let spell = |key: &str| match origin {
            Origin::Environment(_) => variable_of(key),
            _ => key.to_owned(),
        };
        let section = format!("{key}.");
        let nearest = self
            .defaults
            .keys()
            .max_by(|a, b| likeness(a, key).total_cmp(&likeness(b, key)));
        let problem = match nearest {
            _ if self.defaults.keys().any(|known| known.starts_with(&section)) => {
                "is a section: set the keys in it".to_owned()
            }
            Some(known) if likeness(known, key) > 0.5 => {
                format!("unknown key: did you mean `{}`?", spell(known))
            }
            _ => "unknown key: config/carillon.toml lists those that exist".to_owned(),
        };
        Complaint {
            key: named(key),
            value: None,
            origin,
            problem,
        }
    }

    /// The value of `key` as `convert` reads it; else a complaint that it should be `expected`, and the default.
    fn read<T>(&mut self, key: &str, expected: &str, convert: impl Fn(&Value) -> Option<T>) -> T {
        self.taken.insert(key.to_owned());
        if let Some(value) = self.values.get(key) {
            if let Some(read) = convert(value) {
                return read;
            }
            self.complain(key, format!("expected {expected}"));
        }
        let default = self.defaults.get(key).and_then(convert);
        default.unwrap_or_else(|| panic!("`{key}` has a default that a test reads"))
    }

    /// Complains about the value of `key`.
    pub(super) fn complain(&mut self, key: &str, problem: String) {
        let value = self.values.get(key);
        self.complaints.push(Complaint {
            key: key.to_owned(),
            value: value.map(|value| shown(key, value)),
            origin: value.map_or(Origin::Default, |value| self.origin_of(key, value)),
            problem: match value {
                Some(value) => without(key, value, problem),
                None => problem,
            },
        });
    }

    pub(super) fn text(&mut self, key: &str) -> String {
        self.read(key, "a text in quotes", text)
    }

    /// A text where the empty one stands for "none".
    pub(super) fn optional(&mut self, key: &str) -> Option<String> {
        Some(self.text(key)).filter(|text| !text.is_empty())
    }

    pub(super) fn flag(&mut self, key: &str) -> bool {
        self.read(key, "true or false", |value| match &value.kind {
            ValueKind::Boolean(flag) => Some(*flag),
            ValueKind::String(text) if is_from_environment(value) => text.parse().ok(),
            _ => None,
        })
    }

    /// A whole number from 1 to `most`.
    pub(super) fn number(&mut self, key: &str, most: u32) -> u32 {
        let expected = format!("a whole number from 1 to {most}");
        self.read(key, &expected, |value| {
            let number: i64 = match &value.kind {
                ValueKind::I64(number) => *number,
                ValueKind::String(text) if is_from_environment(value) => text.trim().parse().ok()?,
                _ => return None,
            };
            u32::try_from(number)
                .ok()
                .filter(|number| (1..=most).contains(number))
        })
    }

    /// A number from 0 to 1.
    pub(super) fn fraction(&mut self, key: &str) -> f64 {
        self.read(key, "a number from 0 to 1, such as 0.2 for 20 %", |value| {
            let number = match &value.kind {
                ValueKind::Float(number) => *number,
                ValueKind::I64(0) => 0.0,
                ValueKind::I64(1) => 1.0,
                ValueKind::String(text) if is_from_environment(value) => text.trim().parse().ok()?,
                _ => return None,
            };
            (0.0..=1.0).contains(&number).then_some(number)
        })
    }

    pub(super) fn duration(&mut self, key: &str) -> Duration {
        let expected = "a duration with a unit, such as \"30s\", \"5m\" or \"2h\", up to 3650d";
        self.read(key, expected, |value| {
            let duration = humantime::parse_duration(&text(value)?).ok()?;
            (duration <= LONGEST).then_some(duration)
        })
    }

    /// A duration that is no nothing.
    pub(super) fn more_than_zero(&mut self, key: &str) -> Duration {
        let duration = self.duration(key);
        if duration.is_zero() {
            self.complain(key, "must be more than 0".to_owned());
        }
        duration
    }

    /// How long one call may take. It is not begun where it would be cut short, so an attempt must have room for it, and for
    /// what comes before.
    pub(super) fn timeout(&mut self, key: &str, send_within: Duration) -> Duration {
        let timeout = self.more_than_zero(key);
        if timeout > send_within / 2 && !send_within.is_zero() {
            let problem = format!(
                "must be at most half of {}, or no call is ever begun: set this one to less, or that one to {} or more",
                self.described("delivery.send_within"),
                humantime::format_duration(timeout * 2)
                    .to_string()
                    .replace(' ', ""),
            );
            self.complain(key, problem);
        }
        timeout
    }

    /// A whole number up to `most`; negative: none.
    pub(super) fn amount(&mut self, key: &str, most: u32) -> Option<u32> {
        let expected = format!("a whole number up to {most}: 0 allows nothing, a negative one everything");
        self.amount_as(key, &expected, most)
    }

    /// A whole number up to `most`; negative: none. `expected` says what these mean.
    pub(super) fn amount_as(&mut self, key: &str, expected: &str, most: u32) -> Option<u32> {
        let amount: i64 = self.read(key, expected, |value| {
            let number = match &value.kind {
                ValueKind::I64(number) => *number,
                ValueKind::String(text) if is_from_environment(value) => text.trim().parse().ok()?,
                _ => return None,
            };
            (number <= i64::from(most)).then_some(number)
        });
        u32::try_from(amount).ok()
    }

    /// So many a second; a negative number is as many as there are.
    pub(super) fn rate(&mut self, key: &str, most: u32) -> Option<NonZeroU32> {
        let expected =
            format!("a whole number from 1 to {most}, so many a second, or -1 for as many as there are");
        let rate = self.amount_as(key, &expected, most);
        if rate == Some(0) {
            let problem =
                "must not be 0, at which nothing would ever leave: name a rate, or -1 for none".to_owned();
            self.complain(key, problem);
        }
        rate.and_then(NonZeroU32::new)
    }

    /// A duration that may be negative, in milliseconds.
    pub(super) fn shift_ms(&mut self, key: &str) -> i64 {
        let expected = "a duration with a unit, at most an hour, such as \"500ms\"; \"-5s\" is later";
        self.read(key, expected, |value| {
            let text = text(value)?;
            let (sign, length) = match text.strip_prefix('-') {
                Some(length) => (-1, length),
                None => (1, text.as_str()),
            };
            let length = humantime::parse_duration(length).ok()?;
            let length = i64::try_from(length.as_millis()).ok()?;
            (length <= 3_600_000).then_some(sign * length)
        })
    }

    /// One of the named values.
    pub(super) fn choice<T: Copy>(&mut self, key: &str, choices: &[(&str, T)]) -> T {
        let names: Vec<String> = choices.iter().map(|(name, _)| format!("\"{name}\"")).collect();
        self.read(key, &format!("one of {}", names.join(", ")), |value| {
            let text = text(value)?;
            choices
                .iter()
                .find(|(name, _)| *name == text)
                .map(|(_, choice)| *choice)
        })
    }

    /// A list of texts as `convert` reads it; in the environment they are separated by commas.
    pub(super) fn list<T>(
        &mut self,
        key: &str,
        expected: &str,
        convert: impl Fn(&[String]) -> Option<T>,
    ) -> T {
        self.read(key, expected, |value| convert(&items(value)?))
    }

    /// A value that its own type reads.
    pub(super) fn parsed<T: std::str::FromStr>(&mut self, key: &str, expected: &str) -> T {
        self.read(key, expected, |value| text(value)?.trim().parse().ok())
    }

    /// The secret in the file that `key` names, without the white space around it; none where it names no file.
    pub(super) fn secret(&mut self, key: &str) -> Option<SecretString> {
        let path = self.optional(key)?;
        match std::fs::read_to_string(&path) {
            Ok(content) if content.trim().is_empty() => {
                self.complain(key, "the file is empty: write the secret into it".to_owned());
                None
            }
            Ok(content) => Some(content.trim().into()),
            Err(error) => {
                self.complain(
                    key,
                    format!("the file cannot be read ({error}): check the path and who may read it"),
                );
                None
            }
        }
    }

    /// A key with its value and origin, to be named in a complaint about another one.
    pub(super) fn described(&self, key: &str) -> String {
        let value = &self.values.get(key).or_else(|| self.defaults.get(key));
        let value = value.expect("the key was read before");
        format!("{key} = `{}` ({})", shown(key, value), self.origin_of(key, value))
    }

    /// The values as they apply, with their origin.
    pub(super) fn effective(&self) -> BTreeMap<String, Applied> {
        let known = self
            .values
            .iter()
            .filter_map(|(key, value)| Some((key, value, self.defaults.get(key)?)));
        let applied = |key: &str, value, default| Applied {
            shown: printed(key, value, default),
            whole: literal(value, default).into(),
            origin: self.origin_of(key, value),
        };
        known
            .map(|(key, value, default)| (key.clone(), applied(key, value, default)))
            .collect()
    }

    /// The keys below `prefix` whose values are not the defaults.
    pub(super) fn changed(&self, prefix: &str) -> Vec<String> {
        let below = self.defaults.iter().filter(|(key, _)| key.starts_with(prefix));
        let changed = below.filter(|(key, default)| {
            let value = self.values.get(*key);
            value.is_some_and(|value| literal(value, default) != literal(default, default))
        });
        changed.map(|(key, _)| key.clone()).collect()
    }

    fn origin_of(&self, key: &str, value: &Value) -> Origin {
        match value.origin() {
            None => Origin::Default,
            Some(_) if is_from_environment(value) => Origin::Environment(variable_of(key)),
            Some(_) => Origin::File(self.file.clone()),
        }
    }

    /// Keys of the defaults that no setting is made of.
    #[cfg(test)]
    pub(super) fn untaken(&self) -> Vec<String> {
        let untaken = self.defaults.keys().filter(|key| !self.taken.contains(*key));
        untaken.cloned().collect()
    }
}

fn embedded() -> File<config::FileSourceString, FileFormat> {
    File::from_str(super::DEFAULTS, FileFormat::Toml)
}

fn unreadable(path: &Path, error: &config::ConfigError) -> Complaint {
    let error = match error {
        config::ConfigError::FileParse { cause, .. } => format!("is not TOML: {cause}"),
        other => format!("cannot be read: {other}"),
    };
    // The lines of the file itself, which are quoted after a bar, may hold a password.
    let lines: Vec<&str> = error
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.contains('|'))
        .collect();
    Complaint {
        key: String::new(),
        value: None,
        origin: Origin::File(path.display().to_string()),
        problem: lines.join(" "),
    }
}

/// How alike two keys are, from 0 to 1. Sections and names count apart: a long path in common would make all alike.
fn likeness(known: &str, key: &str) -> f64 {
    use strsim::normalized_damerau_levenshtein as alike;
    match (known.rsplit_once('.'), key.rsplit_once('.')) {
        (Some((known_section, known_name)), Some((section, name))) => {
            alike(known_section, section) * alike(known_name, name)
        }
        _ => alike(known, key),
    }
}

/// The leaves of a tree of tables, by their path. An array is a leaf: a list.
fn leaves(root: &Value) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    let mut open = vec![(String::new(), root)];
    while let Some((path, value)) = open.pop() {
        match &value.kind {
            ValueKind::Table(table) => open.extend(table.iter().map(|(key, value)| {
                let dot = if path.is_empty() { "" } else { "." };
                (format!("{path}{dot}{key}"), value)
            })),
            _ => drop(found.insert(path, value.clone())),
        }
    }
    found
}

fn is_from_environment(value: &Value) -> bool {
    value.origin() == Some("the environment")
}

fn variable_of(key: &str) -> String {
    format!("{PREFIX}{}", key.replace('.', "__").to_uppercase())
}

fn text(value: &Value) -> Option<String> {
    match &value.kind {
        ValueKind::String(text) => Some(text.clone()),
        _ => None,
    }
}

/// The texts of a list.
fn items(value: &Value) -> Option<Vec<String>> {
    match &value.kind {
        ValueKind::Array(items) => items.iter().map(text).collect(),
        ValueKind::String(list) if is_from_environment(value) => {
            let items = list.split(',').map(str::trim).filter(|item| !item.is_empty());
            Some(items.map(str::to_owned).collect())
        }
        _ => None,
    }
}
