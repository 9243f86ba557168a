//! What people want of their alarms, from what a caller says of them to what is recorded: default alarms, routes, muted
//! sources, and whom else an alarm writes to.

use chrono::TimeDelta;
use serde_json::Value;
use serde_json::json;

use super::Edge;

/// An event at 10:00 UTC on 1 December 2026, with further lines and components.
fn calendar(lines: &str) -> String {
    let text = format!(
        "BEGIN:VCALENDAR\nVERSION:2.0\nPRODID:-//carillon//test//EN\nBEGIN:VEVENT\nUID:tea\nDTSTAMP:20261101T000000Z\n\
         DTSTART:20261201T100000Z\nDURATION:PT1H\nSUMMARY:Tea\n{lines}\nEND:VEVENT\nEND:VCALENDAR\n"
    );
    text.replace("\n\n", "\n").replace('\n', "\r\n")
}

/// A VALARM a quarter of an hour before.
fn alarm(action: &str, lines: &str) -> String {
    format!("BEGIN:VALARM\nACTION:{action}\nTRIGGER:-PT15M\nSUMMARY:x\nDESCRIPTION:x\n{lines}\nEND:VALARM\n")
        .replace("\n\n", "\n")
}

impl Edge {
    /// Introduces somebody in UTC who wants these things.
    async fn person(&self, id: &str, wants: Value) -> Value {
        let mut body = json!({ "email": format!("{id}@example.org") });
        body.as_object_mut()
            .expect("it is one")
            .extend(wants.as_object().expect("it is one").clone());
        let reply = self.put_json(&format!("/v1/owners/{id}"), &body).await;
        assert!(reply.status.is_success(), "{}", reply.text);
        reply.json()
    }

    /// Puts somebody's copy; returns the answer.
    async fn copy(&self, source: &str, owner: &str, ics: String) -> Value {
        let path = format!("/v1/sources/{source}/events/tea?owner={owner}");
        let reply = self.put_event(&path, ics).await;
        assert!(reply.status.is_success(), "{}", reply.text);
        reply.json()
    }

    /// When the triggers of somebody's copy go off, as `01 09:45`.
    async fn planned(&self, source: &str, owner: &str) -> Vec<String> {
        let path = format!("/v1/sources/{source}/events/tea/triggers?owner={owner}");
        let reply = self.get(&path).await.json();
        let triggers = reply["triggers"].as_array().expect("a list");
        let at =
            |trigger: &Value| trigger["trigger_at"].as_str().expect("an instant")[8..16].replace('T', " ");
        triggers.iter().map(at).collect()
    }

    /// Lets two days pass; then what was recorded of these people, as `anna 01 09:45 owner sent`.
    async fn outcomes(&mut self, owners: &[&str]) -> Vec<String> {
        self.hand.advance(TimeDelta::days(2)).await;
        let mut outcomes = Vec::new();
        for owner in owners {
            for row in self.hand.history(owner).await {
                let (at, recipient) = (row.place.trigger_at.format("%d %H:%M"), &row.wish.recipient);
                let outcome = format!("{owner} {at} {recipient} {} {}", row.outcome, row.reason);
                outcomes.push(outcome.trim_end().to_owned());
            }
        }
        outcomes.sort();
        outcomes
    }
}

#[tokio::test]
async fn rule_21_the_most_specific_default_alarm_applies_to_an_event_that_has_none() {
    let edge = Edge::with(&[
        ("CARILLON__POLICIES__DEFAULTS__TIMED", "-PT1M"),
        ("CARILLON__POLICIES__DEFAULTS__ALL_DAY", "-PT15H"),
        ("CARILLON__SOURCES__OFFICE__DEFAULTS__TIMED", "-PT2M"),
    ])
    .await;
    let planned = async |source: &str, wants: Value| {
        edge.person("anna", wants).await;
        edge.copy(source, "anna", calendar("")).await;
        edge.planned(source, "anna").await
    };

    assert_eq!(
        planned("home", json!({})).await,
        ["01 09:59"],
        "the configuration's"
    );
    assert_eq!(
        planned("office", json!({})).await,
        ["01 09:58", "01 09:59"],
        "each copy by its source"
    );
    let own = json!({ "defaults": { "timed": ["-PT3M"] } });
    assert_eq!(planned("office", own.clone()).await, ["01 09:57"], "the owner's");
    let both = json!({ "defaults": { "timed": ["-PT3M"] }, "sources": { "office": { "defaults": { "timed": ["-PT4M", "PT0S"] } } } });
    assert_eq!(
        planned("office", both).await,
        ["01 09:56", "01 09:57", "01 10:00"],
        "the owner's for the source"
    );
    let none = json!({ "defaults": { "timed": [] } });
    assert_eq!(planned("office", none).await, [""; 0], "none is a statement");
}

