//! `carillon alarms`, as somebody types it.

use std::process::ExitStatus;
use std::process::Output;
use std::process::Stdio;

use serde_json::Value;
use serde_json::json;

use crate::alarms::Program;
use crate::alarms::start;
use crate::harness::Guarded;
use crate::harness::eventually;
use crate::harness::hook::Hook;
use crate::harness::node::Home;
use crate::harness::node::Node;

/// A document that no reader and writer of JSON would leave as it is.
const PAYLOAD: &str = r#"{"b":1.0,  "a":2,"a":3,"z":12345678901234567890123}"#;

/// Runs the command for the owner of a program.
async fn run(program: &Program, arguments: &[&str]) -> Output {
    let mut all = vec!["alarms", "--owner", &program.owner];
    all.extend(arguments);
    let mut command = program.node.home.command(&all);
    let ended = tokio::task::spawn_blocking(move || command.output());
    ended
        .await
        .expect("waiting does not panic")
        .expect("the binary is there")
}

/// What a command printed that must succeed.
async fn said(program: &Program, arguments: &[&str]) -> String {
    let ended = run(program, arguments).await;
    let said = String::from_utf8_lossy(&ended.stdout).into_owned();
    assert!(ended.status.success(), "{said}{ended:?}");
    said
}

#[tokio::test]
async fn alarms_are_asked_for_shown_and_called_off_from_a_shell() {
    let hook = Hook::start([]).await;
    let node = start(Home::new()).await;
    let program = Program::new(std::rc::Rc::new(node), "anna").await;
    let target = hook.url();
    let add = ["add", "--target", &target, "--payload", PAYLOAD, "--json"];
    let created = said(
        &program,
        &[&add[..], &["--delay", "500ms", "--label", "Tea\u{1b}[2J"]].concat(),
    )
    .await;
    let created: Value = serde_json::from_str(&created).expect("JSON");
    assert_eq!(
        (&created["status"], &created["created_via"]),
        (&json!("active"), &json!("cli"))
    );
    let later = said(&program, &[&add[..], &["--when", "in 2 hours"]].concat()).await;
    let later: Value = serde_json::from_str(&later).expect("JSON");
    let (first, second) = (
        created["id"].as_str().expect("an id"),
        later["id"].as_str().expect("an id"),
    );
    program.status(first, "fired").await;
    let body = &hook.calls()[0].body;
    assert!(body.contains(&format!(r#""payload":{PAYLOAD}"#)), "{body}");

    let list = said(&program, &["list"]).await;
    assert_eq!(list.lines().count(), 3, "{list}");
    assert!(
        list.starts_with("ID ") && list.contains(first) && list.contains("fired"),
        "{list}"
    );
    assert!(!list.contains('\u{1b}'), "{list:?}");
    assert!(said(&program, &["show", second]).await.contains("next_fire_at"));
    assert!(said(&program, &["cancel", second]).await.contains("cancelled"));
    assert!(said(&program, &["history"]).await.contains("ok"));
    said(&program, &["retry", first]).await;
    hook.until(2).await;
    let stats = said(&program, &["stats", "--json"]).await;
    let stats: Value = serde_json::from_str(&stats).expect("JSON");
    assert_eq!((&stats["total"], &stats["cancelled"]), (&json!(2), &json!(1)));

    let refused = run(&program, &["add", "--delay", "soon", "--target", &target]).await;
    assert_eq!(refused.status.code(), Some(1));
    let complaint = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        complaint.contains("422") && complaint.contains("soon"),
        "{complaint}"
    );
    let unknown = run(&program, &["show", "none"]).await;
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("404"));
}

/// What a watch has printed so far.
fn lines(path: &std::path::Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}

/// The end of a command that prints to nobody.
async fn whose_reader_is_gone(node: &Node, arguments: &[&str]) -> ExitStatus {
    let mut command = node.home.command(arguments);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary runs");
    drop(child.stdout.take());
    eventually("the end of a command", async || {
        child.try_wait().expect("it is a child")
    })
    .await
}

#[tokio::test]
async fn a_watch_goes_on_where_it_was_when_the_node_is_back() {
    let mut node = start(Home::new()).await;
    let owner = json!({ "email": "anna@example.org" }).to_string();
    node.put("/v1/owners/anna", "application/json", owner).await.ok();
    let body = json!({ "owner": "anna", "delay": "2h", "channel": "email", "label": "Tea" }).to_string();
    node.post("/v1/alarms", "application/json", body.clone())
        .await
        .ok();
    let path = node.home.folder().join("watched");
    let file = std::fs::File::create(&path).expect("the folder is ours");
    let arguments = ["alarms", "--owner", "anna", "--json", "watch", "--after", "0"];
    let mut command = node.home.command(&arguments);
    let _watch = Guarded::spawn(command.stdout(file).stderr(Stdio::null()));
    eventually("the first change", async || {
        (lines(&path).len() == 1).then_some(())
    })
    .await;

    node.kill();
    node.start_again().await;
    node.post("/v1/alarms", "application/json", body).await.ok();

    eventually("the second change", async || {
        (lines(&path).len() == 2).then_some(())
    })
    .await;
    let numbers: Vec<Value> = lines(&path).into_iter().map(|line| line["id"].clone()).collect();
    assert_eq!(numbers, [json!(1), json!(2)]);
    assert_eq!(whose_reader_is_gone(&node, &arguments).await.code(), Some(0));
    let unknown = node
        .home
        .command(&["alarms", "--owner", "nobody", "watch"])
        .output();
    let unknown = unknown.expect("the binary is there");
    assert_eq!(unknown.status.code(), Some(1));
    assert!(
        String::from_utf8_lossy(&unknown.stderr).contains("nobody"),
        "{unknown:?}"
    );
}
