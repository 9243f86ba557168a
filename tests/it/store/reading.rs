//! History, outbox, backlog, and what the janitor deletes.

use carillon::store::AttemptEnd;
use carillon::store::Backlog;
use carillon::store::HistoryQuery;
use carillon::store::KeptMessage;
use carillon::store::Report;
use carillon::store::Retention;
use carillon::trigger::OwnerId;
use carillon::trigger::TriggerId;
use carillon::trigger::outcome::Outcome;
use carillon::trigger::outcome::Reason;

use crate::store::Base;
use crate::store::Prepared;
use crate::store::Stage;
use crate::store::delete;
use crate::store::done;
use crate::store::minute;
use crate::store::new;
use crate::store::owner;
use crate::store::put;
use crate::store::sent;

contract! {
    history_is_listed_newest_first_and_page_by_page,
    history_is_found_by_owner_event_outcome_and_time,
    the_outbox_is_listed_newest_first_and_page_by_page,
    the_backlog_counts_the_head_of_the_due_index,
    the_janitor_deletes_what_is_old_and_no_more_than_it_may,
    the_janitor_forgets_old_tombstones_and_keeps_events,
    what_is_remembered_is_the_last_value,
    whoever_remembers_first_is_who_all_go_by,
    who_holds_a_copy_is_told_in_pages_and_without_reading_the_copies,
    who_deleted_their_copy_holds_none,
}

/// Sends one reminder a minute, and keeps its message.
async fn send_each_minute(stage: &Stage, uids: &[&str]) -> Vec<TriggerId> {
    let mut ids = Vec::new();
    for (token, uid) in (1..).zip(uids) {
        stage.pass(1);
        let trigger = new(uid, 0);
        let mut settlement = sent(stage.sending(&trigger, token).await, token);
        if let AttemptEnd::Done {
            kept, handed_over_at, ..
        } = &mut settlement.end
        {
            *handed_over_at = Some(minute(token));
            *kept = Some(KeptMessage {
                to: "ada@example.org".into(),
                subject: (*uid).into(),
                text: String::new(),
                raw: String::new(),
            });
        }
        stage.settle(settlement).await;
        ids.push(trigger.id());
    }
    ids
}

async fn listed(stage: &Stage, query: HistoryQuery) -> Vec<TriggerId> {
    let rows = stage.store.history(&query).await.expect("a list");
    rows.iter().map(|row| row.id).collect()
}

fn query() -> HistoryQuery {
    HistoryQuery {
        limit: 10,
        ..HistoryQuery::default()
    }
}

async fn history_is_listed_newest_first_and_page_by_page(base: &Base) {
    let stage = Stage::on(base).await;
    let ids = send_each_minute(&stage, &["a", "b", "c"]).await;
    for owner in [None, Some(OwnerId("ada".into()))] {
        let query = HistoryQuery {
            owner,
            limit: 2,
            ..query()
        };

        let first = stage.store.history(&query).await.expect("a page");
        assert_eq!([first[0].id, first[1].id], [ids[2], ids[1]]);
        let after = Some((first[1].recorded_at, first[1].id));
        assert_eq!(listed(&stage, HistoryQuery { after, ..query }).await, [ids[0]]);
    }
}

async fn history_is_found_by_owner_event_outcome_and_time(base: &Base) {
    let stage = Stage::on(base).await;
    let ids = send_each_minute(&stage, &["a", "b"]).await;
    let failed = new("c", 0);
    let claim = stage.sending(&failed, 9).await;
    stage
        .settle(done(claim, 9, Outcome::Failed, Reason::Refused))
        .await;

    let by_event = HistoryQuery {
        event_uid: Some("a".into()),
        ..query()
    };
    assert_eq!(listed(&stage, by_event.clone()).await, [ids[0]]);
    let of_ada = HistoryQuery {
        owner: Some(OwnerId("ada".into())),
        ..by_event.clone()
    };
    assert_eq!(listed(&stage, of_ada).await, [ids[0]]);
    let of_bob = HistoryQuery {
        owner: Some(OwnerId("bob".into())),
        ..by_event
    };
    assert!(listed(&stage, of_bob).await.is_empty());
    let failures = HistoryQuery {
        outcome: Some(Outcome::Failed),
        ..query()
    };
    assert_eq!(listed(&stage, failures).await, [failed.id()]);
    let lately = HistoryQuery {
        since: Some(minute(2)),
        outcome: Some(Outcome::Sent),
        ..query()
    };
    assert_eq!(listed(&stage, lately).await, [ids[1]]);
}

async fn the_outbox_is_listed_newest_first_and_page_by_page(base: &Base) {
    let stage = Stage::on(base).await;
    let ids = send_each_minute(&stage, &["a", "b", "c"]).await;
    let ada = OwnerId("ada".into());
    for owner in [None, Some(&ada)] {
        let first = stage.store.outbox(owner, None, 2).await.expect("a page");
        assert_eq!([first[0].id, first[1].id], [ids[2], ids[1]]);
        assert_eq!(first[0].message.subject, "c");
        let cursor = Some((first[1].handed_over_at, first[1].id));
        let second = stage.store.outbox(owner, cursor, 2).await.expect("a page");
        assert_eq!((second.len(), second[0].id), (1, ids[0]));
    }
    let bob = OwnerId("bob".into());
    assert!(
        stage
            .store
            .outbox(Some(&bob), None, 2)
            .await
            .expect("a page")
            .is_empty()
    );
}

