//! Who leads. Leadership saves work: the planner and the janitor run where it is held. It is never needed for
//! correctness, which is the store's.

/// Whether this node does the periodic work of the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leadership {
    leads: bool,
}

impl Leadership {
    /// There is one node, so it leads: SQLite admits one process by construction.
    pub const fn solo() -> Self {
        Self { leads: true }
    }

    /// Whether this node leads now.
    pub const fn is_held(self) -> bool {
        self.leads
    }
}
