//! What of a value people are shown, decided here alone: complaints, which go to the log and to whoever reloads, and
//! `check --print` all ask this file.
//!
//! A key whose value may be a secret, or may hold one, shows what kind of value it is. What is embedded is public.

use std::path::Path;

use config::Value;
use config::ValueKind;

use super::items;
use super::text;

/// Where SMS providers are described.
const PROVIDERS: &str = "channels.sms.providers.";

/// What a provider has that is no secret. Its templates may hold keys of the account, its address too, and the user name of
/// some is the key.
const PUBLIC: [&str; 12] = [
    "kind",
    "method",
    "from",
    "success",
    "transient",
    "permanent",
    "message_id",
    "code",
    "retry_after",
    "timeout",
    "rate",
    "connections",
];

/// How much of the values of a key may be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shows {
    /// All of it, but for logins.
    Whole,
    /// These words, and nothing else: a header may have been written where its kind belongs.
    Words(&'static [&'static str]),
    /// The path of a file that there is: what else stands here may be what belongs into the file.
    File,
    /// An address without login, query and fragment.
    Address,
    /// Of an address, how and with whom it speaks: the path may be a key.
    Host,
    /// Nothing.
    Nothing,
}

impl Shows {
    fn of(key: &str) -> Self {
        let provider = key.strip_prefix(PROVIDERS).and_then(|key| key.split_once('.'));
        let name = key.rsplit_once('.').map_or(key, |(_, name)| name);
        match (provider, name) {
            (Some((_, "url")), _) => Self::Host,
            (Some((_, "auth")), _) => Self::Words(&["none", "basic", "bearer"]),
            (Some((_, "secret_file")), _) | (None, "dir") => Self::File,
            (Some((_, part)), _) if PUBLIC.contains(&part) || part.starts_with("receipts.") => Self::Whole,
            (Some(_), _) | (None, "username") => Self::Nothing,
            (None, "url" | "public_url") => Self::Address,
            (None, name) if name.ends_with("_file") && name != "ca_file" => Self::File,
            (None, _) => Self::Whole,
        }
    }

    /// What may be shown of `text`, if anything.
    fn part_of(self, text: &str) -> Option<String> {
        let is_shown = match self {
            _ if text.is_empty() => true,
            Self::Nothing => false,
            Self::Words(words) => words.contains(&text),
            Self::File => Path::new(text).exists(),
            Self::Address | Self::Host => return address(text, self == Self::Address),
            Self::Whole if text.contains("://") => return address(text, false),
            Self::Whole => !has_login(text) && !looks_secret(text),
        };
        is_shown.then(|| text.to_owned())
    }
}

/// A value as a complaint shows it: where that must not be, its length.
pub(super) fn shown(key: &str, value: &Value) -> String {
    let shows = Shows::of(key);
    let one = |text: &String| {
        let length = text.chars().count();
        let hidden = || format!("[redacted: {length} characters]");
        shows.part_of(text).unwrap_or_else(hidden)
    };
    let told = match (text(value), items(value)) {
        (Some(text), _) => one(&text),
        (None, Some(items)) => items.iter().map(one).collect::<Vec<_>>().join(", "),
        (None, None) if shows == Shows::Whole && !is_nested(value) => value.to_string(),
        (None, None) => "[redacted: no text]".to_owned(),
    };
    told.chars().take(200).collect()
}

/// What is said about a value, without those of its texts that may not be shown, should it repeat them.
pub(super) fn without(key: &str, value: &Value, said: String) -> String {
    let shows = Shows::of(key);
    let texts = items(value).or_else(|| Some(vec![text(value)?]));
    let hidden = texts.into_iter().flatten();
    // What is shorter is in every sentence.
    let hidden = hidden.filter(|text| text.len() > 3 && shows.part_of(text).as_ref() != Some(text));
    hidden.fold(said, |said, text| said.replace(&text, "[redacted]"))
}

