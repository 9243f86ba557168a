//! The ways in: owners, events and changes are put here; what is planned and what became of it is read here.
//!
//! Everything here is an edge: a request is parsed and bounded, handed to the change handler or read from the store,
//! and answered as JSON; every error is a problem (RFC 9457). Nothing is decided here, so a crash in the middle of a
//! request loses only the answer: the caller repeats it and is told `unchanged`.
//!
//! A bearer token protects everything but the probes and the [`document`] ([`auth`]), what is reported back ([`reports`]) and what owners answer
//! ([`answers`]). Without one the API is for this machine alone, and
//! for programs, not for pages of other sites that a browser on this machine has open. A route is either one of
//! [`owned_routes`], whose handlers ask the [`caller`] whose things may be seen, or nobody but an administrator gets there.

mod alarms;
mod answered;
mod answers;
mod auth;
mod body;
mod caller;
mod calls;
mod changes;
mod document;
mod epoch;
mod events;
mod history;
mod id;
mod lines;
mod mcp;
mod members;
mod owners;
mod page;
mod preferences;
mod probes;
mod problem;
mod reports;
mod secrets;
mod ws;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware;
use axum::routing::delete;
use axum::routing::get;
use axum::routing::post;
use axum::routing::put;
use secrecy::SecretString;
use tokio::net::TcpListener;

use self::auth::Needs;
pub use alarms::allow;
pub use page::where_to_look;
pub use reports::note;

use crate::change::ChangeHandler;
use crate::channel::receipt;
use crate::channel::webhook::Guard;
use crate::clock::Clock;
use crate::config::Complaints;
use crate::delivery::Detail;
use crate::delivery::message::Renderer;
use crate::epoch::EpochTracker;
use crate::feed::Feed;
use crate::listen;
use crate::listen::Bounds;
use crate::listen::Port;
use crate::metrics::Metrics;
use crate::post::Seat;
use crate::ready::Readiness;
use crate::shutdown::Shutdown;
use crate::store::Store;
use crate::store::token::Scope;
use crate::token::Tokens;

/// How the API is reached.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where it listens.
    pub listen: SocketAddr,
    /// What opens everything, so that callers must present it or another token; none: whoever is on this machine may call.
    pub token: Option<SecretString>,
    /// Where callers from outside reach this service, for the addresses in messages; none: messages name none.
    pub public_url: Option<String>,
    /// Host names, in lower case, under which `/metrics` and `/readyz?verbose` answer; none: they answer everybody.
    pub probe_hosts: Vec<String>,
    /// How much one request may ask for.
    pub limits: Limits,
}

/// How much one request may ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one iCalendar object.
    pub event_bytes: usize,
    /// Bytes of one body.
    pub body_bytes: usize,
    /// How long a head may take, a body may stay silent, and an answer unread.
    pub read_timeout: Duration,
    /// Connections at once.
    pub connections: usize,
    /// Of these from one address.
    pub connections_per_peer: usize,
}

/// Where it is asked how this node is.
const PROBES: [&str; 3] = ["/livez", "/readyz", "/metrics"];

/// Connections that are kept for these, where there are many.
const FOR_PROBES: usize = 8;

/// Reads the configuration again. Returns the keys that changed but need a restart.
pub type Reload = Arc<dyn Fn() -> Result<Vec<&'static str>, Complaints> + Send + Sync>;

/// What the API speaks for.
#[derive(Clone)]
pub struct Api {
    /// What is remembered.
    pub store: Arc<dyn Store>,
    /// Takes changes.
    pub changes: ChangeHandler,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// Whether this node may be sent to.
    pub ready: Readiness,
    /// Reads the configuration again.
    pub reload: Reload,
    /// This node's place among the others.
    pub seat: Seat,
    /// The epoch of the store, as this node knows it.
    pub epoch: Arc<EpochTracker>,
    /// What lets whoever was handed a message speak of it.
    pub tokens: Tokens,
    /// Who reads the receipts of which provider.
    pub receipts: receipt::Readers,
    /// Words the pages by which reminders are answered.
    pub pages: Arc<Renderer>,
    /// How much of an event those pages tell: as much as mails do.
    pub detail: Arc<dyn Fn() -> Detail + Send + Sync>,
    /// Which addresses owners may have called; none where no call leaves.
    pub webhooks: Option<Guard>,
}

/// What the handlers share.
#[derive(Clone)]
struct Shared {
    api: Api,
    limits: Limits,
    listen: SocketAddr,
    public_url: Option<String>,
    probe_hosts: Arc<[String]>,
    guard: auth::Guard,
    feed: Arc<Feed>,
}

impl std::ops::Deref for Shared {
    type Target = Api;

    fn deref(&self) -> &Api {
        &self.api
    }
}

/// Answers until `shutdown` drains, then finishes the requests under way; returns at once when it stops.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    limits: Limits,
    clock: Arc<dyn Clock>,
    shutdown: Shutdown,
) {
    let bounds = Bounds {
        connections: limits.connections,
        per_peer: limits.connections_per_peer,
        for_probes: FOR_PROBES.min(limits.connections / 16),
        patience: limits.read_timeout,
    };
    let port = Port {
        router,
        tls: None,
        bounds,
        probes: &PROBES,
        clock,
    };
    listen::serve(listener, port, shutdown.soft, shutdown.hard).await;
}