#[tokio::test]
async fn rule_21_whole_days_have_defaults_of_their_own_and_tasks_have_none() {
    let edge = Edge::open().await;
    let wants =
        json!({ "time_zone": "Europe/Berlin", "defaults": { "timed": ["-PT10M"], "all_day": ["-PT15H"] } });
    edge.person("anna", wants).await;
    let whole_day = calendar("").replace(
        "DTSTART:20261201T100000Z\r\nDURATION:PT1H",
        "DTSTART;VALUE=DATE:20261203",
    );
    edge.copy(
        "home",
        "anna",
        whole_day.replace("SUMMARY", "TRANSP:TRANSPARENT\r\nSUMMARY"),
    )
    .await;
    assert_eq!(
        edge.planned("home", "anna").await,
        ["02 08:00"],
        "nine o'clock in Berlin the day before"
    );
    edge.copy("home", "anna", calendar("").replace("VEVENT", "VTODO"))
        .await;
    assert_eq!(edge.planned("home", "anna").await, [""; 0]);
}

#[tokio::test]
async fn rule_21_what_blocks_no_time_has_no_defaults_where_the_operator_says_so() {
    let edge = Edge::with(&[
        ("CARILLON__POLICIES__DEFAULTS__TIMED", "-PT1M"),
        ("CARILLON__POLICIES__DEFAULTS__TRANSPARENT", "false"),
    ])
    .await;
    edge.person("anna", json!({})).await;
    edge.copy("home", "anna", calendar("TRANSP:TRANSPARENT")).await;
    assert_eq!(edge.planned("home", "anna").await, [""; 0]);
    edge.copy("home", "anna", calendar("TRANSP:OPAQUE")).await;
    assert_eq!(edge.planned("home", "anna").await, ["01 09:59"]);
}

#[tokio::test]
async fn rule_21_any_alarm_of_the_event_ends_its_defaults() {
    let edge = Edge::open().await;
    edge.person("anna", json!({ "defaults": { "timed": ["-PT1M"] } }))
        .await;
    let unreadable = alarm("EMAIL", "").replace("-PT15M", "next monday");
    let apple = alarm("DISPLAY", "X-APPLE-DEFAULT-ALARM:TRUE");
    for own in [alarm("NONE", ""), alarm("DISPLAY", ""), unreadable, apple] {
        edge.copy("home", "anna", calendar("")).await;
        assert_eq!(edge.planned("home", "anna").await, ["01 09:59"]);
        edge.copy("home", "anna", calendar(&own)).await;
        assert_eq!(edge.planned("home", "anna").await, [""; 0], "{own}");
    }
    edge.copy("home", "anna", calendar(&alarm("EMAIL", ""))).await;
    assert_eq!(edge.planned("home", "anna").await, ["01 09:45"]);
}

#[tokio::test]
async fn r30_defaults_apply_to_overrides_and_u05_splitting_a_series_adds_none() {
    let mut edge = Edge::open().await;
    edge.person("anna", json!({ "defaults": { "timed": ["-PT15M"] } }))
        .await;
    let series = calendar("RRULE:FREQ=DAILY;COUNT=2").replace(
        "END:VCALENDAR",
        "BEGIN:VEVENT\r\nUID:tea\r\nDTSTAMP:20261101T000000Z\r\nRECURRENCE-ID:20261202T100000Z\r\n\
         DTSTART:20261202T120000Z\r\nSUMMARY:Later\r\nEND:VEVENT\r\nEND:VCALENDAR",
    );
    edge.copy("home", "anna", series.clone()).await;
    let future = series.replace("RECURRENCE-ID:", "RECURRENCE-ID;RANGE=THISANDFUTURE:");
    edge.copy("home", "anna", future).await;
    assert_eq!(
        edge.outcomes(&["anna"]).await,
        ["anna 01 09:45 owner sent", "anna 02 11:45 owner sent"]
    );
}

#[tokio::test]
async fn u04_u06_defaults_come_with_the_answer_to_an_invitation_and_go_with_it() {
    let edge = Edge::open().await;
    edge.person("anna", json!({ "defaults": { "timed": ["-PT15M"] } }))
        .await;
    let answered = |status: &str| calendar(&format!("ATTENDEE;PARTSTAT={status}:mailto:ANNA@example.org"));
    edge.copy("home", "anna", answered("DECLINED")).await;
    assert_eq!(edge.planned("home", "anna").await, [""; 0]);
    edge.copy("home", "anna", answered("ACCEPTED")).await;
    assert_eq!(edge.planned("home", "anna").await, ["01 09:45"]);
    edge.copy("home", "anna", answered("DECLINED")).await;
    assert_eq!(edge.planned("home", "anna").await, [""; 0]);
    edge.copy("home", "anna", calendar("STATUS:CANCELLED")).await;
    assert_eq!(edge.planned("home", "anna").await, [""; 0]);
}

