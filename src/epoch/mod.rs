//! What a node does about the epoch of its store: it keeps its mark on disk, holds fire while the database is older than it
//! should be, and after a rewind records again what it settled.
//!
//! After a crash the mark on disk may be a second old, which is never ahead of the database.

mod again;
mod mark;

use std::path::Path;
use std::path::PathBuf;
use std::sync::Mutex;

use chrono::DateTime;
use chrono::TimeDelta;
use chrono::Utc;

use crate::metrics::Metrics;
use crate::ready::Readiness;
use crate::store::Course;
use crate::store::Epoch;
use crate::store::HandOver;
use crate::store::Mark;
use crate::store::Store;
use crate::store::StoreError;

use self::again::HandOvers;

/// The name of the condition in `/readyz`.
const CONDITION: &str = "rewind";

/// Hand-overs of one transaction that records them again.
const PAGE: usize = 1_000;

/// Pages that one heartbeat records, so that it is not late.
const PAGES: usize = 20;

/// Hand-overs this much older than what the database still has are recorded again as well: clocks and commits differ.
const MARGIN: TimeDelta = TimeDelta::seconds(10);

/// Sends that were under way when the database went back in time are settled within this time, and are recorded again too: the
/// next firing of their series was lost.
const UNDER_WAY: TimeDelta = TimeDelta::seconds(150);

/// The epoch as this node knows it.
#[derive(Debug, Default)]
pub struct EpochTracker {
    file: Option<PathBuf>,
    hold: bool,
    state: Mutex<State>,
    hand_overs: HandOvers,
}

#[derive(Debug, Default)]
struct State {
    /// The mark of an earlier process.
    earlier: Option<Mark>,
    known: Option<Epoch>,
    /// Whether the last write of the mark failed, which is said once.
    is_failing: bool,
}

impl EpochTracker {
    /// A node whose mark is in `file`, and which holds fire after a rewind until an operator lets it go on if `hold` is set.
    pub fn new(file: PathBuf, hold: bool) -> Self {
        let state = State {
            earlier: mark::read(&file),
            ..State::default()
        };
        Self {
            file: Some(file),
            hold,
            state: Mutex::new(state),
            hand_overs: HandOvers::default(),
        }
    }

    /// The pair that a heartbeat must not find lower.
    pub fn seen(&self) -> Option<Mark> {
        let state = self.state();
        state.known.map(|known| known.mark()).or(state.earlier)
    }

    /// Whether an epoch that this node begins is held.
    pub const fn holds(&self) -> bool {
        self.hold
    }

    /// The row as of the last heartbeat.
    pub fn known(&self) -> Option<Epoch> {
        self.state().known
    }

    /// Whether anything may be fired now.
    pub fn is_open(&self, now: DateTime<Utc>) -> bool {
        self.known().is_none_or(|known| known.is_open(now))
    }

    /// Remembers hand-overs that the store took.
    pub fn handed_over(&self, hand_overs: Vec<HandOver>, now: DateTime<Utc>) {
        self.hand_overs.add(hand_overs, now);
    }

    /// Takes in what a heartbeat found. Says whether an epoch began since the one before.
    pub fn follow(&self, found: Epoch, metrics: &Metrics) -> bool {
        let seen = self.seen();
        let is_new = found.course(seen) != Course::Onward;
        if is_new {
            tell(seen, &found);
            metrics.rewound();
            let lost_after = found.lost.map_or(found.began_at, |lost| lost.after);
            self.hand_overs.rewind(lost_after - MARGIN);
        }
        self.state().known = Some(found);
        is_new
    }

    /// Records again what the database forgot. What fails is tried again at the next heartbeat.
    pub async fn record_again(&self, store: &dyn Store, now: DateTime<Utc>) -> Result<(), StoreError> {
        let since = self.known().filter(|known| known.lost.is_some());
        if since.is_none_or(|known| now > known.began_at + UNDER_WAY) {
            return Ok(());
        }
        for _ in 0..PAGES {
            let page = self.hand_overs.page(PAGE);
            if page.is_empty() {
                break;
            }
            let recorded = store.record_again(&page).await?;
            self.hand_overs.done(page.len());
            tracing::info!(
                recorded,
                of = page.len(),
                "hand-overs were recorded again after a rewind"
            );
        }
        Ok(())
    }

    /// Says whether the node is ready as far as this goes.
    pub fn judge(&self, ready: &Readiness, now: DateTime<Utc>) {
        let Some(known) = self.known() else { return };
        ready.set(CONDITION, condition(&known, now));
    }

    /// Writes the mark.
    pub async fn save(&self) {
        let Some((file, seen)) = self.file.clone().zip(self.seen()) else {
            return;
        };
        let written = tokio::task::spawn_blocking(move || mark::write(&file, &seen)).await;
        let failure = written.map_or_else(
            |error| Some(error.to_string()),
            |it| it.err().map(|it| it.to_string()),
        );
        let mut state = self.state();
        if let Some(error) = failure.as_ref().filter(|_| !state.is_failing) {
            tracing::warn!(%error, "the mark cannot be written: until it can, a rewind during a restart is not noticed");
        }
        state.is_failing = failure.is_some();
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }
}

/// The mark of a node on SQLite: beside the file.
pub fn beside(database: &Path) -> PathBuf {
    crate::store::sqlite::mark_file(database)
}

fn tell(seen: Option<Mark>, found: &Epoch) {
    let seen_at = seen.map(|seen| seen.at.to_rfc3339());
    let holds = found.lost.map(|lost| lost.after.to_rfc3339());
    tracing::error!(
        epoch = %found.id,
        seen_at,
        holds_up_to = holds,
        "the database went back in time: push again what changed since holds_up_to (GET /v1/epoch); see the chapter on backup \
         and restore",
    );
}

fn condition(known: &Epoch, now: DateTime<Utc>) -> Result<(), String> {
    if known.is_open(now) {
        return Ok(());
    }
    let (from, to) = known
        .lost
        .map_or((known.began_at, known.began_at), |lost| (lost.after, lost.until));
    let (from, to) = (from.to_rfc3339(), to.to_rfc3339());
    let what = format!(
        "the database went back in time: it was seen as of {to}, and holds what was committed up to {from}"
    );
    if known.held {
        Err(format!(
            "{what}; nothing is fired until `carillon after-restore` (store.on_rewind = \"hold\")"
        ))
    } else {
        Err(format!("{what}; what was settled since is being recorded again"))
    }
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;

    use super::*;
    use crate::store::EpochId;
    use crate::store::Lost;

    #[test]
    fn a_held_epoch_names_both_times_and_the_command() {
        let at = |seconds| DateTime::UNIX_EPOCH + TimeDelta::seconds(seconds);
        let known = Epoch {
            id: EpochId { number: 2, random: 1 },
            began_at: at(70),
            watermark: 1,
            raised_at: at(70),
            lost: Some(Lost {
                after: at(60),
                until: at(65),
            }),
            missed_before: None,
            held: true,
        };
        let reason = condition(&known, at(999)).expect_err("it is held");
        for part in [
            "1970-01-01T00:01:00",
            "1970-01-01T00:01:05",
            "carillon after-restore",
        ] {
            assert!(reason.contains(part), "{reason}");
        }
        let open = Epoch { held: false, ..known };
        assert!(condition(&open, at(71)).is_err());
        assert_eq!(condition(&open, at(75)), Ok(()));
    }
}