/// A value as `check --print` shows it, as TOML.
pub(super) fn printed(key: &str, value: &Value, default: &Value) -> String {
    let whole = literal(value, default);
    if whole == literal(default, default) {
        return whole;
    }
    let shows = Shows::of(key);
    let one = |text: String| shows.part_of(&text).unwrap_or_else(|| "[redacted]".to_owned());
    match (&default.kind, items(value), text(value)) {
        (ValueKind::Array(_), Some(items), _) => {
            format!("{:?}", items.into_iter().map(one).collect::<Vec<_>>())
        }
        (ValueKind::String(_), _, Some(text)) => format!("{:?}", one(text)),
        _ => whole,
    }
}

/// A value as TOML writes it, whole; what the environment says of a number or a flag is a text without quotes.
pub(super) fn literal(value: &Value, default: &Value) -> String {
    if let (Some(items), ValueKind::Array(_)) = (items(value), &default.kind) {
        return format!("{items:?}");
    }
    match (text(value), text(default)) {
        (Some(value), Some(_)) => format!("{value:?}"),
        (Some(value), None) => value,
        (None, _) => value.to_string(),
    }
}

fn is_nested(value: &Value) -> bool {
    matches!(value.kind, ValueKind::Table(_) | ValueKind::Array(_))
}

/// Whether it has the shape of what people paste into the wrong place.
fn looks_secret(text: &str) -> bool {
    let text = text.to_lowercase();
    let begins = ["bearer ", "basic ", "authorization:"];
    let holds = [
        "whsec_",
        "carillon_",
        "-----begin",
        "password=",
        "passwd=",
        "secret=",
    ];
    begins.iter().any(|part| text.trim_start().starts_with(part))
        || holds.iter().any(|part| text.contains(part))
}

/// The name of a key that is not known, unless it has another shape than names have.
pub(super) fn named(key: &str) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    let is_name = key.len() <= 120 && key.chars().all(is_part) && !looks_secret(key);
    if is_name {
        key.to_owned()
    } else {
        format!("[redacted: {} characters]", key.chars().count())
    }
}

/// Whether it may be `user:password@host`.
fn has_login(text: &str) -> bool {
    text.rsplit_once('@')
        .is_some_and(|(login, _)| login.contains(':'))
}

/// An address without what may be secret in it; nothing where it is not certain what is what.
fn address(text: &str, with_path: bool) -> Option<String> {
    let (scheme, rest) = text.split_once("://")?;
    let (authority, rest) = rest.split_at(rest.find(['/', '\\', '?', '#']).unwrap_or(rest.len()));
    let (login, host) = match authority.rsplit_once('@') {
        Some((_, host)) => ("[redacted]@", host),
        None => ("", authority),
    };
    let is_in_scheme = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    let is_in_host = |c: char| c.is_ascii_alphanumeric() || "-._:[],%".contains(c);
    // A slash in a password would make its end look like a path.
    let is_clear = scheme.chars().all(is_in_scheme) && host.chars().all(is_in_host) && !rest.contains('@');
    let path = &rest[..rest.find(['?', '#']).unwrap_or(rest.len())];
    let path = if with_path || path.len() <= 1 {
        path
    } else {
        "/[redacted]"
    };
    let more = if rest.contains(['?', '#']) {
        "?[redacted]"
    } else {
        ""
    };
    is_clear.then(|| format!("{scheme}://{login}{host}{path}{more}"))
}

#[cfg(test)]
mod tests {
    use crate::config::Settings;
    use crate::config::what_needs_restart;

    /// Stands where a secret might.
    const CANARY: &str = "hunter2";

