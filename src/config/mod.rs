//! Configuration: `config/carillon.toml` is embedded and is at once the defaults and their documentation; the
//! operator's file and the environment say what differs.
//!
//! Reading never stops at the first mistake: every complaint names the key, the value unless it may be a secret
//! (`reader/shown.rs`), where it comes from and the cure. The result, [`Settings`], is made of the modules' own configurations; nobody else reads a key.

mod channels;
mod complaint;
mod mail;
mod pauses;
mod policies;
mod reader;
mod room;
mod rules;
mod sms;
#[cfg(test)]
mod tests;
mod webhook;

use std::collections::BTreeMap;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

use secrecy::ExposeSecret;
use sha2::Digest;
use sha2::Sha256;

pub use complaint::Complaint;
pub use complaint::Complaints;
pub use complaint::Origin;

use crate::change;
use crate::channel;
use crate::channel::email::Letterhead;
use crate::channel::email::dkim::Signer;
use crate::channel::smtp;
use crate::clock;
use crate::cluster;
use crate::delivery;
use crate::delivery::CatchUp;
use crate::delivery::ChannelConfig;
use crate::delivery::message::TextForm;
use crate::http;
use crate::logging;
use crate::trigger::ChannelKind;
use crate::worker;
use reader::Applied;
use reader::Reader;

/// The defaults, and what every key means.
pub const DEFAULTS: &str = include_str!("../../config/carillon.toml");

/// Keys and sections that take effect only after a restart; all others follow a reload.
pub const RESTART: [&str; 28] = [
    "store.",
    "clock.",
    "cluster.",
    "node.",
    "http.",
    "worker.enabled",
    "worker.initial_delay",
    "channels.email.from",
    "channels.email.envelope_sender",
    "channels.email.message_id_domain",
    "channels.email.answer_links",
    "channels.email.smtp.",
    "channels.email.further_relays",
    "channels.email.relays.",
    "channels.email.dkim.",
    "channels.webhook.secret_file",
    "channels.webhook.allow_networks",
    "channels.webhook.timeout",
    "channels.webhook.calls",
    "channels.webhook.ca_file",
    "channels.webhook.ack",
    "channels.sms.route",
    "channels.sms.allow_countries",
    "channels.sms.transliterate",
    "channels.sms.show_private",
    "channels.sms.providers.",
    "templates.",
    "log.format",
];

/// Keys in which nodes of one cluster may differ: left out of [`Settings::hash`].
const PER_NODE: [&str; 6] = [
    "node.id",
    "http.listen",
    "cluster.listen",
    "cluster.advertise",
    "cluster.data_dir",
    "worker.enabled",
];

/// The most connections that may be configured.
const MOST_CONNECTIONS: u32 = 100_000;

/// Where everything is remembered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreConfig {
    /// `sqlite://PATH`, or `postgres://…`.
    pub url: String,
    /// On SQLite, changes are refused while the disk has fewer bytes free.
    pub min_free: u64,
    /// Whether nothing is fired after the database went back in time, until an operator lets it.
    pub hold_on_rewind: bool,
}

impl StoreConfig {
    /// Whether nodes may share it.
    pub fn is_postgres(&self) -> bool {
        self.url.starts_with("postgres://") || self.url.starts_with("postgresql://")
    }

    /// The path in a SQLite URL.
    pub fn sqlite_path(&self) -> PathBuf {
        PathBuf::from(self.url.trim_start_matches("sqlite://"))
    }
}

/// Who this node is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeConfig {
    /// Its name.
    pub id: String,
}

/// How long things are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetentionConfig {
    /// History and outbox.
    pub history: Duration,
    /// Tombstones of deleted events.
    pub tombstones: Duration,
}

/// The whole configuration, valid.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where everything is remembered.
    pub store: StoreConfig,
    /// Who this node is.
    pub node: NodeConfig,
    /// When a jump of the wall clock is not believed.
    pub clock: clock::Config,
    /// How this node takes part in a cluster; nothing where it is alone on SQLite.
    pub cluster: Option<cluster::Config>,
    /// The API.
    pub http: http::Config,
    /// The worker.
    pub worker: worker::Config,
    /// Delivery, for all channels.
    pub delivery: delivery::Config,
    /// Delivery, for each channel.
    pub channels: BTreeMap<ChannelKind, ChannelConfig>,
    /// What all our mails have in common, also those that stay in the outbox.
    pub letterhead: Letterhead,
    /// Whether our mails have links by which they are answered, where others reach this service.
    pub answer_links: bool,
    /// How the mail relays are reached, in the order in which they are asked; none: messages stay in the outbox.
    pub relays: Vec<smtp::Config>,
    /// What signs our mails, where anything does.
    pub dkim: Option<Signer>,
    /// How calls are made.
    pub webhook: channel::webhook::Config,
    /// How text messages leave.
    pub sms: channel::sms::Config,
    /// How they are worded.
    pub text_form: TextForm,
    /// What an alarm means where the standards leave a choice.
    pub policies: change::Policies,
    /// Stand-alone alarms of one owner that are to come, at the most.
    pub alarms_per_owner: u32,
    /// How long things are kept.
    pub retention: RetentionConfig,
    /// The operator's own templates.
    pub templates_dir: Option<PathBuf>,
    /// Logging.
    pub log: logging::Config,
    effective: BTreeMap<String, Applied>,
}

