//! What a cluster must survive, with numbers: three real nodes on a real PostgreSQL under load, while processes, links
//! and the database fail. The oracle is the relay's log against what the API accepted ([`verdict`]), outside of the
//! service.
//!
//! What a relay or another target does wrong ([`mail`], [`stalls`], [`reports`]) needs one node alone, on SQLite, and so do many
//! reminders at one instant ([`crowd`]).
//!
//! What is damaged on a node's own disk is in [`promises`], and what callers who mean harm send in [`hostile`].
//!
//! What a provider of text messages does wrong is in `sms/journey.rs`, and how the limits of an owner look in `limits.rs`.
//!
//! Each test is named by its number in the table of `ARCHITECTURE.md`. They run in a short form; `tests/faults.sh` runs
//! the long one ([`size`]). One at a time: each takes all of the machine.

mod changes;
mod clocks;
mod crowd;
mod database;
mod disk;
mod field;
mod hostile;
mod idle;
mod leaders;
mod links;
mod load;
mod mail;
mod processes;
mod promises;
pub mod push;
mod reports;
mod rewind;
pub mod size;
mod stalls;
mod verdict;
mod witness;