#[tokio::test]
async fn rule_22_new_defaults_are_planned_at_once_and_what_was_sent_is_not_sent_again() {
    let mut edge = Edge::open().await;
    edge.person("anna", json!({ "defaults": { "timed": ["-PT90M"] } }))
        .await;
    edge.copy("home", "anna", calendar("")).await;
    edge.hand.advance(TimeDelta::hours(1)).await;

    edge.person("anna", json!({ "defaults": { "timed": ["-PT90M", "-PT15M"] } }))
        .await;
    assert_eq!(edge.planned("home", "anna").await, ["01 09:45"]);
    edge.person("anna", json!({ "defaults": { "timed": ["-PT90M", "-PT5M"] } }))
        .await;
    assert_eq!(edge.planned("home", "anna").await, ["01 09:55"]);

    assert_eq!(
        edge.outcomes(&["anna"]).await,
        ["anna 01 08:30 owner sent", "anna 01 09:55 owner sent"]
    );
}

#[tokio::test]
async fn d10_u05_one_event_in_two_calendars_is_one_message_by_default_alarms_too() {
    let mut edge = Edge::open().await;
    edge.person("anna", json!({ "defaults": { "timed": ["-PT15M"] } }))
        .await;
    edge.copy("home", "anna", calendar("")).await;
    edge.copy("office", "anna", calendar("")).await;
    assert_eq!(edge.planned("home", "anna").await, ["01 09:45"]);
    // The same event has an alarm of its own in one of the two: defaults would make it two.
    edge.copy("office", "anna", calendar(&alarm("EMAIL", ""))).await;
    assert_eq!(edge.outcomes(&["anna"]).await, ["anna 01 09:45 owner sent"]);
}

#[tokio::test]
async fn d10_u06_a_copy_in_a_muted_source_asks_for_nothing() {
    let mut edge = Edge::open().await;
    edge.person("anna", json!({})).await;
    let five = alarm("EMAIL", "").replace("-PT15M", "-PT5M");
    edge.copy("home", "anna", calendar(&five)).await;
    edge.copy("office", "anna", calendar(&alarm("EMAIL", ""))).await;
    assert_eq!(edge.planned("home", "anna").await, ["01 09:45", "01 09:55"]);

    edge.person("anna", json!({ "sources": { "office": { "muted": true } } }))
        .await;
    assert_eq!(edge.planned("home", "anna").await, ["01 09:55"]);
    let answer = edge
        .copy("office", "anna", calendar(&alarm("EMAIL", "X-A:1")))
        .await;
    assert!(
        answer["warnings"][0]
            .as_str()
            .is_some_and(|text| text.contains("muted source `office`")),
        "{answer}"
    );
    assert_eq!(edge.outcomes(&["anna"]).await, ["anna 01 09:55 owner sent"]);
}

#[tokio::test]
async fn u01_u06_each_person_says_what_becomes_of_display_alarms() {
    let mut edge = Edge::open().await;
    edge.person("anna", json!({ "display": "deliver" })).await;
    edge.person(
        "ben",
        json!({ "routes": [{ "action": "DISPLAY", "channel": "email" }] }),
    )
    .await;
    edge.person("cleo", json!({})).await;
    for owner in ["anna", "ben", "cleo"] {
        let answer = edge.copy("home", owner, calendar(&alarm("DISPLAY", ""))).await;
        assert_eq!(
            answer["warnings"].as_array().unwrap().len(),
            usize::from(owner == "cleo"),
            "{answer}"
        );
    }
    assert_eq!(
        edge.outcomes(&["anna", "ben", "cleo"]).await,
        ["anna 01 09:45 owner sent", "ben 01 09:45 owner sent"]
    );
}

