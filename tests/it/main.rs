//! The integration tests: one binary, so that it is linked once.

mod article;
mod bad_input;
mod by_hand;
mod crash;
mod harness;
mod http;
mod journey;
mod layering;
mod mail;
mod model;
mod operating;
mod readme;
