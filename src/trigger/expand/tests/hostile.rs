//! Input that means harm.
