//! The command line as a person or a script meets it: what it says, and with which exit code.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::process::Output;

use serde_json::Value;

use crate::harness::free_port;

const TEA: &str = "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//carillon//test//EN\r\nBEGIN:VEVENT\r\nUID:tea\r\n\
                   DTSTAMP:20261101T000000Z\r\nDTSTART:20261201T100000\r\nRRULE:FREQ=DAILY;COUNT=5\r\nSUMMARY:Tea\r\n\
                   BEGIN:VALARM\r\nACTION:DISPLAY\r\nTRIGGER:-PT15M\r\nDESCRIPTION:x\r\nEND:VALARM\r\n\
                   END:VEVENT\r\nEND:VCALENDAR\r\n";

fn carillon(folder: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_carillon"))
        .args(arguments)
        .env_clear()
        .envs(environment.iter().copied())
        .current_dir(folder)
        .output()
        .expect("the binary runs")
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("it is UTF-8")
}

fn complaints(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("it is UTF-8")
}

/// The line that is wrong may hold a password, and what is said goes to the log of whoever reloads.
#[test]
fn a_file_that_is_not_toml_is_told_of_without_its_lines() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(
        folder.path().join("own.toml"),
        "[store]\nurl = \"postgres://u:HUNTER2@h/db\n",
    )
    .unwrap();
    let output = carillon(folder.path(), &["check", "--config", "own.toml"], &[]);
    let told = complaints(&output);
    assert_eq!(output.status.code(), Some(78), "{told}");
    assert!(told.contains("own.toml") && told.contains("line 2"), "{told}");
    assert!(
        !told.contains("HUNTER2") && !out(&output).contains("HUNTER2"),
        "{told}"
    );
}

#[test]
fn a_wrong_configuration_ends_every_command_with_78_and_all_complaints() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(
        folder.path().join("own.toml"),
        "[worker]\nperiod = \"0s\"\nlookahead = \"1h\"\n",
    )
    .unwrap();
    let environment = [
        ("CARILLON_CONFIG", "own.toml"),
        ("CARILLON__HTTP__LISTEN", "0.0.0.0:1"),
    ];
    for command in ["serve", "migrate", "check"] {
        let output = carillon(folder.path(), &[command], &environment);
        assert_eq!(output.status.code(), Some(78), "{command}");
        let text = complaints(&output);
        assert_eq!(text.lines().count(), 3, "{text}");
        assert!(
            text.contains("worker.period = `0s` (in own.toml): must be more than 0"),
            "{text}"
        );
        assert!(text.contains("did you mean `worker.look_ahead`?"), "{text}");
        assert!(
            text.contains("http.listen = `0.0.0.0:1` (from CARILLON__HTTP__LISTEN)"),
            "{text}"
        );
    }
    assert!(!folder.path().join("carillon.db").exists());
}

#[test]
fn what_the_configuration_names_is_checked_too() {
    let folder = tempfile::tempdir().unwrap();
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = closed.local_addr().unwrap().port().to_string();
    drop(closed);
    let relay = [
        ("CARILLON__CHANNELS__EMAIL__SMTP__HOST", "127.0.0.1"),
        ("CARILLON__CHANNELS__EMAIL__SMTP__PORT", port.as_str()),
        ("CARILLON__CHANNELS__EMAIL__SMTP__TLS", "none"),
    ];
    let output = carillon(folder.path(), &["check"], &relay);
    assert_eq!(output.status.code(), Some(1));
    let told = out(&output);
    assert!(
        told.contains("[+] store: carillon.db is created by the first start"),
        "{told}"
    );
    assert!(
        told.contains(&format!("[-] e-mail: 127.0.0.1 port {port}: ")),
        "{told}"
    );
    assert_eq!(carillon(folder.path(), &["migrate"], &[]).status.code(), Some(0));
    let told = out(&carillon(folder.path(), &["check"], &[]));
    let version = carillon::store::sqlite::known_schema_version();
    assert!(
        told.contains(&format!("[+] store: carillon.db has schema version {version}")),
        "{told}"
    );
}

#[test]
fn an_operators_words_are_checked_before_the_first_reminder_needs_them() {
    let folder = tempfile::tempdir().unwrap();
    let listen = format!("127.0.0.1:{}", free_port());
    let environment = [
        ("CARILLON__TEMPLATES__DIR", "words"),
        ("CARILLON__HTTP__LISTEN", &*listen),
    ];
    fs::create_dir(folder.path().join("words")).unwrap();
    let file = folder.path().join("words/nl.ftl");
    fs::write(&file, "label-where = Waar\nlate = Te laat: { $momnt }\n").unwrap();
    let flaw = "nl.ftl`, line 2, message `late`: there is no `$momnt` here";

    let checked = carillon(folder.path(), &["check"], &environment);
    assert!(out(&checked).contains(flaw), "{}", out(&checked));
    assert_eq!(checked.status.code(), Some(1));
    let started = carillon(folder.path(), &["serve"], &environment);
    assert!(complaints(&started).contains(flaw), "{}", complaints(&started));
    assert!(!started.status.success() && !folder.path().join("carillon.db").exists());

    fs::write(&file, "label-where = Waar\n").unwrap();
    let checked = out(&carillon(folder.path(), &["check"], &environment));
    assert!(
        checked.contains("[+] templates: words; `nl` leaves to English: subject, headline"),
        "{checked}"
    );
}

