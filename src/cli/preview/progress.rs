//! Says on a terminal how far long work has come.

use std::io;
use std::io::IsTerminal;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use crate::cli::preview::harmless::plain;
use crate::clock::Clock;
use crate::clock::SystemClock;

/// Work that is shorter is not worth a word.
const PATIENCE: Duration = Duration::from_secs(1);

/// How often it says something new.
const PACE: Duration = Duration::from_millis(200);

/// A line on standard error that is written again and again; none where that is no terminal.
pub(super) struct Progress {
    is_shown: bool,
    start: Duration,
    last: Option<Duration>,
}

impl Progress {
    pub(super) fn start() -> Self {
        Self {
            is_shown: io::stderr().is_terminal(),
            start: SystemClock.elapsed(),
            last: None,
        }
    }

    /// So many events of so many of a file are done.
    pub(super) fn say(&mut self, file: &Path, done: usize, all: usize) {
        if !self.is_shown {
            return;
        }
        let now = SystemClock.elapsed();
        let is_due = self.last.is_none_or(|last| PACE <= now.saturating_sub(last));
        if is_due && PATIENCE <= now.saturating_sub(self.start) {
            self.last = Some(now);
            let file = plain(&file.display().to_string());
            // A terminal that is gone is nothing to stop for.
            let _ = write!(io::stderr(), "\r\u{1b}[K{file}: {done} of {all} events");
        }
    }

    /// Wipes the line away.
    pub(super) fn end(&mut self) {
        if self.last.take().is_some() {
            let _ = write!(io::stderr(), "\r\u{1b}[K");
        }
    }
}
