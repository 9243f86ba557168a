//! What several modules and real servers do together: one binary, one module per way through the house.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod mail;
