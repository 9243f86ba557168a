//! Carillon delivers the message alarms of calendars: on time, once, through crashes.
//!
//! `ARCHITECTURE.md` draws the way of a reminder through these modules.

pub mod calendar;
pub mod change;
pub mod channel;
pub mod clock;
pub mod delivery;
pub mod preview;
pub mod store;
pub mod trigger;
pub mod worker;
