//! A node as a part of a program: what its handlers are given and what follows from their answers, through the library.

#[path = "../../examples/embedded.rs"]
mod example;

mod asking;
mod crash;
mod mixed;
mod own_store;
mod room;

use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use carillon::embedded::Answer;
use carillon::embedded::AskError;
use carillon::embedded::Builder;
use carillon::embedded::Call;
use carillon::embedded::Dispatched;
use carillon::embedded::Embedded;
use carillon::embedded::When;
use carillon::store::AlarmStatus;
use carillon::store::AlarmTerms;
use carillon::store::Delivery;
use carillon::store::HistoryQuery;
use carillon::store::Standalone;
use carillon::trigger::AlarmId;
use carillon::trigger::OwnerId;
use carillon::trigger::outcome::Outcome;
use tempfile::TempDir;
use tokio::sync::Notify;

use crate::harness::eventually;

/// At once.
const NOW: When = When::In(Duration::ZERO);

/// A file that is gone with the test.
fn file() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let path = folder.path().join("program.db");
    (folder, path)
}

fn on(path: &Path) -> Builder {
    Builder::on_sqlite(path).expect("the defaults are right")
}

/// Tried again soon.
fn soon() -> AlarmTerms {
    AlarmTerms {
        attempts: Some(3),
        backoff_ms: Some(50),
        ..AlarmTerms::default()
    }
}

/// Has a text handed to the handler of that name, at once, and again soon.
async fn dispatch(node: &Embedded, handler: &str, message: &str) -> AlarmId {
    let asked = node
        .dispatch_with(soon(), (handler, &message), message, NOW)
        .await;
    asked.expect("it may be asked for").alarm.id
}

/// Waits until the alarm has that status.
async fn status(node: &Embedded, id: &AlarmId, status: AlarmStatus) -> Standalone {
    eventually(&format!("an alarm to be {status}"), async || {
        let alarm = node.alarm(id).await.expect("the store works");
        alarm.filter(|alarm| alarm.status == status)
    })
    .await
}

/// What became of an alarm.
async fn firing(node: &Embedded, id: &AlarmId) -> Delivery {
    let query = HistoryQuery {
        limit: 100,
        ..HistoryQuery::default()
    };
    let rows = node.store().history(&query).await.expect("the store works");
    let firing = rows
        .into_iter()
        .find(|row| row.wish.alarm_id().as_ref() == Some(id));
    firing.expect("it is over")
}

/// What a handler was given: message and attempt.
#[derive(Debug, Clone, Default)]
struct Given(Arc<Mutex<Vec<(String, u32)>>>);

impl Given {
    fn note(&self, call: &Call<String>) {
        self.0.lock().unwrap().push((call.message.clone(), call.attempt));
    }

    fn all(&self) -> Vec<(String, u32)> {
        self.0.lock().unwrap().clone()
    }
}

/// Starts a node whose handler of that name is done with all that it is given.
async fn noting(node: Builder, handler: &str) -> (Embedded, Given) {
    let calls = Given::default();
    let noting = calls.clone();
    let node = node.handler(handler, move |call: Call<String>| {
        noting.note(&call);
        std::future::ready(Answer::Ok)
    });
    (node.start().await.expect("it starts"), calls)
}

fn given(calls: &[(&str, u32)]) -> Vec<(String, u32)> {
    calls
        .iter()
        .map(|(message, attempt)| ((*message).to_owned(), *attempt))
        .collect()
}

#[tokio::test]
async fn a_handler_is_called_once_with_what_was_asked_for() {
    let (_folder, path) = file();
    let calls = Arc::new(Mutex::new(Vec::new()));
    let noting = Arc::clone(&calls);
    let node = on(&path)
        .handler("tea", move |call: Call<(String, u32)>| {
            noting.lock().unwrap().push(call);
            std::future::ready(Answer::Ok)
        })
        .start()
        .await
        .expect("it starts");
    let message = ("black".to_owned(), 3);
    let asked = node.dispatch("tea", &message, "today", NOW).await;
    let Dispatched { alarm, existed } = asked.expect("it may be asked for");
    assert!(!existed);

    let fired = status(&node, &alarm.id, AlarmStatus::Fired).await;

    assert_eq!((fired.last_error, fired.failure_count), (None, 0));
    let row = firing(&node, &alarm.id).await;
    assert_eq!(row.outcome, Outcome::Completed);
    let expected = Call {
        message,
        attempt: 1,
        scheduled_for: alarm.fire_at,
        alarm_id: alarm.id.0,
        trigger_id: row.id.to_string(),
        key: Some("today".to_owned()),
    };
    node.stop().await.expect("nothing broke");
    assert_eq!(*calls.lock().unwrap(), [expected]);
}

