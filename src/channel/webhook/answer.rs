//! What an answer means. Pure.

use std::time::Duration;

use chrono::DateTime;
use chrono::Utc;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::channel::Blame;
use crate::channel::Report;
use crate::channel::webhook::call::Answer;
use crate::channel::webhook::call::Failure;

/// Bytes of a payload that are kept and given back.
pub const PAYLOAD: usize = 16 * 1024;

/// 202: the target has taken the work, and not done it yet.
const ACCEPTED: u16 = 202;

/// The longest pause that anybody is granted. What is later than the trigger's own end is not tried at all.
const LONGEST: Duration = Duration::from_hours(30 * 24);

/// What a target may ask for in a successful answer.
#[derive(Debug, Deserialize)]
struct Instruction<'a> {
    retry_in_ms: u64,
    #[serde(borrow, default)]
    payload: Option<&'a RawValue>,
}

/// What a call came to. A target that says 202 has `ack_timeout` to report what became of it, where it may.
pub fn report(result: Result<Answer, Failure>, ack_timeout: Option<Duration>, now: DateTime<Utc>) -> Report {
    match result {
        Ok(answer) => answered(&answer, ack_timeout, now),
        Err(Failure::Blocked) => Report::Permanent {
            error: crate::channel::webhook::resolver::Blocked.to_string(),
        },
        Err(Failure::Unreached(error)) => Report::Transient {
            error,
            of: Blame::Target,
            retry_after: None,
        },
        Err(Failure::Lost(error)) => Report::InDoubt { error },
    }
}

/// Whether the endpoint as a whole seems to be down, which says something about the next call.
pub fn is_down(result: &Result<Answer, Failure>) -> bool {
    match result {
        Ok(answer) => matches!(answer.status, 502..=504),
        Err(Failure::Blocked) => false,
        Err(Failure::Unreached(_) | Failure::Lost(_)) => true,
    }
}

fn answered(answer: &Answer, ack_timeout: Option<Duration>, now: DateTime<Utc>) -> Report {
    let status = answer.status;
    match status {
        200..=299 => taken(answer, ack_timeout),
        300..=399 => Report::Permanent {
            error: format!("answered {status}: redirects are not followed, name the address it leads to"),
        },
        410 => Report::Gone {
            error: "answered 410: it is gone for good".to_owned(),
        },
        408 | 425 | 429 | 500..=599 => Report::Transient {
            error: format!("answered {status}"),
            of: Blame::Message,
            retry_after: answer.retry_after.as_deref().and_then(|value| pause(value, now)),
        },
        _ => Report::Permanent {
            error: format!("answered {status}"),
        },
    }
}

fn taken(answer: &Answer, ack_timeout: Option<Duration>) -> Report {
    let status = answer.status;
    let accepted = |reply: String| Report::Accepted {
        reply,
        kept: None,
        reference: None,
        awaits: ack_timeout.filter(|_| status == ACCEPTED),
    };
    let body = answer.body.as_deref().unwrap_or_default();
    let Some(instruction) = instruction(body) else {
        return accepted(format!("answered {status}"));
    };
    let payload = instruction.payload.map(RawValue::get).filter(|it| *it != "null");
    if let Some(payload) = payload.filter(|it| it.len() > PAYLOAD) {
        let length = payload.len();
        return accepted(format!(
            "answered {status}, and asked to be given back {length} bytes: {PAYLOAD} are kept, so it is not called again"
        ));
    }
    Report::Again {
        after: Duration::from_millis(instruction.retry_in_ms).min(LONGEST),
        payload: payload.map(str::to_owned),
    }
}

/// What a document asks for, if anything.
fn instruction(body: &[u8]) -> Option<Instruction<'_>> {
    // A list would be read as the fields in their order.
    let is_object = body.trim_ascii_start().starts_with(b"{");
    serde_json::from_slice(body).ok().filter(|_| is_object)
}

