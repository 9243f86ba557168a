//! Followers on a real store, whose reader the test moves by hand.

use std::sync::Arc;

use carillon::clock::Clock;
use carillon::feed::End;
use carillon::feed::Feed;
use carillon::feed::Follower;
use carillon::feed::Parts;
use carillon::feed::Refusal;
use carillon::metrics::Metrics;
use carillon::store::Retention;
use tokio_util::sync::CancellationToken;

use crate::store::Stage;
use crate::store::minute;
use crate::store::standalone::ada;
use crate::store::standalone::once;

fn feed(stage: &Stage, most: usize) -> Arc<Feed> {
    let parts = Parts {
        store: Arc::clone(&stage.store),
        clock: Arc::clone(&stage.clock) as Arc<dyn Clock>,
        metrics: Arc::new(Metrics::new()),
        recorded: Arc::default(),
    };
    Arc::new(Feed::new(parts, most, CancellationToken::new()))
}

async fn follow(feed: &Arc<Feed>, after: Option<u64>) -> Follower {
    feed.follow(&ada(), after).await.expect("it may")
}

/// Something happens so often.
async fn happen(stage: &Stage, times: usize) {
    let touch = "UPDATE standalone_alarm SET terms = terms;";
    stage.damage(&touch.repeat(times)).await;
}

async fn take(follower: &mut Follower, count: usize) -> Vec<u64> {
    let mut numbers = Vec::new();
    while numbers.len() < count {
        let changes = follower.next().await.expect("it goes on");
        numbers.extend(changes.iter().map(|change| change.number));
    }
    numbers
}

#[tokio::test]
async fn a_follower_that_falls_far_behind_misses_nothing_and_holds_up_nobody() {
    let stage = Stage::new().await;
    stage.ask_for(&once(1, 9)).await;
    let feed = feed(&stage, 9);
    let (mut quick, mut slow) = (follow(&feed, None).await, follow(&feed, Some(0)).await);
    let mut seen = Vec::new();
    // Twice as much as the ring holds.
    for _ in 0..6 {
        happen(&stage, 100).await;
        feed.look().await.expect("an answer");
        seen.extend(take(&mut quick, 100).await);
    }
    assert_eq!(seen, (2..=601).collect::<Vec<_>>());
    assert_eq!(take(&mut slow, 601).await, (1..=601).collect::<Vec<_>>());
    // Both have caught up, and are told what comes next.
    happen(&stage, 1).await;
    feed.look().await.expect("an answer");
    assert_eq!(take(&mut slow, 1).await, [602]);
    assert_eq!(take(&mut quick, 1).await, [602]);
}

#[tokio::test]
async fn more_at_once_than_the_ring_holds_is_read_from_the_store() {
    let stage = Stage::new().await;
    stage.ask_for(&once(1, 9)).await;
    let feed = feed(&stage, 9);
    let mut follower = follow(&feed, None).await;
    happen(&stage, 700).await;
    feed.look().await.expect("an answer");
    assert_eq!(take(&mut follower, 700).await, (2..=701).collect::<Vec<_>>());
}

#[tokio::test]
async fn who_comes_back_for_what_is_gone_or_never_was_is_told_so() {
    let stage = Stage::new().await;
    stage.ask_for(&once(1, 9)).await;
    happen(&stage, 3).await;
    let feed = feed(&stage, 1);
    let mut behind = follow(&feed, Some(0)).await;
    let place = feed.place().expect("there is room");
    assert!(
        matches!(feed.place(), Err(Refusal::Full(1))),
        "it is the only one"
    );
    drop(place);
    take(&mut behind, 4).await;
    let retention = Retention {
        history_before: minute(5),
        tombstones_before: minute(5),
        limit: 100,
    };
    stage.store.purge(&retention).await.expect("a count");
    happen(&stage, 300).await;
    stage.store.purge(&retention).await.expect("a count");
    stage.damage("DELETE FROM alarm_change WHERE number < 300").await;
    feed.look().await.expect("an answer");
    assert!(matches!(behind.next().await, Err(End::Gone)));
    drop(behind);
    for (after, is_good) in [(0, false), (298, false), (299, true), (304, true), (305, false)] {
        match feed.follow(&ada(), Some(after)).await {
            Ok(follower) => assert!(is_good && follower.seen() == after, "{after}"),
            Err(Refusal::Gone(last)) => assert!(!is_good && last == 304, "{after}: {last}"),
            Err(other) => panic!("{after}: {other:?}"),
        }
    }
}
