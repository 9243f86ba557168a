//! What several modules and real servers do together: one binary, so that it is linked once, one module per way through
//! the house.

mod bad_input;
mod crash;
mod harness;
mod journey;
mod layering;
mod mail;
mod operating;
mod readme;
