//! The keys about mail, with the rules between them.

use std::collections::BTreeMap;
use std::path::Path;
use std::path::PathBuf;

use lettre::Address;
use lettre::message::Mailbox;

use super::reader::Reader;
use crate::channel::email::Letterhead;
use crate::channel::email::dkim::Signer;
use crate::channel::smtp;
use crate::channel::smtp::Login;
use crate::channel::smtp::Timeouts;
use crate::channel::smtp::Tls;

/// The first relay, and those that are asked where it certainly did not take a message.
const SMTP: &str = "channels.email.smtp.";
const HOST: &str = "channels.email.smtp.host";
const RELAYS: &str = "channels.email.relays.";
const DKIM: [&str; 3] = [
    "channels.email.dkim.domain",
    "channels.email.dkim.selector",
    "channels.email.dkim.key_file",
];
const FURTHER: &str = "channels.email.further_relays";
const FROM: &str = "channels.email.from";

/// What all our mails have in common.
pub(super) fn letterhead(reader: &mut Reader) -> Letterhead {
    let expected = "an address, such as \"Carillon <reminders@example.org>\"";
    let from: Mailbox = reader.parsed(FROM, expected);
    let message_id_domain = domain(reader, "channels.email.message_id_domain", &from);
    Letterhead {
        from,
        envelope_sender: envelope_sender(reader),
        message_id_domain,
    }
}

/// How the relays are reached, in the order in which they are asked; none: nothing leaves. All keys are read and checked,
/// also those of relays that are not asked.
pub(super) fn relays(reader: &mut Reader, letterhead: &Letterhead) -> Vec<smtp::Config> {
    let first = relay(reader, SMTP, letterhead);
    let names = reader.relays();
    let others: BTreeMap<String, Option<smtp::Config>> = names
        .into_iter()
        .map(|name| {
            (
                name.clone(),
                relay(reader, &format!("{RELAYS}{name}."), letterhead),
            )
        })
        .collect();
    let further = further(reader, &others);
    if first.is_none() && !further.is_empty() {
        reader.complain(
            FURTHER,
            format!("there is no relay to be asked before these: name it in {HOST}"),
        );
    }
    first.into_iter().chain(further).collect()
}

/// What signs our mails; none where no key of it is set.
pub(super) fn dkim(reader: &mut Reader, letterhead: &Letterhead) -> Option<Signer> {
    let given = DKIM.map(|key| reader.optional(key));
    if given.iter().all(Option::is_none) {
        return None;
    }
    let [Some(domain), Some(selector), Some(key_file)] = given else {
        let missing = DKIM.iter().zip(&given).find(|(_, given)| given.is_none());
        let (key, _) = missing.expect("one of them is missing");
        let cure = "is missing: domain, selector and key_file belong together; name all three or none";
        reader.complain(key, cure.to_owned());
        return None;
    };
    for (key, name) in [(DKIM[0], &domain), (DKIM[1], &selector)] {
        if !is_dns_name(name) {
            let cure = "is no name in the DNS: use letters, digits, `-` and `.`, as in example.org or s2026";
            reader.complain(key, cure.to_owned());
        }
    }
    let from = letterhead.from.email.domain().to_lowercase();
    let signs_for = domain.to_lowercase();
    if from != signs_for && !from.ends_with(&format!(".{signs_for}")) {
        let problem =
            format!("must be the domain of {FROM}, `{from}`, or one above it: receivers count no other");
        reader.complain(DKIM[0], problem);
    }
    let signer = Signer::from_file(domain, selector, Path::new(&key_file));
    signer
        .map_err(|error| reader.complain(DKIM[2], error.to_string()))
        .ok()
}

fn is_dns_name(name: &str) -> bool {
    let is_label = |label: &str| {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
        (1..=63).contains(&label.len()) && label.chars().all(allowed)
    };
    name.len() <= 253 && name.split('.').all(is_label)
}

fn further(reader: &mut Reader, others: &BTreeMap<String, Option<smtp::Config>>) -> Vec<smtp::Config> {
    let names = reader.list(FURTHER, "a list of names of relays", |items| Some(items.to_vec()));
    let mut further: Vec<smtp::Config> = Vec::with_capacity(names.len());
    for (place, name) in names.iter().enumerate() {
        match others.get(name) {
            None => reader.complain(
                FURTHER,
                format!("there is no relay `{name}`: describe it in [{RELAYS}{name}]"),
            ),
            Some(_) if names[..place].contains(name) => {
                reader.complain(FURTHER, format!("names `{name}` twice: once is enough"));
            }
            Some(None) => reader.complain(
                &format!("{RELAYS}{name}.host"),
                "names no relay: write its name or IP address".to_owned(),
            ),
            Some(relay) => further.extend(relay.clone()),
        }
    }
    further
}

