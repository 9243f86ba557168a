//! How serving ends.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use carillon::clock::SystemClock;
use carillon::http::Limits;
use carillon::http::serve;
use carillon::shutdown::Shutdown;
use tokio::io::AsyncReadExt;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use super::Edge;
use crate::harness::PATIENCE;
use crate::harness::eventually;

const HEAD: &[u8] = b"PUT /v1/owners/anna HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n\
                      content-length: 2\r\nexpect: 100-continue\r\n\r\n";

pub const LIMITS: Limits = Limits {
    event_bytes: 1 << 20,
    body_bytes: 1 << 20,
    read_timeout: Duration::from_millis(200),
    connections: 2,
    connections_per_peer: 2,
};

const METRICS: &[u8] = b"GET /metrics HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n";

/// A server on a port of its own.
pub struct Serving {
    pub address: SocketAddr,
    pub shutdown: Shutdown,
    pub answering: JoinHandle<()>,
    pub edge: Edge,
}

impl Serving {
    async fn with(limits: Limits) -> Self {
        Self::before(Edge::open().await, limits).await
    }

    /// A server before that API.
    pub async fn before(edge: Edge, limits: Limits) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shutdown = Shutdown::new();
        let clock = Arc::new(SystemClock);
        let answering = serve(listener, edge.router.clone(), limits, clock, shutdown.clone());
        Self {
            address,
            shutdown,
            answering: tokio::spawn(answering),
            edge,
        }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// What is answered to one request, after which the connection is closed; nothing where it is closed before.
    async fn ask_on(&self, stream: &mut TcpStream) -> String {
        let request = b"GET /livez HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n";
        let mut answer = String::new();
        let _ = stream.write_all(request).await;
        let _ = stream.read_to_string(&mut answer).await;
        answer
    }

    pub async fn end(self) {
        self.shutdown.stop();
        self.answering.await.unwrap();
    }
}

/// A server with a request under way: its head was read, and its body is asked for.
async fn in_mid_request() -> (Serving, TcpStream) {
    let scene = Serving::with(LIMITS).await;
    let mut stream = scene.connect().await;
    stream.write_all(HEAD).await.unwrap();
    let mut asked = [0; 25];
    stream.read_exact(&mut asked).await.unwrap();
    assert_eq!(&asked, b"HTTP/1.1 100 Continue\r\n\r\n");
    (scene, stream)
}

#[tokio::test]
async fn a_request_under_way_is_finished_before_the_end() {
    let (scene, mut stream) = in_mid_request().await;
    scene.shutdown.drain();
    stream.write_all(b"{}").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 201 Created\r\n"), "{answer}");
    scene.answering.await.unwrap();
}

#[tokio::test]
async fn a_connection_that_was_kept_for_another_request_is_closed_at_the_end() {
    let patient = Limits {
        read_timeout: Duration::from_hours(1),
        ..LIMITS
    };
    let scene = Serving::with(patient).await;
    let mut kept = scene.connect().await;
    kept.write_all(b"GET /livez HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
        .await
        .unwrap();
    kept.read_exact(&mut [0; 15]).await.unwrap();
    scene.shutdown.drain();
    let mut rest = Vec::new();
    let closed = tokio::time::timeout(PATIENCE, kept.read_to_end(&mut rest)).await;
    closed.expect("it is closed").unwrap();
    scene.answering.await.unwrap();
}

#[tokio::test]
async fn connections_that_say_nothing_are_closed_and_leave_their_places_to_others() {
    let scene = Serving::with(LIMITS).await;
    let mut silent = Vec::new();
    for said in ["", "GET /livez HTTP/1.1\r\nhost: 127.0.0.1\r\nx-slow: "] {
        let mut stream = scene.connect().await;
        stream.write_all(said.as_bytes()).await.unwrap();
        silent.push(stream);
    }

    // Both places are taken until the two have been silent for too long.
    let mut caller = scene.connect().await;
    caller
        .write_all(b"GET /livez HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
        .await
        .unwrap();
    let mut answer = String::new();
    // It is answered, and closed for want of a second request.
    caller.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    for mut stream in silent {
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).await.unwrap();
    }
    scene.end().await;
}

#[tokio::test]
async fn a_caller_takes_the_place_of_one_that_says_nothing() {
    let patient = Limits {
        read_timeout: Duration::from_hours(1),
        ..LIMITS
    };
    let scene = Serving::with(patient).await;
    let mut silent = [scene.connect().await, scene.connect().await];

    let answer = scene.ask_on(&mut scene.connect().await).await;

    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    let mut rest = Vec::new();
    silent[0].read_to_end(&mut rest).await.unwrap();
    assert!(rest.is_empty(), "the first had to go");
    let answer = scene.ask_on(&mut silent[1]).await;
    assert!(
        answer.starts_with("HTTP/1.1 200 OK\r\n"),
        "the second may speak: {answer}"
    );
    scene.end().await;
}

#[tokio::test]
async fn caller_takes_the_place_of_a_connection_kept_for_another_request() {
    let patient = Limits {
        read_timeout: Duration::from_hours(1),
        ..LIMITS
    };
    let scene = Serving::with(patient).await;
    let mut kept = [scene.connect().await, scene.connect().await];
    for stream in &mut kept {
        stream
            .write_all(b"GET /livez HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
            .await
            .unwrap();
        stream.read_exact(&mut [0; 15]).await.unwrap();
    }

    let answer = scene.ask_on(&mut scene.connect().await).await;

    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    kept[0].read_to_end(&mut Vec::new()).await.unwrap();
    let answer = scene.ask_on(&mut kept[1]).await;
    assert!(answer.contains("HTTP/1.1 200 OK\r\n"), "{answer}");
    scene.end().await;
}

#[tokio::test]
async fn caller_is_refused_where_all_connections_are_busy() {
    let (scene, _first) = in_mid_request().await;
    let mut second = scene.connect().await;
    second.write_all(HEAD).await.unwrap();
    second.read_exact(&mut [0; 25]).await.unwrap();

    let mut refused = scene.connect().await;
    let mut answer = String::new();
    refused.read_to_string(&mut answer).await.unwrap();

    assert!(
        answer.starts_with("HTTP/1.1 503 Service Unavailable\r\n"),
        "{answer}"
    );
    assert!(answer.contains("max_connections"), "{answer}");
    scene.end().await;
}

#[tokio::test]
async fn callers_that_do_not_read_are_left() {
    let scene = Serving::with(LIMITS).await;
    let mut asking = Vec::new();
    for _ in 0..2 {
        let mut stream = scene.connect().await;
        stream.write_all(METRICS).await.unwrap();
        stream.read_exact(&mut [0; 17]).await.unwrap();
        // It was heard, and reads no more.
        asking.push(tokio::spawn(async move {
            while stream.write_all(METRICS).await.is_ok() {}
        }));
    }

    let answer = eventually("an answer", async || {
        let answer = scene.ask_on(&mut scene.connect().await).await;
        answer.starts_with("HTTP/1.1 200 OK\r\n").then_some(answer)
    });
    answer.await;

    for ended in asking {
        ended.await.unwrap();
    }
    scene.end().await;
}

#[tokio::test]
async fn stopping_waits_for_nobody() {
    let (scene, _stream) = in_mid_request().await;
    scene.end().await;
}
