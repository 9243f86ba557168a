//! What was accepted, against what became of it.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::collections::HashMap;
use std::fmt;

use chrono::DateTime;
use chrono::Utc;

use crate::faults::field::Field;
use crate::faults::verdict::Promise;
use crate::faults::verdict::Verdict;
use crate::faults::witness::Firing;
use crate::harness::now;

/// The UID of an event.
pub fn uid(event: usize) -> String {
    format!("moved-{event}@example.org")
}

/// A version of an event that a node accepted.
#[derive(Debug, Clone)]
pub struct Edit {
    /// Which event.
    pub event: usize,
    /// Which version, from 1.
    pub version: usize,
    /// When it is due.
    pub due: DateTime<Utc>,
    /// When it was first sent.
    pub asked: DateTime<Utc>,
    /// When the answer came that accepted it.
    pub answered: DateTime<Utc>,
}

/// A version with all its copies.
#[derive(Debug, Clone, Copy)]
struct Life {
    due: DateTime<Utc>,
    /// When it was in force for certain.
    answered: DateTime<Utc>,
    /// From when on a later version may have been in force.
    next_asked: DateTime<Utc>,
    /// From when on a later version was in force for certain.
    next_answered: DateTime<Utc>,
}

/// An event and an instant.
type Instant = (String, DateTime<Utc>);

/// What became of all versions.
pub struct Findings {
    /// How many versions were accepted.
    accepted: usize,
    /// How many were due while they were in force.
    due: usize,
    /// Of those, the ones with a history row and without a mail.
    recorded: usize,
    /// Of those, the ones with neither.
    pub untold: Vec<String>,
    /// Sent, though each version with that instant had been superseded a second before.
    pub superseded: Vec<String>,
    /// Events that are planned for another instant than that of their last version.
    pub misplanned: Vec<String>,
    /// On the mails.
    pub verdict: Verdict,
}

impl Findings {
    /// Looks at everything, once nothing is due any more.
    pub async fn of(field: &mut Field, edits: &[Edit]) -> Self {
        let history = field.witness.history().await;
        let planned = field.witness.planned().await;
        let mut arrivals = field.arrivals();
        for arrival in &mut arrivals {
            arrival.name.clone_from(&arrival.trigger);
        }
        let lives = lives(edits);
        let rows: HashMap<Instant, &Firing> = history.iter().map(|row| (row.instant(), row)).collect();
        let mailed: BTreeSet<&str> = arrivals.iter().map(|it| it.trigger.as_str()).collect();
        let (mut due, mut recorded, mut untold) = (0, 0, Vec::new());
        for ((event, version), life) in &lives {
            // The answer of one that came after a later one says only that it is out of date.
            if life.due > life.next_asked.min(now()) || life.answered > life.next_asked {
                continue;
            }
            due += 1;
            match rows.get(&(uid(*event), life.due)) {
                None => untold.push(format!("event {event}, version {version}: {life:?}")),
                Some(row) if !mailed.contains(row.trigger.as_str()) => recorded += 1,
                Some(_) => {}
            }
        }
        Self {
            accepted: lives.len(),
            due,
            recorded,
            untold,
            superseded: superseded(&lives, &rows, &mailed),
            misplanned: misplanned(&lives, &planned),
            verdict: Verdict::of(&promises(&lives, &rows, &mailed), &arrivals, &field.faults),
        }
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} versions accepted, {} due in force: {} recorded and not sent, {} untold; {} superseded and sent | {}",
            self.accepted,
            self.due,
            self.recorded,
            self.untold.len(),
            self.superseded.len(),
            self.verdict
        )
    }
}

fn lives(edits: &[Edit]) -> BTreeMap<(usize, usize), Life> {
    let mut copies: BTreeMap<(usize, usize), (DateTime<Utc>, Life)> = BTreeMap::new();
    for edit in edits {
        let life = Life {
            due: edit.due,
            answered: edit.answered,
            next_asked: DateTime::<Utc>::MAX_UTC,
            next_answered: DateTime::<Utc>::MAX_UTC,
        };
        let (asked, known) = copies
            .entry((edit.event, edit.version))
            .or_insert((edit.asked, life));
        *asked = edit.asked.min(*asked);
        known.answered = edit.answered.min(known.answered);
    }
    let mut lives = BTreeMap::new();
    let mut later: Option<(usize, DateTime<Utc>, DateTime<Utc>)> = None;
    for ((event, version), (asked, mut life)) in copies.into_iter().rev() {
        let of_later = later.filter(|(of, ..)| *of == event);
        if let Some((_, next_asked, next_answered)) = of_later {
            (life.next_asked, life.next_answered) = (next_asked, next_answered);
        }
        later = Some((
            event,
            asked.min(life.next_asked),
            life.answered.min(life.next_answered),
        ));
        lives.insert((event, version), life);
    }
    lives
}

/// What was mailed, or is recorded as sent: (trigger, due), each once.
fn promises(
    lives: &BTreeMap<(usize, usize), Life>,
    rows: &HashMap<Instant, &Firing>,
    mailed: &BTreeSet<&str>,
) -> Vec<Promise> {
    let mut promises = BTreeMap::new();
    for ((event, _), life) in lives {
        let Some(row) = rows.get(&(uid(*event), life.due)) else {
            continue;
        };
        if row.outcome != "sent" && !mailed.contains(row.trigger.as_str()) {
            continue;
        }
        // It may have been asked for twice, and is late from the first on at the most.
        let promise = Promise {
            name: row.trigger.clone(),
            due: life.due,
            accepted: life.answered,
        };
        promises
            .entry(row.trigger.clone())
            .and_modify(|known: &mut Promise| known.accepted = known.accepted.max(life.answered))
            .or_insert(promise);
    }
    promises.into_values().collect()
}

fn superseded(
    lives: &BTreeMap<(usize, usize), Life>,
    rows: &HashMap<Instant, &Firing>,
    mailed: &BTreeSet<&str>,
) -> Vec<String> {
    let second = chrono::TimeDelta::seconds(1);
    let mut in_force = BTreeMap::new();
    for ((event, _), life) in lives {
        let may_fire = life
            .next_answered
            .checked_add_signed(second)
            .is_none_or(|end| end > life.due);
        *in_force.entry((uid(*event), life.due)).or_insert(false) |= may_fire;
    }
    let gone = in_force.into_iter().filter(|(_, may_fire)| !may_fire);
    let sent = gone.filter(|(instant, _)| {
        rows.get(instant)
            .is_some_and(|row| mailed.contains(row.trigger.as_str()))
    });
    sent.map(|((event, due), _)| format!("{event} at {due}"))
        .collect()
}

/// What is planned is the last version of each event, unless that is past.
fn misplanned(lives: &BTreeMap<(usize, usize), Life>, planned: &[Firing]) -> Vec<String> {
    let last = lives.iter().map(|((event, _), life)| (uid(*event), life.due));
    let last: BTreeMap<String, DateTime<Utc>> = last.collect();
    let owed: BTreeSet<Instant> = last.into_iter().filter(|(_, due)| *due > now()).collect();
    let planned: BTreeSet<Instant> = planned.iter().map(Firing::instant).collect();
    owed.symmetric_difference(&planned)
        .map(|(event, due)| format!("{event} at {due}"))
        .collect()
}
