//! Random rules, asked from random times on: the engine must agree with the plain reading.

use chrono::NaiveDate;
use chrono::NaiveDateTime;
use chrono::TimeDelta;
use proptest::prelude::*;

use crate::calendar::recurrence::Budget;
use crate::calendar::recurrence::Rule;
use crate::calendar::recurrence::Start;
use crate::calendar::recurrence::reference::Sample;
use crate::calendar::zone::Zone;

/// A list that is often empty.
fn sometimes<T: std::fmt::Debug + Clone + Ord + 'static>(
    item: impl Strategy<Value = T> + 'static,
) -> impl Strategy<Value = Vec<T>> {
    prop_oneof![4 => Just(Vec::new()), 1 => prop::collection::btree_set(item, 1..6).prop_map(|set| set.into_iter().collect())]
}

fn signed(most: i32) -> impl Strategy<Value = i32> {
    (1..=most, any::<bool>()).prop_map(|(number, negative)| if negative { -number } else { number })
}

fn sample(frequencies: &'static [&'static str]) -> impl Strategy<Value = Sample> {
    let times = (sometimes(0..24_u32), sometimes(0..60_u32), sometimes(0..60_u32));
    let days = (
        sometimes((
            prop_oneof![2 => Just(0), 1 => signed(5), 1 => signed(53)],
            0..7_u32,
        )),
        sometimes(signed(31)),
        sometimes(signed(366)),
        sometimes(signed(53)),
        sometimes(1..=12_u32),
    );
    let start = (
        1990..2030_i32,
        1..=12_u32,
        1..=31_u32,
        0..24_u32,
        0..60_u32,
        0..60_u32,
    );
    let frame = (
        prop::sample::select(frequencies),
        1..6_i64,
        prop::option::of(1..40_usize),
        0..4_u8,
        0..7_u32,
    );
    (start, frame, times, days, sometimes(signed(5)), 0..400_i64).prop_map(
        |(start, frame, times, days, set_positions, until)| {
            let (year, month, day, hour, minute, second) = start;
            let day = (1..=day)
                .rev()
                .find_map(|day| NaiveDate::from_ymd_opt(year, month, day))
                .expect("it is a day");
            let start = day.and_hms_opt(hour, minute, second).expect("it is a time");
            let (frequency, interval, count, has_end, week_start) = frame;
            let step = if ["HOURLY", "MINUTELY", "SECONDLY"].contains(&frequency) {
                TimeDelta::minutes(until)
            } else {
                TimeDelta::days(until * 2)
            };
            Sample {
                start,
                frequency,
                interval,
                count: count.filter(|_| has_end == 1),
                until: (has_end == 2).then(|| start + step),
                hours: times.0,
                minutes: times.1,
                seconds: times.2,
                weekdays: days.0,
                month_days: days.1,
                year_days: days.2,
                week_numbers: days.3,
                months: days.4,
                set_positions,
                week_start,
            }
        },
    )
}

/// Both forms of a sample's rule: with COUNT settled in advance, and as if it were too large for that.
struct Both {
    settled: Rule,
    walked: Rule,
    end: NaiveDateTime,
    name: String,
}

impl Both {
    fn of(sample: &Sample) -> Self {
        let start = Start {
            local: sample.start,
            is_date: false,
            zone: Zone::utc(),
        };
        let parse = |sample: &Sample| {
            Rule::parse(&sample.text(), &start)
                .expect("the sample is a rule")
                .0
        };
        let mut walked = parse(&Sample {
            count: None,
            ..sample.clone()
        });
        walked.count = sample.count.map(|count| count as u64);
        let end = sample.last_day().and_hms_opt(23, 59, 59).expect("it is a time");
        let name = format!("{} since {}", sample.text(), sample.start);
        Self {
            settled: parse(sample),
            walked,
            end,
            name,
        }
    }

    /// The answer of both, if it lies in the window. What cannot be found with these steps is not in the window.
    fn first_from(&self, from: NaiveDateTime) -> Option<NaiveDateTime> {
        let first = |rule: &Rule| {
            rule.first_from(from, &mut Budget { steps: 20_000 })
                .ok()
                .flatten()
        };
        let in_window = |rule: &Rule| first(rule).filter(|found| *found <= self.end);
        let found = in_window(&self.settled);
        assert_eq!(
            in_window(&self.walked),
            found,
            "{} from {from}, counted",
            self.name
        );
        found
    }
}

/// Compares the list in the window, and the answers to questions from other times on.
fn agrees(sample: &Sample, questions: &[(prop::sample::Index, i64)]) -> Result<(), TestCaseError> {
    let both = Both::of(sample);
    let expected = sample.instances();
    let mut ask = vec![sample.start - TimeDelta::days(1)];
    ask.extend(
        expected
            .iter()
            .take(30)
            .map(|instance| *instance + TimeDelta::seconds(1)),
    );
    let span = (both.end - sample.start).num_seconds();
    // A search in vain is slow: one question is enough where there is nothing to find.
    let questions = if expected.is_empty() {
        &questions[..1]
    } else {
        questions
    };
    for (index, offset) in questions {
        ask.push(sample.start + TimeDelta::seconds(offset.rem_euclid(span)));
        let near = expected.get(index.index(expected.len().max(1)));
        ask.extend(near.map(|at| *at + TimeDelta::seconds(offset % 3)));
    }
    for from in ask {
        let first = expected.iter().copied().find(|at| *at >= from);
        prop_assert_eq!(both.first_from(from), first, "{} from {}", both.name, from);
    }
    Ok(())
}

fn questions() -> impl Strategy<Value = Vec<(prop::sample::Index, i64)>> {
    prop::collection::vec((any::<prop::sample::Index>(), any::<i64>()), 4)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn rules_by_day_and_longer_agree_with_the_plain_reading(
        sample in sample(&["YEARLY", "MONTHLY", "WEEKLY", "DAILY"]),
        questions in questions(),
    ) {
        agrees(&sample, &questions)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn rules_by_hour_and_shorter_agree_with_the_plain_reading(
        sample in sample(&["HOURLY", "MINUTELY", "SECONDLY"]),
        questions in questions(),
    ) {
        agrees(&sample, &questions)?;
    }
}
