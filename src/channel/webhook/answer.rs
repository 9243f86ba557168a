//! What an answer means. Pure.

use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::channel::Blame;
use crate::channel::PAYLOAD;
use crate::channel::Report;
use crate::channel::http::Answer;
use crate::channel::http::LONGEST;
use crate::channel::webhook::call::Failure;

/// 202: the target has taken the work, and not done it yet.
const ACCEPTED: u16 = 202;

/// What a target may ask for in a successful answer.
#[derive(Debug, Deserialize)]
struct Instruction<'a> {
    retry_in_ms: u64,
    #[serde(borrow, default)]
    payload: Option<&'a RawValue>,
}

/// What a call came to. A target that says 202 has `ack_timeout` to report what became of it, where it may.
pub fn report(result: Result<Answer, Failure>, ack_timeout: Option<Duration>) -> Report {
    match result {
        Ok(answer) => answered(&answer, ack_timeout),
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

fn answered(answer: &Answer, ack_timeout: Option<Duration>) -> Report {
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
            retry_after: answer.retry_after,
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

#[cfg(test)]
mod tests {
    use super::*;

    fn of(status: u16, body: &str) -> Report {
        let answer = Answer {
            status,
            retry_after: None,
            body: Some(body.as_bytes().to_vec()),
        };
        report(Ok(answer), None)
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
            assert_eq!(class(&of(status, "")), expected, "{status}");
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
            assert_eq!(class(&report(Err(failure), None)), expected);
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
            match report(Ok(answer), ack_timeout) {
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
            assert_eq!(of(200, body), expected, "{body}");
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
            let report = of(200, body);
            assert_eq!(class(&report), "accepted", "{}", &body[..body.len().min(40)]);
        }
        // It asks in an answer that says no.
        assert_eq!(class(&of(404, r#"{"retry_in_ms": 1}"#)), "permanent");
    }
}
