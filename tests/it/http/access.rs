//! What a token opens. The document of the API says which calls there are, so that none is forgotten: each is tried by
//! everybody who must not get anywhere with it.

use std::time::Duration;

use axum::body::Body;
use carillon::store::token::Issued;
use carillon::store::token::NewToken;
use carillon::store::token::Scope;
use carillon::token::access;
use carillon::trigger::OwnerId;
use chrono::TimeDelta;
use secrecy::ExposeSecret;
use serde_json::Value;
use serde_json::json;

use super::Edge;
use super::Reply;
use super::event;
use super::guard::with_token;
use super::local;
use crate::openapi::Document;
use crate::openapi::Operation;
use crate::openapi::Values;

/// Calls about nobody's things, which whoever may read may make.
const OF_NOBODY: [&str; 4] = ["GET /", "POST /v1/parse-time", TALK, AGENTS];

/// A conversation that nobody opens here: whoever may is told how.
const TALK: &str = "GET /v1/ws";

/// Messages of agents: what each opens is what the request opens that it stands for.
const AGENTS: &str = "POST /mcp";

/// Calls that change nothing though they are no GET.
const ASKING: [&str; 2] = ["POST /v1/parse-time", AGENTS];

/// An id that nothing has.
const NOTHING: &str = "ffffffffffffffffffffffffffffffff";

/// A node on which `anna` has an event that reminded her and an alarm that will fire, and `bert` has nothing.
struct Town {
    edge: Edge,
    document: Document,
    /// Where everything of anna's is.
    annas: Values,
    _folder: tempfile::TempDir,
}

impl Town {
    async fn new() -> Self {
        let (mut edge, folder) = with_token().await;
        let document = Document::read(&edge.get("/openapi.json").await.text);
        for owner in ["anna", "bert"] {
            let body = json!({ "email": format!("{owner}@example.org"), "time_zone": "Europe/Berlin" });
            let path = format!("/v1/owners/{owner}");
            assert_eq!(
                send(&edge, "t0ken", ("PUT", &path), body.to_string())
                    .await
                    .status,
                201
            );
        }
        let tea = "/v1/sources/demo/events/tea?owner=anna";
        let put = send(&edge, "t0ken", ("PUT", tea), event("tea", "103000", "Tea")).await;
        assert_eq!(put.json()["planned"], 1, "{}", put.text);
        let alarm = json!({ "owner": "anna", "delay": "30d", "channel": "email", "label": "Rent" });
        let alarm = send(&edge, "t0ken", ("POST", "/v1/alarms"), alarm.to_string()).await;
        assert_eq!(alarm.status, 201, "{}", alarm.text);
        let alarm = alarm.json()["id"].as_str().unwrap().to_owned();
        edge.hand.advance(TimeDelta::hours(2)).await;
        let history = send(&edge, "t0ken", ("GET", "/v1/history?owner=anna"), String::new()).await;
        let trigger = history.json()["items"][0]["id"].as_str().unwrap().to_owned();
        let annas = Values::from([
            ("owner", "anna".to_owned()),
            ("uid", "tea".to_owned()),
            ("event", "tea".to_owned()),
            ("alarm", alarm),
            ("trigger", trigger),
        ]);
        Self {
            edge,
            document,
            annas,
            _folder: folder,
        }
    }

    async fn token(&self, name: &str, scope: Scope, owner: Option<&str>) -> String {
        let secret = access::fresh().unwrap();
        let token = NewToken {
            hash: access::hash(secret.expose_secret()).unwrap(),
            name: name.to_owned(),
            scope,
            owner: owner.map(|owner| OwnerId(owner.to_owned())),
            lasts: Some(Duration::from_hours(1)),
        };
        let issued = self.edge.hand.store().issue_token(&token).await;
        assert_eq!(issued.unwrap(), Issued::Done);
        secret.expose_secret().to_owned()
    }

