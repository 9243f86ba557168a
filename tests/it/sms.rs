//! Text messages through real sockets: a scripted provider that records what it is asked, and Kannel for one that others
//! wrote.

mod journey;

use std::fs;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use carillon::channel::Blame;
use carillon::channel::Channel;
use carillon::channel::Content;
use carillon::channel::Deadline;
use carillon::channel::Message;
use carillon::channel::Report;
use carillon::channel::receipt::Slip;
use carillon::channel::receipt::Status;
use carillon::channel::sms::SmsChannel;
use carillon::clock::Clock;
use carillon::clock::SystemClock;
use carillon::config::Settings;
use carillon::token::Callbacks;
use carillon::token::Tokens;

use crate::harness::free_port;
use crate::harness::hook::Conduct;
use crate::harness::hook::Hook;
use crate::harness::kannel;
use crate::harness::kannel::Kannel;

const TO: &str = "+4930123456";

/// No test waits for this unless something hangs.
const WHOLE: Duration = Duration::from_secs(20);

/// A channel as it is configured, and what each provider made of messages so far.
struct Station {
    channel: SmsChannel,
    settings: Settings,
    seen: Arc<Mutex<Vec<(String, Report)>>>,
}

impl Station {
    /// With these providers, all on the route in their order. `SECRET` stands for a file with the secret `hush`.
    fn with(route: &str, providers: &str, callbacks: Option<&Callbacks>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let secret = folder.path().join("secret");
        fs::write(&secret, "hush\n").unwrap();
        fs::write(folder.path().join("kannel"), kannel::PASSWORD).unwrap();
        let file = folder.path().join("carillon.toml");
        let text = format!(
            "[channels.sms]\nenabled = true\nroute = {route}\nallow_countries = [\"+49\"]\n{providers}"
        );
        let text = text
            .replace("SECRET", &secret.display().to_string())
            .replace("KANNEL", &folder.path().join("kannel").display().to_string());
        fs::write(&file, text).unwrap();
        let settings = Settings::load(Some(&file), []).unwrap_or_else(|wrong| panic!("{wrong}"));
        let seen = Arc::new(Mutex::new(Vec::new()));
        let witness = Arc::clone(&seen);
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let channel = SmsChannel::new(
            settings.sms.clone(),
            callbacks,
            Arc::new(move |name: &str, report: &Report| {
                witness.lock().unwrap().push((name.to_owned(), report.clone()));
            }),
            &clock,
        );
        Self {
            channel: channel.unwrap(),
            settings,
            seen,
        }
    }

    async fn send(&self, id: u32, to: &str, text: &str) -> Report {
        let message = Message {
            id: format!("{id:032x}"),
            thread: String::new(),
            owner: 7,
            to: to.to_owned(),
            content: Content::Text(text.to_owned()),
            language: "en".to_owned(),
            within: None,
            own: carillon::channel::Own::default(),
        };
        let deadline = Deadline(SystemClock.elapsed() + WHOLE);
        self.channel.send(&message, deadline).await
    }

    fn seen(&self) -> Vec<String> {
        let seen = self.seen.lock().unwrap();
        seen.iter().map(|(name, _)| name.clone()).collect()
    }
}

/// A provider that is described by its keys alone.
fn own(name: &str, port: u16) -> String {
    format!(
        "[channels.sms.providers.{name}]\nurl = \"http://127.0.0.1:{port}/send\"\ntimeout = \"2s\"\nmessage_id = \"/id\"\n\
         code = \"/code\"\njson = '{{\"to\": {{{{ to }}}}, \"text\": {{{{ text }}}}, \"ref\": {{{{ id }}}}}}'\n\
         success = [\"202\"]\n"
    )
}

