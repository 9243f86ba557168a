//! What the end-to-end tests stand on: the real binary as a direct child ([`node`]), its interface as a caller sees it
//! ([`api`]), the calendars that are pushed to it ([`calendar`]), and three ways for its mail to arrive: a relay of ours
//! that logs and misbehaves on command ([`sink`]), and Debian's own [`smtp_sink`] and [`postfix`]. Several nodes share a
//! [`postgres`], and talk through a [`link`] where one is to be cut.
//!
//! The rules: what a test waits for is a condition with a deadline, never a pause; the oracle is the sink's log; every
//! process started here is a direct child that ends with the test, also with one that fails. Only the fault tests pause,
//! since they are about what lasts: a load, a cut, a node that stands still.

pub mod api;
pub mod calendar;
pub mod client;
pub mod feed;
pub mod hook;
pub mod kannel;
pub mod link;
pub mod node;
pub mod postfix;
pub mod postgres;
pub mod sink;
pub mod smtp_sink;
pub mod talker;
pub mod tmpfs;

use std::net::Ipv4Addr;
use std::net::TcpListener;
use std::path::Path;
use std::path::PathBuf;
use std::process::Child;
use std::process::Command;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering;
use std::time::Duration;

use carillon::clock::Clock;
use carillon::clock::SystemClock;
use chrono::DateTime;
use chrono::Utc;

/// How long a test waits for what should come soon. Long, since machines that run tests are slow at times; a test that
/// passes never waits so long.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// The wall clock.
pub fn now() -> DateTime<Utc> {
    SystemClock.now()
}

/// The first whole second that is at least `seconds` away: iCalendar knows no fractions.
pub fn whole_second_in(seconds: i64) -> DateTime<Utc> {
    let instant = now() + chrono::TimeDelta::milliseconds(seconds * 1000 + 999);
    DateTime::from_timestamp(instant.timestamp(), 0).expect("the present is in range")
}

/// Asks until there is an answer, for [`PATIENCE`] at the most.
pub async fn eventually<T>(what: &str, mut question: impl AsyncFnMut() -> Option<T>) -> T {
    let mut pace = tokio::time::interval(Duration::from_millis(20));
    let asking = async {
        loop {
            pace.tick().await;
            if let Some(answer) = question().await {
                return answer;
            }
        }
    };
    tokio::time::timeout(PATIENCE, asking)
        .await
        .unwrap_or_else(|_| panic!("waited {PATIENCE:?} in vain for {what}"))
}

/// A loopback port that nobody listens on. It is below those that the kernel gives to whoever calls: one of these can be
/// taken by a connection before a node listens there, or while a node that was killed is away.
pub fn free_port() -> u16 {
    static ASKED: AtomicU32 = AtomicU32::new(0);
    let candidate = || {
        let number = std::process::id()
            .wrapping_mul(89)
            .wrapping_add(ASKED.fetch_add(1, Ordering::Relaxed));
        u16::try_from(10_000 + number % 20_000).expect("it is small")
    };
    std::iter::repeat_with(candidate)
        .take(1_000)
        .find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
        .expect("loopback has free ports")
}

/// Whether something listens on the port.
pub async fn listens(port: u16) -> Option<()> {
    tokio::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port))
        .await
        .ok()
        .map(drop)
}

/// A process that ends with the test.
#[derive(Debug)]
pub struct Guarded {
    /// The process.
    pub child: Child,
}

impl Guarded {
    /// Starts it.
    pub fn spawn(command: &mut Command) -> Self {
        let child = command
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        Self { child }
    }

    /// Ends it the hard way, and waits until it is gone.
    pub fn kill(&mut self) {
        // An error says that it is gone already, which is what is asked for.
        let _ = self.child.kill();
        self.child.wait().expect("a child can be waited for");
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Where a program of Debian's package `package` is; daemons live outside of `PATH`.
pub fn program(name: &str, package: &str) -> PathBuf {
    let path = std::env::var("PATH").unwrap_or_default();
    path.split(':')
        .chain(["/usr/sbin", "/usr/lib/postfix/sbin"])
        .map(|folder| Path::new(folder).join(name))
        .find(|candidate| candidate.is_file())
        .unwrap_or_else(|| panic!("`{name}` is missing: apt-get install {package}"))
}
