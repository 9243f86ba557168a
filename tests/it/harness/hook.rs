//! A target of calls, in the process of the test: it keeps what it was sent, and answers as it is told.

use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use chrono::DateTime;
use chrono::Utc;
use tokio::io::AsyncBufReadExt;
use tokio::io::AsyncRead;
use tokio::io::AsyncReadExt;
use tokio::io::AsyncWrite;
use tokio::io::AsyncWriteExt;
use tokio::io::BufReader;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::harness::eventually;
use crate::harness::now;

/// By what calls to the targets of the tests are signed.
pub const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// What the target does about a call.
#[derive(Debug, Clone)]
pub enum Conduct {
    /// Answers with a status, headers (lines without their ends) and a body.
    Answer(u16, Vec<String>, String),
    /// Answers so much later.
    Slow(Duration),
    /// Reads the whole call and never answers.
    Hang,
    /// Reads the whole call and hangs up.
    HangUp,
    /// Says that it goes well, and then more than anybody reads.
    Flood,
    /// Says that it goes well, and does not finish its answer.
    Stall,
}

impl Conduct {
    /// An answer with a status and nothing else.
    pub fn status(status: u16) -> Self {
        Self::Answer(status, vec![], String::new())
    }

    /// A success that says this.
    pub fn says(body: &str) -> Self {
        Self::Answer(
            200,
            vec!["content-type: application/json".to_owned()],
            body.to_owned(),
        )
    }
}

/// A call as it arrived.
#[derive(Debug, Clone)]
pub struct Call {
    /// When, by the wall clock.
    pub at: DateTime<Utc>,
    /// `POST /path HTTP/1.1`.
    pub line: String,
    /// By their names in lower case.
    pub headers: BTreeMap<String, String>,
    /// What was posted.
    pub body: String,
}

impl Call {
    /// The body, read as JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}

/// What the target does about each call.
type Decide = Box<dyn FnMut(&Call) -> Conduct + Send>;

struct State {
    connections: usize,
    calls: Vec<Call>,
    decide: Decide,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State")
            .field("calls", &self.calls)
            .finish_non_exhaustive()
    }
}

/// The target.
#[derive(Debug, Clone)]
pub struct Hook {
    /// Where it listens on loopback.
    pub port: u16,
    state: Arc<Mutex<State>>,
}

impl Hook {
    /// Starts one that does what the script says, a call each, and then answers 204.
    pub async fn start(script: impl IntoIterator<Item = Conduct>) -> Self {
        Self::with_tls(script, None).await
    }

    /// Starts one that encrypts.
    pub async fn with_tls(script: impl IntoIterator<Item = Conduct>, tls: Option<TlsAcceptor>) -> Self {
        let mut script: VecDeque<Conduct> = script.into_iter().collect();
        let next = move |_: &Call| script.pop_front().unwrap_or_else(|| Conduct::status(204));
        Self::deciding(Box::new(next), tls).await
    }

    /// Starts one that looks at each call to know what to do.
    pub async fn by(decide: impl FnMut(&Call) -> Conduct + Send + 'static) -> Self {
        Self::deciding(Box::new(decide), None).await
    }

    async fn deciding(decide: Decide, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .expect("loopback has ports");
        let hook = Self {
            port: listener.local_addr().expect("it is bound").port(),
            state: Arc::new(Mutex::new(State {
                connections: 0,
                calls: Vec::new(),
                decide,
            })),
        };
        let accepting = hook.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (hook, tls) = (accepting.clone(), tls.clone());
                hook.state.lock().expect("no holder panics").connections += 1;
                tokio::spawn(async move {
                    let _ = stream.set_nodelay(true);
                    match tls {
                        None => hook.talk(stream).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                hook.talk(stream).await
                            } else {
                                None
                            }
                        }
                    }
                });
            }
        });
        hook
    }

    /// Where it is called in the clear.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/hook", self.port)
    }

    /// Connections so far.
    pub fn connections(&self) -> usize {
        self.state.lock().expect("no holder panics").connections
    }

    /// What arrived so far.
    pub fn calls(&self) -> Vec<Call> {
        self.state.lock().expect("no holder panics").calls.clone()
    }

    /// Looks at what has arrived, without a copy.
    pub fn with_calls<T>(&self, look: impl FnOnce(&[Call]) -> T) -> T {
        look(&self.state.lock().expect("no holder panics").calls)
    }

    /// Waits until so many calls have arrived.
    pub async fn until(&self, count: usize) -> Vec<Call> {
        let what = format!("{count} calls arrive");
        eventually(&what, async || {
            let have_arrived = self.with_calls(|calls| calls.len() >= count);
            have_arrived.then(|| self.calls())
        })
        .await
    }

    async fn talk(&self, stream: impl AsyncRead + AsyncWrite + Unpin) -> Option<()> {
        let mut stream = BufReader::new(stream);
        loop {
            let call = read(&mut stream).await?;
            let conduct = {
                let mut state = self.state.lock().expect("no holder panics");
                let conduct = (state.decide)(&call);
                state.calls.push(call);
                conduct
            };
            match conduct {
                Conduct::Answer(status, headers, body) => {
                    answer(&mut stream, (status, &headers, &body)).await?;
                }
                Conduct::Slow(pause) => {
                    let mut pace = tokio::time::interval(pause);
                    pace.tick().await;
                    pace.tick().await;
                    answer(&mut stream, (204, &[], "")).await?;
                }
                Conduct::Hang => std::future::pending::<()>().await,
                Conduct::HangUp => return None,
                Conduct::Flood => {
                    stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.ok()?;
                    while stream.write_all(&[b' '; 1_024]).await.is_ok() {}
                    return None;
                }
                Conduct::Stall => {
                    let head = "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{";
                    stream.write_all(head.as_bytes()).await.ok()?;
                    stream.flush().await.ok()?;
                    std::future::pending::<()>().await;
                }
            }
        }
    }
}

async fn read(stream: &mut (impl AsyncBufReadExt + Unpin)) -> Option<Call> {
    let line = read_line(stream).await?;
    let mut headers = BTreeMap::new();
    loop {
        let header = read_line(stream).await?;
        let Some((name, value)) = header.split_once(':') else {
            break;
        };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let length = headers.get("content-length")?.parse().ok()?;
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    Some(Call {
        at: now(),
        line,
        headers,
        body: String::from_utf8(body).expect("documents are UTF-8"),
    })
}

async fn read_line(stream: &mut (impl AsyncBufReadExt + Unpin)) -> Option<String> {
    let mut line = String::new();
    let read = stream.read_line(&mut line).await.ok()?;
    (read > 0).then(|| line.trim_end().to_owned())
}

async fn answer(
    stream: &mut (impl AsyncWrite + Unpin),
    (status, headers, body): (u16, &[String], &str),
) -> Option<()> {
    let length = if status == 204 {
        String::new()
    } else {
        format!("content-length: {}\r\n", body.len())
    };
    let mut lines = vec![format!("HTTP/1.1 {status} As asked")];
    lines.extend_from_slice(headers);
    let head = lines.join("\r\n");
    let whole = format!("{head}\r\n{length}\r\n{body}");
    stream.write_all(whole.as_bytes()).await.ok()?;
    stream.flush().await.ok()
}
