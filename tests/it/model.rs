//! Random changes, time and outages against a model: what is sent is a pure function of the versions that were in
//! force, and every instant of theirs that came has a history row. The model knows events as numbers and shares nothing
//! with the engine.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use carillon::clock::Clock;
use carillon::clock::ManualClock;
use carillon::store::Delivery;
use carillon::trigger::outcome::Outcome;
use chrono::DateTime;
use chrono::TimeDelta;
use chrono::Utc;
use proptest::prelude::*;

use crate::by_hand::Hand;
use crate::by_hand::instant;

const BASE: &str = "2026-12-01T00:00:00Z";
const GRACE: i64 = 5;
const LENGTH: i64 = 30;
const MOST_LATE: i64 = 12 * 60;
const NOTHING: Place = (i64::MIN, i64::MIN);

/// An event, in minutes since [`BASE`].
#[derive(Debug, Clone, Copy)]
struct Spec {
    start: i64,
    lead: i64,
    /// Every so many hours, so many times.
    every: i64,
    count: i64,
}

#[derive(Debug, Clone)]
enum Step {
    Put(u8, Spec),
    Delete(u8),
    Pass(i64),
    Outage(i64),
}

/// (trigger instant, occurrence), in minutes: a place.
type Place = (i64, i64);

impl Spec {
    fn places(self) -> impl Iterator<Item = Place> {
        (0..self.count)
            .map(move |k| self.start + k * self.every * 60)
            .map(move |at| (at - self.lead, at))
    }

    fn ics(self, key: u8) -> String {
        let start = (instant(BASE) + TimeDelta::minutes(self.start)).format("%Y%m%dT%H%M%SZ");
        format!(
            "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//carillon//model//EN\r\nBEGIN:VEVENT\r\nUID:model-{key}\r\n\
             DTSTAMP:20261101T000000Z\r\nDTSTART:{start}\r\nDURATION:PT{LENGTH}M\r\nSUMMARY:Model\r\n\
             RRULE:FREQ=HOURLY;INTERVAL={};COUNT={}\r\n\
             BEGIN:VALARM\r\nUID:alarm-{key}\r\nACTION:EMAIL\r\nTRIGGER:-PT{}M\r\nSUMMARY:x\r\nDESCRIPTION:x\r\n\
             END:VALARM\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n",
            self.every, self.count, self.lead
        )
    }
}

/// A version in force.
#[derive(Debug, Clone, Copy)]
struct Followed {
    spec: Spec,
    /// The last place that it needs no longer serve.
    served: Place,
    /// The last place that something became of: sent, too late, or past when it was asked for.
    through: Place,
}

#[derive(Debug, Default)]
struct Model {
    now: i64,
    events: BTreeMap<u8, Followed>,
    /// (key, place) -> when it was sent.
    sent: BTreeMap<(u8, Place), i64>,
    /// What came while its version was in force, or was past when its version was accepted: it has a history row.
    came: BTreeSet<(u8, Place)>,
}

impl Model {
    fn put(&mut self, key: u8, spec: Spec) {
        // What is past by more than the grace period when it is asked for is not sent.
        let floor = (self.now - GRACE - 1, i64::MAX);
        let before = self.events.get(&key).copied();
        self.came.extend(
            self.just_past(spec, before.is_none(), floor)
                .map(|place| (key, place)),
        );
        let mut followed = Followed {
            spec,
            served: before.map_or(floor, |before| before.served.max(floor)),
            through: before.map_or(NOTHING, |before| before.through),
        };
        let past: Vec<Place> = spec
            .places()
            .filter(|place| followed.through < *place && *place <= floor)
            .collect();
        if !past.is_empty() {
            followed.through = floor;
        }
        // What was sent before stays behind it, also where the event was away meanwhile.
        let after = spec.places().filter(|place| followed.through < *place);
        let passed_over = after
            .take_while(|place| self.sent.contains_key(&(key, *place)))
            .last();
        followed.through = passed_over.unwrap_or(followed.through);
        let unstarted = past.into_iter().rfind(|(_, occurrence)| self.now < *occurrence);
        if let (Some(before), Some(place)) = (before, unstarted)
            && self.is_move(key, before, spec, place)
        {
            self.sent.entry((key, place)).or_insert(self.now);
        }
        self.events.insert(key, followed);
        self.fire();
    }

    /// The last place of a version that is past when it is accepted. Of a single one it is recorded as long as it would be of
    /// use, of a series for an hour; the past of a series that is new is not recorded.
    fn just_past(&self, spec: Spec, is_new: bool, floor: Place) -> Option<Place> {
        let back = if spec.count == 1 { MOST_LATE } else { 60 };
        let past = spec.places().filter(|place| place.0 <= self.now).last();
        past.filter(|place| place.0 >= self.now - back && !(is_new && spec.count > 1 && *place <= floor))
    }