    fn load(text: &str) -> Result<Settings, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("carillon.toml");
        std::fs::write(&path, text).unwrap();
        Settings::load(Some(&path), []).map_err(|complaints| format!("{complaints} {complaints:?}"))
    }

    /// What a provider may say wrong, and the key that is complained about.
    const PROVIDERS: &[(&str, &str)] = &[
        ("form.key", "form.key = \"hunter2 {{ nobody }}\""),
        ("form.key", "form.key = [\"hunter2\"]"),
        ("form.key", "form.key = \"{% hunter2 %}\""),
        ("form.key", "form.key = \"{{ secret|hunter2 }}\""),
        ("query.key", "query.key = \"hunter2{{\""),
        ("headers.X-Key", "headers.X-Key = \"hunter2\\u0001\""),
        ("json", "json = '{\"key\": hunter2}'"),
        ("json", "json = [\"hunter2\"]"),
        ("auth", "auth = \"Bearer hunter2\""),
        ("username", "username = [\"hunter2\"]"),
        ("success", "success = [\"https://a/hunter2\"]"),
        ("own.form", "form = \"key=hunter2\""),
        ("own.url", "url = \"https://sms.example.org/hunter2/{{ to\""),
        ("own.url", "url = \"https://sms.example.org/?key=hunter2&{{ to\""),
        ("own.url", "url = \"https://sms.example.org/#hunter2{{ to\""),
        ("own.url", "url = \"ftp://me:hunter2@sms.example.org/\""),
        ("own.url", "url = \"ftp://me:1/hunter2@sms.example.org/\""),
        ("own.url", "url = \"ftp://a.example/?to=a@hunter2\""),
        ("own.url", "url = \"me:hunter2@sms.example.org\""),
        ("secret_file", "secret_file = \"hunter2\""),
        ("own.secret", "secret = \"hunter2\""),
    ];

    /// What other sections may say wrong.
    const SECTIONS: &[(&str, &str, &str)] = &[
        ("smtp.port", "channels.email.smtp", "port = \"Bearer hunter2\""),
        ("log.format", "log", "format = \"carillon_hunter2\""),
        (
            "webhook.ack",
            "channels.webhook",
            "ack = \"-----BEGIN PRIVATE KEY-----hunter2\"",
        ),
        ("[redacted: ", "http", "\"whsec_hunter2\" = 1"),
        ("[redacted: ", "http", "\"me:hunter2@db\" = 1"),
        ("store.url", "store", "url = \"mysql://me:hunter2@db/x\""),
        ("store.url", "store", "url = \"mysql://me:a@hunter2@db/x\""),
        ("store.url", "store", "url = \"mysql://db/x?password=hunter2\""),
        ("store.url", "store", "url = \"me:hunter2@db/x\""),
        (
            "public_url",
            "http",
            "public_url = \"https://me:hunter2@example.org\"",
        ),
        (
            "public_url",
            "http",
            "public_url = \"https://example.org/?key=hunter2\"",
        ),
        (
            "public_url",
            "http",
            "public_url = \"https://example.org/#hunter2\"",
        ),
        ("http.listen", "http", "listen = \"me:hunter2@localhost:80\""),
        ("http.token_file", "http", "token_file = \"hunter2\""),
        ("http.token_file", "http", "token_file = [\"hunter2\"]"),
        (
            "smtp.host",
            "channels.email.smtp",
            "host = \"smtp://me:hunter2@relay\"",
        ),
        ("smtp.host", "channels.email.smtp", "host = \"me:hunter2@relay\""),
        ("smtp.username", "channels.email.smtp", "username = \"hunter2\""),
        ("smtp.password ", "channels.email.smtp", "password = \"hunter2\""),
        (
            "smtp.password_file",
            "channels.email.smtp",
            "password_file = \"hunter2\"",
        ),
        (
            "second.password_file",
            "channels.email.relays.second",
            "username = \"a\"\npassword_file = \"hunter2\"",
        ),
        (
            "dkim.key_file",
            "channels.email.dkim",
            "domain = \"localhost\"\nselector = \"a\"\nkey_file = \"hunter2\"",
        ),
        (
            "webhook.secret_file",
            "channels.webhook",
            "secret_file = \"whsec_hunter2\"",
        ),
        (
            "allow_networks",
            "channels.webhook",
            "allow_networks = [\"https://me:hunter2@10.0.0.1\"]",
        ),
        (
            "cluster.advertise",
            "cluster",
            "advertise = \"https://me:hunter2@node\"",
        ),
        ("cluster.secret_file", "cluster", "secret_file = \"hunter2/+=\""),
        ("cluster.tls.key_file", "cluster.tls", "key_file = \"hunter2\""),
        // What is no TOML at all.
        ("line 2", "http", "token = hunter2"),
        ("line 2", "http", "token = \"a\" hunter2"),
        ("line 3", "http", "token = \"\"\"\nhunter2\\q\"\"\""),
        ("line 3", "http", "listen = \"a\"\nlisten = \"hunter2\""),
    ];

    /// A provider that is well, but for these lines.
    fn provider(lines: &str) -> String {
        let url = "url = \"https://sms.example.org/\"\n";
        let url = if lines.starts_with("url") { "" } else { url };
        format!("[channels.sms.providers.own]\n{url}{lines}\n")
    }

    #[test]
    fn no_complaint_repeats_what_may_be_a_secret() {
        let of_providers = PROVIDERS.iter().map(|(key, lines)| (key, provider(lines)));
        let of_sections = SECTIONS.iter();
        let of_sections = of_sections.map(|(key, section, lines)| (key, format!("[{section}]\n{lines}\n")));
        for (key, text) in of_providers.chain(of_sections) {
            let Err(told) = load(&text) else {
                panic!("this is taken:\n{text}");
            };
            assert!(told.contains(key), "{key} is missing:\n{told}");
            assert!(!told.contains(CANARY), "{text}\n{told}");
        }
    }

    #[test]
    fn what_is_printed_shows_no_secret() {
        let right = [
            provider("form.key = \"hunter2\""),
            provider("query.key = \"hunter2\""),
            provider("headers.X-Key = \"hunter2\""),
            provider("headers.X-Key = { a = \"hunter2\" }"),
            provider("json = '{\"key\": \"hunter2\"}'"),
            provider("username = \"hunter2\""),
            provider("url = \"https://sms.example.org/hunter2/send\""),
            provider("url = \"https://me:hunter2@sms.example.org/?hunter2#hunter2\""),
            provider("url = \"https://sms.example.org?hunter2\""),
            provider("url = \"https://sms.example.org/?to=a@hunter2\""),
            "[store]\nurl = \"postgres://me:hunter2@db.example.org/carillon?password=hunter2\"\n".to_owned(),
        ];
        for text in right {
            let settings = load(&text).expect(&text);
            let printed = settings.print_redacted();
            assert!(!printed.contains(CANARY), "{text}\n{printed}");
            assert!(printed.contains("[redacted]"), "{text}\n{printed}");
            let other = load(&text.replace(CANARY, "hunter3")).unwrap();
            assert_eq!(settings.hash(), other.hash(), "{text}");
            assert_eq!(what_needs_restart(&settings, &other).len(), 1, "{text}");
        }
    }

    #[test]
    fn what_is_no_secret_is_shown() {
        let told = |text: &str| load(text).unwrap_err();
        let url = told("[store]\nurl = \"mysql://me:pw@db.example.org:3306/carillon?a=b\"\n");
        let shown = "store.url = `mysql://[redacted]@db.example.org:3306/carillon?[redacted]`";
        assert!(url.contains(shown), "{url}");
        let provider = told(&provider("url = \"ftp://sms.example.org/send\""));
        assert!(
            provider.contains("url = `ftp://sms.example.org/[redacted]`"),
            "{provider}"
        );
        let file = told("[http]\ntoken_file = \"nowhere\"\n");
        assert!(
            file.contains("http.token_file = `[redacted: 7 characters]`"),
            "{file}"
        );
        let folder = told("[http]\ntoken_file = \"src\"\n");
        assert!(folder.contains("http.token_file = `src`"), "{folder}");
        let printed = load("[store]\nurl = \"postgres://db.example.org/carillon\"\n").unwrap();
        let printed = printed.print_redacted();
        assert!(
            printed.contains("url = \"postgres://db.example.org/carillon\""),
            "{printed}"
        );
    }
}
