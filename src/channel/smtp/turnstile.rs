//! Who has a connection: as many at once as there may be, in the order in which they came, but no owner so many that
//! others find none, nor all those together whose mail is slow. Where that shows only once they have one, those beyond their
//! half give way as soon as others wait: they come again, and nothing was sent. Of whom nothing is known has one until it is,
//! so that half as many of them again as there are connections may turn out to be slow at once and hold nobody up for long.

use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::sync::oneshot;

use crate::channel::seats::Seats;
use crate::channel::smtp::tempo::Tempo;
use crate::channel::smtp::tempo::UnderWay;
use crate::clock::Clock;

/// Whom others wait for gives way so long after the last did, unless that was to somebody's good: a relay may have become slow
/// to everybody.
const GIVE_WAY_EVERY: Duration = Duration::from_secs(2);

/// As many as there are connections give way within this at the most: a relay may notice late that somebody has gone.
const NOTICED_WITHIN: Duration = Duration::from_secs(30);

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
    /// Those inside, by the numbers of their passes.
    under_way: BTreeMap<u64, UnderWay>,
    /// How those inside are told to give way who were not told so far.
    told: BTreeMap<u64, Arc<Notify>>,
    /// When somebody was told lately, in order.
    told_at: VecDeque<Duration>,
    tempo: Tempo,
    waiting: VecDeque<(u64, oneshot::Sender<Pass>)>,
    passes: u64,
}

/// Leave to use a connection, until it is dropped.
#[derive(Debug)]
pub(super) struct Pass {
    turnstile: Arc<Turnstile>,
    number: u64,
    owner: u64,
    told: Arc<Notify>,
}

impl Pass {
    /// Waits until others need the connection more.
    pub(super) async fn is_to_give_way(&self) {
        self.told.notified().await;
    }

    /// A message is named to the relay from now on.
    pub(super) fn begins(&self) {
        let now = self.turnstile.clock.elapsed();
        if let Some(under_way) = self.turnstile.state().under_way.get_mut(&self.number) {
            under_way.since = Some(now);
        }
    }

    /// The relay has heard of the message: it gives way to nobody any more.
    pub(super) fn has_begun(&self) {
        self.turnstile.state().told.remove(&self.number);
    }

    /// The relay took the message.
    pub(super) fn was_taken(&self) {
        let now = self.turnstile.clock.elapsed();
        let mut state = self.turnstile.state();
        if let Some((time, tempo, under_way)) = state.ended(self.number, now) {
            tempo.took(under_way.owner, time, now);
        }
    }

    /// The relay did not take the message. That may be quick where another would not be.
    pub(super) fn was_refused(&self) {
        let now = self.turnstile.clock.elapsed();
        let mut state = self.turnstile.state();
        if let Some((time, tempo, under_way)) = state.ended(self.number, now)
            && time > tempo.slow_from_of(under_way.owner, now)
        {
            tempo.is_held_up_by(under_way.owner, now);
        }
    }
}

impl State {
    /// How long a message took, of which the relay had heard.
    fn ended(&mut self, number: u64, now: Duration) -> Option<(Duration, &mut Tempo, &UnderWay)> {
        let under_way = self.under_way.get(&number)?;
        let time = now.saturating_sub(under_way.since?);
        Some((time, &mut self.tempo, under_way))
    }

    /// The passes of those who are slow or were, which is noted of them. Those come first who were known as slow before, for they
    /// have waited for their turn, and of the others the first to come.
    fn note_slow(&mut self, now: Duration) -> Vec<u64> {
        let Self { under_way, tempo, .. } = self;
        let mut slow = Vec::new();
        let mut by_now = Vec::new();
        for (number, message) in under_way.iter() {
            let (was_slow, is_slow) = (
                tempo.was_slow(message.owner, now),
                tempo.is_slow_by_now(message, now),
            );
            if was_slow || is_slow {
                slow.push((!was_slow, *number));
            }
            if is_slow {
                by_now.push(message.owner);
            }
        }
        for owner in by_now {
            tempo.is_held_up_by(owner, now);
        }
        slow.sort_unstable();
        slow.into_iter().map(|(_, number)| number).collect()
    }
}

/// Whether nothing is known of an owner, whose first message is to show it.
fn has_to_show(owner: u64, inside: &Seats, tempo: &Tempo, now: Duration) -> bool {
    inside.of(owner) > 0 && tempo.is_to_show(owner, now)
}

impl Drop for Pass {
    fn drop(&mut self) {
        let mut state = self.turnstile.state();
        state.inside.leave(self.owner);
        state.under_way.remove(&self.number);
        state.told.remove(&self.number);
        drop(state);
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
        let (pass, mut passes) = oneshot::channel();
        self.state().waiting.push_back((owner, pass));
        self.let_in();
        loop {
            let long = self.state().tempo.slow_from();
            tokio::select! {
                pass = &mut passes => return pass.expect("who waits here is let in"),
                () = self.clock.sleep(long) => {
                    self.make_way();
                    self.let_in();
                }
            }
        }
    }

