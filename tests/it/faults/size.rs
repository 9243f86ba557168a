//! How much: little by default, or as the table says with `CARILLON_FAULTS=long`; `CARILLON_FAULTS_RATE` and
//! `CARILLON_FAULTS_SECONDS` set either by hand.

use std::time::Duration;

/// How much a test sends, and for how long.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    /// Triggers a second.
    pub rate: usize,
    /// Seconds with triggers.
    pub seconds: usize,
}

impl Size {
    /// So many seconds, in the short form at 40 a second, which a busy machine of two cores bears, in the long form at what
    /// the table says.
    pub fn of(short: usize, long: usize) -> Self {
        let (rate, seconds) = choose((40, short), (167, long));
        Self {
            rate: given("CARILLON_FAULTS_RATE").unwrap_or(rate),
            seconds: given("CARILLON_FAULTS_SECONDS").unwrap_or(seconds),
        }
    }
}

/// One of two, by the form that is run.
pub fn choose<T>(short: T, long: T) -> T {
    match std::env::var("CARILLON_FAULTS").as_deref() {
        Err(_) | Ok("short") => short,
        Ok("long") => long,
        Ok(other) => panic!("CARILLON_FAULTS is `{other}`: say `short` or `long`"),
    }
}

/// One of two numbers of seconds.
pub fn seconds(short: u64, long: u64) -> Duration {
    Duration::from_secs(choose(short, long))
}

fn given(name: &str) -> Option<usize> {
    let value = std::env::var(name).ok()?;
    let number = value.parse();
    Some(number.unwrap_or_else(|_| panic!("{name} is `{value}`: say a number")))
}
