//! No more than SMTP asks for: commands in one write, replies as they come, nothing read that is not needed.

use tokio::io::AsyncBufReadExt;
use tokio::io::AsyncWriteExt;
use tokio::io::BufReader;
use tokio::net::TcpStream;

/// One connection.
pub struct Raw {
    stream: BufReader<TcpStream>,
    line: String,
}

impl Raw {
    /// Connects, and says EHLO.
    pub async fn connect(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).await.expect("it listens");
        stream.set_nodelay(true).expect("it is connected");
        let mut raw = Self {
            stream: BufReader::new(stream),
            line: String::new(),
        };
        raw.reply('2').await;
        raw.say("EHLO bench.test\r\n").await;
        raw.reply('2').await;
        raw
    }

    /// Hands a mail over that has no line that begins with a dot.
    pub async fn send(&mut self, envelope: &str, mail: &str) {
        self.say(envelope).await;
        for expected in ['2', '2', '3'] {
            self.reply(expected).await;
        }
        self.say(mail).await;
        self.reply('2').await;
    }

    async fn say(&mut self, text: &str) {
        let stream = self.stream.get_mut();
        stream.write_all(text.as_bytes()).await.expect("it reads");
    }

    async fn reply(&mut self, expected: char) {
        loop {
            self.line.clear();
            self.stream.read_line(&mut self.line).await.expect("it answers");
            assert!(self.line.starts_with(expected), "{}", self.line);
            if self.line.as_bytes().get(3) != Some(&b'-') {
                return;
            }
        }
    }
}
