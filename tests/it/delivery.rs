//! From a change to history on one node driven by hand: how series go on, what is recorded of what is not sent, and
//! what an outage, an edit, a second copy or a stepped clock does to a reminder.

mod digest;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use carillon::change::Incoming;
use carillon::channel::Blame;
use carillon::channel::Channel;
use carillon::channel::Deadline;
use carillon::channel::Message;
use carillon::channel::Report;
use carillon::clock::Clock;
use carillon::clock::ManualClock;
use carillon::shutdown::Shutdown;
use carillon::store::Delivery;
use carillon::store::EventKey;
use carillon::store::Owner;
use carillon::store::Webhook;
use carillon::trigger::ChannelKind;
use carillon::trigger::OwnerId;
use carillon::trigger::outcome::Outcome;
use carillon::trigger::outcome::Reason;
use carillon::trigger::preferences::Action;
use carillon::trigger::preferences::Route;
use chrono::TimeDelta;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::by_hand::Hand;
use crate::by_hand::instant;
use crate::by_hand::owner;
use crate::harness::eventually;

const NOW: &str = "2026-12-01T08:00:00Z";

/// An event with these lines and an e-mail alarm at its start.
pub fn event(uid: &str, lines: &str) -> String {
    let lines = lines.replace('\n', "\r\n");
    format!(
        "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//carillon//test//EN\r\nBEGIN:VEVENT\r\nUID:{uid}\r\n\
         DTSTAMP:20261101T000000Z\r\n{lines}\r\nSUMMARY:Tea\r\nBEGIN:VALARM\r\nACTION:EMAIL\r\nTRIGGER:PT0S\r\n\
         SUMMARY:x\r\nDESCRIPTION:x\r\nEND:VALARM\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"
    )
}

/// A node in a folder of its own, with an owner `anna` in Berlin.
pub struct Scene {
    folder: TempDir,
    clock: Arc<ManualClock>,
    pub hand: Hand,
}

impl Scene {
    /// At 08:00 UTC on 1 December 2026.
    pub async fn new() -> Self {
        Self::through(None).await
    }

    async fn through(channel: Option<Arc<dyn Channel>>) -> Self {
        Self::set(&[], channel).await
    }

    async fn set(environment: &[(&str, &str)], channel: Option<Arc<dyn Channel>>) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let clock = Arc::new(ManualClock::at(instant(NOW)));
        let hand = Hand::start_through(folder.path(), &clock, environment, channel).await;
        hand.owner("anna", "Europe/Berlin").await;
        Self { folder, clock, hand }
    }

    /// The node dies; after `outage` it starts again.
    async fn crash(self, outage: Duration) -> Self {
        self.crash_into(outage, &[]).await
    }

    /// The same with another configuration.
    async fn crash_into(self, outage: Duration, environment: &[(&str, &str)]) -> Self {
        let Self { folder, clock, hand } = self;
        drop(hand);
        clock.advance(outage);
        let hand = Hand::start(folder.path(), &clock, environment).await;
        Self { folder, clock, hand }
    }

    /// Does to the database what no verb does.
    async fn damage(&self, statement: &'static str) {
        crate::store::damage_file(&self.folder.path().join("carillon.db"), statement).await;
    }

    /// What became of anna's reminders: day and time, outcome, reason.
    pub async fn outcomes(&self) -> Vec<(String, Outcome, Reason)> {
        self.hand.history("anna").await.iter().map(brief).collect()
    }
}

fn brief(row: &Delivery) -> (String, Outcome, Reason) {
    (
        row.place.trigger_at.format("%d %H:%M").to_string(),
        row.outcome,
        row.reason,
    )
}

/// What was sent at that day and time.
pub fn sent(at: &str) -> (String, Outcome, Reason) {
    (at.to_owned(), Outcome::Sent, Reason::None)
}

#[tokio::test]
async fn r28_d05_a_series_goes_on_from_firing_to_firing() {
    let mut scene = Scene::new().await;
    scene
        .hand
        .change(
            "e",
            "anna",
            event("e", "DTSTART:20261201T090000Z\nRRULE:FREQ=DAILY;COUNT=3"),
        )
        .await;
    scene.hand.advance(TimeDelta::days(5)).await;
    assert_eq!(
        scene.outcomes().await,
        [sent("01 09:00"), sent("02 09:00"), sent("03 09:00")]
    );
}

#[tokio::test]
async fn rule_20_a_series_that_its_owner_declined_goes_on_where_that_is_chosen() {
    let declined = "DTSTART:20261201T090000Z\nRRULE:FREQ=DAILY;COUNT=3\nATTENDEE;PARTSTAT=DECLINED:mailto:anna@example.com";
    for (policy, expected) in [
        ("skip", &[][..]),
        (
            "deliver",
            &[sent("01 09:00"), sent("02 09:00"), sent("03 09:00")][..],
        ),
    ] {
        let mut scene = Scene::set(&[("CARILLON__POLICIES__DECLINED", policy)], None).await;
        scene.hand.change("e", "anna", event("e", declined)).await;
        scene.hand.advance(TimeDelta::days(5)).await;
        assert_eq!(scene.outcomes().await, expected, "{policy}");
    }
}

#[tokio::test]
async fn a_series_goes_on_when_a_firing_cannot_be_sent() {
    let mut scene = Scene::new().await;
    scene
        .hand
        .put_owner(Owner {
            email: None,
            ..owner("anna", "UTC")
        })
        .await;
    scene
        .hand
        .change(
            "e",
            "anna",
            event("e", "DTSTART:20261201T090000Z\nRRULE:FREQ=DAILY;COUNT=2"),
        )
        .await;
    scene.hand.advance(TimeDelta::hours(2)).await;
    scene.hand.owner("anna", "UTC").await;
    scene.hand.advance(TimeDelta::days(2)).await;
    let failed = ("01 09:00".to_owned(), Outcome::Failed, Reason::NoAddress);
    assert_eq!(scene.outcomes().await, [failed, sent("02 09:00")]);
}

