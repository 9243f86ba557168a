//! What goes out as one message: what was missed, and what is over a limit.

use std::collections::BTreeMap;
use std::time::Duration;

use carillon::store::Candidate;
use carillon::store::Claimed;
use carillon::store::FireCheck;
use carillon::store::Judge;
use carillon::store::Judgement;
use carillon::store::Settled;
use carillon::store::Settlement;
use carillon::store::Verdict;
use carillon::trigger::ChannelKind;
use carillon::trigger::NewTrigger;
use carillon::trigger::Recipient;
use carillon::trigger::TriggerId;
use carillon::trigger::limit::Limit;
use carillon::trigger::limit::OnLimit;
use carillon::trigger::outcome::Outcome;
use carillon::trigger::outcome::Reason;
use chrono::DateTime;
use chrono::TimeDelta;
use chrono::Utc;

use crate::store::Base;
use crate::store::Decided;
use crate::store::Stage;
use crate::store::done;
use crate::store::going_on;
use crate::store::minute;
use crate::store::new;
use crate::store::retry;
use crate::store::rules;
use crate::store::send;
use crate::store::sent;
use crate::store::sms;

contract! {
    what_is_gathered_joins_the_message_of_what_was_promised_first,
    each_channel_and_recipient_has_a_message_of_its_own,
    what_goes_alone_is_marked_as_nothing_else,
    a_message_stands_for_no_more_than_two_hundred,
    a_series_goes_on_though_its_firing_joins_another_message,
    a_lost_answer_finds_who_joined_whom,
    a_retry_meets_under_the_same_lead_and_takes_nobody_in,
    what_a_crash_left_sending_goes_out_under_the_same_lead,
    the_others_go_on_where_their_lead_is_over,
    no_two_batches_send_under_the_id_of_one_lead,
    what_was_tried_alone_goes_alone,
    what_is_over_the_limit_joins_the_message_that_takes_the_last_slot,
    what_comes_later_waits_for_one_slot_together,
    what_waited_and_joined_counts_as_one_message,
    what_is_gathered_waits_together_where_others_wait_each,
    no_more_messages_leave_than_there_is_room_for,
}

/// Two e-mails in ten minutes; what is over is told in one.
const TWO: Limit = Limit {
    amount: 2,
    timeframe: Duration::from_mins(10),
    over: OnLimit::Digest,
    send_within: Duration::from_mins(2),
    time_shift_ms: 0,
};

/// Judges as `then`, under a limit for e-mail, with room for so many messages.
struct Within<J>(Option<Limit>, usize, J);

impl<J: Judge> Judge for Within<J> {
    fn judge(&self, candidate: &Candidate, now: DateTime<Utc>) -> Judgement {
        self.2.judge(candidate, now)
    }

    fn limits(&self) -> BTreeMap<ChannelKind, Limit> {
        self.0
            .map(|limit| (ChannelKind::Email, limit))
            .into_iter()
            .collect()
    }

    fn room(&self) -> usize {
        self.1
    }
}

fn gather() -> impl Judge {
    Decided(|_: &Candidate| Judgement {
        verdict: Verdict::Gather,
        succession: None,
    })
}

fn limited() -> impl Judge {
    Within(Some(TWO), usize::MAX, send())
}

/// Plans and claims one firing each for so many events of ada, each promised a minute after the one before, the last of
/// them at minute 0.
async fn due(stage: &Stage, events: &[&str]) -> Vec<Claimed> {
    for (event, minutes) in events.iter().zip(1 - i64::try_from(events.len()).expect("few")..) {
        stage.plan(event, &[new(event, minutes)]).await;
    }
    let mut claims = stage.claim_until(0).await;
    claims.sort_by_key(|claim| claim.due_at);
    claims
}

/// Who joined whom, by id.
fn joined(checked: &FireCheck) -> BTreeMap<TriggerId, Option<TriggerId>> {
    let granted = checked.granted.iter();
    granted.map(|it| (it.trigger.id, it.trigger.joined())).collect()
}

