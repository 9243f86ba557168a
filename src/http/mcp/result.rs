//! What a route answered, as the result of a tool.

use rmcp::model::CallToolResult;
use rmcp::model::ContentBlock;
use serde_json::Value;

use crate::http::problem::Problem;

/// A success: the answer as it is, and as a value where it can be one. A payload may hold what no value can, as numbers
/// that are too large; it is in the text then.
pub(super) fn success(body: &[u8]) -> CallToolResult {
    let text = String::from_utf8_lossy(body).into_owned();
    let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
    result.structured_content = serde_json::from_slice(body).ok();
    result
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
    fn what_no_value_can_hold_is_in_the_text_alone() {
        let result = success(br#"{"payload": 1e400}"#);
        assert_eq!(result.structured_content, None);
        assert_eq!(result.content, [ContentBlock::text(r#"{"payload": 1e400}"#)]);
        assert_eq!(
            success(br#"{"n": 1}"#).structured_content,
            Some(json!({ "n": 1 }))
        );
    }
}
