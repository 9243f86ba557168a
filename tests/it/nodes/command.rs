//! `carillon cluster`, as an operator types it.

use std::fs;
use std::process::Output;

use serde_json::Value;

use super::Scene;
use super::home;
use crate::harness::calendar::Calendar;
use crate::harness::client::client;
use crate::harness::eventually;
use crate::harness::free_port;
use crate::harness::node::Home;
use crate::harness::postgres::Postgres;
use crate::harness::whole_second_in;

/// Runs the binary with the settings of a home.
async fn run(home: &Home, arguments: &[&str]) -> Output {
    let mut command = home.command(arguments);
    let ended = tokio::task::spawn_blocking(move || command.output());
    ended.await.unwrap().unwrap()
}

/// What a command printed that must succeed.
fn said(ended: &Output) -> String {
    let said = String::from_utf8_lossy(&ended.stdout).into_owned();
    assert!(ended.status.success(), "{said}{ended:?}");
    said
}

/// What a command complained of that must fail, in so many words.
fn complaint(ended: &Output) -> String {
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    assert!(ended.stdout.is_empty(), "{ended:?}");
    String::from_utf8_lossy(&ended.stderr).into_owned()
}

#[tokio::test]
async fn an_operator_sees_who_is_there_and_strikes_off_who_is_gone_for_good() {
    let mut scene = Scene::of(3).await;
    let leader = scene.settled(3).await;
    let gone = (leader + 1) % 3;
    let asked = (leader + 2) % 3;
    let cluster = scene.nodes[gone].get("/v1/cluster").await.ok();
    let number = scene.id_of(gone).await;
    let id = number.to_string();

    let table = said(&run(&scene.nodes[asked].home, &["cluster", "status"]).await);
    let rows: Vec<&str> = table.lines().skip(2).collect();
    assert_eq!(rows.len(), 3, "{table}");
    assert!(rows.iter().all(|row| row.contains("  yes  ")), "{table}");
    assert_eq!(table.matches("  leader  ").count(), 1, "{table}");
    assert!(table.contains(cluster["cluster"].as_str().unwrap()), "{table}");

    let refused = complaint(&run(&scene.nodes[asked].home, &["cluster", "remove", &id]).await);
    assert!(
        refused.contains(&format!("node {id} runs: stop it first")),
        "{refused}"
    );
    let unknown = complaint(&run(&scene.nodes[asked].home, &["cluster", "remove", "4711"]).await);
    assert!(
        unknown.contains("there is no node 4711: the members are"),
        "{unknown}"
    );
    assert!(unknown.contains(&id), "{unknown}");

    scene.nodes[gone].kill();
    eventually("the node to be seen dead", async || {
        let table = said(&run(&scene.nodes[asked].home, &["cluster", "status"]).await);
        table.contains("  no, ").then_some(())
    })
    .await;
    // From anywhere: the node is named, not the one of the settings.
    let url = scene.nodes[asked].url("");
    let elsewhere = Home::new();
    let removed = said(&run(&elsewhere, &["cluster", "remove", &id, "--url", &url]).await);
    assert_eq!(removed, format!("node {id} is no member any more\n"));

    let json = said(&run(&elsewhere, &["cluster", "--url", &url, "status", "--json"]).await);
    let cluster: Value = serde_json::from_str(&json).unwrap();
    let members = cluster["members"].as_array().unwrap();
    assert_eq!(members.len(), 2, "{json}");
    assert!(members.iter().all(|member| member["id"] != number), "{json}");
}

#[tokio::test]
async fn who_cannot_be_asked_is_told_why() {
    let home = Home::new();
    let silent = complaint(&run(&home, &["cluster", "status"]).await);
    let url = format!("http://127.0.0.1:{}", home.port);
    assert!(silent.contains(&format!("no node answers at {url}")), "{silent}");
    assert!(silent.contains("refused") && silent.contains("--url"), "{silent}");

    let file = home.folder().join("token").display().to_string();
    let with_token = ["cluster", "status", "--token-file", &file];
    let missing = complaint(&run(&home, &with_token).await);
    assert!(
        missing.contains(&file) && missing.contains("who may read it"),
        "{missing}"
    );
    fs::write(&file, "\n").unwrap();
    let empty = complaint(&run(&home, &with_token).await);
    assert!(empty.contains(&file) && empty.contains("is empty"), "{empty}");
    let password = "http://anna:t0ps3cret@127.0.0.1:1";
    let refused = complaint(&run(&home, &["cluster", "status", "--url", password]).await);
    assert!(
        refused.contains("password") && !refused.contains("t0ps3cret"),
        "{refused}"
    );

    let alone = home.start().await;
    let told = complaint(&run(&alone.home, &["cluster", "status"]).await);
    assert!(told.contains("this node is alone"), "{told}");
}

#[tokio::test]
async fn a_node_that_asks_for_a_token_is_shown_it() {
    let postgres = Postgres::start().await;
    let database = postgres.database().await;
    let home = home(&database, free_port());
    let file = home.folder().join("token");
    fs::write(&file, "t0ps3cret\n").unwrap();
    let file = file.display().to_string();
    let mut node = home.with("HTTP__TOKEN_FILE", &file).launch();
    node.ready().await;
    let url = node.url("/");
    let elsewhere = Home::new();

    let refused = complaint(&run(&elsewhere, &["cluster", "status", "--url", &url]).await);
    assert!(
        refused.contains("refuses") && refused.contains("--token-file"),
        "{refused}"
    );
    let status = ["cluster", "status", "--url", &url, "--token-file", &file];
    assert!(said(&run(&elsewhere, &status).await).contains("  leader  "));
    assert!(said(&run(&node.home, &["cluster", "status"]).await).contains("  leader  "));

    fs::write(elsewhere.folder().join("wrong"), "guess").unwrap();
    let wrong = ["cluster", "status", "--url", &url, "--token-file", "wrong"];
    let wrong = complaint(&run(&elsewhere, &wrong).await);
    assert!(
        wrong.contains("refuses") && !wrong.contains("t0ps3cret"),
        "{wrong}"
    );
}

#[tokio::test]
async fn where_the_promises_of_most_are_lost_a_new_cluster_is_founded() {
    let mut scene = Scene::of(1).await;
    let refused = complaint(&run(&scene.nodes[0].home, &["cluster", "dissolve"]).await);
    assert!(
        refused.contains("these nodes run: ") && refused.contains("stop all"),
        "{refused}"
    );
    assert!(scene.nodes[0].terminate().await.success());
    let data = scene.nodes[0].home.folder().join("cluster");
    fs::remove_dir_all(&data).unwrap();

    // Under a new number it is let in by nobody: its former self had the only vote.
    scene.nodes[0].launch_again();
    eventually("a word about what to do", async || {
        let url = scene.nodes[0].url("/readyz?verbose");
        let readiness = client().get(url).send().await.ok()?.text().await.ok()?;
        readiness.contains("carillon cluster dissolve").then_some(())
    })
    .await;
    assert!(scene.nodes[0].terminate().await.success());
    fs::remove_dir_all(&data).unwrap();
    let founded = said(&run(&scene.nodes[0].home, &["cluster", "dissolve"]).await);
    assert_eq!(founded, "the next node that starts founds a new cluster\n");

    scene.nodes[0].start_again().await;
    scene.settled(1).await;
    let due = whole_second_in(3);
    let event = Calendar::far_away("e@example.org").alarm_at(due);
    scene.nodes[0].put_event("e", &event).await.ok();
    scene.sink.mails(1).await[0].assert_on_time(due);
}
