//! Tokens and the document of the API, through the real binary: what an operator makes opens what it says, and what the
//! document gives as examples is taken and answered as it says.

use std::process::Output;

use carillon::clock::SystemClock;
use carillon::store::Store;
use carillon::store::sqlite::Options;
use carillon::store::sqlite::SqliteStore;
use carillon::store::token::AccessTokens;
use carillon::token::Purpose;
use carillon::token::SECRET;
use carillon::token::Tokens;
use serde_json::Value;
use serde_json::json;

use crate::alarms;
use crate::harness::calendar::Calendar;
use crate::harness::client::client;
use crate::harness::eventually;
use crate::harness::hook::Hook;
use crate::harness::node::Home;
use crate::harness::node::Node;
use crate::harness::postgres::Postgres;
use crate::harness::whole_second_in;
use crate::openapi::Document;
use crate::openapi::Operation;
use crate::openapi::Values;

/// What an example cannot be on a node that is alone and has no provider.
const NOT_HERE: [&str; 4] = [
    "GET /v1/cluster",
    "DELETE /v1/cluster/{id}",
    "GET /v1/receipts/{provider}/{trigger}/{token}",
    "POST /v1/receipts/{provider}/{trigger}/{token}",
];

/// Runs the binary with the settings of a home.
async fn run(home: &Home, arguments: &[&str]) -> Output {
    let mut command = home.command(arguments);
    let ended = tokio::task::spawn_blocking(move || command.output());
    ended.await.unwrap().unwrap()
}

/// What a command printed that must succeed.
fn said(ended: &Output) -> String {
    assert!(ended.status.success(), "{ended:?}");
    String::from_utf8_lossy(&ended.stdout).into_owned()
}

/// What a command complained of that must fail so.
fn complaint(ended: &Output, code: i32) -> String {
    assert_eq!(ended.status.code(), Some(code), "{ended:?}");
    assert!(ended.stdout.is_empty(), "{ended:?}");
    String::from_utf8_lossy(&ended.stderr).into_owned()
}

async fn status(node: &Node, token: &str, path: &str) -> u16 {
    let asked = client().get(node.url(path)).bearer_auth(token).send().await;
    asked.expect("the node answers").status().as_u16()
}

/// From its making to its end, while the node runs; and another one, if there is one.
async fn life_of_a_token(home: Home, another: Option<Home>) {
    let file = home.folder().join("token");
    std::fs::write(&file, "t0ken\n").unwrap();
    let node = home
        .with("HTTP__TOKEN_FILE", file.to_str().unwrap())
        .start()
        .await;
    let mut elsewhere = Vec::new();
    if let Some(home) = another {
        elsewhere.push(home.start().await);
    }
    for owner in ["anna", "bert"] {
        let put = client()
            .put(node.url(&format!("/v1/owners/{owner}")))
            .bearer_auth("t0ken");
        assert_eq!(put.body("{}").send().await.unwrap().status(), 201);
    }
    let create = ["tokens", "create", "--name", "agent", "--scope", "read"];
    let made = run(
        &node.home,
        &[&create[..], &["--owner", "anna", "--expires", "30d"]].concat(),
    )
    .await;
    let token = said(&made).trim().to_owned();
    assert!(token.starts_with("carillon_") && token.len() == 73, "{token}");

    assert_eq!(status(&node, &token, "/v1/owners/anna").await, 200);
    for other in &elsewhere {
        assert_eq!(status(other, &token, "/v1/owners/anna").await, 200);
    }
    assert_eq!(status(&node, &token, "/v1/owners/bert").await, 404);
    assert_eq!(status(&node, &token, "/v1/cluster").await, 403);
    assert_eq!(status(&node, "carillon_0", "/v1/owners/anna").await, 401);

    let table = said(&run(&node.home, &["tokens", "list"]).await);
    assert!(table.contains("agent  read   anna"), "{table}");
    let listed = said(&run(&node.home, &["tokens", "list", "--json"]).await);
    let listed: Value = serde_json::from_str(&listed).unwrap();
    assert!(listed[0]["last_used_at"].is_string(), "{listed}");
    assert_eq!(listed[0]["state"], "good");
    let again = complaint(&run(&node.home, &create).await, 1);
    assert!(again.contains("there is a token `agent`"), "{again}");

    let revoked = said(&run(&node.home, &["tokens", "revoke", "agent"]).await);
    assert_eq!(revoked, "the token `agent` opens nothing any more\n");
    for node in elsewhere.iter().chain([&node]) {
        assert_eq!(status(node, &token, "/v1/owners/anna").await, 401, "at once");
    }
    let nothing = complaint(&run(&node.home, &["tokens", "revoke", "agent"]).await, 1);
    assert!(nothing.contains("there is no token `agent`"), "{nothing}");

    let everywhere = [
        table,
        listed.to_string(),
        node.home.output(),
        node.get("/metrics").await.body.to_string(),
    ];
    for text in everywhere {
        assert!(!text.contains(&token[9..]), "{text}");
    }
}