    /// The call about these things. What a path calls `id` depends on where it stands.
    async fn call(&self, operation: &Operation<'_>, things: &Values, token: &str) -> Reply {
        let mut values = things.clone();
        let id = match operation.path {
            path if path.starts_with("/v1/owners/") => "owner",
            path if path.starts_with("/v1/alarms/") => "alarm",
            _ => "trigger",
        };
        if let Some(id) = things
            .get(id)
            .filter(|_| !operation.path.starts_with("/v1/cluster"))
        {
            values.insert("id", id.clone());
        }
        let call = operation.call(&values);
        let mut request = local(&call.method, &call.path).header("authorization", format!("Bearer {token}"));
        for (name, value) in &call.headers {
            request = request.header(name, value);
        }
        self.edge.send(request.body(call.body.into()).unwrap()).await
    }

    /// Those that ask for a token.
    fn guarded(&self) -> Vec<Operation<'_>> {
        let operations = self.document.operations().into_iter();
        operations
            .filter(|operation| operation.scope().is_some())
            .collect()
    }

    /// All of anna's as an administrator sees it.
    async fn state(&self) -> Vec<Value> {
        let mut state = Vec::new();
        for path in [
            "/v1/owners/anna",
            "/v1/sources/demo/events/tea?owner=anna",
            "/v1/sources/demo/events/tea/triggers?owner=anna",
            "/v1/owners/anna/events/tea/alarms",
            "/v1/history?owner=anna",
            "/v1/outbox?owner=anna",
            "/v1/alarms?owner=anna",
            "/v1/alarms/stats?owner=anna",
        ] {
            let reply = send(&self.edge, "t0ken", ("GET", path), String::new()).await;
            assert_eq!(reply.status, 200, "{path}: {}", reply.text);
            state.push(reply.json());
        }
        state
    }
}

async fn send(edge: &Edge, token: &str, (method, path): (&str, &str), body: String) -> Reply {
    let request = local(method, path).header("authorization", format!("Bearer {token}"));
    edge.send(request.body(Body::from(body)).unwrap()).await
}

#[tokio::test]
async fn a_token_of_another_owner_gets_nowhere_and_learns_nothing() {
    let town = Town::new().await;
    let before = town.state().await;
    let nowhere = Values::from([
        ("owner", "nobody".to_owned()),
        ("uid", "nothing".to_owned()),
        ("event", "nothing".to_owned()),
        ("key", "nothing".to_owned()),
        ("alarm", NOTHING.to_owned()),
        ("trigger", NOTHING.to_owned()),
    ]);
    for scope in [Scope::Read, Scope::Write] {
        let berts = town.token(scope.as_str(), scope, Some("bert")).await;
        for operation in town.guarded() {
            let name = operation.name();
            if OF_NOBODY.contains(&name.as_str()) {
                continue;
            }
            let found = town.call(&operation, &town.annas, &berts).await;
            // Lists that have no owner named are bert's own; all else is refused.
            assert!(
                matches!(found.status.as_u16(), 403 | 404),
                "{name}: {}",
                found.text
            );
            let missing = town.call(&operation, &nowhere, &berts).await;
            assert_eq!(found.status, missing.status, "{name} tells what there is");
            let renamed = nowhere.iter().fold(found.text.clone(), |text, (name, value)| {
                town.annas
                    .get(name)
                    .map_or(text.clone(), |annas| text.replace(annas, value))
            });
            assert_eq!(renamed, missing.text, "{name} tells what there is");
        }
    }
    assert_eq!(town.state().await, before);
}

