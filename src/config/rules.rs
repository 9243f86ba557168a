//! Rules that no single value can keep: they hold between keys, or between a key and the machine.

use std::time::Duration;

use secrecy::ExposeSecret;

use super::Settings;
use super::reader::Reader;
use crate::logging;
use crate::trigger::ChannelKind;

/// Complains about everything in `settings` that breaks a rule.
pub(super) fn check(settings: &Settings, reader: &mut Reader) {
    store(settings, reader);
    node(settings, reader);
    alone(settings, reader);
    cluster(settings, reader);
    http(settings, reader);
    worker(settings, reader);
    delivery(settings, reader);
    // What was handed over is remembered for planning an hour back.
    if settings.policies.late_grace > Duration::from_hours(1) {
        complain(
            reader,
            "policies.late_grace",
            "must be at most 1h: a reminder that late is no reminder",
        );
    }
    for (kind, channel) in &settings.channels {
        retry(*kind, &channel.retry, reader);
        limit(*kind, settings, reader);
    }
    surroundings(settings, reader);
}

fn store(settings: &Settings, reader: &mut Reader) {
    match settings.store.url.strip_prefix("sqlite://") {
        Some("") => complain(reader, "store.url", "names no file: write sqlite://carillon.db"),
        Some(_) => {}
        None if settings.store.is_postgres() => {}
        None => complain(
            reader,
            "store.url",
            "write sqlite:// and the path of a file, or postgres://user@host:5432/database",
        ),
    }
}

fn node(settings: &Settings, reader: &mut Reader) {
    let id = &settings.node.id;
    let allowed = |character: char| character.is_ascii_alphanumeric() || "-_.".contains(character);
    if id.is_empty() || id.len() > 64 || !id.chars().all(allowed) {
        complain(reader, "node.id", "use 1 to 64 letters, digits, `-`, `_` or `.`");
    }
}

/// Nodes that were meant to share their work, and each have a file of their own, would each do all of it.
fn alone(settings: &Settings, reader: &mut Reader) {
    if settings.store.is_postgres() {
        return;
    }
    if let Some(key) = reader.changed("cluster.").first() {
        let problem = format!(
            "has no meaning with {}, where there is one node: set store.url to the PostgreSQL that the nodes share, or \
             leave [cluster] out",
            reader.described("store.url")
        );
        reader.complain(key, problem);
    }
}

fn cluster(settings: &Settings, reader: &mut Reader) {
    let Some(cluster) = &settings.cluster else { return };
    let open = cluster.secret.is_none() && cluster.tls.is_none();
    if open && !cluster.listen.ip().is_loopback() {
        complain(
            reader,
            "cluster.listen",
            "beyond loopback peers must know each other: name cluster.secret_file or the files of cluster.tls",
        );
    }
    if cluster.listen.ip().is_unspecified() && cluster.advertise.is_none() {
        complain(
            reader,
            "cluster.advertise",
            "must say where peers reach this node, since it listens everywhere: such as node-1.example.org:8086",
        );
    }
    if cluster
        .advertise
        .as_deref()
        .is_some_and(|place| !names_port(place))
    {
        complain(
            reader,
            "cluster.advertise",
            "write host:port, such as node-1.example.org:8086",
        );
    }
    let http = settings.http.listen;
    if cluster.listen == http && http.port() != 0 {
        let problem = format!(
            "is {}, too: peers need a port of their own",
            reader.described("http.listen")
        );
        reader.complain("cluster.listen", problem);
    }
    let pace = cluster.pace;
    more_than_zero(reader, "cluster.heartbeat", pace.heartbeat);
    if pace.election_min < pace.heartbeat * 2 {
        complain(
            reader,
            "cluster.election_timeout_min",
            "must be at least twice cluster.heartbeat",
        );
    }
    if pace.election_max <= pace.election_min {
        complain(
            reader,
            "cluster.election_timeout_max",
            "must be more than cluster.election_timeout_min, or candidates stand in each other's way",
        );
    }
}

/// `host:port`, where the host may be an IPv6 address in brackets.
fn names_port(place: &str) -> bool {
    place
        .rsplit_once(':')
        .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0))
}

