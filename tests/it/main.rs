//! The integration tests: one binary, so that it is linked once.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod access;
mod alarms;
mod answers;
mod article;
mod bad_input;
mod by_hand;
mod clock_changes;
mod cluster;
mod config;
mod crash;
mod delivery;
mod deploy;
mod differential;
mod digests;
mod embedded;
mod faults;
mod full_disk;
mod fuzz;
mod harness;
mod http;
mod itip;
mod journey;
mod layering;
mod lessons;
mod limits;
mod mail;
mod model;
mod nodes;
mod openapi;
mod operating;
mod people;
mod preview;
mod private;
mod readme;
mod skew;
mod sms;
mod store;
mod times;
mod webhook;
