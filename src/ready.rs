//! Whether this node may be sent to, and whether its loops still turn.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

/// Whether this node may be sent to, and whether its loops still turn. Cheap to clone; all clones are one.
#[derive(Debug, Clone, Default)]
pub struct Readiness(Arc<Mutex<Parts>>);

#[derive(Debug, Default)]
struct Parts {
    conditions: BTreeMap<&'static str, Result<(), String>>,
    loops: BTreeMap<&'static str, Beat>,
}

#[derive(Debug, Clone, Copy)]
struct Beat {
    last: Duration,
    silence: Duration,
}

impl Readiness {
    /// A node whose conditions are still to be named.
    pub fn new() -> Self {
        Self::default()
    }

    /// From now on `condition` holds, or does not for the reason given. A node is ready when all that were ever named
    /// hold: name early what comes late (`migrations`, `leader`).
    pub fn set(&self, condition: &'static str, holds: Result<(), String>) {
        self.parts().conditions.insert(condition, holds);
    }

    /// Not ready any more: the node is shutting down.
    pub fn drain(&self) {
        self.set("draining", Err("shutting down".to_owned()));
    }

    /// The loop of this name turned at `elapsed` (boot-time clock) and will turn again within `silence`, or the node
    /// counts as dead.
    pub fn beat(&self, name: &'static str, elapsed: Duration, silence: Duration) {
        self.parts().loops.insert(
            name,
            Beat {
                last: elapsed,
                silence,
            },
        );
    }

    /// The loops that should have turned by `elapsed` and have not.
    pub fn stuck(&self, elapsed: Duration) -> Vec<&'static str> {
        let parts = self.parts();
        let stuck = parts
            .loops
            .iter()
            .filter(|(_, beat)| elapsed > beat.last + beat.silence);
        stuck.map(|(name, _)| *name).collect()
    }

    /// Every condition that was named, and whether it holds.
    pub fn conditions(&self) -> BTreeMap<&'static str, Result<(), String>> {
        self.parts().conditions.clone()
    }

    fn parts(&self) -> std::sync::MutexGuard<'_, Parts> {
        self.0.lock().expect("no holder panics")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_that_stops_turning_is_found() {
        let ready = Readiness::new();
        ready.beat("planner", Duration::from_secs(10), Duration::from_secs(5));
        assert!(ready.stuck(Duration::from_secs(15)).is_empty());
        assert_eq!(ready.stuck(Duration::from_secs(16)), ["planner"]);
        ready.beat("planner", Duration::from_secs(16), Duration::from_secs(5));
        assert!(ready.stuck(Duration::from_secs(20)).is_empty());
    }
}
