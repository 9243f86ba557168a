//! The keys about text messages, with the rules between them.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use reqwest::header::HeaderValue;
use secrecy::ExposeSecret;
use secrecy::SecretString;

use super::reader::Reader;
use crate::channel::sms::Config;
use crate::channel::sms::ProviderConfig;
use crate::channel::sms::call::Auth;
use crate::channel::sms::number::Allowed;
use crate::channel::sms::receipt::ReceiptRules;
use crate::channel::sms::request::Form;
use crate::channel::sms::request::Writer;
use crate::channel::sms::rules::Rule;
use crate::channel::sms::rules::Rules;
use crate::delivery::message::TextForm;

const ROUTE: &str = "channels.sms.route";
const COUNTRIES: &str = "channels.sms.allow_countries";

/// What is said of the providers that are known by name, each over what holds for any.
const ANY: &str = include_str!("../../config/providers/http.toml");
const TWILIO: &str = include_str!("../../config/providers/twilio.toml");
const VONAGE: &str = include_str!("../../config/providers/vonage.toml");
const KANNEL: &str = include_str!("../../config/providers/kannel.toml");

/// Kinds of providers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Http,
    Twilio,
    Vonage,
    Kannel,
}

const KINDS: [(&str, Kind); 4] = [
    ("http", Kind::Http),
    ("twilio", Kind::Twilio),
    ("vonage", Kind::Vonage),
    ("kannel", Kind::Kannel),
];

/// What holds for a provider of this kind as long as nobody says otherwise: TOML, the later ones win.
pub(super) fn defaults_of(kind: &str) -> Vec<&'static str> {
    match kind {
        "twilio" => vec![ANY, TWILIO],
        "vonage" => vec![ANY, VONAGE],
        "kannel" => vec![ANY, KANNEL],
        _ => vec![ANY],
    }
}

/// How text messages are worded.
pub(super) fn form(reader: &mut Reader) -> TextForm {
    TextForm {
        is_plain: reader.flag("channels.sms.transliterate"),
        shows_private: reader.flag("channels.sms.show_private"),
    }
}

/// The providers and where messages may go. All providers are read and checked, also those that are on no route.
pub(super) fn read(reader: &mut Reader, send_within: Duration) -> Config {
    let names = reader.providers();
    let providers: BTreeMap<String, Option<ProviderConfig>> = names
        .into_iter()
        .map(|name| (name.clone(), provider(reader, &name, send_within)))
        .collect();
    let allowed = reader.list(
        COUNTRIES,
        "a list of beginnings of numbers, such as [\"+49\", \"+43\"]",
        |items| items.iter().map(|item| item.parse().ok()).collect::<Option<_>>(),
    );
    let config = Config {
        route: route(reader, &providers),
        allowed: Allowed::new(allowed),
    };
    if reader.flag("channels.sms.enabled") {
        usable(reader, &config);
    }
    config
}

fn route(reader: &mut Reader, providers: &BTreeMap<String, Option<ProviderConfig>>) -> Vec<ProviderConfig> {
    let names = reader.list(ROUTE, "a list of names of providers", |items| {
        Some(items.to_vec())
    });
    let mut route: Vec<ProviderConfig> = Vec::with_capacity(names.len());
    for (place, name) in names.iter().enumerate() {
        match providers.get(name) {
            None => reader.complain(
                ROUTE,
                format!("there is no provider `{name}`: describe it in [channels.sms.providers.{name}]"),
            ),
            Some(_) if names[..place].contains(name) => {
                reader.complain(ROUTE, format!("names `{name}` twice: once is enough"));
            }
            // What is wrong with it is said already.
            Some(provider) => route.extend(provider.clone()),
        }
    }
    route
}

fn usable(reader: &mut Reader, config: &Config) {
    let names_some = reader.list(ROUTE, "a list of names of providers", |items| {
        Some(!items.is_empty())
    });
    if !names_some {
        let problem = "text messages are switched on and have no way out: describe a provider in \
                       [channels.sms.providers.NAME] and name it here";
        reader.complain(ROUTE, problem.to_owned());
    }
    if config.allowed.is_empty() && !reader.is_complained_about(COUNTRIES) {
        let problem = "text messages are switched on and may go nowhere: list the beginnings of the numbers that they may be \
                       sent to, such as [\"+49\"]";
        reader.complain(COUNTRIES, problem.to_owned());
    }
}

