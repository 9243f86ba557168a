//! A relay that is some way off: what it says arrives that much later than it says it.

use std::net::Ipv4Addr;
use std::time::Duration;

use carillon::clock::Clock;
use carillon::clock::SystemClock;
use tokio::io::AsyncReadExt;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Parts of what the relay says that may be on their way at once.
const ON_THE_WAY: usize = 1_000;

/// The way to a loopback port.
#[derive(Debug)]
pub struct Distance {
    /// Where to call instead.
    pub port: u16,
    listening: JoinHandle<()>,
}

impl Distance {
    /// So much, there and back.
    pub async fn of(port: u16, there_and_back: Duration) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
        let listener = listener.expect("loopback has free ports");
        let own = listener.local_addr().expect("a bound socket has an address");
        let listening = tokio::spawn(async move {
            while let Ok((caller, _)) = listener.accept().await {
                // A call that fails is what both sides see.
                tokio::spawn(async move { carry(caller, port, there_and_back).await.ok() });
            }
        });
        Self {
            port: own.port(),
            listening,
        }
    }
}

impl Drop for Distance {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

async fn carry(mut caller: TcpStream, port: u16, delay: Duration) -> std::io::Result<()> {
    let mut relay = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
    caller.set_nodelay(true)?;
    relay.set_nodelay(true)?;
    let (mut from_caller, mut to_caller) = caller.split();
    let (mut from_relay, mut to_relay) = relay.split();
    let (on_the_way, mut arriving) = mpsc::channel::<(Duration, Vec<u8>)>(ON_THE_WAY);
    let listen = async move {
        let mut buffer = vec![0; 16 * 1024];
        loop {
            let length = from_relay.read(&mut buffer).await?;
            let said = (SystemClock.elapsed() + delay, buffer[..length].to_vec());
            if length == 0 || on_the_way.send(said).await.is_err() {
                return Ok(());
            }
        }
    };
    let arrive = async {
        while let Some((at, part)) = arriving.recv().await {
            SystemClock.sleep(at.saturating_sub(SystemClock.elapsed())).await;
            to_caller.write_all(&part).await?;
        }
        to_caller.shutdown().await
    };
    let speak = async {
        tokio::io::copy(&mut from_caller, &mut to_relay).await?;
        to_relay.shutdown().await
    };
    tokio::try_join!(listen, arrive, speak).map(drop)
}
