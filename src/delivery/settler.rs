//! Writes what attempts came to, in batches: whatever has come in while the last batch was written is the next one.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use chrono::DateTime;
use chrono::Utc;
use tokio::sync::mpsc;

use crate::delivery::lane::Shared;
use crate::metrics::DoubtDecision;
use crate::metrics::LatenessKind;
use crate::metrics::TargetKind;
use crate::store::AttemptEnd;
use crate::store::HandOver;
use crate::store::Settled;
use crate::store::Settlement;
use crate::trigger::ChannelKind;
use crate::trigger::Trigger;
use crate::trigger::outcome::Outcome;
use crate::trigger::outcome::Reason;

/// Settlements of one transaction at the most.
const BATCH: usize = 1_000;

/// The first and the longest pause between tries of a settle whose store does not answer.
const PAUSES: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));

/// An attempt that is over, of one trigger.
#[derive(Debug, Clone)]
pub struct Finished {
    /// The trigger, as it was when its fire-check passed.
    pub trigger: Trigger,
    /// What it called.
    pub target: TargetKind,
    /// What to write.
    pub settlement: Settlement,
}

/// Writes what attempts came to.
pub struct Settler {
    shared: Arc<Shared>,
    finished: mpsc::Receiver<Vec<Finished>>,
}

impl fmt::Debug for Settler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settler").finish_non_exhaustive()
    }
}

impl Settler {
    /// A settler of what comes through `finished`.
    pub const fn new(shared: Arc<Shared>, finished: mpsc::Receiver<Vec<Finished>>) -> Self {
        Self { shared, finished }
    }

    /// Settles until all lanes and sends are gone.
    pub async fn run(mut self) {
        while self.tick().await {}
    }

    /// Whether no finished attempt waits to be written.
    pub fn is_idle(&self) -> bool {
        self.finished.is_empty()
    }

    /// Waits for at least one finished attempt and settles all there are. False when no more can come.
    pub async fn tick(&mut self) -> bool {
        let mut messages = Vec::new();
        if self.finished.recv_many(&mut messages, BATCH).await == 0 {
            return false;
        }
        let mut batch: Vec<Finished> = Vec::with_capacity(messages.len());
        for message in messages {
            // What one message stands for is settled together.
            if !batch.is_empty() && batch.len() + message.len() > BATCH {
                self.settle(&std::mem::take(&mut batch)).await;
            }
            batch.extend(message);
        }
        self.settle(&batch).await;
        true
    }

    async fn settle(&self, batch: &[Finished]) {
        let settlements: Vec<Settlement> = batch.iter().map(|it| it.settlement.clone()).collect();
        let settled = tokio::select! {
            settled = self.write(&settlements) => settled,
            () = self.shared.given_up.cancelled() => return,
        };
        let settled_again = batch.iter().zip(&settled);
        let hand_overs =
            settled_again.filter_map(|(it, settled)| HandOver::of(&it.trigger, &it.settlement, *settled));
        self.shared
            .epoch
            .handed_over(hand_overs.collect(), self.shared.clock.now());
        self.shared.recorded.notify_one();
        for (finished, settled) in batch.iter().zip(settled) {
            self.tell(finished, settled);
        }
    }

    /// Tries until the store takes it: what is known here is known nowhere else. A process that is stopped meanwhile
    /// leaves `sending` rows, which are rescued as in doubt.
    async fn write(&self, settlements: &[Settlement]) -> Vec<Settled> {
        let mut pause = PAUSES.0;
        loop {
            match self.shared.store.settle(settlements).await {
                Ok(settled) => return settled,
                Err(error) => {
                    tracing::warn!(%error, count = settlements.len(), "settle failed; trying again");
                }
            }
            self.shared.clock.sleep(pause).await;
            pause = (pause * 2).min(PAUSES.1);
        }
    }

    fn measure(&self, trigger: &Trigger, handed_over_at: Option<DateTime<Utc>>) {
        let Some(at) = handed_over_at else { return };
        let known_in_time = trigger
            .processed
            .is_some_and(|processed| processed <= trigger.place.trigger_at);
        let postponed = trigger.attempts > 0 || trigger.due_at > trigger.place.trigger_at;
        let kind = match (postponed, known_in_time) {
            (true, _) => LatenessKind::Postponed,
            (false, true) => LatenessKind::Regular,
            (false, false) => LatenessKind::Late,
        };
        self.shared
            .metrics
            .handed_over(trigger.wish.channel, kind, at - trigger.place.trigger_at);
    }

