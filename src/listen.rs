//! A port: connections are bounded in number and in patience, so that a caller that opens many, says little on them or does
//! not read the answers costs neither memory nor the files that sending needs.
//!
//! [`connections`] says which connection makes room for another. A place is held as long as the connection lives, also
//! where it goes on as a WebSocket.

use std::convert::Infallible;
use std::fmt;
use std::io;
use std::io::Write;
use std::net::IpAddr;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::HeaderValue;
use axum::http::Request;
use axum::http::Response;
use axum::http::StatusCode;
use axum::http::header::CONNECTION;
use futures_util::StreamExt;
use http_body::Body as _;
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
use tokio::net::TcpSocket;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;

mod connections;
mod impatient;

use connections::Connection;
use connections::Connections;
use impatient::Impatient;

/// How long requests under way may take once the node drains.
const DRAIN: Duration = Duration::from_secs(30);

/// The pause after a connection could not be taken, mostly since the process has no file left for it.
const PAUSE: Duration = Duration::from_millis(200);

/// Connections that the system keeps until they are accepted. A caller that finds no room there tries again after a second.
const BACKLOG: u32 = 1024;

/// The answer where no connection can make room.
const REFUSAL: &str = "every connection that this address may have, or that there may be, is busy: try again, or see \
                       max_connections_per_peer and max_connections";

/// What callers may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Connections at once.
    pub connections: usize,
    /// Of these from one peer: an IPv4 address, or the first 64 bits of an IPv6 address.
    pub per_peer: usize,
    /// And those that are kept for probes from this machine; fewer than there are connections.
    pub for_probes: usize,
    /// How long a handshake and a head may take, a connection may stay without a request, and an answer unread.
    pub patience: Duration,
}

/// Where a request comes from; an extension of the request.
#[derive(Debug, Clone, Copy)]
pub struct Peer(pub IpAddr);

/// The caller is known by a valid token; an extension of the answer.
#[derive(Debug, Clone, Copy)]
pub struct Known;

/// How a port is answered.
#[derive(Clone)]
pub struct Port {
    /// By whom.
    pub router: Router,
    /// Encrypted with what, if it is.
    pub tls: Option<TlsAcceptor>,
    /// What callers may cost.
    pub bounds: Bounds,
    /// The paths that are answered also on the connections that are kept for probes.
    pub probes: &'static [&'static str],
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

/// Listens on that address.
///
/// # Errors
///
/// Where the system refuses the address.
pub fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    // Without it, a node that starts again has to wait for connections of its last start.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Answers until `soft`, then finishes the requests under way, but no longer than [`DRAIN`]; returns at once when `hard`
/// comes.
pub async fn serve(listener: TcpListener, port: Port, soft: CancellationToken, hard: CancellationToken) {
    let mut connections = Connections::new(port.bounds);
    let clock = Arc::clone(&port.clock);
    let accepting = async {
        loop {
            match listener.accept().await {
                Ok((stream, from)) => {
                    match connections.admit(from.ip(), clock.elapsed()) {
                        Some(connection) => drop(tokio::spawn(port.clone().answer(
                            stream,
                            connection,
                            soft.clone(),
                        ))),
                        None => port.refuse(stream),
                    }
                    // Its first request may be there already, and is answered before many that come at once take its place.
                    tokio::task::yield_now().await;
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
        () = connections.ended() => {}
        () = hard.cancelled() => {}
        () = clock.sleep(DRAIN) => {}
    }
}

impl Port {
    /// Says that there is no room, where that needs no handshake, and closes the connection.
    fn refuse(&self, stream: TcpStream) {
        tracing::debug!("a connection was refused: {REFUSAL}");
        if self.tls.is_some() {
            return;
        }
        let answer = format!(
            "HTTP/1.1 503 Service Unavailable\r\ncontent-type: text/plain\r\ncontent-length: {}\r\nretry-after: 1\r\n\
             connection: close\r\n\r\n{REFUSAL}\n",
            REFUSAL.len() + 1
        );
        // The answer is a courtesy: bytes that do not leave at once are lost.
        let _ = stream
            .into_std()
            .and_then(|mut stream| stream.write(answer.as_bytes()));
    }

    /// Answers the requests of one connection until it ends.
    async fn answer(self, stream: TcpStream, connection: Arc<Connection>, soft: CancellationToken) {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "a connection keeps its delay");
        }
        let closing = connection.closing.clone();
        tokio::select! {
            () = closing.cancelled() => tracing::debug!("an idle connection made room for another"),
            () = self.receive(stream, connection, soft) => {}
        }
    }

    async fn receive(self, stream: TcpStream, connection: Arc<Connection>, soft: CancellationToken) {
        let patience = self.bounds.patience;
        let stream = Impatient::new(stream, Arc::clone(&connection), patience, Arc::clone(&self.clock));
        let Some(tls) = &self.tls else {
            return self.converse(stream, connection, soft).await;
        };
        match tokio::time::timeout(patience, tls.accept(stream)).await {
            Ok(Ok(stream)) => self.converse(stream, connection, soft).await,
            Ok(Err(error)) => tracing::debug!(%error, "a caller was not let in"),
            Err(_) => tracing::debug!("a caller did not finish its handshake"),
        }
    }

    async fn converse<S>(&self, stream: S, connection: Arc<Connection>, soft: CancellationToken)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let answering = http1::Builder::new()
            .timer(TokioTimer::new())
            // From the last answer to the end of the next head: it also bounds how long a connection is kept for nothing.
            .header_read_timeout(self.bounds.patience)
            .serve_connection(TokioIo::new(stream), self.service(connection))
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

    /// The router, with a note of when the connection is busy and when it is idle.
    fn service(
        &self,
        connection: Arc<Connection>,
    ) -> impl Service<
        Request<Incoming>,
        Response = Response<Body>,
        Error = Infallible,
        Future: Future<Output = Result<Response<Body>, Infallible>> + Send,
    > + use<> {
        let router = TowerToHyperService::new(self.router.clone());
        let (clock, probes) = (Arc::clone(&self.clock), self.probes);
        service_fn(move |mut request: Request<Incoming>| {
            connection.busy();
            let is_refused = connection.is_for_probes && !probes.contains(&request.uri().path());
            request.extensions_mut().insert(Peer(connection.peer));
            let answering = router.call(request);
            let (connection, clock) = (Arc::clone(&connection), Arc::clone(&clock));
            async move {
                if is_refused {
                    return Ok(refusal());
                }
                let response = answering.await?;
                Ok(follow(response, connection, clock))
            }
        })
    }
}

fn refusal() -> Response<Body> {
    let mut response = Response::new(Body::from(format!("{REFUSAL}\n")));
    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    response
        .headers_mut()
        .insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

/// The response, after whose last byte was produced the connection is idle; never where it goes on as a WebSocket.
fn follow(response: Response<Body>, connection: Arc<Connection>, clock: Arc<dyn Clock>) -> Response<Body> {
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        return response;
    }
    let is_stream = response.body().size_hint().exact().is_none();
    let answer = Answer {
        is_known: response.extensions().get::<Known>().is_some(),
        connection,
        clock,
    };
    if !is_stream {
        return response;
    }
    response.map(|body| {
        Body::from_stream(body.into_data_stream().inspect(move |_| {
            let _until_its_end = &answer;
        }))
    })
}

/// An answer that is produced; when it is dropped, its connection is idle.
struct Answer {
    connection: Arc<Connection>,
    is_known: bool,
    clock: Arc<dyn Clock>,
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.connection.idle(self.is_known, self.clock.elapsed());
    }
}
