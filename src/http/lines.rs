//! A body as lines, each bounded in length.

use std::time::Duration;

use axum::http::StatusCode;

use super::body::Arriving;
use super::problem::Problem;

/// The bytes of a line, or why it is not taken.
pub(super) type Line = Result<Vec<u8>, Problem>;

/// What came.
pub(super) enum Next {
    /// A line that is not blank.
    Line(Line),
    /// Nothing within the given patience.
    Pause,
    /// All was read.
    End,
    /// No more can be read.
    Broken(Problem),
}

/// The lines of a body.
pub(super) struct Lines {
    arriving: Arriving,
    longest: usize,
    buffer: Vec<u8>,
    /// Where in the buffer the line under way starts, and up to where it is known to hold no line end.
    start: usize,
    scanned: usize,
    /// The line under way is too long: its bytes are dropped as they come.
    is_skipping: bool,
    has_ended: bool,
    number: usize,
}

impl Lines {
    /// The lines of `arriving`, each of at most `longest` bytes.
    pub(super) fn new(arriving: Arriving, longest: usize) -> Self {
        Self {
            arriving,
            longest,
            buffer: Vec::new(),
            start: 0,
            scanned: 0,
            is_skipping: false,
            has_ended: false,
            number: 0,
        }
    }

    /// The number of the line that came last, from 1.
    pub(super) fn number(&self) -> usize {
        self.number
    }

    /// The next line; with `patience`, only if it comes in time.
    pub(super) async fn next(&mut self, patience: Option<Duration>) -> Next {
        loop {
            if let Some(line) = self.buffered() {
                self.number += 1;
                match line {
                    Ok(line) if line.trim_ascii().is_empty() => continue,
                    line => return Next::Line(line),
                }
            }
            if self.has_ended {
                return Next::End;
            }
            let piece = match patience {
                None => self.arriving.next().await.map_err(Some),
                Some(patience) => self.arriving.next_within(patience).await,
            };
            match piece {
                Ok(Some(piece)) => self.take(&piece),
                Ok(None) => self.end(),
                Err(None) => return Next::Pause,
                Err(Some(problem)) => return Next::Broken(problem),
            }
        }
    }

    fn take(&mut self, piece: &[u8]) {
        self.buffer.drain(..self.start);
        self.scanned -= self.start;
        self.start = 0;
        self.buffer.extend_from_slice(piece);
    }

    /// The last line may lack its line end.
    fn end(&mut self) {
        self.has_ended = true;
        if self.start < self.buffer.len() || self.is_skipping {
            self.buffer.push(b'\n');
        }
    }

    /// The next line of the buffer, if it is complete or too long already.
    fn buffered(&mut self) -> Option<Line> {
        let found = self.buffer[self.scanned..].iter().position(|byte| *byte == b'\n');
        let end = found.map_or(self.buffer.len(), |position| self.scanned + position);
        let line = self.start..end;
        self.scanned = end;
        if found.is_some() {
            self.start = end + 1;
            self.scanned = self.start;
            let was_skipping = std::mem::take(&mut self.is_skipping);
            return Some(if was_skipping || line.len() > self.longest {
                Err(self.too_long())
            } else {
                Ok(self.buffer[line].to_vec())
            });
        }
        if line.len() > self.longest {
            self.is_skipping = true;
            self.start = end;
        }
        None
    }

    fn too_long(&self) -> Problem {
        let detail = format!("the line is longer than {} bytes", self.longest);
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", detail)
    }
}
