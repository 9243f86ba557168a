//! A port: connections bounded in number and in patience, so that whoever opens many, says little on them or does not
//! read the answers costs neither memory nor the files that sending needs.
//!
//! Over the bound a caller takes the place of the one that has been silent since it came for the longest, so that silent
//! callers do not keep others out; where all have asked something, callers wait at the door. A place is held as long as the
//! connection lives, also where it goes on as a WebSocket.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use axum::http::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use hyper_util::rt::TokioTimer;
use hyper_util::service::TowerToHyperService;
use tokio::io::AsyncRead;
use tokio::io::AsyncWrite;
use tokio::net::TcpListener;
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;

mod impatient;

use impatient::Impatient;

/// How long requests under way may take once the node drains.
const DRAIN: Duration = Duration::from_secs(30);

/// The pause after a connection could not be taken, mostly since the process has no file left for it.
const PAUSE: Duration = Duration::from_millis(200);

/// What callers may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Connections at once.
    pub connections: usize,
    /// How long a handshake and a head may take, a connection may stay without a request, and an answer unread.
    pub patience: Duration,
}

/// How a port is answered.
#[derive(Clone)]
pub struct Port {
    /// By whom.
    pub router: Router,
    /// Encrypted with what, if it is.
    pub tls: Option<TlsAcceptor>,
    /// What callers may cost.
    pub bounds: Bounds,
    /// Time.
    pub clock: Arc<dyn Clock>,
}

impl fmt::Debug for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Port")
            .field("bounds", &self.bounds)
            .finish_non_exhaustive()
    }
}

/// Answers until `soft`, then finishes the requests under way, but no longer than [`DRAIN`]; returns at once when `hard`
/// comes.
pub async fn serve(listener: TcpListener, port: Port, soft: CancellationToken, hard: CancellationToken) {
    let mut door = Door::new(port.bounds.connections);
    let clock = Arc::clone(&port.clock);
    let accepting = async {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    let caller = door.let_in().await;
                    tokio::spawn(port.clone().answer(stream, caller, soft.clone()));
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be taken");
                    clock.sleep(PAUSE).await;
                }
            }
        }
    };
    tokio::select! {
        () = soft.cancelled() => {}
        () = accepting => {}
    }
    drop(listener);
    tokio::select! {
        () = door.left() => {}
        () = hard.cancelled() => {}
        () = clock.sleep(DRAIN) => {}
    }
}

/// A caller inside.
struct Caller {
    presence: Arc<Presence>,
    _place: OwnedSemaphorePermit,
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.presence.gone.cancel();
    }
}

/// What the door knows of a caller.
#[derive(Debug, Default)]
struct Presence {
    /// It has asked something.
    heard: AtomicBool,
    /// It has left, or has to.
    gone: CancellationToken,
}

impl Presence {
    fn is_silent(&self) -> bool {
        !self.heard.load(Ordering::Acquire) && !self.gone.is_cancelled()
    }
}

/// Lets so many callers in.
struct Door {
    places: Arc<Semaphore>,
    most: usize,
    /// In the order in which they came; those that were heard or left are weeded out from time to time.
    inside: VecDeque<Arc<Presence>>,
}

impl Door {
    fn new(most: usize) -> Self {
        Self {
            places: Arc::new(Semaphore::new(most)),
            most,
            inside: VecDeque::new(),
        }
    }

    /// Waits until there is a place for one more, and makes one if somebody is silent.
    async fn let_in(&mut self) -> Caller {
        if self.places.available_permits() == 0 {
            self.show_out();
        }
        let place = Arc::clone(&self.places).acquire_owned().await;
        let caller = Caller {
            presence: Arc::default(),
            _place: place.expect("the door is never closed"),
        };
        if self.inside.len() >= 2 * self.most {
            self.inside.retain(|presence| presence.is_silent());
        }
        self.inside.push_back(Arc::clone(&caller.presence));
        caller
    }

    /// Waits until nobody is inside.
    async fn left(&self) {
        let all = u32::try_from(self.most).unwrap_or(u32::MAX);
        // The door is never closed.
        let _ = self.places.acquire_many(all).await;
    }

    /// Has the caller leave that has been silent for the longest.
    fn show_out(&mut self) {
        while let Some(presence) = self.inside.pop_front() {
            if presence.is_silent() {
                presence.gone.cancel();
                return;
            }
        }
    }
}

impl Port {
    /// Answers the requests of one connection until it ends.
    async fn answer(self, stream: TcpStream, caller: Caller, soft: CancellationToken) {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "a connection keeps its delay");
        }
        let presence = Arc::clone(&caller.presence);
        tokio::select! {
            () = presence.gone.cancelled() => tracing::debug!("a silent caller made room for another"),
            () = self.receive(stream, caller, soft) => {}
        }
    }

    async fn receive(self, stream: TcpStream, caller: Caller, soft: CancellationToken) {
        let patience = self.bounds.patience;
        let presence = &Arc::clone(&caller.presence);
        let stream = Impatient::new(stream, caller, patience, Arc::clone(&self.clock));
        let Some(tls) = &self.tls else {
            return self.converse(stream, presence, soft).await;
        };
        match tokio::time::timeout(patience, tls.accept(stream)).await {
            Ok(Ok(stream)) => self.converse(stream, presence, soft).await,
            Ok(Err(error)) => tracing::debug!(%error, "a caller was not let in"),
            Err(_) => tracing::debug!("a caller did not finish its handshake"),
        }
    }

    async fn converse<S>(&self, stream: S, presence: &Arc<Presence>, soft: CancellationToken)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let answering = http1::Builder::new()
            .timer(TokioTimer::new())
            // From the last answer to the end of the next head: it also bounds how long a connection is kept for nothing.
            .header_read_timeout(self.bounds.patience)
            .serve_connection(TokioIo::new(stream), self.hearing(presence))
            .with_upgrades();
        let mut answering = std::pin::pin!(answering);
        let ended = tokio::select! {
            ended = answering.as_mut() => ended,
            () = soft.cancelled() => {
                // The request under way is finished, and no other is taken.
                answering.as_mut().graceful_shutdown();
                answering.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection broke");
        }
    }

    /// The router, with a note that the caller has asked something.
    fn hearing(
        &self,
        presence: &Arc<Presence>,
    ) -> impl Service<
        Request<Incoming>,
        Response = Response<Body>,
        Error = Infallible,
        Future: Future<Output = Result<Response<Body>, Infallible>> + Send,
    > + use<> {
        let router = TowerToHyperService::new(self.router.clone());
        let presence = Arc::clone(presence);
        service_fn(move |request: Request<Incoming>| {
            presence.heard.store(true, Ordering::Release);
            router.call(request)
        })
    }
}
