//! The commands that README.md shows a newcomer, run against the real binary.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::process::Stdio;

use crate::harness::node::Home;

/// What the README calls the address of a node.
const ADDRESS: &str = "127.0.0.1:8085";

/// The text of the README.
fn readme() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    fs::read_to_string(path).expect("README.md is there")
}

/// The shell block below the heading.
fn shell_block(heading: &str) -> String {
    let text = readme();
    let below = text
        .split_once(heading)
        .unwrap_or_else(|| panic!("README.md has no `{heading}`"))
        .1;
    let block = below.split_once("```sh\n").expect("a shell block follows").1;
    block.split_once("```").expect("a block ends").0.to_owned()
}

#[tokio::test]
async fn the_newcomers_commands_show_a_reminder() {
    let node = Home::new().start().await;
    let script = shell_block("### See a reminder").replace(ADDRESS, &format!("127.0.0.1:{}", node.home.port));
    let mut shell = Command::new("sh");
    shell
        .args(["-euc", &script])
        .current_dir(node.home.folder())
        .stdin(Stdio::null());

    let ended = tokio::task::spawn_blocking(move || shell.output())
        .await
        .expect("waiting does not panic")
        .expect("there is a shell");

    let said = String::from_utf8_lossy(&ended.stdout);
    assert!(
        ended.status.success(),
        "{said}\n{}",
        String::from_utf8_lossy(&ended.stderr)
    );
    assert!(said.contains("Subject: Reminder: Tea"), "{said}");
}
