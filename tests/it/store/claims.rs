//! Claims.

use carillon::trigger::SessionId;
use carillon::trigger::State;

use crate::store::Base;
use crate::store::Stage;
use crate::store::minute;
use crate::store::new;

contract! {
    what_is_due_is_claimed_in_order_and_only_once,
    claims_come_in_pages_after_a_cursor,
    a_cursor_leaves_what_lies_before_it,
    two_that_claim_at_once_share_without_overlap,
    the_next_free_instant_is_that_of_a_free_trigger,
    a_session_finds_what_it_holds_page_by_page,
}

async fn what_is_due_is_claimed_in_order_and_only_once(base: &Base) {
    let stage = Stage::on(base).await;
    stage.plan("e", &[new("e", 20), new("e", 10), new("e", 40)]).await;

    let claims = stage.claim_until(20).await;

    let due: Vec<_> = claims.iter().map(|claim| claim.due_at).collect();
    assert_eq!(due, [minute(10), minute(20)]);
    assert!(claims.iter().all(|claim| claim.generation == 1));
    assert!(stage.claim_until(20).await.is_empty());
    let first = &stage.trigger(&new("e", 10)).await.expect("it is owed");
    assert_eq!((first.state, first.processed), (State::Claimed, Some(minute(0))));
    assert_eq!(first.session, Some(stage.session));
}

async fn claims_come_in_pages_after_a_cursor(base: &Base) {
    let stage = Stage::on(base).await;
    let triggers: Vec<_> = (0..5).map(|uid| new(&format!("e{uid}"), 10)).collect();
    for trigger in &triggers {
        stage
            .plan(&trigger.wish.event_uid, std::slice::from_ref(trigger))
            .await;
    }
    let mut ids: Vec<_> = triggers.iter().map(|trigger| trigger.id().0).collect();
    ids.sort_unstable();

    let mut claimed = Vec::new();
    let mut cursor = None;
    for expected in [2, 2, 1, 0] {
        let page = stage.store.claim_due(stage.session, minute(10), cursor, 2).await;
        let page = page.expect("the claim succeeds");
        assert_eq!(page.len(), expected);
        cursor = page.last().map(|claim| (claim.due_at, claim.id)).or(cursor);
        claimed.extend(page.iter().map(|claim| claim.id.0));
    }

    assert_eq!(claimed, ids);
}

async fn a_cursor_leaves_what_lies_before_it(base: &Base) {
    let stage = Stage::on(base).await;
    stage.plan("e", &[new("e", 10), new("e", 20)]).await;
    let after = Some((minute(10), new("e", 10).id()));

    let claims = stage.store.claim_due(stage.session, minute(60), after, 10).await;

    assert_eq!(claims.expect("the claim succeeds")[0].due_at, minute(20));
    assert_eq!(
        stage.trigger(&new("e", 10)).await.expect("it is owed").state,
        State::Planned
    );
}

async fn two_that_claim_at_once_share_without_overlap(base: &Base) {
    let stage = Stage::on(base).await;
    let triggers: Vec<_> = (0..50).map(|at| new("e", at)).collect();
    stage.plan("e", &triggers).await;
    let claim = || stage.store.claim_due(stage.session, minute(60), None, 30);

    let (one, two) = tokio::join!(claim(), claim());

    let (one, two) = (one.expect("a claim"), two.expect("a claim"));
    assert_eq!(one.len() + two.len(), 50);
    assert!(
        one.iter()
            .all(|claim| two.iter().all(|other| other.id != claim.id))
    );
}

async fn the_next_free_instant_is_that_of_a_free_trigger(base: &Base) {
    let stage = Stage::on(base).await;
    stage.plan("e", &[new("e", 10), new("e", 20)]).await;
    stage.claim_until(10).await;

    let next = |after| stage.store.next_free_due(minute(after));

    assert_eq!(next(0).await.expect("an answer"), Some(minute(20)));
    assert_eq!(next(20).await.expect("an answer"), None);
}

async fn a_session_finds_what_it_holds_page_by_page(base: &Base) {
    let stage = Stage::on(base).await;
    stage
        .plan("e", &[new("e", 10), new("e", 20), new("e", 30), new("e", 70)])
        .await;
    let claims = stage.claim_until(30).await;
    let held = |until, after, limit| stage.store.held_by(stage.session, minute(until), after, limit);

    let first = held(60, None, 2).await.expect("a page");
    assert_eq!(first, claims[..2]);
    let cursor = first.last().map(|claim| (claim.due_at, claim.id));
    assert_eq!(held(60, cursor, 2).await.expect("a page"), claims[2..]);
    assert_eq!(held(10, None, 9).await.expect("a page"), claims[..1]);
    let other = stage.store.held_by(SessionId(4711), minute(60), None, 9).await;
    assert!(other.expect("a page").is_empty());
}
