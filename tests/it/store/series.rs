//! What a node driven by hand does about stand-alone alarms, on both databases: that no series ends, and no firing is
//! lost, by what else happens at its instant.

use std::sync::Arc;
use std::time::Duration;

use carillon::change::alarm::AlarmPatch;
use carillon::change::alarm::NewAlarm;
use carillon::change::alarm::Order;
use carillon::change::alarm::Past;
use carillon::change::alarm::When;
use carillon::channel::Blame;
use carillon::channel::Channel;
use carillon::channel::Report;
use carillon::clock::Clock;
use carillon::store::AlarmAt;
use carillon::store::AlarmRefusal;
use carillon::store::AlarmStatus;
use carillon::store::AlarmTerms;
use carillon::store::Altered;
use carillon::store::Retention;
use carillon::store::Standalone;
use carillon::trigger::AlarmId;
use carillon::trigger::ChannelKind;
use carillon::trigger::OwnerId;
use carillon::trigger::outcome::Outcome;
use chrono::TimeDelta;

use crate::by_hand::Hand;
use crate::delivery::Scripted;
use crate::delivery::refused;
use crate::store::Base;
use crate::store::Stage;
use crate::store::minute;

contract! {
    a_series_that_is_run_while_a_firing_waits_goes_on,
    a_series_whose_trigger_cannot_be_read_goes_on_with_the_same_firing,
    a_series_whose_zone_reads_differently_is_planned_again,
    a_series_that_left_ahead_of_its_instant_goes_on_whatever_is_altered_then,
    an_alarm_is_not_moved_to_an_instant_for_which_it_has_fired,
    a_firing_that_is_tried_again_outlives_a_change_of_its_series,
    what_was_due_and_is_called_off_is_told,
    an_alarm_that_may_have_arrived_is_active_while_it_is_tried_again_and_has_failed_in_the_end,
    an_ended_series_that_gets_more_time_goes_on,
    an_owner_has_as_many_alarms_to_come_as_are_allowed,
    a_letter_that_is_late_says_so,
    alarms_that_are_over_are_forgotten_unless_their_name_is_good_for_ever,
}

/// A node with one alarm of Ada's by e-mail.
struct Scene {
    stage: Stage,
    hand: Hand,
}

fn at() -> AlarmAt {
    AlarmAt {
        owner: OwnerId("ada".into()),
        id: AlarmId(format!("{:032x}", 7)),
        key: None,
        request: None,
    }
}

fn every(interval: &str) -> AlarmTerms {
    AlarmTerms {
        cron: Some(interval.to_owned()),
        time_zone: Some("UTC".to_owned()),
        label: "Tea".to_owned(),
        ..AlarmTerms::default()
    }
}

fn in_doubt() -> Report {
    Report::InDoubt {
        error: "no answer came".to_owned(),
    }
}

impl Scene {
    async fn on(base: &Base, environment: &[(&str, &str)], channel: Option<Arc<dyn Channel>>) -> Self {
        let stage = Stage::on(base).await;
        let hand = Hand::start_on(Arc::clone(&stage.store), &stage.clock, environment, channel).await;
        Self { stage, hand }
    }

    async fn order(&self, order: Order) -> Altered {
        let altered = self.hand.node.changes.order_alarm(at(), order, None).await;
        altered.expect("the store works")
    }

    async fn ask_for(&self, when: When, terms: AlarmTerms) {
        let new = NewAlarm {
            when,
            past: Past::Reject,
            channel: ChannelKind::Email,
            terms,
            payload: None,
            request_hash: String::new(),
        };
        let altered = self.order(Order::Create(Box::new(new))).await;
        assert_eq!(altered.refusal, None);
    }

    async fn patch(&self, when: Option<When>, terms: AlarmTerms) -> Altered {
        let patch = AlarmPatch {
            when,
            past: Past::Reject,
            channel: ChannelKind::Email,
            terms,
            payload: None,
        };
        self.order(Order::Patch(Box::new(patch))).await
    }

    async fn alarm(&self) -> Standalone {
        let found = self.stage.store.alarm(&at().owner, &at().id).await;
        found.expect("it is read").expect("it is there")
    }

    /// What became of its firings: minute, outcome, attempts; the oldest first.
    async fn firings(&self) -> Vec<(i64, Outcome, u32)> {
        let rows = self.hand.history("ada").await;
        let firing = |row: &carillon::store::Delivery| {
            let minute = (row.place.trigger_at - minute(0)).num_minutes();
            (minute, row.outcome, row.attempts)
        };
        let mut firings: Vec<_> = rows.iter().map(firing).collect();
        firings.sort_by_key(|(minute, ..)| *minute);
        firings
    }
}