    /// Whether what was to come next is now what is past: its occurrence was moved, and whoever waits is told at once.
    fn is_move(&self, key: u8, before: Followed, after: Spec, past: Place) -> bool {
        let is_owed = |place: &Place| before.served < *place && !self.sent.contains_key(&(key, *place));
        before.spec.places().find(is_owed).is_some_and(|next| {
            next.0 >= self.now - GRACE && next.1 != past.1 && !after.places().any(|place| place == next)
        })
    }

    fn pass(&mut self, minutes: i64) {
        for _ in 0..minutes {
            self.now += 1;
            self.fire();
        }
    }

    fn fire(&mut self) {
        let now = self.now;
        for (key, followed) in &mut self.events {
            let from = followed.served;
            let due = followed
                .spec
                .places()
                .filter(|place| *place > from && place.0 <= now);
            for (at, occurrence) in due {
                self.came.insert((*key, (at, occurrence)));
                let expires = (occurrence + LENGTH).max(at + 5).min(at + MOST_LATE);
                if now < expires {
                    self.sent.entry((*key, (at, occurrence))).or_insert(now);
                }
                followed.served = (at, occurrence);
                followed.through = followed.through.max(followed.served);
            }
        }
    }
}

fn spec() -> impl Strategy<Value = Spec> {
    (0i64..900, 0i64..60, 1i64..5, 1i64..6).prop_map(|(start, lead, every, count)| Spec {
        start,
        lead,
        every,
        count,
    })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0u8..3, spec()).prop_map(|(key, spec)| Step::Put(key, spec)),
        1 => (0u8..3).prop_map(Step::Delete),
        4 => (1i64..150).prop_map(Step::Pass),
        1 => (1i64..400).prop_map(Step::Outage),
    ]
}

type Sent = BTreeSet<(u8, Place, i64)>;

/// What was sent, what should have been, and what came without a history row.
async fn run(steps: &[Step]) -> (Sent, Sent, Vec<(u8, Place)>) {
    let folder = tempfile::tempdir().expect("a folder");
    let clock = Arc::new(ManualClock::at(instant(BASE)));
    let mut hand = Hand::start(folder.path(), &clock, &[]).await;
    hand.owner("anna", "UTC").await;
    let mut model = Model::default();
    for step in steps {
        match step {
            Step::Put(key, spec) => {
                hand.change(&key.to_string(), "anna", Some(spec.ics(*key))).await;
                hand.settle_down().await;
                model.put(*key, *spec);
            }
            Step::Delete(key) => {
                hand.change(&key.to_string(), "anna", None).await;
                model.events.remove(key);
            }
            Step::Pass(minutes) => {
                hand.advance(TimeDelta::minutes(*minutes)).await;
                model.pass(*minutes);
            }
            Step::Outage(minutes) => {
                drop(hand);
                clock.advance(Duration::from_secs(
                    u64::try_from(*minutes).expect("positive") * 60,
                ));
                hand = Hand::start(folder.path(), &clock, &[]).await;
                hand.settle_down().await;
                model.now += minutes;
                model.fire();
            }
        }
        let minutes = (clock.now() - instant(BASE)).num_minutes();
        assert_eq!(minutes, model.now, "the model and the node agree on the time");
    }
    let rows = hand.history("anna").await;
    let untold = model.came.iter().filter(|(key, place)| {
        !rows.iter().any(|row| {
            let (of, at) = (key_of(row), place_of(row));
            of == *key && (at == *place || (row.count > 1 && at < *place))
        })
    });
    let untold = untold.copied().collect();
    let expected = model
        .sent
        .into_iter()
        .map(|((key, place), at)| (key, place, at))
        .collect();
    (sent(&rows), expected, untold)
}

fn minute(at: DateTime<Utc>) -> i64 {
    (at - instant(BASE)).num_minutes()
}

fn key_of(row: &Delivery) -> u8 {
    let key = row.wish.event_uid.trim_start_matches("model-");
    key.parse().expect("a key")
}

fn place_of(row: &Delivery) -> Place {
    (minute(row.place.trigger_at), minute(row.place.occurrence))
}

fn sent(rows: &[Delivery]) -> Sent {
    let sent = rows.iter().filter(|row| row.outcome == Outcome::Sent);
    sent.map(|row| {
        let at = row.handed_over_at.expect("handed over");
        (key_of(row), place_of(row), minute(at))
    })
    .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn versions_in_force_decide_what_is_sent_and_recorded(steps in proptest::collection::vec(step(), 1..25)) {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let (sent, expected, untold) = runtime.block_on(run(&steps));
        prop_assert_eq!(sent, expected);
        prop_assert_eq!(untold, []);
    }
}
