//! What holds for every event.
