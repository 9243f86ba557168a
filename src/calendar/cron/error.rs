//! What is wrong with a cron expression, and what to write instead.

use crate::calendar::cron::text::LONGEST;

/// Why a cron expression is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CronError {
    /// It is longer than any that makes sense.
    #[error("the cron expression is {0} bytes long: at most {LONGEST} are read")]
    TooLong(usize),
    /// There are not five fields.
    #[error(
        "a cron expression has five fields, and `{text}` has {count}: write minute, hour, day of the month, month, day \
         of the week, as `0 9 * * mon-fri` for 9:00 from Monday to Friday"
    )]
    Count {
        /// The expression.
        text: String,
        /// How many fields it has.
        count: usize,
    },
    /// A field cannot be read.
    #[error("`{value}` is no {field} of a cron expression: {cure}")]
    Field {
        /// The field's name.
        field: &'static str,
        /// The part of it that is wrong.
        value: String,
        /// What to write instead.
        cure: String,
    },
    /// A field for seconds says more than 0.
    #[error(
        "`{0}` asks for seconds, and cron goes by minutes: write 0 in the first of six fields, or leave it out; \
         `@every 90s` counts seconds"
    )]
    Seconds(String),
    /// A word with an `@` that there is not.
    #[error(
        "`{0}` is no known name for a cron expression: write @hourly, @daily, @weekly, @monthly, @yearly, `@every 5m`, \
         or five fields"
    )]
    Name(String),
    /// `@reboot`
    #[error("`@reboot` is no time: name the times with five fields, or the interval as `@every 5m`")]
    Reboot,
    /// The interval of `@every` cannot be read or is out of bounds.
    #[error(
        "`{0}` has no interval that is understood: write whole seconds from 1s to 3650 days, as `@every 5m` or `@every 1h30m`"
    )]
    Every(String),
    /// No day matches.
    #[error(
        "`{text}` never fires: no month `{months}` has a day `{days}`; choose a day that there is, or `L` for the last one"
    )]
    Never {
        /// The expression.
        text: String,
        /// Its month field.
        months: String,
        /// Its fields of days.
        days: String,
    },
}