#[tokio::test]
async fn ti_a_trigger_that_cannot_be_read_is_written_anew_and_its_series_goes_on() {
    let mut scene = Scene::new().await;
    let series = "DTSTART:20261201T090000Z\nRRULE:FREQ=DAILY;COUNT=2";
    scene.hand.change("e", "anna", event("e", series)).await;
    scene
        .damage("UPDATE alarm_trigger SET recipient = 'nobody'")
        .await;
    scene.hand.advance(TimeDelta::minutes(61)).await;
    let failed = ("01 09:00".to_owned(), Outcome::Failed, Reason::Unreadable);
    assert_eq!(scene.outcomes().await, [failed]);

    scene.hand.node.changes.catch_up().await.expect("the store works");
    scene.hand.advance(TimeDelta::days(2)).await;

    assert_eq!(scene.outcomes().await, [sent("01 09:00"), sent("02 09:00")]);
}

#[tokio::test]
async fn l02_a_claim_that_nobody_was_told_of_is_found_before_it_is_due() {
    let mut scene = Scene::new().await;
    scene
        .hand
        .change("e", "anna", event("e", "DTSTART:20261201T090000Z"))
        .await;
    let (session, until) = (scene.hand.node.shared.session, instant("2026-12-01T09:00:00Z"));
    let claimed = scene.hand.store().claim_due(session, until, None, 10).await;
    assert_eq!(claimed.expect("the store works").len(), 1);
    scene.hand.advance(TimeDelta::seconds(3_590)).await;
    assert_eq!(scene.hand.node.shared.armed.next_due(ChannelKind::Email), None);

    scene
        .hand
        .node
        .planner
        .find_held()
        .await
        .expect("the store works");
    scene.hand.advance(TimeDelta::seconds(10)).await;

    assert_eq!(scene.outcomes().await, [sent("01 09:00")]);
}

#[tokio::test]
async fn l08_a_claim_made_when_it_was_long_due_is_found_within_a_minute() {
    let mut scene = Scene::new().await;
    scene
        .hand
        .change("e", "anna", event("e", "DTSTART:20261201T090000Z"))
        .await;
    scene.clock.advance(Duration::from_mins(61));
    let (session, now) = (scene.hand.node.shared.session, scene.clock.now());
    let claimed = scene.hand.store().claim_due(session, now, None, 10).await;
    assert_eq!(claimed.expect("the store works").len(), 1, "the answer was lost");

    // One look every five seconds.
    for _ in 0..12 {
        let found = scene.hand.node.planner.find_held().await;
        found.expect("the store works");
    }
    scene.hand.advance(TimeDelta::seconds(1)).await;

    assert_eq!(scene.outcomes().await, [sent("01 09:00")]);
}

#[tokio::test]
async fn the_owners_and_the_events_wishes_are_looked_at_when_it_fires() {
    let mut scene = Scene::new().await;
    scene
        .hand
        .change(
            "e",
            "anna",
            event("e", "DTSTART:20261201T090000Z\nRRULE:FREQ=HOURLY;COUNT=3"),
        )
        .await;
    scene
        .hand
        .put_owner(Owner {
            muted: vec![ChannelKind::Email],
            ..owner("anna", "UTC")
        })
        .await;
    scene.hand.advance(TimeDelta::minutes(90)).await;
    scene
        .hand
        .put_owner(Owner {
            enabled: false,
            ..owner("anna", "UTC")
        })
        .await;
    scene.hand.advance(TimeDelta::hours(1)).await;
    scene.hand.owner("anna", "UTC").await;
    scene.hand.advance(TimeDelta::hours(1)).await;
    let muted = ("01 09:00".to_owned(), Outcome::Suppressed, Reason::Muted);
    let disabled = ("01 10:00".to_owned(), Outcome::Suppressed, Reason::Disabled);
    assert_eq!(scene.outcomes().await, [muted, disabled, sent("01 11:00")]);
}

#[tokio::test]
async fn l04_after_an_outage_what_is_of_use_is_sent_and_what_is_not_is_counted() {
    let scene = Scene::new().await;
    let series = "DTSTART:20261201T090000Z\nDURATION:PT45M\nRRULE:FREQ=HOURLY;COUNT=9";
    scene.hand.change("e", "anna", event("e", series)).await;
    let mut scene = scene.crash(Duration::from_mins(330)).await;
    scene.hand.advance(TimeDelta::hours(5)).await;
    let rows = scene.hand.history("anna").await;
    let told: Vec<_> = rows
        .iter()
        .map(|row| (brief(row).0, row.outcome, row.count))
        .collect();
    let expected = [
        ("01 09:00", Outcome::Expired, 1),
        ("01 10:00", Outcome::Missed, 3),
        ("01 13:00", Outcome::Sent, 1),
        ("01 14:00", Outcome::Sent, 1),
        ("01 15:00", Outcome::Sent, 1),
        ("01 16:00", Outcome::Sent, 1),
        ("01 17:00", Outcome::Sent, 1),
    ];
    let mut told: Vec<_> = told
        .iter()
        .map(|(at, outcome, count)| (at.as_str(), *outcome, *count))
        .collect();
    told.sort_by_key(|(at, _, _)| (*at).to_owned());
    assert_eq!(told, expected);
}

