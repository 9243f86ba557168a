//! What the fire-check decides of triggers that were due before the database went back in time.

use crate::delivery::OnDoubt;
use crate::delivery::fire::FireJudge;
use crate::store::Epoch;
use crate::store::Verdict;
use crate::trigger::Trigger;
use crate::trigger::outcome::Outcome;
use crate::trigger::outcome::Reason;

impl FireJudge {
    /// In this epoch of the store, as the node knows it.
    #[must_use]
    pub(in crate::delivery) const fn in_epoch(mut self, epoch: Option<Epoch>) -> Self {
        self.epoch = epoch;
        self
    }

    /// What becomes of a trigger that was due before the database went back in time, and may have been sent.
    pub(super) fn rewound(&self, trigger: &Trigger) -> Option<Verdict> {
        let epoch = self.epoch.as_ref()?;
        if epoch
            .missed_before
            .is_some_and(|at| trigger.place.trigger_at < at)
        {
            return Some(Verdict::Conclude(Outcome::Missed, Reason::Outage));
        }
        let on_doubt = self.channels.get(&trigger.wish.channel)?.on_doubt;
        let is_in_doubt = on_doubt == OnDoubt::Fail && epoch.lost?.may_hide(trigger.due_at);
        is_in_doubt.then_some(Verdict::Conclude(Outcome::InDoubt, Reason::Rewound))
    }
}
