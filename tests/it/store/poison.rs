//! Rows that make no sense: they are set aside, visibly, and everything else goes on.

use carillon::store::Claimed;
use carillon::store::KeptMessage;
use carillon::store::Settled;
use carillon::store::StoreError;
use carillon::trigger::OwnerId;
use carillon::trigger::TriggerId;
use carillon::trigger::outcome::Outcome;
use carillon::trigger::outcome::Reason;

use crate::store::Base;
use crate::store::Prepared;
use crate::store::Stage;
use crate::store::new;
use crate::store::planning;
use crate::store::put;
use crate::store::rules;
use crate::store::send;
use crate::store::sent;

contract! {
    an_unreadable_trigger_does_not_shorten_a_page_of_claims,
    an_unreadable_trigger_does_not_stop_a_fire_check,
    an_unreadable_trigger_does_not_stop_a_rescue,
    an_unreadable_trigger_does_not_stop_a_settle,
    an_unreadable_trigger_does_not_stop_a_change,
    an_unreadable_trigger_is_named_to_who_reads_its_group,
    an_unreadable_event_spoils_its_own_change_alone,
    a_copy_is_not_stored_without_its_triggers,
    a_fire_check_that_cannot_be_written_is_split,
    a_settlement_that_cannot_be_written_is_split_off,
    a_row_whose_outcome_cannot_be_written_is_left_for_the_rescue,
    a_complaint_about_an_owner_names_them_by_their_stand_in,
}

const UNREADABLE: Option<(Outcome, Reason)> = Some((Outcome::Failed, Reason::Unreadable));

/// One event that will be damaged and one that is whole, claimed.
async fn claimed(stage: &Stage) -> (Vec<Claimed>, TriggerId) {
    stage.plan("bad", &[new("bad", 1)]).await;
    stage.plan("good", &[new("good", 2)]).await;
    (stage.claim().await, new("bad", 1).id())
}

async fn an_unreadable_trigger_does_not_shorten_a_page_of_claims(base: &Base) {
    let stage = Stage::on(base).await;
    stage.plan("bad", &[new("bad", 1)]).await;
    stage.plan("good", &[new("good", 2), new("good", 3)]).await;
    stage
        .damage("UPDATE alarm_trigger SET channel = 'pigeon' WHERE event_uid = 'bad'")
        .await;

    let claims = stage
        .store
        .claim_due(stage.session, crate::store::minute(9), None, 2)
        .await;

    let ids: Vec<_> = claims.expect("a claim").iter().map(|claim| claim.id).collect();
    assert_eq!(ids, [new("good", 2).id(), new("good", 3).id()]);
    assert_eq!(stage.outcome(new("bad", 1).id()).await, UNREADABLE);
    let detail = &stage.history().await[0].detail;
    assert!(
        detail.contains("column channel") && detail.contains("`pigeon`"),
        "{detail}"
    );
}

async fn an_unreadable_trigger_does_not_stop_a_fire_check(base: &Base) {
    for damage in [
        "UPDATE alarm_trigger SET expires_at = 9223372036854775807 WHERE event_uid = 'bad'",
        "UPDATE alarm_trigger SET recipient = 'nobody' WHERE event_uid = 'bad'",
        "UPDATE alarm_trigger SET trigger_at = 9223372036854775807 WHERE event_uid = 'bad'",
        "UPDATE alarm_trigger SET repeat = -1 WHERE event_uid = 'bad'",
        "UPDATE alarm SET served_trigger_at = 9223372036854775807 WHERE event_uid = 'bad'",
        "UPDATE event SET changed_at = 9223372036854775807 WHERE uid = 'bad'",
    ] {
        let stage = Stage::on(base).await;
        let (claims, bad) = claimed(&stage).await;
        stage.damage(damage).await;

        let checked = stage.fire(&claims, 7, &send()).await;

        assert_eq!(checked.granted.len(), 1, "{damage}");
        assert_eq!(stage.outcome(bad).await, UNREADABLE, "{damage}");
        let held = stage
            .store
            .held_by(stage.session, crate::store::minute(9), None, 9)
            .await;
        assert!(held.expect("a page").is_empty(), "{damage}");
    }
}

async fn an_unreadable_trigger_does_not_stop_a_rescue(base: &Base) {
    let stage = Stage::on(base).await;
    let (_, bad) = claimed(&stage).await;
    stage
        .damage("UPDATE alarm_trigger SET state = 'lost' WHERE event_uid = 'bad'")
        .await;
    stage.pass(1);

    let rescued = stage.store.rescue(&rules(), 100).await.expect("a rescue");

    assert_eq!(rescued.dead_session, 1);
    assert_eq!(stage.outcome(bad).await, UNREADABLE);
}

async fn an_unreadable_trigger_does_not_stop_a_settle(base: &Base) {
    let stage = Stage::on(base).await;
    let (claims, bad) = claimed(&stage).await;
    stage.fire(&claims, 7, &send()).await;
    stage
        .damage("UPDATE alarm_trigger SET channel = 'pigeon' WHERE event_uid = 'bad'")
        .await;

    let settled = stage
        .store
        .settle(&[sent(claims[0], 7), sent(claims[1], 7)])
        .await;

    assert_eq!(settled.expect("a settle"), [Settled::Poisoned, Settled::Recorded]);
    let known = stage.outcome(bad).await;
    assert_eq!(
        known,
        Some((Outcome::Sent, Reason::None)),
        "what was handed over is known all the same"
    );
}

