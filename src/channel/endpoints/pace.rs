//! How one endpoint of one owner has been doing, and whom it takes next. Pure: all times are of the boot-time clock.

use std::collections::VecDeque;
use std::time::Duration;

use crate::channel::breaker::Breaker;
use crate::channel::breaker::Openness;
use crate::channel::breaker::PAUSE;
use crate::channel::endpoints::Refusal;

/// Calls that wait for each call that may be under way.
const WAITING: usize = 1;

/// When what would have gone to an endpoint that is left alone is tried again, and how far these times are spread.
const ALONE: (Duration, Duration) = (Duration::from_secs(40), Duration::from_secs(20));

/// The shortest and the longest time for which a call is put off.
const PUT_OFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(20));

/// When a call is to come again that cannot be promised a turn, and how far these times are spread.
const UNPROMISED: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(10));

/// What a call is taken to need before one has been measured.
const FIRST_GUESS: Duration = Duration::from_millis(50);

/// Calls that were promised a turn at the most; those beyond come as if for the first time.
const PROMISES: usize = 1_000;

/// A call that does not come for its turn has lost it after so long: it was withdrawn, or another node has it.
const MISSED_TURN: Duration = Duration::from_secs(5);

/// How many calls may be under way or wait where so many may be under way.
pub const fn room_for(calls: usize) -> usize {
    calls * (1 + WAITING)
}

/// How an endpoint has been doing.
#[derive(Debug)]
pub struct Pace {
    /// Calls under way and waiting.
    pub present: usize,
    /// When it was last asked for.
    pub used: Duration,
    /// How long calls have been taking.
    took: Duration,
    /// When one ended last, or the first of those under way began.
    moved: Duration,
    /// The turns that were promised, each with the number of its call, in their order.
    promised: VecDeque<(Duration, u64)>,
    /// Whether it is left alone.
    breaker: Breaker,
    /// The next probe, and how many calls were told to come for it.
    hopeful: (Duration, usize),
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            present: 0,
            used: Duration::ZERO,
            took: FIRST_GUESS,
            moved: Duration::ZERO,
            promised: VecDeque::new(),
            breaker: Breaker::default(),
            hopeful: (Duration::ZERO, 0),
        }
    }
}

impl Pace {
    /// Whether it is left alone.
    pub const fn is_alone(&self) -> bool {
        self.breaker.is_open()
    }

    /// Whether nothing would be lost by forgetting it.
    pub fn is_plain(&self) -> bool {
        self.present == 0 && self.promised.is_empty() && self.breaker == Breaker::default()
    }

    /// Lets a call in, and says whether it is one that only tries whether the endpoint is back.
    pub fn admit(&mut self, now: Duration, calls: usize, number: u64) -> Result<bool, Refusal> {
        self.used = now;
        match self.breaker.openness(now) {
            Openness::Nobody(pause) => return Err(self.left_alone(now, pause, calls, number)),
            Openness::OneProbe => {
                self.enter(now);
                return Ok(self.breaker.admits(now));
            }
            Openness::Everybody => {}
        }
        let free = room_for(calls).saturating_sub(self.present);
        self.promised
            .retain(|(at, other)| *at + MISSED_TURN > now || *other == number);
        match self.promised.iter().position(|(_, other)| *other == number) {
            Some(turn) if turn < free => {
                self.promised.remove(turn);
            }
            Some(turn) => return Err(Refusal::Full(self.postpone(turn, now, calls))),
            None if self.about_to_come(now, calls) < free => {}
            None => return Err(Refusal::Full(self.book(now, calls, number))),
        }
        self.enter(now);
        Ok(false)
    }

    fn enter(&mut self, now: Duration) {
        if self.present == 0 {
            self.moved = now;
        }
        self.present += 1;
    }

    /// How many who were promised a turn come for it before another call ends.
    fn about_to_come(&self, now: Duration, calls: usize) -> usize {
        let soon = now + self.each(now, calls);
        self.promised.iter().take_while(|(at, _)| *at <= soon).count()
    }

    /// How often the endpoint takes a call: where none has ended for longer than they take, they take longer now.
    fn each(&self, now: Duration, calls: usize) -> Duration {
        let takes = self.took.max(now.saturating_sub(self.moved));
        takes / u32::try_from(calls).unwrap_or(u32::MAX).max(1)
    }

