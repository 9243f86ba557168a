//! Bulkheads: an endpoint takes no more than its share of the calls under way, and one that does not answer is left alone
//! for a while. Each owner has endpoints of their own, wherever they lead: what one has called, be it the same host or the
//! same URL, never keeps another's waiting.
//!
//! A call that finds no room is not kept waiting where it would take the room of others: it is told when there will be
//! some, and has its turn then. Turns are given one after the other, as fast as the endpoint has been taking calls.

pub(in crate::channel) mod pace;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::Semaphore;

use crate::clock::Clock;

use self::pace::Pace;
use self::pace::room_for;

/// Calls of one owner, under way and waiting, over all their endpoints; more where one endpoint may take more.
const OWN: usize = 64;

/// Endpoints that are remembered. What is called beyond has a bulkhead for that one call.
const MOST: usize = 10_000;

/// An endpoint that was failing and that nobody called for so long is forgotten, if need be.
const FORGOTTEN: Duration = Duration::from_mins(1);

/// For how long a call is put off that would be cut short.
const TOO_LATE: Duration = Duration::from_secs(1);

/// Why a call is not made now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// As many calls as may be are under way or waiting: there is room then.
    Full(Duration),
    /// It has not been answering: try again then.
    Alone(Duration),
    /// There is not the time left that a call may take: try again then.
    TooLate(Duration),
}

impl Refusal {
    /// When to try again.
    pub const fn after(self) -> Duration {
        match self {
            Self::Full(after) | Self::Alone(after) | Self::TooLate(after) => after,
        }
    }
}

/// Where a call goes, and whose it is.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// A number that stands for its owner.
    pub owner: u64,
    /// Host and port.
    pub name: &'a str,
}

/// All endpoints.
#[derive(Debug)]
pub struct Endpoints {
    calls: usize,
    clock: Arc<dyn Clock>,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    endpoints: HashMap<(u64, String), Arc<Endpoint>>,
}

#[derive(Debug)]
struct Endpoint {
    permits: Arc<Semaphore>,
    pace: Mutex<Pace>,
}

impl Endpoint {
    fn pace(&self) -> MutexGuard<'_, Pace> {
        self.pace.lock().expect("no holder panics")
    }
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
        self.endpoint.pace().present -= 1;
    }
}

impl Visit {
    /// Tells what came of it: whether the endpoint seems to be down.
    pub fn end(self, is_down: bool) {
        let now = self.clock.elapsed();
        self.endpoint.pace().ended(self.began, now, is_down);
    }
}

impl Endpoints {
    /// Endpoints each of which takes `calls` of one owner at once.
    pub fn new(calls: usize, clock: Arc<dyn Clock>) -> Self {
        Self {
            calls,
            clock,
            known: Mutex::default(),
        }
    }

    /// How many calls of one owner may be under way and waiting, wherever they go.
    pub fn permits_of_one(&self) -> usize {
        OWN.max(room_for(self.calls))
    }

    /// Waits for room at `place`, for as long as that is a matter of a call or two, and a call that begins by `latest` has
    /// its whole time. `number` tells calls apart, and is the same when one comes again.
    pub async fn enter(&self, place: Place<'_>, number: u64, latest: Duration) -> Result<Visit, Refusal> {
        let now = self.clock.elapsed();
        if now > latest {
            return Err(Refusal::TooLate(TOO_LATE));
        }
        let (mut visit, is_probe) = self.admit(place, number, now)?;
        if is_probe {
            return Ok(visit);
        }
        let endpoint = Arc::clone(&visit.endpoint);
        let waiting = Arc::clone(&endpoint.permits).acquire_owned();
        let Ok(permit) = tokio::time::timeout(latest.saturating_sub(now), waiting).await else {
            let now = self.clock.elapsed();
            return Err(Refusal::Full(endpoint.pace().book(now, self.calls, number)));
        };
        visit.permit = Some(permit.expect("the semaphore is never closed"));
        visit.began = self.clock.elapsed();
        let mut state = endpoint.pace();
        if state.is_alone() {
            // It stopped answering while this one waited.
            return Err(state.turn_away(visit.began, self.calls, number));
        }
        drop(state);
        Ok(visit)
    }

    /// Lets a call in, and says whether it only tries whether the endpoint is back.
    fn admit(&self, place: Place<'_>, number: u64, now: Duration) -> Result<(Visit, bool), Refusal> {
        let mut known = self.known.lock().expect("no holder panics");
        let endpoint = known.endpoint(place, self.calls, now);
        let is_probe = endpoint.pace().admit(now, self.calls, number)?;
        let visit = Visit {
            endpoint,
            clock: Arc::clone(&self.clock),
            began: now,
            permit: None,
        };
        Ok((visit, is_probe))
    }

    /// Endpoints that are left alone.
    #[cfg(test)]
    pub fn alone(&self) -> usize {
        let known = self.known.lock().expect("no holder panics");
        known.endpoints.values().filter(|it| it.pace().is_alone()).count()
    }
}

