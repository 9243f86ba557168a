use chrono::NaiveDate;
use chrono::NaiveDateTime;
use chrono::TimeDelta;

use crate::calendar::recurrence::Budget;
use crate::calendar::recurrence::Frequency;
use crate::calendar::recurrence::OutOfSteps;
use crate::calendar::recurrence::Rule;
use crate::calendar::recurrence::RuleError;
use crate::calendar::recurrence::Start;
use crate::calendar::zone::Zone;

/// Rules with their first ten instances, agreed upon by at least two independent implementations.
const CASES: &str = include_str!("../../../tests/it/cases/rrules.jsonl");

/// A local time written as `20261231T235959`.
fn at(text: &str) -> NaiveDateTime {
    NaiveDateTime::parse_from_str(text, "%Y%m%dT%H%M%S").expect("the tests write valid times")
}

fn start(local: &str, zone: Zone) -> Start {
    Start {
        local: at(local),
        is_date: false,
        zone,
    }
}

fn start_day(day: &str) -> Start {
    Start {
        local: at(&format!("{day}T000000")),
        is_date: true,
        zone: Zone::utc(),
    }
}

fn rule(text: &str, dtstart: &str) -> Rule {
    parsed(text, &start(dtstart, Zone::utc())).0
}

fn parsed(text: &str, start: &Start) -> (Rule, Vec<String>) {
    Rule::parse(text, start).unwrap_or_else(|error| panic!("`{text}` is refused: {error}"))
}

fn refusal(text: &str) -> String {
    let RuleError::Malformed(message) =
        Rule::parse(text, &start("20260101T090000", Zone::utc())).expect_err("it makes no sense");
    message
}

/// The first `limit` instances, as text.
fn instances(rule: &Rule, limit: usize) -> Vec<String> {
    let mut budget = Budget::default();
    let mut found = Vec::new();
    let mut from = NaiveDateTime::MIN;
    while found.len() < limit
        && let Some(instance) = rule
            .first_from(from, &mut budget)
            .expect("it is within the budget")
    {
        found.push(instance.format("%Y%m%dT%H%M%S").to_string());
        from = instance + TimeDelta::seconds(1);
    }
    found
}

/// The first instance from a time on, and the steps that it took to find it.
fn first_and_steps(rule: &Rule, from: &str) -> (Result<Option<NaiveDateTime>, OutOfSteps>, u32) {
    let mut budget = Budget::default();
    let found = rule.first_from(at(from), &mut budget);
    (found, Budget::default().steps - budget.steps)
}