/// One provider, if it can be used.
fn provider(reader: &mut Reader, name: &str, send_within: Duration) -> Option<ProviderConfig> {
    let before = reader.complaints.len();
    let key = |part: &str| format!("channels.sms.providers.{name}.{part}");
    if !is_name(name) {
        let problem =
            "the name of a provider is part of addresses: use 1 to 32 small letters, digits, `-` or `_`";
        reader.complain(&key("kind"), problem.to_owned());
    }
    let kind = reader.choice(&key("kind"), &KINDS);
    let username = reader.text(&key("username"));
    let secret = reader.secret(&key("secret_file"));
    let auth = auth(reader, &key, (&username, secret.as_ref()));
    let from = reader.text(&key("from"));
    named(
        reader,
        &key,
        kind,
        [
            ("username", !username.is_empty()),
            ("secret_file", secret.is_some()),
            ("from", !from.is_empty()),
        ],
    );
    let writer = writer(reader, &key).filter(|writer| {
        let secret = secret.as_ref().map_or("", ExposeSecret::expose_secret);
        let rehearsed = writer.rehearse(&username, secret, &from);
        rehearsed
            .map_err(|wrong| reader.complain(&key(&wrong.part), wrong.problem))
            .is_ok()
    });
    let rules = rules(reader, &key);
    let receipts = receipts(reader, &key);
    let rate = reader.number(&key("rate"), 10_000);
    let connections = reader.number(&key("connections"), 1_000) as usize;
    let (timeout, report_within) = (
        reader.timeout(&key("timeout"), send_within),
        reader.more_than_zero(&key("receipts.within")),
    );
    let config = ProviderConfig {
        name: name.to_owned(),
        writer: writer?,
        auth,
        username,
        secret: secret.unwrap_or_else(|| SecretString::from(String::new())),
        from,
        rules,
        receipts,
        report_within,
        timeout,
        rate: NonZeroU32::new(rate).unwrap_or(NonZeroU32::MIN),
        connections,
    };
    Some(config).filter(|_| reader.complaints.len() == before)
}

fn is_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_".contains(c);
    (1..=32).contains(&name.len()) && name.chars().all(allowed)
}

fn auth(
    reader: &mut Reader,
    key: &impl Fn(&str) -> String,
    (username, secret): (&str, Option<&SecretString>),
) -> Auth {
    let kinds = [("none", 0), ("basic", 1), ("bearer", 2)];
    match (reader.choice(&key("auth"), &kinds), secret) {
        (1, Some(password)) if !username.is_empty() => Auth::Basic(username.to_owned(), password.clone()),
        (2, Some(token)) => {
            if HeaderValue::try_from(token.expose_secret()).is_err() {
                let problem = "the token must be one line of visible ASCII, since it travels in a header";
                reader.complain(&key("secret_file"), problem.to_owned());
            }
            Auth::Bearer(token.clone())
        }
        (0, _) => Auth::None,
        (kind, _) => {
            let needed = if kind == 1 {
                "username and secret_file"
            } else {
                "secret_file"
            };
            reader.complain(&key("auth"), format!("needs {needed}"));
            Auth::None
        }
    }
}

/// What a provider of a known kind cannot do without.
fn named(reader: &mut Reader, key: &impl Fn(&str) -> String, kind: Kind, given: [(&str, bool); 3]) {
    let needed: &[&str] = match kind {
        Kind::Http => &[],
        Kind::Kannel => &["username", "secret_file"],
        // Its `auth` asks for the others.
        Kind::Twilio => &["from"],
        Kind::Vonage => &["username", "secret_file", "from"],
    };
    for (part, is_given) in given {
        if needed.contains(&part) && !is_given {
            let file = format!("config/providers/{}.toml", kind_name(kind));
            // A file that cannot be read was complained about.
            if !reader.is_complained_about(&key(part)) {
                reader.complain(&key(part), format!("is missing: {file} says what it is"));
            }
        }
    }
}

fn kind_name(kind: Kind) -> &'static str {
    let named = KINDS.iter().find(|(_, it)| *it == kind);
    named.map_or("http", |(name, _)| name)
}

fn writer(reader: &mut Reader, key: &impl Fn(&str) -> String) -> Option<Writer> {
    let form = Form {
        url: reader.text(&key("url")),
        is_get: reader.choice(&key("method"), &[("POST", false), ("GET", true)]),
        query: reader.texts(&key("query.")),
        headers: reader.texts(&key("headers.")),
        form: reader.texts(&key("form.")),
        json: reader.text(&key("json")),
    };
    if form.is_get && !(form.form.is_empty() && form.json.is_empty()) {
        reader.complain(
            &key("method"),
            "a GET has no body: use \"POST\", or `query` instead of `form` and `json`".to_owned(),
        );
    }
    match Writer::new(form) {
        Ok(writer) => Some(writer),
        Err(wrong) => {
            for wrong in wrong {
                reader.complain(&key(&wrong.part), wrong.problem);
            }
            None
        }
    }
}

