//! What happens to alarms, told as it happens to whoever follows it.

use std::time::Duration;

use carillon::clock::Clock;
use carillon::clock::SystemClock;
use serde_json::Value;
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpSocket;
use tokio::net::TcpStream;

use crate::alarms::Program;
use crate::alarms::calling;
use crate::alarms::start;
use crate::harness::client::client;
use crate::harness::eventually;
use crate::harness::feed::Stream;
use crate::harness::feed::types;
use crate::harness::hook::Conduct;
use crate::harness::hook::Hook;
use crate::harness::node::Home;
use crate::harness::node::Node;
use crate::store::damage_file;

super::stories!(
    what_happens_is_told_as_it_happens,
    a_caller_goes_on_after_what_it_has_seen,
    a_number_that_was_never_given_is_refused,
    statistics_say_which_part_fails_and_of_what,
);

impl Program {
    pub fn feed(&self) -> String {
        self.node.url(&format!("/v1/alarms/feed?owner={}", self.owner))
    }
}

async fn what_happens_is_told_as_it_happens(program: Program) {
    let hook = Hook::start([Conduct::status(500), Conduct::status(202)]).await;
    program
        .create(json!({ "delay": "2h", "target": hook.url() }))
        .await;
    // From now on.
    let mut stream = Stream::open(&program.feed(), None).await;
    let mut body = calling(&hook, "100ms");
    body["label"] = json!("Tea");
    body["max_retries"] = json!(2);
    body["backoff_ms"] = json!(200);
    let id = program.create(body).await;
    let ack = hook.until(2).await[1].json()["ack_url"].clone();
    let told = stream.some(3).await;
    assert_eq!(types(&told), ["created", "retrying", "fired"]);
    let report = client().post(ack.as_str().expect("an address")).send().await;
    assert!(report.expect("the node answers").status().is_success());

    let completed = stream.some(1).await.remove(0);

    assert_eq!(completed["type"], "completed");
    let shown: Vec<&Value> = ["alarm_id", "label", "channel", "attempts"]
        .iter()
        .map(|name| &completed[*name])
        .collect();
    assert_eq!(shown, [&json!(id), &json!("Tea"), &json!("webhook"), &json!(2)]);
    assert_eq!(completed["trigger_id"], hook.calls()[0].json()["trigger_id"]);
    assert!(
        told[1]["detail"]
            .as_str()
            .expect("a reason")
            .contains("attempt 1/3"),
        "{told:?}"
    );
    let numbers: Vec<u64> = told.iter().filter_map(|change| change["id"].as_u64()).collect();
    assert_eq!(numbers, [2, 3, 4]);
}

async fn a_caller_goes_on_after_what_it_has_seen(program: Program) {
    let id = program
        .create(json!({ "delay": "2h", "channel": "email", "label": "Tea" }))
        .await;
    for verb in ["pause", "resume", "cancel"] {
        program.act(&id, verb).await.ok();
    }
    let all = Stream::open(&(program.feed() + "&after=0"), None)
        .await
        .some(4)
        .await;
    assert_eq!(types(&all), ["created", "paused", "resumed", "cancelled"]);

    // A browser asks for what it asked for at first, and says what it has seen.
    let mut again = Stream::open(&(program.feed() + "&after=0"), Some(2)).await;
    assert_eq!(again.some(2).await, all[2..]);
    assert!(again.is_silent_for(Duration::from_millis(100)).await);
    let mut last = Stream::open(&(program.feed() + "&after=4"), None).await;
    program
        .create(json!({ "delay": "2h", "channel": "email", "label": "Tea" }))
        .await;
    for stream in [&mut again, &mut last] {
        let next = stream.some(1).await.remove(0);
        assert_eq!((&next["id"], &next["type"]), (&json!(5), &json!("created")));
    }
}

async fn a_number_that_was_never_given_is_refused(program: Program) {
    for (after, status, says) in [
        ("1", 410, "after 0"),
        ("-1", 400, "after: -1"),
        ("x", 400, "after: x"),
    ] {
        let refused = Stream::try_open(&format!("{}&after={after}", program.feed()), None).await;
        let Err((found, problem)) = refused else {
            panic!("{after} is taken");
        };
        assert_eq!(found, status, "{problem}");
        assert!(
            problem["detail"].as_str().expect("a reason").contains(says),
            "{problem}"
        );
    }
    let unknown = program.node.url("/v1/alarms/feed?owner=nobody");
    assert!(
        Stream::try_open(&unknown, None)
            .await
            .is_err_and(|(status, _)| status == 422)
    );
}

