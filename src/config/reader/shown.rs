//! Values as people are shown them: without what might be a secret.

use config::Value;
use config::ValueKind;

use super::items;
use super::text;

/// A value as a complaint shows it.
pub(super) fn shown(value: &Value) -> String {
    let list = || items(value).map(|items| items.join(", "));
    let shown = text(value).or_else(list).unwrap_or_else(|| value.to_string());
    without_secrets(&shown).chars().take(200).collect()
}

/// A value as TOML writes it; what the environment says of a number or a flag is a text without quotes.
pub(super) fn literal(value: &Value, default: &Value) -> String {
    if let (Some(items), ValueKind::Array(_)) = (items(value), &default.kind) {
        return format!("{items:?}");
    }
    match (text(value), text(default)) {
        (Some(value), Some(_)) => format!("{:?}", without_secrets(&value)),
        (Some(value), None) => value,
        (None, _) => value.to_string(),
    }
}

/// A URL without the password in it, and without its query, where services take keys.
fn without_secrets(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else {
        return text.to_owned();
    };
    let (login, place) = match rest.rsplit_once('@') {
        Some((_, place)) => ("[redacted]@", place),
        None => ("", rest),
    };
    let (place, query) = match place.split_once('?') {
        Some((place, _)) => (place, "?[redacted]"),
        None => (place, ""),
    };
    format!("{scheme}://{login}{place}{query}")
}
