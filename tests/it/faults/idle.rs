//! Callers that open many connections, ask for `/livez` on each now and then, and come back where they are closed.

use std::net::IpAddr;
use std::net::Ipv4Addr;
use std::time::Duration;

use carillon::clock::Clock;
use carillon::clock::SystemClock;
use chrono::TimeDelta;
use serde_json::json;
use tokio::io::AsyncReadExt;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpSocket;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::faults::field::arrival;
use crate::faults::field::pause;
use crate::faults::field::since;
use crate::faults::load::Load;
use crate::faults::load::OWNERS;
use crate::faults::push;
use crate::faults::size::Size;
use crate::faults::size::choose;
use crate::faults::size::seconds;
use crate::faults::verdict::Promise;
use crate::faults::verdict::Verdict;
use crate::harness::PATIENCE;
use crate::harness::client::client_builder;
use crate::harness::eventually;
use crate::harness::node::Home;
use crate::harness::node::Node;
use crate::harness::sink::Sink;

/// Connections of each crowd; a node has 500 places.
const CROWD: u8 = 150;

/// Who asks for how the node is, beside the crowds.
const PROBE: Ipv4Addr = Ipv4Addr::LOCALHOST;

/// Who calls with a token.
const CALLER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);

/// Opens four times [`CROWD`] connections from as many loopback addresses, which begin at `first`.
fn crowd(first: Ipv4Addr, addresses: u8, port: u16) -> JoinSet<()> {
    let [.., last] = first.octets();
    let places = (0..4).flat_map(|_| 0..CROWD);
    places
        .map(|number| Ipv4Addr::new(127, 0, 0, last + number % addresses))
        .map(|from| async move {
            loop {
                // It is closed, and comes back.
                let _ = stay(from, port).await;
                pause(Duration::from_millis(500)).await;
            }
        })
        .collect()
}

async fn stay(from: Ipv4Addr, port: u16) -> std::io::Result<()> {
    let mut stream = connect(from, port).await?;
    let mut answer = [0; 1024];
    loop {
        stream
            .write_all(b"GET /livez HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
            .await?;
        if stream.read(&mut answer).await? == 0 {
            return Ok(());
        }
        pause(seconds(2, 15)).await;
    }
}

async fn connect(from: Ipv4Addr, port: u16) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((from, 0).into())?;
    socket.connect((Ipv4Addr::LOCALHOST, port).into()).await
}

/// Asks on new connections from that address until there is an answer, and says how long that took: where many come at
/// once, one that is closed before its request arrives has to come again.
async fn ask(from: Ipv4Addr, url: &str, token: Option<&str>) -> Duration {
    let began = SystemClock.elapsed();
    let client = client_builder()
        .local_address(IpAddr::V4(from))
        .timeout(PATIENCE)
        .build();
    let mut request = client.expect("a client needs nothing").get(url);
    if let Some(token) = token {
        request = request.bearer_auth(token);
    }
    let answer = eventually(url, async || request.try_clone()?.send().await.ok()).await;
    assert!(answer.status().is_success(), "{url}: {}", answer.status());
    since(began)
}

/// A connection that is kept, on which a caller with a token asks now and then.
struct Kept {
    stream: TcpStream,
    request: String,
}

impl Kept {
    async fn open(port: u16, token: &str) -> Self {
        Self {
            stream: connect(CALLER, port).await.expect("it is taken"),
            request: format!(
                "GET /v1/alarms/count?owner=o0 HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {token}\r\n\r\n"
            ),
        }
    }

    async fn ask(&mut self) -> Duration {
        let began = SystemClock.elapsed();
        let mut answer = [0; 4096];
        self.stream
            .write_all(self.request.as_bytes())
            .await
            .expect("it is kept open");
        let length = tokio::time::timeout(PATIENCE, self.stream.read(&mut answer)).await;
        let length = length.expect("it is answered").expect("it is kept open");
        assert!(
            answer[..length].starts_with(b"HTTP/1.1 200"),
            "{length} bytes, not an answer"
        );
        since(began)
    }
}

/// Asks for so long, and says how long an answer took at most.
async fn slowest(node: &Node, token: &str, kept: &mut Kept, lasts: Duration) -> Duration {
    let began = SystemClock.elapsed();
    let mut slowest = Duration::ZERO;
    while since(began) < lasts {
        for took in [
            ask(PROBE, &node.url("/livez"), None).await,
            ask(PROBE, &node.url("/readyz"), None).await,
            ask(CALLER, &node.url("/v1/history?limit=1"), Some(token)).await,
            kept.ask().await,
        ] {
            slowest = slowest.max(took);
        }
        pause(Duration::from_millis(100)).await;
    }
    slowest
}

async fn token(node: &Node) -> String {
    let mut command = node
        .home
        .command(&["tokens", "create", "--name", "caller", "--scope", "read"]);
    let made = tokio::task::spawn_blocking(move || command.output()).await;
    let made = made.expect("it does not panic").expect("it can be run");
    assert!(made.status.success(), "{made:?}");
    String::from_utf8_lossy(&made.stdout).trim().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f31_idle_connections_keep_nobody_out() {
    let sink = Sink::start().await;
    let node = Home::new().with_relay(sink.port).start().await;
    let owner = |number| {
        (
            format!("o{number}"),
            json!({ "email": format!("o{number}@example.org") }),
        )
    };
    push::owners(&node, (0..OWNERS).map(owner)).await;
    let (port, token) = (node.home.port, token(&node).await);
    let mut kept = Kept::open(port, &token).await;
    kept.ask().await;
    let load = Load::start(Size::of(14, 120), &[port]);

    let one = crowd(PROBE, 1, port);
    let of_one = slowest(&node, &token, &mut kept, seconds(8, 60)).await;
    drop(one);
    let _forty = crowd(Ipv4Addr::new(127, 0, 0, 10), 40, port);
    let of_forty = slowest(&node, &token, &mut kept, seconds(8, 60)).await;

    let promises = load.promises().await;
    let verdict = eventually("all mails", async || {
        let verdict = verdict(&promises, &sink);
        (verdict.lost == 0).then_some(verdict)
    })
    .await;
    println!(
        "F31 | 600 idle connections: slowest answer {:.2} s from one address, {:.2} s from forty | {verdict}",
        of_one.as_secs_f64(),
        of_forty.as_secs_f64()
    );
    verdict.assert_exact();
    verdict.assert_late(
        TimeDelta::seconds(choose(5, 1)),
        TimeDelta::seconds(choose(15, 5)),
    );
    assert!(of_one.max(of_forty) <= seconds(2, 1), "{of_one:?}, {of_forty:?}");
}

fn verdict(promises: &[Promise], sink: &Sink) -> Verdict {
    let arrivals: Vec<_> = sink.with_log(|log| log.mails.iter().map(arrival).collect());
    Verdict::of(promises, &arrivals, &[])
}