#[test]
fn a_configuration_is_checked_and_printed_without_its_secrets() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("token"), "t0ps3cret").unwrap();
    let environment = [("CARILLON__HTTP__TOKEN_FILE", "token")];
    assert_eq!(
        carillon(folder.path(), &["check"], &environment).status.code(),
        Some(0)
    );
    let printed = out(&carillon(folder.path(), &["check", "--print"], &environment));
    assert!(
        printed.contains("token_file = \"token\" # from CARILLON__HTTP__TOKEN_FILE\n"),
        "{printed}"
    );
    assert!(!printed.contains("t0ps3cret"));
    let again = folder.path().join("printed.toml");
    fs::write(&again, printed).unwrap();
    let output = carillon(folder.path(), &["check", "--config", "printed.toml"], &[]);
    assert_eq!(output.status.code(), Some(0), "{}", complaints(&output));
}

#[test]
fn a_preview_begins_with_what_fires_at_the_instant() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("tea.ics"), TEA).unwrap();
    let arguments = [
        "preview",
        "tea.ics",
        "--tz",
        "Europe/Berlin",
        "--at",
        "2026-12-01T08:45:00Z",
        "--limit",
        "2",
        "--json",
    ];
    let output = carillon(folder.path(), &arguments, &[]);
    let lines: Vec<Value> = out(&output)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let instants: Vec<&str> = lines
        .iter()
        .map(|line| line["trigger_at"].as_str().unwrap())
        .collect();
    assert_eq!(instants, ["2026-12-01T08:45:00Z", "2026-12-02T08:45:00Z"]);
    assert_eq!(
        (lines[0]["uid"].as_str(), lines[0]["action"].as_str()),
        (Some("tea"), Some("DISPLAY"))
    );
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn a_preview_of_a_channel_says_what_will_not_leave_through_it() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("tea.ics"), TEA).unwrap();
    let arguments = [
        "preview",
        "tea.ics",
        "--at",
        "2026-11-01T00:00:00Z",
        "--channel",
        "email",
        "--json",
    ];
    let text = out(&carillon(folder.path(), &arguments, &[]));
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(
        !lines.is_empty() && lines.iter().all(|line| line["skipped"].is_string()),
        "{text}"
    );
}

#[test]
fn a_bad_file_is_reported_and_the_others_are_previewed() {
    let folder = tempfile::tempdir().unwrap();
    let calendars = folder.path().join("calendars/work");
    fs::create_dir_all(&calendars).unwrap();
    fs::write(calendars.join("a.ics"), "this is no calendar\r\n").unwrap();
    fs::write(calendars.join("b.ics"), TEA).unwrap();
    fs::write(calendars.join("notes.txt"), "not looked at").unwrap();
    let arguments = ["preview", "calendars", "--at", "2026-11-01T00:00:00Z", "--json"];
    let output = carillon(folder.path(), &arguments, &[]);
    assert_eq!(output.status.code(), Some(65));
    assert!(
        complaints(&output).starts_with("calendars/work/a.ics: line 1: "),
        "{}",
        complaints(&output)
    );
    assert_eq!(out(&output).lines().count(), 5);
}

#[test]
fn a_component_that_cannot_be_read_makes_its_file_a_bad_one() {
    let folder = tempfile::tempdir().unwrap();
    let headless = TEA.replace("DTSTART:20261201T100000\r\n", "");
    fs::write(folder.path().join("headless.ics"), headless).unwrap();
    let output = carillon(folder.path(), &["preview", "headless.ics", "--json"], &[]);
    let text = complaints(&output);
    assert!(text.contains("headless.ics: line 4: VEVENT"), "{text}");
    assert_eq!(output.status.code(), Some(65));
}

#[test]
fn migrating_brings_a_store_up_to_date() {
    let folder = tempfile::tempdir().unwrap();
    let environment = [("CARILLON__STORE__URL", "sqlite://own.db")];
    for _ in 0..2 {
        let output = carillon(folder.path(), &["migrate"], &environment);
        assert_eq!(
            (output.status.code(), out(&output).as_str()),
            (Some(0), "own.db is up to date\n")
        );
    }
    assert!(folder.path().join("own.db").exists());
}

#[test]
fn a_preview_commands_nobodys_terminal_through_a_pipe_either() {
    let folder = tempfile::tempdir().unwrap();
    let uid = "tea\u{1b}[2J\u{9b}31m\u{202e}";
    fs::write(
        folder.path().join("tea.ics"),
        TEA.replace("UID:tea", &format!("UID:{uid}")),
    )
    .unwrap();
    let arguments = ["preview", "tea.ics", "--at", "2026-11-01T00:00:00Z"];

    let table = out(&carillon(folder.path(), &arguments, &[]));
    let json = out(&carillon(
        folder.path(),
        &[&arguments[..], &["--json"]].concat(),
        &[],
    ));

    for text in [&table, &json] {
        assert!(text.contains("tea"), "{text:?}");
        assert!(!text.contains(['\u{1b}', '\u{9b}', '\u{202e}']), "{text:?}");
    }
    let first: Value = serde_json::from_str(json.lines().next().unwrap()).unwrap();
    assert_eq!(first["uid"], uid);
}
