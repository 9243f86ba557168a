//! What a provider's answer means: rules on the status and on what it says. Pure.
//!
//! ```text
//! rule    = status [ " " test ]
//! status  = "202" | "2xx" | "500-503"
//! test    = pointer "=" value *( "|" value )     what JSON says there; `*` in the pointer: at every place, and there is one
//!         | "^" start *( "|" start )             how the text begins
//! ```
//! The permanent rules come first, then the transient ones, then the successes. What no rule knows goes by its status; and
//! a success that no rule knows may be one.

use std::str::FromStr;

use crate::channel::Blame;
use crate::channel::Report;
use crate::channel::http;
use crate::channel::http::Answer;

/// Places that one `*` leads to at the most.
const PLACES: usize = 100;

/// Characters of an error code or an id that are kept.
const NAME: usize = 64;

/// A rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    first: u16,
    last: u16,
    test: Test,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Test {
    Always,
    Json { pointer: String, values: Vec<String> },
    Starts(Vec<String>),
}

/// How the answers of one provider are read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rules {
    /// It took the message.
    pub success: Vec<Rule>,
    /// It did not, and may later; that costs no attempt.
    pub transient: Vec<Rule>,
    /// It never will.
    pub permanent: Vec<Rule>,
    /// Where its name of the message is (JSON pointer); empty: nowhere.
    pub message_id: String,
    /// Where its error code is; empty: nowhere.
    pub code: String,
    /// Where it says in how many seconds to try again, beside the header `Retry-After`; empty: nowhere.
    pub retry_after: String,
}

impl FromStr for Rule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (status, rest) = text.split_once(' ').unwrap_or((text, ""));
        let (first, last) = statuses(status)
            .ok_or_else(|| format!("`{text}`: begin with a status such as 202, 2xx or 500-503"))?;
        let condition = test_of(rest.trim()).ok_or_else(|| {
            format!("`{text}`: after the status write /pointer=value, with | between values, or ^start")
        })?;
        Ok(Self {
            first,
            last,
            test: condition,
        })
    }
}

fn statuses(text: &str) -> Option<(u16, u16)> {
    let (first, last) = match text.split_once('-') {
        Some((first, last)) => (first.parse().ok()?, last.parse().ok()?),
        None => match text.strip_suffix("xx") {
            Some(class) => {
                let class: u16 = class.parse().ok()?;
                (class.checked_mul(100)?, class.checked_mul(100)?.checked_add(99)?)
            }
            None => (text.parse().ok()?, text.parse().ok()?),
        },
    };
    (100 <= first && first <= last && last <= 599).then_some((first, last))
}

fn test_of(text: &str) -> Option<Test> {
    let alternatives = |values: &str| -> Vec<String> { values.split('|').map(str::to_owned).collect() };
    if text.is_empty() {
        return Some(Test::Always);
    }
    if let Some(starts) = text.strip_prefix('^') {
        return Some(Test::Starts(alternatives(starts))).filter(|_| !starts.is_empty());
    }
    let (pointer, values) = text.split_once('=')?;
    let fits = pointer.starts_with('/') && !values.is_empty();
    fits.then(|| Test::Json {
        pointer: pointer.to_owned(),
        values: alternatives(values),
    })
}

impl Rule {
    fn holds(&self, answer: &Answer, json: Option<&serde_json::Value>) -> bool {
        if !(self.first..=self.last).contains(&answer.status) {
            return false;
        }
        match &self.test {
            Test::Always => true,
            Test::Starts(starts) => {
                let text = answer.body.as_deref().unwrap_or_default().trim_ascii_start();
                starts.iter().any(|start| text.starts_with(start.as_bytes()))
            }
            Test::Json { pointer, values } => {
                let found = json.map(|json| places(json, pointer)).unwrap_or_default();
                let fits = |value: &&serde_json::Value| text_of(value).is_some_and(|it| values.contains(&it));
                !found.is_empty() && found.iter().all(fits)
            }
        }
    }
}

