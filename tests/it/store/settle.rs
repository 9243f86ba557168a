//! The settle.

use carillon::store::AttemptEnd;
use carillon::store::Claimed;
use carillon::store::DeadAddress;
use carillon::store::Edit;
use carillon::store::KeptMessage;
use carillon::store::Owner;
use carillon::store::Settled;
use carillon::store::Settlement;
use carillon::store::Webhook;
use carillon::store::WebhookNews;
use carillon::trigger::NewTrigger;
use carillon::trigger::State;
use carillon::trigger::outcome::Outcome;
use carillon::trigger::outcome::Reason;

use crate::store::Base;
use crate::store::Stage;
use crate::store::done;
use crate::store::minute;
use crate::store::new;
use crate::store::owner;
use crate::store::place;
use crate::store::planning;
use crate::store::retry;
use crate::store::rules;
use crate::store::send;
use crate::store::sent;
use crate::store::sms;
use crate::store::wish;

contract! {
    what_was_sent_goes_to_history_and_is_owed_no_more,
    a_retry_keeps_the_claim_and_moves_the_due_instant,
    an_attempt_that_does_not_count_burns_none,
    a_retry_whose_answer_was_lost_is_told_again,
    a_late_settle_after_a_new_claim_records_the_hand_over_and_withdraws_the_row,
    a_late_settle_leaves_the_row_to_another_attempt_that_is_sending,
    a_late_settle_that_handed_nothing_over_leaves_the_row_to_its_holder,
    what_may_have_arrived_is_never_called_failed,
    every_attempt_in_doubt_shows_in_history,
    what_may_have_arrived_and_then_does_is_sent,
    an_attempt_with_another_token_settles_nothing,
    a_conflict_with_history_upgrades_it_and_never_downgrades,
    a_conflict_does_not_stop_the_batch,
    a_sending_row_whose_event_is_deleted_is_recorded_as_it_ends,
    a_kept_message_is_in_the_outbox_with_its_history,
    what_another_side_said_is_cut_to_what_history_keeps,
    settlements_of_one_batch_are_taken_in_order,
    a_retry_reaches_as_far_as_the_session_gives_back,
    a_retry_gives_back_the_payload_that_it_was_given,
    what_is_learnt_of_a_webhook_is_noted_once_and_forgotten_with_it,
    a_dead_address_is_noted_once_and_forgotten_with_its_owner,
}

/// The attempt is taken for lost, and somebody claims the trigger again.
async fn taken_over(stage: &Stage) -> Claimed {
    stage.pass(3);
    let rescued = stage.store.rescue(&rules(), 100).await.expect("a rescue");
    assert_eq!(rescued.in_doubt_retried, 1);
    stage.claim().await[0]
}

fn message() -> KeptMessage {
    KeptMessage {
        to: "ada@example.org".into(),
        subject: "Reminder".into(),
        text: "At ten".into(),
        raw: "Subject: Reminder\r\n\r\nAt ten".into(),
    }
}

fn keeping(mut settlement: Settlement) -> Settlement {
    if let AttemptEnd::Done { kept, .. } = &mut settlement.end {
        *kept = Some(message());
    }
    settlement
}

async fn what_was_sent_goes_to_history_and_is_owed_no_more(base: &Base) {
    let stage = Stage::on(base).await;
    let trigger = new("e", 0);
    let claim = stage.sending(&trigger, 7).await;
    stage.pass(1);

    assert_eq!(stage.settle(sent(claim, 7)).await, Settled::Recorded);

    assert!(stage.triggers("e").await.is_empty());
    let history = stage.history().await;
    let row = &history[0];
    assert_eq!(
        (row.id, &row.wish, row.place),
        (trigger.id(), &wish("e"), place(0))
    );
    assert_eq!((row.outcome, row.reason), (Outcome::Sent, Reason::None));
    assert_eq!(
        (row.detail.as_str(), row.attempts, row.count),
        ("250 queued as 4711", 1, 1)
    );
    assert_eq!(
        (row.handed_over_at, row.recorded_at),
        (Some(minute(0)), minute(1))
    );
}

