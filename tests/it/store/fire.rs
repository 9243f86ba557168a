//! The fire-check.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use carillon::store::Candidate;
use carillon::store::Edit;
use carillon::store::FireCheck;
use carillon::store::Judge;
use carillon::store::Judgement;
use carillon::store::Record;
use carillon::store::Succession;
use carillon::store::Verdict;
use carillon::trigger::AttemptToken;
use carillon::trigger::ChannelKind;
use carillon::trigger::SessionId;
use carillon::trigger::State;
use carillon::trigger::limit::Limit;
use carillon::trigger::limit::OnLimit;
use carillon::trigger::outcome::Outcome;
use carillon::trigger::outcome::Reason;
use chrono::DateTime;
use chrono::Utc;

use crate::store::Base;
use crate::store::Decided;
use crate::store::Stage;
use crate::store::going_on;
use crate::store::key;
use crate::store::minute;
use crate::store::new;
use crate::store::owner;
use crate::store::place;
use crate::store::planning;
use crate::store::put_under;
use crate::store::rules;
use crate::store::send;
use crate::store::sent;
use crate::store::sms;
use crate::store::wish;

contract! {
    a_claim_that_is_still_mine_is_moved_to_sending_under_the_token,
    the_judge_sees_everything_as_it_is_now,
    an_event_and_a_wish_that_are_gone_are_told_as_gone,
    the_same_token_is_granted_again_without_judging_again,
    another_token_is_not_granted_what_is_being_sent,
    a_claim_that_was_lost_is_not_granted,
    a_trigger_that_was_withdrawn_is_not_granted,
    what_is_concluded_goes_to_history_without_being_sent,
    a_series_goes_on_by_any_exit,
    a_successor_that_is_near_is_claimed_at_once,
    a_successor_that_exists_or_was_handed_over_is_not_planned_again,
    hand_overs_after_an_old_place_are_told_however_old_they_are,
    served_through_never_goes_back,
    two_places_of_one_series_in_one_batch_serve_the_later_one,
    what_was_stepped_over_is_one_row_with_a_count,
    one_alarm_that_fires_leaves_its_siblings_alone,
    what_a_spent_judge_leaves_stays_claimed_for_the_next_fire_check,
    a_spent_judge_judges_no_more_where_all_is_deferred,
}

fn is_empty(checked: &FireCheck) -> bool {
    checked.granted.is_empty() && checked.concluded.is_empty() && checked.claimed.is_empty()
}

async fn a_claim_that_is_still_mine_is_moved_to_sending_under_the_token(base: &Base) {
    let stage = Stage::on(base).await;
    let trigger = new("e", 0);
    stage.plan("e", std::slice::from_ref(&trigger)).await;
    let claims = stage.claim().await;
    stage.pass(1);

    let checked = stage.fire(&claims, 7, &send()).await;

    assert_eq!(checked.granted.len(), 1);
    let stored = stage.trigger(&trigger).await.expect("it is owed");
    assert_eq!(stored.state, State::Sending);
    assert_eq!(stored.attempt_token, Some(AttemptToken(7)));
    assert_eq!(stored.attempt_started, Some(minute(1)));
    assert_eq!(stored.generation, claims[0].generation);
    assert_eq!(checked.granted[0].trigger, stored);
}

async fn the_judge_sees_everything_as_it_is_now(base: &Base) {
    let stage = Stage::on(base).await;
    let old = new("e", -5);
    stage.sending(&old, 6).await;
    let claim = stage.store.held_by(stage.session, minute(0), None, 1).await;
    assert!(claim.expect("a page").is_empty());
    stage.put("e", planning(&[new("e", 0), sms(new("e", 0))])).await;
    let settled = sent(
        carillon::store::Claimed {
            id: old.id(),
            generation: 1,
            due_at: minute(-5),
            channel: old.wish.channel,
            owner: 0,
        },
        6,
    );
    stage.settle(settled).await;
    let claims = stage.claim().await;
    let seen: Arc<Mutex<Vec<Candidate>>> = Arc::default();
    let watching = Arc::clone(&seen);

    stage
        .fire(
            &claims,
            7,
            &Decided(move |candidate: &Candidate| {
                watching
                    .lock()
                    .expect("no test panics in it")
                    .push(candidate.clone());
                Judgement {
                    verdict: Verdict::Send,
                    succession: None,
                }
            }),
        )
        .await;

    let seen = seen.lock().expect("no test panics in it");
    assert_eq!(seen.len(), 2);
    for candidate in seen.iter() {
        assert_eq!(candidate.trigger.state, State::Claimed);
        assert_eq!(candidate.owner, owner("ada"));
        assert_eq!(
            candidate.alarm.as_ref().map(|alarm| &alarm.wish),
            Some(&candidate.trigger.wish)
        );
        assert_eq!(candidate.copies[0].at, key("e"));
        assert_eq!(*candidate.handed_over, [old.id()]);
    }
    assert!(
        Arc::ptr_eq(&seen[0].copies, &seen[1].copies),
        "a group is read once"
    );
}