#[tokio::test]
async fn what_a_bound_token_leaves_unsaid_is_its_own_owner() {
    let town = Town::new().await;
    let before = town.state().await;
    let berts = town.token("bert", Scope::Write, Some("bert")).await;
    let annas = town.token("anna", Scope::Write, Some("anna")).await;
    let mut unsaid = town.annas.clone();
    unsaid.insert("owner", String::new());
    let mut own = 0;
    for operation in town.guarded() {
        let name = operation.name();
        if operation.path.starts_with("/v1/owners/") || OF_NOBODY.contains(&name.as_str()) {
            continue;
        }
        let theirs = town.call(&operation, &unsaid, &berts).await;
        let told = theirs.text.contains("anna") || theirs.text.contains("Rent");
        assert!(!told, "{name}: {}", theirs.text);
        if operation.scope() == Some("admin") {
            assert_eq!(theirs.status, 403, "{name}");
            continue;
        }
        assert!(
            matches!(theirs.status.as_u16(), 200 | 201 | 404),
            "{name}: {}",
            theirs.text
        );
        if operation.method == "GET" {
            let hers = town.call(&operation, &unsaid, &annas).await;
            assert_eq!(hers.status, 200, "{name}: {}", hers.text);
            own += 1;
        }
    }
    assert!(own >= 10, "{own} calls were of anna's own");
    assert_eq!(town.state().await, before);
    let listed = send(&town.edge, &berts, ("GET", "/v1/alarms"), String::new()).await;
    assert_eq!(listed.json()["items"][0]["owner"], "bert", "{}", listed.text);
}

#[tokio::test]
async fn a_token_opens_what_its_scope_says_and_no_more() {
    let town = Town::new().await;
    let read = town.token("read", Scope::Read, Some("anna")).await;
    let write = town.token("write", Scope::Write, None).await;
    let admin = town.token("admin", Scope::Admin, None).await;
    let mut operations = town.guarded();
    // What is changed or deleted was read before.
    operations.sort_by_key(|operation| operation.method != "GET");
    for operation in operations {
        let name = operation.name();
        let is_reading = operation.method == "GET" || ASKING.contains(&name.as_str());
        let needed = operation.scope().unwrap();
        assert!(!is_reading || needed != "write", "{name}");
        assert!(is_reading || needed != "read", "{name}");
        let may = |status: u16| !matches!(status, 401 | 403);
        for (token, scope) in [(&read, "read"), (&write, "write"), (&admin, "admin")] {
            let reply = town.call(&operation, &town.annas, token).await;
            let status = reply.status.as_u16();
            let opens = match needed {
                "read" => true,
                "write" => scope != "read",
                _ => scope == "admin",
            };
            assert_eq!(may(status), opens, "{name} with {scope}: {}", reply.text);
            if !opens {
                let problem = reply.problem(403);
                assert!(problem["detail"].as_str().unwrap().contains(needed), "{problem}");
            }
            // What is her own is there: else nothing above would mean anything.
            let is_there = name != TALK && opens && needed != "admin" && operation.method == "GET";
            assert!(!is_there || status == 200, "{name} with {scope}: {}", reply.text);
        }
    }
}

#[tokio::test]
async fn what_has_expired_was_revoked_or_never_made_opens_nothing() {
    let town = Town::new().await;
    let lasting = town.token("lasting", Scope::Admin, None).await;
    let revoked = town.token("revoked", Scope::Admin, None).await;
    let path = ("GET", "/v1/owners/anna");
    assert_eq!(send(&town.edge, &revoked, path, String::new()).await.status, 200);
    assert!(town.edge.hand.store().revoke_token("revoked").await.unwrap());
    town.edge.hand.clock.advance(Duration::from_secs(3_599));
    assert_eq!(send(&town.edge, &lasting, path, String::new()).await.status, 200);
    town.edge.hand.clock.advance(Duration::from_secs(1));
    let never = access::fresh().unwrap().expose_secret().to_owned();
    let operations = town.guarded();
    assert!(operations.len() > 25);
    for token in [&lasting, &revoked, &never, "t0ke", "carillon_", "", "\u{fc}"] {
        for operation in &operations {
            let reply = town.call(operation, &town.annas, token).await;
            reply.problem(401);
            assert!(reply.headers.contains_key("www-authenticate"));
            assert!(token.is_empty() || !reply.text.contains(token), "{}", reply.text);
        }
    }
    let metrics = town.edge.get("/metrics").await.text;
    for (reason, times) in [("expired", 1), ("unknown", 5), ("missing", 1)] {
        let line = format!(
            "carillon_access_refused_total{{reason=\"{reason}\"}} {}",
            times * operations.len()
        );
        assert!(metrics.contains(&line), "{line}: {metrics}");
    }
    for token in [&lasting, &revoked, &never] {
        assert!(!metrics.contains(token.as_str()));
    }
}

