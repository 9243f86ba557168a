//! The wiring: from settings to a running service, and back to nothing. Read it top to bottom.

mod secret;
mod stopping;

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context;
use tokio::net::TcpListener;

use crate::arbiter::Arbiter;
use crate::calendar::zone;
use crate::change::ChangeHandler;
use crate::channel::Channel;
use crate::channel::Report;
use crate::channel::Witness;
use crate::channel::email::EmailChannel;
use crate::channel::handler::HandlerChannel;
use crate::channel::handler::Handlers;
use crate::channel::outbox::OutboxChannel;
use crate::channel::sms::SmsChannel;
use crate::channel::webhook;
use crate::channel::webhook::WebhookChannel;
use crate::clock::Clock;
use crate::clock::DatabaseClock;
use crate::clock::SteadyClock;
use crate::clock::SystemClock;
use crate::cluster;
use crate::cluster::Cluster;
use crate::config::Complaints;
use crate::config::Settings;
use crate::config::what_needs_restart;
use crate::delivery::Detail;
use crate::delivery::message::RenderError;
use crate::delivery::message::Renderer;
use crate::epoch;
use crate::epoch::EpochTracker;
use crate::feed;
use crate::feed::Feed;
use crate::http;
use crate::http::Api;
use crate::http::Reload;
use crate::logging::Levels;
use crate::metrics::Metrics;
use crate::node::Live;
use crate::node::Node;
use crate::node::Parts;
use crate::node::Running;
use crate::post::Seat;
use crate::ready::Readiness;
use crate::shutdown::Hangups;
use crate::shutdown::Shutdown;
use crate::store::Store;
use crate::store::postgres;
use crate::store::postgres::PostgresStore;
use crate::store::sqlite;
use crate::store::sqlite::SqliteStore;
use crate::token::Callbacks;
use crate::token::Tokens;
use crate::trigger::ChannelKind;

/// Reads the configuration again.
pub type Loader = Arc<dyn Fn() -> Result<Settings, Complaints> + Send + Sync>;

/// What a program that a node is a part of gives it.
#[derive(Debug, Default)]
pub struct Own {
    /// Its handlers.
    pub handlers: Handlers,
    /// Its store, in place of the one that the settings name. A node on it is alone, whoever else may use it.
    pub store: Option<Arc<dyn Store>>,
}

/// A node that delivers, without the ways in.
pub struct Started {
    /// Where everything is remembered.
    pub store: Arc<dyn Store>,
    /// Takes changes.
    pub changes: ChangeHandler,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    clock: Arc<dyn Clock>,
    renderer: Arc<Renderer>,
    tokens: Tokens,
    ready: Readiness,
    seat: Seat,
    epoch: Arc<EpochTracker>,
    live: Live,
    detail: Arc<dyn Fn() -> Detail + Send + Sync>,
    running: Running,
}

impl fmt::Debug for Started {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Started").finish_non_exhaustive()
    }
}

/// Runs the service until it is asked to stop.
pub fn serve(settings: Settings, loader: Loader, levels: Levels) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
    runtime.block_on(run(settings, loader, levels))
}

async fn run(settings: Settings, loader: Loader, levels: Levels) -> anyhow::Result<()> {
    let shutdown = Shutdown::on_signals().context("cannot listen for signals")?;
    let listener = listen(settings.http.listen)?;
    let started = start(&settings, Own::default(), &shutdown).await?;

    let clock = started.clock;
    let (http, webhooks) = (settings.http.clone(), settings.webhook.targets());
    let receipts = settings.sms.readers();
    tell_where_to_look(&settings);
    let reloaded = Reloaded {
        live: started.live,
        levels,
        metrics: Arc::clone(&started.metrics),
    };
    let reload = reloading(settings, loader, reloaded);
    follow_hangups(Arc::clone(&reload))?;
    let api = Api {
        tokens: started.tokens,
        receipts,
        store: Arc::clone(&started.store),
        changes: started.changes,
        clock: Arc::clone(&clock),
        metrics: started.metrics,
        ready: started.ready.clone(),
        reload,
        seat: started.seat.clone(),
        epoch: started.epoch,
        pages: started.renderer,
        detail: started.detail,
        webhooks,
    };
    let serving = serve_api(listener, api, &http, &shutdown);

    shutdown.soft.cancelled().await;
    stopping::finish(&started.ready, clock, &started.seat, started.running, &shutdown).await;
    serving.await.context("the watch over the API died")?;
    stopping::close(started.store.as_ref(), &shutdown).await;
    stopping::verdict(&shutdown)
}