#[tokio::test]
async fn p09_an_alarm_writes_to_its_owner_alone_unless_somebody_vouches() {
    let mut edge = Edge::open().await;
    edge.person("anna", json!({ "addresses": ["anna@example.net"] }))
        .await;
    let others = alarm(
        "EMAIL",
        "ATTENDEE:mailto:ANNA@example.net\nATTENDEE:mailto:Ben@Example.com\nATTENDEE:mailto:x@spam.test",
    );
    let answer = edge.copy("home", "anna", calendar(&others)).await;
    let warning = answer["warnings"][0].as_str().expect("a warning");
    assert!(
        warning.contains("(2, `ben@example.com` first): policies.recipients"),
        "{warning}"
    );
    assert_eq!(edge.outcomes(&["anna"]).await, ["anna 01 09:45 owner sent"]);

    for (environment, wants, told) in [
        (
            &[("CARILLON__POLICIES__RECIPIENTS", "verified")][..],
            json!({ "verified": ["ben@EXAMPLE.com"] }),
            1,
        ),
        (
            &[
                ("CARILLON__POLICIES__RECIPIENTS", "domains"),
                ("CARILLON__POLICIES__RECIPIENT_DOMAINS", "Example.COM"),
            ],
            json!({}),
            1,
        ),
        (
            &[("CARILLON__POLICIES__RECIPIENTS", "any")],
            json!({ "addresses": ["anna@example.net"] }),
            2,
        ),
    ] {
        let mut edge = Edge::with(environment).await;
        edge.person("anna", wants).await;
        edge.copy("home", "anna", calendar(&others)).await;
        let mut expected = vec![
            "anna 01 09:45 address:ben@example.com sent",
            "anna 01 09:45 address:x@spam.test sent",
        ];
        expected.truncate(told);
        expected.push("anna 01 09:45 owner sent");
        assert_eq!(edge.outcomes(&["anna"]).await, expected, "{environment:?}");
    }
}

#[tokio::test]
async fn d01_m14_everybody_is_told_once_however_many_copies_name_them() {
    let mut edge = Edge::with(&[("CARILLON__POLICIES__RECIPIENTS", "any")]).await;
    let everybody = ["anna", "ben", "cleo"];
    let lines = everybody
        .map(|name| format!("ATTENDEE:mailto:{name}@example.org\n"))
        .concat();
    let all = alarm("EMAIL", &(lines + "ATTENDEE:mailto:guest@example.com"));
    for name in everybody {
        edge.person(name, json!({})).await;
        edge.copy("home", name, calendar(&all)).await;
    }
    let outcomes = edge.outcomes(&everybody).await;

    let sent: Vec<&String> = outcomes.iter().filter(|row| row.ends_with("sent")).collect();
    assert_eq!(
        sent,
        [
            "anna 01 09:45 address:guest@example.com sent",
            "anna 01 09:45 owner sent",
            "ben 01 09:45 owner sent",
            "cleo 01 09:45 owner sent",
        ],
        "{outcomes:#?}"
    );
    assert!(
        outcomes
            .iter()
            .all(|row| row.ends_with("sent") || row.ends_with("suppressed told anyway"))
    );
    assert_eq!(outcomes.len(), 12, "each is accounted for");
}

#[tokio::test]
async fn p08_rooms_those_who_declined_and_what_is_no_address_are_left_out() {
    let mut edge = Edge::with(&[("CARILLON__POLICIES__RECIPIENTS", "any")]).await;
    edge.person("anna", json!({})).await;
    let event = "ATTENDEE;PARTSTAT=DECLINED:mailto:no@example.com\nATTENDEE;CUTYPE=ROOM:mailto:room@example.com\n\
                 ATTENDEE;PARTSTAT=ACCEPTED:mailto:yes@example.com\n";
    let alarm = alarm(
        "EMAIL",
        "ATTENDEE:mailto:no@example.com\nATTENDEE:mailto:room@example.com\nATTENDEE:mailto:yes@example.com\n\
         ATTENDEE;CUTYPE=RESOURCE:mailto:beamer@example.com\nATTENDEE:mailto:not an address\nATTENDEE:\n\
         ATTENDEE;EMAIL=path@example.com:/principals/users/path",
    );
    let answer = edge
        .copy("home", "anna", calendar(&(event.to_owned() + &alarm)))
        .await;
    let warnings = answer["warnings"].to_string();
    assert!(
        warnings.contains("`not an address` is no e-mail address"),
        "{warnings}"
    );
    assert_eq!(
        edge.outcomes(&["anna"]).await,
        [
            "anna 01 09:45 address:path@example.com sent",
            "anna 01 09:45 address:yes@example.com sent",
            "anna 01 09:45 owner sent",
        ]
    );
}

