//! A wire that can be cut: a relay of TCP connections on loopback that, as long as it is cut, lets no byte through and
//! tells neither side. What was under way arrives when it is mended, as it does after a partition.
//!
//! A wire to a node is shared by all who call that node; one of them can be cut off alone, which is told by the process
//! that holds the other end. A cut in one direction holds what one side says; as on a real network, no new connection is
//! made meanwhile, since that takes both.

use std::fs;
use std::net::Ipv4Addr;
use std::path::PathBuf;

use tokio::io::AsyncReadExt;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedReadHalf;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Who is cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// Nobody.
    Nobody,
    /// Everybody.
    Everybody,
    /// Whoever calls from the process of that number.
    Process(u32),
    /// One direction: what callers say is held.
    Callers,
    /// One direction: what the node answers is held.
    Node,
    /// One direction: what the caller from the process of that number says is held.
    Caller(u32),
    /// One direction: what the node answers to the caller from the process of that number is held.
    NodeTo(u32),
}

/// Which way bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// From the caller to the node.
    ToNode,
    /// From the node to the caller.
    ToCaller,
}

/// A wire to a loopback port.
#[derive(Debug)]
pub struct Link {
    /// Where to call instead.
    pub port: u16,
    cut: watch::Sender<Cut>,
    listening: JoinHandle<()>,
}

impl Link {
    /// A wire to that port, whether somebody listens there yet or not.
    pub async fn to(port: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .expect("loopback has free ports");
        let own = listener
            .local_addr()
            .expect("a bound socket has an address")
            .port();
        let cut = watch::Sender::new(Cut::Nobody);
        let changes = cut.clone();
        let listening = tokio::spawn(async move {
            while let Ok((caller, from)) = listener.accept().await {
                let call = Call {
                    cut: changes.subscribe(),
                    socket: socket(from.port(), own),
                };
                // A call that fails is what both sides see.
                tokio::spawn(async move { call.carry(caller, port).await.ok() });
            }
        });
        Self {
            port: own,
            cut,
            listening,
        }
    }

    /// Cuts it, or mends it.
    pub fn cut(&self, cut: Cut) {
        self.cut.send_replace(cut);
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

/// One connection.
struct Call {
    cut: watch::Receiver<Cut>,
    /// The caller's socket, as `/proc` names it.
    socket: Option<PathBuf>,
}

impl Call {
    async fn carry(self, caller: TcpStream, port: u16) -> std::io::Result<()> {
        self.passable(&[Way::ToNode, Way::ToCaller]).await;
        let node = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
        caller.set_nodelay(true)?;
        node.set_nodelay(true)?;
        let (from_caller, to_caller) = caller.into_split();
        let (from_node, to_node) = node.into_split();
        tokio::try_join!(
            self.pump(Way::ToNode, from_caller, to_node),
            self.pump(Way::ToCaller, from_node, to_caller)
        )
        .map(drop)
    }

    async fn pump(&self, way: Way, mut from: OwnedReadHalf, mut to: OwnedWriteHalf) -> std::io::Result<()> {
        let mut buffer = vec![0; 16 * 1024];
        loop {
            let length = from.read(&mut buffer).await?;
            self.passable(&[way]).await;
            if length == 0 {
                return to.shutdown().await;
            }
            to.write_all(&buffer[..length]).await?;
        }
    }

    /// Waits until bytes may go all of these ways.
    async fn passable(&self, ways: &[Way]) {
        let mut cut = self.cut.clone();
        // An error says that the link is gone, and the test with it.
        let _ = cut
            .wait_for(|cut| !ways.iter().any(|way| self.is_stopped(*cut, *way)))
            .await;
    }

    fn is_stopped(&self, cut: Cut, way: Way) -> bool {
        match cut {
            Cut::Nobody => false,
            Cut::Everybody => true,
            Cut::Process(process) => self.is_from(process),
            Cut::Callers => way == Way::ToNode,
            Cut::Node => way == Way::ToCaller,
            Cut::Caller(process) => way == Way::ToNode && self.is_from(process),
            Cut::NodeTo(process) => way == Way::ToCaller && self.is_from(process),
        }
    }

    fn is_from(&self, process: u32) -> bool {
        self.socket.as_ref().is_some_and(|socket| holds(process, socket))
    }
}

/// The socket by which a local port calls another, as `/proc` names it; none where the caller is gone already.
fn socket(from: u16, to: u16) -> Option<PathBuf> {
    let table = fs::read_to_string("/proc/net/tcp").expect("Linux tells its sockets");
    let (from, to) = (format!("0100007F:{from:04X}"), format!("0100007F:{to:04X}"));
    table.lines().find_map(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let is_it = fields.next()? == from && fields.next()? == to;
        let inode = fields.nth(6)?;
        is_it.then(|| PathBuf::from(format!("socket:[{inode}]")))
    })
}

fn holds(process: u32, socket: &PathBuf) -> bool {
    let files = fs::read_dir(format!("/proc/{process}/fd"));
    files.is_ok_and(|files| {
        files
            .flatten()
            .any(|file| fs::read_link(file.path()).is_ok_and(|target| target == *socket))
    })
}