    /// Lets in whoever may be.
    fn let_in(self: &Arc<Self>) {
        while let Some((pass, waits)) = self.next() {
            // One that nobody waits for any longer is dropped at once, and so makes room again.
            let _ = waits.send(pass);
        }
    }

    fn next(self: &Arc<Self>) -> Option<(Pass, oneshot::Sender<Pass>)> {
        let mut state = self.state();
        state.waiting.retain(|(_, pass)| !pass.is_closed());
        if state.inside.total() >= self.most {
            return None;
        }
        let now = self.clock.elapsed();
        let State {
            inside,
            tempo,
            waiting,
            ..
        } = &mut *state;
        // Where nobody is known to be quick, those may be of whom nothing is known.
        let is_slow = |owner| tempo.was_slow(owner, now);
        let holds_up = tempo.is_anybody_quick(now) || waiting.iter().any(|(owner, _)| !is_slow(*owner));
        let (_, slow) = inside.parted(is_slow);
        let half = self.most.div_ceil(2);
        let place = waiting.iter().position(|(owner, _)| {
            let is_full = || slow.total() >= half || !slow.admit(*owner, half);
            let is_held_up = holds_up && is_slow(*owner) && is_full();
            !is_held_up && !has_to_show(*owner, inside, tempo, now) && inside.admit(*owner, self.most)
        })?;
        let (owner, waits) = waiting.remove(place)?;
        inside.take(owner);
        let pass = Pass {
            turnstile: Arc::clone(self),
            number: state.passes,
            owner,
            told: Arc::default(),
        };
        state.passes += 1;
        state.told.insert(pass.number, Arc::clone(&pass.told));
        state
            .under_way
            .insert(pass.number, UnderWay { owner, since: None });
        Some((pass, waits))
    }

    /// Notes who is slow by now, and tells those to give way who are so beyond the half that is theirs, the last to come first,
    /// where others wait.
    fn make_way(&self) {
        let now = self.clock.elapsed();
        let mut state = self.state();
        let slow = state.note_slow(now);
        let State {
            inside,
            told,
            told_at,
            tempo,
            waiting,
            ..
        } = &mut *state;
        told_at.retain(|at| now.saturating_sub(*at) < NOTICED_WITHIN);
        let is_too_soon = told_at.back().is_some_and(|at| {
            let was_in_vain = tempo.quick_at() < Some(*at);
            was_in_vain && now.saturating_sub(*at) < GIVE_WAY_EVERY
        });
        let mut owners = waiting.iter().map(|(owner, _)| *owner);
        let is_any_other = owners.any(|it| !tempo.was_slow(it, now) && !has_to_show(it, inside, tempo, now));
        if inside.total() < self.most || is_too_soon || !is_any_other {
            return;
        }
        let beyond: Vec<u64> = slow
            .into_iter()
            .skip(self.most.div_ceil(2))
            .filter(|number| told.contains_key(number))
            .take(self.most.saturating_sub(told_at.len()))
            .collect();
        for told in beyond.iter().filter_map(|number| told.remove(number)) {
            told.notify_one();
            told_at.push_back(now);
        }
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
        let pass = turnstile.enter(owner).now_or_never();
        pass.inspect(Pass::begins)
    }

