//! Bulkheads: one endpoint takes no more than its share of the calls under way, and one that does not answer is left
//! alone for a while, so that it delays nobody else's.
//!
//! A call that finds no room is not kept waiting where it would take the room of others: it is told when there will be
//! some. Calls are given times one after the other, as fast as the endpoint has been taking them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::Semaphore;

use crate::channel::Deadline;
use crate::channel::breaker::Breaker;
use crate::channel::breaker::Openness;
use crate::clock::Clock;

/// Calls that wait for each call that may be under way.
const WAITING: usize = 7;

/// Endpoints that are told apart. Those beyond share one bulkhead.
const MOST: usize = 10_000;

/// An endpoint that nobody called for so long is forgotten, if need be.
const FORGOTTEN: Duration = Duration::from_mins(1);

/// When what would have gone to an endpoint that is left alone is tried again, and how far these times are spread.
const ALONE: (Duration, Duration) = (Duration::from_secs(40), Duration::from_secs(20));

/// The shortest and the longest time for which a call is put off.
const PUT_OFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_mins(1));

/// What a call is taken to need before one has been measured.
const FIRST_GUESS: Duration = Duration::from_millis(50);

/// Why a call is not made now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// As many calls as may be are under way or waiting: there is room then.
    Full(Duration),
    /// It has not been answering: try again then.
    Alone(Duration),
    /// The deadline passed while it waited.
    TooLate,
}

/// All endpoints.
#[derive(Debug)]
pub struct Endpoints {
    calls: usize,
    clock: Arc<dyn Clock>,
    known: Mutex<HashMap<String, Arc<Endpoint>>>,
}

#[derive(Debug)]
struct Endpoint {
    permits: Arc<Semaphore>,
    pace: Mutex<Pace>,
}

/// A call that may be made. It gives back its room when it is dropped.
#[derive(Debug)]
pub struct Visit {
    endpoint: Arc<Endpoint>,
    clock: Arc<dyn Clock>,
    began: Duration,
    permit: Option<OwnedSemaphorePermit>,
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.endpoint.pace.lock().expect("no holder panics").present -= 1;
        drop(self.permit.take());
    }
}

impl Visit {
    /// Tells what came of it: whether the endpoint seems to be down.
    pub fn end(self, is_down: bool) {
        let now = self.clock.elapsed();
        let mut pace = self.endpoint.pace.lock().expect("no holder panics");
        pace.ended(self.began, now, is_down);
    }
}

impl Endpoints {
    /// Endpoints each of which takes `calls` at once.
    pub fn new(calls: usize, clock: Arc<dyn Clock>) -> Self {
        Self {
            calls,
            clock,
            known: Mutex::default(),
        }
    }

    /// Waits for room at `name`, for as long as that is a matter of a few calls. `spread` tells calls apart whose next tries
    /// must not come all at once.
    pub async fn enter(&self, name: &str, spread: u64, deadline: Deadline) -> Result<Visit, Refusal> {
        let now = self.clock.elapsed();
        let endpoint = self.endpoint(name, now);
        let is_probe = {
            let mut pace = endpoint.pace.lock().expect("no holder panics");
            pace.admit(now, self.calls, spread)?
        };
        let mut visit = Visit {
            endpoint: Arc::clone(&endpoint),
            clock: Arc::clone(&self.clock),
            began: now,
            permit: None,
        };
        if is_probe {
            return Ok(visit);
        }
        let left = deadline.0.saturating_sub(now);
        let waiting = Arc::clone(&endpoint.permits).acquire_owned();
        let permit = tokio::time::timeout(left, waiting).await;
        visit.permit = Some(
            permit
                .map_err(|_| Refusal::TooLate)?
                .expect("the semaphore is never closed"),
        );
        visit.began = self.clock.elapsed();
        let is_alone = endpoint.pace.lock().expect("no holder panics").is_alone();
        if is_alone {
            // It stopped answering while this one waited.
            return Err(Refusal::Alone(put_off(spread)));
        }
        Ok(visit)
    }

    fn endpoint(&self, name: &str, now: Duration) -> Arc<Endpoint> {
        let mut known = self.known.lock().expect("no holder panics");
        if known.len() >= MOST && !known.contains_key(name) {
            known.retain(|_, endpoint| {
                let pace = endpoint.pace.lock().expect("no holder panics");
                pace.present > 0 || now.saturating_sub(pace.used) < FORGOTTEN
            });
        }
        let name = if known.len() < MOST || known.contains_key(name) {
            name
        } else {
            ""
        };
        let endpoint = known.entry(name.to_owned()).or_insert_with(|| {
            Arc::new(Endpoint {
                permits: Arc::new(Semaphore::new(self.calls)),
                pace: Mutex::default(),
            })
        });
        Arc::clone(endpoint)
    }

    /// Endpoints that are left alone.
    #[cfg(test)]
    pub fn alone(&self) -> usize {
        let known = self.known.lock().expect("no holder panics");
        let alone = known
            .values()
            .filter(|it| it.pace.lock().expect("no holder panics").is_alone());
        alone.count()
    }
}

/// How an endpoint has been doing. Pure: all times are of the boot-time clock.
#[derive(Debug)]
struct Pace {
    /// Calls under way and waiting.
    present: usize,
    /// How long calls have been taking.
    took: Duration,
    /// Until when times have been given away.
    booked: Duration,
    /// Whether it is left alone.
    breaker: Breaker,
    /// When it was last asked for.
    used: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            present: 0,
            took: FIRST_GUESS,
            booked: Duration::ZERO,
            breaker: Breaker::default(),
            used: Duration::ZERO,
        }
    }
}

impl Pace {
    const fn is_alone(&self) -> bool {
        self.breaker.is_open()
    }