/// The first leads, and all others joined it.
fn all_in_one(claims: &[Claimed]) -> BTreeMap<TriggerId, Option<TriggerId>> {
    let lead = claims[0].id;
    let ids = claims.iter().map(|claim| claim.id);
    ids.map(|id| (id, (id != lead).then_some(lead))).collect()
}

async fn what_is_gathered_joins_the_message_of_what_was_promised_first(base: &Base) {
    let stage = Stage::on(base).await;
    let claims = due(&stage, &["a", "b", "c"]).await;
    let mut shuffled = claims.clone();
    shuffled.reverse();

    let checked = stage.fire(&shuffled, 7, &gather()).await;

    assert_eq!(joined(&checked), all_in_one(&claims));
    let lead = stage.triggers("a").await.remove(0);
    assert_eq!(
        (lead.digest, lead.joined()),
        (Some(lead.id), None),
        "it is known as a lead"
    );
    assert_eq!(stage.triggers("c").await[0].joined(), Some(lead.id));
}

async fn each_channel_and_recipient_has_a_message_of_its_own(base: &Base) {
    let stage = Stage::on(base).await;
    let mut to_bert = new("c", 0);
    to_bert.wish.recipient = Recipient::Address("bert@example.org".into());
    let mut also_to_bert = new("d", 0);
    also_to_bert.wish.recipient = to_bert.wish.recipient.clone();
    let all = [new("a", -1), sms(new("b", 0)), to_bert, also_to_bert, new("e", 0)];
    for trigger in &all {
        stage
            .plan(&trigger.wish.event_uid, std::slice::from_ref(trigger))
            .await;
    }
    let claims = stage.claim_until(0).await;

    let checked = stage.fire(&claims, 7, &gather()).await;

    let joined = joined(&checked);
    let lead_of_bert = all[2].id().min(all[3].id());
    let other_of_bert = all[2].id().max(all[3].id());
    assert_eq!(joined[&all[0].id()], None);
    assert_eq!(joined[&all[1].id()], None, "a text message");
    assert_eq!(joined[&lead_of_bert], None);
    assert_eq!(joined[&other_of_bert], Some(lead_of_bert));
    assert_eq!(joined[&all[4].id()], Some(all[0].id()));
}

async fn what_goes_alone_is_marked_as_nothing_else(base: &Base) {
    let stage = Stage::on(base).await;
    let claims = due(&stage, &["a"]).await;
    stage.fire(&claims, 7, &gather()).await;
    assert_eq!(stage.triggers("a").await[0].digest, None);

    let others = due(&stage, &["b", "c"]).await;
    stage.fire(&others, 8, &send()).await;
    assert_eq!(stage.triggers("b").await[0].digest, None);
}

async fn a_message_stands_for_no_more_than_two_hundred(base: &Base) {
    let stage = Stage::on(base).await;
    let many: Vec<NewTrigger> = (0..201).map(|number| new("e", number - 201)).collect();
    stage.plan("e", &many).await;
    let claims = stage.claim_until(0).await;

    let checked = stage.fire(&claims, 7, &gather()).await;

    let alone = joined(&checked).into_values().filter(Option::is_none).count();
    assert_eq!((checked.granted.len(), alone), (201, 2));
}

async fn a_series_goes_on_though_its_firing_joins_another_message(base: &Base) {
    let stage = Stage::on(base).await;
    let claims = due(&stage, &["a", "s"]).await;

    let checked = stage.fire(&claims, 7, &going_on(Verdict::Gather, 1440)).await;

    assert_eq!(joined(&checked), all_in_one(&claims));
    assert!(stage.trigger(&new("s", 1440)).await.is_some());
}

async fn a_lost_answer_finds_who_joined_whom(base: &Base) {
    let stage = Stage::on(base).await;
    let claims = due(&stage, &["a", "b", "c"]).await;
    let first = stage.fire(&claims, 7, &gather()).await;

    let again = stage.fire(&claims, 7, &gather()).await;

    assert_eq!(joined(&again), joined(&first));
    assert_eq!(joined(&again), all_in_one(&claims));
}

