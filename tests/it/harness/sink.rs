//! A relay of ours, in the process of the test: it keeps a log of what was handed to it, and misbehaves on command.

mod log;

use std::collections::HashSet;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use carillon::clock::Clock;
use carillon::clock::SystemClock;
use chrono::DateTime;
use chrono::Utc;
use tokio::io::AsyncBufReadExt;
use tokio::io::AsyncWriteExt;
use tokio::io::BufReader;
use tokio::net::TcpListener;
use tokio::net::TcpStream;
use tokio::sync::watch;

pub use self::log::Log;
pub use self::log::Mail;
use crate::harness::eventually;

/// The answer to EHLO.
const GREETING: &str = "250-sink.test\r\n250-8BITMIME\r\n250-AUTH PLAIN LOGIN\r\n250 PIPELINING";

/// The place before the first command, for [`Manners::Stall`].
pub const GREETING_ITSELF: &str = "greeting";

/// The place after the final dot, for [`Manners::Stall`].
pub const FINAL_DOT: &str = ".";

/// How often it is looked whether somebody who is kept waiting is still there.
const LOOK: Duration = Duration::from_millis(20);

/// What the sink does to those who come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Manners {
    /// It takes everything.
    Polite,
    /// It accepts connections and says nothing until its manners change.
    HoldGreeting,
    /// It takes the final dot and says nothing until its manners change.
    HoldReply,
    /// It takes the final dot and hangs up.
    HangUpAfterDot,
    /// Of so many messages that are new to it, it takes the last one's final dot and hangs up.
    HangUpAfterEach(usize),
    /// It accepts connections and hangs up before it greets.
    Shut,
    /// It keeps silent for so long before its reply to this command, to [`FINAL_DOT`], or before [`GREETING_ITSELF`]; or
    /// until its manners change.
    Stall {
        /// Where.
        at: &'static str,
        /// How long.
        pause: Duration,
    },
    /// It says all of its replies with so long between two bytes.
    Drip(Duration),
    /// It takes so long for its reply to each final dot, as a busy relay does.
    Pace(Duration),
    /// It takes so long for its reply to RCPT commands for addresses that contain this.
    SlowTo {
        /// The part of the address.
        part: &'static str,
        /// How long.
        pause: Duration,
    },
    /// It answers RCPT commands for addresses that contain this with this line.
    RefuseThose {
        /// The part of the address.
        part: &'static str,
        /// The reply, with its code.
        reply: &'static str,
    },
    /// It answers the next so many RCPT commands with this line, and is polite then.
    Refuse {
        /// How many.
        times: usize,
        /// The reply, with its code.
        reply: &'static str,
    },
}

/// The sink.
#[derive(Debug)]
pub struct Sink {
    /// Where it listens on loopback.
    pub port: u16,
    manners: Arc<watch::Sender<Manners>>,
    log: Arc<Mutex<Log>>,
    listening: tokio::task::JoinHandle<()>,
}