#[tokio::test]
async fn somebody_known_who_wants_nothing_gets_nothing_through_others_either() {
    let mut edge = Edge::with(&[("CARILLON__POLICIES__RECIPIENTS", "any")]).await;
    edge.person("anna", json!({})).await;
    edge.person("ben", json!({ "muted": ["email"] })).await;
    edge.person("cleo", json!({ "enabled": false })).await;
    let both = alarm(
        "EMAIL",
        "ATTENDEE:mailto:ben@example.org\nATTENDEE:mailto:cleo@example.org",
    );
    edge.copy("home", "anna", calendar(&both)).await;
    assert_eq!(
        edge.outcomes(&["anna"]).await,
        [
            "anna 01 09:45 address:ben@example.org suppressed muted",
            "anna 01 09:45 address:cleo@example.org suppressed disabled",
            "anna 01 09:45 owner sent",
        ]
    );
}

#[tokio::test]
async fn an_alarm_writes_to_twenty_others_at_the_most_and_says_so() {
    let edge = Edge::with(&[("CARILLON__POLICIES__RECIPIENTS", "any")]).await;
    edge.person("anna", json!({})).await;
    let many: Vec<String> = (0..30)
        .map(|index| format!("ATTENDEE:mailto:g{index:02}@example.com\n"))
        .collect();
    let answer = edge
        .copy("home", "anna", calendar(&alarm("EMAIL", &many.concat())))
        .await;
    assert_eq!(answer["planned"], 21, "{answer}");
    assert!(
        answer["warnings"]
            .to_string()
            .contains("(10, `g20@example.com` first): there are too many")
    );
}

#[tokio::test]
async fn what_somebody_wants_is_read_as_it_was_put() {
    let edge = Edge::open().await;
    let wants = json!({
        "display": "deliver",
        "routes": [{ "action": "AUDIO", "channel": "email" }],
        "defaults": { "timed": ["-PT15M"], "all_day": [] },
        "sources": { "office/main": { "muted": true, "defaults": { "timed": ["-P1D"] } } },
        "verified": ["ben@example.com"],
    });
    edge.person("anna", wants.clone()).await;
    let read = edge.get("/v1/owners/anna").await.json();
    for (field, value) in wants.as_object().unwrap() {
        assert_eq!(&read[field], value, "{field}");
    }
}

#[tokio::test]
async fn what_cannot_be_wanted_is_said_at_once_and_where() {
    let edge = Edge::open().await;
    let wrong = json!({
        "display": "shout",
        "routes": [
            { "action": "EMAIL", "channel": "fax" },
            { "action": "PROCEDURE", "channel": "email" },
            { "action": "EMAIL", "channel": "handler" },
        ],
        "defaults": { "timed": ["15m"], "all_day": ["-P1D", "P99999W"] },
        "sources": { "a/b": { "defaults": { "timed": ["x"] } } },
        "verified": ["b@"],
    });
    let problem = edge.put_json("/v1/owners/anna", &wrong).await.problem(422);
    let errors = problem["errors"].as_array().unwrap();
    let pointers: Vec<&str> = errors
        .iter()
        .map(|error| error["pointer"].as_str().unwrap())
        .collect();
    assert_eq!(
        pointers,
        [
            "/display",
            "/routes/0/channel",
            "/routes/1/action",
            "/routes/2/channel",
            "/verified/0",
            "/defaults/timed/0",
            "/defaults/all_day/1",
            "/sources/a~1b/defaults/timed/0",
        ]
    );
    assert!(
        errors[1]["detail"]
            .as_str()
            .unwrap()
            .contains("unknown channel `fax`: use email, sms or webhook")
    );
}

#[tokio::test]
async fn somebody_who_declined_one_instance_is_told_of_the_others() {
    let mut edge = Edge::with(&[("CARILLON__POLICIES__RECIPIENTS", "any")]).await;
    edge.person("anna", json!({})).await;
    let own = alarm("EMAIL", "ATTENDEE:mailto:ben@example.com");
    let master = calendar(&("RRULE:FREQ=HOURLY;COUNT=3\n".to_owned() + &own));
    let away = "RECURRENCE-ID:20261201T110000Z\nATTENDEE;PARTSTAT=DECLINED:mailto:ben@example.com\n";
    let declined = calendar(&(away.to_owned() + &own)).replace("DTSTART:20261201T10", "DTSTART:20261201T11");
    let override_of = &declined[declined.find("BEGIN:VEVENT").unwrap()..];
    let series = master.replace("END:VCALENDAR\r\n", override_of);

    edge.copy("home", "anna", series).await;

    assert_eq!(
        edge.outcomes(&["anna"]).await,
        [
            "anna 01 09:45 address:ben@example.com sent",
            "anna 01 09:45 owner sent",
            "anna 01 10:45 owner sent",
            "anna 01 11:45 address:ben@example.com sent",
            "anna 01 11:45 owner sent",
        ]
    );
}
