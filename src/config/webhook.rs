//! The keys about webhooks, with the rules between them.

use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

use secrecy::ExposeSecret;

use super::reader::Reader;
use crate::channel::webhook::Config;
use crate::channel::webhook::Guard;
use crate::channel::webhook::Network;
use crate::channel::webhook::Secrets;

/// How calls are made.
pub(super) fn webhook(reader: &mut Reader, public_url: Option<&str>, send_within: Duration) -> Config {
    let secrets = secrets(reader);
    let key = "channels.webhook.timeout";
    let timeout = match &secrets {
        Some(_) => reader.timeout(key, send_within),
        // No call leaves, so none needs room.
        None => reader.more_than_zero(key),
    };
    Config {
        guard: Guard::new(networks(reader)),
        secrets,
        timeout,
        calls: reader.number("channels.webhook.calls", 100) as usize,
        ack_timeout: ack_timeout(reader, public_url),
        ca_file: ca_file(reader),
    }
}

fn networks(reader: &mut Reader) -> Vec<Network> {
    let key = "channels.webhook.allow_networks";
    let texts = reader.list(key, "a list of networks, such as [\"10.1.0.0/16\"]", |texts| {
        Some(texts.to_vec())
    });
    let mut networks = Vec::new();
    for text in texts {
        match text.parse() {
            Ok(network) => networks.push(network),
            Err(problem) => reader.complain(key, problem),
        }
    }
    networks
}

fn secrets(reader: &mut Reader) -> Option<Secrets> {
    let key = "channels.webhook.secret_file";
    let text = reader.secret(key)?;
    let secrets = Secrets::parse(text.expose_secret());
    secrets.map_err(|problem| reader.complain(key, problem)).ok()
}

fn ack_timeout(reader: &mut Reader, public_url: Option<&str>) -> Option<Duration> {
    let key = "channels.webhook.ack";
    let by_callback = reader.choice(key, &[("response", false), ("callback", true)]);
    let timeout = reader.more_than_zero("channels.webhook.ack_timeout");
    if by_callback && public_url.is_none() {
        let cure = "targets must know where to report: set http.public_url, too";
        reader.complain(key, cure.to_owned());
    }
    by_callback.then_some(timeout)
}

fn ca_file(reader: &mut Reader) -> Option<PathBuf> {
    let key = "channels.webhook.ca_file";
    let path = reader.optional(key)?;
    if let Err(error) = std::fs::File::open(Path::new(&path)) {
        let cure = format!("the file cannot be read ({error}): check the path and who may read it");
        reader.complain(key, cure);
    }
    Some(path.into())
}
