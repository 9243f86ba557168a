//! What a program may ask for, and what it is told of it.

use carillon::store::AlarmChange;
use carillon::trigger::ChannelKind;
use chrono::DateTime;
use chrono::Utc;
use serde_json::Value;

use super::*;

const LATER: When = When::In(Duration::from_hours(1));

#[tokio::test]
async fn a_key_names_one_alarm_for_ever() {
    let (_folder, path) = file();
    let node = on(&path).start().await.expect("it starts");
    let first = node.dispatch("tea", &"black", "today", LATER).await;
    let first = first.expect("it may be asked for").alarm;

    let again = node.dispatch("tea", &"black", "today", NOW).await;
    let other = node.dispatch("tea", &"green", "today", LATER).await;
    let elsewhere = node.dispatch("coffee", &"black", "today", LATER).await;

    let again = again.expect("it is the same");
    assert_eq!((again.alarm, again.existed), (first, true));
    assert!(matches!(other, Err(AskError::OtherMessage)), "{other:?}");
    assert!(matches!(elsewhere, Err(AskError::OtherMessage)), "{elsewhere:?}");
}

#[tokio::test]
async fn alarms_are_listed_and_called_off() {
    let (_folder, path) = file();
    let (node, calls) = noting(on(&path), "tea").await;
    let mut ids = Vec::new();
    for key in ["one", "two", "three"] {
        let asked = node.dispatch("tea", &key, key, LATER).await;
        ids.push(asked.expect("it may be asked for").alarm.id);
    }

    let cancelled = node.cancel(&ids[1]).await.expect("it is there");
    let again = node.cancel(&ids[1]).await.expect("it is answered the same");

    assert_eq!(cancelled.status, AlarmStatus::Cancelled);
    assert_eq!(again, cancelled);
    let active = node
        .alarms(Some(AlarmStatus::Active), None, 1)
        .await
        .expect("the store works");
    let rest = node.alarms(Some(AlarmStatus::Active), active.last(), 10).await;
    let listed = active.into_iter().chain(rest.expect("the store works"));
    let mut keys: Vec<String> = listed.filter_map(|alarm| alarm.key).collect();
    keys.sort();
    assert_eq!(keys, ["one", "three"]);
    let nobody = AlarmId("0".repeat(32));
    assert!(matches!(node.cancel(&nobody).await, Err(AskError::Unknown(id)) if id == nobody));
    assert_eq!(node.alarm(&nobody).await.expect("the store works"), None);
    assert_eq!(calls.all(), []);
}

#[tokio::test]
async fn the_feed_tells_what_becomes_of_what_is_dispatched() {
    let (_folder, path) = file();
    let node = on(&path)
        .handler("tea", async |call: Call<String>| match call.attempt {
            1 => Answer::Retry {
                after: Duration::from_millis(20),
                message: None,
            },
            _ => Answer::Ok,
        })
        .start()
        .await
        .expect("it starts");
    let id = dispatch(&node, "tea", "black").await;
    status(&node, &id, AlarmStatus::Fired).await;

    let owner = OwnerId("program".to_owned());
    let changes = node.store().alarm_changes(&owner, 0, 10).await;
    let last = node.store().last_changes(std::slice::from_ref(&owner)).await;
    let counts = node.store().firing_counts(&owner).await.expect("the store works");

    let changes = changes.expect("the store works");
    let told: Vec<(u64, &str)> = changes.iter().map(|it| (it.number, it.what.as_str())).collect();
    assert_eq!(told, [(1, "created"), (2, "retrying"), (3, "completed")]);
    let is_of = |it: &AlarmChange| it.alarm_id == id.0 && it.channel == ChannelKind::Handler;
    assert!(changes.iter().all(is_of), "{changes:?}");
    assert_eq!(last.expect("the store works"), [(owner, 3)]);
    let counts: Vec<_> = counts
        .iter()
        .map(|it| (it.channel, it.outcome.as_str(), it.amount))
        .collect();
    assert_eq!(counts, [(ChannelKind::Handler, "completed", 1)]);
}

#[tokio::test]
async fn what_is_past_is_done_at_once() {
    let (_folder, path) = file();
    let node = on(&path)
        .handler("tea", async |_: Call<String>| Answer::Ok)
        .start()
        .await
        .expect("it starts");
    let past = When::At(crate::harness::now() - chrono::TimeDelta::days(400));

    let asked = node.dispatch("tea", &"black", "today", past).await;

    status(
        &node,
        &asked.expect("it may be asked for").alarm.id,
        AlarmStatus::Fired,
    )
    .await;
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_with_the_cure() {
    let (_folder, path) = file();
    let node = on(&path).start().await.expect("it starts");
    let large = "x".repeat(256 * 1024);
    let often = AlarmTerms {
        attempts: Some(101),
        ..AlarmTerms::default()
    };
    let short = AlarmTerms {
        dispatch_timeout_ms: Some(1),
        ..AlarmTerms::default()
    };
    let plain = AlarmTerms::default;
    let far = When::In(Duration::MAX);
    for (terms, handler, message, key, when, told) in [
        (plain(), "", "m", "k", NOW, "target: the target is empty"),
        (plain(), "tea", "m", "", NOW, "the idempotency_key is empty"),
        (plain(), "tea", &large, "k", NOW, "262144 are allowed"),
        (often, "tea", "m", "k", NOW, "use 1 to 100"),
        (short, "tea", "m", "k", NOW, "use 100 to 60000"),
        (plain(), "tea", "m", "k", far, "use something sooner"),
        (
            plain(),
            "tea",
            "m",
            "k",
            When::At(DateTime::<Utc>::MAX_UTC),
            "use something sooner",
        ),
    ] {
        let refused = node.dispatch_with(terms, (handler, &message), key, when).await;
        let refused = refused.expect_err(told).to_string();
        assert!(refused.contains(told), "{refused}");
    }
    let nested = (0..200).fold(Value::Null, |inner, _| Value::Array(vec![inner]));
    let refused = node.dispatch("tea", &nested, "k", NOW).await;
    let refused = refused.expect_err("no handler could read it").to_string();
    assert!(refused.contains("recursion limit"), "{refused}");
    let listed = node.alarms(None, None, 10).await.expect("the store works");
    assert!(listed.is_empty(), "{listed:?}");
}

/// What is logged.
#[derive(Debug, Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn what_a_handler_says_is_in_history_and_not_in_the_log() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::DEBUG)
        .with_writer(move || writer.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let (_folder, path) = file();
    let node = on(&path)
        .handler("tea", |call: Call<String>| {
            std::future::ready(Answer::Fail(format!("no {} for ann@example.org", call.message)))
        })
        .start()
        .await
        .expect("it starts");

    let id = dispatch(&node, "tea", "black").await;

    status(&node, &id, AlarmStatus::Failed).await;
    assert_eq!(firing(&node, &id).await.detail, "no black for ann@example.org");
    let logged = eventually("the end to be logged", async || {
        let logged = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
        logged.contains("trigger settled").then_some(logged)
    })
    .await;
    assert!(logged.contains("failed refused"), "{logged}");
    assert!(!logged.contains("ann@example.org"), "{logged}");
}