async fn an_event_and_a_wish_that_are_gone_are_told_as_gone(base: &Base) {
    let stage = Stage::on(base).await;
    stage.plan("e", &[new("e", 0)]).await;
    let claims = stage.claim().await;
    // The copy moves to another UID, and the editor forgets the wish but leaves the trigger.
    let editor = crate::store::Prepared::with("e", Edit::default());
    let change = put_under(key("e"), "f");
    stage
        .store
        .change(&[change], &editor, None)
        .await
        .expect("it is applied");

    let judge = Decided(|candidate: &Candidate| {
        assert!(candidate.copies.is_empty());
        assert_eq!(candidate.alarm, None);
        Judgement {
            verdict: Verdict::Conclude(Outcome::Cancelled, Reason::Withdrawn),
            succession: None,
        }
    });
    let checked = stage.fire(&claims, 7, &judge).await;

    assert_eq!(checked.concluded.len(), 1);
}

async fn the_same_token_is_granted_again_without_judging_again(base: &Base) {
    let stage = Stage::on(base).await;
    stage.plan("e", &[new("e", 0)]).await;
    let claims = stage.claim().await;
    let first = stage.fire(&claims, 7, &going_on(Verdict::Send, 60)).await;

    let judge = Decided(|_: &Candidate| -> Judgement { panic!("it was judged before") });
    let again = stage.fire(&claims, 7, &judge).await;

    assert_eq!(again.granted.len(), 1);
    assert_eq!(again.granted[0].trigger, first.granted[0].trigger);
    assert!(again.concluded.is_empty() && again.claimed.is_empty());
}

async fn another_token_is_not_granted_what_is_being_sent(base: &Base) {
    let stage = Stage::on(base).await;
    stage.plan("e", &[new("e", 0)]).await;
    let claims = stage.claim().await;
    stage.fire(&claims, 7, &send()).await;

    assert!(is_empty(&stage.fire(&claims, 8, &send()).await));
}

async fn a_claim_that_was_lost_is_not_granted(base: &Base) {
    let stage = Stage::on(base).await;
    stage.plan("e", &[new("e", 0)]).await;
    let old = stage.claim().await;
    stage.pass(6);
    stage.store.rescue(&rules(), 100).await.expect("a rescue");
    let newer = stage.claim().await;
    assert!(newer[0].generation > old[0].generation);

    assert!(
        is_empty(&stage.fire(&old, 7, &send()).await),
        "the generation is older"
    );
    let foreign = stage
        .store
        .fire_check(SessionId(4711), &newer, AttemptToken(7), &send(), Duration::ZERO)
        .await;
    assert!(is_empty(&foreign.expect("an answer")), "the session is another");
    assert_eq!(stage.fire(&newer, 7, &send()).await.granted.len(), 1);
}

async fn a_trigger_that_was_withdrawn_is_not_granted(base: &Base) {
    let stage = Stage::on(base).await;
    stage.plan("e", &[new("e", 0)]).await;
    let claims = stage.claim().await;
    let edit = Edit {
        withdraw: vec![new("e", 0).id()],
        ..Edit::default()
    };
    stage.put("e", edit).await;

    assert!(is_empty(&stage.fire(&claims, 7, &send()).await));
}

async fn what_is_concluded_goes_to_history_without_being_sent(base: &Base) {
    let stage = Stage::on(base).await;
    let trigger = new("e", 0);
    stage.plan("e", std::slice::from_ref(&trigger)).await;
    let claims = stage.claim().await;
    let judge = Decided(|_: &Candidate| Judgement {
        verdict: Verdict::Conclude(Outcome::Expired, Reason::Late),
        succession: None,
    });

    let checked = stage.fire(&claims, 7, &judge).await;

    assert!(checked.granted.is_empty());
    let (concluded, outcome, reason) = &checked.concluded[0];
    assert_eq!(
        (concluded.id, *outcome, *reason),
        (trigger.id(), Outcome::Expired, Reason::Late)
    );
    assert!(stage.triggers("e").await.is_empty());
    let history = stage.history().await;
    assert_eq!(
        (history[0].outcome, history[0].reason),
        (Outcome::Expired, Reason::Late)
    );
    assert_eq!((history[0].attempts, history[0].count), (0, 1));
    assert_eq!(history[0].handed_over_at, None);
}

