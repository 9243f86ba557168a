//! What the nodes of a cluster ask PostgreSQL before they know each other, and the fence that keeps all but the latest
//! leader from its work.

use std::sync::Arc;

use carillon::store::Fence;
use carillon::store::StoreError;
use carillon::store::postgres::Options;
use carillon::store::postgres::PostgresStore;

use crate::store::Base;
use crate::store::Stage;
use crate::store::minute;
use crate::store::new;
use crate::store::rules;

async fn store(stage: &Stage) -> Arc<PostgresStore> {
    let store = PostgresStore::open(stage.url(), Options::default()).await;
    Arc::new(store.expect("it opens"))
}

fn fence(term: i64, node: i64) -> Fence {
    Fence {
        generation: 1,
        term,
        node,
    }
}

#[tokio::test]
async fn a_number_is_never_given_twice_and_the_first_node_founds() {
    let base = Base::postgres().await;
    let store = store(&Stage::on(&base).await).await;
    let first = store.register("a:1").await.expect("a number");
    store.forget(first).await.expect("it is struck off");
    let second = store.register("a:1").await.expect("a number");
    let third = store.register("b:1").await.expect("a number");

    assert!(first < second && second < third);
    let founded = store.found_or_get(second).await.expect("a charter");
    assert_eq!(founded.founder, second);
    assert_eq!(store.found_or_get(third).await.expect("a charter"), founded);
    store.seen(third, "c:1").await.expect("it is noted");
    let peers = store.peers().await.expect("a list");
    assert_eq!(peers, [(second, "a:1".to_owned()), (third, "c:1".to_owned())]);
}

#[tokio::test]
async fn a_leader_that_was_followed_does_nothing_any_more() {
    let base = Base::postgres().await;
    let stage = Stage::on(&base).await;
    stage.plan("e", &[new("e", 1)]).await;
    let store = store(&stage).await;
    let (old, next) = (fence(3, 1), fence(4, 2));
    assert!(store.acquire(old).await.expect("an answer"));
    assert!(
        store.acquire(old).await.expect("an answer"),
        "again, after a lost answer"
    );
    assert!(store.acquire(next).await.expect("an answer"));
    assert!(
        !store.acquire(old).await.expect("an answer"),
        "a term that has passed"
    );

    let deposed = Arc::clone(&stage.store).fenced(Some(old));
    let claimed = deposed.claim_due(stage.session, minute(9), None, 10).await;
    assert!(matches!(claimed, Err(StoreError::Fenced)), "{claimed:?}");
    let rescued = deposed.rescue(&rules(), 10).await;
    assert!(matches!(rescued, Err(StoreError::Fenced)), "{rescued:?}");
    assert!(stage.triggers("e").await[0].session.is_none(), "it is free still");

    let leading = Arc::clone(&stage.store).fenced(Some(next));
    let claimed = leading.claim_due(stage.session, minute(9), None, 10).await;
    assert_eq!(claimed.expect("a page").len(), 1);
}
