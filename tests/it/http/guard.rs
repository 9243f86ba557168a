//! Who may call, and what everybody may ask.

use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use carillon::clock::Clock;
use serde_json::json;

use super::Edge;
use super::event;
use super::local;

const GUARDED: [(&str, &str); 14] = [
    ("GET", "/"),
    ("GET", "/outbox"),
    ("GET", "/v1/owners/anna"),
    ("PUT", "/v1/owners/anna"),
    ("GET", "/v1/sources/demo/events/tea?owner=anna"),
    ("PUT", "/v1/sources/demo/events/tea?owner=anna"),
    ("DELETE", "/v1/sources/demo/events/tea"),
    ("GET", "/v1/sources/demo/events/tea/triggers?owner=anna"),
    ("POST", "/v1/sources/demo/changes"),
    ("GET", "/v1/history"),
    ("GET", "/v1/deliveries/00000000000000000000000000000000"),
    ("GET", "/v1/outbox"),
    ("POST", "/-/reload"),
    ("HEAD", "/v1/history"),
];

pub async fn with_token() -> (Edge, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    std::fs::write(&path, "t0ken\n").unwrap();
    let edge = Edge::with(&[("CARILLON__HTTP__TOKEN_FILE", path.to_str().unwrap())]).await;
    (edge, folder)
}

#[tokio::test]
async fn the_token_protects_everything_but_the_probes() {
    let (edge, _folder) = with_token().await;
    for (method, path) in GUARDED {
        let reply = edge.send(local(method, path).body(Body::empty()).unwrap()).await;
        assert_eq!(reply.status, 401, "{method} {path}");
        assert!(reply.headers.contains_key("www-authenticate"));
        let request = local(method, path).header("authorization", "Bearer t0ken");
        let reply = edge.send(request.body(Body::empty()).unwrap()).await;
        assert_ne!(reply.status, 401, "{method} {path}");
    }
    for path in ["/livez", "/readyz", "/metrics"] {
        assert_eq!(edge.get(path).await.status, 200, "{path}");
    }
}

/// What the paths of probes answer under that host name.
async fn probed(edge: &Edge, peer: &str, host: &str, token: Option<&str>) -> [u16; 4] {
    let mut statuses = Vec::new();
    for path in ["/metrics", "/readyz?verbose", "/readyz", "/livez"] {
        let mut request = Request::builder().uri(path).header("host", host);
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let peer = carillon::listen::Peer(peer.parse().unwrap());
        let request = request.extension(peer).body(Body::empty()).unwrap();
        statuses.push(edge.send(request).await.status.as_u16());
    }
    statuses.try_into().unwrap()
}

#[tokio::test]
async fn metrics_and_verbose_readiness_answer_under_the_configured_names() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    std::fs::write(&path, "t0ken\n").unwrap();
    let edge = Edge::with(&[
        ("CARILLON__HTTP__TOKEN_FILE", path.to_str().unwrap()),
        ("CARILLON__HTTP__PROBE_HOSTS", "node1.internal,10.1.0.5"),
    ])
    .await;
    let (here, elsewhere) = ("127.0.0.1", "192.0.2.7");
    for host in ["node1.internal:8085", "Node1.Internal", "10.1.0.5:8085"] {
        assert_eq!(probed(&edge, elsewhere, host, None).await, [200; 4], "{host}");
    }
    for host in ["localhost:8085", "127.0.0.1:8085", "[::1]:8085"] {
        assert_eq!(probed(&edge, here, host, None).await, [200; 4], "{host}");
        // Anybody can write this header.
        assert_eq!(
            probed(&edge, elsewhere, host, None).await,
            [403, 403, 200, 200],
            "{host}"
        );
    }
    let public = "reminders.example.org";
    // As through a proxy on this machine.
    assert_eq!(probed(&edge, here, public, None).await, [403, 403, 200, 200]);
    assert_eq!(probed(&edge, elsewhere, public, Some("t0ken")).await, [200; 4]);
    assert_eq!(
        probed(&edge, elsewhere, public, Some("wrong")).await,
        [401, 401, 200, 200]
    );
}