impl Rules {
    /// What `answer` to a message of so many parts means.
    pub fn read(&self, answer: &Answer, parts: usize) -> Report {
        let json: Option<serde_json::Value> = answer
            .body
            .as_deref()
            .and_then(|body| serde_json::from_slice(body).ok());
        let json = json.as_ref();
        let any = |rules: &[Rule]| rules.iter().any(|rule| rule.holds(answer, json));
        let told = self.told(answer, json);
        if any(&self.permanent) {
            return Report::Permanent { error: told };
        }
        if any(&self.transient) {
            return self.later(answer, json, told);
        }
        if any(&self.success) {
            return Report::Accepted {
                reply: format!("{told}, in parts: {parts}"),
                kept: None,
                reference: named(json, &self.message_id),
                awaits: None,
            };
        }
        match answer.status {
            408 | 425 | 429 | 500..=599 => self.later(answer, json, told),
            200..=299 => Report::InDoubt {
                error: format!("{told}, which no rule knows"),
            },
            _ => Report::Permanent { error: told },
        }
    }

    /// That the provider is in trouble, or wants less at a time, is not the message's fault: no other fares better.
    fn later(&self, answer: &Answer, json: Option<&serde_json::Value>, told: String) -> Report {
        let said = || named(json, &self.retry_after).as_deref().and_then(http::seconds);
        Report::Transient {
            error: told,
            of: match answer.status {
                408 | 425 => Blame::Message,
                _ => Blame::Target,
            },
            retry_after: answer.retry_after.or_else(said),
        }
    }

    /// Status and error code: nothing else that it says can be told, since it may repeat number and text.
    fn told(&self, answer: &Answer, json: Option<&serde_json::Value>) -> String {
        let status = answer.status;
        match named(json, &self.code) {
            Some(code) => format!("answered {status}, code {code}"),
            None => format!("answered {status}"),
        }
    }
}

/// What is at `pointer`, if it is a name or a number and not a text.
fn named(json: Option<&serde_json::Value>, pointer: &str) -> Option<String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.:".contains(c);
    let found = json
        .filter(|_| !pointer.is_empty())
        .map(|json| places(json, pointer))?;
    let name = text_of(found.first()?)?;
    (!name.is_empty() && name.len() <= NAME && name.chars().all(allowed)).then_some(name)
}

/// The values at `pointer` (RFC 6901), where `*` stands for every element of an array.
fn places<'j>(json: &'j serde_json::Value, pointer: &str) -> Vec<&'j serde_json::Value> {
    let Some((before, after)) = pointer.split_once("/*") else {
        return json.pointer(pointer).into_iter().collect();
    };
    let elements = json.pointer(before).and_then(serde_json::Value::as_array);
    let elements = elements.into_iter().flatten().take(PLACES);
    elements.filter_map(|element| element.pointer(after)).collect()
}

