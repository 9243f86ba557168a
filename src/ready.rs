//! Whether this node may be sent to, and whether its loops still turn.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

/// A store that has taken no write for so long takes none: the heartbeat writes once a second.
const WRITE_AGE: Duration = Duration::from_secs(4);

/// Whether this node may be sent to, and whether its loops still turn. Cheap to clone; all clones are one.
#[derive(Debug, Clone, Default)]
pub struct Readiness(Arc<Mutex<Parts>>);

#[derive(Debug, Default)]
struct Parts {
    conditions: BTreeMap<&'static str, Result<(), String>>,
    loops: BTreeMap<&'static str, Beat>,
    store: Option<StoreWrites>,
}

/// What became of the heartbeat's writes.
#[derive(Debug, Clone, Copy)]
struct StoreWrites {
    last: Duration,
    is_refused: bool,
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

    /// The store took the heartbeat's write at `elapsed` (boot-time clock).
    pub fn store_wrote(&self, elapsed: Duration) {
        self.parts().store = Some(StoreWrites {
            last: elapsed,
            is_refused: false,
        });
    }

    /// The heartbeat's write failed.
    pub fn store_refused(&self) {
        if let Some(writes) = &mut self.parts().store {
            writes.is_refused = true;
        }
    }

    /// Whether the store takes writes at `elapsed`. Everybody may read the reason, so the cause stays in the log.
    pub fn store(&self, elapsed: Duration) -> Result<(), String> {
        let Some(writes) = self.parts().store else {
            return Ok(());
        };
        let age = elapsed.saturating_sub(writes.last);
        if !writes.is_refused && age <= WRITE_AGE {
            return Ok(());
        }
        Err(format!(
            "has taken no write for {} s: see that the database of store.url runs, can be reached and has room; what is due \
             waits for it",
            age.as_secs()
        ))
    }

    /// Every condition that was named, and whether it holds at `elapsed`.
    pub fn conditions(&self, elapsed: Duration) -> BTreeMap<&'static str, Result<(), String>> {
        let store = self.store(elapsed);
        let mut conditions = self.parts().conditions.clone();
        conditions.insert("store", store);
        conditions
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

    #[test]
    fn store_is_not_ready_after_a_refused_or_missing_write() {
        let at = Duration::from_secs;
        let ready = Readiness::new();
        ready.store_wrote(at(10));
        assert_eq!(ready.store(at(14)), Ok(()));
        let silent = ready.store(at(15)).expect_err("the last write is too old");
        assert!(silent.starts_with("has taken no write for 5 s"), "{silent}");
        ready.store_wrote(at(15));
        ready.store_refused();
        assert!(ready.store(at(15)).is_err());
        ready.store_wrote(at(16));
        assert_eq!(ready.store(at(16)), Ok(()));
    }
}
