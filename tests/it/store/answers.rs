//! What owners answer to reminders.

use std::time::Duration;

use carillon::store::Answering;
use carillon::store::Edit;
use carillon::store::NearClaim;
use carillon::trigger::OwnerId;
use carillon::trigger::answers::Answers;
use chrono::DateTime;
use chrono::Utc;

use crate::store::Base;
use crate::store::Prepared;
use crate::store::Stage;
use crate::store::delete;
use crate::store::key;
use crate::store::minute;
use crate::store::new;
use crate::store::planning;
use crate::store::put;
use crate::store::put_under;

contract! {
    an_answer_is_kept_and_its_group_edited_with_it,
    an_answer_decided_on_what_has_changed_is_not_kept,
    there_is_no_answer_about_an_event_that_is_not_there,
    a_later_put_keeps_the_answer_and_a_deletion_of_the_last_copy_forgets_it,
    a_fire_check_sees_the_answer,
}

fn ada(uid: &str) -> (OwnerId, String) {
    (OwnerId("ada".into()), uid.to_owned())
}

fn acknowledged(at: DateTime<Utc>) -> Answers {
    Answers {
        acknowledged: [("alarm-1".to_owned(), at)].into(),
        ..Answers::default()
    }
}

async fn answer(stage: &Stage, uid: &str, (before, after): (Answers, Answers)) -> bool {
    let answering = Answering { before, after };
    let done = stage
        .store
        .answer(&ada(uid), &answering, &Prepared::all([]), None)
        .await;
    done.expect("the store works").is_some()
}

async fn an_answer_is_kept_and_its_group_edited_with_it(base: &Base) {
    let stage = Stage::on(base).await;
    stage.put("e", Edit::default()).await;
    let near = NearClaim {
        session: stage.session,
        window: Duration::from_mins(35),
    };
    let answering = Answering {
        before: Answers::default(),
        after: acknowledged(minute(1)),
    };
    let editor = Prepared::with("e", planning(&[new("e", 10)]));

    let changed = stage
        .store
        .answer(&ada("e"), &answering, &editor, Some(near))
        .await
        .expect("the store works")
        .expect("it is kept");

    assert_eq!((changed.planned, changed.claimed.len()), (1, 1));
    let seen = editor.groups.lock().expect("no test panics in it")[0]
        .answers
        .clone();
    assert_eq!(seen, answering.after, "the editor sees it");
    let group = stage.group("e").await.expect("it is there");
    assert_eq!((group.answers, group.triggers.len()), (answering.after, 1));
}

async fn an_answer_decided_on_what_has_changed_is_not_kept(base: &Base) {
    let stage = Stage::on(base).await;
    stage.put("e", Edit::default()).await;
    let (one, two) = (acknowledged(minute(1)), acknowledged(minute(2)));
    assert!(answer(&stage, "e", (Answers::default(), one.clone())).await);
    assert!(!answer(&stage, "e", (Answers::default(), two.clone())).await);
    assert!(!answer(&stage, "e", (two.clone(), Answers::default())).await);
    assert_eq!(stage.group("e").await.expect("it is there").answers, one);
    assert!(answer(&stage, "e", (one, two.clone())).await);
    assert!(answer(&stage, "e", (two.clone(), Answers::default())).await);
    // What says nothing is as good as never written.
    assert!(answer(&stage, "e", (Answers::default(), two)).await);
}

async fn there_is_no_answer_about_an_event_that_is_not_there(base: &Base) {
    let stage = Stage::on(base).await;
    let news = (Answers::default(), acknowledged(minute(1)));
    assert!(!answer(&stage, "never seen", news.clone()).await);
    stage.put("e", Edit::default()).await;
    let gone = stage.store.change(&[delete("e")], &Prepared::all([]), None).await;
    gone.expect("it is applied");
    assert!(!answer(&stage, "e", news).await);
}

async fn a_later_put_keeps_the_answer_and_a_deletion_of_the_last_copy_forgets_it(base: &Base) {
    let stage = Stage::on(base).await;
    let editor = Prepared::all([]);
    let change = async |change| {
        let done = stage.store.change(&[change], &editor, None).await;
        done.expect("the batch is applied")
            .remove(0)
            .expect("it is taken");
    };
    change(put("e")).await;
    change(put_under(key("second copy"), "e")).await;
    let said = acknowledged(minute(1));
    assert!(answer(&stage, "e", (Answers::default(), said.clone())).await);

    change(put("e")).await;
    assert_eq!(stage.group("e").await.expect("it is there").answers, said);
    change(delete("e")).await;
    assert_eq!(stage.group("e").await.expect("it is there").answers, said);
    change(delete("second copy")).await;
    change(put("e")).await;
    assert_eq!(
        stage.group("e").await.expect("it is there").answers,
        Answers::default()
    );
}

async fn a_fire_check_sees_the_answer(base: &Base) {
    let stage = Stage::on(base).await;
    stage.plan("e", &[new("e", 0)]).await;
    let said = acknowledged(minute(1));
    assert!(answer(&stage, "e", (Answers::default(), said.clone())).await);
    let claims = stage.claim().await;
    let checked = stage.fire(&claims, 1, &crate::store::send()).await;
    assert_eq!(*checked.granted[0].answers, [said]);
}
