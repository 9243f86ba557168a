//! smtp-sink, which comes with Postfix: a relay that somebody else wrote.

use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::time::Duration;

use carillon::channel::Channel;
use carillon::clock::Clock;
use carillon::clock::SystemClock;

use super::SHORT;
use super::WHOLE;
use super::channel;
use super::class;
use super::config;
use super::message;
use super::send;
use super::within;

struct Sink {
    process: Child,
    port: u16,
}

impl Sink {
    async fn start(flags: &[&str]) -> Self {
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let mut command = Command::new("/usr/sbin/smtp-sink");
        if std::fs::metadata("/proc/self").unwrap().uid() == 0 {
            command.args(["-u", "nobody"]);
        }
        let process = command
            .args(flags)
            .args(["-h", "sink.test", &format!("127.0.0.1:{port}"), "100"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("smtp-sink is installed: Debian has it in `postfix`");
        let sink = Self { process, port };
        let deadline = SystemClock.elapsed() + Duration::from_secs(10);
        while tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_err() {
            assert!(SystemClock.elapsed() < deadline, "smtp-sink does not listen");
            SystemClock.sleep(Duration::from_millis(10)).await;
        }
        sink
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

#[tokio::test]
async fn many_mails_are_accepted_over_few_connections() {
    let sink = Sink::start(&[]).await;
    let channel = channel(config(sink.port));
    let sends = (0..300).map(|id| {
        let (channel, message) = (&channel, message(id));
        async move { channel.send(&message, within(WHOLE)).await }
    });
    let reports = futures_util::future::join_all(sends).await;
    let accepted = reports
        .iter()
        .filter(|report| class(report).0 == "accepted")
        .count();
    assert_eq!(
        accepted,
        300,
        "{:?}",
        reports.iter().find(|report| class(report).0 != "accepted")
    );
}

#[tokio::test]
async fn its_faults_have_their_classes() {
    let table: [(&[&str], &str); 8] = [
        (&["-r", "RCPT"], "message"),
        (&["-f", "RCPT"], "permanent"),
        (&["-q", "RCPT"], "target"),
        (&["-Q", "MAIL"], "target"),
        (&["-r", "."], "message"),
        (&["-f", "."], "permanent"),
        (&["-q", "."], "in doubt"),
        (&["-W", ".:5"], "in doubt"),
    ];
    for (flags, expected) in table {
        let sink = Sink::start(flags).await;
        let mut config = config(sink.port);
        if flags == ["-W", ".:5"] {
            config.timeouts.accept = SHORT;
        }
        let report = send(&channel(config)).await;
        assert_eq!(class(&report).0, expected, "{flags:?}: {report:?}");
    }
}
