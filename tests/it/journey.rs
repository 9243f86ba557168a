//! A reminder's whole way, with the real binary: from the request that causes it to the mail that arrives.

use chrono::TimeDelta;
use mail_parser::MessageParser;
use serde_json::json;

use crate::harness::api::ADDRESS;
use crate::harness::api::OWNER;
use crate::harness::api::SOURCE;
use crate::harness::api::items;
use crate::harness::calendar::Calendar;
use crate::harness::calendar::stamp;
use crate::harness::node::Home;
use crate::harness::postfix;
use crate::harness::postfix::Postfix;
use crate::harness::sink::Mail;
use crate::harness::sink::Manners;
use crate::harness::sink::Sink;
use crate::harness::smtp_sink::KEEP;
use crate::harness::smtp_sink::SmtpSink;
use crate::harness::whole_second_in;

/// The mail with its quoted-printable decoded and what differs from run to run blanked.
fn blanked(mail: &Mail) -> String {
    let kind = mail.header("Content-Type");
    let boundary = kind
        .split('"')
        .nth(1)
        .expect("the mail has two forms, and a boundary between them");
    let text = mail.raw.replace("=\n", "").replace("=3D", "=");
    let text = text
        .replace(boundary, "[boundary]")
        .replace(&mail.trigger_id(), "[trigger]");
    let lines = text.lines().map(|line| {
        if line.starts_with("Date: ") {
            return "Date: [now]".to_owned();
        }
        match (line.find("Starts in "), line.find("</p>")) {
            (Some(start), end) => format!(
                "{}[relative]{}",
                &line[..start],
                end.map_or("", |end| &line[end..])
            ),
            (None, _) => line.to_owned(),
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn an_alarm_becomes_one_mail_at_its_instant() {
    let sink = Sink::start().await;
    let node = Home::new().with_relay(sink.port).start_with_owner().await;
    let due = whole_second_in(3);
    let event = Calendar::far_away("budget@example.org")
        .with("LOCATION:Room 12")
        .with("DESCRIPTION:Bring the figures <of last year> & a pen.")
        .alarm_at(due);

    let answer = node.put_event("budget", &event).await.ok();
    assert_eq!(answer["planned"], 1, "{answer}");

    let mails = sink.mails(1).await;
    mails[0].assert_on_time(due);
    assert_eq!(mails[0].recipients, [ADDRESS]);
    insta::assert_snapshot!("mail", blanked(&mails[0]));
    let rows = node.history_of(1).await;
    assert_eq!(rows[0]["id"], mails[0].trigger_id());
    assert_eq!(rows[0]["outcome"], "sent");
    assert_eq!(sink.log().mails.len(), 1);
}

#[tokio::test]
async fn smtp_sink_takes_it_too() {
    let sink = SmtpSink::start(&KEEP).await;
    let node = Home::new().with_relay(sink.port).start_with_owner().await;
    let event = Calendar::far_away("budget@example.org").alarm_at(whole_second_in(2));

    node.put_event("budget", &event).await.ok();

    let mails = sink.mails(1).await;
    assert!(
        mails[0].contains(&format!("X-Rcpt-Args: <{ADDRESS}>")),
        "{}",
        mails[0]
    );
    assert_eq!(node.history_of(1).await[0]["outcome"], "sent");
    assert_eq!(sink.mails(1).await.len(), 1);
}

#[tokio::test]
async fn a_real_postfix_relays_it() {
    let sink = Sink::start().await;
    let postfix = Postfix::start(&postfix::next(sink.port)).await;
    let node = Home::new().with_relay(postfix.port).start_with_owner().await;
    let due = whole_second_in(3);
    let event = Calendar::far_away("budget@example.org").alarm_at(due);

    node.put_event("budget", &event).await.ok();

    let mails = sink.mails(1).await;
    mails[0].assert_on_time(due);
    assert_eq!(mails[0].recipients, [ADDRESS]);
    let rows = node.history_of(1).await;
    assert_eq!(rows[0]["outcome"], "sent");
    assert_eq!(
        rows[0]["id"],
        mails[0].trigger_id(),
        "Postfix kept the Message-ID"
    );
    assert_eq!(sink.log().mails.len(), 1);
}

#[tokio::test]
async fn a_real_postfix_relays_it_in_japanese() {
    let sink = Sink::start().await;
    let postfix = Postfix::start(&postfix::next(sink.port)).await;
    let node = Home::new().with_relay(postfix.port).start().await;
    let owner = json!({ "email": ADDRESS, "time_zone": "Asia/Tokyo", "locale": "ja-JP" });
    node.put(
        &format!("/v1/owners/{OWNER}"),
        "application/json",
        owner.to_string(),
    )
    .await
    .ok();
    let event = Calendar::far_away("budget@example.org")
        .named("予算会議")
        .with("LOCATION:第2会議室")
        .alarm_at(whole_second_in(3));

    node.put_event("budget", &event).await.ok();

    let mails = sink.mails(1).await;
    assert!(mails[0].raw.is_ascii(), "no relay needs an extension for it");
    let mail = MessageParser::default()
        .parse(mails[0].raw.as_bytes())
        .expect("it is a mail");
    assert_eq!(
        mail.subject(),
        Some("リマインダー: 予算会議 - 2030年6月3日(月) 16:00～17:00 (Asia/Tokyo, UTC+9)")
    );
    assert_eq!(mails[0].header("Content-Language"), "ja");
    let text = mail.body_text(0).expect("it has text");
    assert!(
        text.contains("日時：2030年6月3日月曜日 16:00～17:00 (Asia/Tokyo, UTC+9)"),
        "{text}"
    );
    assert!(text.contains("場所：第2会議室"), "{text}");
    let html = mail.body_html(0).expect("it has HTML");
    assert!(
        html.contains("<html lang=\"ja\"") && html.contains("<bdi>予算会議</bdi>"),
        "{html}"
    );
}

#[tokio::test]
async fn what_a_real_postfix_refuses_for_good_is_tried_once() {
    let sink = Sink::start().await;
    let postfix = Postfix::start(&postfix::next(sink.port)).await;
    let node = Home::new().with_relay(postfix.port).start().await;
    let owner = json!({ "email": postfix::GONE, "time_zone": "UTC", "locale": "en" });
    node.put(
        &format!("/v1/owners/{OWNER}"),
        "application/json",
        owner.to_string(),
    )
    .await
    .ok();
    let event = Calendar::far_away("budget@example.org").alarm_at(whole_second_in(2));

    node.put_event("budget", &event).await.ok();

    let rows = node.history_of(1).await;
    assert_eq!(rows[0]["outcome"], "failed", "{rows:?}");
    assert_eq!(rows[0]["reason"], "refused", "{rows:?}");
    assert_eq!(rows[0]["attempts"], 1, "{rows:?}");
}

#[tokio::test]
async fn what_is_refused_for_now_is_tried_again_with_the_same_message_id() {
    let sink = Sink::start().await;
    sink.be(Manners::Refuse {
        times: 2,
        reply: "451 4.7.1 come back later",
    });
    let home = Home::new()
        .with_relay(sink.port)
        .with("CHANNELS__EMAIL__RETRY__BACKOFF", "1s");
    let node = home.start_with_owner().await;
    let event = Calendar::far_away("budget@example.org").alarm_at(whole_second_in(2));

    node.put_event("budget", &event).await.ok();

    let rows = node.history_of(1).await;
    assert_eq!(rows[0]["outcome"], "sent", "{rows:?}");
    assert_eq!(rows[0]["attempts"], 3, "{rows:?}");
    assert_eq!(sink.log().mails.len(), 1);
}

#[tokio::test]
async fn a_connection_lost_after_the_final_dot_is_repeated_with_the_same_message_id() {
    let sink = Sink::start().await;
    sink.be(Manners::HangUpAfterDot);
    let home = Home::new()
        .with_relay(sink.port)
        .with("CHANNELS__EMAIL__RETRY__BACKOFF", "1s");
    let node = home.start_with_owner().await;
    let event = Calendar::far_away("budget@example.org").alarm_at(whole_second_in(2));
    node.put_event("budget", &event).await.ok();
    sink.mails(1).await;
    sink.be(Manners::Polite);

    let mails = sink.mails(2).await;

    // All but the Date, which says when the attempt was built, and how long it is until then.
    assert_eq!(
        blanked(&mails[0]),
        blanked(&mails[1]),
        "the rendered bytes are the same on every retry"
    );
    assert_eq!(mails[0].header("Message-ID"), mails[1].header("Message-ID"));
    // Until the second is settled, history says of the first that it is in doubt.
    assert_eq!(node.certain_history_of(1).await[0]["outcome"], "sent");
}

#[tokio::test]
async fn without_a_relay_the_outbox_keeps_it() {
    let node = Home::new().start_with_owner().await;
    let event = Calendar::far_away("budget@example.org").alarm_at(whole_second_in(2));

    node.put_event("budget", &event).await.ok();

    node.history_of(1).await;
    let entries = items(&node.get("/v1/outbox").await.ok());
    assert_eq!(entries.len(), 1, "{entries:?}");
    assert_eq!(entries[0]["to"], ADDRESS);
    let subject = entries[0]["subject"].as_str().expect("a message has a subject");
    assert!(subject.contains("Budget round"), "{subject}");
    assert!(
        node.home.output().contains("outbox"),
        "the log says where messages go"
    );
}

#[tokio::test]
async fn the_second_alarm_follows_the_first() {
    let sink = Sink::start().await;
    let node = Home::new().with_relay(sink.port).start_with_owner().await;
    let due = [whole_second_in(3), whole_second_in(5)];
    let event = Calendar::far_away("budget@example.org")
        .alarm_at(due[0])
        .alarm_at(due[1]);

    node.put_event("budget", &event).await.ok();

    let mails = sink.mails(2).await;
    mails[0].assert_on_time(due[0]);
    mails[1].assert_on_time(due[1]);
    assert_ne!(mails[0].message_id(), mails[1].message_id());
}

#[tokio::test]
async fn each_occurrence_of_a_series_follows_the_one_before() {
    let sink = Sink::start().await;
    let node = Home::new().with_relay(sink.port).start_with_owner().await;
    // A minute is the shortest pause between two firings; the first is past, but lately enough to be sent at once.
    let second = whole_second_in(4);
    let (first, third) = (second - TimeDelta::minutes(1), second + TimeDelta::minutes(1));
    let event = Calendar::starting("standup@example.org", first)
        .with(&format!("RDATE:{},{}", stamp(second), stamp(third)))
        .alarm("TRIGGER:PT0S");

    node.put_event("standup", &event).await.ok();

    let mails = sink.mails(2).await;
    assert!(mails[0].at < second, "the first was sent at once");
    mails[1].assert_on_time(second);
    node.history_of(2).await;
    let owed = node.triggers("standup").await;
    assert_eq!(owed.len(), 1, "one at a time is owed: {owed:?}");
    assert_eq!(owed[0]["trigger_at"], json!(third));
}

#[tokio::test]
async fn m02_r06_l01_a_moved_event_reminds_at_its_new_instant_only() {
    let sink = Sink::start().await;
    let node = Home::new().with_relay(sink.port).start_with_owner().await;
    let (before, after) = (whole_second_in(4), whole_second_in(6));
    let event = |due| Calendar::starting("budget@example.org", due).alarm("TRIGGER:PT0S");

    node.put_event("budget", &event(before)).await.ok();
    let moved = node.put_event("budget", &event(after)).await.ok();

    assert_eq!(moved["withdrawn"], 1, "{moved}");
    let mails = sink.mails(1).await;
    mails[0].assert_on_time(after);
    node.history_of(1).await;
    assert_eq!(sink.log().mails.len(), 1);
}

#[tokio::test]
async fn m01_a_deleted_event_reminds_of_nothing() {
    let sink = Sink::start().await;
    let node = Home::new().with_relay(sink.port).start_with_owner().await;
    let due = whole_second_in(2);
    let doomed = Calendar::far_away("doomed@example.org").alarm_at(due);
    node.put_event("doomed", &doomed).await.ok();
    let path = format!("/v1/sources/{SOURCE}/events/doomed?owner={OWNER}");
    node.delete(&path).await.ok();

    let kept = Calendar::far_away("kept@example.org").alarm_at(due + TimeDelta::seconds(1));
    node.put_event("kept", &kept).await.ok();

    node.history_of(1).await;
    assert_eq!(sink.log().mails.len(), 1, "only the one that was kept");
}