fn text_of(value: &serde_json::Value) -> Option<String> {
    match value {
        serde_json::Value::String(text) => Some(text.clone()),
        serde_json::Value::Number(number) => Some(number.to_string()),
        serde_json::Value::Bool(flag) => Some(flag.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn rules(success: &[&str], transient: &[&str], permanent: &[&str]) -> Rules {
        let read = |rules: &[&str]| rules.iter().map(|rule| rule.parse().unwrap()).collect();
        Rules {
            success: read(success),
            transient: read(transient),
            permanent: read(permanent),
            message_id: "/id".to_owned(),
            code: "/code".to_owned(),
            retry_after: "/wait".to_owned(),
        }
    }

    fn answer(status: u16, body: &str) -> Answer {
        Answer {
            status,
            retry_after: None,
            body: Some(body.as_bytes().to_vec()),
        }
    }

    fn class(report: &Report) -> &'static str {
        match report {
            Report::Accepted { .. } => "accepted",
            Report::Transient {
                of: Blame::Target, ..
            } => "target",
            Report::Transient { .. } => "transient",
            Report::Permanent { .. } => "permanent",
            Report::InDoubt { .. } => "in doubt",
            _ => "other",
        }
    }

    #[test]
    fn what_no_rule_knows_goes_by_its_status() {
        let rules = rules(&["201"], &[], &[]);
        for (status, expected) in [
            (200, "in doubt"),
            (201, "accepted"),
            (204, "in doubt"),
            (301, "permanent"),
            (400, "permanent"),
            (401, "permanent"),
            (408, "transient"),
            (429, "target"),
            (500, "target"),
            (503, "target"),
        ] {
            let report = rules.read(&answer(status, ""), 1);
            assert_eq!(class(&report), expected, "{status}");
        }
    }

    #[test]
    fn a_rule_looks_at_the_json_or_the_beginning_of_the_text() {
        let rules = rules(
            &["2xx /results/*/ok=true", "202 ^0:|3:"],
            &["200 /results/*/ok=busy|later"],
            &["200-299 ^ERR"],
        );
        for (body, expected) in [
            (r#"{"results": [{"ok": true}]}"#, "accepted"),
            (r#"{"results": [{"ok": "true"}, {"ok": true}]}"#, "accepted"),
            (r#"{"results": [{"ok": true}, {"ok": "busy"}]}"#, "in doubt"),
            (r#"{"results": [{"ok": "later"}, {"ok": "busy"}]}"#, "target"),
            (r#"{"results": []}"#, "in doubt"),
            (r#"{"results": [{"ok": null}]}"#, "in doubt"),
            ("ERR 5", "permanent"),
            ("0: Accepted", "in doubt"),
        ] {
            assert_eq!(class(&rules.read(&answer(200, body), 1)), expected, "{body}");
        }
        for (body, expected) in [
            ("0: Accepted", "accepted"),
            (" 3: Queued", "accepted"),
            ("4: no", "in doubt"),
        ] {
            assert_eq!(class(&rules.read(&answer(202, body), 1)), expected, "{body}");
        }
    }

    #[test]
    fn only_codes_and_ids_are_repeated() {
        let rules = rules(&["201"], &[], &[]);
        let report = rules.read(&answer(201, r#"{"id": "SM12", "code": 7}"#), 2);
        let expected = Report::Accepted {
            reply: "answered 201, code 7, in parts: 2".to_owned(),
            kept: None,
            reference: Some("SM12".to_owned()),
            awaits: None,
        };
        assert_eq!(report, expected);
        let body = r#"{"code": "the number +4930123456 is wrong"}"#;
        let expected = Report::Permanent {
            error: "answered 400".to_owned(),
        };
        assert_eq!(rules.read(&answer(400, body), 1), expected);
    }

    #[test]
    fn a_pause_is_what_the_header_asks_for_or_else_the_answer() {
        let rules = rules(&[], &[], &[]);
        let pause = |header: Option<u64>, body: &str| {
            let answer = Answer {
                retry_after: header.map(Duration::from_secs),
                ..answer(429, body)
            };
            match rules.read(&answer, 1) {
                Report::Transient { retry_after, .. } => retry_after,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(pause(Some(7), r#"{"wait": 9}"#), Some(Duration::from_secs(7)));
        assert_eq!(pause(None, r#"{"wait": 9}"#), Some(Duration::from_secs(9)));
        assert_eq!(pause(None, r#"{"wait": 99999999}"#), Some(http::LONGEST));
        assert_eq!(pause(None, r#"{"wait": "soon"}"#), None);
    }

    #[test]
    fn what_is_no_rule_is_refused() {
        for text in [
            "",
            "ok",
            "99",
            "600",
            "2xy",
            "300-200",
            "200 status=0",
            "200 /a",
            "200 /a=",
            "200 ^",
            "9xx",
            "655xx",
        ] {
            assert!(text.parse::<Rule>().is_err(), "{text}");
        }
    }
}
