//! What comes back after a hand-over.

use std::collections::BTreeMap;

use carillon::store::AttemptEnd;
use carillon::store::Claimed;
use carillon::store::Delivery;
use carillon::store::Noted;
use carillon::store::Notice;
use carillon::store::Settled;
use carillon::store::Settlement;
use carillon::trigger::ChannelKind;
use carillon::trigger::NewTrigger;
use carillon::trigger::TriggerId;
use carillon::trigger::outcome::Outcome;
use carillon::trigger::outcome::Reason;
use carillon::trigger::outcome::Reported;

use crate::store::Base;
use crate::store::Stage;
use crate::store::done;
use crate::store::minute;
use crate::store::new;
use crate::store::planning;
use crate::store::retry;
use crate::store::rules;
use crate::store::sent;

contract! {
    what_awaits_a_report_says_until_when_and_by_what_name,
    a_report_ends_the_waiting,
    the_same_report_again_changes_nothing,
    reports_in_whatever_order_end_alike,
    a_receipt_of_what_was_only_sent_moves_it_forward,
    a_report_before_the_settle_is_kept_and_the_settle_adds_to_it,
    a_failure_reported_before_the_settle_is_not_forgotten_by_it,
    what_was_reported_before_its_holder_died_is_not_sent_again,
    a_report_of_what_is_in_doubt_saves_the_retry,
    a_report_of_what_seemed_refused_saves_the_retry,
    what_was_never_sent_has_no_report,
    a_report_of_what_nobody_knows_is_unknown,
    what_awaits_too_long_is_given_up_and_a_late_report_is_recorded_all_the_same,
    giving_up_is_bounded_and_begins_with_the_oldest,
    reports_of_one_batch_are_taken_in_order,
    what_a_report_says_is_cut_to_what_history_keeps,
    reports_and_settles_at_the_same_time_lose_nothing,
}

/// A hand-over of which a report is awaited until that minute.
fn awaiting(claim: Claimed, token: i64, until: i64) -> Settlement {
    let mut settlement = done(claim, token, Outcome::Awaiting, Reason::None);
    if let AttemptEnd::Done {
        reference,
        await_until,
        ..
    } = &mut settlement.end
    {
        *reference = Some("SM4711".into());
        *await_until = Some(minute(until));
    }
    settlement
}

fn notice(id: TriggerId, reported: Reported) -> Notice {
    Notice {
        id,
        reported,
        detail: format!("it says {reported:?}"),
    }
}

impl Stage {
    async fn report(&self, id: TriggerId, reported: Reported) -> Noted {
        let noted = self.store.report(&[notice(id, reported)]).await;
        noted.expect("reports are taken")[0]
    }

    /// A trigger that was handed over and awaits a report until minute 5.
    async fn awaited(&self, uid: &str) -> NewTrigger {
        let trigger = new(uid, 0);
        let claim = self.sending(&trigger, 7).await;
        assert_eq!(self.settle(awaiting(claim, 7, 5)).await, Settled::Recorded);
        trigger
    }

    async fn delivery(&self, trigger: &NewTrigger) -> Delivery {
        let row = self.store.delivery(trigger.id()).await;
        row.expect("it can be read").expect("it is recorded")
    }
}

const fn recorded(outcome: Outcome, reason: Reason) -> Noted {
    Noted::Recorded {
        channel: ChannelKind::Email,
        outcome,
        reason,
    }
}

async fn what_awaits_a_report_says_until_when_and_by_what_name(base: &Base) {
    let stage = Stage::on(base).await;
    let trigger = stage.awaited("e").await;

    let row = stage.delivery(&trigger).await;

    assert_eq!((row.outcome, row.reason), (Outcome::Awaiting, Reason::None));
    assert_eq!(row.reference.as_deref(), Some("SM4711"));
    assert_eq!(
        (row.started_at, row.handed_over_at, row.await_until),
        (Some(minute(0)), Some(minute(0)), Some(minute(5)))
    );
    assert_eq!((row.report, row.reported_at), (None, None));
}

