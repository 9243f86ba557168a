//! Changes: copies, tombstones, and groups put right.

use std::time::Duration;

use carillon::store::Acceptance;
use carillon::store::Alarm;
use carillon::store::Change;
use carillon::store::ChangeBody;
use carillon::store::Edit;
use carillon::store::NearClaim;
use carillon::store::Record;
use carillon::store::Settled;
use carillon::store::StoreError;
use carillon::store::Version;
use carillon::trigger::NewTrigger;
use carillon::trigger::OwnerId;
use carillon::trigger::SessionId;
use carillon::trigger::State;
use carillon::trigger::TriggerId;
use carillon::trigger::outcome::Outcome;
use carillon::trigger::outcome::Reason;

use crate::store::Base;
use crate::store::Prepared;
use crate::store::Stage;
use crate::store::delete;
use crate::store::done;
use crate::store::key;
use crate::store::minute;
use crate::store::new;
use crate::store::owner;
use crate::store::place;
use crate::store::planning;
use crate::store::put;
use crate::store::put_under;
use crate::store::retry;
use crate::store::sent;
use crate::store::wish;

contract! {
    a_copy_comes_back_as_it_was_put,
    the_editor_sees_what_is_stored_and_then_the_group_as_it_reads_now,
    a_change_that_is_not_news_does_nothing,
    an_unknown_owner_spoils_its_own_change_alone,
    a_deletion_leaves_a_tombstone_without_the_text_and_with_the_last_version,
    a_deletion_of_what_was_never_seen_is_applied_and_remembered,
    what_was_deleted_can_be_put_again,
    a_put_that_changes_the_uid_touches_both_groups,
    what_becomes_of_a_group_is_told_by_its_last_change,
    a_trigger_that_exists_already_stays_as_it_is,
    planned_and_claimed_triggers_are_withdrawn_without_a_trace,
    a_trigger_that_is_being_sent_is_only_marked_withdrawn_and_then_recorded,
    a_withdrawn_trigger_is_not_retried,
    a_trigger_withdrawn_in_mid_send_and_owed_again_is_retried,
    what_is_due_soon_is_claimed_in_the_transaction_of_the_change,
    nothing_is_claimed_for_a_session_that_is_gone,
    wishes_are_kept_as_the_edit_says_and_others_forgotten,
    a_deadline_is_adjusted_and_the_claim_kept,
    a_firing_can_be_recorded_without_a_trigger_and_an_existing_row_stays,
    a_copy_is_set_aside_and_taken_back,
    moved_away_and_back_sends_nothing_again,
    every_outcome_with_a_hand_over_blocks_planning_again_and_no_other_does,
    what_becomes_of_a_trigger_planned_again_replaces_its_history,
    hand_overs_are_listed_an_hour_back_and_as_far_as_the_wishes_were_served,
    d03_two_copies_of_one_event_are_one_group_and_owe_one_trigger,
    groups_are_edited_again_page_by_page,
}

fn near(stage: &Stage) -> NearClaim {
    NearClaim {
        session: stage.session,
        window: Duration::from_mins(35),
    }
}

fn withdrawing(triggers: &[NewTrigger]) -> Edit {
    Edit {
        withdraw: triggers.iter().map(NewTrigger::id).collect(),
        ..Edit::default()
    }
}

async fn a_copy_comes_back_as_it_was_put(base: &Base) {
    let stage = Stage::on(base).await;
    let mut change = put("e");
    change.version = Some(Version("7".into()));

    let editor = Prepared::with("e", Edit::default());
    stage
        .store
        .change(&[change], &editor, None)
        .await
        .expect("it is applied");

    let copy = stage.copy("e").await.expect("it is there");
    assert_eq!(copy.at, key("e"));
    assert_eq!(copy.version, Some(Version("7".into())));
    assert_eq!(copy.ics, "BEGIN:VCALENDAR e");
    assert_eq!((copy.deleted_at, copy.changed_at), (None, minute(0)));
}

async fn the_editor_sees_what_is_stored_and_then_the_group_as_it_reads_now(base: &Base) {
    let stage = Stage::on(base).await;
    stage.plan("e", &[new("e", 10)]).await;
    let editor = Prepared::all([]);

    stage
        .store
        .change(&[put_under(key("second copy"), "e"), put("e")], &editor, None)
        .await
        .expect("it is applied");

    let stored = editor.stored.lock().expect("no test panics in it");
    assert!(stored[0].is_none());
    assert_eq!(stored[1].as_ref().map(|copy| copy.uid.as_str()), Some("e"));
    let groups = editor.groups.lock().expect("no test panics in it");
    assert_eq!(groups.len(), 1, "each group is edited once");
    let keys: Vec<_> = groups[0].copies.iter().map(|copy| copy.at.key.as_str()).collect();
    assert_eq!(keys, ["e", "second copy"]);
    assert_eq!(groups[0].owner, owner("ada"));
    assert_eq!(groups[0].alarms.len(), 1);
    assert_eq!(groups[0].triggers.len(), 1);
}

