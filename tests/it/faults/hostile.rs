//! Callers who mean harm: calendars, rules, JSON and streams of changes that are broken, deep, long or costly. No request
//! may cost much, none may end or wedge the node, and a reminder leaves on time afterwards.

#[path = "../../../benches/calendar/hostile.rs"]
mod costly;
#[path = "../../../benches/calendar/texts.rs"]
#[expect(dead_code, reason = "the bench measures more than is put here")]
mod texts;

use std::fs;
use std::path::Path;
use std::time::Duration;

use reqwest::Method;
use reqwest::StatusCode;
use serde_json::json;

use crate::faults::crowd::peak;
use crate::faults::size::choose;
use crate::harness::api::ADDRESS;
use crate::harness::api::SOURCE;
use crate::harness::calendar::Calendar;
use crate::harness::client::client_builder;
use crate::harness::eventually;
use crate::harness::node::Home;
use crate::harness::node::Node;
use crate::harness::now;
use crate::harness::sink::Sink;
use crate::harness::whole_second_in;

/// CPU time that one request may cost.
const COST: Duration = Duration::from_secs(2);

/// MiB that the node may use.
const MEMORY: u64 = 1_024;

/// Whose events they are; another is reminded afterwards.
const ATTACKER: &str = "mallory";

/// Bytes of an event that are just allowed.
const LONG: usize = 1_000_000;

/// A request.
struct Attack {
    what: String,
    method: Method,
    path: String,
    content_type: &'static str,
    body: Vec<u8>,
}

impl Attack {
    fn calendar(what: String, body: impl Into<Vec<u8>>) -> Self {
        Self {
            path: format!("/v1/sources/{SOURCE}/events/{}?owner={ATTACKER}", key(&what)),
            what,
            method: Method::PUT,
            content_type: "text/calendar",
            body: body.into(),
        }
    }

    fn post(
        what: impl Into<String>,
        path: &str,
        content_type: &'static str,
        body: impl Into<Vec<u8>>,
    ) -> Self {
        Self {
            what: what.into(),
            method: Method::POST,
            path: path.to_owned(),
            content_type,
            body: body.into(),
        }
    }
}

/// A key that belongs to this text alone.
fn key(text: &str) -> String {
    let hash = text.bytes().fold(7_u64, |hash, byte| {
        hash.wrapping_mul(31).wrapping_add(byte.into())
    });
    format!("h{hash:x}")
}

/// All requests of this test.
fn attacks() -> Vec<Attack> {
    let calendars = damaged_corpus()
        .into_iter()
        .chain(costly::all().into_iter().map(text))
        .chain(costly::aged(50).into_iter().map(text))
        .chain(rules().into_iter().map(text))
        .chain(shapes().into_iter().map(text));
    let calendars = calendars.map(|(what, body)| Attack::calendar(what, body));
    calendars.chain(documents()).chain(streams()).collect()
}

fn text((what, body): (String, String)) -> (String, Vec<u8>) {
    (what, body.into_bytes())
}

/// The texts that the fuzz target begins with: as they are, cut, and with bytes that are changed.
fn damaged_corpus() -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpus");
    let mut all = Vec::new();
    let mut dice = 1_u64;
    let mut roll = |below: usize| {
        dice = dice
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(dice >> 33).expect("31 bits") % below
    };
    for entry in fs::read_dir(folder).expect("the corpus") {
        let path = entry.expect("an entry of the corpus").path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let whole = fs::read(&path).expect("a text of the corpus");
        for round in 0..choose(1, 30) {
            let mut changed = whole.clone();
            for _ in 0..=round {
                let at = roll(changed.len());
                changed[at] = u8::try_from(roll(256)).expect("a byte");
            }
            all.push((format!("{name}, changed {round}"), changed));
        }
        all.push((format!("{name}, cut"), whole[..whole.len() * 2 / 3].to_vec()));
        all.push((name, whole));
    }
    all
}

/// An event with these lines and an alarm.
fn event(lines: &str) -> String {
    texts::calendar(&texts::event(&format!("{lines}\n{}", texts::alarm("-PT15M"))))
}