async fn a_retry_keeps_the_claim_and_moves_the_due_instant(base: &Base) {
    let stage = Stage::on(base).await;
    let trigger = new("e", 0);
    let claim = stage.sending(&trigger, 7).await;

    let settled = stage.settle(retry(claim, 7, 5, true)).await;

    let again = Claimed {
        due_at: minute(5),
        ..claim
    };
    assert_eq!(settled, Settled::Retrying(again));
    let kept = stage.trigger(&trigger).await.expect("it is owed");
    assert_eq!((kept.state, kept.session), (State::Claimed, Some(stage.session)));
    assert_eq!((kept.generation, kept.attempts), (claim.generation, 1));
    assert_eq!((kept.due_at, kept.place), (minute(5), place(0)));
    assert_eq!((kept.attempt_token, kept.attempt_started), (None, None));
    assert_eq!(kept.last_error.as_deref(), Some("451 try later"));
    assert!(stage.history().await.is_empty());
    assert_eq!(stage.fire(&[again], 8, &send()).await.granted.len(), 1);
}

async fn an_attempt_that_does_not_count_burns_none(base: &Base) {
    let stage = Stage::on(base).await;
    let claim = stage.sending(&new("e", 0), 7).await;

    stage.settle(retry(claim, 7, 5, false)).await;

    assert_eq!(stage.triggers("e").await[0].attempts, 0);
}

async fn a_retry_whose_answer_was_lost_is_told_again(base: &Base) {
    let stage = Stage::on(base).await;
    let claim = stage.sending(&new("e", 0), 7).await;
    let first = stage.settle(retry(claim, 7, 5, true)).await;

    assert_eq!(stage.settle(retry(claim, 7, 5, true)).await, first);

    assert_eq!(stage.triggers("e").await[0].attempts, 1);
}

async fn a_late_settle_after_a_new_claim_records_the_hand_over_and_withdraws_the_row(base: &Base) {
    let stage = Stage::on(base).await;
    let trigger = new("e", 0);
    let claim = stage.sending(&trigger, 7).await;
    let newer = taken_over(&stage).await;

    assert_eq!(stage.settle(sent(claim, 7)).await, Settled::Lost);

    assert_eq!(
        stage.outcome(trigger.id()).await,
        Some((Outcome::Sent, Reason::None))
    );
    assert!(stage.triggers("e").await.is_empty());
    assert!(stage.fire(&[newer], 8, &send()).await.granted.is_empty());
}

async fn a_late_settle_leaves_the_row_to_another_attempt_that_is_sending(base: &Base) {
    let stage = Stage::on(base).await;
    let trigger = new("e", 0);
    let claim = stage.sending(&trigger, 7).await;
    let newer = taken_over(&stage).await;
    stage.fire(&[newer], 8, &send()).await;

    assert_eq!(stage.settle(sent(claim, 7)).await, Settled::Lost);

    assert_eq!(stage.triggers("e").await[0].state, State::Sending);
    assert_eq!(
        stage.outcome(trigger.id()).await,
        Some((Outcome::Sent, Reason::None))
    );
    let settled = stage.settle(retry(newer, 8, 9, true)).await;
    assert_eq!(settled, Settled::Known, "what was handed over is not tried again");
    assert!(stage.triggers("e").await.is_empty());
    assert_eq!(
        stage.outcome(trigger.id()).await,
        Some((Outcome::Sent, Reason::None))
    );
}

async fn a_late_settle_that_handed_nothing_over_leaves_the_row_to_its_holder(base: &Base) {
    let stage = Stage::on(base).await;
    let trigger = new("e", 0);
    let claim = stage.sending(&trigger, 7).await;
    let newer = taken_over(&stage).await;

    let failed = done(claim, 7, Outcome::Failed, Reason::Refused);
    assert_eq!(stage.settle(failed).await, Settled::Lost);
    assert_eq!(stage.settle(retry(claim, 7, 9, true)).await, Settled::Lost);

    let kept = stage.trigger(&trigger).await.expect("it is owed");
    assert_eq!(
        (kept.state, kept.generation, kept.due_at),
        (State::Claimed, newer.generation, minute(0))
    );
    // The holder was lost in mid-send: that it may have arrived is all that is known.
    assert_eq!(
        stage.outcome(trigger.id()).await,
        Some((Outcome::InDoubt, Reason::HolderLost))
    );
}

