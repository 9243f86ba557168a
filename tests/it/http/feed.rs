//! Who may follow, and for how long.

use std::time::Duration;

use axum::body::Body;
use axum::body::BodyDataStream;
use carillon::store::token::NewToken;
use carillon::store::token::Scope;
use carillon::token::access;
use carillon::trigger::OwnerId;
use futures_util::StreamExt;
use secrecy::ExposeSecret;
use serde_json::json;
use tower::ServiceExt;

use super::Edge;
use super::local;

async fn next(told: &mut BodyDataStream) -> Option<String> {
    let part = tokio::time::timeout(Duration::from_secs(30), told.next()).await;
    let part = part.expect("something is told in time")?.expect("it cannot fail");
    Some(String::from_utf8(part.to_vec()).expect("text"))
}

impl Edge {
    /// What a caller presents who may do so much with what is Anna's.
    pub async fn token_of_anna(&self, scope: Scope) -> String {
        let token = access::fresh().expect("random numbers");
        let new = NewToken {
            hash: access::hash(token.expose_secret()).expect("it is one"),
            name: scope.to_string(),
            scope,
            owner: Some(OwnerId("anna".into())),
            lasts: None,
        };
        let issued = self.hand.store().issue_token(&new).await;
        issued.expect("it is made");
        format!("Bearer {}", token.expose_secret())
    }

    /// Takes that token back.
    pub async fn revoke(&self, scope: Scope) {
        let revoked = self.hand.store().revoke_token(&scope.to_string()).await;
        assert!(revoked.expect("an answer"));
    }
}

#[tokio::test]
async fn whoever_loses_their_token_is_told_nothing_more() {
    let edge = Edge::with_anna().await;
    let token = edge.token_of_anna(Scope::Read).await;
    let alarm = json!({ "owner": "anna", "delay": "1h", "channel": "email", "label": "Tea" });
    let request = local("POST", "/v1/alarms").header("content-type", "application/json");
    let created = edge.send(request.body(alarm.to_string().into()).unwrap()).await;
    assert_eq!(created.status, 201, "{}", created.text);
    let asks = local("GET", "/v1/alarms/feed?after=0").header("authorization", &token);
    let answer = edge
        .router
        .clone()
        .oneshot(asks.body(Body::empty()).unwrap())
        .await;
    let mut told = answer.expect("it cannot fail").into_body().into_data_stream();
    assert_eq!(next(&mut told).await.as_deref(), Some("retry: 1000\nid: 0\n\n"));
    let first = next(&mut told).await.expect("it goes on");
    assert!(
        first.starts_with("id: 1\ndata: {\"id\":1,\"type\":\"created\""),
        "{first}"
    );
    let advance = || edge.hand.clock.advance(Duration::from_secs(10));
    let (heartbeat, ()) = tokio::join!(next(&mut told), async { advance() });
    assert_eq!(heartbeat.as_deref(), Some(":\n\n"));

    edge.revoke(Scope::Read).await;

    let (end, ()) = tokio::join!(next(&mut told), async { advance() });
    assert_eq!(end, None);
}

#[tokio::test]
async fn what_there_is_by_now_has_an_end() {
    let edge = Edge::with_anna().await;
    let path = "/v1/alarms/feed?owner=anna&after=0&wait=false";
    assert_eq!(edge.get(path).await.text, "retry: 1000\nid: 0\n\n");
    edge.get("/v1/alarms/feed?owner=anna&wait=maybe")
        .await
        .problem(400);
    edge.get("/v1/alarms/feed?owner=anna&since=0").await.problem(400);
    edge.get("/v1/alarms/feed").await.problem(400);
}
