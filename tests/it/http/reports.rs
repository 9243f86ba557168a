//! What comes back after a hand-over, through the API.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::OnceLock;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use carillon::channel::Blame;
use carillon::channel::Channel;
use carillon::channel::Deadline;
use carillon::channel::Message;
use carillon::channel::Report;
use carillon::channel::receipt::Readers;
use carillon::channel::receipt::Receipt;
use carillon::channel::receipt::Slip;
use carillon::channel::receipt::Status;
use carillon::clock::Clock;
use carillon::clock::ManualClock;
use carillon::store::Delivery;
use carillon::store::Store;
use carillon::store::postgres;
use carillon::store::postgres::PostgresStore;
use carillon::store::postgres::Time;
use carillon::store::sqlite;
use carillon::store::sqlite::SqliteStore;
use carillon::token::Purpose;
use carillon::token::Tokens;
use carillon::trigger::outcome::Outcome;
use carillon::trigger::outcome::Reason;
use chrono::TimeDelta;
use serde_json::Value;
use serde_json::json;
use tower::ServiceExt;

use super::Edge;
use super::Reply;
use super::event;
use super::local;
use crate::by_hand::Hand;
use crate::by_hand::instant;
use crate::harness::postgres::Postgres;

/// The link epoch of an owner who is put at 08:00 UTC.
pub const EPOCH: i64 = 1_796_112_000_000;

pub fn tokens() -> Tokens {
    Tokens::new("a secret of this test")
}

/// One provider, `courier`, that says `status=…` in the query or in a form.
pub fn readers() -> Readers {
    let read = |slip: &Slip<'_>| {
        let form = std::str::from_utf8(slip.body).map_err(|_| "the form is not UTF-8".to_owned())?;
        let said = if slip.body.is_empty() { slip.query } else { form };
        let status = match said.strip_prefix("status=") {
            Some("sent") => Status::Pending,
            Some("delivered") => Status::Delivered,
            Some("undelivered") => Status::Undelivered,
            _ => return Err("there is no `status` in it".to_owned()),
        };
        Ok(Receipt {
            status,
            detail: "as the courier says".to_owned(),
        })
    };
    Readers::from([("courier".to_owned(), Arc::new(read) as _)])
}

/// What a send does; by its number.
type Plan = fn(usize) -> Act;

#[derive(Debug, Clone, Copy)]
enum Act {
    /// Takes it.
    Take,
    /// Takes it, and the receipt is here before it says so.
    TakeAndTell,
    /// Refuses it the first time.
    RefuseFirst,
}

/// Takes messages and has receipts sent.
#[derive(Debug)]
struct Courier {
    plan: Plan,
    awaits: Option<Duration>,
    /// Ids in the order in which they first came.
    seen: Mutex<Vec<String>>,
    router: OnceLock<Router>,
}

#[async_trait::async_trait]
impl Channel for Courier {
    async fn send(&self, message: &Message, _deadline: Deadline) -> Report {
        let (number, is_first) = {
            let mut seen = self.seen.lock().unwrap();
            let known = seen.iter().position(|id| *id == message.id);
            if known.is_none() {
                seen.push(message.id.clone());
            }
            (known.unwrap_or(seen.len() - 1), known.is_none())
        };
        match (self.plan)(number) {
            Act::RefuseFirst if is_first => {
                return Report::Transient {
                    error: "503 later".to_owned(),
                    of: Blame::Message,
                    retry_after: None,
                };
            }
            Act::TakeAndTell => {
                let router = self.router.get().expect("the API is there").clone();
                let request = local("GET", &receipt(&message.id, "delivered"));
                let request = request.body(Body::empty()).unwrap();
                assert_eq!(router.oneshot(request).await.unwrap().status(), 204);
            }
            Act::Take | Act::RefuseFirst => {}
        }
        Report::Accepted {
            reply: "202 taken".to_owned(),
            kept: None,
            reference: Some(format!("SM{}", message.id)),
            awaits: self.awaits,
        }
    }