impl Settings {
    /// Reads the layers: the defaults, `file`, and those variables of `environment` that are ours.
    pub fn load(
        file: Option<&Path>,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, Complaints> {
        let ours = environment
            .into_iter()
            .filter(|(name, _)| name.to_uppercase().starts_with(reader::PREFIX))
            .collect();
        Self::take(&mut Reader::layered(file, ours))
    }

    fn take(reader: &mut Reader) -> Result<Self, Complaints> {
        let letterhead = mail::letterhead(reader);
        let store = StoreConfig {
            url: reader.text("store.url"),
            min_free: room::min_free(reader),
            hold_on_rewind: reader.choice("store.on_rewind", &[("go_on", false), ("hold", true)]),
        };
        let worker = worker_config(reader);
        let delivery = delivery::Config {
            send_within: reader.duration("delivery.send_within"),
            max_lateness: reader.duration("delivery.max_lateness"),
            disable_after: reader.duration("channels.webhook.disable_after"),
            catch_up: reader.choice(
                "policies.catch_up",
                &[
                    ("send", CatchUp::Send),
                    ("digest", CatchUp::Digest),
                    ("drop", CatchUp::Drop),
                ],
            ),
            suppress_for: reader.duration("channels.email.suppress_for"),
        };
        let send_within = delivery.send_within;
        let http = http_config(reader);
        let settings = Self {
            cluster: Some(cluster_config(reader, worker.enabled)).filter(|_| store.is_postgres()),
            store,
            node: NodeConfig {
                id: reader.text("node.id"),
            },
            clock: clock::Config {
                max_step: reader.more_than_zero("clock.max_step"),
                hold: reader.duration("clock.hold"),
            },
            webhook: webhook::webhook(reader, http.public_url.as_deref(), send_within),
            http,
            worker,
            channels: channels::read(reader, send_within),
            delivery,
            relays: mail::relays(reader, &letterhead),
            dkim: mail::dkim(reader, &letterhead),
            letterhead,
            answer_links: reader.flag("channels.email.answer_links"),
            sms: sms::read(reader, send_within),
            text_form: sms::form(reader),
            policies: policies::read(reader),
            alarms_per_owner: reader.number("policies.alarms_per_owner", 100_000_000),
            retention: RetentionConfig {
                history: reader.duration("retention.history"),
                tombstones: reader.duration("retention.tombstones"),
            },
            templates_dir: reader.optional("templates.dir").map(PathBuf::from),
            log: log_config(reader),
            effective: reader.effective(),
        };
        rules::check(&settings, reader);
        if reader.complaints.is_empty() {
            Ok(settings)
        } else {
            Err(Complaints(std::mem::take(&mut reader.complaints)))
        }
    }

    /// A number that is equal on nodes with the same configuration, for `carillon_config_hash`. What differs from
    /// node to node by its nature, and what may be a secret, is not in it. It fits a 64-bit float exactly.
    pub fn hash(&self) -> u64 {
        let mut hash = Sha256::new();
        let shared = self
            .effective
            .iter()
            .filter(|(key, _)| !PER_NODE.contains(&key.as_str()));
        for (key, value) in shared {
            hash.update(format!("{key}={}\n", value.shown));
        }
        let digest = hash.finalize();
        digest[..6]
            .iter()
            .fold(0, |number, byte| number << 8 | u64::from(*byte))
    }

    /// The configuration as it applies, as TOML, without secrets; what is not a default says where it comes from.
    pub fn print_redacted(&self) -> String {
        let mut lines = Vec::new();
        let mut open = "";
        // By section: the keys of one do not follow each other in the order of whole paths.
        let by_section: BTreeMap<_, _> = self
            .effective
            .iter()
            .filter_map(|(key, value)| Some((key.rsplit_once('.')?, value)))
            .collect();
        for ((section, name), Applied { shown, origin, .. }) in by_section {
            if section != open {
                lines.push(format!("\n[{}]", heading(section)));
                open = section;
            }
            let source = match origin {
                Origin::Default => String::new(),
                origin => format!(" # {origin}"),
            };
            lines.push(format!("{name} = {shown}{source}"));
        }
        lines.join("\n").trim_start().to_owned() + "\n"
    }
}

/// A section as TOML names it: people call their sources as they like.
fn heading(section: &str) -> String {
    let Some(source) = section.strip_prefix("sources.") else {
        return section.to_owned();
    };
    let (name, part) = match source.strip_suffix(".defaults") {
        Some(name) => (name, ".defaults"),
        None => (source, ""),
    };
    format!("sources.{name:?}{part}")
}

/// The keys or sections that differ and take effect only after a restart.
pub fn what_needs_restart(old: &Settings, new: &Settings) -> Vec<&'static str> {
    let differs = |prefix: &str| {
        let of = |settings: &Settings| -> Vec<(String, String)> {
            let matching = settings
                .effective
                .iter()
                .filter(|(key, _)| key.starts_with(prefix));
            matching
                .map(|(key, value)| (key.clone(), value.whole.expose_secret().to_owned()))
                .collect()
        };
        of(old) != of(new)
    };
    let differing = RESTART.into_iter().filter(|prefix| differs(prefix));
    differing.map(|prefix| prefix.trim_end_matches('.')).collect()
}