#[tokio::test]
async fn what_an_outage_made_late_is_sent_and_says_so_or_is_recorded_as_missed() {
    let missed = |at: &str| (at.to_owned(), Outcome::Missed, Reason::Outage);
    for (policy, at_nine) in [("send", sent("01 09:00")), ("drop", missed("01 09:00"))] {
        let scene = Scene::new().await;
        let series = "DTSTART:20261201T090000Z\nDURATION:PT4H\nRRULE:FREQ=DAILY;COUNT=2";
        scene.hand.change("e", "anna", event("e", series)).await;
        let lately = "DTSTART:20261201T105700Z\nDURATION:PT1H";
        scene.hand.change("f", "anna", event("f", lately)).await;
        let catch_up = [("CARILLON__POLICIES__CATCH_UP", policy)];
        let mut scene = scene.crash_into(Duration::from_hours(3), &catch_up).await;
        scene.hand.settle_down().await;
        let outbox = scene
            .hand
            .store()
            .outbox(None, None, 9)
            .await
            .expect("it is read");
        let counted = scene.hand.node.shared.metrics.render();
        let missed = format!("carillon_missed_total {}\n", usize::from(policy == "drop"));
        assert!(counted.contains(&missed), "{policy}: {counted}");
        let late = outbox
            .iter()
            .filter(|kept| kept.message.text.contains("This reminder is late"));
        assert_eq!(late.count(), usize::from(policy == "send"), "{outbox:?}");
        scene.hand.advance(TimeDelta::days(3)).await;

        let mut outcomes = scene.outcomes().await;
        outcomes.sort_by(|one, other| one.0.cmp(&other.0));
        let expected = [at_nine, sent("01 10:57"), sent("02 09:00")];
        assert_eq!(
            outcomes, expected,
            "{policy}: less than the grace period late, and what follows"
        );
    }
}

#[tokio::test]
async fn an_outage_of_a_year_costs_one_row() {
    let scene = Scene::new().await;
    scene
        .hand
        .change(
            "e",
            "anna",
            event("e", "DTSTART:20261201T090000Z\nRRULE:FREQ=DAILY"),
        )
        .await;
    let mut scene = scene.crash(Duration::from_hours(365 * 24)).await;
    scene.hand.advance(TimeDelta::hours(2)).await;
    let rows = scene.hand.history("anna").await;
    let missed: Vec<_> = rows
        .iter()
        .filter(|row| row.outcome == Outcome::Missed)
        .map(|row| row.count)
        .collect();
    assert_eq!(missed, [364]);
    assert_eq!(rows.iter().filter(|row| row.outcome == Outcome::Sent).count(), 1);
}

#[tokio::test]
async fn m09_m11_an_edit_after_the_send_sends_nothing_again_and_a_move_sends_again() {
    let mut scene = Scene::new().await;
    let at_nine = "DTSTART:20261201T090000Z\nDURATION:PT4H";
    scene.hand.change("e", "anna", event("e", at_nine)).await;
    scene.hand.advance(TimeDelta::minutes(62)).await;
    scene
        .hand
        .change("e", "anna", event("e", &format!("{at_nine}\nLOCATION:Garden")))
        .await;
    scene.hand.advance(TimeDelta::minutes(2)).await;
    assert_eq!(scene.outcomes().await, [sent("01 09:00")]);
    scene
        .hand
        .change("e", "anna", event("e", "DTSTART:20261201T100000Z\nDURATION:PT4H"))
        .await;
    scene.hand.change("e", "anna", event("e", at_nine)).await;
    scene.hand.advance(TimeDelta::hours(2)).await;
    assert_eq!(
        scene.outcomes().await,
        [sent("01 09:00")],
        "moved back, nothing new"
    );
    scene
        .hand
        .change("e", "anna", event("e", "DTSTART:20261201T120000Z\nDURATION:PT4H"))
        .await;
    scene.hand.advance(TimeDelta::hours(2)).await;
    assert_eq!(scene.outcomes().await, [sent("01 09:00"), sent("01 12:00")]);
}

