//! Stand-alone alarms: their rows, and how these follow what becomes of their triggers.

use std::time::Duration;

use carillon::store::AlarmAt;
use carillon::store::AlarmEdit;
use carillon::store::AlarmEditor;
use carillon::store::AlarmQuery;
use carillon::store::AlarmRefusal;
use carillon::store::AlarmStatus;
use carillon::store::AlarmTerms;
use carillon::store::Altered;
use carillon::store::AttemptEnd;
use carillon::store::Claimed;
use carillon::store::Edit;
use carillon::store::Group;
use carillon::store::HistoryQuery;
use carillon::store::Judgement;
use carillon::store::NearClaim;
use carillon::store::Notice;
use carillon::store::Standalone;
use carillon::store::StoreError;
use carillon::store::Succession;
use carillon::store::Verdict;
use carillon::trigger::AlarmId;
use carillon::trigger::ChannelKind;
use carillon::trigger::NewTrigger;
use carillon::trigger::OwnerId;
use carillon::trigger::Place;
use carillon::trigger::State;
use carillon::trigger::outcome::Outcome;
use carillon::trigger::outcome::Reason;
use carillon::trigger::outcome::Reported;
use chrono::DateTime;
use chrono::TimeDelta;
use chrono::Utc;

use crate::store::Base;
use crate::store::Decided;
use crate::store::Stage;
use crate::store::done;
use crate::store::minute;
use crate::store::new;
use crate::store::owner;
use crate::store::planning;
use crate::store::retry;
use crate::store::send;
use crate::store::sent;

contract! {
    an_alarm_comes_back_as_it_was_asked_for_with_what_it_owes,
    what_is_refused_or_left_alone_writes_nothing,
    an_alarm_is_found_by_the_name_of_its_owner_and_by_that_of_a_request_of_late,
    an_unknown_owner_is_an_error_of_that_alarm_alone,
    an_alarm_that_is_called_off_owes_nothing_and_its_holder_is_told,
    the_fire_check_sees_the_alarm_as_it_is_now,
    an_alarm_and_the_counts_follow_what_becomes_of_its_firing,
    an_alarm_whose_firing_fails_has_failed_with_the_reason,
    what_moved_on_is_not_disturbed_by_what_is_told_of_before,
    a_series_shows_its_next_firing_and_ends_with_the_last,
    a_report_that_never_comes_is_counted,
    alarms_are_listed_newest_first_in_pages_and_by_state,
    the_history_of_alarms_is_apart_from_that_of_events,
}

/// An editor with a prepared decision.
pub struct Deciding<F>(pub F);

impl<F> AlarmEditor for Deciding<F>
where
    F: Fn(&AlarmAt, Option<&Standalone>, &Group) -> AlarmEdit + Send + Sync,
{
    fn edit(&self, at: &AlarmAt, stored: Option<&Standalone>, group: &Group, _: DateTime<Utc>) -> AlarmEdit {
        (self.0)(at, stored, group)
    }
}

pub fn ada() -> OwnerId {
    OwnerId("ada".into())
}

pub fn at(number: u32) -> AlarmAt {
    AlarmAt {
        owner: ada(),
        id: AlarmId(format!("{number:032x}")),
        key: None,
        request: None,
    }
}

