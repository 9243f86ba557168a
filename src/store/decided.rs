//! What editors decided about groups, before it is written for all of them together.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::store::Acceptance;
use crate::store::Alarm;
use crate::store::Change;
use crate::store::ChangeBody;
use crate::store::Changed;
use crate::store::Edit;
use crate::store::Group;
use crate::trigger::TriggerId;
use crate::trigger::Wish;

/// An answer in which nothing happened yet.
pub fn answer(acceptance: Acceptance) -> Changed {
    Changed {
        acceptance,
        planned: 0,
        withdrawn: Vec::new(),
        claimed: Vec::new(),
        recorded: Vec::new(),
        set_aside: Vec::new(),
    }
}

/// Adds what became of a group to an answer.
pub fn add(answer: &mut Changed, edited: Changed) {
    answer.planned += edited.planned;
    answer.withdrawn.extend(edited.withdrawn);
    answer.claimed.extend(edited.claimed);
    answer.recorded.extend(edited.recorded);
    answer.set_aside.extend(edited.set_aside);
}

/// One part of all decisions.
pub fn collect<T: Clone>(decided: &[(Group, Edit)], part: impl Fn(&Edit) -> &Vec<T>) -> Vec<T> {
    decided
        .iter()
        .flat_map(|(_, edit)| part(edit).iter().cloned())
        .collect()
}

/// Which decision names a trigger.
pub fn by_id(decided: &[(Group, Edit)], ids: impl Fn(&Edit) -> Vec<TriggerId>) -> HashMap<TriggerId, usize> {
    let pairs = decided.iter().enumerate();
    pairs
        .flat_map(|(at, (_, edit))| ids(edit).into_iter().map(move |id| (id, at)))
        .collect()
}

/// The wishes that are forgotten, and those that are new or served further.
pub fn alarms(decided: &[(Group, Edit)]) -> (Vec<&Wish>, Vec<&Alarm>) {
    let mut forgotten = Vec::new();
    let mut changed = Vec::new();
    for (group, edit) in decided {
        let before: HashMap<&Wish, &Alarm> = group.alarms.iter().map(|alarm| (&alarm.wish, alarm)).collect();
        let after: HashMap<&Wish, &Alarm> = edit.alarms.iter().map(|alarm| (&alarm.wish, alarm)).collect();
        forgotten.extend(before.keys().filter(|wish| !after.contains_key(*wish)));
        let news = after
            .values()
            .filter(|alarm| before.get(&alarm.wish) != Some(alarm));
        changed.extend(news);
    }
    (forgotten, changed)
}

/// The change that is to be carried out; none if nothing is.
pub fn taken<'a>(acceptance: &Acceptance, change: &'a Change) -> Option<Cow<'a, Change>> {
    match (acceptance, &change.body) {
        (Acceptance::Apply, _) => Some(Cow::Borrowed(change)),
        (Acceptance::Merged(ics), ChangeBody::Message { uid, .. }) => Some(Cow::Owned(Change {
            at: change.at.clone(),
            version: change.version.clone(),
            body: ChangeBody::Put {
                uid: uid.clone(),
                ics: ics.clone(),
            },
        })),
        _ => None,
    }
}