#[tokio::test]
async fn a_token_lives_from_its_making_to_its_end_on_sqlite() {
    life_of_a_token(Home::new(), None).await;
}

#[tokio::test]
async fn a_token_lives_from_its_making_to_its_end_on_postgresql() {
    let server = Postgres::start().await;
    let database = server.database().await;
    let [one, another] = [(); 2].map(|()| Home::new().in_cluster(&database));
    life_of_a_token(one, Some(another)).await;
}

#[tokio::test]
async fn a_token_that_makes_no_sense_is_refused_with_the_cure() {
    let home = Home::new();
    let create = async |name: &str, arguments: &[&str]| {
        let all = [&["tokens", "create", "--name", name], arguments].concat();
        run(&home, &all).await
    };
    for (name, arguments, code, told) in [
        (
            "one",
            &["--scope", "root"][..],
            2,
            "unknown scope `root`: use read, write or admin",
        ),
        (
            "one",
            &["--scope", "read", "--expires", "soon"],
            2,
            "`soon` is no length from 1s to 3650d",
        ),
        (
            "one",
            &["--scope", "read", "--expires", "0s"],
            2,
            "`0s` is no length from 1s to 3650d",
        ),
        (
            "one",
            &["--scope", "admin", "--owner", "anna"],
            1,
            "leave --owner out, or use --scope write",
        ),
        (
            "one",
            &["--scope", "read", "--owner", "anna"],
            1,
            "unknown owner `anna`: create it first",
        ),
        ("", &["--scope", "read"], 2, "a name has 1 to 100 bytes"),
    ] {
        let complaint = complaint(&create(name, arguments).await, code);
        assert!(complaint.contains(told), "{complaint}");
    }
    // Before the first start, too: the store is made.
    assert!(said(&create("one", &["--scope", "admin"]).await).starts_with("carillon_"));
}

#[tokio::test]
async fn a_shell_completes_commands() {
    let home = Home::new();
    for (shell, told) in [
        ("bash", "_carillon()"),
        ("zsh", "#compdef carillon"),
        ("fish", "complete -c carillon"),
    ] {
        let script = said(&run(&home, &["completions", shell]).await);
        assert!(script.contains(told) && script.contains("tokens"), "{script}");
    }
}

/// A node with all that the examples speak of.
struct Scene {
    node: Node,
    document: Document,
    /// The reminder that can be answered.
    reminder: String,
    tokens: Tokens,
}

async fn store_of(node: &Node) -> SqliteStore {
    let (path, clock) = (node.home.database(), std::sync::Arc::new(SystemClock));
    let store = SqliteStore::open_beside(&path, clock, Options::default()).await;
    store.expect("it opens beside the node")
}

impl Scene {
    async fn new(node: Node) -> Self {
        let document = Document(node.get("/openapi.json").await.ok());
        node.put_owner().await;
        let start = whole_second_in(2);
        node.put_event("soon", &Calendar::starting("soon", start).alarm("TRIGGER:PT0S"))
            .await
            .ok();
        let rows = node.history_of(1).await;
        let store = store_of(&node).await;
        let secret = store.remembered(SECRET).await.unwrap().expect("there is one");
        store.close().await;
        Self {
            reminder: rows[0]["id"].as_str().unwrap().to_owned(),
            tokens: Tokens::new(&secret),
            node,
            document,
        }
    }

    /// What an operation is about, as it must be before it can be asked for.
    async fn prepare(&self, operation: &Operation<'_>) -> Values {
        let (reminder, path) = (&self.reminder, operation.path);
        let mut values = Values::from([("trigger", reminder.clone())]);
        if path.starts_with("/v1/sources/") {
            let put = self
                .document
                .operations()
                .into_iter()
                .find(|it| it.name() == PUT_EVENT);
            self.ask(&put.expect("it is documented"), &Values::new()).await;
        } else if path.starts_with("/v1/alarms/{id}") {
            let alarm = json!({ "owner": "anna", "delay": "1h", "channel": "email", "label": "Tea" });
            let alarm = self
                .node
                .post("/v1/alarms", "application/json", alarm.to_string())
                .await
                .ok();
            values.insert("id", alarm["id"].as_str().expect("an id").to_owned());
        } else if path.starts_with("/v1/deliveries/") {
            values.insert("id", reminder.clone());
        } else if path.starts_with("/v1/owners/{id}/events/") {
            values.insert("uid", "soon".to_owned());
        } else if path.starts_with("/answer/") {
            let store = store_of(&self.node).await;
            let epoch = store.link_epoch(reminder.parse().unwrap()).await.unwrap();
            store.close().await;
            let token = self
                .tokens
                .token(reminder, Purpose::Answer(epoch.expect("an owner")));
            let page = self.node.get(&format!("/answer/{reminder}/{token}")).await;
            let page = page.body.as_str().expect("a page").to_owned();
            let key = page.split_once("name=\"key\" value=\"").expect("a form").1;
            values.insert("key", key[..32].to_owned());
            values.insert("token", token);
        }
        values
    }

