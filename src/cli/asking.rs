//! A running node that is asked over its API.

use std::io;
use std::net::IpAddr;
use std::net::Ipv4Addr;
use std::net::Ipv6Addr;
use std::net::SocketAddr;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use anyhow::anyhow;
use anyhow::bail;
use clap::Args;
use reqwest::Method;
use reqwest::RequestBuilder;
use reqwest::StatusCode;
use reqwest::header::CONTENT_TYPE;
use secrecy::ExposeSecret;
use secrecy::SecretString;
use serde_json::Value;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::RootCertStore;
use tokio_rustls::rustls::crypto::ring;

use crate::config::Settings;

/// How long a node may take to answer; a removal waits for the others to agree.
const PATIENCE: Duration = Duration::from_mins(1);

/// How long it may take to be reached.
const CONNECT: Duration = Duration::from_secs(5);

/// Which node is asked.
#[derive(Debug, Args)]
pub(super) struct Which {
    /// The node to ask, any of them [default: where http.listen says that this one is]
    #[arg(long, global = true, value_name = "URL")]
    url: Option<String>,

    /// File with the token that the node asks for [default: http.token_file]
    #[arg(long, global = true, value_name = "PATH")]
    token_file: Option<PathBuf>,
}

/// Writes the answer. Whoever reads it may have seen enough, as `head` has, or be gone: then there is nothing left to do here.
pub(super) fn print(said: &str) -> io::Result<()> {
    use io::Write;
    let mut out = io::stdout().lock();
    match out.write_all(said.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
        written => written,
    }
}

/// A node that is asked.
pub(super) struct Node {
    /// Where it is reached.
    pub(super) url: String,
    token: Option<SecretString>,
    client: reqwest::Client,
}

impl Node {
    /// The node that is meant.
    pub(super) fn new(which: &Which, settings: &Settings) -> anyhow::Result<Self> {
        let url = match &which.url {
            Some(url) => address(url)?,
            None => format!("http://{}", reachable(settings.http.listen)),
        };
        let token = match &which.token_file {
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

    /// Whether there is a token to ask with.
    pub(super) const fn has_token(&self) -> bool {
        self.token.is_some()
    }

    /// Asks for a path. The answer to what has none is null.
    pub(super) async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<String>,
    ) -> anyhow::Result<Value> {
        let url = &self.url;
        let mut request = self.request(method, path);
        if let Some(body) = body {
            request = request.header(CONTENT_TYPE, "application/json").body(body);
        }
        let answer = request.send().await.map_err(|error| silent(url, &error))?;
        let status = answer.status();
        let body = answer.bytes().await.map_err(|error| silent(url, &error))?;
        if status.is_success() && body.is_empty() {
            return Ok(Value::Null);
        }
        if status.is_success() {
            let unread = || format!("the answer of {url} cannot be read: ask for it over HTTP, as it is");
            return serde_json::from_slice(&body).with_context(unread);
        }
        Err(self.refused(status, &body))
    }

    /// A request for a path, with the token.
    pub(super) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.client.request(method, format!("{}{path}", self.url));
        match &self.token {
            Some(token) => request.bearer_auth(token.expose_secret()),
            None => request,
        }
    }

    /// What to say of an answer that is no success.
    pub(super) fn refused(&self, status: StatusCode, body: &[u8]) -> anyhow::Error {
        let url = &self.url;
        let body: Option<Value> = serde_json::from_slice(body).ok();
        let detail = body.as_ref().and_then(|problem| problem["detail"].as_str());
        let detail = detail.unwrap_or("it does not say why: is it a node of Carillon?");
        match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => anyhow!(
                "the node at {url} refuses ({detail}): name the file that holds its token with --token-file, or with \
                 --config a configuration whose http.token_file does"
            ),
            _ => anyhow!("the node at {url} answers {}: {detail}", status.as_u16()),
        }
    }
}

/// What to say of a node that does not answer.
pub(super) fn silent(url: &str, error: &reqwest::Error) -> anyhow::Error {
    let mut cause: &dyn std::error::Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    anyhow!("no node answers at {url} ({cause}): start it, or name another with --url")
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