/// An alarm of Ada's that fires at that minute.
pub fn once(number: u32, minutes: i64) -> Standalone {
    Standalone {
        owner: ada(),
        id: at(number).id,
        status: AlarmStatus::Active,
        paused: false,
        fire_at: minute(minutes),
        channel: ChannelKind::Webhook,
        terms: AlarmTerms {
            label: "Tea".into(),
            target: Some("https://example.org/".into()),
            attempts: Some(3),
            ..AlarmTerms::default()
        },
        payload: Some(r#"{"a":  1.50}"#.into()),
        key: Some(format!("name {number}")),
        request_key: Some(format!("request {number}")),
        request_hash: "hash".into(),
        created_at: minute(i64::from(number)),
        updated_at: minute(0),
        last_fired_at: None,
        last_error: None,
        failure_count: 0,
    }
}

fn series(number: u32, minutes: i64) -> Standalone {
    let mut series = once(number, minutes);
    series.terms.cron = Some("@every 10m".into());
    series
}

fn firing(alarm: &Standalone) -> NewTrigger {
    NewTrigger {
        wish: alarm.wish(),
        place: Place::at(alarm.fire_at),
        expires_at: alarm.fire_at + TimeDelta::hours(12),
        has_more: alarm.terms.cron.is_some(),
        moved: false,
    }
}

/// Fires as it is due, and ten minutes later again until that minute.
fn again_until(minutes: i64) -> impl carillon::store::Judge {
    Decided(move |candidate: &carillon::store::Candidate| {
        let trigger = &candidate.trigger;
        let next = trigger.place.trigger_at + TimeDelta::minutes(10);
        Judgement {
            verdict: Verdict::Send,
            succession: Some(Succession {
                served_through: trigger.place,
                successor: (next < minute(minutes)).then(|| NewTrigger {
                    wish: trigger.wish.clone(),
                    place: Place::at(next),
                    expires_at: next + TimeDelta::hours(12),
                    has_more: true,
                    moved: false,
                }),
                missed: None,
            }),
        }
    })
}

impl Stage {
    pub async fn alter(&self, at: AlarmAt, editor: &dyn AlarmEditor) -> Altered {
        let altered = self.store.alter_alarms(&[at], editor, None).await;
        altered
            .expect("it is done")
            .remove(0)
            .expect("its owner is known")
    }

    /// Asks for an alarm.
    pub async fn ask_for(&self, alarm: &Standalone) {
        let editor = Deciding(|_: &AlarmAt, _: Option<&Standalone>, _: &Group| {
            AlarmEdit::Put(Box::new(alarm.clone()), planning(&[firing(alarm)]))
        });
        let at = AlarmAt {
            id: alarm.id.clone(),
            ..at(0)
        };
        let altered = self.alter(at, &editor).await;
        assert_eq!((altered.changed.planned, altered.existed), (1, false));
    }

    async fn alarm(&self, alarm: &Standalone) -> Standalone {
        let found = self.store.alarm(&alarm.owner, &alarm.id).await;
        found.expect("it is read").expect("it is there")
    }

    /// Counters that are not zero.
    async fn counts(&self) -> Vec<(String, i64)> {
        let counts = self.store.alarm_counts(&ada()).await.expect("they are read");
        let shown = counts.into_iter().filter(|count| count.amount != 0);
        let shown = shown.map(|count| {
            let what = if count.of_firings { "firing" } else { "alarm" };
            (format!("{} {what} {}", count.channel, count.name), count.amount)
        });
        shown.collect()
    }

    async fn count(&self, name: &str) -> i64 {
        let counts = self.counts().await;
        let found = counts.into_iter().find(|(known, _)| known == name);
        found.map_or(0, |(_, amount)| amount)
    }
}

pub fn awaiting(claim: Claimed) -> carillon::store::Settlement {
    let mut settlement = done(claim, 7, Outcome::Awaiting, Reason::None);
    if let AttemptEnd::Done { await_until, .. } = &mut settlement.end {
        *await_until = Some(minute(5));
    }
    settlement
}

async fn an_alarm_comes_back_as_it_was_asked_for_with_what_it_owes(base: &Base) {
    let stage = Stage::on(base).await;
    let alarm = once(1, 9);
    let near = NearClaim {
        session: stage.session,
        window: Duration::from_mins(10),
    };
    let editor = Deciding(|at: &AlarmAt, stored: Option<&Standalone>, group: &Group| {
        assert_eq!(
            (&at.id, stored, group.owner.id.0.as_str()),
            (&alarm.id, None, "ada")
        );
        AlarmEdit::Put(Box::new(alarm.clone()), planning(&[firing(&alarm)]))
    });

    let altered = stage.store.alter_alarms(&[at(1)], &editor, Some(near)).await;

    let altered = altered.expect("it is done").remove(0).expect("it is taken");
    assert_eq!(altered.alarm, Some(alarm.clone()));
    assert_eq!(altered.changed.claimed.len(), 1);
    assert_eq!(stage.alarm(&alarm).await, alarm);
    let group = stage.group(&alarm.id.as_event_uid()).await.expect("it is there");
    assert_eq!((group.alarms.len(), group.copies.len()), (1, 0));
    let trigger = &group.triggers[0];
    assert_eq!((trigger.id, trigger.state), (firing(&alarm).id(), State::Claimed));
    assert_eq!(trigger.wish.alarm_id(), Some(alarm.id.clone()));
    let counted = [
        ("webhook alarm active".into(), 1),
        ("webhook alarm total".into(), 1),
    ];
    assert_eq!(stage.counts().await, counted);
    let other = stage.store.alarm(&OwnerId("bob".into()), &alarm.id).await;
    assert_eq!(other.expect("it is read"), None);
}

async fn what_is_refused_or_left_alone_writes_nothing(base: &Base) {
    let stage = Stage::on(base).await;
    let alarm = once(1, 9);
    stage.ask_for(&alarm).await;
    let refusing = Deciding(|_: &AlarmAt, stored: Option<&Standalone>, group: &Group| {
        assert_eq!((stored, group.triggers.len()), (Some(&alarm), 1));
        AlarmEdit::Refuse(AlarmRefusal::Changed)
    });
    let leaving = Deciding(|_: &AlarmAt, _: Option<&Standalone>, _: &Group| AlarmEdit::Leave);

    let refused = stage.alter(at(1), &refusing).await;
    let left = stage.alter(at(1), &leaving).await;
    let unknown = stage.alter(at(2), &leaving).await;

    assert_eq!(refused.refusal, Some(AlarmRefusal::Changed));
    assert_eq!(
        (left.refusal, left.alarm, left.existed),
        (None, Some(alarm.clone()), true)
    );
    assert_eq!((unknown.alarm, unknown.existed), (None, false));
    assert_eq!(stage.alarm(&alarm).await, alarm);
    assert_eq!(stage.count("webhook alarm total").await, 1);
}

async fn an_alarm_is_found_by_the_name_of_its_owner_and_by_that_of_a_request_of_late(base: &Base) {
    let stage = Stage::on(base).await;
    let alarm = once(1, 9);
    stage.ask_for(&alarm).await;
    let found = async |key: Option<&str>, request: Option<(&str, i64)>| {
        let at = AlarmAt {
            key: key.map(str::to_owned),
            request: request.map(|(name, since)| (name.to_owned(), minute(since))),
            ..at(7)
        };
        let leaving = Deciding(|_: &AlarmAt, _: Option<&Standalone>, _: &Group| AlarmEdit::Leave);
        stage.alter(at, &leaving).await.existed
    };

    // It was asked for at minute 1.
    assert!(found(Some("name 1"), None).await);
    assert!(found(None, Some(("request 1", 0))).await);
    assert!(!found(None, Some(("request 1", 1))).await);
    assert!(!found(Some("name 2"), Some(("request 2", 0))).await);
    stage.store.put_owner(&owner("bob")).await.expect("it is stored");
    let of_bob = AlarmAt {
        owner: OwnerId("bob".into()),
        key: Some("name 1".into()),
        ..at(7)
    };
    let leaving = Deciding(|_: &AlarmAt, _: Option<&Standalone>, _: &Group| AlarmEdit::Leave);
    assert!(!stage.alter(of_bob, &leaving).await.existed);
}

async fn an_unknown_owner_is_an_error_of_that_alarm_alone(base: &Base) {
    let stage = Stage::on(base).await;
    let alarm = once(1, 9);
    let of_nobody = AlarmAt {
        owner: OwnerId("nobody".into()),
        ..at(2)
    };
    let editor = Deciding(|_: &AlarmAt, _: Option<&Standalone>, _: &Group| {
        AlarmEdit::Put(Box::new(alarm.clone()), planning(&[firing(&alarm)]))
    });

    let altered = stage.store.alter_alarms(&[of_nobody, at(1)], &editor, None).await;

    let altered = altered.expect("it is done");
    assert!(matches!(&altered[0], Err(StoreError::UnknownOwner(owner)) if owner.0 == "nobody"));
    assert_eq!(altered[1].as_ref().expect("it is taken").changed.planned, 1);
}

async fn an_alarm_that_is_called_off_owes_nothing_and_its_holder_is_told(base: &Base) {
    let stage = Stage::on(base).await;
    let alarm = once(1, 0);
    stage.ask_for(&alarm).await;
    assert_eq!(stage.claim().await.len(), 1);
    let editor = Deciding(|_: &AlarmAt, stored: Option<&Standalone>, group: &Group| {
        let cancelled = Standalone {
            status: AlarmStatus::Cancelled,
            updated_at: minute(1),
            ..stored.expect("it is there").clone()
        };
        let withdraw = group.triggers.iter().map(|trigger| trigger.id).collect();
        AlarmEdit::Put(
            Box::new(cancelled),
            Edit {
                withdraw,
                ..Edit::default()
            },
        )
    });

    let altered = stage.alter(at(1), &editor).await;

    let withdrawn = &altered.changed.withdrawn;
    assert_eq!((withdrawn.len(), withdrawn[0].session), (1, Some(stage.session)));
    assert_eq!(stage.alarm(&alarm).await.status, AlarmStatus::Cancelled);
    assert!(stage.group(&alarm.id.as_event_uid()).await.is_none());
    assert_eq!(stage.count("webhook alarm cancelled").await, 1);
    assert_eq!(stage.count("webhook alarm active").await, 0);
}

async fn the_fire_check_sees_the_alarm_as_it_is_now(base: &Base) {
    let stage = Stage::on(base).await;
    let alarm = once(1, 0);
    stage.ask_for(&alarm).await;
    stage.plan("e", &[new("e", 0)]).await;

    let claims = stage.claim().await;
    let checked = stage.fire(&claims, 7, &send()).await;

    assert_eq!(checked.granted.len(), 2);
    for candidate in checked.granted {
        let seen = candidate.standalone.as_deref().cloned();
        let is_alarm = candidate.trigger.wish.alarm_id().is_some();
        assert_eq!(seen, is_alarm.then(|| alarm.clone()));
    }
}

async fn an_alarm_and_the_counts_follow_what_becomes_of_its_firing(base: &Base) {
    let stage = Stage::on(base).await;
    let alarm = once(1, 0);
    stage.ask_for(&alarm).await;
    let claim = stage.send_claimed(7).await;
    stage.settle(awaiting(claim)).await;
    let fired = stage.alarm(&alarm).await;
    assert_eq!(
        (fired.status, fired.last_fired_at),
        (AlarmStatus::Fired, Some(minute(0)))
    );
    assert!(fired.updated_at > alarm.updated_at);
    assert_eq!(stage.count("webhook firing awaiting").await, 1);
    stage.pass(2);

    for _ in 0..2 {
        let notice = Notice {
            id: claim.id,
            reported: Reported::Completed,
            detail: String::new(),
        };
        stage.store.report(&[notice]).await.expect("it is taken");
    }

    let counted: Vec<(String, i64)> = [
        ("webhook alarm fired", 1),
        ("webhook alarm total", 1),
        ("webhook firing completed", 1),
        ("webhook firing duration_ms", 120_000),
        ("webhook firing durations", 1),
    ]
    .map(|(name, amount)| (name.to_owned(), amount))
    .to_vec();
    assert_eq!(stage.counts().await, counted);
}

async fn an_alarm_whose_firing_fails_has_failed_with_the_reason(base: &Base) {
    let stage = Stage::on(base).await;
    let alarm = once(1, 0);
    stage.ask_for(&alarm).await;
    let claim = stage.send_claimed(7).await;
    stage.settle(retry(claim, 7, 0, true)).await;
    assert_eq!(stage.alarm(&alarm).await.status, AlarmStatus::Active);
    let claims = [Claimed {
        due_at: minute(0),
        ..claim
    }];
    stage.pass(3);
    assert_eq!(stage.fire(&claims, 8, &send()).await.granted.len(), 1);

    stage
        .settle(done(claim, 8, Outcome::Failed, Reason::Exhausted))
        .await;

    let failed = stage.alarm(&alarm).await;
    assert_eq!((failed.status, failed.failure_count), (AlarmStatus::Failed, 1));
    assert_eq!(failed.last_error.as_deref(), Some("failed: 250 queued as 4711"));
    assert_eq!(stage.count("webhook alarm failed").await, 1);
    assert_eq!(stage.count("webhook firing failed").await, 1);
    let row = stage
        .store
        .delivery(claim.id)
        .await
        .expect("it is read")
        .expect("it is there");
    assert_eq!(
        (row.first_started_at, row.started_at),
        (Some(minute(0)), Some(minute(3)))
    );
    // What is known later counts instead.
    stage.settle(sent(claim, 7)).await;
    assert_eq!(stage.alarm(&alarm).await.status, AlarmStatus::Fired);
    assert_eq!(stage.alarm(&alarm).await.failure_count, 0);
    assert_eq!(stage.count("webhook firing failed").await, 0);
}

async fn what_moved_on_is_not_disturbed_by_what_is_told_of_before(base: &Base) {
    let stage = Stage::on(base).await;
    let alarm = once(1, 0);
    stage.ask_for(&alarm).await;
    let claim = stage.send_claimed(7).await;
    stage.settle(awaiting(claim)).await;
    let editor = Deciding(|_: &AlarmAt, stored: Option<&Standalone>, _: &Group| {
        let moved = Standalone {
            status: AlarmStatus::Active,
            fire_at: minute(30),
            updated_at: minute(1),
            ..stored.expect("it is there").clone()
        };
        AlarmEdit::Put(Box::new(moved.clone()), planning(&[firing(&moved)]))
    });
    stage.alter(at(1), &editor).await;

    let notice = Notice {
        id: claim.id,
        reported: Reported::Failed,
        detail: "no".into(),
    };
    stage.store.report(&[notice]).await.expect("it is taken");

    let now = stage.alarm(&alarm).await;
    assert_eq!((now.status, now.fire_at), (AlarmStatus::Active, minute(30)));
    assert_eq!(now.last_error.as_deref(), Some("failed: no"));
}

async fn a_series_shows_its_next_firing_and_ends_with_the_last(base: &Base) {
    let stage = Stage::on(base).await;
    let alarm = series(1, 0);
    stage.ask_for(&alarm).await;
    let claims = stage.claim_until(0).await;
    stage.fire(&claims, 7, &again_until(15)).await;
    let next = stage.alarm(&alarm).await;
    assert_eq!((next.status, next.fire_at), (AlarmStatus::Active, minute(10)));
    stage
        .settle(done(claims[0], 7, Outcome::Failed, Reason::Refused))
        .await;
    let failed = stage.alarm(&alarm).await;
    assert_eq!((failed.status, failed.failure_count), (AlarmStatus::Active, 1));
    assert_eq!(failed.fire_at, minute(10));
    stage.pass(10);
    // Fire-checks take it under its claim, whoever made that.
    let claims: Vec<Claimed> = stage
        .store
        .held_by(stage.session, minute(10), None, 10)
        .await
        .expect("a page");
    let checked = stage.fire(&claims, 8, &again_until(15)).await;
    assert_eq!(checked.granted.len(), 1);

    stage.settle(sent(claims[0], 8)).await;

    let ended = stage.alarm(&alarm).await;
    assert_eq!((ended.status, ended.fire_at), (AlarmStatus::Fired, minute(10)));
    assert_eq!((ended.failure_count, ended.last_fired_at), (1, Some(minute(0))));
    assert_eq!(stage.count("webhook firing sent").await, 1);
}

async fn a_report_that_never_comes_is_counted(base: &Base) {
    let stage = Stage::on(base).await;
    let alarm = once(1, 0);
    stage.ask_for(&alarm).await;
    let claim = stage.send_claimed(7).await;
    stage.settle(awaiting(claim)).await;
    stage.pass(6);

    let given_up = stage.store.time_out(10).await.expect("a sweep");

    assert_eq!(given_up[&ChannelKind::Webhook], 1);
    assert_eq!(stage.alarm(&alarm).await.status, AlarmStatus::Fired);
    assert_eq!(stage.count("webhook firing timeout_unknown").await, 1);
    assert_eq!(stage.count("webhook firing awaiting").await, 0);
}

async fn alarms_are_listed_newest_first_in_pages_and_by_state(base: &Base) {
    let stage = Stage::on(base).await;
    for number in 1..=4 {
        stage.ask_for(&once(number, 9)).await;
    }
    let cancelling = Deciding(|_: &AlarmAt, stored: Option<&Standalone>, _: &Group| {
        let cancelled = Standalone {
            status: AlarmStatus::Cancelled,
            updated_at: minute(1),
            ..stored.expect("it is there").clone()
        };
        AlarmEdit::Put(Box::new(cancelled), Edit::default())
    });
    stage.alter(at(2), &cancelling).await;
    let listed = async |status, after| {
        let query = AlarmQuery {
            owner: ada(),
            status,
            after,
            limit: 2,
        };
        let alarms = stage.store.alarms(&query).await.expect("a list");
        let numbers = alarms
            .iter()
            .map(|alarm| u32::from_str_radix(&alarm.id.0, 16).expect("a number"));
        numbers.collect::<Vec<u32>>()
    };

    assert_eq!(listed(None, None).await, [4, 3]);
    assert_eq!(listed(None, Some((minute(3), at(3).id))).await, [2, 1]);
    let active = Some(AlarmStatus::Active);
    assert_eq!(listed(active, Some((minute(3), at(3).id))).await, [1]);
    assert_eq!(listed(Some(AlarmStatus::Cancelled), None).await, [2]);
}

async fn the_history_of_alarms_is_apart_from_that_of_events(base: &Base) {
    let stage = Stage::on(base).await;
    stage.sending(&new("e", 0), 7).await;
    for (number, token) in [(1, 8), (2, 9)] {
        let mut alarm = once(number, 0);
        alarm.terms.target = Some(format!("https://example.org/{number}"));
        stage.ask_for(&alarm).await;
        let claim = stage.send_claimed(token).await;
        let outcome = if number == 1 {
            Outcome::Sent
        } else {
            Outcome::Failed
        };
        stage.settle(done(claim, token, outcome, Reason::None)).await;
    }
    let listed = async |query| {
        let query = HistoryQuery {
            owner: Some(ada()),
            standalone: true,
            limit: 10,
            ..query
        };
        let rows = stage.store.history(&query).await.expect("a list");
        let mut ids: Vec<_> = rows.iter().filter_map(|row| row.wish.alarm_id()).collect();
        ids.sort();
        assert_eq!(ids.len(), rows.len());
        ids
    };
    let found = async |outcome, alarm: Option<u32>| {
        let event_uid = alarm.map(|number| at(number).id.as_event_uid());
        listed(HistoryQuery {
            event_uid,
            outcome,
            ..HistoryQuery::default()
        })
        .await
    };
    let calling = async |number: u32, failed| {
        let target = Some(format!("https://example.org/{number}"));
        listed(HistoryQuery {
            target,
            failed,
            ..HistoryQuery::default()
        })
        .await
    };

    assert_eq!(calling(1, false).await, [at(1).id]);
    assert_eq!(calling(2, false).await, [at(2).id]);
    assert!(calling(3, false).await.is_empty());
    assert_eq!(calling(2, true).await, [at(2).id]);
    assert!(calling(1, true).await.is_empty());
    assert_eq!(found(None, None).await, [at(1).id, at(2).id]);
    assert_eq!(found(Some(Outcome::Failed), None).await, [at(2).id]);
    assert_eq!(found(Some(Outcome::Sent), None).await, [at(1).id]);
    assert_eq!(found(None, Some(2)).await, [at(2).id]);
    assert!(found(Some(Outcome::Failed), Some(1)).await.is_empty());
}
