//! Whoever follows alarms at one node, and goes on at another when that dies, is told everything once and in order.

use carillon::clock::Clock;
use carillon::clock::SystemClock;
use futures_util::future::join_all;
use serde_json::Value;
use serde_json::json;
use sqlx::Connection;
use sqlx::PgConnection;

use super::Scene;
use crate::harness::api::OWNER;
use crate::harness::eventually;
use crate::harness::feed::Stream;
use crate::harness::node::Node;
use crate::harness::talker::Talker;

/// Alarms that are asked for and called off again.
const ALARMS: usize = 100;

/// What else happens to each.
const TOUCHES: usize = 8;

#[tokio::test]
async fn a_thousand_changes_are_told_in_order_though_the_node_dies_and_the_caller_goes_on_elsewhere() {
    let mut scene = Scene::of(3).await;
    let path = format!("/v1/alarms/feed?owner={OWNER}&after=0");
    let urls: Vec<String> = scene.nodes.iter().map(|node| node.url(&path)).collect();
    let mut dying = scene.nodes.remove(0);
    let writing = async {
        let body = json!({ "owner": OWNER, "delay": "2h", "channel": "email", "label": "Tea" }).to_string();
        for _ in 0..ALARMS / 10 {
            let asked = (0..10)
                .map(|number| scene.nodes[number % 2].post("/v1/alarms", "application/json", body.clone()));
            for answer in join_all(asked).await {
                answer.ok();
            }
        }
        // By several transactions at once, each of a few alarms.
        join_all((0..TOUCHES).map(|part| touch(&scene.database, part))).await;
        let path = format!("/v1/alarms/reset?owner={OWNER}");
        let reset = scene.nodes[0]
            .post(&path, "application/json", String::new())
            .await
            .ok();
        assert_eq!(reset["cancelled"], json!(ALARMS));
    };
    let following = async {
        let mut stream = Stream::open(&urls[0], None).await;
        let mut seen = stream.some(40).await;
        dying.kill();
        // What was under way is told, or not.
        while let Some(change) = stream.next().await {
            seen.push(change);
        }
        for (part, url) in urls[1..].iter().cycle().take(5).enumerate() {
            let mut stream = Stream::open(url, stream.seen.max(last(&seen))).await;
            let left = ALARMS * (TOUCHES + 2) - seen.len();
            seen.extend(stream.some(if part == 4 { left } else { left.min(150) }).await);
        }
        seen
    };

    let ((), seen) = tokio::join!(writing, following);

    let numbers: Vec<u64> = seen.iter().filter_map(|change| change["id"].as_u64()).collect();
    assert_eq!(numbers, (1..=1_000).collect::<Vec<_>>());
    let mut alarms: std::collections::BTreeMap<&str, Vec<&str>> = std::collections::BTreeMap::new();
    for change in &seen {
        let text = |name: &str| change[name].as_str().expect("text");
        alarms.entry(text("alarm_id")).or_default().push(text("type"));
    }
    assert_eq!(alarms.len(), ALARMS);
    for types in alarms.values() {
        let (first, last) = (types[0], types[types.len() - 1]);
        assert_eq!((types.len(), first, last), (TOUCHES + 2, "created", "cancelled"));
    }
}

fn last(seen: &[Value]) -> Option<u64> {
    seen.last().and_then(|change| change["id"].as_u64())
}

/// Has all alarms written again, a few in each transaction, which are locked in one order as the node does it: the places
/// of rows in the table are none.
async fn touch(database: &str, part: usize) {
    let mut conn = PgConnection::connect(database).await.expect("it answers");
    for first in "0123456789abcdef".chars().cycle().skip(part).take(16) {
        let touched = sqlx::query(
            "WITH locked AS (SELECT id FROM standalone_alarm WHERE substr(id, 1, 1) = $1 ORDER BY id FOR UPDATE) \
             UPDATE standalone_alarm AS alarm SET terms = terms FROM locked WHERE alarm.id = locked.id",
        );
        let touched = touched.bind(first.to_string()).execute(&mut conn).await;
        touched.expect("it is written");
    }
}

#[tokio::test]
async fn what_one_node_does_is_told_at_another_within_a_moment() {
    let scene = Scene::of(2).await;
    let url = scene.nodes[1].url(&format!("/v1/alarms/feed?owner={OWNER}"));
    let mut stream = Stream::open(&url, None).await;
    let body = json!({ "owner": OWNER, "delay": "2h", "channel": "email", "label": "Tea" }).to_string();
    let created = scene.nodes[0]
        .post("/v1/alarms", "application/json", body)
        .await
        .ok();
    let asked = SystemClock.elapsed();

    let told = stream.next().await.expect("it goes on");

    assert_eq!(
        (&told["type"], &told["alarm_id"]),
        (&json!("created"), &created["id"])
    );
    let took = SystemClock.elapsed().saturating_sub(asked);
    assert!(took.as_secs() < 10, "{took:?}");
}

