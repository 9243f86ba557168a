//! The limits of owners: what they get of one channel in any timeframe, exactly.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::time::Duration;

use carillon::store::AttemptEnd;
use carillon::store::Candidate;
use carillon::store::Claimed;
use carillon::store::FireCheck;
use carillon::store::Judge;
use carillon::store::Judgement;
use carillon::store::Recall;
use carillon::store::Settled;
use carillon::store::Settlement;
use carillon::store::Verdict;
use carillon::trigger::ChannelKind;
use carillon::trigger::NewTrigger;
use carillon::trigger::OwnerId;
use carillon::trigger::SessionId;
use carillon::trigger::State;
use carillon::trigger::Trigger;
use carillon::trigger::TriggerId;
use carillon::trigger::limit::Limit;
use carillon::trigger::limit::OnLimit;
use carillon::trigger::outcome::Outcome;
use carillon::trigger::outcome::Reason;
use chrono::DateTime;
use chrono::TimeDelta;
use chrono::Utc;

use crate::store::Base;
use crate::store::Prepared;
use crate::store::Stage;
use crate::store::done;
use crate::store::going_on;
use crate::store::minute;
use crate::store::new;
use crate::store::owner;
use crate::store::planning;
use crate::store::put_under;
use crate::store::retry;
use crate::store::rules;
use crate::store::send;
use crate::store::sent;
use crate::store::sms;

contract! {
    no_more_than_the_amount_is_granted_and_each_of_the_others_has_a_slot_of_its_own,
    what_was_handed_over_counts_for_a_timeframe,
    a_message_under_way_counts_until_a_timeframe_after_its_settle,
    an_attempt_that_handed_nothing_over_gives_its_slot_back,
    what_may_have_been_handed_over_counts_and_its_retry_takes_nothing_more,
    an_attempt_that_never_settles_counts_as_long_as_it_may_have_sent,
    what_is_over_is_recorded_where_the_operator_says_drop,
    what_would_be_too_late_by_its_slot_is_recorded_at_once,
    owners_and_channels_have_limits_of_their_own,
    a_firing_that_waits_has_not_left_and_its_series_goes_on_later,
    a_newcomer_lines_up_behind_those_who_wait,
    nobody_lines_up_behind_what_was_withdrawn,
    what_was_promised_first_is_granted_first,
    what_waits_is_due_so_that_a_shifted_channel_fires_it_at_its_slot,
    the_grants_of_a_lost_answer_are_told_again_and_count_once,
    a_batch_larger_than_the_limit_of_many_owners_is_shared_by_each,
    what_waits_is_recalled_and_finds_the_slot_that_there_is_by_now,
    what_is_recalled_under_no_limit_is_granted,
    only_what_waits_in_the_channel_and_is_free_or_the_sessions_is_recalled,
}

/// Two e-mails in ten minutes.
const TWO: Limit = Limit {
    amount: 2,
    timeframe: Duration::from_mins(10),
    over: OnLimit::Defer,
    send_within: Duration::from_mins(2),
    time_shift_ms: 0,
};

/// Judges as `then`, under a limit for e-mail.
struct Limited<J>(Limit, J);

impl<J: Judge> Judge for Limited<J> {
    fn judge(&self, candidate: &Candidate, now: DateTime<Utc>) -> Judgement {
        self.1.judge(candidate, now)
    }

    fn limits(&self) -> BTreeMap<ChannelKind, Limit> {
        BTreeMap::from([(ChannelKind::Email, self.0)])
    }
}

/// Plans and claims one firing each for so many events of ada, due at minute 0.
async fn due(stage: &Stage, events: &[&str]) -> Vec<Claimed> {
    for event in events {
        stage.plan(event, &[new(event, 0)]).await;
    }
    stage.claim_until(0).await
}