#[tokio::test]
async fn a_handler_that_asks_for_it_is_called_again_with_its_own_message() {
    let (_folder, path) = file();
    let calls = Given::default();
    let noting = calls.clone();
    let node = on(&path)
        .handler("steps", move |call: Call<String>| {
            noting.note(&call);
            let message = match call.message.as_str() {
                "one" => Some("two".to_owned()),
                // The one that it has, not the first.
                "two" if call.attempt == 2 => None,
                _ => return std::future::ready(Answer::Ok),
            };
            let after = Duration::from_millis(20);
            std::future::ready(Answer::Retry { after, message })
        })
        .start()
        .await
        .expect("it starts");

    let id = dispatch(&node, "steps", "one").await;
    status(&node, &id, AlarmStatus::Fired).await;

    assert_eq!(calls.all(), given(&[("one", 1), ("two", 2), ("two", 3)]));
    assert_eq!(firing(&node, &id).await.attempts, 3);
}

#[tokio::test]
async fn work_that_a_handler_took_is_reported_later() {
    let (_folder, path) = file();
    let node = on(&path)
        .handler("work", async |call: Call<String>| {
            Answer::Later(match call.message.as_str() {
                "whenever" => Duration::MAX,
                _ => Duration::from_hours(1),
            })
        })
        .start()
        .await
        .expect("it starts");
    for (message, said, outcome) in [
        ("soon", Ok("as asked"), Outcome::Completed),
        ("in vain", Err("no paper"), Outcome::Failed),
        ("whenever", Ok("at last"), Outcome::Completed),
    ] {
        let id = dispatch(&node, "work", message).await;
        status(&node, &id, AlarmStatus::Fired).await;
        let awaiting = firing(&node, &id).await;
        assert_eq!(awaiting.outcome, Outcome::Awaiting);

        let is_known = node.report(&awaiting.id.to_string(), said).await;

        assert!(is_known.expect("the store works"));
        let over = firing(&node, &id).await;
        assert_eq!(over.outcome, outcome);
        assert_eq!(over.report.as_deref(), Some(said.unwrap_or_else(|reason| reason)));
    }
    for nobody in ["", "00000000000000000000000000000000"] {
        assert!(!node.report(nobody, Ok("")).await.expect("the store works"));
    }
}

#[tokio::test]
async fn a_handler_that_is_never_done_or_says_that_it_cannot_be_has_failed() {
    let (_folder, path) = file();
    let node = on(&path)
        .handler("work", async |call: Call<String>| match call.message.as_str() {
            "again" => Answer::Retry {
                after: Duration::from_millis(20),
                message: None,
            },
            _ => Answer::Fail("no such order".to_owned()),
        })
        .start()
        .await
        .expect("it starts");

    for (message, error, attempts) in [
        ("again", "once more than there are attempts", 3),
        ("never", "no such order", 1),
    ] {
        let id = dispatch(&node, "work", message).await;
        let failed = status(&node, &id, AlarmStatus::Failed).await;
        let said = failed.last_error.unwrap_or_default();
        assert!(said.contains(error), "{said}");
        assert_eq!(firing(&node, &id).await.attempts, attempts, "{message}");
    }
}

#[tokio::test]
async fn a_message_of_another_kind_fails_at_once() {
    let (_folder, path) = file();
    let node = on(&path)
        .handler("number", async |_: Call<u32>| Answer::Ok)
        .start()
        .await
        .expect("it starts");

    let id = dispatch(&node, "number", "secret").await;

    let failed = status(&node, &id, AlarmStatus::Failed).await;
    let said = failed.last_error.unwrap_or_default();
    assert!(
        said.contains("no message of this handler") && !said.contains("secret"),
        "{said}"
    );
    assert_eq!(firing(&node, &id).await.attempts, 1);
}

