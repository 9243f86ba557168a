//! `carillon mcp`: relays what an agent says on standard input to a running node, and its answers to standard output.
//!
//! Each line is a message of the Model Context Protocol. Standard output holds nothing else; complaints go to standard
//! error, and to whoever waits for an answer.

use std::collections::BTreeMap;
use std::io;
use std::io::BufRead;
use std::io::Read;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use clap::Args;
use reqwest::Method;
use reqwest::RequestBuilder;
use reqwest::header::ACCEPT;
use reqwest::header::CONTENT_TYPE;
use reqwest::header::HeaderValue;
use serde::Deserialize;
use serde_json::Value;
use serde_json::json;
use serde_json::value::RawValue;
use serde_json::value::to_raw_value;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::cli::asking::Node;
use crate::cli::asking::Which;
use crate::cli::asking::print;
use crate::cli::asking::silent;
use crate::config::Settings;

/// What `mcp` takes.
#[derive(Debug, Args)]
#[command(after_help = MORE_HELP)]
pub(super) struct Arguments {
    #[command(flatten)]
    node: Which,
}

const MORE_HELP: &str = "\
An agent starts it, as its configuration says:
  {\"mcpServers\": {\"carillon\": {\"command\": \"carillon\",
    \"args\": [\"mcp\", \"--url\", \"http://127.0.0.1:8085\", \"--token-file\", \"/home/anna/agent.token\"]}}}

What the agent may do is what the token opens: `carillon tokens create` makes one.";

/// Bytes of a message at the most; a node takes less.
const LONGEST: u64 = 1024 * 1024;

/// Messages that are answered at once.
const AT_ONCE: usize = 8;

/// Where a message says by what version of the protocol it is to be read.
const VERSION: &str = "io.modelcontextprotocol/protocolVersion";

/// JSON-RPC: what was sent is not JSON.
const NO_JSON: i32 = -32700;

/// JSON-RPC: the server cannot answer.
const NO_ANSWER: i32 = -32000;

/// Relays until standard input ends and all is answered.
pub(super) fn run(arguments: &Arguments, settings: &Settings) -> anyhow::Result<ExitCode> {
    let node = Node::new(&arguments.node, settings)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(relay(node))?;
    Ok(ExitCode::SUCCESS)
}

async fn relay(node: Node) -> anyhow::Result<()> {
    let node = Arc::new(node);
    let mut lines = lines();
    let mut answers: JoinSet<Answer> = JoinSet::new();
    let mut agreed = None;
    let mut goes_on = true;
    while goes_on || !answers.is_empty() {
        tokio::select! {
            Some(answer) = answers.join_next(), if !answers.is_empty() => {
                let answer = answer?;
                agreed = answer.agreed.or(agreed);
                if let Some(line) = answer.line {
                    print(&format!("{line}\n")).context("the answer cannot be said")?;
                }
            }
            line = lines.recv(), if goes_on && answers.len() < AT_ONCE => match line {
                Some(line) => {
                    let line = line.context("standard input cannot be read")?;
                    let (node, agreed) = (Arc::clone(&node), agreed.clone());
                    answers.spawn(async move { answer(&node, line, agreed.as_deref()).await });
                }
                None => goes_on = false,
            },
        }
    }
    Ok(())
}

/// A line of standard input; or why it is no message.
type Line = Result<String, &'static str>;

/// What is said on standard input, line by line. Reading waits, so a thread does it, for which nobody waits in the end.
fn lines() -> mpsc::Receiver<io::Result<Line>> {
    let (said, lines) = mpsc::channel(1);
    std::thread::spawn(move || {
        let mut input = io::stdin().lock();
        while let Some(line) = next_line(&mut input).transpose() {
            let is_over = line.is_err();
            if said.blocking_send(line).is_err() || is_over {
                return;
            }
        }
    });
    lines
}

/// The next line that says something; none at the end. Of one that is too long the rest is left out.
fn next_line(input: &mut impl BufRead) -> io::Result<Option<Line>> {
    loop {
        let mut line = Vec::new();
        if input.by_ref().take(LONGEST).read_until(b'\n', &mut line)? == 0 {
            return Ok(None);
        }
        if !line.ends_with(b"\n") && line.len() as u64 == LONGEST {
            input.skip_until(b'\n')?;
            return Ok(Some(Err("a message has 1 MiB at the most")));
        }
        match String::from_utf8(line) {
            Ok(line) if line.trim().is_empty() => {}
            Ok(line) => return Ok(Some(Ok(line))),
            Err(_) => return Ok(Some(Err("a message is UTF-8"))),
        }
    }
}

/// What is said of a message.
#[derive(Default)]
struct Answer {
    /// A message; none where nobody waits for one.
    line: Option<String>,
    /// The version of the protocol that was agreed on by it.
    agreed: Option<String>,
}

/// What of a message says where it goes.
#[derive(Default, Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    method: Option<String>,
    #[serde(default)]
    params: Option<&'a RawValue>,
}