/// What ada owes for one of these events.
async fn owed(stage: &Stage, events: &[&str], id: TriggerId) -> Trigger {
    for event in events {
        if let Some(found) = stage.triggers(event).await.into_iter().find(|it| it.id == id) {
            return found;
        }
    }
    panic!("{id} is owed")
}

async fn fire(stage: &Stage, claims: &[Claimed], token: i64) -> FireCheck {
    stage.fire(claims, token, &Limited(TWO, send())).await
}

/// Settles what was granted of these as sent.
async fn settle_granted(stage: &Stage, claims: &[Claimed], checked: &FireCheck, token: i64) {
    for candidate in &checked.granted {
        let claim = claims.iter().find(|claim| claim.id == candidate.trigger.id);
        stage.settle(sent(*claim.expect("it was asked for"), token)).await;
    }
}

/// Fires these and settles what was granted as sent. Returns how many that were.
async fn send_out(stage: &Stage, claims: &[Claimed], token: i64) -> usize {
    let checked = fire(stage, claims, token).await;
    settle_granted(stage, claims, &checked, token).await;
    checked.granted.len()
}

fn slots(checked: &FireCheck) -> Vec<DateTime<Utc>> {
    let mut slots: Vec<_> = checked.deferred.iter().map(|claim| claim.due_at).collect();
    slots.sort_unstable();
    slots
}

async fn no_more_than_the_amount_is_granted_and_each_of_the_others_has_a_slot_of_its_own(base: &Base) {
    let stage = Stage::on(base).await;
    let claims = due(&stage, &["a", "b", "c", "d", "e", "f"]).await;

    let checked = fire(&stage, &claims, 7).await;

    assert_eq!(checked.granted.len(), 2);
    let slots = slots(&checked);
    assert_eq!(slots.len(), 4);
    // Two of them after one timeframe, two after the next; the messages under way take about a second.
    for (slot, minutes) in slots.iter().zip([10, 10, 20, 20]) {
        let late = *slot - minute(minutes);
        assert!(late > TimeDelta::zero() && late < TimeDelta::seconds(3), "{late}");
    }
    for claim in &checked.deferred {
        let waits = owed(&stage, &["a", "b", "c", "d", "e", "f"], claim.id).await;
        assert_eq!((waits.state, waits.due_at), (State::Claimed, claim.due_at));
        assert_eq!(
            (waits.session, waits.generation),
            (Some(stage.session), claim.generation)
        );
    }
}

async fn what_was_handed_over_counts_for_a_timeframe(base: &Base) {
    let stage = Stage::on(base).await;
    let claims = due(&stage, &["a", "b", "c"]).await;
    let first = fire(&stage, &claims[..2], 7).await;
    assert_eq!(first.granted.len(), 2);
    for claim in &claims[..2] {
        stage.settle(sent(*claim, 7)).await;
    }

    stage.pass(10);
    let checked = fire(&stage, &claims[2..], 8).await;
    assert_eq!(
        checked.granted.len(),
        0,
        "the tenth minute is within the timeframe"
    );
    assert_eq!(slots(&checked), [minute(10) + TimeDelta::milliseconds(1)]);

    stage.clock.advance(Duration::from_millis(1));
    assert_eq!(fire(&stage, &checked.deferred, 9).await.granted.len(), 1);
}

async fn a_message_under_way_counts_until_a_timeframe_after_its_settle(base: &Base) {
    let stage = Stage::on(base).await;
    let claims = due(&stage, &["a", "b", "c"]).await;
    fire(&stage, &claims[..2], 7).await;
    stage.pass(1);
    for claim in &claims[..2] {
        stage.settle(sent(*claim, 7)).await;
    }

    stage.clock.advance(Duration::from_secs(599));
    let early = fire(&stage, &claims[2..], 8).await;

    assert_eq!(
        early.granted.len(),
        0,
        "one of them may have arrived as late as its settle"
    );
    stage.clock.advance(Duration::from_secs(2));
    assert_eq!(fire(&stage, &early.deferred, 9).await.granted.len(), 1);
}

