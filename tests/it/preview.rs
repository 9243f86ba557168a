//! `carillon preview` as a person or a script meets it: the real binary, over calendars in the style of real clients.

use std::fs;
use std::fs::File;
use std::path::Path;
use std::process::Command;
use std::process::Output;
use std::process::Stdio;

use serde_json::Value;

/// Where the calendars are.
const CALENDARS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/calendars");

/// When they are looked at, and by whom.
const OWNER: [&str; 6] = [
    "--tz",
    "Europe/Berlin",
    "--at",
    "2026-03-23T00:00:00Z",
    "--owner",
    "anna@example.org",
];

fn preview(folder: &Path, arguments: &[&str], input: Stdio) -> Output {
    Command::new(env!("CARGO_BIN_EXE_carillon"))
        .arg("preview")
        .args(arguments)
        .args(OWNER)
        .env_clear()
        .current_dir(folder)
        .stdin(input)
        .output()
        .expect("the binary runs")
}

fn run(arguments: &[&str]) -> Output {
    preview(Path::new(CALENDARS), arguments, Stdio::null())
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("it is UTF-8")
}

fn complaints(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("it is UTF-8")
}

fn lines(output: &Output) -> Vec<Value> {
    out(output)
        .lines()
        .map(|line| serde_json::from_str(line).expect("a line is JSON"))
        .collect()
}

#[test]
fn the_calendars_of_five_clients_are_one_table() {
    insta::assert_snapshot!(out(&run(&["."])));
}

#[test]
fn the_calendars_of_five_clients_are_told_to_programs() {
    insta::assert_snapshot!(out(&run(&[".", "--json", "--past"])));
}

#[test]
fn every_firing_of_an_event_is_explained() {
    let arguments = [
        "apple.ics",
        "--explain",
        "--uid",
        "5E1B7C1A-STANDUP",
        "--limit",
        "3",
    ];
    insta::assert_snapshot!(out(&run(&arguments)));
}

#[test]
fn a_file_is_the_same_on_standard_input() {
    let input = File::open(Path::new(CALENDARS).join("nextcloud.ics")).unwrap();
    let piped = preview(Path::new(CALENDARS), &["-", "--json"], input.into());
    let named = run(&["nextcloud.ics", "--json"]);
    let renamed = out(&named).replace("\"source\":\"nextcloud.ics\"", "\"source\":\"-\"");
    assert_eq!(out(&piped), renamed);
    assert!(renamed.contains("\"source\":\"-\""));
}

#[test]
fn standard_input_is_read_only_once() {
    let output = run(&["-", "apple.ics", "-"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        complaints(&output).contains("named twice"),
        "{}",
        complaints(&output)
    );
    assert_eq!(out(&output), "");
}

#[test]
fn what_cannot_be_opened_is_named_and_the_rest_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("empty")).unwrap();
    fs::copy(
        Path::new(CALENDARS).join("apple.ics"),
        folder.path().join("apple.ics"),
    )
    .unwrap();
    let arguments = ["nowhere.ics", "empty", "apple.ics", "--json"];
    let output = preview(folder.path(), &arguments, Stdio::null());
    assert_eq!(output.status.code(), Some(65));
    let complaints = complaints(&output);
    assert!(complaints.contains("nowhere.ics: "), "{complaints}");
    assert!(
        complaints.contains("empty: there is no file in it whose name ends in .ics"),
        "{complaints}"
    );
    assert!(
        lines(&output)
            .iter()
            .any(|line| line["uid"] == "7F2C-NIGHT-TRAIN" && line["skipped"].is_null())
    );
}

#[test]
fn what_does_not_fire_is_no_error_and_what_cannot_be_read_is() {
    assert_eq!(run(&["google.ics"]).status.code(), Some(0));
    assert_eq!(run(&["outlook.ics"]).status.code(), Some(65));
    assert_eq!(
        run(&["google.ics", "--tz", "Mars/Olympus"]).status.code(),
        Some(2)
    );
}

