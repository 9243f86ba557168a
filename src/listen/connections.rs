//! Which connections are open, and which of them is closed when a further one comes.
//!
//! A connection is idle from its start to the end of its first request head, and between two requests. A WebSocket and an
//! answer that is still produced are not idle. Where room is needed, the connection that has been idle longest is closed;
//! one that came just now only where no older one is idle, and one whose last request had a valid token only where no other
//! is idle at all. Where none is idle, the further one is refused.

use std::net::IpAddr;
use std::net::Ipv6Addr;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::Weak;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::Bounds;

/// How long a connection has for its first request before it counts as idle like any other.
const FIRST_REQUEST: Duration = Duration::from_secs(1);

/// An open connection. It holds its place as long as anything refers to it.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) peer: IpAddr,
    /// It came from this machine when all other places were busy, and holds one that is kept for probes.
    pub(super) is_for_probes: bool,
    /// Cancelled when it must make room for another.
    pub(super) closing: CancellationToken,
    activity: Mutex<Activity>,
    _open: mpsc::Sender<()>,
}

#[derive(Debug, Clone, Copy)]
enum Activity {
    /// It has asked nothing yet.
    New {
        since: Duration,
    },
    Idle {
        is_known: bool,
        since: Duration,
    },
    Busy,
}

impl Activity {
    /// Where it comes in the order in which connections are closed; none while it is busy.
    fn rank(self, now: Duration) -> Option<(bool, bool, Duration)> {
        match self {
            Self::New { since } => Some((false, now.saturating_sub(since) < FIRST_REQUEST, since)),
            Self::Idle { is_known, since } => Some((is_known, false, since)),
            Self::Busy => None,
        }
    }
}

impl Connection {
    /// A request begins.
    pub(super) fn busy(&self) {
        *self.activity() = Activity::Busy;
    }

    /// A request has been answered; `is_known`: its token was valid.
    pub(super) fn idle(&self, is_known: bool, since: Duration) {
        *self.activity() = Activity::Idle { is_known, since };
    }

    fn activity(&self) -> MutexGuard<'_, Activity> {
        self.activity.lock().expect("no holder panics")
    }
}

/// The open connections of a port.
#[derive(Debug)]
pub(super) struct Connections {
    bounds: Bounds,
    open: Vec<Weak<Connection>>,
    /// Each connection holds a sender, so that the channel ends with the last of them.
    last: (mpsc::Sender<()>, mpsc::Receiver<()>),
}

impl Connections {
    pub(super) fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            open: Vec::new(),
            last: mpsc::channel(1),
        }
    }

    /// The place of one more connection; none where it is refused.
    pub(super) fn admit(&mut self, peer: IpAddr, now: Duration) -> Option<Arc<Connection>> {
        let Bounds {
            connections,
            per_peer,
            for_probes,
            ..
        } = self.bounds;
        let network = network(peer);
        self.open.retain(|open| open.strong_count() > 0);
        let is_regular = self.make_room(now, per_peer, |open| {
            !open.is_for_probes && self::network(open.peer) == network
        }) && self.make_room(now, connections - for_probes, |open| !open.is_for_probes);
        let is_local = peer.to_canonical().is_loopback();
        let has_place = is_regular || is_local && self.make_room(now, for_probes, |open| open.is_for_probes);
        if !has_place {
            return None;
        }
        let connection = Arc::new(Connection {
            peer,
            is_for_probes: !is_regular,
            closing: CancellationToken::new(),
            activity: Mutex::new(Activity::New { since: now }),
            _open: self.last.0.clone(),
        });
        self.open.push(Arc::downgrade(&connection));
        Some(connection)
    }

    /// Whether there are fewer than `max` of those connections, if need be since the one that has been idle longest is
    /// closed now.
    fn make_room(&mut self, now: Duration, max: usize, among: impl Fn(&Connection) -> bool) -> bool {
        let open = self.open.iter().enumerate();
        let open = open.filter_map(|(at, open)| Some((at, open.upgrade()?)));
        let counted: Vec<(usize, Arc<Connection>)> = open.filter(|(_, open)| among(open)).collect();
        if counted.len() < max {
            return true;
        }
        let idle = counted
            .iter()
            .filter_map(|(at, open)| Some((open.activity().rank(now)?, *at, open)));
        let Some((_, at, connection)) = idle.min_by_key(|(rank, ..)| *rank) else {
            return false;
        };
        connection.closing.cancel();
        self.open.swap_remove(at);
        true
    }

    /// Waits until the last connection has ended.
    pub(super) async fn ended(self) {
        let (sender, mut receiver) = self.last;
        drop(sender);
        // Nothing is ever sent.
        let _ = receiver.recv().await;
    }
}