async fn a_report_ends_the_waiting(base: &Base) {
    let stage = Stage::on(base).await;
    for (uid, reported, outcome, reason) in [
        ("a", Reported::Completed, Outcome::Completed, Reason::None),
        ("b", Reported::Failed, Outcome::Failed, Reason::Reported),
        ("c", Reported::Delivered, Outcome::Completed, Reason::None),
        ("d", Reported::Undelivered, Outcome::Failed, Reason::Undelivered),
    ] {
        let trigger = stage.awaited(uid).await;
        stage.pass(1);
        let now = carillon::clock::Clock::now(&*stage.clock);

        assert_eq!(
            stage.report(trigger.id(), reported).await,
            recorded(outcome, reason)
        );

        let row = stage.delivery(&trigger).await;
        assert_eq!((row.outcome, row.reason), (outcome, reason));
        assert_eq!(row.report, Some(format!("it says {reported:?}")));
        assert_eq!((row.reported_at, row.recorded_at), (Some(now), now));
        // What was known before is still known.
        assert_eq!((row.detail.as_str(), row.attempts), ("250 queued as 4711", 1));
        assert_eq!(row.reference.as_deref(), Some("SM4711"));
    }
    stage.pass(60);
    assert_eq!(stage.store.time_out(10).await.expect("a sweep"), BTreeMap::new());
}

async fn the_same_report_again_changes_nothing(base: &Base) {
    let stage = Stage::on(base).await;
    let trigger = stage.awaited("e").await;
    stage.report(trigger.id(), Reported::Completed).await;
    let before = stage.delivery(&trigger).await;
    stage.pass(1);

    assert_eq!(
        stage.report(trigger.id(), Reported::Completed).await,
        Noted::Known
    );

    assert_eq!(stage.delivery(&trigger).await, before);
}

async fn reports_in_whatever_order_end_alike(base: &Base) {
    let stage = Stage::on(base).await;
    let [bad, good] = [Reported::Undelivered, Reported::Delivered];
    let orders = [
        [bad, bad, bad, good, good, good],
        [good, good, good, bad, bad, bad],
        [bad, good, bad, good, bad, good],
    ];
    for (index, order) in orders.into_iter().enumerate() {
        let trigger = stage.awaited(&index.to_string()).await;
        for reported in order {
            stage.report(trigger.id(), reported).await;
        }
        let row = stage.delivery(&trigger).await;
        assert_eq!((row.outcome, row.reason), (Outcome::Completed, Reason::None));
        assert_eq!(row.report.as_deref(), Some("it says Delivered"));
    }
}

async fn a_receipt_of_what_was_only_sent_moves_it_forward(base: &Base) {
    let stage = Stage::on(base).await;
    for (uid, reported, outcome) in [
        ("a", Reported::Delivered, Outcome::Completed),
        ("b", Reported::Undelivered, Outcome::Failed),
    ] {
        let trigger = new(uid, 0);
        let claim = stage.sending(&trigger, 7).await;
        stage.settle(sent(claim, 7)).await;
        stage.report(trigger.id(), reported).await;
        assert_eq!(stage.delivery(&trigger).await.outcome, outcome);
        // It was handed over, whatever became of it: planning it again plans nothing.
        let changed = stage.put(uid, planning(std::slice::from_ref(&trigger))).await;
        assert_eq!(changed.planned, 0);
    }
}

async fn a_report_before_the_settle_is_kept_and_the_settle_adds_to_it(base: &Base) {
    let stage = Stage::on(base).await;
    let trigger = new("e", 0);
    let claim = stage.sending(&trigger, 7).await;

    let noted = stage.report(trigger.id(), Reported::Completed).await;

    assert_eq!(noted, recorded(Outcome::Completed, Reason::None));
    assert_eq!(stage.delivery(&trigger).await.outcome, Outcome::Completed);
    assert_eq!(stage.settle(awaiting(claim, 7, 5)).await, Settled::Recorded);
    let row = stage.delivery(&trigger).await;
    assert_eq!((row.outcome, row.reason), (Outcome::Completed, Reason::None));
    assert_eq!(row.report.as_deref(), Some("it says Completed"));
    assert_eq!((row.detail.as_str(), row.attempts), ("250 queued as 4711", 1));
    assert_eq!(
        (row.handed_over_at, row.reference.as_deref()),
        (Some(minute(0)), Some("SM4711"))
    );
    assert!(stage.triggers("e").await.is_empty());
}