    /// A message of `owner` that takes so long.
    fn pass_through(turnstile: &Arc<Turnstile>, owner: u64, clock: &ManualClock, time: Duration) {
        let pass = enter(turnstile, owner).expect("there is room");
        clock.advance(time);
        pass.was_taken();
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
        pass_through(&turnstile, 100, &clock, Duration::from_millis(5));
        for owner in 0..20 {
            pass_through(&turnstile, owner, &clock, Duration::from_secs(10));
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

    #[test]
    fn of_whom_nothing_is_known_has_one_connection_where_others_are_quick() {
        let (turnstile, clock) = turnstile(8);
        pass_through(&turnstile, 100, &clock, Duration::from_millis(5));
        let first = enter(&turnstile, 1).expect("there is room");
        assert!(enter(&turnstile, 1).is_none());
        first.was_taken();
        let more: Vec<Pass> = std::iter::from_fn(|| enter(&turnstile, 1)).collect();
        assert_eq!(more.len(), 3, "it was quick");
    }

    #[tokio::test]
    async fn of_whom_it_is_known_by_now_others_messages_wait_no_longer() {
        let (turnstile, clock) = turnstile(8);
        pass_through(&turnstile, 100, &clock, Duration::from_millis(5));
        let first = enter(&turnstile, 1).expect("there is room");
        let mut second = Box::pin(turnstile.enter(1));
        assert!((&mut second).now_or_never().is_none());
        clock.advance(Duration::from_secs(2));
        let second = tokio::time::timeout(Duration::from_secs(20), second).await;
        assert!(second.is_ok(), "seven are free");
        assert!(turnstile.is_slow(1));
        drop(first);
    }

    #[test]
    fn who_is_quick_again_is_so_however_often_others_wait() {
        let (turnstile, clock) = turnstile(1);
        pass_through(&turnstile, 100, &clock, Duration::from_millis(5));
        pass_through(&turnstile, 1, &clock, Duration::from_secs(2));
        for _ in 0..3 {
            assert!(turnstile.is_slow(1));
            let pass = enter(&turnstile, 1).expect("there is room");
            let mut other = Box::pin(turnstile.enter(2));
            assert!((&mut other).now_or_never().is_none());
            turnstile.make_way();
            pass.was_taken();
        }
        assert!(!turnstile.is_slow(1));
    }

    #[test]
    fn however_many_connections_the_first_slow_owner_has_they_count() {
        let (turnstile, clock) = turnstile(8);
        let own: Vec<Pass> = std::iter::from_fn(|| enter(&turnstile, 1)).collect();
        pass_through(&turnstile, 100, &clock, Duration::from_millis(5));
        for owner in [1, 2] {
            turnstile.state().tempo.is_held_up_by(owner, clock.elapsed());
        }
        assert_eq!(own.len(), 4);
        assert!(enter(&turnstile, 2).is_none(), "half of them are slow");
        assert!(enter(&turnstile, 3).is_some());
    }

    /// Half as many again as there are connections, of whom nothing is known, and others who come after all of them.
    #[test]
    fn a_dozen_who_turn_out_to_be_slow_give_way_in_two_rounds() {
        let (turnstile, clock) = turnstile(8);
        pass_through(&turnstile, 100, &clock, Duration::from_millis(5));
        let coming = (0..12).flat_map(|owner| [owner; 5]).chain(200..210);
        let mut waiting: Vec<_> = coming
            .map(|owner| (owner, Box::pin(turnstile.enter(owner))))
            .collect();
        let (mut inside, mut quick) = (Vec::new(), 0);
        for _ in 0..3 {
            // Whoever is let in makes room for the next to be so.
            for _ in 0..10 {
                waiting.retain_mut(|(owner, entering)| {
                    let Some(pass) = entering.now_or_never() else {
                        return true;
                    };
                    pass.begins();
                    if *owner < 100 {
                        inside.push(pass);
                    } else {
                        pass.was_taken();
                        quick += 1;
                    }
                    false
                });
            }
            clock.advance(GIVE_WAY_EVERY);
            turnstile.make_way();
            inside.retain(|pass: &Pass| pass.is_to_give_way().now_or_never().is_none());
        }
        assert_eq!((quick, inside.len()), (10, 4));
    }

    #[test]
    fn who_may_be_quick_does_not_wait_for_all_who_were_slow() {
        let (turnstile, clock) = turnstile(8);
        let slow: Vec<Pass> = (0..8).filter_map(|owner| enter(&turnstile, owner)).collect();
        let mut again: Vec<_> = (0..8).map(|owner| Box::pin(turnstile.enter(owner))).collect();
        assert!(again.iter_mut().all(|it| it.now_or_never().is_none()));
        let mut other = Box::pin(turnstile.enter(9));
        assert!((&mut other).now_or_never().is_none());

        clock.advance(Duration::from_secs(10));
        slow.iter().for_each(Pass::was_taken);
        drop(slow);

        assert!(other.now_or_never().is_some(), "nobody was quick so far");
    }

    #[tokio::test]
    async fn who_turns_out_to_be_slow_beyond_their_half_gives_way_to_others() {
        let (turnstile, clock) = turnstile(4);
        pass_through(&turnstile, 100, &clock, Duration::from_millis(5));
        let slow: Vec<Pass> = (0..4).filter_map(|owner| enter(&turnstile, owner)).collect();
        let gives_way = |pass: &Pass| pass.is_to_give_way().now_or_never().is_some();
        turnstile.make_way();
        assert!(!slow.iter().any(gives_way), "nobody waits");
        let mut other = Box::pin(turnstile.enter(9));
        assert!((&mut other).now_or_never().is_none());
        turnstile.make_way();
        assert!(!slow.iter().any(gives_way), "it was not long so far");

        clock.advance(Duration::from_secs(1));
        assert!((&mut other).now_or_never().is_none());

        let told: Vec<bool> = slow.iter().map(gives_way).collect();
        assert_eq!(told, [false, false, true, true]);
        assert!((0..4).all(|owner| turnstile.is_slow(owner)));
        clock.advance(GIVE_WAY_EVERY);
        turnstile.make_way();
        assert!(!slow.iter().any(gives_way), "half of them are theirs");
        drop(slow);
        assert!(other.now_or_never().is_some());
    }

    #[tokio::test]
    async fn who_was_known_as_slow_or_has_begun_stays() {
        let (turnstile, clock) = turnstile(4);
        pass_through(&turnstile, 9, &clock, Duration::from_secs(2));
        pass_through(&turnstile, 100, &clock, Duration::from_millis(5));
        let mut slow: Vec<Pass> = (0..3).filter_map(|owner| enter(&turnstile, owner)).collect();
        slow.extend(enter(&turnstile, 9));
        slow[2].has_begun();
        let mut other = Box::pin(turnstile.enter(8));
        assert!((&mut other).now_or_never().is_none());

        clock.advance(Duration::from_secs(1));
        turnstile.make_way();

        let told = slow
            .iter()
            .map(|pass| pass.is_to_give_way().now_or_never().is_some());
        assert_eq!(told.collect::<Vec<_>>(), [false, true, false, false]);
    }
}
