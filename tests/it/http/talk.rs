//! Conversations: who may talk, and for how long.

use std::time::Duration;

use carillon::http::Limits;
use carillon::store::token::Scope;
use serde_json::Value;
use serde_json::json;
use tokio::io::AsyncReadExt;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::Edge;
use super::ending::LIMITS;
use super::ending::Serving;
use crate::harness::PATIENCE;
use crate::harness::eventually;
use crate::harness::talker::Talker;

/// With room for some.
const ROOMY: Limits = Limits {
    connections: 10,
    connections_per_peer: 10,
    read_timeout: Duration::from_hours(1),
    ..LIMITS
};

async fn serving() -> Serving {
    let edge = Edge::with_anna().await;
    let owner = json!({ "email": "bert@example.org", "time_zone": "Europe/Berlin" });
    assert_eq!(edge.put_json("/v1/owners/bert", &owner).await.status, 201);
    Serving::before(edge, ROOMY).await
}

impl Serving {
    /// A conversation of a caller who presents that.
    async fn talk(&self, token: &str) -> Talker {
        let talker = Talker::with(self.address.port(), &[("authorization", token)]).await;
        talker.expect("it is let in")
    }
}

fn status(answer: &Value) -> &Value {
    &answer["error"]["status"]
}

#[tokio::test]
async fn a_token_opens_in_a_conversation_what_it_opens_otherwise() {
    let scene = serving().await;
    let token = scene.edge.token_of_anna(Scope::Read).await;
    let unknown = Talker::with(scene.address.port(), &[("authorization", "Bearer x")]).await;
    assert_eq!(unknown.err(), Some(401));
    let mut talker = scene.talk(&token).await;
    let none = "ffffffffffffffffffffffffffffffff";

    let own = talker.call(1, "count", json!({})).await;
    assert_eq!(own["result"]["count"], 0, "{own}");
    for call in ["list", "count", "history", "stats", "failed", "subscribe"] {
        let foreign = talker.call(2, call, json!({ "owner": "bert" })).await;
        assert_eq!(status(&foreign), 404, "{call}: {foreign}");
    }
    let foreign = talker
        .call(3, "get", json!({ "owner": "bert", "id": none }))
        .await;
    assert_eq!(status(&foreign), 404, "{foreign}");
    for call in ["cancel", "complete", "fail"] {
        let forbidden = talker.call(4, call, json!({ "id": none })).await;
        assert_eq!(status(&forbidden), 403, "{call}: {forbidden}");
    }
    let mut writer = scene.talk(&scene.edge.token_of_anna(Scope::Write).await).await;
    for call in ["cancel", "complete", "fail"] {
        let nothing = writer.call(4, call, json!({ "id": none })).await;
        assert_eq!(status(&nothing), 404, "{call}: {nothing}");
    }
    scene.end().await;
}

#[tokio::test]
async fn a_token_that_is_taken_back_opens_nothing_more_in_a_conversation() {
    let scene = serving().await;
    let token = scene.edge.token_of_anna(Scope::Read).await;
    let mut talker = scene.talk(&token).await;
    let subscribed = talker.call(1, "subscribe", json!({ "after": 0 })).await;
    assert_eq!(subscribed["result"]["after"], 0, "{subscribed}");

    scene.edge.revoke(Scope::Read).await;

    for call in ["list", "subscribe"] {
        let refused = talker.call(2, call, json!({})).await;
        assert_eq!(status(&refused), 401, "{call}: {refused}");
    }
    scene.edge.hand.clock.advance(Duration::from_secs(10));
    assert_eq!(talker.next().await, Err(1008));
    scene.end().await;
}

#[tokio::test]
async fn a_caller_who_answers_no_ping_is_left() {
    let scene = serving().await;
    let mut stream = TcpStream::connect(scene.address).await.unwrap();
    let asks = b"GET /v1/ws HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
                 sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    stream.write_all(asks).await.unwrap();
    let mut said = Vec::new();
    let end = eventually("the end", async || {
        scene.edge.hand.clock.advance(Duration::from_secs(10));
        // What comes within a moment of it.
        let part = tokio::time::timeout(Duration::from_millis(50), stream.read_buf(&mut said)).await;
        part.ok()?.ok().filter(|read| *read == 0)
    });
    assert_eq!(end.await, 0);
    let pings = said.windows(2).filter(|frame| frame == b"\x89\x00").count();
    assert_eq!(pings, 3);
    scene.end().await;
}

#[tokio::test]
async fn the_port_waits_for_conversations() {
    let scene = serving().await;
    let mut talker = Talker::open(scene.address.port()).await;
    // The conversation goes on here, since nobody tells it that the node stops.
    scene.shutdown.drain();
    for id in 0..10 {
        let count = talker.call(id, "count", json!({ "owner": "anna" })).await;
        assert_eq!(count["result"]["count"], 0, "{count}");
    }
    assert!(!scene.answering.is_finished());

    talker.close().await;

    let ended = tokio::time::timeout(PATIENCE, scene.answering).await;
    ended.expect("it ends").unwrap();
}