fn sent(minute: i64) -> (i64, Outcome, u32) {
    (minute, Outcome::Sent, 1)
}

async fn a_series_that_is_run_while_a_firing_waits_goes_on(base: &Base) {
    let mut scene = Scene::on(base, &[], None).await;
    scene.ask_for(When::Again, every("@every 2h")).await;
    // Whoever claimed it is slow.
    assert_eq!(scene.stage.claim_until(120).await.len(), 1);
    scene.stage.pass(121);
    assert_eq!(scene.order(Order::Run).await.refusal, None);
    scene.hand.settle_down().await;
    assert_eq!(scene.firings().await, [sent(121)]);

    scene
        .stage
        .store
        .give_back(scene.stage.session)
        .await
        .expect("it is free");
    scene.hand.advance(TimeDelta::hours(4)).await;

    assert_eq!(
        scene.firings().await,
        [sent(120), sent(121), sent(240), sent(360)]
    );
    let alarm = scene.alarm().await;
    assert_eq!((alarm.status, alarm.fire_at), (AlarmStatus::Active, minute(480)));
}

async fn a_series_whose_trigger_cannot_be_read_goes_on_with_the_same_firing(base: &Base) {
    let mut scene = Scene::on(base, &[], None).await;
    scene.ask_for(When::Again, every("@every 2h")).await;
    scene
        .stage
        .damage("UPDATE alarm_trigger SET recipient = 'nobody'")
        .await;
    scene.hand.advance(TimeDelta::minutes(121)).await;
    assert_eq!(scene.firings().await, [(120, Outcome::Failed, 0)]);
    let failed = scene.alarm().await;
    assert_eq!(failed.last_error.as_deref(), Some("failed: unreadable"));
    assert_eq!(failed.status, AlarmStatus::Active);

    scene.hand.node.changes.catch_up().await.expect("the store works");
    scene.hand.advance(TimeDelta::hours(2)).await;

    assert_eq!(scene.firings().await, [sent(120), sent(240)]);
    assert_eq!(scene.alarm().await.status, AlarmStatus::Active);
}

async fn a_series_whose_zone_reads_differently_is_planned_again(base: &Base) {
    let scene = Scene::on(base, &[], None).await;
    scene.ask_for(When::Again, every("0 9 * * *")).await;
    let nine = scene.alarm().await;
    scene.hand.node.changes.catch_up().await.expect("the store works");
    assert_eq!(scene.alarm().await, nine, "what is right stays as it is");
    scene
        .stage
        .damage("UPDATE standalone_alarm SET terms = replace(terms, '0 9 *', '0 8 *')")
        .await;
    let other = "tzdata of another year";
    scene
        .stage
        .store
        .remember("planned_by", other)
        .await
        .expect("it is kept");

    scene.hand.node.changes.catch_up().await.expect("the store works");

    let eight = scene.alarm().await;
    assert_eq!(eight.fire_at, nine.fire_at - TimeDelta::hours(1));
    assert!(eight.updated_at > nine.updated_at);
    let triggers = scene.stage.triggers(&at().id.as_event_uid()).await;
    let due: Vec<_> = triggers.iter().map(|it| it.place.trigger_at).collect();
    assert_eq!(due, [eight.fire_at]);
}

const EARLY: [(&str, &str); 1] = [("CARILLON__CHANNELS__EMAIL__TIME_SHIFT", "30m")];

async fn a_series_that_left_ahead_of_its_instant_goes_on_whatever_is_altered_then(base: &Base) {
    let mut scene = Scene::on(base, &EARLY, None).await;
    scene.ask_for(When::Again, every("@every 2h")).await;
    scene.hand.advance(TimeDelta::minutes(100)).await;
    assert_eq!(scene.firings().await, [sent(120)]);

    assert_eq!(scene.order(Order::Pause).await.refusal, None);
    assert_eq!(scene.order(Order::Resume).await.refusal, None);
    assert_eq!(scene.alarm().await.fire_at, minute(240));
    let terms = AlarmTerms {
        expires_at: Some(minute(10_000)),
        ..every("@every 2h")
    };
    assert_eq!(scene.patch(None, terms.clone()).await.refusal, None);
    assert_eq!(scene.patch(Some(When::Again), terms).await.refusal, None);
    scene.hand.advance(TimeDelta::hours(3)).await;

    assert_eq!(scene.firings().await, [sent(120), sent(240)]);
}

