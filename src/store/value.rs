//! The values of a row, the same from every dialect.

use chrono::DateTime;
use chrono::Utc;
use sqlx::Row;
use sqlx::ValueRef;
use sqlx::postgres::PgRow;
use sqlx::sqlite::SqliteRow;

use crate::store::row::instant;

/// A row of a dialect, value by value.
pub trait Values: Sync {
    /// Text, where there is any.
    fn text(&self, column: &str) -> Result<Option<String>, sqlx::Error>;
    /// A whole number, where there is one.
    fn whole(&self, column: &str) -> Result<Option<i64>, sqlx::Error>;
    /// Yes or no.
    fn flag(&self, column: &str) -> Result<bool, sqlx::Error>;
    /// Bytes, where there are any.
    fn bytes(&self, column: &str) -> Result<Option<Vec<u8>>, sqlx::Error>;
    /// An instant, where there is one.
    fn instant(&self, column: &str) -> Result<Option<DateTime<Utc>>, sqlx::Error>;
}

impl Values for SqliteRow {
    fn text(&self, column: &str) -> Result<Option<String>, sqlx::Error> {
        self.try_get(column)
    }

    fn whole(&self, column: &str) -> Result<Option<i64>, sqlx::Error> {
        self.try_get(column)
    }

    fn flag(&self, column: &str) -> Result<bool, sqlx::Error> {
        self.try_get(column)
    }

    fn bytes(&self, column: &str) -> Result<Option<Vec<u8>>, sqlx::Error> {
        self.try_get(column)
    }

    fn instant(&self, column: &str) -> Result<Option<DateTime<Utc>>, sqlx::Error> {
        let Some(millis) = self.try_get(column)? else {
            return Ok(None);
        };
        let none = || sqlx::Error::Decode(format!("`{millis}` is no instant").into());
        instant(millis).map(Some).ok_or_else(none)
    }
}

impl Values for PgRow {
    fn text(&self, column: &str) -> Result<Option<String>, sqlx::Error> {
        self.try_get(column)
    }

    fn whole(&self, column: &str) -> Result<Option<i64>, sqlx::Error> {
        self.try_get(column)
    }

    fn flag(&self, column: &str) -> Result<bool, sqlx::Error> {
        self.try_get(column)
    }

    fn bytes(&self, column: &str) -> Result<Option<Vec<u8>>, sqlx::Error> {
        self.try_get(column)
    }

    /// Read by hand: the library panics at instants that chrono does not know, such as `infinity`.
    fn instant(&self, column: &str) -> Result<Option<DateTime<Utc>>, sqlx::Error> {
        let raw = self.try_get_raw(column)?;
        if raw.is_null() {
            return Ok(None);
        }
        let bytes = raw.as_bytes().map_err(sqlx::Error::Decode)?;
        let bytes = bytes.try_into().map_err(|_| nothing())?;
        let micros = i64::from_be_bytes(bytes);
        let none = || sqlx::Error::Decode(format!("{micros} µs after 2000 is no instant").into());
        let since_1970 = micros.div_euclid(1_000).checked_add(EPOCH_OF_POSTGRES);
        since_1970.and_then(instant).map(Some).ok_or_else(none)
    }
}

/// PostgreSQL counts from 2000: so many milliseconds after 1970.
const EPOCH_OF_POSTGRES: i64 = 946_684_800_000;

/// A value as the caller wants it.
pub trait Value: Sized {
    /// The value of that column.
    fn of(row: &dyn Values, column: &str) -> Result<Self, sqlx::Error>;
}

impl Value for Option<String> {
    fn of(row: &dyn Values, column: &str) -> Result<Self, sqlx::Error> {
        row.text(column)
    }
}

impl Value for String {
    fn of(row: &dyn Values, column: &str) -> Result<Self, sqlx::Error> {
        row.text(column)?.ok_or_else(nothing)
    }
}

impl Value for Option<i64> {
    fn of(row: &dyn Values, column: &str) -> Result<Self, sqlx::Error> {
        row.whole(column)
    }
}

impl Value for i64 {
    fn of(row: &dyn Values, column: &str) -> Result<Self, sqlx::Error> {
        row.whole(column)?.ok_or_else(nothing)
    }
}

impl Value for bool {
    fn of(row: &dyn Values, column: &str) -> Result<Self, sqlx::Error> {
        row.flag(column)
    }
}

fn nothing() -> sqlx::Error {
    sqlx::Error::Decode("there is nothing in it".into())
}
