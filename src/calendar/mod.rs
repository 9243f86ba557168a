//! What people ask for: events with alarms, as iCalendar (RFC 5545, RFC 9074) means them. Pure: nothing here knows the
//! time, a store or a network.
//!
//! Text comes in through [`ical`], becomes an [`event::Event`] with its [`alarm::Alarm`]s; [`recurrence`] enumerates
//! local times, and [`zone`] alone turns local time into instants. For alarms that belong to no event, [`phrase`] reads
//! what people write for a time, and [`cron`] what they write for times that come again.

pub mod address;
pub mod alarm;
pub mod cron;
pub mod event;
pub mod ical;
pub mod moment;
pub mod phrase;
pub mod recurrence;
pub mod zone;
