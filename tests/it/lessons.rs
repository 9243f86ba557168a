//! What went wrong elsewhere, by the id of its report, where it takes a store and time to go wrong.

use carillon::trigger::outcome::Outcome;
use carillon::trigger::outcome::Reason;
use chrono::TimeDelta;

use crate::delivery::Scene;
use crate::delivery::event;
use crate::delivery::sent;
use crate::harness::calendar::Calendar;
use crate::harness::node::Home;
use crate::harness::sink::Sink;
use crate::harness::whole_second_in;

#[tokio::test]
async fn d08_m12_an_alarm_that_is_written_again_under_its_uid_stays_what_it_is() {
    let mut scene = Scene::new().await;
    let text =
        event("e", "DTSTART:20261201T090000Z\nDURATION:PT4H").replace("TRIGGER:", "UID:a1\r\nTRIGGER:");
    scene.hand.change("e", "anna", text.clone()).await;
    scene.hand.advance(TimeDelta::minutes(62)).await;
    let rewritten = text
        .replace("DESCRIPTION:x", "DESCRIPTION:another\r\nX-WR-ALARMUID:77")
        .replace("UID:a1", "UID:a1\r\nACKNOWLEDGED:20261201T090100Z");
    let answer = scene.hand.change("e", "anna", rewritten).await;
    assert_eq!(answer.planned, 0);
    scene.hand.advance(TimeDelta::hours(1)).await;
    assert_eq!(scene.outcomes().await, [sent("01 09:00")]);
}

#[tokio::test]
async fn m07_an_event_that_is_moved_into_the_past_reminds_of_nothing() {
    let mut scene = Scene::new().await;
    scene
        .hand
        .change("e", "anna", event("e", "DTSTART:20261203T090000Z"))
        .await;
    scene
        .hand
        .change("e", "anna", event("e", "DTSTART:20261120T090000Z"))
        .await;
    scene.hand.advance(TimeDelta::days(3)).await;
    let past = ("20 09:00".to_owned(), Outcome::Suppressed, Reason::Past);
    assert_eq!(scene.outcomes().await, [past]);
}

#[tokio::test]
async fn r07_r08_a_series_as_old_as_the_hills_is_stored_and_stops_nobody() {
    let mut scene = Scene::new().await;
    let old = "DTSTART:16010101T083000Z\nRRULE:FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR";
    let answer = scene.hand.change("old", "anna", event("old", old)).await;
    assert_eq!(answer.planned, 1);
    scene
        .hand
        .change("e", "anna", event("e", "DTSTART:20261201T090000Z"))
        .await;
    scene.hand.advance(TimeDelta::days(1)).await;
    assert_eq!(scene.outcomes().await, [sent("01 08:30"), sent("01 09:00")]);
}

#[tokio::test]
async fn r19_z15_saving_again_moves_nothing() {
    let mut scene = Scene::new().await;
    let days: Vec<String> = (1..300)
        .map(|day| {
            let day = chrono::NaiveDate::from_ymd_opt(2027, 1, 1).expect("a day") + TimeDelta::days(day);
            format!("EXDATE;TZID=America/New_York:{}T040000", day.format("%Y%m%d"))
        })
        .collect();
    let lines = format!(
        "DTSTART;TZID=America/New_York:20261130T040000\nRRULE:FREQ=DAILY\n{}",
        days.join("\n")
    );
    for room in ["", "\nLOCATION:1", "\nLOCATION:2"] {
        let text = event("e", &(lines.clone() + room)).replace("TRIGGER:PT0S", "TRIGGER:-PT15M");
        let answer = scene.hand.change("e", "anna", text).await;
        assert_eq!(
            (answer.planned, answer.withdrawn),
            (usize::from(room.is_empty()), 0)
        );
    }
    scene.hand.advance(TimeDelta::hours(12)).await;
    assert_eq!(scene.outcomes().await, [sent("01 08:45")]);
}

#[tokio::test]
async fn r28_the_chain_survives_a_deleted_occurrence_and_a_moved_one() {
    let mut scene = Scene::new().await;
    let series = "DTSTART:20261201T090000Z\nRRULE:FREQ=DAILY;COUNT=4";
    scene.hand.change("e", "anna", event("e", series)).await;
    scene.hand.advance(TimeDelta::hours(2)).await;
    let without = event("e", &format!("{series}\nEXDATE:20261202T090000Z"));
    let moved = "BEGIN:VEVENT\r\nUID:e\r\nDTSTAMP:20261101T000000Z\r\nRECURRENCE-ID:20261203T090000Z\r\n\
                 DTSTART:20261203T100000Z\r\nBEGIN:VALARM\r\nACTION:EMAIL\r\nTRIGGER:PT0S\r\nSUMMARY:x\r\n\
                 DESCRIPTION:x\r\nEND:VALARM\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n";
    scene
        .hand
        .change("e", "anna", without.replace("END:VCALENDAR\r\n", moved))
        .await;
    scene.hand.advance(TimeDelta::days(5)).await;
    assert_eq!(
        scene.outcomes().await,
        [sent("01 09:00"), sent("03 10:00"), sent("04 09:00")]
    );
}

#[tokio::test]
async fn l06_what_was_due_before_its_event_was_made_is_told_at_once_or_never() {
    let mut scene = Scene::new().await;
    let soon = event("e", "DTSTART:20261201T080100Z\nDURATION:PT3H");
    let never = soon.replace("TRIGGER:PT0S", "TRIGGER:-PT10M");
    let at_once = soon
        .replace("UID:e", "UID:f")
        .replace("TRIGGER:PT0S", "TRIGGER:-PT4M");
    scene.hand.change("e", "anna", never).await;
    scene.hand.change("f", "anna", at_once).await;
    scene.hand.advance(TimeDelta::seconds(1)).await;
    let past = ("01 07:51".to_owned(), Outcome::Suppressed, Reason::Past);
    let told = [past, sent("01 07:57")];
    assert_eq!(scene.outcomes().await, told);
    scene.hand.advance(TimeDelta::hours(3)).await;
    assert_eq!(scene.outcomes().await, told);
}

#[tokio::test]
async fn a16_an_email_alarm_that_says_nothing_says_what_its_event_says() {
    let sink = Sink::start().await;
    let node = Home::new().with_relay(sink.port).start_with_owner().await;
    let event = Calendar::far_away("budget@example.org").alarm_at(whole_second_in(2));
    let bare = event
        .text()
        .replace("SUMMARY:Reminder\r\nDESCRIPTION:Reminder\r\n", "");
    assert_ne!(bare, event.text());
    let path = "/v1/sources/tests/events/budget?owner=anna";
    let answer = node.put(path, "text/calendar", bare).await.ok();
    assert_eq!(answer["warnings"], serde_json::json!([]));
    let mails = sink.mails(1).await;
    assert!(
        mails[0].header("Subject").contains("Budget round"),
        "{}",
        mails[0].raw
    );
}