async fn an_alarm_is_not_moved_to_an_instant_for_which_it_has_fired(base: &Base) {
    let mut scene = Scene::on(base, &EARLY, None).await;
    let once = AlarmTerms {
        label: "Tea".to_owned(),
        ..AlarmTerms::default()
    };
    scene.ask_for(When::At(minute(120)), once.clone()).await;
    scene.hand.advance(TimeDelta::minutes(100)).await;
    assert_eq!(scene.alarm().await.status, AlarmStatus::Fired);

    let refused = scene
        .patch(Some(When::At(minute(120))), once.clone())
        .await
        .refusal;

    assert!(
        matches!(&refused, Some(AlarmRefusal::Conflict(why)) if why.contains("has fired for")),
        "{refused:?}"
    );
    assert_eq!(scene.alarm().await.status, AlarmStatus::Fired);
    assert_eq!(scene.patch(Some(When::At(minute(140))), once).await.refusal, None);
    scene.hand.advance(TimeDelta::hours(1)).await;
    assert_eq!(scene.firings().await, [sent(120), sent(140)]);
}

async fn a_firing_that_is_tried_again_outlives_a_change_of_its_series(base: &Base) {
    let channel = Scripted::new([Some(refused(Blame::Message)), None]);
    let mut scene = Scene::on(base, &[], Some(channel)).await;
    scene.ask_for(When::Again, every("@every 2h")).await;
    scene.stage.pass(120);
    scene.hand.settle_down().await;
    let terms = AlarmTerms {
        expires_at: Some(minute(10_000)),
        ..every("@every 2h")
    };
    let altered = scene.patch(None, terms.clone()).await;
    assert_eq!((altered.refusal, altered.changed.withdrawn.len()), (None, 0));
    let again = AlarmTerms {
        expires_at: Some(minute(20_000)),
        ..terms
    };
    // Due, and not looked at yet.
    scene.stage.pass(120);
    assert_eq!(scene.patch(None, again).await.refusal, None);

    let owed = scene.stage.triggers(&at().id.as_event_uid()).await;

    let mut due: Vec<_> = owed.iter().map(|it| (it.place.trigger_at, it.attempts)).collect();
    due.sort_unstable();
    assert_eq!(due, [(minute(120), 1), (minute(240), 0)]);
}

async fn what_was_due_and_is_called_off_is_told(base: &Base) {
    let channel = Scripted::new([Some(refused(Blame::Message))]);
    let mut scene = Scene::on(base, &[], Some(channel)).await;
    scene.ask_for(When::Again, every("@every 2h")).await;
    scene.stage.pass(120);
    scene.hand.settle_down().await;

    scene.order(Order::Cancel).await;

    assert_eq!(scene.firings().await, [(120, Outcome::Cancelled, 0)]);
    assert_eq!(scene.alarm().await.status, AlarmStatus::Cancelled);
}

async fn an_alarm_that_may_have_arrived_is_active_while_it_is_tried_again_and_has_failed_in_the_end(
    base: &Base,
) {
    let channel = Scripted::new([Some(in_doubt()), Some(in_doubt())]);
    let mut scene = Scene::on(base, &[], Some(channel)).await;
    let once = AlarmTerms {
        label: "Tea".to_owned(),
        attempts: Some(2),
        backoff_ms: Some(60_000),
        ..AlarmTerms::default()
    };
    scene.ask_for(When::At(minute(1)), once).await;
    scene.stage.pass(1);
    scene.hand.settle_down().await;
    assert_eq!(scene.firings().await, [(1, Outcome::InDoubt, 1)]);
    assert_eq!(scene.alarm().await.status, AlarmStatus::Active);

    scene.hand.advance(TimeDelta::minutes(5)).await;

    assert_eq!(scene.firings().await, [(1, Outcome::InDoubt, 2)]);
    let failed = scene.alarm().await;
    assert_eq!((failed.status, failed.failure_count), (AlarmStatus::Failed, 1));
    assert_eq!(failed.last_error.as_deref(), Some("in_doubt: no answer came"));
}