/// What one peer can call from: an IPv4 address, or the /64 that a network gives to each of its machines.
fn network(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX))),
        address @ IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds {
        connections: 5,
        per_peer: 2,
        for_probes: 1,
        patience: Duration::from_secs(30),
    };

    /// Connections that came one second after the other.
    struct Scene {
        connections: Connections,
        now: Duration,
    }

    impl Scene {
        fn new() -> Self {
            Self {
                connections: Connections::new(BOUNDS),
                now: Duration::ZERO,
            }
        }

        fn admit(&mut self, peer: &str) -> Option<Arc<Connection>> {
            self.now += Duration::from_secs(1);
            self.connections.admit(peer.parse().unwrap(), self.now)
        }

        fn let_in(&mut self, peer: &str) -> Arc<Connection> {
            self.admit(peer).expect("there is room")
        }

        fn answer(&mut self, connection: &Connection, is_known: bool) {
            self.now += Duration::from_secs(1);
            connection.busy();
            connection.idle(is_known, self.now);
        }
    }

    fn is_closed(connection: &Connection) -> bool {
        connection.closing.is_cancelled()
    }

    #[test]
    fn full_port_closes_the_connection_idle_longest() {
        let mut scene = Scene::new();
        let four: Vec<_> = ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"]
            .map(|peer| scene.let_in(peer))
            .into();
        scene.answer(&four[0], false);
        four[1].busy();
        scene.let_in("10.0.0.5");
        assert_eq!(
            four.iter().map(|it| is_closed(it)).collect::<Vec<_>>(),
            [false, false, true, false]
        );
    }

    #[test]
    fn connection_with_a_valid_token_is_closed_last() {
        let mut scene = Scene::new();
        let known = scene.let_in("10.0.0.1");
        scene.answer(&known, true);
        let mut kept: Vec<_> = (2..=4)
            .map(|peer| scene.let_in(&format!("10.0.0.{peer}")))
            .collect();
        kept.extend((5..=8).map(|peer| scene.let_in(&format!("10.0.0.{peer}"))));
        assert!(!is_closed(&known));
        for connection in &kept {
            connection.busy();
        }
        scene.let_in("10.0.0.9");
        assert!(is_closed(&known), "no other is idle");
    }

    #[test]
    fn new_connection_has_time_for_its_first_request() {
        let mut scene = Scene::new();
        let served = ["10.0.0.1", "10.0.0.2", "10.0.0.3"].map(|peer| scene.let_in(peer));
        let new = scene.let_in("10.0.0.4");
        for (connection, later) in served.iter().zip(1..) {
            connection.idle(false, scene.now + Duration::from_millis(later));
        }
        scene.now -= FIRST_REQUEST / 2;
        let _fifth = scene.let_in("10.0.0.5");
        assert!(is_closed(&served[0]) && !is_closed(&new));
        scene.let_in("10.0.0.6");
        assert!(is_closed(&new), "it had its time");
    }

    #[test]
    fn peer_over_its_share_closes_its_own_connections() {
        let mut scene = Scene::new();
        let other = scene.let_in("10.0.0.1");
        let theirs = ["2001:db8::1", "2001:db8::2"].map(|peer| scene.let_in(peer));
        let third = scene.let_in("2001:db8::3");
        assert!(is_closed(&theirs[0]) && !is_closed(&other), "one /64 is one peer");
        theirs[1].busy();
        third.busy();
        assert!(scene.admit("2001:db8::4").is_none());
        assert!(scene.admit("2001:db8:0:1::4").is_some());
    }

    #[test]
    fn probes_have_a_place_where_all_others_are_busy() {
        let mut scene = Scene::new();
        let busy = ["127.0.0.1", "127.0.0.1", "10.0.0.1", "10.0.0.2"].map(|peer| scene.let_in(peer));
        for connection in &busy {
            connection.busy();
        }
        assert!(scene.admit("10.0.0.3").is_none());
        let probe = scene.let_in("::ffff:127.0.0.1");
        assert!(probe.is_for_probes);
        assert!(scene.let_in("::1").is_for_probes && is_closed(&probe));
        drop(busy);
        assert!(!scene.let_in("127.0.0.1").is_for_probes);
    }

    #[test]
    fn ended_connections_leave_their_places() {
        let mut scene = Scene::new();
        for _ in 0..20 {
            scene.let_in("10.0.0.1").busy();
        }
        assert!(scene.connections.open.len() <= 1);
    }

    #[tokio::test]
    async fn last_connection_ends_the_wait() {
        let mut scene = Scene::new();
        let open = scene.let_in("10.0.0.1");
        let mut ended = std::pin::pin!(scene.connections.ended());
        assert!(futures_util::poll!(ended.as_mut()).is_pending());
        drop(open);
        ended.await;
    }
}