    /// A turn of its own for a call that finds no room; where that would be too far ahead to be known, a time to ask again.
    pub fn book(&mut self, now: Duration, calls: usize, number: u64) -> Duration {
        let present = u32::try_from(self.present).unwrap_or(u32::MAX);
        let each = self.each(now, calls);
        let drained = now + each.saturating_mul(present);
        let last = self.promised.back().map_or(Duration::ZERO, |(at, _)| *at);
        let after = last.max(drained).saturating_add(each).saturating_sub(now);
        if after > PUT_OFF.1 || self.promised.len() >= PROMISES {
            return UNPROMISED.0 + spread(number, UNPROMISED.1);
        }
        let after = after.max(PUT_OFF.0);
        self.promised.push_back((now + after, number));
        after
    }

    /// A later time for a call that came for its turn and finds no room: it keeps its place before those who come new, and
    /// is not sent to the end.
    fn postpone(&mut self, turn: usize, now: Duration, calls: usize) -> Duration {
        let before = u32::try_from(turn).unwrap_or(u32::MAX);
        let after = self.each(now, calls).saturating_mul(before.saturating_add(1));
        let after = after.clamp(PUT_OFF.0, PUT_OFF.1);
        self.promised[turn].0 = now + after;
        after
    }

    /// When to try again at an endpoint that is left alone: some come for its next probe, one of which is it, so that it
    /// is asked as often as it may be; the others come later, spread by their numbers.
    fn left_alone(&mut self, now: Duration, pause: Duration, calls: usize, number: u64) -> Refusal {
        let probe = now + pause;
        if self.hopeful.0 != probe {
            self.hopeful = (probe, 0);
        }
        if self.hopeful.1 < calls {
            self.hopeful.1 += 1;
            return Refusal::Alone(pause.max(PUT_OFF.0));
        }
        Refusal::Alone(ALONE.0 + spread(number, ALONE.1))
    }

    /// What a call is told that waited while the endpoint stopped answering.
    pub fn turn_away(&mut self, now: Duration, calls: usize, number: u64) -> Refusal {
        let pause = match self.breaker.openness(now) {
            Openness::Nobody(pause) => pause,
            Openness::OneProbe | Openness::Everybody => PAUSE,
        };
        self.left_alone(now, pause, calls, number)
    }

    /// A call ended.
    pub fn ended(&mut self, began: Duration, now: Duration, is_down: bool) {
        self.took = (self.took * 7 + now.saturating_sub(began)) / 8;
        self.moved = now;
        if is_down {
            self.breaker.failed(now);
        } else {
            self.breaker.succeeded();
        }
    }
}