impl Known {
    fn endpoint(&mut self, place: Place<'_>, calls: usize, now: Duration) -> Arc<Endpoint> {
        let key = (place.owner, place.name.to_owned());
        if let Some(endpoint) = self.endpoints.get(&key) {
            return Arc::clone(endpoint);
        }
        if self.endpoints.len() >= MOST {
            self.endpoints.retain(|_, endpoint| {
                let it = endpoint.pace();
                it.present > 0 || !it.is_plain() && now.saturating_sub(it.used) < FORGOTTEN
            });
        }
        let endpoint = Arc::new(Endpoint {
            permits: Arc::new(Semaphore::new(calls)),
            pace: Mutex::default(),
        });
        if self.endpoints.len() < MOST {
            self.endpoints.insert(key, Arc::clone(&endpoint));
        }
        endpoint
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::channel::breaker::PAUSE;
    use crate::clock::ManualClock;

    /// Failures in a row after which an endpoint is left alone.
    const FAILURES: usize = 5;

    const SECOND: Duration = Duration::from_secs(1);

    const A: Place<'_> = Place { owner: 1, name: "a" };

    fn endpoints(calls: usize) -> (Endpoints, Arc<ManualClock>) {
        let clock = Arc::new(ManualClock::at("2026-12-01T08:15:00Z".parse().unwrap()));
        (Endpoints::new(calls, clock.clone()), clock)
    }

    fn soon(clock: &ManualClock) -> Duration {
        clock.elapsed() + 10 * SECOND
    }

    #[tokio::test]
    async fn an_endpoint_that_does_not_answer_is_tried_every_five_seconds() {
        let (endpoints, clock) = endpoints(8);
        for _ in 0..FAILURES {
            let visit = endpoints.enter(A, 0, soon(&clock)).await.unwrap();
            visit.end(true);
        }
        let mut tries = 0;
        for _ in 0..60 {
            if let Ok(visit) = endpoints.enter(A, 0, soon(&clock)).await {
                tries += 1;
                visit.end(true);
            }
            clock.advance(SECOND);
        }
        assert_eq!((tries, endpoints.alone()), (11, 1));
        let others = [Place { name: "b", ..A }, Place { owner: 2, ..A }];
        for place in others {
            let visit = endpoints.enter(place, 0, soon(&clock)).await;
            visit.expect("another's").end(false);
        }

        clock.advance(PAUSE);
        endpoints.enter(A, 0, soon(&clock)).await.unwrap().end(false);
        assert_eq!(endpoints.alone(), 0);
        assert!(endpoints.enter(A, 0, soon(&clock)).await.is_ok());
    }

    #[tokio::test]
    async fn what_waited_for_an_endpoint_that_stopped_answering_is_not_sent_to_it() {
        let (endpoints, clock) = endpoints(1);
        let first = endpoints.enter(A, 0, soon(&clock)).await.unwrap();
        let waits = endpoints.enter(A, 1, soon(&clock));
        tokio::pin!(waits);
        assert!(futures_util::poll!(&mut waits).is_pending());
        for _ in 1..FAILURES {
            first.endpoint.pace().ended(SECOND, SECOND, true);
        }
        first.end(true);
        assert!(matches!(waits.await, Err(Refusal::Alone(_))));
        let known = endpoints.known.lock().unwrap();
        assert_eq!(known.endpoints[&(1, "a".to_owned())].pace().present, 0);
    }

    #[tokio::test]
    async fn a_call_is_not_begun_where_it_would_be_cut_short() {
        let (endpoints, clock) = endpoints(1);
        let late = clock.elapsed();
        clock.advance(SECOND);
        assert!(matches!(
            endpoints.enter(A, 0, late).await,
            Err(Refusal::TooLate(_))
        ));
        let _first = endpoints.enter(A, 1, soon(&clock)).await.unwrap();
        let waited = endpoints.enter(A, 2, clock.elapsed()).await;
        assert!(matches!(waited, Err(Refusal::Full(_))), "no room came in time");
    }

    #[tokio::test]
    async fn endpoints_beyond_the_most_are_called_all_the_same_and_idle_ones_are_forgotten() {
        let (endpoints, clock) = endpoints(1);
        let place = |owner| Place { owner, ..A };
        for owner in 0..MOST as u64 {
            endpoints
                .enter(place(owner), 0, soon(&clock))
                .await
                .unwrap()
                .end(true);
        }
        for _ in 0..2 {
            endpoints
                .enter(place(99_999), 0, soon(&clock))
                .await
                .unwrap()
                .end(true);
        }
        assert_eq!(endpoints.known.lock().unwrap().endpoints.len(), MOST);
        endpoints
            .enter(place(0), 0, soon(&clock))
            .await
            .unwrap()
            .end(false);
        endpoints
            .enter(place(99_999), 0, soon(&clock))
            .await
            .unwrap()
            .end(true);
        assert_eq!(
            endpoints.known.lock().unwrap().endpoints.len(),
            MOST,
            "one was doing well"
        );
        clock.advance(FORGOTTEN);
        drop(endpoints.enter(place(88_888), 0, soon(&clock)).await.unwrap());
        assert_eq!(endpoints.known.lock().unwrap().endpoints.len(), 1);
    }
}
