//! What goes out as one message, on a node driven by hand.

use std::time::Duration;

use carillon::channel::Blame;
use carillon::channel::Report;
use carillon::trigger::outcome::Outcome;
use carillon::trigger::outcome::Reason;
use chrono::TimeDelta;

use crate::delivery::Scene;
use crate::delivery::Scripted;
use crate::delivery::event;
use crate::delivery::refused;
use crate::delivery::sent;

const CATCH_UP: [(&str, &str); 1] = [("CARILLON__POLICIES__CATCH_UP", "digest")];

const ONE: [(&str, &str); 3] = [
    ("CARILLON__CHANNELS__EMAIL__ON_LIMIT", "digest"),
    ("CARILLON__CHANNELS__EMAIL__LIMIT__AMOUNT", "1"),
    ("CARILLON__CHANNELS__EMAIL__LIMIT__TIMEFRAME", "1h"),
];

/// Events of anna, an hour each apart from 09:00 on, at which they remind.
async fn hourly(scene: &Scene, count: u32) {
    for number in 0..count {
        let lines = format!("DTSTART:20261201T{:02}0000Z\nDURATION:PT9H", 9 + number);
        let uid = format!("e{number}");
        scene.hand.change(&uid, "anna", event(&uid, &lines)).await;
    }
}

#[tokio::test]
async fn what_an_outage_made_late_comes_as_one_message_that_lists_it() {
    let scene = Scene::new().await;
    hourly(&scene, 3).await;
    let lately = "DTSTART:20261201T115700Z\nDURATION:PT1H";
    scene.hand.change("f", "anna", event("f", lately)).await;

    let mut scene = scene.crash_into(Duration::from_hours(4), &CATCH_UP).await;
    scene.hand.settle_down().await;

    let outbox = scene.hand.store().outbox(None, None, 9).await;
    let outbox = outbox.expect("it is read");
    assert_eq!(outbox.len(), 2, "{outbox:?}");
    let digest = outbox
        .iter()
        .find(|it| it.message.subject == "3 reminders, first: Tea")
        .expect("a digest");
    for line in [
        "- Started 3 hours ago: Tea\n  When: Tuesday, 1 December 2026, 10:00-19:00 (Europe/Berlin, UTC+1)\n",
        "- Started 2 hours ago: Tea\n  When: Tuesday, 1 December 2026, 11:00-20:00 (Europe/Berlin, UTC+1)\n",
        "- Started 1 hour ago: Tea\n  When: Tuesday, 1 December 2026, 12:00-21:00 (Europe/Berlin, UTC+1)\n",
        "  This reminder is late: it was due on Tuesday, 1 December 2026, 10:00.\n",
    ] {
        assert!(digest.message.text.contains(line), "{}", digest.message.text);
    }
    let history = scene.hand.history("anna").await;
    let mut ends: Vec<_> = history
        .iter()
        .map(|row| {
            let at = row.place.trigger_at.format("%H:%M").to_string();
            (at, row.outcome, row.reason, row.detail == digest.id.to_string())
        })
        .collect();
    ends.sort_by(|one, other| one.0.cmp(&other.0));
    let end = |at: &str, reason, is_named| (at.to_owned(), Outcome::Sent, reason, is_named);
    assert_eq!(
        ends,
        [
            end("09:00", Reason::None, false),
            end("10:00", Reason::Digest, true),
            end("11:00", Reason::Digest, true),
            end("11:57", Reason::None, false),
        ]
    );
}

#[tokio::test]
async fn a_message_lists_fifty_and_says_how_many_more_there_are() {
    let scene = Scene::new().await;
    for number in 0..60 {
        let lines = format!("DTSTART:20261201T09{number:02}00Z\nDURATION:PT9H");
        let uid = format!("e{number}");
        scene.hand.change(&uid, "anna", event(&uid, &lines)).await;
    }

    let mut scene = scene.crash_into(Duration::from_hours(4), &CATCH_UP).await;
    scene.hand.settle_down().await;

    let outbox = scene.hand.store().outbox(None, None, 9).await;
    let outbox = outbox.expect("it is read");
    assert_eq!(outbox.len(), 1);
    let message = &outbox[0].message;
    assert_eq!(message.subject, "60 reminders, first: Tea");
    assert_eq!(message.text.matches("\n- ").count(), 50);
    assert!(message.text.contains("\nAnd 10 more, "), "{}", message.text);
    assert_eq!(scene.hand.history("anna").await.len(), 60);
}

#[tokio::test]
async fn what_is_refused_or_in_doubt_is_tried_again_as_the_same_message() {
    let in_doubt = Report::InDoubt {
        error: "the connection was lost".to_owned(),
    };
    let answers = [refused(Blame::Target), refused(Blame::Message), in_doubt];
    let channel = Scripted::new(answers.map(Some));
    let mut scene = Scene::set(&ONE, Some(channel.clone())).await;
    for uid in ["e", "f", "g"] {
        let lines = "DTSTART:20261201T090000Z\nDURATION:PT9H";
        scene.hand.change(uid, "anna", event(uid, lines)).await;
    }

    scene.hand.advance(TimeDelta::hours(2)).await;

    let ids = channel.ids.lock().expect("no test panics in it").clone();
    assert_eq!(ids, vec![ids[0].clone(); 4]);
    let digest = ("01 09:00".to_owned(), Outcome::Sent, Reason::Digest);
    let mut outcomes = scene.outcomes().await;
    outcomes.sort_by_key(|(_, _, reason)| reason.as_str());
    assert_eq!(outcomes, [sent("01 09:00"), digest.clone(), digest]);
}

#[tokio::test]
async fn what_is_refused_for_good_has_failed_for_each() {
    let channel = Scripted::new([Some(Report::Permanent {
        error: "550 no".to_owned(),
    })]);
    let mut scene = Scene::set(&ONE, Some(channel)).await;
    for uid in ["e", "f"] {
        scene
            .hand
            .change(uid, "anna", event(uid, "DTSTART:20261201T090000Z"))
            .await;
    }

    scene.hand.advance(TimeDelta::hours(2)).await;

    let failed = ("01 09:00".to_owned(), Outcome::Failed, Reason::Refused);
    assert_eq!(scene.outcomes().await, [failed.clone(), failed]);
}

#[tokio::test]
async fn what_cannot_be_told_is_left_out_and_recorded_as_that() {
    let channel = Scripted::new([Some(refused(Blame::Message))]);
    let mut scene = Scene::set(&ONE, Some(channel.clone())).await;
    for uid in ["e", "f", "g"] {
        let lines = "DTSTART:20261201T090000Z\nDURATION:PT9H";
        scene.hand.change(uid, "anna", event(uid, lines)).await;
    }
    scene
        .hand
        .advance(TimeDelta::minutes(60) + TimeDelta::seconds(5))
        .await;
    scene
        .damage("UPDATE event SET ics = replace(ics, 'DTSTART:20261201', 'DTSTART:20261202') WHERE uid = 'f'")
        .await;

    scene.hand.advance(TimeDelta::hours(1)).await;

    let mut outcomes = scene.outcomes().await;
    outcomes.sort_by_key(|(_, _, reason)| reason.as_str());
    let digest = ("01 09:00".to_owned(), Outcome::Sent, Reason::Digest);
    let unreadable = ("01 09:00".to_owned(), Outcome::Failed, Reason::Unreadable);
    assert_eq!(outcomes, [sent("01 09:00"), digest, unreadable]);
}