async fn a_series_goes_on_by_any_exit(base: &Base) {
    for verdict in [
        Verdict::Send,
        Verdict::Conclude(Outcome::Expired, Reason::Late),
        Verdict::Conclude(Outcome::Suppressed, Reason::Disabled),
        Verdict::Conclude(Outcome::Suppressed, Reason::Muted),
        Verdict::Conclude(Outcome::Suppressed, Reason::EventCancelled),
        Verdict::Conclude(Outcome::Failed, Reason::NoAddress),
        Verdict::Conclude(Outcome::Missed, Reason::Outage),
    ] {
        let stage = Stage::on(base).await;
        stage.plan("e", &[new("e", 0)]).await;
        let claims = stage.claim().await;

        stage.fire(&claims, 7, &going_on(verdict, 60)).await;

        let successor = stage.trigger(&new("e", 60)).await.expect("the series goes on");
        assert_eq!((successor.state, successor.due_at), (State::Planned, minute(60)));
        let alarm = &stage.group("e").await.expect("a group").alarms[0];
        assert_eq!(alarm.served_through, Some(place(0)), "{verdict:?}");
    }
}

async fn a_successor_that_is_near_is_claimed_at_once(base: &Base) {
    let stage = Stage::on(base).await;
    stage.plan("e", &[new("e", 0)]).await;
    let claims = stage.claim().await;

    let checked = stage.fire(&claims, 7, &going_on(Verdict::Send, 35)).await;

    assert_eq!(checked.claimed.len(), 1);
    assert_eq!(
        (checked.claimed[0].id, checked.claimed[0].generation),
        (new("e", 35).id(), 1)
    );
    let successor = stage.trigger(&new("e", 35)).await.expect("the series goes on");
    assert_eq!(
        (successor.state, successor.session),
        (State::Claimed, Some(stage.session))
    );
    let granted = stage.fire(&checked.claimed, 8, &send()).await.granted;
    assert_eq!(granted.len(), 1);
}

async fn a_successor_that_exists_or_was_handed_over_is_not_planned_again(base: &Base) {
    let stage = Stage::on(base).await;
    let early = new("e", 60);
    let claim = stage.sending(&early, 6).await;
    stage.settle(sent(claim, 6)).await;
    stage.plan("e", &[new("e", 0)]).await;
    let claims = stage.claim().await;

    let judge = going_on(Verdict::Send, 60);
    let checked = stage.fire(&claims, 7, &judge).await;

    assert_eq!(*checked.granted[0].handed_over, [early.id()]);
    assert_eq!(stage.triggers("e").await.len(), 1, "only what is being sent");
}

async fn hand_overs_after_an_old_place_are_told_however_old_they_are(base: &Base) {
    let stage = Stage::on(base).await;
    let early = new("e", -120);
    let claim = stage.sending(&early, 6).await;
    stage.settle(sent(claim, 6)).await;
    stage.plan("e", &[new("e", -180)]).await;

    let claims = stage.claim().await;
    let checked = stage.fire(&claims, 7, &send()).await;

    assert_eq!(*checked.granted[0].handed_over, [early.id()]);
}

async fn served_through_never_goes_back(base: &Base) {
    let stage = Stage::on(base).await;
    let mut edit = planning(&[new("e", 0)]);
    edit.alarms[0].served_through = Some(place(30));
    stage.put("e", edit).await;
    let claims = stage.claim().await;

    stage.fire(&claims, 7, &going_on(Verdict::Send, 60)).await;

    let alarm = &stage.group("e").await.expect("a group").alarms[0];
    assert_eq!(alarm.served_through, Some(place(30)));
}

async fn two_places_of_one_series_in_one_batch_serve_the_later_one(base: &Base) {
    let stage = Stage::on(base).await;
    stage.plan("e", &[new("e", 10), new("e", 20)]).await;
    let mut claims = stage.claim().await;
    claims.reverse();

    stage.fire(&claims, 7, &going_on(Verdict::Send, 300)).await;

    let alarm = &stage.group("e").await.expect("a group").alarms[0];
    assert_eq!(alarm.served_through, Some(place(20)));
}