async fn an_attempt_that_handed_nothing_over_gives_its_slot_back(base: &Base) {
    let stage = Stage::on(base).await;
    let claims = due(&stage, &["a", "b", "c", "d"]).await;
    fire(&stage, &claims[..2], 7).await;

    stage.settle(retry(claims[0], 7, 5, true)).await;
    stage
        .settle(done(claims[1], 7, Outcome::Failed, Reason::Refused))
        .await;

    assert_eq!(fire(&stage, &claims[2..], 8).await.granted.len(), 2);
}

async fn what_may_have_been_handed_over_counts_and_its_retry_takes_nothing_more(base: &Base) {
    let stage = Stage::on(base).await;
    let claims = due(&stage, &["a", "b", "c"]).await;
    fire(&stage, &claims[..2], 7).await;
    let doubtful = Settlement {
        end: AttemptEnd::Retry {
            due_at: minute(0),
            counts: true,
            doubtful: true,
            error: "the connection was lost".into(),
            payload: None,
        },
        ..retry(claims[0], 7, 0, true)
    };
    let Settled::Retrying(again) = stage.settle(doubtful).await else {
        panic!("it is tried again");
    };
    stage.settle(sent(claims[1], 7)).await;

    let others = fire(&stage, &claims[2..], 8).await;
    assert_eq!(others.granted.len(), 0, "the doubtful one counts");
    let repeated = fire(&stage, &[again], 9).await;
    assert_eq!(repeated.granted.len(), 1, "its retry is not a second message");
    // And counts by its retry from then on.
    stage.pass(9);
    stage.settle(sent(again, 9)).await;
    stage.pass(9);
    assert_eq!(send_out(&stage, &others.deferred, 10).await, 1);
    let last = due(&stage, &["d"]).await;
    assert_eq!(fire(&stage, &last, 11).await.granted.len(), 0);
}

async fn an_attempt_that_never_settles_counts_as_long_as_it_may_have_sent(base: &Base) {
    let stage = Stage::on(base).await;
    let claims = due(&stage, &["a", "b", "c"]).await;
    fire(&stage, &claims[..2], 7).await;

    stage.pass(12);
    let checked = fire(&stage, &claims[2..], 8).await;
    assert_eq!(
        checked.granted.len(),
        0,
        "they may have been handed over after two minutes"
    );

    stage.clock.advance(Duration::from_secs(1));
    assert_eq!(fire(&stage, &checked.deferred, 9).await.granted.len(), 1);
}

async fn what_is_over_is_recorded_where_the_operator_says_drop(base: &Base) {
    let stage = Stage::on(base).await;
    let claims = due(&stage, &["a", "b", "c"]).await;
    let drop = Limit {
        over: OnLimit::Drop,
        ..TWO
    };

    let checked = stage.fire(&claims, 7, &Limited(drop, send())).await;

    assert_eq!((checked.granted.len(), checked.deferred.len()), (2, 0));
    let (dropped, outcome, reason) = &checked.concluded[0];
    assert_eq!((*outcome, *reason), (Outcome::Suppressed, Reason::RateLimit));
    assert_eq!(
        stage.outcome(dropped.id).await,
        Some((Outcome::Suppressed, Reason::RateLimit))
    );
}

async fn what_would_be_too_late_by_its_slot_is_recorded_at_once(base: &Base) {
    let stage = Stage::on(base).await;
    for event in ["a", "b", "c", "d", "e"] {
        let expires_at = minute(15);
        stage
            .plan(
                event,
                &[NewTrigger {
                    expires_at,
                    ..new(event, 0)
                }],
            )
            .await;
    }
    let claims = stage.claim_until(0).await;

    let checked = fire(&stage, &claims, 7).await;

    assert_eq!((checked.granted.len(), checked.deferred.len()), (2, 2));
    assert_eq!(checked.concluded.len(), 1, "its slot is after twenty minutes");
    let outcome = stage.outcome(checked.concluded[0].0.id).await;
    assert_eq!(outcome, Some((Outcome::Suppressed, Reason::RateLimit)));
}