async fn a_retry_gives_back_the_payload_that_it_was_given(base: &Base) {
    let stage = Stage::on(base).await;
    let trigger = new("e", 0);
    let mut claim = stage.sending(&trigger, 7).await;
    // A target sets it, what goes wrong meanwhile keeps it, and a target that asks for nothing more clears it.
    for (token, given) in [(7, Some("{\"ü\":1.10}")), (8, Some("{\"ü\":1.10}")), (9, None)] {
        let mut settlement = retry(claim, token, 0, true);
        let AttemptEnd::Retry { payload, .. } = &mut settlement.end else {
            panic!("it is a retry");
        };
        *payload = given.map(str::to_owned);
        let Settled::Retrying(again) = stage.settle(settlement).await else {
            panic!("it is tried again");
        };
        claim = again;
        let granted = stage.fire(&[claim], token + 1, &send()).await.granted;
        assert_eq!(granted[0].trigger.payload.as_deref(), given);
    }
}

async fn what_is_learnt_of_a_webhook_is_noted_once_and_forgotten_with_it(base: &Base) {
    let stage = Stage::on(base).await;
    let url = "https://example.org/hook";
    let ada = Owner {
        webhook: Some(Webhook::at(url.to_owned())),
        ..owner("ada")
    };
    stage.store.put_owner(&ada).await.expect("it is written");
    let news = async |url: &str, news| {
        let noted = stage.store.webhook_news(&ada.id, url, news).await;
        noted.expect("the store works")
    };
    let known = async || {
        let found = stage.store.owner(&ada.id).await.expect("the store works");
        found.expect("she is known").webhook.expect("she has one")
    };

    assert!(!news(url, WebhookNews::Works).await, "nothing failed before");
    assert!(news(url, WebhookNews::Fails).await);
    assert!(!news(url, WebhookNews::Fails).await, "the first failure counts");
    assert_eq!(known().await.failing_since, Some(minute(0)));
    assert!(news(url, WebhookNews::Works).await);
    assert_eq!(known().await, Webhook::at(url.to_owned()));

    let old = "https://example.org/old";
    assert!(!news(old, WebhookNews::Gone("gone")).await);
    let first = minute(0);
    assert!(news(url, WebhookNews::Fails).await);
    stage.pass(1);
    // It worked meanwhile, as another node knows, and fails anew.
    assert!(news(url, WebhookNews::Works).await);
    assert!(!news(url, WebhookNews::Disabled(first, "long")).await);
    assert!(news(url, WebhookNews::Fails).await);
    assert!(!news(url, WebhookNews::Disabled(first, "long")).await);
    assert_eq!(known().await.disabled, None);
    let since = known().await.failing_since.expect("it fails");
    assert!(news(url, WebhookNews::Disabled(since, "long")).await);
    assert!(!news(url, WebhookNews::Gone("again")).await);
    assert_eq!(known().await.disabled.as_deref(), Some("long"));

    stage.store.put_owner(&ada).await.expect("it is written");
    assert_eq!(known().await, Webhook::at(url.to_owned()));
}

async fn a_dead_address_is_noted_once_and_forgotten_with_its_owner(base: &Base) {
    let stage = Stage::on(base).await;
    let ada = owner("ada");
    stage.store.put_owner(&ada).await.expect("it is written");
    let email = ada.email.as_deref().expect("she has one");
    let died = async |email: &str, until, says: &str| {
        let says = says.to_owned();
        let dead = DeadAddress { until, says };
        let noted = stage.store.address_died(&ada.id, email, &dead).await;
        noted.expect("the store works")
    };
    let known = async || {
        let found = stage.store.owner(&ada.id).await.expect("the store works");
        found.expect("she is known").email_dead
    };
    assert_eq!(known().await, None);

    assert!(!died("other@example.org", minute(9), "550 5.1.1").await);
    assert!(died(email, minute(0), "550 5.1.1").await);
    assert!(died(email, minute(9), "550 5.2.1").await, "the first has run out");
    assert!(!died(email, minute(8), "again").await);
    let dead = known().await.expect("it is dead");
    assert_eq!((dead.until, &*dead.says), (minute(9), "550 5.2.1"));

    stage.store.put_owner(&ada).await.expect("it is written");
    assert_eq!(known().await, None);
}

fn doubtful(mut settlement: Settlement) -> Settlement {
    if let AttemptEnd::Retry { doubtful, .. } = &mut settlement.end {
        *doubtful = true;
    }
    settlement
}

