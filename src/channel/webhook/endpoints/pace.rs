//! How one endpoint of one owner has been doing, and whom it takes next. Pure: all times are of the boot-time clock.

use std::collections::VecDeque;
use std::time::Duration;

use crate::channel::breaker::Breaker;
use crate::channel::breaker::Openness;
use crate::channel::breaker::PAUSE;
use crate::channel::webhook::endpoints::Refusal;

/// Calls that wait for each call that may be under way.
pub const WAITING: usize = 1;

/// When what would have gone to an endpoint that is left alone is tried again, and how far these times are spread.
const ALONE: (Duration, Duration) = (Duration::from_secs(40), Duration::from_secs(20));

/// The shortest and the longest time for which a call is put off.
const PUT_OFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_mins(1));

/// What a call is taken to need before one has been measured.
const FIRST_GUESS: Duration = Duration::from_millis(50);

/// Calls that were promised a turn at the most; those beyond are told a time, and come as if for the first time.
const PROMISES: usize = 1_000;

/// A call that does not come for its turn has lost it after so long: it was withdrawn, or another node has it.
const MISSED_TURN: Duration = Duration::from_secs(5);

/// How an endpoint has been doing.
#[derive(Debug)]
pub struct Pace {
    /// Calls under way and waiting.
    pub present: usize,
    /// When it was last asked for.
    pub used: Duration,
    /// How long calls have been taking.
    took: Duration,
    /// Until when times have been given away.
    booked: Duration,
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
            booked: Duration::ZERO,
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
                self.present += 1;
                return Ok(self.breaker.admits(now));
            }
            Openness::Everybody => {}
        }
        let turn = self.promised.iter().position(|(_, other)| *other == number);
        if self.present >= calls * (1 + WAITING) {
            // Who was promised a turn keeps its place before those who come new.
            return Err(Refusal::Full(match turn {
                Some(_) => self.each(calls).clamp(PUT_OFF.0, PUT_OFF.1),
                None => self.book(now, calls, number),
            }));
        }
        if let Some(turn) = turn {
            self.promised.remove(turn);
        } else if self.is_anybodys_turn(now) {
            return Err(Refusal::Full(self.book(now, calls, number)));
        }
        self.present += 1;
        Ok(false)
    }

    /// Whether somebody who was promised a turn is about to come for it.
    fn is_anybodys_turn(&mut self, now: Duration) -> bool {
        while self
            .promised
            .front()
            .is_some_and(|(at, _)| *at + MISSED_TURN <= now)
        {
            self.promised.pop_front();
        }
        self.promised.front().is_some_and(|(at, _)| *at <= now)
    }

    /// How often the endpoint takes a call.
    fn each(&self, calls: usize) -> Duration {
        self.took / u32::try_from(calls).unwrap_or(u32::MAX).max(1)
    }

    /// A turn of its own for a call that finds no room.
    pub fn book(&mut self, now: Duration, calls: usize, number: u64) -> Duration {
        let present = u32::try_from(self.present).unwrap_or(u32::MAX);
        let each = self.each(calls);
        let drained = now + each.saturating_mul(present);
        self.booked = self.booked.max(drained).saturating_add(each);
        let after = self.booked.saturating_sub(now).clamp(PUT_OFF.0, PUT_OFF.1);
        if self.promised.len() < PROMISES {
            self.promised.push_back((now + after, number));
        }
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
        let most = u64::try_from(ALONE.1.as_millis()).unwrap_or(u64::MAX);
        Refusal::Alone(ALONE.0 + Duration::from_millis(number % most))
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
        if is_down {
            self.breaker.failed(now);
        } else {
            self.breaker.succeeded();
        }
    }
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
            full(pace.admit(SECOND, 8, 1_000 + number));
        }
        assert_eq!(full(pace.admit(SECOND, 8, 999_999)), PUT_OFF.1, "bounded");
        assert_eq!(pace.promised.len(), PROMISES);
    }

    #[test]
    fn who_was_promised_a_turn_has_it_before_those_who_come_new() {
        let mut pace = slow();
        for number in 0..2 {
            pace.admit(SECOND, 1, number).unwrap();
        }
        let turn = SECOND + full(pace.admit(SECOND, 1, 7));
        // When it comes, others have taken the room.
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
