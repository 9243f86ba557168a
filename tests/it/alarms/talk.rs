//! Calls and what happens to alarms over a WebSocket.

use std::time::Duration;

use carillon::clock::Clock;
use carillon::clock::SystemClock;
use rustix::process::Signal;
use serde_json::Value;
use serde_json::json;
use sqlx::Connection;
use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteConnectOptions;
use tokio::io::AsyncReadExt;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::protocol::frame::coding::Data;

use crate::alarms::Program;
use crate::alarms::calling;
use crate::alarms::live::cut_off;
use crate::alarms::live::narrow;
use crate::alarms::live::twenty_long;
use crate::alarms::start;
use crate::harness::eventually;
use crate::harness::feed::Stream;
use crate::harness::hook::Conduct;
use crate::harness::hook::Hook;
use crate::harness::node::Home;
use crate::harness::talker::Talker;

super::stories!(
    calls_are_answered_as_over_http,
    what_happens_is_pushed_to_whoever_subscribed,
    what_is_wrong_with_a_call_is_said,
    what_is_no_call_is_refused,
);

impl Program {
    fn port(&self) -> u16 {
        self.node.home.port
    }
}

async fn calls_are_answered_as_over_http(program: Program) {
    let hook = Hook::start([Conduct::status(202), Conduct::status(202), Conduct::status(410)]).await;
    let fires = program.create(calling(&hook, "1ms")).await;
    program.firing(&fires, "awaiting").await;
    let fails = program.create(calling(&hook, "1ms")).await;
    program.firing(&fails, "awaiting").await;
    let later = program
        .create(json!({ "delay": "2h", "channel": "email", "label": "Tea" }))
        .await;
    let mut talker = Talker::open(program.port()).await;
    let owner = json!({ "owner": program.owner });
    let of = |id: &str| json!({ "owner": program.owner, "id": id });
    let triggers: Vec<Value> = hook
        .calls()
        .iter()
        .map(|call| call.json()["trigger_id"].clone())
        .collect();

    let done = talker
        .call(1, "complete", json!({ "id": triggers[0], "result": "good" }))
        .await;
    assert_eq!(done["result"]["outcome"], "completed", "{done}");
    let failed = talker
        .call(2, "fail", json!({ "id": triggers[1], "reason": "no milk" }))
        .await;
    assert_eq!(failed["result"]["outcome"], "failed", "{failed}");
    let cancelled = talker.call(3, "cancel", of(&later)).await;
    assert_eq!(cancelled["result"]["status"], "cancelled", "{cancelled}");

    for (call, path) in [
        ("list", ""),
        ("count", "/count"),
        ("history", "/history"),
        ("stats", "/stats"),
        ("failed", "/failed"),
    ] {
        let answer = talker.call(4, call, owner.clone()).await;
        assert_eq!(
            answer["result"],
            program.get(&format!("/v1/alarms{path}")).await,
            "{call}"
        );
    }
    assert_eq!(
        talker.call(5, "get", of(&fires)).await["result"],
        program.alarm(&fires).await
    );
    let page = talker
        .call(
            6,
            "list",
            json!({ "owner": program.owner, "limit": 1, "status": "cancelled" }),
        )
        .await;
    assert_eq!(page["result"]["items"][0]["id"], json!(later), "{page}");
    let reported = talker.call(7, "failed", owner).await;
    assert_eq!(reported["result"]["items"][0]["report"], "no milk", "{reported}");
}

