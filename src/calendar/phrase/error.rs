//! What was not understood, and what to write instead.

use chrono::NaiveDateTime;

use crate::calendar::phrase::LONGEST;

/// Why a phrase is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PhraseError {
    /// There is no text.
    #[error("there is no time: write one, as `tomorrow at 9am`, `in 30 minutes` or `2026-12-01T08:45:00Z`")]
    Empty,
    /// The text is longer than any phrase.
    #[error("the time is {0} bytes long: at most {LONGEST} are read, write it as `tomorrow at 9am`")]
    TooLong(usize),
    /// A word that means nothing here.
    #[error(
        "`{0}` is not understood in a time: write it as `tomorrow at 9am`, `next friday at 15:00`, `dec 25 at noon`, \
         `in 30 minutes` or `2026-12-01T08:45:00Z`"
    )]
    Unknown(String),
    /// A number that could be an hour, a day or a delay.
    #[error("`{0}` is only a number: write `at {0}:00`, `in {0} minutes` or `the {0}th`")]
    Number(String),
    /// A phrase for times that come again.
    #[error("`{0}` asks for a time that comes again: use cron, as `0 9 * * mon-fri`")]
    Repeated(String),
    /// A part is there twice.
    #[error("`{word}` gives {part} a second time: leave one of the two out")]
    Twice {
        /// `the day`, `the time of day` …
        part: &'static str,
        /// The word with which it comes again.
        word: String,
    },
    /// Parts that cannot both hold.
    #[error("`{first}` and `{second}` do not go together: leave one of the two out")]
    Contradiction {
        /// What one part says.
        first: String,
        /// What the other says.
        second: String,
    },
    /// A word that ends too early.
    #[error("something is missing behind `{0}`: write it as `tomorrow at 9am` or `3 days from today`")]
    Unfinished(String),
    /// A day or a time of day that there is not.
    #[error("there is no `{value}`: {cure}")]
    NoSuch {
        /// The day or time.
        value: String,
        /// What there is.
        cure: &'static str,
    },
    /// A clock that is put forward skips the time.
    #[error(
        "the clock in {zone} never shows {local}, it goes from {from} to {to}: take a time before or after that"
    )]
    Gap {
        /// The zone's name.
        zone: String,
        /// The time that was asked for.
        local: NaiveDateTime,
        /// The first local time that is skipped.
        from: NaiveDateTime,
        /// The first local time that is shown again.
        to: NaiveDateTime,
    },
    /// A local time, and nobody says where.
    #[error("`{0}` is a local time: say in which time zone, or end it with Z or an offset such as +01:00")]
    NoZone(NaiveDateTime),
    /// It is no instant as programs write it.
    #[error(
        "`{0}` is no instant: write it as `2026-12-01T08:45:00Z`, or `2026-12-01T08:45` with a time zone"
    )]
    NoInstant(String),
    /// A delay that is no fixed length of time.
    #[error("months and years differ in length, so `{0}` is no delay: count days, or name the day")]
    NoDelay(String),
    /// It is beyond what the calendar here holds.
    #[error("`{0}` is too far away: a delay is at most 100 years, and a year at most 9988")]
    TooFar(String),
}
