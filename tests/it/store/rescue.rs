//! What lapsed.

use carillon::store::Edit;
use carillon::store::Report;
use carillon::store::Rescued;
use carillon::trigger::State;
use carillon::trigger::outcome::Outcome;
use carillon::trigger::outcome::Reason;

use crate::store::Base;
use crate::store::Stage;
use crate::store::minute;
use crate::store::new;
use crate::store::retry;
use crate::store::rules;
use crate::store::send;
use crate::store::sms;

contract! {
    what_a_dead_session_held_is_freed_though_it_is_not_due_yet,
    a_session_that_beats_keeps_its_claims_until_they_are_overdue,
    overdue_counts_from_the_claim_where_that_was_later,
    what_waits_for_its_retry_is_not_overdue,
    a_sending_row_is_left_alone_until_send_within_has_passed,
    a_channel_that_must_not_repeat_ends_in_doubt,
    a_withdrawn_sending_row_ends_in_doubt_instead_of_being_repeated,
    a_rescue_looks_at_no_more_rows_than_it_may,
    what_a_dead_session_has_claimed_is_freed_at_once_however_much_it_is,
    a_rescued_trigger_is_sent_again_under_a_new_claim,
}

async fn rescue(stage: &Stage) -> Rescued {
    stage.store.rescue(&rules(), 100).await.expect("a rescue")
}

async fn beat(stage: &Stage) {
    assert!(
        stage
            .store
            .beat(stage.session, Report::default())
            .await
            .expect("an answer")
    );
}

async fn what_a_dead_session_held_is_freed_though_it_is_not_due_yet(base: &Base) {
    let stage = Stage::on(base).await;
    let trigger = new("e", 30);
    stage.plan("e", std::slice::from_ref(&trigger)).await;
    let old = stage.claim().await[0];
    stage.clock.advance(std::time::Duration::from_millis(5001));

    let rescued = rescue(&stage).await;

    assert_eq!((rescued.dead_session, rescued.overdue), (1, 0));
    let freed = stage.trigger(&trigger).await.expect("it is owed");
    assert_eq!(
        (freed.state, freed.processed, freed.session),
        (State::Planned, None, None)
    );
    assert!(freed.generation > old.generation);
}

async fn a_session_that_beats_keeps_its_claims_until_they_are_overdue(base: &Base) {
    let stage = Stage::on(base).await;
    stage.plan("e", &[new("e", 2)]).await;
    stage.claim().await;

    stage.pass(7);
    beat(&stage).await;
    assert_eq!(rescue(&stage).await, Rescued::default());

    stage.clock.advance(std::time::Duration::from_millis(1));
    let rescued = rescue(&stage).await;
    assert_eq!((rescued.dead_session, rescued.overdue), (0, 1));
    assert_eq!(stage.triggers("e").await[0].state, State::Planned);
}

async fn overdue_counts_from_the_claim_where_that_was_later(base: &Base) {
    let stage = Stage::on(base).await;
    stage.plan("e", &[new("e", -60)]).await;
    stage.claim().await;
    stage.pass(5);
    beat(&stage).await;

    assert_eq!(rescue(&stage).await.overdue, 0);

    stage.pass(1);
    beat(&stage).await;
    assert_eq!(rescue(&stage).await.overdue, 1);
}

async fn what_waits_for_its_retry_is_not_overdue(base: &Base) {
    let stage = Stage::on(base).await;
    let claim = stage.sending(&new("e", 0), 7).await;
    stage.settle(retry(claim, 7, 20, true)).await;
    stage.pass(15);
    beat(&stage).await;

    assert_eq!(rescue(&stage).await, Rescued::default());
}

async fn a_sending_row_is_left_alone_until_send_within_has_passed(base: &Base) {
    let stage = Stage::on(base).await;
    let trigger = new("e", 0);
    let claim = stage.sending(&trigger, 7).await;
    stage.pass(2);

    assert_eq!(
        rescue(&stage).await,
        Rescued::default(),
        "though its session is dead"
    );

    stage.clock.advance(std::time::Duration::from_millis(1));
    assert_eq!(rescue(&stage).await.in_doubt_retried, 1);
    let freed = stage.trigger(&trigger).await.expect("it is owed");
    assert_eq!((freed.state, freed.attempts), (State::Planned, 1));
    assert_eq!((freed.attempt_token, freed.attempt_started), (None, None));
    assert!(freed.generation > claim.generation);
    assert_eq!(freed.due_at, minute(0));
}

async fn a_channel_that_must_not_repeat_ends_in_doubt(base: &Base) {
    let stage = Stage::on(base).await;
    let trigger = sms(new("e", 0));
    stage.sending(&trigger, 7).await;
    stage.pass(3);
    beat(&stage).await;

    assert_eq!(rescue(&stage).await.in_doubt_recorded, 1);

    assert!(stage.triggers("e").await.is_empty());
    assert_eq!(
        stage.outcome(trigger.id()).await,
        Some((Outcome::InDoubt, Reason::HolderLost))
    );
    assert_eq!(stage.history().await[0].attempts, 1);
}

async fn a_withdrawn_sending_row_ends_in_doubt_instead_of_being_repeated(base: &Base) {
    let stage = Stage::on(base).await;
    let trigger = new("e", 0);
    stage.sending(&trigger, 7).await;
    let edit = Edit {
        withdraw: vec![trigger.id()],
        ..Edit::default()
    };
    stage.put("e", edit).await;
    stage.pass(3);

    let rescued = rescue(&stage).await;

    assert_eq!((rescued.in_doubt_retried, rescued.in_doubt_recorded), (0, 1));
    assert!(stage.triggers("e").await.is_empty());
    assert_eq!(
        stage.outcome(trigger.id()).await,
        Some((Outcome::InDoubt, Reason::HolderLost))
    );
}

async fn a_rescue_looks_at_no_more_rows_than_it_may(base: &Base) {
    let stage = Stage::on(base).await;
    stage.plan("e", &[new("e", 1), new("e", 2), new("e", 3)]).await;
    stage.claim().await;
    stage.pass(30);
    stage
        .store
        .beat(stage.session, Report::default())
        .await
        .expect("it lives");

    let rescued = stage.store.rescue(&rules(), 2).await.expect("a rescue");

    assert_eq!((rescued.dead_session, rescued.overdue), (0, 2));
}

async fn what_a_dead_session_has_claimed_is_freed_at_once_however_much_it_is(base: &Base) {
    let stage = Stage::on(base).await;
    stage.plan("e", &[new("e", 10), new("e", 20), new("e", 30)]).await;
    stage.claim().await;
    stage.pass(1);

    let rescued = stage.store.rescue(&rules(), 2).await.expect("a rescue");

    assert_eq!(rescued.dead_session, 3);
    assert!(
        stage
            .triggers("e")
            .await
            .iter()
            .all(|trigger| trigger.session.is_none())
    );
}

async fn a_rescued_trigger_is_sent_again_under_a_new_claim(base: &Base) {
    let stage = Stage::on(base).await;
    let old = stage.sending(&new("e", 0), 7).await;
    stage.pass(3);
    rescue(&stage).await;

    let claims = stage.claim().await;

    assert!(claims[0].generation > old.generation);
    assert!(stage.fire(&[old], 8, &send()).await.granted.is_empty());
    assert_eq!(stage.fire(&claims, 8, &send()).await.granted.len(), 1);
}
