//! Reminders that go out as one message, with the real binary: the mails that arrive, through crashes too.

use std::collections::BTreeSet;

use chrono::DateTime;
use chrono::TimeDelta;
use chrono::Utc;
use mail_parser::MessageParser;
use serde_json::Value;
use serde_json::json;

use crate::harness::api::OWNER;
use crate::harness::api::SOURCE;
use crate::harness::calendar::Calendar;
use crate::harness::eventually;
use crate::harness::node::Home;
use crate::harness::node::Node;
use crate::harness::now;
use crate::harness::sink::Mail;
use crate::harness::sink::Manners;
use crate::harness::sink::Sink;
use crate::harness::whole_second_in;

/// A home whose owner gets so many mails in a timeframe, and is told of the others in one.
fn limited(sink: &Sink, amount: &str, timeframe: &str) -> Home {
    Home::new()
        .with_relay(sink.port)
        .with("CHANNELS__EMAIL__ON_LIMIT", "digest")
        .with("CHANNELS__EMAIL__LIMIT__AMOUNT", amount)
        .with("CHANNELS__EMAIL__LIMIT__TIMEFRAME", timeframe)
}

fn named(number: usize) -> String {
    format!("Budget {number:02}")
}

async fn put(node: &Node, numbers: std::ops::Range<usize>, due: DateTime<Utc>) {
    for number in numbers {
        let event = Calendar::far_away(&format!("e{number}@example.org")).named(&named(number));
        node.put_event(&format!("e{number}"), &event.alarm_at(due))
            .await
            .ok();
    }
}

/// Subject, text and HTML.
fn read(mail: &Mail) -> (String, String, String) {
    let message = MessageParser::default()
        .parse(&mail.raw)
        .expect("it is a message");
    let (text, html) = (message.body_text(0), message.body_html(0));
    let subject = message.subject().expect("it has a subject");
    (
        subject.to_owned(),
        text.expect("it has a text").replace("\r\n", "\n"),
        html.expect("it has HTML").replace("&#x2f;", "/"),
    )
}

/// How many of the reminders each message stands for, by history: with the id of the message.
fn told_by(history: &[Value], mail: &Mail) -> usize {
    let id = mail.trigger_id();
    let is_told = |row: &&Value| row["id"] == *id || (row["reason"] == "digest" && row["detail"] == *id);
    history.iter().filter(is_told).count()
}

#[tokio::test]
async fn what_is_over_the_limit_is_listed_in_one_mail_in_the_owners_zone_and_language() {
    let sink = Sink::start().await;
    let node = limited(&sink, "3", "4s").start_with_owner().await;
    let gabi = json!({ "email": "gabi@example.org", "time_zone": "Asia/Tokyo", "locale": "de" });
    node.put(
        &format!("/v1/owners/{OWNER}"),
        "application/json",
        gabi.to_string(),
    )
    .await
    .ok();
    let due = whole_second_in(4);
    put(&node, 0..8, due).await;
    put(&node, 8..10, due + TimeDelta::seconds(1)).await;

    let mails = sink.mails(4).await;

    let history = node.certain_history_of(10).await;
    assert!(history.iter().all(|row| row["outcome"] == "sent"), "{history:?}");
    assert_eq!(sink.log().mails.len(), 4, "each once");
    let mut counts: Vec<_> = mails.iter().map(|mail| told_by(&history, mail)).collect();
    assert_eq!(counts.pop(), Some(2), "{history:?}");
    counts.sort_unstable();
    assert_eq!(counts, [1, 1, 6], "{history:?}");
    let digest = mails.iter().find(|mail| told_by(&history, mail) == 6);
    let digest = digest.expect("it was counted");
    digest.assert_on_time(due);
    let (subject, text, html) = read(digest);
    assert!(
        subject.starts_with("6 Erinnerungen, zuerst: Budget "),
        "{subject}"
    );
    let when = "Montag, 3. Juni 2030, 16:00–17:00 Uhr (Asia/Tokyo, UTC+9)";
    for told in [&text, &html] {
        assert_eq!(told.matches(when).count(), 6, "{told}");
        let listed = (0..8).filter(|number| told.contains(&named(*number)));
        assert_eq!(listed.count(), 6, "{told}");
    }
    let last = mails.iter().map(|mail| mail.at).max().expect("there are mails");
    assert!(last - due >= TimeDelta::seconds(4), "{last}");
}

/// A node, three reminders of which are due at once and may leave as one mail; and what the relay does meanwhile.
async fn with_three_due(manners: Manners) -> (Sink, Node) {
    let sink = Sink::start().await;
    sink.be(manners);
    let node = limited(&sink, "1", "1h").start_with_owner().await;
    put(&node, 0..3, whole_second_in(3)).await;
    (sink, node)
}

/// Waits until all three are settled as sent, in the one message that was sent so many times.
async fn sent_as_one(sink: &Sink, node: &Node, times: usize) {
    let mails = sink.mails(times).await;
    let history = node.certain_history_of(3).await;
    for mail in &mails {
        assert_eq!(mail.message_id(), mails[0].message_id());
        assert_eq!(told_by(&history, mail), 3, "{history:?}");
        let (_, text, _) = read(mail);
        assert!((0..3).all(|number| text.contains(&named(number))), "{text}");
    }
    let owed =
        node.triggers("e0").await.len() + node.triggers("e1").await.len() + node.triggers("e2").await.len();
    assert_eq!((sink.log().mails.len(), owed), (times, 0));
}