    async fn ask(&self, operation: &Operation<'_>, values: &Values) -> (u16, Option<String>, String) {
        let call = operation.call(values);
        let method = call.method.parse().expect("a method");
        let mut request = client()
            .request(method, self.node.url(&call.path))
            .body(call.body);
        for (name, value) in &call.headers {
            request = request.header(name, value);
        }
        let answer = request.send().await.expect("the node answers");
        let kind = answer
            .headers()
            .get("content-type")
            .map(|it| it.to_str().unwrap().to_owned());
        (answer.status().as_u16(), kind, answer.text().await.unwrap())
    }
}

const PUT_EVENT: &str = "PUT /v1/sources/{source}/events/{key}";

#[tokio::test]
async fn every_example_is_taken_and_answered_as_documented() {
    let hook = Hook::start([]).await;
    let scene = Scene::new(alarms::start(Home::new()).await).await;
    let alarm = json!({ "owner": "anna", "delay": 1, "target": hook.url(), "label": "Tea", "payload": { "n": 1 },
        "conversation_id": "c", "wake_message": "w" });
    scene
        .node
        .post("/v1/alarms", "application/json", alarm.to_string())
        .await
        .ok();
    let mut operations = scene.document.operations();
    // What is deleted at a version of its source does not come back at the same.
    operations.sort_by_key(|operation| operation.method == "DELETE");
    for operation in operations {
        let name = operation.name();
        let values = scene.prepare(&operation).await;
        let (status, kind, body) = scene.ask(&operation, &values).await;
        if name == "GET /v1/ws" {
            assert_eq!(status, 426, "{body}");
        } else if NOT_HERE.contains(&name.as_str()) {
            assert_eq!(status, 404, "{name}: {body}");
        } else {
            assert!((200..300).contains(&status), "{name}: {status} {body}");
        }
        assert_eq!(
            operation.complaints(status, kind.as_deref(), &body),
            [""; 0],
            "{name}: {body}"
        );
        if name.ends_with("/changes") {
            assert_eq!(body.lines().count(), 2, "{body}");
            for line in body.lines() {
                let schema = &scene.document.0["components"]["schemas"]["ChangeAnswer"];
                let complaints = scene
                    .document
                    .complaints(schema, &serde_json::from_str(line).unwrap());
                assert_eq!(complaints, [""; 0], "{line}");
            }
        }
    }
    let call = &hook.until(1).await[0];
    let told = &scene.document.0["webhooks"]["alarm"]["post"];
    let schema = &told["requestBody"]["content"]["application/json"]["schema"];
    assert_eq!(
        scene.document.complaints(schema, &call.json()),
        [""; 0],
        "{}",
        call.body
    );
    for header in told["parameters"].as_array().unwrap() {
        assert!(
            call.headers.contains_key(header["name"].as_str().unwrap()),
            "{header}"
        );
    }
}

#[tokio::test]
async fn a_reminder_is_posted_as_documented() {
    let hook = Hook::start([]).await;
    let node = alarms::start(Home::new()).await;
    let document = Document(node.get("/openapi.json").await.ok());
    let owner = json!({ "email": "anna@example.org", "webhook": { "url": hook.url() },
        "routes": [{ "action": "EMAIL", "channel": "webhook" }] });
    node.put("/v1/owners/anna", "application/json", owner.to_string())
        .await
        .ok();
    let event = Calendar::starting("soon", whole_second_in(1))
        .with("LOCATION:Room 7")
        .alarm("TRIGGER:PT0S");
    node.put_event("soon", &event).await.ok();
    let call = eventually("the call", async || hook.calls().into_iter().next()).await;
    let told = &document.0["webhooks"]["reminder"]["post"]["requestBody"]["content"];
    let complaints = document.complaints(&told["application/json"]["schema"], &call.json());
    assert_eq!(complaints, [""; 0], "{}", call.body);
}