/// An event, what its attempt comes to, and what that is answered.
type Case = (&'static str, fn(Claimed) -> Settlement, Settled);

async fn a_failure_reported_before_the_settle_is_not_forgotten_by_it(base: &Base) {
    let stage = Stage::on(base).await;
    let refused = |claim| done(claim, 7, Outcome::Failed, Reason::Refused);
    let settlements: [Case; 4] = [
        ("a", |claim| sent(claim, 7), Settled::Recorded),
        ("b", |claim| awaiting(claim, 7, 5), Settled::Recorded),
        ("c", |claim| retry(claim, 7, 5, true), Settled::Known),
        ("d", refused, Settled::Known),
    ];
    for (uid, settlement, settled) in settlements {
        let trigger = new(uid, 0);
        let claim = stage.sending(&trigger, 7).await;
        stage.report(trigger.id(), Reported::Failed).await;

        assert_eq!(stage.settle(settlement(claim)).await, settled, "{uid}");

        let row = stage.delivery(&trigger).await;
        assert_eq!((row.outcome, row.reason), (Outcome::Failed, Reason::Reported));
        assert!(stage.triggers(uid).await.is_empty());
    }
}

async fn what_was_reported_before_its_holder_died_is_not_sent_again(base: &Base) {
    let stage = Stage::on(base).await;
    let trigger = new("e", 0);
    stage.sending(&trigger, 7).await;
    stage.report(trigger.id(), Reported::Completed).await;
    stage.pass(3);

    let rescued = stage.store.rescue(&rules(), 100).await.expect("a rescue");

    assert_eq!((rescued.in_doubt_retried, rescued.in_doubt_recorded), (0, 1));
    assert!(stage.claim().await.is_empty());
    assert_eq!(stage.delivery(&trigger).await.outcome, Outcome::Completed);
}

async fn a_report_of_what_is_in_doubt_saves_the_retry(base: &Base) {
    let stage = Stage::on(base).await;
    let trigger = new("e", 0);
    stage.sending(&trigger, 7).await;
    stage.pass(3);
    let rescued = stage.store.rescue(&rules(), 100).await.expect("a rescue");
    assert_eq!(rescued.in_doubt_retried, 1);

    let noted = stage.report(trigger.id(), Reported::Delivered).await;

    assert_eq!(noted, recorded(Outcome::Completed, Reason::None));
    assert!(stage.claim().await.is_empty());
    let row = stage.delivery(&trigger).await;
    assert_eq!((row.outcome, row.attempts), (Outcome::Completed, 1));
}

async fn a_report_of_what_seemed_refused_saves_the_retry(base: &Base) {
    let stage = Stage::on(base).await;
    let trigger = new("e", 0);
    let claim = stage.sending(&trigger, 7).await;
    stage.settle(retry(claim, 7, 5, true)).await;

    let noted = stage.report(trigger.id(), Reported::Completed).await;

    assert_eq!(noted, recorded(Outcome::Completed, Reason::None));
    assert!(stage.triggers("e").await.is_empty());
    assert_eq!(stage.delivery(&trigger).await.outcome, Outcome::Completed);
}

async fn what_was_never_sent_has_no_report(base: &Base) {
    let stage = Stage::on(base).await;
    let trigger = new("e", 0);
    stage.plan("e", std::slice::from_ref(&trigger)).await;

    assert_eq!(
        stage.report(trigger.id(), Reported::Completed).await,
        Noted::Unknown
    );

    assert_eq!(stage.triggers("e").await.len(), 1);
    assert!(stage.history().await.is_empty());
}

async fn a_report_of_what_nobody_knows_is_unknown(base: &Base) {
    let stage = Stage::on(base).await;
    let noted = stage.report(TriggerId([9; 16]), Reported::Failed).await;
    assert_eq!(noted, Noted::Unknown);
    assert!(stage.history().await.is_empty());
}

async fn what_awaits_too_long_is_given_up_and_a_late_report_is_recorded_all_the_same(base: &Base) {
    let stage = Stage::on(base).await;
    let trigger = stage.awaited("e").await;
    stage.pass(4);
    assert_eq!(stage.store.time_out(10).await.expect("a sweep"), BTreeMap::new());
    stage.pass(1);

    let given_up = stage.store.time_out(10).await.expect("a sweep");

    assert_eq!(given_up, BTreeMap::from([(ChannelKind::Email, 1)]));
    let row = stage.delivery(&trigger).await;
    assert_eq!(
        (row.outcome, row.reason, row.recorded_at),
        (Outcome::TimeoutUnknown, Reason::NoReport, minute(5))
    );
    assert_eq!(stage.store.time_out(10).await.expect("a sweep"), BTreeMap::new());
    stage.pass(60);
    let noted = stage.report(trigger.id(), Reported::Completed).await;
    assert_eq!(noted, recorded(Outcome::Completed, Reason::None));
    assert_eq!(stage.delivery(&trigger).await.outcome, Outcome::Completed);
}

async fn giving_up_is_bounded_and_begins_with_the_oldest(base: &Base) {
    let stage = Stage::on(base).await;
    for (uid, until) in [("late", 9), ("early", 5), ("between", 7)] {
        let claim = stage.sending(&new(uid, 0), 7).await;
        stage.settle(awaiting(claim, 7, until)).await;
    }
    stage.pass(60);

    for (uid, others) in [("early", 2), ("between", 1), ("late", 0)] {
        let given_up = stage.store.time_out(1).await.expect("a sweep");
        assert_eq!(given_up[&ChannelKind::Email], 1);
        let row = stage.delivery(&new(uid, 0)).await;
        assert_eq!(row.outcome, Outcome::TimeoutUnknown, "{uid}");
        let history = stage.history().await;
        let waiting = history.iter().filter(|row| row.outcome == Outcome::Awaiting);
        assert_eq!(waiting.count(), others);
    }
}

async fn reports_of_one_batch_are_taken_in_order(base: &Base) {
    let stage = Stage::on(base).await;
    let (one, other) = (stage.awaited("a").await, stage.awaited("b").await);
    let batch = [
        notice(one.id(), Reported::Failed),
        notice(other.id(), Reported::Completed),
        notice(TriggerId([9; 16]), Reported::Completed),
        notice(one.id(), Reported::Completed),
        notice(other.id(), Reported::Failed),
    ];

    let noted = stage.store.report(&batch).await.expect("reports are taken");

    assert_eq!(
        noted,
        [
            recorded(Outcome::Failed, Reason::Reported),
            recorded(Outcome::Completed, Reason::None),
            Noted::Unknown,
            recorded(Outcome::Completed, Reason::None),
            Noted::Known,
        ]
    );
    for trigger in [one, other] {
        assert_eq!(stage.delivery(&trigger).await.outcome, Outcome::Completed);
    }
    assert_eq!(stage.store.report(&[]).await.expect("nothing to do"), []);
}

async fn what_a_report_says_is_cut_to_what_history_keeps(base: &Base) {
    let stage = Stage::on(base).await;
    let trigger = stage.awaited("e").await;
    let long = Notice {
        detail: "\0ä".repeat(2_000),
        ..notice(trigger.id(), Reported::Completed)
    };

    stage.store.report(&[long]).await.expect("it is taken");

    assert_eq!(stage.delivery(&trigger).await.report, Some("ä".repeat(500)));
}

async fn reports_and_settles_at_the_same_time_lose_nothing(base: &Base) {
    let stage = Stage::on(base).await;
    for round in 0..20 {
        let trigger = new(&round.to_string(), 0);
        let claim = stage.sending(&trigger, 7).await;
        let completed = [notice(trigger.id(), Reported::Completed)];
        let failed = [notice(trigger.id(), Reported::Failed)];
        let settlement = [awaiting(claim, 7, 5)];

        let (settled, one, other) = tokio::join!(
            stage.store.settle(&settlement),
            stage.store.report(&failed),
            stage.store.report(&completed),
        );

        assert_eq!(settled.expect("it is settled"), [Settled::Recorded]);
        assert_ne!(one.expect("it is taken"), [Noted::Unknown]);
        assert_eq!(
            other.expect("it is taken"),
            [recorded(Outcome::Completed, Reason::None)]
        );
        let row = stage.delivery(&trigger).await;
        assert_eq!((row.outcome, row.attempts), (Outcome::Completed, 1), "{round}");
        assert_eq!(row.reference.as_deref(), Some("SM4711"));
        assert!(stage.triggers(&round.to_string()).await.is_empty());
    }
}
