//! What happens to stand-alone alarms is told in order: numbered without a gap, and never out of the order of commits.

use std::sync::Arc;

use carillon::store::AlarmAt;
use carillon::store::AlarmChange;
use carillon::store::AlarmEdit;
use carillon::store::AlarmStatus;
use carillon::store::Claimed;
use carillon::store::Edit;
use carillon::store::Group;
use carillon::store::Notice;
use carillon::store::Retention;
use carillon::store::Standalone;
use carillon::trigger::OwnerId;
use carillon::trigger::outcome::Outcome;
use carillon::trigger::outcome::Reason;
use carillon::trigger::outcome::Reported;
use tokio::task::JoinSet;

use crate::store::Base;
use crate::store::Stage;
use crate::store::done;
use crate::store::minute;
use crate::store::retry;
use crate::store::send;
use crate::store::sent;
use crate::store::standalone::Deciding;
use crate::store::standalone::ada;
use crate::store::standalone::at;
use crate::store::standalone::awaiting;
use crate::store::standalone::once;

contract! {
    what_happens_to_an_alarm_and_its_firing_is_told_in_order,
    whoever_alters_an_alarm_is_told_of,
    what_failed_is_told_again_when_it_fails_again,
    what_was_deleted_as_old_is_missed_at_its_number,
    the_feeds_of_owners_are_apart,
    many_at_once_leave_no_gap_and_tell_nothing_late,
    firings_are_counted_by_what_they_call,
    what_was_never_counted_is_not_taken_away,
    firings_of_one_statement_are_told_in_the_order_of_its_rows,
}

impl Stage {
    async fn changes(&self, after: u64) -> Vec<AlarmChange> {
        let changes = self.store.alarm_changes(&ada(), after, 1_000).await;
        changes.expect("they are read")
    }

    /// What was told, by its words.
    async fn told(&self) -> Vec<String> {
        let changes = self.changes(0).await;
        for (change, number) in changes.iter().zip(1..) {
            assert_eq!(change.number, number, "{changes:?}");
        }
        changes.into_iter().map(|change| change.what).collect()
    }

    async fn report_completed(&self, claim: Claimed) {
        let notice = Notice {
            id: claim.id,
            reported: Reported::Completed,
            detail: "all done".into(),
        };
        self.store.report(&[notice]).await.expect("it is taken");
    }
}

async fn what_happens_to_an_alarm_and_its_firing_is_told_in_order(base: &Base) {
    let stage = Stage::on(base).await;
    let alarm = once(1, 0);
    stage.ask_for(&alarm).await;
    let claim = stage.send_claimed(7).await;
    stage.settle(retry(claim, 7, 0, true)).await;
    stage.pass(3);
    let again = Claimed {
        due_at: minute(0),
        ..claim
    };
    assert_eq!(stage.fire(&[again], 8, &send()).await.granted.len(), 1);
    let mut settlement = awaiting(claim);
    settlement.token = carillon::trigger::AttemptToken(8);
    stage.settle(settlement).await;
    stage.pass(1);
    stage.report_completed(claim).await;
    stage.report_completed(claim).await;

    assert_eq!(stage.told().await, ["created", "retrying", "fired", "completed"]);
    let changes = stage.changes(0).await;
    assert!(
        changes
            .iter()
            .all(|it| it.alarm_id == alarm.id.0 && it.label == "Tea")
    );
    assert!(changes[0].firing.is_none());
    let firing = changes[3].firing.as_ref().expect("it is about one");
    assert_eq!(
        (firing.trigger_id, firing.scheduled_for, firing.detail.as_str()),
        (claim.id, minute(0), "all done")
    );
    assert_eq!((firing.attempts, changes[3].at), (2, minute(4)));
    assert_eq!(stage.changes(3).await, changes[3..]);
    let last = stage.store.last_changes(&[ada(), OwnerId("bob".into())]).await;
    assert_eq!(last.expect("they are read"), [(ada(), 4)]);
}

