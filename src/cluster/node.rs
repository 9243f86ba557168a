//! The cluster as the rest of the service sees it: started, asked, stopped.
//!
//! Raft and its peer server live on a thread of their own, so that nothing else in this process can cost the lease.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;

use secrecy::SecretString;
use serde::Serialize;
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::sync::DropGuard;

use super::Leadership;
use super::config::Config;
use super::disk::Folder;
use super::formation::StartError;
use super::mail::Inbox;
use super::mail::Topic;
use super::member::Materials;
use super::member::Member;
use super::network::HttpCarrier;
use super::registry::Arbiter;
use super::registry::NodeId;
use super::registry::Registry;
use super::server;
use super::server::Door;
use super::status::Status;
use super::tls::Tls;
use crate::clock::Clock;

/// What a cluster is given.
#[derive(Debug)]
pub struct Parts {
    /// The arbiter. It is called on the runtime on which the cluster is started.
    pub registry: Arc<dyn Registry>,
    /// The node's clocks.
    pub clock: Arc<dyn Clock>,
    /// Takes messages of peers.
    pub inbox: Inbox,
}

/// This node's part in a cluster that runs. Dropped, it stops as in a crash; see [`Cluster::shut_down`].
#[derive(Debug)]
pub struct Cluster {
    member: Arc<Member>,
    own: Handle,
    ends: Ends,
    _gone: DropGuard,
}

/// How the cluster's thread is told to end.
#[derive(Debug, Clone, Default)]
struct Ends {
    /// Hand over, then end.
    stop: CancellationToken,
    /// End at once.
    gone: CancellationToken,
    /// It has ended, in whatever way.
    over: CancellationToken,
}

/// What the cluster's thread says once it runs.
type Started = Result<(Arc<Member>, Handle), StartError>;

impl Cluster {
    /// Starts taking part: finds out who this node is, starts Raft and listens to peers. Returns before there is a
    /// leader.
    pub async fn start(config: Config, parts: Parts) -> Result<Self, StartError> {
        config.check()?;
        let home = Handle::current();
        let ends = Ends::default();
        let gone = ends.gone.clone().drop_guard();
        let (started, starting) = oneshot::channel();
        let told = ends.clone();
        thread::Builder::new()
            .name("cluster".to_owned())
            .spawn(move || {
                let _over = told.over.clone().drop_guard();
                on_its_own(config, parts, home, started, told);
            })
            .map_err(|error| StartError::Other(format!("cannot start its thread: {error}")))?;
        let (member, own) = starting
            .await
            .map_err(|_| StartError::Other("its thread died".to_owned()))??;
        Ok(Self {
            member,
            own,
            ends,
            _gone: gone,
        })
    }

    /// Whether this node leads, for whoever needs to know.
    pub fn leadership(&self) -> Leadership {
        self.member.leadership()
    }

    /// This node's number.
    pub fn id(&self) -> NodeId {
        self.member.me.id
    }

    /// Where peers reach this node.
    pub fn addr(&self) -> &str {
        &self.member.me.addr
    }

    /// The cluster as the leader sees it, or else as this node does.
    pub async fn status(&self) -> Status {
        let member = Arc::clone(&self.member);
        let asked = self.own.spawn(async move { member.status().await });
        asked.await.unwrap_or_else(|_| self.member.own_status())
    }

    /// Strikes a node off for good, this one included. It must be stopped, or be about to. The error says why not.
    pub async fn remove(&self, id: NodeId) -> Result<(), String> {
        let member = Arc::clone(&self.member);
        let asked = self.own.spawn(async move { member.remove(id).await });
        asked.await.map_err(|error| error.to_string())?
    }

    /// Sends a member a message, once; whether there was room for it and somebody to send it to.
    pub fn tell(&self, id: NodeId, topic: Topic, message: &impl Serialize) -> bool {
        let _own = self.own.enter();
        let peer = self.member.peer(id);
        peer.is_some_and(|peer| self.member.outbox.send(peer, topic, message))
    }