#[tokio::test]
async fn when_a_token_was_used_is_known_to_the_minute() {
    let town = Town::new().await;
    let token = town.token("one", Scope::Read, None).await;
    let used = async || town.edge.hand.store().access_tokens().await.unwrap()[0].last_used_at;
    assert_eq!(used().await, None);
    let mut noted = Vec::new();
    for seconds in [0, 30, 30, 59] {
        town.edge.hand.clock.advance(Duration::from_secs(seconds));
        let path = ("GET", "/v1/owners/anna");
        assert_eq!(send(&town.edge, &token, path, String::new()).await.status, 200);
        noted.push(used().await.unwrap());
    }
    assert_eq!(noted[0], noted[1]);
    assert_eq!(noted[2] - noted[0], TimeDelta::minutes(1));
    assert_eq!(noted[3], noted[2]);
}

/// Where no token is asked for, one that is shown counts all the same.
#[tokio::test]
async fn on_a_node_without_a_token_a_caller_may_show_one_that_opens_less() {
    let town = Town::new().await;
    let edge = Edge::with_anna().await;
    assert_eq!(edge.get("/v1/owners/anna").await.status, 200);
    let stranger = town.token("elsewhere", Scope::Admin, None).await;
    send(&edge, &stranger, ("GET", "/v1/owners/anna"), String::new())
        .await
        .problem(401);
}

#[tokio::test]
async fn a_report_with_a_token_is_of_its_owners_deliveries_alone() {
    let town = Town::new().await;
    let berts = town.token("bert", Scope::Write, Some("bert")).await;
    let annas = town.token("anna", Scope::Write, Some("anna")).await;
    let path = format!("/v1/deliveries/{}/complete", town.annas["trigger"]);
    send(&town.edge, &berts, ("POST", &path), String::new())
        .await
        .problem(404);
    let done = send(&town.edge, &annas, ("POST", &path), String::new()).await;
    assert_eq!(done.json()["outcome"], "completed", "{}", done.text);
}

#[tokio::test]
async fn a_token_opens_for_an_agent_what_it_opens_otherwise() {
    let town = Town::new().await;
    let before = town.state().await;
    let of_anna = async |scope: Scope| town.token(scope.as_str(), scope, Some("anna")).await;
    let (read, write) = (of_anna(Scope::Read).await, of_anna(Scope::Write).await);
    let call = async |token: &str, tool: &str, arguments: Value| {
        let call = json!({
            "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": tool, "arguments": arguments },
        });
        let request = local("POST", "/mcp")
            .header("authorization", format!("Bearer {token}"))
            .header("content-type", "application/json");
        let reply = town
            .edge
            .send(request.body(Body::from(call.to_string())).unwrap())
            .await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        reply.json()["result"].clone()
    };
    let later = json!({ "delay": "1h", "channel": "email", "label": "Tea" });
    let nothing = json!({ "id": NOTHING });
    let report = json!({ "trigger_id": NOTHING });

    let own = call(&read, "alarm_list", json!({})).await;
    assert_eq!(own["structuredContent"]["items"][0]["owner"], "anna", "{own}");
    for (tool, arguments) in [
        ("alarm_schedule", &later),
        ("alarm_cancel", &nothing),
        ("alarm_complete", &report),
        ("alarm_fail", &report),
    ] {
        let refused = call(&read, tool, arguments.clone()).await;
        assert_eq!(refused["structuredContent"]["status"], 403, "{tool}: {refused}");
    }
    for token in [&read, &write] {
        let foreign = call(token, "alarm_list", json!({ "owner": "bert" })).await;
        assert_eq!(foreign["structuredContent"]["status"], 404, "{foreign}");
    }
    assert_eq!(town.state().await, before);
    let made = call(&write, "alarm_schedule", later.clone()).await;
    assert_eq!(made["structuredContent"]["created_via"], "mcp", "{made}");
    let request = local("POST", "/mcp").header("content-type", "application/json");
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    let unknown = town.edge.send(request.body(Body::from(list)).unwrap()).await;
    assert_eq!(unknown.status, 401, "{}", unknown.text);
}
