//! What is left on the disk of the file. Changes are refused while that is little, so that what was accepted can still
//! be settled.

use std::path::PathBuf;

use crate::store::Room;
use crate::store::StoreError;

/// Looks how much room there is.
#[derive(Debug)]
pub struct RoomCheck {
    pub file: PathBuf,
    pub min_free: u64,
}

impl RoomCheck {
    /// None where the system does not say.
    pub fn read(&self) -> Option<Room> {
        let disk = rustix::fs::statvfs(&self.file).ok()?;
        Some(Room {
            free: disk.f_bavail.saturating_mul(disk.f_frsize),
            min_free: self.min_free,
        })
    }

    /// An error if there is too little room for a change.
    pub fn check(&self) -> Result<(), StoreError> {
        let low = self.read().filter(Room::is_low);
        low.map_or(Ok(()), |room| Err(StoreError::NoRoom(room)))
    }
}