async fn what_may_have_arrived_is_never_called_failed(base: &Base) {
    let stage = Stage::on(base).await;
    let trigger = new("e", 0);
    let claim = stage.sending(&trigger, 7).await;
    let again = stage.settle(doubtful(retry(claim, 7, 1, true))).await;
    let Settled::Retrying(again) = again else {
        panic!("{again:?}")
    };
    assert_eq!(
        stage.outcome(trigger.id()).await,
        Some((Outcome::InDoubt, Reason::ConnectionLost))
    );

    assert_eq!(stage.fire(&[again], 8, &send()).await.granted.len(), 1);
    stage.pass(1);
    let settled = stage
        .settle(done(again, 8, Outcome::Failed, Reason::Refused))
        .await;
    assert_eq!(settled, Settled::InDoubt);

    // History tells why it was given up, when, and after how many attempts.
    assert_eq!(
        stage.outcome(trigger.id()).await,
        Some((Outcome::InDoubt, Reason::Refused))
    );
    let history = stage.history().await;
    assert_eq!((history.len(), history[0].attempts), (1, 2));
    assert_eq!(history[0].recorded_at, minute(1));
    assert!(stage.trigger(&trigger).await.is_none(), "it is owed no more");
}

async fn every_attempt_in_doubt_shows_in_history(base: &Base) {
    let stage = Stage::on(base).await;
    let trigger = new("e", 0);
    let mut claim = stage.sending(&trigger, 7).await;
    for (token, attempts) in [(7, 1), (8, 2)] {
        let Settled::Retrying(again) = stage.settle(doubtful(retry(claim, token, 0, true))).await else {
            panic!("it is tried again");
        };
        claim = again;
        assert_eq!(stage.history().await[0].attempts, attempts);
        stage.pass(1);
        assert_eq!(stage.fire(&[claim], token + 1, &send()).await.granted.len(), 1);
    }
    let last = done(claim, 9, Outcome::InDoubt, Reason::Exhausted);
    assert_eq!(stage.settle(last).await, Settled::InDoubt);
    let history = stage.history().await;
    assert_eq!((history.len(), history[0].attempts), (1, 3));
    assert_eq!(history[0].recorded_at, minute(2));
    assert_eq!(
        stage.outcome(trigger.id()).await,
        Some((Outcome::InDoubt, Reason::Exhausted))
    );
}

async fn what_may_have_arrived_and_then_does_is_sent(base: &Base) {
    let stage = Stage::on(base).await;
    let trigger = new("e", 0);
    let claim = stage.sending(&trigger, 7).await;
    let again = stage.settle(doubtful(retry(claim, 7, 1, true))).await;
    let Settled::Retrying(again) = again else {
        panic!("{again:?}")
    };

    assert_eq!(stage.fire(&[again], 8, &send()).await.granted.len(), 1);
    stage.settle(done(again, 8, Outcome::Sent, Reason::None)).await;

    assert_eq!(
        stage.outcome(trigger.id()).await,
        Some((Outcome::Sent, Reason::None))
    );
}

async fn an_attempt_with_another_token_settles_nothing(base: &Base) {
    let stage = Stage::on(base).await;
    let claim = stage.sending(&new("e", 0), 7).await;

    assert_eq!(stage.settle(retry(claim, 8, 5, true)).await, Settled::Lost);

    assert_eq!(stage.triggers("e").await[0].state, State::Sending);
}

async fn a_conflict_with_history_upgrades_it_and_never_downgrades(base: &Base) {
    let stage = Stage::on(base).await;
    let trigger = sms(new("e", 0));
    let claim = stage.sending(&trigger, 7).await;
    stage.pass(3);
    stage.store.rescue(&rules(), 100).await.expect("a rescue");
    let in_doubt = Some((Outcome::InDoubt, Reason::HolderLost));
    assert_eq!(stage.outcome(trigger.id()).await, in_doubt);

    stage
        .settle(done(claim, 7, Outcome::Failed, Reason::Refused))
        .await;
    assert_eq!(stage.outcome(trigger.id()).await, in_doubt);

    stage.settle(sent(claim, 7)).await;
    assert_eq!(
        stage.outcome(trigger.id()).await,
        Some((Outcome::Sent, Reason::None))
    );

    stage
        .settle(done(claim, 7, Outcome::Awaiting, Reason::None))
        .await;
    assert_eq!(
        stage.outcome(trigger.id()).await,
        Some((Outcome::Sent, Reason::None))
    );

    stage
        .settle(done(claim, 7, Outcome::Completed, Reason::None))
        .await;
    assert_eq!(
        stage.outcome(trigger.id()).await,
        Some((Outcome::Completed, Reason::None))
    );
}

