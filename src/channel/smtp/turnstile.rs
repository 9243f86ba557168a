//! Who has a connection: as many at once as there may be, in the order in which they came, but no owner so many that
//! others find none.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;

use tokio::sync::oneshot;

use crate::channel::seats::Seats;

/// The way to the connections.
#[derive(Debug)]
pub(super) struct Turnstile {
    most: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    inside: Seats,
    waiting: VecDeque<(u64, oneshot::Sender<Pass>)>,
}

/// Leave to use a connection, until it is dropped.
#[derive(Debug)]
pub(super) struct Pass {
    turnstile: Arc<Turnstile>,
    owner: u64,
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.turnstile.state().inside.leave(self.owner);
        self.turnstile.let_in();
    }
}

impl Turnstile {
    /// Lets so many in at once.
    pub(super) fn new(most: usize) -> Arc<Self> {
        let state = Mutex::default();
        Arc::new(Self { most, state })
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
        let State { inside, waiting } = &mut *state;
        let place = waiting
            .iter()
            .position(|(owner, _)| inside.admit(*owner, self.most))?;
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

    fn enter(turnstile: &Arc<Turnstile>, owner: u64) -> Option<Pass> {
        turnstile.enter(owner).now_or_never()
    }

    #[test]
    fn an_owner_leaves_connections_for_others() {
        let turnstile = Turnstile::new(8);
        let own: Vec<Pass> = std::iter::from_fn(|| enter(&turnstile, 1)).collect();
        assert_eq!(own.len(), 4);
        let others: Vec<Pass> = (2..9).map_while(|owner| enter(&turnstile, owner)).collect();
        assert_eq!((others.len(), turnstile.inside()), (4, 8));
    }

    #[tokio::test]
    async fn who_waits_is_let_in_in_order_once_another_leaves() {
        let turnstile = Turnstile::new(1);
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
        let turnstile = Turnstile::new(1);
        let first = turnstile.enter(1).await;
        let mut second = Box::pin(turnstile.enter(2));
        assert!((&mut second).now_or_never().is_none());
        drop(first);
        assert_eq!(turnstile.inside(), 1, "it was let in, and has not looked yet");
        drop(second);
        assert!(enter(&turnstile, 3).is_some());
    }
}