impl Sink {
    /// A sink on a port of its own.
    pub async fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .expect("loopback has free ports");
        let port = listener
            .local_addr()
            .expect("a bound socket has an address")
            .port();
        let manners = Arc::new(watch::Sender::new(Manners::Polite));
        let log = Arc::new(Mutex::new(Log::default()));
        let (their_manners, their_log) = (Arc::clone(&manners), Arc::clone(&log));
        let listening = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                // What is said in several writes would wait for the other side's delayed acknowledgements.
                let _ = stream.set_nodelay(true);
                {
                    let mut log = their_log.lock().expect("no holder panics");
                    log.connections += 1;
                    log.arrivals.push(SystemClock.now());
                }
                let dialogue = Dialogue::new(stream, Arc::clone(&their_manners), Arc::clone(&their_log));
                // A client that hangs up is what many tests are about.
                tokio::spawn(async move { dialogue.hold().await.ok() });
            }
        });
        Self {
            port,
            manners,
            log,
            listening,
        }
    }

    /// Changes its manners, also towards those who are waiting.
    pub fn be(&self, manners: Manners) {
        self.manners.send_replace(manners);
    }

    /// What it has seen so far.
    pub fn log(&self) -> Log {
        self.log.lock().expect("no holder panics").clone()
    }

    /// Looks at what it has seen, without a copy.
    pub fn with_log<T>(&self, look: impl FnOnce(&Log) -> T) -> T {
        look(&self.log.lock().expect("no holder panics"))
    }

    /// Waits until so many final dots arrived, and returns the messages.
    pub async fn mails(&self, count: usize) -> Vec<Mail> {
        let what = format!("{count} messages in the sink");
        eventually(&what, async || {
            self.with_log(|log| (log.mails.len() >= count).then(|| log.mails.clone()))
        })
        .await
    }

    /// Waits until so many clients have connected.
    pub async fn connections(&self, count: usize) {
        let what = format!("{count} connections to the sink");
        eventually(&what, async || (self.log().connections >= count).then_some(())).await;
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

/// One connection.
struct Dialogue {
    stream: BufReader<TcpStream>,
    manners: Arc<watch::Sender<Manners>>,
    log: Arc<Mutex<Log>>,
    hello: String,
    began: DateTime<Utc>,
    /// When it came, or its last line did, on the boot-time clock.
    asked: Duration,
    recipients: Vec<String>,
}

impl Dialogue {
    fn new(stream: TcpStream, manners: Arc<watch::Sender<Manners>>, log: Arc<Mutex<Log>>) -> Self {
        Self {
            stream: BufReader::new(stream),
            manners,
            log,
            hello: String::new(),
            began: DateTime::UNIX_EPOCH,
            asked: SystemClock.elapsed(),
            recipients: Vec::new(),
        }
    }

    async fn hold(mut self) -> std::io::Result<()> {
        if *self.manners.borrow() == Manners::Shut {
            return Ok(());
        }
        self.wait_while(&Manners::HoldGreeting).await;
        self.stall(GREETING_ITSELF).await?;
        self.say("220 sink.test ESMTP").await?;
        while let Some(line) = self.line().await? {
            let verb = line
                .split([' ', ':'])
                .next()
                .unwrap_or_default()
                .to_ascii_uppercase();
            self.stall(&verb).await?;
            match verb.as_str() {
                "EHLO" | "HELO" => {
                    line.split(' ')
                        .nth(1)
                        .unwrap_or_default()
                        .clone_into(&mut self.hello);
                    self.say(GREETING).await?;
                }
                "AUTH" => self.say("235 2.7.0 welcome").await?,
                "RCPT" => self.take_recipient(&line).await?,
                "DATA" if self.recipients.is_empty() => self.say("503 no recipients").await?,
                "DATA" => {
                    self.say("354 go on").await?;
                    if !self.take_message().await? {
                        return Ok(());
                    }
                }
                "QUIT" => return self.say("221 bye").await,
                "MAIL" | "RSET" => {
                    self.began = SystemClock.now();
                    self.recipients.clear();
                    self.say("250 ok").await?;
                }
                _ => self.say("250 ok").await?,
            }
        }
        Ok(())
    }

    async fn take_recipient(&mut self, line: &str) -> std::io::Result<()> {
        let address = line.split_once('<').and_then(|(_, rest)| rest.split_once('>'));
        let address = address.map_or_else(String::new, |(address, _)| address.to_owned());
        let mut refusal = match &*self.manners.borrow() {
            Manners::RefuseThose { part, reply } if address.contains(part) => Some(*reply),
            _ => None,
        };
        self.manners.send_if_modified(|manners| {
            if let Manners::Refuse { times, reply } = manners
                && *times > 0
            {
                refusal = Some(*reply);
                *times -= 1;
            }
            refusal.is_some()
        });
        if let Some(reply) = refusal {
            let refused = (address, SystemClock.now());
            self.log.lock().expect("no holder panics").refused.push(refused);
            return self.say(reply).await;
        }
        let pause = match &*self.manners.borrow() {
            Manners::SlowTo { part, pause } if address.contains(part) => Some(*pause),
            _ => None,
        };
        if let Some(pause) = pause {
            self.wait(pause).await?;
        }
        self.recipients.push(address);
        self.say("250 ok").await
    }

    /// Reads up to the final dot. False: the sink hung up.
    async fn take_message(&mut self) -> std::io::Result<bool> {
        let mut raw = String::new();
        loop {
            let Some(line) = self.line().await? else {
                return Ok(false);
            };
            if line == "." {
                break;
            }
            raw.push_str(line.strip_prefix('.').unwrap_or(&line));
            raw.push('\n');
        }
        let place = self.record(raw);
        if self.hangs_up_after(place) {
            return Ok(false);
        }
        self.wait_while(&Manners::HoldReply).await;
        self.stall(FINAL_DOT).await?;
        self.say("250 2.0.0 ok: queued as 4711").await?;
        self.log.lock().expect("no holder panics").mails[place].accepted = true;
        Ok(true)
    }

    fn record(&mut self, raw: String) -> usize {
        let mut log = self.log.lock().expect("no holder panics");
        log.mails.push(Mail {
            from: self.hello.clone(),
            began: self.began,
            at: SystemClock.now(),
            recipients: std::mem::take(&mut self.recipients),
            accepted: false,
            raw,
        });
        log.mails.len() - 1
    }

    fn hangs_up_after(&self, place: usize) -> bool {
        match *self.manners.borrow() {
            Manners::HangUpAfterDot => true,
            Manners::HangUpAfterEach(count) => {
                let log = self.log.lock().expect("no holder panics");
                let known = log.mails[..=place].iter().map(Mail::message_id);
                let different = known.collect::<HashSet<_>>().len();
                let id = log.mails[place].message_id();
                let is_new = log.mails[..place].iter().all(|mail| mail.message_id() != id);
                is_new && different.is_multiple_of(count)
            }
            _ => false,
        }
    }

    async fn wait_while(&self, manners: &Manners) {
        let mut changes = self.manners.subscribe();
        // An error says that the sink is gone, and the test with it.
        let _ = changes.wait_for(|current| current != manners).await;
    }

    /// Keeps the other side waiting before the reply at this place, where its manners say so.
    async fn stall(&mut self, place: &str) -> std::io::Result<()> {
        let pause = match *self.manners.borrow() {
            Manners::Stall { at, pause } if at == place => pause,
            Manners::Pace(pause) if place == FINAL_DOT => pause,
            _ => return Ok(()),
        };
        self.wait(pause).await
    }

    /// Waits so long, or until its manners change. An error says that the other side hung up, which is on record.
    async fn wait(&mut self, pause: Duration) -> std::io::Result<()> {
        let mut changes = self.manners.subscribe();
        tokio::select! {
            _ = tokio::time::timeout(pause, changes.changed()) => return Ok(()),
            () = hangs_up(self.stream.get_ref()) => {}
        }
        let waited = SystemClock.elapsed().saturating_sub(self.asked);
        let mut log = self.log.lock().expect("no holder panics");
        log.given_up.push(waited);
        Err(std::io::ErrorKind::ConnectionAborted.into())
    }

    async fn line(&mut self) -> std::io::Result<Option<String>> {
        let mut line = Vec::new();
        let length = self.stream.read_until(b'\n', &mut line).await?;
        self.asked = SystemClock.elapsed();
        let text = String::from_utf8_lossy(&line);
        Ok((length > 0).then(|| text.trim_end_matches(['\r', '\n']).to_owned()))
    }

    async fn say(&mut self, reply: &str) -> std::io::Result<()> {
        let reply = format!("{reply}\r\n");
        let mut left = reply.as_bytes();
        while let (Some(gap), Some((byte, rest))) = (self.gap(), left.split_first()) {
            self.stream.get_mut().write_all(&[*byte]).await?;
            self.wait(gap).await?;
            left = rest;
        }
        self.stream.get_mut().write_all(left).await
    }

    /// How long it takes between two bytes.
    fn gap(&self) -> Option<Duration> {
        match *self.manners.borrow() {
            Manners::Drip(gap) => Some(gap),
            _ => None,
        }
    }
}

/// Waits until the other side has hung up. What it says meanwhile stays to be read.
async fn hangs_up(stream: &TcpStream) {
    let mut pace = tokio::time::interval(LOOK);
    while stream.peek(&mut [0]).await.is_ok_and(|length| length > 0) {
        pace.tick().await;
    }
}