#[tokio::test]
async fn version_moved_behind_a_sent_message_leaves_a_history_row() {
    let mut scene = Scene::new().await;
    let at = |time: &str| format!("DTSTART:20261201T{time}00Z\nDURATION:PT4H");
    scene.hand.change("e", "anna", event("e", &at("0900"))).await;
    scene.hand.advance(TimeDelta::minutes(61)).await;
    let metrics = Arc::clone(&scene.hand.node.shared.metrics);
    let counted = || {
        let text = metrics.render();
        let line = text.lines().find(|line| line.contains(r#"reason="past""#));
        line.map(|line| line.rsplit(' ').next().unwrap_or_default().to_owned())
    };
    let past = |at: &str| (at.to_owned(), Outcome::Suppressed, Reason::Past);
    for (number, time) in [("1", "0859"), ("1", "0859"), ("2", "0730")] {
        scene.hand.change("e", "anna", event("e", &at(time))).await;
        assert_eq!(counted().as_deref(), Some(number), "{time}");
        scene.hand.advance(TimeDelta::seconds(1)).await;
    }
    let outcomes = scene.outcomes().await;
    assert_eq!(outcomes, [sent("01 09:00"), past("01 08:59"), past("01 07:30")]);
}

#[tokio::test]
async fn deleting_and_sending_the_same_event_again_does_not_remind_twice() {
    let mut scene = Scene::new().await;
    let nine = event("e", "DTSTART:20261201T090000Z\nDURATION:PT4H");
    scene.hand.change("e", "anna", nine.clone()).await;
    scene.hand.advance(TimeDelta::minutes(62)).await;
    scene.hand.change("e", "anna", None).await;
    scene.hand.change("e", "anna", nine).await;
    scene.hand.advance(TimeDelta::hours(1)).await;
    assert_eq!(
        scene
            .outcomes()
            .await
            .iter()
            .filter(|row| row.1 == Outcome::Sent)
            .count(),
        1
    );
}

/// An event that starts then, with e-mail alarms at these distances.
fn with_alarms(start: &str, triggers: &[&str]) -> String {
    let text = event("e", &format!("DTSTART:{start}\nDURATION:PT1H"));
    let (before, rest) = text.split_once("BEGIN:VALARM").expect("an alarm");
    let (_, end) = rest.split_once("END:VALARM\r\n").expect("an alarm");
    let alarm = |trigger: &&str| {
        format!(
            "BEGIN:VALARM\r\nACTION:EMAIL\r\nTRIGGER:{trigger}\r\nSUMMARY:x\r\nDESCRIPTION:x\r\nEND:VALARM\r\n"
        )
    };
    let alarms: String = triggers.iter().map(alarm).collect();
    format!("{before}{alarms}{end}")
}

#[tokio::test]
async fn who_waits_for_an_event_that_is_moved_past_its_alarms_is_told_once_and_at_once() {
    let mut scene = Scene::new().await;
    let alarms = ["-P1D", "-PT1H"];
    scene
        .hand
        .change("e", "anna", with_alarms("20261205T090000Z", &alarms))
        .await;
    let moved = with_alarms("20261201T081000Z", &alarms);
    let answer = scene.hand.change("e", "anna", moved.clone()).await;
    assert_eq!(answer.planned, 1, "one for both alarms");
    // What is written again, or otherwise, before or after it left, moves nothing.
    let renamed = moved.replace("SUMMARY:Tea", "SUMMARY:Coffee");
    assert_eq!(scene.hand.change("e", "anna", renamed.clone()).await.planned, 0);
    scene.hand.advance(TimeDelta::minutes(1)).await;
    assert_eq!(scene.hand.change("e", "anna", moved).await.planned, 0);
    scene.hand.advance(TimeDelta::days(5)).await;

    let past = ("30 08:10".to_owned(), Outcome::Suppressed, Reason::Past);
    assert_eq!(scene.outcomes().await, [past, sent("01 07:10")]);
    let outbox = scene
        .hand
        .store()
        .outbox(None, None, 9)
        .await
        .expect("it is read");
    let text = &outbox[0].message.text;
    assert!(
        text.starts_with("Moved: Starts in 10 minutes: Coffee\n"),
        "{text}"
    );
    assert!(!text.contains("late"), "{text}");
}

#[tokio::test]
async fn an_event_that_is_moved_and_has_an_alarm_to_come_needs_no_notice() {
    let mut scene = Scene::new().await;
    let alarms = ["-P1D", "-PT5M"];
    scene
        .hand
        .change("e", "anna", with_alarms("20261205T090000Z", &alarms))
        .await;
    scene
        .hand
        .change("e", "anna", with_alarms("20261201T081000Z", &alarms))
        .await;
    scene.hand.advance(TimeDelta::days(5)).await;

    let past = ("30 08:10".to_owned(), Outcome::Suppressed, Reason::Past);
    assert_eq!(scene.outcomes().await, [past, sent("01 08:05")]);
}

#[tokio::test]
async fn what_is_created_begun_or_given_another_alarm_is_not_moved() {
    let mut scene = Scene::new().await;
    let started = with_alarms("20261201T075500Z", &["-PT1H"]);
    let soon = with_alarms("20261201T083000Z", &["-PT1H"]);
    // An import of what is past, a move to what has begun, and an alarm that is moved while its event stays.
    scene
        .hand
        .change("new", "anna", soon.replace("UID:e", "UID:new"))
        .await;
    scene
        .hand
        .change("e", "anna", with_alarms("20261205T090000Z", &["-PT1H"]))
        .await;
    scene.hand.change("e", "anna", started).await;
    let uid = |text: String| {
        text.replace("UID:e", "UID:alarm")
            .replace("ACTION:", "UID:a1\r\nACTION:")
    };
    scene
        .hand
        .change("alarm", "anna", uid(with_alarms("20261201T083000Z", &["-PT5M"])))
        .await;
    scene.hand.change("alarm", "anna", uid(soon)).await;
    scene.hand.advance(TimeDelta::days(5)).await;

    let past = |at: &str| (at.to_owned(), Outcome::Suppressed, Reason::Past);
    assert_eq!(
        scene.outcomes().await,
        [past("01 07:30"), past("01 06:55"), past("01 07:30")]
    );
}

#[tokio::test]
async fn an_instance_that_is_moved_is_told_of_and_its_series_goes_on() {
    let mut scene = Scene::new().await;
    let series = with_alarms("20261202T090000Z", &["-PT1H"])
        .replace("DURATION:", "RRULE:FREQ=DAILY;COUNT=3\r\nDURATION:");
    scene.hand.change("e", "anna", series.clone()).await;
    let (component, _) = series.split_once("END:VCALENDAR").expect("it ends");
    let (_, component) = component.split_once("BEGIN:VEVENT").expect("it begins");
    let moved = component
        .replace("RRULE:FREQ=DAILY;COUNT=3", "RECURRENCE-ID:20261202T090000Z")
        .replace("DTSTART:20261202T090000Z", "DTSTART:20261201T082000Z");
    let text = series.replace("END:VCALENDAR", &format!("BEGIN:VEVENT{moved}END:VCALENDAR"));
    scene.hand.change("e", "anna", text).await;
    scene.hand.advance(TimeDelta::days(5)).await;

    assert_eq!(
        scene.outcomes().await,
        [sent("01 07:20"), sent("03 08:00"), sent("04 08:00")]
    );
}

#[tokio::test]
async fn l03_what_is_past_when_it_is_asked_for_is_recorded_and_not_sent() {
    let mut scene = Scene::new().await;
    scene
        .hand
        .change(
            "old",
            "anna",
            event("old", "DTSTART:20261201T073000Z\nDURATION:PT4H"),
        )
        .await;
    scene
        .hand
        .change(
            "new",
            "anna",
            event("new", "DTSTART:20261201T075700Z\nDURATION:PT4H"),
        )
        .await;
    let ten_years = "DTSTART:20161201T073000Z\nDURATION:PT1H\nRRULE:FREQ=DAILY";
    scene
        .hand
        .change("series", "anna", event("series", ten_years))
        .await;
    scene.hand.advance(TimeDelta::hours(1)).await;
    let past = ("01 07:30".to_owned(), Outcome::Suppressed, Reason::Past);
    assert_eq!(scene.outcomes().await, [past, sent("01 07:57")]);
}

#[tokio::test]
async fn what_waits_to_be_sent_is_owed_still_where_its_owner_wants_it_another_way() {
    let mut scene = Scene::new().await;
    let mut anna = owner("anna", "Europe/Berlin");
    anna.webhook = Some(Webhook::at("https://example.com/hook".to_owned()));
    anna.preferences.routes = vec![Route {
        action: Action::Email,
        channel: ChannelKind::Webhook,
    }];
    scene.hand.put_owner(anna).await;
    let lines = "DTSTART:20261201T080100Z\nDURATION:PT4H";
    scene.hand.change("e", "anna", event("e", lines)).await;
    // No way out is driven here but mail: it waits, as for an endpoint that is down, for longer than what is new may be late.
    scene.hand.advance(TimeDelta::minutes(12)).await;
    assert_eq!(scene.outcomes().await, []);

    scene.hand.owner("anna", "Europe/Berlin").await;
    scene.hand.advance(TimeDelta::minutes(1)).await;

    let withdrawn = ("01 08:01".to_owned(), Outcome::Cancelled, Reason::Withdrawn);
    let outcomes = scene.outcomes().await;
    assert!(
        outcomes.contains(&withdrawn) && outcomes.contains(&sent("01 08:01")),
        "{outcomes:?}"
    );
}

#[tokio::test]
async fn two_calendars_with_the_same_event_remind_once_as_long_as_one_holds_it() {
    let mut scene = Scene::new().await;
    let series = event("shared", "DTSTART:20261201T090000Z\nRRULE:FREQ=HOURLY;COUNT=3");
    scene.hand.change("work", "anna", series.clone()).await;
    scene.hand.change("home", "anna", series).await;
    scene.hand.advance(TimeDelta::minutes(90)).await;
    scene.hand.change("work", "anna", None).await;
    scene.hand.advance(TimeDelta::minutes(60)).await;
    assert_eq!(scene.outcomes().await, [sent("01 09:00"), sent("01 10:00")]);
    scene.hand.change("home", "anna", None).await;
    scene.hand.advance(TimeDelta::hours(2)).await;
    assert_eq!(scene.outcomes().await.len(), 2);
}

#[tokio::test]
async fn rule_22_floating_and_all_day_events_follow_the_owner_to_another_zone() {
    let mut scene = Scene::new().await;
    scene
        .hand
        .change("f", "anna", event("f", "DTSTART:20261201T120000"))
        .await;
    scene
        .hand
        .change("d", "anna", event("d", "DTSTART;VALUE=DATE:20261202"))
        .await;
    scene.hand.owner("anna", "America/New_York").await;
    scene.hand.advance(TimeDelta::days(2)).await;
    assert_eq!(scene.outcomes().await, [sent("01 17:00"), sent("02 05:00")]);
}

/// Answers as it was told to, then accepts.
#[derive(Debug)]
pub struct Scripted {
    answers: Mutex<VecDeque<Option<Report>>>,
    ids: Mutex<Vec<String>>,
    /// The first send waits until it is told to go on.
    is_held: std::sync::atomic::AtomicBool,
    let_go: tokio::sync::Notify,
    permits_now: std::sync::atomic::AtomicUsize,
    /// How often it was asked how many may be under way.
    looks: std::sync::atomic::AtomicUsize,
}

impl Scripted {
    pub fn new(answers: impl IntoIterator<Item = Option<Report>>) -> Arc<Self> {
        Arc::new(Self {
            answers: Mutex::new(answers.into_iter().collect()),
            ids: Mutex::default(),
            is_held: false.into(),
            let_go: tokio::sync::Notify::new(),
            permits_now: 4.into(),
            looks: 0.into(),
        })
    }

    fn held(answer: Report) -> Arc<Self> {
        let channel = Self::new([Some(answer)]);
        channel.is_held.store(true, std::sync::atomic::Ordering::SeqCst);
        channel
    }
}

#[async_trait::async_trait]
impl Channel for Scripted {
    async fn send(&self, message: &Message, _deadline: Deadline) -> Report {
        self.ids.lock().unwrap().push(message.id.clone());
        if self.is_held.swap(false, std::sync::atomic::Ordering::SeqCst) {
            self.let_go.notified().await;
        }
        let answer = self.answers.lock().unwrap().pop_front();
        match answer {
            Some(Some(report)) => report,
            // The node dies before an answer comes.
            Some(None) => std::future::pending().await,
            None => Report::Accepted {
                reply: "queued".to_owned(),
                kept: None,
                reference: None,
                awaits: None,
            },
        }
    }

    fn name(&self) -> &'static str {
        "scripted"
    }

    fn permits(&self) -> usize {
        4
    }

    fn permits_now(&self) -> usize {
        self.looks.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        self.permits_now.load(std::sync::atomic::Ordering::SeqCst)
    }

    fn permits_in_doubt(&self) -> usize {
        1
    }
}

pub fn refused(of: Blame) -> Report {
    Report::Transient {
        error: "451 later".to_owned(),
        of,
        retry_after: None,
    }
}

#[tokio::test]
async fn d09_a_refusal_for_now_is_tried_again_and_a_relay_that_is_down_burns_no_attempt() {
    let channel = Scripted::new([
        Some(refused(Blame::Target)),
        Some(refused(Blame::Message)),
        Some(refused(Blame::Target)),
    ]);
    let mut scene = Scene::through(Some(channel.clone())).await;
    scene
        .hand
        .change("e", "anna", event("e", "DTSTART:20261201T090000Z\nDURATION:PT4H"))
        .await;
    scene.hand.advance(TimeDelta::hours(2)).await;
    let rows = scene.hand.history("anna").await;
    assert_eq!(
        rows.iter()
            .map(|row| (row.outcome, row.attempts))
            .collect::<Vec<_>>(),
        [(Outcome::Sent, 2)]
    );
    let late = rows[0].handed_over_at.unwrap() - rows[0].place.trigger_at;
    assert!(
        // Twice the relay, which is asked again after half a minute, and once the message, a minute.
        (TimeDelta::seconds(90)..TimeDelta::minutes(3)).contains(&late),
        "{late}"
    );
    assert_eq!(
        channel
            .ids
            .lock()
            .unwrap()
            .iter()
            .collect::<std::collections::BTreeSet<_>>()
            .len(),
        1
    );
}

fn again(after: TimeDelta) -> Report {
    Report::Again {
        after: after.to_std().expect("a pause is positive"),
        payload: None,
    }
}

#[tokio::test]
async fn a_target_gets_it_again_when_it_asked_to_and_no_sooner() {
    let channel =
        Scripted::new([TimeDelta::minutes(40), TimeDelta::seconds(5)].map(|after| Some(again(after))));
    let mut scene = Scene::through(Some(channel)).await;
    let lines = "DTSTART:20261201T090000Z\nDURATION:PT4H";
    scene.hand.change("e", "anna", event("e", lines)).await;
    scene.hand.advance(TimeDelta::hours(2)).await;
    let rows = scene.hand.history("anna").await;
    let ends: Vec<_> = rows.iter().map(|row| (row.outcome, row.attempts)).collect();
    assert_eq!(ends, [(Outcome::Sent, 3)]);
    let late = rows[0].handed_over_at.unwrap() - rows[0].place.trigger_at;
    let asked = TimeDelta::minutes(40) + TimeDelta::seconds(5);
    assert!((asked..asked + TimeDelta::seconds(30)).contains(&late), "{late}");
}

#[tokio::test]
async fn a_target_that_asks_for_ever_or_for_what_is_too_late_has_it() {
    for (after, attempts) in [(TimeDelta::seconds(1), 8), (TimeDelta::days(9), 1)] {
        let channel = Scripted::new((0..50).map(|_| Some(again(after))));
        let mut scene = Scene::through(Some(channel)).await;
        let lines = "DTSTART:20261201T090000Z\nDURATION:PT4H";
        scene.hand.change("e", "anna", event("e", lines)).await;
        scene.hand.advance(TimeDelta::hours(2)).await;
        let rows = scene.hand.history("anna").await;
        let ends: Vec<_> = rows.iter().map(|row| (row.outcome, row.attempts)).collect();
        assert_eq!(ends, [(Outcome::Sent, attempts)]);
    }
}

#[tokio::test]
async fn a_retry_waits_its_pause_where_reminders_leave_early() {
    let channel = Scripted::new([Some(refused(Blame::Target))]);
    let early = [("CARILLON__CHANNELS__EMAIL__TIME_SHIFT", "1h")];
    let mut scene = Scene::set(&early, Some(channel.clone())).await;
    let lines = "DTSTART:20261201T090000Z\nDURATION:PT4H";
    scene.hand.change("e", "anna", event("e", lines)).await;
    let attempts = || channel.ids.lock().unwrap().len();

    scene.hand.advance(TimeDelta::seconds(30)).await;
    assert_eq!(attempts(), 1);

    scene.hand.advance(TimeDelta::minutes(2)).await;
    assert_eq!(attempts(), 2);
    assert_eq!(scene.outcomes().await, [sent("01 09:00")]);
}

#[tokio::test]
async fn what_was_due_and_is_withdrawn_before_it_left_is_told() {
    let channel = Scripted::new([Some(refused(Blame::Target))]);
    let mut scene = Scene::through(Some(channel)).await;
    let lines = "DTSTART:20261201T090000Z\nDURATION:PT4H";
    scene.hand.change("e", "anna", event("e", lines)).await;
    scene
        .hand
        .advance(TimeDelta::minutes(60) + TimeDelta::seconds(5))
        .await;
    scene.hand.change("e", "anna", None).await;
    scene.hand.advance(TimeDelta::hours(1)).await;
    let cancelled = ("01 09:00".to_owned(), Outcome::Cancelled, Reason::Withdrawn);
    assert_eq!(scene.outcomes().await, [cancelled]);
}

#[tokio::test]
async fn tj_a_retry_never_holds_up_the_next_occurrence_and_ends_with_a_reason() {
    let channel = Scripted::new((0..50).map(|_| Some(refused(Blame::Message))));
    let mut scene = Scene::through(Some(channel)).await;
    let series = "DTSTART:20261201T090000Z\nDURATION:PT4H\nRRULE:FREQ=HOURLY;COUNT=2";
    scene.hand.change("e", "anna", event("e", series)).await;
    scene.hand.advance(TimeDelta::hours(12)).await;
    let ended = |at: &str| (at.to_owned(), Outcome::Failed, Reason::Exhausted);
    assert_eq!(scene.outcomes().await, [ended("01 09:00"), ended("01 10:00")]);
    let attempts: Vec<u32> = scene
        .hand
        .history("anna")
        .await
        .iter()
        .map(|row| row.attempts)
        .collect();
    assert_eq!(attempts, [8, 8]);
}

#[test]
fn a_node_that_dies_in_mid_send_sends_again_with_the_same_id() {
    let folder = tempfile::tempdir().expect("a folder");
    let clock = Arc::new(ManualClock::at(instant(NOW)));
    let channel = Scripted::new([None]);
    let life = tokio::runtime::Runtime::new().expect("a runtime");
    life.block_on(async {
        let hand = Hand::start_through(folder.path(), &clock, &[], Some(channel.clone())).await;
        hand.owner("anna", "UTC").await;
        hand.change("e", "anna", event("e", "DTSTART:20261201T080100Z\nDURATION:PT1H"))
            .await;
        clock.advance(Duration::from_mins(1));
        let permit = hand.node.lanes[0].permit().await;
        assert_eq!(hand.node.lanes[0].tick(permit).await, 1);
        while channel.ids.lock().unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
    });
    // With its runtime goes everything that was under way, as with a process.
    drop(life);
    let next_life = tokio::runtime::Runtime::new().expect("a runtime");
    let rows = next_life.block_on(async {
        let mut hand = Hand::start(folder.path(), &clock, &[]).await;
        hand.settle_down().await;
        hand.history("anna").await
    });
    assert_eq!(rows.iter().map(brief).collect::<Vec<_>>(), [sent("01 08:01")]);
    assert_eq!(rows[0].id.to_string(), channel.ids.lock().unwrap()[0]);
}

#[tokio::test]
async fn a_stop_lets_go_of_the_store_though_a_send_never_ends() {
    let channel = Scripted::new([None]);
    let Scene { folder, clock, hand } = Scene::through(Some(channel.clone())).await;
    hand.change("e", "anna", event("e", "DTSTART:20261201T080100Z\nDURATION:PT1H"))
        .await;
    let store = Arc::downgrade(hand.store());
    let shutdown = Shutdown::new();
    let running = hand.node.run(Duration::ZERO, &shutdown);
    eventually("the send begins", async || {
        clock.advance(Duration::from_secs(1));
        (!channel.ids.lock().unwrap().is_empty()).then_some(())
    })
    .await;

    shutdown.drain();
    let stopping = tokio::spawn(async move { running.drain(&shutdown.hard).await });
    eventually("the stop waits no longer", async || {
        clock.advance(Duration::from_secs(10));
        stopping.is_finished().then_some(())
    })
    .await;

    eventually("nothing holds on to the store", async || {
        store.upgrade().is_none().then_some(())
    })
    .await;
    // The next start sends it under the same id.
    let mut hand = Hand::start(folder.path(), &clock, &[]).await;
    hand.settle_down().await;
    let rows = hand.history("anna").await;
    assert_eq!(rows.iter().map(brief).collect::<Vec<_>>(), [sent("01 08:01")]);
    assert_eq!(rows[0].id.to_string(), channel.ids.lock().unwrap()[0]);
}

#[tokio::test]
async fn a_clock_that_is_set_forward_is_noticed_within_a_second() {
    let scene = Scene::new().await;
    scene
        .hand
        .change("e", "anna", event("e", "DTSTART:20261201T083000Z\nDURATION:PT4H"))
        .await;
    let stop = CancellationToken::new();
    let lane = scene.hand.node.lanes[0].clone();
    let running = tokio::spawn({
        let stop = stop.clone();
        async move { lane.run(stop).await }
    });
    // Let the lane fall asleep over its timer, half an hour ahead, before the clock is set.
    tokio::task::yield_now().await;
    scene.clock.step_to(instant("2026-12-01T08:30:00Z"));
    let deadline = carillon::clock::SystemClock.elapsed() + Duration::from_secs(20);
    while !scene.hand.node.shared.armed.is_empty() {
        assert!(
            carillon::clock::SystemClock.elapsed() < deadline,
            "the timer never fired"
        );
        scene.clock.advance(Duration::from_millis(100));
        tokio::task::yield_now().await;
    }
    assert!(
        scene.clock.now() < instant("2026-12-01T08:30:02Z"),
        "noticed at {}",
        scene.clock.now()
    );
    stop.cancel();
    running.await.unwrap();
}

#[tokio::test]
async fn an_alarm_dropped_and_put_back_in_mid_send_does_not_end_its_series() {
    dropped_and_put_back(Report::Accepted {
        reply: "queued".to_owned(),
        kept: None,
        reference: None,
        awaits: None,
    })
    .await;
}

#[tokio::test]
async fn an_alarm_dropped_and_put_back_in_mid_send_does_not_lose_its_retry() {
    dropped_and_put_back(refused(Blame::Message)).await;
}

async fn dropped_and_put_back(first_answer: Report) {
    let channel = Scripted::held(first_answer);
    let mut scene = Scene::through(Some(channel.clone())).await;
    let series = "DTSTART:20261201T080100Z\nDURATION:PT1H\nRRULE:FREQ=DAILY;COUNT=2";
    scene.hand.change("e", "anna", event("e", series)).await;
    scene.clock.advance(Duration::from_mins(1));
    let lane = scene.hand.node.lanes[0].clone();
    assert_eq!(lane.tick(lane.permit().await).await, 1);
    while channel.ids.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    scene.hand.change("e", "anna", None).await;
    scene.hand.change("e", "anna", event("e", series)).await;
    channel.let_go.notify_one();
    scene.hand.advance(TimeDelta::days(2)).await;
    assert_eq!(scene.outcomes().await, [sent("01 08:01"), sent("02 08:01")]);
}

/// What is under way has no turn any more: while the other side is slow, what is due waits where owners have turns.
#[tokio::test]
async fn while_the_other_side_is_slow_few_are_under_way() {
    let channel = Scripted::held(refused(Blame::Message));
    channel.permits_now.store(1, std::sync::atomic::Ordering::SeqCst);
    let mut scene = Scene::through(Some(channel.clone())).await;
    scene.hand.owner("bert", "UTC").await;
    for (key, owner) in [("e", "anna"), ("f", "anna"), ("g", "bert")] {
        let text = event(key, "DTSTART:20261201T080100Z\nDURATION:PT1H");
        scene.hand.change(key, owner, text).await;
    }
    scene.clock.advance(Duration::from_mins(1));
    let lane = scene.hand.node.lanes[0].clone();
    assert_eq!(lane.tick(lane.permit().await).await, 1);
    assert_eq!(
        lane.tick(lane.permit().await).await,
        0,
        "no more may be under way"
    );
    let under_way = async |may_be: usize, are: usize| {
        channel
            .permits_now
            .store(may_be, std::sync::atomic::Ordering::SeqCst);
        assert_eq!(lane.tick(lane.permit().await).await, 1);
        while channel.ids.lock().unwrap().len() < are {
            tokio::task::yield_now().await;
        }
    };
    under_way(2, 2).await;
    under_way(4, 3).await;
    channel.let_go.notify_one();
    scene.hand.advance(TimeDelta::minutes(30)).await;
    assert_eq!(scene.outcomes().await, [sent("01 08:01"), sent("01 08:01")]);
    let others = scene.hand.history("bert").await;
    assert_eq!(others.iter().map(brief).collect::<Vec<_>>(), [sent("01 08:01")]);
}

#[tokio::test]
async fn window_is_small_where_doubtful_messages_are_not_repeated() {
    let channel = Scripted::held(refused(Blame::Message));
    let fail = ("CARILLON__CHANNELS__EMAIL__ON_DOUBT", "fail");
    let scene = Scene::set(&[fail], Some(channel.clone())).await;
    scene.hand.owner("bert", "UTC").await;
    for owner in ["anna", "bert"] {
        let text = event("e", "DTSTART:20261201T080100Z\nDURATION:PT1H");
        scene.hand.change("e", owner, text).await;
    }
    scene.clock.advance(Duration::from_mins(1));
    let lane = scene.hand.node.lanes[0].clone();
    assert_eq!(lane.tick(lane.permit().await).await, 1);
    assert_eq!(lane.tick(lane.permit().await).await, 0, "one is in flight");
}

#[tokio::test]
async fn a_lane_whose_owners_have_all_they_may_sleeps_until_a_message_ends() {
    let channel = Scripted::held(refused(Blame::Message));
    channel.permits_now.store(1, std::sync::atomic::Ordering::SeqCst);
    let scene = Scene::through(Some(channel.clone())).await;
    for key in ["e", "f"] {
        let text = event(key, "DTSTART:20261201T080100Z\nDURATION:PT1H");
        scene.hand.change(key, "anna", text).await;
    }
    scene.clock.advance(Duration::from_mins(1));
    let stop = CancellationToken::new();
    let lane = scene.hand.node.lanes[0].clone();
    let running = tokio::spawn({
        let stop = stop.clone();
        async move { lane.run(stop).await }
    });
    let until = async |count: usize| {
        while channel.ids.lock().unwrap().len() < count {
            tokio::task::yield_now().await;
        }
    };
    until(1).await;
    let looks = || channel.looks.load(std::sync::atomic::Ordering::SeqCst);
    let before = looks();
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
    assert!(looks() - before < 10, "it looked {} times", looks() - before);

    channel.let_go.notify_one();

    until(2).await;
    stop.cancel();
    running.await.unwrap();
}

#[tokio::test]
async fn a_caller_that_hangs_up_leaves_no_claim_without_a_timer() {
    let scene = Scene::new().await;
    let at = EventKey {
        source: "test".to_owned(),
        key: "e".to_owned(),
        owner: OwnerId("anna".to_owned()),
    };
    let ics = event("e", "DTSTART:20261201T080500Z").into_bytes();
    let incoming = Incoming {
        at,
        version: None,
        ics: Some(ics),
    };
    let mut change = Box::pin(scene.hand.node.changes.apply(vec![incoming]));
    assert!(
        futures_util::poll!(change.as_mut()).is_pending(),
        "the store takes its time"
    );
    drop(change);
    let deadline = carillon::clock::SystemClock.elapsed() + Duration::from_secs(20);
    while scene.hand.node.shared.armed.is_empty() {
        assert!(
            carillon::clock::SystemClock.elapsed() < deadline,
            "no timer was armed"
        );
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_million_timers_fit_in_256_mebibytes() {
    let resident = || {
        let status = std::fs::read_to_string("/proc/self/statm").expect("Linux");
        let pages: u64 = status
            .split(' ')
            .nth(1)
            .and_then(|it| it.parse().ok())
            .expect("a count of pages");
        pages * 4096
    };
    let before = resident();
    let armed = carillon::delivery::arm::Armed::default();
    for number in 0..1_000_000u64 {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
        armed.arm(&[carillon::store::Claimed {
            id: carillon::trigger::TriggerId(id),
            generation: 1,
            due_at: instant(NOW) + TimeDelta::milliseconds(i64::try_from(number % 3_600_000).unwrap()),
            channel: ChannelKind::Email,
            owner: 0,
        }]);
    }
    assert_eq!(armed.len(), 1_000_000);
    let grown = resident() - before;
    assert!(grown < 256 << 20, "{} MiB", grown >> 20);
}