async fn whoever_alters_an_alarm_is_told_of(base: &Base) {
    let stage = Stage::on(base).await;
    stage.ask_for(&once(1, 9)).await;
    let put = async |alter: fn(&mut Standalone)| {
        let editor = Deciding(|_: &AlarmAt, stored: Option<&Standalone>, _: &Group| {
            let mut alarm = stored.expect("it is there").clone();
            alarm.updated_at += chrono::TimeDelta::milliseconds(1);
            alter(&mut alarm);
            AlarmEdit::Put(Box::new(alarm), Edit::default())
        });
        stage.alter(at(1), &editor).await;
    };
    put(|alarm| alarm.paused = true).await;
    put(|alarm| alarm.paused = false).await;
    put(|alarm| alarm.terms.label = "Coffee".into()).await;
    put(|alarm| alarm.status = AlarmStatus::Cancelled).await;
    put(|alarm| alarm.terms.label = "Cake".into()).await;

    let told = ["created", "paused", "resumed", "changed", "cancelled", "changed"];
    assert_eq!(stage.told().await, told);
    // As it is called now.
    assert_eq!(stage.changes(0).await[0].label, "Cake");
}

async fn what_failed_is_told_again_when_it_fails_again(base: &Base) {
    let stage = Stage::on(base).await;
    stage.ask_for(&once(1, 0)).await;
    let claim = stage.send_claimed(7).await;
    stage
        .settle(done(claim, 7, Outcome::Failed, Reason::Exhausted))
        .await;

    assert_eq!(stage.told().await, ["created", "failed"]);

    // It is owed again, and fails again.
    stage.pass(1);
    let moved = format!(
        "UPDATE delivery SET recorded_at = {} WHERE outcome = 'failed'",
        match base {
            Base::Sqlite => "recorded_at + 1",
            Base::Postgres(_) => "recorded_at + interval '1 second'",
        }
    );
    stage.damage(&moved).await;
    assert_eq!(stage.told().await, ["created", "failed", "failed"]);
}

async fn what_was_deleted_as_old_is_missed_at_its_number(base: &Base) {
    let stage = Stage::on(base).await;
    // Asked for at minutes 0 and 0, told of at minute 0.
    stage.ask_for(&once(1, 0)).await;
    let claim = stage.send_claimed(7).await;
    stage.pass(9);
    stage.settle(sent(claim, 7)).await;
    let retention = Retention {
        history_before: minute(5),
        tombstones_before: minute(5),
        limit: 100,
    };

    stage.store.purge(&retention).await.expect("a count");

    let left = stage.changes(0).await;
    assert_eq!((left.len(), left[0].number), (1, 2));
    let last = stage.store.last_changes(&[ada()]).await;
    assert_eq!(last.expect("they are read"), [(ada(), 2)]);
}

async fn the_feeds_of_owners_are_apart(base: &Base) {
    let stage = Stage::on(base).await;
    let bob = crate::store::owner("bob");
    stage.store.put_owner(&bob).await.expect("it is stored");
    stage.ask_for(&once(1, 9)).await;
    let of_bob = Standalone {
        owner: bob.id.clone(),
        ..once(1, 9)
    };
    let editor = Deciding(|_: &AlarmAt, _: Option<&Standalone>, _: &Group| {
        AlarmEdit::Put(Box::new(of_bob.clone()), Edit::default())
    });
    let at = AlarmAt {
        owner: bob.id.clone(),
        ..at(1)
    };
    stage.alter(at, &editor).await;

    let changes = stage.store.alarm_changes(&bob.id, 0, 9).await;
    let numbers: Vec<u64> = changes
        .expect("they are read")
        .iter()
        .map(|it| it.number)
        .collect();
    assert_eq!(numbers, [1]);
    assert_eq!(stage.told().await, ["created"]);
}

/// Transactions of one owner that overlap as they like, and a reader who looks all the time: what has been read once is
/// never joined by something before it.
async fn many_at_once_leave_no_gap_and_tell_nothing_late(base: &Base) {
    let stage = Stage::on(base).await;
    let alarms: Vec<Standalone> = (1..=24).map(|number| once(number, 0)).collect();
    for alarm in &alarms {
        stage.ask_for(alarm).await;
    }
    let claims = stage.claim().await;
    assert_eq!(stage.fire(&claims, 7, &send()).await.granted.len(), alarms.len());
    let mut writing = JoinSet::new();
    for claim in claims {
        let store = Arc::clone(&stage.store);
        writing.spawn(async move {
            let settled = store.settle(&[awaiting(claim)]).await;
            settled.expect("it is settled");
            let notice = Notice {
                id: claim.id,
                reported: Reported::Completed,
                detail: String::new(),
            };
            store.report(&[notice]).await.expect("it is taken");
        });
    }

    let mut seen: Vec<AlarmChange> = Vec::new();
    while seen.len() < 3 * alarms.len() {
        let is_over = writing.is_empty();
        let after = seen.len() as u64;
        let more = stage.store.alarm_changes(&ada(), after, 5).await;
        let more = more.expect("they are read");
        assert!(
            !(is_over && more.is_empty()),
            "{} are missing",
            3 * alarms.len() - seen.len()
        );
        for change in more {
            assert_eq!(change.number, seen.len() as u64 + 1);
            seen.push(change);
        }
        while let Some(written) = writing.try_join_next() {
            written.expect("it is written");
        }
        tokio::task::yield_now().await;
    }

    for alarm in &alarms {
        let own = seen.iter().filter(|it| it.alarm_id == alarm.id.0);
        let own: Vec<&str> = own.map(|it| it.what.as_str()).collect();
        assert_eq!(own, ["created", "fired", "completed"]);
    }
}