async fn a_change_that_is_not_news_does_nothing(base: &Base) {
    let stage = Stage::on(base).await;
    stage.put("e", Edit::default()).await;
    for acceptance in [
        Acceptance::Unchanged,
        Acceptance::Stale,
        Acceptance::Conflict("why".into()),
    ] {
        let mut editor = Prepared::with("e", planning(&[new("e", 10)]));
        editor.acceptance = acceptance.clone();

        let results = stage.store.change(&[put("e"), delete("e")], &editor, None).await;

        let results = results.expect("the batch is applied");
        assert_eq!(results[0].as_ref().expect("no error").acceptance, acceptance);
        assert!(editor.uids().is_empty(), "nothing is edited");
    }
    assert_eq!(stage.copy("e").await.expect("it is there").deleted_at, None);
}

async fn an_unknown_owner_spoils_its_own_change_alone(base: &Base) {
    let stage = Stage::on(base).await;
    let mut foreign = put("x");
    foreign.at.owner = OwnerId("bob".into());
    let editor = Prepared::with("e", planning(&[new("e", 10)]));

    let results = stage
        .store
        .change(&[foreign, put("e")], &editor, None)
        .await
        .expect("the batch is applied");

    assert!(matches!(&results[0], Err(StoreError::UnknownOwner(id)) if id.0 == "bob"));
    assert_eq!(results[1].as_ref().expect("it is applied").planned, 1);
}

async fn a_deletion_leaves_a_tombstone_without_the_text_and_with_the_last_version(base: &Base) {
    let stage = Stage::on(base).await;
    let mut change = put("e");
    change.version = Some(Version("7".into()));
    let editor = Prepared::all([]);
    stage
        .store
        .change(&[change, delete("e")], &editor, None)
        .await
        .expect("it is applied");

    let copy = stage.copy("e").await.expect("it is there");
    assert_eq!(copy.deleted_at, Some(minute(0)));
    assert_eq!(
        (copy.ics.as_str(), &copy.version),
        ("", &Some(Version("7".into())))
    );
    assert!(stage.group("e").await.is_none());
    let groups = editor.groups.lock().expect("no test panics in it");
    assert!(groups[0].copies.is_empty());
}

async fn a_deletion_of_what_was_never_seen_is_applied_and_remembered(base: &Base) {
    let stage = Stage::on(base).await;
    let editor = Prepared::all([]);

    let results = stage
        .store
        .change(&[delete("e")], &editor, None)
        .await
        .expect("it is applied");

    let changed = results[0].as_ref().expect("it is applied");
    assert_eq!((&changed.acceptance, changed.planned), (&Acceptance::Apply, 0));
    assert!(editor.uids().is_empty());
    let copy = stage.copy("e").await.expect("it is there");
    assert!(copy.deleted_at.is_some());
}

async fn what_was_deleted_can_be_put_again(base: &Base) {
    let stage = Stage::on(base).await;
    let editor = Prepared::all([]);

    stage
        .store
        .change(&[delete("e"), put("e")], &editor, None)
        .await
        .expect("it is applied");

    let group = stage.group("e").await.expect("it is there");
    assert_eq!(group.copies.len(), 1);
    assert_eq!(group.copies[0].deleted_at, None);
}

async fn a_put_that_changes_the_uid_touches_both_groups(base: &Base) {
    let stage = Stage::on(base).await;
    let (before, after) = (new("old", 10), new("young", 10));
    stage.plan("old", std::slice::from_ref(&before)).await;
    let editor = Prepared::all([
        ("old".to_owned(), withdrawing(std::slice::from_ref(&before))),
        ("young".to_owned(), planning(std::slice::from_ref(&after))),
    ]);

    let results = stage
        .store
        .change(&[put_under(key("old"), "young")], &editor, None)
        .await
        .expect("it is applied");

    let changed = results[0].as_ref().expect("it is applied");
    assert_eq!((changed.planned, changed.withdrawn.len()), (1, 1));
    assert_eq!(editor.uids(), ["old", "young"]);
    assert!(stage.group("old").await.is_none());
    assert!(stage.trigger(&after).await.is_some());
}