#[tokio::test]
async fn without_a_token_nobody_from_elsewhere_gets_in() {
    let edge = Edge::open().await;
    for (method, path) in GUARDED {
        let rebound = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "rebound.example:8085");
        assert_eq!(
            edge.send(rebound.body(Body::empty()).unwrap()).await.status,
            403,
            "{method} {path}"
        );
        let foreign = local(method, path).header("origin", "https://evil.example");
        assert_eq!(
            edge.send(foreign.body(Body::empty()).unwrap()).await.status,
            403,
            "{method} {path}"
        );
    }
}

#[tokio::test]
async fn every_error_is_a_problem() {
    let edge = Edge::open().await;
    edge.get("/v2/anything").await.problem(404);
    let reply = edge
        .send(local("PATCH", "/v1/owners/anna").body(Body::empty()).unwrap())
        .await;
    reply.problem(405);
    assert!(reply.headers["allow"].to_str().unwrap().contains("PUT"));
    edge.get("/v1/history?limit=0").await.problem(400);
    edge.get("/v1/history?limit=501").await.problem(400);
    edge.get("/v1/history?outcome=lost").await.problem(400);
    edge.get("/v1/history?since=yesterday").await.problem(400);
    edge.get("/v1/history?cursor=made-up").await.problem(400);
    edge.get("/v1/history?ownr=anna").await.problem(400);
    edge.get("/v1/deliveries/xyz").await.problem(400);
    edge.get("/v1/deliveries/00000000000000000000000000000000")
        .await
        .problem(404);
}

#[tokio::test]
async fn one_owner_never_sees_the_event_of_another() {
    let edge = Edge::with_anna().await;
    edge.put_json("/v1/owners/bert", &json!({ "email": "bert@example.org" }))
        .await;
    edge.put_event(
        "/v1/sources/demo/events/tea?owner=anna",
        event("tea", "103000", "Tea"),
    )
    .await;
    edge.get("/v1/sources/demo/events/tea?owner=bert")
        .await
        .problem(404);
    edge.get("/v1/sources/demo/events/tea/triggers?owner=bert")
        .await
        .problem(404);
    assert_eq!(
        edge.delete("/v1/sources/demo/events/tea?owner=bert").await.json()["withdrawn"],
        0
    );
    assert_eq!(
        edge.get("/v1/sources/demo/events/tea?owner=anna").await.status,
        200
    );
}

#[tokio::test]
async fn a_refused_reload_says_why() {
    let edge = Edge::open().await;
    let problem = edge
        .send(local("POST", "/-/reload").body(Body::empty()).unwrap())
        .await
        .problem(422);
    let complaint = problem["errors"][0]["detail"].as_str().unwrap();
    assert_eq!(
        complaint,
        "worker.period = `0s` (in carillon.toml): must be more than 0"
    );
}

#[tokio::test]
async fn a_node_that_drains_or_is_stuck_says_so() {
    let edge = Edge::open().await;
    let ready = edge.get("/readyz?verbose").await;
    assert_eq!(
        (ready.status.as_u16(), ready.text.as_str()),
        (200, "[+] store: ok\nready\n")
    );
    edge.ready
        .beat("planner", Duration::from_secs(1), Duration::from_secs(5));
    assert_eq!(edge.get("/livez").await.status, 200);
    edge.hand.clock.advance(Duration::from_mins(1));
    let live = edge.get("/livez").await;
    assert_eq!(
        (live.status.as_u16(), live.text.as_str()),
        (503, "stuck: planner\n")
    );
    edge.ready.drain();
    edge.ready.store_wrote(edge.hand.clock.elapsed());
    let ready = edge.get("/readyz").await;
    assert_eq!(
        (ready.status.as_u16(), ready.text.as_str()),
        (503, "[-] draining: shutting down\nnot ready\n")
    );
}

#[tokio::test]
async fn changes_are_counted_by_source() {
    let edge = Edge::with_anna().await;
    edge.put_event(
        "/v1/sources/demo/events/tea?owner=anna",
        event("tea", "103000", "Tea"),
    )
    .await;
    let metrics = edge.get("/metrics").await;
    assert!(
        metrics.headers["content-type"]
            .to_str()
            .unwrap()
            .starts_with("text/plain; version=0.0.4")
    );
    assert!(
        metrics
            .text
            .contains(r#"carillon_changes_total{result="applied",source="demo"} 1"#)
    );
}
