//! Alarms that write to others, with the real binary: the mails that arrive.

use serde_json::json;

use crate::harness::api::ADDRESS;
use crate::harness::calendar::Calendar;
use crate::harness::node::Home;
use crate::harness::sink::Mail;
use crate::harness::sink::Manners;
use crate::harness::sink::Sink;
use crate::harness::whole_second_in;

fn to<'m>(mails: &'m [Mail], address: &str) -> &'m Mail {
    let mail = mails.iter().find(|mail| mail.recipients == [address]);
    mail.unwrap_or_else(|| panic!("no mail for {address}"))
}

fn naming(others: &[&str]) -> String {
    let named = others
        .iter()
        .map(|address| format!("\r\nATTENDEE:mailto:{address}"));
    named.collect()
}

#[tokio::test]
async fn others_are_written_to_in_their_own_zone_and_language_where_they_are_known() {
    let sink = Sink::start().await;
    let home = Home::new().with_relay(sink.port);
    let node = home.with("POLICIES__RECIPIENTS", "any").start_with_owner().await;
    let gabi = json!({ "email": "Gabi@example.org", "time_zone": "Asia/Tokyo", "locale": "de" });
    node.put("/v1/owners/gabi", "application/json", gabi.to_string())
        .await
        .ok();
    let due = whole_second_in(3);
    let trigger = format!("TRIGGER;VALUE=DATE-TIME:{}", crate::harness::calendar::stamp(due));
    let alarm = trigger + &naming(&["gabi@example.org", "stranger@example.com", ADDRESS]);
    let event = Calendar::far_away("budget@example.org").alarm(&alarm);

    let answer = node.put_event("budget", &event).await.ok();
    assert_eq!(answer["planned"], 3, "{answer}");

    let mails = sink.mails(3).await;
    for (address, subject) in [
        (ADDRESS, "09:00"),
        ("stranger@example.com", "09:00"),
        ("gabi@example.org", "16:00"),
    ] {
        let mail = to(&mails, address);
        mail.assert_on_time(due);
        assert!(mail.raw.contains(subject), "{address}: {}", mail.raw);
    }
    let language = |address: &str| to(&mails, address).header("Content-Language");
    assert_eq!(
        (language(ADDRESS).as_str(), language("gabi@example.org").as_str()),
        ("en", "de")
    );
    node.history_of(3).await;
    assert_eq!(sink.log().mails.len(), 3);
}

#[tokio::test]
async fn others_hear_of_a_private_event_only_when_it_is() {
    let sink = Sink::start().await;
    let home = Home::new().with_relay(sink.port);
    let node = home.with("POLICIES__RECIPIENTS", "any").start_with_owner().await;
    let trigger = format!(
        "TRIGGER;VALUE=DATE-TIME:{}",
        crate::harness::calendar::stamp(whole_second_in(3))
    );
    let event = Calendar::far_away("doctor@example.org")
        .named("Dentist")
        .with("CLASS:PRIVATE")
        .with("LOCATION:Hill Road 5")
        .alarm(&(trigger + &naming(&["stranger@example.com", ADDRESS])));

    node.put_event("doctor", &event).await.ok();

    let mails = sink.mails(2).await;
    let (own, others) = (to(&mails, ADDRESS), to(&mails, "stranger@example.com"));
    assert!(
        own.raw.contains("Dentist") && own.raw.contains("Hill Road"),
        "{}",
        own.raw
    );
    assert!(others.raw.contains("09:00"), "{}", others.raw);
    assert!(
        !others.raw.contains("Dentist") && !others.raw.contains("Hill Road"),
        "{}",
        others.raw
    );
}

#[tokio::test]
async fn p02_p03_a_recipient_who_is_refused_stops_nobody_else() {
    let sink = Sink::start().await;
    let home = Home::new().with_relay(sink.port);
    let node = home
        .with("POLICIES__RECIPIENTS", "domains")
        .with("POLICIES__RECIPIENT_DOMAINS", "example.com")
        .start_with_owner()
        .await;
    sink.be(Manners::Refuse {
        times: 1,
        reply: "550 5.1.1 no such user",
    });
    let trigger = format!(
        "TRIGGER;VALUE=DATE-TIME:{}",
        crate::harness::calendar::stamp(whole_second_in(3))
    );
    let alarm = trigger + &naming(&["a@example.com", "b@example.com", "c@example.com"]);
    let event = Calendar::far_away("budget@example.org").alarm(&alarm);

    node.put_event("budget", &event).await.ok();

    let rows = node.history_of(4).await;
    let with = |outcome: &str| rows.iter().filter(|row| row["outcome"] == outcome).count();
    assert_eq!((with("sent"), with("failed")), (3, 1), "{rows:?}");
    assert_eq!(sink.mails(3).await.len(), 3);
}

#[tokio::test]
async fn addresses_that_a_relay_may_send_on_reach_no_relay() {
    const ROUTED: [&str; 2] = [
        "victim%25elsewhere.example@example.com",
        "elsewhere.example!victim@example.com",
    ];
    for policy in ["domains", "verified"] {
        let sink = Sink::start().await;
        let home = Home::new().with_relay(sink.port);
        let mut home = home.with("POLICIES__RECIPIENTS", policy);
        if policy == "domains" {
            home = home.with("POLICIES__RECIPIENT_DOMAINS", "example.com");
        }
        let node = home.start_with_owner().await;
        let verified = [
            "friend@example.com",
            "victim%elsewhere.example@example.com",
            ROUTED[1],
        ];
        let anna = json!({ "email": ADDRESS, "verified": verified });
        node.put("/v1/owners/anna", "application/json", anna.to_string())
            .await
            .ok();
        let trigger = format!(
            "TRIGGER;VALUE=DATE-TIME:{}",
            crate::harness::calendar::stamp(whole_second_in(3))
        );
        let alarm = trigger + &naming(&["friend@example.com", ROUTED[0], ROUTED[1]]);
        let event = Calendar::far_away("budget@example.org").alarm(&alarm);

        let answer = node.put_event("budget", &event).await.ok();
        let warnings = answer["warnings"].to_string();
        assert!(warnings.contains("may send mail for it on"), "{answer}");

        let rows = node.history_of(4).await;
        let refused: Vec<_> = rows
            .iter()
            .filter(|row| row["reason"] == "routed address")
            .collect();
        assert_eq!(refused.len(), 2, "{rows:?}");
        assert!(
            refused.iter().all(|row| row["outcome"] == "suppressed"),
            "{rows:?}"
        );
        let mails = sink.mails(2).await;
        to(&mails, ADDRESS);
        to(&mails, "friend@example.com");
        assert_eq!(sink.log().mails.len(), 2);
    }
}