    /// Waits until Raft has failed, and says why. The process should end then: its supervisor starts it again.
    pub async fn failed(&self) -> String {
        let mut failure = self.member.failure();
        let reason = tokio::select! {
            biased;
            failure = failure.wait_for(Option::is_some) => failure.ok().and_then(|reason| reason.clone()),
            () = self.ends.over.cancelled() => None,
        };
        reason.unwrap_or_else(|| "the cluster's thread has ended".to_owned())
    }

    /// Gives up leadership: at once here, and within milliseconds another node leads. Whether one does after 2 s. If there
    /// is no other that could, nothing changes. To be called when the work has stopped; this node may be elected again.
    pub async fn hand_over(&self) -> bool {
        let member = Arc::clone(&self.member);
        let handed = self.own.spawn(async move { member.hand_over().await });
        handed.await.unwrap_or(false)
    }

    /// Hands over and stops; returns when it has. From then on [`Cluster::failed`] returns at once.
    pub async fn shut_down(&self) {
        self.ends.stop.cancel();
        self.ends.over.cancelled().await;
    }
}

/// The cluster's thread. Whoever waits for the start may have gone: then there is nobody to tell.
fn on_its_own(config: Config, parts: Parts, home: Handle, started: oneshot::Sender<Started>, ends: Ends) {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            let _ = started.send(Err(StartError::Other(format!(
                "cannot start its runtime: {error}"
            ))));
            return;
        }
    };
    runtime.block_on(async move {
        match begin(config, parts, home).await {
            Ok(serving) => {
                let _ = started.send(Ok((Arc::clone(&serving.member), Handle::current())));
                run(serving, ends).await;
            }
            Err(error) => {
                let _ = started.send(Err(error));
            }
        }
    });
}

/// What a node serves with.
struct Serving {
    member: Arc<Member>,
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    secret: Option<SecretString>,
}

async fn begin(config: Config, parts: Parts, home: Handle) -> Result<Serving, StartError> {
    let listener = listen(config.listen)?;
    let folder = Folder::open(&config.data_dir)
        .map_err(|error| StartError::DataDir(config.data_dir.clone(), error))?;
    let (client, tls) = config.tls.as_ref().map(Tls::load).transpose()?.unzip();
    let carrier = HttpCarrier::new(config.secret.clone(), client)
        .map_err(|error| StartError::Other(format!("cannot make a client: {error}")))?;
    let bound = listener
        .local_addr()
        .map_err(|error| StartError::Listen(config.listen, error))?;
    let materials = Materials {
        folder: Arc::new(folder),
        addr: config.advertise.unwrap_or_else(|| bound.to_string()),
        stands: config.stands,
        pace: config.pace,
        arbiter: Arbiter::new(parts.registry, home),
        clock: parts.clock,
        carrier: Arc::new(carrier),
        inbox: parts.inbox,
    };
    Ok(Serving {
        member: Member::start(materials).await?,
        listener,
        tls,
        secret: config.secret,
    })
}

fn listen(addr: SocketAddr) -> Result<TcpListener, StartError> {
    crate::listen::bind(addr).map_err(|error| StartError::Listen(addr, error))
}

/// Serves until it is told to stop; then hands over while it still answers.
async fn run(serving: Serving, ends: Ends) {
    let Serving {
        member,
        listener,
        tls,
        secret,
    } = serving;
    let door = Arc::new(Door::new(Arc::clone(&member), secret));
    let silent = CancellationToken::new();
    let serving = server::serve(listener, tls, door, silent.clone());
    tokio::pin!(serving);
    tokio::select! {
        () = &mut serving => {
            tracing::error!("the peer server has ended");
            member.fail("the peer server has ended".to_owned());
        }
        () = ends.gone.cancelled() => return,
        () = async { ends.stop.cancelled().await; member.stop().await } => {}
    }
    silent.cancel();
}
