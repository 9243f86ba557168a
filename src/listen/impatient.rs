//! A stream whose other side must read: a write that waits for too long is an error, and the connection ends with it.

use std::fmt;
use std::io;
use std::io::IoSlice;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Context;
use std::task::Poll;
use std::task::ready;
use std::time::Duration;

use tokio::io::AsyncRead;
use tokio::io::AsyncWrite;
use tokio::io::ReadBuf;

use super::connections::Connection;
use crate::clock::Clock;

/// A stream whose other side must read.
pub(super) struct Impatient<S> {
    stream: S,
    /// Holds its place as long as this lives.
    _connection: Arc<Connection>,
    patience: Duration,
    clock: Arc<dyn Clock>,
    /// Runs while a write waits.
    waiting: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl<S> Impatient<S> {
    pub(super) fn new(
        stream: S,
        connection: Arc<Connection>,
        patience: Duration,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            stream,
            _connection: connection,
            patience,
            clock,
            waiting: None,
        }
    }

    /// What became of a write, unless it waits for too long.
    fn bounded<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.waiting = None;
            return written;
        }
        let (clock, patience) = (Arc::clone(&self.clock), self.patience);
        let waiting = self
            .waiting
            .get_or_insert_with(|| Box::pin(async move { clock.sleep(patience).await }));
        ready!(waiting.as_mut().poll(cx));
        self.waiting = None;
        Poll::Ready(Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "the other side does not read",
        )))
    }
}

impl<S> fmt::Debug for Impatient<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Impatient")
            .field("patience", &self.patience)
            .finish_non_exhaustive()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Impatient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Impatient<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.bounded(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.bounded(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.bounded(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let ended = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.bounded(cx, ended)
    }
}