/// Rules that are no rules, or more than any needs.
fn rules() -> Vec<(String, String)> {
    let days = vec!["MO"; 100_000].join(",");
    let numbers = (1..=50_000)
        .map(|it| (it % 366 + 1).to_string())
        .collect::<Vec<_>>()
        .join(",");
    let many = "RRULE:FREQ=DAILY\n".repeat(20_000);
    let rules = [
        "FREQ=".to_owned(),
        "FREQ=NEVER".to_owned(),
        "FREQ=DAILY;COUNT=99999999999999999999999999".to_owned(),
        "FREQ=DAILY;INTERVAL=0".to_owned(),
        "FREQ=DAILY;INTERVAL=-1;COUNT=-5".to_owned(),
        "FREQ=YEARLY;BYDAY=999999999999MO".to_owned(),
        "FREQ=YEARLY;BYMONTHDAY=-2147483649".to_owned(),
        "FREQ=DAILY;UNTIL=99999999T999999Z".to_owned(),
        "FREQ=DAILY;UNTIL=00000000".to_owned(),
        "FREQ=SECONDLY;BYSECOND=60;BYMONTH=13".to_owned(),
        "FREQ=YEARLY;BYWEEKNO=-53,53;BYYEARDAY=-366,366;BYSETPOS=-366,366".to_owned(),
        format!("FREQ=WEEKLY;BYDAY={days}"),
        format!("FREQ=YEARLY;BYYEARDAY={numbers}"),
        format!("FREQ=DAILY;{}", "BYHOUR=1;".repeat(10_000)),
    ];
    let rule = |rule: &String| {
        let what = format!("rule {}", rule.get(..60).unwrap_or(rule));
        (
            what,
            event(&format!(
                "DTSTART;TZID=Europe/Berlin:20200101T000000\nRRULE:{rule}"
            )),
        )
    };
    let mut all: Vec<(String, String)> = rules.iter().map(rule).collect();
    all.push((
        "20,000 rules".to_owned(),
        event(&format!("DTSTART:20200101T000000Z\n{many}")),
    ));
    all
}

/// A start of events that do not matter for it.
const START: &str = "DTSTART:20300603T090000Z\n";

/// Calendars of a strange shape.
fn shapes() -> Vec<(String, String)> {
    let named = |(what, body): (&str, String)| (what.to_owned(), body);
    let all = texts_without_lines().into_iter().chain(long_lines());
    all.chain(many_parts()).chain(odd_values()).map(named).collect()
}