async fn what_becomes_of_a_group_is_told_by_its_last_change(base: &Base) {
    let stage = Stage::on(base).await;
    let editor = Prepared::all([
        ("e".to_owned(), planning(&[new("e", 10)])),
        ("f".to_owned(), planning(&[new("f", 10), new("f", 20)])),
    ]);

    let results = stage
        .store
        .change(&[put("e"), put("f"), put("e")], &editor, None)
        .await
        .expect("it is applied");

    let planned: Vec<_> = results
        .iter()
        .map(|result| result.as_ref().expect("applied").planned)
        .collect();
    assert_eq!(planned, [0, 2, 1]);
}

async fn a_trigger_that_exists_already_stays_as_it_is(base: &Base) {
    let stage = Stage::on(base).await;
    let trigger = new("e", 10);
    stage.plan("e", std::slice::from_ref(&trigger)).await;
    let claim = stage.claim().await[0];

    let changed = stage.put("e", planning(std::slice::from_ref(&trigger))).await;

    assert_eq!(changed.planned, 0);
    let kept = stage.trigger(&trigger).await.expect("it is owed");
    assert_eq!((kept.state, kept.generation), (State::Claimed, claim.generation));
}

async fn planned_and_claimed_triggers_are_withdrawn_without_a_trace(base: &Base) {
    let stage = Stage::on(base).await;
    let (claimed, planned) = (new("e", 10), new("e", 50));
    stage.plan("e", &[claimed.clone(), planned.clone()]).await;
    stage.claim_until(20).await;

    let changed = stage
        .put("e", withdrawing(&[claimed.clone(), planned.clone()]))
        .await;

    let mut withdrawn = changed.withdrawn;
    withdrawn.sort_by_key(|withdrawn| withdrawn.due_at);
    assert_eq!(
        (withdrawn[0].id, withdrawn[0].session),
        (claimed.id(), Some(stage.session))
    );
    assert_eq!((withdrawn[1].id, withdrawn[1].session), (planned.id(), None));
    assert!(stage.triggers("e").await.is_empty());
    assert!(stage.history().await.is_empty());
}

async fn a_trigger_that_is_being_sent_is_only_marked_withdrawn_and_then_recorded(base: &Base) {
    let stage = Stage::on(base).await;
    let trigger = new("e", 0);
    let claim = stage.sending(&trigger, 7).await;

    let changed = stage.put("e", withdrawing(std::slice::from_ref(&trigger))).await;

    assert_eq!(changed.withdrawn[0].session, Some(stage.session));
    assert!(stage.trigger(&trigger).await.expect("it stays").withdrawn);
    assert_eq!(stage.settle(sent(claim, 7)).await, Settled::Recorded);
    assert_eq!(
        stage.outcome(trigger.id()).await,
        Some((Outcome::Sent, Reason::None))
    );
    assert!(stage.triggers("e").await.is_empty());
}

async fn a_withdrawn_trigger_is_not_retried(base: &Base) {
    let stage = Stage::on(base).await;
    let trigger = new("e", 0);
    let claim = stage.sending(&trigger, 7).await;
    stage.put("e", withdrawing(std::slice::from_ref(&trigger))).await;

    assert_eq!(stage.settle(retry(claim, 7, 1, true)).await, Settled::Recorded);

    assert_eq!(
        stage.outcome(trigger.id()).await,
        Some((Outcome::Cancelled, Reason::Withdrawn))
    );
    assert!(stage.triggers("e").await.is_empty());
}

async fn a_trigger_withdrawn_in_mid_send_and_owed_again_is_retried(base: &Base) {
    let stage = Stage::on(base).await;
    let trigger = new("e", 0);
    let claim = stage.sending(&trigger, 7).await;
    stage.put("e", withdrawing(std::slice::from_ref(&trigger))).await;

    let changed = stage.put("e", planning(std::slice::from_ref(&trigger))).await;

    assert_eq!(changed.planned, 0);
    assert!(!stage.trigger(&trigger).await.expect("it is owed").withdrawn);
    let settled = stage.settle(retry(claim, 7, 1, true)).await;
    assert!(matches!(settled, Settled::Retrying(_)));
}