/// Starts what plans and delivers.
pub async fn start(settings: &Settings, own: Own, shutdown: &Shutdown) -> anyhow::Result<Started> {
    zone::self_check().map_err(anyhow::Error::msg)?;
    let (clock, database_clock) = clocks(settings, own.store.is_some());
    let metrics = Arc::new(Metrics::new());
    metrics.config_applied(settings.hash());

    let renderer = renderer(settings)?;
    let seat = Seat::default();
    let (store, epoch) = match own.store {
        Some(store) => (store, Arc::default()),
        None => (open(settings, &clock, &seat).await?, tracker(settings)),
    };

    let tokens = secret::tokens(store.as_ref()).await?;
    let renderer = Arc::new(renderer.with_answers(answers(settings, &tokens)));
    let live = Live::new(settings);
    let ready = Readiness::new();
    let mut channels = channels(settings, &tokens, &clock, &metrics)?;
    let handlers = HandlerChannel::new(own.handlers, Arc::clone(&clock));
    channels.insert(ChannelKind::Handler, Arc::new(handlers));
    let parts = Parts {
        store: Arc::clone(&store),
        clock: Arc::clone(&clock),
        database_clock,
        channels,
        renderer: Arc::clone(&renderer),
        metrics: Arc::clone(&metrics),
        ready: ready.clone(),
        delivers: settings.worker.enabled,
        seat: seat.clone(),
        epoch: Arc::clone(&epoch),
    };
    let node = Node::assemble(parts, &name(settings, &seat), &live).await?;
    watch_cluster(&seat, shutdown);
    let started = Started {
        changes: node.changes.clone(),
        detail: detail(&node),
        running: node.run(settings.worker.initial_delay, shutdown),
        store,
        clock,
        metrics,
        renderer,
        tokens,
        ready,
        seat,
        epoch,
        live,
    };
    secret::follow(&started, shutdown);
    Ok(started)
}

impl Started {
    /// Finishes what is under way once `shutdown` asks for it, and lets go of the store. The error says what broke, if that
    /// is why.
    pub async fn stop(self, shutdown: &Shutdown) -> anyhow::Result<()> {
        shutdown.drain();
        stopping::finish(&self.ready, self.clock, &self.seat, self.running, shutdown).await;
        stopping::close(self.store.as_ref(), shutdown).await;
        stopping::verdict(shutdown)
    }
}

fn tell_where_to_look(settings: &Settings) {
    let has_relays = !settings.relays.is_empty();
    tracing::info!("{}", http::where_to_look(settings.http.listen, has_relays));
}

fn listen(address: SocketAddr) -> anyhow::Result<TcpListener> {
    crate::listen::bind(address)
        .with_context(|| format!("cannot listen on `{address}`: free it, or set http.listen"))
}

/// This node's clock; and where the store is a database with a clock of its own, that one, for both uses. A store of the
/// embedding program has clocks of its own, which this node must not contradict.
fn clocks(settings: &Settings, is_own: bool) -> (Arc<dyn Clock>, Option<Arc<DatabaseClock>>) {
    if is_own {
        return (Arc::new(SystemClock), None);
    }
    if !settings.store.is_postgres() {
        let clock = SteadyClock::over(Arc::new(SystemClock), settings.clock);
        return (Arc::new(clock), None);
    }
    let clock = Arc::new(DatabaseClock::over(Arc::new(SystemClock)));
    (Arc::clone(&clock) as Arc<dyn Clock>, Some(clock))
}