async fn an_unreadable_trigger_does_not_stop_a_change(base: &Base) {
    let stage = Stage::on(base).await;
    let (_, bad) = claimed(&stage).await;
    stage
        .damage("UPDATE alarm_trigger SET channel = 'pigeon' WHERE event_uid = 'bad'")
        .await;

    let changed = stage.put("bad", planning(&[new("bad", 1)])).await;

    assert_eq!(changed.planned, 1, "an unreadable row blocks nothing");
    assert_eq!(stage.outcome(bad).await, UNREADABLE);
    assert_eq!(stage.triggers("bad").await.len(), 1);
}

async fn an_unreadable_trigger_is_named_to_who_reads_its_group(base: &Base) {
    let stage = Stage::on(base).await;
    let (_, bad) = claimed(&stage).await;
    stage
        .damage("UPDATE alarm_trigger SET channel = 'pigeon' WHERE event_uid = 'bad'")
        .await;

    let group = stage.store.group(&OwnerId("ada".into()), "bad").await;

    let Err(StoreError::Corrupt { table, row, reason }) = group else {
        panic!("{group:?}")
    };
    assert_eq!((table, row), ("alarm_trigger", bad.to_string()));
    assert!(
        reason.contains("channel") && reason.contains("`pigeon`"),
        "{reason}"
    );
}

async fn an_unreadable_event_spoils_its_own_change_alone(base: &Base) {
    let stage = Stage::on(base).await;
    claimed(&stage).await;
    stage
        .damage("UPDATE event SET changed_at = 9223372036854775807 WHERE uid = 'bad'")
        .await;
    let editor = Prepared::with("good", planning(&[new("good", 9)]));

    let results = stage
        .store
        .change(&[put("bad"), put("good")], &editor, None)
        .await
        .expect("the batch is applied");

    assert!(matches!(
        results[0],
        Err(StoreError::Corrupt { table: "event", .. })
    ));
    assert_eq!(results[1].as_ref().expect("it is applied").planned, 1);
}

async fn a_copy_is_not_stored_without_its_triggers(base: &Base) {
    let stage = Stage::on(base).await;
    claimed(&stage).await;
    stage
        .damage("UPDATE alarm SET channel = 'pigeon' WHERE event_uid = 'bad'")
        .await;
    let editor = Prepared::with("good", planning(&[new("good", 9)]));
    let second = crate::store::put_under(crate::store::key("second copy"), "bad");

    let results = stage
        .store
        .change(&[second, put("good")], &editor, None)
        .await
        .expect("the batch is applied");

    assert!(matches!(
        results[0],
        Err(StoreError::Corrupt { table: "alarm", .. })
    ));
    assert_eq!(stage.copy("second copy").await, None);
    assert_eq!(results[1].as_ref().expect("it is applied").planned, 1);
}

async fn a_fire_check_that_cannot_be_written_is_split(base: &Base) {
    let stage = Stage::on(base).await;
    let (claims, bad) = claimed(&stage).await;
    stage
        .poison("UPDATE", "alarm_trigger", "NEW.event_uid = 'bad'")
        .await;

    let checked = stage.fire(&claims, 7, &send()).await;

    assert_eq!(checked.granted.len(), 1);
    assert_eq!(stage.outcome(bad).await, UNREADABLE);
}

async fn a_settlement_that_cannot_be_written_is_split_off(base: &Base) {
    let stage = Stage::on(base).await;
    let (claims, bad) = claimed(&stage).await;
    stage.fire(&claims, 7, &send()).await;
    stage.poison("INSERT", "outbox", "NEW.subject = 'poison'").await;
    let mut poisoned = sent(claims[0], 7);
    if let carillon::store::AttemptEnd::Done { kept, .. } = &mut poisoned.end {
        *kept = Some(KeptMessage {
            to: String::new(),
            subject: "poison".into(),
            text: String::new(),
            raw: String::new(),
        });
    }

    let settled = stage.store.settle(&[poisoned, sent(claims[1], 7)]).await;

    assert_eq!(settled.expect("a settle"), [Settled::Recorded, Settled::Recorded]);
    assert_eq!(
        stage.outcome(bad).await,
        Some((Outcome::Sent, Reason::None)),
        "the bare outcome is recorded"
    );
}

async fn a_row_whose_outcome_cannot_be_written_is_left_for_the_rescue(base: &Base) {
    let stage = Stage::on(base).await;
    let (claims, _) = claimed(&stage).await;
    stage.fire(&claims, 7, &send()).await;
    stage.poison("INSERT", "delivery", "NEW.event_uid = 'bad'").await;

    let settled = stage
        .store
        .settle(&[sent(claims[0], 7), sent(claims[1], 7)])
        .await;

    assert_eq!(settled.expect("a settle"), [Settled::Poisoned, Settled::Recorded]);
    assert_eq!(stage.triggers("bad").await.len(), 1);
    assert!(stage.triggers("good").await.is_empty());
}

async fn a_complaint_about_an_owner_names_them_by_their_stand_in(base: &Base) {
    let stage = Stage::on(base).await;
    stage
        .damage("UPDATE owner SET muted = 'everything' WHERE id = 'ada'")
        .await;
    let ada = OwnerId("ada".into());

    let complaint = stage
        .store
        .owner(&ada)
        .await
        .expect_err("it cannot be read")
        .to_string();

    assert!(complaint.contains(&ada.stand_in()), "{complaint}");
    assert!(!complaint.contains("ada,"), "{complaint}");
}