async fn what_happens_is_pushed_to_whoever_subscribed(program: Program) {
    let id = program
        .create(json!({ "delay": "2h", "channel": "email", "label": "Tea" }))
        .await;
    let mut talker = Talker::open(program.port()).await;
    let params = json!({ "owner": program.owner, "after": 0 });
    let subscribed = talker.call(1, "subscribe", params).await;
    assert_eq!(subscribed["result"], json!({ "after": 0 }));
    let first = talker.next().await.expect("it goes on");
    assert_eq!(
        (&first["event"]["id"], &first["event"]["type"]),
        (&json!(1), &json!("created"))
    );
    program.act(&id, "pause").await.ok();
    let second = talker.next().await.expect("it goes on");
    let shown = ["id", "type", "alarm_id"].map(|name| second["event"][name].clone());
    assert_eq!(shown, [json!(2), json!("paused"), json!(id)]);
    // Whoever comes back goes on after what they saw.
    let mut again = Talker::open(program.port()).await;
    let params = json!({ "owner": program.owner, "after": 1 });
    let subscribed = again.call(1, "subscribe", params).await;
    assert_eq!(subscribed["result"], json!({ "after": 1 }));
    assert_eq!(again.events(1).await[0], second["event"]);
    // Of two that are asked for at once the last one holds.
    for (id, after) in [(2, 0), (3, 1)] {
        let params = json!({ "owner": program.owner, "after": after });
        let call = json!({ "id": id, "call": "subscribe", "params": params });
        again.say(call.to_string()).await;
    }
    let (mut answered, mut followed) = (Vec::new(), Vec::new());
    while answered.len() < 2 {
        let told = again.next().await.expect("it goes on");
        if told["event"].is_null() {
            answered.push(told["id"].clone());
        } else if answered.contains(&json!(3)) {
            followed.push(told["event"].clone());
        }
    }
    program.act(&id, "resume").await.ok();
    followed.extend(again.events(2 - followed.len()).await);
    assert_eq!((&followed[0]["id"], &followed[1]["id"]), (&json!(2), &json!(3)));
    assert_eq!(talker.events(1).await[0], followed[1]);
    // Calls go on beside it.
    let count = talker.call(2, "count", json!({ "owner": program.owner })).await;
    assert_eq!(count["result"]["count"], 1, "{count}");
    let gone = talker
        .call(3, "subscribe", json!({ "owner": program.owner, "after": 9 }))
        .await;
    assert_eq!(gone["error"]["status"], 410, "{gone}");
    assert_eq!(gone["error"]["type"], "urn:carillon:problem:gone");
}

async fn what_is_wrong_with_a_call_is_said(program: Program) {
    let mut talker = Talker::open(program.port()).await;
    let none = "ffffffffffffffffffffffffffffffff";
    let with = |name: &str, value: Value| {
        let mut params = json!({ "owner": program.owner });
        params[name] = value;
        params
    };
    let nobody = json!({ "owner": "nobody at all" });
    for (call, params, status, says) in [
        ("lst", json!({}), 400, "`lst`"),
        ("list", json!({}), 400, "owner"),
        ("list", with("limit", json!(0)), 400, "limit=0"),
        ("list", with("limit", json!([1])), 400, "limit: [1]"),
        ("list", with("colour", json!("red")), 400, "colour"),
        ("get", with("limit", json!(1)), 400, "`id`"),
        ("get", with("id", json!(none)), 404, none),
        ("get", with("id", json!("../stats")), 404, "../stats"),
        // It would not end.
        ("get", with("id", json!("feed")), 404, "`feed`"),
        ("complete", json!({ "id": none }), 404, "delivery"),
        ("subscribe", nobody, 422, "nobody at all"),
        ("subscribe", with("after", json!("x")), 400, "after: \"x\""),
        ("subscribe", with("since", json!(1)), 400, "since"),
    ] {
        let answer = talker.call(1, call, params).await;
        assert_eq!(answer["error"]["status"], status, "{answer}");
        let detail = answer["error"]["detail"].as_str().expect("a reason");
        assert!(detail.contains(says), "{answer}");
    }
}