/// Opens the store, and takes this node's place in the cluster that shares it.
async fn open(settings: &Settings, clock: &Arc<dyn Clock>, seat: &Seat) -> anyhow::Result<Arc<dyn Store>> {
    let Some(config) = settings.cluster.clone() else {
        let path = settings.store.sqlite_path();
        let options = sqlite::Options {
            min_free: settings.store.min_free,
            ..sqlite::Options::default()
        };
        let store = SqliteStore::open(&path, Arc::clone(clock), options).await?;
        return Ok(Arc::new(store));
    };
    let store = PostgresStore::open(&settings.store.url, postgres::Options::default()).await?;
    let store = Arc::new(store);
    let parts = cluster::Parts {
        registry: Arc::new(Arbiter(Arc::clone(&store))),
        clock: Arc::clone(clock),
        inbox: seat.inbox(),
    };
    let cluster = Cluster::start(config, parts).await?;
    tracing::info!(
        node = cluster.id(),
        peers = cluster.addr(),
        "a member of the cluster"
    );
    seat.join(Arc::new(cluster));
    Ok(store)
}

/// The epoch of the store, and where this node keeps its mark: with what it has promised its peers, or beside the file.
fn tracker(settings: &Settings) -> Arc<EpochTracker> {
    let mark = match &settings.cluster {
        Some(cluster) => cluster.data_dir.join("epoch.json"),
        None => epoch::beside(&settings.store.sqlite_path()),
    };
    Arc::new(EpochTracker::new(mark, settings.store.hold_on_rewind))
}

/// The name under which a restarted node takes back what it held: no other node of the cluster has its number.
fn name(settings: &Settings, seat: &Seat) -> String {
    let id = &settings.node.id;
    seat.number()
        .map_or_else(|| id.clone(), |number| format!("{id}-{number}"))
}

/// A Raft that has failed takes the process down, so that whoever runs it starts it again.
fn watch_cluster(seat: &Seat, shutdown: &Shutdown) {
    let Some(cluster) = seat.cluster().cloned() else {
        return;
    };
    let shutdown = shutdown.clone();
    tokio::spawn(async move {
        let reason = cluster.failed().await;
        if !shutdown.soft.is_cancelled() {
            shutdown.fail(format!("the cluster failed here: {reason}"));
        }
    });
}

/// How much of an event mails tell, by the configuration in force.
fn detail(node: &Node) -> Arc<dyn Fn() -> Detail + Send + Sync> {
    let lanes = node.shared.config.clone();
    Arc::new(move || lanes.borrow().channels[&ChannelKind::Email].content)
}

fn serve_api(
    listener: TcpListener,
    api: Api,
    config: &http::Config,
    shutdown: &Shutdown,
) -> tokio::task::JoinHandle<()> {
    let clock = Arc::clone(&api.clock);
    let feed = feed(&api, config, shutdown);
    let reading = Arc::clone(&feed);
    let router = http::router(api, config, feed);
    let answering = http::serve(listener, router, config.limits, clock, shutdown.clone());
    watch_over(
        "feed of alarms",
        tokio::spawn(async move { reading.run().await }),
        shutdown,
    );
    watch_over("API", tokio::spawn(answering), shutdown)
}

/// What happens to alarms, for whoever follows it: at most half of the callers, so that others get in.
fn feed(api: &Api, config: &http::Config, shutdown: &Shutdown) -> Arc<Feed> {
    let parts = feed::Parts {
        store: Arc::clone(&api.store),
        clock: Arc::clone(&api.clock),
        metrics: Arc::clone(&api.metrics),
        recorded: Arc::clone(&api.seat.recorded),
    };
    let most = config.limits.connections.div_ceil(2);
    Arc::new(Feed::new(parts, most, shutdown.soft.clone()))
}

/// A task that ends before it is asked to takes the process down.
fn watch_over(
    name: &'static str,
    task: tokio::task::JoinHandle<()>,
    shutdown: &Shutdown,
) -> tokio::task::JoinHandle<()> {
    let shutdown = shutdown.clone();
    tokio::spawn(async move {
        let how = match task.await {
            Ok(()) if shutdown.soft.is_cancelled() => return,
            Ok(()) => "it returned".to_owned(),
            Err(error) => error.to_string(),
        };
        shutdown.fail(format!("the {name} ended: {how}"));
    })
}

