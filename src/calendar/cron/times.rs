//! The times of day of a cron expression: hours and minutes.

use chrono::NaiveTime;
use chrono::Timelike;

use crate::calendar::cron::field::Values;

/// The hours and minutes at which an expression fires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Times {
    pub(super) minutes: Values,
    pub(super) hours: Values,
}

impl Times {
    /// Whether the expression means an interval: one of the fields begins with a star.
    pub(super) fn is_interval(&self) -> bool {
        self.minutes.is_star || self.hours.is_star
    }

    /// The first time of a day.
    pub(super) fn first(&self) -> Option<NaiveTime> {
        self.first_from(NaiveTime::MIN)
    }

    /// The first time at or after one, on the same day.
    pub(super) fn first_from(&self, from: NaiveTime) -> Option<NaiveTime> {
        let hour = self.hours.first_from(from.hour())?;
        let this_hour = if hour == from.hour() {
            self.minutes.first_from(from.minute())
        } else {
            self.minutes.first_from(0)
        };
        if let Some(minute) = this_hour {
            return NaiveTime::from_hms_opt(hour, minute, 0);
        }
        let hour = self.hours.first_from(hour + 1)?;
        NaiveTime::from_hms_opt(hour, self.minutes.first_from(0)?, 0)
    }
}
