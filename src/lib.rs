//! Carillon delivers the message alarms of calendars: on time, once, through crashes.
//!
//! `ARCHITECTURE.md` draws the way of a reminder through these modules.

pub mod arbiter;
pub mod calendar;
pub mod change;
pub mod channel;
pub mod cli;
pub mod clock;
pub mod cluster;
pub mod condition;
pub mod config;
pub mod delivery;
pub mod feed;
pub mod http;
pub mod janitor;
pub mod listen;
pub mod logging;
pub mod metrics;
pub mod node;
pub mod planner;
pub mod post;
pub mod preview;
pub mod ready;
pub mod service;
pub mod shutdown;
pub mod store;
pub mod token;
pub mod trigger;
pub mod worker;