/// All routes; what happens to alarms is told from `feed`.
pub fn router(api: Api, config: &Config, feed: Arc<Feed>) -> Router {
    let guard = auth::Guard {
        token: config.token.clone().map(Arc::new),
        store: Arc::clone(&api.store),
        clock: Arc::clone(&api.clock),
        metrics: Arc::clone(&api.metrics),
    };
    let shared = Shared {
        api,
        limits: config.limits,
        listen: config.listen,
        public_url: config.public_url.clone(),
        probe_hosts: config.probe_hosts.as_slice().into(),
        guard: guard.clone(),
        feed,
    };
    let behind = |needs| {
        let guard = guard.clone();
        middleware::from_fn_with_state(auth::Gate { guard, needs }, auth::check)
    };
    let owned = owned_routes()
        .layer(behind(Needs::ByMethod))
        .merge(reporting_routes());
    let asking = asking_routes().layer(behind(Needs::Always(Scope::Read)));
    let owned = owned.merge(asking);
    // What comes by another way is answered by the same routes, which look at each call as if it came by itself.
    let routes = calls::Routes(owned.clone().with_state(shared.clone()));
    let talking = talking_routes()
        .layer(Extension(mcp::Server::new(routes.clone())))
        .layer(Extension(routes));
    Router::new()
        .route("/livez", get(probes::live))
        .route("/readyz", get(probes::ready))
        .route("/metrics", get(probes::metrics))
        .route("/openapi.json", get(document::document))
        .route("/docs", get(document::docs))
        .merge(owned)
        .merge(talking.layer(behind(Needs::Always(Scope::Read))))
        .merge(admin_routes().layer(behind(Needs::Always(Scope::Admin))))
        .fallback(problem::unknown_path)
        .method_not_allowed_fallback(problem::wrong_method)
        // Bodies are bounded by `body`, which answers with a problem.
        .layer(DefaultBodyLimit::disable())
        .layer(middleware::map_response(page::harden))
        .layer(middleware::map_response_with_state(shared.clone(), epoch::name))
        .with_state(shared)
}

/// What belongs to owners: to be read, and to be changed with scope `write`. Each handler asks the caller for the owner.
fn owned_routes() -> Router<Shared> {
    let alarm = get(alarms::read).patch(alarms::patch).delete(alarms::cancel);
    Router::new()
        .route("/", get(page::status))
        .route("/outbox", get(page::outbox))
        .route("/v1/owners/{id}", get(owners::read))
        .route(
            "/v1/owners/{id}/events/{uid}/alarms",
            get(answered::read).post(answered::post),
        )
        .route("/v1/sources/{source}/events/{key}", get(events::read))
        .route(
            "/v1/sources/{source}/events/{key}/triggers",
            get(events::triggers),
        )
        .route("/v1/history", get(history::list))
        .route("/v1/deliveries/{id}", get(history::delivery))
        .route("/v1/outbox", get(history::outbox))
        .route("/v1/alarms", get(alarms::list).post(alarms::create))
        .route("/v1/alarms/history", get(alarms::history))
        .route("/v1/alarms/failed", get(alarms::failed))
        .route("/v1/alarms/stats", get(alarms::stats))
        .route("/v1/alarms/feed", get(alarms::feed))
        .route("/v1/alarms/count", get(alarms::count))
        .route("/v1/alarms/reset", post(alarms::reset))
        .route("/v1/alarms/{id}", alarm)
        .route("/v1/alarms/{id}/{verb}", post(alarms::act))
}

/// What is asked by POST and changes nothing.
fn asking_routes() -> Router<Shared> {
    Router::new().route("/v1/parse-time", post(alarms::parse_time))
}

/// Conversations, which change nothing by themselves: each call is looked at for itself.
fn talking_routes() -> Router<Shared> {
    Router::new()
        .route("/v1/ws", get(ws::open))
        .route("/mcp", post(mcp::answer))
}

/// Owners themselves, what sources send, and this service.
fn admin_routes() -> Router<Shared> {
    let event = put(events::put).delete(events::delete);
    Router::new()
        .route("/v1/owners/{id}", put(owners::put))
        .route("/v1/sources/{source}/events/{key}", event)
        .route("/v1/sources/{source}/changes", post(changes::post))
        .route("/v1/epoch", get(epoch::read))
        .route("/v1/cluster", get(members::list))
        .route("/v1/cluster/{id}", delete(members::remove))
        .route("/v1/secrets/rotate", post(secrets::rotate))
        .route("/-/reload", post(probes::reload))
}

/// They look themselves at who calls.
fn reporting_routes() -> Router<Shared> {
    Router::new()
        .route("/answer/{trigger}/{token}", get(answers::show).post(answers::act))
        .route("/v1/deliveries/{id}/complete", post(reports::complete))
        .route("/v1/deliveries/{id}/fail", post(reports::fail))
        .route(
            "/v1/receipts/{provider}/{trigger}/{token}",
            get(reports::receipt).post(reports::receipt),
        )
}