/// A part of `most` that is the same for the same call, and spread over all of them.
fn spread(number: u64, most: Duration) -> Duration {
    let most = u64::try_from(most.as_millis()).unwrap_or(u64::MAX);
    Duration::from_millis(number % most)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Failures in a row after which an endpoint is left alone.
    const FAILURES: usize = 5;

    fn full(after: Result<bool, Refusal>) -> Duration {
        match after {
            Err(Refusal::Full(after)) => after,
            other => panic!("there is room: {other:?}"),
        }
    }

    /// One whose calls take 0.8 s.
    fn slow() -> Pace {
        let mut pace = Pace::default();
        for _ in 0..100 {
            pace.ended(SECOND, SECOND * 9 / 5, false);
        }
        pace
    }

    #[test]
    fn calls_without_room_are_put_off_as_fast_as_the_endpoint_takes_them() {
        let mut pace = slow();
        let admitted = (0..16).filter(|number| pace.admit(SECOND, 8, *number).is_ok());
        assert_eq!(admitted.count(), 16);
        // Eight at once, 0.8 s each: one in 0.1 s, the sixteen before them first.
        for number in 1..=100_u32 {
            let after = full(pace.admit(SECOND, 8, u64::from(number) + 100));
            let expected = f64::from(16 + number) * 0.1;
            assert!(
                (after.as_secs_f64() - expected).abs() < 0.5,
                "{number}: {after:?}"
            );
        }
        for number in 0..10_000 {
            let after = full(pace.admit(SECOND, 8, 1_000 + number));
            assert!(after <= PUT_OFF.1, "{number}: {after:?}");
        }
        assert!(pace.promised.len() <= 200, "as many as have a turn so soon");
    }

    /// What a backlog does to an endpoint of which eight calls at once take 0.8 s each: how long it takes, and how often
    /// each call comes.
    fn drain(backlog: usize) -> (Duration, Vec<usize>) {
        const CALLS: usize = 8;
        let step = Duration::from_millis(10);
        let takes = Duration::from_millis(800);
        let mut pace = Pace::default();
        let mut now = SECOND;
        let mut comes: Vec<Option<Duration>> = vec![Some(now); backlog];
        let mut rounds = vec![0; backlog];
        let (mut queue, mut under_way) = (0, Vec::new());
        while queue > 0 || !under_way.is_empty() || comes.iter().any(Option::is_some) {
            under_way.retain(|began: &Duration| {
                let goes_on = *began + takes > now;
                if !goes_on {
                    pace.present -= 1;
                    pace.ended(*began, now, false);
                }
                goes_on
            });
            for (number, at) in comes.iter_mut().enumerate() {
                if at.is_some_and(|at| at <= now) {
                    rounds[number] += 1;
                    *at = match pace.admit(now, CALLS, number as u64 * 7_919) {
                        Ok(_) => {
                            queue += 1;
                            None
                        }
                        Err(refusal) => Some(now + full(Err(refusal))),
                    };
                }
            }
            while queue > 0 && under_way.len() < CALLS {
                queue -= 1;
                under_way.push(now);
            }
            now += step;
        }
        (now.saturating_sub(SECOND), rounds)
    }

    #[test]
    fn a_backlog_of_minutes_leaves_as_fast_as_it_may_and_nobody_asks_all_the_time() {
        for backlog in [100, 2_000_u32] {
            let (took, rounds) = drain(backlog as usize);
            let least = Duration::from_millis(100) * backlog;
            assert!(
                took < least * 6 / 5 + 2 * SECOND,
                "{backlog}: {took:?}, at least {least:?}"
            );
            let most = *rounds.iter().max().unwrap();
            let mean = rounds.iter().sum::<usize>() / rounds.len();
            assert!(most <= 30 && mean <= 12, "{backlog}: {most}, {mean}");
        }
    }

    #[test]
    fn who_was_promised_a_turn_has_it_before_those_who_come_new() {
        let mut pace = slow();
        for number in 0..2 {
            pace.admit(SECOND, 1, number).unwrap();
        }
        let turn = SECOND + full(pace.admit(SECOND, 1, 7));
        // When it comes, others have taken the room of a call that ended.
        pace.moved = turn;
        let again = full(pace.admit(turn, 1, 7));
        assert!(again < SECOND, "it is not sent to the end: {again:?}");
        pace.present -= 1;
        let later = full(pace.admit(turn, 1, 8));
        assert!(later > SECOND, "{later:?}");
        assert_eq!(pace.admit(turn, 1, 7), Ok(false));
        pace.present -= 1;
        assert_eq!(pace.admit(turn, 1, 9), Ok(false), "nobody's turn is due");
        pace.present -= 1;
        let turn = turn + later;
        full(pace.admit(turn, 1, 10));
        assert_eq!(
            pace.admit(turn + 2 * MISSED_TURN, 1, 11),
            Ok(false),
            "they did not come"
        );
    }

    #[test]
    fn of_what_is_turned_away_some_come_for_the_next_probe() {
        let mut pace = Pace::default();
        for _ in 0..FAILURES {
            pace.ended(SECOND, SECOND, true);
        }
        let mut told = |now, number| match pace.admit(now, 8, number) {
            Err(Refusal::Alone(after)) => after,
            other => panic!("it is left alone: {other:?}"),
        };
        for number in 0..8 {
            assert_eq!(told(2 * SECOND, number), PAUSE.saturating_sub(SECOND));
        }
        for number in 8..100 {
            let after = told(2 * SECOND, number * 7_919);
            assert!((ALONE.0..ALONE.0 + ALONE.1).contains(&after), "{after:?}");
        }
        let probe = SECOND + PAUSE;
        assert_eq!(pace.admit(probe, 8, 0), Ok(true), "it is the probe");
        assert_eq!(
            pace.admit(probe, 8, 1),
            Err(Refusal::Alone(PAUSE)),
            "it comes for the one after it"
        );
    }
}
