//! A message, and what a tool is called with taken out of it.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use crate::http::body;
use crate::http::calls::Params;
use crate::http::problem::Problem;

/// The members of a JSON object, each as it was written.
type Members<'a> = BTreeMap<String, &'a RawValue>;

/// A message.
pub(super) struct Message {
    /// It, without what its tool is called with.
    pub(super) rest: Vec<u8>,
    /// What its tool is called with.
    pub(super) arguments: Result<Params, Problem>,
}

impl Message {
    /// Reads a message. Whether it is one of the protocol is not looked at here.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, Problem> {
        let whole: &RawValue = serde_json::from_slice(bytes)
            .map_err(|error| Problem::bad_request(format!("the body is not JSON: {error}")))?;
        let (rest, arguments) = parted(whole).unwrap_or_else(|| (bytes.to_owned(), None));
        let arguments = match arguments {
            Some(arguments) if arguments.get() != "null" => body::json(arguments.get().as_bytes()),
            _ => Ok(Params::default()),
        };
        Ok(Self { rest, arguments })
    }
}

/// The call of a tool without its arguments, and these; none where it is something else.
fn parted(whole: &RawValue) -> Option<(Vec<u8>, Option<&RawValue>)> {
    let members: Members<'_> = serde_json::from_str(whole.get()).ok()?;
    let method: String = serde_json::from_str(members.get("method")?.get()).ok()?;
    if method != "tools/call" {
        return None;
    }
    let mut params: Members<'_> = serde_json::from_str(members.get("params")?.get()).ok()?;
    let arguments = params.remove("arguments");
    let params = serde_json::value::to_raw_value(&params).ok()?;
    let mut rest: BTreeMap<&str, &RawValue> = members.iter().map(|(name, it)| (&**name, *it)).collect();
    rest.insert("params", &params);
    Some((serde_json::to_vec(&rest).ok()?, arguments))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (String, Vec<(String, String)>) {
        let message = Message::read(text.as_bytes()).unwrap();
        let arguments = message.arguments.unwrap();
        let arguments = arguments.names().map(|name| {
            let value = arguments.get(name).map_or("null", RawValue::get);
            (name.to_owned(), value.to_owned())
        });
        (String::from_utf8(message.rest).unwrap(), arguments.collect())
    }

    #[test]
    fn what_a_tool_is_called_with_stays_as_it_was_written() {
        let call = r#"{"method": "tools/call", "id": 1.0, "params": {"name": "x", "arguments": {"a": {"n":1.0,  "n":1e400}}}}"#;
        let (rest, arguments) = read(call);
        assert_eq!(rest, r#"{"id":1.0,"method":"tools/call","params":{"name":"x"}}"#);
        assert_eq!(
            arguments,
            [("a".to_owned(), r#"{"n":1.0,  "n":1e400}"#.to_owned())]
        );
    }

    #[test]
    fn what_calls_no_tool_is_passed_on_as_it_is() {
        for text in [
            r#"{"method": "tools/list",  "params": {"arguments": {"a": 1}}}"#,
            r#"{"method": "tools/call", "params": []}"#,
            r#"{"method": "tools/call"}"#,
            r#"{"method": 7}"#,
            "[1]",
            "7",
        ] {
            assert_eq!(read(text), (text.to_owned(), Vec::new()));
        }
    }

    #[test]
    fn what_no_tool_can_be_called_with_is_a_problem() {
        for text in ["{", "", "{} {}"] {
            assert!(Message::read(text.as_bytes()).is_err(), "{text}");
        }
        for arguments in ["[1]", "7", "\"x\""] {
            let call =
                format!(r#"{{"method": "tools/call", "params": {{"name": "x", "arguments": {arguments}}}}}"#);
            assert!(
                Message::read(call.as_bytes()).unwrap().arguments.is_err(),
                "{call}"
            );
        }
    }
}