#[tokio::test]
async fn a_panic_or_a_call_without_end_is_tried_again_and_stops_nobody_else() {
    let (_folder, path) = file();
    let calls = Given::default();
    let noting = calls.clone();
    let node = on(&path)
        .calls(2)
        .handler("frail", move |call: Call<String>| {
            noting.note(&call);
            async move {
                match (call.message.as_str(), call.attempt) {
                    ("panics", 1) => panic!("as the test has it"),
                    ("hangs", 1) => std::future::pending().await,
                    _ => Answer::Ok,
                }
            }
        })
        .handler("sound", async |_: Call<String>| Answer::Ok)
        .start()
        .await
        .expect("it starts");
    let quick = AlarmTerms {
        dispatch_timeout_ms: Some(200),
        ..soon()
    };
    let hangs = node.dispatch_with(quick, ("frail", &"hangs"), "hangs", NOW).await;
    let ids = [
        hangs.expect("it may be asked for").alarm.id,
        dispatch(&node, "frail", "panics").await,
        dispatch(&node, "sound", "goes on").await,
    ];

    for id in &ids {
        status(&node, id, AlarmStatus::Fired).await;
    }

    let mut calls = calls.all();
    calls.sort();
    assert_eq!(
        calls,
        given(&[("hangs", 1), ("hangs", 2), ("panics", 1), ("panics", 2)])
    );
}

#[tokio::test]
async fn a_handler_that_is_not_there_is_looked_for_again_also_after_the_next_start() {
    let (_folder, path) = file();
    let without = on(&path).start().await.expect("it starts");
    let patient = AlarmTerms {
        attempts: Some(100),
        ..soon()
    };
    let asked = without
        .dispatch_with(patient, ("tea", &"black"), "today", NOW)
        .await;
    let id = asked.expect("it may be asked for").alarm.id;
    let tried = eventually("it is tried", async || {
        let group = without
            .store()
            .group(&OwnerId("program".to_owned()), &format!(" {}", id.0))
            .await;
        let group = group.expect("the store works").expect("it is owed");
        group.triggers.into_iter().find(|trigger| trigger.attempts > 0)
    })
    .await;
    assert_eq!(tried.wish.alarm_id().as_ref(), Some(&id));
    without.stop().await.expect("nothing broke");

    let with = on(&path)
        .handler("tea", async |_: Call<String>| Answer::Ok)
        .start()
        .await
        .expect("the store was let go of");

    let fired = status(&with, &id, AlarmStatus::Fired).await;
    assert_eq!(fired.failure_count, 0);
    assert!(firing(&with, &id).await.attempts > 1);
}

#[tokio::test]
async fn a_call_under_way_ends_before_the_node_stops() {
    let (_folder, path) = file();
    let (begun, end) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (telling, waiting) = (Arc::clone(&begun), Arc::clone(&end));
    let node = on(&path)
        .handler("slow", move |_: Call<String>| {
            telling.notify_one();
            let waiting = Arc::clone(&waiting);
            async move {
                waiting.notified().await;
                Answer::Ok
            }
        })
        .start()
        .await
        .expect("it starts");
    let id = dispatch(&node, "slow", "work").await;
    begun.notified().await;

    let ends = async {
        // Only once it was asked to stop.
        tokio::task::yield_now().await;
        end.notify_one();
    };
    let (stopped, ()) = tokio::join!(node.stop(), ends);

    stopped.expect("nothing broke");
    let again = on(&path).start().await.expect("the store was let go of");
    assert_eq!(firing(&again, &id).await.outcome, Outcome::Completed);
}

#[tokio::test]
async fn a_store_that_is_in_use_is_no_node() {
    let (_folder, path) = file();
    let first = on(&path).start().await.expect("it starts");

    let second = on(&path).start().await;

    let refused = second.expect_err("one process holds it").to_string();
    assert!(
        refused.contains("in use") || refused.contains("another"),
        "{refused}"
    );
    first.stop().await.expect("nothing broke");
}