#[tokio::test]
async fn killed_after_the_fire_check_a_digest_is_sent_once() {
    let (sink, mut node) = with_three_due(Manners::HoldGreeting).await;
    sink.connections(1).await;
    for key in ["e0", "e1", "e2"] {
        node.trigger_in_state(key, "sending").await;
    }
    node.kill();
    sink.be(Manners::Polite);

    node.start_again().await;

    sent_as_one(&sink, &node, 1).await;
}

#[tokio::test]
async fn killed_after_the_final_dot_a_digest_repeats_the_same_message_id() {
    let (sink, mut node) = with_three_due(Manners::HoldReply).await;
    sink.mails(1).await;
    node.kill();
    sink.be(Manners::Polite);

    node.start_again().await;

    sent_as_one(&sink, &node, 2).await;
}

#[tokio::test]
async fn killed_before_the_settle_a_digest_repeats_the_same_message_id() {
    let (sink, mut node) = with_three_due(Manners::HoldReply).await;
    sink.mails(1).await;
    let lock_of_ours = crate::crash::lock(&node.home).await;
    sink.be(Manners::Polite);
    eventually("the relay to have answered", async || {
        sink.log().mails[0].accepted.then_some(())
    })
    .await;
    node.kill();
    drop(lock_of_ours);

    node.start_again().await;

    sent_as_one(&sink, &node, 2).await;
}

#[tokio::test]
async fn a_digest_in_doubt_whose_first_reminder_is_deleted_repeats_the_same_message_id() {
    let sink = Sink::start().await;
    sink.be(Manners::HangUpAfterDot);
    let home = limited(&sink, "1", "1h").with("CHANNELS__EMAIL__RETRY__BACKOFF", "3s");
    let node = home.start_with_owner().await;
    put(&node, 0..3, whole_second_in(3)).await;
    let lead = sink.mails(1).await[0].trigger_id();
    let mut others = Vec::new();
    for number in 0..3 {
        let key = format!("e{number}");
        let trigger = node.trigger_in_state(&key, "claimed").await;
        if trigger["id"] == *lead {
            let path = format!("/v1/sources/{SOURCE}/events/{key}?owner={OWNER}");
            node.delete(&path).await.ok();
        } else {
            others.push(number);
        }
    }
    assert_eq!(others.len(), 2);

    sink.be(Manners::Polite);

    let mails = sink.mails(2).await;
    assert_eq!(mails[1].message_id(), mails[0].message_id());
    let (_, text, _) = read(&mails[1]);
    let listed: Vec<_> = (0..3).filter(|number| text.contains(&named(*number))).collect();
    assert_eq!(listed, others, "{text}");
    eventually("both to be settled as sent", async || {
        let history = node.history().await;
        (history.iter().filter(|row| row["outcome"] == "sent").count() == 2).then_some(())
    })
    .await;
    assert_eq!(sink.log().mails.len(), 2);
}

#[tokio::test]
async fn killed_after_the_settle_a_digest_is_not_sent_again() {
    let (sink, mut node) = with_three_due(Manners::Polite).await;
    sent_as_one(&sink, &node, 1).await;
    node.kill();

    node.start_again().await;

    // What follows is looked at, and so what preceded would have been.
    put(&node, 9..10, whole_second_in(2)).await;
    node.trigger_in_state("e9", "claimed").await;
    sent_as_one(&sink, &node, 1).await;
}

/// The node was down when they were due; what comes in time is told by itself.
#[tokio::test]
async fn what_was_missed_comes_as_one_mail_after_the_start() {
    let sink = Sink::start().await;
    let mut node = Home::new()
        .with_relay(sink.port)
        .with("POLICIES__CATCH_UP", "digest")
        .with("POLICIES__LATE_GRACE", "1s")
        .start_with_owner()
        .await;
    let due = whole_second_in(2);
    // The later the number, the earlier it starts.
    let starts = "2030-06-20T08:00:00Z".parse::<DateTime<Utc>>().unwrap();
    for number in 0..8_u8 {
        let start = starts - TimeDelta::days(number.into());
        let event = Calendar::starting(&format!("e{number}@example.org"), start);
        let event = event.named(&named(number.into())).alarm_at(due);
        node.put_event(&format!("e{number}"), &event).await.ok();
    }
    node.kill();
    eventually("the reminders to be missed", async || {
        (now() > due + TimeDelta::seconds(2)).then_some(())
    })
    .await;

    node.start_again().await;
    put(&node, 8..9, whole_second_in(1)).await;

    let mails = sink.mails(2).await;
    let history = node.certain_history_of(9).await;
    let counts: BTreeSet<_> = mails.iter().map(|mail| told_by(&history, mail)).collect();
    assert_eq!(counts, BTreeSet::from([1, 8]), "{history:?}");
    let digest = mails.iter().find(|mail| told_by(&history, mail) == 8);
    let (_, text, _) = read(digest.expect("it was counted"));
    let mut told: Vec<_> = (0..8).map(|number| (text.find(&named(number)), number)).collect();
    told.sort_unstable();
    let after_the_first: Vec<_> = told[1..].iter().map(|(_, number)| *number).collect();
    assert!(after_the_first.is_sorted_by(|one, next| one > next), "{text}");
}
