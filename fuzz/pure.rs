//! `calendar` and `trigger` of Carillon, which are pure and depend on nothing else of it.

#[path = "../src/calendar/mod.rs"]
pub mod calendar;
#[path = "../src/trigger/mod.rs"]
pub mod trigger;
