//! A database that went back in time.

use std::time::Duration;

use carillon::store::Candidate;
use carillon::store::Course;
use carillon::store::Doubtful;
use carillon::store::Epoch;
use carillon::store::HandOver;
use carillon::store::Heartbeat;
use carillon::store::Judge;
use carillon::store::Judgement;
use carillon::store::Report;
use carillon::store::Settled;
use carillon::store::StoreError;
use carillon::trigger::AttemptToken;
use carillon::trigger::OwnerId;
use carillon::trigger::SessionId;
use carillon::trigger::Trigger;
use carillon::trigger::outcome::Outcome;
use carillon::trigger::outcome::Reason;
use chrono::DateTime;
use chrono::Utc;

use crate::store::Base;
use crate::store::Stage;
use crate::store::minute;
use crate::store::new;
use crate::store::planning;
use crate::store::rules;
use crate::store::send;
use crate::store::sent;

contract! {
    each_heartbeat_raises_the_watermark,
    one_heartbeat_begins_a_new_epoch_and_others_find_it,
    a_held_epoch_is_released_once,
    nothing_fires_in_an_epoch_that_the_judge_refuses,
    a_forgotten_hand_over_is_recorded_and_not_due_any_more,
    a_hand_over_of_an_unknown_owner_is_left_out,
    history_that_knows_more_stays,
    a_forgotten_session_is_resumed_unless_its_number_is_taken,
    doubtful_triggers_are_counted,
}

async fn heartbeat(stage: &Stage, says: Report) -> Heartbeat {
    let beat = stage.store.heartbeat(stage.session, says).await;
    beat.expect("the heartbeat succeeds")
}

/// What a node says that saw the database further on.
fn ahead(epoch: Epoch, by: i64) -> Report {
    let mut mark = epoch.mark();
    mark.watermark += by;
    Report {
        seen: Some(mark),
        ..Report::default()
    }
}

async fn each_heartbeat_raises_the_watermark(base: &Base) {
    let stage = Stage::on(base).await;
    let first = heartbeat(&stage, Report::default()).await;
    assert!(first.lives);
    let second = heartbeat(&stage, ahead(first.epoch, 0)).await.epoch;
    assert_eq!(second.watermark, first.epoch.watermark + 1);
    assert_eq!(second.id, first.epoch.id);
    assert_eq!(stage.store.epoch().await.expect("it is there"), second);
    assert_eq!((second.lost, second.held), (None, false));
}

async fn one_heartbeat_begins_a_new_epoch_and_others_find_it(base: &Base) {
    let stage = Stage::on(base).await;
    let before = heartbeat(&stage, Report::default()).await.epoch;
    stage.pass(1);
    let seen = ahead(before, 3);

    let begun = heartbeat(&stage, seen).await.epoch;

    assert_eq!(begun.id.number, before.id.number + 1);
    assert_eq!(begun.began_at, minute(1));
    assert_eq!(begun.lost.expect("it went back").after, minute(0));
    let other = heartbeat(&stage, ahead(before, 2)).await.epoch;
    assert_eq!((other.id, other.lost), (begun.id, begun.lost));
    assert_eq!(other.course(seen.seen), Course::NewEpoch);
}

async fn a_held_epoch_is_released_once(base: &Base) {
    let stage = Stage::on(base).await;
    let before = heartbeat(&stage, Report::default()).await.epoch;
    let report = Report {
        hold: true,
        ..ahead(before, 1)
    };
    let held = heartbeat(&stage, report).await.epoch;
    assert!(held.held);
    let release = async |id| stage.store.release(id, Some(minute(9))).await.expect("an answer");
    assert!(!release(before.id).await, "it is another epoch");
    assert!(release(held.id).await);
    assert!(!release(held.id).await);
    let after = heartbeat(&stage, ahead(held, 0)).await.epoch;
    assert_eq!((after.held, after.missed_before), (false, Some(minute(9))));
}

/// Refuses every epoch.
struct Refusing;

impl Judge for Refusing {
    fn judge(&self, _: &Candidate, _: DateTime<Utc>) -> Judgement {
        unreachable!("nothing is fired")
    }

    fn may_fire(&self, _: &Epoch, _: DateTime<Utc>) -> bool {
        false
    }
}

