//! Connections: bounded in number and in patience, so that whoever opens many and says little on them costs neither
//! memory nor the files that sending needs. Over the bound callers wait at the door.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::rt::TokioTimer;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::Semaphore;

use super::Limits;
use crate::clock::Clock;
use crate::shutdown::Shutdown;

/// How long requests under way may take once the node drains.
const DRAIN: Duration = Duration::from_secs(30);

/// The pause after a connection could not be taken, mostly since the process has no file left for it.
const PAUSE: Duration = Duration::from_millis(200);

/// Answers until `shutdown` drains, then finishes the requests under way, but no longer than [`DRAIN`]; returns at once
/// when it stops.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    limits: Limits,
    clock: Arc<dyn Clock>,
    shutdown: Shutdown,
) {
    let under_way = GracefulShutdown::new();
    let door = Arc::new(Semaphore::new(limits.connections));
    let accepting = async {
        loop {
            let place = Arc::clone(&door).acquire_owned().await;
            let place = place.expect("the door is never closed");
            match listener.accept().await {
                Ok((stream, _)) => {
                    let answering = answer(stream, router.clone(), limits, &under_way, place);
                    tokio::spawn(answering);
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be taken");
                    clock.sleep(PAUSE).await;
                }
            }
        }
    };
    tokio::select! {
        () = shutdown.soft.cancelled() => {}
        () = accepting => {}
    }
    drop(listener);
    tokio::select! {
        () = under_way.shutdown() => {}
        () = shutdown.hard.cancelled() => {}
        () = clock.sleep(DRAIN) => {}
    }
}

/// Answers the requests of one connection. It holds its place at the door until it ends.
fn answer(
    stream: TcpStream,
    router: Router,
    limits: Limits,
    under_way: &GracefulShutdown,
    place: OwnedSemaphorePermit,
) -> impl Future<Output = ()> + Send + use<> {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a connection keeps its delay");
    }
    let answering = http1::Builder::new()
        .timer(TokioTimer::new())
        // From the last answer to the end of the next head: it also bounds how long a connection is kept for nothing.
        .header_read_timeout(limits.read_timeout)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let answering = under_way.watch(answering);
    async move {
        if let Err(error) = answering.await {
            tracing::debug!(%error, "a connection broke");
        }
        drop(place);
    }
}