#[test]
fn agreed_rules_give_their_agreed_instances() {
    let mut wrong = Vec::new();
    let cases = CASES.lines().filter(|line| !line.is_empty());
    for line in cases.clone() {
        let case: serde_json::Value = serde_json::from_str(line).expect("each line is JSON");
        let text = |key: &str| case[key].as_str().expect("the field is a text").to_owned();
        let expected: Vec<String> = serde_json::from_value(case["first"].clone()).expect("a list of times");
        let is_complete = case["complete"].as_bool().expect("complete is a boolean");
        let limit = if is_complete {
            expected.len() + 1
        } else {
            expected.len()
        };
        let mut found = instances(&rule(&text("rrule"), &text("dtstart")), limit);
        // The cases were collected up to the year 2100, even where a rule goes on.
        found.retain(|instance| instance.as_str() < "2100");
        if found != expected {
            wrong.push(format!(
                "{} {}: {found:?}, not {expected:?}",
                text("dtstart"),
                text("rrule")
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} wrong: {:#?}",
        wrong.len(),
        &wrong[..wrong.len().min(5)]
    );
    assert_eq!(cases.count(), 900);
}

#[test]
fn the_search_starts_anywhere_in_agreed_rules() {
    for line in CASES.lines().filter(|line| !line.is_empty()).step_by(7) {
        let case: serde_json::Value = serde_json::from_str(line).expect("each line is JSON");
        let text = |key: &str| case[key].as_str().expect("the field is a text").to_owned();
        let expected: Vec<String> = serde_json::from_value(case["first"].clone()).expect("a list of times");
        let rule = rule(&text("rrule"), &text("dtstart"));
        for pair in expected.windows(2) {
            let just_after = at(&pair[0]) + TimeDelta::seconds(1);
            for from in [just_after, at(&pair[1])] {
                let found = rule
                    .first_from(from, &mut Budget::default())
                    .expect("it is within the budget");
                assert_eq!(found, Some(at(&pair[1])), "{line} from {from}");
            }
        }
    }
}

#[test]
fn plain_and_numbered_weekdays_add_up() {
    let rule = rule("FREQ=MONTHLY;BYDAY=TU,1MO", "20260601T090000");
    assert_eq!(
        instances(&rule, 7),
        [
            "20260601T090000",
            "20260602T090000",
            "20260609T090000",
            "20260616T090000",
            "20260623T090000",
            "20260630T090000",
            "20260706T090000",
        ]
    );
}

#[test]
fn a_set_begins_with_its_period_not_with_dtstart() {
    // 2026-01-01 is a Thursday; Wednesday is before DTSTART and still the first of its set.
    let rule = rule("FREQ=WEEKLY;BYDAY=WE,TH;BYSETPOS=2", "20260101T090000");
    assert_eq!(instances(&rule, 2), ["20260101T090000", "20260108T090000"]);
}

#[test]
fn a_week_number_alone_takes_the_weekday_of_dtstart() {
    let rule = rule("FREQ=YEARLY;BYWEEKNO=20", "19970512T090000");
    assert_eq!(
        instances(&rule, 3),
        ["19970512T090000", "19980511T090000", "19990517T090000"]
    );
}

#[test]
fn a_jump_keeps_the_phase_of_the_interval() {
    let rule = rule("FREQ=MINUTELY;INTERVAL=7;BYHOUR=15,18", "20260101T150000");
    let (found, _) = first_and_steps(&rule, "20260101T155800");
    // 15:56 is the last in its hour; 15:00 + 26 * 7 min = 18:02 would be the next.
    assert_eq!(found, Ok(Some(at("20260101T180200"))));
    let (found, _) = first_and_steps(&rule, "20310707T000000");
    let minutes = found.expect("it is within the budget").expect("it never ends") - at("20260101T150000");
    assert_eq!(minutes.num_minutes() % 7, 0);
}

#[test]
fn until_in_utc_is_compared_in_utc() {
    let berlin = start(
        "20260101T090000",
        Zone::iana("Europe/Berlin").expect("it is a zone"),
    );
    let until = |text: &str| instances(&parsed(text, &berlin).0, 20).last().cloned();
    assert_eq!(
        until("FREQ=DAILY;UNTIL=20260107T080000Z").as_deref(),
        Some("20260107T090000")
    );
    assert_eq!(
        until("FREQ=DAILY;UNTIL=20260107T075959Z").as_deref(),
        Some("20260106T090000")
    );
    let new_york = start(
        "20260101T200000",
        Zone::iana("America/New_York").expect("it is a zone"),
    );
    let last = instances(&parsed("FREQ=DAILY;UNTIL=20260107T200000Z", &new_york).0, 20).pop();
    assert_eq!(last.as_deref(), Some("20260106T200000"));
}

#[test]
fn until_in_the_repeated_hour_keeps_the_first_of_both() {
    // 02:45 is 00:45 UTC for the first time; the end is the second 02:30, 01:30 UTC.
    let berlin = start(
        "20261025T024500",
        Zone::iana("Europe/Berlin").expect("it is a zone"),
    );
    let (rule, _) = parsed("FREQ=DAILY;UNTIL=20261025T013000Z", &berlin);
    assert_eq!(instances(&rule, 3), ["20261025T024500"]);
}

#[test]
fn until_as_a_date_includes_that_day() {
    let rule = rule("FREQ=DAILY;UNTIL=20260103", "20260101T233000");
    assert_eq!(
        instances(&rule, 9),
        ["20260101T233000", "20260102T233000", "20260103T233000"]
    );
}

#[test]
fn until_as_local_time_is_compared_as_such() {
    let berlin = start(
        "20260101T090000",
        Zone::iana("Europe/Berlin").expect("it is a zone"),
    );
    let (rule, _) = parsed("FREQ=DAILY;UNTIL=20260102T090000", &berlin);
    assert_eq!(instances(&rule, 9), ["20260101T090000", "20260102T090000"]);
}

#[test]
fn until_before_dtstart_gives_nothing_and_no_error() {
    assert!(instances(&rule("FREQ=DAILY;UNTIL=20251231T000000Z", "20260101T090000"), 2).is_empty());
}

#[test]
fn a_day_has_no_time_and_until_counts_by_its_date() {
    let text = "FREQ=DAILY;BYHOUR=9,17;BYMINUTE=30;UNTIL=20260102T010000Z";
    let (rule, _) = parsed(text, &start_day("20260101"));
    assert_eq!(instances(&rule, 9), ["20260101T000000", "20260102T000000"]);
    let hourly = Rule::parse("FREQ=HOURLY", &start_day("20260101"));
    assert!(hourly.is_err_and(|error| error.to_string().contains("DTSTART with a time")));
}

#[test]
fn a_start_that_does_not_match_takes_one_of_count() {
    // 2026-01-01 is a Thursday.
    let mondays = rule("FREQ=WEEKLY;BYDAY=MO;COUNT=3", "20260101T090000");
    assert_eq!(instances(&mondays, 9), ["20260105T090000", "20260112T090000"]);
    let thursdays = rule("FREQ=WEEKLY;BYDAY=TH;COUNT=3", "20260101T090000");
    assert_eq!(instances(&thursdays, 9).len(), 3);
    assert!(instances(&rule("FREQ=WEEKLY;BYDAY=MO;COUNT=1", "20260101T090000"), 9).is_empty());
}

#[test]
fn a_count_too_large_to_settle_still_ends_the_rule() {
    // More periods than the parser walks, so each question counts for itself.
    let workdays = "FREQ=DAILY;BYDAY=MO,TU,WE,TH,FR;COUNT=20000";
    let rule = rule(workdays, "20260102T090000");
    let last = at("20260102T090000") + TimeDelta::days(19_999 / 5 * 7 + 6);
    let near = |days: i64| rule.first_from(last + TimeDelta::days(days), &mut Budget::default());
    assert_eq!(
        near(0),
        Ok(Some(last)),
        "20,000 workdays from a Friday end on a Thursday"
    );
    assert_eq!(near(1), Ok(None));
    let (soon, steps) = first_and_steps(&rule, "20260105T100000");
    assert_eq!(soon, Ok(Some(at("20260106T090000"))));
    assert!(steps < 20, "{steps}");
}

#[test]
fn a_count_beyond_all_time_is_no_end() {
    let rule = rule("FREQ=DAILY;COUNT=99999999999999999999", "20260101T090000");
    assert_eq!(
        first_and_steps(&rule, "99880101T000000").0,
        Ok(Some(at("99880101T090000")))
    );
    assert!(rule.is_finite());
}

#[test]
fn both_ends_hold_where_both_are_given() {
    let (rule, warnings) = parsed(
        "FREQ=DAILY;COUNT=5;UNTIL=20260102T090000Z",
        &start("20260101T090000", Zone::utc()),
    );
    assert_eq!(instances(&rule, 9).len(), 2);
    assert_eq!(warnings.len(), 1);
}

#[test]
fn the_29_february_waits_for_leap_years() {
    let rule = rule("FREQ=YEARLY", "20240229T090000");
    assert_eq!(
        instances(&rule, 3),
        ["20240229T090000", "20280229T090000", "20320229T090000"]
    );
    assert_eq!(
        first_and_steps(&rule, "20970101T000000").0,
        Ok(Some(at("21040229T090000")))
    );
}

#[test]
fn every_other_year_is_found_from_the_year_between() {
    // T-b of the lessons: nothing falls into the year that is asked for.
    let rule = rule("FREQ=YEARLY;INTERVAL=2", "20250601T090000");
    assert_eq!(
        first_and_steps(&rule, "20260101T000000").0,
        Ok(Some(at("20270601T090000")))
    );
}

#[test]
fn lenient_readings_are_told() {
    let cases = [
        ("freq=daily;count=2", 0),
        ("FREQ=DAILY;X-FOO=1", 1),
        ("FREQ=DAILY;NONSENSE", 1),
        ("FREQ=DAILY;BYDAY=", 1),
        ("FREQ=DAILY;;COUNT=2;", 0),
        ("FREQ=WEEKLY;BYDAY=1MO", 1),
        ("FREQ=YEARLY;BYWEEKNO=3;BYDAY=2MO", 1),
        ("FREQ=MINUTELY;BYSECOND=60", 1),
        ("FREQ=DAILY;COUNT=3;COUNT=2", 1),
        ("FREQ=YEARLY;RSCALE=GREGORIAN", 0),
        ("RSCALE=GREGORIAN;FREQ=MONTHLY;SKIP=OMIT", 0),
        ("RSCALE=GREGORIAN;FREQ=MONTHLY;SKIP=BACKWARD", 1),
        (" FREQ = DAILY ; COUNT = 2 ", 0),
        ("FREQ=MONTHLY;WKST=SU;BYDAY=+1MO", 0),
    ];
    for (text, told) in cases {
        let (_, warnings) = parsed(text, &start("20260101T090000", Zone::utc()));
        assert_eq!(warnings.len(), told, "{text}: {warnings:?}");
    }
}

#[test]
fn the_last_of_a_double_part_counts() {
    assert_eq!(
        instances(&rule("FREQ=DAILY;COUNT=9;COUNT=2", "20260101T090000"), 20).len(),
        2
    );
}

#[test]
fn second_60_is_read_as_59() {
    let rule = rule("FREQ=MINUTELY;BYSECOND=60", "20260101T090000");
    assert_eq!(instances(&rule, 2), ["20260101T090059", "20260101T090159"]);
}

#[test]
fn a_senseless_number_of_a_weekday_is_ignored() {
    let rule = rule("FREQ=WEEKLY;BYDAY=1MO", "20260105T090000");
    assert_eq!(
        instances(&rule, 3),
        ["20260105T090000", "20260112T090000", "20260119T090000"]
    );
}

#[test]
fn senseless_rules_are_refused_with_part_and_value() {
    let cases = [
        ("", "FREQ"),
        ("COUNT=3", "FREQ"),
        ("FREQ=FORTNIGHTLY", "FORTNIGHTLY"),
        ("FREQ=", "FREQ="),
        ("FREQ=DAILY;COUNT=0", "COUNT=0"),
        ("FREQ=DAILY;COUNT=-1", "COUNT=-1"),
        ("FREQ=DAILY;COUNT=", "COUNT="),
        ("FREQ=DAILY;INTERVAL=0", "INTERVAL=0"),
        ("FREQ=DAILY;INTERVAL=two", "INTERVAL=TWO"),
        ("FREQ=DAILY;BYHOUR=99", "99` in BYHOUR"),
        ("FREQ=DAILY;BYMINUTE=60", "60` in BYMINUTE"),
        ("FREQ=DAILY;BYSECOND=61", "61` in BYSECOND"),
        ("FREQ=MONTHLY;BYMONTHDAY=32", "32` in BYMONTHDAY"),
        ("FREQ=MONTHLY;BYMONTHDAY=0", "0` in BYMONTHDAY"),
        ("FREQ=YEARLY;BYMONTH=13", "13` in BYMONTH"),
        ("FREQ=YEARLY;BYMONTH=5L", "5L` in BYMONTH"),
        ("FREQ=YEARLY;BYYEARDAY=400", "400` in BYYEARDAY"),
        ("FREQ=YEARLY;BYWEEKNO=54", "54` in BYWEEKNO"),
        ("FREQ=MONTHLY;BYDAY=MO;BYSETPOS=0", "0` in BYSETPOS"),
        ("FREQ=MONTHLY;BYDAY=0MO", "0MO` in BYDAY"),
        ("FREQ=MONTHLY;BYDAY=54MO", "54MO` in BYDAY"),
        ("FREQ=WEEKLY;BYDAY=\u{1f600}", "\u{1f600}` in BYDAY"),
        ("FREQ=WEEKLY;BYDAY=MO,", "` in BYDAY"),
        ("FREQ=WEEKLY;WKST=XX", "XX` in WKST"),
        ("FREQ=DAILY;UNTIL=soon", "UNTIL=SOON"),
        ("FREQ=DAILY;UNTIL=20261332", "UNTIL=20261332"),
        ("FREQ=DAILY;UNTIL=20260101T256161Z", "UNTIL=20260101T256161Z"),
        ("FREQ=DAILY;UNTIL=\u{1f600}", "UNTIL=\u{1f600}"),
        ("RSCALE=HEBREW;FREQ=YEARLY", "RSCALE=HEBREW"),
    ];
    for (text, named) in cases {
        let message = refusal(text);
        assert!(message.contains(named), "{text}: {message}");
    }
}

#[test]
fn a_message_repeats_no_endless_value() {
    assert!(refusal(&format!("FREQ={}", "A".repeat(1_000_000))).len() < 200);
    let many = format!("FREQ=DAILY;{}", "A=1;".repeat(100_000));
    assert!(parsed(&many, &start("20260101T090000", Zone::utc())).1.len() <= 20);
}

#[test]
fn a_large_interval_is_kept() {
    let rule = rule("FREQ=DAILY;INTERVAL=65536", "20260101T090000");
    assert_eq!(instances(&rule, 2)[1], "22050608T090000");
    let beyond = "FREQ=SECONDLY;INTERVAL=99999999999999999999";
    assert!(instances(&self::rule(beyond, "20260101T090000"), 100).len() < 100);
}

#[test]
fn the_cost_does_not_grow_with_the_age_of_dtstart() {
    let texts = [
        "FREQ=SECONDLY",
        "FREQ=SECONDLY;INTERVAL=7;BYHOUR=9;BYMINUTE=30",
        "FREQ=SECONDLY;BYDAY=MO;BYHOUR=3",
        "FREQ=MINUTELY;INTERVAL=5",
        "FREQ=MINUTELY;BYMONTH=1;BYDAY=2SU",
        "FREQ=HOURLY;INTERVAL=5;BYDAY=MO,FR",
        "FREQ=DAILY",
        "FREQ=DAILY;INTERVAL=3;BYMONTH=6",
        "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,WE",
        "FREQ=MONTHLY;BYDAY=-1FR",
        "FREQ=YEARLY;BYMONTH=3;BYDAY=-1SU",
        "FREQ=SECONDLY;COUNT=40000000000",
        "FREQ=DAILY;COUNT=1000000",
        "FREQ=WEEKLY;UNTIL=20991231T000000Z",
    ];
    for text in texts {
        for dtstart in ["16010101T000000", "19700101T000000", "20260105T000000"] {
            let (found, steps) = first_and_steps(&rule(text, dtstart), "20261128T123456");
            assert!(
                found.expect("it is within the budget").is_some(),
                "{text} since {dtstart}"
            );
            assert!(steps <= 500, "{text} since {dtstart} takes {steps} steps");
        }
    }
}

#[test]
fn rules_that_match_nothing_end() {
    let never = [
        "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30",
        "FREQ=MONTHLY;BYMONTH=2;BYMONTHDAY=30",
        "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30",
        "FREQ=HOURLY;BYMONTH=2;BYMONTHDAY=30",
        "FREQ=MINUTELY;BYMONTH=2;BYMONTHDAY=30",
        "FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=30",
        "FREQ=YEARLY;BYMONTH=5;BYMONTHDAY=3;BYSETPOS=3",
        "FREQ=YEARLY;BYMONTH=6;BYWEEKNO=53",
        "FREQ=MONTHLY;BYDAY=6MO",
        "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30;COUNT=3",
        "FREQ=WEEKLY;BYMONTH=2;BYMONTHDAY=30",
        "FREQ=WEEKLY;INTERVAL=97;BYDAY=MO;BYSETPOS=2",
        "FREQ=MONTHLY;BYDAY=MO;BYSETPOS=6",
        "FREQ=DAILY;BYSETPOS=2",
        "FREQ=MINUTELY;BYSECOND=1,2;BYSETPOS=3",
        "FREQ=SECONDLY;BYSETPOS=2",
    ];
    for text in never {
        let (found, steps) = first_and_steps(&rule(text, "20260101T090000"), "20260101T000000");
        assert_eq!(found, Ok(None), "{text} after {steps} steps");
        assert!(steps < 60_000, "{text}: {steps}");
    }
}

#[test]
fn what_hardly_ever_happens_is_not_taken_for_never() {
    let rare = rule(
        "FREQ=YEARLY;INTERVAL=7;BYMONTH=2;BYMONTHDAY=29;BYDAY=MO",
        "19000101T090000",
    );
    let found = first_and_steps(&rare, "20260101T000000").0;
    assert_eq!(found, Ok(Some(at("22080229T090000"))));
    let leap_day = rule(
        "FREQ=YEARLY;INTERVAL=97;BYMONTH=2;BYMONTHDAY=29",
        "20000229T090000",
    );
    let found = first_and_steps(&leap_day, "20260101T000000").0;
    assert_eq!(found, Ok(Some(at("23880229T090000"))));
}

#[test]
fn count_is_reckoned_where_all_periods_are_alike() {
    // Of each: COUNT, what the last instance is by a walk, and that the walk was not made.
    let even = [
        "FREQ=WEEKLY;BYDAY=MO,WE,SU;INTERVAL=3;WKST=SU",
        "FREQ=WEEKLY;BYDAY=TU,TH;BYHOUR=9,17",
        "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=1,-1",
        "FREQ=DAILY;BYHOUR=8,12,20;INTERVAL=2",
        "FREQ=HOURLY;BYMINUTE=0,20,40;INTERVAL=5",
        "FREQ=MINUTELY;BYSECOND=10,50;INTERVAL=7",
        "FREQ=SECONDLY;INTERVAL=11",
    ];
    for text in even {
        let walked = instances(&rule(text, "20260107T120000"), 60);
        for count in [1, 2, 3, 4, 7, 31, 58] {
            let counted = rule(&format!("{text};COUNT={count}"), "20260107T120000");
            let with_start = usize::from(walked[0] != "20260107T120000");
            assert_eq!(
                instances(&counted, 60),
                walked[..count - with_start],
                "{text};COUNT={count}"
            );
        }
        let long = rule(&format!("{text};COUNT=1000000"), "16010105T120000");
        let (_, steps) = first_and_steps(&long, "20260101T000000");
        assert!(steps < 20, "{text}: {steps}");
    }
    // A million weeks are more than there are; 20,000 end in 1984.
    let far = rule("FREQ=WEEKLY;BYDAY=MO;COUNT=1000000", "16010101T090000");
    assert!(
        first_and_steps(&far, "20260101T000000")
            .0
            .is_ok_and(|it| it.is_some())
    );
    let ended = rule("FREQ=WEEKLY;BYDAY=MO;COUNT=20000", "16010101T090000");
    assert_eq!(
        first_and_steps(&ended, "19840416T090000").0,
        Ok(Some(at("19840416T090000")))
    );
    assert_eq!(first_and_steps(&ended, "19840416T090001").0, Ok(None));
}

#[test]
fn hostile_rules_are_stopped_by_the_budget() {
    let hostile = [
        "FREQ=SECONDLY;INTERVAL=60;BYSECOND=30",
        "FREQ=SECONDLY;INTERVAL=86400;BYHOUR=3",
        "FREQ=MINUTELY;INTERVAL=1440;BYHOUR=3;BYSETPOS=2",
    ];
    for text in hostile {
        let (found, steps) = first_and_steps(&rule(text, "20260101T090000"), "20260101T000000");
        assert_eq!(found, Err(OutOfSteps), "{text} after {steps} steps");
    }
}

#[test]
fn millions_of_candidates_in_a_period_cost_no_more_than_one() {
    let all = |most: u32| (0..=most).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
    let text = format!(
        "FREQ=YEARLY;BYDAY=MO,TU,WE,TH,FR,SA,SU;BYHOUR={};BYMINUTE={};BYSECOND={}",
        all(23),
        all(59),
        all(59),
    );
    let (found, steps) = first_and_steps(&rule(&text, "20260101T000000"), "20300704T123456");
    assert_eq!(found, Ok(Some(at("20300704T123456"))));
    assert!(steps < 50, "{steps}");
    let last_second = format!("{text};BYSETPOS=-1");
    let (found, _) = first_and_steps(&rule(&last_second, "20260101T000000"), "20300704T123456");
    assert_eq!(found, Ok(Some(at("20301231T235959"))));
    // The 100,000,000th second of all.
    let counted = rule(&format!("{text};COUNT=100000000"), "20260101T000000");
    let last = at("20260101T000000") + TimeDelta::seconds(99_999_999);
    assert_eq!(counted.first_from(last, &mut Budget::default()), Ok(Some(last)));
    let after = last + TimeDelta::seconds(1);
    assert_eq!(counted.first_from(after, &mut Budget::default()), Ok(None));
}

#[test]
fn the_ends_of_time_do_not_panic() {
    let days = [
        NaiveDate::MIN,
        NaiveDate::MAX,
        at("00010101T000000").date(),
        at("99991231T000000").date(),
    ];
    let frequencies = [
        "SECONDLY", "MINUTELY", "HOURLY", "DAILY", "WEEKLY", "MONTHLY", "YEARLY",
    ];
    for (day, frequency) in days
        .into_iter()
        .flat_map(|day| frequencies.map(|frequency| (day, frequency)))
    {
        let local = day.and_hms_opt(0, 0, 0).expect("midnight is a time");
        for parts in [
            "",
            ";BYWEEKNO=1",
            ";BYDAY=MO;INTERVAL=99999999999",
            ";COUNT=3",
            ";UNTIL=99991231T235959Z",
        ] {
            let start = Start {
                local,
                is_date: false,
                zone: Zone::utc(),
            };
            let (rule, _) = parsed(&format!("FREQ={frequency}{parts}"), &start);
            for from in [
                NaiveDateTime::MIN,
                local,
                at("20260101T000000"),
                NaiveDateTime::MAX,
            ] {
                let found = rule.first_from(from, &mut Budget { steps: 1000 }).ok().flatten();
                assert!(found.is_none_or(|instance| instance >= from && instance >= local));
            }
        }
    }
}

#[test]
fn nothing_lies_beyond_9988() {
    let rule = rule("FREQ=DAILY", "20260101T090000");
    assert_eq!(
        first_and_steps(&rule, "99881231T000000").0,
        Ok(Some(at("99881231T090000")))
    );
    assert_eq!(first_and_steps(&rule, "99881231T090001").0, Ok(None));
}

#[test]
fn a_rule_says_its_frequency_and_whether_it_ends() {
    let endless = rule("FREQ=HOURLY", "20260101T090000");
    assert_eq!(
        (endless.frequency(), endless.is_finite()),
        (Frequency::Hourly, false)
    );
    assert!(rule("FREQ=DAILY;COUNT=2", "20260101T090000").is_finite());
    assert!(rule("FREQ=DAILY;UNTIL=20270101", "20260101T090000").is_finite());
    assert!(Frequency::Secondly < Frequency::Minutely && Frequency::Daily < Frequency::Yearly);
}
