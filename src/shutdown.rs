//! How the process ends: the first SIGTERM or SIGINT drains, the second stops at once.
//!
//! Two tokens carry that to everybody. `soft` means: take nothing new, finish what is under way. `hard` means: drop
//! everything; what was claimed is picked up after the next start. A task that ends before it was asked to takes the
//! process down: it cancels `soft` through [`Shutdown::fail`], and the process exits with a non-zero code.

use std::sync::Arc;
use std::sync::OnceLock;

use tokio::signal::unix::Signal;
use tokio::signal::unix::SignalKind;
use tokio::signal::unix::signal;
use tokio_util::sync::CancellationToken;

/// The two tokens, shared by everybody.
#[derive(Debug, Clone, Default)]
pub struct Shutdown {
    /// Cancelled by the first signal: drain.
    pub soft: CancellationToken,
    /// Cancelled by the second signal, and with it `soft`: stop.
    pub hard: CancellationToken,
    failure: Arc<OnceLock<String>>,
}

impl Shutdown {
    /// Tokens that only [`Shutdown::drain`], [`Shutdown::stop`] and [`Shutdown::fail`] cancel, as tests want them.
    pub fn new() -> Self {
        Self::default()
    }

    /// Tokens that follow the signals of this process. Must be called within the runtime.
    pub fn on_signals() -> std::io::Result<Self> {
        let shutdown = Self::new();
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let follower = shutdown.clone();
        tokio::spawn(async move {
            next_of(&mut terminate, &mut interrupt).await;
            tracing::info!("draining: finishing what is under way; a second signal stops at once");
            follower.drain();
            next_of(&mut terminate, &mut interrupt).await;
            tracing::warn!("stopping at once");
            follower.stop();
        });
        Ok(shutdown)
    }

    /// Takes nothing new and finishes what is under way.
    pub fn drain(&self) {
        self.soft.cancel();
    }

    /// Stops at once.
    pub fn stop(&self) {
        self.soft.cancel();
        self.hard.cancel();
    }

    /// Stops once `pause` has passed, if this process is still there.
    pub fn stop_after(&self, pause: impl Future<Output = ()> + Send + 'static) {
        let shutdown = self.clone();
        tokio::spawn(async move {
            pause.await;
            tracing::warn!(
                "the store takes no writes: stopping at once; the next start takes up what was claimed"
            );
            shutdown.stop();
        });
    }

    /// Drains since something broke; the first reason is kept.
    pub fn fail(&self, reason: String) {
        // A later failure is most likely a consequence of the first.
        let _ = self.failure.set(reason);
        self.drain();
    }

    /// What broke, if anything did: the process then exits with a non-zero code.
    pub fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }
}

async fn next_of(terminate: &mut Signal, interrupt: &mut Signal) {
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}

/// SIGHUP as a stream: reload the configuration each time. Must be called within the runtime.
#[derive(Debug)]
pub struct Hangups(Signal);

impl Hangups {
    /// Listens from now on; from here SIGHUP no longer ends the process.
    pub fn listen() -> std::io::Result<Self> {
        signal(SignalKind::hangup()).map(Self)
    }

    /// Waits for the next one. None: there will be no more.
    pub async fn next(&mut self) -> Option<()> {
        self.0.recv().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stopping_drains_too() {
        let shutdown = Shutdown::new();
        shutdown.stop();
        assert!(shutdown.soft.is_cancelled() && shutdown.hard.is_cancelled());
    }

    #[test]
    fn a_failure_drains_and_keeps_its_first_reason() {
        let shutdown = Shutdown::new();
        shutdown.fail("the planner ended".to_owned());
        shutdown.fail("the arm ended".to_owned());
        assert_eq!(shutdown.failure(), Some("the planner ended"));
        assert!(shutdown.soft.is_cancelled() && !shutdown.hard.is_cancelled());
    }
}
