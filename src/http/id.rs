//! Names that callers choose, and cursors that they get.

use chrono::DateTime;
use chrono::Utc;

use super::problem::Problem;
use crate::trigger::TriggerId;

/// Bytes of an id at the most.
const LONGEST: usize = 512;

/// Rows of a page where the caller does not say.
const PAGE: u32 = 50;

/// Rows of a page at the most.
const MOST_ROWS: u32 = 500;

/// Refuses an id that is empty, too long or holds control characters.
pub(super) fn check(what: &str, id: &str) -> Result<(), String> {
    if id.is_empty() {
        return Err(format!("the {what} is empty"));
    }
    if id.len() > LONGEST {
        return Err(format!(
            "the {what} has {} bytes: {LONGEST} are allowed",
            id.len()
        ));
    }
    if id.chars().any(char::is_control) {
        return Err(format!("the {what} holds a control character"));
    }
    Ok(())
}

/// As [`check`], for what stands in the path or the query.
pub(super) fn checked(what: &str, id: String) -> Result<String, Problem> {
    check(what, &id).map_err(Problem::bad_request)?;
    Ok(id)
}

/// The rows of a page, as asked for.
pub(super) fn rows(limit: Option<&str>) -> Result<u32, Problem> {
    let Some(limit) = limit else {
        return Ok(PAGE);
    };
    let rows = limit.parse().ok().filter(|rows| (1..=MOST_ROWS).contains(rows));
    rows.ok_or_else(|| Problem::bad_request(format!("`limit={limit}`: use 1 to {MOST_ROWS}")))
}

/// An instant, as asked for in the query.
pub(super) fn instant(since: &str) -> Result<DateTime<Utc>, Problem> {
    let instant = DateTime::parse_from_rfc3339(since);
    instant
        .map(|instant| instant.to_utc())
        .map_err(|_| Problem::bad_request(format!("`since={since}`: write it as 2026-12-01T08:45:00Z")))
}

/// The cursor after a row: opaque to callers.
pub(super) fn cursor(instant: DateTime<Utc>, id: TriggerId) -> String {
    format!("{:016x}{id}", instant.timestamp_millis())
}

/// The row that a cursor stands after.
pub(super) fn row_of(cursor: Option<&str>) -> Result<Option<(DateTime<Utc>, TriggerId)>, Problem> {
    let Some(cursor) = cursor else {
        return Ok(None);
    };
    let row = || {
        let (instant, id) = cursor.split_at_checked(16)?;
        let millis = u64::from_str_radix(instant, 16).ok()?.cast_signed();
        Some((DateTime::from_timestamp_millis(millis)?, id.parse().ok()?))
    };
    row().map(Some).ok_or_else(|| {
        Problem::bad_request("`cursor` is not one of ours: use the `next_cursor` of an answer as it is")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_leads_back_to_its_row() {
        for millis in [0, 1_800_000_000_123, -5] {
            let row = (
                DateTime::from_timestamp_millis(millis).unwrap(),
                TriggerId([9; 16]),
            );
            assert_eq!(row_of(Some(&cursor(row.0, row.1))).unwrap(), Some(row));
        }
    }

    #[test]
    fn a_made_up_cursor_is_refused() {
        for cursor in [
            "",
            "7",
            "zz",
            "0000000000000000",
            "ä000000000000000ff",
            "ffffffffffffffff00",
        ] {
            assert!(row_of(Some(cursor)).is_err(), "{cursor}");
        }
    }

    #[test]
    fn ids_are_bounded() {
        assert!(check("key", "a/b c@d").is_ok());
        assert!(check("key", "").is_err());
        assert!(check("key", "a\nb").is_err());
        assert!(check("key", &"k".repeat(513)).is_err());
    }
}