fn rules(reader: &mut Reader, key: &impl Fn(&str) -> String) -> Rules {
    let mut list = |part: &str| -> Vec<Rule> {
        let texts = reader.list(&key(part), "a list of rules, such as [\"2xx\"]", |items| {
            Some(items.to_vec())
        });
        let mut rules = Vec::with_capacity(texts.len());
        for text in texts {
            match text.parse() {
                Ok(rule) => rules.push(rule),
                Err(problem) => reader.complain(&key(part), problem),
            }
        }
        rules
    };
    let (success, transient, permanent) = (list("success"), list("transient"), list("permanent"));
    Rules {
        success,
        transient,
        permanent,
        message_id: pointer(reader, &key("message_id")),
        code: pointer(reader, &key("code")),
        retry_after: pointer(reader, &key("retry_after")),
    }
}

fn pointer(reader: &mut Reader, key: &str) -> String {
    let pointer = reader.text(key);
    if !pointer.is_empty() && !pointer.starts_with('/') {
        reader.complain(key, "write a JSON pointer such as /message/id".to_owned());
    }
    pointer
}

fn receipts(reader: &mut Reader, key: &impl Fn(&str) -> String) -> Option<ReceiptRules> {
    let mut list = |part: &str| reader.list(&key(part), "a list of statuses", |items| Some(items.to_vec()));
    let (delivered, undelivered) = (list("receipts.delivered"), list("receipts.undelivered"));
    let rules = ReceiptRules {
        status: reader.text(&key("receipts.status")),
        code: reader.text(&key("receipts.code")),
        delivered,
        undelivered,
    };
    Some(rules).filter(|rules| !rules.status.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Settings;
    use crate::config::reader::Reader;

    fn read_file(text: &str) -> Result<Settings, String> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("secret"), "hush\n").unwrap();
        let secret = folder.path().join("secret").display().to_string();
        std::fs::write(folder.path().join("lines"), "hush\nhush\n").unwrap();
        let lines = folder.path().join("lines").display().to_string();
        let path = folder.path().join("carillon.toml");
        std::fs::write(&path, text.replace("SECRET", &secret).replace("LINES", &lines)).unwrap();
        Settings::load(Some(&path), []).map_err(|complaints| complaints.to_string())
    }

    const ALL: &str = r#"
        [channels.sms]
        enabled = true
        route = ["main", "own"]
        allow_countries = ["+49"]
        [channels.sms.providers.main]
        kind = "twilio"
        username = "AC1"
        secret_file = "SECRET"
        from = "+4930123"
        [channels.sms.providers.second]
        kind = "vonage"
        username = "key"
        secret_file = "SECRET"
        from = "Carillon"
        [channels.sms.providers.third]
        kind = "kannel"
        username = "user"
        secret_file = "SECRET"
        [channels.sms.providers.own]
        url = "https://sms.example.org/v2"
        auth = "bearer"
        secret_file = "SECRET"
        json = '{"to": {{ to }}}'
        success = ["202"]
        [channels.sms.providers.own.headers]
        X-Version = "2"
    "#;

    #[test]
    fn providers_of_every_kind_are_read() {
        let settings = read_file(ALL).unwrap();
        let route: Vec<&str> = settings.sms.route.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(route, ["main", "own"]);
        let main = &settings.sms.route[0];
        assert!(matches!(&main.auth, Auth::Basic(user, _) if user == "AC1"));
        assert_eq!(main.receipts.as_ref().unwrap().status, "MessageStatus");
        assert!(matches!(settings.sms.route[1].auth, Auth::Bearer(_)));
        assert!(settings.sms.route[1].receipts.is_none());
        let printed = settings.print_redacted();
        assert!(!printed.contains("hush"), "{printed}");
        assert!(printed.contains("X-Version = \"[redacted]\""), "{printed}");
        assert!(
            printed.contains("To = \"{{ to }}\""),
            "what is embedded: {printed}"
        );
    }

    #[test]
    fn every_key_of_a_provider_makes_a_setting() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("carillon.toml");
        std::fs::write(&path, ALL).unwrap();
        let mut reader = Reader::layered(Some(&path), BTreeMap::new());
        let _ = Settings::take(&mut reader);
        assert_eq!(reader.untaken(), [] as [&str; 0]);
    }

    #[test]
    fn a_call_that_no_attempt_has_room_for_is_refused_with_the_cure() {
        let short = "[delivery]\nsend_within = \"9s\"\n[channels.sms.providers.own]\nurl = \"https://sms.example.org/\"\n";
        let text = read_file(short).unwrap_err();
        for part in [
            "channels.sms.providers.own.timeout",
            "must be at most half of delivery.send_within = `9s`",
            "that one to 20s or more",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(
            !text.contains("channels.webhook.timeout"),
            "no webhook is called: {text}"
        );
        read_file(&short.replace("9s", "20s")).unwrap();
    }

    #[test]
    fn everything_wrong_with_providers_is_said_at_once() {
        let text = read_file(
            r#"
            [channels.sms]
            enabled = true
            route = ["main", "nobody", "main"]
            allow_countries = ["DE"]
            content = "all"
            [channels.sms.providers.main]
            kind = "twilio"
            form.To = "{{ nubmer }}"
            success = ["ok"]
            timeot = "5s"
            [channels.sms.providers.Second]
            kind = "http"
            url = "gateway"
            method = "GET"
            form.a = "b"
            auth = "basic"
            message_id = "id"
            [channels.sms.providers.third]
            kind = "carrier pigeon"
            "#,
        )
        .unwrap_err();
        for key in [
            "channels.sms.content",
            "channels.sms.route = `main, nobody, main` (in",
            "channels.sms.allow_countries = `DE`",
            "channels.sms.providers.main.auth",
            "channels.sms.providers.main.from",
            "channels.sms.providers.main.form.To",
            "channels.sms.providers.main.success = `ok`",
            "channels.sms.providers.main.timeot",
            "channels.sms.providers.Second.kind",
            "channels.sms.providers.Second.url = `[redacted: 7 characters]`",
            "channels.sms.providers.Second.method",
            "channels.sms.providers.Second.auth",
            "channels.sms.providers.Second.message_id = `id`",
            "channels.sms.providers.third.kind = `carrier pigeon`",
        ] {
            assert!(
                text.lines().any(|line| line.starts_with(key)),
                "{key} is missing:\n{text}"
            );
        }
        assert!(
            text.contains("did you mean `channels.sms.providers.main.timeout`?"),
            "{text}"
        );
    }

    #[test]
    fn what_no_header_may_hold_is_refused_with_its_key() {
        let of = |lines: &str| {
            let url = "url = \"https://sms.example.org/\"";
            read_file(&format!("[channels.sms.providers.own]\n{url}\n{lines}\n"))
        };
        for lines in [
            "headers.X-Key = \"a\\nb\"",
            "headers.X-Key = \"a{{ '\\n' }}\"",
            "headers.X-Key = \"{{ username }}\"\nusername = \"a\\nb\"",
            "headers.X-Key = \"{{ from }}\"\nfrom = \"a\\r\"",
            "headers.X-Key = \"{{ secret }}\"\nsecret_file = \"LINES\"",
        ] {
            let told = of(lines).unwrap_err();
            assert!(
                told.starts_with("channels.sms.providers.own.headers.X-Key ="),
                "{lines}: {told}"
            );
            assert!(told.contains("the end of a line"), "{told}");
        }
        let told = of("auth = \"bearer\"\nsecret_file = \"LINES\"").unwrap_err();
        assert!(
            told.starts_with("channels.sms.providers.own.secret_file =") && told.contains("one line"),
            "{told}"
        );
        // Elsewhere it does no harm.
        of("form.From = \"{{ from }}\"\nfrom = \"a\\nb\"").unwrap();
    }

    #[test]
    fn a_key_in_the_address_of_a_provider_is_shown_to_nobody() {
        let of = |url: &str| {
            let provider =
                "[channels.sms.providers.own]\nkind = \"http\"\nmethod = \"GET\"\nsuccess = [\"200\"]\n";
            read_file(&format!("{provider}url = \"{url}\"\n"))
        };
        let bad = of("https://me:hush@sms.example.org/send?key=hush{{ to").unwrap_err();
        assert!(bad.contains("channels.sms.providers.own.url"), "{bad}");
        assert!(!bad.contains("hush"), "{bad}");
        let good = of("https://sms.example.org/send?key=hush&to={{ to }}").unwrap();
        let printed = good.print_redacted();
        assert!(
            printed.contains("https://sms.example.org/[redacted]?[redacted]"),
            "{printed}"
        );
        assert!(!printed.contains("hush"), "{printed}");
    }

    #[test]
    fn text_messages_that_could_go_nowhere_are_refused() {
        let text = read_file("[channels.sms]\nenabled = true\n").unwrap_err();
        assert!(text.contains("channels.sms.route = ``"), "{text}");
        assert!(text.contains("channels.sms.allow_countries = ``"), "{text}");
        assert_eq!(text.lines().count(), 2, "{text}");
    }
}
