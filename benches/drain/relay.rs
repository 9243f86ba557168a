//! Where the triggers of the bench go.

use std::net::Ipv4Addr;
use std::net::TcpListener;
use std::net::TcpStream;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::time::Duration;

use carillon::channel::Channel;
use carillon::channel::Deadline;
use carillon::channel::Message;
use carillon::channel::Report;
use carillon::clock::Clock;
use carillon::clock::SystemClock;

/// Where the triggers of the bench go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// A channel that accepts everything and does nothing.
    Nothing,
    /// Debian's `smtp-sink`, by SMTP.
    SmtpSink,
}

impl Way {
    /// Its name in the table.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nothing => "does nothing",
            Self::SmtpSink => "smtp-sink, 8 connections",
        }
    }
}

/// Accepts everything and does nothing.
#[derive(Debug)]
pub struct NothingChannel;

#[async_trait::async_trait]
impl Channel for NothingChannel {
    async fn send(&self, _message: &Message, _deadline: Deadline) -> Report {
        Report::Accepted {
            reply: String::new(),
            kept: None,
        }
    }

    fn permits(&self) -> usize {
        1_000
    }

    fn name(&self) -> &'static str {
        "nothing"
    }
}

/// A running `smtp-sink` that throws everything away.
#[derive(Debug)]
pub struct SmtpSink {
    /// Where it listens on loopback.
    pub port: u16,
    process: Child,
}

impl SmtpSink {
    /// Starts it.
    pub async fn start() -> Self {
        let probe = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback has free ports");
        let port = probe.local_addr().expect("a bound socket has an address").port();
        drop(probe);
        let mut command = Command::new("/usr/sbin/smtp-sink");
        if rustix::process::geteuid().is_root() {
            command.args(["-u", "nobody"]);
        }
        command
            .args([&format!("127.0.0.1:{port}"), "100"])
            .stdin(Stdio::null());
        let process = command
            .spawn()
            .expect("smtp-sink is there: apt-get install postfix");
        let give_up = SystemClock.elapsed() + Duration::from_secs(5);
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            assert!(SystemClock.elapsed() < give_up, "smtp-sink does not listen");
            SystemClock.sleep(Duration::from_millis(10)).await;
        }
        Self { port, process }
    }
}

impl Drop for SmtpSink {
    fn drop(&mut self) {
        // An error says that it is gone already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