async fn the_backlog_counts_the_head_of_the_due_index(base: &Base) {
    let stage = Stage::on(base).await;
    stage
        .plan("e", &[new("e", 1), new("e", 2), new("e", 20), new("e", 90)])
        .await;
    stage.claim_until(1).await;
    stage.pass(10);

    let backlog = stage.store.backlog(minute(30), 100).await.expect("a count");
    let expected = Backlog {
        planned: 2,
        claimed: 1,
        overdue: 2,
        oldest_due: Some(minute(1)),
    };
    assert_eq!(backlog, expected);

    let bounded = stage.store.backlog(minute(30), 1).await.expect("a count");
    assert_eq!((bounded.planned, bounded.claimed), (0, 1));
    let empty = Stage::on(base).await.store.backlog(minute(30), 9).await;
    assert_eq!(empty.expect("a count"), Backlog::default());
}

async fn the_janitor_deletes_what_is_old_and_no_more_than_it_may(base: &Base) {
    let stage = Stage::on(base).await;
    let ids = send_each_minute(&stage, &["a", "b", "c"]).await;
    let retention = |limit| Retention {
        history_before: minute(3),
        tombstones_before: minute(3),
        limit,
    };

    stage
        .store
        .beat(stage.session, Report::default())
        .await
        .expect("an answer");

    // One row of history, and its message in the outbox.
    assert_eq!(stage.store.purge(&retention(1)).await.expect("a count"), 2);
    assert_eq!(listed(&stage, query()).await, [ids[2], ids[1]]);
    stage.store.purge(&retention(100)).await.expect("a count");
    assert_eq!(listed(&stage, query()).await, [ids[2]]);
    assert_eq!(stage.store.outbox(None, None, 9).await.expect("a list").len(), 1);
}

async fn the_janitor_forgets_old_tombstones_and_keeps_events(base: &Base) {
    let stage = Stage::on(base).await;
    let changes = [crate::store::put("kept"), delete("buried")];
    stage
        .store
        .change(&changes, &Prepared::all([]), None)
        .await
        .expect("it is applied");
    stage.pass(60);
    stage
        .store
        .beat(stage.session, Report::default())
        .await
        .expect("an answer");
    let retention = Retention {
        history_before: minute(30),
        tombstones_before: minute(30),
        limit: 100,
    };

    assert_eq!(stage.store.purge(&retention).await.expect("a count"), 1);

    assert_eq!(stage.copy("buried").await, None);
    assert!(stage.copy("kept").await.is_some());
    assert!(
        stage
            .store
            .beat(stage.session, Report::default())
            .await
            .expect("an answer")
    );
}

async fn what_is_remembered_is_the_last_value(base: &Base) {
    let stage = Stage::on(base).await;
    assert_eq!(
        stage.store.remembered("zone data").await.expect("an answer"),
        None
    );

    stage
        .store
        .remember("zone data", "2026e")
        .await
        .expect("it is remembered");
    stage
        .store
        .remember("zone data", "2026f")
        .await
        .expect("it is remembered");

    let remembered = stage.store.remembered("zone data").await.expect("an answer");
    assert_eq!(remembered.as_deref(), Some("2026f"));
}

async fn whoever_remembers_first_is_who_all_go_by(base: &Base) {
    let stage = Stage::on(base).await;
    for value in ["one", "another"] {
        let first = stage.store.remember_first("secret", value).await;
        assert_eq!(first.expect("an answer"), "one");
    }
    let remembered = stage.store.remembered("secret").await.expect("an answer");
    assert_eq!(remembered.as_deref(), Some("one"));
    for (before, value, is_replaced) in [
        ("another", "two", false),
        ("one", "two", true),
        ("one", "three", false),
    ] {
        let replaced = stage.store.remember_instead("secret", (before, value)).await;
        assert_eq!(replaced.expect("an answer"), is_replaced, "{value}");
    }
    let remembered = stage.store.remembered("secret").await.expect("an answer");
    assert_eq!(remembered.as_deref(), Some("two"));
}

async fn who_holds_a_copy_is_told_in_pages_and_without_reading_the_copies(base: &Base) {
    let stage = Stage::on(base).await;
    let editor = Prepared::all([]);
    for name in ["bob", "cyd"] {
        stage.store.put_owner(&owner(name)).await.expect("an owner");
    }
    let mut changes = vec![put("e"), put("e"), put("e")];
    changes[1].at.owner = OwnerId("bob".into());
    changes[2].at.owner = OwnerId("cyd".into());
    stage
        .store
        .change(&changes, &editor, None)
        .await
        .expect("they are applied");
    stage
        .damage("UPDATE event SET changed_at = 9223372036854775807 WHERE owner = 'bob'")
        .await;

    let first = stage.store.holders("work", "e", None, 2).await.expect("a page");
    let rest = stage
        .store
        .holders("work", "e", first.last(), 2)
        .await
        .expect("a page");

    assert_eq!(first, [OwnerId("ada".into()), OwnerId("bob".into())]);
    assert_eq!(rest, [OwnerId("cyd".into())]);
    assert!(
        stage.copy("e").await.is_some(),
        "a damaged copy is nobody else's trouble"
    );
}

async fn who_deleted_their_copy_holds_none(base: &Base) {
    let stage = Stage::on(base).await;
    let editor = Prepared::all([]);
    let changes = [put("e"), delete("e")];
    stage
        .store
        .change(&changes, &editor, None)
        .await
        .expect("they are applied");

    let holders = stage.store.holders("work", "e", None, 2).await.expect("a page");

    assert!(holders.is_empty());
}
