//! `carillon cluster`: asks a running node who is there, has one struck off that is gone for good, and lets a new cluster
//! be founded where most are gone.

use std::fmt::Write;
use std::io;
use std::net::IpAddr;
use std::net::Ipv4Addr;
use std::net::Ipv6Addr;
use std::net::SocketAddr;
use std::path::Path;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use anyhow::bail;
use clap::Args;
use clap::Subcommand;
use reqwest::Method;
use reqwest::StatusCode;
use secrecy::ExposeSecret;
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::Value;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::RootCertStore;
use tokio_rustls::rustls::crypto::ring;

use crate::config::Settings;
use crate::store::Store;
use crate::store::postgres;
use crate::store::postgres::PostgresStore;

/// How long a node may take to answer; a removal waits for the others to agree.
const PATIENCE: Duration = Duration::from_mins(1);

/// A node that has shown no sign of life for so long is stopped.
const DEAD_AFTER: Duration = Duration::from_secs(10);

/// How long it may take to be reached.
const CONNECT: Duration = Duration::from_secs(5);

/// What `cluster` takes.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The node to ask, any of them [default: where http.listen says that this one is]
    #[arg(long, global = true, value_name = "URL")]
    url: Option<String>,

    /// File with the token that the node asks for [default: http.token_file]
    #[arg(long, global = true, value_name = "PATH")]
    token_file: Option<PathBuf>,

    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Show the nodes, who leads, who lives, and how many triggers each holds
    Status {
        /// The answer as JSON instead of a table
        #[arg(long)]
        json: bool,
    },

    /// Strike off a node that is gone for good; it must be stopped. Its number is never used again
    Remove {
        /// The number of the node, as `cluster status` shows it
        #[arg(value_name = "ID")]
        id: u64,
    },

    /// Let a new cluster be founded on the database, where most voters have lost their cluster.data_dir for good. All
    /// nodes must be stopped, and what is left of the directories deleted; the next node that starts founds it
    Dissolve,
}

/// The cluster, as a node tells it.
#[derive(Debug, Deserialize)]
struct Cluster {
    #[serde(rename = "cluster")]
    name: String,
    told_by: u64,
    leader: Option<u64>,
    term: u64,
    members: Vec<Member>,
}

#[derive(Debug, Deserialize)]
struct Member {
    id: u64,
    addr: String,
    role: String,
    lives: Option<bool>,
    silent_ms: Option<u64>,
    armed: Option<u64>,
}

/// Asks, and says what was answered.
pub(super) fn run(arguments: &Arguments, settings: &Settings) -> anyhow::Result<ExitCode> {
    let node = || Node::new(arguments, settings);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let said = runtime.block_on(async {
        match arguments.what {
            What::Status { json } => status(&node()?, json).await,
            What::Remove { id } => remove(&node()?, id).await,
            What::Dissolve => dissolve(settings).await,
        }
    })?;
    print(&said)?;
    Ok(ExitCode::SUCCESS)
}

/// Whoever reads us may have seen enough, as `head` has.
fn print(said: &str) -> io::Result<()> {
    use io::Write;
    match io::stdout().lock().write_all(said.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

async fn status(node: &Node, json: bool) -> anyhow::Result<String> {
    let answer = node.ask(Method::GET, "/v1/cluster").await?;
    if json {
        return Ok(serde_json::to_string_pretty(&answer)? + "\n");
    }
    Ok(table(&node.read(answer)?))
}

async fn remove(node: &Node, id: u64) -> anyhow::Result<String> {
    node.ask(Method::DELETE, &format!("/v1/cluster/{id}")).await?;
    Ok(format!("node {id} is no member any more\n"))
}

async fn dissolve(settings: &Settings) -> anyhow::Result<String> {
    if !settings.store.is_postgres() {
        bail!("store.url names a file: nodes form a cluster on a PostgreSQL that they share");
    }
    let store = PostgresStore::open(&settings.store.url, postgres::Options::default()).await?;
    let living = store.dissolve(DEAD_AFTER).await;
    store.close().await;
    match living?.as_slice() {
        [] => Ok("the next node that starts founds a new cluster\n".to_owned()),
        living => bail!("these nodes run: {}; stop all of them first", living.join(", ")),
    }
}

fn table(cluster: &Cluster) -> String {
    let leader = match cluster.leader {
        Some(leader) => format!("node {leader} leads"),
        None => "nobody leads".to_owned(),
    };
    let mut text = format!(
        "cluster {}, term {}: {leader}, as node {} sees it\n",
        cluster.name, cluster.term, cluster.told_by
    );
    let widest = cluster.members.iter().map(|member| member.addr.len()).max();
    let wide = widest.unwrap_or_default().max("ADDRESS".len());
    let mut line = |cells: [&str; 5]| {
        let [node, address, role, lives, holds] = cells;
        writeln!(
            text,
            "{node:>4}  {address:<wide$}  {role:<7}  {lives:<12}  {holds:>6}"
        )
        .expect("a string takes every text");
    };
    line(["NODE", "ADDRESS", "ROLE", "LIVES", "HOLDS"]);
    for member in &cluster.members {
        let holds = member
            .armed
            .map_or_else(|| "-".to_owned(), |armed| armed.to_string());
        line([
            &member.id.to_string(),
            &member.addr,
            &member.role,
            &lives(member),
            &holds,
        ]);
    }
    text
}

/// Only the leader knows who lives.
fn lives(member: &Member) -> String {
    match (member.lives, member.silent_ms) {
        (Some(true), _) => "yes".to_owned(),
        (Some(false), Some(silent)) => format!("no, {} s", silent / 1_000),
        (Some(false), None) => "no".to_owned(),
        (None, _) => "?".to_owned(),
    }
}

/// A node that is asked.
struct Node {
    url: String,
    token: Option<SecretString>,
    client: reqwest::Client,
}

impl Node {
    fn new(arguments: &Arguments, settings: &Settings) -> anyhow::Result<Self> {
        let url = match &arguments.url {
            Some(url) => address(url)?,
            None => format!("http://{}", reachable(settings.http.listen)),
        };
        let token = match &arguments.token_file {
            Some(path) => Some(token(path)?),
            None => settings.http.token.clone(),
        };
        let client = reqwest::Client::builder()
            .tls_backend_preconfigured(tls())
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .connect_timeout(CONNECT)
            .timeout(PATIENCE)
            .build()?;
        Ok(Self { url, token, client })
    }

    /// Asks for a path. The answer to what has none is null.
    async fn ask(&self, method: Method, path: &str) -> anyhow::Result<Value> {
        let url = &self.url;
        let mut request = self.client.request(method, format!("{url}{path}"));
        if let Some(token) = &self.token {
            request = request.bearer_auth(token.expose_secret());
        }
        let answer = request.send().await.map_err(|error| silent(url, &error))?;
        let status = answer.status();
        let body = answer.bytes().await.map_err(|error| silent(url, &error))?;
        let body: Option<Value> = serde_json::from_slice(&body).ok();
        if status.is_success() {
            return Ok(body.unwrap_or_default());
        }
        let detail = body.as_ref().and_then(|problem| problem["detail"].as_str());
        let detail = detail.unwrap_or("it does not say why: is it a node of Carillon?");
        match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => bail!(
                "the node at {url} refuses ({detail}): name the file that holds its token with --token-file, or with \
                 --config a configuration whose http.token_file does"
            ),
            _ => bail!("the node at {url} answers {}: {detail}", status.as_u16()),
        }
    }

    fn read(&self, answer: Value) -> anyhow::Result<Cluster> {
        let url = &self.url;
        serde_json::from_value(answer)
            .with_context(|| format!("what answers at {url} is no node of this version of Carillon"))
    }
}

fn silent(url: &str, error: &reqwest::Error) -> anyhow::Error {
    let mut cause: &dyn std::error::Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    anyhow::anyhow!("no node answers at {url} ({cause}): start it, or name another with --url")
}

fn token(path: &Path) -> anyhow::Result<SecretString> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).with_context(|| {
        format!("cannot read the token in `{shown}`: check the path of --token-file and who may read it")
    })?;
    if text.trim().is_empty() {
        bail!("`{shown}` of --token-file is empty: write the token into it");
    }
    Ok(SecretString::from(text.trim()))
}