#[tokio::test]
async fn whoever_talks_with_one_node_is_told_what_others_do_and_goes_on_at_another() {
    let mut scene = Scene::of(3).await;
    let body = json!({ "owner": OWNER, "delay": "2h", "channel": "email", "label": "Tea" }).to_string();
    let create = async |node: &Node| {
        node.post("/v1/alarms", "application/json", body.clone())
            .await
            .ok()
    };
    let mut talker = Talker::open(scene.nodes[0].home.port).await;
    talker.call(1, "subscribe", json!({ "owner": OWNER })).await;

    let created = create(&scene.nodes[1]).await;

    let told = talker.events(1).await.remove(0);
    assert_eq!(
        (&told["id"], &told["type"], &told["alarm_id"]),
        (&json!(1), &json!("created"), &created["id"])
    );
    let read = talker
        .call(2, "get", json!({ "owner": OWNER, "id": created["id"] }))
        .await;
    assert_eq!(read["result"]["id"], created["id"], "{read}");

    scene.nodes[0].kill();
    assert_eq!(talker.next().await, Err(0));
    create(&scene.nodes[1]).await;
    let mut elsewhere = Talker::open(scene.nodes[2].home.port).await;
    elsewhere
        .call(1, "subscribe", json!({ "owner": OWNER, "after": told["id"] }))
        .await;
    let asked = json!({ "owner": OWNER, "id": created["id"] });
    create(&scene.nodes[1]).await;
    let missed = elsewhere.events(2).await;
    let shown: Vec<_> = missed
        .iter()
        .map(|change| (&change["id"], &change["type"]))
        .collect();
    assert_eq!(
        shown,
        [(&json!(2), &json!("created")), (&json!(3), &json!("created"))]
    );
    let cancelled = elsewhere.call(2, "cancel", asked).await;
    assert_eq!(cancelled["result"]["status"], "cancelled", "{cancelled}");
    assert_eq!(elsewhere.events(1).await[0]["id"], 4);
}

/// Changes that are told of in several pages.
const MANY: u32 = 3_000;

#[tokio::test]
async fn whoever_calls_all_the_time_catches_up_all_the_same() {
    let scene = Scene::of(2).await;
    let mut conn = PgConnection::connect(&scene.database).await.expect("it answers");
    for statement in [
        "INSERT INTO alarm_feed (owner, last) VALUES ($1, $2) ON CONFLICT (owner) DO UPDATE SET last = excluded.last",
        "INSERT INTO alarm_change (owner, number, at, alarm_id, what, channel, detail)
         SELECT $1, number, now(), 'a', 'created', 'email', '' FROM generate_series(1, $2) AS number",
    ] {
        let written = sqlx::query(statement).bind(OWNER).bind(i64::from(MANY));
        written.execute(&mut conn).await.expect("it is written");
    }
    let mut talker = Talker::open(scene.nodes[0].home.port).await;
    talker
        .call(1, "subscribe", json!({ "owner": OWNER, "after": 0 }))
        .await;
    let mut lock = conn.begin().await.expect("it begins");
    let locked = sqlx::query("LOCK TABLE alarm_change IN ACCESS EXCLUSIVE MODE");
    locked.execute(&mut *lock).await.expect("it is locked");
    let mut watch = PgConnection::connect(&scene.database).await.expect("it answers");
    eventually("the node to look for more", async || {
        (looking(&mut watch).await == 1).then_some(())
    })
    .await;

    let mut told = 0;
    for id in 2..12 {
        let call = json!({ "id": id, "call": "count", "params": { "owner": OWNER } });
        talker.say(call.to_string()).await;
        loop {
            let said = talker.next().await.expect("it goes on");
            if said["id"] == id {
                break;
            }
            told += 1;
        }
    }

    assert_eq!(
        looking(&mut watch).await,
        1,
        "it looks once, whatever is asked meanwhile"
    );
    assert!(told < MANY, "it is behind: {told}");
    lock.rollback().await.expect("it ends");
    let rest = talker.events((MANY - told) as usize).await;
    assert_eq!(rest[rest.len() - 1]["id"], MANY);
}

/// Those who look for changes, and wait for the lock.
async fn looking(conn: &mut PgConnection) -> i64 {
    let looking = sqlx::query_scalar(
        "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '-- alarm_changes%' AND wait_event_type = 'Lock'",
    );
    looking.fetch_one(conn).await.expect("it answers")
}