async fn statistics_say_which_part_fails_and_of_what(program: Program) {
    let hook = Hook::start([Conduct::status(410), Conduct::status(202), Conduct::status(202)]).await;
    for (number, status) in ["failed", "awaiting", "awaiting"].into_iter().enumerate() {
        let mut body = calling(&hook, "1ms");
        body["max_retries"] = json!(0);
        let id = program.create(body).await;
        hook.until(number + 1).await;
        program.firing(&id, status).await;
    }
    let unheard = program.get("/v1/alarms/stats").await;
    assert_eq!(unheard["failure_rate"], 1.0, "of those that are over: {unheard}");
    for call in &hook.calls()[1..] {
        let ack = call.json()["ack_url"].as_str().expect("an address").to_owned();
        client().post(ack).send().await.expect("the node answers");
    }

    let stats = program.get("/v1/alarms/stats").await;

    assert_eq!(stats["failure_rate"], 0.3333, "{stats}");
    assert_eq!(stats["by_channel"]["webhook"]["failure_rate"], 0.3333);
    let by_target = json!([{
        "channel": "webhook", "target": "url", "failure_rate": 0.3333,
        "firings": { "completed": 2, "failed": 1 },
    }]);
    assert_eq!(stats["by_target"], by_target);
    let metrics = client().get(program.node.url("/metrics")).send().await;
    let metrics = metrics.expect("the node answers").text().await.expect("text");
    let counted = |result: &str| {
        let line =
            format!("target_deliveries_total{{channel=\"webhook\",result=\"{result}\",target=\"url\"}} ");
        let (_, count) = metrics.split_once(&line)?;
        count.lines().next()?.parse::<u32>().ok()
    };
    // On PostgreSQL others use the same node.
    assert!(
        counted("failed") >= Some(1) && counted("ok") >= Some(2),
        "{metrics}"
    );
}

pub async fn followers(node: &Node) -> Option<u32> {
    let metrics = node.get("/metrics").await.ok();
    let (_, count) = metrics.as_str()?.split_once("\ncarillon_feed_followers ")?;
    count.lines().next()?.parse().ok()
}

/// Twenty alarms, each with as long a label as may be; the last one.
pub async fn twenty_long(program: &Program) -> String {
    let body = json!({ "delay": "2h", "channel": "email", "label": "\u{1f514}".repeat(500) });
    let mut id = String::new();
    for _ in 0..20 {
        id = program.create(body.clone()).await;
    }
    id
}

/// A connection that has room for little.
pub async fn narrow(program: &Program) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(2_048).expect("it may be small");
    let address = ([127, 0, 0, 1], program.node.home.port).into();
    socket.connect(address).await.expect("it is taken")
}

/// Has much told of [`twenty_long`] alarms until the buffers of who does not read are full and its time is over; another reads
/// all of it, in order.
pub async fn cut_off(program: &Program, mut read: impl AsyncFnMut(usize) -> Vec<Value>) {
    let path = program.node.home.database();
    let mut seen = 20;
    eventually("the slow one to be cut off", async || {
        damage_file(&path, &"UPDATE standalone_alarm SET terms = terms;".repeat(25)).await;
        for change in read(500).await {
            seen += 1;
            assert_eq!(change["id"], json!(seen));
        }
        (followers(&program.node).await == Some(1)).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_caller_that_does_not_read_is_cut_off_and_another_goes_on() {
    let home = Home::new().with("HTTP__READ_TIMEOUT", "1s");
    let program = Program::new(std::rc::Rc::new(start(home).await), "anna").await;
    let mut stream = Stream::open(&(program.feed() + "&after=0"), None).await;
    // It takes nothing.
    let mut slow = narrow(&program).await;
    let asks = format!(
        "GET /v1/alarms/feed?owner={}&after=0 HTTP/1.1\r\nhost: 127.0.0.1:{}\r\n\r\n",
        program.owner, program.node.home.port
    );
    slow.write_all(asks.as_bytes()).await.expect("it is sent");
    eventually("two to follow", async || {
        (followers(&program.node).await == Some(2)).then_some(())
    })
    .await;

    let id = twenty_long(&program).await;
    stream.some(20).await;
    cut_off(&program, async |count| stream.some(count).await).await;

    program.act(&id, "cancel").await.ok();
    while stream.next().await.expect("it goes on")["type"] != "cancelled" {}
}

#[tokio::test]
async fn half_of_the_connections_may_follow() {
    let home = Home::new()
        .with("HTTP__MAX_CONNECTIONS", "4")
        .with("HTTP__MAX_CONNECTIONS_PER_PEER", "4");
    let program = Program::new(std::rc::Rc::new(start(home).await), "anna").await;
    let first = Stream::open(&program.feed(), None).await;
    let _second = Stream::open(&program.feed(), None).await;

    let Err((status, problem)) = Stream::try_open(&program.feed(), None).await else {
        panic!("a third is let in");
    };

    assert_eq!(status, 503, "{problem}");
    assert!(
        problem["detail"]
            .as_str()
            .expect("a reason")
            .starts_with("2 callers"),
        "{problem}"
    );
    drop(first);
    eventually("a place", async || {
        Stream::try_open(&program.feed(), None).await.ok()
    })
    .await;
}

#[tokio::test]
async fn whoever_follows_a_node_that_stops_is_let_go_at_once() {
    let mut node = start(Home::new()).await;
    let owner = json!({ "email": "anna@example.org", "time_zone": "Europe/Berlin" });
    node.put("/v1/owners/anna", "application/json", owner.to_string())
        .await
        .ok();
    let mut stream = Stream::open(&node.url("/v1/alarms/feed?owner=anna"), None).await;
    let asked = SystemClock.elapsed();

    let (ended, told) = tokio::join!(node.terminate(), stream.next());

    assert!(ended.success() && told.is_none());
    let took = SystemClock.elapsed().saturating_sub(asked);
    assert!(took < Duration::from_secs(15), "{took:?}");
}