fn taken() -> Conduct {
    Conduct::Answer(202, vec![], r#"{"id": "M-1"}"#.to_owned())
}

fn callbacks() -> Callbacks {
    Callbacks::new("https://reminders.example.org", Tokens::new("secret"))
}

fn is_transient(report: &Report) -> bool {
    matches!(
        report,
        Report::Transient {
            of: Blame::Target,
            ..
        }
    )
}

#[tokio::test]
async fn twilio_is_asked_over_the_wire_as_it_documents() {
    let accepted = r#"{"sid": "SM0123456789abcdef0123456789abcdef", "status": "queued", "error_code": null}"#;
    let hook = Hook::start([Conduct::Answer(201, vec![], accepted.to_owned())]).await;
    let providers = format!(
        "[channels.sms.providers.main]\nkind = \"twilio\"\nusername = \"AC1\"\nsecret_file = \"SECRET\"\nfrom = \"+15005550006\"\n\
         url = \"http://127.0.0.1:{}/2010-04-01/Accounts/{{{{ username }}}}/Messages.json\"\n",
        hook.port
    );
    let station = Station::with(r#"["main"]"#, &providers, Some(&callbacks()));
    let report = station.send(1, TO, "Tea & \"cake\"").await;
    let expected = Report::Accepted {
        reply: "answered 201, in parts: 1".to_owned(),
        kept: None,
        reference: Some("SM0123456789abcdef0123456789abcdef".to_owned()),
        awaits: Some(Duration::from_hours(48)),
    };
    assert_eq!(report, expected);
    let call = hook.until(1).await.remove(0);
    assert_eq!(call.line, "POST /2010-04-01/Accounts/AC1/Messages.json HTTP/1.1");
    // base64 of AC1:hush
    assert_eq!(call.headers["authorization"], "Basic QUMxOmh1c2g=");
    assert_eq!(call.headers["content-type"], "application/x-www-form-urlencoded");
    let callback = callbacks().receipt("main", &format!("{:032x}", 1));
    let callback = callback.replace(':', "%3A").replace('/', "%2F");
    assert_eq!(
        call.body,
        format!("Body=Tea+%26+%22cake%22&From=%2B15005550006&StatusCallback={callback}&To=%2B4930123456")
    );
}

#[tokio::test]
async fn vonage_is_asked_over_the_wire_as_it_documents() {
    let accepted = r#"{"message-count": "1", "messages": [{"to": "4930123456", "message-id": "0A00000012", "status": "0"}]}"#;
    let throttled = r#"{"message-count": "1", "messages": [{"status": "1", "error-text": "Throttled"}]}"#;
    let hook = Hook::start([Conduct::says(accepted), Conduct::says(throttled)]).await;
    let providers = format!(
        "[channels.sms.providers.main]\nkind = \"vonage\"\nusername = \"key\"\nsecret_file = \"SECRET\"\nfrom = \"Carillon\"\n\
         url = \"http://127.0.0.1:{}/sms/json\"\n",
        hook.port
    );
    let station = Station::with(r#"["main"]"#, &providers, None);
    let report = station.send(1, TO, "会議").await;
    let Report::Accepted {
        reference, awaits, ..
    } = report
    else {
        panic!("{report:?}");
    };
    assert_eq!(reference.as_deref(), Some("0A00000012"));
    assert_eq!(awaits, None, "nobody was told where to report");
    assert!(is_transient(&station.send(2, TO, "Tea").await));
    let call = hook.until(2).await.remove(0);
    assert_eq!(call.line, "POST /sms/json HTTP/1.1");
    let expected = "api_key=key&api_secret=hush&client-ref=00000000000000000000000000000001&from=Carillon\
                    &text=%E4%BC%9A%E8%AD%B0&to=4930123456&type=unicode";
    assert_eq!(call.body, expected);
}

#[tokio::test]
async fn the_next_provider_is_asked_where_the_first_certainly_did_not_take_it() {
    let refusing = free_port();
    let busy = Hook::start([Conduct::status(503), Conduct::status(429)]).await;
    let backup = Hook::start([taken(), taken()]).await;
    let providers = own("gone", refusing) + &own("busy", busy.port) + &own("backup", backup.port);
    let station = Station::with(r#"["gone", "busy", "backup"]"#, &providers, None);
    for id in 1..=2 {
        let report = station.send(id, TO, "Tea").await;
        assert!(matches!(report, Report::Accepted { .. }), "{report:?}");
    }
    assert_eq!(
        station.seen(),
        ["gone", "busy", "backup", "gone", "busy", "backup"]
    );
    assert_eq!(backup.calls().len(), 2);
    let body = backup.calls()[0].json();
    assert_eq!((&body["to"], &body["text"]), (&TO.into(), &"Tea".into()));
}

#[tokio::test]
async fn what_may_have_been_taken_is_in_doubt_and_put_to_nobody_else() {
    for conduct in [
        Conduct::HangUp,
        Conduct::Hang,
        Conduct::Stall,
        // Successes that no rule knows.
        Conduct::Slow(Duration::from_millis(50)),
        Conduct::status(200),
    ] {
        let main = Hook::start([conduct.clone()]).await;
        let backup = Hook::start([taken()]).await;
        let providers = own("main", main.port) + &own("backup", backup.port);
        let station = Station::with(r#"["main", "backup"]"#, &providers, None);
        let report = station.send(1, TO, "Tea").await;
        assert!(
            matches!(report, Report::InDoubt { .. }),
            "{conduct:?}: {report:?}"
        );
        assert_eq!((main.calls().len(), backup.calls().len()), (1, 0), "{conduct:?}");
        let told = format!("{report:?}");
        assert!(!told.contains("127.0.0.1") && !told.contains("4930"), "{told}");
    }
}

#[tokio::test]
async fn a_refusal_is_the_end_and_redirects_and_floods_lead_nowhere() {
    let elsewhere = Hook::start([taken()]).await;
    let moved = vec![format!("location: {}", elsewhere.url())];
    for (conduct, expected) in [
        (
            Conduct::Answer(400, vec![], r#"{"code": 7, "to": "+4930123456"}"#.to_owned()),
            "answered 400, code 7",
        ),
        (Conduct::Answer(307, moved, String::new()), "answered 307"),
    ] {
        let main = Hook::start([conduct]).await;
        let providers = own("main", main.port) + &own("backup", elsewhere.port);
        let station = Station::with(r#"["main", "backup"]"#, &providers, None);
        let expected = Report::Permanent {
            error: expected.to_owned(),
        };
        assert_eq!(station.send(1, TO, "Tea").await, expected);
    }
    let flood = Hook::start([Conduct::Flood]).await;
    let station = Station::with(r#"["main"]"#, &own("main", flood.port), None);
    assert!(matches!(station.send(1, TO, "Tea").await, Report::InDoubt { .. }));
    assert_eq!(elsewhere.calls().len(), 0);
}

#[tokio::test]
async fn nothing_goes_where_it_may_not() {
    let hook = Hook::start([]).await;
    let station = Station::with(r#"["main"]"#, &own("main", hook.port), None);
    for to in ["+4312345678", "+999123456789", "030 123456", ""] {
        let report = station.send(1, to, "Tea").await;
        assert!(matches!(report, Report::Permanent { .. }), "{to}: {report:?}");
        assert!(to.is_empty() || !format!("{report:?}").contains(to), "{report:?}");
    }
    assert_eq!(hook.calls().len(), 0);
}

#[tokio::test]
async fn a_provider_that_is_down_is_left_alone_while_the_others_go_on() {
    let down = Hook::start((0..50).map(|_| Conduct::status(503))).await;
    let backup = Hook::start((0..50).map(|_| taken())).await;
    let providers = own("main", down.port) + &own("backup", backup.port);
    let station = Station::with(r#"["main", "backup"]"#, &providers, None);
    for id in 1..=20 {
        let report = station.send(id, TO, "Tea").await;
        assert!(matches!(report, Report::Accepted { .. }), "{report:?}");
    }
    let breakers = station.channel.breakers();
    assert_eq!(
        breakers,
        [("main".to_owned(), true), ("backup".to_owned(), false)]
    );
    // Five until it counted as down; a probe where five seconds have passed on a slow machine.
    let asked = down.calls().len();
    assert!((5..=7).contains(&asked), "{asked}");
    assert!(down.connections() <= asked);
    assert_eq!(backup.calls().len(), 20);
}

#[tokio::test]
async fn calls_come_at_the_pace_that_is_configured() {
    let hook = Hook::start([taken(), taken(), taken()]).await;
    let providers = own("main", hook.port) + "rate = 5\n";
    let station = Station::with(r#"["main"]"#, &providers, None);
    let sends = (1..=3).map(|id| station.send(id, TO, "Tea"));
    futures_util::future::join_all(sends).await;
    let calls = hook.calls();
    let took = calls[2].at - calls[0].at;
    assert!(took >= chrono::TimeDelta::milliseconds(350), "{took}");
}

#[tokio::test]
async fn kannel_delivers_and_reports_it() {
    let kannel = Kannel::start().await;
    let receipts = Receipts::start().await;
    let providers = format!(
        "[channels.sms.providers.own]\nkind = \"kannel\"\nusername = \"{}\"\nsecret_file = \"KANNEL\"\nfrom = \"Carillon\"\n\
         url = \"http://127.0.0.1:{}/cgi-bin/sendsms\"\n",
        kannel::USER,
        kannel.port
    );
    let base = format!("http://127.0.0.1:{}", receipts.port);
    let callbacks = Callbacks::new(&base, Tokens::new("secret"));
    let station = Station::with(r#"["own"]"#, &providers, Some(&callbacks));
    let plain =
        "Starts in 15 minutes: Grüße {x} \"Tea\" - Tue 1 Dec 2026, 09:30-10:00 (Europe/Berlin, UTC+1)";
    for (id, text) in [(1, plain), (2, "会議 🎂")] {
        let report = station.send(id, TO, text).await;
        let Report::Accepted { awaits, .. } = &report else {
            panic!("{report:?}");
        };
        assert!(awaits.is_some(), "{report:?}");
    }
    let messages = kannel.messages(2).await;
    assert_eq!(messages[0], format!("Carillon +4930123456 text {plain}"));
    assert_eq!(messages[1], "Carillon +4930123456 ucs-2 O%1A%8Bp%00+%D8%3C%DF%82");

    let read = station.settings.sms.readers()["own"].clone();
    let mut reported = receipts.until(2).await;
    reported.sort();
    for (id, line) in (1..=2).zip(reported) {
        let address = callbacks.receipt("own", &format!("{id:032x}"));
        let path = address.strip_prefix(&base).unwrap();
        let query = line
            .strip_prefix(&format!("GET {path}?"))
            .unwrap_or_else(|| panic!("{line}"));
        let slip = Slip {
            query: query.split(' ').next().unwrap(),
            content_type: "",
            body: b"",
        };
        assert_eq!(read(&slip).unwrap().status, Status::Delivered, "{line}");
    }

    let wrong = providers.replace("KANNEL", "SECRET");
    let stranger = Station::with(r#"["own"]"#, &wrong, None);
    let expected = Report::Permanent {
        error: "answered 403".to_owned(),
    };
    assert_eq!(stranger.send(3, TO, "Tea").await, expected);
    assert_eq!(kannel.arrived().len(), 2);
}

/// Takes calls without a body, and keeps their first lines.
struct Receipts {
    port: u16,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Receipts {
    async fn start() -> Self {
        use tokio::io::AsyncBufReadExt;
        use tokio::io::AsyncWriteExt;
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let lines: Arc<Mutex<Vec<String>>> = Arc::default();
        let kept = Arc::clone(&lines);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let kept = Arc::clone(&kept);
                tokio::spawn(async move {
                    let (reading, mut writing) = stream.split();
                    let mut arriving = tokio::io::BufReader::new(reading).lines();
                    let mut first = None;
                    while let Ok(Some(line)) = arriving.next_line().await {
                        if line.is_empty() {
                            kept.lock().unwrap().extend(first.take());
                            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
                            let _ = writing.write_all(answer).await;
                        } else {
                            first.get_or_insert(line);
                        }
                    }
                });
            }
        });
        Self { port, lines }
    }

    /// Waits for so many that say that a message was delivered; that the SMSC took it may be said before.
    async fn until(&self, count: usize) -> Vec<String> {
        let what = format!("{count} reports of delivery");
        crate::harness::eventually(&what, async || {
            let mut lines = self.lines.lock().unwrap().clone();
            lines.retain(|line| line.contains("?status=1 "));
            Some(lines).filter(|lines| lines.len() >= count)
        })
        .await
    }
}