async fn nothing_fires_in_an_epoch_that_the_judge_refuses(base: &Base) {
    let stage = Stage::on(base).await;
    stage.plan("e", &[new("e", 0)]).await;
    let claims = stage.claim().await;
    let checked = stage
        .store
        .fire_check(stage.session, &claims, AttemptToken(1), &Refusing, Duration::ZERO)
        .await;
    assert!(matches!(checked, Err(StoreError::Unavailable(_))), "{checked:?}");
    assert_eq!(stage.fire(&claims, 2, &send()).await.granted.len(), 1);
}

/// Sends the trigger of an event and forgets that, as a database does that goes back in time.
async fn sent_and_forgotten(stage: &Stage) -> (Trigger, HandOver) {
    let trigger = new("e", 0);
    stage.plan("e", std::slice::from_ref(&trigger)).await;
    let claims = stage.claim().await;
    let granted = stage.fire(&claims, 7, &send()).await.granted;
    let settlement = sent(claims[0], 7);
    let settled = stage.settle(settlement.clone()).await;
    assert_eq!(settled, Settled::Recorded);
    let trigger = granted[0].trigger.clone();
    let hand_over = HandOver::of(&trigger, &settlement, settled).expect("it was sent");
    stage.damage("DELETE FROM delivery").await;
    (trigger, hand_over)
}

async fn a_forgotten_hand_over_is_recorded_and_not_due_any_more(base: &Base) {
    let stage = Stage::on(base).await;
    let (trigger, hand_over) = sent_and_forgotten(&stage).await;
    stage.put("e", planning(&[new("e", 0)])).await;
    assert_eq!(stage.claim().await.len(), 1, "it is due again");

    let again = || stage.store.record_again(std::slice::from_ref(&hand_over));
    assert_eq!(again().await.expect("it is recorded"), 1);

    assert_eq!(
        stage.outcome(trigger.id).await,
        Some((Outcome::Sent, Reason::None))
    );
    assert!(stage.triggers("e").await.is_empty());
    let marked = stage.store.owners_to_plan(9).await.expect("an answer");
    assert_eq!(marked.len(), 1, "its series goes on");
    assert_eq!(again().await.expect("it is known"), 0);
}

async fn a_hand_over_of_an_unknown_owner_is_left_out(base: &Base) {
    let stage = Stage::on(base).await;
    let (_, mut hand_over) = sent_and_forgotten(&stage).await;
    hand_over.wish.owner = OwnerId("bob".into());
    let recorded = stage.store.record_again(&[hand_over]).await;
    assert_eq!(recorded.expect("an answer"), 0);
}

async fn history_that_knows_more_stays(base: &Base) {
    let stage = Stage::on(base).await;
    let (trigger, hand_over) = sent_and_forgotten(&stage).await;
    let mut doubtful = hand_over.clone();
    doubtful.ending.outcome = Outcome::InDoubt;
    for hand_over in [hand_over, doubtful] {
        stage.store.record_again(&[hand_over]).await.expect("an answer");
    }
    assert_eq!(
        stage.outcome(trigger.id).await,
        Some((Outcome::Sent, Reason::None))
    );
}

async fn a_forgotten_session_is_resumed_unless_its_number_is_taken(base: &Base) {
    let stage = Stage::on(base).await;
    stage.damage("DELETE FROM session").await;
    assert!(!heartbeat(&stage, Report::default()).await.lives);
    let resume = async |node| {
        let resumed = stage.store.resume_session(stage.session, node).await;
        resumed.expect("an answer")
    };
    assert!(resume("node-a").await);
    assert!(!resume("node-b").await);
    assert!(heartbeat(&stage, Report::default()).await.lives);
    let begun = stage.store.begin_session("node-b", &rules()).await;
    let (SessionId(other), _) = begun.expect("a session");
    assert!(other > stage.session.0, "its number was not given twice");
}

async fn doubtful_triggers_are_counted(base: &Base) {
    let stage = Stage::on(base).await;
    let before = heartbeat(&stage, Report::default()).await.epoch;
    let planned = [new("a", 0), new("b", 2), new("c", -800), new("d", 30)];
    for trigger in planned {
        stage.plan(&trigger.wish.event_uid.clone(), &[trigger]).await;
    }
    stage.pass(3);
    heartbeat(&stage, ahead(before, 1)).await;
    let counted = stage.store.doubtful().await.expect("an answer");
    let expected = Doubtful {
        again: 1,
        late: 1,
        never: 1,
    };
    assert_eq!(counted, expected);
}