    fn name(&self) -> &'static str {
        "courier"
    }

    fn permits(&self) -> usize {
        8
    }
}

fn receipt(id: &str, status: &str) -> String {
    let token = tokens().token(id, Purpose::Receipt("courier"));
    format!("/v1/receipts/courier/{id}/{token}?status={status}")
}

fn ending(id: &str, verb: &str) -> String {
    let token = tokens().token(id, Purpose::Complete(EPOCH));
    format!("/v1/deliveries/{id}/{verb}?token={token}")
}

/// On which database.
enum Base {
    Sqlite,
    Postgres,
}

/// An API, a courier, and a server if there is one.
struct Field {
    edge: Edge,
    courier: Arc<Courier>,
    _server: Option<Postgres>,
}

impl Field {
    /// A field on which so many reminders of `anna` are due at 08:45 UTC.
    async fn of(base: Base, reminders: usize, plan: Plan, awaits: Option<Duration>) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let clock = Arc::new(ManualClock::at(instant("2026-12-01T08:00:00Z")));
        let (store, server): (Arc<dyn Store>, _) = match base {
            Base::Sqlite => {
                let path = folder.path().join("carillon.db");
                let store = SqliteStore::open(&path, clock.clone(), sqlite::Options::default()).await;
                (Arc::new(store.expect("it opens")), None)
            }
            Base::Postgres => {
                let server = Postgres::start().await;
                let options = postgres::Options {
                    time: Time::Given(clock.clone()),
                    ..postgres::Options::default()
                };
                let store = PostgresStore::open(&server.database().await, options).await;
                (Arc::new(store.expect("it opens")), Some(server))
            }
        };
        let courier = Arc::new(Courier {
            plan,
            awaits,
            seen: Mutex::default(),
            router: OnceLock::new(),
        });
        let hand = Hand::start_on(store, &clock, &[], Some(courier.clone())).await;
        let edge = Edge::around(hand, folder, &[]);
        courier.router.set(edge.router.clone()).expect("it is set once");
        let owner = json!({ "email": "anna@example.org", "time_zone": "Europe/Berlin" });
        edge.put_json("/v1/owners/anna", &owner).await;
        let lines: Vec<String> = (0..reminders)
            .map(|number| {
                let key = number.to_string();
                let ics = event(&key, "100000", "Tea");
                json!({ "op": "put", "key": key, "owner": "anna", "ics": ics }).to_string()
            })
            .collect();
        edge.post_lines(&lines).await;
        Self {
            edge,
            courier,
            _server: server,
        }
    }

    /// The same with one reminder that was sent and awaits its report.
    async fn awaiting() -> (Self, String) {
        let mut field = Self::of(Base::Sqlite, 1, |_| Act::Take, Some(Duration::from_mins(5))).await;
        field.edge.hand.advance(TimeDelta::minutes(45)).await;
        let id = field.ids()[0].clone();
        (field, id)
    }

    fn ids(&self) -> Vec<String> {
        self.courier.seen.lock().unwrap().clone()
    }

    /// Lets time pass as a node that leads does: every five seconds it gives up what has awaited a report for too long.
    async fn advance(&mut self, seconds: i64) {
        for _ in 0..seconds / 5 {
            self.edge.hand.advance(TimeDelta::seconds(5)).await;
            let node = &self.edge.hand.node;
            node.worker.time_out_once(&node.janitor).await;
        }
    }

    async fn post(&self, path: &str, body: impl Into<Body>) -> Reply {
        let request = local("POST", path).body(body.into()).unwrap();
        self.edge.send(request).await
    }

    async fn delivery(&self, id: &str) -> Value {
        self.edge.get(&format!("/v1/deliveries/{id}")).await.json()
    }

    /// The history by id.
    async fn history(&self) -> BTreeMap<String, Delivery> {
        let rows = self.edge.hand.history("anna").await;
        rows.into_iter().map(|row| (row.id.to_string(), row)).collect()
    }

    async fn metric(&self, series: &str) -> u64 {
        let text = self.edge.get("/metrics").await.text;
        let line = text.lines().find_map(|line| line.strip_prefix(series));
        line.map_or(0, |value| value.trim().parse().expect("a count"))
    }
}

