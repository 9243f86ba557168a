//! Sections that people name themselves, whose keys are their own in part: the SMS providers, and the
//! mail relays beside the first.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use config::File;
use config::FileFormat;
use config::Value;
use config::ValueKind;

use super::Reader;
use super::leaves;
use super::text;

/// Where SMS providers are described.
const PROVIDERS: &str = "channels.sms.providers.";

/// The first mail relay, and where others are described.
const RELAY: &str = "channels.email.smtp.";
const RELAYS: &str = "channels.email.relays.";

impl Reader {
    /// Each mail relay has the keys of the first, with their defaults.
    pub(super) fn know_relays(&mut self) {
        let of_first: Vec<(String, Value)> = self
            .defaults
            .iter()
            .filter_map(|(key, value)| Some((key.strip_prefix(RELAY)?.to_owned(), value.clone())))
            .collect();
        for name in self.relays() {
            for (part, value) in &of_first {
                let key = format!("{RELAYS}{name}.{part}");
                self.defaults.insert(key.clone(), value.clone());
                self.values.entry(key).or_insert_with(|| value.clone());
            }
        }
    }

    /// The names of the mail relays that have a section, without the first.
    pub(in crate::config) fn relays(&self) -> Vec<String> {
        self.named_below(RELAYS)
    }

    /// Each SMS provider has the keys of its kind, with their defaults, and fields of its own.
    pub(super) fn know_providers(&mut self) {
        for name in self.providers() {
            let section = format!("{PROVIDERS}{name}.");
            let kind = self.values.get(&format!("{section}kind")).and_then(text);
            for defaults in crate::config::sms::defaults_of(&kind.unwrap_or_default()) {
                for (key, value) in leaves(&parsed(defaults).cache) {
                    self.defaults.insert(section.clone() + &key, value);
                }
            }
            let fields = ["query", "headers", "form"].map(|fields| format!("{section}{fields}."));
            let own = self.values.keys();
            let own = own.filter(|key| fields.iter().any(|fields| key.starts_with(fields)));
            for key in own.cloned().collect::<Vec<_>>() {
                let none = || Value::new(None, ValueKind::String(String::new()));
                self.defaults.entry(key).or_insert_with(none);
            }
            let missing = self.defaults.iter().filter(|(key, _)| key.starts_with(&section));
            for (key, value) in missing {
                self.values.entry(key.clone()).or_insert_with(|| value.clone());
            }
        }
    }

    /// The names of the SMS providers that have a section.
    pub(in crate::config) fn providers(&self) -> Vec<String> {
        self.named_below(PROVIDERS)
    }

    fn named_below(&self, prefix: &str) -> Vec<String> {
        let below = self.values.keys().filter_map(|key| key.strip_prefix(prefix));
        let names: BTreeSet<&str> = below.filter_map(|key| Some(key.split_once('.')?.0)).collect();
        names.into_iter().map(str::to_owned).collect()
    }

    /// All texts below `prefix`, by what follows it.
    pub(in crate::config) fn texts(&mut self, prefix: &str) -> BTreeMap<String, String> {
        let below = self.values.keys().filter(|key| key.starts_with(prefix));
        let keys: Vec<String> = below.cloned().collect();
        let texts = keys
            .into_iter()
            .map(|key| (key[prefix.len()..].to_owned(), self.text(&key)));
        texts.filter(|(_, text)| !text.is_empty()).collect()
    }

    /// Whether `key` has been complained about.
    pub(in crate::config) fn is_complained_about(&self, key: &str) -> bool {
        self.complaints.iter().any(|complaint| complaint.key == key)
    }
}

/// A file of ours.
fn parsed(toml: &str) -> config::Config {
    let source = File::from_str(toml, FileFormat::Toml);
    let built = config::Config::builder().add_source(source).build();
    built.expect("a test parses what is embedded")
}