fn texts_without_lines() -> [(&'static str, String); 4] {
    [
        ("nothing", String::new()),
        ("line ends", "\r\n".repeat(LONG / 2)),
        ("zeros", "\0".repeat(LONG)),
        ("no line end", "A".repeat(LONG)),
    ]
}

fn long_lines() -> [(&'static str, String); 6] {
    let line = |name: &str, part: &str, count: usize| event(&format!("{START}{name}{}", part.repeat(count)));
    [
        ("one long summary", line("SUMMARY:", "x", LONG)),
        ("folded at each character", line("SUMMARY:", "x\n ", LONG / 4)),
        ("parameters", line("SUMMARY", ";X-A=b", LONG / 8)),
        ("open quotation mark", line("SUMMARY;X-A=\"", "x;:,", LONG / 8)),
        ("backslashes", line("SUMMARY:", "\\", LONG)),
        ("a long zone", line("RDATE;TZID=", "Z/", LONG / 4)),
    ]
}

/// Calendars with very many, or very deep, components and properties.
fn many_parts() -> Vec<(&'static str, String)> {
    let numbered = |count: usize, part: fn(usize) -> String| (0..count).map(part).collect::<String>();
    let alarms = (texts::alarm("-PT1M") + "\n").repeat(LONG / 100);
    let zone = |it: usize| {
        format!(
            "BEGIN:VTIMEZONE\nTZID:Z{it}\nBEGIN:STANDARD\nDTSTART:16010101T000000\nTZOFFSETFROM:+0100\n\
             TZOFFSETTO:+9959\nRRULE:FREQ=SECONDLY\nEND:STANDARD\nEND:VTIMEZONE\n"
        )
    };
    let attendees = numbered(20_000, |it| format!("ATTENDEE:mailto:a{it}@example.org\n"));
    let unknown = numbered(20_000, |it| format!("BEGIN:X-{it}\n"));
    vec![
        ("deep", "BEGIN:VCALENDAR\r\n".repeat(LONG / 20)),
        (
            "deep events",
            texts::calendar(&"BEGIN:VEVENT\n".repeat(LONG / 20)),
        ),
        ("deep unknown", texts::calendar(&unknown)),
        ("ends", "END:VEVENT\r\n".repeat(LONG / 20)),
        ("alarms", event(&format!("{START}{alarms}"))),
        ("events", texts::calendar(&texts::event(START).repeat(LONG / 110))),
        (
            "properties",
            event(&format!("{START}{}", "X-A:b\n".repeat(LONG / 8))),
        ),
        ("attendees", event(&format!("{START}{attendees}"))),
        ("zones", texts::calendar(&numbered(5_000, zone))),
    ]
}

fn odd_values() -> [(&'static str, String); 5] {
    let alarm = |trigger: &str| texts::calendar(&texts::event(&format!("{START}{}", texts::alarm(trigger))));
    let end = "99991231T235959Z";
    [
        (
            "long duration",
            event(&format!("{START}DURATION:P99999999999999999999W")),
        ),
        ("long alarm", alarm("-P99999999999W")),
        ("repeated alarm", alarm("-P1D\nREPEAT:4294967295\nDURATION:PT1S")),
        ("no such day", event("DTSTART:20300230T250061Z")),
        (
            "far years",
            event(&format!("DTSTART:{end}\nDTEND:{end}\nRRULE:FREQ=SECONDLY")),
        ),
    ]
}

/// JSON of every kind that is hard to read, to all that read it.
fn documents() -> Vec<Attack> {
    let places = ["/v1/alarms", "/v1/parse-time", "/mcp", "/v1/alarms/reset"];
    let mut all = Vec::new();
    for (what, body) in broken_json().into_iter().chain(odd_requests()) {
        for path in places {
            let what = format!("{what} to {path}");
            all.push(Attack::post(what, path, "application/json", body.clone()));
        }
        all.push(Attack {
            what: format!("{what} as an owner"),
            method: Method::PUT,
            path: format!("/v1/owners/{ATTACKER}"),
            content_type: "application/json",
            body,
        });
    }
    all
}

fn broken_json() -> Vec<(&'static str, Vec<u8>)> {
    let deep = |open: &str, close: &str| open.repeat(80_000) + &close.repeat(80_000);
    let names = "\"owner\":\"x\",".repeat(30_000);
    vec![
        ("deep lists", deep("[", "]").into()),
        ("deep objects", deep("{\"a\":", "}").into()),
        ("open lists", "[".repeat(400_000).into()),
        ("large number", format!("[1e{}]", "9".repeat(100_000)).into()),
        ("long number", "9".repeat(400_000).into()),
        ("no UTF-8", b"{\"owner\":\"\xff\xfe\xc0\x80\"}".to_vec()),
        ("the same name", format!("{{{names}\"a\":1}}").into()),
    ]
}

/// Alarms and phrases that are JSON, with values that mean nothing.
fn odd_requests() -> Vec<(&'static str, Vec<u8>)> {
    let alarm = |field: &str, value: &str| {
        format!(r#"{{"owner":"{ATTACKER}","delay":"1h","channel":"email","{field}":{value}}}"#).into_bytes()
    };
    let phrase = |text: &str| {
        let phrase = json!({ "text": text, "timezone": "Europe/Berlin" });
        phrase.to_string().into_bytes()
    };
    let lists = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    let long = format!("\"{}\"", "x".repeat(500_000));
    vec![
        ("lone surrogate", alarm("label", r#""\ud800""#)),
        ("long label", alarm("label", &long)),
        ("deep payload", alarm("payload", &lists(100_000))),
        ("deep but allowed", alarm("payload", &lists(100))),
        ("many retries", alarm("max_retries", "99999999999999999999999")),
        ("long wait", alarm("backoff_ms", "-1e308")),
        ("rule", alarm("cron", r#""* * * * * * * * * *""#)),
        ("phrase", phrase(&"every ".repeat(80_000))),
        ("digits", phrase(&"9".repeat(400_000))),
        ("phrase far away", phrase("in 99999999999999999999 years")),
    ]
}

/// Streams of changes.
fn streams() -> Vec<Attack> {
    let line = |ics: &str| json!({ "op": "put", "key": "k", "owner": ATTACKER, "ics": ics }).to_string();
    let bodies: Vec<(&str, Vec<u8>)> = vec![
        ("empty lines", "\n".repeat(4_000_000).into()),
        ("braces", "{}\n".repeat(20_000).into()),
        ("a line without an end", "x".repeat(8 << 20).into()),
        ("a long line", line(&"x".repeat(3 << 20)).into()),
        ("deep lines", ("[".repeat(50_000) + "\n").repeat(40).into()),
        ("no UTF-8", b"\xff\xfe{\"op\":\xc0}\n".repeat(1_000)),
        ("zeros", vec![0; 4 << 20]),
        (
            "the same key again and again",
            (line(&event("DTSTART:20300603T090000Z")) + "\n")
                .repeat(500)
                .into(),
        ),
        (
            "a version of many digits",
            format!(
                r#"{{"op":"put","key":"k","owner":"{ATTACKER}","version":{},"ics":""}}"#,
                "9".repeat(500_000)
            )
            .into(),
        ),
    ];
    let path = format!("/v1/sources/{SOURCE}/changes");
    let post = |(what, body): (&str, Vec<u8>)| {
        Attack::post(format!("stream: {what}"), &path, "application/x-ndjson", body)
    };
    bodies.into_iter().map(post).collect()
}

/// CPU time that the process has used so far.
fn cpu(node: &Node) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{}/stat", node.process())).expect("it runs");
    // The second field is the name in brackets, which may hold anything.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let ticks = fields.split_whitespace().skip(11).take(2);
    let ticks: u64 = ticks
        .map(|field| field.parse::<u64>().expect("Linux writes numbers"))
        .sum();
    // A hundred ticks a second, on every Linux of today.
    Duration::from_millis(ticks * 10)
}

/// Carries it out, and says what it cost.
async fn carry_out(node: &mut Node, client: &reqwest::Client, attack: Attack) -> (Duration, String) {
    let before = cpu(node);
    let request = client.request(attack.method, node.url(&attack.path));
    let request = request
        .header("content-type", attack.content_type)
        .body(attack.body);
    let what = attack.what;
    match request.send().await {
        Ok(answer) => {
            let status = answer.status();
            assert_ne!(status, StatusCode::INTERNAL_SERVER_ERROR, "{what}");
            let read = answer.bytes().await;
            assert!(
                !read.is_err_and(|error| error.is_timeout()),
                "{what}: no whole answer"
            );
        }
        // What is too long is not read to its end, which a caller may see as a connection that is closed.
        Err(error) => assert!(!error.is_timeout(), "{what}: no answer"),
    }
    assert!(node.runs(), "{what} ended the node");
    (cpu(node).saturating_sub(before), what)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f29_hostile_input_costs_little_and_breaks_nothing() {
    let sink = Sink::start().await;
    let mut node = Home::new().with_relay(sink.port).start_with_owner().await;
    let owner = json!({ "email": "mallory@example.org", "time_zone": "Europe/Berlin", "locale": "en" });
    let path = format!("/v1/owners/{ATTACKER}");
    node.put(&path, "application/json", owner.to_string()).await.ok();
    let client = client_builder().timeout(Duration::from_mins(1)).build();
    let client = client.expect("a client needs nothing");

    let mut costs = Vec::new();
    for attack in attacks() {
        costs.push(carry_out(&mut node, &client, attack).await);
    }

    let due = whole_second_in(4);
    let event = Calendar::far_away("afterwards@example.org").alarm_at(due);
    node.put_event("afterwards", &event).await.ok();
    let sent = eventually("the reminder of another owner", async || {
        sink.with_log(|log| {
            let theirs = log.mails.iter().find(|mail| mail.recipients[0] == ADDRESS);
            theirs.map(|mail| mail.at)
        })
    })
    .await;
    let peak = peak(&node);
    costs.sort();
    let (most, what) = costs.last().expect("there are attacks");
    println!(
        "F29 | {} requests, {:.2} s of CPU at the most ({what}), {peak} MiB at the most, a reminder {:.2} s late",
        costs.len(),
        most.as_secs_f64(),
        (sent - due).as_seconds_f64()
    );
    let output = node.home.output();
    let panics: Vec<&str> = output.lines().filter(|line| line.contains("panicked")).collect();
    assert!(panics.is_empty(), "{panics:?}");
    let dearest: Vec<_> = costs.iter().rev().take(8).collect();
    assert!(*most <= COST, "{dearest:?}");
    assert!(peak < MEMORY, "{peak} MiB");
    assert!(sent >= due && now() - due < chrono::TimeDelta::seconds(20));
    assert_eq!(node.get("/readyz").await.status, StatusCode::OK);
}
