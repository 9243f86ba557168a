//! `carillon parse-time` and `carillon cron` as a person or a script meets them: the real binary, without server,
//! configuration or environment.

use std::process::Command;
use std::process::Output;
use std::process::Stdio;

use serde_json::Value;
use serde_json::json;

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_carillon"))
        .args(arguments)
        .env_clear()
        .stdin(Stdio::null())
        .output()
        .expect("the binary runs")
}

/// What is said on standard output by a command that succeeds and complains of nothing.
fn said(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert_eq!(complaints(&output), "", "{arguments:?}");
    assert_eq!(output.status.code(), Some(0), "{arguments:?}");
    String::from_utf8(output.stdout).expect("it is UTF-8")
}

fn complaints(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("it is UTF-8")
}

fn lines(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).expect("a line is JSON"))
        .collect()
}

/// On Saturday, a night before the clock is put forward in Berlin.
const BERLIN: [&str; 4] = ["--tz", "Europe/Berlin", "--at", "2026-03-28T12:00:00+01:00"];

fn in_berlin(arguments: &[&str]) -> Output {
    run(&[arguments, &BERLIN].concat())
}

#[test]
fn a_phrase_is_an_instant_for_programs() {
    let parse = |phrase: &str| lines(&said(&[&["parse-time", phrase, "--json"][..], &BERLIN].concat()));
    assert_eq!(
        parse("tomorrow at 5pm"),
        [json!({"at": "2026-03-29T15:00:00Z", "candidates": []})]
    );
    assert_eq!(
        parse("saturday at 5pm"),
        [json!({
            "at": "2026-03-28T16:00:00Z",
            "candidates": ["2026-03-28T16:00:00Z", "2026-04-04T15:00:00Z"],
        })]
    );
    assert_eq!(
        parse("250ms"),
        [json!({"at": "2026-03-28T11:00:00.250Z", "candidates": []})]
    );
    assert_eq!(
        parse("2026-10-25 02:30"),
        [json!({
            "at": "2026-10-25T00:30:00Z",
            "candidates": ["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"],
        })]
    );
}

#[test]
fn a_phrase_is_a_table_for_people_quoted_or_not() {
    let table = said(&[&["parse-time", "tomorrow", "at", "5pm"][..], &BERLIN].concat());
    assert_eq!(
        table,
        "Europe/Berlin                  UTC\n\
         Sun 2026-03-29 17:00:00 +02:00 2026-03-29T15:00:00Z\n"
    );
    let table = said(&[&["parse-time", "next sunday at noon"][..], &BERLIN].concat());
    assert_eq!(
        table,
        "Europe/Berlin                  UTC\n\
         Sun 2026-03-29 12:00:00 +02:00 2026-03-29T10:00:00Z\n\
         Sun 2026-04-05 12:00:00 +02:00 2026-04-05T10:00:00Z\n\
         It can mean each of these: say the date, am or pm, or the offset.\n"
    );
}

#[test]
fn a_phrase_without_zone_and_instant_is_said_now_in_utc() {
    let told = lines(&said(&["parse-time", "in 100 days", "--json"]));
    let at: chrono::DateTime<chrono::Utc> = told[0]["at"].as_str().unwrap().parse().unwrap();
    let from_now = at - carillon::clock::Clock::now(&carillon::clock::SystemClock);
    assert_eq!(from_now.num_hours(), 100 * 24 - 1, "{told:?}");
}

#[test]
fn a_phrase_that_is_not_understood_is_refused_by_its_word() {
    for (phrase, words) in [
        ("tomorrow at teatime", "`teatime` is not understood"),
        ("tomorrow at 2:30am", "never shows 2026-03-29 02:30:00"),
        ("every friday", "use cron"),
        ("", "there is no time"),
        ("to\u{1b}[2Jmorrow", "`to\u{fffd}[2jmorrow`"),
    ] {
        for form in [&["parse-time", phrase][..], &["parse-time", phrase, "--json"]] {
            let output = in_berlin(form);
            assert_eq!(output.status.code(), Some(2), "{phrase}");
            assert!(complaints(&output).contains(words), "{}", complaints(&output));
            assert!(output.stdout.is_empty(), "{phrase}");
        }
    }
}

