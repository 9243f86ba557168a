//! The commands that README.md shows a newcomer, run against the real binary.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::process::Output;
use std::process::Stdio;

use carillon::config::Settings;

use crate::harness::calendar::Calendar;
use crate::harness::node::Home;
use crate::harness::whole_second_in;

/// Where the README says that a node listens.
const ADDRESS: &str = "127.0.0.1:8085";

/// How the README starts the binary.
const BINARY: &str = "cargo run --release --";

/// The block of that language that follows the heading or text.
fn block(after: &str, language: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let text = fs::read_to_string(path).expect("README.md is there");
    let below = text
        .split_once(after)
        .unwrap_or_else(|| panic!("README.md has no `{after}`"))
        .1;
    let block = below
        .split_once(&format!("```{language}\n"))
        .expect("a block follows")
        .1;
    block.split_once("```").expect("a block ends").0.to_owned()
}

/// Runs commands of the README in the folder of the home, against its node.
async fn run(home: &Home, script: &str) -> Output {
    let script = script
        .replace(ADDRESS, &format!("127.0.0.1:{}", home.port))
        .replace(BINARY, env!("CARGO_BIN_EXE_carillon"));
    let mut shell = Command::new("sh");
    shell
        .args(["-euc", &script])
        .current_dir(home.folder())
        .stdin(Stdio::null());
    let ended = tokio::task::spawn_blocking(move || shell.output());
    ended
        .await
        .expect("waiting does not panic")
        .expect("there is a shell")
}

/// What a command said that must succeed.
fn said(ended: &Output) -> String {
    let said = String::from_utf8_lossy(&ended.stdout).into_owned();
    assert!(
        ended.status.success(),
        "{said}\n{}",
        String::from_utf8_lossy(&ended.stderr)
    );
    said
}

#[tokio::test]
async fn the_newcomers_command_shows_a_reminder() {
    let node = Home::new().start().await;

    let ended = run(&node.home, &block("### See a reminder", "sh")).await;

    let said = said(&ended);
    assert!(said.contains("\"subject\":\"Reminder: Tea"), "{said}");

    let ended = run(&node.home, &block("can be seen without a server", "sh")).await;

    let previewed = self::said(&ended);
    assert!(
        previewed.contains("EMAIL") && previewed.contains("tea@example.org"),
        "{previewed}"
    );
}

#[tokio::test]
async fn the_files_of_a_calendar_are_pushed() {
    let node = Home::new().start_with_owner().await;
    for name in ["one", "two?owner=eve#50% off"] {
        let event = Calendar::far_away(name).alarm_at(whole_second_in(3600));
        fs::write(node.home.folder().join(format!("{name}.ics")), event.text()).expect("the folder is ours");
    }
    let script = block("### A calendar", "sh");

    let first = said(&run(&node.home, &script).await);
    let again = said(&run(&node.home, &script).await);

    assert_eq!(first.matches("\"result\":\"applied\"").count(), 2, "{first}");
    assert_eq!(again.matches("\"result\":\"unchanged\"").count(), 2, "{again}");
}

#[test]
fn the_relay_of_the_readme_is_a_valid_configuration() {
    let home = Home::new();
    let password = home.folder().join("smtp-password");
    fs::write(&password, "secret\n").expect("the folder is ours");
    let text = block("### A relay", "toml");
    let text = text.replace("/etc/carillon/smtp-password", &password.display().to_string());
    let home = home.with_file(&text);

    let settings = Settings::load(Some(&home.config_file()), []);

    assert!(settings.is_ok_and(|settings| settings.smtp.is_some()));
}
