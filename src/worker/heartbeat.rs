//! What a heartbeat shows beside its own write: the room on the disk, and whether this node needs a restart.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::worker::BEAT;
use crate::worker::Worker;

/// A store in this process that takes no write for so long needs a restart.
const WRITER_SILENCE: Duration = Duration::from_mins(1);

impl Worker {
    /// Waits for a heartbeat, however long the store takes: that is no reason to restart this node.
    pub(super) async fn unless_stopped<T>(
        &self,
        beat: impl Future<Output = T>,
        stop: &CancellationToken,
    ) -> Option<T> {
        let mut beat = std::pin::pin!(beat);
        loop {
            tokio::select! {
                () = stop.cancelled() => return None,
                beat = &mut beat => return Some(beat),
                () = self.clock.sleep(BEAT) => self.turns("heartbeat", BEAT),
            }
        }
    }

    /// A database server that is down is no reason to restart this node; a store that is part of this process is one.
    pub(super) fn writer_turns(&self) {
        if self.database_clock.is_none() {
            self.ready.beat("writer", self.clock.elapsed(), WRITER_SILENCE);
        }
    }

    /// Measures the room on the disk of the store. No restart makes room, so a full disk does not count as a stuck writer.
    pub(super) fn look_at_room(&self) {
        let Some(room) = self.store.room() else {
            return;
        };
        self.metrics.store_room(room);
        self.ready.set(
            "room",
            if room.is_low() {
                Err(room.to_string())
            } else {
                Ok(())
            },
        );
        if room.is_low() {
            self.writer_turns();
        }
    }
}