/// F12 in short: receipts come three times, in reverse order, and one in twenty before the submit is on record.
async fn receipts_in_whatever_order_end_right(base: Base) {
    let plan = |number| {
        if number % 20 == 1 {
            Act::TakeAndTell
        } else {
            Act::Take
        }
    };
    let mut field = Field::of(base, 200, plan, Some(Duration::from_hours(1))).await;
    field.edge.hand.advance(TimeDelta::minutes(45)).await;
    let ids = field.ids();
    assert_eq!(ids.len(), 200);

    for (number, id) in ids.iter().enumerate() {
        let said: &[&str] = match number % 10 {
            0 => &["undelivered", "sent"],
            5 => &["undelivered", "delivered", "sent"],
            6 => &["delivered", "undelivered", "sent"],
            _ => &["delivered", "sent"],
        };
        for status in said.iter().flat_map(|status| [status; 3]) {
            assert_eq!(field.edge.get(&receipt(id, status)).await.status, 204);
        }
    }

    let history = field.history().await;
    assert_eq!(history.len(), 200);
    for (number, id) in ids.iter().enumerate() {
        let row = &history[id];
        let right = if number % 10 == 0 {
            (Outcome::Failed, Reason::Undelivered)
        } else {
            (Outcome::Completed, Reason::None)
        };
        assert_eq!((row.outcome, row.reason), right, "{number}");
        // What the submit said is there as well, whichever came first.
        assert_eq!((row.detail.as_str(), row.attempts), ("202 taken", 1), "{number}");
        assert_eq!(row.reference, Some(format!("SM{id}")));
        assert!(row.handed_over_at.is_some() && row.reported_at.is_some());
    }
    let labels = r#"channel="email",outcome="completed",reason="""#;
    assert_eq!(
        field.metric(&format!("carillon_reports_total{{{labels}}}")).await,
        180
    );
    let labels = r#"channel="email",outcome="awaiting",reason="""#;
    assert_eq!(
        field
            .metric(&format!("carillon_deliveries_total{{{labels}}}"))
            .await,
        200
    );
}

#[tokio::test]
async fn receipts_in_whatever_order_end_right_on_sqlite() {
    receipts_in_whatever_order_end_right(Base::Sqlite).await;
}

#[tokio::test]
async fn receipts_in_whatever_order_end_right_on_postgres() {
    receipts_in_whatever_order_end_right(Base::Postgres).await;
}