/// The relay that `section` describes, if it names one.
fn relay(reader: &mut Reader, section: &str, letterhead: &Letterhead) -> Option<smtp::Config> {
    let key = |name: &str| format!("{section}{name}");
    let host = reader.text(&key("host")).trim().to_owned();
    let config = smtp::Config {
        port: u16::try_from(reader.number(&key("port"), 65_535)).expect("the most fits"),
        tls: reader.choice(
            &key("tls"),
            &[
                ("starttls", Tls::Starttls),
                ("implicit", Tls::Implicit),
                ("none", Tls::None),
            ],
        ),
        ca_file: ca_file(reader, &key("ca_file")),
        login: login(reader, &key("username"), &key("password_file")),
        hello_name: domain(reader, &key("hello_name"), &letterhead.from),
        connections: reader.number(&key("connections"), 1_000) as usize,
        timeouts: timeouts(reader, section),
        host,
    };
    if config.host.is_empty() {
        return None;
    }
    check(reader, section, &config, letterhead);
    Some(config)
}

fn check(reader: &mut Reader, section: &str, config: &smtp::Config, letterhead: &Letterhead) {
    let key = |name: &str| format!("{section}{name}");
    if config.host.contains([':', '/', ' ']) && config.host.parse::<std::net::IpAddr>().is_err() {
        reader.complain(
            &key("host"),
            "write the name or address alone; the port has a key of its own".to_owned(),
        );
    }
    let from_here = letterhead.from.email.domain() == "localhost";
    if from_here && !is_this_machine(&config.host) && !reader.is_complained_about(FROM) {
        let problem = "a relay does not take mail from localhost: set it to an address of yours, such as \
                       \"Carillon <reminders@example.org>\"";
        reader.complain(FROM, problem.to_owned());
    }
    if config.login.is_some() && config.tls == Tls::None && !is_this_machine(&config.host) {
        let problem = "the password would travel in the clear: use \"starttls\" or \"implicit\"";
        reader.complain(&key("tls"), problem.to_owned());
    }
}

fn is_this_machine(host: &str) -> bool {
    let address = host.parse::<std::net::IpAddr>();
    host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}

/// A domain name; where the key is empty, that of `from`.
fn domain(reader: &mut Reader, key: &str, from: &Mailbox) -> String {
    let Some(name) = reader.optional(key) else {
        return from.email.domain().to_owned();
    };
    let allowed = |character: char| character.is_ascii_alphanumeric() || "-.[]:".contains(character);
    if name.len() > 253 || !name.chars().all(allowed) {
        reader.complain(key, "is no domain name: write it as example.org".to_owned());
    }
    name
}

fn ca_file(reader: &mut Reader, key: &str) -> Option<PathBuf> {
    let path = reader.optional(key)?;
    if let Err(error) = std::fs::File::open(Path::new(&path)) {
        reader.complain(
            key,
            format!("the file cannot be read ({error}): check the path and who may read it"),
        );
    }
    Some(path.into())
}

fn login(reader: &mut Reader, user: &str, file: &str) -> Option<Login> {
    let username = reader.optional(user);
    let names_file = reader.optional(file).is_some();
    match (username, names_file) {
        (Some(username), true) => {
            let password = reader.secret(file)?;
            Some(Login { username, password })
        }
        (Some(_), false) => {
            reader.complain(
                user,
                format!("the password is missing: write it into a file and name it in {file}"),
            );
            None
        }
        (None, true) => {
            reader.complain(file, format!("the user name is missing: set {user}"));
            None
        }
        (None, false) => None,
    }
}

fn envelope_sender(reader: &mut Reader) -> Option<Address> {
    let key = "channels.email.envelope_sender";
    let text = reader.text(key);
    if text == "<>" {
        return None;
    }
    let address = text.parse();
    if address.is_err() {
        reader.complain(
            key,
            "expected an address such as bounces@example.org, or \"<>\" for nowhere".to_owned(),
        );
    }
    address.ok()
}

fn timeouts(reader: &mut Reader, section: &str) -> Timeouts {
    let mut of = |stage: &str| {
        let key = format!("{section}timeouts.{stage}");
        let timeout = reader.duration(&key);
        if timeout.is_zero() {
            reader.complain(&key, "must be more than 0".to_owned());
        }
        timeout
    };
    Timeouts {
        connect: of("connect"),
        greeting: of("greeting"),
        mail: of("mail"),
        recipient: of("recipient"),
        data: of("data"),
        body: of("body"),
        accept: of("accept"),
        idle: of("idle"),
    }
}