async fn firings_are_counted_by_what_they_call(base: &Base) {
    let stage = Stage::on(base).await;
    let mut own = once(2, 0);
    own.terms.target = None;
    // No target, whatever it is called.
    own.terms.label = r#""target":"x""#.into();
    stage.ask_for(&once(1, 0)).await;
    stage.ask_for(&own).await;
    let claims = stage.claim().await;
    assert_eq!(stage.fire(&claims, 7, &send()).await.granted.len(), 2);
    for claim in &claims {
        stage.settle(awaiting(*claim)).await;
        stage.report_completed(*claim).await;
    }

    let counts = stage.store.firing_counts(&ada()).await.expect("they are read");
    let counts: Vec<(&str, &str, i64)> = counts
        .iter()
        .filter(|count| count.amount != 0)
        .map(|count| (count.target.as_str(), count.outcome.as_str(), count.amount))
        .collect();
    assert_eq!(counts, [("owner", "completed", 1), ("url", "completed", 1)]);
}

async fn what_was_never_counted_is_not_taken_away(base: &Base) {
    let stage = Stage::on(base).await;
    stage.ask_for(&once(1, 0)).await;
    stage.ask_for(&once(2, 0)).await;
    let claims = stage.claim().await;
    assert_eq!(stage.fire(&claims, 7, &send()).await.granted.len(), 2);
    // As if it had been recorded before there were counts, when its alarm was forgotten already.
    stage.settle(awaiting(claims[0])).await;
    stage.damage("UPDATE delivery SET target = NULL").await;
    stage.damage("DELETE FROM firing_count").await;
    // And one whose alarm is forgotten now.
    stage.damage("DELETE FROM standalone_alarm").await;
    stage.settle(awaiting(claims[1])).await;

    for claim in &claims {
        stage.report_completed(*claim).await;
    }

    let counts = stage.store.firing_counts(&ada()).await.expect("they are read");
    let counts: Vec<(&str, &str, i64)> = counts
        .iter()
        .map(|count| (count.target.as_str(), count.outcome.as_str(), count.amount))
        .collect();
    assert_eq!(counts, [("owner", "awaiting", 0), ("owner", "completed", 1)]);
}

async fn firings_of_one_statement_are_told_in_the_order_of_its_rows(base: &Base) {
    let stage = Stage::on(base).await;
    for number in 1..=20 {
        stage.ask_for(&once(number, 0)).await;
    }
    let claims = stage.claim().await;
    assert_eq!(stage.fire(&claims, 7, &send()).await.granted.len(), claims.len());
    let settlements: Vec<_> = claims.iter().map(|claim| awaiting(*claim)).collect();
    stage.store.settle(&settlements).await.expect("they are settled");
    let notices: Vec<Notice> = claims
        .iter()
        .map(|claim| Notice {
            id: claim.id,
            reported: Reported::Completed,
            detail: String::new(),
        })
        .collect();
    stage.store.report(&notices).await.expect("they are taken");

    let changes = stage.changes(20).await;
    let told = |what: &str| -> Vec<_> {
        let of = changes.iter().filter(|change| change.what == what);
        of.filter_map(|change| Some(change.firing.as_ref()?.trigger_id))
            .collect()
    };
    let mut ids: Vec<_> = claims.iter().map(|claim| claim.id).collect();
    ids.sort_by_key(|id| id.0);
    assert_eq!(told("fired"), ids);
    let mut completed = told("completed");
    completed.sort_by_key(|id| id.0);
    assert_eq!(completed, ids);
    let numbers: Vec<u64> = changes.iter().map(|change| change.number).collect();
    assert_eq!(numbers, (21..=60).collect::<Vec<_>>());
}