/// F13 in short: of a hundred, ten are never reported on, ten are refused at first and reported on once they are taken,
/// ten are reported as failed, five are reported on too late, and the others at once.
async fn silence_is_given_up_in_time_and_what_is_late_still_counts(base: Base) {
    let plan = |number| {
        if number % 10 == 1 {
            Act::RefuseFirst
        } else {
            Act::Take
        }
    };
    let mut field = Field::of(base, 100, plan, Some(Duration::from_mins(5))).await;
    field.edge.hand.advance(TimeDelta::minutes(45)).await;
    let ids = field.ids();
    let report = async |field: &Field, wanted: fn(usize) -> bool, verb: &str| {
        for (number, id) in ids.iter().enumerate() {
            if wanted(number) {
                let reply = field.post(&ending(id, verb), r#"{"result": "done"}"#).await;
                assert_eq!(reply.status, 200, "{number}: {}", reply.text);
            }
        }
    };
    let is_late = |number: usize| number % 20 == 2;
    report(&field, |number| number % 10 == 3, "fail").await;
    report(
        &field,
        |number| !matches!(number % 10, 0 | 1 | 3) && number % 20 != 2,
        "complete",
    )
    .await;
    field.advance(120).await;
    report(&field, |number| number % 10 == 1, "complete").await;
    field.advance(300).await;

    let history = field.history().await;
    for (number, id) in ids.iter().enumerate() {
        let row = &history[id];
        let right = match number % 10 {
            0 => (Outcome::TimeoutUnknown, Reason::NoReport),
            3 => (Outcome::Failed, Reason::Reported),
            _ if is_late(number) => (Outcome::TimeoutUnknown, Reason::NoReport),
            _ => (Outcome::Completed, Reason::None),
        };
        assert_eq!((row.outcome, row.reason), right, "{number}");
        if row.outcome == Outcome::TimeoutUnknown {
            let waited = row.recorded_at - row.handed_over_at.expect("it was taken");
            let window = TimeDelta::seconds(240)..=TimeDelta::seconds(360);
            assert!(window.contains(&waited), "{number}: {waited}");
        }
    }
    let labels = r#"channel="email",outcome="timeout_unknown",reason="no report""#;
    assert_eq!(
        field.metric(&format!("carillon_reports_total{{{labels}}}")).await,
        15
    );
    report(&field, |number| number % 20 == 2, "complete").await;
    let history = field.history().await;
    let late = ids.iter().enumerate().filter(|(number, _)| is_late(*number));
    for (_, id) in late {
        let row = &history[id];
        assert_eq!(row.outcome, Outcome::Completed);
        assert_eq!(row.reported_at, Some(field.edge.hand.clock.now()));
    }
}

#[tokio::test]
async fn silence_is_given_up_in_time_and_what_is_late_still_counts_on_sqlite() {
    silence_is_given_up_in_time_and_what_is_late_still_counts(Base::Sqlite).await;
}

#[tokio::test]
async fn silence_is_given_up_in_time_and_what_is_late_still_counts_on_postgres() {
    silence_is_given_up_in_time_and_what_is_late_still_counts(Base::Postgres).await;
}

#[tokio::test]
async fn who_took_the_work_says_how_it_ended_and_history_shows_it() {
    let (field, id) = Field::awaiting().await;
    let waiting = field.delivery(&id).await;
    assert_eq!(waiting["outcome"], "awaiting");
    assert_eq!(waiting["reference"], format!("SM{id}"));
    assert_eq!(waiting["await_until"], "2026-12-01T08:50:00Z");
    assert_eq!(waiting["started_at"], "2026-12-01T08:45:00Z");

    let said = "watered\u{1b}[2J";
    let reply = field
        .post(&ending(&id, "complete"), json!({ "result": said }).to_string())
        .await;

    assert_eq!(reply.status, 200);
    assert_eq!(reply.json(), json!({ "id": id, "outcome": "completed" }));
    let ended = field.delivery(&id).await;
    assert_eq!(
        (&ended["outcome"], &ended["report"]),
        (&json!("completed"), &json!("watered[2J"))
    );
    assert_eq!(ended["reported_at"], "2026-12-01T08:45:00Z");
    // Again, and late to say something else: nothing changes, and the answer is the same.
    for verb in ["complete", "fail"] {
        let again = field.post(&ending(&id, verb), "").await;
        assert_eq!(
            (again.status, again.json()),
            (reply.status, reply.json()),
            "{verb}"
        );
    }
    assert_eq!(field.delivery(&id).await, ended);
}

#[tokio::test]
async fn whatever_does_not_open_is_answered_alike() {
    let (field, id) = Field::awaiting().await;
    let token = tokens().token(&id, Purpose::Complete(EPOCH));
    let receipts = tokens().token(&id, Purpose::Receipt("courier"));
    let other = "00".repeat(16);
    let of_other = tokens().token(&other, Purpose::Complete(EPOCH));
    let receipt_of_other = tokens().token(&other, Purpose::Receipt("courier"));
    let unknown = tokens().token(&id, Purpose::Receipt("pigeon"));
    let mut answers = Vec::new();
    for path in [
        // A token that is wrong, cut, for something else, or for another.
        format!("/v1/deliveries/{id}/complete?token={}", "0".repeat(32)),
        format!("/v1/deliveries/{id}/complete?token={}", &token[1..]),
        format!("/v1/deliveries/{id}/complete?token="),
        format!("/v1/deliveries/{id}/fail?token={receipts}"),
        format!("/v1/deliveries/{other}/complete?token={token}"),
        // An id that nobody has, one that is none.
        format!("/v1/deliveries/{other}/complete?token={of_other}"),
        format!("/v1/deliveries/{other}/complete"),
        format!("/v1/deliveries/tea/complete?token={token}"),
        "/v1/deliveries/tea/complete".to_owned(),
        format!("/v1/receipts/courier/{id}/{token}?status=delivered"),
        format!("/v1/receipts/courier/{other}/{receipt_of_other}?status=delivered"),
        format!("/v1/receipts/courier/tea/{receipts}?status=delivered"),
        format!("/v1/receipts/pigeon/{id}/{receipts}?status=delivered"),
        format!("/v1/receipts/pigeon/{id}/{unknown}?status=delivered"),
    ] {
        answers.push(field.post(&path, "").await.problem(404));
    }
    answers.dedup();
    assert_eq!(answers.len(), 1, "{answers:#?}");
    assert_eq!(field.delivery(&id).await["outcome"], "awaiting");
}

#[tokio::test]
async fn a_report_needs_the_token_of_its_message_or_that_of_the_api() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("token");
    std::fs::write(&path, "s3cret").expect("it is written");
    let environment = [("CARILLON__HTTP__TOKEN_FILE", path.to_str().expect("a plain path"))];
    let (field, id) = Field::awaiting().await;
    let edge = Edge::around(field.edge.hand, folder, &environment);
    let post = async |path: String, header: &str| {
        let request = local("POST", &path).header("authorization", header);
        edge.send(request.body(Body::empty()).unwrap()).await
    };
    let bare = format!("/v1/deliveries/{id}/complete");
    assert_eq!(post(bare.clone(), "").await.status, 401);
    assert_eq!(post(bare.clone(), "Bearer guess").await.status, 401);
    assert_eq!(
        post(format!("{bare}?token=00"), "Bearer s3cret").await.status,
        404
    );
    assert_eq!(post(ending(&id, "fail"), "").await.status, 200);
    assert_eq!(post(bare, "Bearer s3cret").await.status, 200);
    // The message's own token opens nothing else.
    let token = tokens().token(&id, Purpose::Complete(EPOCH));
    let read = edge.get(&format!("/v1/deliveries/{id}?token={token}")).await;
    assert_eq!(read.status, 401);
}

#[tokio::test]
async fn a_report_is_bounded_and_readable_or_changes_nothing() {
    let (field, id) = Field::awaiting().await;
    let path = ending(&id, "complete");
    let large = json!({ "result": "x".repeat(20_000) }).to_string();
    field.post(&path, large).await.problem(413);
    field.post(&path, "done").await.problem(400);
    field.post(&path, r#"{"results": "done"}"#).await.problem(422);
    field.post(&path, r#"["done"]"#).await.problem(422);
    // A link in a message that some scanner follows reports nothing.
    field.edge.get(&path).await.problem(405);
    field.edge.get(&receipt(&id, "lost")).await.problem(400);
    assert_eq!(field.delivery(&id).await["outcome"], "awaiting");
    assert_eq!(field.edge.get(&receipt(&id, "sent")).await.status, 204);
    assert_eq!(field.delivery(&id).await["outcome"], "awaiting");
    // By form as well.
    let path = receipt(&id, "").replace("?status=", "");
    assert_eq!(field.post(&path, "status=delivered").await.status, 204);
    assert_eq!(field.delivery(&id).await["outcome"], "completed");
}
