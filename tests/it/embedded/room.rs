//! What a handler that hangs costs itself, and what the others see of it.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;

use futures_util::future::join_all;
use tokio::sync::watch;

use super::*;

/// More than a handler of two calls has room for.
const ALARMS: usize = 70;

#[tokio::test]
async fn a_handler_whose_calls_all_hang_keeps_no_other_waiting() {
    let (_folder, path) = file();
    let (end, ended) = watch::channel(false);
    let (under_way, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (counting, peak) = (Arc::clone(&under_way), Arc::clone(&most));
    let node = on(&path)
        .calls(2)
        .handler("stuck", move |_: Call<usize>| {
            peak.fetch_max(counting.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            let (counting, mut ended) = (Arc::clone(&counting), ended.clone());
            async move {
                let _ = ended.wait_for(|it| *it).await;
                counting.fetch_sub(1, Ordering::SeqCst);
                Answer::Ok
            }
        })
        .handler("sound", async |_: Call<String>| Answer::Ok)
        .start()
        .await
        .expect("it starts");
    let patient = AlarmTerms {
        dispatch_timeout_ms: Some(60_000),
        ..soon()
    };
    let keys: Vec<String> = (0..ALARMS).map(|number| number.to_string()).collect();
    let asked = keys.iter().enumerate().map(|(number, key)| {
        let terms = patient.clone();
        let node = &node;
        async move { node.dispatch_with(terms, ("stuck", &number), key, NOW).await }
    });
    for asked in join_all(asked).await {
        asked.expect("it may be asked for");
    }
    eventually("both calls hang", async || {
        (under_way.load(Ordering::SeqCst) == 2).then_some(())
    })
    .await;

    let other = dispatch(&node, "sound", "goes on").await;
    status(&node, &other, AlarmStatus::Fired).await;

    assert_eq!(under_way.load(Ordering::SeqCst), 2, "they hang all the while");
    end.send(true).expect("the handler listens");
    node.stop().await.expect("nothing broke");
    assert_eq!(most.load(Ordering::SeqCst), 2);
}