fn cluster_config(reader: &mut Reader, stands: bool) -> cluster::Config {
    let place = "an address with a port, such as 127.0.0.1:8086";
    let mut file = |key: &str| reader.optional(key).map(PathBuf::from);
    let files = [
        file("cluster.tls.ca_file"),
        file("cluster.tls.certificate_file"),
        file("cluster.tls.key_file"),
    ];
    let named = files.iter().flatten().count();
    if named == 1 || named == 2 {
        let cure = "ca_file, certificate_file and key_file belong together: name all three or none";
        reader.complain("cluster.tls.ca_file", cure.to_owned());
    }
    let tls = match files {
        [Some(ca_file), Some(certificate_file), Some(key_file)] => Some(cluster::Tls {
            ca_file,
            certificate_file,
            key_file,
        }),
        _ => None,
    };
    cluster::Config {
        listen: reader.parsed("cluster.listen", place),
        advertise: reader.optional("cluster.advertise"),
        data_dir: PathBuf::from(reader.text("cluster.data_dir")),
        secret: reader.secret("cluster.secret_file"),
        tls,
        stands,
        pace: cluster::Pace {
            heartbeat: reader.duration("cluster.heartbeat"),
            election_min: reader.duration("cluster.election_timeout_min"),
            election_max: reader.duration("cluster.election_timeout_max"),
        },
    }
}

fn http_config(reader: &mut Reader) -> http::Config {
    let connections = reader.number("http.max_connections", MOST_CONNECTIONS);
    http::Config {
        listen: reader.parsed(
            "http.listen",
            "an address with a port, such as 127.0.0.1:8085 or [::1]:8085",
        ),
        token: reader.secret("http.token_file"),
        public_url: public_url(reader),
        probe_hosts: probe_hosts(reader),
        limits: http::Limits {
            event_bytes: reader.number("http.max_event_bytes", 64 << 20) as usize,
            body_bytes: reader.number("http.max_body_bytes", 1 << 30) as usize,
            read_timeout: reader.duration("http.read_timeout"),
            connections: connections as usize,
            connections_per_peer: connections_per_peer(reader, connections) as usize,
        },
    }
}

fn connections_per_peer(reader: &mut Reader, connections: u32) -> u32 {
    let key = "http.max_connections_per_peer";
    let expected =
        format!("a whole number from 1 to {MOST_CONNECTIONS}, or -1 for a quarter of http.max_connections");
    let given = reader.amount_as(key, &expected, MOST_CONNECTIONS);
    if given == Some(0) {
        let problem = "must not be 0, at which nobody could call: name a number, or -1 for a quarter of \
                       http.max_connections";
        reader.complain(key, problem.to_owned());
    }
    given.unwrap_or_else(|| connections.div_ceil(4))
}

/// Host names, in lower case.
fn probe_hosts(reader: &mut Reader) -> Vec<String> {
    let expected =
        "a list of host names or addresses without a port, such as [\"node1.internal\", \"10.1.0.5\"]";
    reader.list("http.probe_hosts", expected, |hosts| {
        let host = |name: &String| {
            let authority = name.parse::<axum::http::uri::Authority>().ok()?;
            (authority.host() == name).then(|| name.to_ascii_lowercase())
        };
        hosts.iter().map(host).collect()
    })
}

/// Where callers from outside reach this service, without a slash at its end.
fn public_url(reader: &mut Reader) -> Option<String> {
    let key = "http.public_url";
    let given = reader.optional(key)?;
    let url = given.parse::<reqwest::Url>().ok().filter(|url| {
        matches!(url.scheme(), "http" | "https")
            && url.has_host()
            && url.username().is_empty()
            && url.password().is_none()
            && url.query().is_none()
            && url.fragment().is_none()
    });
    if url.is_none() {
        let cure =
            "write the address by which others reach this service, such as https://reminders.example.org";
        reader.complain(key, cure.to_owned());
    }
    url.map(|url| url.as_str().trim_end_matches('/').to_owned())
}

fn worker_config(reader: &mut Reader) -> worker::Config {
    worker::Config {
        enabled: reader.flag("worker.enabled"),
        period: reader.duration("worker.period"),
        initial_delay: reader.duration("worker.initial_delay"),
        look_ahead: reader.duration("worker.look_ahead"),
        overdue_wait_time: reader.duration("worker.overdue_wait_time"),
    }
}

fn log_config(reader: &mut Reader) -> logging::Config {
    logging::Config {
        format: reader.choice(
            "log.format",
            &[
                ("auto", logging::Format::Auto),
                ("human", logging::Format::Human),
                ("json", logging::Format::Json),
            ],
        ),
        level: reader.text("log.level"),
    }
}
