//! Time as a parameter.
//!
//! Whatever decides takes `now`; only loops ask a [`Clock`]. Two readings exist because two questions do: *what time is
//! it for people* (the wall clock, which may be stepped) and *how long has it been* (the boot-time clock, which goes
//! on while the machine sleeps and is never stepped).

mod database;
mod steady;

use std::sync::Mutex;
use std::time::Duration;

use chrono::DateTime;
use chrono::SubsecRound;
use chrono::TimeDelta;
use chrono::Utc;

pub use database::DatabaseClock;
pub use database::Offset;
pub use steady::Config;
pub use steady::SteadyClock;

/// A wall clock and a boot-time clock.
#[async_trait::async_trait]
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// The wall clock, cut to milliseconds.
    fn now(&self) -> DateTime<Utc>;

    /// Time since an arbitrary start; never goes back, goes on during suspend.
    fn elapsed(&self) -> Duration;

    /// Waits for `duration` of elapsed time.
    async fn sleep(&self, duration: Duration);

    /// How far the wall clock jumped, while [`Clock::now`] does not follow it.
    fn held_step(&self) -> Option<TimeDelta> {
        None
    }
}

/// The machine's clocks.
#[derive(Debug, Default, Clone, Copy)]
pub struct SystemClock;

#[async_trait::async_trait]
impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    fn now(&self) -> DateTime<Utc> {
        Utc::now().trunc_subsecs(3)
    }

    fn elapsed(&self) -> Duration {
        let reading = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        Duration::new(
            u64::try_from(reading.tv_sec).unwrap_or_default(),
            u32::try_from(reading.tv_nsec).unwrap_or_default(),
        )
    }

    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

/// A clock that stands still until a test moves it. Sleeps end when it has been moved far enough.
#[derive(Debug)]
pub struct ManualClock {
    reading: Mutex<Reading>,
    moved: tokio::sync::Notify,
}

#[derive(Debug, Clone, Copy)]
struct Reading {
    now: DateTime<Utc>,
    elapsed: Duration,
}

impl ManualClock {
    /// A clock that shows `now`.
    pub fn at(now: DateTime<Utc>) -> Self {
        let reading = Reading {
            now: now.trunc_subsecs(3),
            elapsed: Duration::from_secs(1),
        };
        Self {
            reading: Mutex::new(reading),
            moved: tokio::sync::Notify::new(),
        }
    }

    /// Lets `duration` pass on both clocks.
    pub fn advance(&self, duration: Duration) {
        {
            let mut reading = self.reading.lock().expect("no holder panics");
            reading.now += duration;
            reading.elapsed += duration;
        }
        self.moved.notify_waiters();
    }

    /// Steps the wall clock alone, as an operator or NTP would.
    pub fn step_to(&self, now: DateTime<Utc>) {
        self.reading.lock().expect("no holder panics").now = now.trunc_subsecs(3);
        self.moved.notify_waiters();
    }

    fn reading(&self) -> Reading {
        *self.reading.lock().expect("no holder panics")
    }
}

#[async_trait::async_trait]
impl Clock for ManualClock {
    fn now(&self) -> DateTime<Utc> {
        self.reading().now
    }

    fn elapsed(&self) -> Duration {
        self.reading().elapsed
    }

    async fn sleep(&self, duration: Duration) {
        let until = self.elapsed() + duration;
        loop {
            let moved = self.moved.notified();
            tokio::pin!(moved);
            moved.as_mut().enable();
            if self.elapsed() >= until {
                return;
            }
            moved.await;
        }
    }
}
