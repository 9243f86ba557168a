//! Stand-alone series that go on.

use std::fmt;

use crate::store::StoreError;
use crate::trigger::AlarmId;
use crate::trigger::OwnerId;

/// The series that are to fire again.
#[async_trait::async_trait]
pub trait LiveSeries: fmt::Debug + Send + Sync {
    /// The names of up to `limit` stand-alone series that are active and not paused, strictly after one of them, in order;
    /// of one owner, or of everybody.
    async fn live_series(
        &self,
        owner: Option<&OwnerId>,
        after: Option<&(OwnerId, AlarmId)>,
        limit: u32,
    ) -> Result<Vec<(OwnerId, AlarmId)>, StoreError>;
}
