use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering;

use tokio::sync::Notify;

use super::*;
use crate::clock::ManualClock;

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Tea {
    cups: u32,
}

struct Scene {
    clock: Arc<ManualClock>,
    channel: HandlerChannel,
}

impl Scene {
    fn of(handlers: Handlers) -> Self {
        let clock = Arc::new(ManualClock::at("2026-12-01T08:15:00Z".parse().unwrap()));
        let channel = HandlerChannel::new(handlers, Arc::clone(&clock) as Arc<dyn Clock>);
        Self { clock, channel }
    }

    fn with<A>(handler: impl Fn(Call<Tea>) -> A + Send + Sync + 'static) -> Self
    where
        A: Future<Output = Answer<Tea>> + Send + 'static,
    {
        let mut handlers = Handlers::default();
        handlers.put("tea", 1, handler);
        Self::of(handlers)
    }

    async fn send(&self, payload: &str) -> Report {
        self.send_to("tea", payload, None, TIME * 10).await
    }

    /// One call with so much time of its own, in an attempt that has so much.
    async fn send_to(
        &self,
        name: &str,
        payload: &str,
        within: Option<Duration>,
        attempt: Duration,
    ) -> Report {
        let document = format!(
            r#"{{"alarm_id":"a1","trigger_id":"t1","attempt":2,"scheduled_for":"2026-12-01T08:15:00Z","idempotency_key":"k",
                "label":"Tea","payload":{payload}}}"#
        );
        let message = Message {
            id: "1".repeat(32),
            thread: "a1".to_owned(),
            owner: 1,
            to: name.to_owned(),
            content: Content::Json(document),
            language: "en".to_owned(),
            within,
            own: crate::channel::Own::default(),
        };
        let deadline = Deadline(self.clock.elapsed() + attempt);
        self.channel.send(&message, deadline).await
    }
}

/// Calls that never end by themselves, and are told as they begin.
fn endless(
    begun: &Arc<Notify>,
) -> impl Fn(Call<Tea>) -> std::future::Pending<Answer<Tea>> + Send + Sync + 'static {
    let telling = Arc::clone(begun);
    move |_| {
        telling.notify_one();
        std::future::pending()
    }
}

impl Scene {
    /// Waits until so many calls of the handler that may have one at once are under way or wait.
    async fn inside(&self, count: usize) {
        while self.channel.handlers.0["tea"].pace.lock().unwrap().present != count {
            tokio::task::yield_now().await;
        }
    }
}

