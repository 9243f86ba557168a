//! The oracle: what was promised against what arrived. It knows nothing of the service but what the API accepted, what
//! the relay saw, and which triggers the database showed as `sending` when something was broken.

use std::collections::HashMap;
use std::collections::HashSet;
use std::fmt;

use chrono::DateTime;
use chrono::TimeDelta;
use chrono::Utc;

/// A trigger that the API accepted.
#[derive(Debug, Clone)]
pub struct Promise {
    /// What its message is recognised by.
    pub name: String,
    /// When it is due.
    pub due: DateTime<Utc>,
    /// When the answer came that accepted it.
    pub accepted: DateTime<Utc>,
}

/// A message that the relay took.
#[derive(Debug, Clone)]
pub struct Arrival {
    /// The name in it.
    pub name: String,
    /// The trigger in its Message-ID.
    pub trigger: String,
    /// The node that sent it.
    pub from: String,
    /// When its dialogue began.
    pub began: DateTime<Utc>,
    /// When its final dot came.
    pub at: DateTime<Utc>,
}

/// Something that was broken.
#[derive(Debug, Clone)]
pub struct Fault {
    /// When.
    pub at: DateTime<Utc>,
    /// Which node was hit; none: all, as by their database.
    pub node: Option<String>,
    /// What was `sending` without a result then.
    pub sending: HashSet<String>,
}

impl Fault {
    /// Whether one more of these arrivals of one trigger is excused by it.
    fn excuses(&self, trigger: &str, arrivals: &[&Arrival]) -> bool {
        let hit = |arrival: &&Arrival| self.node.as_ref().is_none_or(|node| *node == arrival.from);
        self.sending.contains(trigger)
            && arrivals.iter().any(hit)
            && arrivals.last().is_some_and(|last| last.at > self.at)
    }
}

/// The figures of one test.
#[derive(Debug, Default)]
pub struct Verdict {
    /// Triggers accepted.
    pub promised: usize,
    /// Promised and never arrived.
    pub lost: usize,
    /// Arrived before they were due.
    pub early: usize,
    /// Further arrivals of a trigger that was `sending` when its node or its database was hit.
    pub excused: usize,
    /// Further arrivals of any other, or with another Message-ID.
    pub unexcused: usize,
    /// Arrived and never promised.
    pub strange: usize,
    /// Triggers that were `sending` at a fault.
    pub in_flight: usize,
    /// How late they were, sorted: from when they were due, or accepted if that was later.
    pub lateness: Vec<TimeDelta>,
}

impl Verdict {
    /// The verdict on what arrived.
    pub fn of(promises: &[Promise], arrivals: &[Arrival], faults: &[Fault]) -> Self {
        let mut by_name: HashMap<&str, Vec<&Arrival>> = HashMap::new();
        for arrival in arrivals {
            by_name.entry(&arrival.name).or_default().push(arrival);
        }
        let mut verdict = Self {
            promised: promises.len(),
            in_flight: faults.iter().map(|fault| fault.sending.len()).sum(),
            ..Self::default()
        };
        for promise in promises {
            let mut arrived = by_name.remove(promise.name.as_str()).unwrap_or_default();
            arrived.sort_by_key(|arrival| arrival.at);
            verdict.judge(promise, &arrived, faults);
        }
        verdict.strange = by_name.len();
        verdict.lateness.sort();
        verdict
    }

    fn judge(&mut self, promise: &Promise, arrived: &[&Arrival], faults: &[Fault]) {
        let Some(first) = arrived.first() else {
            self.lost += 1;
            return;
        };
        self.early += arrived.iter().filter(|arrival| arrival.at < promise.due).count();
        let from = promise.due.max(promise.accepted);
        self.lateness.push((first.at - from).max(TimeDelta::zero()));
        let (same, other): (Vec<&Arrival>, Vec<&Arrival>) = arrived
            .iter()
            .partition(|arrival| arrival.trigger == first.trigger);
        let hits = faults.iter().filter(|fault| fault.excuses(&first.trigger, &same));
        let excused = hits.count().min(same.len() - 1);
        self.excused += excused;
        self.unexcused += same.len() - 1 - excused + other.len();
    }

    /// The lateness that so many of a hundred did not exceed.
    pub fn percentile(&self, percent: usize) -> TimeDelta {
        let place = (self.lateness.len() * percent).div_ceil(100).saturating_sub(1);
        self.lateness.get(place).copied().unwrap_or_default()
    }

    /// How many were later than that.
    pub fn later_than(&self, limit: TimeDelta) -> usize {
        self.lateness.iter().filter(|late| **late > limit).count()
    }