async fn owners_and_channels_have_limits_of_their_own(base: &Base) {
    let stage = Stage::on(base).await;
    stage.store.put_owner(&owner("bob")).await.expect("stored");
    let mut bobs = new("b1", 0);
    bobs.wish.owner = OwnerId("bob".into());
    let mut at = crate::store::key("b1");
    at.owner = OwnerId("bob".into());
    let editor = Prepared::with("b1", planning(&[bobs]));
    let taken = stage.store.change(&[put_under(at, "b1")], &editor, None).await;
    taken.expect("applied").remove(0).expect("taken");
    for event in ["a", "b", "c"] {
        stage.plan(event, &[new(event, 0), sms(new(event, 0))]).await;
    }
    let claims = stage.claim_until(0).await;

    let checked = fire(&stage, &claims, 7).await;

    let granted = |owner: &str, channel| {
        let of = |it: &&Candidate| it.trigger.wish.owner.0 == owner && it.trigger.wish.channel == channel;
        checked.granted.iter().filter(of).count()
    };
    assert_eq!(granted("ada", ChannelKind::Email), 2);
    assert_eq!(granted("ada", ChannelKind::Sms), 3);
    assert_eq!(granted("bob", ChannelKind::Email), 1);
}

async fn a_firing_that_waits_has_not_left_and_its_series_goes_on_later(base: &Base) {
    let stage = Stage::on(base).await;
    let claims = due(&stage, &["a", "b"]).await;
    send_out(&stage, &claims, 7).await;
    let series = due(&stage, &["s"]).await;
    let daily = || going_on(Verdict::Send, 1440);

    let waits = stage.fire(&series, 8, &Limited(TWO, daily())).await;

    assert_eq!(waits.deferred.len(), 1);
    assert_eq!(stage.triggers("s").await.len(), 1, "no successor yet");
    stage.pass(11);
    let checked = stage.fire(&waits.deferred, 9, &Limited(TWO, daily())).await;
    assert_eq!(checked.granted.len(), 1);
    assert!(stage.trigger(&new("s", 1440)).await.is_some());
}

async fn a_newcomer_lines_up_behind_those_who_wait(base: &Base) {
    let stage = Stage::on(base).await;
    let claims = due(&stage, &["a", "b", "c", "d"]).await;
    let checked = fire(&stage, &claims, 7).await;
    settle_granted(&stage, &claims, &checked, 7).await;
    stage.clock.advance(Duration::from_millis(600_500));

    // There is room for two, and two wait for it.
    let newcomers = due(&stage, &["n"]).await;
    let behind = fire(&stage, &newcomers, 8).await;

    assert_eq!(behind.granted.len(), 0);
    assert!(slots(&behind)[0] > minute(20), "{:?}", slots(&behind));
    stage.clock.advance(Duration::from_secs(3));
    assert_eq!(send_out(&stage, &checked.deferred, 9).await, 2);
}

async fn nobody_lines_up_behind_what_was_withdrawn(base: &Base) {
    let stage = Stage::on(base).await;
    let claims = due(&stage, &["a", "b", "c", "d"]).await;
    let checked = fire(&stage, &claims, 7).await;
    settle_granted(&stage, &claims, &checked, 7).await;
    for waiting in &checked.deferred {
        let trigger = owed(&stage, &["a", "b", "c", "d"], waiting.id).await;
        let edit = carillon::store::Edit {
            withdraw: vec![trigger.id],
            ..carillon::store::Edit::default()
        };
        stage.put(&trigger.wish.event_uid, edit).await;
    }
    stage.clock.advance(Duration::from_millis(600_500));

    let newcomers = due(&stage, &["n"]).await;

    assert_eq!(fire(&stage, &newcomers, 8).await.granted.len(), 1);
}

