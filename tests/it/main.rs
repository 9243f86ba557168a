//! What is tested from outside, in one binary.

mod store;