fn error_of(report: Report) -> (&'static str, String) {
    match report {
        Report::Transient { error, of, .. } => {
            assert_eq!(of, Blame::Message, "it counts");
            ("transient", error)
        }
        Report::Permanent { error } => ("permanent", error),
        Report::Busy { error, .. } => ("busy", error),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_handler_is_given_the_call_and_its_answer_is_reported() {
    let scene = Scene::with(async |call: Call<Tea>| {
        assert_eq!(
            (call.attempt, call.alarm_id.as_str(), call.trigger_id.as_str()),
            (2, "a1", "t1")
        );
        assert_eq!(call.key.as_deref(), Some("k"));
        assert_eq!(call.scheduled_for.to_rfc3339(), "2026-12-01T08:15:00+00:00");
        match call.message.cups {
            1 => Answer::Ok,
            2 => Answer::Fail("no tea".to_owned()),
            3 => Answer::Retry {
                after: TIME,
                message: Some(Tea { cups: 1 }),
            },
            5 => Answer::Later(TIME),
            _ => Answer::Retry {
                after: TIME,
                message: None,
            },
        }
    });
    let again = |payload: Option<&str>| Report::Again {
        after: TIME,
        payload: payload.map(str::to_owned),
    };
    assert!(matches!(
        scene.send(r#"{"cups":1}"#).await,
        Report::Accepted { awaits: None, .. }
    ));
    assert!(matches!(
        scene.send(r#"{"cups":5}"#).await,
        Report::Accepted {
            awaits: Some(TIME),
            ..
        }
    ));
    let refused = error_of(scene.send(r#"{"cups":2}"#).await);
    assert_eq!(refused, ("permanent", "no tea".to_owned()));
    assert_eq!(scene.send(r#"{"cups":3}"#).await, again(Some(r#"{"cups":1}"#)));
    assert_eq!(scene.send(r#"{"cups":4}"#).await, again(None));
}

#[tokio::test]
async fn a_name_that_nobody_has_is_tried_again() {
    let scene = Scene::of(Handlers::default());
    let report = error_of(scene.send("null").await);
    assert_eq!(report, ("transient", "no such target tea".to_owned()));
}

#[tokio::test]
async fn a_payload_that_does_not_fit_is_not_tried_again_nor_told() {
    let scene = Scene::with(async |_| Answer::Ok);
    let (kind, error) = error_of(scene.send(r#"{"cups":"secret"}"#).await);
    assert_eq!(kind, "permanent");
    assert!(error.contains("line 1, column 16"), "{error}");
    assert!(!error.contains("secret"), "{error}");
    assert_eq!(error_of(scene.send("null").await).0, "permanent");
}

#[tokio::test]
async fn a_message_for_the_next_attempt_is_bounded() {
    let mut handlers = Handlers::default();
    handlers.put("tea", 1, async |call: Call<String>| Answer::Retry {
        after: TIME,
        message: Some(call.message),
    });
    let scene = Scene::of(handlers);
    let text = |length: usize| format!("\"{}\"", "x".repeat(length - 2));
    assert!(matches!(scene.send(&text(PAYLOAD)).await, Report::Again { .. }));
    let (kind, error) = error_of(scene.send(&text(PAYLOAD + 1)).await);
    assert_eq!(kind, "permanent");
    assert!(error.contains("16385 bytes: 16384 are kept"), "{error}");
}

#[tokio::test]
async fn a_panic_is_a_failure_of_that_call_alone() {
    let scene = Scene::with(async |call: Call<Tea>| {
        assert!(call.message.cups < 2, "too much tea");
        Answer::Ok
    });
    let report = error_of(scene.send(r#"{"cups":2}"#).await);
    assert_eq!(report, ("transient", "the handler panicked".to_owned()));
    assert!(matches!(
        scene.send(r#"{"cups":1}"#).await,
        Report::Accepted { .. }
    ));
}

#[tokio::test]
async fn a_call_ends_when_its_time_is_over() {
    let begun = Arc::new(Notify::new());
    let telling = Arc::clone(&begun);
    let scene = Scene::with(move |_| {
        telling.notify_one();
        std::future::pending()
    });
    let (report, ()) = tokio::join!(scene.send(r#"{"cups":1}"#), async {
        begun.notified().await;
        scene.clock.advance(TIME);
    });
    let expected = "the handler did not end within 5000 ms".to_owned();
    assert_eq!(error_of(report), ("transient", expected));
    assert!(
        scene.channel.handlers.0["tea"].calls.acquire().await.is_ok(),
        "there is room again"
    );
}

#[tokio::test]
async fn a_handler_that_has_no_room_is_called_later() {
    let begun = Arc::new(Notify::new());
    let calls = Arc::new(AtomicU32::new(0));
    let (telling, counting) = (Arc::clone(&begun), Arc::clone(&calls));
    let scene = Scene::with(move |_| {
        counting.fetch_add(1, Ordering::Relaxed);
        telling.notify_one();
        std::future::pending()
    });
    let (first, second, ()) = tokio::join!(
        scene.send_to("tea", r#"{"cups":1}"#, Some(TIME * 2), TIME * 10),
        async {
            begun.notified().await;
            scene.send(r#"{"cups":1}"#).await
        },
        async {
            scene.inside(2).await;
            scene.clock.advance(TIME);
            scene.inside(1).await;
            scene.clock.advance(TIME);
        }
    );
    assert_eq!(error_of(first).0, "transient");
    assert_eq!(error_of(second).0, "busy");
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_call_waits_no_longer_than_it_can_have_its_whole_time_after() {
    let begun = Arc::new(Notify::new());
    let scene = Scene::with(endless(&begun));
    let second = Duration::from_secs(1);
    let (_, waited, ()) = tokio::join!(
        scene.send_to("tea", r#"{"cups":1}"#, Some(TIME), TIME * 10),
        async {
            begun.notified().await;
            scene
                .send_to("tea", r#"{"cups":1}"#, Some(TIME), TIME + second)
                .await
        },
        async {
            scene.inside(2).await;
            scene.clock.advance(second);
            // It has left, long before the other call is over.
            scene.inside(1).await;
            scene.clock.advance(TIME.saturating_sub(second));
        }
    );
    assert_eq!(error_of(waited).0, "busy");
}

#[tokio::test]
async fn the_time_of_a_call_is_its_alarms_and_begins_when_it_has_room() {
    let begun = Arc::new(Notify::new());
    let scene = Scene::with(endless(&begun));
    let [two, four] = [2, 4].map(Duration::from_secs);
    let (first, second, ()) = tokio::join!(
        scene.send_to("tea", r#"{"cups":1}"#, Some(two), TIME * 10),
        async {
            begun.notified().await;
            scene.send_to("tea", r#"{"cups":1}"#, Some(four), TIME * 10).await
        },
        async {
            scene.inside(2).await;
            scene.clock.advance(two);
            begun.notified().await;
            scene.clock.advance(four);
        }
    );
    let ended = |ms: u32| ("transient", format!("the handler did not end within {ms} ms"));
    assert_eq!(error_of(first), ended(2_000));
    assert_eq!(error_of(second), ended(4_000));
}

#[tokio::test]
async fn a_handler_that_hangs_takes_no_room_of_another() {
    let begun = Arc::new(Notify::new());
    let mut handlers = Handlers::default();
    handlers.put("tea", 1, endless(&begun));
    handlers.put("coffee", 2, async |_: Call<Tea>| Answer::Ok);
    let scene = Scene::of(handlers);
    assert_eq!(scene.channel.permits(), 1 + room_for(1) + room_for(2));
    let hanging = futures_util::future::join_all((0..room_for(1)).map(|_| scene.send(r#"{"cups":1}"#)));
    tokio::select! {
        _ = hanging => panic!("they hang"),
        () = async {
            begun.notified().await;
            scene.inside(room_for(1)).await;
            let none = error_of(scene.send(r#"{"cups":1}"#).await);
            assert_eq!(none.0, "busy", "there is no place to wait at");
            let other = scene.send_to("coffee", r#"{"cups":1}"#, None, TIME).await;
            assert!(matches!(other, Report::Accepted { .. }), "{other:?}");
        } => {}
    }
}