/// A Retry-After (RFC 9110 section 10.2.3): seconds, or a date.
fn pause(value: &str, now: DateTime<Utc>) -> Option<Duration> {
    let value = value.trim();
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        let seconds = value.parse().map_or(LONGEST, Duration::from_secs);
        return Some(seconds.min(LONGEST));
    }
    let date = DateTime::parse_from_rfc2822(value).ok()?;
    let left = date.with_timezone(&Utc) - now;
    Some(left.to_std().unwrap_or_default().min(LONGEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> DateTime<Utc> {
        "2026-12-01T08:15:00Z".parse().unwrap()
    }

    fn of(status: u16, retry_after: Option<&str>, body: &str) -> Report {
        let answer = Answer {
            status,
            retry_after: retry_after.map(str::to_owned),
            body: Some(body.as_bytes().to_vec()),
        };
        report(Ok(answer), None, now())
    }

    fn class(report: &Report) -> &'static str {
        match report {
            Report::Accepted { .. } => "accepted",
            Report::Again { .. } => "again",
            Report::Gone { .. } => "gone",
            Report::Permanent { .. } => "permanent",
            Report::InDoubt { .. } => "in doubt",
            Report::Transient {
                of: Blame::Target, ..
            } => "target",
            Report::Transient {
                of: Blame::Message, ..
            } => "message",
            Report::Busy { .. } | Report::Abandoned => "nothing",
        }
    }

    #[test]
    fn every_status_has_its_class() {
        for status in 100..=599 {
            let expected = match status {
                200..=299 => "accepted",
                410 => "gone",
                408 | 425 | 429 | 500.. => "message",
                _ => "permanent",
            };
            assert_eq!(class(&of(status, None, "")), expected, "{status}");
        }
    }

    #[test]
    fn what_did_not_arrive_is_the_targets_fault_and_what_may_have_is_in_doubt() {
        for (failure, expected, down) in [
            (Failure::Blocked, "permanent", false),
            (Failure::Unreached("refused".to_owned()), "target", true),
            (Failure::Lost("reset".to_owned()), "in doubt", true),
        ] {
            assert_eq!(is_down(&Err(failure.clone())), down);
            assert_eq!(class(&report(Err(failure), None, now())), expected);
        }
    }

    #[test]
    fn a_report_is_awaited_of_whoever_took_the_work_and_may_report() {
        let awaits = |status, ack_timeout| {
            let answer = Answer {
                status,
                retry_after: None,
                body: None,
            };
            match report(Ok(answer), ack_timeout, now()) {
                Report::Accepted { awaits, .. } => awaits,
                other => panic!("{other:?}"),
            }
        };
        let minutes = Some(Duration::from_mins(5));
        assert_eq!(awaits(202, minutes), minutes);
        assert_eq!(awaits(202, None), None);
        assert_eq!(awaits(200, minutes), None);
    }

    #[test]
    fn a_retry_after_is_seconds_or_a_date() {
        let asked = |value| match of(503, Some(value), "") {
            Report::Transient { retry_after, .. } => retry_after.map(|it| it.as_secs()),
            other => panic!("{other:?}"),
        };
        for (value, seconds) in [
            ("120", Some(120)),
            (" 0 ", Some(0)),
            ("99999999999999999999", Some(LONGEST.as_secs())),
            ("Tue, 01 Dec 2026 08:16:30 GMT", Some(90)),
            ("Tue, 01 Dec 2026 08:00:00 GMT", Some(0)),
            ("Wed, 01 Dec 2990 08:00:00 GMT", Some(LONGEST.as_secs())),
            ("soon", None),
            ("-5", None),
            ("1.5", None),
            ("", None),
        ] {
            assert_eq!(asked(value), seconds, "{value}");
        }
    }

    #[test]
    fn a_target_asks_to_be_called_again_in_its_answer() {
        let again = |milliseconds, payload: Option<&str>| Report::Again {
            after: Duration::from_millis(milliseconds),
            payload: payload.map(str::to_owned),
        };
        for (body, expected) in [
            (r#"{"retry_in_ms": 30000}"#, again(30_000, None)),
            (
                r#"{"retry_in_ms": 1, "payload": {"b": [1.50, "ü"], "a": null}, "more": 1}"#,
                again(1, Some(r#"{"b": [1.50, "ü"], "a": null}"#)),
            ),
            (r#"{"retry_in_ms": 0, "payload": null}"#, again(0, None)),
            (
                r#"{"retry_in_ms": 18446744073709551615}"#,
                Report::Again {
                    after: LONGEST,
                    payload: None,
                },
            ),
        ] {
            assert_eq!(of(200, None, body), expected, "{body}");
        }
    }

    #[test]
    fn an_answer_that_asks_for_nothing_we_know_is_a_success() {
        let huge = format!(r#"{{"retry_in_ms": 1, "payload": "{}"}}"#, "x".repeat(PAYLOAD));
        let deep = format!(r#"{{"retry_in_ms": 1, "payload": {}"#, "[".repeat(60_000));
        for body in [
            "",
            "ok",
            "<html>",
            "{}",
            "[1]",
            r#"{"retry_in_ms": -1}"#,
            r#"{"retry_in_ms": "30000"}"#,
            r#"{"payload": {}}"#,
            &huge,
            &deep,
        ] {
            let report = of(200, None, body);
            assert_eq!(class(&report), "accepted", "{}", &body[..body.len().min(40)]);
        }
        // It asks in an answer that says no.
        assert_eq!(class(&of(404, None, r#"{"retry_in_ms": 1}"#)), "permanent");
    }
}
