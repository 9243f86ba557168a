//! The example of the library, which is the program that is killed here.

use std::io::BufRead;
use std::io::BufReader;
use std::process::Command;
use std::process::Stdio;

use super::*;
use crate::harness::Guarded;
use crate::harness::now;

/// The example on that file, or in a folder of its own.
fn example(path: Option<&Path>) -> Command {
    let itself = std::env::current_exe().expect("this is a program");
    let mut command = Command::new(itself);
    // The first argument is the example's; to the runner of tests it is a name that no test has.
    command
        .args(path)
        .args([
            "embedded::crash::the_example",
            "--exact",
            "--ignored",
            "--nocapture",
        ])
        .stdout(Stdio::piped());
    command
}

#[test]
#[ignore = "other tests run it as a program"]
fn the_example() {
    example::main().expect("the example runs");
}

/// What the example says when it runs to its end.
async fn run(path: Option<&Path>) -> String {
    let mut command = example(path);
    let ended = tokio::task::spawn_blocking(move || command.output());
    let ended = ended
        .await
        .expect("waiting does not panic")
        .expect("it can be started");
    let said = String::from_utf8_lossy(&ended.stdout).into_owned();
    assert!(ended.status.success(), "{said}");
    said
}

/// The calls that an example tells of.
fn calls(said: &str) -> Vec<&str> {
    said.lines().filter(|line| line.contains("attempt ")).collect()
}

const CALLS: [&str; 2] = [
    "attempt 1: black tea, milk: false",
    "attempt 2: black tea, milk: true",
];

#[tokio::test]
async fn the_example_runs_to_its_end() {
    let (_folder, path) = file();
    let said = run(Some(&path)).await;
    assert_eq!(calls(&said), CALLS);
    assert!(
        said.contains("is a new one, active at ") && said.contains("stopped"),
        "{said}"
    );
}

#[tokio::test]
async fn a_program_that_is_killed_does_what_was_due_once_when_it_is_started_again() {
    let (_folder, path) = file();
    let mut killed = Guarded::spawn(&mut example(Some(&path)));
    let said = BufReader::new(killed.child.stdout.take().expect("it is ours"));
    let asked = said
        .lines()
        .map_while(Result::ok)
        .find(|line| line.contains("active at"));
    let asked = asked.expect("it asks for an alarm");
    killed.kill();
    let due = asked.split_once("active at ").expect("it was just found").1;
    let due: chrono::DateTime<chrono::Utc> = due.parse().expect("an instant");
    eventually("the alarm is due", async || (now() > due).then_some(())).await;

    let first = run(Some(&path)).await;
    let second = run(Some(&path)).await;

    assert_eq!(calls(&first), CALLS);
    assert!(first.contains("is the same as before, active at "), "{first}");
    assert_eq!(calls(&second), [""; 0]);
    assert!(second.contains("is the same as before, fired at "), "{second}");
}
