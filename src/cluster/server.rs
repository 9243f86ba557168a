//! What peers can ask of this node.
//!
//! Whoever calls must know the secret of the cluster, mean this cluster, and mean this node: an address may have
//! changed hands, and Raft counts on reaching whom it addressed.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::Router;
use axum::body::to_bytes;
use axum::extract::Request;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::StatusCode;
use axum::http::header::CONNECTION;
use axum::response::IntoResponse;
use axum::response::Response;
use axum::routing::post;
use secrecy::ExposeSecret;
use secrecy::SecretString;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::Digest;
use sha2::Sha256;
use subtle::ConstantTimeEq;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use openraft::type_config::alias::SnapshotOf;

use super::mail::Topic;
use super::member::Member;
use super::network::CLUSTER;
use super::network::SentSnapshot;
use super::network::TARGET;
use super::state::Types;
use crate::clock::Clock;
use crate::listen;
use crate::listen::Bounds;
use crate::listen::Known;
use crate::listen::Port;

/// The largest question, in bytes.
const MOST: usize = 1024 * 1024;

/// How long a question may take to arrive.
const READING: Duration = Duration::from_secs(10);

/// A cluster is small, and strangers make room for peers.
const BOUNDS: Bounds = Bounds {
    connections: 256,
    per_peer: 64,
    for_probes: 0,
    patience: Duration::from_secs(10),
};

/// What the head of a call says.
#[derive(Debug, Clone, Default)]
pub(super) struct Head {
    pub(super) secret: Option<String>,
    pub(super) cluster: Option<String>,
    pub(super) target: Option<String>,
}

/// The answer to a call.
pub(super) type Answer = Result<Vec<u8>, (u16, String)>;

/// Answers peers.
#[derive(Debug)]
pub(super) struct Door {
    member: Arc<Member>,
    secret: Option<SecretString>,
}

impl Door {
    pub(super) fn new(member: Arc<Member>, secret: Option<SecretString>) -> Self {
        Self { member, secret }
    }

    /// Answers one call.
    pub(super) async fn answer(&self, head: &Head, path: &str, question: &[u8]) -> Answer {
        self.admit(head)?;
        let member = &self.member;
        match path {
            "/append" => reply(member.raft.append_entries(read(question)?).await),
            "/vote" => reply(member.raft.vote(self.unless_quiet(question)?).await),
            "/pre-vote" => reply(member.raft.pre_vote(self.unless_quiet(question)?).await),
            "/transfer" => reply(
                member
                    .raft
                    .handle_transfer_leader(self.if_it_may_lead(question)?)
                    .await,
            ),
            "/snapshot" => {
                let SentSnapshot { vote, meta } = read(question)?;
                let snapshot = SnapshotOf::<Types, ()> { meta, snapshot: () };
                reply(member.raft.install_full_snapshot(vote, snapshot).await)
            }
            "/join" => agree(member.admit(read(question)?).await),
            "/remove" => agree(member.expel(read(question)?).await),
            "/status" => write(&member.own_status()),
            "/hello" => write(&member.me.id),
            "/armed" => self.deliver(Topic::Armed, question),
            "/withdrawn" => self.deliver(Topic::Withdrawn, question),
            _ => Err((404, format!("there is no `{path}` here"))),
        }
    }

    fn admit(&self, head: &Head) -> Result<(), (u16, String)> {
        if let Some(secret) = &self.secret
            && !head
                .secret
                .as_deref()
                .is_some_and(|presented| is_same(presented, secret.expose_secret()))
        {
            return Err((401, "the secret is not that of this cluster".to_owned()));
        }
        if head.cluster.as_deref() != Some(&self.member.charter.cluster) {
            return Err((421, "another cluster is meant".to_owned()));
        }
        if head.target.as_deref() != Some(&self.member.me.id.to_string()) {
            return Err((421, "another node is meant".to_owned()));
        }
        Ok(())
    }

    fn unless_quiet<T: DeserializeOwned>(&self, question: &[u8]) -> Result<T, (u16, String)> {
        if self.member.is_quiet() {
            return Err((
                503,
                "it has just started, and may have promised its vote".to_owned(),
            ));
        }
        read(question)
    }

    fn if_it_may_lead<T: DeserializeOwned>(&self, question: &[u8]) -> Result<T, (u16, String)> {
        if !self.member.stands {
            return Err((503, "it does not stand for election".to_owned()));
        }
        self.unless_quiet(question)
    }

    fn deliver(&self, topic: Topic, question: &[u8]) -> Answer {
        self.member.inbox.receive(topic, read(question)?);
        write(&())
    }
}

fn read<T: DeserializeOwned>(question: &[u8]) -> Result<T, (u16, String)> {
    serde_json::from_slice(question).map_err(|error| (400, error.to_string()))
}

fn write(answer: &impl Serialize) -> Answer {
    serde_json::to_vec(answer).map_err(|error| (500, error.to_string()))
}

fn reply<T: Serialize, E: std::fmt::Display>(answer: Result<T, E>) -> Answer {
    write(&answer.map_err(|error| (500, error.to_string()))?)
}

fn agree(answer: Result<(), String>) -> Answer {
    answer.map_err(|reason| (409, reason))?;
    write(&())
}

/// Compares in a time that tells nothing, not even the length.
fn is_same(presented: &str, secret: &str) -> bool {
    let presented = Sha256::digest(presented.as_bytes());
    let secret = Sha256::digest(secret.as_bytes());
    presented.as_slice().ct_eq(secret.as_slice()).into()
}

/// The server for `listener`, until `stop`.
pub(super) async fn serve(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    door: Arc<Door>,
    stop: CancellationToken,
) {
    let clock: Arc<dyn Clock> = Arc::clone(&door.member.clock);
    let port = Port {
        router: Router::new().route("/{call}", post(handle)).with_state(door),
        tls,
        bounds: BOUNDS,
        probes: &[],
        clock,
    };
    listen::serve(listener, port, stop.clone(), stop).await;
}

/// Answers a call. A peer that was admitted keeps its connection where others have to go.
async fn handle(
    State(door): State<Arc<Door>>,
    request: Request,
) -> Result<(Extension<Known>, Vec<u8>), Response> {
    let (parts, body) = request.into_parts();
    let headers = &parts.headers;
    let head = Head {
        secret: text(headers, "authorization")
            .and_then(|value| value.strip_prefix("Bearer ").map(str::to_owned)),
        cluster: text(headers, CLUSTER),
        target: text(headers, TARGET),
    };
    // What a stranger has to say is not read, and its connection is not kept.
    door.admit(&head)
        .map_err(|refused| ([(CONNECTION, "close")], refusal(refused)).into_response())?;
    let question = match tokio::time::timeout(READING, to_bytes(body, MOST)).await {
        Ok(Ok(question)) => question,
        Ok(Err(error)) => return Err((StatusCode::PAYLOAD_TOO_LARGE, error.to_string()).into_response()),
        Err(_) => return Err((StatusCode::REQUEST_TIMEOUT, "say it faster").into_response()),
    };
    let answer = door.answer(&head, parts.uri.path(), &question).await;
    answer
        .map(|answer| (Extension(Known), answer))
        .map_err(|refused| refusal(refused).into_response())
}

fn refusal((status, reason): (u16, String)) -> (StatusCode, String) {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status, reason)
}

fn text(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name)?.to_str().ok().map(str::to_owned)
}