fn http(settings: &Settings, reader: &mut Reader) {
    let http = &settings.http;
    let token = http.token.as_ref().map(ExposeSecret::expose_secret);
    if token.is_none() && !http.listen.ip().is_loopback() {
        complain(
            reader,
            "http.listen",
            "beyond loopback a token is required: write one into a file and name it in http.token_file, or listen \
             on 127.0.0.1",
        );
    }
    if token.is_some_and(|token| !token.bytes().all(|byte| byte.is_ascii_graphic())) {
        complain(
            reader,
            "http.token_file",
            "the token must be one line of visible ASCII characters, since it travels in a header",
        );
    }
    if http.limits.event_bytes > http.limits.body_bytes {
        let problem = format!("may not exceed {}", reader.described("http.max_body_bytes"));
        reader.complain("http.max_event_bytes", problem);
    }
    more_than_zero(reader, "http.read_timeout", http.limits.read_timeout);
    if http.limits.connections == 0 {
        reader.complain("http.max_connections", "must be more than 0".to_owned());
    }
}

fn worker(settings: &Settings, reader: &mut Reader) {
    let worker = &settings.worker;
    more_than_zero(reader, "worker.period", worker.period);
    if worker.look_ahead < worker.period {
        let advice = worker.period + Duration::from_mins(5);
        let problem = format!(
            "must be at least {}, or triggers fall between two looks: set it to {} (period + 5 minutes)",
            reader.described("worker.period"),
            compact(advice)
        );
        reader.complain("worker.look_ahead", problem);
    }
    if worker.overdue_wait_time <= settings.delivery.send_within {
        let problem = format!(
            "must be more than {}, or an attempt under way is taken for lost: set it to {} or more",
            reader.described("delivery.send_within"),
            compact(settings.delivery.send_within * 2)
        );
        reader.complain("worker.overdue_wait_time", problem);
    }
}

fn delivery(settings: &Settings, reader: &mut Reader) {
    more_than_zero(reader, "delivery.send_within", settings.delivery.send_within);
    more_than_zero(reader, "delivery.max_lateness", settings.delivery.max_lateness);
    if settings.retention.history <= settings.delivery.max_lateness {
        let problem = format!(
            "must be more than {}, or what was sent is forgotten while it could be sent again: set it to {} or more",
            reader.described("delivery.max_lateness"),
            compact(settings.delivery.max_lateness * 2)
        );
        reader.complain("retention.history", problem);
    }
}

fn retry(kind: ChannelKind, policy: &crate::trigger::retry::Policy, reader: &mut Reader) {
    let backoff = format!("channels.{kind}.retry.backoff");
    more_than_zero(reader, &backoff, policy.backoff);
    if policy.max_backoff < policy.backoff {
        let problem = format!("must be at least {}", reader.described(&backoff));
        reader.complain(&format!("channels.{kind}.retry.max_backoff"), problem);
    }
}

/// What an owner got is known as long as slots are kept.
fn limit(kind: ChannelKind, settings: &Settings, reader: &mut Reader) {
    let key = format!("channels.{kind}.limit.timeframe");
    let Some(limit) = settings.channels.get(&kind).and_then(|channel| channel.limit) else {
        return;
    };
    more_than_zero(reader, &key, limit.timeframe);
    if limit.timeframe > settings.retention.history {
        let problem = format!(
            "must be at most {}, since what is older is forgotten",
            reader.described("retention.history")
        );
        reader.complain(&key, problem);
    }
}

fn surroundings(settings: &Settings, reader: &mut Reader) {
    if settings.templates_dir.as_ref().is_some_and(|dir| !dir.is_dir()) {
        complain(
            reader,
            "templates.dir",
            "is no folder that can be read: create it, or leave the key empty for the built-in templates",
        );
    }
    if let Err(error) = logging::check_level(&settings.log.level) {
        let problem =
            format!("{error}: use error, warn, info, debug or trace, or a list such as info,sqlx=warn");
        reader.complain("log.level", problem);
    }
}

fn more_than_zero(reader: &mut Reader, key: &str, duration: Duration) {
    if duration.is_zero() {
        complain(reader, key, "must be more than 0");
    }
}

fn complain(reader: &mut Reader, key: &str, problem: &str) {
    reader.complain(key, problem.to_owned());
}

fn compact(duration: Duration) -> String {
    humantime::format_duration(duration).to_string().replace(' ', "")
}