async fn what_is_due_soon_is_claimed_in_the_transaction_of_the_change(base: &Base) {
    let stage = Stage::on(base).await;
    let (soon, later) = (new("e", 35), new("e", 36));

    let changed = stage
        .put_near("e", planning(&[soon.clone(), later.clone()]), Some(near(&stage)))
        .await;

    assert_eq!(changed.planned, 2);
    assert_eq!(changed.claimed.len(), 1);
    assert_eq!(
        (changed.claimed[0].id, changed.claimed[0].generation),
        (soon.id(), 1)
    );
    let claimed = stage.trigger(&soon).await.expect("it is owed");
    assert_eq!(
        (claimed.state, claimed.session),
        (State::Claimed, Some(stage.session))
    );
    assert_eq!(claimed.processed, Some(minute(0)));
    assert_eq!(
        stage.trigger(&later).await.expect("it is owed").state,
        State::Planned
    );
}

async fn nothing_is_claimed_for_a_session_that_is_gone(base: &Base) {
    let stage = Stage::on(base).await;
    let gone = NearClaim {
        session: SessionId(4711),
        ..near(&stage)
    };

    let changed = stage.put_near("e", planning(&[new("e", 1)]), Some(gone)).await;

    assert_eq!((changed.planned, changed.claimed.len()), (1, 0));
}

async fn wishes_are_kept_as_the_edit_says_and_others_forgotten(base: &Base) {
    let stage = Stage::on(base).await;
    let mut other = wish("e");
    other.identity.0 = "alarm-2".into();
    let (first, second) = (
        Alarm {
            wish: wish("e"),
            served_through: Some(place(3)),
        },
        Alarm {
            wish: other,
            served_through: None,
        },
    );
    let edit = |alarms: &[&Alarm]| Edit {
        alarms: alarms.iter().map(|alarm| (*alarm).clone()).collect(),
        ..Edit::default()
    };

    stage.put("e", edit(&[&first, &second])).await;
    assert_eq!(
        stage.group("e").await.expect("a group").alarms,
        [first, second.clone()]
    );

    let served = Alarm {
        served_through: Some(carillon::trigger::Place::just_before(minute(9))),
        ..second
    };
    stage.put("e", edit(&[&served])).await;
    assert_eq!(stage.group("e").await.expect("a group").alarms, [served]);
}

async fn a_deadline_is_adjusted_and_the_claim_kept(base: &Base) {
    let stage = Stage::on(base).await;
    let trigger = new("e", 10);
    stage.plan("e", std::slice::from_ref(&trigger)).await;
    let claim = stage.claim().await[0];
    let edit = Edit {
        adjust: vec![(trigger.id(), minute(77), false)],
        ..Edit::default()
    };

    stage.put("e", edit).await;

    let adjusted = stage.trigger(&trigger).await.expect("it is owed");
    assert_eq!((adjusted.expires_at, adjusted.has_more), (minute(77), false));
    assert_eq!(
        (adjusted.state, adjusted.generation),
        (State::Claimed, claim.generation)
    );
}

fn missed(minutes: i64, outcome: Outcome) -> Record {
    Record {
        wish: wish("e"),
        place: place(minutes),
        outcome,
        reason: Reason::Past,
        count: 5,
    }
}

async fn a_firing_can_be_recorded_without_a_trigger_and_an_existing_row_stays(base: &Base) {
    let stage = Stage::on(base).await;
    let edit = |outcome| Edit {
        record: vec![missed(-60, outcome)],
        ..Edit::default()
    };

    stage.put("e", edit(Outcome::Missed)).await;
    stage.put("e", edit(Outcome::Suppressed)).await;

    let history = stage.history().await;
    assert_eq!(history.len(), 1);
    assert_eq!(
        (history[0].outcome, history[0].reason),
        (Outcome::Missed, Reason::Past)
    );
    assert_eq!(
        (&history[0].wish, history[0].place, history[0].count),
        (&wish("e"), place(-60), 5)
    );
}

async fn a_copy_is_set_aside_and_taken_back(base: &Base) {
    let stage = Stage::on(base).await;
    let edit = |reason: Option<&str>| Edit {
        quarantine: vec![(key("e"), reason.map(str::to_owned))],
        ..Edit::default()
    };

    stage.put("e", edit(Some("no end"))).await;
    let quarantined = stage.group("e").await.expect("a group");
    assert_eq!(quarantined.copies[0].quarantine.as_deref(), Some("no end"));

    stage.put("e", edit(None)).await;
    assert_eq!(
        stage.group("e").await.expect("a group").copies[0].quarantine,
        None
    );
}

async fn handed_over(stage: &Stage, trigger: &NewTrigger, outcome: Outcome) {
    let claim = stage.sending(trigger, 7).await;
    stage.settle(done(claim, 7, outcome, Reason::None)).await;
}

