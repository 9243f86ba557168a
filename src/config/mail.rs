//! The keys about mail, with the rules between them.

use std::path::Path;
use std::path::PathBuf;

use lettre::Address;
use lettre::message::Mailbox;

use super::reader::Reader;
use crate::channel::email::Letterhead;
use crate::channel::smtp;
use crate::channel::smtp::Login;
use crate::channel::smtp::Timeouts;
use crate::channel::smtp::Tls;

const HOST: &str = "channels.email.smtp.host";
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

/// How the relay is reached. All keys are read and checked even where there is none.
pub(super) fn smtp(reader: &mut Reader, letterhead: &Letterhead) -> Option<smtp::Config> {
    let host = reader.text(HOST).trim().to_owned();
    let config = smtp::Config {
        port: u16::try_from(reader.number("channels.email.smtp.port", 65_535)).expect("the most fits"),
        tls: reader.choice(
            "channels.email.smtp.tls",
            &[
                ("starttls", Tls::Starttls),
                ("implicit", Tls::Implicit),
                ("none", Tls::None),
            ],
        ),
        ca_file: ca_file(reader),
        login: login(reader),
        hello_name: domain(reader, "channels.email.smtp.hello_name", &letterhead.from),
        connections: reader.number("channels.email.smtp.connections", 1_000) as usize,
        timeouts: timeouts(reader),
        host,
    };
    if config.host.is_empty() {
        return None;
    }
    check(reader, &config, letterhead);
    Some(config)
}

fn check(reader: &mut Reader, config: &smtp::Config, letterhead: &Letterhead) {
    if config.connections == 0 {
        reader.complain(
            "channels.email.smtp.connections",
            "must be at least 1: nothing would ever be sent".to_owned(),
        );
    }
    if config.host.contains([':', '/', ' ']) && config.host.parse::<std::net::IpAddr>().is_err() {
        reader.complain(
            HOST,
            "write the name or address alone; the port has a key of its own".to_owned(),
        );
    }
    if letterhead.from.email.domain() == "localhost" && !is_this_machine(&config.host) {
        let problem = "a relay does not take mail from localhost: set it to an address of yours, such as \
                       \"Carillon <reminders@example.org>\"";
        reader.complain(FROM, problem.to_owned());
    }
    if config.login.is_some() && config.tls == Tls::None && !is_this_machine(&config.host) {
        let problem = "the password would travel in the clear: use \"starttls\" or \"implicit\"";
        reader.complain("channels.email.smtp.tls", problem.to_owned());
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

fn ca_file(reader: &mut Reader) -> Option<PathBuf> {
    let key = "channels.email.smtp.ca_file";
    let path = reader.optional(key)?;
    if let Err(error) = std::fs::File::open(Path::new(&path)) {
        reader.complain(
            key,
            format!("the file cannot be read ({error}): check the path and who may read it"),
        );
    }
    Some(path.into())
}

fn login(reader: &mut Reader) -> Option<Login> {
    let (user, file) = (
        "channels.email.smtp.username",
        "channels.email.smtp.password_file",
    );
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

fn timeouts(reader: &mut Reader) -> Timeouts {
    let mut of = |stage: &str| {
        let key = format!("channels.email.smtp.timeouts.{stage}");
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