#[test]
fn a_calendar_of_ten_thousand_events_is_bounded_by_the_limit() {
    use std::fmt::Write;

    let folder = tempfile::tempdir().unwrap();
    let mut text = "BEGIN:VCALENDAR\r\nVERSION:2.0\r\n".to_owned();
    for number in 0..10_000 {
        write!(
            text,
            "BEGIN:VEVENT\r\nUID:{number}\r\nDTSTART:2026032{}T090000Z\r\nRRULE:FREQ=WEEKLY\r\nDESCRIPTION:{}\r\n\
             BEGIN:VALARM\r\nACTION:EMAIL\r\nTRIGGER:-PT15M\r\nEND:VALARM\r\nEND:VEVENT\r\n",
            number % 10,
            "x".repeat(1_000),
        )
        .unwrap();
    }
    text.push_str("END:VCALENDAR\r\n");
    fs::write(folder.path().join("big.ics"), text).unwrap();
    let output = preview(
        folder.path(),
        &["big.ics", "--json", "--limit", "7"],
        Stdio::null(),
    );
    assert_eq!(output.status.code(), Some(0), "{}", complaints(&output));
    assert_eq!(lines(&output).len(), 7);
}

#[test]
fn a_file_that_is_too_large_is_refused_and_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let file = File::create(folder.path().join("huge.ics")).unwrap();
    file.set_len(1 << 40).unwrap();
    let output = preview(folder.path(), &["huge.ics"], Stdio::null());
    assert_eq!(output.status.code(), Some(65));
    assert!(
        complaints(&output).contains("larger than"),
        "{}",
        complaints(&output)
    );
}

#[test]
fn the_words_of_strangers_stay_on_their_line() {
    let table = out(&run(&["nextcloud.ics"]));
    assert!(table.contains("Two lines and \u{fffd}[2J an escape"), "{table}");
    assert!(!table.contains('\u{1b}'));
    let json = out(&run(&["nextcloud.ics", "--json"]));
    assert!(!json.contains('\u{1b}'));
    let told = lines(&run(&["nextcloud.ics", "--json"]));
    assert!(
        told.iter()
            .any(|line| line["summary"] == "Two\nlines and \u{1b}[2J an escape")
    );
}

#[test]
fn the_policies_of_a_configuration_hold_where_one_is_given() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("own.toml");
    let path = file.to_str().unwrap();
    let fires = |text: &str, name: &str, uid: &str| {
        fs::write(&file, text).unwrap();
        let output = run(&[name, "--json", "--uid", uid, "--config", path]);
        let lines = lines(&output);
        assert!(!lines.is_empty(), "{}", complaints(&output));
        lines.iter().any(|line| line["skipped"].is_null())
    };
    let declined = "0q8s7declined@google.com";
    assert!(!fires("", "google.ics", declined));
    assert!(fires(
        "[policies]\ndeclined = \"deliver\"\n",
        "google.ics",
        declined
    ));
    assert!(!fires("", "apple.ics", "7F2C-NIGHT-TRAIN"));
    assert!(fires(
        "[policies]\ndisplay = \"deliver\"\n",
        "apple.ics",
        "7F2C-NIGHT-TRAIN"
    ));
    fs::write(&file, "[policies]\ndisplay = \"never\"\n").unwrap();
    assert_eq!(run(&["apple.ics", "--config", path]).status.code(), Some(78));
}

#[test]
fn every_field_and_every_reason_is_in_the_help() {
    let output = Command::new(env!("CARGO_BIN_EXE_carillon"))
        .args(["preview", "--help"])
        .output()
        .expect("the binary runs");
    let help = out(&output);
    let words: Vec<&str> = help
        .split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        .collect();
    for line in lines(&run(&[".", "--json", "--past", "--explain"])) {
        for name in line.as_object().unwrap().keys() {
            assert!(words.contains(&name.as_str()), "{name}");
        }
    }
    for why in carillon::trigger::expand::Why::ALL {
        assert!(words.contains(&why.as_str()), "{why:?}");
    }
}
