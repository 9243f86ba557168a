//! The heartbeat where the database went back in time, or is damaged.

use crate::store::StoreError;
use crate::worker::Worker;

impl Worker {
    /// The heartbeat itself, and what follows where the database went back in time.
    pub(super) async fn heartbeat(&self) -> Result<bool, StoreError> {
        let beat = self.store.heartbeat(self.session, self.report()).await?;
        let is_new_epoch = self.epoch.follow(beat.epoch, &self.metrics);
        self.epoch.save().await;
        let mut lives = beat.lives;
        if is_new_epoch && !lives {
            lives = self.store.resume_session(self.session, &self.node).await?;
        }
        let now = beat.epoch.raised_at;
        self.epoch.judge(&self.ready, now);
        self.epoch.record_again(&*self.store, now).await?;
        Ok(lives)
    }

    /// What is damaged, with the name of the file and the cure where the heartbeat itself was told neither.
    pub(super) async fn damage(&self, reason: String) -> String {
        match self.store.verify().await {
            Err(StoreError::Damaged(named)) => named,
            _ => reason,
        }
    }
}