#[test]
fn the_firings_of_an_expression_are_listed() {
    let daily = ["cron", "30 2 * * *", "--limit", "3"];
    assert_eq!(
        said(&[&daily[..], &BERLIN].concat()),
        "Europe/Berlin                  UTC\n\
         Sun 2026-03-29 03:00:00 +02:00 2026-03-29T01:00:00Z\n\
         Mon 2026-03-30 02:30:00 +02:00 2026-03-30T00:30:00Z\n\
         Tue 2026-03-31 02:30:00 +02:00 2026-03-31T00:30:00Z\n"
    );
    let told = said(&[&daily[..], &["--json"], &BERLIN].concat());
    let firings = [
        "2026-03-29T01:00:00Z",
        "2026-03-30T00:30:00Z",
        "2026-03-31T00:30:00Z",
    ];
    assert_eq!(lines(&told), firings.map(|at| json!({ "at": at })));
    let told = said(&[&["cron", "@every 90m", "--limit", "2", "--json"][..], &BERLIN].concat());
    let firings = ["2026-03-28T12:30:00Z", "2026-03-28T14:00:00Z"];
    assert_eq!(lines(&told), firings.map(|at| json!({ "at": at })));
    // From now on, and ten of them.
    assert_eq!(lines(&said(&["cron", "*/5 * * * *", "--json"])).len(), 10);
}

#[test]
fn a_long_list_of_rare_firings_takes_no_walk_through_the_minutes() {
    let told = said(&[
        "cron",
        "30 2 29 2 *",
        "--limit",
        "1000",
        "--json",
        "--at",
        "2026-01-01T00:00:00Z",
    ]);
    assert_eq!(lines(&told).last(), Some(&json!({"at": "6148-02-29T02:30:00Z"})));
}

#[test]
fn an_expression_that_is_wrong_is_refused_with_the_reason() {
    for (expression, words) in [
        (
            "30 2 30 2 *",
            "`30 2 30 2 *` never fires: no month `2` has a day `30`",
        ),
        ("0 9 * *", "five fields"),
        ("-1 * * * *", "`-1` is no minute"),
        ("@reboot", "is no time"),
        ("", "five fields"),
    ] {
        let output = in_berlin(&["cron", expression, "--json"]);
        assert_eq!(output.status.code(), Some(2), "{expression}");
        assert!(complaints(&output).contains(words), "{}", complaints(&output));
        assert!(output.stdout.is_empty(), "{expression}");
    }
}

#[test]
fn wrong_options_are_refused_with_the_cure() {
    for command in [["cron", "0 9 * * *"], ["parse-time", "tomorrow"]] {
        for (option, value, words) in [
            (
                "--tz",
                "Mars/Olympus",
                "unknown time zone `Mars/Olympus`: use an IANA name",
            ),
            (
                "--at",
                "yesterday",
                "`yesterday` is no instant: write it as 2026-12-01T08:45:00Z",
            ),
        ] {
            let output = run(&[&command[..], &[option, value]].concat());
            assert_eq!(output.status.code(), Some(2), "{command:?} {option}");
            assert!(complaints(&output).contains(words), "{}", complaints(&output));
        }
    }
    let output = run(&["cron", "0 9 * * *", "--limit", "0"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(complaints(&output).contains("`0` is no number from 1 to 100000"));
}

#[test]
fn the_examples_of_the_help_work() {
    for command in ["parse-time", "cron"] {
        let help = said(&[command, "--help"]);
        let examples: Vec<&str> = help
            .lines()
            .filter_map(|line| line.trim().strip_prefix("carillon "))
            .collect();
        assert_eq!(examples.len(), 3, "{help}");
        for example in examples {
            // Quotes stand only around whole arguments.
            let mut arguments = Vec::new();
            for (index, part) in example.split('\'').enumerate() {
                if index % 2 == 1 {
                    arguments.push(part);
                } else {
                    arguments.extend(part.split_whitespace());
                }
            }
            assert!(said(&arguments).contains("20"), "{example}");
        }
        assert!(said(&[command, "-h"]).contains("Examples:"));
    }
}