async fn a_conflict_does_not_stop_the_batch(base: &Base) {
    let stage = Stage::on(base).await;
    let (first, second) = (sms(new("e", 0)), new("f", 1));
    let claim = stage.sending(&first, 7).await;
    stage.pass(3);
    stage.store.rescue(&rules(), 100).await.expect("a rescue");
    let other = stage.sending(&second, 8).await;

    let settled = stage.store.settle(&[sent(claim, 7), sent(other, 8)]).await;

    assert_eq!(settled.expect("a settle"), [Settled::Lost, Settled::Recorded]);
    assert_eq!(stage.history().await.len(), 2);
}

async fn a_sending_row_whose_event_is_deleted_is_recorded_as_it_ends(base: &Base) {
    for (outcome, reason) in [
        (Outcome::Sent, Reason::None),
        (Outcome::Failed, Reason::Refused),
        (Outcome::InDoubt, Reason::ConnectionLost),
    ] {
        let stage = Stage::on(base).await;
        let trigger = new("e", 0);
        let claim = stage.sending(&trigger, 7).await;
        let edit = Edit {
            withdraw: vec![trigger.id()],
            ..Edit::default()
        };
        let editor = crate::store::Prepared::with("e", edit);
        let change = crate::store::delete("e");
        stage
            .store
            .change(&[change], &editor, None)
            .await
            .expect("it is applied");

        let expected = match outcome {
            Outcome::InDoubt => Settled::InDoubt,
            _ => Settled::Recorded,
        };
        assert_eq!(stage.settle(done(claim, 7, outcome, reason)).await, expected);

        assert_eq!(stage.outcome(trigger.id()).await, Some((outcome, reason)));
        assert!(stage.triggers("e").await.is_empty());
    }
}

async fn a_kept_message_is_in_the_outbox_with_its_history(base: &Base) {
    let stage = Stage::on(base).await;
    let trigger = new("e", 0);
    let claim = stage.sending(&trigger, 7).await;

    stage.settle(keeping(sent(claim, 7))).await;

    let outbox = stage.store.outbox(None, None, 10).await.expect("a list");
    assert_eq!(outbox.len(), 1);
    assert_eq!((outbox[0].id, &outbox[0].message), (trigger.id(), &message()));
    assert_eq!(
        (outbox[0].owner.0.as_str(), outbox[0].handed_over_at),
        ("ada", minute(0))
    );
}

async fn what_another_side_said_is_cut_to_what_history_keeps(base: &Base) {
    let stage = Stage::on(base).await;
    let claim = stage.sending(&new("e", 0), 7).await;
    let mut settlement = sent(claim, 7);
    if let AttemptEnd::Done { detail, .. } = &mut settlement.end {
        *detail = "ä\0".repeat(5000);
    }

    stage.settle(settlement).await;

    assert_eq!(stage.history().await[0].detail, "ä".repeat(500));
}

async fn settlements_of_one_batch_are_taken_in_order(base: &Base) {
    let stage = Stage::on(base).await;
    let (first, second) = (new("e", 0), new("f", 1));
    let mut claims = Vec::new();
    for (token, trigger) in [(7, &first), (8, &second)] {
        claims.push(stage.sending(trigger, token).await);
    }

    let settled = stage
        .store
        .settle(&[
            retry(claims[0], 7, 5, true),
            sent(claims[1], 8),
            done(claims[0], 7, Outcome::Sent, Reason::None),
        ])
        .await
        .expect("a settle");

    assert!(matches!(settled[0], Settled::Retrying(_)));
    assert_eq!(settled[1..], [Settled::Recorded, Settled::Lost]);
    assert!(
        stage.triggers("e").await.is_empty(),
        "a hand-over withdraws what is claimed"
    );
    assert_eq!(stage.history().await.len(), 2);
}

async fn a_retry_reaches_as_far_as_the_session_gives_back(base: &Base) {
    let stage = Stage::on(base).await;
    let trigger: NewTrigger = new("e", 0);
    stage.put("e", planning(std::slice::from_ref(&trigger))).await;
    let claims = stage.claim_until(1).await;
    stage.fire(&claims, 7, &send()).await;
    stage.settle(retry(claims[0], 7, 600, true)).await;

    let given_back = stage.store.end_session(stage.session).await;

    assert_eq!(given_back.expect("it ends"), 1);
}
