//! Room on the disk of a store that is a file of this node.

use std::fmt;

/// Room on the disk of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Bytes that are free.
    pub free: u64,
    /// Changes are refused while fewer are free (`store.min_free`).
    pub min_free: u64,
}

impl Room {
    /// Whether changes are refused.
    pub const fn is_low(&self) -> bool {
        self.free < self.min_free
    }
}

impl fmt::Display for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mebibytes = |bytes: u64| bytes >> 20;
        write!(
            f,
            "the disk of store.url has {} MiB free, less than store.min_free ({} MiB), so changes are refused: make room on \
             it; reminders that were accepted are still sent",
            mebibytes(self.free),
            mebibytes(self.min_free),
        )
    }
}