/// Settles all as failed for now. Returns the claims under which they are tried again.
async fn retried(stage: &Stage, claims: &[Claimed], token: i64) -> Vec<Claimed> {
    let mut again = Vec::new();
    for claim in claims {
        match stage.settle(retry(*claim, token, 5, true)).await {
            Settled::Retrying(claim) => again.push(claim),
            other => panic!("{other:?}"),
        }
    }
    again
}

async fn a_retry_meets_under_the_same_lead_and_takes_nobody_in(base: &Base) {
    let stage = Stage::on(base).await;
    let claims = due(&stage, &["a", "b", "c"]).await;
    stage.fire(&claims, 7, &gather()).await;
    let again = retried(&stage, &claims, 7).await;
    let newcomers = due(&stage, &["x", "y"]).await;
    stage.pass(5);

    let checked = stage.fire(&[&*newcomers, &*again].concat(), 8, &gather()).await;

    let mut expected = all_in_one(&claims);
    expected.extend(all_in_one(&newcomers));
    assert_eq!(joined(&checked), expected);
}

async fn what_a_crash_left_sending_goes_out_under_the_same_lead(base: &Base) {
    let stage = Stage::on(base).await;
    let claims = due(&stage, &["a", "b", "c"]).await;
    stage.fire(&claims, 7, &gather()).await;
    stage.pass(3);
    let rescued = stage.store.rescue(&rules(), 100).await.expect("a rescue");
    assert_eq!(rescued.in_doubt_retried, 3);

    let again = stage.claim_until(0).await;
    let checked = stage.fire(&again, 8, &send()).await;

    assert_eq!(joined(&checked), all_in_one(&claims));
}

async fn the_others_go_on_where_their_lead_is_over(base: &Base) {
    let stage = Stage::on(base).await;
    let claims = due(&stage, &["a", "b", "c"]).await;
    stage.fire(&claims, 7, &gather()).await;
    stage
        .settle(done(claims[0], 7, Outcome::Expired, Reason::Late))
        .await;
    let again = retried(&stage, &claims[1..], 7).await;
    stage.pass(5);

    let checked = stage.fire(&again, 8, &send()).await;

    // It is the same message, and whoever has it already may drop it.
    let lead = Some(claims[0].id);
    assert_eq!(
        joined(&checked),
        claims[1..].iter().map(|claim| (claim.id, lead)).collect()
    );
    assert_eq!(stage.triggers("b").await[0].digest, lead);
}

async fn no_two_batches_send_under_the_id_of_one_lead(base: &Base) {
    let stage = Stage::on(base).await;
    let claims = due(&stage, &["a", "b", "c", "d", "e"]).await;
    stage.fire(&claims, 7, &gather()).await;
    stage
        .settle(done(claims[0], 7, Outcome::Expired, Reason::Late))
        .await;
    let again = retried(&stage, &claims[1..], 7).await;
    stage.pass(5);

    let first = stage.fire(&again[..2], 8, &send()).await;
    settle(&stage, &again[..2], 8).await;
    let second = stage.fire(&again[2..], 9, &send()).await;

    // Nobody was told yet under the id of the lead, but who is told last.
    assert_eq!(joined(&first), all_in_one(&again[..2]));
    let lead = Some(claims[0].id);
    assert_eq!(
        joined(&second),
        again[2..].iter().map(|claim| (claim.id, lead)).collect()
    );
}

async fn what_was_tried_alone_goes_alone(base: &Base) {
    let stage = Stage::on(base).await;
    let claims = due(&stage, &["a", "b"]).await;
    stage.fire(&claims, 7, &send()).await;
    let again = retried(&stage, &claims, 7).await;
    stage.pass(5);

    let checked = stage.fire(&again, 8, &gather()).await;

    assert!(joined(&checked).into_values().all(|lead| lead.is_none()));
}