/// Where paths are added to. It is said in complaints, so it must hold no password.
fn address(url: &str) -> anyhow::Result<String> {
    let cure = "name the node with --url as in http://node1.example.org:8085";
    let Ok(parsed) = reqwest::Url::parse(url) else {
        bail!("what --url says is no URL: {cure}");
    };
    if !parsed.username().is_empty() || parsed.password().is_some() {
        bail!("what --url says holds a name or a password, which nodes do not ask for: {cure}");
    }
    if !matches!(parsed.scheme(), "http" | "https") {
        bail!("what --url says begins with `{}:`: {cure}", parsed.scheme());
    }
    Ok(url.trim_end_matches('/').to_owned())
}

/// Who listens everywhere is on this machine, too.
const fn reachable(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}

/// What an `https` URL is checked by: the authorities of the system.
fn tls() -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring serves TLS 1.2 and 1.3")
        .with_root_certificates(roots)
        .with_no_client_auth()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_shows_who_leads_and_who_is_gone() {
        let answer = serde_json::json!({
            "cluster": "c0ffee", "node": 1, "told_by": 2, "leader": 2, "term": 7, "members": [
                {"id": 1, "addr": "10.0.0.1:8086", "role": "voter", "lives": false, "silent_ms": 61_234},
                {"id": 2, "addr": "10.0.0.2:8086", "role": "leader", "lives": true, "silent_ms": 0, "armed": 12},
                {"id": 13, "addr": "[2001:db8::1]:8086", "role": "learner", "lives": null},
            ],
        });
        let cluster: Cluster = serde_json::from_value(answer).unwrap();
        assert_eq!(
            table(&cluster),
            "\
cluster c0ffee, term 7: node 2 leads, as node 2 sees it
NODE  ADDRESS             ROLE     LIVES          HOLDS
   1  10.0.0.1:8086       voter    no, 61 s           -
   2  10.0.0.2:8086       leader   yes               12
  13  [2001:db8::1]:8086  learner  ?                  -
"
        );
    }

    #[test]
    fn an_address_is_http_and_holds_no_password() {
        assert_eq!(address("https://node1:8085/").unwrap(), "https://node1:8085");
        for (wrong, told) in [
            ("http://anna:t0ps3cret@node1:8085", "a name or a password"),
            ("http://t0ps3cret@node1:8085", "a name or a password"),
            ("node1:8085", "begins with `node1:`"),
            ("//t0ps3cret@node1", "is no URL"),
        ] {
            let complaint = address(wrong).unwrap_err().to_string();
            assert!(
                complaint.contains(told) && complaint.contains("http://node1"),
                "{complaint}"
            );
            assert!(!complaint.contains("t0ps3cret"), "{complaint}");
        }
    }

    #[test]
    fn who_listens_everywhere_is_asked_on_loopback() {
        let asked = |listen: &str| reachable(listen.parse().unwrap()).to_string();
        assert_eq!(asked("0.0.0.0:80"), "127.0.0.1:80");
        assert_eq!(asked("[::]:80"), "[::1]:80");
        assert_eq!(asked("10.1.2.3:80"), "10.1.2.3:80");
    }
}
