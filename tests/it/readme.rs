//! The commands that README.md shows a newcomer, run against the real binary.

use std::fs;
use std::net::Ipv4Addr;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::process::Output;
use std::process::Stdio;

use carillon::config::Settings;

use crate::harness::calendar::Calendar;
use crate::harness::free_port;
use crate::harness::node::Home;
use crate::harness::postgres::Postgres;
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
async fn a_phrase_and_a_cron_expression_are_told_with_their_instants() {
    let ended = run(&Home::new(), &block("a phrase or a cron expression comes", "sh")).await;

    let said = said(&ended);
    assert!(said.contains(" 15:00:00 +0"), "{said}");
    assert!(
        said.contains("Sun 2026-03-29 03:00:00 +02:00 2026-03-29T01:00:00Z\n"),
        "{said}"
    );
}

#[tokio::test]
async fn an_argument_with_a_calendar_is_settled_as_it_is_told() {
    let section = "## Settling an argument with a calendar";

    let ended = run(&Home::new(), &block(section, "sh")).await;

    assert_eq!(said(&ended), block(section, "text"));
}

#[tokio::test]
async fn three_nodes_on_one_machine_outlive_the_one_that_leads() {
    let postgres = Postgres::start().await;
    let database = postgres.database().await;
    let home = Home::new();
    let section = "### From one node to three";
    let tens = free_tens();
    let commands = [
        block(section, "sh"),
        block("it is sent all the same", "sh"),
        block("hold:", "sh"),
    ];
    let commands = commands
        .join("\n")
        .replace("cargo build --release\n", "")
        .replace("target/release/carillon", env!("CARGO_BIN_EXE_carillon"))
        .replace("127.0.0.1:808", &format!("127.0.0.1:{tens}"))
        .replace("127.0.0.1:809", &format!("127.0.0.1:{}", tens + 1));
    // Whatever becomes of the commands, the nodes end with them.
    let ends = "trap 'status=$?; kill -9 $(cat node*.pid) 2> kill.log || true; [ $status = 0 ] || tail node*.log >&2' EXIT";

    let ended = run(&home, &format!("DATABASE='{database}'\n{ends}\n{commands}")).await;

    let said = said(&ended);
    assert_eq!(said.matches("ready\n").count(), 4, "{said}");
    assert!(said.contains("\"subject\":\"Reminder: Supper"), "{said}");
    assert!(said.contains(" is no member any more\n"), "{said}");
    let (before, after) = said.split_once("no member any more").expect("it was just found");
    assert!(before.contains("  leader  "), "{said}");
    let (two, three) = after.split_once("ready\n").expect("the new one is let in");
    let roles = |text: &str| ["  leader  ", "  voter  "].map(|role| text.matches(role).count());
    assert_eq!((roles(two), roles(three)), ([1, 1], [1, 2]), "{said}");
    let log = fs::read_to_string(home.folder().join("node4.log")).expect("it ran here");
    assert!(log.contains("session ended"), "{log}");
}

/// All but the last digit of ports that nobody listens on, of which the README gives the last; the next ten are free, too.
fn free_tens() -> u16 {
    let free = |port: u16| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
    let both = |tens: u16| (1..=4).all(|digit| free(tens * 10 + digit) && free(tens * 10 + 10 + digit));
    let mut tens = std::iter::repeat_with(|| free_port() / 10).take(100);
    tens.find(|tens| both(*tens)).expect("loopback has free ports")
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

    assert!(settings.is_ok_and(|settings| !settings.relays.is_empty()));
}

#[test]
fn the_provider_of_the_readme_is_a_valid_configuration() {
    let home = Home::new();
    let token = home.folder().join("token");
    fs::write(&token, "secret\n").expect("the folder is ours");
    let text = block("### Text messages", "toml");
    let text = text.replace("/etc/carillon/twilio-token", &token.display().to_string());
    let home = home.with_file(&text);

    let settings = Settings::load(Some(&home.config_file()), []);

    let settings = settings.unwrap_or_else(|complaints| panic!("{complaints}"));
    assert_eq!(settings.sms.route.len(), 1);
}
