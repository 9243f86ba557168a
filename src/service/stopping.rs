//! The end of the service: what is in flight is finished, the cluster is left, the store is closed.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::Clock;
use crate::node::Running;
use crate::post::Seat;
use crate::ready::Readiness;
use crate::shutdown::Shutdown;
use crate::store::Store;

/// How long a drain goes on where the store takes no writes, and so keeps nothing of what a drain waits for.
const WITHOUT_STORE: Duration = Duration::from_secs(3);

/// Hands over, finishes what is in flight, and leaves the cluster.
pub(super) async fn finish(
    ready: &Readiness,
    clock: Arc<dyn Clock>,
    seat: &Seat,
    running: Running,
    shutdown: &Shutdown,
) {
    ready.drain();
    if ready.store(clock.elapsed()).is_err() {
        shutdown.stop_after(async move { clock.sleep(WITHOUT_STORE).await });
    }
    if let Some(cluster) = seat.cluster() {
        // Another looks ahead while this one finishes what it has begun.
        cluster.hand_over().await;
    }
    running.drain(&shutdown.hard).await;
    if let Some(cluster) = seat.cluster() {
        cluster.shut_down().await;
    }
}

/// On SQLite this writes the log back into the file, which is then whole by itself.
pub(super) async fn close(store: &dyn Store, shutdown: &Shutdown) {
    tokio::select! {
        () = store.close() => {}
        () = shutdown.hard.cancelled() => {}
    }
}

/// Why the service ended, if it was not asked to.
pub(super) fn verdict(shutdown: &Shutdown) -> anyhow::Result<()> {
    let failure = shutdown.failure();
    failure.map_or(Ok(()), |reason| Err(anyhow::Error::msg(reason.to_owned())))
}