    /// What must hold whatever was broken.
    pub fn assert_exact(&self) {
        let wrong = (self.lost, self.unexcused, self.early, self.strange);
        assert_eq!(wrong, (0, 0, 0, 0), "lost, unexcused, early, strange: {self}");
        assert!(self.excused <= self.in_flight, "{self}");
    }

    /// And at most so late: the 99th of a hundred, and the last.
    pub fn assert_late(&self, most: TimeDelta, last: TimeDelta) {
        assert!(self.percentile(99) <= most, "p99 is more than {most}: {self}");
        assert!(self.percentile(100) <= last, "max is more than {last}: {self}");
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = |percent| self.percentile(percent).as_seconds_f64();
        write!(
            f,
            "{} triggers: lost {}, unexcused {}, excused {} ({} in flight at faults), early {}, p50 {:.2} s, p99 {:.2} s, max {:.2} s",
            self.promised,
            self.lost,
            self.unexcused,
            self.excused,
            self.in_flight,
            self.early,
            seconds(50),
            seconds(99),
            seconds(100)
        )
    }
}

fn at(seconds: i64) -> DateTime<Utc> {
    DateTime::UNIX_EPOCH + TimeDelta::seconds(seconds)
}

fn promise(name: &str) -> Promise {
    Promise {
        name: name.to_owned(),
        due: at(10),
        accepted: at(0),
    }
}

fn arrival(name: &str, from: &str, seconds: i64) -> Arrival {
    Arrival {
        name: name.to_owned(),
        trigger: format!("id of {name}"),
        from: from.to_owned(),
        began: at(seconds),
        at: at(seconds),
    }
}

fn fault(node: &str, name: &str) -> Fault {
    Fault {
        at: at(12),
        node: Some(node.to_owned()),
        sending: HashSet::from([format!("id of {name}")]),
    }
}

fn counts(arrivals: &[Arrival], faults: &[Fault]) -> (usize, usize, usize, usize, usize) {
    let it = Verdict::of(&[promise("a")], arrivals, faults);
    (it.lost, it.early, it.excused, it.unexcused, it.strange)
}

#[test]
fn the_oracle_counts_what_is_wrong() {
    assert_eq!(counts(&[], &[]), (1, 0, 0, 0, 0));
    assert_eq!(counts(&[arrival("a", "n1", 10)], &[]), (0, 0, 0, 0, 0));
    assert_eq!(counts(&[arrival("a", "n1", 9)], &[]), (0, 1, 0, 0, 0));
    assert_eq!(counts(&[arrival("b", "n1", 10)], &[]), (1, 0, 0, 0, 1));
}

#[test]
fn the_oracle_excuses_what_was_sending_when_its_node_was_hit_and_nothing_else() {
    let twice = [arrival("a", "n1", 11), arrival("a", "n2", 15)];
    assert_eq!(counts(&twice, &[]), (0, 0, 0, 1, 0));
    assert_eq!(counts(&twice, &[fault("n1", "a")]), (0, 0, 1, 0, 0));
    assert_eq!(
        counts(&twice, &[fault("n3", "a")]),
        (0, 0, 0, 1, 0),
        "another node"
    );
    assert_eq!(
        counts(&twice, &[fault("n1", "b")]),
        (0, 0, 0, 1, 0),
        "another trigger"
    );
    let before = [arrival("a", "n1", 10), arrival("a", "n1", 11)];
    assert_eq!(
        counts(&before, &[fault("n1", "a")]),
        (0, 0, 0, 1, 0),
        "before the fault"
    );
    let thrice = [&twice[..], &[arrival("a", "n3", 16)]].concat();
    assert_eq!(
        counts(&thrice, &[fault("n1", "a")]),
        (0, 0, 1, 1, 0),
        "one fault excuses one"
    );
    let other_id = Arrival {
        trigger: "another id".to_owned(),
        ..arrival("a", "n2", 15)
    };
    let renamed = [arrival("a", "n1", 11), other_id];
    assert_eq!(
        counts(&renamed, &[fault("n1", "a")]),
        (0, 0, 0, 1, 0),
        "another Message-ID"
    );
}

#[test]
fn the_oracle_measures_from_when_it_could_be_known() {
    let late = Promise {
        accepted: at(13),
        ..promise("a")
    };
    let promises = [late, promise("b"), promise("c")];
    let arrivals = [
        arrival("a", "n1", 14),
        arrival("b", "n1", 10),
        arrival("c", "n1", 15),
    ];
    let verdict = Verdict::of(&promises, &arrivals, &[]);
    let of = |percent| verdict.percentile(percent).num_seconds();
    assert_eq!((of(1), of(50), of(99), of(100)), (0, 1, 5, 5));
}
