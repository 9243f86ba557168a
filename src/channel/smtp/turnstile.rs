//! Who has a connection: as many at once as there may be, in the order in which they came, but no owner so many that
//! others find none, nor all those together whose mail is slow.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::channel::seats::Seats;
use crate::channel::smtp::tempo::Tempo;
use crate::clock::Clock;

/// The way to the connections.
#[derive(Debug)]
pub(super) struct Turnstile {
    most: usize,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    inside: Seats,
    tempo: Tempo,
    waiting: VecDeque<(u64, oneshot::Sender<Pass>)>,
}

/// Leave to use a connection, until it is dropped.
#[derive(Debug)]
pub(super) struct Pass {
    turnstile: Arc<Turnstile>,
    owner: u64,
}

impl Pass {
    /// What it was for took so long: the relay dealt with a message.
    pub(super) fn took(&self, time: Duration) {
        let now = self.turnstile.clock.elapsed();
        self.turnstile.state().tempo.took(self.owner, time, now);
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.turnstile.state().inside.leave(self.owner);
        self.turnstile.let_in();
    }
}

impl Turnstile {
    /// Lets so many in at once.
    pub(super) fn new(most: usize, clock: Arc<dyn Clock>) -> Arc<Self> {
        let state = Mutex::default();
        Arc::new(Self { most, clock, state })
    }

    /// Whether the messages of `owner` take longer than those of others.
    pub(super) fn is_slow(&self, owner: u64) -> bool {
        self.state().tempo.is_slow(owner, self.clock.elapsed())
    }

    /// How many are inside.
    pub(super) fn inside(&self) -> usize {
        self.state().inside.total()
    }

    /// Waits for leave to use a connection for `owner`. Whoever stops waiting gives up their place.
    pub(super) async fn enter(self: &Arc<Self>, owner: u64) -> Pass {
        let (pass, passes) = oneshot::channel();
        self.state().waiting.push_back((owner, pass));
        self.let_in();
        passes.await.expect("who waits here is let in")
    }

    /// Lets in whoever may be.
    fn let_in(self: &Arc<Self>) {
        while let Some((owner, pass)) = self.next() {
            // One that nobody waits for any longer is dropped at once, and so makes room again.
            let _ = pass.send(Pass {
                turnstile: Arc::clone(self),
                owner,
            });
        }
    }

    fn next(&self) -> Option<(u64, oneshot::Sender<Pass>)> {
        let mut state = self.state();
        state.waiting.retain(|(_, pass)| !pass.is_closed());
        if state.inside.total() >= self.most {
            return None;
        }
        let State {
            inside,
            tempo,
            waiting,
        } = &mut *state;
        let now = self.clock.elapsed();
        let (_, slow) = inside.parted(|owner| tempo.is_slow(owner, now));
        let place = waiting.iter().position(|(owner, _)| {
            let is_held_up = tempo.is_slow(*owner, now) && !slow.admit(*owner, self.most.div_ceil(2));
            !is_held_up && inside.admit(*owner, self.most)
        })?;
        let (owner, pass) = waiting.remove(place)?;
        inside.take(owner);
        Some((owner, pass))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;
    use crate::clock::ManualClock;

    fn turnstile(most: usize) -> (Arc<Turnstile>, Arc<ManualClock>) {
        let clock = Arc::new(ManualClock::at("2026-12-01T08:15:00Z".parse().unwrap()));
        (Turnstile::new(most, clock.clone()), clock)
    }

    fn enter(turnstile: &Arc<Turnstile>, owner: u64) -> Option<Pass> {
        turnstile.enter(owner).now_or_never()
    }

    #[test]
    fn an_owner_leaves_connections_for_others() {
        let turnstile = turnstile(8).0;
        let own: Vec<Pass> = std::iter::from_fn(|| enter(&turnstile, 1)).collect();
        assert_eq!(own.len(), 4);
        let others: Vec<Pass> = (2..9).map_while(|owner| enter(&turnstile, owner)).collect();
        assert_eq!((others.len(), turnstile.inside()), (4, 8));
    }

    #[tokio::test]
    async fn who_waits_is_let_in_in_order_once_another_leaves() {
        let turnstile = turnstile(1).0;
        let first = turnstile.enter(1).await;
        let mut second = Box::pin(turnstile.enter(2));
        let mut gave_up = Box::pin(turnstile.enter(3));
        let mut third = Box::pin(turnstile.enter(1));
        assert!((&mut second).now_or_never().is_none());
        assert!((&mut gave_up).now_or_never().is_none());
        assert!((&mut third).now_or_never().is_none());
        drop(gave_up);

        drop(first);

        assert!((&mut third).now_or_never().is_none());
        drop(second.await);
        let third = third.await;
        assert_eq!(turnstile.inside(), 1);
        drop(third);
        assert_eq!(turnstile.inside(), 0);
    }

    #[tokio::test]
    async fn leave_that_nobody_came_for_is_given_to_the_next() {
        let turnstile = turnstile(1).0;
        let first = turnstile.enter(1).await;
        let mut second = Box::pin(turnstile.enter(2));
        assert!((&mut second).now_or_never().is_none());
        drop(first);
        assert_eq!(turnstile.inside(), 1, "it was let in, and has not looked yet");
        drop(second);
        assert!(enter(&turnstile, 3).is_some());
    }

    #[test]
    fn however_many_owners_are_slow_half_of_the_connections_are_for_others() {
        let (turnstile, clock) = turnstile(8);
        enter(&turnstile, 100).unwrap().took(Duration::from_millis(5));
        for owner in 0..20 {
            enter(&turnstile, owner).unwrap().took(Duration::from_secs(10));
        }
        let slow: Vec<Pass> = (0..20).filter_map(|owner| enter(&turnstile, owner)).collect();
        assert_eq!(slow.len(), 4);
        let others: Vec<Pass> = (100..120).filter_map(|owner| enter(&turnstile, owner)).collect();
        assert_eq!(others.len(), 4);
        drop((slow, others));
        clock.advance(Duration::from_mins(10));
        let all: Vec<Pass> = (0..20).filter_map(|owner| enter(&turnstile, owner)).collect();
        assert_eq!(all.len(), 8, "nobody else has mail");
    }
}