async fn an_ended_series_that_gets_more_time_goes_on(base: &Base) {
    let mut scene = Scene::on(base, &[], None).await;
    let short = AlarmTerms {
        expires_at: Some(minute(130)),
        ..every("@every 2h")
    };
    scene.ask_for(When::Again, short).await;
    scene.hand.advance(TimeDelta::hours(3)).await;
    assert_eq!(scene.alarm().await.status, AlarmStatus::Fired);

    assert_eq!(scene.patch(None, every("@every 2h")).await.refusal, None);
    assert_eq!(scene.alarm().await.status, AlarmStatus::Active);
    scene.hand.advance(TimeDelta::hours(2)).await;

    assert_eq!(scene.firings().await, [sent(120), sent(240)]);
}

async fn an_owner_has_as_many_alarms_to_come_as_are_allowed(base: &Base) {
    let one = [("CARILLON__POLICIES__ALARMS_PER_OWNER", "1")];
    let scene = Scene::on(base, &one, None).await;
    scene.ask_for(When::Again, every("@every 2h")).await;
    let ask = async |number: u32| {
        let new = NewAlarm {
            when: When::Again,
            past: Past::Reject,
            channel: ChannelKind::Email,
            terms: every("@every 2h"),
            payload: None,
            request_hash: String::new(),
        };
        let at = AlarmAt {
            id: AlarmId(format!("{number:032x}")),
            ..at()
        };
        let asked = scene
            .hand
            .node
            .changes
            .order_alarm(at, Order::Create(Box::new(new)), None);
        asked.await.expect("the store works").refusal
    };

    let refused = ask(8).await;

    let names = |why: &str| why.contains("policies.alarms_per_owner") && why.contains("`ada` has 1 ");
    assert!(
        matches!(&refused, Some(AlarmRefusal::Conflict(why)) if names(why)),
        "{refused:?}"
    );
    assert_eq!(ask(7).await, None, "that one is there");
    scene.order(Order::Cancel).await;
    assert_eq!(ask(8).await, None);
}

async fn a_letter_that_is_late_says_so(base: &Base) {
    let mut scene = Scene::on(base, &[], None).await;
    let once = AlarmTerms {
        label: "Tea".to_owned(),
        ..AlarmTerms::default()
    };
    scene.ask_for(When::At(minute(120)), once).await;
    scene.stage.pass(150);
    scene.hand.settle_down().await;

    let kept = scene.stage.store.outbox(None, None, 9).await.expect("the outbox");

    let text = &kept[0].message.text;
    assert!(
        text.starts_with("This reminder is late: it was due on ") && text.ends_with("Tea\n"),
        "{text}"
    );
}

async fn alarms_that_are_over_are_forgotten_unless_their_name_is_good_for_ever(base: &Base) {
    let scene = Scene::on(base, &[], None).await;
    let store = &scene.stage.store;
    for (number, key) in [(7, None), (8, Some("tea")), (9, None)] {
        let new = NewAlarm {
            when: When::At(minute(120)),
            past: Past::Reject,
            channel: ChannelKind::Email,
            terms: AlarmTerms {
                label: "Tea".to_owned(),
                ..AlarmTerms::default()
            },
            payload: None,
            request_hash: String::new(),
        };
        let named = AlarmAt {
            id: AlarmId(format!("{number:032x}")),
            key: key.map(str::to_owned),
            ..at()
        };
        let changes = &scene.hand.node.changes;
        let asked = changes
            .order_alarm(named.clone(), Order::Create(Box::new(new)), None)
            .await;
        assert_eq!(asked.expect("the store works").refusal, None);
        if number < 9 {
            let gone = changes.order_alarm(named, Order::Cancel, None).await;
            assert_eq!(gone.expect("the store works").refusal, None);
        }
    }
    let retention = |history_before| Retention {
        history_before,
        tombstones_before: minute(-100),
        limit: 10,
    };
    let is_there = async |number: u32| {
        let id = AlarmId(format!("{number:032x}"));
        store.alarm(&at().owner, &id).await.expect("it is read").is_some()
    };
    store.purge(&retention(minute(0))).await.expect("a purge");
    assert!(is_there(7).await);
    scene.hand.clock.advance(Duration::from_mins(10));

    store
        .purge(&retention(scene.hand.clock.now()))
        .await
        .expect("a purge");

    assert_eq!(
        (is_there(7).await, is_there(8).await, is_there(9).await),
        (false, true, true)
    );
    assert!(scene.stage.group(&at().id.as_event_uid()).await.is_none());
    let counts = store.alarm_counts(&at().owner).await.expect("they are read");
    let count = |name: &str| counts.iter().find(|it| it.name == name).map(|it| it.amount);
    assert_eq!(
        (count("total"), count("cancelled"), count("active")),
        (Some(2), Some(1), Some(1))
    );
}