    fn tell(&self, finished: &Finished, settled: Settled) {
        let (trigger, end) = (&finished.trigger, &finished.settlement.end);
        let failed = |what| self.log(trigger, what, said(trigger.wish.channel, end));
        match (settled, end) {
            (Settled::Retrying(claim), end) => {
                self.shared.armed.arm(&[claim]);
                self.count_doubt(end, DoubtDecision::Retry);
                failed(match end {
                    AttemptEnd::Retry { counts: false, .. } => "not handed over yet; it will be tried again",
                    _ => "attempt failed; it will be repeated",
                });
            }
            // Who said that it was handed over has counted it.
            (Settled::Known, _) => failed("attempt failed; it was handed over all the same"),
            (Settled::InDoubt, _) => self.tell_of_doubt(trigger, end),
            (Settled::Recorded, AttemptEnd::Retry { .. }) => {
                let (outcome, reason) = (Outcome::Cancelled, Reason::Withdrawn);
                self.shared
                    .metrics
                    .concluded(trigger.wish.channel, outcome, reason);
                failed("attempt failed; its event no longer owes it");
            }
            // Whoever has the trigger now says what becomes of it.
            (Settled::Lost, AttemptEnd::Done { outcome, .. }) if !outcome.is_hand_over() => {
                self.log(
                    trigger,
                    "attempt ended after its claim was lost",
                    outcome.as_str(),
                );
            }
            (Settled::Lost, AttemptEnd::Retry { .. }) => failed("attempt failed after its claim was lost"),
            (Settled::Recorded | Settled::Lost, AttemptEnd::Done { .. }) => self.tell_of_end(finished),
            (Settled::Poisoned, _) => {
                let detail = said(trigger.wish.channel, end);
                tracing::error!(trigger.id = %trigger.id, detail, "this outcome cannot be written");
            }
        }
    }

    fn tell_of_end(&self, finished: &Finished) {
        let (trigger, end) = (&finished.trigger, &finished.settlement.end);
        let AttemptEnd::Done {
            outcome,
            reason,
            handed_over_at,
            ..
        } = end
        else {
            return;
        };
        let (channel, metrics) = (trigger.wish.channel, &self.shared.metrics);
        metrics.concluded(channel, *outcome, *reason);
        metrics.reached(channel, finished.target, *outcome);
        self.measure(trigger, *handed_over_at);
        let detail = format!("{outcome} {reason} {}", said(channel, end));
        self.log(trigger, "trigger settled", &detail);
    }

    fn tell_of_doubt(&self, trigger: &Trigger, end: &AttemptEnd) {
        self.count_doubt(end, DoubtDecision::Record);
        let (outcome, reason) = (Outcome::InDoubt, reason_of(end));
        self.shared
            .metrics
            .concluded(trigger.wish.channel, outcome, reason);
        let detail = format!("{outcome} {reason} {}", said(trigger.wish.channel, end));
        self.log(trigger, "trigger settled", &detail);
    }

    fn count_doubt(&self, end: &AttemptEnd, decision: DoubtDecision) {
        let doubts = u64::from(is_doubtful(end));
        self.shared.metrics.doubted(decision, doubts);
    }

    fn log(&self, trigger: &Trigger, what: &'static str, detail: &str) {
        tracing::info!(
            trigger.id = %trigger.id,
            event.uid = %trigger.wish.event_uid,
            channel = %trigger.wish.channel,
            attempt = trigger.attempts + 1,
            session = self.shared.session.0,
            detail = detail.trim(),
            "{what}",
        );
    }
}

/// Whether nobody knows how the attempt itself ended.
fn is_doubtful(end: &AttemptEnd) -> bool {
    match end {
        AttemptEnd::Done { outcome, .. } => *outcome == Outcome::InDoubt,
        AttemptEnd::Retry { doubtful, .. } => *doubtful,
    }
}

/// Why a trigger was given up that is in doubt, as history has it.
const fn reason_of(end: &AttemptEnd) -> Reason {
    match end {
        AttemptEnd::Done { reason, .. } => *reason,
        AttemptEnd::Retry { doubtful: true, .. } => Reason::ConnectionLost,
        AttemptEnd::Retry { .. } => Reason::Withdrawn,
    }
}

/// What the log tells of what the other side said: nothing of a handler, which has it of the program and may repeat what is in
/// the message. History has it.
fn said(channel: ChannelKind, end: &AttemptEnd) -> &str {
    match end {
        _ if channel == ChannelKind::Handler => "",
        AttemptEnd::Done { detail, .. } => detail,
        AttemptEnd::Retry { error, .. } => error,
    }
}