async fn what_is_no_call_is_refused(program: Program) {
    let mut talker = Talker::open(program.port()).await;
    for text in ["[", "{}", r#"{"id": 1, "call": "list", "colour": 1}"#] {
        talker.say(text.to_owned()).await;
        let answer = talker.next().await.expect("it goes on");
        assert_eq!(
            (&answer["id"], &answer["error"]["status"]),
            (&Value::Null, &json!(400))
        );
    }
    let oversized = json!({ "id": 1, "call": "list", "params": { "owner": "x".repeat(70_000) } });
    talker.say(oversized.to_string()).await;
    assert_eq!(talker.next().await, Err(1009));
    for (kind, bytes, code) in [
        (Data::Text, &b"{\"id\": \xff}"[..], 1007),
        (Data::Reserved(3), b"{}", 1002),
        (Data::Binary, b"{}", 1003),
    ] {
        let mut talker = Talker::open(program.port()).await;
        talker.say_frame(kind, bytes).await;
        assert_eq!(talker.next().await, Err(code), "{kind:?}");
    }
}

#[tokio::test]
async fn more_calls_than_may_be_are_refused_and_the_others_answered() {
    let node = start(Home::new()).await;
    let program = Program::new(std::rc::Rc::new(node), "anna").await;
    let mut talker = Talker::open(program.port()).await;
    // All of one second, or of two.
    for id in 0..200 {
        let call = json!({ "id": id, "call": "count", "params": { "owner": "anna" } });
        talker.say(call.to_string()).await;
    }
    let mut refused = 0;
    for _ in 0..200 {
        let answer = talker.next().await.expect("it goes on");
        if answer["error"]["status"] == 429 {
            refused += 1;
        } else {
            assert_eq!(answer["result"]["count"], 0, "{answer}");
        }
    }
    assert!((1..=150).contains(&refused), "{refused}");
}

#[tokio::test]
async fn a_page_of_another_site_does_not_talk() {
    let node = start(Home::new()).await;
    let port = node.home.port;
    let refused = Talker::with(port, &[("origin", "https://evil.example")]).await;
    assert_eq!(refused.err(), Some(403));
    let own = format!("http://127.0.0.1:{port}");
    assert!(Talker::with(port, &[("origin", &own)]).await.is_ok());
    let plain = node.get("/v1/ws").await;
    assert_eq!(plain.status, 426, "{}", plain.body);
}

#[tokio::test]
async fn a_node_that_stops_answers_what_it_was_asked_and_says_so() {
    let mut program = Program::new(std::rc::Rc::new(start(Home::new()).await), "anna").await;
    let id = program
        .create(json!({ "delay": "2h", "channel": "email", "label": "Tea" }))
        .await;
    let (port, path) = (program.port(), program.node.home.database());
    let mut idle = Talker::open(port).await;
    let mut talker = Talker::open(port).await;
    // What writes waits for us.
    let held = SqliteConnection::connect_with(&SqliteConnectOptions::new().filename(path)).await;
    let mut held = held.expect("the file opens");
    sqlx::raw_sql("BEGIN IMMEDIATE")
        .execute(&mut held)
        .await
        .expect("it begins");
    let cancel = json!({ "id": 1, "call": "cancel", "params": { "owner": "anna", "id": id } });
    talker.say(cancel.to_string()).await;
    let count = talker.call(2, "count", json!({ "owner": "anna" })).await;
    assert_eq!(
        count["result"]["count"], 1,
        "what comes later is answered first: {count}"
    );

    program.node.signal(Signal::TERM);

    assert_eq!(idle.next().await, Err(1001));
    eventually("nobody to be let in", async || {
        TcpStream::connect(("127.0.0.1", port)).await.err()
    })
    .await;
    sqlx::raw_sql("ROLLBACK")
        .execute(&mut held)
        .await
        .expect("it ends");
    let cancelled = talker.next().await.expect("it is answered");
    assert_eq!(cancelled["result"]["status"], "cancelled", "{cancelled}");
    assert_eq!(talker.next().await, Err(1001));
    drop((idle, talker));
    let node = std::rc::Rc::get_mut(&mut program.node).expect("it is ours alone");
    assert!(node.ended().await.success());
}

