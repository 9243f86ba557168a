//! A caller who talks over a WebSocket.

use std::net::Ipv4Addr;

use futures_util::SinkExt;
use futures_util::StreamExt;
use serde_json::Value;
use serde_json::json;
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::client_async;
use tokio_tungstenite::tungstenite::Error;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::Data;
use tokio_tungstenite::tungstenite::protocol::frame::coding::OpCode;

use crate::harness::PATIENCE;

/// A conversation, as a caller holds it.
pub struct Talker(WebSocketStream<TcpStream>);

impl Talker {
    /// Is let in at this port.
    pub async fn open(port: u16) -> Self {
        Self::with(port, &[]).await.expect("it is let in")
    }

    /// With further headers; the status where it is not let in.
    pub async fn with(port: u16, headers: &[(&'static str, &str)]) -> Result<Self, u16> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await;
        Self::over(stream.expect("it is taken"), port, headers).await
    }

    /// The same over this connection.
    pub async fn over(stream: TcpStream, port: u16, headers: &[(&'static str, &str)]) -> Result<Self, u16> {
        let request = format!("ws://127.0.0.1:{port}/v1/ws").into_client_request();
        let mut request = request.expect("a request");
        for (name, value) in headers {
            let value = HeaderValue::from_str(value).expect("ASCII");
            request.headers_mut().insert(*name, value);
        }
        let opened = tokio::time::timeout(PATIENCE, client_async(request, stream)).await;
        match opened.expect("it is answered in time") {
            Ok((socket, _)) => Ok(Self(socket)),
            Err(Error::Http(answer)) => Err(answer.status().as_u16()),
            Err(other) => panic!("it is no WebSocket: {other}"),
        }
    }

    pub async fn say(&mut self, text: String) {
        self.0.send(Message::text(text)).await.expect("it is sent");
    }

    /// Says what no caller should.
    pub async fn say_frame(&mut self, kind: Data, bytes: &'static [u8]) {
        let frame = Frame::message(bytes, OpCode::Data(kind), true);
        self.0.send(Message::Frame(frame)).await.expect("it is sent");
    }

    /// The next message; the code with which it is closed where that comes, 0 where it just ends.
    pub async fn next(&mut self) -> Result<Value, u16> {
        let said = async {
            loop {
                match self.0.next().await {
                    Some(Ok(Message::Text(text))) => return Ok(serde_json::from_str(&text).expect("JSON")),
                    Some(Ok(Message::Close(frame))) => return Err(frame.map_or(0, |frame| frame.code.into())),
                    // Pings are no sign that it comes.
                    Some(Ok(_)) => {}
                    Some(Err(_)) | None => return Err(0),
                }
            }
        };
        let said = tokio::time::timeout(PATIENCE, said).await;
        said.expect("something is said in time")
    }

    /// Calls, and waits for the answer, which must be what is said next.
    pub async fn call(&mut self, id: u32, call: &str, params: Value) -> Value {
        let message = json!({ "id": id, "call": call, "params": params });
        self.say(message.to_string()).await;
        let answer = self.next().await.expect("it goes on");
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    /// What is pushed next, of which there must be so much.
    pub async fn events(&mut self, count: usize) -> Vec<Value> {
        let mut events = Vec::new();
        while events.len() < count {
            let pushed = self.next().await.expect("it goes on");
            assert!(pushed["event"].is_object(), "{pushed}");
            events.push(pushed["event"].clone());
        }
        events
    }

    /// Says farewell, and waits until it was heard.
    pub async fn close(mut self) {
        self.0.close(None).await.expect("it is sent");
        while let Ok(_late) = self.next().await {}
    }
}