async fn what_is_over_the_limit_joins_the_message_that_takes_the_last_slot(base: &Base) {
    let stage = Stage::on(base).await;
    let claims = due(&stage, &["a", "b", "c", "d"]).await;

    let checked = stage.fire(&claims, 7, &limited()).await;

    let mut expected = all_in_one(&claims[1..]);
    expected.insert(claims[0].id, None);
    assert_eq!(joined(&checked), expected);
    assert_eq!(checked.deferred.len(), 0);
}

/// Ada has had her two mails.
async fn at_the_limit(stage: &Stage) {
    let claims = due(stage, &["1", "2"]).await;
    stage.fire(&claims, 1, &limited()).await;
    settle(stage, &claims, 1).await;
}

async fn settle(stage: &Stage, claims: &[Claimed], token: i64) {
    let settlements: Vec<Settlement> = claims.iter().map(|claim| sent(*claim, token)).collect();
    stage.store.settle(&settlements).await.expect("settled");
}

async fn what_comes_later_waits_for_one_slot_together(base: &Base) {
    let stage = Stage::on(base).await;
    at_the_limit(&stage).await;
    let first = due(&stage, &["a", "b"]).await;
    let waits = stage.fire(&first, 7, &limited()).await;
    stage.pass(1);
    let later = due(&stage, &["c"]).await;
    let waits_too = stage.fire(&later, 8, &limited()).await;

    let together = [waits.deferred, waits_too.deferred].concat();

    let slot = minute(10) + TimeDelta::milliseconds(1);
    let instants: Vec<_> = together.iter().map(|claim| claim.due_at).collect();
    assert_eq!(instants, [slot; 3]);
    stage.clock.step_to(slot);
    let checked = stage.fire(&together, 9, &limited()).await;
    assert_eq!(joined(&checked), all_in_one(&[first, later].concat()));
}

async fn what_waited_and_joined_counts_as_one_message(base: &Base) {
    let stage = Stage::on(base).await;
    at_the_limit(&stage).await;
    let claims = due(&stage, &["a", "b", "c"]).await;
    let waits = stage.fire(&claims, 7, &limited()).await;
    stage.pass(11);
    let checked = stage.fire(&waits.deferred, 8, &limited()).await;
    assert_eq!(checked.granted.len(), 3);
    settle(&stage, &waits.deferred, 8).await;

    let more = due(&stage, &["x"]).await;

    assert_eq!(
        stage.fire(&more, 9, &limited()).await.granted.len(),
        1,
        "one of two is left"
    );
}

async fn what_is_gathered_waits_together_where_others_wait_each(base: &Base) {
    let stage = Stage::on(base).await;
    at_the_limit(&stage).await;
    let defer = Limit {
        over: OnLimit::Defer,
        ..TWO
    };
    let claims = due(&stage, &["a", "b", "c"]).await;

    let missed = || Within(Some(defer), usize::MAX, gather());
    let waits = stage.fire(&claims, 7, &missed()).await;

    let instants: Vec<_> = waits.deferred.iter().map(|claim| claim.due_at).collect();
    assert_eq!(instants, [minute(10) + TimeDelta::milliseconds(1); 3]);
    stage.pass(11);
    let checked = stage.fire(&waits.deferred, 8, &missed()).await;
    assert_eq!(joined(&checked), all_in_one(&claims));
}

async fn no_more_messages_leave_than_there_is_room_for(base: &Base) {
    let stage = Stage::on(base).await;
    let claims = due(&stage, &["a", "b", "c"]).await;

    let alone = stage.fire(&claims, 7, &Within(None, 1, send())).await;
    assert_eq!((alone.granted.len(), alone.left.len()), (1, 2));

    let together = stage.fire(&alone.left, 8, &Within(None, 1, gather())).await;
    assert_eq!(together.granted.len(), 2, "who joins takes no room");
}