    /// Lets a call in, and says whether it is one that only tries whether the endpoint is back.
    fn admit(&mut self, now: Duration, calls: usize, spread: u64) -> Result<bool, Refusal> {
        self.used = now;
        match self.breaker.openness(now) {
            Openness::Nobody(_) => return Err(Refusal::Alone(put_off(spread))),
            Openness::OneProbe => {
                self.present += 1;
                return Ok(self.breaker.admits(now));
            }
            Openness::Everybody => {}
        }
        if self.present >= calls * (1 + WAITING) {
            return Err(Refusal::Full(self.book(now, calls)));
        }
        self.present += 1;
        Ok(false)
    }

    /// A time of its own for a call that finds no room.
    fn book(&mut self, now: Duration, calls: usize) -> Duration {
        let calls = u32::try_from(calls).unwrap_or(u32::MAX).max(1);
        let present = u32::try_from(self.present).unwrap_or(u32::MAX);
        let each = self.took / calls;
        let drained = now + each.saturating_mul(present);
        self.booked = self.booked.max(drained).saturating_add(each);
        self.booked.saturating_sub(now).clamp(PUT_OFF.0, PUT_OFF.1)
    }

    fn ended(&mut self, began: Duration, now: Duration, is_down: bool) {
        self.took = (self.took * 7 + now.saturating_sub(began)) / 8;
        if is_down {
            self.breaker.failed(now);
        } else {
            self.breaker.succeeded();
        }
    }
}

fn put_off(spread: u64) -> Duration {
    let most = u64::try_from(ALONE.1.as_millis()).unwrap_or(u64::MAX);
    ALONE.0 + Duration::from_millis(spread % most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::breaker::PAUSE;
    use crate::clock::ManualClock;

    const SECOND: Duration = Duration::from_secs(1);

    /// After so many failures in a row an endpoint is left alone.
    const FAILURES: u32 = 5;

    fn endpoints(calls: usize) -> (Endpoints, Arc<ManualClock>) {
        let clock = Arc::new(ManualClock::at("2026-12-01T08:15:00Z".parse().unwrap()));
        (Endpoints::new(calls, clock.clone()), clock)
    }

    fn soon(clock: &ManualClock) -> Deadline {
        Deadline(clock.elapsed() + 10 * SECOND)
    }

    #[tokio::test]
    async fn an_endpoint_that_does_not_answer_is_tried_every_five_seconds() {
        let (endpoints, clock) = endpoints(8);
        for _ in 0..FAILURES {
            let visit = endpoints.enter("a", 0, soon(&clock)).await.unwrap();
            visit.end(true);
        }
        let mut tries = 0;
        for _ in 0..60 {
            if let Ok(visit) = endpoints.enter("a", 0, soon(&clock)).await {
                tries += 1;
                visit.end(true);
            }
            clock.advance(SECOND);
        }
        assert_eq!((tries, endpoints.alone()), (11, 1));
        assert!(endpoints.enter("b", 0, soon(&clock)).await.is_ok(), "another's");

        clock.advance(PAUSE);
        endpoints.enter("a", 0, soon(&clock)).await.unwrap().end(false);
        assert_eq!(endpoints.alone(), 0);
        assert!(endpoints.enter("a", 0, soon(&clock)).await.is_ok());
    }

    #[tokio::test]
    async fn what_waited_for_an_endpoint_that_stopped_answering_is_not_sent_to_it() {
        let (endpoints, clock) = endpoints(1);
        let first = endpoints.enter("a", 0, soon(&clock)).await.unwrap();
        let waits = endpoints.enter("a", 0, soon(&clock));
        tokio::pin!(waits);
        assert!(futures_util::poll!(&mut waits).is_pending());
        for _ in 1..FAILURES {
            let mut pace = first.endpoint.pace.lock().unwrap();
            pace.ended(SECOND, SECOND, true);
        }
        first.end(true);
        assert!(matches!(waits.await, Err(Refusal::Alone(_))));
        assert_eq!(
            endpoints.known.lock().unwrap()["a"].pace.lock().unwrap().present,
            0
        );
    }

    #[test]
    fn calls_without_room_are_put_off_as_fast_as_the_endpoint_takes_them() {
        let mut pace = Pace::default();
        for _ in 0..100 {
            pace.ended(SECOND, SECOND * 9 / 5, false);
        }
        let admitted = (0..64).filter(|_| pace.admit(SECOND, 8, 0).is_ok()).count();
        assert_eq!(admitted, 64);
        // Eight at once, 0.8 s each: one in 0.1 s, the sixty-four before them first.
        for number in 1..=100_u32 {
            let Err(Refusal::Full(after)) = pace.admit(SECOND, 8, 0) else {
                panic!("there is no room");
            };
            let expected = f64::from(64 + number) * 0.1;
            assert!(
                (after.as_secs_f64() - expected).abs() < 0.5,
                "{number}: {after:?}"
            );
        }
        for _ in 0..10_000 {
            pace.admit(SECOND, 8, 0).unwrap_err();
        }
        assert_eq!(pace.admit(SECOND, 8, 0), Err(Refusal::Full(PUT_OFF.1)), "bounded");
    }

    #[tokio::test]
    async fn endpoints_beyond_the_most_share_and_old_ones_are_forgotten() {
        let (endpoints, clock) = endpoints(1);
        for number in 0..MOST + 10 {
            drop(
                endpoints
                    .enter(&number.to_string(), 0, soon(&clock))
                    .await
                    .unwrap(),
            );
        }
        assert!(endpoints.known.lock().unwrap().len() <= MOST + 1);
        clock.advance(FORGOTTEN);
        drop(endpoints.enter("new", 0, soon(&clock)).await.unwrap());
        assert_eq!(endpoints.known.lock().unwrap().len(), 1);
    }
}