#[tokio::test]
async fn whoever_does_not_read_does_not_keep_a_node_from_stopping() {
    let mut program = Program::new(std::rc::Rc::new(start(Home::new()).await), "anna").await;
    let payload = json!({ "much": "x".repeat(200_000) });
    program
        .create(json!({ "delay": "2h", "channel": "email", "label": "Tea", "payload": payload }))
        .await;
    let mut talker = Talker::open(program.port()).await;
    // More than its connection holds.
    for id in 0..50 {
        let list = json!({ "id": id, "call": "list", "params": { "owner": "anna" } });
        talker.say(list.to_string()).await;
    }
    let first = talker.next().await.expect("it is answered");
    assert!(first.to_string().len() > 200_000, "{first}");
    // Once as much was answered to another, it waits for us.
    for _ in 0..50 {
        program.get("/v1/alarms").await;
    }
    let asked = SystemClock.elapsed();

    program.node.signal(Signal::TERM);

    let node = std::rc::Rc::get_mut(&mut program.node).expect("it is ours alone");
    assert!(node.ended().await.success());
    let took = SystemClock.elapsed().saturating_sub(asked);
    assert!(took < Duration::from_secs(15), "{took:?}");
}

#[tokio::test]
async fn talkers_take_the_places_of_followers_and_give_them_back() {
    let home = Home::new()
        .with("HTTP__MAX_CONNECTIONS", "4")
        .with("HTTP__MAX_CONNECTIONS_PER_PEER", "4");
    let node = start(home).await;
    let port = node.home.port;
    let first = Talker::open(port).await;
    let _second = Talker::open(port).await;
    assert_eq!(Talker::with(port, &[]).await.err(), Some(503));
    first.close().await;
    eventually("a place", async || Talker::with(port, &[]).await.ok()).await;
}

#[tokio::test]
async fn talkers_and_followers_are_not_idle() {
    let home = Home::new()
        .with("HTTP__MAX_CONNECTIONS", "4")
        .with("HTTP__MAX_CONNECTIONS_PER_PEER", "4");
    let program = Program::new(std::rc::Rc::new(start(home).await), "anna").await;
    let mut talker = Talker::open(program.port()).await;
    let mut stream = Stream::open(&program.feed(), None).await;
    let mut others = Vec::new();
    for _ in 0..8 {
        let mut other = TcpStream::connect(("127.0.0.1", program.port())).await.unwrap();
        let request = b"GET /livez HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n";
        other.write_all(request).await.unwrap();
        other.read_exact(&mut [0; 15]).await.unwrap();
        others.push(other);
    }

    let counted = talker.call(1, "count", json!({ "owner": "anna" })).await;
    assert!(counted["result"].is_object(), "{counted}");
    let alarm = json!({ "delay": "2h", "channel": "email", "label": "Tea" });
    program.create(alarm).await;
    assert_eq!(stream.next().await.expect("it goes on")["type"], "created");
}

#[tokio::test]
async fn a_talker_that_does_not_read_is_cut_off_and_another_goes_on() {
    let home = Home::new().with("HTTP__READ_TIMEOUT", "1s");
    let program = Program::new(std::rc::Rc::new(start(home).await), "anna").await;
    let id = twenty_long(&program).await;
    let subscription = json!({ "owner": "anna", "after": 20 });
    let mut talker = Talker::open(program.port()).await;
    talker.call(1, "subscribe", subscription.clone()).await;
    // It takes nothing.
    let stream = narrow(&program).await;
    let slow = Talker::over(stream, program.port(), &[]).await;
    let mut slow = slow.expect("it is let in");
    slow.call(1, "subscribe", subscription).await;

    cut_off(&program, async |count| talker.events(count).await).await;

    let cancel = json!({ "owner": "anna", "id": id });
    let cancelled = talker.call(2, "cancel", cancel).await;
    assert_eq!(cancelled["result"]["status"], "cancelled", "{cancelled}");
    assert_eq!(talker.events(1).await[0]["type"], "cancelled");
    while slow.next().await.is_ok() {}
}