async fn moved_away_and_back_sends_nothing_again(base: &Base) {
    let stage = Stage::on(base).await;
    let (here, there) = (new("e", 0), new("e", 60));
    handed_over(&stage, &here, Outcome::Sent).await;
    stage.plan("e", std::slice::from_ref(&there)).await;

    let mut back = planning(std::slice::from_ref(&here));
    back.withdraw = vec![there.id()];
    let changed = stage.put("e", back).await;

    assert_eq!((changed.planned, changed.withdrawn.len()), (0, 1));
    let group = stage.group("e").await.expect("a group");
    assert_eq!((group.triggers.len(), group.handed_over), (0, vec![here.id()]));
}

async fn every_outcome_with_a_hand_over_blocks_planning_again_and_no_other_does(base: &Base) {
    for outcome in Outcome::ALL {
        let stage = Stage::on(base).await;
        let trigger = new("e", 0);
        handed_over(&stage, &trigger, outcome).await;

        let changed = stage.put("e", planning(std::slice::from_ref(&trigger))).await;

        assert_eq!(changed.planned == 0, outcome.is_hand_over(), "{outcome}");
        let blocked: Vec<TriggerId> = stage.group("e").await.expect("a group").handed_over;
        assert_eq!(
            blocked.contains(&trigger.id()),
            outcome.is_hand_over(),
            "{outcome}"
        );
    }
}

async fn what_becomes_of_a_trigger_planned_again_replaces_its_history(base: &Base) {
    let stage = Stage::on(base).await;
    let trigger = new("e", 0);
    handed_over(&stage, &trigger, Outcome::Failed).await;
    stage.plan("e", std::slice::from_ref(&trigger)).await;
    let claim = stage.send_claimed(8).await;

    stage.settle(done(claim, 8, Outcome::Expired, Reason::Late)).await;

    assert_eq!(
        stage.outcome(trigger.id()).await,
        Some((Outcome::Expired, Reason::Late))
    );
}

async fn hand_overs_are_listed_an_hour_back_and_as_far_as_the_wishes_were_served(base: &Base) {
    let stage = Stage::on(base).await;
    let old = new("e", -61);
    handed_over(&stage, &old, Outcome::Sent).await;
    assert!(stage.group("e").await.expect("a group").handed_over.is_empty());

    let mut served = planning(std::slice::from_ref(&old));
    served.insert.clear();
    served.alarms[0].served_through = Some(place(-120));
    stage.put("e", served).await;

    assert_eq!(stage.group("e").await.expect("a group").handed_over, [old.id()]);
}

async fn d03_two_copies_of_one_event_are_one_group_and_owe_one_trigger(base: &Base) {
    let stage = Stage::on(base).await;
    let trigger = new("e", 10);
    let editor = Prepared::with("e", planning(std::slice::from_ref(&trigger)));
    let second = Change {
        at: key("second copy"),
        version: None,
        body: ChangeBody::Delete,
    };

    let both = [put("e"), put_under(key("second copy"), "e")];
    stage
        .store
        .change(&both, &editor, None)
        .await
        .expect("it is applied");
    stage
        .store
        .change(&[second], &Prepared::all([]), None)
        .await
        .expect("it is applied");

    let group = stage.group("e").await.expect("a group");
    assert_eq!((group.copies.len(), group.triggers.len()), (1, 1));
}

async fn groups_are_edited_again_page_by_page(base: &Base) {
    let stage = Stage::on(base).await;
    stage.store.put_owner(&owner("bob")).await.expect("an owner");
    let mut foreign = put("a");
    foreign.at.owner = OwnerId("bob".into());
    let changes = [foreign, put("c"), put("b"), put("gone"), delete("gone")];
    stage
        .store
        .change(&changes, &Prepared::all([]), None)
        .await
        .expect("it is applied");

    let editor = Prepared::with("b", planning(&[new("b", 1)]));
    let mut cursor = None;
    let mut planned = 0;
    let mut pages = 0;
    loop {
        let page = stage
            .store
            .edit_groups(None, cursor, 2, &editor, Some(near(&stage)))
            .await;
        let (edited, next) = page.expect("it is applied");
        planned += edited.planned;
        pages += 1;
        cursor = next;
        if cursor.is_none() {
            break;
        }
    }

    assert_eq!(
        (editor.uids(), planned, pages),
        (vec!["b".into(), "c".into(), "a".into()], 1, 2)
    );
    let editor = Prepared::all([]);
    let bob = OwnerId("bob".into());
    let page = stage.store.edit_groups(Some(&bob), None, 10, &editor, None).await;
    assert_eq!(page.expect("it is applied").1, None);
    assert_eq!(editor.uids(), ["a"]);
}
