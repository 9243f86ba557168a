//! A relay that does what a script says: replies of any kind, silence, loss.

use std::io;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use carillon::clock::Clock;
use carillon::clock::SystemClock;
use tokio::io::AsyncBufReadExt;
use tokio::io::AsyncRead;
use tokio::io::AsyncWrite;
use tokio::io::AsyncWriteExt;
use tokio::io::BufReader;
use tokio::net::TcpListener;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

/// What the relay does at a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// Says this, and goes on.
    Say(&'static str),
    /// Says this one byte at a time, slower than any timeout.
    Drip(&'static str),
    /// Says nothing and keeps the connection.
    Stall,
    /// Closes the connection.
    Close,
}

/// The answer to EHLO of a relay that takes several commands at once.
pub const PIPELINING: Act = Act::Say("250-relay.test\r\n250-PIPELINING\r\n250 8BITMIME");

/// What happens when: given the number of the connection, from 0, and the point (`GREETING`, a verb, or `DOT`).
/// `None` is the usual reply.
pub type Script = dyn Fn(usize, &str) -> Option<Act> + Send + Sync;

/// A running relay; it ends with the test's runtime.
pub struct ScriptedRelay {
    /// Where it listens.
    pub port: u16,
    seen: Arc<Mutex<Seen>>,
}

/// What the relay has seen.
#[derive(Debug, Default, Clone)]
pub struct Seen {
    /// Connections accepted.
    pub connections: usize,
    /// Connections that ended.
    pub ended: usize,
    /// Commands, in order.
    pub commands: Vec<String>,
    /// Commands that came together with the one before them.
    pub at_once: usize,
    /// Messages whose final dot came, dots undone.
    pub messages: Vec<String>,
}

/// Whether and when the relay encrypts.
#[derive(Clone)]
pub enum Encrypt {
    Never,
    Implicit(TlsAcceptor),
    OnStarttls(TlsAcceptor),
}

impl ScriptedRelay {
    pub async fn start(script: impl Fn(usize, &str) -> Option<Act> + Send + Sync + 'static) -> Self {
        Self::start_encrypted(Encrypt::Never, script).await
    }

    /// A relay that does one unusual thing, on every connection.
    pub async fn that(point: &'static str, act: Act) -> Self {
        Self::start(move |_, at| (at == point).then_some(act)).await
    }

    pub async fn start_encrypted(
        encrypt: Encrypt,
        script: impl Fn(usize, &str) -> Option<Act> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen = Arc::new(Mutex::new(Seen::default()));
        tokio::spawn(accept(listener, encrypt, Arc::new(script), seen.clone()));
        Self { port, seen }
    }

    pub fn seen(&self) -> Seen {
        self.seen.lock().unwrap().clone()
    }

    /// Waits until the relay has seen it; fails after ten seconds.
    pub async fn wait_until(&self, condition: impl Fn(&Seen) -> bool) {
        let deadline = SystemClock.elapsed() + Duration::from_secs(10);
        while !condition(&self.seen()) {
            assert!(
                SystemClock.elapsed() < deadline,
                "the relay has seen {:?}",
                self.seen()
            );
            SystemClock.sleep(Duration::from_millis(5)).await;
        }
    }
}

async fn accept(listener: TcpListener, encrypt: Encrypt, script: Arc<Script>, seen: Arc<Mutex<Seen>>) {
    while let Ok((tcp, _)) = listener.accept().await {
        let number = {
            let mut seen = seen.lock().unwrap();
            seen.connections += 1;
            seen.connections - 1
        };
        let session = Session {
            number,
            script: script.clone(),
            seen: seen.clone(),
        };
        let encrypt = encrypt.clone();
        tokio::spawn(async move {
            // However a connection ends is part of some test.
            session.over_tcp(tcp, encrypt).await.ok();
            session.seen.lock().unwrap().ended += 1;
        });
    }
}

struct Session {
    number: usize,
    script: Arc<Script>,
    seen: Arc<Mutex<Seen>>,
}

/// Why a session stops before QUIT.
enum Stop {
    Closed,
    Starttls,
}

impl Session {
    async fn over_tcp(&self, tcp: TcpStream, encrypt: Encrypt) -> io::Result<()> {
        tcp.set_nodelay(true)?;
        match encrypt {
            Encrypt::Never => self.serve(&mut BufReader::new(tcp), false).await.map(drop),
            Encrypt::Implicit(acceptor) => {
                let stream = acceptor.accept(tcp).await?;
                self.serve(&mut BufReader::new(stream), false).await.map(drop)
            }
            Encrypt::OnStarttls(acceptor) => {
                let mut plain = BufReader::new(tcp);
                if let Stop::Starttls = self.serve(&mut plain, true).await? {
                    let stream = acceptor.accept(plain.into_inner()).await?;
                    let mut stream = BufReader::new(stream);
                    self.commands(&mut stream, false).await?;
                }
                Ok(())
            }
        }
    }

    async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: &mut BufReader<S>,
        offers_tls: bool,
    ) -> io::Result<Stop> {
        self.act(stream, "GREETING", "220 relay.test ESMTP").await?;
        self.commands(stream, offers_tls).await
    }

    async fn commands<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: &mut BufReader<S>,
        offers_tls: bool,
    ) -> io::Result<Stop> {
        loop {
            let mut line = String::new();
            let is_here = !stream.buffer().is_empty();
            if stream.read_line(&mut line).await? == 0 {
                return Ok(Stop::Closed);
            }
            let line = line.trim_end().to_owned();
            {
                let mut seen = self.seen.lock().unwrap();
                seen.commands.push(line.clone());
                seen.at_once += usize::from(is_here);
            }
            let verb = line.split([' ', ':']).next().unwrap_or_default().to_owned();
            let usual = match verb.as_str() {
                "EHLO" if offers_tls => "250-relay.test\r\n250-STARTTLS\r\n250 8BITMIME",
                "EHLO" => "250-relay.test\r\n250-AUTH PLAIN LOGIN\r\n250 8BITMIME",
                "STARTTLS" => "220 2.0.0 go ahead",
                "AUTH" => "235 2.7.0 welcome",
                "DATA" => "354 go on",
                "QUIT" => "221 2.0.0 bye",
                _ => "250 2.0.0 ok",
            };
            let said = self.act(stream, &verb, usual).await?;
            match verb.as_str() {
                "DATA" if said.starts_with("354") => self.message(stream).await?,
                "STARTTLS" if said.starts_with("220") => return Ok(Stop::Starttls),
                "QUIT" => return Ok(Stop::Closed),
                _ => {}
            }
        }
    }

    async fn message<S: AsyncRead + AsyncWrite + Unpin>(&self, stream: &mut BufReader<S>) -> io::Result<()> {
        let mut message = String::new();
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if line == ".\r\n" {
                break;
            }
            message.push_str(line.strip_prefix('.').unwrap_or(&line));
        }
        self.seen.lock().unwrap().messages.push(message);
        self.act(
            stream,
            "DOT",
            "250 2.0.0 Ok: queued as ABC123 for <jo.doe@example.org>",
        )
        .await?;
        Ok(())
    }

    async fn act<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: &mut BufReader<S>,
        point: &str,
        usual: &'static str,
    ) -> io::Result<&'static str> {
        let act = (self.script)(self.number, point).unwrap_or(Act::Say(usual));
        match act {
            Act::Say(reply) => {
                stream
                    .get_mut()
                    .write_all(format!("{reply}\r\n").as_bytes())
                    .await?;
                stream.get_mut().flush().await?;
                Ok(reply)
            }
            Act::Drip(reply) => {
                for byte in format!("{reply}\r\n").bytes() {
                    stream.get_mut().write_all(&[byte]).await?;
                    stream.get_mut().flush().await?;
                    SystemClock.sleep(Duration::from_millis(100)).await;
                }
                Ok(reply)
            }
            Act::Stall => std::future::pending().await,
            Act::Close => Err(io::ErrorKind::ConnectionAborted.into()),
        }
    }
}