async fn what_was_stepped_over_is_one_row_with_a_count(base: &Base) {
    let stage = Stage::on(base).await;
    stage.plan("e", &[new("e", -600)]).await;
    let claims = stage.claim().await;
    let judge = Decided(|candidate: &Candidate| Judgement {
        verdict: Verdict::Conclude(Outcome::Expired, Reason::Late),
        succession: Some(Succession {
            served_through: place(-60),
            successor: Some(new("e", 30)),
            missed: Some(Record {
                wish: candidate.trigger.wish.clone(),
                place: place(-540),
                outcome: Outcome::Missed,
                reason: Reason::Outage,
                count: 9,
            }),
        }),
    });

    stage.fire(&claims, 7, &judge).await;

    let history = stage.history().await;
    let missed = history
        .iter()
        .find(|row| row.outcome == Outcome::Missed)
        .expect("a row");
    assert_eq!(
        (missed.count, missed.reason, &missed.wish),
        (9, Reason::Outage, &wish("e"))
    );
    let alarm = &stage.group("e").await.expect("a group").alarms[0];
    assert_eq!(alarm.served_through, Some(place(-60)));
    assert!(stage.trigger(&new("e", 30)).await.is_some());
}

async fn one_alarm_that_fires_leaves_its_siblings_alone(base: &Base) {
    let stage = Stage::on(base).await;
    let sibling = sms(new("e", 5));
    stage.plan("e", &[new("e", 0), sibling.clone()]).await;
    let claims = stage.claim().await;

    stage.fire(&claims[..1], 7, &going_on(Verdict::Send, 60)).await;

    let untouched = stage.trigger(&sibling).await.expect("it is owed");
    assert_eq!((untouched.state, untouched.generation), (State::Claimed, 1));
    let alarms = stage.group("e").await.expect("a group").alarms;
    let of_sibling = alarms
        .iter()
        .find(|alarm| alarm.wish == sibling.wish)
        .expect("a wish");
    assert_eq!(of_sibling.served_through, None);
}

/// Sends everything within these limits, and has had enough after each.
#[derive(Default)]
struct Tired(BTreeMap<ChannelKind, Limit>);

impl Judge for Tired {
    fn judge(&self, candidate: &Candidate, now: DateTime<Utc>) -> Judgement {
        send().judge(candidate, now)
    }

    fn limits(&self) -> BTreeMap<ChannelKind, Limit> {
        self.0.clone()
    }

    fn is_spent(&self) -> bool {
        true
    }
}

async fn what_a_spent_judge_leaves_stays_claimed_for_the_next_fire_check(base: &Base) {
    let stage = Stage::on(base).await;
    stage.plan("e", &[new("e", 0), new("e", 1), new("e", 2)]).await;
    let mut claims = stage.claim().await;
    let mut granted = Vec::new();
    for token in 1..=3 {
        let checked = stage.fire(&claims, token, &Tired::default()).await;

        assert_eq!(checked.granted.len(), 1, "the first one is judged always");
        assert_eq!(checked.left.len(), claims.len() - 1);
        assert!(checked.left.iter().all(|claim| claims.contains(claim)));
        granted.push(checked.granted[0].trigger.id);
        claims = checked.left;
    }
    granted.sort_unstable_by_key(|id| id.0);
    granted.dedup();
    assert_eq!(granted.len(), 3);
    let triggers = stage.triggers("e").await;
    assert!(triggers.iter().all(|trigger| trigger.state == State::Sending));
}

async fn a_spent_judge_judges_no_more_where_all_is_deferred(base: &Base) {
    let stage = Stage::on(base).await;
    stage.plan("e", &[new("e", 0), new("e", 1), new("e", 2)]).await;
    let claims = stage.claim().await;
    let one = Limit {
        amount: 1,
        timeframe: Duration::from_hours(1),
        over: OnLimit::Defer,
        send_within: Duration::from_mins(2),
        time_shift_ms: 0,
    };
    let judge = Tired(BTreeMap::from([(ChannelKind::Email, one)]));
    let first = stage.fire(&claims, 1, &judge).await;
    assert_eq!((first.granted.len(), first.left.len()), (1, 2));

    let second = stage.fire(&first.left, 2, &judge).await;

    assert_eq!((second.granted.len(), second.deferred.len()), (0, 1));
    assert_eq!(second.left.len(), 1);
}
