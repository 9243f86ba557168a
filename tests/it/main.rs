//! The integration tests: one binary, so that it is linked once.

mod crash;
mod harness;
mod journey;
mod layering;
mod readme;
