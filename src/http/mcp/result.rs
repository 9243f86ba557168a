//! What a route answered, as the result of a tool.

use std::collections::HashSet;
use std::fmt;

use rmcp::model::CallToolResult;
use rmcp::model::ContentBlock;
use serde::Deserialize;
use serde::Deserializer;
use serde::de::MapAccess;
use serde::de::Visitor;
use serde_json::Number;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::http::problem::Problem;

/// A success: the answer as it is, and as a value where that is the same. A payload may hold what no value can, as numbers
/// of many digits or a name twice; it is in the text alone then.
pub(super) fn success(body: &[u8]) -> CallToolResult {
    let text = String::from_utf8_lossy(body).into_owned();
    let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
    let value = serde_json::from_slice(body).ok();
    result.structured_content = value.filter(|_| serde_json::from_slice(body).is_ok_and(is_same_read));
    result
}

/// Whether reading it as a value changes nothing that it says.
fn is_same_read(written: &RawValue) -> bool {
    let text = written.get();
    match text.as_bytes().first() {
        Some(b'{') => serde_json::from_str(text).is_ok_and(|Members(members)| {
            let mut names = HashSet::new();
            let mut members = members.into_iter();
            members.all(|(name, value)| names.insert(name) && is_same_read(value))
        }),
        Some(b'[') => {
            let items = serde_json::from_str::<Vec<&RawValue>>(text);
            items.is_ok_and(|items| items.into_iter().all(is_same_read))
        }
        Some(b'-' | b'0'..=b'9') => {
            let number = serde_json::from_str::<Number>(text);
            number.is_ok_and(|number| number.to_string() == text)
        }
        _ => true,
    }
}

/// The members of an object, all of them.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MembersVisitor)
    }
}

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Members<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(Members(members))
    }
}

/// A problem that a route answered.
pub(super) fn refusal(body: &[u8]) -> CallToolResult {
    let problem = serde_json::from_slice(body).unwrap_or_default();
    let mut result = CallToolResult::error(vec![ContentBlock::text(told(&problem))]);
    result.structured_content = Some(problem);
    result
}

/// A problem before a route was asked.
pub(super) fn refused(problem: &Problem) -> CallToolResult {
    let body = serde_json::to_vec(problem).expect("a problem has a JSON form");
    refusal(&body)
}

/// A problem in words: each field that is wrong, with the cure.
fn told(problem: &Value) -> String {
    let flaws = problem["errors"].as_array().into_iter().flatten();
    let flaws = flaws.filter_map(|flaw| {
        let detail = flaw["detail"].as_str()?;
        let field = flaw["pointer"].as_str().unwrap_or_default();
        let field = field.trim_start_matches('/');
        Some(if field.is_empty() {
            detail.to_owned()
        } else {
            format!("`{field}`: {detail}")
        })
    });
    let flaws: Vec<String> = flaws.collect();
    if flaws.is_empty() {
        let detail = problem["detail"].as_str();
        return detail.unwrap_or("the node does not say why").to_owned();
    }
    flaws.join("\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_problem_names_each_field_with_the_cure() {
        let flaws = json!([
            { "pointer": "/delay", "detail": "`soon` is no delay: write 90s" },
            { "pointer": "", "detail": "a list, expected an object" },
            { "detail": "and more" },
        ]);
        let problem = json!({ "detail": "the first", "errors": flaws });
        assert_eq!(
            told(&problem),
            "`delay`: `soon` is no delay: write 90s\na list, expected an object\nand more"
        );
        assert_eq!(
            told(&json!({ "detail": "there is none: make one" })),
            "there is none: make one"
        );
        assert!(!told(&Value::Null).is_empty());
    }

    #[test]
    fn what_a_value_would_say_otherwise_is_in_the_text_alone() {
        for payload in [
            "1e400",
            "12345678901234567890123",
            "0.1000000000000000055",
            r#"{"a": 1, "\u0061": 2}"#,
            r#"[{"n": [1e2]}]"#,
        ] {
            let body = format!(r#"{{"payload": {payload}}}"#);
            let result = success(body.as_bytes());
            assert_eq!(result.structured_content, None, "{payload}");
            assert_eq!(result.content, [ContentBlock::text(body)]);
        }
        let body = r#"{"n": 1, "m": [-0.5, 18446744073709551615, {"n": null, "s": "1e2"}]}"#;
        assert_eq!(
            success(body.as_bytes()).structured_content,
            Some(json!({ "n": 1, "m": [-0.5, u64::MAX, { "n": null, "s": "1e2" }] }))
        );
    }
}