/// What words messages, and a warning for each language that lacks some.
fn renderer(settings: &Settings) -> Result<Renderer, RenderError> {
    let renderer = Renderer::new(settings.templates_dir.as_deref())?.with_text_form(settings.text_form);
    for gap in renderer.gaps() {
        tracing::warn!(%gap, "a language lacks words");
    }
    Ok(renderer)
}

fn channels(
    settings: &Settings,
    tokens: &Tokens,
    clock: &Arc<dyn Clock>,
    metrics: &Arc<Metrics>,
) -> anyhow::Result<BTreeMap<ChannelKind, Arc<dyn Channel>>> {
    let witness = |channel| -> Witness {
        let metrics = Arc::clone(metrics);
        Arc::new(move |provider: &str, report: &Report| metrics.submitted(channel, provider, report))
    };
    let letterhead = settings.letterhead.clone();
    let email: Arc<dyn Channel> = if settings.relays.is_empty() {
        Arc::new(OutboxChannel::new(letterhead, Arc::clone(clock)))
    } else {
        let channel = EmailChannel::new(letterhead, settings.relays.clone(), Arc::clone(clock))?;
        let channel = channel.witnessed_by(&witness(ChannelKind::Email));
        Arc::new(channel.signed_by(settings.dkim.clone()))
    };
    let callbacks = callbacks(settings, tokens);
    let sms = SmsChannel::new(
        settings.sms.clone(),
        callbacks.as_ref(),
        witness(ChannelKind::Sms),
        clock,
    )?;
    let config = settings.webhook.clone();
    let webhook = WebhookChannel::new(config, callbacks, &webhook::system(), Arc::clone(clock))?;
    Ok(BTreeMap::from([
        (ChannelKind::Email, email),
        (ChannelKind::Sms, Arc::new(sms)),
        (ChannelKind::Webhook, Arc::new(webhook)),
    ]))
}

/// Where mails are answered, if they are to be.
fn answers(settings: &Settings, tokens: &Tokens) -> Option<Callbacks> {
    callbacks(settings, tokens).filter(|_| settings.answer_links)
}

/// The addresses in messages by which whoever got one reaches us; none where nobody can.
fn callbacks(settings: &Settings, tokens: &Tokens) -> Option<Callbacks> {
    let public_url = settings.http.public_url.as_ref();
    public_url.map(|url| Callbacks::new(url, tokens.clone()))
}

/// What a reload changes.
struct Reloaded {
    live: Live,
    levels: Levels,
    metrics: Arc<Metrics>,
}

/// Reads the configuration again and puts it in force; a bad one changes nothing.
fn reloading(started: Settings, loader: Loader, reloaded: Reloaded) -> Reload {
    let one_at_a_time = std::sync::Mutex::new(());
    Arc::new(move || {
        // Else the file that was read first could be put in force last.
        let _alone = one_at_a_time.lock().expect("no holder panics");
        let new = loader().inspect_err(|complaints| {
            reloaded.metrics.config_refused();
            tracing::error!(%complaints, "the new configuration is refused; the old one stays in force");
        })?;
        // What needs a restart is in force as it was at the start, however often it was read since.
        let restart = what_needs_restart(&started, &new);
        reloaded.live.apply(&new);
        if let Err(error) = reloaded.levels.set(&new.log.level) {
            tracing::error!(%error, "the log level stays as it is");
        }
        reloaded.metrics.config_applied(new.hash());
        tracing::info!(
            ?restart,
            "the new configuration is in force, but for what needs a restart"
        );
        Ok(restart)
    })
}

fn follow_hangups(reload: Reload) -> anyhow::Result<()> {
    let mut hangups = Hangups::listen().context("cannot listen for SIGHUP")?;
    tokio::spawn(async move {
        while hangups.next().await.is_some() {
            // The complaints are logged by the reload itself.
            let _ = reload();
        }
    });
    Ok(())
}