/// What of the parameters of a message says where it goes.
#[derive(Default, Deserialize)]
struct Params {
    name: Option<String>,
    #[serde(rename = "_meta")]
    meta: Option<Value>,
}

async fn answer(node: &Node, line: Line, agreed: Option<&str>) -> Answer {
    let line = match line {
        Ok(line) => line,
        Err(reason) => return complaint(Some(RawValue::NULL), NO_JSON, reason),
    };
    let message: Message<'_> = match serde_json::from_str(&line) {
        Ok(message) => message,
        Err(error) => {
            return complaint(
                Some(RawValue::NULL),
                NO_JSON,
                &format!("that is no message: {error}"),
            );
        }
    };
    let request = request(node, &message, agreed).body(line.clone());
    match passed_on(node, request).await {
        Ok(line) => Answer {
            agreed: line.as_deref().and_then(|line| version(&message, line)),
            line,
        },
        Err(error) => complaint(message.id, NO_ANSWER, &format!("{error:#}")),
    }
}

/// The request of a message, with the headers that repeat what is in it, for whoever is between.
fn request(node: &Node, message: &Message<'_>, agreed: Option<&str>) -> RequestBuilder {
    let params: Option<Params> = message
        .params
        .and_then(|params| serde_json::from_str(params.get()).ok());
    let params = params.unwrap_or_default();
    let own = params.meta.as_ref().and_then(|meta| meta[VERSION].as_str());
    let is_first = message.method.as_deref() == Some("initialize");
    let version = own.or(agreed.filter(|_| !is_first));
    let said = [
        ("mcp-protocol-version", version),
        ("mcp-method", message.method.as_deref()),
        ("mcp-name", params.name.as_deref()),
    ];
    let mut request = node
        .request(Method::POST, "/mcp")
        .header(CONTENT_TYPE, "application/json")
        .header(ACCEPT, "application/json, text/event-stream");
    for (name, value) in said {
        if let Some(value) = value.and_then(|value| HeaderValue::from_str(value).ok()) {
            request = request.header(name, value);
        }
    }
    request
}

/// What the node answers, as one line; none to what asks for no answer.
async fn passed_on(node: &Node, request: RequestBuilder) -> anyhow::Result<Option<String>> {
    let answer = request.send().await.map_err(|error| silent(&node.url, &error))?;
    let status = answer.status();
    let body = answer.bytes().await.map_err(|error| silent(&node.url, &error))?;
    if status.is_success() && body.is_empty() {
        return Ok(None);
    }
    let is_message = serde_json::from_slice::<Value>(&body).is_ok_and(|body| body["jsonrpc"].is_string());
    if !is_message {
        return Err(node.refused(status, &body));
    }
    // No line ends within a text of JSON.
    Ok(Some(
        String::from_utf8_lossy(&body)
            .trim_end()
            .replace(['\r', '\n'], " "),
    ))
}

/// The version of the protocol that the answer to the first message says.
fn version(message: &Message<'_>, line: &str) -> Option<String> {
    if message.method.as_deref() != Some("initialize") {
        return None;
    }
    let answer: Value = serde_json::from_str(line).ok()?;
    answer["result"]["protocolVersion"].as_str().map(str::to_owned)
}

/// Complains to whoever waits for an answer, and to whoever started this.
fn complaint(id: Option<&RawValue>, code: i32, reason: &str) -> Answer {
    eprintln!("carillon: {reason}");
    let line = id.map(|id| {
        let error = json!({ "code": code, "message": reason });
        let error = to_raw_value(&error).expect("it is JSON");
        let jsonrpc = to_raw_value("2.0").expect("it is JSON");
        // The id as it was written: it may be a number that is none here.
        let members = BTreeMap::from([("jsonrpc", &*jsonrpc), ("id", id), ("error", &*error)]);
        serde_json::to_string(&members).expect("it is JSON")
    });
    Answer { line, agreed: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_no_message_does_not_end_the_others() {
        let long = "x".repeat(2 * 1024 * 1024);
        let said = format!("one\n\n{long}\ntwo\n").into_bytes();
        let said = [&said[..], b"\xff\nthree"].concat();
        let mut input = &said[..];
        let mut lines = Vec::new();
        while let Some(line) = next_line(&mut input).unwrap() {
            lines.push(line.map_or_else(str::to_owned, |line| line.trim_end().to_owned()));
        }
        let (long, strange) = ("a message has 1 MiB at the most", "a message is UTF-8");
        assert_eq!(lines, ["one", long, "two", strange, "three"]);
    }

    #[test]
    fn a_complaint_names_the_message_as_it_was_named() {
        let id: &RawValue = serde_json::from_str("1e400").unwrap();
        let answer = complaint(Some(id), NO_ANSWER, "no");
        let expected = r#"{"error":{"code":-32000,"message":"no"},"id":1e400,"jsonrpc":"2.0"}"#;
        assert_eq!(answer.line.as_deref(), Some(expected));
    }
}
