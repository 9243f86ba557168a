//! What calls by HTTP have in common, whoever is called: how much of an answer is read, how long a connection is kept, what is
//! told of a failure, and what an answer asks for.

use std::time::Duration;

use chrono::DateTime;
use chrono::Utc;
use reqwest::Response;
use reqwest::header::RETRY_AFTER;

/// Bytes of an answer that are read.
const ANSWER: usize = 64 * 1024;

/// How long a connection is kept for the next call: many servers part after five seconds, and a call into the parting is
/// in doubt.
pub const KEPT: Duration = Duration::from_secs(4);

/// The longest pause that anybody is granted. What is later than the trigger's own end is tried just before that.
pub const LONGEST: Duration = Duration::from_hours(30 * 24);

/// What was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// For how long it asks to be left alone, by its header of that name.
    pub retry_after: Option<Duration>,
    /// What was said; none where that is too much, or did not end in time.
    pub body: Option<Vec<u8>>,
}

impl Answer {
    /// Reads an answer for as long as `left`. The status is one, whatever becomes of the rest.
    pub async fn read(mut response: Response, left: Duration, now: DateTime<Utc>) -> Self {
        let retry_after = response.headers().get(RETRY_AFTER);
        let retry_after = retry_after.and_then(|value| pause(value.to_str().ok()?, now));
        let body = tokio::time::timeout(left, whole(&mut response)).await;
        Self {
            status: response.status().as_u16(),
            retry_after,
            body: body.unwrap_or_default(),
        }
    }
}

async fn whole(response: &mut Response) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.ok()? {
        if body.len() + chunk.len() > ANSWER {
            return None;
        }
        body.extend_from_slice(&chunk);
    }
    Some(body)
}

/// A Retry-After (RFC 9110 section 10.2.3): seconds, or a date.
fn pause(value: &str, now: DateTime<Utc>) -> Option<Duration> {
    seconds(value).or_else(|| {
        let date = DateTime::parse_from_rfc2822(value.trim()).ok()?;
        let left = date.with_timezone(&Utc) - now;
        Some(left.to_std().unwrap_or_default().min(LONGEST))
    })
}

/// So many seconds, or a part of them, as a pause that is granted.
pub fn seconds(value: &str) -> Option<Duration> {
    let value = value.trim();
    let seconds: f64 = value.parse().ok()?;
    let is_number = value.starts_with(|first: char| first.is_ascii_digit());
    is_number.then(|| {
        Duration::try_from_secs_f64(seconds)
            .unwrap_or(LONGEST)
            .min(LONGEST)
    })
}

/// Why a call has no answer, one cause after the other. The URL is left out, which may be a secret, or hold numbers, texts and
/// passwords.
pub fn causes(error: reqwest::Error) -> String {
    let error = error.without_url();
    let causes = std::iter::successors(Some(&error as &dyn std::error::Error), |error| error.source());
    let told: Vec<String> = causes.map(ToString::to_string).collect();
    told.join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_retry_after_is_seconds_or_a_date() {
        let now = "2026-12-01T08:15:00Z".parse().unwrap();
        for (value, seconds) in [
            ("120", Some(120.0)),
            (" 0 ", Some(0.0)),
            ("1.5", Some(1.5)),
            ("99999999999999999999999", Some(LONGEST.as_secs_f64())),
            ("Tue, 01 Dec 2026 08:16:30 GMT", Some(90.0)),
            ("Tue, 01 Dec 2026 08:00:00 GMT", Some(0.0)),
            ("Wed, 01 Dec 2990 08:00:00 GMT", Some(LONGEST.as_secs_f64())),
            ("soon", None),
            ("NaN", None),
            ("inf", None),
            ("-5", None),
            ("", None),
        ] {
            let asked = pause(value, now).map(|it| it.as_secs_f64());
            assert_eq!(asked, seconds, "{value}");
        }
    }
}
