//! What a node says that cannot take part: a complaint that names the cure, when it starts or at `/readyz`.

use std::fs;
use std::net::Ipv4Addr;
use std::net::TcpListener;

use sqlx::Connection;
use sqlx::PgConnection;

use super::Scene;
use super::home;
use crate::harness::calendar::Calendar;
use crate::harness::eventually;
use crate::harness::free_port;
use crate::harness::listens;
use crate::harness::node::Home;
use crate::harness::node::Node;
use crate::harness::postgres::Postgres;
use crate::harness::whole_second_in;

#[tokio::test]
async fn a_node_that_knows_no_leader_says_so_until_it_knows_one() {
    let mut scene = Scene::of(3).await;
    for dead in [0, 1] {
        scene.nodes[dead].kill();
    }

    let complaint = said_by_readyz(&scene.nodes[2], "[-] cluster: nobody has led for").await;
    assert!(complaint.contains("more than half of the voters"), "{complaint}");

    scene.nodes[0].launch_again();
    said_by_readyz(&scene.nodes[2], "[+] cluster: ok").await;
    scene.nodes[2].ready().await;
}

#[tokio::test]
async fn a_node_whose_database_is_away_says_so_until_it_is_back() {
    let postgres = Postgres::start().await;
    let database = postgres.database().await;
    let mut node = home(&database, free_port()).start_with_owner().await;
    let mut conn = PgConnection::connect(&postgres.url("postgres")).await.unwrap();
    let name = database_name(&mut conn).await;
    let mut command = async |statement: String| {
        let statement = sqlx::AssertSqlSafe(statement);
        sqlx::raw_sql(statement).execute(&mut conn).await.unwrap();
    };

    command(format!("ALTER DATABASE {name} ALLOW_CONNECTIONS false")).await;
    command(format!(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"
    ))
    .await;

    let complaint = said_by_readyz(&node, "[-] store: has taken no write").await;
    assert!(complaint.contains("store.url"), "{complaint}");
    assert!(complaint.ends_with("not ready\n"), "{complaint}");
    assert_eq!(node.get("/livez").await.status, 200, "no reason to be restarted");

    command(format!("ALTER DATABASE {name} ALLOW_CONNECTIONS true")).await;
    node.ready().await;
    let due = whole_second_in(3);
    let event = Calendar::far_away("back@example.org").alarm_at(due);
    node.put_event("back", &event).await.ok();
}

#[tokio::test]
async fn a_start_without_its_database_ends_soon_and_says_what_is_missing() {
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let silent_port = silent.local_addr().unwrap().port();
    for (port, told) in [(free_port(), "refused"), (silent_port, "no answer within 10s")] {
        let url = format!("postgres://carillon:pa55@127.0.0.1:{port}/calendar");
        let home = home(&url, free_port());
        let mut node = home.launch();

        let status = node.ended().await;

        assert_eq!(status.code(), Some(1), "{status}");
        let said = node.home.output();
        assert!(said.contains(told) && said.contains("store.url"), "{said}");
        assert!(
            said.contains(&format!("`calendar` on 127.0.0.1:{port}")),
            "{said}"
        );
        assert!(!said.contains("pa55"), "{said}");
    }
}

/// Waits until `/readyz?verbose` has a line that begins like this, and returns all it says.
async fn said_by_readyz(node: &Node, line: &str) -> String {
    eventually(&format!("`{line}` in /readyz"), async || {
        let said = node.get("/readyz?verbose").await.body;
        let said = said.as_str()?.to_owned();
        said.lines().any(|it| it.starts_with(line)).then_some(said)
    })
    .await
}

/// The name of the only database that a test made.
async fn database_name(conn: &mut PgConnection) -> String {
    let name = "SELECT datname FROM pg_database WHERE datname LIKE 't%' AND NOT datistemplate";
    sqlx::query_scalar(name).fetch_one(conn).await.unwrap()
}

/// A home with a secret of its own for its peers.
fn home_with_secret(database: &str, secret: &str) -> Home {
    let home = home(database, free_port());
    let file = home.folder().join("secret");
    fs::write(&file, secret).unwrap();
    home.with("CLUSTER__SECRET_FILE", &file.display().to_string())
}

#[tokio::test]
async fn a_node_with_another_secret_is_not_ready_and_says_why_it_is_not_let_in() {
    let postgres = Postgres::start().await;
    let database = postgres.database().await;
    let node = home_with_secret(&database, "of this cluster").start().await;

    let stranger = home_with_secret(&database, "of another").launch();

    eventually("it to listen", async || listens(stranger.home.port).await).await;
    said_by_readyz(&stranger, "[-] cluster: no leader is known yet").await;
    eventually("the reason in its log", async || {
        let said = stranger.home.output();
        said.contains("the secret is not that of this cluster")
            .then_some(())
    })
    .await;
    assert!(
        !stranger.home.output().contains("of another"),
        "a secret is in the log"
    );
    let members = node.get("/v1/cluster").await.ok()["members"].clone();
    assert_eq!(members.as_array().map(Vec::len), Some(1), "{members}");
    assert_eq!(node.get("/readyz").await.status, 200);
}

#[tokio::test]
async fn a_node_of_another_cluster_and_a_copy_of_a_node_end_with_the_cure() {
    let postgres = Postgres::start().await;
    let (ours, theirs) = (postgres.database().await, postgres.database().await);
    let node = home(&ours, free_port()).start().await;
    let folder = node.home.folder().join("cluster");

    let copied = home(&ours, free_port());
    copy(&folder, &copied.folder().join("cluster"));
    assert!(
        said_at_the_end(copied)
            .await
            .contains("this data directory is a copy")
    );

    let shared = home(&ours, free_port()).with("CLUSTER__DATA_DIR", &folder.display().to_string());
    assert!(
        said_at_the_end(shared)
            .await
            .contains("cannot use the data directory")
    );

    // The other database has a cluster of its own.
    home(&theirs, free_port()).start().await;
    let astray = home(&theirs, free_port());
    copy(&folder, &astray.folder().join("cluster"));
    assert!(
        said_at_the_end(astray)
            .await
            .contains("the data directory belongs to the cluster")
    );
    assert_eq!(node.get("/readyz").await.status, 200);
}

/// What a node said that must not start.
async fn said_at_the_end(home: Home) -> String {
    let mut node = home.launch();
    let status = node.ended().await;
    assert_eq!(status.code(), Some(1), "{status}");
    node.home.output()
}

fn copy(from: &std::path::Path, to: &std::path::Path) {
    fs::create_dir(to).unwrap();
    for name in ["node.json", "raft.json"] {
        fs::copy(from.join(name), to.join(name)).unwrap();
    }
}

#[tokio::test]
async fn a_cluster_on_sqlite_is_refused() {
    let mut node = Home::new().with("CLUSTER__LISTEN", "127.0.0.1:8087").launch();
    let status = node.ended().await;
    assert_eq!(status.code(), Some(78), "{status}");
    let said = node.home.output();
    assert!(
        said.contains("cluster.listen = `127.0.0.1:8087` (from CARILLON__CLUSTER__LISTEN)"),
        "{said}"
    );
    assert!(said.contains("the PostgreSQL that the nodes share"), "{said}");
}