async fn what_was_promised_first_is_granted_first(base: &Base) {
    let stage = Stage::on(base).await;
    let events = ["a", "b", "c", "d", "e", "f", "g", "h"];
    for (event, minutes) in events.iter().zip(-8..) {
        stage.plan(event, &[new(event, minutes)]).await;
    }
    let mut claims = stage.claim_until(0).await;
    claims.reverse();

    let checked = fire(&stage, &claims, 7).await;

    let mut granted: Vec<_> = checked
        .granted
        .iter()
        .map(|it| it.trigger.place.trigger_at)
        .collect();
    granted.sort_unstable();
    assert_eq!(granted, [minute(-8), minute(-7)]);
}

async fn what_waits_is_due_so_that_a_shifted_channel_fires_it_at_its_slot(base: &Base) {
    let stage = Stage::on(base).await;
    let claims = due(&stage, &["a", "b", "c"]).await;
    let earlier = Limit {
        time_shift_ms: 300_000,
        ..TWO
    };

    let checked = stage.fire(&claims, 7, &Limited(earlier, send())).await;

    let late = slots(&checked)[0] - minute(15);
    assert!(late > TimeDelta::zero() && late < TimeDelta::seconds(3), "{late}");
}

async fn the_grants_of_a_lost_answer_are_told_again_and_count_once(base: &Base) {
    let stage = Stage::on(base).await;
    let claims = due(&stage, &["a", "b", "c"]).await;
    let first = fire(&stage, &claims[..1], 7).await;

    let again = fire(&stage, &claims[..1], 7).await;

    assert_eq!(again.granted[0].trigger, first.granted[0].trigger);
    assert_eq!(fire(&stage, &claims[1..], 8).await.granted.len(), 1);
}

async fn a_batch_larger_than_the_limit_of_many_owners_is_shared_by_each(base: &Base) {
    let stage = Stage::on(base).await;
    for number in 0..40 {
        let id = format!("owner-{number}");
        stage.store.put_owner(&owner(&id)).await.expect("stored");
        for event in ["x", "y", "z"] {
            let mut trigger = new(event, 0);
            trigger.wish.owner = OwnerId(id.clone());
            let mut at = crate::store::key(event);
            at.owner = OwnerId(id.clone());
            let editor = Prepared::with(event, planning(&[trigger]));
            let taken = stage.store.change(&[put_under(at, event)], &editor, None).await;
            taken.expect("applied").remove(0).expect("taken");
        }
    }
    let claims = stage.claim_until(0).await;
    assert_eq!(claims.len(), 120);

    let checked = fire(&stage, &claims, 7).await;

    assert_eq!((checked.granted.len(), checked.deferred.len()), (80, 40));
    let waiting: BTreeSet<_> = checked.deferred.iter().map(|claim| claim.owner).collect();
    assert_eq!(waiting.len(), 40, "one of each");
}

/// Recalls all e-mails that wait, for minute 0, in pages of two slots. Returns the claims as they were and are due.
async fn recall(stage: &Stage, session: SessionId) -> (Vec<DateTime<Utc>>, Vec<Claimed>) {
    let (mut before, mut claims, mut after) = (Vec::new(), Vec::new(), None);
    loop {
        let page = stage
            .store
            .recall(Recall {
                session,
                channel: ChannelKind::Email,
                due_at: minute(0),
                after,
                limit: 2,
            })
            .await
            .expect("recalled");
        before.extend(page.before.iter().map(|it| it.due_at));
        claims.extend(page.claims);
        after = page.next;
        if after.is_none() {
            return (before, claims);
        }
    }
}

