//! What an edit of stand-alone alarms is going to write, decided before anything is written.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use chrono::DateTime;
use chrono::Utc;

use crate::store::Acceptance;
use crate::store::AlarmAt;
use crate::store::AlarmEdit;
use crate::store::AlarmEditor;
use crate::store::Altered;
use crate::store::Changed;
use crate::store::Edit;
use crate::store::Group;
use crate::store::Standalone;
use crate::store::StoreError;
use crate::store::decided;
use crate::store::group::GroupKey;

/// The rows of stand-alone alarms, by the names of their groups.
pub type Rows = BTreeMap<GroupKey, Result<Standalone, StoreError>>;

/// The name of the group of an alarm.
pub fn group_of(at: &AlarmAt) -> GroupKey {
    (at.owner.clone(), at.id.as_event_uid())
}

/// What is to be written.
#[derive(Default)]
pub struct Plan {
    /// What each edit is answered so far.
    pub answers: Vec<Result<Altered, StoreError>>,
    /// Rows to write: of which edit, and as it was before, where it was there.
    pub rows: Vec<(usize, Standalone, Option<DateTime<Utc>>)>,
    /// How their groups are put right, in the same order.
    pub decided: Vec<(Group, Edit)>,
}

/// Asks the editor about each alarm.
pub fn plan(
    alarms: &[AlarmAt],
    rows: &Rows,
    groups: Vec<(GroupKey, Result<Group, StoreError>)>,
    editor: &dyn AlarmEditor,
    now: DateTime<Utc>,
) -> Plan {
    let mut groups: BTreeMap<GroupKey, Result<Group, StoreError>> = groups.into_iter().collect();
    let mut plan = Plan::default();
    for at in alarms {
        let key = group_of(at);
        let answer = match (groups.remove(&key), rows.get(&key)) {
            (None, _) => Err(StoreError::UnknownOwner(at.owner.clone())),
            (Some(Err(complaint)), _) => Err(complaint),
            (_, Some(Err(complaint))) => Err(crate::store::group::again(complaint)),
            (Some(Ok(group)), Some(Ok(stored))) => Ok(plan.edit(at, Some(stored), group, (editor, now))),
            (Some(Ok(group)), None) => Ok(plan.edit(at, None, group, (editor, now))),
        };
        plan.answers.push(answer);
    }
    plan
}

impl Plan {
    fn edit(
        &mut self,
        at: &AlarmAt,
        stored: Option<&Standalone>,
        group: Group,
        (editor, now): (&dyn AlarmEditor, DateTime<Utc>),
    ) -> Altered {
        let mut altered = Altered {
            alarm: stored.cloned(),
            existed: stored.is_some(),
            changed: decided::answer(Acceptance::Unchanged),
            refusal: None,
        };
        match editor.edit(at, stored, &group, now) {
            AlarmEdit::Leave => {}
            AlarmEdit::Refuse(refusal) => altered.refusal = Some(refusal),
            AlarmEdit::Put(alarm, edit) => {
                let before = stored.map(|stored| stored.updated_at);
                self.rows.push((self.answers.len(), *alarm, before));
                self.decided.push((group, edit));
            }
        }
        altered
    }

    /// The names of the rows that are written.
    pub fn written(&self) -> BTreeSet<GroupKey> {
        let written = self.rows.iter();
        written
            .map(|(_, alarm, _)| (alarm.owner.clone(), alarm.id.0.clone()))
            .collect()
    }

    /// Answers with the rows as they read now, and with what became of their triggers.
    pub fn answer(&mut self, mut written: Rows, changes: Vec<Changed>) {
        for ((at, alarm, _), changed) in self.rows.iter().zip(changes) {
            let read = written.remove(&(alarm.owner.clone(), alarm.id.as_event_uid()));
            match (read.transpose(), &mut self.answers[*at]) {
                (Ok(alarm), Ok(answer)) => {
                    answer.alarm = alarm;
                    answer.changed = changed;
                }
                (Err(complaint), answer) => *answer = Err(complaint),
                (Ok(_), Err(_)) => {}
            }
        }
    }
}
