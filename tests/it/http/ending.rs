//! How serving ends.

use carillon::http::serve;
use carillon::shutdown::Shutdown;
use tokio::io::AsyncReadExt;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use super::Edge;

const HEAD: &[u8] = b"PUT /v1/owners/anna HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n\
                      content-length: 2\r\nexpect: 100-continue\r\n\r\n";

/// A server with a request under way: its head was read, and its body is asked for.
async fn in_mid_request() -> (Edge, Shutdown, TcpStream, JoinHandle<std::io::Result<()>>) {
    let edge = Edge::open().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let shutdown = Shutdown::new();
    let serving = tokio::spawn(serve(listener, edge.router.clone(), shutdown.clone()));
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(HEAD).await.unwrap();
    let mut asked = [0; 25];
    stream.read_exact(&mut asked).await.unwrap();
    assert_eq!(&asked, b"HTTP/1.1 100 Continue\r\n\r\n");
    (edge, shutdown, stream, serving)
}

#[tokio::test]
async fn a_request_under_way_is_finished_before_the_end() {
    let (_edge, shutdown, mut stream, serving) = in_mid_request().await;
    shutdown.drain();
    stream.write_all(b"{}").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 201 Created\r\n"), "{answer}");
    serving.await.unwrap().unwrap();
}

#[tokio::test]
async fn stopping_waits_for_nobody() {
    let (_edge, shutdown, _stream, serving) = in_mid_request().await;
    shutdown.stop();
    serving.await.unwrap().unwrap();
}