async fn what_waits_is_recalled_and_finds_the_slot_that_there_is_by_now(base: &Base) {
    let stage = Stage::on(base).await;
    let claims = due(&stage, &["a", "b", "c", "d", "e", "f", "g"]).await;
    let checked = fire(&stage, &claims, 7).await;
    let mut waited = slots(&checked);

    let (mut before, recalled) = recall(&stage, stage.session).await;

    before.sort_unstable();
    waited.sort_unstable();
    assert_eq!(before, waited);
    assert!(
        recalled.iter().all(|claim| claim.due_at == minute(0)),
        "{recalled:?}"
    );
    let four = Limit { amount: 4, ..TWO };
    let checked = stage.fire(&recalled, 8, &Limited(four, send())).await;
    assert_eq!((checked.granted.len(), checked.deferred.len()), (2, 3));
    let (_, again) = recall(&stage, stage.session).await;
    assert_eq!(again.len(), 3, "what waits again can be recalled again");
    assert_eq!(recall(&stage, stage.session).await.1, [], "once");
}

async fn what_is_recalled_under_no_limit_is_granted(base: &Base) {
    let stage = Stage::on(base).await;
    let claims = due(&stage, &["a", "b", "c", "d", "e"]).await;
    fire(&stage, &claims, 7).await;

    let (_, recalled) = recall(&stage, stage.session).await;

    assert_eq!(stage.fire(&recalled, 8, &send()).await.granted.len(), 3);
}

async fn only_what_waits_in_the_channel_and_is_free_or_the_sessions_is_recalled(base: &Base) {
    let stage = Stage::on(base).await;
    let claims = due(&stage, &["a", "b", "c", "d"]).await;
    fire(&stage, &claims, 7).await;
    let sms = Recall {
        session: stage.session,
        channel: ChannelKind::Sms,
        due_at: minute(0),
        after: None,
        limit: 9,
    };
    assert_eq!(stage.store.recall(sms).await.expect("recalled").claims, []);
    let (other, _) = stage
        .store
        .begin_session("node-b", &rules())
        .await
        .expect("a session");
    assert_eq!(recall(&stage, other).await.1, [], "somebody holds it");
    stage.store.give_back(stage.session).await.expect("given back");

    assert_eq!(recall(&stage, other).await.1, [], "nobody holds it");

    let due = stage
        .store
        .claim_due(other, minute(0), None, 9)
        .await
        .expect("claimed");
    assert_eq!(due.len(), 2, "and it is due");
}

/// Two nodes fire for one owner at once: together they are granted what the limit allows, never more.
#[tokio::test]
async fn two_nodes_at_once_are_granted_no_more_than_one() {
    let base = Base::postgres().await;
    let stage = Stage::on(&base).await;
    let (other, _) = stage
        .store
        .begin_session("node-b", &rules())
        .await
        .expect("a session");
    let five = Limit { amount: 5, ..TWO };
    for round in 0..20_i64 {
        let events: Vec<String> = (0..16).map(|number| format!("e{round}-{number}")).collect();
        for event in &events {
            let due = minute(round * 60);
            let mut trigger = new(event, round * 60);
            trigger.expires_at = due + TimeDelta::minutes(5);
            stage.plan(event, &[trigger]).await;
        }
        let until = minute(round * 60);
        let mine = stage
            .store
            .claim_due(stage.session, until, None, 8)
            .await
            .expect("claimed");
        let theirs = stage
            .store
            .claim_due(other, until, None, 8)
            .await
            .expect("claimed");
        assert_eq!((mine.len(), theirs.len()), (8, 8));
        let (near, judge) = (Duration::ZERO, Limited(five, send()));
        let token = carillon::trigger::AttemptToken;

        let (one, two) = tokio::join!(
            stage
                .store
                .fire_check(stage.session, &mine, token(2 * round), &judge, near),
            stage
                .store
                .fire_check(other, &theirs, token(2 * round + 1), &judge, near),
        );

        let (one, two) = (one.expect("checked"), two.expect("checked"));
        assert_eq!(one.granted.len() + two.granted.len(), 5, "round {round}");
        assert_eq!(one.concluded.len() + two.concluded.len(), 11, "round {round}");
        stage.pass(60);
    }
}
