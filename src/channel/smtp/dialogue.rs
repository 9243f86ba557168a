//! Lines out, replies in: the part of SMTP that touches the stream. What comes in is bounded and may be any bytes; what
//! goes out is one write per turn.

use std::fmt::Display;
use std::io;

use futures_util::FutureExt;
use lettre::transport::smtp::response::Response;
use tokio::io::AsyncBufReadExt;
use tokio::io::AsyncRead;
use tokio::io::AsyncReadExt;
use tokio::io::AsyncWrite;
use tokio::io::AsyncWriteExt;
use tokio::io::BufReader;

/// RFC 5321 section 4.5.3.1.5 says 512; relays exceed it.
const MAX_REPLY_LINE: u64 = 2_048;

/// Lines of one reply; the longest in earnest are those of EHLO, about twenty.
const MAX_REPLY_LINES: usize = 100;

/// A plain or encrypted connection.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Sync + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Sync + Unpin> Stream for T {}

/// A conversation over one stream.
pub(super) struct Dialogue {
    stream: BufReader<Box<dyn Stream>>,
}

impl std::fmt::Debug for Dialogue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Dialogue")
    }
}

impl Dialogue {
    pub(super) fn over(stream: Box<dyn Stream>) -> Self {
        Self {
            stream: BufReader::new(stream),
        }
    }

    /// Gives the stream back for STARTTLS. Bytes that came before the handshake were never protected; taking them for
    /// protected ones would let anybody on the way speak for the relay.
    pub(super) fn into_stream(self) -> io::Result<Box<dyn Stream>> {
        if self.stream.buffer().is_empty() {
            Ok(self.stream.into_inner())
        } else {
            Err(malformed("bytes between STARTTLS and the handshake"))
        }
    }

    /// Sends a command, which brings its line end, and reads the reply.
    pub(super) async fn command(&mut self, command: impl Display + Send) -> io::Result<Response> {
        self.say(command.to_string().as_bytes()).await?;
        self.reply().await
    }

    /// Sends the message, its lines ended by CRLF, without the final dot.
    pub(super) async fn body(&mut self, message: &[u8]) -> io::Result<()> {
        self.say(&stuffed(message)).await
    }

    /// Sends the final dot and reads the reply, which a relay that has seen enough may give before it.
    pub(super) async fn end_of_data(&mut self) -> io::Result<Response> {
        self.write(b".\r\n").await?;
        self.reply().await
    }

    /// Sends what the relay is to answer. A reply that is there already answers something else, and every later one would
    /// be taken for the one before it.
    pub(super) async fn say(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self.stream.fill_buf().now_or_never() {
            None => self.write(bytes).await,
            Some(Ok([])) => Err(closed()),
            Some(Ok(_)) => Err(malformed("a reply to nothing")),
            Some(Err(error)) => Err(error),
        }
    }

    /// Says goodbye without waiting for an answer.
    pub(super) async fn quit(mut self) -> io::Result<()> {
        self.write(b"QUIT\r\n").await?;
        self.stream.get_mut().shutdown().await
    }

    /// Reads one reply, of one or more lines (RFC 5321 section 4.2.1).
    pub(super) async fn reply(&mut self) -> io::Result<Response> {
        let mut text = String::new();
        for _ in 0..MAX_REPLY_LINES {
            let mut line = self.line().await?;
            if line.len() == 3 {
                line.push(' ');
            }
            text.push_str(&line);
            text.push_str("\r\n");
            if line.as_bytes().get(3) != Some(&b'-') {
                return text
                    .parse()
                    .map_err(|_| malformed("a line that is no SMTP reply"));
            }
        }
        Err(malformed("a reply of too many lines"))
    }

    async fn line(&mut self) -> io::Result<String> {
        let mut line = Vec::new();
        (&mut self.stream)
            .take(MAX_REPLY_LINE)
            .read_until(b'\n', &mut line)
            .await?;
        match line.last() {
            Some(b'\n') => Ok(String::from_utf8_lossy(&line).trim_end().to_owned()),
            Some(_) if line.len() as u64 == MAX_REPLY_LINE => Err(malformed("a reply line that is too long")),
            _ => Err(closed()),
        }
    }

    async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.get_mut().write_all(bytes).await?;
        self.stream.get_mut().flush().await
    }
}

fn closed() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the relay closed the connection")
}

fn malformed(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the relay sent {what}"))
}

/// Doubles the dot at the start of a line (RFC 5321 section 4.5.2) and ends the last line.
fn stuffed(message: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(message.len() + 64);
    for line in message.split_inclusive(|byte| *byte == b'\n') {
        if line.starts_with(b".") {
            out.push(b'.');
        }
        out.extend_from_slice(line);
    }
    if !out.ends_with(b"\r\n") {
        out.extend_from_slice(b"\r\n");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn reply_to(bytes: &[u8]) -> io::Result<Response> {
        let (mut far, near) = tokio::io::duplex(1 << 20);
        far.write_all(bytes).await.expect("the buffer is larger");
        drop(far);
        Dialogue::over(Box::new(near)).reply().await
    }

    #[test]
    fn a_dot_at_the_start_of_a_line_is_doubled_and_the_last_line_ended() {
        assert_eq!(stuffed(b".a\r\nb.\r\n..\r\nc"), b"..a\r\nb.\r\n...\r\nc\r\n");
        assert_eq!(stuffed(b""), b"\r\n");
    }

    #[tokio::test]
    async fn a_reply_may_have_many_lines_no_text_or_foreign_bytes() {
        let many = reply_to(b"250-one\r\n250-two\r\n250 three\r\n").await.unwrap();
        assert_eq!(many.message().collect::<Vec<_>>(), ["one", "two", "three"]);
        assert!(reply_to(b"250\r\n").await.unwrap().has_code(250));
        assert!(
            reply_to(b"550 Empf\xe4nger unbekannt\r\n")
                .await
                .unwrap()
                .has_code(550)
        );
        assert!(reply_to(b"250 bare line feed\n").await.unwrap().has_code(250));
    }

    #[tokio::test]
    async fn what_the_relay_says_is_bounded() {
        let endless_line = vec![b'2'; 100_000];
        let endless_reply = b"250-more\r\n".repeat(1_000);
        for bytes in [endless_line, endless_reply, b"hello\r\n".to_vec()] {
            let error = reply_to(&bytes).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        }
        let cut = reply_to(b"250-cut\r\n25").await.unwrap_err();
        assert_eq!(cut.kind(), io::ErrorKind::UnexpectedEof);
    }
}
