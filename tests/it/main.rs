//! The integration tests: one binary, so that it is linked once.

mod bad_input;
mod crash;
mod harness;
mod journey;
mod layering;
mod operating;
mod readme;
